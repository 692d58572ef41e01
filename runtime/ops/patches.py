"""Patches of images, blocks of pixels as channels, and images sampled anywhere."""

from __future__ import annotations

import math
from typing import Any

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.arithmetic import DIVIDE
from tapeline.runtime.ops.cast import astype
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.logic import logical_and
from tapeline.runtime.ops.permuting import permute_dims
from tapeline.runtime.ops.pointwise import apply, computable
from tapeline.runtime.ops.rounding import floor
from tapeline.runtime.ops.rounding import round as nearest
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.ops.window_arguments import Padding, PerAxis, padded, per_axis, resolve_pads
from tapeline.runtime.ops.windows import WINDOWS, WINDOWS_GRAD, Window
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike

# --- patches ---------------------------------------------------------------------------------


def _window(op_name: str, ndim: int, size: PerAxis, stride: PerAxis, dilation: PerAxis) -> Window:
    return Window(
        1,
        per_axis(op_name, "window", size, ndim),
        per_axis(op_name, "stride", stride, ndim),
        per_axis(op_name, "dilation", dilation, ndim),
    )


def _images(op_name: str, x: TensorLike) -> Tensor:
    tensor = computable(x, op_name)
    if tensor.ndim < 3:
        raise ShapeError(f"{op_name}: x has shape {tensor.shape}; expected (batch, ..., channels)")
    return tensor


def unfold(
    x: TensorLike,
    window: PerAxis,
    /,
    *,
    stride: PerAxis = 1,
    dilation: PerAxis = 1,
    padding: Padding = "valid",
) -> Tensor:
    """All windows of images, each as one row of its elements.

    Parameters
    ----------
    x : TensorLike, shape (batch, ..., channels)
        The images, with one inner axis or more.
    window : int or sequence of int
        Size of the windows along all inner axes, or each.
    stride : int or sequence of int
        How far one window lies from the next.
    dilation : int or sequence of int
        How far elements of a window lie apart.
    padding : str, int, sequence of int or of (int, int)
        As for `conv2d`.

    Returns
    -------
    Tensor, shape (batch, ..., window elements * channels)
        The inner axes count the windows; the elements are in row-major order, each with its
        channels.

    Raises
    ------
    ShapeError
        If there is no inner axis, or no window fits.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.arange(6.0), (1, 2, 3, 1))
    >>> tl.nn.unfold(x, 2).numpy()[0, 0]
    array([[0., 1., 3., 4.],
           [1., 2., 4., 5.]])
    """
    tensor = _images("unfold", x)
    found = _window("unfold", tensor.ndim - 2, window, stride, dilation)
    tensor = padded(tensor, resolve_pads("unfold", padding, found, tensor.shape), 0)
    patches = apply(WINDOWS, tensor, attrs=tuple(found))
    counts = found.counts(tensor.shape)
    return reshape(patches, (tensor.shape[0], *counts, math.prod(found.sizes) * tensor.shape[-1]))


def fold(
    patches: TensorLike,
    extents: PerAxis,
    window: PerAxis,
    /,
    *,
    stride: PerAxis = 1,
    dilation: PerAxis = 1,
) -> Tensor:
    """Images that windows are added up into; the transpose of `unfold` without padding.

    Parameters
    ----------
    patches : TensorLike of numbers, shape (batch, ..., window elements * channels)
        The windows, as `unfold` gives them.
    extents : int or sequence of int
        The inner extents of the images.
    window, stride, dilation : int or sequence of int
        As for `unfold`.

    Returns
    -------
    Tensor, shape (batch, *extents, channels)

    Raises
    ------
    ShapeError
        If these are not the windows of such images.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.fold(tl.ones((1, 1, 2, 4)), (2, 3), 2).numpy()[0, :, :, 0]
    array([[1., 2., 1.],
           [1., 2., 1.]])
    """
    rows = _images("fold", patches)
    ndim = rows.ndim - 2
    found = _window("fold", ndim, window, stride, dilation)
    inner = per_axis("fold", "extents", extents, ndim)
    channels, rest = divmod(rows.shape[-1], math.prod(found.sizes))
    shape = (rows.shape[0], *inner, channels)
    if rest or found.counts(shape) != rows.shape[1:-1]:
        raise ShapeError(
            f"fold: patches has shape {rows.shape}; images of extents {inner} have "
            f"{found.counts(shape)} windows of {math.prod(found.sizes)} elements"
        )
    spread = reshape(rows, (*rows.shape[:-1], *found.sizes, channels))
    return apply(WINDOWS_GRAD, spread, attrs=(*found, shape))


# --- blocks of pixels ------------------------------------------------------------------------


def pixel_shuffle(x: TensorLike, factor: int, /) -> Tensor:
    """Images `factor` times as large, each pixel a block made of its channels.

    Parameters
    ----------
    x : TensorLike, shape (batch, height, width, channels * factor**2)
        The images.
    factor : int
        The side of a block, at least 1.

    Returns
    -------
    Tensor, shape (batch, height * factor, width * factor, channels)
        Of a pixel's channels, `factor**2` that follow one another make one block.

    Raises
    ------
    ShapeError
        If the channels do not make up blocks.
    ArgumentError
        If factor is not at least 1.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.pixel_shuffle(tl.reshape(tl.arange(8.0), (1, 1, 2, 4)), 2).numpy()[0, :, :, 0]
    array([[0., 1., 4., 5.],
           [2., 3., 6., 7.]])
    """
    tensor = _blocks("pixel_shuffle", x, factor)
    n, height, width, depth = tensor.shape
    if depth % factor**2:
        raise ShapeError(
            f"pixel_shuffle: x has shape {tensor.shape}; {depth} channels are no blocks of "
            f"{factor} x {factor}"
        )
    parts = reshape(tensor, (n, height, width, depth // factor**2, factor, factor))
    moved = permute_dims(parts, (0, 1, 4, 2, 5, 3))
    return reshape(moved, (n, height * factor, width * factor, depth // factor**2))


def pixel_unshuffle(x: TensorLike, factor: int, /) -> Tensor:
    """Images `1 / factor` as large, each block a pixel with its elements as channels; the inverse
    of `pixel_shuffle`.

    Parameters
    ----------
    x : TensorLike, shape (batch, height, width, channels)
        The images.
    factor : int
        The side of a block, at least 1.

    Returns
    -------
    Tensor, shape (batch, height / factor, width / factor, channels * factor**2)

    Raises
    ------
    ShapeError
        If the images do not consist of blocks.
    ArgumentError
        If factor is not at least 1.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.pixel_unshuffle(tl.reshape(tl.arange(4.0), (1, 2, 2, 1)), 2).numpy()
    array([[[[0., 1., 2., 3.]]]])
    """
    tensor = _blocks("pixel_unshuffle", x, factor)
    n, height, width, depth = tensor.shape
    if height % factor or width % factor:
        raise ShapeError(
            f"pixel_unshuffle: x has shape {tensor.shape}; height and width must be multiples of "
            f"{factor}"
        )
    parts = reshape(tensor, (n, height // factor, factor, width // factor, factor, depth))
    moved = permute_dims(parts, (0, 1, 3, 5, 2, 4))
    return reshape(moved, (n, height // factor, width // factor, depth * factor**2))


def _blocks(op_name: str, x: TensorLike, factor: int) -> Tensor:
    tensor = _images(op_name, x)
    if tensor.ndim != 4:
        raise ShapeError(
            f"{op_name}: x has shape {tensor.shape}; expected (batch, height, width, channels)"
        )
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ArgumentError(f"{op_name}: factor must be an int of at least 1, got {factor!r}")
    return tensor


# --- sampling --------------------------------------------------------------------------------

_METHODS = ("linear", "nearest")
_OUTSIDE = ("zeros", "border")


def grid_sample(
    x: TensorLike,
    grid: TensorLike,
    /,
    *,
    method: str = "linear",
    outside: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Images sampled at given places, between pixels too.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, height, width, channels)
        The images.
    grid : TensorLike of float, shape (batch, ..., 2)
        The places as (x, y), where -1 is the left or upper edge and 1 the right or lower one.
    method : str
        "linear" for lines between the four pixels around a place, "nearest" for the nearest pixel.
    outside : str
        What lies around images: "zeros", or the nearest pixels of the "border".
    align_corners : bool
        Whether -1 and 1 are the middles of the outermost pixels instead of their outer edges.

    Returns
    -------
    Tensor of float, shape (batch, ..., channels)

    Raises
    ------
    ShapeError
        If the shapes are not such.
    ArgumentError
        If the method, or what lies outside, is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.asarray([0.0, 1.0, 2.0, 3.0]), (1, 2, 2, 1))
    >>> tl.nn.grid_sample(x, [[[0.0, 0.0], [-0.5, 0.5]]]).numpy().ravel()
    array([1.5, 2. ])
    """
    images, places = promote_one(DIVIDE, x), promote_one(DIVIDE, grid)
    if images.ndim != 4 or places.ndim < 2 or places.shape[-1] != 2:
        raise ShapeError(
            f"grid_sample: x has shape {images.shape}, grid {places.shape}; expected (batch, "
            "height, width, channels) and (batch, ..., 2)"
        )
    if places.shape[0] != images.shape[0]:
        raise ShapeError(
            f"grid_sample: x has {images.shape[0]} images, grid places for {places.shape[0]}"
        )
    for name, value, known in (("method", method, _METHODS), ("outside", outside, _OUTSIDE)):
        if value not in known:
            raise ArgumentError(f"grid_sample: {name} must be one of {known}, got {value!r}")
    _, height, width, _ = images.shape
    column = _pixels(places[..., 0], width, outside, align_corners)
    row = _pixels(places[..., 1], height, outside, align_corners)
    if method == "nearest":
        return _picked(images, nearest(row), nearest(column))
    top, left = floor(row), floor(column)
    down, right = row - top, column - left
    total: Any = 0.0
    for y, weight in ((top, 1.0 - down), (top + 1.0, down)):
        for x_, share in ((left, 1.0 - right), (left + 1.0, right)):
            factor = reshape(weight * share, (*weight.shape, 1))
            total = total + _picked(images, y, x_) * factor
    result: Tensor = total
    return result


def _pixels(place: Tensor, extent: int, outside: str, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as those of pixels, whose middles are at ints from 0 on."""
    if align_corners:
        found = (place + 1.0) * (0.5 * (extent - 1))
    else:
        found = (place + 1.0) * (0.5 * extent) - 0.5
    return clip(found, 0.0, extent - 1.0) if outside == "border" else found


def _picked(images: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """The pixels at integral coordinates, zeros outside."""
    count, height, width, channels = images.shape
    is_inside = logical_and(row >= 0, row <= height - 1)
    is_inside = logical_and(is_inside, logical_and(column >= 0, column <= width - 1))
    y = astype(where(is_inside, row, 0.0), "int64")
    x = astype(where(is_inside, column, 0.0), "int64")
    first = reshape(arange(count, dtype="int64"), (count, *(1,) * (row.ndim - 1)))
    pixels = reshape(images, (count * height * width, channels))
    found = take(pixels, (first * height + y) * width + x, axis=0)
    return where(reshape(is_inside, (*row.shape, 1)), found, 0.0)
