"""`function`: a Python function that is traced once per signature and runs as native code from then
on."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.compiler.codegen.native_call import (
    NativeCallable,
    NativeEntry,
    enable_native_calls,
    set_entry,
)
from tapeline.compiler.frontend.location import is_library_code
from tapeline.compiler.frontend.retraces import (
    MAX_WARNINGS,
    WARN_AFTER,
    Explanation,
    TraceRecord,
    check_allowed,
    compare,
)
from tapeline.compiler.frontend.signature import Call, Signature, build_matcher
from tapeline.runtime import nest
from tapeline.runtime.dispatch import BUSY, STATE, change_busy
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import wrap

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.frontend.guards import Guards

P = ParamSpec("P")
R = TypeVar("R")


MAX_TRACES = 256
"""How many traces a function keeps, unless it is told otherwise."""
MAX_VARIANTS = 8
"""How many traces of one signature are kept that differ in what they read of the world."""
_ENTRIES = 8
"""Signatures per function that native entries serve."""


_EAGERLY: list[int] = [0]
"""How many requests to run functions eagerly are in force."""


class Function(NativeCallable, Generic[P, R]):
    """A compiled function; see `function`.

    The first call of a signature traces and compiles, the second one adds a native entry; from then
    on such calls
    do not come here.
    """

    __slots__ = ("__dict__", "__weakref__", "_entry", "_slow")

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        python_function: Callable[P, R],
        name: str | None = None,
        max_traces: int = MAX_TRACES,
        autograph: bool = True,
    ) -> None:
        if max_traces < 1:
            raise ArgumentError(f"function: max_traces must be at least 1, got {max_traces}")
        if not callable(python_function):
            raise ArgumentTypeError(
                f"function: expected a function, got {type(python_function).__name__} "
                f"{python_function!r}"
            )
        if inspect.iscoroutinefunction(python_function) or inspect.isgeneratorfunction(
            python_function
        ):
            raise ArgumentTypeError(
                f"function: {python_function!r} is a coroutine or a generator; a trace runs a "
                "function once, from start to end: use a plain function"
            )
        functools.update_wrapper(self, python_function)
        self._python_function = python_function
        self._autograph = autograph
        own_name = getattr(python_function, "__name__", type(python_function).__name__)
        self._name: str = name or str(own_name)
        self._signature = Signature(python_function, self._name)
        self._lock = threading.RLock()
        self._cache: dict[Hashable, ConcreteFunction] = {}
        self._variants: dict[Hashable, list[ConcreteFunction]] = {}
        """Further traces of a key, with other guards; the last used first."""
        self._trace_count = 0
        self._max_traces = max_traces
        self._records: list[TraceRecord] = []
        self._new_in_a_row = 0
        self._warnings = 0
        self._has_entry: dict[Hashable, bool] = {}
        self._entry: NativeEntry | None = None
        self._slow = self._call
        self._last: tuple[Callable[..., bool] | None, int, Any] = (None, 0, None)
        """The last trace that was called, and the quick test for calls of its signature."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args, **kwargs)  # type: ignore[no-any-return]

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """A call by way of Python; what native entries leave over."""
        if _EAGERLY[0]:
            return self._python_function(*args, **kwargs)
        matcher, count, concrete = self._last
        if matcher is not None and not kwargs and len(args) == count and matcher(*args):
            guards = concrete.guards
            if guards is not None and (BUSY[0] or not guards.hold()):
                pass  # see below
            elif concrete.is_plain:
                return concrete.differentiable(args)[0]
            else:
                return concrete.call(args)
        call = self._signature.take_apart(self._signature.bind(args, kwargs))
        concrete = self._valid(call.key)
        if concrete is None:
            concrete = self._concrete(call)
        else:
            self._new_in_a_row = 0
            spelling = call.key, len(args), tuple(kwargs), id(concrete)
            if spelling not in self._has_entry:
                self._add_entry(concrete, call, spelling, (args, kwargs))
            self._last = build_matcher(call), len(call.args), concrete
        if BUSY[0] and concrete.guards is not None:
            _pass_on(concrete.guards)
        return concrete.call(call.tensors)

    def _valid(self, key: Hashable) -> ConcreteFunction | None:
        """A trace for the key whose guards hold."""
        found = self._cache.get(key)
        if found is None or found.guards is None or found.guards.hold():
            return found
        for other in self._variants.get(key, ()):
            if other.guards is None or other.guards.hold():
                self._replace(key, other)
                return other
        return None

    def _replace(self, key: Hashable, concrete: ConcreteFunction) -> None:
        """Puts a trace first among those of its key, which differ in their guards."""
        with self._lock:
            before = self._cache.get(key)
            rest = [one for one in self._variants.pop(key, ()) if one is not concrete]
            if before is not None:
                rest.insert(0, before)
            if rest:
                self._variants[key] = rest[: MAX_VARIANTS - 1]
            self._cache[key] = concrete

    def _add_entry(
        self,
        concrete: ConcreteFunction,
        call: Call,
        spelling: Hashable,
        given: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        """Lets machine code serve further calls of this signature, spelled in this way, if it
        can."""
        with self._lock:
            if spelling in self._has_entry or len(self._has_entry) >= _ENTRIES:
                return
            self._has_entry[spelling] = False
            if not native_entry_allowed():
                return
            from tapeline.compiler.native import function_entry  # loads LLVM

            entry = function_entry(concrete, call, given, self._entry)
            if entry is not None:
                set_entry(self, entry)
                self._has_entry[spelling] = True

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<tapeline function {self._name}: {len(self._cache)} traces>"

    def _concrete(self, call: Call) -> ConcreteFunction:
        with self._lock:
            found = self._valid(call.key)
            if found is None:
                found = self._trace(call)
                if not found.depends_on_trace:
                    self._replace(call.key, found)
                    self._drop_oldest()
            return found

    def add_trace(self, call: Call, concrete: ConcreteFunction) -> None:
        """Gives the function a trace that was made elsewhere, for calls like this one."""
        self._replace(self._signature.take_apart(call).key, concrete)

    def _trace(self, call: Call) -> ConcreteFunction:
        record = compare(self._trace_count + 1, self._signature.describe(call), self._records)
        stale = self._cache.get(call.key)
        if stale is not None and stale.guards is not None:
            failure = stale.guards.failure()
            if failure is not None:
                record = record._replace(changes=(failure,))
        check_allowed(self._name, record)
        from tapeline.compiler.concrete import trace  # loads the compiler

        start = time.perf_counter()
        found = trace(self._python_function, self._name, self._signature, call, self._autograph)
        self._trace_count += 1
        self._records.append(record._replace(seconds=time.perf_counter() - start))
        self._warn_of_storm()
        return found

    def _warn_of_storm(self) -> None:
        """Says once or twice that every call is traced."""
        self._new_in_a_row += 1
        if self._new_in_a_row < WARN_AFTER or self._warnings >= MAX_WARNINGS:
            return
        self._warnings += 1
        self._new_in_a_row = 0
        record = self._records[-1]
        warnings.warn(
            f"{self._name} was traced in {WARN_AFTER} calls in a row, and a call that is traced is "
            f"slow. In the last one {record.reason}. To avoid it, {record.repair}; "
            f"{self._name}.explain() lists all traces",
            stacklevel=_frames_of_ours(),
        )

    def _drop_oldest(self) -> None:
        """Keeps at most `max_traces` traces: those added last."""
        while len(self._cache) > self._max_traces:
            key = next(iter(self._cache))
            del self._cache[key]
            self._variants.pop(key, None)
            set_entry(self, None)
            self._has_entry.clear()

    # ---- functions as objects

    @property
    def python_function(self) -> Callable[P, R]:
        """The function that is traced."""
        return self._python_function

    @property
    def trace_count(self) -> int:
        """How often the function was traced."""
        return self._trace_count

    @property
    def concrete_functions(self) -> tuple[ConcreteFunction, ...]:
        """The traces that are kept, oldest first."""
        return tuple(self._cache.values())

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for a signature, made if need be.

        Parameters
        ----------
        *args, **kwargs
            As for a call; a `TensorSpec` may stand for a tensor.

        Examples
        --------
        >>> import tapeline as tl
        >>> double = tl.function(lambda x: x * 2)
        >>> double.get_concrete_function(tl.TensorSpec([3], "float32")).outputs
        (TensorSpec((3,), float32),)
        """
        args = tuple(nest.map_structure(_stand_in, value) for value in args)
        kwargs = {name: nest.map_structure(_stand_in, value) for name, value in kwargs.items()}
        call = self._signature.take_apart(self._signature.bind(args, kwargs))
        return self._valid(call.key) or self._concrete(call)

    def explain(self) -> Explanation:
        """Every trace that was made, with its reason and how to avoid it.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: x * 2)
        >>> y = f(tl.asarray([1.0, 2.0])), f(tl.asarray([1.0, 2.0, 3.0]))
        >>> f.explain()[1].reason
        'x was float64[2], is float64[3]'
        """
        return Explanation(self._name, self._records)

    def cache_clear(self) -> None:
        """Forgets all traces."""
        with self._lock:
            set_entry(self, None)
            self._has_entry.clear()
            self._last = (None, 0, None)
            self._cache.clear()
            self._variants.clear()


enable_native_calls(Function)


def _pass_on(guards: Guards) -> None:
    """Tells the trace that is under way what the function that it calls depends on."""
    reads = getattr(STATE.handler, "reads", None)
    if reads is not None:
        reads.inherited.append(guards)


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
        self._before = _EAGERLY[0]
        _run_eagerly(int(on))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _run_eagerly(self._before)


def _run_eagerly(on: int) -> None:
    """Sets the switch. Native entries step aside while it is on, as they do for traces."""
    change_busy(on - _EAGERLY[0])
    _EAGERLY[0] = on


def _frames_of_ours() -> int:
    """How many frames lie between a warning and the user's line."""
    frame, depth = sys._getframe(1), 1
    while frame is not None and is_library_code(frame.f_code):
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]  # None ends the loop
    return depth


def _stand_in(leaf: Any) -> Any:
    if isinstance(leaf, TensorSpec):
        shape = leaf.static_shape
        return wrap(np.broadcast_to(np.zeros((), leaf.dtype), shape))
    return leaf


@overload
def function(python_function: Callable[P, R], /) -> Function[P, R]: ...
@overload
def function(
    *, name: str | None = ..., max_traces: int = ..., autograph: bool = ...
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    python_function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    max_traces: int = MAX_TRACES,
    autograph: bool = True,
) -> Function[P, R] | Callable[[Callable[P, R]], Function[P, R]]:
    """The function, traced into a graph once per signature and compiled.

    Calls with tensors of the same shapes and dtypes, and equal other arguments, share a trace.
    Gradient tapes
    record a call as one op.

    Parameters
    ----------
    python_function : callable
        What to compile. Use as a decorator, with or without options.
    name : str, optional
        What graphs and messages call it; the function's own name by default.
    max_traces : int
        How many traces are kept; the oldest is dropped beyond that.
    autograph : bool
        Whether `if`, `while`, `for` and their kin over tensors become part of the graph, here and
        in the functions that it calls. That needs the source; without it, or with False, a tensor
        as a condition is an error.

    Returns
    -------
    Function
        Has the signature and the docstring of `python_function`.

    Raises
    ------
    ArgumentTypeError
        If it is no plain function: a coroutine, a generator, or not callable.

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
    """
    if python_function is None:
        return lambda wrapped: Function(wrapped, name, max_traces, autograph)
    return Function(python_function, name, max_traces, autograph)
