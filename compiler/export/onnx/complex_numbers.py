"""Complex numbers in ONNX models, whose runtimes compute none: the real and the imaginary part are
values of their own inside, and a last axis of two at the border.

What moves or adds up elements is done to each part; bodies of ops on pairs are those that codegen
has; Fourier transforms are ONNX's own operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from tapeline.compiler.codegen.words import NoWords, Pair, Words
from tapeline.compiler.export.onnx.model import OnnxGraph, Ref
from tapeline.compiler.export.onnx.rules import Use, spread
from tapeline.runtime.errors import ExportError
from tapeline.runtime.op import Assembly, Attrs, IndexMap, Op, Pointwise, get_op
from tapeline.runtime.ops.pointwise import apply, call, to_real
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.spec import TensorSpec, spec_of

Value: TypeAlias = Ref | Pair
"""What stands for a tensor: one value, or two for a complex one."""

BY_PARTS = frozenset({
    "reshape", "expand_dims", "squeeze", "broadcast_to", "permute_dims", "flip", "getitem",
    "getitem_grad", "concat", "diagonal_grad", "fold_windows", "sum", "mean", "cumulative_sum",
    "take", "take_grad", "take_along_axis", "take_along_axis_grad", "put", "pad",
})  # fmt: skip
"""Ops that give for complex numbers what they give for each part: they move or add elements."""


def is_complex(specs: Iterable[TensorSpec]) -> bool:
    """Whether a complex number is among these."""
    return any(spec.dtype.kind == "c" for spec in specs)


def specs_of_parts(specs: Iterable[TensorSpec]) -> list[TensorSpec]:
    """The specs of the values that stand for tensors of these."""
    return [part for spec in specs for part in (_part(spec),) * (1 + is_complex([spec]))]


def _part(spec: TensorSpec) -> TensorSpec:
    return spec_of(cast(Any, spec.shape), to_real(spec.dtype)) if is_complex([spec]) else spec


def flat(values: Iterable[Value]) -> list[Ref]:
    """All values, pairs as their two."""
    return [one for value in values for one in (value if isinstance(value, Pair) else (value,))]


def grouped(refs: Iterable[Ref], specs: Iterable[TensorSpec]) -> list[Value]:
    """The other way: pairs where a spec is complex."""
    left = iter(refs)
    return [Pair(next(left), next(left)) if is_complex([s]) else next(left) for s in specs]


# ---- the border


def stacked_spec(spec: TensorSpec) -> TensorSpec:
    """The spec of a complex tensor in the inputs and outputs of a model."""
    return spec_of((*spec.static_shape, 2), to_real(spec.dtype)) if is_complex([spec]) else spec


def stacked_array(value: Any) -> Any:
    """An array as a model holds it."""
    if value.dtype.kind != "c":
        return value
    return np.stack([value.real, value.imag], axis=-1)


def unstacked(graph: OnnxGraph, ref: Ref, spec: TensorSpec) -> Value:
    """The parts of what came into a model."""
    if not is_complex([spec]):
        return ref
    rank = len(spec.static_shape)
    places = (graph.constant(np.int64(k)) for k in (0, 1))
    return Pair(*(graph.add("Gather", ref, place, axis=rank) for place in places))


def stacked(graph: OnnxGraph, value: Value) -> Ref:
    """The parts as one value with a last axis of two."""
    if not isinstance(value, Pair):
        return value
    columns = [graph.add("Unsqueeze", part, graph.ints([-1])) for part in value]
    return graph.add("Concat", *columns, axis=-1)


def constant(graph: OnnxGraph, value: Any) -> Value:
    """A value known beforehand."""
    if value.dtype.kind != "c":
        return graph.constant(value)
    return Pair(graph.constant(value.real), graph.constant(value.imag))


# ---- ops

RunOp: TypeAlias = Callable[[Op, Attrs, Sequence[Ref], Sequence[TensorSpec]], Ref]
"""Adds an op on real tensors."""


def translate_complex(use: Use, run: RunOp) -> Value | None:
    """The output of an op that takes or gives complex numbers; None where it is to be expanded.

    Raises
    ------
    ExportError
        If there is no rule for it.
    """
    name, lowering = use.op.name, use.op.lowering
    if name in ("fftn", "ifftn"):
        return _transform(use)
    if name == "matmul":
        return _product(use, run)
    if name in ("any", "all"):
        b, x = use.scalars, cast(Any, use.inputs[0])
        zero = b.const(0.0, x.re)
        found = b.bit_or(b.compare("ne", x.re, zero), b.compare("ne", x.im, zero))
        return run(use.op, use.attrs, [found], [spec_of(use.shape_of(0), found.dtype)])
    if name in BY_PARTS or isinstance(lowering, IndexMap | Assembly):
        return _by_parts(use, run)
    if isinstance(lowering, Pointwise):
        try:
            found = lowering.emit(Words(use.scalars, False), *use.inputs, *use.attrs)
        except NoWords:
            raise ExportError("it has no ONNX form for complex numbers") from None
        whole = [_whole(use, part) for part in flat([found])]
        return Pair(*whole) if isinstance(found, Pair) else whole[0]
    return None


def _whole(use: Use, part: Ref) -> Ref:
    """A part that is a number for all elements gets the shape."""
    is_number = part in use.graph.shared.constants.values() and part not in flat(use.inputs)
    return spread(use, part, use.shape) if is_number else part


def _by_parts(use: Use, run: RunOp) -> Pair:
    lowering = use.op.lowering
    filled = isinstance(lowering, Assembly) and use.op.name != "pad"
    if filled and any(part.fill for part in cast(Assembly, lowering).parts(use.specs, use.attrs)):
        raise ExportError("it fills complex arrays with numbers, for which there is no rule")
    specs = [_part(spec) for spec in use.specs]
    parts = []
    for number, read in enumerate((np.real, np.imag)):
        inputs = [value[number] if isinstance(value, Pair) else value for value in use.inputs]
        parts.append(run(use.op, tuple(_attr_of_part(a, read) for a in use.attrs), inputs, specs))
    return Pair(*parts)


def _attr_of_part(attr: Any, read: Callable[[Any], Any]) -> Any:
    if isinstance(attr, np.dtype):
        return to_real(attr) if attr.kind == "c" else attr
    return read(attr) if isinstance(attr, complex | np.complexfloating) else attr


def _product(use: Use, run: RunOp) -> Pair:
    """Four products of the parts."""
    b, specs = use.scalars, [_part(spec) for spec in use.specs]
    (a, c), (x, y) = (tuple(cast(Any, value)) for value in use.inputs)
    ax, cy, ay, cx = (
        run(use.op, use.attrs, pair, specs) for pair in ((a, x), (c, y), (a, y), (c, x))
    )
    return Pair(b.sub(ax, cy), b.add(ay, cx))


def _transform(use: Use) -> Value:
    """Axis by axis. An inverse transform is a forward one of conjugates: ONNX Runtime's own loses
    half of the digits of a double where a size is no power of two."""
    sizes, axes, norm = cast("tuple[tuple[int, ...], tuple[int, ...], str]", use.attrs)
    graph, b, inverse = use.graph, use.scalars, use.op.name == "ifftn"
    if not use.specs[0].size or not use.outputs[0].size:
        raise ExportError("there is no ONNX form of a Fourier transform of nothing")
    rank = len(use.shape)
    given = _conjugate(use, use.inputs[0]) if inverse else use.inputs[0]
    found = graph.add("Unsqueeze", stacked(graph, given), graph.ints([0]))
    for size, axis in zip(sizes, axes, strict=True):
        length = graph.constant(np.int64(size))
        place = graph.constant(np.int64(axis % rank + 1))
        found = graph.add("DFT", found, length, place)
    found = graph.add("Squeeze", found, graph.ints([0]))
    power = {"ortho": 0.5, "backward": float(inverse), "forward": float(not inverse)}[norm]
    if power:
        found = b.div(found, b.const(float(math.prod(sizes)) ** power, found))
    made = unstacked(graph, found, use.outputs[0])
    return _conjugate(use, made) if inverse else made


def _conjugate(use: Use, x: Any) -> Pair:
    return Pair(x.re, use.scalars.neg(x.im))


def rfft(x: Any, n: int, axis: int, norm: str) -> Any:
    """The half of a complex transform that tells the other."""
    wide = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)
    whole = apply(
        get_op("fftn"), call(get_op("cast"), x, attrs=(wide,)), attrs=((n,), (axis,), norm)
    )
    return slice_along(whole, axis, 0, n // 2 + 1)


def irfft(x: Any, n: int, axis: int, norm: str) -> Any:
    """The complex inverse of the whole, whose other half mirrors the one that is given."""
    count = n // 2 + 1
    pads = tuple((0, count - x.shape[a] if a == axis else 0) for a in range(len(x.shape)))
    if x.shape[axis] < count:
        x = call(get_op("pad"), x, attrs=(pads, 0))
    whole = slice_along(x, axis, 0, count)
    if n > count:
        other = call(get_op("flip"), slice_along(whole, axis, 1, n - n // 2), attrs=((axis,),))
        sizes = (axis, (count, n - count))
        whole = apply(get_op("concat"), whole, apply(get_op("conj"), other), attrs=sizes)
    return apply(get_op("real"), apply(get_op("ifftn"), whole, attrs=((n,), (axis,), norm)))


TRANSFORMS: dict[str, Callable[..., Any]] = {"rfft": rfft, "irfft": irfft}
"""Transforms from and to real numbers, by complex ones."""
