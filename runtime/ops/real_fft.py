"""Fourier transforms of reals and of what has a real transform, and the order of frequencies.

The ops stand in `fft`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.dims import is_open
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arranging import roll
from tapeline.runtime.ops.axes import normalize_axes
from tapeline.runtime.ops.cast import conj
from tapeline.runtime.ops.creation import chosen_dtype
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.fft import (
    FFTN,
    IFFTN,
    IRFFT,
    OTHER_NORM,
    RFFT,
    Norm,
    along_axes,
    as_complex,
    as_real,
    checked_norm,
    many_axes,
    one_axis,
)
from tapeline.runtime.ops.pointwise import apply, computable
from tapeline.runtime.ops.selection import where
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor, register_ufunc
from tapeline.runtime.unwatched import numpys_own

if TYPE_CHECKING:
    import numpy.typing as npt


def rfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The discrete Fourier transform of reals along an axis, without the negative frequencies.

    Parameters
    ----------
    x : TensorLike of real dtype
        Of at least one dimension.
    n : int, optional
        How many elements to transform: x is cut, or zeros are put after it. By default all of x.
    axis : int
        The axis to transform.
    norm : "backward", "ortho" or "forward"
        As in `fft`.

    Returns
    -------
    Tensor of complex
        With n // 2 + 1 frequencies along the axis.

    Raises
    ------
    DTypeError
        If `x` is complex.
    ArgumentError
        If `n` is below 1, or `norm` is another word.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.rfft([1.0, 0.0, 0.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j, 1.+0.j])
    """
    found = numpys_own(np.fft.rfft, x, n, axis, norm)
    if found is not None:
        return found
    x = as_real("rfft", x)
    return apply(RFFT, x, attrs=(*one_axis("rfft", x, n, axis), checked_norm("rfft", norm)))


def irfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The inverse of `rfft`; `n` by default 2 * (frequencies - 1).

    Parameters
    ----------
    x : TensorLike
        Numbers.
    n : int, optional
        How many elements along the axis are used: the rest is cut off, or zeros are added.
    axis : int
        The axis.
    norm : "backward", "ortho" or "forward"
        Which direction is scaled: the inverse, both by the root, or this one.

    Returns
    -------
    Tensor of float
        Of `n` elements along the axis, by default 2 (m - 1) for m given ones.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.irfft([1.0, 1.0, 1.0]).numpy()
    array([1., 0., 0., 0.])
    """
    found = numpys_own(np.fft.irfft, x, n, axis, norm)
    if found is not None:
        return found
    x = as_complex("irfft", x)
    size, place = one_axis("irfft", x, n, axis, mirrored=True)
    return apply(IRFFT, x, attrs=(size, place, checked_norm("irfft", norm)))


def rfftn(
    x: TensorLike,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = "backward",
) -> Tensor:
    """The discrete Fourier transform of reals along several axes: `rfft` along the last of them,
    then `fftn` along the others.

    Parameters
    ----------
    x : TensorLike
        Numbers.
    s : tuple of int, optional
        The extents of the axes that are used: cut off, or filled with zeros.
    axes : tuple of int, optional
        The axes; by default all, or the last `len(s)`.
    norm : "backward", "ortho" or "forward"
        Which direction is scaled: the inverse, both by the root, or this one.

    Returns
    -------
    Tensor of complex
        With `n // 2 + 1` elements along the last of the axes.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.rfftn([[1.0, 1.0], [1.0, 1.0]]).numpy()
    array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]])
    """
    x = as_real("rfftn", x)
    given, places = many_axes("rfftn", x, s, axes)
    if not places:
        raise ArgumentError("rfftn: there is no axis to transform")
    spectrum = rfft(x, n=given[-1], axis=places[-1], norm=norm)
    return along_axes("rfftn", FFTN, spectrum, given[:-1], places[:-1], norm)


def irfftn(
    x: TensorLike,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = "backward",
) -> Tensor:
    """The inverse of `rfftn`; the last size by default that of `irfft`.

    Parameters
    ----------
    x : TensorLike
        Numbers.
    s : tuple of int, optional
        The extents of the axes that are used: cut off, or filled with zeros.
    axes : tuple of int, optional
        The axes; by default all, or the last `len(s)`.
    norm : "backward", "ortho" or "forward"
        Which direction is scaled: the inverse, both by the root, or this one.

    Returns
    -------
    Tensor of float

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.irfftn([[4.0, 0.0], [0.0, 0.0]]).numpy()
    array([[1., 1.],
           [1., 1.]])
    """
    x = as_complex("irfftn", x)
    given, places = many_axes("irfftn", x, s, axes)
    if not places:
        raise ArgumentError("irfftn: there is no axis to transform")
    spectrum = along_axes("irfftn", IFFTN, x, given[:-1], places[:-1], norm)
    return irfft(spectrum, n=given[-1], axis=places[-1], norm=norm)


def hfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The real transform of a signal whose second half mirrors the first, conjugated; parameters as
    for `irfft`.

    Parameters
    ----------
    x : TensorLike
        Numbers.
    n : int, optional
        How many elements along the axis are used: the rest is cut off, or zeros are added.
    axis : int
        The axis.
    norm : "backward", "ortho" or "forward"
        Which direction is scaled: the inverse, both by the root, or this one.

    Returns
    -------
    Tensor of float
        Of `n` elements along the axis, by default 2 (m - 1) for m given ones.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.hfft([1.0, 1.0, 1.0]).numpy()
    array([4., 0., 0., 0.])
    """
    x = conj(as_complex("hfft", x))
    size, place = one_axis("hfft", x, n, axis, mirrored=True)
    return apply(IRFFT, x, attrs=(size, place, OTHER_NORM[checked_norm("hfft", norm)]))


def ihfft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The inverse of `hfft`.

    Parameters
    ----------
    x : TensorLike
        Numbers.
    n : int, optional
        How many elements along the axis are used: the rest is cut off, or zeros are added.
    axis : int
        The axis.
    norm : "backward", "ortho" or "forward"
        Which direction is scaled: the inverse, both by the root, or this one.

    Returns
    -------
    Tensor of complex
        Of `n // 2 + 1` elements along the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.ihfft([4.0, 0.0, 0.0, 0.0]).numpy()
    array([1.-0.j, 1.-0.j, 1.-0.j])
    """
    x = as_real("ihfft", x)
    size, place = one_axis("ihfft", x, n, axis)
    return conj(apply(RFFT, x, attrs=(size, place, OTHER_NORM[checked_norm("ihfft", norm)])))


# --- frequencies -----------------------------------------------------------------------------


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: npt.DTypeLike | None = None,
    device: Device | None = None,
) -> Tensor:
    """The frequencies that the elements of `fft` of `n` samples stand for.

    Parameters
    ----------
    n : int
        The number of samples.
    d : float
        The time between two of them.
    dtype : dtype-like, optional
        Element type, by default float64.
    device : "cpu", optional
        Where the tensor lives.

    Returns
    -------
    Tensor of float, shape (n,)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.fftfreq(4).numpy()
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    check_device("fftfreq", device)
    if is_open(n):
        places = arange(n)
        middle = as_tensor((n - 1) // 2)
        places = where(places > middle, places - n, places)
        return _open_frequencies("fftfreq", places, n, d, dtype)
    return _frequencies("fftfreq", np.fft.fftfreq(n, d), dtype)


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: npt.DTypeLike | None = None,
    device: Device | None = None,
) -> Tensor:
    """The frequencies that the elements of `rfft` of `n` samples stand for; see `fftfreq`.

    Parameters
    ----------
    n : int
        How many elements the transformed signal has.
    d : float
        The distance of its samples.
    dtype : dtype, optional
        A float dtype, float64 by default.
    device : str, optional
        "cpu" or None.

    Returns
    -------
    Tensor of float, shape (n // 2 + 1,)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.rfftfreq(4).numpy()
    array([0.  , 0.25, 0.5 ])
    """
    check_device("rfftfreq", device)
    if is_open(n):
        return _open_frequencies("rfftfreq", arange(n // 2 + 1), n, d, dtype)
    return _frequencies("rfftfreq", np.fft.rfftfreq(n, d), dtype)


def _frequencies(op_name: str, values: npt.NDArray[Any], dtype: npt.DTypeLike | None) -> Tensor:
    wanted = chosen_dtype(op_name, dtype, np.dtype(np.float64))
    return new_tensor(values.astype(wanted, copy=False))


def _open_frequencies(
    op_name: str, places: Tensor, n: Any, d: Any, dtype: npt.DTypeLike | None
) -> Tensor:
    """The frequencies at places of a spectrum whose size a trace leaves open."""
    return as_tensor(places * (1.0 / (n * d)), chosen_dtype(op_name, dtype, np.dtype(np.float64)))


def fftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """The spectrum with frequency 0 moved to the middle.

    Parameters
    ----------
    x : TensorLike
        In the order of `fft`.
    axes : int or sequence of int, optional
        The axes to reorder; by default all.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.fftshift([0, 1, -2, -1]).numpy()
    array([-2, -1,  0,  1])
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axes : int, tuple of int or None
        The axes; None for all of them.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.ifftshift([-2, -1, 0, 1]).numpy()
    array([ 0,  1, -2, -1])
    """
    return _shift("ifftshift", x, axes, -1)


def _shift(op_name: str, x: TensorLike, axes: int | Sequence[int] | None, sign: int) -> Tensor:
    x = computable(x, argument=op_name)
    places = normalize_axes(op_name, axes, x.ndim)
    halves = [x.shape[axis] // 2 for axis in places]
    return roll(x, [sign * half for half in halves], axis=places)


for _function, _numpy in (
    (rfft, np.fft.rfft),
    (irfft, np.fft.irfft),
    (rfftn, np.fft.rfftn),
    (irfftn, np.fft.irfftn),
    (hfft, np.fft.hfft),
    (ihfft, np.fft.ihfft),
    (fftshift, np.fft.fftshift),
    (ifftshift, np.fft.ifftshift),
):
    register_ufunc(_numpy, _function)
