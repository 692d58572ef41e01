"""Ops that give the dimensions or the elements of a tensor another order.

Their kernels return views, so their lowering is an index map: nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import Attrs, IndexMap, Sample, Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import ANY_KIND, Array, Axis, as_index, normalize_axes
from tapeline.runtime.ops.batch_rules import batch_changed, kept_first, next_axes
from tapeline.runtime.ops.pointwise import apply, call, shorten
from tapeline.runtime.spec import TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import is_int_or_ints, plain_array, wrapped

# --- permuting dimensions --------------------------------------------------------------------


def _permute_infer(x: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    shape = x.static_shape
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(
            f"permute_dims: axes {axes} must name each of the {len(shape)} dimensions of shape "
            f"{shape} once"
        )
    return spec_of(tuple(shape[axis] for axis in axes), x.dtype)


def _permute_kernel(x: Array, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def _permute_vjp(ct: Any, attrs: Attrs) -> Any:
    axes: tuple[int, ...] = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    inverse = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return call(PERMUTE_DIMS, ct, attrs=(inverse,))


PERMUTE_DIMS = define_op(
    "permute_dims",
    batch=batch_changed(kept_first),
    kernel=_permute_kernel,
    infer=_permute_infer,
    attr_names=("axes",),
    vjps=(_permute_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(
        Sample(((2, 3),), ((1, 0),)),
        Sample(((2, 3, 4),), ((2, 0, 1),)),
        Sample(((),), ((),)),
    ),
)


def permute_dims(x: TensorLike, /, axes: Sequence[int]) -> Tensor:
    """A tensor with its dimensions in another order: dimension i of the result is `axes[i]` of
    `x`.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axes : tuple of int
        Every axis once, in the order wanted.

    Returns
    -------
    Tensor
        The elements of `x` with its axes in that order.

    Raises
    ------
    ShapeError
        If `axes` does not name each dimension once.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.permute_dims(tl.asarray([[1, 2, 3], [4, 5, 6]]), (1, 0)).shape
    (3, 2)
    """
    array = plain_array(x)
    if array is not None and type(axes) is tuple and is_int_or_ints(axes):
        try:
            return wrapped(array.transpose(axes))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="permute_dims")
    order = tuple(normalize_axis("permute_dims", as_index("permute_dims", a), x.ndim) for a in axes)
    _permute_infer(spec_of(x.shape, x.dtype), order)
    return apply(PERMUTE_DIMS, x, attrs=(order,))


def transpose(x: TensorLike, /, axes: Sequence[int] | None = None) -> Tensor:
    """A tensor with its dimensions in reverse order, or in the order of `axes`.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axes : tuple of int, optional
        Every axis once; by default all in reverse order.

    Returns
    -------
    Tensor
        The elements of `x` with its axes in that order.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.transpose(tl.asarray([[1, 2, 3], [4, 5, 6]])).numpy()
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    array = plain_array(x)
    if axes is None and array is not None:
        return wrapped(array.T)
    x = as_tensor(x, argument="transpose")
    if axes is None:
        return apply(PERMUTE_DIMS, x, attrs=(tuple(range(x.ndim))[::-1],))
    return permute_dims(x, axes)


def swap_last(x: Any) -> Any:
    """The last two dimensions exchanged: `matrix_transpose` for gradient rules."""
    ndim = len(x.shape)
    return call(PERMUTE_DIMS, x, attrs=((*range(ndim - 2), ndim - 1, ndim - 2),))


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """A stack of matrices with each of them transposed: the last two dimensions exchanged.

    Parameters
    ----------
    x : TensorLike, shape (..., m, n)
        The matrices.

    Returns
    -------
    Tensor, shape (..., n, m)

    Raises
    ------
    ShapeError
        If `x` has fewer than two dimensions.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.matrix_transpose(tl.asarray([[[1, 2, 3], [4, 5, 6]]])).shape
    (1, 3, 2)
    """
    array = plain_array(x)
    if array is not None and array.ndim > 1:
        return wrapped(array.swapaxes(-1, -2))
    x = as_tensor(x, argument="matrix_transpose")
    if x.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: a tensor of at least 2 dimensions is needed, got shape {x.shape}"
        )
    return swap_last(x)  # type: ignore[no-any-return]  # a tensor in gives a tensor out


def swapaxes(x: TensorLike, axis1: int, axis2: int, /) -> Tensor:
    """A tensor with two of its dimensions exchanged.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis1, axis2 : int
        The axes that change places.

    Returns
    -------
    Tensor
        The elements of `x` with those axes exchanged.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.swapaxes(tl.asarray([[[1, 2, 3]]]), 0, 2).shape
    (3, 1, 1)
    """
    array = plain_array(x)
    if array is not None and type(axis1) is type(axis2) is int:
        try:
            return wrapped(array.swapaxes(axis1, axis2))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="swapaxes")
    first = normalize_axis("swapaxes", axis1, x.ndim)
    second = normalize_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return apply(PERMUTE_DIMS, x, attrs=(tuple(order),))


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int], /
) -> Tensor:
    """A tensor with the dimensions `source` at the places `destination`, the others in their order.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    source, destination : int or tuple of int
        The axes to move, and where to; as many of each.

    Returns
    -------
    Tensor
        The elements of `x` with its axes in the new order.

    Raises
    ------
    ArgumentError
        If the two do not name the same number of dimensions, or one twice.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.moveaxis(tl.asarray([[[1, 2, 3]]]), -1, 0).shape
    (3, 1, 1)
    """
    array = plain_array(x)
    if array is not None and is_int_or_ints(source) and is_int_or_ints(destination):
        try:
            return wrapped(np.moveaxis(array, source, destination))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="moveaxis")
    sources = _places("source", source, x.ndim)
    targets = _places("destination", destination, x.ndim)
    if len(sources) != len(targets):
        raise ArgumentError(
            f"moveaxis: source {source} and destination {destination} must name the same number "
            f"of dimensions"
        )
    rest = [axis for axis in range(x.ndim) if axis not in sources]
    placed = dict(zip(targets, sources, strict=True))
    others = iter(rest)
    order = tuple(placed[i] if i in placed else next(others) for i in range(x.ndim))
    return apply(PERMUTE_DIMS, x, attrs=(order,))


def _places(argument: str, axis: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    given = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    places = tuple(normalize_axis("moveaxis", as_index("moveaxis", a), ndim) for a in given)
    if len(set(places)) != len(places):
        raise ArgumentError(f"moveaxis: {argument} {axis} names the same dimension twice")
    return places


# --- flip ------------------------------------------------------------------------------------


def _flip_infer(x: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    return spec_of(x.static_shape, x.dtype)


def _flip_kernel(x: Array, axes: tuple[int, ...]) -> Array:
    steps = [slice(None, None, -1 if axis in axes else 1) for axis in range(x.ndim)]
    index: tuple[Any, ...] = (*steps, ...)  # the ellipsis keeps the result an array if x is 0-d
    flipped: Array = x[index]
    return flipped


def _flip_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(FLIP, ct, attrs=attrs)


FLIP = define_op(
    "flip",
    batch=batch_changed(next_axes),
    kernel=_flip_kernel,
    infer=_flip_infer,
    attr_names=("axes",),
    vjps=(_flip_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW | Trait.INVOLUTION,
    kinds=ANY_KIND,
    samples=(Sample(((4,),), ((0,),)), Sample(((2, 3),), ((0, 1),)), Sample(((2, 0),), ((0,),))),
)


def flip(x: TensorLike, /, axis: Axis = None) -> Tensor:
    """A tensor with the order of its elements reversed along `axis`, along all axes for None.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        The axes to reverse; None for all of them.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.flip(tl.asarray([1, 2, 3])).numpy()
    array([3, 2, 1])
    """
    array = plain_array(x)
    if array is not None and (axis is None or is_int_or_ints(axis)):
        try:
            return wrapped(np.flip(array, axis))  # type: ignore[arg-type]  # no other sequence comes
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="flip")
    return apply(FLIP, x, attrs=(normalize_axes("flip", axis, x.ndim),))


# --- methods ---------------------------------------------------------------------------------


def _transpose_method(x: Tensor, *axes: Any) -> Tensor:
    """`x.transpose()`, `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)):
        return transpose(x, axes[0])
    return transpose(x, axes or None)


attach_method("transpose", _transpose_method)
attach_method("swapaxes", swapaxes)
attach_method("T", property(transpose))
attach_method("mT", property(matrix_transpose))
for _function, _numpy in (
    (transpose, np.transpose),
    (swapaxes, np.swapaxes),
    (moveaxis, np.moveaxis),
    (flip, np.flip),
):
    register_ufunc(_numpy, _function)

shorten(PERMUTE_DIMS, FLIP)
