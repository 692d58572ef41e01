"""Stepping out of a trace for a moment, and asking whether one is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tapeline.runtime.dispatch import STATE, push_handler
from tapeline.runtime.errors import TracingError

__all__ = ["executing_eagerly", "init_scope", "on_trace_end"]


@contextmanager
def init_scope() -> Iterator[None]:
    """A block that runs at once, as plain Python, even while a function is traced.

    Tapes do not see it. Inside, Variables have their present values, and symbolic tensors of the
    trace have none. It is the place to give a Variable its first value.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import tapeline as tl
    >>> calls = tl.Variable(0)
    >>> @tl.function
    ... def f(x):
    ...     with tl.init_scope():
    ...         calls.assign_add(1)
    ...     return x * 2
    >>> y = f(tl.asarray(1.0)), f(tl.asarray(2.0))
    >>> calls.numpy()
    array(1)
    """
    saved = STATE.active, STATE.open, STATE.stopped
    STATE.active, STATE.open, STATE.stopped = None, (), 0
    try:
        with push_handler(None):
            yield
    finally:
        STATE.active, STATE.open, STATE.stopped = saved


def executing_eagerly() -> bool:
    """Whether ops run at once: False while a function is traced.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.executing_eagerly(), tl.function(tl.executing_eagerly)()
    (True, False)
    """
    return STATE.handler is None


def on_trace_end(callback: Callable[[], object]) -> None:
    """Has a function called when the trace that is under way is over, if it succeeds; once a trace.

    Parameters
    ----------
    callback : callable
        Without parameters.

    Raises
    ------
    TracingError
        (a RuntimeError) where no function is traced.

    Examples
    --------
    >>> import tapeline as tl
    >>> ended = []
    >>> @tl.function
    ... def f(x):
    ...     tl.on_trace_end(lambda: ended.append("f"))
    ...     return x * 2
    >>> y = f(tl.asarray(1.0)), f(tl.asarray(2.0))
    >>> ended
    ['f']
    """
    register = getattr(STATE.handler, "on_trace_end", None)
    if register is None:
        raise TracingError("on_trace_end: no function is traced here; call it in one")
    register(callback)
