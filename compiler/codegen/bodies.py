"""Lowers the graphs of choices and loops: numbers stay in registers, arrays are lowered as ever.

What a body does with single numbers (0-d values) becomes steps of their own, which are emitted as
straight-line code. An index into an array is a load, or a pointer to a row; writing one element is
a store where nobody looks at the array as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tapeline.compiler.codegen.cluster import ClusterBuilder, is_view
from tapeline.compiler.codegen.lower import Lowering
from tapeline.compiler.codegen.program import Body, Placed, PutStep, RowStep, ScalarStep
from tapeline.compiler.codegen.values import is_supported
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.control_ops import is_cond, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PICK, PLACEHOLDER
from tapeline.runtime.op import Branch, LibraryCall, Loop, Pointwise, get_op
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.codegen.target import Target


def is_number(graph: Graph, node: int) -> bool:
    """Whether a node is one number that fits into a register."""
    spec = graph.specs[node]
    return isinstance(spec, TensorSpec) and not spec.shape and is_supported(spec.dtype)


def is_scalar_op(graph: Graph, node: int) -> bool:
    """Whether a node computes a number from numbers, or reads one by its index."""
    if not is_number(graph, node):
        return False
    if isinstance(graph.ops[node].lowering, Pointwise) or graph.ops[node] is get_op("check_index"):
        return all(is_number(graph, i) for i in graph.inputs[node])
    return is_take(graph, node)


def is_take(graph: Graph, node: int) -> bool:
    """Whether a node takes what lies at one index along an axis."""
    lowering = graph.ops[node].lowering
    if not isinstance(lowering, LibraryCall) or lowering.name != "take":
        return False
    array, index = graph.inputs[node]
    return is_number(graph, index) and is_supported(graph.spec(array).dtype)


def is_put(graph: Graph, node: int) -> bool:
    """Whether a node writes one number at one place."""
    if graph.ops[node] is not get_op("put"):
        return False
    return all(is_number(graph, i) for i in graph.inputs[node][1:])


def in_register(graph: Graph, node: int) -> bool:
    """Whether a body has the value in a register."""
    op = graph.ops[node]
    if not is_number(graph, node):
        return False
    if op is PICK:
        op = graph.ops[graph.inputs[node][0]]
    return op is PLACEHOLDER or isinstance(op.lowering, Branch | Loop) or is_scalar_op(graph, node)


class BodyLowering(Lowering):
    """The lowering of one body; `owned` are positions of inputs that may be written over."""

    def __init__(
        self, graph: Graph, layouts: Sequence[Layout | None], target: Target, owned: frozenset[int]
    ) -> None:
        super().__init__(graph, layouts, target)
        self.after: dict[int, list[int]] = {}
        self.builder = ClusterBuilder(graph, lambda node: is_scalar_op(graph, node), self.after)
        self.writes: dict[int, int] = {}
        """Nodes that write over their first input, with the input of the body whose buffer it
        is."""
        self.owned = {graph.placeholders[k]: k for k in owned}
        self.in_place: dict[int, int] = {}
        self.users: list[list[int]] = graph.users()

    def lower(self) -> Body:
        """The body's program, and where its values lie."""
        program = self.run()
        return Body(self.graph, program, self.places, self.in_place)

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
        self._find_writes()
        outputs, kept = self.graph.outputs, []
        for position, node in enumerate(outputs):
            if is_number(self.graph, node):
                continue
            root = self.writes.get(node)
            if root is not None and self.owned.get(root) == position:
                self.in_place[position] = position
                continue
            kept.append(position)
        copies = []
        for position in kept:
            node = outputs[position]
            spec = self.graph.spec(node)
            placed = self._dense(spec, "output", position)
            base = self.builder.base(node)
            if base == node and base not in self.places and self._is_computed(base):
                self.places[base] = placed
            else:
                copies.append((node, placed))
        return copies

    def _finish(self) -> None:
        for node in self.graph.outputs:
            if is_number(self.graph, node):
                self.passed(node)

    def _is_computed(self, node: int) -> bool:
        op = self.graph.ops[node]
        return (
            op is not PLACEHOLDER
            and self.graph.constant_value(node) is None
            and not is_take(self.graph, node)
            and node not in self.writes
        )

    # ---- steps

    def place(self, node: int) -> Placed:
        if node in self.writes and node not in self.places:
            self.places[node] = self.place(self.graph.inputs[node][0])
        return super().place(node)

    def _lower_single(self, node: int) -> None:
        graph = self.graph
        name, location = graph.ops[node].name, graph.locations[node]
        first, *rest = graph.inputs[node] or (node,)
        if is_put(graph, node):
            target = self.place(node)
            if node not in self.writes:
                self._copy(self.place(first), target, "copy")
            self._pass_all(rest)
            self.steps.append(PutStep(target, name, (node,), location))
        elif is_take(graph, node) and not is_number(graph, node):
            self._pass_all(rest)
            self._lower_row(node)
        elif is_scalar_op(graph, node):
            self._pass_all(graph.inputs[node])
            self.steps.append(ScalarStep(name, (node,), location))
        else:
            super()._lower_single(node)

    def _pass_all(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self.passed(node)

    def _lower_row(self, node: int) -> None:
        graph = self.graph
        axis = cast(int, graph.attrs[node][0])
        source = self.place(graph.inputs[node][0])
        buffer = self._buffer("row", 0)
        self.based[buffer] = source.buffer
        strides = source.layout.strides
        layout = Layout(source.layout.offset, (*strides[:axis], *strides[axis + 1 :]))
        row = Placed(buffer, layout, graph.spec(node))
        location = graph.locations[node]
        self.steps.append(RowStep(source, axis, buffer, graph.ops[node].name, (node,), location))
        target = self.places.get(node)
        if target is None:
            self.places[node] = row
        else:
            self._copy(row, target, "copy")

    # ---- writing in place

    def _find_writes(self) -> None:
        """Finds the nodes that may write over their first input."""
        graph = self.graph
        for node in range(len(graph)):
            if not is_put(graph, node):
                continue
            before = graph.inputs[node][0]
            root = self.writes.get(before, before)
            if root not in self.owned:
                continue
            if self._is_last_use(before, node):
                self.writes[node] = root
                self._come_after(before, node)

    def _readers(self, value: int) -> list[int]:
        """The nodes that read a value, through views and rows."""
        found, pending = [], [value]
        while pending:
            for user in self.users[pending.pop()]:
                found.append(user)
                if is_view(self.graph, user) or (
                    is_take(self.graph, user) and not is_number(self.graph, user)
                ):
                    pending.append(user)
        return found

    def _is_last_use(self, value: int, writer: int) -> bool:
        """Whether everything else that reads a value comes before the node that writes over it."""
        seen = {value, *self._readers(value)} - {writer}
        if seen & set(self.graph.outputs):
            return False
        return all(user < writer for user in seen) and self.users[value].count(writer) == 1

    def _come_after(self, value: int, writer: int) -> None:
        self.after.setdefault(writer, []).extend(u for u in self._readers(value) if u != writer)


def lower_bodies(
    outer: Lowering, node: int, inputs: tuple[Placed | None, ...]
) -> tuple[tuple[Placed | None, ...], tuple[Body, ...]]:
    """The bodies of a node of control flow whose inputs lie there, and its inputs as they must
    lie."""
    op, attrs = outer.graph.ops[node], outer.graph.attrs[node]
    if is_cond(op):
        layouts = [None if placed is None else placed.layout for placed in inputs[1:]]
        return inputs, tuple(
            BodyLowering(graph, layouts, outer.target, frozenset()).lower()
            for graph in op.subgraphs
        )
    form = loop_form(op, attrs)
    state, xs, captures = form.split(inputs)
    state = [None if placed is None else outer.dense(placed) for placed in state]
    still: list[Layout | None] = [None] * len(state)
    rows = [Layout(0, x.layout.strides[1:]) for x in xs]
    fixed = [None if placed is None else placed.layout for placed in captures]
    moving = frozenset(range(form.n_state))
    body = BodyLowering(form.body, [*still, *rows, *fixed], outer.target, moving).lower()
    bodies = [body]
    if form.test is not None:
        test = BodyLowering(form.test, [*still, *fixed], outer.target, frozenset()).lower()
        bodies.append(test)
    if form.length is None:
        bodies.reverse()
    return (*inputs[: form.first], *state, *xs, *captures), tuple(bodies)
