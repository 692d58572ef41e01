"""Looking at what Tapeline makes of a program."""

import functools
import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, overload

from tapeline.compiler.frontend.convert.conversion import conversion_of, print_conversion
from tapeline.compiler.function import Function
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.runtime.callbacks import op_callback as op_callback
from tapeline.runtime.checks import assert_all_finite as assert_all_finite
from tapeline.runtime.checks import assert_equal as assert_equal
from tapeline.runtime.checks import assert_greater as assert_greater
from tapeline.runtime.checks import assert_greater_equal as assert_greater_equal
from tapeline.runtime.checks import assert_less as assert_less
from tapeline.runtime.checks import assert_less_equal as assert_less_equal
from tapeline.runtime.checks import assert_near as assert_near
from tapeline.runtime.checks import assert_negative as assert_negative
from tapeline.runtime.checks import assert_non_negative as assert_non_negative
from tapeline.runtime.checks import assert_non_positive as assert_non_positive
from tapeline.runtime.checks import assert_none_equal as assert_none_equal
from tapeline.runtime.checks import assert_positive as assert_positive
from tapeline.runtime.checks import assert_rank as assert_rank
from tapeline.runtime.checks import assert_shape as assert_shape
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.recorder import Tape

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.inspect.difference import Difference
    from tapeline.compiler.inspect.lint import Findings
    from tapeline.compiler.inspect.numerics import CheckNumerics
    from tapeline.compiler.inspect.profile import Profile
    from tapeline.compiler.inspect.verification import Verify
    from tapeline.compiler.inspect.why_none import Explanation, Memory

__all__ = [
    "assert_all_finite", "assert_equal", "assert_greater", "assert_greater_equal", "assert_less",
    "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative",
    "assert_non_positive", "assert_none_equal", "assert_positive", "assert_rank", "assert_shape",
    "check_numerics", "converted_source", "diff", "lint", "op_callback", "profile",
    "remember_ops", "verify", "why_none",
]  # fmt: skip


P = ParamSpec("P")
R = TypeVar("R")


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


def check_numerics(infinities: bool = True) -> "CheckNumerics":
    """A block of this thread in which an op that makes a NaN or an infinity is an error.

    Eager ops are checked as they run, gradients too. Compiled functions run op by op in the block,
    which is slow. An op whose inputs are not finite already is not blamed. NumPy's own warnings of
    such values are silent in the block.

    Parameters
    ----------
    infinities : bool
        Whether infinities count, or only NaN.

    Returns
    -------
    Tensor
        Of the shape of `x`. It is `x` itself, with the check.

    Raises
    ------
    NumericsError
        From the first such op: its name, its source line, and what its inputs were.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.sum(tl.log(x - 1)))
    >>> with tl.debugging.check_numerics():
    ...     f(tl.asarray([1.0, 2.0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tapeline.runtime.errors.NumericsError: check_numerics: log gives 1 infinite of 2 values at ...
    """
    from tapeline.compiler.inspect.numerics import CheckNumerics  # loads codegen

    return CheckNumerics(infinities)


Traced: TypeAlias = "Graph | ConcreteFunction | Function[..., Any]"


def _graph_of(name: str, given: Traced) -> Graph:
    if isinstance(given, Graph):
        return given
    from tapeline.compiler.concrete import ConcreteFunction  # loads the compiler

    if isinstance(given, ConcreteFunction):
        return given.graph
    if isinstance(given, Function):
        traces = given.concrete_functions
        if len(traces) != 1:
            raise ArgumentError(
                f"{name}: {given!r} must have one trace; pass get_concrete_function(...) of it"
            )
        return traces[0].graph
    raise ArgumentTypeError(f"{name}: expected a graph or a function, got {type(given).__name__}")


def diff(left: Traced, right: Traced) -> "Difference":
    """What differs between two graphs: nodes that are gone, new, or take other inputs.

    Parameters
    ----------
    left, right : Graph, ConcreteFunction or Function
        A function must have been traced once.

    Returns
    -------
    Difference
        A sequence of changes; prints like a comparison of texts. `is_empty` where the graphs do the
        same.

    Examples
    --------
    >>> import tapeline as tl
    >>> spec = tl.TensorSpec([2], "float32")
    >>> f = tl.function(lambda x: tl.exp(x) * 2, name="f").get_concrete_function(spec)
    >>> g = tl.function(lambda x: tl.tanh(x) * 2, name="g").get_concrete_function(spec)
    >>> [change.mark for change in tl.debugging.diff(f, g)]
    [' ', '-', '+', ' ', '~']
    """
    from tapeline.compiler.inspect.difference import Difference

    return Difference(_graph_of("diff", left), _graph_of("diff", right))


def lint(function: Function[..., Any], *args: Any, **kwargs: Any) -> "Findings":
    """What is legal and seldom meant in a function: float32 that becomes float64, large constants,
    ops that run as NumPy calls, forms that lose digits, places where gradients end or are infinite,
    and arguments whose every value is traced anew.

    Parameters
    ----------
    function : Function
        Is traced for the arguments if it was not yet.
    *args, **kwargs
        As for a call; a `TensorSpec` may stand for a tensor.

    Returns
    -------
    Findings
        A sequence of findings, each with kind, message and source line; prints them.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.log(tl.softmax(x)))
    >>> [finding.kind for finding in tl.debugging.lint(f, tl.TensorSpec([3], "float32"))]
    ['numerics']
    """
    from tapeline.compiler.inspect.lint import Findings, lint_graph, lint_numbers

    if not isinstance(function, Function):
        raise ArgumentTypeError(
            f"lint: expected a function made by tl.function, got {type(function).__name__}"
        )
    concrete = function.get_concrete_function(*args, **kwargs)
    code = getattr(function.python_function, "__code__", None)
    location = None if code is None else Location(code, 0)
    found = lint_numbers(function.explain(), location)
    return Findings(concrete.name, [*lint_graph(concrete.graph), *found])


@overload
def verify(
    function: None = None,
    *,
    rate: float = ...,
    tolerance: float | None = ...,
    seed: int = ...,
    reproduction: str | os.PathLike[str] | None = ...,
) -> "Verify": ...
@overload
def verify(
    function: Callable[P, R],
    *,
    rate: float = ...,
    tolerance: float | None = ...,
    seed: int = ...,
    reproduction: str | os.PathLike[str] | None = ...,
) -> Callable[P, R]: ...
def verify(
    function: Callable[..., Any] | None = None,
    *,
    rate: float = 1.0,
    tolerance: float | None = None,
    seed: int = 0,
    reproduction: str | os.PathLike[str] | None = None,
) -> Any:
    """A block in which compiled calls are held against NumPy, in all threads; or a function whose
    calls are such blocks.

    A chosen call runs once more, op by op, with NumPy; functions with effects and random numbers
    are left out.

    Parameters
    ----------
    function : callable, optional
        What to hold against NumPy whenever it is called, instead of a block.
    rate : float
        Which part of the calls is compared, chosen at random.
    tolerance : float, optional
        The largest difference that passes, relative to the largest number of an array; by default
        2e-5 for float32 and 1e-11 for float64.
    seed : int
        Of the choice.
    reproduction : str or path, optional
        A file for a program that shows the difference, by itself; large arrays go into a `.npz`
        file beside it.

    Returns
    -------
    Verify or callable
        The block, whose `checked` counts the calls that were compared; or the function.

    Raises
    ------
    VerificationError
        If numbers differ. It names the op and the line; its `reproduction` is a program that
        shows the difference.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.sum(tl.exp(x)))
    >>> with tl.debugging.verify() as checks:
    ...     y = f(tl.zeros(3))
    >>> checks.checked
    1
    >>> checked = tl.debugging.verify(f, rate=0.01)
    >>> checked(tl.zeros(3)).item()
    3.0
    """
    from tapeline.compiler.inspect.verification import Verify  # loads codegen

    if not 0 <= rate <= 1:
        raise ArgumentError(f"verify: rate must be between 0 and 1, got {rate}")
    checks = Verify(rate, tolerance, seed, reproduction)
    if function is None:
        return checks
    if not callable(function):
        raise ArgumentTypeError(f"verify: expected a function, got {type(function).__name__}")

    @functools.wraps(function)
    def verified(*args: Any, **kwargs: Any) -> Any:
        with checks:
            return function(*args, **kwargs)

    return verified


def remember_ops() -> "Memory":
    """A block of this thread that remembers each op, for `why_none`.

    It keeps every value until it ends, so use it for looking into things only.

    Returns
    -------
    context manager

    Examples
    --------
    See also `why_none`:

    >>> import tapeline as tl
    >>> x = tl.asarray([1.0, 2.0])
    >>> with tl.debugging.remember_ops(), tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tl.sum(tl.astype(x, tl.int32))
    >>> print(str(tl.debugging.why_none(tape, y, x)).split(",")[0])
    the target is of int64
    """
    from tapeline.compiler.inspect.why_none import Memory

    return Memory()


def why_none(tape: Tape, target: Any, source: Any) -> "Explanation":
    """Why `tape.gradient(target, source)` is None: where the way breaks, with the user's line.

    Parameters
    ----------
    tape : GradientTape
        It may have been used already.
    target : Tensor
        What was differentiated.
    source : Tensor or Variable
        What it was differentiated by.

    Returns
    -------
    Explanation
        Prints as a sentence; its `kind` is "dtype", "stop_gradient", "left through NumPy",
        "not watched", "not recorded", "no rule", "no path", "connected" or "unknown", its
        `location` the line. Lines are known for what ran inside of `remember_ops`, and only there
        breaks in the middle of a program are found.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray([1.5, 2.5])
    >>> with tl.debugging.remember_ops():
    ...     with tl.GradientTape() as tape:
    ...         tape.watch(x)
    ...         y = tl.sum(tl.stop_gradient(x * x) * 2.0)
    ...     assert tape.gradient(y, x) is None
    ...     tl.debugging.why_none(tape, y, x).kind
    'stop_gradient'
    """
    from tapeline.compiler.inspect.why_none import explain

    return explain(tape, target, source)
