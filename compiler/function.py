"""A Python function that is traced once per signature and runs as native code from then on."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from tapeline.compiler.autodiff.room import larger_room, with_room
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.compiler.codegen.native_call import (
    NativeCallable,
    NativeEntry,
    enable_native_calls,
    set_entry,
)
from tapeline.compiler.eagerly import EAGERLY
from tapeline.compiler.frontend.families import open_places
from tapeline.compiler.frontend.location import frames_of_library
from tapeline.compiler.frontend.options import Options
from tapeline.compiler.frontend.retraces import Explanation
from tapeline.compiler.frontend.signature import Call, Signature, build_matcher
from tapeline.compiler.frontend.tracebacks import users_traceback
from tapeline.compiler.staged.other_sizes import OtherSizes
from tapeline.compiler.traces import MAX_VARIANTS, Traces, takes_numbers
from tapeline.runtime import nest
from tapeline.runtime.dims import Dim, is_open_shape
from tapeline.runtime.dispatch import BUSY, STATE
from tapeline.runtime.errors import (
    ArgumentTypeError,
    DynamicShapeError,
    LoopLimitError,
    ShapeError,
    SuspendingFunctionError,
    SymbolicTensorError,
    TracingError,
)
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    from tapeline.compiler.any_rank import AnyRankFunction
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.frontend.guards import Guards
    from tapeline.compiler.inspect.breakeven import Breakeven

P = ParamSpec("P")
R = TypeVar("R")

_ENTRIES = 8
"""Signatures per function that native entries serve."""

_DEFAULTS = Options()


class Function(NativeCallable, Generic[P, R]):
    """A compiled function; see `function`.

    The first call of a signature traces and compiles, the second one adds a native entry; from then
    on such calls do not come here.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_any_rank", "_derived", "_drops", "_entry", "_has_entry",
        "_instance", "_last", "_lock", "_name", "_of_instances", "_op_by_op", "_options", "_owner",
        "_python_function", "_room", "_signature", "_slow", "_traces",
    )  # fmt: skip
    """What is its own is not in `__dict__`, which `functools.wraps` copies."""

    _slow: Any
    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        python_function: Callable[P, R],
        options: Options = _DEFAULTS,
        bound_to: tuple[Function[..., R], Any] | None = None,
    ) -> None:
        if not callable(python_function):
            raise ArgumentTypeError(
                f"function: expected a function, got {type(python_function).__name__} "
                f"{python_function!r}"
            )
        asked = (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
        if any(suspends(python_function) for suspends in asked):
            raise SuspendingFunctionError(
                f"function: {python_function!r} is a coroutine or a generator; a trace runs a "
                "function once, from start to end: use a plain function"
            )
        functools.update_wrapper(self, python_function)
        self._python_function = python_function
        self._options = options
        own_name = getattr(python_function, "__name__", type(python_function).__name__)
        self._name: str = options.name or str(own_name)
        self._owner: Function[..., R] | None = None
        self._instance: weakref.ref[Any] | None = None
        """The object whose method this is, where it is the part of `_owner` for that object."""
        self._of_instances: dict[int, tuple[weakref.ref[Any], Function[..., R]]] = {}
        if bound_to is None:
            self._signature = Signature(python_function, self._name, options)
        else:
            self._owner, instance = bound_to
            self._instance = weakref.ref(instance)
            self._signature = self._owner._signature.of_instance()
        whole: Traces | None = None if self._owner is None else self._owner._traces
        self._traces: Traces = Traces(python_function, self._name, self._signature, options, whole)
        self._lock = self._traces.lock
        self._drops = 0
        """How many traces were dropped when native entries were last made anew."""
        self._any_rank: weakref.WeakValueDictionary[Hashable, AnyRankFunction] = (
            weakref.WeakValueDictionary()
        )
        self._has_entry: dict[Hashable, bool] = {}
        self._room = 1
        """How many times the first room loops have for what gradients in traces need."""
        self._op_by_op: set[Hashable] = set()
        """Signatures that no graph can hold: their shapes depend on values."""
        self._derived: dict[str, Function[..., Any]] = {}
        self._entry: NativeEntry | None = None
        self._last: tuple[Callable[..., bool] | None, int, Any] = (None, 0, None)
        """The last trace that was called, and the quick test for calls of its signature."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """A call by way of Python; what native entries leave over."""
        try:
            return self._call_once(*args, **kwargs)
        except LoopLimitError as error:
            return self._with_more_room(error, args, kwargs)
        except Exception as error:
            error.__traceback__ = users_traceback(error.__traceback__)
            raise

    def _with_more_room(self, error: LoopLimitError, args: Any, kwargs: Any) -> Any:
        """A call in which a loop makes more turns than the gradient in the trace had room for."""
        if STATE.handler is not None:
            raise error
        last: int | None = None
        while True:
            self._room = larger_room(self._room, error, last)
            with self._lock:
                self._traces.clear()
                self._last = (None, 0, None)
                set_entry(self, None)
                self._has_entry.clear()
            try:
                return self._call_once(*args, **kwargs)
            except LoopLimitError as again:
                error, last = again, error.room

    def _call_once(self, *args: Any, **kwargs: Any) -> Any:
        if EAGERLY[0]:
            return self._python_function(*args, **kwargs)
        if BUSY[0] and STATE.handler is not None and _is_open((args, kwargs)):
            return self._inlined(args, kwargs)
        matcher, count, concrete = self._last
        if matcher is not None and not kwargs and len(args) == count and matcher(*args):
            guards = concrete.guards
            if BUSY[0] or not (guards is None or guards.hold()):
                pass  # see below
            elif concrete.is_plain:
                concrete.served[0] += 1
                return concrete.differentiable(args)[0]
            elif concrete.staged is not None:
                return self._call_staged(concrete, args, (args, kwargs))
            else:
                return concrete.call(args)
        call = self._signature.take_apart(self._signature.bind(args, kwargs))
        concrete = self._traces.valid(call)
        if concrete is None:
            if call.key in self._op_by_op:
                return self._run_op_by_op(args, kwargs)
            count = self._traces.count
            try:
                concrete = self._concrete(call)
                if self._traces.count == count and takes_numbers(concrete):
                    spelling = call.family, call.order, len(args), tuple(kwargs), id(concrete)
                    self._add_entry(concrete, call, spelling, (args, kwargs))
            except DynamicShapeError as error:
                self._note_dynamic(call.key, error)
                return self._run_op_by_op(args, kwargs)
            except Exception as error:
                if isinstance(error, SymbolicTensorError) and _knows_more(call):
                    return self._inlined(args, kwargs)
                raise error from error.__cause__
        else:
            self._traces.new_in_a_row = 0
            spelling = call.key, call.order, len(args), tuple(kwargs), id(concrete)
            if spelling not in self._has_entry:
                self._add_entry(concrete, call, spelling, (args, kwargs))
            self._last = build_matcher(call), len(call.args), concrete
        if BUSY[0]:
            _pass_on(self._python_function, concrete.guards)
        if concrete.staged is not None:
            return self._call_staged(concrete, call.tensors, (args, kwargs))
        return concrete.call(call.tensors)

    if not TYPE_CHECKING:
        __call__ = _call

    def _call_staged(
        self,
        concrete: ConcreteFunction,
        tensors: Sequence[Any],
        given: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> Any:
        """A call of a trace whose sizes depend on values; another trace takes over where it asked
        something of them that comes out differently."""
        try:
            return concrete.call(tensors)
        except OtherSizes as error:
            other: OtherSizes = error
        call = self._signature.take_apart(self._signature.bind(*given))
        while True:
            found = self._traces.for_sizes(call, other)
            self._bound_traces(call.key)
            if found.staged is None or not found.staged.goes_on(other):
                raise TracingError(
                    f"{self._name}: the trace for {other.condition} being different begins in "
                    "another way than the trace before: what the function does up to there must "
                    "not change from trace to trace"
                )
            try:
                return found.call(call.tensors, other)
            except OtherSizes as error:
                other = error

    def _bound_traces(self, key: Hashable) -> None:
        """Lets calls of a signature run op by op that asks too much of sizes that values tell."""
        if self._traces.n_by_sizes(key) >= MAX_VARIANTS and key not in self._op_by_op:
            self._op_by_op.add(key)
            self._traces.forget(key)
            self._last = (None, 0, None)
            warnings.warn(
                f"{self._name} runs op by op from now on: {MAX_VARIANTS + 1} traces differ in what "
                "its code asked of sizes that depend on values, such as the size itself. "
                f"{self._name}.explain() lists the questions",
                stacklevel=frames_of_library(),
            )

    def _note_dynamic(self, key: Hashable, error: DynamicShapeError) -> None:
        """Lets calls of a signature run op by op, since no graph can hold them."""
        if STATE.handler is not None:
            raise error  # the trace around ends as well
        self._op_by_op.add(key)
        warnings.warn(f"{self._name} runs op by op: {error}", stacklevel=frames_of_library())

    def expect_trace(self) -> None:
        """Takes the next trace for one that is meant to be, which needs no warning."""
        self._traces.new_in_a_row = 0

    def _run_op_by_op(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call without a graph of the whole."""
        if STATE.handler is not None or not self._options.autograph:
            return self._python_function(*args, **kwargs)
        from tapeline.compiler.pieces import run_op_by_op  # its pieces are such functions

        return run_op_by_op(self._python_function, args, kwargs)

    def _inlined(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call as a part of the trace that is under way and leaves sizes open: a trace of its
        own would be of no use to anybody else."""
        from tapeline.compiler.frontend.convert.operators import Operators

        args, kwargs = self._signature.arguments(args, kwargs)
        called = self._python_function
        return (Operators.call(called) if self._options.autograph else called)(*args, **kwargs)

    def _concrete(self, call: Call) -> ConcreteFunction:
        """The trace for a call, made if need be."""
        with self._lock, with_room(self._room):
            found = self._traces.find_or_trace(call)
            if self._traces.drops != self._drops:
                self._drops = self._traces.drops
                set_entry(self, None)
                self._has_entry.clear()
            return found

    def add_trace(self, call: Call, concrete: ConcreteFunction) -> None:
        """Gives the function a trace that was made elsewhere, for calls like this one."""
        self._traces.add(call, concrete)

    def find_concrete(self, call: Call) -> ConcreteFunction:
        """The trace for a call that was taken apart; one that is there need not be looked for."""
        return self._traces.valid(call) or self._concrete(call)

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
            if not native_entry_allowed() or self._options.donate:
                return
            if self._signature.leaves_out_containers(call, (*given[0], *given[1].values())):
                return
            from tapeline.compiler.native import function_entry  # loads LLVM

            entry = function_entry(concrete, call, given, self._entry)
            if entry is not None:
                set_entry(self, entry)
                self._has_entry[spelling] = True

    def derived(self, name: str, build: Callable[[Any], Callable[..., Any]]) -> Function[..., Any]:
        """A compiled function made of this one, the same at each call: `build` gives what it runs.

        So a derivative that takes several graphs becomes one."""
        with self._lock:
            found = self._derived.get(name)
            if found is None:
                whole = weakref.ref(self)  # a cycle would keep dropped functions

                def run(*args: Any) -> Any:
                    return build(whole())(*args)

                options = replace(self._options, name=f"{self._name}_{name}", autograph=False)
                options = replace(options, input_signature=None, static_args=())
                found = self._derived[name] = Function(run, options)
            return found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = self._of_instances.get(id(instance))
        function = self._bind(instance) if found is None else found[1]
        return types.MethodType(function, instance)

    def _bind(self, instance: Any) -> Function[..., R]:
        """The function with a cache of its own for the calls of one object, which it does not keep
        alive. Objects that cannot be held weakly share this one."""
        table, key = self._of_instances, id(instance)

        def forget(_: object) -> None:
            table.pop(key, None)

        with self._lock:
            found = table.get(key)
            if found is None:
                try:
                    reference = weakref.ref(instance, forget)
                except TypeError:
                    return self
                function = type(self)(self._python_function, self._options, (self, instance))
                found = table[key] = reference, function
            return found[1]

    @property
    def options(self) -> Options:
        """What was chosen when the function was made."""
        return self._options

    def __reduce__(self) -> tuple[Any, ...]:
        from tapeline.compiler.saved.pickling import reduce_function  # builds on this class

        return reduce_function(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Function[P, R]:
        from tapeline.compiler.saved.pickling import copy_function

        return copy_function(self, memo)  # type: ignore[return-value]  # of the same parameters

    def __repr__(self) -> str:
        return f"<tapeline function {self._name}: {len(self._traces)} traces>"

    # ---- functions as objects

    @property
    def python_function(self) -> Callable[P, R]:
        """The function that is traced."""
        return self._python_function

    @property
    def trace_count(self) -> int:
        """How often the function was traced; for a method of a class, for all objects together."""
        return self._traces.count

    @property
    def concrete_functions(self) -> tuple[ConcreteFunction, ...]:
        """The traces that are kept, oldest first; for a method of a class, those of all objects."""
        found = self._traces.kept()
        for _, function in list(self._of_instances.values()):
            found += function.concrete_functions
        return found

    def lasting_traces(self) -> list[ConcreteFunction]:
        """The traces that serve calls by themselves, those with open sizes in the place of their
        cases."""
        return list(self.concrete_functions)

    def experimental_get_tracing_count(self) -> int:
        """TensorFlow's name for `trace_count`."""
        return self.trace_count

    def _list_all_concrete_functions(self) -> list[ConcreteFunction]:
        """TensorFlow's name for `concrete_functions`, which programs moved from there may use."""
        return list(self.concrete_functions)

    _list_all_concrete_functions_for_serialization = _list_all_concrete_functions

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        """The specs that `input_signature` fixed; None where there are none."""
        return self._options.input_signature

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
        if not (args or kwargs):
            args = self.input_signature or ()
            if self._signature.annotations is not None and not args:
                kwargs = dict(self._signature.annotations.stand_ins())
        if self._instance is not None:
            args = self._instance(), *args
        try:
            return self._get_concrete(args, kwargs, _EXAMPLES)
        except ShapeError:
            return self._get_concrete(args, kwargs, _EXAMPLES[:1])  # sizes may have to be equal

    def _get_concrete(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], examples: Sequence[int]
    ) -> ConcreteFunction:
        """The trace for arguments with specs, for whose open sizes the examples stand."""
        specs: dict[int, TensorSpec] = {}
        stand_in = functools.partial(_stand_in, specs, examples)
        args = tuple(nest.map_structure(stand_in, value) for value in args)
        kwargs = {name: nest.map_structure(stand_in, value) for name, value in kwargs.items()}
        call = self._signature.take_apart(self._signature.bind(args, kwargs))
        call.abstract = frozenset(specs)
        call.open = call.open or open_places([specs.get(id(t)) for t in call.tensors])
        given = [specs.get(id(tensor)) for tensor in call.tensors]
        names = [None if spec is None else spec.name for spec in given]
        if any(spec is not None and spec.shape is None for spec in given):
            return self._of_any_rank(call, given)  # type: ignore[return-value]  # it acts as one
        if call.open:
            general = self._concrete(call).general
            assert general is not None
            return general.named(names)
        found = self.find_concrete(call)
        named = found.named(names)
        if named is not found and not found.depends_on_trace:
            self._traces.rename(call.key, found, named)
        return named

    def _of_any_rank(self, call: Call, given: Sequence[TensorSpec | None]) -> AnyRankFunction:
        """What stands for all traces of specs without a rank."""
        from tapeline.compiler.any_rank import AnyRankFunction  # loads the compiler

        found = [
            TensorSpec(tensor.shape, tensor.dtype) if spec is None else spec
            for tensor, spec in zip(call.tensors, given, strict=True)
        ]
        key = call.key, tuple(found)
        known = self._any_rank.get(key)
        if known is not None and not any(spec.name for spec in found):
            return known
        paths = self._signature.describe_leaves(call)
        names = [spec.name or path for spec, path in zip(found, paths, strict=True)]
        made = self._any_rank[key] = AnyRankFunction(self, call, found, names)
        return made

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
        return self._traces.explain()

    def breakeven(self) -> Breakeven:
        """After how many calls each trace has paid for tracing and compiling it, measured now.

        Each is compiled once more, without the cache on disk, and run for a tenth of a second,
        compiled and op by op in NumPy, on made-up numbers. Variables keep their values.

        Returns
        -------
        Breakeven
            A sequence with one entry per trace; prints as a table.

        Raises
        ------
        ValueError
            If it prints or checks something, for that would be noticed.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.sum(tl.exp(x) * tl.sin(x)))
        >>> y = f(tl.zeros(10_000))
        >>> len(f.breakeven())
        1
        """
        from tapeline.compiler.inspect.breakeven import Breakeven, measure_breakeven

        seconds = {record.number: record.seconds for record in self._traces.explain()}
        average = sum(seconds.values()) / max(len(seconds), 1)
        return Breakeven(
            self._name, [measure_breakeven(one, average) for one in self.concrete_functions]
        )

    def restart(self, python_function: Callable[P, R], options: Options) -> None:
        """Takes another Python function and other options, and forgets all traces."""
        with self._lock:
            set_entry(self, None)
            Function.__init__(self, python_function, options)

    def cache_clear(self) -> None:
        """Forgets all traces."""
        with self._lock:
            set_entry(self, None)
            self._has_entry.clear()
            self._last = (None, 0, None)
            self._traces.clear()
            self._op_by_op.clear()
            for _, function in list(self._of_instances.values()):
                function.cache_clear()


enable_native_calls(Function)


def _is_open(arguments: Any) -> bool:
    """Whether a size of a tensor among the arguments, or a number among them, is left open by the
    trace under way."""
    return any(
        type(leaf) is OpenNumber
        or type(leaf) is Dim
        or (type(leaf) is Tensor and is_open_shape(leaf.shape))
        for leaf in nest.flatten(arguments)
    )


def _knows_more(call: Call) -> bool:
    """Whether the trace under way knows the value of a tensor that it gives to a function, which a
    trace of the function alone does not."""
    if STATE.handler is None:
        return False
    values = [getattr(tensor, "_value", tensor) for tensor in call.tensors]
    return any(
        isinstance(value, np.ndarray) or getattr(value, "known", None) is not None
        for value in values
    )


def _pass_on(python_function: Any, guards: Guards | None) -> None:
    """Tells the trace that is under way what the function that it calls depends on."""
    reads = getattr(STATE.handler, "reads", None)
    if reads is None:
        return
    if guards is not None:
        reads.inherited.append(guards)
    if isinstance(python_function, types.FunctionType):
        reads.note_code(python_function)


_EXAMPLES = (13, 17, 19, 23)
"""Sizes that stand for open ones, by dimension, where no call says more."""


def _stand_in(specs: dict[int, TensorSpec], examples: Sequence[int], leaf: Any) -> Any:
    """A tensor of the spec, which joins `specs` by its id; anything else is itself."""
    if not isinstance(leaf, TensorSpec):
        return leaf
    shape = [
        examples[axis % len(examples)] if size is None else size
        for axis, size in enumerate(leaf.shape or ())
    ]
    made = wrap(np.broadcast_to(np.zeros((), leaf.dtype), shape))
    specs[id(made)] = leaf
    return made
