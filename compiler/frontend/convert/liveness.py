"""Which variables may still be read after a loop or an `if`, in code without jumps.

Nothing is decided by it but what these give back: a variable that the body of a loop alone binds,
or that has values of two kinds on the paths of an `if`, and that nobody reads afterwards, is left
out.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tapeline.compiler.frontend.convert.syntax import SCOPES, Names, walk_scope


class Liveness:
    """The result for one function: `after` has the names live after each loop and `if`, by its
    id."""

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
            self.after[id(statement)] = live | self._escaping
            then = self._block(statement.body, live)
            other = self._block(statement.orelse, live)
            return then | other | _loads(statement.test)
        if isinstance(statement, ast.While | ast.For):
            return self._loop(statement, live)
        if isinstance(statement, ast.Try | ast.TryStar):
            return self._try(statement, live)
        if isinstance(statement, ast.With):
            return self._with(statement, live)
        if isinstance(statement, ast.Match):
            return self._match(statement, live)
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

    def _try(self, statement: ast.Try | ast.TryStar, live: set[str]) -> set[str]:
        """An exception may leave the body at any point, for a handler or for what follows."""
        before = self._escaping
        after = self._block(statement.finalbody, live) | live
        self._escaping = before | after
        handled = set(after)
        for handler in statement.handlers:
            handled |= self._block(handler.body, after)
            handled |= set() if handler.type is None else _loads(handler.type)
        rest = self._block(statement.orelse, after)
        self._escaping = before | handled
        body = self._block(statement.body, rest | handled)
        self._escaping = before
        return body | handled

    def _with(self, statement: ast.With, live: set[str]) -> set[str]:
        """A context manager may swallow an exception from any point of the body."""
        before = self._escaping
        self._escaping = before | live
        body = self._block(statement.body, live)
        self._escaping = before
        return body.union(live, *(_loads(item.context_expr) for item in statement.items))

    def _match(self, statement: ast.Match, live: set[str]) -> set[str]:
        found = live | _loads(statement.subject)
        for case in statement.cases:
            found |= self._block(case.body, live)
            found |= set() if case.guard is None else _loads(case.guard)
        return found


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
