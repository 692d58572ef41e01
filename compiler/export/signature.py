"""Which trace of a function is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.function import Function
from tapeline.compiler.staged.stages import is_sized
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ExportError


def one_trace(
    what: str, function: Function[..., Any], signature: Sequence[Any] | dict[str, Any] | None
) -> ConcreteFunction:
    """The trace for a signature, or the only one that there is.

    Raises
    ------
    ArgumentTypeError, ArgumentError
        If this is no function, or no signature, or nothing says which trace.
    """
    if not isinstance(function, Function):
        raise ArgumentTypeError(
            f"{what}: expected a function made by tl.function, got {type(function).__name__}"
        )
    if isinstance(signature, dict):
        return function.get_concrete_function(**signature)
    if isinstance(signature, tuple | list):
        return function.get_concrete_function(*signature)
    if signature is not None:
        raise ArgumentTypeError(
            f"{what}: a signature is a tuple of arguments, or a dict of them by name, got "
            f"{type(signature).__name__}"
        )
    traces = list(function.concrete_functions)
    if len(traces) == 1:
        return traces[0]
    count = "no trace" if not traces else f"{len(traces)} traces"
    raise ArgumentError(
        f"{what}: {function.__name__} has {count}; pass signature= to say for which arguments"
    )


def check_sizes(what: str, found: ConcreteFunction) -> None:
    """Refuses a trace in which sizes depend on values, by an `ExportError` with the line."""
    graph = found.graph
    for node, op in enumerate(graph.ops):
        if is_sized(op):
            place = graph.locations[node]
            where = "" if place is None else f" at {place}"
            raise ExportError(
                f"{what}: in {found.name}, the size of what {op.name}{where} gives depends on "
                "values, and exported code must know all sizes beforehand; keep the size, as with "
                "tl.where(mask, x, 0), or tl.export.save the function"
            )
