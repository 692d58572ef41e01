"""Testing programs and gradient rules, `tl.testing`."""

from typing import TYPE_CHECKING, Any

from tapeline.runtime.gradients.checking import check_gradients as check_gradients

if TYPE_CHECKING:
    from tapeline.compiler.function import Function


def assert_traces(function: "Function[..., Any]", count: int) -> None:
    """Raises an error unless a compiled function has been traced so many times.

    Parameters
    ----------
    function : Function
        Made by `tl.function`; a method of an object, or of a class for all its objects.
    count : int
        How often it should have been traced.

    Returns
    -------
    context manager

    Raises
    ------
    AssertionError
        With all traces and why each was made.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: x * 2)
    >>> y = f(tl.asarray(1.0)), f(tl.asarray(2.0))
    >>> tl.testing.assert_traces(f, 1)
    """
    made = function.trace_count
    if made != count:
        raise AssertionError(f"expected {count} traces, got {made}:\n{function.explain()}")
