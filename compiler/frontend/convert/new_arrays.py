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

from tapeline.compiler.frontend.convert.state import is_staging, is_symbolic
from tapeline.runtime import nest
from tapeline.runtime.ops import creation
from tapeline.runtime.tensor import as_tensor

_NUMBERS = "biufc"


def calls_that_are_written_to(body: Iterable[ast.AST]) -> set[int]:
    """The ids of the calls whose results go to a variable that some statement writes to, by
    `x[i] = v` or `x += v`, or from there to such a variable."""
    nodes = [node for item in body for node in ast.walk(item)]
    written = set(_written(nodes))
    assigned = list(_assigned(nodes))
    before = -1
    while before != len(written):
        before = len(written)
        written |= {
            value.id for name, value in assigned if name in written and isinstance(value, ast.Name)
        }
    return {id(value) for name, value in assigned if name in written and type(value) is ast.Call}


def _written(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        place: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            place = node.value
        elif isinstance(node, ast.AugAssign):
            place = node.target
        if isinstance(place, ast.Name):
            yield place.id


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
        return as_tensor(items, None if dtype is None else np.dtype(dtype), "np.array") + 0
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
        function: _new(function)
        for function in (
            np.arange, np.copy, np.empty_like, np.eye, np.full, np.full_like, np.identity,
            np.linspace, np.ones_like, np.tri, np.zeros_like,
        )
    },
    np.array: _new(array_of),
    np.asarray: _as_new_array,
}  # fmt: skip
