"""Tracebacks of errors in traced functions: the user's own lines."""

from __future__ import annotations

from types import CodeType, FrameType, TracebackType

from tapeline.compiler.frontend.location import is_library_code
from tapeline.compiler.ir.location import Location


class full_traceback:
    """Shows Tapeline's own frames in tracebacks of errors in traced functions, which are left out
    otherwise; in all threads.

    Parameters
    ----------
    on : bool
        True from now on, or for a `with` block; False ends that.

    Examples
    --------
    >>> import tapeline as tl
    >>> with tl.config.full_traceback(True):
    ...     y = tl.function(lambda x: x * 2)(tl.asarray(1.0))
    """

    def __init__(self, on: bool) -> None:
        self._before = _FULL[0]
        _FULL[0] = bool(on)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _FULL[0] = self._before


_FULL = [False]


def users_traceback(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of the library, and with one frame per function of the user's
    that was converted: that of the line that ran."""
    if _FULL[0]:
        return trace
    entries: list[TracebackType] = []
    while trace is not None:
        if not is_library_code(trace.tb_frame.f_code):
            if entries and _is_block_of(trace.tb_frame, entries[-1].tb_frame):
                entries.pop()
            entries.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def raised_at(error: BaseException) -> Location | None:
    """The user's line that raised an error, or called what did."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if not is_library_code(trace.tb_frame.f_code):
            found = Location(trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next
    return found


def _is_block_of(frame: FrameType, outer: FrameType) -> bool:
    """Whether the code of a frame is a block of the function of another frame."""
    if "@tl" not in outer.f_code.co_freevars:
        return False
    pending: list[CodeType] = [outer.f_code]
    while pending:
        for item in pending.pop().co_consts:
            if isinstance(item, CodeType):
                if item is frame.f_code and item.co_name == outer.f_code.co_name:
                    return True
                pending.append(item)
    return False
