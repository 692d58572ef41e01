"""Pickling and deep copying of compiled functions and traces: as their graphs with what they
capture.

A function that has traces goes as these, so it runs where its source is not; one that has none goes
as the Python function, by its name where that leads to it. Where the program pickles by value, as
dask and joblib do, a function that captures nothing takes its Python function along, for arguments
that it has no traces for.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any

from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.function import Function
from tapeline.compiler.ir.interchange_values import Document
from tapeline.compiler.saved.reader import (
    LoadedFunction,
    Reference,
    find_function,
    load_function,
)
from tapeline.compiler.saved.writer import function_parts, pickled_ends
from tapeline.runtime.errors import TapelineError
from tapeline.runtime.variable import Variable


def reduce_function(function: Function[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What `pickle` is told: a callable and its arguments. Variables are among these, so that
    whatever else is pickled together refers to the same ones."""
    parts, reference = _parts(function), _reference(function)
    if parts is not None:
        depends = any(trace.variables or trace.captures for trace in function.lasting_traces())
        return load_function, (*parts, None if depends else _source(function, reference))
    if reference is not None:
        return find_function, reference
    return type(function), (function.python_function, function.options)


def reduce_concrete(
    concrete: ConcreteFunction,
) -> tuple[Callable[..., Any], tuple[bytes, list[Variable], Document]]:
    """The same for one trace."""
    return load_concrete, (*function_parts(concrete), pickled_ends(concrete))


def load_concrete(content: bytes, variables: list[Variable], ends: Document) -> ConcreteFunction:
    """The one trace that the content of a file holds, but for arguments and results."""
    (found,) = load_function(content, variables, ends=ends).concrete_functions
    return found


def _reference(function: Function[..., Any]) -> tuple[str, str] | None:
    """The module and the name that lead to the function; None where there are none."""
    module = getattr(function.python_function, "__module__", None)
    name = getattr(function.python_function, "__qualname__", "")
    return (module, name) if module and find_function(module, name) is function else None


def _source(function: Function[..., Any], reference: tuple[str, str] | None) -> Reference | None:
    """What leads to the function for signatures that it has no traces for."""
    if isinstance(function, LoadedFunction):
        return function.reference
    return reference or _by_value(function)


def _by_value(function: Function[..., Any]) -> bytes | None:
    """What gives the function where no name leads to it, for signatures that it was not traced for:
    a pickle by value, if the program works with such. None where that cannot be."""
    modules = (sys.modules.get(name) for name in _CLOUDPICKLE)
    pickler = next((module for module in modules if module is not None), None)
    if pickler is None or _RUNNING.is_on:
        return None
    _RUNNING.is_on = True  # the function may name itself
    try:
        found: bytes = pickler.dumps((function.python_function, function.options))
    except Exception:  # some part of it is no matter for a pickle
        return None
    finally:
        _RUNNING.is_on = False
    return found if len(found) <= _LARGEST else None


class _Running(threading.local):
    """Whether a function of this thread is being pickled by value."""

    is_on = False


_RUNNING = _Running()
_CLOUDPICKLE = ("cloudpickle", "joblib.externals.cloudpickle")
_LARGEST = 1 << 20


def _parts(function: Function[..., Any]) -> tuple[bytes, list[Variable]] | None:
    """The traces as the content of a file, and the Variables; None where that cannot be."""
    is_method = isinstance(function.python_function, MethodType)  # which goes with its object
    if is_method or not function.lasting_traces():
        return None
    try:
        return function_parts(function)
    except TapelineError:
        if isinstance(function, LoadedFunction):
            raise
        return None  # it uses what a file cannot hold; the Python function may do


def copy_function(function: Function[..., Any], memo: dict[int, Any]) -> Function[..., Any]:
    """A deep copy. Captured Variables are copied together with the rest of what is copied."""
    if any(trace.variables for trace in function.lasting_traces()):
        parts = _parts(function)
        if parts is not None:
            return load_function(parts[0], [copy.deepcopy(one, memo) for one in parts[1]])
    python_function = copy.deepcopy(function.python_function, memo)
    return type(function)(python_function, function.options)
