"""`x[key] = value` as functions: the tensor that x would be afterwards.

The cell that gets the new value is the business of `operators`; gradients follow values, so the
old value of x has a gradient of zero at the places that were written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.cells import install_indexing
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.op import (
    Attrs,
    Expansion,
    LibraryCall,
    Op,
    Sample,
    ShapeOf,
    Trait,
    define_op,
    get_op,
)
from tapeline.runtime.ops.axes import ANY_KIND, Array
from tapeline.runtime.ops.batch_rules import batch_setitem, rank, spread, widen
from tapeline.runtime.ops.evenly_spaced import arange
from tapeline.runtime.ops.gather import TAKE, TAKE_GRAD
from tapeline.runtime.ops.indexing import Key, getitem, join_indices, mask_fits, parsed_key, read
from tapeline.runtime.ops.pointwise import apply, call, unbroadcast, zero_like
from tapeline.runtime.ops.shaping import BROADCAST_TO, RESHAPE
from tapeline.runtime.ops.slicing import (
    FULL,
    GETITEM,
    GETITEM_GRAD,
    BasicIndex,
    indexed_shape,
    numpy_index,
)
from tapeline.runtime.ops.unknown_bounds import regions_of, unknown_slices, without
from tapeline.runtime.spec import Shape, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor, new_tensor

# --- at a basic index ------------------------------------------------------------------------


def _setitem_kernel(x: Array, value: Array, index: BasicIndex) -> Array:
    out = np.array(x, order="C")
    out[numpy_index(index)] = value
    return out


def _setitem_infer(x: TensorSpec, value: TensorSpec, index: BasicIndex) -> TensorSpec:
    if x.dtype != value.dtype:
        raise DTypeError(f"setitem: dtypes {x.dtype} and {value.dtype} differ; cast the value")
    return spec_of(x.static_shape, x.dtype)


def _setitem_vjp_x(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return call(SETITEM, ct, zero_like(ct), attrs=attrs)


def _setitem_vjp_value(ct: Any, attrs: Attrs, shape: Shape) -> Any:
    return unbroadcast(call(GETITEM, ct, attrs=attrs), shape)


def _setitem_expand(x: Tensor, value: Tensor, index: BasicIndex) -> Any:
    """Where the index points the spread value, elsewhere x."""
    shape = indexed_shape(x.shape, index)
    everywhere = apply(BROADCAST_TO, new_tensor(np.ones((), np.bool)), attrs=(shape,))
    values = apply(BROADCAST_TO, value, attrs=(shape,))
    written = apply(GETITEM_GRAD, everywhere, attrs=(index, x.shape))
    values = apply(GETITEM_GRAD, values, attrs=(index, x.shape))
    return apply(get_op("where"), written, values, x)


SETITEM = define_op(
    "setitem",
    batch=batch_setitem,
    kernel=_setitem_kernel,
    infer=_setitem_infer,
    n_inputs=2,
    attr_names=("index",),
    saves=(ShapeOf(1),),
    vjps=(_setitem_vjp_x, _setitem_vjp_value),
    emit=Expansion(_setitem_expand),
    kinds=ANY_KIND,
    samples=(
        Sample(((4, 5), (5,)), ((1,),)),
        Sample(((4, 5), ()), ((FULL, ("slice", 1, 5, 2)),)),
        Sample(((4, 5), (2, 1)), ((("slice", 3, 1, -1), None, 2),)),
        Sample(((3,), ()), ((2,),)),
    ),
)
"""A copy of the first input with the second one, broadcast, at the places of `index`."""

# --- at places -------------------------------------------------------------------------------


def _put_kernel(x: Array, places: Array, value: Array) -> Array:
    out = np.array(x, order="C")
    out.reshape(-1)[places] = value
    return out


def _put_infer(x: TensorSpec, places: TensorSpec, value: TensorSpec) -> TensorSpec:
    if x.dtype != value.dtype:
        raise DTypeError(f"put: dtypes {x.dtype} and {value.dtype} differ; cast the value")
    return spec_of(x.static_shape, x.dtype)


def _put_vjp_x(ct: Any, attrs: Attrs, places: Any, shape: Shape) -> Any:
    return call(PUT, ct, places, zero_like(ct))


def _put_vjp_value(ct: Any, attrs: Attrs, places: Any, shape: Shape) -> Any:
    count = 1
    for extent in ct.shape:
        count *= extent
    taken = call(TAKE, call(RESHAPE, ct, attrs=((count,),)), places, attrs=(0,))
    if not places.ndim:
        return unbroadcast(taken, shape)
    lasting = call(LAST_WRITES, places, attrs=(count,))
    return unbroadcast(call(get_op("where"), lasting, taken, zero_like(ct)), shape)


def _places(*shape: int, size: int) -> Any:
    """For samples: random places, some of them twice."""

    def draw(rng: np.random.Generator) -> Array:
        return rng.integers(0, size, shape)

    return draw


def _batch_put(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Each example has its own stretch of the places of all."""
    (x, places, value), (_, map_places, map_value) = inputs, mapped
    x = spread(x, mapped[0], size)
    count = math.prod(x.shape[1:])
    ndim = rank(places, map_places)
    own = spread(apply(get_op("cast"), places, attrs=(np.dtype(np.int64),)), map_places, size)
    starts = np.arange(size, dtype=np.int64).reshape(size, *[1] * ndim) * count
    value = widen(value, map_value, ndim)
    found: Tensor = bind(op, (x, apply(get_op("add"), own, new_tensor(starts)), value), attrs)
    return found


PUT = define_op(
    "put",
    batch=_batch_put,
    kernel=_put_kernel,
    emit=LibraryCall("put"),
    infer=_put_infer,
    n_inputs=3,
    saves=(1, ShapeOf(2)),
    vjps=(_put_vjp_x, None, _put_vjp_value),
    traits=Trait.NO_RECOMPUTE,
    kinds=ANY_KIND,
    samples=(
        Sample(((6,), _places(4, size=6), (4,))),
        Sample(((2, 3), _places(2, 4, size=6), (4,))),
        Sample(((2, 3), _places(size=6), ())),
    ),
)
"""A copy of x with the value, broadcast, at `places`, which are >= 0 and count its elements in
row-major order. Of two values for one place the later stays."""


def _last_writes_kernel(places: Array, size: int) -> Array:
    order = np.arange(places.size).reshape(places.shape)
    last = np.zeros(size, np.int64)
    last[places.reshape(-1)] = order.reshape(-1)
    return np.asarray(last[places] == order)


def _last_writes_expand(places: Tensor, size: int) -> Tensor:
    order = new_tensor(np.arange(places.size).reshape(places.shape))
    last = apply(PUT, new_tensor(np.zeros(size, np.int64)), places, order)
    return apply(get_op("equal"), apply(TAKE, last, places, attrs=(0,)), order)


def _last_writes_infer(places: TensorSpec, size: int) -> TensorSpec:
    return spec_of(places.static_shape, np.dtype(np.bool))


LAST_WRITES = define_op(
    "last_writes",
    kernel=_last_writes_kernel,
    infer=_last_writes_infer,
    attr_names=("size",),
    vjps=(None,),
    emit=Expansion(_last_writes_expand),
    kinds="iu",
    samples=(Sample((_places(6, size=4),), (4,)),),
)
"""Which of the writes to `places` are not overwritten by a later one."""

# --- assignment ------------------------------------------------------------------------------


def setitem(x: Tensor, key: Any, value: Any) -> Tensor:
    """What `x` is after `x[key] = value`, in the dtype of `x`."""
    if type(value) in (bool, int, float):
        value = new_tensor(np.array(value, x.dtype))
    value = as_tensor(value, argument="x[key] = value")
    if value.dtype.kind == "c" and x.dtype.kind != "c":
        raise DTypeError(
            f"x[key] = value: x of dtype {x.dtype} cannot hold complex values; assign "
            f"tl.real(value)"
        )
    value = cast_tensor(value, x.dtype)
    mask = _mask_of(key)
    if mask is not None and value.ndim <= x.ndim - mask.ndim:
        return _write_masked(x, mask, value)
    unknown = unknown_slices(key, x.ndim) if STATE.handler is not None else []
    if unknown:
        *outer, (region, _) = regions_of(x, unknown)
        written = setitem(region, without(key, unknown), value)
        for region, places in outer[::-1]:
            written = setitem(region, places, written)
        return written
    parsed = parsed_key(key, x.shape)
    if not parsed.arrays:
        shape = indexed_shape(x.shape, parsed.basic)
        return apply(SETITEM, x, _fit(value, shape), attrs=(parsed.basic,))
    return _write_arrays(x, parsed, value)


def _fit(value: Tensor, shape: Shape) -> Tensor:
    """The value without leading dimensions of extent 1 that the place it goes to does not have."""
    extra = value.ndim - len(shape)
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        value = apply(RESHAPE, value, attrs=(value.shape[extra:],))
    pairs = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or not all(own in (1, wanted) for own, wanted in pairs):
        raise ShapeError(
            f"x[key] = value: a value of shape {value.shape} does not broadcast to the shape of "
            f"x[key], {shape}"
        )
    return value


def _mask_of(key: Any) -> Tensor | None:
    """The mask, where the whole key is one mask."""
    if isinstance(key, Tensor | np.ndarray) and key.dtype.kind == "b" and key.ndim:
        return as_tensor(key, argument="index")
    return None


def _write_masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """As a choice element by element, which needs no values of the mask while tracing."""
    if mask.ndim > x.ndim or not mask_fits(mask.shape, x.shape[: mask.ndim]):
        raise ShapeError(
            f"x[mask] = value: a mask of shape {mask.shape} does not fit x of shape {x.shape}"
        )
    rest = x.shape[mask.ndim :]
    value = _fit(value, rest)
    if mask.shape != x.shape[: mask.ndim]:
        return x
    mask = apply(RESHAPE, mask, attrs=(mask.shape + (1,) * len(rest),)) if rest else mask
    return apply(get_op("where"), mask, value, x)


def _write_arrays(x: Tensor, key: Key, value: Tensor) -> Tensor:
    """Find the places, then put the value there."""
    places = places_of(x, key)
    return apply(PUT, x, places, _fitted(value, places.shape))


def places_of(x: Tensor, key: Key) -> Tensor:
    """The positions among all elements that a key takes, by indexing all positions where need
    be."""
    if not key.basic and [array.axis for array in key.arrays] == list(range(x.ndim)):
        return join_indices(key, x.shape)
    return read(_positions(x.shape, x.size), key)


def _positions(shape: Shape, size: int) -> Tensor:
    """The position of each element in row-major order."""
    if is_open_shape(shape):
        found: Tensor = apply(RESHAPE, arange(size), attrs=(shape,))
        return found
    return new_tensor(np.arange(size).reshape(shape))


def _fitted(value: Tensor, shape: Shape) -> Tensor:
    value = _fit(value, shape)
    return value if value.shape == shape else apply(BROADCAST_TO, value, attrs=(shape,))


def added_at(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """What `x` is after the value is added at each place of the key, as often as it comes there."""
    places = places_of(x, parsed_key(key, x.shape))
    value = _fitted(value, places.shape)
    row = (places.size,)
    places, value = (apply(RESHAPE, part, attrs=(row,)) for part in (places, value))
    total = apply(TAKE_GRAD, value, places, attrs=(0, x.size))
    return x + apply(RESHAPE, total, attrs=(x.shape,))


install_indexing(getitem, setitem)
