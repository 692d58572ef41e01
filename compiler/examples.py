"""Functions that `vmap` calls, with their control flow converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapeline.compiler.frontend.capture import graph_around
from tapeline.compiler.frontend.convert.entry import without_signals
from tapeline.compiler.frontend.convert.operators import Operators
from tapeline.runtime.batching.level import Level


def convert_for_examples(level: Level, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its control flow converted; as it is in a trace that converts nothing."""
    graph = graph_around(level)
    if graph is not None:
        made: Callable[..., Any] = graph.converted(function)
        return made
    converted: Callable[..., Any] = Operators.call(function)
    if converted is function:
        return function
    import tapeline.compiler.compiled  # noqa: F401  # the rules of branches and loops, loaded late

    return without_signals(converted)
