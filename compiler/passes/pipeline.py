"""The passes in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapeline.compiler.ir.control_ops import is_cond, is_loop
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.algebra import Algebra
from tapeline.compiler.passes.base import Pass, PassResult
from tapeline.compiler.passes.canonicalize import Canonicalize
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.expand import Expand, TraceInto
from tapeline.compiler.passes.fold import Fold
from tapeline.compiler.passes.inline_calls import InlineCalls
from tapeline.compiler.passes.short_axis import ShortAxis
from tapeline.compiler.passes.transposes import Transposes
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op


@dataclass(frozen=True, slots=True)
class LoadedWhenNeeded:
    """A pass that is loaded for the first graph with ops that it is about."""

    name: str
    is_about: Callable[[Op], bool]
    load: Callable[[], Pass]

    def run(self, graph: Graph, /) -> PassResult:
        """The graph after the pass."""
        if not any(map(self.is_about, dict.fromkeys(graph.ops))):
            return PassResult(graph, False)
        return self.load().run(graph)


def _is_control(op: Op) -> bool:
    return is_cond(op) or is_loop(op)


def default_passes(
    trace_into: TraceInto | None = None, differentiated: bool = False
) -> tuple[Pass, ...]:
    """The passes that a graph goes through before it is compiled.

    Parameters
    ----------
    trace_into : callable, optional
        How to run a function on symbolic tensors; without it ops are not expanded.
    differentiated : bool
        Whether no gradient will be asked of the graph any more.
    """
    expand: tuple[Pass, ...] = () if trace_into is None else (Expand(trace_into),)

    def optimize(graph: Graph) -> Graph:
        return run_pipeline(graph, passes)

    def load_control() -> Pass:
        from tapeline.compiler.passes.control import Control

        return Control(optimize)

    def load_spread() -> Pass:
        from tapeline.compiler.passes.spread import Spread

        return Spread(optimize)

    control = LoadedWhenNeeded("control", _is_control, load_control)
    spread = LoadedWhenNeeded("spread", is_loop, load_spread)
    short: tuple[Pass, ...] = (Transposes(), ShortAxis(optimize)) if differentiated else ()
    passes: tuple[Pass, ...] = (
        InlineCalls(),  # first, so that all others see through calls
        *expand,  # after inlining: bodies expand too
        DeadCode(),  # before work is spent on what nobody needs
        Fold(),  # what is known now need not be simplified
        Canonicalize(differentiated),  # one form of each thing for the passes below
        Algebra(),  # simpler arithmetic, and less of it
        CommonSubexpressions(),  # the passes above make equal nodes out of different ones
        *short,  # gradients reduce along the axes of what they belong to
        control,  # then all that bodies take is as simple as it gets
        Fold(),  # loops give back what never changes, and some of that is known
        spread,  # loops that are left may be no loops at all
        DeadCode(),  # last: they leave behind what they replaced
    )
    return passes


DEFAULT: tuple[Pass, ...] = default_passes()

BEFORE_GRADIENTS: tuple[Pass, ...] = (
    DeadCode(),  # gradient rules need not run for what nobody needs
    Fold(),  # nor for constants
    Canonicalize(),  # what the next pass expects
    Algebra(),  # a simpler op has a simpler gradient: sigmoid instead of a sum with tanh
    DeadCode(),  # what they replaced
)
"""For a graph to be differentiated. Calls and compound ops stay whole: they have gradient rules of
their own."""


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
