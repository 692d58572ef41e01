"""Finds the syntax tree of a running function, and proves that it is the right one.

Each file is parsed once. A function is looked up by its first line, and the tree that is found is
compiled again, untouched, and compared with the code that runs: an edited file, or two lambdas on
one line, are never mistaken for one another.
"""

from __future__ import annotations
import __future__ as future

import ast
import linecache
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from tapeline.compiler.frontend.convert.syntax import FunctionNode, parse, walk_scope

_FUTURES = 0
for _name in future.all_feature_names:
    _FUTURES |= getattr(future, _name).compiler_flag

_FILE_LIMIT = 256
_files: dict[tuple[str, int], dict[int, list[Source]]] = {}
_lock = threading.Lock()


class SourceError(Exception):
    """There is no source for a function, or it is not the source of the running code."""


@dataclass(frozen=True, slots=True)
class Source:
    """A function in a file, and the class it stands in: that one's name mangles private names."""

    node: FunctionNode
    class_name: str | None
    imports: frozenset[str]
    """The names that the module imports: the compiler calls their attributes in another way."""

    @property
    def name(self) -> str:
        """What the code object is called."""
        return getattr(self.node, "name", "<lambda>")


def locate(function: FunctionType) -> Source:
    """The source of a function.

    Raises
    ------
    SourceError
        Says why there is none.
    """
    code = function.__code__
    sources = _read_file(code.co_filename, function.__globals__)
    candidates = [s for s in sources.get(code.co_firstlineno, ()) if s.name == code.co_name]
    for source in candidates:
        made = compile_function(source.node, source, code.co_freevars, code)
        if _is_same(made, code) or ("@pytest_ar" in code.co_names and _is_alike(made, code)):
            return source
    if not candidates:
        raise SourceError(f"{code.co_filename} has no function at line {code.co_firstlineno}")
    raise SourceError(f"{code.co_filename} is not, or no longer, the source of the running code")


def compile_function(
    node: FunctionNode, source: Source, free_names: Sequence[str], like: CodeType
) -> CodeType:
    """The code of a function whose free names are exactly `free_names`."""
    place: dict[str, Any] = {
        "lineno": node.lineno, "col_offset": 0,
        "end_lineno": node.lineno, "end_col_offset": 0,
    }  # fmt: skip
    body: list[ast.stmt] = [
        ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    ]
    if source.class_name:
        body = [
            ast.ClassDef(
                source.class_name, bases=[], keywords=[], body=body, decorator_list=[], **place
            )  # type: ignore[call-overload, unused-ignore]  # newer Pythons want type_params
        ]
    bound = {source.class_name or source.name}.difference(free_names, ["<lambda>"])
    if bound:  # the code may name itself, or its class: a global, as in the module
        body = [ast.Global(sorted(bound), **place), *body]
    cells = [ast.arg(name, None, **place) for name in free_names if name != "__class__"]
    arguments = ast.arguments(
        posonlyargs=[], args=cells, vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None,
        defaults=[],
    )  # fmt: skip
    factory = ast.FunctionDef("@factory", arguments, body, [], None, **place)  # type: ignore[call-overload, unused-ignore]  # as above
    imported = [ast.alias(name, **place) for name in source.imports.intersection(_names(like))]
    first: list[ast.stmt] = [ast.Import(imported, **place)] if imported else []
    module = ast.Module([*first, factory], [])
    flags = like.co_flags & _FUTURES
    code = compile(module, like.co_filename, "exec", flags=flags, dont_inherit=True)
    holder = list(_inner(code))[-1]
    if source.class_name:
        holder = list(_inner(holder))[-1]
    return [inner for inner in _inner(holder) if inner.co_name == source.name][-1]


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function, or one nested in it, reads of its module, among others."""
    yield from code.co_names
    for inner in _inner(code):
        yield from _names(inner)


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (item for item in code.co_consts if isinstance(item, CodeType))


def _read_file(filename: str, scope: dict[str, Any]) -> dict[int, list[Source]]:
    """The functions of a file by their first lines, decorators included."""
    linecache.checkcache(filename)
    text = "".join(linecache.getlines(filename, scope))
    if not text:
        raise SourceError(f"there is no source for {filename}")
    key = (filename, hash(text))
    found = _files.get(key)
    if found is None:
        try:
            found = _index(parse(text, filename))
        except SyntaxError as error:
            raise SourceError(f"{filename} is not Python: {error}") from None
        with _lock:
            if len(_files) >= _FILE_LIMIT:
                _files.clear()
            _files[key] = found
    return found


def _index(tree: ast.Module) -> dict[int, list[Source]]:
    found: dict[int, list[Source]] = {}
    imports = frozenset(
        (alias.asname or alias.name).split(".")[0]
        for node in walk_scope(tree.body)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )
    pending: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while pending:
        node, class_name = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", ())
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            found.setdefault(first, []).append(Source(node, class_name, imports))
        inside = node.name if isinstance(node, ast.ClassDef) else class_name
        pending.extend((child, inside) for child in ast.iter_child_nodes(node))
    return found


def _is_same(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same at the same places."""
    if _shape(a) != _shape(b) or a.co_code != b.co_code or len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, CodeType):
            if not isinstance(y, CodeType) or not _is_same(x, y):
                return False
        elif x == a.co_qualname and y == b.co_qualname:
            pass  # what the body of a class calls the class
        elif type(x) is not type(y) or repr(x) != repr(y):
            return False
    return list(a.co_positions()) == list(b.co_positions())


def _shape(code: CodeType) -> tuple[Any, ...]:
    return (
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_kwonlyargcount,
    )  # fmt: skip


def _is_alike(a: CodeType, b: CodeType) -> bool:
    """Whether they agree in all but bodies: pytest rewrites the asserts of test files."""

    def outline(code: CodeType) -> tuple[Any, ...]:
        names = [name for name in code.co_varnames if not name.startswith("@")]
        return (
            names, code.co_freevars, code.co_cellvars, code.co_argcount,
            code.co_kwonlyargcount, code.co_firstlineno,
        )  # fmt: skip

    return outline(a) == outline(b)


def first_parameter(node: FunctionNode) -> str | None:
    """The name of the first positional parameter: what `super()` refers to."""
    positional = [*node.args.posonlyargs, *node.args.args]
    return positional[0].arg if positional else None
