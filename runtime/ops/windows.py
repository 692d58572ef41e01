"""Sliding windows over some axes, as a view, and what is summed or maximized in each window.

The windowed axes stand side by side from axis `start` on. In the result of `windows` they hold the
places of the windows, and as many axes with the places inside of a window follow them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import (
    OUT,
    Attrs,
    Expansion,
    IndexMap,
    LibraryCall,
    Sample,
    ShapeOf,
    Trait,
    define_op,
)
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import batch_changed, larger_shape, next_axis
from tapeline.runtime.ops.extrema import MAX, TIE_SHARES
from tapeline.runtime.ops.joining import PAD
from tapeline.runtime.ops.permuting import PERMUTE_DIMS
from tapeline.runtime.ops.pointwise import apply, call, masked
from tapeline.runtime.ops.reduction import SUM
from tapeline.runtime.ops.shaping import BROADCAST_TO, EXPAND_DIMS, RESHAPE
from tapeline.runtime.ops.slicing import GETITEM, BasicIndex
from tapeline.runtime.spec import Shape, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor


class Window(NamedTuple):
    """Windows of a size per axis, `strides` apart, with elements `dilations` apart."""

    start: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first axis after the windowed ones."""
        return self.start + len(self.sizes)

    @property
    def inner_axes(self) -> tuple[int, ...]:
        """The axes of `windows` that lead through a window."""
        return tuple(range(self.end, self.end + len(self.sizes)))

    def is_tiling(self) -> bool:
        """Whether the windows lie side by side."""
        return self.strides == self.sizes and all(
            dilation == 1 or size == 1
            for size, dilation in zip(self.sizes, self.dilations, strict=True)
        )

    def reach(self) -> tuple[int, ...]:
        """How many elements each window spans along each axis."""
        return tuple(
            (size - 1) * dilation + 1
            for size, dilation in zip(self.sizes, self.dilations, strict=True)
        )

    def counts(self, shape: Shape) -> tuple[int, ...]:
        """How many windows lie along each axis."""
        extents = shape[self.start : self.end]
        return tuple(
            max((extent - reach) // stride + 1, 0)
            for extent, reach, stride in zip(extents, self.reach(), self.strides, strict=True)
        )

    def reduced_shape(self, shape: Shape) -> Shape:
        """The shape when each window becomes one element."""
        return (*shape[: self.start], *self.counts(shape), *shape[self.end :])

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """All places inside of a window."""
        return product(*[range(size) for size in self.sizes])

    def index_at(self, offset: tuple[int, ...], shape: Shape) -> BasicIndex:
        """The index of the elements that stand at one place of all windows."""
        entries: list[Any] = [("slice", None, None, None)] * self.start
        for axis, count in enumerate(self.counts(shape)):
            first = offset[axis] * self.dilations[axis]
            stride = self.strides[axis]
            entries.append(("slice", first, first + (count - 1) * stride + 1, stride))
        return tuple(entries)

    def check(self, op_name: str, shape: Shape) -> None:
        """An error where no window fits."""
        for reach, extent in zip(self.reach(), shape[self.start : self.end], strict=True):
            if reach > extent:
                raise ShapeError(
                    f"{op_name}: a window spans {self.reach()} elements and does not fit into "
                    f"{shape[self.start : self.end]}, the extents with padding"
                )


def window_of(attrs: Attrs) -> Window:
    """The first four attributes of the ops below."""
    return Window(*attrs[:4])  # type: ignore[arg-type]  # attributes are typed loosely


_NAMES = ("start", "sizes", "strides", "dilations")
_EACH = batch_changed(next_axis, None, None, None)
_SAMPLES = (
    Sample(((6,),), (0, (3,), (1,), (1,))),
    Sample(((1, 5, 4, 1),), (1, (2, 3), (1, 1), (1, 1))),
    Sample(((2, 7, 2),), (1, (2,), (2,), (3,))),
    Sample(((4, 5),), (0, (2, 2), (2, 3), (1, 1))),
    Sample(((2, 3, 2),), (1, (1,), (2,), (1,))),
)


# --- windows ---------------------------------------------------------------------------------


def _windows_kernel(x: Array, *attrs: Any) -> Array:
    window = Window(*attrs)
    window.check("windows", x.shape)
    before, outer = x.strides[: window.start], x.strides[window.start : window.end]
    strides = (
        *before,
        *[step * stride for step, stride in zip(outer, window.strides, strict=True)],
        *[step * dilation for step, dilation in zip(outer, window.dilations, strict=True)],
        *x.strides[window.end :],
    )
    shape = _windows_shape(window, x.shape)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _windows_shape(window: Window, shape: Shape) -> Shape:
    return (*shape[: window.start], *window.counts(shape), *window.sizes, *shape[window.end :])


def _windows_infer(x: TensorSpec, *attrs: Any) -> TensorSpec:
    window = Window(*attrs)
    window.check("windows", x.static_shape)
    return spec_of(_windows_shape(window, x.static_shape), x.dtype)


def _windows_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return masked(call(WINDOWS_GRAD, ct, attrs=(*attrs, shape)))


WINDOWS = define_op(
    "windows",
    kernel=_windows_kernel,
    infer=_windows_infer,
    attr_names=_NAMES,
    saves=(ShapeOf(0),),
    vjps=(_windows_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=_SAMPLES,
    batch=_EACH,
)
"""All windows, as a view in which an element appears once per window that holds it."""


def _inner_index(window: Window, offset: tuple[int, ...]) -> BasicIndex:
    return (*[("slice", None, None, None)] * window.end, *offset)


def _tiles(ct: Any, window: Window, shape: Shape) -> Any:
    """The same for windows that lie side by side: they only have to be put in order."""
    start, end, count = window.start, window.end, len(window.sizes)
    axes = [axis for k in range(count) for axis in (start + k, end + k)]
    order = (*range(start), *axes, *range(end + count, len(ct.shape)))
    extents = ct.shape[start:end]
    inner = [n * size for n, size in zip(extents, window.sizes, strict=True)]
    moved = call(PERMUTE_DIMS, ct, attrs=(order,))
    tiled = call(RESHAPE, moved, attrs=((*shape[:start], *inner, *shape[end:]),))
    rest = [(0, whole - n) for whole, n in zip(shape[start:end], inner, strict=True)]
    if not any(map(any, rest)):
        return tiled
    pads = (*[(0, 0)] * start, *rest, *[(0, 0)] * (len(shape) - end))
    return call(PAD, tiled, attrs=(pads, 0))


def _windows_grad_kernel(ct: Array, *attrs: Any) -> Array:
    window, shape = Window(*attrs[:4]), attrs[4]
    if window.is_tiling():
        return np.array(_tiles(ct, window, shape))
    out = np.zeros(shape, ct.dtype)
    for offset in window.offsets():
        place = GETITEM.kernel(out, window.index_at(offset, shape))
        place += GETITEM.kernel(ct, _inner_index(window, offset))
    return out


def _windows_grad_infer(ct: TensorSpec, *attrs: Any) -> TensorSpec:
    return spec_of(attrs[4], ct.dtype)


def _windows_grad_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(WINDOWS, ct, attrs=attrs[:4])


FOLD_WINDOWS = define_op(
    "fold_windows",
    kernel=_windows_grad_kernel,
    infer=_windows_grad_infer,
    attr_names=(*_NAMES, "shape"),
    vjps=(_windows_grad_vjp,),
    emit=LibraryCall("fold_windows"),
    kinds="iufc",
    ulp=(4.0, 4.0),
    samples=(
        Sample(((4, 3),), (0, (3,), (1,), (1,), (6,))),
        Sample(((1, 4, 2, 2, 3, 2),), (1, (2, 3), (1, 2), (1, 1), (1, 5, 5, 2))),
        Sample(((2, 2, 2, 2),), (1, (2,), (2,), (3,), (2, 7, 2))),
    ),
)
"""`windows_grad` in one piece."""


def _windows_grad_expand(ct: Tensor, *attrs: Any) -> Tensor:
    window, shape = Window(*attrs[:4]), attrs[4]
    if window.is_tiling():
        tiled: Tensor = _tiles(ct, window, shape)
        return tiled
    return apply(FOLD_WINDOWS, ct, attrs=attrs)


WINDOWS_GRAD = define_op(
    "windows_grad",
    kernel=_windows_grad_kernel,
    infer=_windows_grad_infer,
    attr_names=(*_NAMES, "shape"),
    vjps=(_windows_grad_vjp,),
    emit=Expansion(_windows_grad_expand),
    kinds="iufc",
    ulp=(4.0, 4.0),
    samples=(
        Sample(((4, 3),), (0, (3,), (1,), (1,), (6,))),
        Sample(((1, 2, 3, 2, 1, 2),), (1, (2, 1), (2, 1), (1, 1), (1, 5, 3, 2))),
        Sample(((2, 2, 2, 2),), (1, (2,), (2,), (3,), (2, 7, 2))),
        Sample(((1, 2, 1, 2, 3, 2),), (1, (2, 3), (2, 3), (1, 1), (1, 5, 3, 2))),
        Sample(((2, 3),), (0, (3,), (3,), (1,), (6,))),
    ),
    batch=batch_changed(next_axis, None, None, None, larger_shape),
)
"""Elements of windows added up at their places in `shape`: the transpose of `windows`."""


# --- sum and maximum of each window ----------------------------------------------------------


def _reduced_infer(x: TensorSpec, *attrs: Any) -> TensorSpec:
    window = Window(*attrs)
    window.check("pool", x.static_shape)
    return spec_of(window.reduced_shape(x.static_shape), x.dtype)


def _fold(function: Any, x: Array, window: Window) -> Array:
    """Slice by slice: each pass runs along whole rows."""
    window.check("pool", x.shape)
    out: Array | None = None
    for offset in window.offsets():
        part = GETITEM.kernel(x, window.index_at(offset, x.shape))
        out = part.copy() if out is None else function(out, part, out=out)
    assert out is not None
    return out


def _sum_kernel(x: Array, *attrs: Any) -> Array:
    return _fold(np.add, x, Window(*attrs))


def _spread_over(ct: Any, window: Window, shape: Shape) -> Any:
    """A cotangent of reduced windows for each element of them."""
    column = call(EXPAND_DIMS, ct, attrs=(window.inner_axes,))
    return call(BROADCAST_TO, column, attrs=(_windows_shape(window, shape),))


def _sum_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    wide = _spread_over(ct, window_of(attrs), shape)
    return masked(call(WINDOWS_GRAD, wide, attrs=(*attrs, shape)))


def _sum_expand(x: Tensor, *attrs: Any) -> Tensor:
    return apply(SUM, apply(WINDOWS, x, attrs=attrs), attrs=(Window(*attrs).inner_axes, False))


SUM_POOL = define_op(
    "sum_pool",
    kernel=_sum_kernel,
    infer=_reduced_infer,
    attr_names=_NAMES,
    saves=(ShapeOf(0),),
    vjps=(_sum_vjp,),
    emit=Expansion(_sum_expand),
    kinds="f",
    ulp=(4.0, 4.0),
    samples=_SAMPLES,
    batch=_EACH,
)
"""The sum of each window."""


def _max_kernel(x: Array, *attrs: Any) -> Array:
    return _fold(np.maximum, x, Window(*attrs))


def _max_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    return masked(call(MAX_POOL_GRAD, ct, x, out, attrs=attrs))


def _max_expand(x: Tensor, *attrs: Any) -> Tensor:
    return apply(MAX, apply(WINDOWS, x, attrs=attrs), attrs=(Window(*attrs).inner_axes, False))


MAX_POOL = define_op(
    "max_pool",
    kernel=_max_kernel,
    infer=_reduced_infer,
    attr_names=_NAMES,
    saves=(0, OUT),
    vjps=(_max_vjp,),
    emit=Expansion(_max_expand),
    kinds="f",
    samples=_SAMPLES,
    batch=_EACH,
)
"""The largest element of each window; the largest ones share its cotangent evenly."""


def _shares(x: Any, out: Any, attrs: Attrs) -> Any:
    """For each element of each window its share of the cotangent."""
    inner = window_of(attrs).inner_axes
    largest = call(EXPAND_DIMS, out, attrs=(inner,))
    return call(TIE_SHARES, call(WINDOWS, x, attrs=attrs), largest, attrs=(inner,))


def _max_grad_kernel(ct: Array, x: Array, out: Array, *attrs: Any) -> Array:
    """Slice by slice: count the equal ones, then hand out the shares. A NaN equals a NaN."""
    window = Window(*attrs)
    places = [window.index_at(offset, x.shape) for offset in window.offsets()]
    is_nan = out != out
    wins = []
    for place in places:
        part = GETITEM.kernel(x, place)
        wins.append((part == out) | (part != part) if is_nan.any() else part == out)
    share = ct / functools.reduce(np.add, wins[1:], wins[0].astype(x.dtype))
    found, zero = np.zeros(x.shape, ct.dtype), ct.dtype.type(0)
    for place, win in zip(places, wins, strict=True):
        target = GETITEM.kernel(found, place)
        target += np.where(win, share, zero)
    return found


def _max_grad_infer(ct: TensorSpec, x: TensorSpec, out: TensorSpec, *attrs: Any) -> TensorSpec:
    return x


def _max_grad_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    products = call(WINDOWS, ct, attrs=attrs) * _shares(x, out, attrs)
    return call(SUM, products, attrs=(window_of(attrs).inner_axes, False))


SHARE_PEAKS = define_op(
    "share_peaks",
    kernel=_max_grad_kernel,
    infer=_max_grad_infer,
    n_inputs=3,
    attr_names=_NAMES,
    saves=(1, 2),
    vjps=(_max_grad_vjp, None, None),
    emit=LibraryCall("share_peaks"),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
)
"""`max_pool_grad` in one piece."""

_FEW_PLACES = 25
"""Larger windows are compared and counted by simpler ops."""


def _max_grad_expand(ct: Tensor, x: Tensor, out: Tensor, *attrs: Any) -> Tensor:
    places = 1
    for size in Window(*attrs).sizes:
        places *= size
    if places <= _FEW_PLACES:
        return apply(SHARE_PEAKS, ct, x, out, attrs=attrs)
    column = apply(EXPAND_DIMS, ct, attrs=(Window(*attrs).inner_axes,))
    return apply(WINDOWS_GRAD, _shares(x, out, attrs) * column, attrs=(*attrs, x.shape))


MAX_POOL_GRAD = define_op(
    "max_pool_grad",
    kernel=_max_grad_kernel,
    infer=_max_grad_infer,
    n_inputs=3,
    attr_names=_NAMES,
    saves=(1, 2),
    vjps=(_max_grad_vjp, None, None),
    emit=Expansion(_max_grad_expand),
    kinds="f",
    ulp=(4.0, 4.0),
    batch=_EACH,
)
"""What windows pass back to their largest elements."""
