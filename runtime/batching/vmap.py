"""`vmap`: a function of one example as a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.batching.level import Level
from tapeline.runtime.dispatch import users
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, as_tensor

Axes = Any
"""An int, None, or a structure of them as that of the values or of its upper part."""


def vmap(f: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[..., Any]:
    """The function of one example as a function of many at once.

    Each op runs once for all examples. Write `f` for one; its tensors have no axis of examples.
    Where Python's `if`, `while` and `for` depend on a tensor that differs between examples, both
    branches run, and turns are made as long as any example goes on; each example gets its own.

    Parameters
    ----------
    f : callable
        Of tensors or structures of tensors.
    in_axes : int, None, or sequence of them
        Where the examples lie in the arguments: an axis, or None for what is the same for all
        examples. A sequence has an entry per positional argument, which may be a structure as the
        argument. Keyword arguments have the examples along their first axis.
    out_axes : int, None, or structure of them
        Where the examples shall lie in the results. None: the result must be the same for all.

    Returns
    -------
    callable

    Raises
    ------
    ArgumentError, ShapeError
        When called, if the numbers of examples differ, or no argument has any.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> tl.vmap(lambda row: row @ row)(x)
    tl.Tensor([ 5. 25.], shape=(2,), dtype=float64)
    >>> tl.vmap(tl.grad(lambda row: row @ row))(x).numpy()
    array([[2., 4.],
           [6., 8.]])
    >>> tl.vmap(lambda v: v * 2 if v > 0 else -v)(tl.asarray([1.0, -3.0]))
    tl.Tensor([2. 3.], shape=(2,), dtype=float64)
    """

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = [*_spread_axes("in_axes", tuple(args), _per_argument(in_axes, len(args)))]
        axes += _spread_axes("in_axes", kwargs, 0)
        leaves = nest.flatten((args, kwargs))
        tensors = [
            leaf if axis is None else _examples_first(leaf, axis)
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        level = Level(_count(tensors, axes))
        cells = [
            leaf if axis is None else level.cell(leaf, True)
            for leaf, axis in zip(tensors, axes, strict=True)
        ]
        inner_args, inner_kwargs = nest.unflatten((args, kwargs), cells)
        with level.inside():
            result = users(f)(*inner_args, **inner_kwargs)
            found = [as_tensor(leaf, None, "vmap: result") for leaf in nest.flatten(result)]
        places = _spread_axes("out_axes", result, out_axes)
        outputs = [_place(level, x, axis) for x, axis in zip(found, places, strict=True)]
        return nest.unflatten(result, outputs)

    del mapped.__wrapped__  # or a compiled call would pass the defaults of f as arguments
    return mapped


def vectorized_map(f: Callable[..., Any], elems: Any) -> Any:
    """`f` of each row of `elems`, all of them at once: `vmap` under TensorFlow's name.

    Parameters
    ----------
    f : callable
        From a row, a structure like `elems`, to a structure of tensors.
    elems : structure of TensorLike
        Their first axes have one length.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ShapeError
        If lengths differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.vectorized_map(lambda row: row.sum(), tl.asarray([[1, 2], [3, 4]]))
    tl.Tensor([3 7], shape=(2,), dtype=int64)
    """
    return vmap(f)(elems)


def _per_argument(in_axes: Axes, count: int) -> Any:
    if in_axes is None or isinstance(in_axes, int):
        return in_axes
    if len(in_axes) != count:
        raise ArgumentError(
            f"vmap: in_axes has {len(in_axes)} entries for {count} positional arguments"
        )
    return tuple(in_axes)


def _spread_axes(what: str, structure: Any, axes: Axes) -> list[int | None]:
    """One axis per leaf of the structure."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(nest.flatten(structure))
    inside, given = nest.children(structure), nest.children(axes)
    if nest.is_leaf(structure) or len(inside) != len(given):
        raise ArgumentError(
            f"vmap: {what} {axes!r} does not have the structure of what it belongs to"
        )
    pairs = zip(inside, given, strict=True)
    return [axis for child, part in pairs for axis in _spread_axes(what, child, part)]


def _examples_first(leaf: Any, axis: int) -> Tensor:
    tensor = as_tensor(leaf, None, "vmap")
    if tensor.ndim == 0:
        raise ShapeError(
            "vmap: a number has no axis of examples; give it None in in_axes to pass it to all"
        )
    axis = normalize_axis("vmap: in_axes", axis, tensor.ndim)
    return tensor if axis == 0 else moveaxis(tensor, axis, 0)


def _count(tensors: list[Any], axes: list[int | None]) -> int:
    counts = {x.shape[0] for x, axis in zip(tensors, axes, strict=True) if axis is not None}
    if not counts:
        raise ArgumentError("vmap: no argument has examples: in_axes is None for all of them")
    if len(counts) > 1:
        raise ShapeError(
            f"vmap: the arguments have different numbers of examples: {sorted(counts)}"
        )
    return int(counts.pop())


def _place(level: Level, tensor: Tensor, axis: int | None) -> Tensor:
    """A result with the examples along an axis."""
    if axis is None:
        below, mapped = level.lower(tensor)
        if mapped:
            raise ArgumentError(
                "vmap: out_axes is None for a result that differs between examples; give its axis"
            )
        return below
    found = level.examples(tensor)
    axis = normalize_axis("vmap: out_axes", axis, found.ndim)
    return found if axis == 0 else moveaxis(found, 0, axis)
