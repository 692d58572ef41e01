"""Emits matrix products: which strategy serves which sizes.

The strategy depends on sizes, layouts and the machine only, never on threads or alignment, so equal
programs give equal bits.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from tapeline.compiler.codegen.blas import find_blas
from tapeline.compiler.codegen.gemm import gemm_symbols, routine_declaration
from tapeline.compiler.codegen.matmul_blas import emit_gemm, emit_gemv, leading
from tapeline.compiler.codegen.matmul_frame import FLOAT_TYPES, Frame
from tapeline.compiler.codegen.matmul_inline import emit_inline
from tapeline.compiler.codegen.matmul_own import MakeFinish, emit_own, needs_dense_b
from tapeline.compiler.codegen.matrix import MatrixOperand, Product, build_product
from tapeline.compiler.codegen.nest import Kernel, SlotValue
from tapeline.compiler.codegen.program import Placed
from tapeline.compiler.codegen.target import Target
from tapeline.runtime.spec import DType

Strategy: TypeAlias = Literal["none", "zero", "inline", "gemv", "blas", "own"]
"""No result; zeros; unrolled code in place; BLAS for a vector; BLAS; the routine of `gemm`."""

_INLINE_LIMIT = 32
_OWN_WORK = 1 << 22
"""Products of more multiply-adds than this are worth the compilation of our own routine."""
_SMALL = 48
_LANE_USE = 0.7
_LONG_K = 1000


def supports_matmul(dtype: DType, target: Target) -> bool:
    """Whether products of this dtype are emitted; the others are host calls."""
    if dtype.name not in FLOAT_TYPES or not dtype.isnative:
        return False
    return target.standalone or find_blas() is not None or target.vector_bytes >= 32


def matmul_symbols(kernel: Kernel) -> dict[str, int]:
    """Addresses of the symbols that a kernel of this module refers to."""
    declared = {text for launch in kernel.launches for text in launch.function.declarations}
    symbols: dict[str, int] = {}
    for size in (4, 8):
        if routine_declaration(size) in declared:
            symbols |= gemm_symbols(size)
    blas = find_blas()
    if blas is not None:
        symbols |= {f"tapeline_{name}": address for name, address in blas.addresses.items()}
    return symbols


def matmul_needs_copy(
    a: MatrixOperand, b: MatrixOperand, out: MatrixOperand, target: Target
) -> tuple[bool, bool]:
    """Whether a, and whether b, must be given as a dense copy instead."""
    product = build_product(a, b, out)
    strategy = choose_strategy(product, target)
    bad_a = bad_b = False
    if strategy in ("gemv", "blas"):
        bad_a = leading(product.a, product.m, product.k, product.size) is None
        bad_b = leading(product.b, product.k, product.n, product.size) is None
    elif strategy == "own":
        bad_b = needs_dense_b(product)
    return (bad_b, bad_a) if product.swapped else (bad_a, bad_b)


def emit_matmul(
    a: MatrixOperand,
    b: MatrixOperand,
    out: MatrixOperand,
    target: Target,
    finish: MakeFinish | None = None,
) -> Kernel:
    """The kernel for `out = matmul(a, b)`; its operands are numbered a 0, b 1, out 2.

    The shapes are NumPy's, 1-d operands and broadcasting included. `out` overlaps neither operand,
    and along one of its last two axes its elements lie side by side.

    With `finish`, which gives the function for slots from a number on, the routine of `gemm` hands
    its tiles on; only products of the strategy "own" without a batch can.

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
        emit_inline(frame, target)
    elif strategy == "gemv":
        emit_gemv(frame, target)
    elif strategy == "blas":
        emit_gemm(frame, target)
    else:
        emit_own(frame, target, finish)
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
    if not (target.calls_blas if target.standalone else find_blas() is not None):
        return "own"
    if m == 1 or n == 1:
        return "gemv"
    if target.standalone:
        return "blas"
    lanes = target.lanes(product.size)
    use = n / (lanes * -(-n // lanes))
    is_narrow = (use <= _LANE_USE and k < _LONG_K) or max(m, n, k) < _SMALL
    is_small = m * n * k * product.batch_size < _OWN_WORK
    return "blas" if is_narrow or is_small or not target.avx512 else "own"


def _offsets(
    product: Product, a: MatrixOperand, b: MatrixOperand, out: MatrixOperand
) -> tuple[SlotValue, SlotValue, SlotValue]:
    """The pointers of the product's a, b and c."""
    first: SlotValue = ("operand", 0, a.offset)
    second: SlotValue = ("operand", 1, b.offset)
    if product.swapped:
        first, second = second, first
    return first, second, ("operand", 2, out.offset)


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


def matrix_operand_of(placed: Placed) -> MatrixOperand:
    """A placed value as an operand of a matrix product."""
    spec = placed.spec
    return MatrixOperand(spec.dtype, spec.static_shape, placed.layout.strides, placed.layout.offset)


def matrix_operand(array: np.ndarray) -> MatrixOperand:
    """The operand that describes an array as it lies in memory."""
    return MatrixOperand(array.dtype, array.shape, array.strides)
