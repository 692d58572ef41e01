"""Emits matrix products: which strategy serves which sizes, and the kernels that call BLAS.

The strategy depends on sizes and layouts only, never on threads or alignment, so equal programs
give equal bits. A kernel's launch goes over the batch; each index is one product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from tapeline.compiler.codegen.blas import NO_TRANS, ROW_MAJOR, TRANS, find_blas
from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.matrix import Layout, MatrixOperand, Product, build_product
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, SlotValue
from tapeline.compiler.codegen.target import Target
from tapeline.runtime.spec import DType

Strategy: TypeAlias = Literal["none", "zero", "inline", "gemv", "gemm"]

FLOAT_TYPES: Mapping[str, str] = {"float32": "float", "float64": "double"}
_LETTERS = {"float32": "s", "float64": "d"}
_INLINE_LIMIT = 32
_INT32_MAX = 2**31 - 1
_BLAS_THREADS_ABOVE = 1 << 18
"""BLAS runs larger products on threads of its own, so a batch of them is not split further."""


def supports_matmul(dtype: DType) -> bool:
    """Whether products of this dtype are emitted; the others are host calls."""
    return dtype.name in FLOAT_TYPES and dtype.isnative and find_blas() is not None


def matmul_symbols() -> dict[str, int]:
    """Addresses of the symbols that the kernels of this module refer to."""
    blas = find_blas()
    if blas is None:
        return {}
    return {f"tapeline_{name}": address for name, address in blas.addresses.items()}


def matmul_needs_copy(
    a: MatrixOperand, b: MatrixOperand, out: MatrixOperand, target: Target
) -> tuple[bool, bool]:
    """Whether a, and whether b, must be given as a dense copy instead."""
    product = build_product(a, b, out)
    if choose_strategy(product, target) not in ("gemv", "gemm"):
        return False, False
    bad_a = _leading(product.a, product.m, product.k, product.size) is None
    bad_b = _leading(product.b, product.k, product.n, product.size) is None
    return (bad_b, bad_a) if product.swapped else (bad_a, bad_b)


def emit_matmul(a: MatrixOperand, b: MatrixOperand, out: MatrixOperand, target: Target) -> Kernel:
    """The kernel for `out = matmul(a, b)`; its operands are numbered a 0, b 1, out 2.

    The shapes are NumPy's, 1-d operands and broadcasting included. `out` overlaps neither operand,
    and along one of its last two axes its elements lie side by side.

    Raises
    ------
    ValueError
        If an operand must be copied first (see `matmul_needs_copy`) or `out` has another layout.
    """
    product = build_product(a, b, out)
    strategy = choose_strategy(product, target)
    if strategy == "none":
        return Kernel("matmul nothing", ())
    if product.n > 1 and product.c.column != product.size:
        raise ValueError(f"emit_matmul: out has strides {out.strides}, none of them one element")
    frame = Frame(product, a.dtype, _offsets(product, a, b, out))
    if strategy == "zero":
        _emit_zero(frame)
    elif strategy == "inline":
        from tapeline.compiler.codegen.matmul_inline import emit_inline

        emit_inline(frame, target)
    elif strategy == "gemv":
        _emit_gemv(frame)
    else:
        _emit_gemm(frame)
    return frame.kernel(strategy)


def choose_strategy(product: Product, target: Target) -> Strategy:
    """How a product is computed, by its sizes and layouts."""
    m, n, k = product.m, product.n, product.k
    if m * n * product.batch_size == 0:
        return "none"
    if k == 0:
        return "zero"
    rows_are_dense = product.b.column == product.size or n == 1
    fills_lanes = n > 1 or k * m <= 64
    if max(m, n, k) <= _INLINE_LIMIT and rows_are_dense and fills_lanes:
        return "inline"
    return "gemv" if m == 1 or n == 1 else "gemm"


def _offsets(
    product: Product, a: MatrixOperand, b: MatrixOperand, out: MatrixOperand
) -> tuple[SlotValue, SlotValue, SlotValue]:
    """The pointers of the product's a, b and c."""
    first: SlotValue = ("operand", 0, a.offset)
    second: SlotValue = ("operand", 1, b.offset)
    if product.swapped:
        first, second = second, first
    return first, second, ("operand", 2, out.offset)


def _leading(layout: Layout, rows: int, columns: int, size: int) -> tuple[int, int] | None:
    """How CBLAS is told of a matrix: (NO_TRANS or TRANS, leading dimension in elements); None where
    it cannot be told."""
    row, column = layout.row, layout.column
    if columns == 1 or column == size:
        if rows == 1:
            return NO_TRANS, columns
        if row % size == 0 and row >= size * columns:
            return NO_TRANS, row // size
    if rows == 1 or row == size:
        if columns == 1:
            return TRANS, rows
        if column % size == 0 and column >= size * rows:
            return TRANS, column // size
    return None


@dataclass(slots=True)
class Frame:
    """What the kernels of all strategies share: slots, and the loop over the batch."""

    product: Product
    dtype: DType
    pointers: tuple[SlotValue, SlotValue, SlotValue]
    names: list[str] = field(default_factory=list)
    values: list[SlotValue] = field(default_factory=list)
    key: tuple[object, ...] = ()
    fn: FunctionText = field(default_factory=lambda: FunctionText(""))

    @property
    def type(self) -> str:
        """LLVM's name of the element type."""
        return FLOAT_TYPES[self.dtype.name]

    def slot(self, name: str, value: SlotValue, type_: str = "i64") -> str:
        """A number or pointer that the launch passes."""
        place = self.fn.offset("%A", 8 * len(self.names))
        self.names.append(name)
        self.values.append(value)
        return self.fn.load(type_, place)

    def open(self, *key: object) -> tuple[str, str, str]:
        """Begins the function; the pointers of a, b and c. `key` is what the text depends on beyond
        slots."""
        self.key = ("matmul", self.dtype.name, len(self.product.batch), *key)
        a = self.slot("pa", self.pointers[0], "ptr")
        b = self.slot("pb", self.pointers[1], "ptr")
        c = self.slot("pc", self.pointers[2], "ptr")
        return a, b, c

    def at_index(self, index: str, a: str, b: str, c: str) -> tuple[str, str, str]:
        """The pointers moved to the product number `index` of the batch."""
        rest: Value = index
        pointers = [a, b, c]
        for position in reversed(range(len(self.product.batch))):
            axis = self.product.batch[position]
            at = rest
            if position:
                extent = self.slot(f"d{position}", axis.extent)
                at = self.fn.value(f"urem i64 {rest}, {extent}")
                rest = self.fn.value(f"udiv i64 {rest}, {extent}")
            steps = (axis.a, axis.b, axis.c)
            for number, step in enumerate(steps):
                amount = self.fn.mul(at, self.slot(f"{'abc'[number]}{position}", step))
                pointers[number] = self.fn.offset(pointers[number], amount)
        return pointers[0], pointers[1], pointers[2]

    def kernel(self, strategy: str) -> Kernel:
        """The finished kernel."""
        name = "_".join(str(part) for part in self.key)
        self.fn.header = f"void @{name}(ptr %A, i64 %lo, i64 %hi) nounwind"
        function = KernelFunction(
            self.key, name, self.fn.finish(), frozenset(self.fn.declarations), tuple(self.names)
        )
        product = self.product
        count = product.batch_size
        one = product.m * product.n * max(product.k, 1)
        grain = count if strategy == "gemm" and one > _BLAS_THREADS_ABOVE else 1
        launch = Launch(function, tuple(self.values), count, grain, one * count)
        return Kernel(f"matmul {strategy} {product.m}x{product.k}x{product.n}", (launch,))


def _emit_zero(frame: Frame) -> None:
    """c = 0: a product over no elements."""
    a, b, c = frame.open("zero")
    row = frame.slot("row", frame.product.c.row)
    m = frame.slot("m", frame.product.m)
    length = frame.slot("length", frame.product.n * frame.product.size)
    fn = frame.fn

    def fill(index: str, _: list[str]) -> None:
        first = frame.at_index(index, a, b, c)[2]

        def clear(i: str, _: list[str]) -> None:
            place = fn.offset(first, fn.mul(i, row))
            fn.call(
                "void", "llvm.memset.p0.i64",
                ("ptr", place), ("i8", 0), ("i64", length), ("i1", "false"),
            )  # fmt: skip

        fn.loop(0, m, 1, clear)

    fn.loop("%lo", "%hi", 1, fill)


class _BlasCall:
    """Arguments of a CBLAS call, with dimensions in the library's integer width."""

    def __init__(self, frame: Frame, routine: str) -> None:
        blas = find_blas()
        assert blas is not None, "supports_matmul was not asked"
        self.frame = frame
        self.routine = f"tapeline_{_LETTERS[frame.dtype.name]}{routine}"
        self.integer = f"i{blas.int_bits}"
        self.limit = _INT32_MAX if blas.int_bits == 32 else 2**63 - 1

    def dimension(self, name: str, value: int) -> tuple[str, str]:
        """A dimension or stride in elements, from a slot."""
        if value > self.limit:
            raise ValueError(f"emit_matmul: {name} = {value} exceeds the BLAS library's integers")
        number = self.frame.slot(name, value)
        if self.integer == "i32":
            number = self.frame.fn.value(f"trunc i64 {number} to i32")
        return self.integer, number

    def enum(self, name: str, value: int) -> tuple[str, str]:
        """One of CBLAS's enumerated values, from a slot."""
        number = self.frame.slot(name, value)
        return "i32", self.frame.fn.value(f"trunc i64 {number} to i32")

    def scalar(self, value: float) -> tuple[str, str]:
        """alpha or beta."""
        return self.frame.type, f"{value:.1f}"

    def call(self, *args: tuple[str, Value]) -> None:
        """The call itself."""
        self.frame.fn.call("void", self.routine, ("i32", ROW_MAJOR), *args)


def _emit_gemm(frame: Frame) -> None:
    """Any matrices, by BLAS."""
    product = frame.product
    size = product.size
    a, b, c = frame.open("gemm")
    a_told = _leading(product.a, product.m, product.k, size)
    b_told = _leading(product.b, product.k, product.n, size)
    if a_told is None or b_told is None:
        raise ValueError("emit_matmul: an operand needs a copy")
    blas = _BlasCall(frame, "gemm")
    trans_a, trans_b = blas.enum("ta", a_told[0]), blas.enum("tb", b_told[0])
    m, n = blas.dimension("m", product.m), blas.dimension("n", product.n)
    k = blas.dimension("k", product.k)
    lda, ldb = blas.dimension("lda", a_told[1]), blas.dimension("ldb", b_told[1])
    ldc = blas.dimension("ldc", max(product.n, product.c.row // size))

    def one(index: str, _: list[str]) -> None:
        pa, pb, pc = frame.at_index(index, a, b, c)
        blas.call(
            trans_a, trans_b, m, n, k, blas.scalar(1.0), ("ptr", pa), lda, ("ptr", pb), ldb,
            blas.scalar(0.0), ("ptr", pc), ldc,
        )  # fmt: skip

    frame.fn.loop("%lo", "%hi", 1, one)


def _emit_gemv(frame: Frame) -> None:
    """A matrix with a vector, by BLAS: c^T = b^T a^T where a is the row, else c = a b."""
    product = frame.product
    size = product.size
    vector_first = product.m == 1
    a, b, c = frame.open("gemv", "row" if vector_first else "column")
    if vector_first:
        matrix, rows, columns = product.b.transposed(), product.n, product.k
        x_step, y_step = product.a.column, product.c.column
    else:
        matrix, rows, columns = product.a, product.m, product.k
        x_step, y_step = product.b.row, product.c.row
    told = _leading(matrix, rows, columns, size)
    if told is None or (columns > 1 and (x_step <= 0 or x_step % size)):
        raise ValueError("emit_matmul: an operand needs a copy")
    blas = _BlasCall(frame, "gemv")
    trans, lead = told
    shape = (rows, columns) if trans == NO_TRANS else (columns, rows)
    trans_arg = blas.enum("trans", trans)
    m, n = blas.dimension("m", shape[0]), blas.dimension("n", shape[1])
    lda = blas.dimension("lda", lead)
    incx = blas.dimension("incx", x_step // size if columns > 1 else 1)
    incy = blas.dimension("incy", y_step // size if rows > 1 else 1)

    def one(index: str, _: list[str]) -> None:
        pa, pb, pc = frame.at_index(index, a, b, c)
        matrix_at, x_at = (pb, pa) if vector_first else (pa, pb)
        blas.call(
            trans_arg, m, n, blas.scalar(1.0), ("ptr", matrix_at), lda, ("ptr", x_at), incx,
            blas.scalar(0.0), ("ptr", pc), incy,
        )  # fmt: skip

    frame.fn.loop("%lo", "%hi", 1, one)


def matrix_operand(array: np.ndarray) -> MatrixOperand:
    """The operand that describes an array as it lies in memory."""
    return MatrixOperand(array.dtype, array.shape, array.strides)
