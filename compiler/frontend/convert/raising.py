"""`assert` and `raise` where tensors decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapeline.compiler.frontend.convert.state import (
    tracing_graph,
)
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.compiler.frontend.symbol import SHOWN
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import TracingError
from tapeline.runtime.ops.effects import HOST_ASSERT, Message


def check(condition: Any, message: Callable[[], Any] | None) -> None:
    """`assert` of a tensor: a check when the compiled function runs."""
    args = () if message is None else (message(),)
    SHOWN.forget(" ".join(map(str, args)))
    bind(HOST_ASSERT, (as_condition(condition),), (Message(args),))


def depth() -> int:
    """In how many branches and rounds that tensors decide the code is now."""
    graph, count = tracing_graph(), 0
    while graph is not None and graph.surroundings is not None:
        graph, count = graph.outer, count + 1
    return count


def raise_later(error: Any, outside: int, caught: Callable[[], Any]) -> Any:
    """The exception of a `raise` statement. If it leaves a branch over a tensor, it is raised when
    that branch runs: too late for a `try` around the branch.

    Raises
    ------
    TracingError
        If that `try`, which stands in `outside` such branches, would catch it.
    """
    graph = tracing_graph()
    if graph is None or graph.surroundings is None:
        return error
    SHOWN.forget(str(error))
    kind = error if isinstance(error, type) else type(error)
    if depth() > outside and issubclass(kind, caught()):
        raise TracingError(
            f"{kind.__name__} is raised where a tensor decides, and is to be caught by the 'try' "
            "around that; a compiled function has no handlers when it runs: say with a variable "
            "what happened"
        )
    graph.surroundings.raised.append(error)
    return error
