"""Which arguments of a function are differentiated, and the arguments made ready for a tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError
from tapeline.runtime.ops.cast import identity
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tensor import Tensor, as_tensor

Argument: TypeAlias = int | str
"""A position, or the name of a parameter."""


def name_of(function: Any) -> str:
    """What messages call the function."""
    return str(getattr(function, "__name__", type(function).__name__))


def require_function(caller: str, function: Any) -> None:
    """An `ArgumentTypeError` for what cannot be called."""
    if not callable(function):
        raise ArgumentTypeError(
            f"{caller}: expected a function to differentiate, got {type(function).__name__}"
        )


def parameter_names(function: Callable[..., Any]) -> list[str] | None:
    """Names of the parameters that take positional arguments, without a bound `self`; None if they
    cannot be told."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in positional]


def position_of(caller: str, function: Callable[..., Any], argument: Argument, count: int) -> int:
    """The position of one argument among `count`.

    Raises
    ------
    ArgumentError
        (a ValueError) if there is no such argument.
    """
    if isinstance(argument, str):
        names = parameter_names(function) or []
        if argument not in names or names.index(argument) >= count:
            raise ArgumentError(
                f"{caller}: {name_of(function)} was called with no positional argument named "
                f"{argument!r}; it has {names}"
            )
        return names.index(argument)
    if isinstance(argument, bool) or not isinstance(argument, int):
        raise ArgumentTypeError(
            f"{caller}: an argument is named by its position or its name, got {argument!r}"
        )
    if not -count <= argument < count:
        raise ArgumentError(
            f"{caller}: {name_of(function)} was called with {count} positional arguments, so there "
            f"is no argument {argument}"
        )
    return argument % count


def positions_of(
    caller: str, function: Callable[..., Any], params: Sequence[Argument] | None, count: int
) -> list[int]:
    """The positions that `params` names; None stands for all arguments.

    Raises
    ------
    ArgumentError
        (a ValueError) if positions and names are mixed, or one does not exist.
    """
    if params is None:
        return list(range(count))
    kinds = {isinstance(each, str) for each in params}
    if len(kinds) > 1:
        raise ArgumentError(
            f"{caller}: params must be all names or all positions, got {list(params)!r}"
        )
    return [position_of(caller, function, each, count) for each in params]


def watch_float(tape: Tape, tensor: Tensor) -> None:
    """Watch a tensor if its dtype has gradients."""
    if tensor.dtype.kind in "fcV":
        tape.watch_tensor(tensor)


def source_tensor(caller: str, value: Any, taken: set[int]) -> Tensor:
    """The argument as a tensor of its own; a tensor that is passed twice counts as two."""
    tensor = as_tensor(value, None, caller)
    key = id(tensor if tensor._node is None else tensor._node)
    if key in taken:
        tensor = identity(tensor)
    taken.add(key)
    return tensor


def require_float(caller: str, tensor: Tensor) -> None:
    """A `DTypeError` for what has no gradient."""
    if tensor.dtype.kind not in "fcV":
        raise DTypeError(
            f"{caller}: arguments that are differentiated must be of float or complex dtype, got "
            f"{tensor.dtype}; convert with x.astype(tl.float64), or choose others with argnums"
        )
