"""Axis arguments: from what users write to the canonical attributes of ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.runtime.dims import Dim
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.spec import Shape, normalize_axis
from tapeline.runtime.tensor import Tensor, known_value

if TYPE_CHECKING:
    import numpy.typing as npt

Axis: TypeAlias = int | Sequence[int] | None
Array: TypeAlias = "npt.NDArray[Any]"

ANY_KIND = "biufc"
"""The `kinds` of ops that take every dtype."""


def normalize_axes(op_name: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes meant by `axis`, counted from the front and sorted; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, int | np.integer):
        return (normalize_axis(op_name, int(axis), ndim),)
    if isinstance(axis, str) or not isinstance(axis, Iterable):
        raise ArgumentTypeError(
            f"{op_name}: axis must be an int, a sequence of ints or None, got {axis!r}"
        )
    where = f"{op_name}: axis"
    axes = tuple(sorted(normalize_axis(op_name, as_index(where, a), ndim) for a in axis))
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"{op_name}: axis {tuple(axis)} names the same axis twice")
    return axes


def as_index(op_name: str, value: object) -> int:
    """`value` as a Python int; an `ArgumentTypeError` where it is none."""
    if isinstance(value, bool | np.bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError(f"{op_name}: expected an int, got {value!r}")
    if type(value) is Tensor and known_value(value) is None:
        from tapeline.runtime.ops.searching import size_of  # an op, and all ops need axes

        return size_of(op_name, value)  # type: ignore[no-any-return]  # see Dim
    return value if type(value) is Dim else int(value.__index__())  # type: ignore[return-value]  # see Dim


def as_indices(op_name: str, value: Any) -> tuple[int, ...]:
    """One int or several as a tuple."""
    is_one = isinstance(value, int | np.integer) or getattr(value, "ndim", None) == 0
    return tuple([as_index(op_name, one) for one in ((value,) if is_one else value)])


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """`shape` with extent 1 at each of `axes`."""
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
