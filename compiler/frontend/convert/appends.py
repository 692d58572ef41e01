"""Lists that a loop appends to: which ones can live in a graph, and the statements that append.

`x.append(v)` becomes `x = @append(x, v)` where all that the loop does with the local variable `x`
is to append to it, to read items of it, and to ask for its length. So the list is a variable of
the loop like others, and may be something else than a list where a tensor decides how long it is.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tapeline.compiler.frontend.convert.syntax import (
    LOOPS,
    Names,
    StatementTransformer,
    at,
    walk_scope,
)


class Append(ast.Assign):
    """`name = name.append(value)`, which stands for `name.append(value)`."""


def appended_name(node: ast.AST) -> str | None:
    """The variable whose `append` a statement calls, if it does no more than that."""
    if isinstance(node, Append):
        target = node.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "append":
        return function.value.id if isinstance(function.value, ast.Name) else None
    return None


class Appends(StatementTransformer):
    """The transformation of one function; it runs before jumps are taken out.

    Parameters
    ----------
    local : iterable of str
        The variables that the function itself makes.
    """

    def __init__(self, local: Iterable[str]) -> None:
        super().__init__()
        self._local = frozenset(local)
        self._lists: frozenset[str] = frozenset()

    def visit_For(self, node: ast.For | ast.While) -> Any:
        """A loop, with all loops in it."""
        before = self._lists
        self._lists = before | _lists_of(node, self._local)
        self.generic_visit(node)
        self._lists = before
        return node

    visit_While = visit_For

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A statement that may append."""
        name = appended_name(node)
        if name not in self._lists:
            return node
        return at(Append([at(ast.Name(name, ast.Store()), node)], node.value), node)


def _lists_of(loop: ast.For | ast.While, local: frozenset[str]) -> frozenset[str]:
    """The variables that a loop does nothing with but append, read items and ask for the length."""
    uses: Counter[str] = Counter()
    appended: set[str] = set()
    for node in walk_scope([loop]):
        name = appended_name(node)
        if name is not None:
            appended.add(name)
            uses[name] += 1
        else:
            name = _read_list(node)
            if name is not None:
                uses[name] += 1
    names = Names([loop])
    return frozenset(
        name
        for name in appended & local
        if names.loaded[name] == uses[name] and name not in names.stored
    )


def _read_list(node: ast.AST) -> str | None:
    """The variable of which an item, or the length, is read."""
    found: Any = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        found = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        found = node.args[0] if len(node.args) == 1 and not node.keywords else None
    return found.id if isinstance(found, ast.Name) else None


def only_appended(body: Sequence[ast.AST]) -> tuple[str, ...]:
    """The variables that the statements do nothing with but call their `append`."""
    receivers = Counter(filter(None, map(appended_name, walk_scope(body))))
    names, stores = Names(body), _stores(body)
    return tuple(
        sorted(
            name
            for name, count in receivers.items()
            if names.loaded[name] == count and stores[name] in (0, count)
        )
    )


def _stores(body: Sequence[ast.AST]) -> Counter[str]:
    """How often each variable is bound by name."""
    return Counter(
        node.id
        for node in walk_scope(body)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


class ListUses:
    """What the body of a loop does with the lists that are variables of it.

    Attributes
    ----------
    lists : tuple of str
        All of them.
    is_conditional : bool
        Whether some statement under another one appends.
    per_round : dict
        By name, how many items a round appends at most; lists that inner loops append to are not
        in it.
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.is_conditional = False
        found: Counter[str] = Counter()
        inner: set[str] = set()
        for statement in body:
            for node in walk_scope([statement]):
                if isinstance(node, Append):
                    name = appended_name(node)
                    assert name is not None
                    found[name] += 1
                    self.is_conditional |= node is not statement
                elif isinstance(node, LOOPS):
                    inner.update(filter(None, map(appended_name, walk_scope(node.body))))
        stores = _stores(body)
        self.lists = tuple(sorted(n for n, count in found.items() if stores[n] == count))
        self.per_round = {name: found[name] for name in self.lists if name not in inner}
