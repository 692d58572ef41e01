"""Small operations on syntax trees that the conversion is made of.

Names of our own begin with `@`: no identifier does, so they clash with nothing of the user's, and
no class mangles them. Templates spell them `at_`.
"""

from __future__ import annotations

import ast
import functools
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda
N = TypeVar("N", bound=ast.AST)

RUNTIME = "@tl"
"""The name under which converted code finds its operators."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.For, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SUSPENSIONS = (ast.Yield, ast.YieldFrom, ast.Await)
_PARSING = threading.RLock()
_PLACES = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def clone(tree: N) -> N:
    """A deep copy of a syntax tree."""
    copied = tree.__class__.__new__(tree.__class__)
    for name, value in tree.__dict__.items():
        if isinstance(value, list):
            value = [clone(item) if isinstance(item, ast.AST) else item for item in value]
        elif isinstance(value, ast.AST):
            value = clone(value)
        copied.__dict__[name] = value
    return copied


def parse(text: str, filename: str = "<unknown>") -> ast.Module:
    """The tree of a text; one at a time, since CPython 3.11 counts the depth of all threads' trees
    together and fails where a thread is interrupted."""
    with _PARSING:
        return ast.parse(text, filename)


@functools.lru_cache(4096)
def _parsed(source: str) -> tuple[ast.stmt, ...]:
    module = parse(source)
    for node in ast.walk(module):
        for field in ("id", "name", "arg"):
            value = getattr(node, field, None)
            if type(value) is str and value.startswith("at_"):
                setattr(node, field, "@" + value[3:])
    return tuple(module.body)


def statements(source: str, like: ast.AST) -> list[Any]:
    """The statements of a template, all at the place where `like` begins."""
    made = [clone(statement) for statement in _parsed(source)]
    for statement in made:
        for node in ast.walk(statement):
            _move(node, like)
    return made


def _move(node: ast.AST, like: ast.AST) -> None:
    if "lineno" in node._attributes:
        node.lineno = node.end_lineno = like.lineno  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = like.col_offset  # type: ignore[attr-defined]


def at(node: N, like: ast.AST) -> N:
    """`node`, and what is in it and has no place yet, at the place of `like`."""
    pending: list[ast.AST] = [node]
    while pending:
        item = pending.pop()
        if "lineno" in item._attributes and "lineno" not in item.__dict__:
            for place in _PLACES:
                setattr(item, place, getattr(like, place))
        pending.extend(child for child in ast.iter_child_nodes(item))
    return node


def load(name: str, like: ast.AST) -> ast.Name:
    """A read of a name."""
    return at(ast.Name(name, ast.Load()), like)


def thunk(expression: ast.expr) -> ast.Lambda:
    """A lambda without parameters around an expression."""
    empty = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return at(ast.Lambda(empty, expression), expression)


def operate(operator: str, *arguments: ast.expr, like: ast.AST) -> ast.Call:
    """A call of one of the operators that converted code uses."""
    function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), operator, ast.Load())
    return at(ast.Call(function, list(arguments), []), like)


def constant(value: Any, like: ast.AST) -> ast.Constant:
    """A constant."""
    return at(ast.Constant(value), like)


def walk_scope(nodes: Iterable[ast.AST], inner_jumps: bool = True) -> Iterator[ast.AST]:
    """The nodes and all below them that belong to the same function.

    With `inner_jumps` False the bodies of loops are left out: their `break`s end them, not us.
    """
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, SCOPES):
            continue
        if not inner_jumps and isinstance(node, LOOPS):
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))


def contains(nodes: Iterable[ast.AST], *kinds: type[ast.AST], inner_jumps: bool = True) -> bool:
    """Whether a node of one of the kinds is among `nodes` and what belongs to them."""
    return any(isinstance(node, kinds) for node in walk_scope(nodes, inner_jumps))


class StatementTransformer(ast.NodeTransformer):
    """A transformation of the statements of one function, not of those inside of it."""

    def __init__(self) -> None:
        self._count = 0
        """For names of its own."""

    def many(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """The statements, transformed; one may become several."""
        made: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Transforms what is inside of a node, but no function or class in it."""
        return node if isinstance(node, SCOPES) else super().generic_visit(node)


def suspends(nodes: Iterable[ast.AST]) -> bool:
    """Whether an expression yields or awaits, and so cannot move to another function."""
    return contains(nodes, *_SUSPENSIONS)


def parameters(arguments: ast.arguments) -> list[str]:
    """The names of all parameters."""
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return [parameter.arg for parameter in found]


class Names:
    """The names that some statements bind, read and declare, in the function they belong to."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self.stored: dict[str, None] = {}
        self.loaded: Counter[str] = Counter()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self._bound_inside: set[int] = set()  # targets of comprehensions bind nothing outside
        for node in walk_scope(nodes):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.loaded[node.id] += 1
            elif id(node) not in self._bound_inside:
                self.stored[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.stored[node.name] = None
            self._note_inner(node)
        elif isinstance(node, ast.Lambda):
            self._note_inner(node)
        elif isinstance(node, ast.Global):
            self.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            self.nonlocals.update(node.names)
        elif isinstance(node, ast.alias):
            self.stored[(node.asname or node.name).split(".")[0]] = None
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            if node.name:
                self.stored[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.stored[node.rest] = None
        elif isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                for target in ast.walk(generator.target):
                    if isinstance(target, ast.Name):
                        self._bound_inside.add(id(target))

    def _note_inner(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                self.loaded[inner.id] += 1
