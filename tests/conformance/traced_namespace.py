"""The namespace of Tapeline with every function traced and compiled, to run test suites on.

A suite takes `xp` where it would take `tapeline`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import tapeline as tl


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, each call of which is traced and compiled."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return tl.function(function)(*args, **kwargs)

    return call


def namespace_of(module: types.ModuleType) -> types.ModuleType:
    """A module with the same names, its op functions traced."""
    made = types.ModuleType(f"traced_{module.__name__}", module.__doc__)
    for name, value in vars(module).items():
        if isinstance(value, types.FunctionType) and value.__module__.startswith(
            "tapeline.runtime.ops"
        ):
            value = traced(value)
        setattr(made, name, value)
    return made


xp = namespace_of(tl)
xp.linalg = namespace_of(tl.linalg)  # type: ignore[attr-defined]
xp.fft = namespace_of(tl.fft)  # type: ignore[attr-defined]
