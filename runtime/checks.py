"""Assertions about tensors, checked each time a program runs, compiled or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ShapeError
from tapeline.runtime.ops.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from tapeline.runtime.ops.effects import HOST_CHECK, Claim
from tapeline.runtime.ops.logic import isfinite
from tapeline.runtime.ops.reduction import all as every
from tapeline.runtime.ops.signs import abs as absolute
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, wrap

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_rank",
    "assert_shape",
]  # fmt: skip

_BOOL = np.dtype(np.bool_)


def _check(condition: Tensor, text: str, message: str, **data: Tensor) -> None:
    claim = Claim(f"{message}: {text}" if message else text, tuple(data))
    holds = condition if condition.ndim == 0 else every(condition)
    bind(HOST_CHECK, (holds, condition, *data.values()), (claim,))


def Assert(  # TensorFlow's name
    condition: TensorLike, data: Sequence[TensorLike] | None = None, message: str = ""
) -> None:
    """Raises an error when the program runs and the condition is false somewhere.

    Parameters
    ----------
    condition : TensorLike of bool
    data : sequence of TensorLike or str, optional
        What the error shows: text, and the values that tensors have then.
    message : str, optional
        How the error begins.

    Raises
    ------
    CheckError
        (an AssertionError)

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def root(x):
    ...     tl.Assert(x >= 0, [x], "no root")
    ...     return tl.sqrt(x)
    >>> try:
    ...     root(tl.asarray(-4.0))
    ... except AssertionError as error:
    ...     print(error)
    no root: the condition does not hold; data[0] = -4.
    """
    texts = [item for item in data or () if isinstance(item, str)]
    tensors = {
        f"data[{k}]": as_tensor(item)
        for k, item in enumerate(data or ())
        if not isinstance(item, str)
    }
    text = " ".join([message, *texts]).strip()
    _check(as_tensor(condition, _BOOL, "Assert"), "the condition", text, **tensors)


def _named(check: Any, name: str, claim: str, parameters: str, example: str) -> Any:
    """An assertion with its public name and docstring."""
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Raises an error when the program runs, unless {claim} everywhere.

    Parameters
    ----------
    {parameters}
    message : str, optional
        How the error begins.

    Raises
    ------
    CheckError
        (an AssertionError) with the places and the values.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.debugging.{name}({example})
    """
    return check


def _compare(name: str, op: Any, sign: str, example: str) -> Any:
    claim = f"x {sign} y"

    def check(x: TensorLike, y: TensorLike, message: str = "") -> None:
        _check(op(x, y), claim, message, x=as_tensor(x), y=as_tensor(y))

    parameters = "x, y : TensorLike\n        Of shapes that broadcast."
    return _named(check, name, claim, parameters, example)


assert_equal = _compare("assert_equal", equal, "==", "1, 1")
assert_none_equal = _compare("assert_none_equal", not_equal, "!=", "1.0, 2.0")
assert_less = _compare("assert_less", less, "<", "1.0, 2.0")
assert_less_equal = _compare("assert_less_equal", less_equal, "<=", "1.0, 2.0")
assert_greater = _compare("assert_greater", greater, ">", "2.0, 1.0")
assert_greater_equal = _compare("assert_greater_equal", greater_equal, ">=", "2.0, 1.0")


def _sign(name: str, op: Any, sign: str, example: str) -> Any:
    claim = f"x {sign} 0"

    def check(x: TensorLike, message: str = "") -> None:
        tensor = as_tensor(x)
        zero = wrap(np.zeros((), tensor.dtype))
        _check(op(tensor, zero), claim, message, x=tensor)

    return _named(check, name, claim, "x : TensorLike of real numbers", example)


assert_positive = _sign("assert_positive", greater, ">", "2.0")
assert_negative = _sign("assert_negative", less, "<", "-2.0")
assert_non_negative = _sign("assert_non_negative", greater_equal, ">=", "0.0")
assert_non_positive = _sign("assert_non_positive", less_equal, "<=", "0.0")


def assert_near(
    x: TensorLike, y: TensorLike, rtol: float = 1e-6, atol: float = 1e-6, message: str = ""
) -> None:
    """Raises an error when the program runs, unless |x - y| <= atol + rtol * |y| everywhere.

    Parameters
    ----------
    x, y : TensorLike of numbers
        Of shapes that broadcast.
    rtol, atol : float
        How far they may differ, relative to y and in all.
    message : str, optional
        How the error begins.

    Raises
    ------
    CheckError
        (an AssertionError) with the places and the values.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.debugging.assert_near(1.0, 1.0000001)
    """
    a, b = as_tensor(x), as_tensor(y)
    close = less_equal(absolute(a - b), absolute(b) * rtol + atol)
    _check(close, f"x near y (rtol {rtol}, atol {atol})", message, x=a, y=b)


def assert_all_finite(x: TensorLike, message: str = "") -> None:
    """Raises an error when the program runs and x has a NaN or an infinity.

    Parameters
    ----------
    x : TensorLike of numbers
    message : str, optional
        How the error begins.

    Raises
    ------
    CheckError
        (an AssertionError) with the places and the values.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.debugging.assert_all_finite([1.0, 2.0])
    """
    tensor = as_tensor(x)
    _check(isfinite(tensor), "x finite", message, x=tensor)


def assert_shape(x: TensorLike, shape: Sequence[int | None], message: str = "") -> None:
    """Raises an error unless x has this shape. While a function is traced: at once.

    Parameters
    ----------
    x : TensorLike
    shape : sequence of int or None
        None allows any extent.
    message : str, optional
        How the error begins.

    Raises
    ------
    ShapeError

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.debugging.assert_shape(tl.zeros((2, 3)), [2, None])
    """
    given = as_tensor(x).shape
    if not TensorSpec(shape).admits(given):
        start = f"{message}: " if message else ""
        raise ShapeError(f"{start}x must have shape {tuple(shape)}, got {tuple(given)}")


def assert_rank(x: TensorLike, rank: int, message: str = "") -> None:
    """Raises an error unless x has so many dimensions. While a function is traced: at once.

    Parameters
    ----------
    x : TensorLike
    rank : int
    message : str, optional
        How the error begins.

    Raises
    ------
    ShapeError

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.debugging.assert_rank(tl.zeros((2, 3)), 2)
    """
    given = as_tensor(x).ndim
    if given != rank:
        start = f"{message}: " if message else ""
        raise ShapeError(f"{start}x must have {rank} dimensions, got {given}")
