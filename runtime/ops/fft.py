"""Discrete Fourier transforms, with gradients: each is linear, so its rule is its adjoint.

Four ops carry all functions: complex transforms along any axes, forward and inverse, and along one
axis the transform of reals and the inverse that gives reals. Kernels are NumPy's; compiled code
calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import Attrs, Op, Sample, ShapeOf, Trait, define_op
from tapeline.runtime.ops.axes import Array, as_index
from tapeline.runtime.ops.batch_rules import batch_changed, next_axes, next_axis
from tapeline.runtime.ops.joining import PAD
from tapeline.runtime.ops.pointwise import apply, beside, call, check_dtype, computable, to_real
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.spec import DType, Shape, TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, register_ufunc
from tapeline.runtime.unwatched import numpys_own

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
"""Which direction is divided by the number of elements: the inverse one, both by its root, or the
forward one."""

OTHER_NORM: dict[str, Norm] = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64)}


def _to_complex(dtype: DType) -> DType:
    return dtype if dtype.kind == "c" else _COMPLEX.get(dtype, np.dtype(np.complex128))


def _resize(x: Any, axis: int, extent: int) -> Any:
    """`x` cut along an axis, or with zeros put after it, to have the extent."""
    own = x.shape[axis]
    if extent <= own:
        return slice_along(x, axis, 0, extent)
    pads = tuple((0, extent - own if a == axis else 0) for a in range(len(x.shape)))
    return call(PAD, x, attrs=(pads, 0))


def _values(attrs: Attrs) -> tuple[Any, ...]:
    """Attributes, which are typed loosely."""
    return attrs


def _replaced(shape: Shape, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Shape:
    extents = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        extents[axis] = size
    return tuple(extents)


# --- complex ---------------------------------------------------------------------------------


def _fftn_kernel(x: Array, sizes: tuple[int, ...], axes: tuple[int, ...], norm: Norm) -> Any:
    return np.fft.fftn(x, sizes, axes, norm)


def _ifftn_kernel(x: Array, sizes: tuple[int, ...], axes: tuple[int, ...], norm: Norm) -> Any:
    return np.fft.ifftn(x, sizes, axes, norm)


def _fftn_infer(
    x: TensorSpec, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str
) -> TensorSpec:
    check_dtype("fftn", x.dtype, "c")
    return spec_of(_replaced(x.static_shape, sizes, axes), x.dtype)


def _fftn_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return _adjoint(IFFTN, ct, attrs, shape)


def _ifftn_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return _adjoint(FFTN, ct, attrs, shape)


def _adjoint(inverse: Op, ct: Any, attrs: Attrs, shape: Shape) -> Any:
    sizes, axes, norm = _values(attrs)
    result = call(inverse, ct, attrs=(sizes, axes, OTHER_NORM[norm]))
    for axis in axes:
        result = _resize(result, axis, shape[axis])
    return result


_SAMPLES = (
    Sample(((5,),), ((5,), (0,), "backward")),
    Sample(((2, 4),), ((3,), (1,), "forward")),
    Sample(((2, 3),), ((4, 3), (0, 1), "ortho")),
)

FFTN = define_op(
    "fftn",
    batch=batch_changed(None, next_axes, None),
    kernel=_fftn_kernel,
    infer=_fftn_infer,
    attr_names=("sizes", "axes", "norm"),
    saves=(ShapeOf(0),),
    vjps=(_fftn_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="c",
    samples=_SAMPLES,
)

IFFTN = define_op(
    "ifftn",
    batch=batch_changed(None, next_axes, None),
    kernel=_ifftn_kernel,
    infer=_fftn_infer,
    attr_names=("sizes", "axes", "norm"),
    saves=(ShapeOf(0),),
    vjps=(_ifftn_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="c",
    samples=_SAMPLES,
)

# --- real ------------------------------------------------------------------------------------


def _mirrored(like: Any, axis: int, n: int, weight: float) -> Any:
    """`weight` for the frequencies that stand for a pair of the full spectrum, 1 for the others,
    along an axis of `like`."""
    weights = np.full(n // 2 + 1, weight, to_real(like.dtype))
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = [-1 if a == axis else 1 for a in range(len(like.shape))]
    return beside(weights.reshape(shape), like)


def _rfft_kernel(x: Array, n: int, axis: int, norm: Norm) -> Any:
    return np.fft.rfft(x, n, axis, norm)


def _rfft_infer(x: TensorSpec, n: int, axis: int, norm: str) -> TensorSpec:
    check_dtype("rfft", x.dtype, "f")
    return spec_of(_replaced(x.static_shape, (n // 2 + 1,), (axis,)), _to_complex(x.dtype))


def _rfft_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    n, axis, norm = _values(attrs)
    spectrum = ct * _mirrored(ct, axis, n, 0.5)
    result = call(IRFFT, spectrum, attrs=(n, axis, OTHER_NORM[norm]))
    return _resize(result, axis, shape[axis])


_REAL_SAMPLES = (
    Sample(((5,),), (5, 0, "backward")),
    Sample(((2, 4),), (6, 1, "forward")),
    Sample(((5, 2),), (4, 0, "ortho")),
)

RFFT = define_op(
    "rfft",
    batch=batch_changed(None, next_axis, None),
    kernel=_rfft_kernel,
    infer=_rfft_infer,
    attr_names=("n", "axis", "norm"),
    saves=(ShapeOf(0),),
    vjps=(_rfft_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    samples=_REAL_SAMPLES,
)


def _irfft_kernel(x: Array, n: int, axis: int, norm: Norm) -> Any:
    return np.fft.irfft(x, n, axis, norm)


def _irfft_infer(x: TensorSpec, n: int, axis: int, norm: str) -> TensorSpec:
    check_dtype("irfft", x.dtype, "c")
    return spec_of(_replaced(x.static_shape, (n,), (axis,)), to_real(x.dtype))


def _irfft_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    n, axis, norm = _values(attrs)
    spectrum = call(RFFT, ct, attrs=(n, axis, OTHER_NORM[norm]))
    return _resize(spectrum * _mirrored(spectrum, axis, n, 2.0), axis, shape[axis])


IRFFT = define_op(
    "irfft",
    batch=batch_changed(None, next_axis, None),
    kernel=_irfft_kernel,
    infer=_irfft_infer,
    attr_names=("n", "axis", "norm"),
    saves=(ShapeOf(0),),
    vjps=(_irfft_vjp,),
    traits=Trait.NO_RECOMPUTE,
    kinds="c",
    samples=_REAL_SAMPLES,
)

# --- arguments -------------------------------------------------------------------------------


def as_complex(op_name: str, x: TensorLike) -> Tensor:
    """The operand of a complex transform."""
    tensor = computable(x, argument=op_name)
    return cast_tensor(tensor, _to_complex(tensor.dtype))


def as_real(op_name: str, x: TensorLike) -> Tensor:
    """The operand of a transform of reals."""
    tensor = computable(x, argument=op_name)
    check_dtype(op_name, tensor.dtype, "biuf")
    return cast_tensor(tensor, to_real(_to_complex(tensor.dtype)))


def checked_norm(op_name: str, norm: Norm | None) -> Norm:
    """The norm argument; None is "backward"."""
    if norm is None:
        return "backward"
    if norm not in OTHER_NORM:
        raise ArgumentError(
            f"{op_name}: norm is {norm!r}; expected 'backward', 'ortho' or 'forward'"
        )
    return norm


def _size(op_name: str, n: int) -> int:
    if n < 1:
        raise ArgumentError(f"{op_name}: {n} elements along an axis; expected at least 1")
    return as_index(op_name, n)


def one_axis(
    op_name: str, x: Tensor, n: int | None, axis: int, mirrored: bool = False
) -> tuple[int, int]:
    """The size of the transform and its axis, checked; where x is half of a mirrored signal the
    size is by default that of the whole."""
    if x.ndim == 0:
        raise ShapeError(f"{op_name}: x is 0-d; expected at least one dimension")
    axis = normalize_axis(op_name, axis, x.ndim)
    own = 2 * (x.shape[axis] - 1) if mirrored else x.shape[axis]
    return _size(op_name, own if n is None else n), axis


def many_axes(
    op_name: str, x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[list[int | None], list[int]]:
    """The sizes that are given and the axes, in the order given, checked."""
    if axes is None:
        places = list(range(x.ndim if s is None else len(s)))
        places = [place + x.ndim - len(places) for place in places]
    else:
        places = [normalize_axis(op_name, as_index(op_name, axis), x.ndim) for axis in axes]
    if s is None:
        return [None] * len(places), places
    if len(s) != len(places) or any(place < 0 for place in places):
        raise ArgumentError(
            f"{op_name}: s={tuple(s)} has {len(s)} sizes for {len(places)} axes of a tensor of "
            f"{x.ndim} dimensions"
        )
    return [None if size == -1 else _size(op_name, size) for size in s], places


# --- public: complex -------------------------------------------------------------------------


def fft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The discrete Fourier transform along an axis.

    Parameters
    ----------
    x : TensorLike
        Of at least one dimension; real numbers count as complex ones.
    n : int, optional
        How many elements to transform: x is cut, or zeros are put after it. By default all of x.
    axis : int
        The axis to transform.
    norm : "backward", "ortho" or "forward"
        Which direction is divided by `n`: the inverse one, both by its root, or the forward one.

    Returns
    -------
    Tensor of complex64 for float32 and complex64, else of complex128
        The frequencies, from 0 on, then the negative ones; see `fftfreq`.

    Raises
    ------
    ArgumentError
        If `n` is below 1, or `norm` is another word.
    ShapeError
        If `x` is 0-d or has no such axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.fft([1.0, 0.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j, 1.+0.j])
    """
    found = numpys_own(np.fft.fft, x, n, axis, norm)
    if found is not None:
        return found
    x = as_complex("fft", x)
    size, place = one_axis("fft", x, n, axis)
    return apply(FFTN, x, attrs=((size,), (place,), checked_norm("fft", norm)))


def ifft(
    x: TensorLike, /, n: int | None = None, axis: int = -1, norm: Norm | None = "backward"
) -> Tensor:
    """The inverse of `fft`, with the same parameters.

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
        Of `n` elements along the axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.ifft([2.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j])
    """
    found = numpys_own(np.fft.ifft, x, n, axis, norm)
    if found is not None:
        return found
    x = as_complex("ifft", x)
    size, place = one_axis("ifft", x, n, axis)
    return apply(IFFTN, x, attrs=((size,), (place,), checked_norm("ifft", norm)))


def fftn(
    x: TensorLike,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes.

    Parameters
    ----------
    x : TensorLike
        Real numbers count as complex ones.
    s : sequence of int, optional
        How many elements to transform along each axis; -1 for all.
    axes : sequence of int, optional
        The axes; by default all, or the last ones, as many as `s` has sizes.
    norm : "backward", "ortho" or "forward"
        As in `fft`.

    Returns
    -------
    Tensor of complex

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.fftn([[1.0, 1.0], [1.0, 1.0]]).numpy()
    array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]])
    """
    found = numpys_own(np.fft.fftn, x, None, None, norm) if s is axes is None else None
    if found is not None:
        return found
    return _transform("fftn", FFTN, as_complex("fftn", x), s, axes, norm)


def ifftn(
    x: TensorLike,
    /,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm | None = "backward",
) -> Tensor:
    """The inverse of `fftn`, with the same parameters.

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

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).numpy()
    array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]])
    """
    found = numpys_own(np.fft.ifftn, x, None, None, norm) if s is axes is None else None
    if found is not None:
        return found
    return _transform("ifftn", IFFTN, as_complex("ifftn", x), s, axes, norm)


def _transform(
    op_name: str,
    op: Op,
    x: Tensor,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: Norm | None,
) -> Tensor:
    given, places = many_axes(op_name, x, s, axes)
    return along_axes(op_name, op, x, given, places, norm)


def along_axes(
    op_name: str, op: Op, x: Tensor, given: list[int | None], places: list[int], norm: Norm | None
) -> Tensor:
    """A complex transform along the axes; sizes that are not given are those of x."""
    if not places:
        return x
    sizes = tuple(
        _size(op_name, x.shape[place] if size is None else size)
        for size, place in zip(given, places, strict=True)
    )
    return apply(op, x, attrs=(sizes, tuple(places), checked_norm(op_name, norm)))


for _function, _numpy in (
    (fft, np.fft.fft),
    (ifft, np.fft.ifft),
    (fftn, np.fft.fftn),
    (ifftn, np.fft.ifftn),
):
    register_ufunc(_numpy, _function)
