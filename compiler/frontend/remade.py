"""Functions that are decorated again at each turn of a loop: each is traced anew and served once.

What counts is the code that is traced. As soon as one of its functions serves a second call, the
count starts again.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from types import CodeType
from typing import Any

from tapeline.compiler.frontend.location import frames_of_library
from tapeline.compiler.frontend.retraces import MAX_WARNINGS, WARN_AFTER, log_warning

_LOCK = threading.Lock()


class _Made:
    """The functions of one piece of code that were made one after the other."""

    __slots__ = ("count", "served", "warnings")

    def __init__(self) -> None:
        self.count = 0
        self.served: Any = None
        """Where the first trace of the last one counts its calls."""
        self.warnings = 0


_BY_CODE: weakref.WeakKeyDictionary[CodeType, _Made] = weakref.WeakKeyDictionary()


def note_new_function(name: str, python_function: Any, served: Any) -> None:
    """Notes the first trace of a function; warns where the same code was compiled and called once
    five times in a row. The first time that is a warning of Python's, the second time one in the
    log.

    Parameters
    ----------
    name : str
        What messages call the function.
    python_function : callable
        What is traced.
    served : array of one int
        How many calls the trace has served, from now on.
    """
    code = getattr(python_function, "__code__", None)
    if code is None:
        return
    with _LOCK:
        made = _BY_CODE.setdefault(code, _Made())
        is_again = made.served is not None and made.served[0] <= 1
        made.count = made.count + 1 if is_again else 1
        made.served = served
        if made.count < WARN_AFTER or made.warnings >= MAX_WARNINGS:
            return
        made.count = 0
        made.warnings += 1
        is_first = made.warnings == 1
    message = (
        f"{name} at {code.co_filename}:{code.co_firstlineno} was decorated and traced anew "
        f"{WARN_AFTER} times in a row, each time for one call. Tracing is expensive. To avoid it, "
        "decorate the function once, outside of the loop or of the function that is called again"
    )
    log_warning(message)
    if is_first:
        warnings.warn(message, stacklevel=frames_of_library())
