"""The kernel for small products whose sizes are known: unrolled over rows and columns, no calls.

A is read in place at any strides, one element at a time; rows of B and of the result are vectors.
Every element of the result is one chain of fused multiply-adds in order of k, from +0.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.matmul_frame import Frame
from tapeline.compiler.codegen.target import Target

_UNROLLED_K = 4
_MAX_ROWS = 8


@dataclass(frozen=True, slots=True)
class _Piece:
    """Neighbouring columns in one vector; `columns` of its `lanes` are real."""

    first: int
    columns: int
    lanes: int


def split_columns(n: int, lanes: int) -> tuple[_Piece, ...]:
    """Whole vectors, then one piece with the rest in the next power of two."""
    pieces = [_Piece(first, lanes, lanes) for first in range(0, n - lanes + 1, lanes)]
    rest = n % lanes
    if rest:
        pieces.append(_Piece(n - rest, rest, 1 << (rest - 1).bit_length()))
    return tuple(pieces)


def emit_inline(frame: Frame, target: Target) -> None:
    """Writes the whole function into the frame."""
    product = frame.product
    m, n, k = product.m, product.n, product.k
    a, b, c = frame.open("inline", m, k, n, target.vector_bytes)
    fn = frame.fn
    pieces = split_columns(n, target.lanes(product.size))
    registers = 28 if target.avx512 else 12
    rows = max(1, min(_MAX_ROWS, m, registers // len(pieces)))
    a_row, a_column = frame.slot("a_row", product.a.row), frame.slot("a_column", product.a.column)
    b_row, c_row = frame.slot("b_row", product.b.row), frame.slot("c_row", product.c.row)
    block = _Block(fn, frame.type, product.size, pieces, k, a_row, a_column, b_row, c_row)

    def one(index: str, _: list[str]) -> None:
        pa, pb, pc = frame.at_index(index, a, b, c)
        whole = m - m % rows

        def some(first: Value, count: int) -> None:
            at_a, at_c = fn.offset(pa, fn.mul(first, a_row)), fn.offset(pc, fn.mul(first, c_row))
            block.emit(at_a, pb, at_c, count)

        if whole == rows:
            some(0, rows)
        else:
            fn.loop(0, whole, rows, lambda first, _: some(first, rows))
        if m % rows:
            some(whole, m % rows)

    fn.loop("%lo", "%hi", 1, one)


@dataclass(slots=True)
class _Block:
    """Rows of the result that are computed together, over all columns."""

    fn: FunctionText
    type: str
    size: int
    pieces: tuple[_Piece, ...]
    k: int
    a_row: str
    a_column: str
    b_row: str
    c_row: str

    def emit(self, a: str, b: str, c: str, rows: int) -> None:
        """`rows` rows from the pointers given."""
        fn = self.fn
        row_offsets = [fn.mul(self.a_row, row) for row in range(rows)]
        kinds = [self._type(piece) for piece in self.pieces] * rows
        sums: list[str] = ["zeroinitializer" if kind[0] == "<" else "0.0" for kind in kinds]
        if self.k <= _UNROLLED_K:
            for _ in range(self.k):
                sums = self._step(a, b, row_offsets, sums)
                a, b = fn.offset(a, self.a_column), fn.offset(b, self.b_row)
        else:

            def body(_: str, carried: list[str]) -> list[str]:
                at_a, at_b, *before = carried
                after = self._step(at_a, at_b, row_offsets, before)
                return [fn.offset(at_a, self.a_column), fn.offset(at_b, self.b_row), *after]

            first = [("ptr", a), ("ptr", b), *zip(kinds, sums, strict=True)]
            sums = fn.loop(0, self.k, 1, body, first)[2:]
        for row in range(rows):
            at = fn.offset(c, fn.mul(self.c_row, row))
            for position, piece in enumerate(self.pieces):
                self._store(sums[row * len(self.pieces) + position], at, piece)

    def _type(self, piece: _Piece) -> str:
        return self.type if piece.lanes == 1 else f"<{piece.lanes} x {self.type}>"

    def _suffix(self, piece: _Piece) -> str:
        bits = f"f{8 * self.size}"
        return bits if piece.lanes == 1 else f"v{piece.lanes}{bits}"

    def _step(self, a: str, b: str, row_offsets: list[Value], sums: list[str]) -> list[str]:
        """All sums with the product of one column of A and one row of B added."""
        fn = self.fn
        vectors = [self._load(b, piece) for piece in self.pieces]
        result = []
        for row, amount in enumerate(row_offsets):
            scalar = fn.load(self.type, fn.offset(a, amount), self.size)
            for position, piece in enumerate(self.pieces):
                kind = self._type(piece)
                result.append(
                    fn.call(
                        kind,
                        f"llvm.fma.{self._suffix(piece)}",
                        (kind, self._splat(scalar, piece)),
                        (kind, vectors[position]),
                        (kind, sums[row * len(self.pieces) + position]),
                    )
                )
        return result

    def _splat(self, scalar: str, piece: _Piece) -> str:
        if piece.lanes == 1:
            return scalar
        kind = self._type(piece)
        one = self.fn.value(f"insertelement {kind} poison, {self.type} {scalar}, i32 0")
        zeros = f"<{piece.lanes} x i32> zeroinitializer"
        return self.fn.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def _mask(self, piece: _Piece) -> tuple[str, str]:
        bits = (f"i1 {str(lane < piece.columns).lower()}" for lane in range(piece.lanes))
        return f"<{piece.lanes} x i1>", "<" + ", ".join(bits) + ">"

    def _load(self, row: str, piece: _Piece) -> str:
        kind, place = self._type(piece), self.fn.offset(row, piece.first * self.size)
        if piece.columns == piece.lanes:
            return self.fn.load(kind, place, self.size)
        name = f"llvm.masked.load.{self._suffix(piece)}.p0"
        return self.fn.call(
            kind, name, (f"ptr align {self.size}", place), self._mask(piece),
            (kind, "zeroinitializer"),
        )  # fmt: skip

    def _store(self, value: str, row: str, piece: _Piece) -> None:
        kind, place = self._type(piece), self.fn.offset(row, piece.first * self.size)
        if piece.columns == piece.lanes:
            self.fn.store(kind, value, place, self.size)
            return
        name = f"llvm.masked.store.{self._suffix(piece)}.p0"
        self.fn.call(
            "void", name, (kind, value), (f"ptr align {self.size}", place), self._mask(piece)
        )
