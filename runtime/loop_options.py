"""What a loop may be told about itself: `tl.set_loop_options`, `tl.unroll`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError

__all__ = ["set_loop_options", "unroll"]

T = TypeVar("T")


class LoopOptions(NamedTuple):
    """What the body of a loop asked for."""

    gradient: str = "stack"
    maximum_iterations: int | None = None


def set_loop_options(
    *,
    gradient: str = "stack",
    maximum_iterations: int | None = None,
    shape_invariants: Sequence[tuple[Any, Sequence[int | None] | None]] = (),
) -> None:
    """Tells the loop around how it is to be compiled; to be called in the body of the loop.

    Where a loop runs as Python, eagerly or because its length is known and short, nothing happens.

    Parameters
    ----------
    gradient : {"stack", "checkpoint:k", "implicit"}
        How reverse mode gets the values that it needs; see `while_loop`.
    maximum_iterations : int, optional
        There are never more rounds than this. The gradient of a `while` keeps room for so many;
        without this, for as many as there turn out to be.
    shape_invariants : sequence of (tensor, shape)
        Shapes that variables keep, with None for an extent that changes from round to round. Such a
        loop, whose shapes depend on data, is run op by op, and so is the function that it is in.

    Raises
    ------
    ArgumentError
        If gradient is none of these, or maximum_iterations is negative.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def root(x):
    ...     y = x
    ...     while abs(y * y - x) > 1e-12:
    ...         tl.set_loop_options(gradient="implicit")
    ...         y = (y + x / y) / 2
    ...     return y
    >>> tl.grad(root)(tl.asarray(4.0))
    tl.Tensor(0.25, shape=(), dtype=float64)
    """
    parse_gradient(gradient)
    check_maximum("set_loop_options", maximum_iterations)
    for pair in shape_invariants:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise ArgumentTypeError(
                f"set_loop_options: shape_invariants holds pairs (tensor, shape), got {pair!r}"
            )


def check_maximum(name: str, maximum_iterations: int | None) -> None:
    """Raises an error if it is no number of rounds."""
    if maximum_iterations is not None and maximum_iterations < 0:
        raise ArgumentError(
            f"{name}: maximum_iterations must be >= 0 or None, got {maximum_iterations}"
        )


def parse_gradient(gradient: str) -> int:
    """How many rounds lie between two checkpoints: 0 for "stack", -1 for "implicit"."""
    if gradient == "stack":
        return 0
    if gradient == "implicit":
        return -1
    kind, _, number = str(gradient).partition(":")
    if kind == "checkpoint" and number.isdecimal() and int(number) > 0:
        return int(number)
    raise ArgumentError(
        f'gradient must be "stack", "checkpoint:k" with k rounds between checkpoints, or '
        f'"implicit", got {gradient!r}'
    )


def unroll(items: Iterable[T]) -> list[T]:
    """The items of a loop that is to be unrolled, however many there are.

    Parameters
    ----------
    items : iterable
        A range or a tensor, of which the loop takes the parts along the first axis; a list, ...

    Returns
    -------
    list

    Raises
    ------
    TracingError
        If the number of items depends on a tensor.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def polynomial(x):
    ...     y = x * 0
    ...     for k in tl.unroll(range(100)):
    ...         y = y * x + k % 3
    ...     return y
    >>> polynomial(tl.asarray(1.0))
    tl.Tensor(99., shape=(), dtype=float64)
    """
    return list(items)
