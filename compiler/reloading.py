"""Compiled functions whose module `%autoreload` of IPython loads again.

Plain functions get the new code in place, so that `from module import f` elsewhere sees it. A rule
that IPython is told says the same of compiled functions.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from tapeline.compiler.function import Function

_AUTORELOAD = "IPython.extensions.autoreload"
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__annotations__", "__dict__")


def follow_autoreload() -> None:
    """Tells IPython, where it reloads modules, how compiled functions follow."""
    rules = getattr(sys.modules.get(_AUTORELOAD), "UPDATE_RULES", None)
    if rules is not None and _RULE not in rules:
        rules.append(_RULE)


def update_in_place(old: Function[..., Any], new: Function[..., Any]) -> None:
    """Gives a compiled function the code and the options of another one; its traces are over.

    Other functions whose traces hold a call of it ask for the code, so it goes into the very
    function that they know.
    """
    wrapped, source = old.python_function, new.python_function
    if isinstance(wrapped, FunctionType) and isinstance(source, FunctionType):
        try:
            for part in _PARTS:
                setattr(wrapped, part, getattr(source, part))
        except ValueError:  # another number of free variables
            wrapped = source
    else:
        wrapped = source
    old.restart(wrapped, new.options)


def _are_functions(old: Any, new: Any) -> bool:
    return type(old) is Function and type(new) is Function


_RULE = (_are_functions, update_in_place)
