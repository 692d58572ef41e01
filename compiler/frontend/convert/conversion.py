"""Conversion of one Python function: the same function, with operators in place of control flow.

Converted functions are kept by code object, so a function defined in a loop is converted once. The
new function has the defaults, the globals and the very closure cells of the old one.
"""

from __future__ import annotations

import ast
import dis
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from tapeline.compiler.frontend.convert.appends import Appends
from tapeline.compiler.frontend.convert.assignments import Assignments
from tapeline.compiler.frontend.convert.blocks import Blocks
from tapeline.compiler.frontend.convert.jumps import Jumps, UnsupportedJumpError, without_jumps
from tapeline.compiler.frontend.convert.matching import Matches
from tapeline.compiler.frontend.convert.source import (
    Source,
    SourceError,
    compile_function,
    first_parameter,
    locate,
)
from tapeline.compiler.frontend.convert.syntax import (
    RUNTIME,
    Names,
    clone,
    constant,
    parameters,
    statements,
)

CO_SUSPENDS = 0x20 | 0x80 | 0x200
"""Flags of generators, coroutines and asynchronous generators."""
_LIMIT = 4096
_OWN_SCOPE = re.compile(r"@\w+\.<locals>\.")
_READS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


@dataclass(frozen=True, slots=True)
class Conversion:
    """What became of one code object."""

    original: CodeType
    code: CodeType | None
    """None: it stays as it is, for the reason given."""
    tree: ast.AST | None
    reason: str
    global_names: tuple[str, ...]
    """The globals that the function, or one nested in it, reads."""
    written: tuple[tuple[str, ...], tuple[str, ...]]
    """The globals, and the variables of its closure, that it changes."""

    def build(self, function: FunctionType, runtime: Any) -> FunctionType:
        """The converted function for one function that has this code."""
        code = self.code
        if code is None:
            return function
        cells = dict(zip(self.original.co_freevars, function.__closure__ or (), strict=True))
        cells[RUNTIME] = CellType(runtime)
        closure = tuple([cells[name] for name in code.co_freevars])
        made = FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, closure
        )
        made.__kwdefaults__ = function.__kwdefaults__
        made.__qualname__ = function.__qualname__
        return made


_conversions: OrderedDict[int, Conversion] = OrderedDict()
_lock = threading.Lock()


def conversion_of(function: FunctionType) -> Conversion:
    """The conversion of a function's code, made at most once.

    Parameters
    ----------
    function : callable
        A Python function.

    Returns
    -------
    Conversion
        What became of its loops and branches.

    Examples
    --------
    >>> import textwrap
    >>> import tapeline as tl
    >>> tl.debugging.conversion_of(textwrap.indent).original.co_name
    'indent'
    """
    code = function.__code__
    found = _conversions.get(id(code))
    if found is not None:
        return found
    made = _convert(function)
    with _lock:
        while len(_conversions) >= _LIMIT:
            _conversions.popitem(last=False)
        return _conversions.setdefault(id(code), made)


def reason_of(code: CodeType) -> str | None:
    """Why a code object was not converted; None if it was, or nobody asked for it."""
    found = _conversions.get(id(code))
    return None if found is None or found.code is not None else found.reason


def _convert(function: FunctionType) -> Conversion:
    code = function.__code__
    names, *changed = names_used(code)
    written = changed[0], changed[1]

    def refuse(reason: str) -> Conversion:
        return Conversion(code, None, None, reason, names, written)

    if code.co_flags & CO_SUSPENDS:
        return refuse("it is a generator or a coroutine")
    try:
        source = locate(function)
        tree = transform(source, code.co_freevars)
    except (SourceError, UnsupportedJumpError) as error:
        return refuse(str(error))
    made = compile_function(tree, source, (*code.co_freevars, RUNTIME), code)
    made = _name_inner(_name_blocks(made, code), code)
    made = made.replace(co_qualname=code.co_qualname)  # line numbers count from the first line
    return Conversion(code, made, tree, "", names, written)


def transform(source: Source, free_names: tuple[str, ...]) -> Any:
    """The syntax tree of a function, which reads `free_names` of the functions around it, with
    operators in place of its control flow."""
    node: Any = clone(source.node)
    first = first_parameter(node)
    if isinstance(node, ast.Lambda):
        blocks = Blocks([node.body], set(), {}, source.class_name, first)
        node.body = blocks.visit(node.body)
        return node
    node.decorator_list = []
    node.returns = None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.args.defaults = [constant(None, default) for default in node.args.defaults]
    node.args.kw_defaults = [
        default and constant(None, default) for default in node.args.kw_defaults
    ]
    docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
    rest = Assignments().many(Matches().many(node.body[len(docstring) :]))
    rest = rest or statements("pass", node)
    names = Names(rest)
    rest = Appends(_own_names(node, names)).many(rest)
    body, jumps = without_jumps(rest, node)
    given = [*parameters(node.args), *free_names]
    blocks = Blocks(body, names.globals, jumps.stops, source.class_name, first, given)
    start = _declarations(node, names, body, jumps)
    node.body = [*docstring, *start, *blocks.many(body)]
    return node


def _own_names(node: ast.FunctionDef, names: Names) -> set[str]:
    """The variables that a function itself makes."""
    return set(names.stored) - names.globals - names.nonlocals - set(parameters(node.args))


def _declarations(
    node: ast.FunctionDef, names: Names, body: list[ast.stmt], jumps: Jumps
) -> list[ast.stmt]:
    """What makes the names of a function its own, though blocks bind them: code that never runs."""
    made: list[ast.stmt] = []
    if names.globals:
        made += statements(f"global {', '.join(sorted(names.globals))}", node)
    if names.nonlocals:
        made += statements(f"nonlocal {', '.join(sorted(names.nonlocals))}", node)
    elsewhere = names.globals | names.nonlocals | set(parameters(node.args))
    stored = dict.fromkeys([*names.stored, *Names(body).stored])
    local = [name for name in stored if name not in elsewhere]
    if local:
        bind = statements("if 0: at_x = None", node)[0]
        assign = bind.body[0]
        assign.targets = [
            ast.copy_location(ast.Name(name, ast.Store()), assign) for name in sorted(local)
        ]
        made.append(bind)
    if jumps.flags:
        flags = " = ".join(f"at_{flag[1:]}" for flag in jumps.flags)
        made += statements(f"{flags} = False", node)
    return made


def _name_blocks(code: CodeType, original: CodeType) -> CodeType:
    """The code with its blocks named as the function, which is what tracebacks show."""
    constants = []
    for item in code.co_consts:
        if isinstance(item, CodeType):
            is_block = item.co_name.startswith("@")
            item = _name_blocks(item, original if is_block else item)
            if is_block:
                item = item.replace(co_name=original.co_name, co_qualname=original.co_qualname)
        constants.append(item)
    return code.replace(co_consts=tuple(constants))


def _name_inner(code: CodeType, original: CodeType) -> CodeType:
    """The code with the functions and classes in it named as those of the original."""
    start = f"{original.co_name}.<locals>."
    constants = []
    for item in code.co_consts:
        if isinstance(item, CodeType):
            name = item.co_qualname
            item = _name_inner(item, original)
            _, found, rest = _OWN_SCOPE.sub("", name).partition(start)
            if found:
                new = f"{original.co_qualname}.<locals>.{rest}"
                held = tuple([new if x == name else x for x in item.co_consts])
                item = item.replace(co_qualname=new, co_consts=held)
        constants.append(item)
    return code.replace(co_consts=tuple(constants))


def names_used(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The globals that a function, or one in it, reads, those that it changes, and the variables of
    its closure that it changes."""
    free = set(code.co_freevars)
    pending = [code]
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    cells: dict[str, None] = {}
    while pending:
        item = pending.pop()
        for instruction in dis.get_instructions(item):
            if instruction.opname in _READS_GLOBAL:
                read[instruction.argval] = None
            elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                changed[instruction.argval] = None
            is_cell = instruction.opname in ("STORE_DEREF", "DELETE_DEREF")
            if is_cell and instruction.argval in free.intersection(item.co_freevars):
                cells[instruction.argval] = None
        pending += [constant for constant in item.co_consts if isinstance(constant, CodeType)]
    return tuple(read), tuple(changed), tuple(cells)


def print_conversion(conversion: Conversion) -> str:
    """The converted source, as Python-like text; names of our own begin with `@`.

    Parameters
    ----------
    conversion : Conversion
        What `conversion_of` gives.

    Returns
    -------
    str
        The text, or why there is none.

    Examples
    --------
    >>> import textwrap
    >>> import tapeline as tl
    >>> text = tl.debugging.print_conversion(tl.debugging.conversion_of(textwrap.indent))
    >>> "def indent" in text
    True
    """
    if conversion.tree is None:
        return f"# not converted: {conversion.reason}"
    return ast.unparse(ast.fix_missing_locations(conversion.tree))
