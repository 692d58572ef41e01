"""What is done with a matrix product element by element, done tile by tile while it is computed.

`fuse_epilogues` finds loop nests that read a product and follow it; the routine of `gemm` calls a
function for each finished tile, which lies in the first cache then. The nest's results are the same
bits as in a pass of its own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from math import prod

from tapeline.compiler.codegen.kernels import program_key
from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index, int64
from tapeline.compiler.codegen.matmul import choose_strategy, matrix_operand_of
from tapeline.compiler.codegen.matrix import build_product
from tapeline.compiler.codegen.nest import Nest, Operand, SlotValue
from tapeline.compiler.codegen.program import (
    MatmulStep,
    NestStep,
    Placed,
    Program,
    ProgramStep,
    touched,
)
from tapeline.compiler.codegen.strategies import lanes_of
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of
from tapeline.compiler.codegen.views import Layout

MOST_STEPS = 64
FIRST_OPERAND = 3
"""In a step with an epilogue the nest's operands follow the product's three."""


@dataclass(frozen=True, slots=True)
class Flat:
    """An operand by rows and columns of the product: bytes from row to row, and whether it varies
    along columns, side by side."""

    row: int
    varies: bool


def flatten(nest: Nest, m: int, n: int) -> tuple[Flat, ...] | None:
    """The operands of a nest as matrices of m rows and n columns; None where they are not."""
    if nest.axes or not nest.shape or nest.shape[-1] != n or prod(nest.shape[:-1]) != m:
        return None
    if len(nest.steps) > MOST_STEPS or any(step.kind != "map" for step in nest.steps):
        return None
    found = [_flat(operand, nest.shape) for operand in nest.operands]
    kept = tuple(one for one in found if one is not None)
    return kept if len(kept) == len(found) else None


def _flat(operand: Operand, shape: tuple[int, ...]) -> Flat | None:
    last = operand.strides[-1]
    if last not in (0, operand.dtype.itemsize):
        return None
    row: int | None = None
    step = 0
    for extent, stride in zip(reversed(shape[:-1]), reversed(operand.strides[:-1]), strict=True):
        if extent == 1:
            continue
        if row is None:
            row = stride
        elif stride != step:
            return None
        step = stride * extent
    return Flat(row or 0, last != 0)


def fuse_epilogues(program: Program, target: Target) -> Program:
    """The program with each nest that follows a product, and goes on with it, part of its step."""
    uses = Counter(buffer for step in program.steps for buffer in set(touched(step)))
    steps: list[ProgramStep] = []
    for step in program.steps:
        last = steps[-1] if steps else None
        if isinstance(step, NestStep) and isinstance(last, MatmulStep) and last.epilogue is None:
            fused = _fused(program, last, step, uses, target)
            if fused is not None:
                steps[-1] = fused
                continue
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _fused(
    program: Program, step: MatmulStep, nest: NestStep, uses: Counter[int], target: Target
) -> MatmulStep | None:
    operands = [matrix_operand_of(placed) for placed in (step.a, step.b, step.out)]
    product = build_product(operands[0], operands[1], operands[2])
    if product.swapped or product.batch_size != 1 or product.n < 2:
        return None
    if choose_strategy(product, target) != "own":
        return None
    flat = flatten(nest.nest, product.m, product.n)
    if flat is None:
        return None
    own = Flat(product.c.row, True)
    reads = [
        number
        for number, (operand, buffer) in enumerate(
            zip(nest.nest.operands, nest.buffers, strict=True)
        )
        if buffer == step.out.buffer
    ]
    is_read = [
        number < nest.nest.n_inputs
        and flat[number] == own
        and nest.nest.operands[number].dtype == step.out.spec.dtype
        and nest.nest.operands[number].offset == step.out.layout.offset
        for number in reads
    ]
    if not reads or not all(is_read):
        return None
    nodes = (*step.nodes, *nest.nodes)
    made = replace(step, label=f"{step.label}+{nest.label}", nodes=nodes, epilogue=nest)
    return _in_place(program, made, nest, flat, uses)


def _in_place(
    program: Program, step: MatmulStep, nest: NestStep, flat: tuple[Flat, ...], uses: Counter[int]
) -> MatmulStep:
    """The product written where a result will stand, if nobody else reads it."""
    buffer = step.out.buffer
    is_kept = buffer in program.kept or any(buffer in pair for pair in program.based)
    if program.buffers[buffer].kind != "arena" or uses[buffer] != 2 or is_kept:
        return step
    body = nest.nest
    taken = {step.a.buffer, step.b.buffer, *nest.buffers[: body.n_inputs]}
    product = flat[next(k for k, b in enumerate(nest.buffers) if b == buffer)]
    for number in range(body.n_inputs, len(body.operands)):
        operand, place = body.operands[number], nest.buffers[number]
        if place in taken or flat[number] != product or operand.dtype != step.out.spec.dtype:
            continue
        out = Placed(place, Layout(operand.offset, step.out.layout.strides), step.out.spec)
        operands = tuple(
            replace(one, offset=operand.offset) if b == buffer else one
            for one, b in zip(body.operands, nest.buffers, strict=True)
        )
        buffers = tuple(place if b == buffer else b for b in nest.buffers)
        moved = replace(nest, nest=replace(body, operands=operands), buffers=buffers)
        return replace(step, out=out, epilogue=moved)
    return step


# ---- emission


@dataclass(frozen=True, slots=True)
class Finish:
    """An emitted function `void name(ptr context, i64 row, i64 rows, i64 column, i64 columns)`.

    The context is the pointer to the slots, then the row and column at which the product begins
    for this call. Slots from `first` on belong to the function.
    """

    name: str
    text: str
    declarations: frozenset[str]
    definitions: tuple[tuple[str, str], ...]
    slots: tuple[str, ...]
    values: tuple[SlotValue, ...]


def emit_finish(nest: Nest, m: int, n: int, target: Target, first: int) -> Finish:
    """The function that carries out a nest on a tile."""
    flat = flatten(nest, m, n)
    assert flat is not None, "an epilogue was fused that has no rows and columns"
    f = FunctionBuilder(target)
    _TileBody(f, nest, flat, lanes_of(nest, target)).write()
    varies = tuple((one.varies, one.row != 0) for one in flat)
    key = repr((target, program_key(nest), varies, first))
    draft = f.finish("draft", key)
    name = f"finish_{hashlib.sha256((key + draft.text).encode()).hexdigest()[:16]}"
    values: list[SlotValue] = []
    for slot in draft.slots:
        number = int(slot[1:])
        if slot[0] == "p":
            offset = nest.operands[number].offset
            values.append(("operand", FIRST_OPERAND + number, offset))
        else:
            values.append(flat[number].row)
    body = draft.text.split("entry:\n", 1)[1]
    slots_at = f"  %A = getelementptr i64, ptr %slots, i64 {first}"
    head = [
        f"define internal void @{name}(ptr %context, i64 %row, i64 %rows, i64 %column, "
        f'i64 %columns) nounwind "prefer-vector-width"="{8 * target.vector_bytes}" {{',
        "entry:", "  %slots = load ptr, ptr %context, align 8", slots_at,
        "  %rowplace = getelementptr i64, ptr %context, i64 1",
        "  %row0 = load i64, ptr %rowplace, align 8",
        "  %columnplace = getelementptr i64, ptr %context, i64 2",
        "  %column0 = load i64, ptr %columnplace, align 8",
        "  %firstrow = add i64 %row0, %row", "  %firstcolumn = add i64 %column0, %column",
    ]  # fmt: skip
    text = "\n".join(head) + "\n" + body
    return Finish(name, text, draft.declarations, draft.definitions, draft.slots, tuple(values))


class _TileBody:
    def __init__(self, f: FunctionBuilder, nest: Nest, flat: tuple[Flat, ...], lanes: int) -> None:
        self.f, self.nest, self.flat, self.lanes = f, nest, flat, lanes
        self.pointers = [f.pointer_slot(f"p{k}") for k in range(len(flat))]
        self.rows = [f.slot(f"r{k}") if one.row else None for k, one in enumerate(flat)]

    def write(self) -> None:
        """The loop over the rows of a tile."""
        f = self.f

        def one(i: Value, _: list[Value]) -> list[Value]:
            row = f.add(Value("%firstrow", "i8", 1), i)
            places = [
                pointer if step is None else f.moved(pointer, row, step)
                for pointer, step in zip(self.pointers, self.rows, strict=True)
            ]
            places = [
                self._at_column(place, number) if self.flat[number].varies else place
                for number, place in enumerate(places)
            ]
            self._columns(places)
            return []

        f.loop(ZERO, Value("%rows", "i8", 1), 1, [], one)

    def _at_column(self, place: str, number: int) -> str:
        size = int64(self.nest.operands[number].dtype.itemsize)
        return self.f.moved(place, Value("%firstcolumn", "i8", 1), size)

    def _columns(self, places: list[str]) -> None:
        f, nest, lanes = self.f, self.nest, self.lanes
        codes = [code_of(operand.dtype) for operand in nest.operands]

        def some(i: Index, mask: Value | None, _: int, carry: list[Value]) -> list[Value]:
            values = []
            for number in range(nest.n_inputs):
                code = codes[number]
                if self.flat[number].varies:
                    at = f.element(places[number], code, i)
                    values.append(f.load(at, code, lanes, mask=mask))
                else:
                    values.append(f.load(places[number], code))
            for step in nest.steps:
                assert step.emit is not None
                values.append(step.emit(f, *(values[arg] for arg in step.args)))
            for number, result in enumerate(nest.results, nest.n_inputs):
                at = f.element(places[number], codes[number], i)
                f.store(f.splat(values[result], lanes), at, mask=mask)
            return carry

        f.vector_loop(ZERO, Value("%columns", "i8", 1), lanes, 0, [], some)
