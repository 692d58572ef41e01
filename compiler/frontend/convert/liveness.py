"""Which variables may still be read after a loop, in code without jumps.

Nothing is decided by it but what a loop gives back: a variable that its body alone binds, and that
nobody reads afterwards, need not leave the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tapeline.compiler.frontend.convert.syntax import SCOPES, Names, walk_scope

_COMPOUND = (ast.If, ast.While, ast.For, ast.Try, ast.With, ast.Match)


class Liveness:
    """The result for one function: `after` has the names live after each loop, by its id."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.after: dict[int, set[str]] = {}
        self._escaping = _read_by_inner_functions(body)
        self._block(body, set())

    def _block(self, body: Sequence[ast.stmt], live: set[str]) -> set[str]:
        """The names that are live before the statements, from those live after them."""
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _statement(self, statement: ast.stmt, live: set[str]) -> set[str]:
        if isinstance(statement, ast.If):
            then = self._block(statement.body, live)
            other = self._block(statement.orelse, live)
            return then | other | _loads(statement.test)
        if isinstance(statement, ast.While | ast.For):
            return self._loop(statement, live)
        if isinstance(statement, _COMPOUND):
            return self._any_order(statement, live)
        names = Names([statement])
        return (live - set(names.stored)) | set(names.loaded)

    def _loop(self, statement: ast.While | ast.For, live: set[str]) -> set[str]:
        head = _loads(statement.test if isinstance(statement, ast.While) else statement.iter)
        target = (
            set() if isinstance(statement, ast.While) else set(Names([statement.target]).stored)
        )
        around = live | head
        for _ in range(2):
            around = around | (self._block(statement.body, around) - target)
        self.after[id(statement)] = live | self._escaping
        return around

    def _any_order(self, statement: ast.stmt, live: set[str]) -> set[str]:
        """For statements whose parts may be left at any point: nothing is known to be bound."""
        around = live | set(Names([statement]).loaded)
        for part in ast.iter_child_nodes(statement):
            inner = getattr(part, "body", None)
            if isinstance(part, ast.ExceptHandler | ast.match_case) and isinstance(inner, list):
                self._block(inner, around)
        for name in ("body", "orelse", "finalbody"):
            self._block(getattr(statement, name, []), around)
        return around


def _loads(expression: ast.expr) -> set[str]:
    return set(Names([expression]).loaded)


def _read_by_inner_functions(body: Sequence[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in walk_scope(body):
        if isinstance(node, SCOPES):
            found.update(
                inner.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
            )
    return found
