"""Functions of Python's `math` over tensors of a trace.

A tensor of one element is to them what it is to `float`: they compute in float64, and their results
promote like Python's numbers. Where Python raises an error, for the square root of a negative
number or a result that is too large, there is NaN or infinity, as in NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.state import is_symbolic
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.ops.error_functions import erfc
from tapeline.runtime.ops.gamma_functions import gamma, gammaln
from tapeline.runtime.ops.special import erf
from tapeline.runtime.tensor import Tensor, as_tensor

_FLOAT: Final = np.dtype(np.float64)


def as_number(name: str, x: Any, dtype: np.dtype[Any] | None = None) -> Tensor:
    """A tensor of one element as a 0-d tensor, of the dtype if one is given."""
    tensor = as_tensor(x)
    if tensor.size != 1:
        raise ArgumentError(
            f"{name}(x): only a tensor of one element can be converted, got one of shape "
            f"{tensor.shape}"
        )
    return as_tensor(tensor.reshape(()), dtype)


def _of_numbers(
    function: Callable[..., Any], counterpart: Callable[..., Any], kind: type = float
) -> Callable[..., Any]:
    """The function, with a counterpart where some argument is a tensor of the trace."""
    name = f"math.{function.__name__}"

    def call(*args: Any) -> Any:
        if not any(map(is_symbolic, args)):
            return function(*args)
        result = counterpart(*[as_number(name, x, _FLOAT) for x in args])
        return mark_weak(as_tensor(result, np.dtype(kind)), kind)

    return functools.wraps(function)(call)


def _of_ints(
    function: Callable[..., Any], counterpart: Callable[..., Any], start: int
) -> Callable[..., Any]:
    """The same of a function of any number of ints."""
    name = f"math.{function.__name__}"

    def call(*args: Any) -> Any:
        if not any(map(is_symbolic, args)):
            return function(*args)
        numbers = [as_number(name, x) for x in args]
        for number in numbers:
            if number.dtype.kind not in "biu":
                raise ArgumentTypeError(f"{name}: expected ints, got a tensor of {number.dtype}")
        wide = [as_tensor(number, np.dtype(np.int64)) for number in numbers]
        result = functools.reduce(counterpart, wide, as_tensor(start, np.dtype(np.int64)))
        return mark_weak(result, int)

    return functools.wraps(function)(call)


def _of_all_reals(function: Callable[..., Any], counterpart: Callable[..., Any]) -> Any:
    """The same of a function of one number that Python computes for each finite one; a number that
    the trace leaves open stays so."""
    call = _of_numbers(function, counterpart)

    def call_one(x: Any) -> Any:
        return _mapped(counterpart, x) if type(x) is OpenNumber else call(x)

    return functools.wraps(function)(call_one)


def _of_positive(function: Callable[..., Any], counterpart: Callable[..., Any]) -> Any:
    """The same of a function that Python computes for each positive number."""
    call = _of_numbers(function, counterpart)

    def call_one(x: Any, *rest: Any) -> Any:
        if type(x) is OpenNumber and x.sign > 0 and not rest:
            return _mapped(counterpart, x)
        return call(x, *rest)

    return functools.wraps(function)(call_one)


def _mapped(counterpart: Callable[..., Any], number: OpenNumber) -> OpenNumber:
    return number.mapped(lambda x: mark_weak(counterpart(x), float))


def _of_items(function: Callable[..., Any], counterpart: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a function of sequences of numbers."""
    name = f"math.{function.__name__}"

    def call(*sequences: Iterable[Any], **options: Any) -> Any:
        found = [_items(x) for x in sequences]
        if not any(is_symbolic(item) for items in found for item in items):
            return function(*found, **options)
        made = [np.stack([as_number(name, item, _FLOAT) for item in items]) for items in found]
        return mark_weak(counterpart(*made, **options), float)

    return functools.wraps(function)(call)


def _items(x: Any) -> Any:
    return x if hasattr(x, "__len__") else list(x)


def _log(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _length(*coordinates: Any) -> Any:
    hypot: Callable[[Any, Any], Any] = np.hypot
    return functools.reduce(hypot, coordinates, as_tensor(0.0))


def _is_close(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    if not is_symbolic(a) and not is_symbolic(b):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    x, y = (as_number("math.isclose", x, _FLOAT) for x in (a, b))
    largest = np.maximum(np.abs(x), np.abs(y))
    near = np.abs(x - y) <= np.maximum(rel_tol * largest, abs_tol)
    close: Any = np.isfinite(largest) & near | (x == y)
    return mark_weak(close, bool)


def _product(items: Iterable[Any], /, *, start: Any = 1) -> Any:
    return functools.reduce(lambda a, b: a * b, items, start)


MATH: Final[dict[Any, Callable[..., Any]]] = {
    **{
        function: _of_all_reals(function, counterpart)
        for function, counterpart in (
            (math.asinh, np.arcsinh), (math.atan, np.arctan), (math.cbrt, np.cbrt),
            (math.cos, np.cos), (math.degrees, np.degrees), (math.erf, erf), (math.erfc, erfc),
            (math.fabs, np.abs),
            (math.radians, np.radians), (math.sin, np.sin), (math.tan, np.tan),
            (math.tanh, np.tanh),
        )
    },
    **{
        function: _of_positive(function, counterpart)
        for function, counterpart in (
            (math.log, _log), (math.log10, np.log10), (math.log1p, np.log1p),
            (math.log2, np.log2), (math.sqrt, np.sqrt), (math.lgamma, gammaln),
        )
    },
    **{
        function: _of_numbers(function, counterpart)
        for function, counterpart in (
            (math.acos, np.arccos), (math.acosh, np.arccosh), (math.asin, np.arcsin),
            (math.atan2, np.arctan2), (math.atanh, np.arctanh), (math.copysign, np.copysign),
            (math.cosh, np.cosh), (math.exp, np.exp), (math.exp2, np.exp2),
            (math.expm1, np.expm1), (math.fmod, np.fmod), (math.gamma, gamma),
            (math.nextafter, np.nextafter),
            (math.pow, np.power), (math.sinh, np.sinh),
            (math.hypot, _length),
        )
    },
    **{
        function: _of_numbers(function, counterpart, int)
        for function, counterpart in (
            (math.ceil, np.ceil), (math.floor, np.floor), (math.trunc, np.trunc),
        )
    },
    **{
        function: _of_numbers(function, counterpart, bool)
        for function, counterpart in (
            (math.isfinite, np.isfinite), (math.isinf, np.isinf), (math.isnan, np.isnan),
        )
    },
    math.gcd: _of_ints(math.gcd, np.gcd, 0),
    math.lcm: _of_ints(math.lcm, np.lcm, 1),
    math.dist: _of_items(math.dist, lambda p, q: np.sqrt(np.sum((p - q) ** 2))),
    math.fsum: _of_items(math.fsum, np.sum),
    math.isclose: _is_close,
    math.prod: _product,
}  # fmt: skip
"""What is called in the place of a function of `math` while a trace is under way."""
