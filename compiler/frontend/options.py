"""What people may choose when they make a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError

MAX_TRACES = 256
"""How many traces a function keeps, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one function; see `tapeline.compiler.function.function` for what they mean.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If one has a value that it cannot take.
    """

    name: str | None = None
    autograph: bool = True
    max_traces: int = MAX_TRACES
    input_signature: tuple[Any, ...] | None = None
    static_args: tuple[str, ...] = ()
    reduce_retracing: bool = True
    fastmath: bool = False
    max_bytes: int | None = None
    threads: int | None = None
    donate: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_traces < 1:
            raise ArgumentError(f"function: max_traces must be at least 1, got {self.max_traces}")
        threads = self.threads
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
            raise ArgumentTypeError(f"function: threads must be an int or None, got {threads!r}")
        if threads is not None and threads < 1:
            raise ArgumentError(f"function: threads must be at least 1, got {threads}")
        limit = self.max_bytes
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise ArgumentTypeError(f"function: max_bytes must be an int or None, got {limit!r}")
        if limit is not None and limit < 0:
            raise ArgumentError(f"function: max_bytes must be at least 0, got {limit}")
        specs = self.input_signature
        if specs is not None:
            if isinstance(specs, str | bytes) or not isinstance(specs, Sequence):
                raise ArgumentTypeError(
                    "function: input_signature must be a possibly nested sequence of TensorSpec, "
                    f"got {specs!r}"
                )
            object.__setattr__(self, "input_signature", tuple(specs))
        object.__setattr__(self, "static_args", _names("static_args", self.static_args))
        object.__setattr__(self, "donate", _names("donate", self.donate))


def _names(option: str, given: Any) -> tuple[str, ...]:
    """Parameter names, from one name or several."""
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"function: {option} must be names of parameters, got {name!r}")
    return names
