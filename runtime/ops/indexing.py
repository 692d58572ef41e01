"""`x[key]` with every kind of key that NumPy takes: what a key means, and which ops carry it out.

Ints, slices, None and the ellipsis are one `getitem`. Index tensors become one `take`: the indexed
axes are brought together, their indices joined by `ravel_index`. A mask becomes the index tensors
of its true places. Assignments stand in `assignment`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dims import extent as extent_of
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexOutOfRangeError,
)
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.gather import RAVEL_INDEX, TAKE, index_tensor
from tapeline.runtime.ops.permuting import PERMUTE_DIMS
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.searching import NONZERO
from tapeline.runtime.ops.shaping import RESHAPE
from tapeline.runtime.ops.slicing import (
    FULL,
    GETITEM,
    BasicIndex,
    SliceEntry,
    canonical_int,
    canonical_slice,
    strip_full,
)
from tapeline.runtime.ops.unknown_bounds import read_slices, unknown_slices
from tapeline.runtime.spec import Shape, broadcast_shapes
from tapeline.runtime.tensor import Tensor, as_tensor, new_tensor
from tapeline.runtime.unwatched import plain_array, wrapped
from tapeline.runtime.value_sizes import bind_sized


class IndexArray(NamedTuple):
    """An index tensor of a key: the axis of x that it indexes, and that axis after the basic part
    of the key was applied."""

    tensor: Tensor
    axis: int
    place: int


class Key(NamedTuple):
    """A key resolved against a shape: the basic part first, then the index tensors."""

    basic: BasicIndex
    arrays: tuple[IndexArray, ...] = ()
    target: int = 0
    """Where the dimensions of the index tensors go in the result."""


def parse_key(key: Any, shape: Shape) -> Key:
    """What a key means for a tensor of `shape`.

    Raises
    ------
    IndexOutOfRangeError
        If the key has more places than the shape has dimensions, or an int lies outside.
    DTypeError, ArgumentTypeError
        If a place of the key is of no kind that can index.
    """
    items = _expand_ellipsis([_as_item(part) for part in _parts(key)], shape)
    entries: list[int | SliceEntry | None] = []
    arrays: list[IndexArray] = []
    advanced: list[int] = []
    axis = kept = target = 0
    for number, item in enumerate(items):
        if item is Ellipsis:
            continue
        if item is None:
            entries.append(None)
            kept += 1
            continue
        if isinstance(item, slice):
            entries.append(canonical_slice(item, shape[axis]))
            axis, kept = axis + 1, kept + 1
            continue
        target = target if advanced else kept
        advanced.append(number)
        if isinstance(item, int):
            entries.append(canonical_int(item, shape[axis], axis))
            axis += 1
            continue
        for tensor in _index_tensors(item, shape, axis):
            entries.append(None if _is_flag(item) else FULL)
            arrays.append(IndexArray(tensor, axis, kept))
            axis, kept = axis + (not _is_flag(item)), kept + 1
    if not arrays:
        return Key(strip_full(entries))
    adjacent = advanced[-1] - advanced[0] + 1 == len(advanced)
    return Key(strip_full(entries), tuple(arrays), target if adjacent else 0)


_PARSED: dict[Any, Key] = {}
_PARSED_LIMIT = 4096
_NEVER_CACHED = object()
_BASIC_TYPES = frozenset({int, slice, type(None), type(Ellipsis)})


def parsed_key(key: Any, shape: Shape) -> Key:
    """As `parse_key`; basic keys that came before are looked up."""
    plain = _hashable(key)
    if plain is _NEVER_CACHED:
        return parse_key(key, shape)
    found = _PARSED.get((plain, shape))
    if found is None:
        found = parse_key(key, shape)
        if len(_PARSED) >= _PARSED_LIMIT:
            _PARSED.clear()
        _PARSED[plain, shape] = found
    return found


def _hashable(key: Any) -> Any:
    """A basic key of Python ints as something that can be looked up: a slice becomes a tuple."""
    kind = type(key)
    if kind is int or key is None or key is Ellipsis:
        return key
    if kind is slice:
        bounds = (slice, key.start, key.stop, key.step)
        plain = all(bound is None or type(bound) is int for bound in bounds[1:])
        return bounds if plain else _NEVER_CACHED
    if kind is tuple:
        parts = tuple([_NEVER_CACHED if type(part) is tuple else _hashable(part) for part in key])
        return _NEVER_CACHED if _NEVER_CACHED in parts else parts
    return _NEVER_CACHED


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _as_item(part: Any) -> Any:
    """An int, slice, None, Ellipsis; a Tensor of ints; an array as a mask."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, bool | np.bool):
        return np.asarray(part)
    if type(part) is OpenNumber and part.kind is int:
        return part.__tapeline_tensor__()
    if isinstance(part, int | np.integer):
        return extent_of(part)
    if type(part) is Tensor and part.dtype.kind in "iu":
        return part
    hook = getattr(type(part), "__tapeline_tensor__", None)
    if hook is not None:
        part = hook(part)
    if isinstance(part, str | bytes) or not isinstance(
        part, Tensor | np.ndarray | list | tuple | range
    ):
        raise ArgumentTypeError(
            f"index: {part!r} cannot index a tensor; use ints, slices, None, ..., or tensors of "
            f"ints or bools"
        )
    tensor = as_tensor(np.asarray(part) if isinstance(part, range) else part, argument="index")
    if tensor.dtype.kind == "b":
        return _mask_item(tensor, given_as_tensor=part is tensor)
    tensor = index_tensor("index", tensor if tensor.size or part is tensor else part)
    if tensor.ndim == 0 and isinstance(part, np.ndarray):
        return int(part)
    return tensor


def _mask_item(mask: Tensor, given_as_tensor: bool) -> Array | Tensor:
    """The values of a mask; in a trace the mask itself, for nobody knows them yet."""
    value = mask._value
    if type(value) is not np.ndarray or (given_as_tensor and STATE.handler is not None):
        return mask
    return value


def _is_mask(item: Any) -> bool:
    """Whether the item is a mask, and no index."""
    return isinstance(item, np.ndarray) or (type(item) is Tensor and item.dtype.kind == "b")


def _is_flag(item: Any) -> bool:
    """Whether the item is a single bool, which makes a dimension of its own."""
    return _is_mask(item) and item.ndim == 0


def mask_fits(mask: Shape, shape: Shape) -> bool:
    """Whether a mask can pick from a shape: the same, or empty along some axes, as in NumPy."""
    return all(m in (0, n) for m, n in zip(mask, shape, strict=True))


def _index_tensors(item: Any, shape: Shape, axis: int) -> list[Tensor]:
    """The index tensors that an item of a key stands for."""
    if not _is_mask(item):
        return [item]
    if item.ndim == 0:
        if type(item) is Tensor:
            return _true_places(apply(RESHAPE, item, attrs=((1,),)))
        return [new_tensor(np.zeros(int(item), np.int64))]
    if not mask_fits(item.shape, shape[axis : axis + item.ndim]):
        raise IndexOutOfRangeError(
            f"index: a mask of shape {item.shape} does not fit shape {shape} from axis {axis} on; "
            f"it must be {shape[axis : axis + item.ndim]}"
        )
    if type(item) is Tensor:
        return _true_places(item)
    return [new_tensor(places) for places in np.nonzero(item)]


def _true_places(mask: Tensor) -> list[Tensor]:
    """Where a mask of a trace is true: one index tensor per dimension."""
    places: Tensor = bind_sized(NONZERO, (mask,), mask.size)
    return [places[axis] for axis in range(mask.ndim)]


def _expand_ellipsis(items: list[Any], shape: Shape) -> list[Any]:
    """The items with full slices for the places that are left out, at the ellipsis or at the end.

    The ellipsis stays before its slices: even if it stands for none, it parts what is around it.
    """
    used = 0
    ellipses = []
    for number, item in enumerate(items):
        if item is Ellipsis:
            ellipses.append(number)
        elif item is not None:
            used += item.ndim if _is_mask(item) else 1
    if len(ellipses) > 1:
        raise ArgumentError("index: a key can have only one ellipsis (...)")
    if used > len(shape):
        raise IndexOutOfRangeError(
            f"index: the key has {used} places, but the tensor of shape {shape} has {len(shape)} "
            f"dimensions"
        )
    full = [slice(None)] * (len(shape) - used)
    if not ellipses:
        return items + full
    return items[: ellipses[0] + 1] + full + items[ellipses[0] + 1 :]


# --- reading ---------------------------------------------------------------------------------


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`."""
    array = plain_array(x)
    if array is not None:
        kind = type(key)
        if kind in _BASIC_TYPES or (kind is tuple and _BASIC_TYPES.issuperset(map(type, key))):
            places = key  # NumPy gives a view, or one element
        else:
            places = _plain_places(key)
        if places is not None or key is None:
            try:
                return wrapped(array[places])
            except (IndexError, ValueError, TypeError):
                pass  # what follows says what is wrong
    if STATE.handler is not None:
        unknown = unknown_slices(key, x.ndim)
        if unknown:
            return read_slices(x, key, unknown)
    return read(x, parsed_key(key, x.shape))


def _plain_places(key: Any) -> Array | None:
    """The array of a key that is one list or tensor of ints, or a mask; None for others."""
    if type(key) is list:
        places = np.array(key)
        return places if places.dtype.kind == "i" else None
    places = plain_array(key)
    return places if places is not None and places.ndim and places.dtype.kind in "ib" else None


def read(x: Tensor, key: Key) -> Tensor:
    """The elements that a resolved key takes."""
    if key.basic or not key.arrays:
        x = apply(GETITEM, x, attrs=(key.basic,))
    return _take_arrays(x, key) if key.arrays else x


def _take_arrays(x: Tensor, key: Key) -> Tensor:
    """Take by all index tensors at once, and put their dimensions where NumPy puts them."""
    places = tuple(array.place for array in key.arrays)
    start = places[0]
    indices = key.arrays[0].tensor
    if len(places) > 1:
        if places != tuple(range(start, start + len(places))):
            rest = (axis for axis in range(x.ndim) if axis not in places)
            x = apply(PERMUTE_DIMS, x, attrs=((*places, *rest),))
            start = 0
        shape = x.shape
        sizes = shape[start : start + len(places)]
        indices = join_indices(key, sizes)
        joined = (*shape[:start], math.prod(sizes), *shape[start + len(places) :])
        x = apply(RESHAPE, x, attrs=(joined,))
    out: Tensor = apply(TAKE, x, indices, attrs=(start,))
    return _move_block(out, start, key.target, indices.ndim)


def join_indices(key: Key, sizes: Shape) -> Tensor:
    """The index tensors as one, for their axes of these sizes joined."""
    tensors = tuple(array.tensor for array in key.arrays)
    broadcast_shapes("index", *(tensor.shape for tensor in tensors))
    axes = tuple(array.axis for array in key.arrays)
    joined: Tensor = apply(RAVEL_INDEX, *tensors, attrs=(sizes, axes))
    return joined


def _move_block(x: Tensor, start: int, target: int, count: int) -> Tensor:
    """`x` with the `count` dimensions from `start` on moved to `target`."""
    if start == target or count == 0:
        return x
    block = range(start, start + count)
    rest = [axis for axis in range(x.ndim) if axis not in block]
    order = (*rest[:target], *block, *rest[target:])
    moved: Tensor = apply(PERMUTE_DIMS, x, attrs=(order,))
    return moved
