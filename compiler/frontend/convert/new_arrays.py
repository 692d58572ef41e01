"""NumPy arrays that a traced function makes and writes to are tensors from the start.

`out = np.zeros(n)` would make an array in the trace, once, and no tensor of the trace could be
written to it. So where the function writes to `out`, the call makes a tensor of the same elements.
Other arrays of NumPy stay what they are: tables that Python computes with.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.size_tables import open_to_sizes
from tapeline.compiler.frontend.convert.state import is_staging, is_symbolic
from tapeline.runtime import nest
from tapeline.runtime.ops import creation
from tapeline.runtime.tensor import as_tensor

_NUMBERS = "biufc"


def calls_that_are_written_to(body: Iterable[ast.AST], parameters: Iterable[str]) -> set[int]:
    """The ids of the calls whose results go to a variable that some statement writes to, by
    `x[i] = v` or `x += v`, or from there to such a variable; if what is written there, or where,
    may come from the parameters."""
    nodes = [node for item in body for node in ast.walk(item)]
    assigned, writes = list(_assigned(nodes)), list(_writes(nodes))
    flows = assigned + [(name, part) for name, parts in writes for part in parts]
    given = _given(nodes, flows, parameters)
    written = {name for name, parts in writes if _mentions(parts, given)}
    before = -1
    while before != len(written):
        before = len(written)
        written |= {
            value.id for name, value in assigned if name in written and isinstance(value, ast.Name)
        }
    return {id(value) for name, value in assigned if name in written and type(value) is ast.Call}


def _writes(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, list[ast.expr]]]:
    """The variable, and the expressions of its writes: values and places."""
    for node in nodes:
        targets: list[ast.expr]
        if isinstance(node, ast.Call):
            yield from _written_by(node)
            continue
        if isinstance(node, ast.AugAssign):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        else:
            continue
        for target in targets:
            for one in ast.walk(target):
                if isinstance(one, ast.Subscript) and isinstance(one.value, ast.Name):
                    yield one.value.id, [one.slice, value]
                elif isinstance(one, ast.Name) and isinstance(node, ast.AugAssign):
                    yield one.id, [value]


_WRITERS = frozenset({"at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
"""The names of NumPy's functions that write to their first argument."""


def _written_by(node: ast.Call) -> Iterator[tuple[str, list[ast.expr]]]:
    """What a call of NumPy writes to: its first argument, or that of `out=`."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in _WRITERS and node.args:
        first, *rest = node.args
        if isinstance(first, ast.Name):
            yield first.id, [*rest, *(keyword.value for keyword in node.keywords)]
    for keyword in node.keywords:
        if keyword.arg == "out":
            for name in _names_in(keyword.value):
                yield name, node.args


def _given(
    nodes: Iterable[ast.AST],
    known: Iterable[tuple[str, ast.expr]],
    parameters: Iterable[str],
) -> set[str]:
    """The variables that may hold what a caller gave, or what is made of that; what goes into which
    variable is `known` in part."""
    given = set(parameters)
    flows = list(known)
    for node in nodes:
        if isinstance(node, ast.arguments):
            given.update(
                argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)
            )
        elif isinstance(node, ast.For | ast.comprehension):
            flows += [(name, node.iter) for name in _names_in(node.target)]
        elif isinstance(node, ast.Assign):
            flows += [(name, node.value) for one in node.targets for name in _names_in(one)]
        elif isinstance(node, ast.AugAssign | ast.NamedExpr):
            flows += [(name, node.value) for name in _names_in(node.target)]
    before = -1
    while before != len(given):
        before = len(given)
        given |= {name for name, value in flows if _mentions([value], given)}
    return given


def _names_in(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _mentions(parts: Iterable[ast.AST], names: set[str]) -> bool:
    nodes = (node for part in parts for node in ast.walk(part))
    return any(isinstance(node, ast.Name) and node.id in names for node in nodes)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        pairs: list[tuple[ast.expr, ast.expr]]
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                for one, other in zip(target.elts, value.elts, strict=False):
                    if isinstance(one, ast.Name):
                        yield one.id, other


def maker(function: Any) -> Any:
    """What makes a tensor in the place of a new array of NumPy; the function itself if it makes
    none, or no trace is under way."""
    try:
        found = _MAKERS.get(function)
    except TypeError:
        return function
    return function if found is None or not is_staging() else found


def array_of(items: Any, dtype: Any = None, **options: Any) -> Any:
    """`np.array`, also of tensors that the trace computes."""
    if any(is_symbolic(leaf) for leaf in nest.flatten(items)):
        made = as_tensor(items, None if dtype is None else np.dtype(dtype), "np.array")
        missing = options.get("ndmin", 0) - made.ndim
        return creation.asarray(made[(None,) * missing] if missing > 0 else made, copy=True)
    return np.array(items, dtype, **options)


def _new(function: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **options: Any) -> Any:
        made = function(*args, **options)
        return creation.asarray(made, copy=True) if _is_plain(made) else made

    return make


def _as_new_array(items: Any, *args: Any, **options: Any) -> Any:
    """`np.asarray`, which makes a new array of a list only."""
    function = _new(array_of) if isinstance(items, list | tuple) else np.asarray
    return function(items, *args, **options)


def _filled(function: Callable[..., Any], fill: float) -> Callable[..., Any]:
    """`np.zeros` and its like, also with sizes that the trace leaves open."""

    def make(shape: Any, dtype: Any = float, order: Any = "C", **options: Any) -> Any:
        found = np.dtype(dtype)
        if found.kind not in _NUMBERS:
            return function(shape, dtype, order, **options)
        return creation.full(shape, fill, dtype=found)

    return make


def _is_plain(made: Any) -> bool:
    return type(made) is np.ndarray and made.dtype.kind in _NUMBERS


_MAKERS: dict[Any, Callable[..., Any]] = {
    np.zeros: _filled(np.zeros, 0),
    np.ones: _filled(np.ones, 1),
    np.empty: _filled(np.empty, 0),
    **{
        function: _new(open_to_sizes(function, function))
        for function in (
            np.arange, np.copy, np.empty_like, np.eye, np.full, np.full_like, np.identity,
            np.linspace, np.ones_like, np.tri, np.zeros_like,
        )
    },
    np.array: _new(array_of),
    np.asarray: _as_new_array,
}  # fmt: skip
