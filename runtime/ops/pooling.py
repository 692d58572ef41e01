"""Pooling over windows or bins of any number of inner axes, and the transpose of convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.convolution import CONV, CONV_INPUT_GRAD
from tapeline.runtime.ops.matmul import tensordot
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.statistics import mean
from tapeline.runtime.ops.window_arguments import (
    Padding,
    Pads,
    PerAxis,
    padded,
    per_axis,
    resolve_pads,
)
from tapeline.runtime.ops.windows import MAX_POOL, SUM_POOL, Window
from tapeline.runtime.promotion import narrowed, promote, promote_one
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor


def _inner_axes(op_name: str, x: Tensor) -> int:
    if x.ndim < 3:
        raise ShapeError(f"{op_name}: x has shape {x.shape}; expected (batch, ..., channels)")
    return x.ndim - 2


def _prepared(
    op_name: str, x: TensorLike, window: PerAxis, stride: PerAxis | None, padding: Padding
) -> tuple[Tensor, Window, Pads]:
    tensor = promote_one(SUM_POOL, as_tensor(x, argument=op_name))
    count = _inner_axes(op_name, tensor)
    sizes = per_axis(op_name, "window", window, count)
    strides = sizes if stride is None else per_axis(op_name, "stride", stride, count)
    found = Window(1, sizes, strides, (1,) * count)
    return tensor, found, resolve_pads(op_name, padding, found, tensor.shape)


def max_pool(
    x: TensorLike,
    window: PerAxis,
    /,
    *,
    stride: PerAxis | None = None,
    padding: Padding = "valid",
) -> Tensor:
    """The largest element of each window; equal ones share the gradient evenly.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The input, with one inner axis or more.
    window : int or sequence of int
        Size of the windows along all inner axes, or each.
    stride : int or sequence of int, optional
        How far one window lies from the next; by default they lie side by side.
    padding : str, int, sequence of int or of (int, int)
        As for `conv2d`. What is put around counts for nothing.

    Returns
    -------
    Tensor of float

    Raises
    ------
    ShapeError
        If there is no inner axis, or no window fits.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.arange(16.0), (1, 4, 4, 1))
    >>> tl.nn.max_pool(x, 2).numpy()[0, :, :, 0]
    array([[ 5.,  7.],
           [13., 15.]])
    """
    tensor, found, pads = _prepared("max_pool", x, window, stride, padding)
    return narrowed(apply(MAX_POOL, padded(tensor, pads, -np.inf), attrs=tuple(found)), x)


def avg_pool(
    x: TensorLike,
    window: PerAxis,
    /,
    *,
    stride: PerAxis | None = None,
    padding: Padding = "valid",
    count_padding: bool = False,
) -> Tensor:
    """The mean of each window.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The input, with one inner axis or more.
    window : int or sequence of int
        Size of the windows along all inner axes, or each.
    stride : int or sequence of int, optional
        How far one window lies from the next; by default they lie side by side.
    padding : str, int, sequence of int or of (int, int)
        As for `conv2d`.
    count_padding : bool
        Whether what is put around counts as zeros. Otherwise it counts for nothing.

    Returns
    -------
    Tensor of float, shape (batch, ..., channels)

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.arange(16.0), (1, 4, 4, 1))
    >>> tl.nn.avg_pool(x, 2).numpy()[0, :, :, 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    tensor, found, pads = _prepared("avg_pool", x, window, stride, padding)
    total: Tensor = apply(SUM_POOL, padded(tensor, pads, 0), attrs=tuple(found))
    if count_padding or not any(map(any, pads)):
        size = 1
        for extent in found.sizes:
            size *= extent
        return narrowed(total / float(size), x)
    ones = np.ones((1, *tensor.shape[1:-1], 1), tensor.dtype)
    counts = SUM_POOL.kernel(padded(ones, pads, 0), *found)
    return narrowed(total / new_tensor(np.maximum(counts, 1)), x)


def adaptive_avg_pool(x: TensorLike, extents: PerAxis, /) -> Tensor:
    """The mean of each bin, where the inner axes fall into so many bins.

    Bin i of n goes from `i * extent / n`, rounded down, to `(i + 1) * extent / n`, rounded up.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The input.
    extents : int or sequence of int
        How many bins along all inner axes, or each. 1 gives the mean of all.

    Returns
    -------
    Tensor of float, shape (batch, *extents, channels)

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.arange(6.0), (1, 6, 1))
    >>> tl.nn.adaptive_avg_pool(x, 4).numpy().ravel()
    array([0.5, 1.5, 3.5, 4.5])
    """
    tensor = promote_one(SUM_POOL, as_tensor(x, argument="adaptive_avg_pool"))
    count = _inner_axes("adaptive_avg_pool", tensor)
    bins = per_axis("adaptive_avg_pool", "extents", extents, count)
    if bins == (1,) * count:
        return narrowed(mean(tensor, axis=tuple(range(1, count + 1)), keepdims=True), x)
    for axis, wanted in enumerate(bins, 1):
        extent = tensor.shape[axis]
        if wanted != extent:
            shares = new_tensor(_bin_shares(extent, wanted).astype(tensor.dtype))
            tensor = moveaxis(tensordot(tensor, shares, axes=([axis], [0])), -1, axis)
    return narrowed(tensor, x)


def _bin_shares(extent: int, bins: int) -> Any:
    """What part each of `extent` elements (rows) has in the mean of each bin (columns)."""
    shares = np.zeros((extent, bins))
    for i in range(bins):
        low, high = i * extent // bins, -(-(i + 1) * extent // bins)
        shares[low:high, i] = 1.0 / (high - low)
    return shares


# --- transposed convolution ------------------------------------------------------------------


def conv_transpose(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    /,
    *,
    stride: PerAxis = 1,
    padding: Padding = "valid",
    dilation: PerAxis = 1,
    groups: int = 1,
    output_shape: PerAxis | None = None,
) -> Tensor:
    """What a convolution passes back to its input: it spreads each element over a window.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, ..., channels)
        The input, with one to three inner axes.
    weight : TensorLike of float, shape (..., outputs / groups, channels)
        The kernel of the convolution from outputs to channels that this one transposes.
    bias : TensorLike of float, shape (outputs,), optional
        Added to each place.
    stride, padding, dilation, groups
        Those of that convolution, as for `conv2d`.
    output_shape : int or sequence of int, optional
        Extents of the inner axes of the result, where several lead to those of `x`. By default the
        smallest, but for "same" those of `x` times the stride.

    Returns
    -------
    Tensor of float, shape (batch, ..., outputs)

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.asarray([1.0, 2.0]), (1, 2, 1))
    >>> tl.nn.conv_transpose(x, tl.ones((3, 1, 1)), stride=2).numpy().ravel()
    array([1., 1., 3., 2., 2.])
    """
    op_name = "conv_transpose"
    source, kernel = promote(
        CONV,
        as_tensor(x, argument=f"{op_name}: x"),
        as_tensor(weight, argument=f"{op_name}: weight"),
    )
    count = _inner_axes(op_name, source)
    if kernel.ndim != source.ndim or kernel.shape[-1] != source.shape[-1]:
        raise ShapeError(
            f"{op_name}: x has shape {source.shape}, weight {kernel.shape}; expected "
            f"(batch, ..., channels) and (..., outputs / groups, channels)"
        )
    groups = as_index(op_name, groups)
    if groups < 1 or kernel.shape[-1] % groups:
        raise ShapeError(f"{op_name}: {kernel.shape[-1]} channels do not fall into {groups} groups")
    strides = per_axis(op_name, "stride", stride, count)
    dilations = per_axis(op_name, "dilation", dilation, count)
    window = Window(1, kernel.shape[:-2], strides, dilations)
    inner, pads = _transposed_extents(window, source.shape[1:-1], padding, output_shape)
    shape = (source.shape[0], *inner, kernel.shape[-2] * groups)
    attrs = (strides, pads, dilations, groups)
    result = narrowed(apply(CONV_INPUT_GRAD, source, kernel, attrs=(*attrs, shape)), x, weight)
    return result if bias is None else result + as_tensor(bias, argument=f"{op_name}: bias")


def _transposed_extents(
    window: Window, extents: Shape, padding: Padding, output_shape: PerAxis | None
) -> tuple[Shape, Pads]:
    """The inner axes of the result, and the pads that lead from them to `extents`."""
    count = len(extents)
    least = tuple(
        (extent - 1) * stride + reach
        for extent, stride, reach in zip(extents, window.strides, window.reach(), strict=True)
    )
    if output_shape is not None:
        inner = per_axis("conv_transpose", "output_shape", output_shape, count)
    elif padding == "same":
        inner = tuple(
            extent * stride for extent, stride in zip(extents, window.strides, strict=True)
        )
    else:
        pads = resolve_pads("conv_transpose", padding, window, (0, *least, 0))
        inner = tuple(n - sum(pair) for n, pair in zip(least, pads, strict=True))
    if min(inner, default=1) < 1:
        raise ArgumentError(f"conv_transpose: the padding {padding!r} leaves nothing of {least}")
    pads = resolve_pads("conv_transpose", padding, window, (0, *inner, 0))
    filled = tuple(low + n + high for n, (low, high) in zip(inner, pads, strict=True))
    counts = window.counts((0, *filled, 0))
    if counts != extents:
        raise ShapeError(
            f"conv_transpose: a convolution of extents {inner} gives {counts}, not the "
            f"{extents} of x; choose another output_shape"
        )
    return inner, pads
