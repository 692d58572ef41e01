"""`tl.associative_scan`: prefixes of an associative operation in a logarithmic number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.ops.permuting import flip, moveaxis
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor

__all__ = ["associative_scan"]

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def associative_scan(
    f: Callable[[Any, Any], Any], elems: Any, *, axis: int = 0, reverse: bool = False
) -> Any:
    """What an associative operation makes of the first element, of the first two, and so on.

    The work is that of about two operations per element, in steps of whole arrays, of which there
    are about twice the logarithm of the number of elements.

    Parameters
    ----------
    f : callable
        `f(a, b)`, elementwise along the axis: it is given many elements at once. It must be
        associative; it gives the structure, shapes and dtypes of its arguments.
    elems : structure of TensorLike
        Of one length along the axis.
    axis : int
        Along which the elements lie.
    reverse : bool
        Begin with the last element: `f` of that and the one before, and so on.

    Returns
    -------
    Structure of Tensor
        Like `elems`.

    Raises
    ------
    ArgumentError
        If there are no elements.
    ShapeError
        If lengths differ, or `f` changes a shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.associative_scan(tl.add, tl.asarray([1, 2, 3, 4]))
    tl.Tensor([ 1  3  6 10], shape=(4,), dtype=int64)
    >>> tl.associative_scan(tl.maximum, tl.asarray([1, 5, 3, 4]), reverse=True)
    tl.Tensor([5 5 4 4], shape=(4,), dtype=int64)
    """
    leaves = [as_tensor(leaf, argument="associative_scan") for leaf in nest.flatten(elems)]
    if not leaves:
        raise ArgumentError("associative_scan: elems holds no tensor")
    places = [normalize_axis("associative_scan", axis, leaf.ndim) for leaf in leaves]
    lengths = {leaf.shape[place] for leaf, place in zip(leaves, places, strict=True)}
    if len(lengths) > 1 or not min(lengths):
        raise ShapeError(
            f"associative_scan: along axis {axis} all must have one length of at least 1, got "
            f"shapes {[leaf.shape for leaf in leaves]}"
        )
    rows = [moveaxis(leaf, place, 0) for leaf, place in zip(leaves, places, strict=True)]
    if reverse:
        rows = [flip(row, axis=0) for row in rows]

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        first, second = (nest.unflatten(elems, x) for x in (a, b))
        made = f(first, second)
        nest.assert_same_structure(elems, made)
        found = [as_tensor(x, argument="associative_scan: f") for x in nest.flatten(made)]
        for x, like in zip(found, a, strict=True):
            if x.shape != like.shape:
                raise ShapeError(
                    f"associative_scan: f gives shape {x.shape} for arguments of shape "
                    f"{like.shape}; it must work element by element along the axis"
                )
        return found

    found = _prefixes(combine, rows)
    if reverse:
        found = [flip(row, axis=0) for row in found]
    results = [moveaxis(row, 0, place) for row, place in zip(found, places, strict=True)]
    return nest.unflatten(elems, results)


def _prefixes(combine: Combine, rows: Sequence[Tensor]) -> list[Tensor]:
    """Pairs first, then the prefixes of pairs, which are every second prefix; then those between.

    The levels are as many as the bits of the length.
    """
    count = rows[0].shape[0]
    if count == 1:
        return list(rows)
    even, odd = [row[0::2] for row in rows], [row[1::2] for row in rows]
    n_odd = count // 2
    at_odd = _prefixes(combine, combine([row[:n_odd] for row in even], odd))
    if count == 2:
        return [concat([a, b]) for a, b in zip(even, at_odd, strict=True)]
    n_later = (count - 1) // 2
    later = combine([row[:n_later] for row in at_odd], [row[1:] for row in even])
    at_even = [concat([row[:1], x]) for row, x in zip(even, later, strict=True)]
    return [_interleaved(a, b) for a, b in zip(at_even, at_odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """The rows of two tensors in turn; the first has as many as the second, or one more."""
    n_odd = odd.shape[0]
    pairs = stack([even[:n_odd], odd], axis=1)
    joined = pairs.reshape((2 * n_odd, *odd.shape[1:]))
    return joined if even.shape[0] == n_odd else concat([joined, even[n_odd:]])
