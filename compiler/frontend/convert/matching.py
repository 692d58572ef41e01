"""Takes `match` statements apart into `if` statements, so that tensors may decide.

Python still looks at the structure: sequences, mappings, classes and names. What a pattern compares
with values moves out of it: the place is caught under a name of our own, and the comparison becomes
the test of an `if`. So `case (0, y) if y > x` asks Python for a pair, then `first == 0`, which may
be a tensor, then the guard.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tapeline.compiler.frontend.convert.syntax import (
    Names,
    StatementTransformer,
    at,
    clone,
    constant,
    contains,
    load,
    statements,
)

Tests = list[ast.expr]


class Matches(StatementTransformer):
    """The transformation of one function; it runs before all others."""

    def visit_Match(self, node: ast.Match) -> Any:
        """A chain of `if`s, one for each case."""
        self._count += 1
        subject = f"@subject{self._count}"
        start = statements(f"at_{subject[1:]} = 0", node)[0]
        start.value = node.subject
        rest: list[ast.stmt] = []
        for case in reversed(_single_cases(node.cases)):
            rest = self._case(case, subject, rest)
        return [start, *rest]

    def _case(self, case: ast.match_case, subject: str, rest: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of one case; `rest` is what follows where it does not apply."""
        self._count += 1
        parts = _Parts(self._count)
        pattern = parts.without_values(case.pattern)
        body = [*parts.bindings(case.pattern), *self.many(case.body)]
        look, tests = _look(pattern, subject, self._count, case.pattern)
        tests = [*tests, *parts.tests]
        if case.guard is None:
            return [*look, *_if(tests, body, rest, case.pattern)]
        holds = f"@holds{self._count}"
        decide = statements(f"at_{holds[1:]} = not (not 0)", case.guard)[0]
        decide.value.operand.operand = case.guard
        false = statements(f"at_{holds[1:]} = False", case.pattern)
        guarded = _if(tests, [*parts.bindings(case.pattern), decide], [], case.pattern)
        return [*look, *false, *guarded, *_if([load(holds, case.guard)], body, rest, case.guard)]


class _Parts:
    """What a pattern compares and binds."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._held = 0
        self.tests: Tests = []
        self._names: dict[str, str] = {}

    def without_values(self, pattern: ast.pattern) -> ast.pattern:
        """The pattern with names of our own, and names in the place of values."""
        if isinstance(pattern, ast.MatchValue | ast.MatchSingleton) or _is_choice(pattern):
            name = self._hold()
            self.tests.append(_comparison(pattern, name))
            return at(ast.MatchAs(None, name), pattern)
        made = clone(pattern)
        if isinstance(made, ast.MatchAs | ast.MatchStar) and made.name:
            made.name = self._own(made.name)
        if isinstance(made, ast.MatchMapping) and made.rest:
            made.rest = self._own(made.rest)
        if isinstance(made, ast.MatchAs) and made.pattern is not None:
            made.pattern = self.without_values(made.pattern)
        elif isinstance(made, ast.MatchSequence | ast.MatchMapping):
            made.patterns = [self.without_values(part) for part in made.patterns]
        elif isinstance(made, ast.MatchClass):
            made.patterns = [self.without_values(part) for part in made.patterns]
            made.kwd_patterns = [self.without_values(part) for part in made.kwd_patterns]
        elif isinstance(made, ast.MatchOr):  # with a guard: Python compares what is in it
            for part in ast.walk(made):
                self._rename(part)
        return made

    def _rename(self, part: ast.AST) -> None:
        if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
            part.name = self._own(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            part.rest = self._own(part.rest)

    def _hold(self) -> str:
        self._held += 1
        return f"@held{self._number}_{self._held}"

    def _own(self, name: str) -> str:
        return self._names.setdefault(name, f"@name{self._number}_{name}")

    def bindings(self, like: ast.AST) -> list[ast.stmt]:
        """The assignments of what was caught to the user's names."""
        made: list[ast.stmt] = []
        for name, own in self._names.items():
            (bind,) = statements("at_x = 0", like)
            bind.targets[0].id, bind.value = name, load(own, like)
            made.append(bind)
        return made


def _is_choice(pattern: ast.pattern) -> bool:
    """Whether it is values with `|` between them."""
    return isinstance(pattern, ast.MatchOr) and all(
        isinstance(part, ast.MatchValue | ast.MatchSingleton) for part in pattern.patterns
    )


def _comparison(pattern: ast.pattern, name: str) -> ast.expr:
    """Whether what is held under a name is what a pattern says."""
    if isinstance(pattern, ast.MatchOr):
        parts = [_comparison(part, name) for part in pattern.patterns]
        return at(ast.BoolOp(ast.Or(), parts), pattern)
    if isinstance(pattern, ast.MatchSingleton):
        right: ast.expr = constant(pattern.value, pattern)
        return at(ast.Compare(load(name, pattern), [ast.Is()], [right]), pattern)
    assert isinstance(pattern, ast.MatchValue)
    return at(ast.Compare(load(name, pattern), [ast.Eq()], [pattern.value]), pattern)


def _look(
    pattern: ast.pattern, subject: str, number: int, like: ast.pattern
) -> tuple[list[ast.stmt], Tests]:
    """Python's look at the structure of the subject, and the test of what it found."""
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        if pattern.name is None:
            return [], []
        (hold,) = statements("at_x = 0", like)
        hold.targets[0].id, hold.value = pattern.name, load(subject, like)
        return [hold], []
    found = f"found{number}"
    caught = "".join(f"at_{name[1:]} = " for name in Names([pattern]).stored)  # in any case
    *start, look = statements(
        (f"{caught}None\n" if caught else "")
        + f"at_{found} = False\nmatch at_{subject[1:]}:\n    case _: at_{found} = True",
        like,
    )
    look.cases[0].pattern = pattern
    return [*start, look], [load(f"@{found}", like)]


def _if(tests: Tests, body: list[ast.stmt], rest: list[ast.stmt], like: ast.AST) -> list[ast.stmt]:
    """`if` with all tests, at the place of the case."""
    if not tests:
        return body
    test = tests[0] if len(tests) == 1 else at(ast.BoolOp(ast.And(), tests), like)
    return [at(ast.If(test, body, rest), like)]


def _single_cases(cases: Sequence[ast.match_case]) -> list[ast.match_case]:
    """The cases, with one for each alternative of a pattern whose alternatives have structure, so
    that the values in them can be compared. With a guard that would mean something else."""
    made: list[ast.match_case] = []
    for case in cases:
        pattern = case.pattern
        is_split = isinstance(pattern, ast.MatchOr) and not _is_choice(pattern)
        if not is_split or case.guard is not None or not contains([pattern], ast.MatchValue):
            made.append(case)
            continue
        assert isinstance(pattern, ast.MatchOr)
        for part in pattern.patterns:
            made.append(ast.match_case(part, None, [clone(item) for item in case.body]))
    return made
