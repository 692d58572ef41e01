"""Ops that put tensors together or repeat them: concat, stack, pad; and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapeline.runtime.indexed_slices import IndexedSlices, densified
from tapeline.runtime.op import Assembly, Attrs, Expansion, Part, Sample, Trait, define_op
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import batch_changed, next_axis, no_pad_first
from tapeline.runtime.ops.pointwise import apply, call, shorten
from tapeline.runtime.ops.shaping import EXPAND_DIMS, ravel
from tapeline.runtime.ops.slicing import FULL, GETITEM, slice_along, strip_full
from tapeline.runtime.spec import Shape, TensorSpec, canonical_dtype, normalize_axis, spec_of
from tapeline.runtime.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    cast_tensor,
    install_conversions,
    register_ufunc,
)
from tapeline.runtime.unwatched import plain_arrays, wrapped

# --- concat ----------------------------------------------------------------------------------


def _concat_kernel(*args: Any) -> Array:
    return np.concatenate(args[:-2], args[-2])


def _concat_infer(*args: Any) -> TensorSpec:
    specs: tuple[TensorSpec, ...] = args[:-2]
    axis, sizes = args[-2:]
    first = specs[0].static_shape
    for spec in specs:
        shape = spec.static_shape
        if len(shape) != len(first) or _without(shape, axis) != _without(first, axis):
            raise ShapeError(
                f"concat: shapes {first} and {shape} differ outside of axis {axis}; all other "
                f"extents must be equal"
            )
        if spec.dtype != specs[0].dtype:
            raise DTypeError(f"concat: dtypes {specs[0].dtype} and {spec.dtype} differ; cast one")
    if tuple(spec.static_shape[axis] for spec in specs) != sizes:
        raise ArgumentError(f"concat: sizes {sizes} are not those of the inputs along axis {axis}")
    return spec_of((*first[:axis], sum(sizes), *first[axis + 1 :]), specs[0].dtype)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _concat_vjp(cts: tuple[Any, ...], attrs: Attrs, needed: Sequence[bool]) -> tuple[Any, ...]:
    (ct,) = cts
    axis: int
    sizes: tuple[int, ...]
    axis, sizes = attrs  # type: ignore[assignment]  # attributes are typed loosely
    starts = accumulate(sizes, initial=0)
    if type(ct) is IndexedSlices and axis == 0:
        return tuple(
            ct.part(start, size) if wanted else None
            for start, size, wanted in zip(starts, sizes, needed, strict=False)
        )
    ct = densified(ct)
    return tuple(
        slice_along(ct, axis, start, start + size) if wanted else None
        for start, size, wanted in zip(starts, sizes, needed, strict=False)
    )


def _concat_parts(specs: Sequence[TensorSpec], attrs: Attrs) -> tuple[Part, ...]:
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    parts = []
    start = 0
    for source, spec in enumerate(specs):
        shape = spec.static_shape
        region = [slice(0, extent) for extent in shape]
        region[axis] = slice(start, start + shape[axis])
        start += shape[axis]
        parts.append(Part(tuple(region), source))
    return tuple(parts)


CONCAT = define_op(
    "concat",
    batch=batch_changed(next_axis, None),
    kernel=_concat_kernel,
    infer=_concat_infer,
    n_inputs=None,
    attr_names=("axis", "sizes"),
    joint_vjp=_concat_vjp,
    traits=Trait.ROWS,
    emit=Assembly(_concat_parts),
    kinds=ANY_KIND,
    samples=(
        Sample(((2, 3), (1, 3)), (0, (2, 1))),
        Sample(((2, 1), (2, 4), (2, 0)), (1, (1, 4, 0))),
        Sample(((3,),), (0, (3,))),
    ),
)


def _promoted(op_name: str, arrays: Sequence[TensorLike]) -> list[Tensor]:
    """The arrays as tensors of the one dtype that NumPy gives them together."""
    if isinstance(arrays, Tensor):
        tensors = list(arrays)
    elif isinstance(arrays, str | bytes) or not hasattr(arrays, "__iter__"):
        raise ArgumentTypeError(f"{op_name}: expected a sequence of tensors, got {arrays!r}")
    else:
        tensors = [as_tensor(x, argument=f"{op_name}: tensor {k}") for k, x in enumerate(arrays)]
    if not tensors:
        raise ArgumentError(f"{op_name}: at least one tensor is needed")
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        dtype = canonical_dtype(np.result_type(*dtypes))
        tensors = [cast_tensor(tensor, dtype) for tensor in tensors]
    return tensors


def concat(arrays: Sequence[TensorLike], /, axis: int | None = 0) -> Tensor:
    """The tensors joined one after the other along an axis that they have.

    Parameters
    ----------
    arrays : sequence of TensorLike
        Tensors of one number of dimensions, with equal extents but along `axis`.
    axis : int or None
        Axis to join along; None joins the elements of all of them in one dimension.

    Returns
    -------
    Tensor of the dtype that the tensors promote to

    Raises
    ------
    ShapeError
        If the other extents differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.concat([[1, 2], [3]]).numpy()
    array([1, 2, 3])
    """
    values = plain_arrays(arrays)
    if values is not None and (axis is None or type(axis) is int):
        try:
            return wrapped(np.concatenate(values, axis))
        except ValueError:
            pass  # what follows says what is wrong
    tensors = _promoted("concat", arrays)
    if axis is None:
        tensors, axis = [ravel(tensor) for tensor in tensors], 0
    ndims = {tensor.ndim for tensor in tensors}
    if ndims == {0}:
        raise ShapeError("concat: 0-d tensors cannot be joined; use tl.stack")
    if len(ndims) > 1:
        shapes = ", ".join(str(tensor.shape) for tensor in tensors)
        raise ShapeError(f"concat: the tensors must have one number of dimensions, got {shapes}")
    axis = normalize_axis("concat", axis, tensors[0].ndim)
    attrs = (axis, tuple(tensor.shape[axis] for tensor in tensors))
    first = tensors[0].shape
    if any(tensor.shape != first for tensor in tensors):
        _concat_infer(*(spec_of(tensor.shape, tensor.dtype) for tensor in tensors), *attrs)
    result: Tensor = apply(CONCAT, *tensors, attrs=attrs)
    return result


# --- stack -----------------------------------------------------------------------------------


def _stack_kernel(*args: Any) -> Array:
    return np.stack(args[:-1], args[-1])


def _stack_infer(*args: Any) -> TensorSpec:
    specs: tuple[TensorSpec, ...] = args[:-1]
    axis: int = args[-1]
    first = specs[0].static_shape
    for spec in specs:
        if spec.static_shape != first:
            raise ShapeError(
                f"stack: all shapes must be equal, got {first} and {spec.static_shape}"
            )
        if spec.dtype != specs[0].dtype:
            raise DTypeError(f"stack: dtypes {specs[0].dtype} and {spec.dtype} differ; cast one")
    return spec_of((*first[:axis], len(specs), *first[axis:]), specs[0].dtype)


def _stack_vjp(cts: tuple[Any, ...], attrs: Attrs, needed: Sequence[bool]) -> tuple[Any, ...]:
    (ct,) = cts
    axis: int = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    before = (FULL,) * axis
    return tuple(
        call(GETITEM, ct, attrs=((*before, place),)) if wanted else None
        for place, wanted in enumerate(needed)
    )


def _stack_expand(*args: Any) -> Any:
    tensors, axis = args[:-1], args[-1]
    rows = tuple(apply(EXPAND_DIMS, tensor, attrs=((axis,),)) for tensor in tensors)
    return apply(CONCAT, *rows, attrs=(axis, (1,) * len(rows)))


STACK = define_op(
    "stack",
    batch=batch_changed(next_axis),
    kernel=_stack_kernel,
    infer=_stack_infer,
    n_inputs=None,
    attr_names=("axis",),
    joint_vjp=_stack_vjp,
    emit=Expansion(_stack_expand),
    kinds=ANY_KIND,
    samples=(
        Sample(((2, 3), (2, 3)), (0,)),
        Sample(((2, 3), (2, 3), (2, 3)), (2,)),
        Sample(((), ()), (0,)),
    ),
)


def stack(arrays: Sequence[TensorLike], /, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    Parameters
    ----------
    arrays : sequence of TensorLike
        Tensors of one shape.
    axis : int
        Place of the new axis in the result.

    Returns
    -------
    Tensor
        With one axis more than the arrays.

    Raises
    ------
    ShapeError
        If the shapes differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.stack([[1, 2], [3, 4]], axis=1).numpy()
    array([[1, 3],
           [2, 4]])
    """
    values = plain_arrays(arrays)
    if values is not None and type(axis) is int:
        try:
            return wrapped(np.stack(values, axis))
        except ValueError:
            pass  # what follows says what is wrong
    tensors = _promoted("stack", arrays)
    axis = normalize_axis("stack", axis, tensors[0].ndim + 1)
    first = tensors[0].shape
    if any(tensor.shape != first for tensor in tensors):
        _stack_infer(*(spec_of(tensor.shape, tensor.dtype) for tensor in tensors), axis)
    result: Tensor = apply(STACK, *tensors, attrs=(axis,))
    return result


install_conversions(stack=stack)

# --- pad -------------------------------------------------------------------------------------


def _pad_kernel(x: Array, pads: tuple[tuple[int, int], ...], value: float) -> Array:
    shape = tuple(low + n + high for n, (low, high) in zip(x.shape, pads, strict=True))
    out = np.empty(shape, x.dtype)
    rest: list[slice] = [slice(None)] * x.ndim
    for axis, (n, (low, _)) in enumerate(zip(x.shape, pads, strict=True)):
        for side in (slice(0, low), slice(low + n, None)):
            out[(*rest[:axis], side)] = value
        rest[axis] = slice(low, low + n)
    out[tuple(rest)] = x
    return out


def _inner(shape: Shape, pads: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(low, low + n) for n, (low, _) in zip(shape, pads, strict=True))


def _pad_infer(x: TensorSpec, pads: tuple[tuple[int, int], ...], value: float) -> TensorSpec:
    shape = x.static_shape
    return spec_of(
        tuple(low + n + high for n, (low, high) in zip(shape, pads, strict=True)), x.dtype
    )


def _pad_vjp(ct: Any, attrs: Attrs) -> Any:
    pads: tuple[tuple[int, int], ...] = attrs[0]  # type: ignore[assignment]  # attributes are typed loosely
    index = tuple(
        ("slice", low, extent - high, 1) if low or high else FULL
        for extent, (low, high) in zip(ct.shape, pads, strict=True)
    )
    return call(GETITEM, ct, attrs=(strip_full(index),))


def _pad_parts(specs: Sequence[TensorSpec], attrs: Attrs) -> tuple[Part, ...]:
    """The input in the middle, and two slabs of fill along each axis around it."""
    pads: tuple[tuple[int, int], ...]
    fill: float
    pads, fill = attrs  # type: ignore[assignment]  # attributes are typed loosely
    shape = specs[0].static_shape
    inner = _inner(shape, pads)
    parts = [Part(inner, 0)]
    for axis, (low, high) in enumerate(pads):
        outer = tuple(
            slice(0, before + n + after)
            for n, (before, after) in zip(shape[axis + 1 :], pads[axis + 1 :], strict=True)
        )
        end = low + shape[axis]
        for start, stop in ((0, low), (end, end + high)):
            if start < stop:
                parts.append(Part((*inner[:axis], slice(start, stop), *outer), -1, fill))
    return tuple(parts)


PAD = define_op(
    "pad",
    batch=batch_changed(no_pad_first, None),
    kernel=_pad_kernel,
    infer=_pad_infer,
    attr_names=("pads", "value"),
    vjps=(_pad_vjp,),
    emit=Assembly(_pad_parts),
    kinds=ANY_KIND,
    samples=(
        Sample(((3,),), (((1, 2),), 0)),
        Sample(((2, 3),), (((1, 0), (0, 2)), 1)),
        Sample(((),), ((), 0)),
        Sample(((0, 2),), (((1, 1), (0, 0)), 0)),
    ),
)


def pad(
    x: TensorLike,
    /,
    pad_width: int | Sequence[int] | Sequence[Sequence[int]],
    *,
    constant_values: float = 0,
) -> Tensor:
    """A tensor with a border of a constant around it.

    Parameters
    ----------
    x : TensorLike
        The tensor.
    pad_width : int, (int, int) or sequence of (int, int)
        Number of elements before and after, for all axes or one pair per axis.
    constant_values : number
        What the border holds.

    Returns
    -------
    Tensor
        Of the dtype of `x`, larger by the padding.

    Raises
    ------
    ArgumentError
        If the widths are negative or not one pair per axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.pad(tl.asarray([1, 2]), (1, 2)).numpy()
    array([0, 1, 2, 0, 0])
    """
    x = as_tensor(x, argument="pad")
    if type(pad_width) is int and pad_width >= 0:
        pads: tuple[tuple[int, int], ...] = ((pad_width, pad_width),) * x.ndim
    else:
        pads = _pads(pad_width, x.ndim)
    result: Tensor = apply(PAD, x, attrs=(pads, constant_values))
    return result


def _pads(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """The widths as one pair per axis."""
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    except ValueError:
        widths = None
    if widths is None or widths.dtype.kind not in "iu" or (widths < 0).any():
        raise ArgumentError(
            f"pad: pad_width must be ints >= 0, one pair for each of the {ndim} axes, "
            f"got {pad_width!r}"
        )
    return tuple((int(low), int(high)) for low, high in widths)


register_ufunc(np.concatenate, concat)
register_ufunc(np.stack, stack)
register_ufunc(np.pad, pad)

shorten(PAD)
