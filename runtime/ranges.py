"""`tl.range`: the range that becomes a loop of the graph, however short it is."""

from __future__ import annotations

import builtins
import operator
from typing import Any

__all__ = ["range"]


def range(*bounds: Any, parallel: bool = False) -> builtins.range:
    """A range whose `for` loop becomes one loop of the graph, and is never unrolled.

    Parameters
    ----------
    *bounds : int or Tensor of int, shape ()
        `stop`, or `start, stop`, or `start, stop, step`, as for Python's `range`.
    parallel : bool
        States that the rounds need nothing of one another, so that they may run in any order and
        on several threads: no number goes from round to round, and each writes to other elements
        of arrays than the rest.

    Returns
    -------
    range
        Outside of `tl.function` the range of Python ints.

    Raises
    ------
    SymbolicTensorError
        If a bound is a tensor of a trace, in code that is not converted.
    TracingError
        In a compiled function, if `parallel` is set and a number goes from round to round.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def power(x, n):
    ...     y = x
    ...     for _ in tl.range(1, n):
    ...         y = y * x
    ...     return y
    >>> power(tl.asarray(3.0), tl.asarray(4))
    tl.Tensor(81., shape=(), dtype=float64)
    """
    return builtins.range(*[operator.index(bound) for bound in bounds])
