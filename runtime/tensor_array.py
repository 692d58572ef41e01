"""`tl.TensorArray`: tensors by index, written one at a time and stacked in the end.

A write gives a new array and leaves the old one as it was, so that arrays can go round loops and
through branches. Yet a write costs no copy. Outside of traces the tensors stand in one list, which
the newest version holds; older ones know what they had in the places that changed since. In a trace
an array of fixed size is one tensor, and a write an update of a row of it, which compiled loops do
in place.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    DynamicShapeError,
    IndexOutOfRangeError,
    ShapeError,
)
from tapeline.runtime.ops.assignment import setitem
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.indexing import getitem
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.spec import DType, canonical_dtype
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["TensorArray"]

ElementShape = tuple[int | None, ...] | None
_Items = list[Tensor | None]


class TensorArray:
    """Tensors of one dtype and shape by index; `write` gives the array with one of them replaced.

    Parameters
    ----------
    dtype : dtype-like, optional
        Of the elements; by default that of the first one written.
    size : int
        How many elements there are; those not written are zero.
    dynamic_size : bool
        Whether a write behind the end makes the array longer. Where a loop over tensors of
        `tl.function` makes one grow, the function runs op by op, but for such loops: they read,
        write and ask for the size in native code, with room that grows fourfold when it is used up.
    element_shape : sequence of int or None, optional
        The shape of an element, by default that of the first one written. With None in it, the
        elements of an array of dynamic size may differ there.

    Raises
    ------
    ArgumentError
        If size is negative.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def powers(x, n):
    ...     found = tl.TensorArray(x.dtype, size=4)
    ...     y = x
    ...     for i in tl.range(4):
    ...         found = found.write(i, y)
    ...         y = y * x
    ...     return found.stack()
    >>> powers(tl.asarray(2.0), 4)
    tl.Tensor([ 2.  4.  8. 16.], shape=(4,), dtype=float64)
    """

    __slots__ = (
        "__weakref__", "_count", "_dtype", "_dynamic", "_items", "_newer", "_rows", "_shape"
    )  # fmt: skip

    def __init__(
        self,
        dtype: npt.DTypeLike | None = None,
        size: int = 0,
        dynamic_size: bool = False,
        *,
        element_shape: Sequence[int | None] | None = None,
    ) -> None:
        self._dtype: DType | None = None if dtype is None else canonical_dtype(dtype)
        self._shape: ElementShape = None if element_shape is None else tuple(element_shape)
        self._dynamic = bool(dynamic_size)
        self._count = _static(size, "TensorArray: size")
        if self._count < 0:
            raise ArgumentError(f"TensorArray: size must be at least 0, got {size}")
        self._rows: Tensor | None = None
        self._items: _Items | None = None
        self._newer: tuple[TensorArray, int, Tensor | None] | None = None
        if not self._is_dense:
            self._items = [None] * self._count

    # ---- what it is

    @property
    def dtype(self) -> DType | None:
        """Of the elements; None before it is known."""
        return self._dtype

    @property
    def element_shape(self) -> ElementShape:
        """Of the elements; None before it is known."""
        return self._shape

    @property
    def dynamic_size(self) -> bool:
        """Whether a write behind the end makes it longer."""
        return self._dynamic

    def size(self) -> int:
        """How many elements there are."""
        return self._count

    __len__ = size

    def __repr__(self) -> str:
        dtype = None if self._dtype is None else self._dtype.name
        dynamic = ", dynamic_size=True" if self._dynamic else ""
        return f"tl.TensorArray({dtype}, {self._count}{dynamic}, element_shape={self._shape})"

    @property
    def _is_dense(self) -> bool:
        """Whether a new version is one tensor."""
        return STATE.handler is not None and not self._dynamic

    # ---- one element

    def read(self, index: TensorLike) -> Tensor:
        """The element at an index.

        Parameters
        ----------
        index : int or Tensor of int, shape ()
            A negative one counts from the end.

        Returns
        -------
        Tensor
            Zeros, if it was never written and its shape is known.

        Raises
        ------
        IndexOutOfRangeError
            If there is no such element.
        ArgumentError
            If it was never written, and dtype or element_shape are not known.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray("float64", 2, element_shape=()).write(1, 5.0).read(1)
        tl.Tensor(5., shape=(), dtype=float64)
        """
        place = self._place(index, "read")
        if self._items is None and self._newer is None and self._rows is not None:
            return getitem(self._rows, place)
        if isinstance(place, Tensor):
            return getitem(self.stack(), place)
        item = self._all_items()[place]
        return self._zero() if item is None else _fresh(item)

    __getitem__ = read

    def write(self, index: TensorLike, value: TensorLike) -> TensorArray:
        """The array with another element at an index.

        Parameters
        ----------
        index : int or Tensor of int, shape ()
            At most the size, if that is dynamic; a negative one counts from the end.
        value : TensorLike
            Of the dtype and shape of the other elements.

        Returns
        -------
        TensorArray
            This one stays as it is.

        Raises
        ------
        IndexOutOfRangeError
            If the size is fixed and there is no such element.
        ShapeError
            If the shape differs from that of the other elements.
        DTypeError
            If the dtype cannot be converted.

        Examples
        --------
        >>> import tapeline as tl
        >>> a = tl.TensorArray(size=2).write(0, tl.asarray([1.0, 2.0]))
        >>> a.stack().numpy().tolist()
        [[1.0, 2.0], [0.0, 0.0]]
        """
        place = self._place(index, "write", grows=self._dynamic)
        made, element = self._with_element(value, "write")
        if made._is_dense:
            made._rows = setitem(made._as_rows(self), place, element)
            return made
        items = self._give_items(made, place)
        items[place] = element
        return made

    # ---- all elements

    def stack(self) -> Tensor:
        """All elements as one tensor.

        Returns
        -------
        Tensor, shape (size, ...)

        Raises
        ------
        ArgumentError
            If no element was written, and dtype or element_shape are not known.
        ShapeError
            If the elements differ in shape.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray(dynamic_size=True).write(0, 1).write(1, 2).stack()
        tl.Tensor([1 2], shape=(2,), dtype=int64)
        """
        if self._rows is not None:
            return _fresh(self._rows)
        items = [self._zero() if item is None else item for item in self._all_items()]
        if items:
            return stack(items)
        shape = self._zero().shape
        return zeros((0, *shape), dtype=self._dtype)

    def unstack(self, value: TensorLike) -> TensorArray:
        """An array of the parts of a tensor along its first axis.

        Parameters
        ----------
        value : TensorLike, shape (n, ...)
            Where the size is fixed, n must be the size.

        Returns
        -------
        TensorArray

        Raises
        ------
        ShapeError
            If n does not fit, or the parts do not.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray(size=3).unstack([1, 2, 3]).read(1)
        tl.Tensor(2, shape=(), dtype=int64)
        """
        rows = self._rows_of(value, "unstack")
        if not self._dynamic and rows.shape[0] != self._count:
            raise ShapeError(
                f"TensorArray.unstack: {rows.shape[0]} parts for an array of size {self._count}; "
                "make it with that size, or with dynamic_size=True"
            )
        made, _ = self._with_spec(rows.dtype, rows.shape[1:], "unstack")
        rows = cast_tensor(rows, made._dtype or rows.dtype)
        made._count = rows.shape[0]
        if made._dynamic:
            made._items = [rows[k] for k in range(rows.shape[0])]
        else:
            made._rows, made._items = rows, None
        return made

    def gather(self, indices: TensorLike) -> Tensor:
        """The elements at some indices, stacked.

        Parameters
        ----------
        indices : TensorLike of int, shape (n,)

        Returns
        -------
        Tensor, shape (n, ...)

        Raises
        ------
        IndexOutOfRangeError
            If there is no such element.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray(size=3).unstack([1, 2, 3]).gather([2, 0])
        tl.Tensor([3 1], shape=(2,), dtype=int64)
        """
        return getitem(self.stack(), as_tensor(indices, argument="TensorArray.gather: indices"))

    def scatter(self, indices: TensorLike, value: TensorLike) -> TensorArray:
        """The array with the parts of a tensor at some indices.

        Parameters
        ----------
        indices : TensorLike of int, shape (n,)
            Of equal ones the last counts.
        value : TensorLike, shape (n, ...)

        Returns
        -------
        TensorArray

        Raises
        ------
        ShapeError
            If the first axes differ, or the parts do not fit.
        IndexOutOfRangeError
            If there is no such element.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray(size=3).scatter([2, 0], [1.0, 2.0]).stack()
        tl.Tensor([2. 0. 1.], shape=(3,), dtype=float64)
        """
        places = as_tensor(indices, argument="TensorArray.scatter: indices")
        rows = self._rows_of(value, "scatter")
        if places.ndim != 1 or places.shape != rows.shape[:1]:
            raise ShapeError(
                f"TensorArray.scatter: indices of shape {places.shape} for values of shape "
                f"{rows.shape}; there must be one index for each part along the first axis"
            )
        if not self._is_dense:
            made = self
            for place, number in enumerate(_numbers(places)):
                made = made.write(number, rows[place])
            return made
        made, _ = self._with_spec(rows.dtype, rows.shape[1:], "scatter")
        rows = cast_tensor(rows, made._dtype or rows.dtype)
        made._rows = setitem(made._as_rows(self), places, rows)
        return made

    def concat(self) -> Tensor:
        """The elements one after another along their own first axis.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If the elements have no axes.

        Examples
        --------
        >>> import tapeline as tl
        >>> a = tl.TensorArray(dynamic_size=True, element_shape=(None,))
        >>> a.write(0, [1, 2]).write(1, [3]).concat()
        tl.Tensor([1 2 3], shape=(3,), dtype=int64)
        """
        if self._rows is None:
            items = [self._zero() if item is None else item for item in self._all_items()]
            if items and all(item.ndim for item in items):
                return concat(items)
        rows = self.stack()
        if rows.ndim < 2:
            raise ShapeError(
                "TensorArray.concat: the elements are scalars; use stack() to join them"
            )
        return rows.reshape((rows.shape[0] * rows.shape[1], *rows.shape[2:]))

    def split(self, value: TensorLike, lengths: Sequence[int]) -> TensorArray:
        """An array of consecutive pieces of a tensor along its first axis.

        Parameters
        ----------
        value : TensorLike, shape (n, ...)
        lengths : sequence of int
            Of the pieces; they add up to n. Pieces of different lengths need a dynamic size and
            None as the first extent of element_shape.

        Returns
        -------
        TensorArray

        Raises
        ------
        ShapeError
            If the lengths do not add up, or a piece does not fit.

        Examples
        --------
        >>> import tapeline as tl
        >>> tl.TensorArray(size=2).split([1, 2, 3, 4], [2, 2]).stack().numpy().tolist()
        [[1, 2], [3, 4]]
        """
        whole = self._rows_of(value, "split")
        sizes = [_static(length, "TensorArray.split: lengths") for length in lengths]
        if sum(sizes) != whole.shape[0]:
            raise ShapeError(
                f"TensorArray.split: lengths {sizes} add up to {sum(sizes)}, but the value has "
                f"{whole.shape[0]} parts"
            )
        made, start = self, 0
        for place, size in enumerate(sizes):
            made = made.write(place, whole[start : start + size])
            start += size
        return made

    # ---- versions

    def _blank(self) -> TensorArray:
        """An array of the same kind without contents."""
        made = TensorArray.__new__(TensorArray)
        made._dtype, made._shape = self._dtype, self._shape
        made._dynamic, made._count = self._dynamic, self._count
        made._rows = made._items = made._newer = None
        return made

    def _with_element(self, value: TensorLike, method: str) -> tuple[TensorArray, Tensor]:
        """A blank array, and the value as an element of it."""
        is_number = type(value) in (bool, int, float)
        dtype = self._dtype if is_number else None
        element = as_tensor(value, dtype, f"TensorArray.{method}: value")
        made, _ = self._with_spec(element.dtype, element.shape, method)
        return made, _fresh(cast_tensor(element, made._dtype or element.dtype))

    def _with_spec(
        self, dtype: DType, shape: tuple[int, ...], method: str
    ) -> tuple[TensorArray, ElementShape]:
        """A blank array that holds elements of a dtype and a shape."""
        made = self._blank()
        if made._dtype is None:
            made._dtype = dtype
        elif not np.can_cast(dtype, made._dtype, "same_kind"):
            raise DTypeError(
                f"TensorArray.{method}: an array of {made._dtype.name} cannot hold {dtype.name}; "
                "convert the value with tl.astype"
            )
        known = made._shape
        if known is None:
            made._shape = shape
        elif len(known) != len(shape) or any(
            own not in (None, given) for own, given in zip(known, shape, strict=True)
        ):
            raise ShapeError(
                f"TensorArray.{method}: the elements have shape {known}, got one of shape {shape}"
            )
        return made, made._shape

    def _as_rows(self, source: TensorArray) -> Tensor:
        """What another version holds, as one tensor."""
        if source._rows is not None:
            return cast_tensor(source._rows, self._dtype or source._rows.dtype)
        if source._items is None and source._newer is None:
            return zeros((self._count, *self._static_shape()), dtype=self._dtype)
        blank = self._zero()
        return stack([blank if x is None else x for x in source._all_items()] or [blank])

    def _static_shape(self) -> tuple[int, ...]:
        shape = self._shape
        if shape is None or None in shape:
            raise ShapeError(
                f"TensorArray: the shape of an element, {shape}, is not fixed; an array in a trace "
                "needs element_shape without None"
            )
        return shape  # type: ignore[return-value]  # checked above

    def _zero(self) -> Tensor:
        """What stands for an element that was never written."""
        if self._dtype is None or self._shape is None or None in self._shape:
            raise ArgumentError(
                "TensorArray: an element was not written yet, and its dtype or shape is not "
                "known; give dtype= and element_shape="
            )
        return zeros(self._static_shape(), dtype=self._dtype)

    def _all_items(self) -> _Items:
        """The elements in a list, of which nothing may be changed."""
        if self._items is not None:
            return self._items
        if self._newer is None:
            rows = self._rows
            if rows is None:
                self._items = [None] * self._count
            else:
                self._items = [rows[k] for k in range(self._count)]
            return self._items
        changes: list[tuple[int, Tensor | None]] = []
        version: TensorArray = self
        while version._items is None and version._newer is not None:
            version, place, before = version._newer
            changes.append((place, before))
        items = list(version._all_items())
        for place, before in reversed(changes):
            items[place] = before
        self._items, self._newer = items[: self._count], None
        return self._items

    def _give_items(self, made: TensorArray, place: int) -> _Items:
        """Hands the list of elements to a newer version, and keeps what will change at a place."""
        items = self._all_items()
        if place >= len(items):
            items.extend([None] * (place + 1 - len(items)))
        made._items, made._count = items, len(items)
        self._items, self._newer = None, (made, place, items[place])
        return items

    def like(self, other: TensorArray) -> TensorArray:
        """This array, whose elements are unknown, with the dtype and element shape of another."""
        made = self._blank()
        made._dtype, made._shape = other._dtype, other._shape
        return made

    # ---- arguments

    def _place(self, index: TensorLike, method: str, grows: bool = False) -> Any:
        """An index, as an int that is in range or as a tensor of a trace."""
        if isinstance(index, Tensor) and STATE.handler is not None:
            if self._dynamic and method == "write":
                raise DynamicShapeError(
                    "TensorArray.write: an array of dynamic size is written at an index that is a "
                    "tensor, so its size depends on data, and only such loops run as native code; "
                    "give it its size and dynamic_size=False for the rest"
                )
            return index
        place = _static(index, f"TensorArray.{method}: index")
        at = place + self._count if place < 0 else place
        if at < 0 or (at >= self._count and not grows):
            raise IndexOutOfRangeError(
                f"TensorArray.{method}: index {place} in an array of size {self._count}; "
                "dynamic_size=True lets it grow"
            )
        return at

    def _rows_of(self, value: TensorLike, method: str) -> Tensor:
        rows = as_tensor(value, argument=f"TensorArray.{method}: value")
        if not rows.ndim:
            raise ShapeError(f"TensorArray.{method}: the value has no axes, so it has no parts")
        return rows


def _fresh(tensor: Tensor) -> Tensor:
    """A cell of its own with the same value: who writes to it changes no array."""
    return wrap(tensor._value, tensor._node)


def _static(x: Any, argument: str) -> int:
    """A whole number that must be known now."""
    if isinstance(x, Tensor):
        if STATE.handler is not None and not isinstance(x._value, np.ndarray):
            raise DynamicShapeError(f"{argument} is a tensor, so sizes depend on data")
        x = x._value
    try:
        return operator.index(x)
    except TypeError:
        raise ArgumentTypeError(f"{argument} must be a whole number, got {x!r}") from None


def _numbers(places: Tensor) -> list[int]:
    value = places._value
    if not isinstance(value, np.ndarray):
        raise DynamicShapeError(
            "TensorArray.scatter: the indices for an array of dynamic size are a tensor, so its "
            "size depends on data"
        )
    return [int(number) for number in value]


def _flatten(array: TensorArray) -> tuple[Sequence[Any], Any]:
    auxiliary = array._dtype, array._shape, array._dynamic, array._count
    if array._dynamic:
        return list(array._all_items()), auxiliary
    if array._dtype is None or array._shape is None:
        return [None], auxiliary
    rows = array._as_rows(array)
    if STATE.handler is None:
        array._rows = rows  # the same leaf each time
    return [rows], auxiliary


def _unflatten(auxiliary: Any, children: Sequence[Any]) -> TensorArray:
    made = TensorArray.__new__(TensorArray)
    made._dtype, made._shape, made._dynamic, made._count = auxiliary
    made._rows = made._items = made._newer = None
    if made._dynamic:
        made._items = list(children)
        made._count = len(children)
    else:
        (made._rows,) = children
        if made._rows is None and STATE.handler is None:
            made._items = [None] * made._count
    return made


nest.register(TensorArray, _flatten, _unflatten)
