"""Matrix products by the routine of `gemm`: what of them one index of the launch stands for.

A batch of some size is split into its products; a few products by columns, or by rows if there are
more of these. All of it gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tapeline.compiler.codegen.function_text import Value
from tapeline.compiler.codegen.gemm import (
    panel_columns,
    routine_declaration,
    routine_name,
    row_tile,
    workspace_bytes,
)
from tapeline.compiler.codegen.matmul_frame import Frame
from tapeline.compiler.codegen.matrix import Product
from tapeline.compiler.codegen.nest import SlotValue
from tapeline.compiler.codegen.target import Target

_SPLIT_BATCH = 8
_COLUMN_GRAIN = 128
_ROW_GRAIN = 64


def needs_dense_b(product: Product) -> bool:
    """Whether b has no unit stride, which the routine asks for."""
    return product.k > 1 and product.size not in (product.b.column, product.b.row)


class FinishFunction(Protocol):
    """What is called for finished tiles, and its slots."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def declarations(self) -> frozenset[str]: ...
    @property
    def definitions(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def slots(self) -> tuple[str, ...]: ...
    @property
    def values(self) -> tuple[SlotValue, ...]: ...


MakeFinish: TypeAlias = Callable[[int], FinishFunction]
"""The function whose slots begin at a number."""


def emit_own(frame: Frame, target: Target, make_finish: MakeFinish | None = None) -> None:
    """Writes the whole function into the frame."""
    product = frame.product
    if needs_dense_b(product):
        raise ValueError("emit_matmul: an operand needs a copy")
    if make_finish is not None and product.batch_size != 1:
        raise ValueError("emit_matmul: products of a batch are not finished tile by tile")
    if product.batch_size >= _SPLIT_BATCH:
        _emit_batch(frame, target)
    elif product.n >= product.m:
        unit = panel_columns(product.size, target)
        _emit_part(frame, "columns", product.n, unit, _COLUMN_GRAIN // unit, target, make_finish)
    else:
        unit = row_tile(target)
        _emit_part(frame, "rows", product.m, unit, -(-_ROW_GRAIN // unit), target, make_finish)


class _Call:
    """The call of the routine, with strides and sizes from slots."""

    def __init__(self, frame: Frame, target: Target, finish: str = "null") -> None:
        product = frame.product
        self.frame = frame
        frame.fn.declare(routine_declaration(product.size, target.standalone))
        numbers = {
            "a_row": product.a.row, "a_column": product.a.column, "b_row": product.b.row,
            "b_column": product.b.column, "c_row": product.c.row,
            "m": product.m, "n": product.n, "k": product.k,
        }  # fmt: skip
        self.slots: dict[str, Value] = {
            name: frame.slot(name, value) for name, value in numbers.items()
        }
        self.context = frame.fn.alloca(24, 8) if finish != "null" else "null"
        self.further: list[tuple[str, Value]] = [("ptr", finish), ("ptr", self.context)]
        if target.standalone:
            frame.scratch_bytes = workspace_bytes(product.size, target, product.n)
            self.further += [("ptr", frame.slot("workspace", ("scratch", 0, 0), "ptr"))]

    def __call__(self, a: str, b: str, c: str, m: Value, n: Value) -> None:
        """c = a @ b for these pointers and sizes."""
        slots = self.slots
        self.frame.fn.call_defined(
            "void", f"@{routine_name(self.frame.product.size)}",
            ("ptr", a), ("i64", slots["a_row"]), ("i64", slots["a_column"]),
            ("ptr", b), ("i64", slots["b_row"]), ("i64", slots["b_column"]),
            ("ptr", c), ("i64", slots["c_row"]), ("i64", m), ("i64", n), ("i64", slots["k"]),
            *self.further,
        )  # fmt: skip


def _emit_batch(frame: Frame, target: Target) -> None:
    """One index is one product."""
    a, b, c = frame.open("own", "batch")
    call = _Call(frame, target)

    def one(index: str, _: list[str]) -> None:
        pa, pb, pc = frame.at_index(index, a, b, c)
        call(pa, pb, pc, call.slots["m"], call.slots["n"])

    frame.fn.loop("%lo", "%hi", 1, one)


def _emit_part(
    frame: Frame, what: str, total: int, unit: int, grain: int, target: Target,
    make_finish: MakeFinish | None,
) -> None:  # fmt: skip
    """One index is `unit` columns or rows, of every product of the batch."""
    a, b, c = frame.open("own", what, unit)
    finish = _include(frame, make_finish)
    frame.extent, frame.grain = -(-total // unit), max(1, grain)
    fn, call = frame.fn, _Call(frame, target, finish)
    count = frame.slot("count", frame.product.batch_size)
    by_columns = what == "columns"
    whole = call.slots["n" if by_columns else "m"]
    start = fn.mul("%lo", unit)
    size = fn.sub(fn.min(fn.mul("%hi", unit), whole), start)
    if finish != "null":
        fn.store("ptr", "%A", call.context)
        fn.store("i64", 0 if by_columns else start, fn.offset(call.context, 8))
        fn.store("i64", start if by_columns else 0, fn.offset(call.context, 16))

    def one(index: str, _: list[str]) -> None:
        pa, pb, pc = frame.at_index(index, a, b, c)
        if by_columns:
            pb = fn.offset(pb, fn.mul(start, call.slots["b_column"]))
            pc = fn.offset(pc, fn.mul(start, frame.product.size))
            call(pa, pb, pc, call.slots["m"], size)
        else:
            pa = fn.offset(pa, fn.mul(start, call.slots["a_row"]))
            pc = fn.offset(pc, fn.mul(start, call.slots["c_row"]))
            call(pa, pb, pc, size, call.slots["n"])

    fn.loop(0, count, 1, one)


def _include(frame: Frame, make_finish: MakeFinish | None) -> str:
    """Takes the function for finished tiles into the frame; the pointer to it."""
    if make_finish is None:
        return "null"
    made = make_finish(len(frame.names))
    frame.names += [f"finish_{slot}" for slot in made.slots]
    frame.values += made.values
    frame.key = (*frame.key, made.name)
    frame.fn.declarations |= made.declarations
    frame.definitions += ((made.name, made.text), *made.definitions)
    return f"@{made.name}"
