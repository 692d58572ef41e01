"""The open sizes of one trace: their symbols, and the conditions under which it serves others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from tapeline.runtime.dims import (
    COMPARE,
    Dim,
    Monomial,
    Terms,
    bare,
    factor_text,
    is_natural,
    present_value,
    source_of,
    structural_key,
)

OPPOSITES = {"==": "!=", "<": ">=", "<=": ">"}
"""How people write that a comparison does not hold."""
_MAX_TEXT = 1000
_PARSED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class Condition(NamedTuple):
    """What a trace took for granted: that a comparison of sizes comes out as it did."""

    left: Dim
    relation: str
    right: Dim | float
    holds: bool

    def __str__(self) -> str:
        left, right = (bare(source_of(size)) for size in (self.left, self.right))
        relation = self.relation if self.holds else OPPOSITES[self.relation]
        return f"{left} {relation} {right}"


class _Atom(NamedTuple):
    """A symbol, or a quotient or remainder of sizes; `text` is Python in terms of symbols."""

    text: str
    value: int
    is_natural: bool
    """Whether it is never negative, whatever the sizes."""
    symbols: frozenset[int]
    """The numbers of the symbols in it."""


class Sizes:
    """The symbols of one trace, and the conditions that it noted.

    Parameters
    ----------
    values : sequence of int
        What each symbol is in the call that is traced.
    """

    def __init__(self, values: Sequence[int]) -> None:
        self.values: tuple[int, ...] = ()
        self.conditions: dict[Condition, None] = {}
        self.is_open = True
        self.symbols: tuple[Any, ...] = ()
        self.told: frozenset[int] = frozenset()
        """The numbers of the symbols that values tell."""
        self._atoms: list[_Atom] = []
        self._numbers: dict[Any, int] = {}
        self._made: dict[Terms, Dim] = {}
        self._checks: dict[tuple[int, int], Callable[..., bool]] = {}
        self._evaluate: dict[Dim, Callable[..., int]] = {}
        for value in values:
            self._add(value)

    def add_told(self, value: int) -> Any:
        """A further symbol that values tell; it is `value` in the call that is traced."""
        self.told |= {len(self.values)}
        return self._add(value)

    def values_tell(self, first: int) -> None:
        """Takes the symbols from this number on for ones that values tell."""
        self.told = frozenset(range(first, len(self.symbols)))

    def _add(self, value: int) -> Any:
        number = len(self.values)
        self._atoms.append(_Atom(f"n{number}", value, True, frozenset((number,))))
        self.values += (value,)
        made = self.dim((((len(self._atoms) - 1,), 1),))
        self.symbols += (made,)
        return made

    def dim(self, terms: Terms) -> Any:
        """The size with these terms: the same object for the same terms, an int for a constant."""
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        found = self._made.get(terms)
        if found is None:
            found = self._made[terms] = Dim(self, terms)
        return found

    def atom(self, kind: str, left: Dim | int, right: Dim | int) -> Any:
        """The quotient (`//`) or remainder (`%`) of two sizes as a size."""
        key = kind, structural_key(left), structural_key(right)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._atoms)
            a, b = present_value(left), present_value(right)
            value = a // b if kind == "//" else a % b
            text = f"({factor_text(left)} {kind} {factor_text(right)})"
            natural = is_natural(left) and is_natural(right)
            symbols = self.symbols_in(left) | self.symbols_in(right)
            self._atoms.append(_Atom(text, value, natural, symbols))
        return self.dim((((number,), 1),))

    def note(self, left: Dim, relation: str, right: Dim | float) -> bool:
        """How a comparison comes out, which is a condition from now on."""
        holds = COMPARE[relation](left.value, present_value(right))
        if self.is_open:
            self.add_condition(Condition(left, relation, right, holds))
        return holds

    def add_condition(self, condition: Condition) -> None:
        """Lets the trace serve only sizes for which the condition holds."""
        self.conditions[condition] = None
        self._checks.clear()

    def close(self) -> None:
        """From here on questions are answered for the traced sizes, and not noted."""
        self.is_open = False

    def hold(self, values: Sequence[int], known: int = 0) -> bool:
        """Whether a trace may serve these values of its first symbols, as far as they tell; for the
        first `known` of them that was asked before."""
        key = known, len(values)
        check = self._checks.get(key)
        if check is None:
            tests = [
                f"{source_of(c.left)} {c.relation} {source_of(c.right)}"
                if c.holds
                else f"not {source_of(c.left)} {c.relation} {source_of(c.right)}"
                for c in self.conditions
                if known <= self._last_symbol(c) < len(values)
            ]
            check = self._checks[key] = self._compile(" and ".join(tests) or "True")
        return check(*values)

    def conditions_on(self, symbol: int) -> list[Condition]:
        """The conditions of which that is the last symbol."""
        return [c for c in self.conditions if self._last_symbol(c) == symbol]

    def first_failure(self, values: Sequence[int]) -> Condition | None:
        """The first condition that does not hold for these values of the first symbols."""
        for c in self.conditions:
            if self._last_symbol(c) < len(values):
                left, right = (self.evaluate(size, values) for size in (c.left, c.right))
                if COMPARE[c.relation](left, right) is not c.holds:
                    return c
        return None

    def is_told(self, size: Any) -> bool:
        """Whether values tell a size, or a part of it."""
        return not self.told.isdisjoint(self.symbols_in(size))

    def symbols_in(self, size: Any) -> frozenset[int]:
        """The numbers of the symbols in a size; none in a number."""
        if type(size) is not Dim:
            return frozenset()
        atoms = {number for monomial, _ in size.terms for number in monomial}
        return frozenset().union(*[self._atoms[number].symbols for number in atoms])

    def _last_symbol(self, condition: Condition) -> int:
        """The number of the last symbol that it speaks of."""
        return max(self.symbols_in(condition.left) | self.symbols_in(condition.right))

    def evaluate(self, dim: Any, values: Sequence[int]) -> int:
        """A size for these values of the symbols, of the first ones at least; an int is itself."""
        if type(dim) is not Dim:
            return cast(int, dim)
        found = self._evaluate.get(dim)
        if found is None:
            found = self._evaluate[dim] = self._compile(source_of(dim))
        return found(*values)

    def fixed(self) -> set[int]:
        """The symbols that conditions leave only one value."""
        found = set()
        for left, relation, right, holds in self.conditions:
            if relation == "==" and holds and type(right) is not Dim:
                atoms = {number for monomial, _ in left.terms for number in monomial}
                texts = {self.atom_text(number) for number in atoms}
                if len(texts) == 1:
                    found |= {k for k in self.symbols_in(left) if f"n{k}" in texts}
        return found

    def describe(self) -> dict[str, Any]:
        """The symbols and conditions as lists and texts, for `restore`."""
        conditions = [
            [source_of(c.left), c.relation, source_of(c.right), c.holds] for c in self.conditions
        ]
        return {"values": list(self.values), "conditions": conditions}

    @staticmethod
    def restore(values: Any, conditions: Any) -> Sizes:
        """What `describe` wrote.

        Raises
        ------
        ValueError
            If it is nothing of the kind, or a condition does not hold for the values.
        """
        if not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
            raise ValueError(f"the values of sizes must be ints >= 0, got {values!r}")
        sizes = Sizes(values)
        if not isinstance(conditions, list):
            raise ValueError("the conditions on sizes must be a list")
        for one in conditions:
            match one:
                case [
                    str() as left,
                    ("==" | "<" | "<=") as relation,
                    str() as right,
                    bool() as holds,
                ]:
                    size, other = sizes.parse(left), sizes.parse(right)
                case _:
                    raise ValueError(f"a condition on sizes cannot be {one!r}")
            if type(size) is Dim and sizes.note(size, relation, other) is not holds:
                raise ValueError(f"the condition {left} {relation} {right} comes out differently")
        return sizes

    def parse(self, text: str) -> Any:
        """The size, or the number, that a text such as `3*n0 + 1` stands for.

        Raises
        ------
        ValueError
            If it is no such text.
        """
        if len(text) > _MAX_TEXT:
            raise ValueError("the text of a size is too long")
        try:
            found = self._value_of(ast.parse(text, mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
            found = None
        if found is None:
            raise ValueError(f"cannot read {text!r} as a size")
        return found

    def _value_of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return value
            case ast.Name(id=name) if name[:1] == "n" and name[1:].isdecimal():
                number = int(name[1:])
                return self.symbols[number] if number < len(self.symbols) else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._value_of(operand)
                return None if value is None else -value
            case ast.BinOp(left=left, op=operation, right=right):
                a, b = self._value_of(left), self._value_of(right)
                compute = _PARSED.get(type(operation))
                return None if a is None or b is None or compute is None else compute(a, b)
        return None

    def _compile(self, source: str) -> Callable[..., Any]:
        arguments = "".join(f"n{k}=None, " for k in range(len(self.values)))
        return cast(Callable[..., Any], eval(f"lambda {arguments}*_: {source}", {}))

    def atom_value(self, number: int) -> int:
        """What an atom is in the call that is traced."""
        return self._atoms[number].value

    def is_natural(self, monomial: Monomial) -> bool:
        """Whether a product of atoms is never negative, whatever the sizes."""
        return all(self._atoms[number].is_natural for number in monomial)

    def atom_text(self, number: int) -> str:
        """An atom as Python."""
        return self._atoms[number].text
