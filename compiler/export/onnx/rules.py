"""How each kind of lowering becomes ONNX nodes. An op that has one of these lowerings exports
without a rule of its own; `named` holds rules for single ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from tapeline.compiler.export.onnx.model import INT64, Array, OnnxGraph, Ref
from tapeline.compiler.export.onnx.scalar import BOOL, INT32, OnnxScalars, computing_dtype
from tapeline.runtime.errors import ExportError
from tapeline.runtime.op import (
    Assembly,
    Attrs,
    IndexMap,
    LibraryCall,
    Op,
    Pointwise,
    Reduction,
)
from tapeline.runtime.spec import DType, Shape, TensorSpec


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an op: where its nodes go, and what it takes and gives."""

    graph: OnnxGraph
    op: Op
    attrs: Attrs
    inputs: tuple[Ref, ...]
    specs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def scalars(self) -> OnnxScalars:
        """The builder for work element by element."""
        return OnnxScalars(self.graph)

    @property
    def shape(self) -> Shape:
        """The shape of the output."""
        return self.outputs[0].static_shape

    @property
    def dtype(self) -> DType:
        """The dtype of the output."""
        return self.outputs[0].dtype

    def shape_of(self, position: int) -> Shape:
        """The shape of an input."""
        return self.specs[position].static_shape

    def flat(self, position: int) -> Ref:
        """An input as a vector."""
        return self.graph.reshape(self.inputs[position], (self.specs[position].size,))


NamedRule: TypeAlias = Callable[[Use], "Ref | list[Ref] | None"]
"""A rule for one op; None where it does not serve, and the op's lowering is used."""


def translate(use: Use) -> Ref:
    """The output of an op by its lowering.

    Raises
    ------
    ExportError
        If there is no rule for it.
    """
    lowering = use.op.lowering
    if isinstance(lowering, Pointwise):
        return _pointwise(use, lowering)
    if isinstance(lowering, Reduction):
        return _reduction(use, lowering)
    if isinstance(lowering, IndexMap):
        return gathered(use)
    if isinstance(lowering, Assembly):
        return _assembly(use, lowering)
    if isinstance(lowering, LibraryCall):
        rule = _LIBRARY.get(lowering.name)
        if rule is not None:
            return rule(use)
    raise ExportError(f"there is no ONNX form of {use.op.name}")


def spread(use: Use, x: Ref, shape: Shape) -> Ref:
    """x broadcast to a shape."""
    return use.graph.add("Expand", x, use.graph.ints(shape))


# ---- element by element


def _pointwise(use: Use, lowering: Pointwise) -> Ref:
    result: Ref = lowering.emit(use.scalars, *use.inputs, *use.attrs)
    depends = result not in use.graph.shared.constants.values() or result in use.inputs
    return result if depends else spread(use, result, use.shape)


# ---- views, by a table of places


def gathered(use: Use) -> Ref:
    """A view as a lookup by a table of places, which the NumPy kernel makes of all places."""
    shape = tuple(int(extent) for extent in use.shape_of(0))
    places = np.arange(math.prod(shape)).reshape(shape)
    taken = np.asarray(use.op.kernel(places, *use.attrs))
    return take_places(use, use.flat(0), taken)


def take_places(use: Use, flat: Ref, places: Array) -> Ref:
    """The elements of a vector at these places."""
    if not places.size:
        return use.graph.constant(np.zeros(places.shape, flat.dtype))
    index = use.graph.constant(places.astype(np.int64))
    return use.graph.add("Gather", flat, index, axis=0)


def _assembly(use: Use, lowering: Assembly) -> Ref:
    """Parts side by side, as a lookup in all sources put in one row."""
    parts = lowering.parts(use.specs, use.attrs)
    starts = np.cumsum([0, *(spec.size for spec in use.specs)])
    fills: list[Any] = []
    places = np.zeros(use.shape, np.int64)
    for part in parts:
        if part.source >= 0:
            shape = use.shape_of(part.source)
            own = np.arange(use.specs[part.source].size).reshape(shape)
            places[part.region] = starts[part.source] + own
            continue
        places[part.region] = starts[-1] + len(fills)
        fills.append(part.fill)
    row = [use.flat(position) for position in range(len(use.inputs))]
    if fills:
        row.append(use.graph.constant(np.array(fills).astype(use.dtype)))
    return take_places(use, use.graph.add("Concat", *row, axis=0), places)


# ---- reductions

_REDUCTIONS = {
    "sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin",
    "any": "ReduceMax", "all": "ReduceMin",
}  # fmt: skip


def _reduction(use: Use, lowering: Reduction) -> Ref:
    axes = cast(tuple[int, ...], use.attrs[0])
    kind, (x,) = lowering.kind, use.inputs
    if kind in ("argmax", "argmin"):
        return _position(use, kind, axes)
    if kind in ("any", "all"):
        x = use.scalars.cast(x, BOOL)
    if kind in ("sum", "prod"):
        x = use.scalars.cast(x, use.dtype)
    if not axes:
        return use.graph.reshape(x, use.shape) if use.shape else x
    if not use.specs[0].size:
        if kind in ("max", "min"):
            return use.graph.constant(np.zeros(use.shape, use.dtype))
        neutral = {"sum": 0, "prod": 1, "any": False, "all": True}[kind]
        return use.graph.constant(np.full(use.shape, neutral, use.dtype))
    return reduce(use, kind, x, axes, bool(use.attrs[1]))


def reduce(use: Use, kind: str, x: Ref, axes: Sequence[int], keepdims: bool) -> Ref:
    """A reduction of some elements at least."""
    scalars, graph, dtype = use.scalars, use.graph, x.dtype
    wide = INT32 if dtype == BOOL else computing_dtype(dtype)
    shifted = dtype == np.uint64 and kind in ("max", "min")
    least = graph.constant(np.int64(-(2**63)))
    x = graph.cast(x, wide)
    if shifted:
        x = scalars.add(x, least)

    def run(what: str, value: Ref) -> Ref:
        return graph.add(what, value, graph.ints(axes), keepdims=int(keepdims))

    found = run(_REDUCTIONS[kind], x)
    if kind in ("max", "min") and dtype.kind == "f":
        invalid = run("ReduceMax", graph.cast(graph.add("IsNaN", x, dtype=BOOL), INT32))
        nan = graph.constant(np.array(np.nan, dtype))
        found = scalars.select(graph.cast(invalid, BOOL), nan, found)
    if shifted:
        found = scalars.add(found, least)
    return graph.cast(found, dtype)


def _position(use: Use, kind: str, axes: Sequence[int]) -> Ref:
    """The first place of the largest or smallest element; of a NaN, if there is one."""
    scalars, graph = use.scalars, use.graph
    x = use.inputs[0]
    axis = axes[0] if len(axes) == 1 else 0
    if len(axes) != 1:
        x = use.flat(0)
    if x.dtype == np.uint64:
        x = scalars.add(graph.cast(x, INT64), graph.constant(np.int64(-(2**63))))
    elif x.dtype.kind == "f":
        x = _ranked(use, x, kind)
    else:
        x = graph.cast(x, computing_dtype(x.dtype))
    found = graph.add(
        "ArgMax" if kind == "argmax" else "ArgMin", x, dtype=INT64, axis=axis, keepdims=0
    )
    return graph.reshape(found, use.shape)


def _ranked(use: Use, x: Ref, kind: str) -> Ref:
    """A NaN as the extreme value, and infinities one step inside of that."""
    scalars = use.scalars
    info = np.finfo(x.dtype)
    sign = 1.0 if kind == "argmax" else -1.0
    infinite = scalars.compare("eq", x, scalars.const(sign * np.inf, x))
    inside = scalars.select(infinite, scalars.const(sign * float(info.max), x), x)
    # The largest finite number ties with infinity only where both stand in one row.
    number = scalars.compare("eq", x, x)
    return scalars.select(number, inside, scalars.const(sign * np.inf, x))


# ---- products and lookups


def _matmul(use: Use) -> Ref:
    """Vectors are given as matrices: ONNX Runtime mistakes them beside a transposed operand."""
    a, b = use.inputs
    graph = use.graph
    vectors = [position for position in (0, 1) if len(use.shape_of(position)) == 1]
    if not use.specs[0].size * use.specs[1].size:
        return graph.constant(np.zeros(use.shape, use.dtype))
    wide = computing_dtype(a.dtype)
    if 0 in vectors:
        a = graph.reshape(a, (1, *use.shape_of(0)))
    if 1 in vectors:
        b = graph.reshape(b, (*use.shape_of(1), 1))
    found = graph.add("MatMul", graph.cast(a, wide), graph.cast(b, wide), dtype=wide)
    if vectors:
        found = graph.reshape(found, use.shape)
    return use.scalars.cast(found, use.dtype)


def from_front(use: Use, indices: Ref, size: int) -> Ref:
    """Indices as int64, counted from the front."""
    scalars = use.scalars
    wide = use.graph.cast(indices, INT64)
    if indices.dtype.kind == "u":
        return wide
    negative = scalars.compare("lt", wide, scalars.const(0, wide))
    moved = scalars.add(wide, use.graph.reshape(use.graph.ints([size]), ()))
    return scalars.select(negative, moved, wide)


def _take(use: Use) -> Ref:
    axis = cast(int, use.attrs[0])
    if not use.outputs[0].size:
        return use.graph.constant(np.zeros(use.shape, use.dtype))
    x, indices = use.inputs
    return use.graph.add("Gather", x, use.graph.cast(indices, INT64), axis=axis)


def _take_grad(use: Use) -> Ref:
    """Rows added up by index: the axis in front, added there, and brought back."""
    axis, size = cast(tuple[int, int], use.attrs)
    ct, indices = use.inputs
    graph = use.graph
    if not use.specs[0].size:
        return graph.zeros(use.shape, use.dtype)
    before, after = use.shape[:axis], use.shape[axis + 1 :]
    n_before, n_after = math.prod(before), math.prod(after)
    count = use.specs[1].size
    rows = graph.reshape(ct, (n_before, count, n_after))
    rows = graph.add("Transpose", rows, perm=[1, 0, 2])
    places = graph.reshape(from_front(use, indices, size), (count, 1))
    wide = computing_dtype(use.dtype)
    start = graph.zeros((size, n_before, n_after), wide)
    found = graph.add(
        "ScatterND", start, places, graph.cast(rows, wide), dtype=wide, reduction="add"
    )
    back = graph.add("Transpose", graph.cast(found, use.dtype), perm=[1, 0, 2])
    return graph.reshape(back, use.shape)


def _take_along_axis(use: Use) -> Ref:
    axis = cast(int, use.attrs[0])
    if not use.outputs[0].size:
        return use.graph.constant(np.zeros(use.shape, use.dtype))
    x, indices = use.inputs
    places = spread(use, from_front(use, indices, use.shape_of(0)[axis]), use.shape)
    own = list(use.shape)
    own[axis] = use.shape_of(0)[axis]
    return use.graph.add("GatherElements", spread(use, x, tuple(own)), places, axis=axis)


def _take_along_axis_grad(use: Use) -> Ref:
    axis, size = cast(tuple[int, int], use.attrs)
    ct, indices = use.inputs
    graph = use.graph
    wide = computing_dtype(use.dtype)
    start = graph.zeros(use.shape, wide)
    if not use.specs[0].size:
        return graph.zeros(use.shape, use.dtype)
    places = spread(use, from_front(use, indices, size), use.shape_of(0))
    found = graph.add(
        "ScatterElements", start, places, graph.cast(ct, wide), dtype=wide, axis=axis,
        reduction="add",
    )  # fmt: skip
    return graph.cast(found, use.dtype)


def _checked(use: Use) -> Ref:
    use.graph.note("indices are not checked: what is out of range is up to the runtime")
    return use.inputs[0]


def _wrapped(use: Use) -> Ref:
    use.graph.note("indices are not checked: what is out of range is up to the runtime")
    return from_front(use, use.inputs[0], cast(int, use.attrs[0]))


_LIBRARY = {
    "matmul": _matmul,
    "take": _take,
    "take_grad": _take_grad,
    "take_along_axis": _take_along_axis,
    "take_along_axis_grad": _take_along_axis_grad,
    "check_indices": _checked,
    "wrap_indices": _wrapped,
}
