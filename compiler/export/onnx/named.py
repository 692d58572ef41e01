"""ONNX rules of single ops: those that have no lowering, and those for which ONNX has a better form
than the lowering gives. An op that is in neither table of this package cannot be exported.

A rule returns None where it does not serve (a dtype without kernel), and the lowering is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tapeline.compiler.export.decompositions import ARBITRARY_SIGNS, DECOMPOSITIONS
from tapeline.compiler.export.onnx.integers import INTEGERS
from tapeline.compiler.export.onnx.model import INT64, Ref, is_open
from tapeline.compiler.export.onnx.rules import NamedRule, Use, reduce, spread
from tapeline.compiler.export.onnx.scalar import INT32, computing_dtype
from tapeline.compiler.export.onnx.views import VIEWS
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor

FLOAT32 = np.dtype(np.float32)

# ---- networks


def _mean(use: Use) -> Ref | None:
    axes = cast("tuple[int, ...]", use.attrs[0])
    if not axes or not use.specs[0].size:
        return None
    x = use.scalars.cast(use.inputs[0], use.dtype)
    return use.graph.add("ReduceMean", x, use.graph.ints(axes), keepdims=int(bool(use.attrs[1])))


def _variance(use: Use) -> Ref | None:
    """By the mean of squares, where the number of elements is open."""
    axes, keepdims, correction = cast("tuple[tuple[int, ...], bool, float]", use.attrs)
    count = math.prod(use.shape_of(0)[axis] for axis in axes)
    if not is_open(count):
        return None
    graph, b = use.graph, use.scalars
    x = b.cast(use.inputs[0], use.dtype)
    row = graph.ints(axes)
    apart = b.sub(x, graph.add("ReduceMean", x, row, keepdims=1))
    found = graph.add("ReduceMean", b.mul(apart, apart), row, keepdims=int(bool(keepdims)))
    if correction:
        whole = graph.cast(graph.reshape(graph.ints([count]), ()), use.dtype)
        found = b.mul(found, b.div(whole, b.sub(whole, b.const(correction, whole))))
    return found


def _deviation(use: Use) -> Ref | None:
    found = _variance(use)
    return None if found is None else use.scalars.sqrt(found)


def _softmax(kind: str) -> NamedRule:
    def rule(use: Use) -> Ref | None:
        if not use.shape or not use.specs[0].size:
            return None
        axis = cast(int, use.attrs[0])
        return use.graph.add(kind, use.inputs[0], axis=axis)

    return rule


def _relu(use: Use) -> Ref:
    return use.graph.add("Relu", use.inputs[0])


def _channels_first(use: Use, x: Ref) -> Ref:
    rank = len(use.shape)
    return use.graph.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])


def _channels_last(use: Use, x: Ref) -> Ref:
    rank = len(use.shape)
    return use.graph.add("Transpose", x, perm=[0, *range(2, rank), 1])


def _conv(use: Use) -> Ref | None:
    if use.dtype != FLOAT32 or len(use.shape) < 3 or not use.outputs[0].size:
        return None
    if not use.specs[0].size * use.specs[1].size:
        return None
    strides, pads, dilations, groups = cast("tuple[Any, ...]", use.attrs)
    rank = len(use.shape)
    weight = use.graph.add("Transpose", use.inputs[1], perm=[rank - 1, rank - 2, *range(rank - 2)])
    found = use.graph.add(
        "Conv", _channels_first(use, use.inputs[0]), weight, strides=list(strides),
        pads=[low for low, _ in pads] + [high for _, high in pads], dilations=list(dilations),
        group=groups,
    )  # fmt: skip
    return _channels_last(use, found)


def _max_pool(use: Use) -> Ref | None:
    start, sizes, strides, dilations = cast("tuple[Any, ...]", use.attrs)
    rank = len(use.shape)
    fits = start == 1 and len(sizes) == rank - 2 and use.specs[0].size and use.outputs[0].size
    if use.dtype != FLOAT32 or not fits:
        return None
    found = use.graph.add(
        "MaxPool", _channels_first(use, use.inputs[0]), kernel_shape=list(sizes),
        strides=list(strides), dilations=list(dilations),
    )  # fmt: skip
    return _channels_last(use, found)


# ---- along an axis


def _cumulative(kind: str) -> NamedRule:
    def rule(use: Use) -> Ref:
        axis = use.graph.constant(np.int64(cast(int, use.attrs[0])))
        wide = computing_dtype(use.dtype)
        x = use.graph.cast(use.scalars.cast(use.inputs[0], use.dtype), wide)
        if not use.specs[0].size:
            return use.graph.cast(x, use.dtype)
        return use.graph.cast(use.graph.add(kind, x, axis), use.dtype)

    return rule


def _order(use: Use, keys: Ref, extent: int, axis: int, largest: bool) -> Ref:
    """Where the elements would be taken from to stand in order; equal ones keep theirs."""
    count = use.graph.ints([extent])
    wide = computing_dtype(keys.dtype)
    shifted = use.graph.cast(keys, wide)
    if keys.dtype == np.uint64:
        shifted = use.scalars.add(shifted, use.graph.constant(np.int64(-(2**63))))
    _, places = use.graph.add_many(
        "TopK", [shifted, count], [wide, INT64], axis=axis, largest=int(largest), sorted=1
    )
    return places


def _argsort(use: Use) -> Ref:
    axis, descending = cast("tuple[int, bool]", use.attrs)
    return argsort(use, use.inputs[0], use.shape_of(0), axis, descending)


def argsort(use: Use, x: Ref, shape: Shape, axis: int, descending: bool = False) -> Ref:
    """Where the elements of x would be taken from to stand in order. NaN counts as largest: numbers
    are ordered first, then NaN moved to the end."""
    if not math.prod(shape) or not shape:
        return use.graph.constant(np.zeros(shape, np.int64))
    extent = shape[axis]
    if x.dtype.kind != "f":
        return _order(use, x, extent, axis, descending)
    graph, scalars = use.graph, use.scalars
    is_number = scalars.compare("eq", x, x)
    order = _order(use, scalars.select(is_number, x, scalars.const(0, x)), extent, axis, descending)
    invalid = graph.cast(scalars.bit_not(is_number), INT32)
    moved = graph.add("GatherElements", invalid, order, axis=axis)
    return graph.add(
        "GatherElements", order, _order(use, moved, extent, axis, descending), axis=axis
    )


def _sort(use: Use) -> Ref:
    if not use.specs[0].size or not use.shape:
        return use.inputs[0]
    axis = cast(int, use.attrs[0])
    return use.graph.add("GatherElements", use.inputs[0], _argsort(use), axis=axis)


def _searchsorted(use: Use) -> Ref:
    """How many elements stand before: all are compared with all."""
    row, values = use.inputs
    count = use.specs[0].size
    if not count or not use.outputs[0].size:
        return use.graph.constant(np.zeros(use.shape, np.int64))
    each = use.graph.reshape(values, (*use.shape_of(1), 1))
    before = use.scalars.compare("lt" if use.attrs[0] == "left" else "le", row, each)
    return reduce(use, "sum", use.graph.cast(before, INT64), (len(use.shape),), False)


def _isin(use: Use) -> Ref:
    if not use.specs[0].size or not use.specs[1].size:
        return use.graph.constant(np.full(use.shape, bool(use.attrs[0])))
    each = use.graph.reshape(use.inputs[0], (*use.shape_of(0), 1))
    equal = use.scalars.compare("eq", each, use.flat(1))
    found = reduce(use, "any", equal, (len(use.shape),), False)
    return use.scalars.bit_not(found) if use.attrs[0] else found


# ---- writes


def _put(use: Use) -> Ref:
    """The last write to a place is the one that stays, as runtimes do not promise an order."""
    x, places, value = use.inputs
    graph = use.graph
    count = use.specs[1].size
    if not use.specs[0].size or not count:
        return x
    rows = graph.reshape(graph.cast(places, INT64), (count,))
    lasting = _lasting(use, rows, count, use.specs[0].size)
    order = graph.reshape(graph.add("NonZero", lasting, dtype=INT64), (-1,))
    values = graph.reshape(spread(use, value, use.shape_of(1)), (count,))
    written = graph.add(
        "ScatterElements", use.flat(0), graph.add("Gather", rows, order),
        graph.add("Gather", values, order), axis=0,
    )  # fmt: skip
    return graph.reshape(written, use.shape)


def _lasting(use: Use, rows: Ref, count: int, size: int) -> Ref:
    """Which writes are not overwritten by a later one."""
    graph = use.graph
    order = graph.numbers(count)
    start = use.scalars.sub(graph.zeros((size,), INT64), graph.constant(np.int64(1)))
    last = graph.add("ScatterElements", start, rows, order, axis=0, reduction="max")
    return use.scalars.compare("eq", graph.add("Gather", last, rows), order)


def _last_writes(use: Use) -> Ref:
    count = use.specs[0].size
    if not count:
        return use.graph.constant(np.zeros(use.shape, bool))
    rows = use.graph.reshape(use.graph.cast(use.inputs[0], INT64), (count,))
    return use.graph.reshape(_lasting(use, rows, count, cast(int, use.attrs[0])), use.shape)


def _fold_windows(use: Use) -> Ref:
    """Elements added up at their places, which the windows of all places say."""
    window, shape = use.attrs[:4], cast("tuple[int, ...]", use.attrs[4])
    places = np.arange(int(np.prod(shape))).reshape(shape)
    index = np.asarray(get_op("windows").kernel(places, *window)).reshape(-1)
    wide = computing_dtype(use.dtype)
    start = use.graph.constant(np.zeros(places.size, wide))
    if not index.size:
        return use.graph.constant(np.zeros(use.shape, use.dtype))
    found = use.graph.add(
        "ScatterElements", start, use.graph.constant(index), use.graph.cast(use.flat(0), wide),
        dtype=wide, axis=0, reduction="add",
    )  # fmt: skip
    return use.graph.reshape(use.graph.cast(found, use.dtype), use.shape)


# ---- effects


def _left_out(use: Use) -> Ref:
    use.graph.note(f"{use.op.name} is left out: ONNX models neither check nor print")
    return use.graph.constant(np.array(True))


def _either_sign(use: Use) -> None:
    """Tells what a decomposition leaves open."""
    use.graph.note(f"{use.op.name} gives vectors whose signs may differ from NumPy's")


NAMED: dict[str, NamedRule] = {
    **VIEWS,
    **INTEGERS,
    "mean": _mean,
    "var": _variance,
    "std": _deviation,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "relu": _relu,
    "conv": _conv,
    "max_pool": _max_pool,
    "cumulative_sum": _cumulative("CumSum"),
    "cumulative_prod": _cumulative("CumProd"),
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "isin": _isin,
    "put": _put,
    "last_writes": _last_writes,
    "fold_windows": _fold_windows,
    "host_assert": _left_out,
    "host_check": _left_out,
    "host_print": _left_out,
    **dict.fromkeys(ARBITRARY_SIGNS, _either_sign),
}


def _share_peaks(ct: Tensor, x: Tensor, out: Tensor, *attrs: Any) -> Any:
    """The gradient of a maximum over windows, by what each window's elements get of it."""
    start, sizes = cast("tuple[Any, Any]", attrs[:2])
    inner = tuple(range(start + len(sizes), start + 2 * len(sizes)))
    peaks, column = (apply(get_op("expand_dims"), one, attrs=(inner,)) for one in (out, ct))
    windows = apply(get_op("windows"), x, attrs=attrs)
    shares = apply(get_op("tie_shares"), windows, peaks, attrs=(inner,))
    return apply(get_op("fold_windows"), shares * column, attrs=(*attrs, x.shape))


TRACED: dict[str, Callable[..., Any]] = {
    "share_peaks": _share_peaks,
    "convolve": get_op("convolve").kernel,
    "convolve_weights": get_op("convolve_weights").kernel,
    **DECOMPOSITIONS,
}
"""Ops that are other ops put together, though not for codegen: as functions of tensors."""
