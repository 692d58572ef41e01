"""ONNX rules of single ops: those that have no lowering, and those for which ONNX has a better form
than the lowering gives. An op that is in neither table of this package cannot be exported.

A rule returns None where it does not serve (a dtype without kernel), and the lowering is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tapeline.compiler.codegen import philox
from tapeline.compiler.export.decompositions import ARBITRARY_SIGNS, DECOMPOSITIONS
from tapeline.compiler.export.onnx.model import INT64, OnnxGraph, Ref, is_open
from tapeline.compiler.export.onnx.rules import Use, reduce, spread, take_places
from tapeline.compiler.export.onnx.scalar import BOOL, INT32, OnnxScalars, computing_dtype
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor

FLOAT32 = np.dtype(np.float32)

NamedRule = Callable[[Use], "Ref | list[Ref] | None"]


def _reshape(use: Use) -> Ref:
    return use.graph.reshape(use.inputs[0], use.shape)


def _broadcast_to(use: Use) -> Ref:
    return spread(use, use.inputs[0], use.shape)


def _permute_dims(use: Use) -> Ref:
    return use.graph.add("Transpose", use.inputs[0], perm=list(cast(Any, use.attrs[0])))


def _slice(use: Use, x: Ref, cuts: list[tuple[int, int, int, int]]) -> Ref:
    """x cut along axes: (axis, start, stop, step) each."""
    if not cuts:
        return x
    axes, starts, stops, steps = (use.graph.ints(numbers) for numbers in zip(*cuts, strict=True))
    return use.graph.add("Slice", x, starts, stops, axes, steps)


_BEFORE_ALL = -(2**31)
"""Where a slice that runs backwards to the first element ends."""


def _flip(use: Use) -> Ref | None:
    axes = cast("tuple[int, ...]", use.attrs[0])
    return _slice(use, use.inputs[0], [(axis, -1, _BEFORE_ALL, -1) for axis in axes])


def _getitem(use: Use) -> Ref | None:
    if not use.outputs[0].size:
        return use.graph.constant(np.zeros(use.shape, use.dtype))
    cuts = []
    axis = 0
    for entry in cast("tuple[Any, ...]", use.attrs[0]):
        if entry is None:
            continue
        if type(entry) is not tuple:
            cuts.append((axis, entry, entry + 1, 1))
        elif entry[1] is not None:
            _, start, stop, step = entry
            cuts.append((axis, start, _BEFORE_ALL if stop is None else stop, step))
        axis += 1
    return use.graph.reshape(_slice(use, use.inputs[0], cuts), use.shape)


def _getitem_grad(use: Use) -> Ref | None:
    """Zeros around what was cut out, where a size is open and no element was left out between."""
    index, shape = cast("tuple[Any, tuple[int, ...]]", use.attrs)
    if not any(is_open(extent) for extent in shape):
        return None
    low, high, inner = [], [], []
    entries = [entry for entry in index if entry is not None]
    entries += [("slice", None, None, None)] * (len(shape) - len(entries))
    cuts = []
    for axis, (entry, extent) in enumerate(zip(entries, shape, strict=True)):
        start, stop, step = (entry, entry + 1, 1) if type(entry) is not tuple else entry[1:]
        if start is None:
            start, stop, step = 0, extent, 1
        elif step == -1 and stop is None:
            start, stop, step = 0, start + 1, 1
            cuts.append((axis, -1, _BEFORE_ALL, -1))
        if step != 1:
            return None
        low.append(start)
        high.append(extent - stop)
        inner.append(stop - start)
    rows = _slice(use, use.graph.reshape(use.inputs[0], inner), cuts)
    zero = use.graph.constant(np.zeros((), use.dtype))
    return use.graph.add("Pad", rows, use.graph.ints([*low, *high]), zero, mode="constant")


def _concat(use: Use) -> Ref:
    return use.graph.add("Concat", *use.inputs, axis=cast(int, use.attrs[0]))


def _pad(use: Use) -> Ref | None:
    if not use.specs[0].size or not use.shape:
        return None
    pads, value = cast("tuple[Any, Any]", use.attrs)
    wide = computing_dtype(use.dtype)
    ends = [low for low, _ in pads] + [high for _, high in pads]
    fill = use.graph.cast(use.graph.constant(np.asarray(value).astype(use.dtype)), wide)
    x = use.graph.cast(use.inputs[0], wide)
    found = use.graph.add("Pad", x, use.graph.ints(ends), fill, mode="constant")
    return use.graph.cast(found, use.dtype)


def _diagonal_grad(use: Use) -> Ref:
    """Where each element goes, the kernel says for their numbers; place 0 is a zero."""
    numbers = np.arange(1, use.specs[0].size + 1).reshape(use.shape_of(0))
    places = np.asarray(use.op.kernel(numbers, *use.attrs))
    zero = use.graph.constant(np.zeros(1, use.dtype))
    return take_places(use, use.graph.add("Concat", zero, use.flat(0), axis=0), places)


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


def _order(use: Use, keys: Ref, axis: int, largest: bool) -> Ref:
    """Where the elements would be taken from to stand in order; equal ones keep theirs."""
    count = use.graph.ints([use.shape_of(0)[axis]])
    wide = computing_dtype(keys.dtype)
    shifted = use.graph.cast(keys, wide)
    if keys.dtype == np.uint64:
        shifted = use.scalars.add(shifted, use.graph.constant(np.int64(-(2**63))))
    _, places = use.graph.add_many(
        "TopK", [shifted, count], [wide, INT64], axis=axis, largest=int(largest), sorted=1
    )
    return places


def _argsort(use: Use) -> Ref:
    """NaN counts as largest: numbers are ordered first, then NaN moved to the end."""
    if not use.specs[0].size or not use.shape:
        return use.graph.constant(np.zeros(use.shape, np.int64))
    axis, descending = cast("tuple[int, bool]", use.attrs)
    x = use.inputs[0]
    if x.dtype.kind != "f":
        return _order(use, x, axis, descending)
    graph, scalars = use.graph, use.scalars
    is_number = scalars.compare("eq", x, x)
    order = _order(use, scalars.select(is_number, x, scalars.const(0, x)), axis, descending)
    invalid = graph.cast(scalars.bit_not(is_number), INT32)
    moved = graph.add("GatherElements", invalid, order, axis=axis)
    return graph.add("GatherElements", order, _order(use, moved, axis, descending), axis=axis)


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


def _integer_power(use: Use) -> Ref:
    """By squaring, bit by bit of the exponent, in a loop of one turn per bit."""
    graph, dtype = use.graph, use.dtype
    base, exponent = (spread(use, x, use.shape) for x in use.inputs)
    body = OnnxGraph(graph)
    scalars = OnnxScalars(body)
    specs = [TensorSpec((), INT64), TensorSpec((), BOOL), *[use.outputs[0]] * 3]
    names = ("turn", "going", "base", "exponent", "power")
    given = [Ref(body.name(n), s.dtype) for n, s in zip(names, specs, strict=True)]
    _, going, x, left, power = given
    one = scalars.const(1, x)
    is_odd = scalars.cast(scalars.bit_and(left, one), BOOL)
    found = [
        body.add("Identity", going), scalars.mul(x, x), scalars.shift_right(left, one),
        scalars.select(is_odd, scalars.mul(power, x), power),
    ]  # fmt: skip
    attribute = body.body(
        graph.name("body"), list(zip(given, specs, strict=True)),
        list(zip(found, specs[1:], strict=True)),
    )  # fmt: skip
    turns = graph.constant(np.int64(8 * dtype.itemsize))
    start = spread(use, graph.constant(np.ones((), dtype)), use.shape)
    state = [turns, graph.constant(np.array(True)), base, exponent, start]
    return graph.add_many("Loop", state, [dtype] * 3, body=attribute)[2]


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


def _random_bits(use: Use) -> Ref:
    """Philox 4x64 with ten rounds, all blocks side by side."""
    count = use.outputs[0].size
    graph, b = use.graph, use.scalars
    if not count:
        return graph.constant(np.zeros(use.shape, np.uint64))
    key, counter = use.inputs

    def word(source: Ref, place: int) -> Ref:
        return graph.add("Gather", source, graph.constant(np.int64(place)), axis=0)

    amount = graph.constant(np.arange(1, -(-count // 4) + 1, dtype=np.uint64))
    words = []
    for place in range(4):
        total = b.add(word(counter, place), amount)
        words.append(total)
        amount = b.cast(b.compare("lt", total, amount), total.dtype)
    keys = [word(key, 0), word(key, 1)]
    for number in range(philox.ROUNDS):
        if number:
            keys = [b.add(k, b.const(s, k)) for k, s in zip(keys, philox.KEY_STEPS, strict=True)]
        (high_a, low_a), (high_c, low_c) = (
            _wide_product(b, words[place], factor)
            for place, factor in zip((0, 2), philox.MULTIPLIERS, strict=True)
        )
        words = [
            b.bit_xor(b.bit_xor(high_c, words[1]), keys[0]), low_c,
            b.bit_xor(b.bit_xor(high_a, words[3]), keys[1]), low_a,
        ]  # fmt: skip
    columns = [graph.reshape(one, (-1, 1)) for one in words]
    row = graph.reshape(graph.add("Concat", *columns, axis=1), (-1,))
    first = graph.add("Slice", row, graph.ints([0]), graph.ints([count]))
    return graph.reshape(first, use.shape)


def _wide_product(b: OnnxScalars, x: Ref, factor: int) -> tuple[Ref, Ref]:
    """The high and the low word of a product of 64-bit words, by halves."""
    half, mask = b.const(32, x), b.const(2**32 - 1, x)
    low, high = b.bit_and(x, mask), b.shift_right(x, half)
    f_low, f_high = b.const(factor & (2**32 - 1), x), b.const(factor >> 32, x)
    low_low, high_low = b.mul(low, f_low), b.mul(high, f_low)
    low_high, high_high = b.mul(low, f_high), b.mul(high, f_high)
    middle = b.add(b.add(b.shift_right(low_low, half), b.bit_and(high_low, mask)), low_high)
    top = b.add(b.add(high_high, b.shift_right(high_low, half)), b.shift_right(middle, half))
    return top, b.mul(x, b.const(factor, x))


# ---- effects


def _left_out(use: Use) -> Ref:
    use.graph.note(f"{use.op.name} is left out: ONNX models neither check nor print")
    return use.graph.constant(np.array(True))


def _either_sign(use: Use) -> None:
    """Tells what a decomposition leaves open."""
    use.graph.note(f"{use.op.name} gives vectors whose signs may differ from NumPy's")


NAMED: dict[str, NamedRule] = {
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "broadcast_to": _broadcast_to,
    "permute_dims": _permute_dims,
    "flip": _flip,
    "getitem": _getitem,
    "getitem_grad": _getitem_grad,
    "concat": _concat,
    "pad": _pad,
    "diagonal_grad": _diagonal_grad,
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
    "integer_power": _integer_power,
    "random_bits": _random_bits,
    "fold_windows": _fold_windows,
    "host_assert": _left_out,
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
