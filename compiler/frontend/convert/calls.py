"""What a call in converted code calls: the converted function, if it is the user's own.

Functions of installed packages, of the standard library and of Tapeline are called as they are.
Some builtins have counterparts that know tensors.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.builtin_calls import BUILTINS, METHODS
from tapeline.compiler.frontend.convert.containers import CellSlot, Slot
from tapeline.compiler.frontend.convert.conversion import Conversion, conversion_of
from tapeline.compiler.frontend.convert.installed import is_installed
from tapeline.compiler.frontend.convert.numpy_calls import numpy_callee
from tapeline.compiler.frontend.convert.outside_calls import note_call
from tapeline.compiler.frontend.convert.reads import ATTRIBUTE
from tapeline.compiler.frontend.convert.special_methods import noting, noting_fields
from tapeline.compiler.frontend.convert.state import is_staging, outer_graph
from tapeline.compiler.frontend.convert.vectorizing import vectorized
from tapeline.compiler.frontend.location import is_library_code

_IS_USERS: OrderedDict[CodeType, bool] = OrderedDict()
_LIMIT = 16384
_OPERATORS: list[Any] = []
"""What converted code finds under `@tl`; `operators` puts it here."""


def is_users_code(code: CodeType) -> bool:
    """Whether code belongs to the program, and not to an installed package or to Tapeline."""
    found = _IS_USERS.get(code)
    if found is None:
        name = code.co_filename
        is_frozen = name.startswith("<frozen") or name.startswith("<__array_function__")
        found = not (is_frozen or is_installed(name) or is_library_code(code))
        if len(_IS_USERS) >= _LIMIT:
            _IS_USERS.popitem(last=False)
        _IS_USERS[code] = found
    return found


def install_operators(operators: Any) -> None:
    """Tells what converted code finds under `@tl`."""
    _OPERATORS.append(operators)


def callee(function: Any) -> Any:
    """What to call in the place of `function`."""
    note_call(function)
    kind = type(function)
    if kind is FunctionType:
        if is_users_code(function.__code__):
            return convert(function)
        return BUILTINS.get(function) or noting_fields(function) if is_staging() else function
    if kind is MethodType:
        inner = function.__func__
        if type(inner) is FunctionType and is_users_code(inner.__code__):
            return MethodType(convert(inner), function.__self__)
        method = METHODS.get(inner)
        return function if method is None else MethodType(method, function.__self__)
    if kind is type:
        return _class_callee(function)
    if isinstance(function, type):
        return function
    try:
        replacement = BUILTINS.get(function)
    except TypeError:
        replacement = None
    if replacement is not None and is_staging():
        return noting(function, replacement)
    of_numpy = numpy_callee(function)
    if of_numpy is not None:
        return of_numpy
    if kind is np.vectorize and is_staging():
        return vectorized(function, callee)
    if kind is functools.partial:
        _note_partial(function)
        converted = callee(function.func)
        if converted is function.func:
            return function
        return functools.partial(converted, *function.args, **function.keywords)
    if function is functools.reduce:
        return _with_callees(function)
    if kind is BuiltinFunctionType and is_staging():
        return noting(function, function)
    called = getattr(kind, "__call__", None)  # noqa: B004  # the function itself is wanted
    if type(called) is FunctionType and is_users_code(called.__code__):
        return MethodType(convert(called), function)
    return function


_CALLERS = frozenset(
    {
        itertools.accumulate, itertools.dropwhile, itertools.filterfalse, itertools.groupby,
        itertools.starmap, itertools.takewhile,
    }
)  # fmt: skip


def _with_callees(caller: Any) -> Any:
    """What calls functions that it is given, with converted ones."""

    def call(*args: Any, **options: Any) -> Any:
        converted = {name: _converted(value) for name, value in options.items()}
        return caller(*map(_converted, args), **converted)

    return call


def _converted(value: Any) -> Any:
    return callee(value) if type(value) in (FunctionType, MethodType) else value


def _note_partial(function: functools.partial[Any]) -> None:
    """Takes down the arguments that a partial function holds."""
    graph = outer_graph()
    if graph is not None and graph.reads is not None:
        for name in ("args", "keywords"):
            graph.reads.note(function, name, ATTRIBUTE, getattr(function, name))


def _class_callee(cls: Any) -> Any:
    """A class, or what makes an object of it with its `__init__` converted."""
    if cls in _CALLERS:
        return _with_callees(cls)
    replacement = BUILTINS.get(cls, cls)
    if cls.__module__ == "builtins" or replacement is not cls:
        return noting(cls, replacement) if is_staging() else cls
    initialize = cls.__init__
    if type(initialize) is not FunctionType or cls.__new__ is not object.__new__:
        return cls
    if not is_users_code(initialize.__code__):
        return cls

    def construct(*args: Any, **kwargs: Any) -> Any:
        made = object.__new__(cls)
        convert(initialize)(made, *args, **kwargs)
        return made

    return construct


def convert(function: FunctionType) -> FunctionType:
    """The converted function; the function itself where it cannot be converted."""
    conversion = conversion_of(function)
    graph = outer_graph()
    if graph is not None:
        if graph.reads is not None:
            graph.reads.note_function(function, conversion.global_names)
        if any(conversion.written):
            _watch_writes(graph, function, conversion)
    return conversion.build(function, _OPERATORS[0])


def _watch_writes(graph: CapturingGraph, function: FunctionType, conversion: Conversion) -> None:
    """Tells the blocks being traced which places the function may change."""
    global_names, free_names = conversion.written
    slots = [Slot(function, function.__globals__, name, name) for name in global_names]
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    slots += [CellSlot(function, cells[name], None, name) for name in free_names]
    block: CapturingGraph | None = graph
    while block is not None and block.surroundings is not None:
        for slot in slots:
            block.surroundings.watch_place(slot)
        block = block.outer
