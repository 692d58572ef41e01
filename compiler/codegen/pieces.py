"""Small arrays as a few vectors in registers: *pieces*, in C order.

A 0-d value is one piece of one lane. Any other array is cut into vectors of equally many lanes; in
the last one, lanes beyond the end repeat that vector's first lane, so that whatever is computed
from them is computed from numbers that the array has. Views, concatenations and broadcasts are
shuffles by positions that are known when code is emitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.op import Assembly, IndexMap, Pointwise, Reduction, get_op
from tapeline.runtime.spec import Shape, TensorSpec

Pieces: TypeAlias = tuple[Value, ...]
Positions: TypeAlias = npt.NDArray[np.int64]

GUARDED = frozenset(map(get_op, ("guarded_multiply", "guarded_product", "guarded_divide")))
"""Products and quotients that differ from the plain ones only where these are NaN."""

_FOLDS = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum",
    "any": "bit_or", "all": "bit_and",
}  # fmt: skip
_NEUTRAL = {"sum": 0, "prod": 1}

MOST_COLUMNS = 32
"""Elements that a reduction along some axes adds up for each result."""


def piece_count(spec: TensorSpec, lanes: int) -> int:
    """How many pieces an array has."""
    return -(-spec.size // lanes) if spec.shape else 1


def is_in_pieces(graph: Graph, node: int) -> bool:
    """Whether a node can be computed on pieces."""
    lowering = graph.ops[node].lowering
    spec = graph.specs[node]
    if not isinstance(spec, TensorSpec):
        return False
    inputs = [graph.spec(i) for i in graph.inputs[node]]
    match lowering:
        case Pointwise():
            return bool(inputs)
        case IndexMap():
            return True
        case Assembly():
            return all(given.dtype == spec.dtype for given in inputs)
        case Reduction(kind):
            columns = inputs[0].size // max(spec.size, 1)
            return kind in _FOLDS and bool(columns) and (spec.size == 1 or columns <= MOST_COLUMNS)
        case _:
            return False


class PieceBuilder:
    """Emits ops on pieces of `lanes` lanes."""

    def __init__(self, b: FunctionBuilder, lanes: int) -> None:
        self.b = b
        self.lanes = lanes

    # ---- memory

    def load(self, pointer: str, spec: TensorSpec) -> Pieces:
        """A dense array from memory."""
        code = code_of(spec.dtype)
        if not spec.shape:
            return (self.b.load(pointer, code),)
        found = []
        for start in range(0, spec.size, self.lanes):
            place = self.b.pointer_offset(pointer, start * size_of(code))
            left = min(spec.size - start, self.lanes)
            mask = self._mask(left)
            x = self.b.load(place, code, self.lanes, mask=mask)
            found.append(x if mask is None else self._repeated(x, left))
        return tuple(found)

    def store(self, pieces: Pieces, pointer: str, spec: TensorSpec) -> None:
        """Writes a dense array."""
        if not spec.shape:
            self.b.store(pieces[0], pointer)
            return
        for number, x in enumerate(pieces):
            start = number * self.lanes
            place = self.b.pointer_offset(pointer, start * spec.dtype.itemsize)
            self.b.store(x, place, mask=self._mask(min(spec.size - start, self.lanes)))

    def constant(self, array: npt.NDArray[Any], spec: TensorSpec) -> Pieces:
        """A known array."""
        code = code_of(spec.dtype)
        if not spec.shape:
            return (self.b.fixed(array.item(), code),)
        numbers = array.reshape(-1)
        if bool((numbers == numbers[:1]).all()):
            return (self.b.fixed(numbers[0].item(), code, self.lanes),) * piece_count(
                spec, self.lanes
            )
        rows = self._rows(np.arange(spec.size))
        return tuple(self.b.vector_constant(numbers[row].tolist(), code) for row in rows)

    def _mask(self, count: int) -> Value | None:
        """The first lanes; None where it is all of them."""
        if count == self.lanes:
            return None
        return self.b.vector_constant([lane < count for lane in range(self.lanes)], "b1")

    def _repeated(self, x: Value, count: int) -> Value:
        picks = [lane if lane < count else 0 for lane in range(self.lanes)]
        return self.b.shuffle(x, None, picks)

    def _rows(self, positions: Positions) -> Positions:
        """Positions of elements, one row per piece; lanes beyond the end repeat the first."""
        count = -(-positions.size // self.lanes)
        rows = np.empty(count * self.lanes, np.int64)
        rows[: positions.size] = positions
        rows[positions.size :] = rows[(count - 1) * self.lanes]
        return rows.reshape(count, self.lanes)

    # ---- moving elements

    def picked(self, pieces: Pieces, positions: Positions) -> Pieces:
        """The elements at these positions, an array of more than 0 dimensions."""
        if pieces[0].lanes == 1:
            spread = self.b.splat(pieces[0], self.lanes)
            return (spread,) * -(-positions.size // self.lanes)
        return tuple(self._gathered(pieces, row) for row in self._rows(positions.reshape(-1)))

    def element(self, pieces: Pieces, position: int) -> Value:
        """One element."""
        if pieces[0].lanes == 1:
            return pieces[0]
        return self.b.lane(pieces[position // self.lanes], position % self.lanes)

    def _gathered(self, pieces: Pieces, row: Positions) -> Value:
        """One vector of elements from any pieces."""
        homes, places = row // self.lanes, row % self.lanes
        if bool((homes == homes[0]).all()) and bool((places == np.arange(self.lanes)).all()):
            return pieces[int(homes[0])]
        numbers: list[int] = list(dict.fromkeys(homes.tolist()))
        first, *others = numbers
        picks = [
            int(place) if home == first else -1 for home, place in zip(homes, places, strict=True)
        ]
        if not others:
            return self.b.shuffle(pieces[first], None, picks)
        found = pieces[first]
        for number in others:
            mine = homes == number
            picks = [
                self.lanes + int(place) if own else pick
                for pick, place, own in zip(picks, places, mine, strict=True)
            ]
            found = self.b.shuffle(found, pieces[number], picks)
            picks = [-1 if pick < 0 else lane for lane, pick in enumerate(picks)]
        return found

    def spread(self, pieces: Pieces, shape: Shape, target: Shape) -> Pieces:
        """The array broadcast to another shape."""
        if shape == target:
            return pieces
        return self.picked(pieces, np.broadcast_to(_positions(shape), target))

    # ---- ops

    def apply(self, graph: Graph, node: int, inputs: Sequence[Pieces]) -> Pieces:
        """What a node computes (see `is_in_pieces`)."""
        op, spec = graph.ops[node], graph.spec(node)
        given = [graph.spec(i) for i in graph.inputs[node]]
        match op.lowering:
            case Pointwise(emit):
                return self._pointwise(graph, node, emit, inputs)
            case IndexMap():
                positions = op.kernel(_positions(given[0].static_shape), *graph.attrs[node])
                return self._viewed(inputs[0], np.asarray(positions), spec)
            case Assembly():
                return self._assembled(graph, node, inputs)
            case Reduction(kind):
                axes = cast(tuple[int, ...], graph.attrs[node][0])
                return self._reduced(kind, axes, inputs[0], given[0], spec)
        raise AssertionError(op.name)

    def _viewed(self, pieces: Pieces, positions: Positions, spec: TensorSpec) -> Pieces:
        if not spec.shape:
            return (self.element(pieces, int(positions)),)
        return self.picked(pieces, positions)

    def _pointwise(self, graph: Graph, node: int, emit: Any, inputs: Sequence[Pieces]) -> Pieces:
        b, attrs, spec = self.b, graph.attrs[node], graph.spec(node)
        if not spec.shape:
            rows = [tuple(pieces[0] for pieces in inputs)]
        else:
            shapes = [graph.spec(i).static_shape for i in graph.inputs[node]]
            spread = [
                self.spread(pieces, shape, spec.static_shape)
                for pieces, shape in zip(inputs, shapes, strict=True)
            ]
            rows = list(zip(*spread, strict=True))
        op = graph.ops[node]
        if op not in GUARDED:
            return tuple(b.emit_op(emit, *row, *attrs) for row in rows)
        plain_of = b.div if op is get_op("guarded_divide") else b.mul
        plain = [plain_of(*row) for row in rows]
        wrong = b.is_nan(plain[0])
        for x in plain[1:]:
            wrong = b.bit_or(wrong, b.is_nan(x))
        return tuple(b.rare(wrong, lambda *_: [emit(b, *row) for row in rows], plain))

    def _assembled(self, graph: Graph, node: int, inputs: Sequence[Pieces]) -> Pieces:
        op, spec = graph.ops[node], graph.spec(node)
        assert isinstance(op.lowering, Assembly)
        given = [graph.spec(i) for i in graph.inputs[node]]
        positions = np.zeros(spec.static_shape, np.int64)
        sources: list[Value] = []
        starts: dict[int, int] = {}
        for part in op.lowering.parts(given, graph.attrs[node]):
            if part.fill is not None:
                positions[part.region] = len(sources) * self.lanes
                sources.append(self.b.fixed(part.fill, code_of(spec.dtype), self.lanes))
                continue
            start = starts.get(part.source)
            if start is None:
                start = starts[part.source] = len(sources) * self.lanes
                pieces = inputs[part.source]
                sources += [self.b.splat(x, self.lanes) for x in pieces]
            positions[part.region] = start + _positions(given[part.source].static_shape)
        return self.picked(tuple(sources), positions)

    # ---- reductions

    def _reduced(
        self, kind: str, axes: tuple[int, ...], pieces: Pieces, given: TensorSpec, spec: TensorSpec
    ) -> Pieces:
        if kind in ("any", "all"):
            zero = self.b.const(0, pieces[0])
            if given.dtype.kind != "b":
                pieces = tuple(self.b.compare("ne", x, zero) for x in pieces)
        elif given.dtype != spec.dtype:
            pieces = tuple(self.b.cast(x, spec.dtype) for x in pieces)
        if given.size == 1:
            return self._viewed(pieces, np.zeros(spec.static_shape, np.int64), spec)
        if spec.size == 1:
            total = self._total(kind, pieces, given.size)
            return (total,) if not spec.shape else (self.b.splat(total, self.lanes),)
        order = [axis for axis in range(given.ndim) if axis not in axes] + list(axes)
        rows = _positions(given.static_shape).transpose(order).reshape(spec.size, -1)
        columns = [self.picked(pieces, rows[:, k]) for k in range(rows.shape[1])]
        fold = getattr(self.b, _FOLDS[kind])
        while len(columns) > 1:
            pairs = zip(columns[::2], columns[1::2], strict=False)
            folded = [
                tuple(fold(x, y) for x, y in zip(left, right, strict=True)) for left, right in pairs
            ]
            columns = folded + columns[len(columns) - len(columns) % 2 :]
        return columns[0]

    def _total(self, kind: str, pieces: Pieces, size: int) -> Value:
        """All elements folded into one number."""
        b, fold = self.b, getattr(self.b, _FOLDS[kind])
        left = size % self.lanes
        if left and kind in _NEUTRAL:
            neutral = b.const(_NEUTRAL[kind], pieces[-1])
            picks = [lane if lane < left else self.lanes + lane for lane in range(self.lanes)]
            pieces = (*pieces[:-1], b.shuffle(pieces[-1], neutral, picks))
        found = list(pieces)
        while len(found) > 1:
            folded = [fold(x, y) for x, y in zip(found[::2], found[1::2], strict=False)]
            found = folded + found[len(found) - len(found) % 2 :]
        total = b.horizontal(fold, found[0])
        return b.add(total, b.const(0, total)) if kind == "sum" else total


def _positions(shape: Shape) -> Positions:
    """The position of each element in C order."""
    return np.arange(math.prod(shape)).reshape(shape)
