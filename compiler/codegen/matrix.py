"""Matrix products as codegen sees them: operands, and the plain form strategies start from.

Nothing here emits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tapeline.runtime.spec import DType, Shape


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """An array of a matrix product: shape, byte strides, and a byte offset from its buffer."""

    dtype: DType
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """A matrix in memory, by bytes from one row and from one column to the next."""

    row: int
    column: int

    def transposed(self) -> Layout:
        """The layout of the transposed matrix."""
        return Layout(self.column, self.row)


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """An axis of independent products: extent, and byte strides in a, b and the result."""

    extent: int
    a: int
    b: int
    c: int


@dataclass(frozen=True, slots=True)
class Product:
    """c = a @ b with a (m, k), b (k, n) and c (m, n), for every index of the batch axes.

    `swapped` tells that a and b changed places (and all three are transposed), so that the buffer
    of `a` is the second operand's.
    """

    size: int
    m: int
    n: int
    k: int
    a: Layout
    b: Layout
    c: Layout
    batch: tuple[BatchAxis, ...] = ()
    swapped: bool = False

    @property
    def batch_size(self) -> int:
        """Number of products."""
        total = 1
        for axis in self.batch:
            total *= axis.extent
        return total

    def transposed(self) -> Product:
        """The same products as c^T = b^T @ a^T."""
        batch = tuple(BatchAxis(x.extent, x.b, x.a, x.c) for x in self.batch)
        return replace(
            self, m=self.n, n=self.m, a=self.b.transposed(), b=self.a.transposed(),
            c=self.c.transposed(), batch=batch, swapped=not self.swapped,
        )  # fmt: skip


def build_product(a: MatrixOperand, b: MatrixOperand, out: MatrixOperand) -> Product:
    """The plain form of NumPy's `matmul(a, b)`: 1-d operands made matrices, batch axes merged, and
    folded into rows where b is the same for all; in c the elements of a row lie side by side."""
    size = out.dtype.itemsize
    a_shape, a_strides = a.shape, a.strides
    b_shape, b_strides = b.shape, b.strides
    c_strides = out.strides
    if len(b_shape) == 1:
        b_shape, b_strides = (*b_shape, 1), (*b_strides, size)
        c_strides = (*c_strides, size)
    if len(a_shape) == 1:
        a_shape, a_strides = (1, *a_shape), (0, *a_strides)
        row = size * b_shape[-1]
        c_strides = (*c_strides[:-1], row, c_strides[-1])
    product = Product(
        size, a_shape[-2], b_shape[-1], a_shape[-1],
        Layout(*a_strides[-2:]), Layout(*b_strides[-2:]), Layout(*c_strides[-2:]),
        _merge(_batch_axes(a_shape, a_strides, b_shape, b_strides, c_strides)),
    )  # fmt: skip
    product = _fold(product)
    row_is_strided = product.n > 1 and product.c.column != size
    if row_is_strided or (product.n == 1 and product.m > 1 and product.c.row == size):
        product = product.transposed()
    return product


def _batch_axes(
    a_shape: Shape,
    a_strides: tuple[int, ...],
    b_shape: Shape,
    b_strides: tuple[int, ...],
    c_strides: tuple[int, ...],
) -> list[BatchAxis]:
    """The leading axes by NumPy's broadcasting, those of extent 1 left out."""
    count = len(c_strides) - 2
    axes = []
    for position in range(count):
        extents, strides = [], []
        for shape, own in ((a_shape, a_strides), (b_shape, b_strides)):
            at = position - count + len(shape) - 2
            extents.append(shape[at] if at >= 0 else 1)
            strides.append(own[at] if extents[-1] != 1 else 0)
        extent = extents[1] if extents[0] == 1 else extents[0]
        if extent != 1:
            axes.append(BatchAxis(extent, strides[0], strides[1], c_strides[position]))
    return axes


def _merge(axes: list[BatchAxis]) -> tuple[BatchAxis, ...]:
    """Neighbouring axes made one where all three arrays allow it."""
    merged: list[BatchAxis] = []
    for axis in axes:
        outer = merged[-1] if merged else None
        step = axis.extent
        if (
            outer
            and outer.a == axis.a * step
            and outer.b == axis.b * step
            and outer.c == axis.c * step
        ):
            merged[-1] = BatchAxis(outer.extent * step, axis.a, axis.b, axis.c)
        else:
            merged.append(axis)
    return tuple(merged)


def _fold(product: Product) -> Product:
    """Batch axes over which b stays the same, taken as further rows."""
    while product.batch:
        axis = product.batch[-1]
        m = product.m
        a_row = axis.a if m == 1 else product.a.row
        c_row = axis.c if m == 1 else product.c.row
        if axis.b != 0 or axis.a != m * a_row or axis.c != m * c_row:
            break
        product = replace(
            product, m=m * axis.extent, a=Layout(a_row, product.a.column),
            c=Layout(c_row, product.c.column), batch=product.batch[:-1],
        )  # fmt: skip
    return product
