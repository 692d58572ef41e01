"""The bodies of ops on numbers that no register holds: complex ones as two floats, floats of 16
bits as a float32.

`Words` is the builder that an op's `emit` speaks to. What is neither complex nor of 16 bits goes on
to the builder beneath.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tapeline.compiler.codegen.halves import is_half, rounded
from tapeline.compiler.codegen.math import complex_functions
from tapeline.runtime.op import Attrs, Op, Pointwise, Predicate
from tapeline.runtime.ops.pointwise import to_real
from tapeline.runtime.spec import DType

_FLOAT32, _FLOAT64, _BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)


class Pair(NamedTuple):
    """The parts of a complex number."""

    re: Any
    im: Any


class NoWords(Exception):
    """An op cannot be said in words of real numbers."""


def parts_of(dtype: DType) -> tuple[DType, ...]:
    """The dtypes of what stands for a number of this dtype."""
    if dtype.kind == "c":
        return (to_real(dtype),) * 2
    return (_FLOAT32,) if is_half(dtype) else (dtype,)


class Words:
    """A builder over `b` that knows pairs; values of `b` are real numbers, some of which may stand
    for floats of 16 bits."""

    def __init__(self, b: Any, has_halves: bool) -> None:
        self.b = b
        self.has_halves = has_halves

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """An operation of real numbers alone."""
        operation = getattr(self.b, name)

        def of_reals(*args: Any) -> Any:
            if any(type(arg) is Pair for arg in args):
                raise NoWords(name)
            return operation(*args)

        return of_reals

    def dtype_of(self, x: Any) -> DType:
        """The dtype of a value; float32 for floats of 16 bits."""
        if type(x) is not Pair:
            found: DType = self.b.dtype_of(x)
            return found
        return np.dtype(np.complex64 if self.b.dtype_of(x.re) == _FLOAT32 else np.complex128)

    def constant(self, value: Any, dtype: DType) -> Any:
        """A constant."""
        if dtype.kind == "c":
            part, number = to_real(dtype), complex(value)
            return Pair(self.b.constant(number.real, part), self.b.constant(number.imag, part))
        return self.b.constant(value, parts_of(dtype)[0])

    def const(self, value: Any, like: Any) -> Any:
        """A constant of the dtype of another value."""
        if type(like) is not Pair:
            return self.b.const(value, like)
        number = complex(value)
        return Pair(self.b.const(number.real, like.re), self.b.const(number.imag, like.re))

    def cast(self, x: Any, dtype: DType) -> Any:
        """As NumPy's `astype`; what is not complex loses the imaginary part."""
        b = self.b
        if dtype.kind == "c":
            part = to_real(dtype)
            if type(x) is Pair:
                return Pair(b.cast(x.re, part), b.cast(x.im, part))
            real = b.cast(x, part)
            return Pair(real, b.const(0.0, real))
        if type(x) is Pair:
            return self.compare("ne", x, self.const(0, x)) if dtype == _BOOL else (
                self.cast(x.re, dtype)
            )  # fmt: skip
        if is_half(dtype):
            return rounded(b, x, dtype)
        return b.cast(x, dtype)

    def bitcast(self, x: Any, dtype: DType) -> Any:
        """The same bits, of numbers that are what they look like."""
        if self.has_halves or type(x) is Pair:
            raise NoWords("bitcast")
        return self.b.bitcast(x, dtype)

    # ---- the parts of complex numbers

    def real(self, x: Pair) -> Any:
        """The real part."""
        return x.re

    def imag(self, x: Pair) -> Any:
        """The imaginary part."""
        return x.im

    def conj(self, x: Pair) -> Pair:
        """The complex conjugate."""
        return Pair(x.re, self.b.neg(x.im))

    def each(self, function: Callable[..., Any], x: Pair) -> Pair:
        """A function of both parts."""
        return Pair(function(self, x.re), function(self, x.im))

    # ---- arithmetic

    def _by_parts(self, name: str, *args: Any) -> Any:
        operation = getattr(self.b, name)
        if type(args[0]) is not Pair:
            return operation(*args)
        return Pair(*[operation(*parts) for parts in zip(*args, strict=True)])

    def add(self, a: Any, b: Any) -> Any:
        """Sum."""
        return self._by_parts("add", a, b)

    def sub(self, a: Any, b: Any) -> Any:
        """Difference."""
        return self._by_parts("sub", a, b)

    def neg(self, x: Any) -> Any:
        """`-x`."""
        return self._by_parts("neg", x)

    def mul(self, x: Any, y: Any) -> Any:
        """Product, as NumPy's: infinities are not mended."""
        if type(x) is not Pair:
            return self.b.mul(x, y)
        return Pair(*complex_functions.product(self.b, x, y))

    def div(self, x: Any, y: Any) -> Any:
        """Quotient, by Smith's way as NumPy's."""
        b = self.b
        if type(x) is not Pair:
            return b.div(x, y)
        wide, ratio, below = self._smith(y)
        inverse = b.div(b.const(1.0, ratio), below)
        real = b.select(wide, b.add(x.re, b.mul(x.im, ratio)), b.add(b.mul(x.re, ratio), x.im))
        imag = b.select(wide, b.sub(x.im, b.mul(x.re, ratio)), b.sub(b.mul(x.im, ratio), x.re))
        size = b.abs(y.re)
        zero = b.const(0.0, size)
        by_zero = b.bit_and(b.compare("eq", size, zero), b.compare("eq", b.abs(y.im), zero))
        return Pair(
            b.select(by_zero, b.div(x.re, size), b.mul(real, inverse)),
            b.select(by_zero, b.div(x.im, size), b.mul(imag, inverse)),
        )

    def _smith(self, y: Pair) -> tuple[Any, Any, Any]:
        """Whether the real part is the greater one; the ratio of the lesser to the greater; and
        what the quotient is to be divided by."""
        b = self.b
        wide = b.compare("ge", b.abs(y.re), b.abs(y.im))
        greater, lesser = b.select(wide, y.re, y.im), b.select(wide, y.im, y.re)
        ratio = b.div(lesser, greater)
        return wide, ratio, b.add(greater, b.mul(lesser, ratio))

    def reciprocal(self, y: Pair) -> Pair:
        """1 / y, as NumPy's: NaN at 0."""
        b = self.b
        wide, ratio, below = self._smith(y)
        one = b.const(1.0, ratio)
        return Pair(
            b.div(b.select(wide, one, ratio), below),
            b.neg(b.div(b.select(wide, ratio, one), below)),
        )

    def _inverse(self, y: tuple[Any, Any]) -> Pair:
        """1 / y, as a quotient."""
        result: Pair = self.div(self.const(1, Pair(*y)), Pair(*y))
        return result

    def abs(self, x: Any) -> Any:
        """Absolute value."""
        return self.b.call("hypot", x.re, x.im) if type(x) is Pair else self.b.abs(x)

    def sqrt(self, x: Any) -> Any:
        """Square root."""
        if type(x) is not Pair:
            return self.b.sqrt(x)
        return Pair(*complex_functions.square_root(self.b, *x))

    def sign(self, x: Pair) -> Pair:
        """x / abs(x), 0 at 0; of infinities their direction, NaN where both parts are infinite."""
        b = self.b
        size = self.abs(x)
        infinite = b.compare("eq", size, b.const(np.inf, size))
        zero, one = b.const(0.0, size), b.const(1.0, size)
        of_zero = b.compare("eq", size, zero)

        def part(value: Any) -> Any:
            at_infinity = b.compare("eq", b.abs(value), size)
            other = b.select(at_infinity, b.copysign(one, value), zero)
            return b.select(of_zero, zero, b.select(infinite, other, b.div(value, size)))

        real, imag = part(x.re), part(x.im)
        corner = b.bit_and(infinite, b.compare("eq", b.abs(x.re), b.abs(x.im)))
        nan = b.const(np.nan, size)
        return Pair(b.select(corner, nan, real), b.select(corner, nan, imag))

    def call(self, name: str, *args: Any) -> Any:
        """A function of the math library."""
        if not any(type(arg) is Pair for arg in args):
            return self.b.call(name, *args)
        if name == "power":
            return Pair(*complex_functions.power(self.b, args[0], args[1], self._inverse))
        function = complex_functions.FUNCTIONS.get(name)
        if function is None or len(args) != 1:
            raise NoWords(name)
        return Pair(*function(self.b, *args[0]))

    # ---- choices

    def compare(self, predicate: Predicate, x: Any, y: Any) -> Any:
        """A bool; complex numbers are equal or not."""
        b = self.b
        if type(x) is not Pair:
            return b.compare(predicate, x, y)
        if predicate not in ("eq", "ne"):
            raise NoWords(predicate)
        join = b.bit_and if predicate == "eq" else b.bit_or
        return join(b.compare(predicate, x.re, y.re), b.compare(predicate, x.im, y.im))

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        """x where the bool holds, else y."""
        b = self.b
        if type(x) is not Pair:
            return b.select(condition, x, y)
        return Pair(b.select(condition, x.re, y.re), b.select(condition, x.im, y.im))


def in_words(
    emit: Callable[..., Any], given: tuple[DType, ...], dtype: DType
) -> Callable[..., tuple[Any, ...]]:
    """The body of an op on values of these dtypes, as a function of a builder and of all their
    parts; it gives the parts of the result."""

    has_halves = any(is_half(one) for one in given)

    def compute(b: Any, *flat: Any) -> tuple[Any, ...]:
        values, rest = [], list(flat)
        for one in given:
            values.append(Pair(rest.pop(0), rest.pop(0)) if one.kind == "c" else rest.pop(0))
        result = emit(Words(b, has_halves), *values)
        if dtype.kind == "c" and type(result) is not Pair:
            raise NoWords("a real result")
        if type(result) is Pair:
            return tuple(result)
        return (rounded(b, result, dtype) if is_half(dtype) else result,)

    return compute


class _Probe:
    """A builder that notes nothing but dtypes, which are its values."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: args[0]

    def dtype_of(self, x: DType) -> DType:
        return x

    def constant(self, _: Any, dtype: DType) -> DType:
        return dtype

    def const(self, _: Any, like: DType) -> DType:
        return like

    def cast(self, _: DType, dtype: DType) -> DType:
        return dtype

    def bitcast(self, _: DType, dtype: DType) -> DType:
        return dtype

    def compare(self, *_: Any) -> DType:
        return _BOOL

    def select(self, _: DType, x: DType, __: DType) -> DType:
        return x

    def call(self, _: str, *args: DType) -> DType:
        return args[0]


@cache
def has_words(op: Op, attrs: Attrs, given: tuple[DType, ...], dtype: DType) -> bool:
    """Whether a pointwise op can be said in words of real numbers, for inputs and a result of these
    dtypes."""
    assert isinstance(op.lowering, Pointwise)
    body = op.lowering.emit
    flat = [part for one in given for part in parts_of(one)]
    try:
        in_words(lambda b, *values: body(b, *values, *attrs), given, dtype)(_Probe(), *flat)
    except NoWords:
        return False
    return True
