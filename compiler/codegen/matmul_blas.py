"""Matrix products by calls of the BLAS that NumPy has loaded, or of the CBLAS that standalone code
is linked with; the text does not depend on sizes."""

from __future__ import annotations

from tapeline.compiler.codegen.blas import NO_TRANS, ROW_MAJOR, TRANS, find_blas
from tapeline.compiler.codegen.function_text import Value
from tapeline.compiler.codegen.matmul_frame import Frame
from tapeline.compiler.codegen.matrix import Layout
from tapeline.compiler.codegen.target import Target

_LETTERS = {"float32": "s", "float64": "d"}
_INT32_MAX = 2**31 - 1
_THREADS_ABOVE = 1 << 18
"""BLAS runs larger products on threads of its own, so a batch of them is not split further."""


def leading(layout: Layout, rows: int, columns: int, size: int) -> tuple[int, int] | None:
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


class _BlasCall:
    """Arguments of a CBLAS call, with dimensions in the library's integer width."""

    def __init__(self, frame: Frame, routine: str, target: Target) -> None:
        bits, prefix = 32, "cblas"
        if not target.standalone:
            blas = find_blas()
            assert blas is not None, "supports_matmul was not asked"
            bits, prefix = blas.int_bits, "tapeline"
        self.frame = frame
        self.routine = f"{prefix}_{_LETTERS[frame.dtype.name]}{routine}"
        self.integer = f"i{bits}"
        self.limit = _INT32_MAX if bits == 32 else 2**63 - 1

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


def emit_gemm(frame: Frame, target: Target) -> None:
    """Any matrices whose layouts BLAS can be told of."""
    product = frame.product
    size = product.size
    a, b, c = frame.open("gemm")
    if product.m * product.n * product.k > _THREADS_ABOVE:
        frame.grain = product.batch_size
    a_told = leading(product.a, product.m, product.k, size)
    b_told = leading(product.b, product.k, product.n, size)
    if a_told is None or b_told is None:
        raise ValueError("emit_matmul: an operand needs a copy")
    blas = _BlasCall(frame, "gemm", target)
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


def emit_gemv(frame: Frame, target: Target) -> None:
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
    told = leading(matrix, rows, columns, size)
    if told is None or (columns > 1 and (x_step <= 0 or x_step % size)):
        raise ValueError("emit_matmul: an operand needs a copy")
    blas = _BlasCall(frame, "gemv", target)
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
