"""Python numbers that a trace leaves open: arguments that come with another value at each call.

An `OpenNumber` stands for a float or an int. Beside tensors it is what the number would be: a 0-d
value of the trace that promotes weakly, or an index. With other numbers it computes as Python does;
ints as long as they surely fit. Its sign is known, for a call with another sign has another trace.
Whatever else is asked of it, such as its value, cannot be answered: the trace is given up with
`NumberAskedError`, and made again with the number as a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from tapeline.runtime.spec import DType

if TYPE_CHECKING:
    from tapeline.runtime.tensor import Tensor


class NumberAskedError(BaseException):
    """Ends a trace that needs the value of a number that it left open. Never seen by users; not an
    `Exception`, so that their code does not handle it.

    Parameters
    ----------
    asked : set of int
        The numbers of the trace that were asked for.
    """

    def __init__(self, asked: set[int]) -> None:
        super().__init__()
        self.asked = asked


_LARGEST_ARGUMENT = 1 << 31
_LARGEST = 1 << 63
_EXACT = 1 << 53
"""Ints up to here are exact as floats, so that their quotient is Python's."""


class OpenNumber:
    """A number that is not fixed; see the module. To `isinstance` it is an int or a float.

    Parameters
    ----------
    tensor : Tensor
        The 0-d value in the trace, float64 or int64, that promotes weakly.
    kind : type
        `float` or `int`.
    asked : set of int
        Where to note which numbers were asked for.
    positions : frozenset of int
        The numbers among the arguments that it is made of.
    sign : int
        1 or -1 for what is above or below 0 for sure; 0 if unknown.
    bound : int
        An int is not larger than this, nor its negative.
    is_exact : bool
        Whether it is Python's number to the last bit, so that it may come back as a result.
    """

    __slots__ = ("_asked", "_bound", "_is_exact", "_positions", "_sign", "_tensor", "kind")

    __array_ufunc__: ClassVar[None] = None

    def __init__(
        self,
        tensor: Tensor,
        kind: type,
        asked: set[int],
        positions: frozenset[int],
        sign: int = 0,
        bound: int = _LARGEST_ARGUMENT,
        is_exact: bool = True,
    ) -> None:
        self._tensor = tensor
        self.kind = kind
        self._asked = asked
        self._positions = positions
        self._sign = sign
        self._bound = bound
        self._is_exact = is_exact

    @property
    def sign(self) -> int:
        """1 or -1 for what is above or below 0 for sure; 0 if unknown."""
        return self._sign

    @property
    def __class__(self) -> type:
        return self.kind

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a number cannot be changed")

    def ask(self, *_: Any, **__: Any) -> NoReturn:
        """Gives the trace up: it cannot do without the value."""
        self._asked |= self._positions
        raise NumberAskedError(self._asked)

    __int__ = __float__ = __complex__ = __index__ = ask
    __trunc__ = __floor__ = __ceil__ = __round__ = ask
    __repr__ = __str__ = __format__ = __hash__ = __reduce__ = __array__ = ask
    __and__ = __or__ = __xor__ = __invert__ = __lshift__ = __rshift__ = ask
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = ask

    def __bool__(self) -> bool:
        return bool(self._sign) or self.ask()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        self.ask()

    def __tapeline_tensor__(self) -> Tensor:
        """What a function makes of the number: a tensor that is no number any more."""
        from tapeline.runtime.ops.cast import identity  # the number's own tensor promotes weakly

        return identity(self._tensor)

    def result(self) -> Tensor:
        """The number as a result of the trace, which comes back as a Python number."""
        if not self._is_exact:
            self.ask()
        return self._tensor

    def cast(self, dtype: DType) -> Tensor:
        """The number as a tensor of the dtype of its partner."""
        from tapeline.runtime.tensor import cast_tensor  # which comes before numbers

        if dtype.kind in "biu" and dtype != self._tensor.dtype:
            self.ask()  # it may not fit, which is an error
        tensor = self._tensor
        if self._bound > _EXACT and dtype.kind in "fc":
            tensor = cast_tensor(tensor, np.dtype(np.float64))  # Python's way to a shorter float
        return cast_tensor(tensor, dtype)

    def mapped(self, function: Callable[[Any], Any]) -> OpenNumber:
        """A function of the number that Python's libraries know as well, perhaps with other last
        digits."""
        from tapeline.runtime.tensor import cast_tensor  # which comes before numbers

        number = cast_tensor(self._tensor, np.dtype(np.float64))
        return OpenNumber(
            function(number), float, self._asked, self._positions, 0, 0, is_exact=False
        )

    # ---- comparisons that the sign decides

    def _compared(self, compare: Callable[[Any, Any], bool], other: Any) -> Any:
        """The answer for every number of this sign, if there is one."""
        kind = type(other)
        if _is_tensor(other) or other is None or kind is str:
            return NotImplemented
        if kind is not int and kind is not float:
            self.ask()
        if self.kind is int and kind is int:  # n >= 1 is n > 0
            if compare is operator.ge:
                compare, other = operator.gt, other - 1
            elif compare is operator.lt:
                compare, other = operator.le, other - 1
        if self._sign * other > 0 or not self._sign or other != other:
            self.ask()
        return compare(self._sign, 0)

    def __eq__(self, other: object) -> Any:
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    # ---- Python's arithmetic, where it cannot fail

    def _computed(
        self, operation: Callable[[Any, Any], Any], other: Any, swap: bool = False
    ) -> Any:
        kind = type(other)
        if kind is not OpenNumber and kind is not float and kind is not int:
            if kind is bool or kind is complex:
                self.ask()
            return NotImplemented
        is_open = kind is OpenNumber
        is_int = self.kind is int and (other.kind if is_open else kind) is int
        size = other._bound if is_open else abs(other)
        bound = 0
        if is_int and operation is operator.truediv:
            if max(self._bound, size) > _EXACT:
                self.ask()
            is_int = False
        if is_int:
            bound = self._bound * size if operation is operator.mul else self._bound + size
            if bound >= _LARGEST:
                self.ask()  # ints of Python have no bounds
        first, second = self._tensor, other._tensor if is_open else other
        sign, other_sign = self._sign, other._sign if is_open else _sign(other)
        if swap:
            first, second, sign, other_sign = second, first, other_sign, sign
        sign = _sign_of(operation, sign, other_sign, is_int)
        positions = self._positions | other._positions if is_open else self._positions
        is_exact = self._is_exact and (not is_open or other._is_exact)
        return OpenNumber(
            operation(first, second),
            int if is_int else float,
            self._asked,
            positions,
            sign,
            bound,
            is_exact and operation is not operator.pow,
        )

    def _divided(self, operation: Callable[[Any, Any], Any], other: Any, swap: bool) -> Any:
        """A division, unless it may be by 0, which is an error."""
        divisor = self if swap else other
        if type(divisor) is OpenNumber:
            if not divisor._sign:
                divisor.ask()
        elif type(divisor) in (int, float) and divisor == 0:
            self.ask()
        return self._computed(operation, other, swap)

    def __add__(self, other: Any) -> Any:
        return self._computed(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._computed(operator.add, other, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._computed(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._computed(operator.sub, other, swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._computed(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._computed(operator.mul, other, swap=True)

    def __truediv__(self, other: Any) -> Any:
        return self._divided(operator.truediv, other, swap=False)

    def __rtruediv__(self, other: Any) -> Any:
        return self._divided(operator.truediv, other, swap=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._whole(operator.floordiv, other, swap=False)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._whole(operator.floordiv, other, swap=True)

    def __mod__(self, other: Any) -> Any:
        return self._whole(operator.mod, other, swap=False)

    def __rmod__(self, other: Any) -> Any:
        return self._whole(operator.mod, other, swap=True)

    def _whole(self, operation: Callable[[Any, Any], Any], other: Any, swap: bool) -> Any:
        if _is_tensor(other):
            return NotImplemented
        kind = other.kind if type(other) is OpenNumber else type(other)
        if self.kind is float or kind is float:
            self.ask()  # the last digits may differ
        return self._divided(operation, other, swap)

    def __divmod__(self, other: Any) -> Any:
        return NotImplemented if _is_tensor(other) else self.ask()

    __rdivmod__ = __divmod__

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other in (2, 3):
            found = self * self if other == 2 else self * self * self
            found._is_exact &= found.kind is int or other == 2
            return found
        return NotImplemented if _is_tensor(other) else self.ask()

    def __rpow__(self, other: Any) -> Any:
        if type(other) in (int, float) and other <= 0:
            self.ask()  # it may be complex, or an error
        if type(other) is int and self.kind is int:
            self.ask()  # an int, or a float
        return self._computed(operator.pow, other, swap=True)

    def __neg__(self) -> Any:
        return self * (-1.0 if self.kind is float else -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        if not self._sign:
            self.ask()
        return self if self._sign > 0 else -self


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _sign_of(operation: Callable[[Any, Any], Any], first: int, second: int, is_int: bool) -> int:
    """The sign of a result, if those of the operands tell. The product of floats may be too small
    to have one."""
    if operation is operator.mul and is_int:
        return first * second
    if operation is operator.sub:
        second, operation = -second, operator.add
    return first if operation is operator.add and first == second else 0


def _is_tensor(value: Any) -> bool:
    return type(value) is not OpenNumber and hasattr(type(value), "__tapeline_tensor__")


def is_general(number: float) -> bool:
    """Whether a trace may leave the number open: not 0, which is often an error, and no number that
    is its own rule."""
    if type(number) is int:
        return number != 0 and abs(number) < _LARGEST_ARGUMENT
    return number not in (0.0, float("inf"), float("-inf")) and number == number
