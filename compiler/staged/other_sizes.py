"""What happens where a call meets sizes that its trace does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapeline.runtime.dims import present_value

if TYPE_CHECKING:
    from tapeline.compiler.ir.graph import Graph
    from tapeline.runtime.tensor import Tensor


class OtherSizes(Exception):
    """The sizes that a call met on its way do not answer the questions of the trace as those did
    that were traced. It holds all that ran, for a trace that goes on from there.

    Attributes
    ----------
    graph : Graph
        The trace that was left.
    end : int
        Nodes before this one are done.
    stage : int
        The number of the stage that would be next.
    sizes : tuple
        The sizes so far: ints, or those of the trace that is under way.
    values : dict
        What was computed, by node.
    condition : str
        What does not hold any more.
    """

    def __init__(
        self, graph: Graph, end: int, stage: int, sizes: tuple[Any, ...],
        values: dict[int, Tensor], condition: str,
    ) -> None:  # fmt: skip
        told = ", ".join(f"n{k} = {size}" for k, size in enumerate(sizes))
        super().__init__(f"{graph.name}: this trace serves {condition} only, and here {told}")
        self.graph = graph
        self.end = end
        self.stage = stage
        self.sizes = sizes
        self.values = values
        self.condition = condition

    @property
    def present(self) -> tuple[int, ...]:
        """The sizes as numbers."""
        return tuple(map(present_value, self.sizes))

    def __reduce__(self) -> Any:
        raise TypeError("a call under way cannot be pickled")
