"""Emits the numbers of bodies: in registers, read from arrays, and indices that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.control_plan import (
    INDEX_ERROR,
    SITE_SHIFT,
    PreparedBody,
    Site,
    Steps,
)
from tapeline.compiler.codegen.loops import int64
from tapeline.compiler.codegen.numbers import is_number, is_take
from tapeline.compiler.codegen.pieces import GUARDED
from tapeline.compiler.codegen.scalar import ScalarBuilder
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of
from tapeline.compiler.ir.location import Location
from tapeline.runtime.op import Op, Pointwise, get_op

_KEEP_SIGN = frozenset(map(get_op, ("multiply", "minimum", "maximum", "remainder", "floor_divide")))
"""Ops that give no negative int for ints that are not negative."""


@dataclass(slots=True)
class Frame:
    """One run of a body, as it is emitted."""

    prepared: PreparedBody
    base: int
    """Where its memory begins in the arena."""
    values: dict[int, Value] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    """Buffers that are to hold a number when a step looks there: the number's node."""


class NumberEmitter:
    """Emits what bodies do with single numbers."""

    def __init__(self, target: Target, steps: Steps, sites: list[Site]) -> None:
        self.b = ScalarBuilder(target)
        self.steps = steps
        self.sites = sites
        self.failures: list[tuple[str, str, int]] = []

    def number(self, frame: Frame, node: int) -> Value:
        """A number of a body: in a register, a constant, or read from where it lies."""
        graph = frame.prepared.body.graph
        while is_view(graph, node) and is_number(graph, graph.inputs[node][0]):
            node = graph.inputs[node][0]
        found = frame.values.get(node)
        if found is not None:
            return found
        code = code_of(graph.spec(node).dtype)
        constant = graph.constant_value(node)
        if constant is not None:
            return self.b.fixed(constant.item(), code)
        placed = frame.prepared.body.places[node]
        place = self.b.pointer_offset(self.pointer(frame, placed.buffer), placed.layout.offset)
        found = frame.values[node] = self.b.load(place, code)
        return found

    def pointer(self, frame: Frame, buffer: int) -> str:
        """Where a buffer of a body begins."""
        found = frame.pointers.get(buffer)
        if found is not None:
            return found
        body = frame.prepared.body
        record = body.program.buffers[buffer]
        if record.kind == "arena":
            offset = frame.base + frame.prepared.arena.offsets[buffer]
            return self.b.pointer_offset("%arena", offset)
        if record.kind == "constant":
            return self.steps.constant_symbol(body.graph.constants[record.index])
        assert record.kind == "input", f"a {record.kind} buffer without a pointer"
        size = -(-max(record.nbytes, 1) // 8)
        found = frame.pointers[buffer] = self.b.stack("i64", size, 8)
        return found

    # ---- numbers

    def scalar(self, frame: Frame, node: int) -> Value:
        graph = frame.prepared.body.graph
        op, attrs, inputs = graph.ops[node], graph.attrs[node], graph.inputs[node]
        location = graph.locations[node]
        if is_take(graph, node):
            return self._element(frame, node)
        if op is get_op("check_index"):
            size, axis = cast(tuple[int, int], attrs)
            return self.checked(self.number(frame, inputs[0]), size, axis, location)
        assert isinstance(op.lowering, Pointwise)
        values = [self.number(frame, i) for i in inputs]
        if op in GUARDED:
            return self._guarded(op, values)
        made: Value = self.b.emit_op(op.lowering.emit, *values, *attrs)
        if made.code[0] == "i" and op in _KEEP_SIGN:
            self._note_sign(op, values, made)
        return made

    def _guarded(self, op: Op, values: Sequence[Value]) -> Value:
        """A product or quotient; only a NaN is looked at more closely."""
        b = self.b
        assert isinstance(op.lowering, Pointwise)
        emit = op.lowering.emit
        plain = b.div(*values) if op is get_op("guarded_divide") else b.mul(*values)
        return b.rare(b.is_nan(plain), lambda _: [emit(b, *values)], [plain])[0]

    def _note_sign(self, op: Op, values: Sequence[Value], made: Value) -> None:
        """Notes an int that cannot be negative, short of running out of range by counting."""
        given = [self.b.is_nonnegative(x) for x in values]
        if all(given) or (op is get_op("remainder") and values[1].is_constant and given[1]):
            self.b.least.setdefault(made.name, 0)

    def _element(self, frame: Frame, node: int) -> Value:
        graph = frame.prepared.body.graph
        array, index = graph.inputs[node]
        placed = frame.prepared.body.places[array]
        axis = cast(int, graph.attrs[node][0])
        size = placed.spec.static_shape[axis]
        place = self.checked(self.number(frame, index), size, axis, graph.locations[node])
        offset = self.b.mul(place, int64(placed.layout.strides[axis]))
        start = self.pointer(frame, placed.buffer)
        start = self.b.pointer_offset(start, placed.layout.offset)
        where = self.b.pointer_offset(start, offset)
        return self.b.load(where, code_of(placed.spec.dtype))

    def checked(self, index: Value, size: int, axis: int, location: Location | None) -> Value:
        """An index counted from the front; outside of the axis the function fails."""
        b = self.b
        place = given = b.cast_code(index, "i8")
        if b.is_within(place, size):
            return place
        code = INDEX_ERROR | self._site(axis, size, location)
        inside = b.value(f"icmp ult i64 {given.name}, {size}", "b1", 1)
        if index.code[0] != "i" or b.is_nonnegative(index):
            self.require(inside, given, code)
            return place
        known = b.recalled(f"place {inside.name}")
        if known is not None:
            return given._replace(name=known)

        def from_the_end(_: Value) -> list[Value]:
            # of what is not inside only negative ints can be, once the size is added
            place = b.add(given, int64(size))
            self.require(b.value(f"icmp ult i64 {place.name}, {size}", "b1", 1), given, code)
            return [place]

        place = b.rare(b.bit_not(inside), from_the_end, [given])[0]
        b.recall(f"place {inside.name}", place.name)
        return place

    def _site(self, axis: int, size: int, location: Location | None) -> int:
        self.sites.append(Site(axis, size, location))
        return (len(self.sites) - 1) << SITE_SHIFT

    def require(self, condition: Value, number: Value, code: int) -> None:
        """Fails with a status where the condition does not hold."""
        b = self.b
        if b.is_established(condition):
            return
        fine = b.new_label("fine")
        weights = '!prof !{!"branch_weights", i32 2000, i32 1}'
        b.line(f"br {condition.operand}, label %{fine}, label %stop, {weights}")
        self.failures.append((b.current, number.name, code))
        b.start_block(fine)
        b.establish(condition)
