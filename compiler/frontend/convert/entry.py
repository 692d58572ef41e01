"""Runs a user's function converted, within a trace, and makes its errors speak of the user's code
alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.blocktrace import RaisedError
from tapeline.compiler.frontend.convert.conversion import reason_of
from tapeline.compiler.frontend.convert.operators import Operators
from tapeline.compiler.frontend.convert.reads import Reads
from tapeline.compiler.frontend.location import is_library_code
from tapeline.compiler.frontend.tracebacks import users_traceback
from tapeline.runtime.errors import SymbolicTensorError, UndefinedVariableError

_VARIABLE = re.compile(r"variable '(\w+)'|name '(\w+)'")


def run_converted(
    graph: CapturingGraph, function: Callable[..., Any], args: Any, kwargs: Any
) -> Any:
    """What the converted function returns; to be called while the graph is traced.

    Raises
    ------
    UndefinedVariableError
        If a variable is used that only one branch over a tensor gives a value.
    Exception
        What the function raises, with a traceback of the user's own lines.
    """
    reads = graph.reads = Reads()
    try:
        return Operators.call(function)(*args, **kwargs)
    except RaisedError as signal:
        error = signal.error
        raise error.with_traceback(users_traceback(error.__traceback__)) from error.__cause__
    except NameError as error:
        shown = _explain(error, reads)
        trace = users_traceback(error.__traceback__)
        if shown is None:
            raise error.with_traceback(trace) from error.__cause__
        raise UndefinedVariableError(shown).with_traceback(trace) from None
    except SymbolicTensorError as error:
        reason = _why_unconverted(error.__traceback__)
        trace = users_traceback(error.__traceback__)
        if reason is None:
            raise error.with_traceback(trace) from error.__cause__
        raise SymbolicTensorError(f"{error}. {reason}").with_traceback(trace) from None
    except Exception as error:
        raise error.with_traceback(users_traceback(error.__traceback__)) from error.__cause__


def without_signals(function: Callable[..., Any]) -> Callable[..., Any]:
    """A converted function for calls outside of traces: what its `raise` statements raise comes
    out as it is."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RaisedError as signal:
            raise signal.error from signal.error.__cause__

    return run


def _explain(error: NameError, reads: Reads) -> str | None:
    """What to say about a variable that only some path gives a value."""
    found = _VARIABLE.search(str(error))
    name = (found.group(1) or found.group(2)) if found else None
    reason = reads.poisoned.get(name or "")
    return None if reason is None else f"the variable {name!r} may be undefined here: {reason}"


def _why_unconverted(trace: TracebackType | None) -> str | None:
    """Why the user's function in which an error arose was traced as it is."""
    found: CodeType | None = None
    while trace is not None:
        if not is_library_code(trace.tb_frame.f_code):
            found = trace.tb_frame.f_code
        trace = trace.tb_next
    reason = None if found is None else reason_of(found)
    if found is None or reason is None:
        return None
    return f"The control flow of {found.co_qualname} stays Python, because {reason}"
