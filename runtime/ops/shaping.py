"""Ops that give a tensor another shape: reshape, dimensions of extent 1, broadcasting.

Their kernels return views, so their lowering is an index map: nothing is computed. The order of
dimensions is the business of `permuting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import Attrs, IndexMap, Sample, ShapeOf, Trait, define_op
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops.axes import (
    ANY_KIND,
    Array,
    Axis,
    as_indices,
    kept_shape,
    normalize_axes,
)
from tapeline.runtime.ops.batch_rules import (
    batch_broadcast_to,
    batch_changed,
    larger_shape,
    next_axes,
)
from tapeline.runtime.ops.pointwise import apply, call, shorten, unbroadcast
from tapeline.runtime.spec import Shape, TensorSpec, spec_of
from tapeline.runtime.spec import broadcast_shapes as common_shape
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, register_ufunc
from tapeline.runtime.unwatched import is_int_or_ints, plain_array, wrapped

# --- reshape ---------------------------------------------------------------------------------


def _reshape_infer(x: TensorSpec, shape: Shape) -> TensorSpec:
    target = spec_of(shape, x.dtype)
    if target.size != x.size:
        raise ShapeError(
            f"reshape: a tensor of shape {x.shape} has {x.size} elements, which do not fill "
            f"shape {shape}"
        )
    return target


def _reshape_kernel(x: Array, shape: Shape) -> Array:
    return x.reshape(shape)


def _reshape_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return call(RESHAPE, ct, attrs=(shape,))


RESHAPE = define_op(
    "reshape",
    batch=batch_changed(larger_shape),
    kernel=_reshape_kernel,
    infer=_reshape_infer,
    attr_names=("shape",),
    saves=(ShapeOf(0),),
    vjps=(_reshape_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(
        Sample(((2, 6),), ((3, 4),)),
        Sample(((2, 3),), ((6,),)),
        Sample(((),), ((1, 1),)),
        Sample(((0, 3),), ((3, 0),)),
    ),
)


def resolve_shape(op_name: str, shape: int | Sequence[int], size: int) -> Shape:
    """`shape` as a tuple, with one -1 replaced by the extent that makes `size` elements."""
    extents = as_indices(op_name, shape)
    if any(extent < -1 for extent in extents) or extents.count(-1) > 1:
        raise ShapeError(
            f"{op_name}: shape {extents} must hold ints >= 0 and at most one -1 to be worked out"
        )
    known = 1
    for extent in extents:
        known *= 1 if extent == -1 else extent
    if -1 not in extents:
        if known != size:
            raise ShapeError(
                f"{op_name}: shape {extents} has room for {known} elements, the tensor has {size}"
            )
        return extents
    if known == 0 or size % known:
        raise ShapeError(
            f"{op_name}: {size} elements do not fill shape {extents} for any extent in place of -1"
        )
    return tuple(size // known if extent == -1 else extent for extent in extents)


def reshape(x: TensorLike, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements of a tensor, in the same row-major order, in another shape.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    shape : int or sequence of int
        The new shape; one extent may be -1 and is worked out from the rest.
    copy : bool, optional
        Without effect, since a tensor's memory is never seen from outside.

    Returns
    -------
    Tensor of the dtype of `x`

    Raises
    ------
    ShapeError
        If the shapes do not hold the same number of elements.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.reshape(tl.asarray([1, 2, 3, 4, 5, 6]), (2, -1)).numpy()
    array([[1, 2, 3],
           [4, 5, 6]])
    """
    array = plain_array(x)
    if array is not None and is_int_or_ints(shape, -1):
        try:
            return wrapped(array.reshape(shape))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="reshape")
    return apply(RESHAPE, x, attrs=(resolve_shape("reshape", shape, x.size),))


def ravel(x: TensorLike, /) -> Tensor:
    """The elements of a tensor in one dimension, in row-major order.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor, shape (size,)
        The elements of `x` in C order.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.ravel(tl.asarray([[1, 2], [3, 4]])).numpy()
    array([1, 2, 3, 4])
    """
    x = as_tensor(x, argument="ravel")
    return apply(RESHAPE, x, attrs=((x.size,),))


# --- expand_dims and squeeze -----------------------------------------------------------------


def _expanded(shape: Shape, axes: tuple[int, ...]) -> Shape:
    extents = iter(shape)
    return tuple(1 if axis in axes else next(extents) for axis in range(len(shape) + len(axes)))


def _squeezed(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _expand_dims_infer(x: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    return spec_of(_expanded(x.static_shape, axes), x.dtype)


def _expand_dims_kernel(x: Array, axes: tuple[int, ...]) -> Array:
    return x.reshape(_expanded(x.shape, axes))


def _expand_dims_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(SQUEEZE, ct, attrs=attrs)


def _squeeze_infer(x: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    shape = x.static_shape
    for axis in axes:
        if shape[axis] != 1:
            raise ShapeError(
                f"squeeze: axis {axis} of shape {shape} has extent {shape[axis]}; only an axis of "
                f"extent 1 can be removed"
            )
    return spec_of(_squeezed(shape, axes), x.dtype)


def _squeeze_kernel(x: Array, axes: tuple[int, ...]) -> Array:
    return x.reshape(_squeezed(x.shape, axes))


def _squeeze_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(EXPAND_DIMS, ct, attrs=attrs)


EXPAND_DIMS = define_op(
    "expand_dims",
    batch=batch_changed(next_axes),
    kernel=_expand_dims_kernel,
    infer=_expand_dims_infer,
    attr_names=("axes",),
    vjps=(_expand_dims_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(Sample(((2, 3),), ((0,),)), Sample(((2, 3),), ((1, 3),)), Sample(((),), ((0,),))),
)

SQUEEZE = define_op(
    "squeeze",
    batch=batch_changed(next_axes),
    kernel=_squeeze_kernel,
    infer=_squeeze_infer,
    attr_names=("axes",),
    vjps=(_squeeze_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(Sample(((2, 1, 3),), ((1,),)), Sample(((1, 4, 1),), ((0, 2),))),
)


def expand_dims(x: TensorLike, /, axis: int | Sequence[int] = 0) -> Tensor:
    """A tensor with a new dimension of extent 1 at each given place of the result.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    axis : int or sequence of int
        Places in the result's shape; negative ones count from its end.

    Returns
    -------
    Tensor
        The elements of `x`, with the new axes of extent 1.

    Raises
    ------
    ShapeError
        If a place lies outside the result's shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.expand_dims(tl.asarray([1, 2, 3]), axis=-1).shape
    (3, 1)
    """
    x = as_tensor(x, argument="expand_dims")
    count = 1 if isinstance(axis, int | np.integer) else len(axis)
    return apply(EXPAND_DIMS, x, attrs=(normalize_axes("expand_dims", axis, x.ndim + count),))


def squeeze(x: TensorLike, /, axis: Axis = None) -> Tensor:
    """A tensor without the given dimensions of extent 1; without all of them for None.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    axis : int, tuple of int or None
        Axes of extent 1 to leave out; None for all such axes.

    Returns
    -------
    Tensor
        The elements of `x` without those axes.

    Raises
    ------
    ShapeError
        If a given dimension has another extent.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.squeeze(tl.asarray([[1], [2]]), axis=1).shape
    (2,)
    """
    array = plain_array(x)
    if array is not None and array.ndim and (axis is None or is_int_or_ints(axis)):
        try:
            return wrapped(array.squeeze(axis))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="squeeze")
    if axis is None:
        axes = tuple(place for place, extent in enumerate(x.shape) if extent == 1)
    else:
        axes = normalize_axes("squeeze", axis, x.ndim)
        _squeeze_infer(spec_of(x.shape, x.dtype), axes)
    return apply(SQUEEZE, x, attrs=(axes,))


# --- broadcasting ----------------------------------------------------------------------------


def _broadcast_to_infer(x: TensorSpec, shape: Shape) -> TensorSpec:
    own = x.static_shape
    lead = len(shape) - len(own)
    fits = lead >= 0 and all(
        extent in (wanted, 1) for extent, wanted in zip(own, shape[lead:], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"broadcast_to: shape {own} does not broadcast to {shape}; each extent, from the last, "
            f"must be equal or 1"
        )
    return spec_of(shape, x.dtype)


def _broadcast_to_kernel(x: Array, shape: Shape) -> Array:
    return np.broadcast_to(x, shape)


def _broadcast_to_vjp(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return unbroadcast(ct, shape)


BROADCAST_TO = define_op(
    "broadcast_to",
    batch=batch_broadcast_to,
    kernel=_broadcast_to_kernel,
    infer=_broadcast_to_infer,
    attr_names=("shape",),
    saves=(ShapeOf(0),),
    vjps=(_broadcast_to_vjp,),
    emit=IndexMap(),
    traits=Trait.VIEW,
    kinds=ANY_KIND,
    samples=(
        Sample(((3,),), ((2, 3),)),
        Sample(((2, 1),), ((4, 2, 3),)),
        Sample(((),), ((2, 2),)),
        Sample(((1, 3),), ((0, 3),)),
    ),
)


def spread(ct: Any, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A value reduced over `axes`, repeated along them: what undoes a reduction's change of shape.

    For gradient rules. Arrays are written out in full, which is faster than a strided view.
    """
    if isinstance(ct, Tensor):
        if not keepdims and axes:
            ct = apply(EXPAND_DIMS, ct, attrs=(axes,))
        return ct if ct.shape == shape else apply(BROADCAST_TO, ct, attrs=(shape,))
    if not keepdims and ct.ndim:
        ct = ct.reshape(kept_shape(shape, axes))
    out = np.empty(shape, ct.dtype)
    out[...] = ct
    return out


def broadcast_to(x: TensorLike, /, shape: int | Sequence[int]) -> Tensor:
    """A tensor repeated along new dimensions and along dimensions of extent 1 to fill `shape`.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    shape : int or tuple of int
        The wanted shape.

    Returns
    -------
    Tensor
        Of that shape and the dtype of `x`.

    Raises
    ------
    ShapeError
        If the shape of `x` does not broadcast to `shape`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.broadcast_to(tl.asarray([1, 2]), (2, 2)).numpy()
    array([[1, 2],
           [1, 2]])
    """
    array = plain_array(x)
    if array is not None and is_int_or_ints(shape, 0):
        try:
            return wrapped(np.broadcast_to(array, shape))
        except ValueError:
            pass  # what follows says what is wrong
    x = as_tensor(x, argument="broadcast_to")
    target = as_indices("broadcast_to", shape)
    _broadcast_to_infer(spec_of(x.shape, x.dtype), target)
    return apply(BROADCAST_TO, x, attrs=(target,))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that tensors of these shapes broadcast to.

    Parameters
    ----------
    *shapes : tuple of int
        Shapes that broadcast.

    Returns
    -------
    tuple of int
        The shape that they broadcast to.

    Raises
    ------
    ShapeError
        If they do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    if not shapes:
        return ()
    return common_shape("broadcast_shapes", *[tuple(shape) for shape in shapes])


def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """The tensors, each broadcast to the shape that all of them broadcast to.

    Parameters
    ----------
    *arrays : TensorLike
        With shapes that broadcast.

    Returns
    -------
    list of Tensor
        All of the broadcast shape, each of its own dtype.

    Examples
    --------
    >>> import tapeline as tl
    >>> [t.shape for t in tl.broadcast_arrays([1, 2, 3], [[1], [2]])]
    [(2, 3), (2, 3)]
    """
    if not arrays:
        return ()
    tensors = [as_tensor(array, argument="broadcast_arrays") for array in arrays]
    shape = common_shape("broadcast_arrays", *(tensor.shape for tensor in tensors))
    return tuple([apply(BROADCAST_TO, tensor, attrs=(shape,)) for tensor in tensors])


attach_method("squeeze", squeeze)
for _function, _numpy in (
    (squeeze, np.squeeze),
    (expand_dims, np.expand_dims),
    (broadcast_to, np.broadcast_to),
    (broadcast_arrays, np.broadcast_arrays),
):
    register_ufunc(_numpy, _function)

shorten(RESHAPE, EXPAND_DIMS, SQUEEZE, BROADCAST_TO)
