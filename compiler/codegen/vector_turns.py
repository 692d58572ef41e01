"""Emits turns of a loop that a vector makes at once, before the loop itself makes the others.

How many turns there are and stay in range is computed first. The loop that follows starts where
these turns end: it makes those in which an index is negative or out of range, and says so.
"""

from __future__ import annotations

from typing import Protocol, cast

from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.control_numbers import Frame
from tapeline.compiler.codegen.loops import ONE, ZERO, Index, int64
from tapeline.compiler.codegen.memory import Access
from tapeline.compiler.codegen.program import Body
from tapeline.compiler.codegen.scalar import ScalarBuilder
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.compiler.codegen.vector_plan import VectorPlan, index_of
from tapeline.compiler.ir.control_ops import LoopForm
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.runtime.op import Pointwise, get_op

FEWEST = 4
"""Fewer turns are made one by one."""

SHORT_BODY = 24
"""Bodies of at most so many nodes are unrolled once."""


class Numbers(Protocol):
    """Who emits the numbers of bodies."""

    b: ScalarBuilder

    def number(self, frame: Frame, node: int) -> Value:
        """A number of a body."""
        ...

    def pointer(self, frame: Frame, buffer: int) -> str:
        """Where a buffer of a body begins."""
        ...


class VectorTurns:
    """Emits such turns; `frame` has the state and what else the body is given."""

    def __init__(self, owner: Numbers, plan: VectorPlan, form: LoopForm, frame: Frame) -> None:
        self.owner, self.b = owner, owner.b
        self.plan, self.form, self.frame = plan, form, frame
        self.body: Body = frame.prepared.body
        self.graph: Graph = form.body
        self.lanes = self._lanes()
        self.starts: dict[int, str] = {}
        """Where the first turn reads or writes, by node."""

    def count(self, turns: Value) -> Value:
        """How many turns will be made of those that there are."""
        self._first_turn()
        return self._count(turns)

    def emit(self, count: Value) -> None:
        """Makes so many turns."""
        b = self.b
        for node in (*self.plan.reads, *self.plan.writes):
            self.starts[node] = self._start_of(node)
        unroll = 2 if len(self.graph) <= SHORT_BODY else 1

        def turn(index: Index, mask: Value | None, _: int, __: list[Value]) -> list[Value]:
            with b.scope():
                self._turns(index, mask)
            return []

        b.vector_loop(ZERO, count, self.lanes, unroll, [], turn)

    def _lanes(self) -> int:
        """So many that the widest numbers fill a vector."""
        graph, paces = self.graph, self.plan.paces
        sizes = [1]
        for node, op in enumerate(graph.ops):
            if node in self.plan.writes:
                sizes.append(graph.spec(node).dtype.itemsize)
            elif op is not PLACEHOLDER and not is_view(graph, node) and node not in paces:
                used = [node, *(i for i in graph.inputs[node] if paces.get(i))]
                if node in self.plan.reads:
                    used = [node]
                sizes += [graph.spec(i).dtype.itemsize for i in used]
        return self.b.target.lanes(max(sizes))

    # ---- before the turns

    def _first_turn(self) -> None:
        """The numbers that grow evenly, as they are in the first turn."""
        graph, values = self.graph, self.frame.values
        for node, op in enumerate(graph.ops):
            if node not in self.plan.paces or op is PLACEHOLDER or op is CONSTANT:
                continue
            inputs = [self.owner.number(self.frame, i) for i in graph.inputs[node]]
            values[node] = inputs[0] if op is get_op("check_index") else self._made(node, inputs)

    def _made(self, node: int, inputs: list[Value]) -> Value:
        lowering = self.graph.ops[node].lowering
        assert isinstance(lowering, Pointwise)
        return cast(Value, self.b.emit_op(lowering.emit, *inputs, *self.graph.attrs[node]))

    def _count(self, turns: Value) -> Value:
        """The number of turns in which all indices are in range, from the front."""
        b = self.b
        for index, size in dict.fromkeys(self.plan.indices):
            first = self.owner.number(self.frame, index)
            pace = self.plan.paces[index]
            if b.is_within(first, size) and not pace:
                continue
            if pace:
                room = b.sub(int64(size - 1), first) if pace > 0 else first
                if abs(pace) > 1:
                    room = b.value(f"udiv i64 {room.name}, {abs(pace)}", "i8", 1)
                turns = b.minimum(turns, b.add(room, ONE))
            inside = b.value(f"icmp ult i64 {first.name}, {size}", "b1", 1)
            turns = b.select(inside, turns, ZERO)
        return b.select(b.compare("lt", turns, int64(FEWEST)), ZERO, turns)

    def _stride(self, node: int) -> int:
        """How many bytes lie between what one turn and the next read or write."""
        graph = self.graph
        pace = self.plan.paces[index_of(graph, node)]
        if node in self.plan.writes:
            return pace * graph.spec(node).dtype.itemsize
        placed = self.body.places[graph.inputs[node][0]]
        return pace * placed.layout.strides[cast(int, graph.attrs[node][0])]

    def _start_of(self, node: int) -> str:
        graph, b = self.graph, self.b
        first = self.owner.number(self.frame, index_of(graph, node))
        if node in self.plan.writes:
            start = self.owner.pointer(self.frame, self.body.places[node].buffer)
            return b.pointer_offset(start, b.mul(first, int64(graph.spec(node).dtype.itemsize)))
        placed = self.body.places[graph.inputs[node][0]]
        start = self.owner.pointer(self.frame, placed.buffer)
        start = b.pointer_offset(start, placed.layout.offset)
        stride = placed.layout.strides[cast(int, graph.attrs[node][0])]
        return b.pointer_offset(start, b.mul(first, int64(stride)))

    # ---- the turns

    def _turns(self, index: Index, mask: Value | None) -> None:
        """As many turns as there are lanes, from a turn on."""
        graph, b = self.graph, self.b
        found: dict[int, Value] = {}
        writes = []
        for node, op in enumerate(graph.ops):
            if node in self.plan.writes:
                writes.append(node)
            elif node in self.plan.reads:
                found[node] = self._read(node, index, mask)
            elif op is not PLACEHOLDER and node not in self.plan.paces and not is_view(graph, node):
                inputs = [self._value(found, i, index) for i in graph.inputs[node]]
                found[node] = self._made(node, inputs)
        for node in writes:
            x = b.splat(self._value(found, graph.inputs[node][2], index), self.lanes)
            stride = self._stride(node)
            access: Access = "contiguous" if stride > 0 else "reversed"
            b.store(x, self._moved(node, index, stride), access, mask=mask)

    def _value(self, found: dict[int, Value], node: int, index: Index) -> Value:
        """A number of all lanes, or one that is the same in all."""
        value = found.get(node)
        if value is not None:
            return value
        b = self.b
        first = self.owner.number(self.frame, node)
        pace = self.plan.paces[node]
        if not pace:
            return first
        moved = b.add(first, b.mul(b.at(index), int64(pace)))
        steps = b.vector_constant([pace * lane for lane in range(self.lanes)], "i8")
        found[node] = value = b.add(b.splat(moved, self.lanes), steps)
        return value

    def _moved(self, node: int, index: Index, stride: int) -> str:
        b = self.b
        moved = b.pointer_offset(self.starts[node], b.mul(index.base, int64(stride)))
        return b.pointer_offset(moved, index.extra * stride)

    def _read(self, node: int, index: Index, mask: Value | None) -> Value:
        b, code = self.b, code_of(self.graph.spec(node).dtype)
        stride = self._stride(node)
        if not stride:
            return b.load(self.starts[node], code)
        where = self._moved(node, index, stride)
        known: dict[int, Access] = {size_of(code): "contiguous", -size_of(code): "reversed"}
        access = known.get(stride, "strided")
        return b.load(where, code, self.lanes, access, mask=mask, stride=int64(stride))
