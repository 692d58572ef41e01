"""Loops as functions: `tl.while_loop`, `tl.scan` and their kin.

Without a trace they are Python's own `while` and `for`, and tapes see the ops that run. In a trace
the handler makes one node of a loop, which runs as native code. What a loop carries stays as it is
in structure, shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.bodies import Carried, Function, as_condition
from tapeline.runtime.dispatch import STATE, users
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.loop_gradients import (
    fixed_point,
    run_rows,
    run_rows_with_checkpoints,
    run_turns,
    run_with_checkpoints,
)
from tapeline.runtime.loop_options import check_maximum, parse_gradient
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

__all__ = ["foldl", "map_fn", "scan", "while_loop"]


def while_loop(
    cond: Function,
    body: Function,
    state: Any,
    *,
    maximum_iterations: int | None = None,
    gradient: str = "stack",
) -> Any:
    """The state after `state = body(*state)` as long as `cond(*state)` holds.

    Parameters
    ----------
    cond : callable
        Gives one bool.
    body : callable
        Gives the next state: the same structure, shapes and dtypes.
    state : structure of TensorLike
        A list or a tuple is passed as several arguments, anything else as one.
    maximum_iterations : int, optional
        Stops after so many turns. A gradient keeps room for so many; without this, for as many as
        there turn out to be.
    gradient : {"stack", "checkpoint:k", "implicit"}
        How reverse mode gets at what the turns need. With "stack" each turn keeps it. With
        "checkpoint:k" the state is kept every k turns, and the turns between are run again. With
        "implicit" the loop is taken for one that ends at a fixed point of `body`: the gradient is
        that of the solution, whatever the way there, and nothing is kept; it is only right where
        the loop has converged, and it does not depend on the first state.

    Returns
    -------
    Structure of Tensor
        Like `state`.

    Raises
    ------
    ShapeError
        If the state does not stay alike, or `cond` does not give one bool.
    ArgumentError
        If maximum_iterations is negative, or gradient none of these.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, 1.5))
    (tl.Tensor(3, shape=(), dtype=int64), tl.Tensor(12., shape=(), dtype=float64))
    """
    carried = Carried("while_loop", state)
    check_maximum("while_loop", maximum_iterations)
    every = parse_gradient(gradient)

    def test(*leaves: Tensor) -> list[Tensor]:
        return [as_condition("while_loop: cond", users(cond)(*carried.arguments(leaves)))]

    def turn(*leaves: Tensor) -> list[Tensor]:
        return carried.take(users(body)(*carried.arguments(leaves)))

    def run(leaves: Sequence[Tensor], limit: Any, length: int | None) -> list[Tensor]:
        return run_turns(test, turn, leaves, limit, length)

    if every > 0:
        found = run_with_checkpoints(test, run, carried.leaves, maximum_iterations, every)
    else:
        found = run(carried.leaves, maximum_iterations, maximum_iterations)
        if every < 0:
            found = fixed_point(turn, found)
    return carried.pack(found)


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    gradient: str = "stack",
) -> tuple[Any, Any]:
    """Carries a value through the rows of `xs`, and stacks what each turn gives.

    Parameters
    ----------
    f : callable
        `f(carry, row)` gives the next carry, alike in structure, shapes and dtypes, and a result
        (a structure, or None).
    init : structure of TensorLike
        The first carry.
    xs : structure of TensorLike, optional
        Their first axes have one length; `row` has the same structure. None: `row` is None.
    length : int, optional
        The number of turns, where xs is None.
    reverse : bool
        Begin with the last row. Results are stacked in the order of the rows.
    gradient : {"stack", "checkpoint:k"}
        How reverse mode gets at what the turns need: each keeps it, or the carry is kept every k
        turns and the turns between are run again.

    Returns
    -------
    carry : structure of Tensor
        Like `init`.
    stacked : structure of Tensor
        The results of all turns along a new first axis.

    Raises
    ------
    ShapeError
        If lengths differ, or the carry does not stay alike.
    ArgumentError
        If there is neither `xs` nor `length`, or gradient is none of these.

    Examples
    --------
    >>> import tapeline as tl
    >>> total, sums = tl.scan(lambda c, x: (c + x, c + x), 0, tl.asarray([1, 2, 3]))
    >>> sums
    tl.Tensor([1 3 6], shape=(3,), dtype=int64)
    """
    rows = [as_tensor(leaf, argument="scan: xs") for leaf in nest.flatten(xs)]
    every = parse_gradient(gradient)
    if every < 0:
        raise ArgumentError(
            'scan: gradient="implicit" is for while_loop; a scan has no fixed point'
        )
    count = _scan_length(rows, length)
    carried = Carried("scan", init)
    n_carry = len(carried.leaves)
    found: list[Any] = []

    def turn(*leaves: Tensor) -> list[Tensor]:
        carry, row = carried.pack(leaves[:n_carry]), nest.unflatten(xs, leaves[n_carry:])
        result = users(f)(carry, row)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(
                f"scan: f must return a pair (carry, result), got {type(result).__name__}"
            )
        found[:] = [result[1]]
        following = carried.take(result[0])
        results = [as_tensor(leaf, argument="scan") for leaf in nest.flatten(result[1])]
        return [*following, *results]

    if STATE.handler is None and not count:
        raise ArgumentError("scan: there are no rows; outside of tl.function, nothing can be made")
    if 0 < every < count:
        last, stacked = run_rows_with_checkpoints(turn, carried.leaves, rows, count, reverse, every)
    else:
        last, stacked = run_rows(turn, carried.leaves, rows, count, reverse)
    return carried.pack(last), nest.unflatten(found[0], stacked)


def _scan_length(rows: Sequence[Tensor], length: int | None) -> int:
    lengths = {x.shape[0] if x.ndim else None for x in rows}
    if length is not None:
        lengths.add(length)
    if not lengths:
        raise ArgumentError("scan: give xs, or length")
    if len(lengths) > 1 or None in lengths:
        shapes = [x.shape for x in rows]
        given = "" if length is None else f" and length={length}"
        raise ShapeError(f"scan: the first axes must have one length, got {shapes}{given}")
    (count,) = lengths
    assert count is not None
    return count


def map_fn(f: Function, xs: Any, dtype: Any = None) -> Any:
    """`f` of each row of `xs`, stacked.

    Parameters
    ----------
    f : callable
        From a row, a structure like `xs`, to a structure of tensors.
    xs : structure of TensorLike
        Their first axes have one length.
    dtype : dtype or structure of dtypes, optional
        The dtypes of the results, as programs written for TensorFlow state them; results are
        converted. By default they keep their own.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ShapeError
        If lengths differ.
    ArgumentError
        If there are not as many dtypes as results.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.map_fn(lambda row: row.sum(), tl.asarray([[1, 2], [3, 4]]))
    tl.Tensor([3 7], shape=(2,), dtype=int64)
    """
    found = scan(lambda _, row: (None, users(f)(row)), None, xs)[1]
    if dtype is None:
        return found
    stated, leaves = nest.flatten(dtype), nest.flatten(found)
    if len(stated) != len(leaves):
        raise ArgumentError(f"map_fn: {len(stated)} dtypes for {len(leaves)} results")
    pairs = zip(leaves, stated, strict=True)
    return nest.unflatten(found, [cast_tensor(x, canonical_dtype(each)) for x, each in pairs])


def foldl(f: Function, elems: Any, initializer: Any = None) -> Any:
    """What a function makes of an accumulator and each row of `elems` in turn.

    Parameters
    ----------
    f : callable
        `f(accumulator, row)` gives the next accumulator, alike in structure, shapes and dtypes.
    elems : structure of TensorLike
        Their first axes have one length.
    initializer : structure of TensorLike, optional
        The first accumulator; by default the first row, which `f` does not see then.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ShapeError
        If lengths differ, or the accumulator does not stay alike.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.foldl(lambda a, x: a * x, tl.asarray([2.0, 3.0, 4.0]))
    tl.Tensor(24., shape=(), dtype=float64)
    """
    if initializer is None:
        elems = nest.map_structure(as_tensor, elems)
        initializer = nest.map_structure(lambda x: x[0], elems)
        elems = nest.map_structure(lambda x: x[1:], elems)
        if all(x.shape[0] == 0 for x in nest.flatten(elems)):
            return initializer
    return scan(lambda carry, row: (users(f)(carry, row), None), initializer, elems)[0]
