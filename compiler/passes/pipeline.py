"""The passes in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.algebra import Algebra
from tapeline.compiler.passes.base import Pass
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.expand import Expand, TraceInto
from tapeline.compiler.passes.fold import Fold
from tapeline.compiler.passes.inline_calls import InlineCalls
from tapeline.runtime.errors import GraphError

DEFAULT: tuple[Pass, ...] = (
    InlineCalls(),  # first, so that all others see through calls
    DeadCode(),  # before work is spent on what nobody needs
    Fold(),  # what is known now need not be simplified
    Algebra(),  # simpler arithmetic, and less of it
    CommonSubexpressions(),  # the passes above make equal nodes out of different ones
    DeadCode(),  # last: they leave behind what they replaced
)


def default_passes(trace_into: TraceInto | None = None) -> tuple[Pass, ...]:
    """The default passes; with `trace_into` also the one that expands ops into simpler ops."""
    if trace_into is None:
        return DEFAULT
    return (DEFAULT[0], Expand(trace_into), *DEFAULT[1:])  # after inlining: bodies expand too


def run_pipeline(graph: Graph, passes: Sequence[Pass] = DEFAULT, verify: bool = False) -> Graph:
    """The graph after the passes, in their order.

    Parameters
    ----------
    graph : Graph
        A valid graph. It is not changed.
    passes : sequence of Pass
        What to run.
    verify : bool
        Check the graph before the first and after each pass.

    Raises
    ------
    GraphError
        With `verify`, if a pass returned a graph that is not valid; it names the pass.
    """
    if verify:
        verify_graph(graph)
    for each in passes:
        graph = each.run(graph).graph
        if verify:
            try:
                verify_graph(graph)
            except GraphError as error:
                raise GraphError(f"after the pass {each.name}: {error}") from error
    return graph
