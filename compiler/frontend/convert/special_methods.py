"""What `len(x)`, `x[k]`, `for ... in x` and their like read of objects of the program.

Python calls such methods itself, as they stand: converted code does not see what they read. So what
they name is looked up in their code, and taken down as read.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.conversion import conversion_of
from tapeline.compiler.frontend.convert.installed import is_installed
from tapeline.compiler.frontend.convert.reads import ATTRIBUTE, Reads
from tapeline.compiler.frontend.convert.state import outer_graph
from tapeline.compiler.frontend.location import is_library_code
from tapeline.runtime.tensor import Tensor

TRUTH = ("__bool__", "__len__")
ITERATION = ("__iter__", "__next__", "__getitem__", "__len__")
MEMBERSHIP = ("__contains__", *ITERATION)
ITEMS = ("__getitem__", "__missing__")
CONTEXT = ("__enter__", "__exit__")
COMPARISON = {
    "Lt": ("__lt__", "__gt__"), "Gt": ("__gt__", "__lt__"), "LtE": ("__le__", "__ge__"),
    "GtE": ("__ge__", "__le__"), "Eq": ("__eq__",), "NotEq": ("__ne__", "__eq__"),
    "In": MEMBERSHIP, "NotIn": MEMBERSHIP,
}  # fmt: skip

_OF_BUILTINS: dict[Any, tuple[str, ...]] = {
    builtins.len: ("__len__",),
    builtins.float: ("__float__", "__index__"),
    builtins.int: ("__int__", "__index__"),
    builtins.complex: ("__complex__", "__float__", "__index__"),
    builtins.bool: TRUTH,
    builtins.abs: ("__abs__",),
    builtins.round: ("__round__",),
    builtins.str: ("__str__", "__repr__"),
    builtins.repr: ("__repr__",),
    builtins.iter: ITERATION,
    builtins.next: ("__next__",),
    builtins.reversed: ("__reversed__", *ITERATION),
    **dict.fromkeys(
        (
            builtins.all, builtins.any, builtins.dict, builtins.enumerate, builtins.list,
            builtins.map, builtins.max, builtins.min, builtins.set, builtins.sorted, builtins.sum,
            builtins.tuple, builtins.zip,
        ),
        ITERATION,
    ),
}  # fmt: skip
_DEEPEST = 3
_OTHERS = frozenset({"builtins", "collections", "numpy", "tapeline"})
"""Packages whose objects have no state of the program in their attributes."""


def note_use(x: Any, names: tuple[str, ...]) -> None:
    """Takes down what special methods of `x` read, if they are the program's own."""
    kind = type(x)
    if kind is Tensor or kind.__module__ == "builtins":
        return
    graph = outer_graph()
    if graph is None or graph.reads is None:
        return
    if kind is np.ndarray:
        # rows are views, which are read when they are used
        if x.ndim < 2 and names not in (ITEMS, ("__len__",)):
            graph.reads.note_contents(x)
        return
    for name in names:
        method = getattr(kind, name, None)
        if type(method) is FunctionType:
            _note_method(graph.reads, x, method, set(), _DEEPEST)


def noting(function: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """`inner`, which stands for a function of Python; it takes down what that asks of arguments."""
    names = _OF_BUILTINS.get(function)
    if names is None:
        return inner

    def call(*args: Any, **options: Any) -> Any:
        for value in args:
            note_use(value, names)
        return inner(*args, **options)

    return call


_OF_FIELDS = frozenset({dataclasses.asdict, dataclasses.astuple, dataclasses.replace})


def noting_fields(function: Any) -> Any:
    """`function`, which takes down the fields that it reads if it is one of `dataclasses`."""
    if function not in _OF_FIELDS:
        return function

    def call(x: Any, /, *args: Any, **options: Any) -> Any:
        graph = outer_graph()
        if graph is not None and graph.reads is not None and not isinstance(x, type):
            _note_attributes(graph.reads, x, [one.name for one in dataclasses.fields(x)], 0)
        return function(x, *args, **options)

    return call


def _note_method(
    reads: Reads, x: Any, method: FunctionType, seen: set[tuple[int, CodeType]], depth: int
) -> None:
    code = method.__code__
    is_others = is_installed(code.co_filename) or is_library_code(code)
    if (id(x), code) in seen or is_others:
        return
    seen.add((id(x), code))
    reads.note_function(method, conversion_of(method).global_names)
    names = list(_names_in(code))
    _note_attributes(reads, x, names, depth)
    for name in names:
        member = getattr(type(x), name, None)
        member = member.fget if type(member) is property else member
        if type(member) is FunctionType:
            _note_method(reads, x, member, seen, depth)


def _note_attributes(reads: Reads, x: Any, names: list[str], depth: int) -> None:
    """The attributes of these names, and those of what they hold."""
    for name in names:
        held = _value_of(x, name)
        if held is None:
            continue
        reads.note(x, name, ATTRIBUTE, held)
        is_others = type(held).__module__.partition(".")[0] in _OTHERS
        if depth and not is_others and hasattr(held, "__dict__") and not callable(held):
            _note_attributes(reads, held, names, depth - 1)


def _value_of(x: Any, name: str) -> Any:
    """What an attribute of an object or of its class holds, without running code of the program;
    None where that is no data."""
    if isinstance(getattr(type(x), name, None), property | functools.cached_property):
        return None
    try:
        own = object.__getattribute__(x, name)
    except AttributeError:
        return None
    return None if isinstance(own, FunctionType | MethodType) else own


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
