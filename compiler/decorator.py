"""`function`: the decorator that compiles Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

import numpy as np

from tapeline.compiler.frontend.options import MAX_TRACES, Options
from tapeline.compiler.function import Function
from tapeline.compiler.reloading import follow_autoreload

P = ParamSpec("P")
R = TypeVar("R")


class _Options(TypedDict, total=False):
    """The options of `function`, for type checkers."""

    name: str | None
    input_signature: Sequence[Any] | None
    autograph: bool
    max_traces: int
    static_args: str | Sequence[str]
    reduce_retracing: bool
    fastmath: bool
    max_bytes: int | None
    threads: int | None
    donate: str | Sequence[str]


@overload
def function(python_function: Callable[P, R], /) -> Function[P, R]: ...
@overload
def function(**options: Unpack[_Options]) -> Callable[[Callable[P, R]], Function[P, R]]: ...
@overload
def function(python_function: Callable[P, R], /, **options: Unpack[_Options]) -> Function[P, R]: ...


def function(
    python_function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    max_traces: int = MAX_TRACES,
    static_args: str | Sequence[str] = (),
    reduce_retracing: bool = True,
    fastmath: bool = False,
    max_bytes: int | None = None,
    threads: int | None = None,
    donate: str | Sequence[str] = (),
) -> Function[P, R] | Callable[[Callable[P, R]], Function[P, R]]:
    """The function, traced into a graph once per signature and compiled.

    Calls with tensors of the same shapes and dtypes, and equal other arguments, share a trace.
    Gradient tapes record a call as one op. As a method it has a cache per object.

    Parameters
    ----------
    python_function : callable
        What to compile. Use as a decorator, with or without options. A `classmethod`,
        `staticmethod` or `property` gives one around the compiled function.
    name : str, optional
        What graphs and messages call it; the function's own name by default.
    input_signature : sequence, optional
        A `TensorSpec` per positional argument, or a structure of them: what every call must fit.
        Python numbers take the dtype of their spec. Parameters that it does not reach stay at
        their defaults.
    autograph : bool
        Whether `if`, `while`, `for` and their kin over tensors become part of the graph, here and
        in the functions that it calls. That needs the source; without it, or with False, a tensor
        as a condition is an error.
    max_traces : int
        How many traces are kept; the one that was used longest ago is dropped beyond that.
    static_args : str or sequence of str
        Names of parameters whose values are constants of the trace: tensors and arrays count by
        their elements, and every other value is another trace.
    reduce_retracing : bool
        Whether a dimension that comes with a second size is left open in the next trace, which then
        serves all sizes that its code does not tell apart, and a Python number that comes with a
        third value becomes an input. False: one trace per shape and number.
    fastmath : bool
        Whether compiled code, of gradients too, may fuse a product with a sum, and regroup products
        and sums: faster, but results differ from those of NumPy in the last bits. NaN, infinities
        and signs of zeros keep their meaning.
    threads : int, optional
        On how many threads its large kernels run at most, the caller's included; by default on all
        that `TAPELINE_NUM_THREADS` allows. It changes no bit of a result.
    donate : str or sequence of str
        Names of parameters whose tensors are given to the call: they have no values afterwards, and
        later calls write their results into their memory. For large arrays in loops such as
        `x = step(x)`. Calls under a tape or in a trace leave them as they are.
    max_bytes : int, optional
        How much a call under a tape may keep for its gradient, besides arguments and results.
        What does not fit is computed again, shortly before the gradient needs it, however dear;
        only random draws are kept in any case. By default what is dear to compute is kept.

    Returns
    -------
    Function
        Has the signature and the docstring of `python_function`.

    Raises
    ------
    ArgumentTypeError
        If it is no plain function: a coroutine, a generator, or not callable; if `input_signature`
        is no structure of specs, or leaves a parameter without spec and default.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def scaled(x, factor):
    ...     return x * factor + 1
    >>> scaled(tl.asarray([1.0, 2.0]), 3)
    tl.Tensor([4. 7.], shape=(2,), dtype=float64)
    >>> scaled.trace_count
    1

    Calls that must fit a spec:

    >>> @tl.function(input_signature=[tl.TensorSpec([2], "float32")])
    ... def half(x):
    ...     return x / 2
    >>> half([3, 4])
    tl.Tensor([1.5 2. ], shape=(2,), dtype=float32)

    The elements of a kernel as constants, under a name of one's own:

    >>> import numpy as np
    >>> @tl.function(name="filter", static_args="kernel", max_traces=16)
    ... def smooth(x, kernel):
    ...     return sum(float(k) * x[i : i + 2] for i, k in enumerate(kernel))
    >>> smooth(tl.asarray([1.0, 2.0, 4.0]), np.array([0.5, 0.5]))
    tl.Tensor([1.5 3. ], shape=(2,), dtype=float64)

    A step of a simulation, with fused multiply-adds:

    >>> @tl.function(fastmath=True)
    ... def fall(height, speed, seconds):
    ...     return height + speed * seconds - 4.905 * seconds * seconds
    >>> fall(tl.asarray(10.0), 0.0, 1.0)
    tl.Tensor(5.095, shape=(), dtype=float64)

    A chain of layers that keeps two of its eight intermediate results:

    >>> @tl.function(max_bytes=2 * 8 * 100)
    ... def deep(x, w):
    ...     for _ in range(9):
    ...         x = tl.tanh(w @ x)
    ...     return tl.sum(x)
    >>> tl.grad(deep)(tl.ones(100), tl.eye(100)).shape
    (100,)

    A simulation that goes back and forth between two arrays:

    >>> @tl.function(donate="field")
    ... def spread(field):
    ...     return (tl.roll(field, 1) + tl.roll(field, -1)) / 2
    >>> field = tl.asarray([0.0, 4.0, 0.0, 0.0])
    >>> for _ in range(3):
    ...     field = spread(field)
    >>> field
    tl.Tensor([2. 0. 2. 0.], shape=(4,), dtype=float64)

    Kernels that leave the other cores to others:

    >>> @tl.function(threads=1)
    ... def energy(x):
    ...     return tl.sum(x * x)
    >>> energy(tl.ones(1000)).item()
    1000.0

    Python's own meaning of `if`, where no condition is a tensor:

    >>> @tl.function(autograph=False)
    ... def relu(x, leak=0.0):
    ...     return tl.maximum(x, leak * x) if leak else tl.maximum(x, 0.0)
    >>> relu(tl.asarray([-1.0, 2.0]))
    tl.Tensor([0. 2.], shape=(2,), dtype=float64)
    """
    options = Options(
        name=name,
        input_signature=input_signature,  # type: ignore[arg-type]  # made a tuple there
        autograph=autograph,
        max_traces=max_traces,
        static_args=static_args,  # type: ignore[arg-type]  # made a tuple there
        reduce_retracing=reduce_retracing,
        fastmath=fastmath,
        max_bytes=max_bytes,
        threads=threads,
        donate=donate,  # type: ignore[arg-type]  # made a tuple there
    )
    if python_function is None:
        return lambda wrapped: compile_callable(wrapped, options)
    return compile_callable(python_function, options)  # type: ignore[no-any-return]  # a Function


def compile_callable(wrapped: Any, options: Options) -> Any:
    """A compiled function, within the descriptor that came around the Python function."""
    if isinstance(wrapped, classmethod | staticmethod):
        return type(wrapped)(compile_callable(wrapped.__func__, options))
    if isinstance(wrapped, property):
        getter = compile_callable(wrapped.fget, options)
        return type(wrapped)(getter, wrapped.fset, wrapped.fdel, wrapped.__doc__)
    follow_autoreload()
    return Function(_called(wrapped) if isinstance(wrapped, np.ufunc) else wrapped, options)


def _called(ufunc: np.ufunc) -> Callable[..., Any]:
    """A call of a ufunc with operands alone, without the options that its signature lists."""

    def call(*operands: Any) -> Any:
        return ufunc(*operands)

    call.__name__ = call.__qualname__ = ufunc.__name__
    return call
