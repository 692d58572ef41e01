"""Lowers the graphs of choices and loops: numbers stay in registers, arrays are lowered as ever.

What a body does with single numbers (0-d values) becomes steps of their own, which are emitted as
straight-line code. An index into an array is a load, or a pointer to a row; writing one element is
a store where nobody looks at the array as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tapeline.compiler.codegen.cluster import ClusterBuilder, is_view
from tapeline.compiler.codegen.inplace import Writes
from tapeline.compiler.codegen.lower import Lowering
from tapeline.compiler.codegen.numbers import (
    in_register,
    is_number,
    is_put,
    is_scalar_op,
    is_take,
    row_put_index,
)
from tapeline.compiler.codegen.program import Body, Placed, PutStep, RowStep, ScalarStep
from tapeline.compiler.codegen.register_loop import stays_in_registers
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.control_ops import is_cond, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.codegen.target import Target


class BodyLowering(Lowering):
    """The lowering of one body; `owned` are positions of inputs that may be written over."""

    def __init__(
        self,
        graph: Graph,
        layouts: Sequence[Layout | None],
        target: Target,
        owned: frozenset[int],
        shared: Mapping[int, int],
    ) -> None:
        super().__init__(graph, layouts, target)
        self.writes = Writes(graph, owned)
        self.builder = ClusterBuilder(
            graph, lambda node: is_scalar_op(graph, node), self.writes.after
        )
        self.shared = shared
        """Outputs that are to lie where an input lies, if they can: its position."""
        self.in_place: dict[int, int] = {}

    def lower(self) -> Body:
        """The body's program, and where its values lie."""
        program = self.run()
        return Body(self.graph, program, self.places, self.in_place)

    def handed(self, node: int) -> frozenset[int]:
        return self.writes.handed.get(node, frozenset())

    def passed(self, node: int) -> Placed | None:
        if in_register(self.graph, self.number_of(node)):
            return None
        if is_number(self.graph, node) and self.graph.constant_value(node) is not None:
            return None
        return self.place(node)

    def number_of(self, node: int) -> int:
        """The number that a 0-d view of a number shows."""
        while is_view(self.graph, node) and is_number(self.graph, self.graph.inputs[node][0]):
            node = self.graph.inputs[node][0]
        return node

    def _place_outputs(self) -> list[tuple[int, Placed]]:
        copies = []
        for position, node in enumerate(self.graph.outputs):
            if is_number(self.graph, node):
                continue
            at = self.writes.shared_input(node)
            wanted = self.shared.get(position)
            if at is not None and at == wanted:
                self.in_place[position] = at
                continue
            placed = self._dense(self.graph.spec(node), "output", position)
            root = self.writes.root(node)
            if root not in self.places and self._is_computed(root):
                self.places[root] = placed
            else:
                copies.append((node, placed))
        return copies

    def _finish(self) -> tuple[int, ...]:
        return self._pass_all([n for n in self.graph.outputs if is_number(self.graph, n)])

    def _is_computed(self, node: int) -> bool:
        op = self.graph.ops[node]
        return (
            op is not PLACEHOLDER
            and self.graph.constant_value(node) is None
            and not is_take(self.graph, node)
            and not is_view(self.graph, node)
        )

    # ---- steps

    def place(self, node: int) -> Placed:
        if node in self.writes.before and node not in self.places:
            self.places[node] = self.place(self.writes.before[node])
        return super().place(node)

    def _lower_single(self, node: int) -> None:
        graph = self.graph
        name, location = graph.ops[node].name, graph.locations[node]
        first, *rest = graph.inputs[node] or (node,)
        if is_put(graph, node):
            target = self.place(node)
            if node not in self.writes.before:
                self._copy(self.place(first), target, "copy")
            self.steps.append(PutStep(target, self._pass_all(rest), name, (node,), location))
        elif (index := row_put_index(graph, node)) is not None:
            target = self.place(node)
            if node not in self.writes.before:
                self._copy(self.place(first), target, "copy")
            self._copy(self.place(rest[1]), self._row(node, target, 0, index), name)
        elif is_take(graph, node) and not is_number(graph, node):
            self._lower_row(node)
        elif is_scalar_op(graph, node):
            buffers = self._pass_all(graph.inputs[node])
            self.steps.append(ScalarStep(buffers, name, (node,), location))
        else:
            super()._lower_single(node)

    def _pass_all(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Sees to it that the values can be read; returns the buffers of those in memory."""
        places = [self.passed(node) for node in nodes]
        return tuple(placed.buffer for placed in places if placed is not None)

    def _lower_row(self, node: int) -> None:
        graph = self.graph
        array, index = graph.inputs[node]
        axis = cast(int, graph.attrs[node][0])
        row = self._row(node, self.place(array), axis, index)
        target = self.places.get(node)
        if target is None:
            self.places[node] = row
        else:
            self._copy(row, target, "copy")

    def _row(self, node: int, source: Placed, axis: int, index: int) -> Placed:
        """Where the entry of an array at an index lies."""
        graph = self.graph
        buffers = self._pass_all([index])
        buffer = self._buffer("row", 0)
        self.based[buffer] = source.buffer
        strides, shape = source.layout.strides, source.spec.static_shape
        layout = Layout(source.layout.offset, (*strides[:axis], *strides[axis + 1 :]))
        spec = TensorSpec((*shape[:axis], *shape[axis + 1 :]), source.spec.dtype)
        name, location = graph.ops[node].name, graph.locations[node]
        self.steps.append(RowStep(source, axis, index, buffer, buffers, name, (node,), location))
        return Placed(buffer, layout, spec)


def lower_bodies(
    outer: Lowering,
    node: int,
    inputs: tuple[Placed | None, ...],
    outputs: tuple[Placed | None, ...],
) -> tuple[tuple[Placed | None, ...], tuple[Body, ...]]:
    """The bodies of a node of control flow whose inputs lie there, and its inputs as they must
    lie. A loop that stays in registers has none."""
    op, attrs = outer.graph.ops[node], outer.graph.attrs[node]
    handed = outer.handed(node)
    if is_cond(op):
        layouts = [None if placed is None else placed.layout for placed in inputs[1:]]
        shared = _shared_operands(inputs, outputs)
        return inputs, tuple(
            BodyLowering(graph, layouts, outer.target, handed, shared).lower()
            for graph in op.subgraphs
        )
    if stays_in_registers(op, attrs, outer.target):
        return tuple(None if placed is None else outer.dense(placed) for placed in inputs), ()
    form = loop_form(op, attrs)
    state, xs, captures = form.split(inputs)
    ends = outputs[form.first :]
    state = [_initial(outer, *pair) for pair in zip(state, ends, strict=False)]
    still: list[Layout | None] = [None] * len(state)
    rows = [Layout(0, x.layout.strides[1:]) for x in xs]
    fixed = [None if placed is None else placed.layout for placed in captures]
    moving = {k: k for k in range(form.n_state)}
    owned = frozenset(moving)
    layouts = [*still, *rows, *fixed]
    bodies = [BodyLowering(form.body, layouts, outer.target, owned, moving).lower()]
    if form.test is not None:
        none: frozenset[int] = frozenset()
        test = BodyLowering(form.test, [*still, *fixed], outer.target, none, {})
        bodies.append(test.lower())
    if form.length is None:
        bodies.reverse()
    return (*inputs[: form.first], *state, *xs, *captures), tuple(bodies)


def _initial(outer: Lowering, placed: Placed | None, end: Placed | None) -> Placed | None:
    """Where a loop finds a state that it begins with; what has to be made dense is written to where
    the loop leaves it."""
    if placed is None or end is None or outer.lies_dense(placed):
        return None if placed is None else outer.dense(placed)
    outer.copy_to(placed, end)
    return end


def _shared_operands(
    inputs: Sequence[Placed | None], outputs: Sequence[Placed | None]
) -> dict[int, int]:
    """The outputs of a choice that lie where an operand lies: its position among the operands."""
    at = {placed.buffer: k for k, placed in enumerate(inputs[1:]) if placed is not None}
    return {
        k: at[placed.buffer]
        for k, placed in enumerate(outputs)
        if placed is not None and placed.buffer in at
    }
