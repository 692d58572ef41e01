"""What row-wise and lane-wise emitters share: where streams are, evaluating a pass's program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.nest import Step
from tapeline.compiler.codegen.passplan import Plan
from tapeline.compiler.codegen.reduce import Reducer
from tapeline.compiler.codegen.schedule import Schedule
from tapeline.compiler.codegen.values import Value, code_of, size_of

Bases: TypeAlias = list[str | Value]
"""Per stream the pointer (of an operand) or the int64 (of a position) at a point of the space."""


@dataclass(frozen=True, slots=True)
class PassForm:
    """How one pass is emitted."""

    unroll: int
    """Vectors per turn of the main loop; 0: one masked loop."""
    block: int
    """How many elements are added up before they are added to totals; 0: all of them."""
    exact: bool = False
    """Whether the vector loop needs no masked rest."""
    ahead: tuple[int, ...] = ()
    """Operands whose memory is brought near while the pass runs: inputs of the next row, results
    that the next pass stores."""


def position_code(schedule: Schedule) -> str:
    """The narrowest dtype for positions in the schedule's space."""
    dims = tuple(range(len(schedule.space.extents)))
    return "i4" if schedule.space.size(dims) < 1 << 31 else "i8"


class Sweep:
    """Emits one nest into a function; see `RowSweep` and `LaneSweep`."""

    def __init__(
        self,
        f: FunctionBuilder,
        plan: Plan,
        schedule: Schedule,
        lanes: int,
        forms: tuple[PassForm, ...],
    ) -> None:
        self.f = f
        self.plan = plan
        self.nest = plan.nest
        self.schedule = schedule
        self.lanes = lanes
        self.forms = forms
        self.codes = [code_of(o.dtype) for o in self.nest.operands[: self.nest.n_inputs]]
        self.codes += [code_of(step.dtype) for step in self.nest.steps]
        self.position_code = position_code(schedule)
        self._part: Value | None = None

    def build(self) -> None:
        """Emits the whole function body."""
        raise NotImplementedError

    # ---- streams

    def origin(self) -> Bases:
        """Where every stream is at the start of the space."""
        count = len(self.nest.operands)
        pointers: Bases = [self.f.pointer_slot(f"p{k}") for k in range(count)]
        return pointers + [ZERO] * (len(self.schedule.space.streams) - count)

    def extent(self, dim: int) -> Value:
        """The extent of a dimension."""
        ragged = self.schedule.space.ragged
        if ragged is not None and dim == ragged.inner:
            assert self._part is not None
            size = self.f.slot(f"d{dim}")
            left = self.f.sub(self.f.slot("total"), self.f.mul(self._part, size))
            return self.f.intrinsic("smin", left, size)
        return self.f.slot(f"d{dim}")

    def stride(self, stream: int, dim: int) -> Value:
        """The stride of a stream along a dimension."""
        return self.f.slot(f"s{stream}_{dim}")

    def advance(self, bases: Bases, dim: int, count: Value) -> Bases:
        """Every stream `count` points further along a dimension that is not vectorised."""
        moved: Bases = list(bases)
        for k, stream in enumerate(self.schedule.space.streams):
            if stream.strides[dim]:
                moved[k] = self._moved(bases[k], count, self.stride(k, dim))
        return moved

    def _moved(self, base: str | Value, count: Value, stride: Value) -> str | Value:
        if count == ONE and isinstance(base, str):
            return self.f.pointer_offset(base, stride)
        if isinstance(base, Value):
            step = self.f.mul(count, stride)
            return step if base == ZERO else self.f.add(base, step)
        return self.f.moved(base, count, stride)

    def operand_code(self, operand: int) -> str:
        """The dtype code of an operand."""
        return code_of(self.nest.operands[operand].dtype)

    def address(self, operand: int, base: str | Value, index: Index) -> str:
        """The pointer to an operand's element at an index along the vector dimension."""
        assert isinstance(base, str)
        access, code = self.schedule.access(operand), self.operand_code(operand)
        if access == "broadcast" or index == (ZERO, 0):
            return base
        if access == "contiguous":
            return self.f.element(base, code, index)
        if access == "strided":
            return self.f.moved(base, self.f.at(index), self._vector_stride(operand))
        step = -size_of(code) if access == "reversed" else 2 * size_of(code)
        return self.f.moved(base, self.f.at(index), int64(step))

    def _vector_stride(self, stream: int) -> Value:
        return self.stride(stream, self.schedule.vector)

    def load(self, operand: int, bases: Bases, index: Index, mask: Value | None) -> Value:
        """An operand's elements along the vector dimension."""
        access = self.schedule.access(operand)
        stride = self._vector_stride(operand) if access == "strided" else None
        pointer = self.address(operand, bases[operand], index)
        return self.f.load(
            pointer, self.operand_code(operand), self.lanes, access, mask=mask, stride=stride
        )

    def store(self, x: Value, operand: int, bases: Bases, index: Index, mask: Value | None) -> None:
        """Writes an operand's elements along the vector dimension."""
        access = self.schedule.access(operand)
        stride = self._vector_stride(operand) if access == "strided" else None
        pointer = self.address(operand, bases[operand], index)
        self.f.store(self.f.splat(x, self.lanes), pointer, access, mask=mask, stride=stride)

    def flat_position(self, bases: Bases, index: Index) -> Value:
        """The position along all reduced axes, for every lane."""
        return self.position(self.plan.flat_stream, bases, index, self.position_code)

    def position(self, stream: int, bases: Bases, index: Index, code: str = "i8") -> Value:
        """A position, for every lane."""
        base, access = bases[stream], self.schedule.access(stream)
        assert isinstance(base, Value)
        if access == "broadcast":
            return self.f.cast_code(base, code)
        lanes = self.f.iota(code, self.lanes)
        start = self.f.at(index)
        if access == "strided":
            stride = self._vector_stride(stream)
            start = self.f.mul(start, stride)
            step = self.f.cast_code(stride, code)
            lanes = self.f.mul(lanes, self.f.splat(step, self.lanes))
        if base != ZERO:
            start = self.f.add(base, start)
        return self.f.add(lanes, self.f.splat(self.f.cast_code(start, code), self.lanes))

    # ---- programs

    def reducers(self, number: int) -> list[Reducer]:
        """The reducers of a pass."""
        found = []
        for value in self.plan.passes[number].reductions:
            step = self._step(value)
            found.append(Reducer.of(step, self.codes[step.args[0]], self.position_code))
        return found

    def argument(self, reduction: int) -> int:
        """The value that a step reduces."""
        return self._step(reduction).args[0]

    def _step(self, value: int) -> Step:
        step = self.plan.step(value)
        assert step is not None
        return step

    def emit_step(self, value: int, known: dict[int, Value]) -> Value:
        """A map step of known values."""
        step = self._step(value)
        assert step.emit is not None
        found: Value = self.f.emit_op(step.emit, *(known[arg] for arg in step.args))
        return found

    def evaluate(
        self,
        inner: Iterable[int],
        loads: dict[int, int],
        fixed: dict[int, Value],
        bases: Bases,
        index: Index,
        mask: Value | None,
    ) -> dict[int, Value]:
        """All inner values of a pass at one vector; `fixed` are the row values it uses."""
        known = dict(fixed)
        for value in inner:
            step = self.plan.step(value)
            if value in loads:
                known[value] = self.load(loads[value], bases, index, mask)
            elif step is None:
                known[value] = self.load(value, bases, index, mask)
            elif step.kind == "index":
                known[value] = self.position(self.plan.stream(value), bases, index)
            else:
                known[value] = self.emit_step(value, known)
        return known

    def row_value(self, value: int, known: dict[int, Value], read: Callable[[int], Value]) -> Value:
        """A value that is not inner, emitted once per row; `read` loads inputs and positions."""
        if value not in known:
            step = self.plan.step(value)
            if step is None or step.kind == "index":
                known[value] = read(value)
            else:
                for arg in step.args:
                    self.row_value(arg, known, read)
                known[value] = self.emit_step(value, known)
        return known[value]

    def row_reader(self, bases: Bases) -> Callable[[int], Value]:
        """A `read` for `row_value` that loads inputs and positions where the row begins."""

        def read(value: int) -> Value:
            if self.plan.step(value) is None:
                pointer = bases[value]
                assert isinstance(pointer, str)
                return self.f.load(pointer, self.codes[value])
            position = bases[self.plan.stream(value)]
            assert isinstance(position, Value)
            return position

        return read

    # ---- loops over kept dimensions

    def outer_loops(self, body: Callable[[Bases], None], count: int | None = None) -> None:
        """Runs `body` for every point of the outer dimensions, or of the first `count` of them."""
        self._outer(0, self.schedule.n_outer if count is None else count, self.origin(), body)

    def _outer(self, dim: int, end: int, bases: Bases, body: Callable[[Bases], None]) -> None:
        if dim == end:
            body(bases)
            return

        ragged = self.schedule.space.ragged

        def turn(i: Value, _: list[Value]) -> list[Value]:
            if ragged is not None and dim == ragged.part:
                self._part = i
            self._outer(dim + 1, end, self.advance(bases, dim, i), body)
            return []

        start, stop = self.bounds(dim)
        self.f.loop(start, stop, 1, [], turn)

    def bounds(self, dim: int) -> tuple[Value, Value]:
        """The range of a dimension that this launch covers."""
        if dim == self.schedule.chunked:
            return self.f.low, self.f.high
        return ZERO, self.extent(dim)

    def inner_loops(
        self,
        dims: tuple[int, ...],
        bases: Bases,
        carry: list[Value],
        body: Callable[[Bases, list[Value]], list[Value]],
    ) -> list[Value]:
        """Runs `body` for every point of some inner dimensions."""
        if not dims:
            return body(bases, carry)

        def turn(i: Value, values: list[Value]) -> list[Value]:
            return self.inner_loops(dims[1:], self.advance(bases, dims[0], i), values, body)

        return self.f.loop(ZERO, self.extent(dims[0]), 1, carry, turn)
