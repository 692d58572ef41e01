"""The builder for straight-line code, above all on single numbers: division by constants without
dividing.

It gives the same bits as the builder of vector loops. Where a divisor is known, as in `n % 2` and
`n // 2`, much of what division has to look out for cannot happen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tapeline.compiler.codegen.loops import FunctionBuilder
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, is_float, is_signed

_POWERS = frozenset(2.0**k for k in range(1, 41))
"""Divisors whose inverse is exact and at most a half, so that no product overflows."""


_FAR = 1 << 62
_IMPURE = ("phi ", "load ", "alloca ")


def _is_impure_call(instruction: str) -> bool:
    """Whether a call may give something else the next time: masked loads and gathers do."""
    if not instruction.startswith("call "):
        return False
    return "@llvm." not in instruction or "@llvm.masked." in instruction


def _float_of(x: Value) -> float | None:
    """The number that a float literal is."""
    if not x.is_constant or not x.name.startswith("0x"):
        return None
    number: float = struct.unpack("<d", struct.pack("<Q", int(x.name, 16)))[0]
    return number


def _int_of(x: Value) -> int | None:
    return int(x.name) if x.is_constant and x.name.lstrip("-").isdigit() else None


class ScalarBuilder(FunctionBuilder):
    """Emits code for one lane; what was computed before, in a block that comes first in any case,
    is not computed again."""

    __slots__ = ("_known", "_offsets", "least", "most")

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._known: list[dict[str, str]] = [{}]
        self._offsets: dict[str, tuple[Value, int]] = {}
        """Registers that are another one plus a constant."""
        self.least: dict[str, int] = {}
        """Registers with ints that cannot be below a number, short of wrapping around."""
        self.most: dict[str, int] = {}
        """Registers with ints that cannot be above a number, where they have a least one too."""

    def assign(self, instruction: str) -> str:
        """The register with the result of an instruction, which is added if it is new."""
        if instruction.startswith(_IMPURE) or _is_impure_call(instruction):
            return super().assign(instruction)
        for known in reversed(self._known):
            if instruction in known:
                return known[instruction]
        name = self._known[-1][instruction] = super().assign(instruction)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """For blocks that may not run: what they compute is not known afterwards."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def rare(
        self,
        condition: Value,
        fallback: Callable[..., Iterable[Value]],
        values: Sequence[Value],
    ) -> list[Value]:
        """As ever; the fallback has a scope of its own."""

        def scoped(*given: Value) -> list[Value]:
            with self.scope():
                return list(fallback(*given))

        return super().rare(condition, scoped, values)

    def recall(self, fact: str, name: str) -> None:
        """Notes what is known from here on, in this scope."""
        self._known[-1][fact] = name

    def recalled(self, fact: str) -> str | None:
        """What was noted before."""
        return next((known[fact] for known in reversed(self._known) if fact in known), None)

    def establish(self, condition: Value) -> None:
        """Notes that a condition holds from here on, in this scope."""
        self.recall(f"holds {condition.name}", "true")

    def is_established(self, condition: Value) -> bool:
        """Whether a condition was found to hold before."""
        return self.recalled(f"holds {condition.name}") is not None

    def least_of(self, x: Value) -> int | None:
        """A number that an int is known not to be below."""
        number = _int_of(x)
        return self.least.get(x.name) if number is None else number

    def is_within(self, x: Value, size: int) -> bool:
        """Whether an int is known to be an index into so many elements."""
        number = _int_of(x)
        most = self.most.get(x.name) if number is None else number
        return self.is_nonnegative(x) and most is not None and most < size

    def is_nonnegative(self, x: Value) -> bool:
        """Whether an int is known not to be negative."""
        least = self.least_of(x)
        return least is not None and least >= 0

    def add(self, a: Value, b: Value, /) -> Value:
        """The sum; constants that are added one after the other are added up."""
        if a.code != "i8" or b.code != "i8":
            return super().add(a, b)
        number = _int_of(b)
        if number is None and _int_of(a) is not None:
            a, b, number = b, a, _int_of(a)
        if number is None:
            made = super().add(a, b)
            low, high = self.least_of(a), self.least_of(b)
            if low is not None and high is not None:
                self.least[made.name] = low + high
                if a.name in self.most and b.name in self.most:
                    self.most[made.name] = self.most[a.name] + self.most[b.name]
            return made
        return self._moved(a, number)

    def mul(self, a: Value, b: Value, /) -> Value:
        """The product."""
        made = super().mul(a, b)
        number = _int_of(b) if a.code == "i8" else None
        if number is not None and 0 < number < _FAR:
            for known in (self.least, self.most):
                if a.name in known and abs(known[a.name] * number) < _FAR:
                    known[made.name] = known[a.name] * number
        return made

    def sub(self, a: Value, b: Value, /) -> Value:
        """The difference."""
        number = _int_of(b) if a.code == "i8" else None
        return super().sub(a, b) if number is None else self._moved(a, -number)

    def _moved(self, x: Value, number: int) -> Value:
        """An int64 plus a constant."""
        base, before = self._offsets.get(x.name, (x, 0))
        total = before + number
        if not total or abs(total) > _FAR:
            return base if not total else super().add(x, self.const(number, x))
        made = super().add(base, self.const(total, x))
        if not made.is_constant:
            self._offsets[made.name] = base, total
            least = self.least_of(base)
            if least is not None:
                self.least[made.name] = least + total
                if base.name in self.most:
                    self.most[made.name] = self.most[base.name] + total
        return made

    def floor_divide(self, a: Value, b: Value, /) -> Value:
        """NumPy's `//`."""
        if is_float(a.code):
            inverse = self._inverse(b)
            if inverse is None or a.lanes > 1:
                return super().floor_divide(a, b)
            quotient = self.floor(self.mul(a, inverse))
            # a negative number so small that its product is rounded to 0
            negative = self.compare("lt", a, self.const(0, a))
            lost = self.bit_and(negative, self.compare("ge", quotient, self.const(0, a)))
            return self.rare(lost, lambda _: [self.const(-1, a)], [quotient])[0]
        divisor = _int_of(b)
        if divisor is None and a.lanes == b.lanes == 1 and is_signed(a.code):
            return self._likely_divmod(a, b)[0]
        if divisor is None or divisor <= 0:
            return super().floor_divide(a, b)
        if divisor & (divisor - 1) == 0:
            name = "ashr" if is_signed(a.code) else "lshr"
            return self._binary(name, a, self.const(divisor.bit_length() - 1, a))
        return self._known_divmod(a, b)[0]

    def remainder(self, a: Value, b: Value, /) -> Value:
        """NumPy's `%`."""
        if is_float(a.code):
            inverse = self._inverse(b)
            if inverse is None or a.lanes > 1:
                return super().remainder(a, b)
            rest = self.sub(a, self.mul(self.floor(self.mul(a, inverse)), b))
            negative = self.compare("lt", rest, self.const(0, a))  # as above
            return self.rare(negative, lambda x: [self.add(x, b)], [rest])[0]
        divisor = _int_of(b)
        if divisor is None and a.lanes == b.lanes == 1 and is_signed(a.code):
            return self._likely_divmod(a, b)[1]
        if divisor is None or divisor <= 0:
            return super().remainder(a, b)
        if divisor & (divisor - 1) == 0:
            return self.bit_and(a, self.const(divisor - 1, a))
        return self._known_divmod(a, b)[1]

    def _inverse(self, b: Value) -> Value | None:
        """The exact inverse of a float that is a power of two."""
        number = _float_of(b)
        return None if number not in _POWERS else self.const(1 / number, b)

    def _likely_divmod(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Quotient and remainder by an int that is positive in all likelihood: then little can go
        wrong."""
        one = self.const(1, b)
        unlikely = self.compare("lt", b, one)
        divisor = self.select(unlikely, one, b)
        if self.is_nonnegative(a) and a.name in self.most:  # it cannot wrap around
            quotient = self._binary("udiv", a, divisor)
            values = [quotient, self.sub(a, self.mul(quotient, divisor))]
        else:
            values = list(self._rounded_down(a, divisor))

        def general(*_: Value) -> tuple[Value, Value]:
            return self._int_divmod(a, b)

        quotient, rest = self.rare(unlikely, general, values)
        return quotient, rest

    def _known_divmod(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Quotient and remainder by a positive constant."""
        if not is_signed(a.code):
            quotient = self._binary("udiv", a, b)
            return quotient, self.sub(a, self.mul(quotient, b))
        return self._rounded_down(a, b)

    def _rounded_down(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Quotient and remainder of signed ints by a positive one."""
        quotient = self._binary("sdiv", a, b)
        rest = self.sub(a, self.mul(quotient, b))
        negative = self.compare("lt", rest, self.const(0, a))
        lower = self.select(negative, self.sub(quotient, self.const(1, a)), quotient)
        return lower, self.select(negative, self.add(rest, b), rest)
