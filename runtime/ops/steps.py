"""Functions written once, as steps of arithmetic: on arrays the steps are the kernel, on a scalar
emitter the machine code. `Real` gives a step the look of a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.op import Op, Predicate, get_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.ops.pointwise import define_pointwise
from tapeline.runtime.series import POLYNOMIALS
from tapeline.runtime.spec import DType

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_CHUNK = 8192
"""Elements that are taken through all steps before the next, so that they stay in cache."""

_COMPARISONS: dict[Predicate, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


class _Arrays:
    """The part of `ScalarEmitter` that steps use, on arrays."""

    add, sub, mul, div = np.add, np.subtract, np.multiply, np.divide
    neg, abs, sqrt = np.negative, np.abs, np.sqrt
    floor, rint, copysign, select = np.floor, np.rint, np.copysign, np.where
    bit_and, bit_or, bit_not = np.bitwise_and, np.bitwise_or, np.bitwise_not
    shift_right = np.right_shift

    @staticmethod
    def constant(value: Any, dtype: DType) -> Any:
        return dtype.type(value)

    @staticmethod
    def const(value: Any, like: Any) -> Any:
        return like.dtype.type(value)

    @staticmethod
    def dtype_of(x: Any) -> DType:
        return x.dtype  # type: ignore[no-any-return]

    @staticmethod
    def cast(x: Any, dtype: DType) -> Any:
        return x.astype(dtype)

    @staticmethod
    def bitcast(x: Any, dtype: DType) -> Any:
        return x.view(dtype)

    @staticmethod
    def compare(predicate: Predicate, a: Any, b: Any) -> Any:
        return _COMPARISONS[predicate](a, b)

    @staticmethod
    def call(name: str, *args: Any) -> Any:
        return (getattr(np, name, None) or get_op(name).kernel)(*args)


ARRAYS: Any = _Arrays


def in_chunks(steps: Callable[..., Any]) -> Callable[..., Array]:
    """The kernel that takes these steps, of arrays of one dtype that broadcast."""

    def kernel(*inputs: Array) -> Array:
        broadcast = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
        flat = [np.ascontiguousarray(x).reshape(-1) for x in broadcast]
        out = np.empty_like(flat[0])
        for start in range(0, out.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = steps(ARRAYS, *[x[part] for x in flat])
        return out.reshape(broadcast[0].shape)

    return kernel


def polynomial(b: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """The value at x; the constant term comes first."""
    if b is ARRAYS:
        return _polynomial_of_array(x, coefficients)
    total = b.const(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        total = b.add(b.mul(total, x), b.const(coefficient, x))
    return total


def _polynomial_of_array(x: Any, coefficients: Sequence[float]) -> Any:
    """The same steps without new arrays in between."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


class Real:
    """A value of a scalar emitter with operators, so that steps read as formulas. A comparison is
    one that holds a bool."""

    __slots__ = ("b", "value")

    def __init__(self, b: Any, value: Any) -> None:
        self.b = b
        self.value = value

    def like(self, x: Real | float) -> Real:
        """A number as an operand beside this one."""
        return x if isinstance(x, Real) else Real(self.b, self.b.const(x, self.value))

    def _binary(self, step: Callable[[Any, Any], Any], other: Real | float) -> Real:
        return Real(self.b, step(self.value, self.like(other).value))

    def _compare(self, predicate: Predicate, other: Real | float) -> Real:
        return Real(self.b, self.b.compare(predicate, self.value, self.like(other).value))

    def __add__(self, other: Real | float) -> Real:
        return self._binary(self.b.add, other)

    def __sub__(self, other: Real | float) -> Real:
        return self._binary(self.b.sub, other)

    def __mul__(self, other: Real | float) -> Real:
        return self._binary(self.b.mul, other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._binary(self.b.div, other)

    def __rsub__(self, other: float) -> Real:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Real:
        return self.like(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Real:
        return Real(self.b, self.b.neg(self.value))

    def __abs__(self) -> Real:
        return Real(self.b, self.b.abs(self.value))

    def __lt__(self, other: Real | float) -> Real:
        return self._compare("lt", other)

    def __le__(self, other: Real | float) -> Real:
        return self._compare("le", other)

    def __gt__(self, other: Real | float) -> Real:
        return self._compare("gt", other)

    def __ge__(self, other: Real | float) -> Real:
        return self._compare("ge", other)

    def equals(self, other: Real | float) -> Real:
        """Where both are the same number."""
        return self._compare("eq", other)

    def __and__(self, other: Real) -> Real:
        return self._binary(self.b.bit_and, other)

    def __or__(self, other: Real) -> Real:
        return self._binary(self.b.bit_or, other)

    def where(self, a: Real, b: Real | float) -> Real:
        """Of a condition: a where it holds, else b."""
        return Real(self.b, self.b.select(self.value, a.value, a.like(b).value))

    def otherwise(self, number: float, b: Real) -> Real:
        """Of a condition: the number where it holds, else b."""
        return self.where(b.like(number), b)

    def choose(
        self, first: Callable[..., Real], second: Callable[..., Real], *operands: Real
    ) -> Real:
        """Of a condition: what `first` gives of the operands where it holds, else what `second`
        gives. In arrays each is computed where it counts only."""
        condition = self.value
        if self.b is not ARRAYS:
            return self.where(first(*operands), second(*operands))
        count = np.count_nonzero(condition)
        if count == condition.size or not count:
            return (first if count else second)(*operands)
        out = np.empty_like(operands[0].value)
        for mask, function in ((condition, first), (~condition, second)):
            chosen = function(*[Real(self.b, x.value[mask]) for x in operands])
            out[mask] = chosen.value
        return Real(self.b, out)

    def may_hold(self) -> bool:
        """Whether a condition holds anywhere, as far as can be told."""
        return self.b is not ARRAYS or bool(self.value.any())

    def sqrt(self) -> Real:
        """Square root."""
        return Real(self.b, self.b.sqrt(self.value))

    def rint(self) -> Real:
        """The nearest integer."""
        return Real(self.b, self.b.rint(self.value))

    def copysign(self, sign: Real) -> Real:
        """The magnitude with the sign of another."""
        return self._binary(self.b.copysign, sign)

    def shortened(self) -> Real:
        """A float64 with few enough digits that its square is exact."""
        short = self.b.cast(self.value, np.dtype(np.float32))
        return Real(self.b, self.b.cast(short, _FLOAT64))

    def call(self, name: str, *others: Real | float) -> Real:
        """A function of the math library."""
        operands = [self.like(other).value for other in others]
        return Real(self.b, self.b.call(name, self.value, *operands))

    def polynomial(self, terms: str | Sequence[float]) -> Real:
        """A polynomial, or that of this name in the table."""
        b, x = self.b, self.value
        coefficients = POLYNOMIALS[terms] if isinstance(terms, str) else terms
        if b is ARRAYS:
            return Real(b, _polynomial_of_array(x, coefficients))
        total = b.const(coefficients[-1], x)
        for coefficient in reversed(coefficients[:-1]):
            total = b.fma(total, x, b.const(coefficient, x))
        return Real(b, total)


def define_special(name: str, formula: Callable[..., Real], **rules: Any) -> Op:
    """An elementwise op of floats that a formula of float64 gives; float32 is rounded once.

    Parameters
    ----------
    formula : callable (*inputs: Real, *attrs) -> Real
        What the op does with float64.
    rules : Any
        What `define_op` takes, without `n_inputs` unless it is more than 1.
    """
    count: int = rules.get("n_inputs", 1)

    def steps(b: Any, *operands: Any) -> Any:
        inputs, attrs = operands[:count], operands[count:]
        dtype = b.dtype_of(inputs[0])
        if dtype == _FLOAT64:
            return formula(*[Real(b, x) for x in inputs], *attrs).value
        wide = [Real(b, b.cast(x, _FLOAT64)) for x in inputs]
        result = formula(*wide, *attrs).value
        if dtype.itemsize == 2:  # which compiled functions compute in float32
            result = b.cast(result, _FLOAT32)
        return b.cast(result, dtype)

    def kernel(*operands: Any) -> Any:
        inputs, attrs = operands[:count], operands[count:]
        with np.errstate(all="ignore"):
            return in_chunks(lambda b, *parts: steps(b, *parts, *attrs))(*inputs)

    rules = {"kinds": "f", "ulp": (1.0, 8.0), **rules}
    return define_pointwise(name, kernel=kernel, emit=steps, **rules)
