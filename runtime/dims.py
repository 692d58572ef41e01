"""Sizes that a trace leaves open: integers with a name instead of a value.

A `Dim` stands in a shape where the size may be another one at the next call. It computes like the
integer that it was when it was traced, and stays general as long as the program asks for no more
than arithmetic: products, sums and quotients of sizes are sizes again. Where the program asks for
more, the answer is that of the present size, and the question is noted as a *condition* under which
the trace may serve another size. Python asking for the integer itself, to index or to count, is
the strictest of these: only that one size fits.

Sizes are polynomials with integer coefficients over symbols and over quotients and remainders, in
one normal form, so equal ones are recognized without a condition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tapeline.runtime.sizes import Sizes

Monomial: TypeAlias = tuple[int, ...]
"""Numbers of atoms, ascending; an atom that occurs twice is a square."""
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
"""Coefficients that are not zero, by monomial, ascending."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_MAX_POWER = 8


class Dim:
    """A size that is not fixed; see the module. To `isinstance` it is an int.

    Attributes
    ----------
    value : int
        What it is in the call that is traced.
    """

    __slots__ = ("_hash", "sizes", "terms", "value")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions of sizes and numbers give numbers of the trace; beside an array that
        NumPy has, a size is the integer."""
        is_array = any(isinstance(x, np.ndarray) and x.ndim for x in inputs)
        given = [
            (int(x) if is_array else x.__tapeline_tensor__()) if type(x) is Dim else x
            for x in inputs
        ]
        return getattr(ufunc, method)(*given, **options)

    def __init__(self, sizes: Sizes, terms: Terms) -> None:
        self.sizes = sizes
        self.terms = terms
        total = 0
        for monomial, coefficient in terms:
            product = coefficient
            for number in monomial:
                product *= sizes.atom_value(number)
            total += product
        self.value = total
        self._hash = hash((id(sizes), terms))

    @property
    def __class__(self) -> type:
        return int

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a size cannot be changed")

    def __repr__(self) -> str:
        """The name; while it is traced, and so in errors, with what it is in the call at hand."""
        text = _text(self)
        return f"{text}={self.value}" if self.sizes.is_open else text

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else repr(self)

    def __hash__(self) -> int:
        return self._hash

    # ---- arithmetic

    def __add__(self, other: Any) -> Any:
        terms = _terms(self, other)
        return _in_floats(operator.add, self, other) if terms is None else self._sum(terms, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        terms = _terms(self, other)
        return _in_floats(operator.sub, self, other) if terms is None else self._sum(terms, -1)

    def __rsub__(self, other: Any) -> Any:
        if _terms(self, other) is None:
            return _in_floats(lambda a, b: b - a, self, other)
        return -self + other

    def _sum(self, terms: Terms, sign: int) -> Any:
        found = dict(self.terms)
        for monomial, coefficient in terms:
            found[monomial] = found.get(monomial, 0) + sign * coefficient
        return self.sizes.dim(_normal(found))

    def __mul__(self, other: Any) -> Any:
        terms = _terms(self, other)
        if terms is None:
            return _in_floats(operator.mul, self, other)
        found: dict[Monomial, int] = {}
        for a, p in self.terms:
            for b, q in terms:
                monomial = tuple(sorted(a + b))
                found[monomial] = found.get(monomial, 0) + p * q
        return self.sizes.dim(_normal(found))

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return _reflected(self, other, operator.floordiv)

    def __mod__(self, other: Any) -> Any:
        return self._divided(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return _reflected(self, other, operator.mod)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def _divided(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        terms = _terms(self, other)
        if terms is None:
            return _in_floats(operation, self, other)
        if other == 0:
            return operation(int(self), 0)  # raises what Python raises
        quotient = _exact_quotient(self.terms, terms)
        is_quotient = operation is operator.floordiv
        if quotient is not None:
            return self.sizes.dim(quotient) if is_quotient else 0
        other = int(other) if type(other) is not Dim else other
        return self.sizes.atom("//" if is_quotient else "%", self, other)

    def __truediv__(self, other: Any) -> Any:
        return _in_floats(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _in_floats(lambda a, b: b / a, self, other)

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and 0 < other <= _MAX_POWER:
            result = self
            for _ in range(other - 1):
                result = result * self
            return result
        return _in_floats(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _in_floats(lambda a, b: b**a, self, other)

    # ---- questions

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return bool(self._compare("==", other))

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    def __lt__(self, other: Any) -> bool:
        found: bool = self._compare("<", other)
        return found

    def __le__(self, other: Any) -> bool:
        found: bool = self._compare("<=", other)
        return found

    def __gt__(self, other: Any) -> bool:
        found: bool = self._compare("<=", other)
        return NotImplemented if found is NotImplemented else not found

    def __ge__(self, other: Any) -> bool:
        found: bool = self._compare("<", other)
        return NotImplemented if found is NotImplemented else not found

    def _compare(self, relation: str, other: Any) -> Any:
        if type(other) is float:
            return self.sizes.note(self, relation, other)
        terms = _terms(self, other)
        if terms is None:
            if relation == "==":
                return False
            return NotImplemented
        difference = self._sum(terms, -1)
        if type(difference) is not Dim:
            return COMPARE[relation](difference, 0)
        least = difference.least()
        if least is not None and least >= 0 and (relation != "<=" or least > 0):
            if relation == "<":
                return False  # at least as much
            if least > 0:
                return False  # more
        most = (-difference).least()
        if most is not None and relation != "==" and most >= 0 and (relation == "<=" or most > 0):
            return True
        right: Any = other if type(other) is Dim else int(other)
        return self.sizes.note(self, relation, right)

    def least(self) -> int | None:
        """A number that it is never below, since no size is negative; None where that tells
        nothing."""
        if any(c < 0 or not self.sizes.is_natural(m) for m, c in self.terms if m):
            return None
        return dict(self.terms).get((), 0)

    def __bool__(self) -> bool:
        return self != 0

    def __int__(self) -> int:
        self._compare("==", self.value)
        return self.value

    __index__ = __int__
    __trunc__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __complex__(self) -> complex:
        return complex(int(self))

    def __round__(self, digits: int | None = None) -> int:
        return round(int(self), digits) if digits is not None and digits < 0 else self  # type: ignore[return-value]  # an int to whoever asks

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(int(self), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(int(self), dtype)

    def __tapeline_tensor__(self) -> Any:
        from tapeline.runtime.dispatch import STATE  # loaded by whoever has a tensor

        make = getattr(STATE.handler, "size_tensor", None)
        if make is None or not self.sizes.is_open:
            from tapeline.runtime.tensor import as_tensor

            return as_tensor(int(self))
        return make(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (self.value,)


def extent(size: Any) -> int:
    """The size as an int, or as it is where it is left open."""
    return size if type(size) is Dim else int(size)  # type: ignore[return-value]  # see Dim


def is_open_shape(shape: Iterable[Any]) -> bool:
    """Whether a shape holds a size that is left open."""
    return any(type(size) is Dim for size in shape)


def _normal(terms: dict[Monomial, int]) -> Terms:
    return tuple(sorted((m, c) for m, c in terms.items() if c))


def _terms(dim: Dim, other: Any) -> Terms | None:
    """The terms of an operand; None where it is no integer."""
    if type(other) is Dim:
        return other.terms if other.sizes is dim.sizes else (((), int(other)),)
    if isinstance(other, int | np.integer):
        return (((), int(other)),) if other else ()
    return None


def _exact_quotient(terms: Terms, divisor: Terms) -> Terms | None:
    """The quotient by a single term, where there is no remainder whatever the sizes."""
    if len(divisor) != 1:
        return None
    (monomial, coefficient) = divisor[0]
    found = {}
    for own, count in terms:
        rest = list(own)
        for number in monomial:
            if number not in rest:
                return None
            rest.remove(number)
        if count % coefficient:
            return None
        found[tuple(rest)] = count // coefficient
    return _normal(found)


def _reflected(dim: Dim, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
    if not isinstance(other, int | np.integer):
        return _in_floats(lambda a, b: operation(b, a), dim, other)
    if dim == 0:
        return operation(int(other), 0)  # raises what Python raises
    return dim.sizes.atom("//" if operation is operator.floordiv else "%", int(other), dim)


def _in_floats(operation: Callable[[Any, Any], Any], dim: Dim, other: Any) -> Any:
    """What is no size any more: a number of the trace beside Python numbers, else what the other
    one makes of the integer."""
    kind = type(other)
    if kind in (int, float, bool, Dim):
        tensor = dim.__tapeline_tensor__()
        return operation(tensor, other.__tapeline_tensor__() if kind is Dim else other)
    if kind is complex or isinstance(other, np.ndarray | np.generic):
        return operation(int(dim), other)
    return NotImplemented


def present_value(size: Any) -> Any:
    """What a size is in the call that is traced; a number is itself."""
    return size.value if type(size) is Dim else size


def is_natural(size: Any) -> bool:
    """Whether a size is never negative, whatever the symbols are."""
    if type(size) is not Dim:
        return bool(size >= 0)
    least = size.least()
    return least is not None and least >= 0


def is_open(size: Any) -> bool:
    """Whether a trace under way leaves a size open."""
    return type(size) is Dim and size.sizes.is_open


def is_told(size: Any) -> bool:
    """Whether values tell a size, in each call anew."""
    return type(size) is Dim and size.sizes.is_told(size)


def structural_key(size: Any) -> Any:
    """Equal for equal sizes, without asking anything."""
    return size.terms if type(size) is Dim else size


def source_of(size: Any) -> str:
    """A size, or a number, as Python in terms of symbols; `Sizes.parse` reads it."""
    return _text(size) if type(size) is Dim else repr(size)


def factor_text(size: Any) -> str:
    """A size as an operand: in parentheses, unless it is a name or a number."""
    if type(size) is not Dim:
        return f"({size})" if size < 0 else str(size)
    text = _text(size)
    is_whole = len(size.terms) > 1 or (len(size.terms[0][0]) == 1 and size.terms[0][1] == 1)
    return text if is_whole else f"({text})"


def bare(text: str) -> str:
    """Without the parentheses around the whole of it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 and letter == ")" else text
    return text


def _text(dim: Dim) -> str:
    """The polynomial as Python, which is also what people read."""
    parts = []
    for monomial, coefficient in sorted(dim.terms, key=lambda term: (-len(term[0]), term[0])):
        factors = [dim.sizes.atom_text(number) for number in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        parts.append("*".join(factors))
    text = " + ".join(parts).replace("+ -", "- ")
    return f"({text})" if len(parts) > 1 else text
