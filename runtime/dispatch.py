"""The one door that every op call goes through: `bind`, and the handlers it may hand a call to.

Without a handler the op's NumPy kernel runs. With one (a trace, say), the handler answers with
values of its own kind. Either way the active tapes of this thread are told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np

from tapeline.runtime.donated import Donated
from tapeline.runtime.errors import LeakedTensorError, TapelineError
from tapeline.runtime.op import Attrs, Op, Trait
from tapeline.runtime.record import Node, TapeSet, join, meet, record_joint, record_one
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, new_tensor, wrap

_ndarray = np.ndarray

Body: TypeAlias = Callable[..., Sequence[Any]]
"""A branch, a loop's body or its test: tensors in, a list of tensors out."""


class Handler(Protocol):
    """Who answers op calls instead of NumPy. Values are arrays or symbols with shape and dtype."""

    def run_op(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs, /) -> Any:
        """The value of the op's output; a tuple of values if the op has `n_outputs`."""
        ...

    def value_of(self, tensor: Tensor, /) -> Any:
        """What stands for the tensor's value among the handler's own: what tapes keep of it."""
        ...

    def read_variable(self, variable: Any, /) -> Any:
        """The value that a read of the variable gives."""
        ...

    def assign_variable(self, variable: Any, value: Tensor, /) -> None:
        """Give the variable a new value."""
        ...

    def create_variable(self, value: Tensor, /) -> Any:
        """The array that a Variable made now begins with."""
        ...

    def converted(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """What to call in the place of a function of the user's."""
        ...

    def enter_gradient(self, node: Node, /) -> None:
        """What follows are the rules of this node of a tape."""
        ...

    def stage_gradient(
        self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], backward: Body, /
    ) -> list[Tensor]:
        """The values of `outputs` again, with the gradients that `backward` gives for `inputs`."""
        ...

    def stage_cond(
        self, condition: Tensor, then: Body, other: Body, operands: Sequence[Tensor], /
    ) -> list[Tensor]:
        """What the function that the condition chooses gives for the operands."""
        ...

    def stage_while(self, test: Body, body: Body, state: Sequence[Tensor], /) -> list[Tensor]:
        """The state when the test fails."""
        ...

    def stage_scan(
        self, test: Body | None, body: Body, limit: int | Tensor, state: Sequence[Tensor],
        xs: Sequence[Tensor], length: int, reverse: bool, /,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
        """The number of turns of a loop, its last state, and the rows that the turns gave."""
        ...

    def stage_fixed_point(self, step: Body, state: Sequence[Tensor], /) -> list[Tensor]:
        """A state that `step` leaves as it is, with the gradients of the solution."""
        ...


class State(threading.local):
    """What this thread is doing now."""

    handler: Handler | None
    """Who answers op calls; None is NumPy."""
    active: TapeSet | None
    """The tapes that record now."""
    open: tuple[Any, ...]
    """The open tapes in order of entry, whether they record now or not."""
    stopped: int
    """Depth of `stop_recording` blocks."""
    callbacks: tuple[Callable[..., object], ...]
    """What is shown each op after it ran."""
    sparse: bool
    """Whether the present walk takes `IndexedSlices` for cotangents of look-ups."""
    masked: bool
    """Whether a gradient rule of the present walk made exact zeros or infinities."""

    def __init__(self) -> None:
        self.handler = None
        self.active = None
        self.open = ()
        self.stopped = 0
        self.masked = self.sparse = False
        self.callbacks = ()


STATE = State()
BUSY: list[int] = [0]
"""How many handlers, and threads with callbacks, the whole process has now. While it is 0, fast
paths skip `bind`."""
RECORDING: dict[int, None] = {}
"""The ids of all tapes that record, in the whole process. While it is empty, nodes of tensors mean
nothing and reading a Variable tells no tape. Entering and leaving need no lock."""
GUARDED: list[bool] = [True]
"""Whether exact zeros win over infinities and NaN in gradients."""
GUARDING: list[int] = [0]
"""How many walks in the whole process go under that rule from their start."""
_COUNT_LOCK = threading.Lock()


def change_busy(change: int) -> None:
    """Tell how many more, or fewer, reasons there are for fast paths to step aside."""
    with _COUNT_LOCK:
        BUSY[0] += change


@contextmanager
def guarding() -> Iterator[None]:
    """A block whose gradients are guarded throughout."""
    with _COUNT_LOCK:
        GUARDING[0] += 1
    try:
        yield
    finally:
        with _COUNT_LOCK:
            GUARDING[0] -= 1


def is_guarded() -> bool:
    """Whether a gradient that a trace asks for now must be guarded from its start."""
    return GUARDING[0] > 0 or (STATE.handler is not None and STATE.masked)


def set_callbacks(callbacks: tuple[Callable[..., object], ...]) -> None:
    """Show the ops of this thread to these functions from now on."""
    with _COUNT_LOCK:
        BUSY[0] += bool(callbacks) - bool(STATE.callbacks)
    STATE.callbacks = callbacks


def set_handler(handler: Handler | None) -> Handler | None:
    """Make `handler` the one of this thread and return the former one."""
    before = STATE.handler
    change_busy((handler is not None) - (before is not None))
    STATE.handler = handler
    return before


@contextmanager
def push_handler(handler: Handler | None) -> Iterator[None]:
    """Run a block of this thread under `handler`; None goes back to NumPy for the block."""
    before = set_handler(handler)
    try:
        yield
    finally:
        set_handler(before)


def users(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that the user gave, as it is to be called here: in a trace with its control flow
    converted."""
    handler = STATE.handler
    return function if handler is None else handler.converted(function)


def bind(op: Op, inputs: Sequence[Any], attrs: Attrs = ()) -> Any:
    """Apply an op.

    Tensors give tensors (a tuple of them where the op has `n_outputs`). When all inputs are plain
    arrays the kernel runs and its result is returned as it is: gradient rules count on that.
    """
    values = []
    has_history = False
    for item in inputs:
        if type(item) is not Tensor:
            return _bind_arrays(op, inputs, attrs)
        values.append(item._value)
        if item._node is not None:
            has_history = True
    if not has_history and not BUSY[0] and op.n_outputs is None:  # nobody else wants to know
        try:
            result = op.kernel(*values, *attrs)
        except Exception:
            _explain_failure(op, values, attrs)
            raise
        return wrap(result if type(result) is _ndarray else np.asarray(result))
    handler = STATE.handler
    if handler is not None:
        results = handler.run_op(op, inputs, attrs)
    else:
        try:
            results = op.kernel(*values, *attrs)
        except Exception:
            _explain_failure(op, values, attrs)
            raise
    if handler is None and op.n_outputs is None and type(results) is not _ndarray:
        results = np.asarray(results)
    active = STATE.active
    parents: tuple[Node | None, ...] = ()
    tapes: TapeSet | None = None
    if active is not None:
        parents, tapes = watchers(inputs, active)
        if tapes is not None and handler is not None:
            values = [handler.value_of(tensor) for tensor in inputs]
    outputs = finish(op, attrs, values, results, parents, tapes)
    if STATE.callbacks:
        _call_back(op, inputs, attrs, outputs)
    return outputs


def _call_back(op: Op, inputs: Sequence[Tensor], attrs: Attrs, outputs: Any) -> None:
    """Show a use of an op to the callbacks of this thread."""
    named = dict(zip(op.attr_names, attrs, strict=False))
    results = (outputs,) if type(outputs) is Tensor else tuple(outputs)
    callbacks = STATE.callbacks
    STATE.callbacks = ()
    try:
        for callback in callbacks:
            callback(op.name, named, tuple(inputs), results)
    finally:
        STATE.callbacks = callbacks


def finish(
    op: Op,
    attrs: Attrs,
    values: Sequence[Any],
    results: Any,
    parents: tuple[Node | None, ...],
    tapes: TapeSet | None,
) -> Any:
    """The second half of `bind`: the results as tensors, known to the tapes that watch an input.

    Parameters
    ----------
    values, results : sequence
        Raw values of the inputs and of the outputs (bare if the op has one).
    parents : tuple of Node or None
        One per input.
    tapes : TapeSet or None
        The active tapes that know one of the parents.
    """
    if op.n_outputs is not None:
        return _finish_joint(op, attrs, values, results, parents, tapes)
    out = Tensor()
    out._value = results
    if tapes is not None and results.dtype.kind in "fcV" and is_recorded(op):
        out._node = record_one(op, attrs, parents, op.save(*values, results), tapes)
    else:
        out._node = None
    return out


def watchers(
    inputs: Sequence[Tensor], active: TapeSet
) -> tuple[tuple[Node | None, ...], TapeSet | None]:
    """The nodes of the inputs, and the tapes of `active` that know one of them."""
    parents = tuple([tensor._node for tensor in inputs])
    tapes: TapeSet | None = None
    for node in parents:
        if node is not None:
            known = node.tapes
            tapes = join(tapes, known if known is active else meet(known, active))
    return parents, tapes


def is_recorded(op: Op) -> bool:
    """Whether a tape keeps uses of the op: not if it states that no input has a gradient."""
    return op.joint_vjp is not None or not op.vjps or any(op.vjps)


def _finish_joint(
    op: Op,
    attrs: Attrs,
    values: Sequence[Any],
    results: Any,
    parents: tuple[Node | None, ...],
    tapes: TapeSet | None,
) -> tuple[Tensor, ...]:
    if STATE.handler is None:
        results = [r if type(r) is _ndarray else np.asarray(r) for r in results]
    outs = tuple([wrap(value) for value in results])
    if tapes is not None and is_recorded(op) and any(r.dtype.kind in "fcV" for r in results):
        specs = tuple([(r.shape, r.dtype) for r in results])
        picks = record_joint(op, attrs, parents, op.save(*values, *results), specs, tapes)
        for out, pick in zip(outs, picks, strict=True):
            if out._value.dtype.kind in "fcV":
                out._node = pick
    return outs


def _bind_arrays(op: Op, inputs: Sequence[Any], attrs: Attrs) -> Any:
    """`bind` where some input is an array: all arrays run raw, mixed ones as tensors.

    To a trace such an array is a constant: a gradient rule made it.
    """
    for item in inputs:
        if type(item) is Tensor:
            tensors = [i if type(i) is Tensor else new_tensor(np.asarray(i)) for i in inputs]
            return bind(op, tensors, attrs)
    return op.kernel(*inputs, *attrs)


def _explain_failure(op: Op, values: Sequence[Any], attrs: Attrs) -> None:
    """Say in our own words why a kernel failed, if it met a symbolic value or does not fit."""
    for value in values:
        if type(value) is Donated:
            value.refuse()
        if type(value) is not _ndarray:
            describe = getattr(value, "describe", lambda value=value: repr(value))
            raise LeakedTensorError(
                f"{op.name}: a symbolic tensor made by {describe()} was used outside of its trace. "
                "It has no value there; return it from the traced function and use what the call "
                "returns"
            )
    if op.has(Trait.SIZED):
        return  # only the kernel knows the size
    try:
        op.infer(*[spec_of(value.shape, value.dtype) for value in values], *attrs)
    except TapelineError as error:
        raise error from None
    except Exception:
        return  # what the kernel said is as good
