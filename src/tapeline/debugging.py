"""Looking at what Tapeline makes of a program."""

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapeline.compiler.frontend.convert.conversion import conversion_of, print_conversion
from tapeline.compiler.function import Function
from tapeline.runtime.callbacks import op_callback as op_callback
from tapeline.runtime.errors import ArgumentTypeError

if TYPE_CHECKING:
    from tapeline.compiler.inspect.profile import Profile

__all__ = ["converted_source", "op_callback", "profile"]


def converted_source(function: Callable[..., Any]) -> str:
    """The source of a function as it is traced, with its control flow as calls of operators.

    Parameters
    ----------
    function : callable
        A Python function or method, or one that `tl.function` made. Names that begin with `@` are
        Tapeline's own.

    Returns
    -------
    str
        One line that says why, where the function is traced as it is.

    Raises
    ------
    ArgumentTypeError
        If it is no Python function.

    Examples
    --------
    >>> import tapeline as tl
    >>> print(tl.debugging.converted_source(lambda x: x))  # doctest: +SKIP
    lambda x: x
    """
    found: Any = function
    while not isinstance(found, types.FunctionType):
        if isinstance(found, Function):
            found = found.python_function
        elif isinstance(found, functools.partial):
            found = found.func
        elif isinstance(found, types.MethodType):
            found = found.__func__
        else:
            raise ArgumentTypeError(
                f"converted_source: expected a Python function, got {type(function).__name__}"
            )
    return print_conversion(conversion_of(found))


def profile() -> "Profile":
    """A block that times every kernel of every compiled call in it.

    Returns
    -------
    Profile
        Prints as a table by kernel: time, calls, bytes per second against what this machine can do.
        `by_line()` gives the time by source line, `save_trace(path)` writes a file for Perfetto or
        Chrome.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.sum(tl.exp(x)))
    >>> with tl.debugging.profile() as profile:
    ...     y = f(tl.zeros(1000))
    >>> [(one.kernel.kind, one.calls) for one in profile.kernels]
    [('loop', 1)]
    """
    from tapeline.compiler.inspect.profile import Profile  # loads codegen

    return Profile()
