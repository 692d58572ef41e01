"""The switch that runs compiled functions as plain Python."""

from __future__ import annotations

from tapeline.runtime.dispatch import change_busy

EAGERLY: list[int] = [0]
"""How many requests to run functions eagerly are in force."""


class run_functions_eagerly:
    """Runs compiled functions as plain Python, in all threads: to debug them.

    Parameters
    ----------
    on : bool
        True from now on, or for a `with` block; False ends that.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: x * 2)
    >>> with tl.config.run_functions_eagerly(True):
    ...     y = f(tl.asarray(1.0))
    >>> f.trace_count
    0
    """

    def __init__(self, on: bool) -> None:
        self._before = EAGERLY[0]
        _run_eagerly(int(on))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _run_eagerly(self._before)


def _run_eagerly(on: int) -> None:
    """Sets the switch. Native entries step aside while it is on, as they do for traces."""
    change_busy(on - EAGERLY[0])
    EAGERLY[0] = on


def functions_run_eagerly() -> bool:
    """Whether compiled functions run as plain Python now.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapeline as tl
    >>> with tl.config.run_functions_eagerly(True):
    ...     tl.config.functions_run_eagerly()
    True
    """
    return EAGERLY[0] > 0
