"""Python numbers that a trace leaves open: arguments that come with another value at each call.

An `OpenNumber` stands for a float or an int. Beside tensors it is what the number would be: a 0-d
value of the trace that promotes weakly. With other numbers it computes floats, as Python does.
Whatever else is asked of it, a comparison or its value, cannot be answered: the trace is given up
with `NumberAskedError`, and made again with the number as a constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

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
    is_argument : bool
        Whether it is one of them itself: then it is neither 0 nor infinite nor NaN.
    """

    __slots__ = ("_asked", "_is_argument", "_positions", "_tensor", "kind")

    __array_ufunc__: ClassVar[None] = None

    def __init__(
        self,
        tensor: Tensor,
        kind: type,
        asked: set[int],
        positions: frozenset[int],
        is_argument: bool = False,
    ) -> None:
        self._tensor = tensor
        self.kind = kind
        self._asked = asked
        self._positions = positions
        self._is_argument = is_argument

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

    __bool__ = __int__ = __float__ = __complex__ = __index__ = ask
    __trunc__ = __floor__ = __ceil__ = __round__ = ask
    __repr__ = __str__ = __format__ = __hash__ = __reduce__ = __array__ = ask
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = ask
    __and__ = __or__ = __xor__ = __invert__ = __lshift__ = __rshift__ = ask
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = ask

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        self.ask()

    def __tapeline_tensor__(self) -> Tensor:
        """What a function makes of the number: a tensor that is no number any more."""
        from tapeline.runtime.ops.cast import identity  # the number's own tensor promotes weakly

        return identity(self._tensor)

    def cast(self, dtype: DType) -> Tensor:
        """The number as a tensor of the dtype of its partner."""
        from tapeline.runtime.tensor import cast_tensor  # which comes before numbers

        if dtype.kind in "biu" and dtype != self._tensor.dtype:
            self.ask()  # it may not fit, which is an error
        return cast_tensor(self._tensor, dtype)

    # ---- Python's arithmetic, where it cannot fail and gives a float

    def _computed(self, operation: Callable[[Any, Any], Any], other: Any, swap: bool) -> Any:
        kind = type(other)
        if kind is not OpenNumber and kind is not float and kind is not int:
            if kind is bool or kind is complex:
                self.ask()
            return NotImplemented
        other_kind = other.kind if kind is OpenNumber else kind
        if self.kind is int and other_kind is int and operation is not operator.truediv:
            self.ask()  # ints of Python have no bounds
        second = other._tensor if kind is OpenNumber else other
        first, second = (second, self._tensor) if swap else (self._tensor, second)
        positions = self._positions
        if kind is OpenNumber:
            positions |= other._positions
        return OpenNumber(operation(first, second), float, self._asked, positions)

    def __add__(self, other: Any) -> Any:
        return self._computed(operator.add, other, False)

    def __radd__(self, other: Any) -> Any:
        return self._computed(operator.add, other, True)

    def __sub__(self, other: Any) -> Any:
        return self._computed(operator.sub, other, False)

    def __rsub__(self, other: Any) -> Any:
        return self._computed(operator.sub, other, True)

    def __mul__(self, other: Any) -> Any:
        return self._computed(operator.mul, other, False)

    def __rmul__(self, other: Any) -> Any:
        return self._computed(operator.mul, other, True)

    def __truediv__(self, other: Any) -> Any:
        if type(other) is OpenNumber:
            if not other._is_argument:
                other.ask()  # it may be 0, which is an error
        elif type(other) in (int, float) and other == 0:
            self.ask()
        return self._computed(operator.truediv, other, False)

    def __rtruediv__(self, other: Any) -> Any:
        if type(other) in (int, float) and not self._is_argument:
            self.ask()
        return self._computed(operator.truediv, other, True)

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other in (2, 3):
            return self * self if other == 2 else self * self * self
        return NotImplemented if hasattr(type(other), "__tapeline_tensor__") else self.ask()

    def __rpow__(self, other: Any) -> Any:
        if type(other) in (int, float) and other <= 0:
            self.ask()  # it may be complex, or an error
        return self._computed(operator.pow, other, True)

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if hasattr(type(other), "__tapeline_tensor__") else self.ask()

    __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __floordiv__

    def __neg__(self) -> Any:
        return self * -1.0 if self.kind is float else self.ask()

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        self.ask()


def is_general(number: float) -> bool:
    """Whether a trace may leave the number open: not 0, which is often an error, and no number that
    is its own rule."""
    if type(number) is int:
        return number != 0 and abs(number) < 1 << 31
    return number not in (0.0, float("inf"), float("-inf")) and number == number
