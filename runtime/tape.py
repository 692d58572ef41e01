"""Functions that open and close tapes, and say what is recorded.

A thread has its own open tapes; they may be closed in any order. `gradient_tape` has the context
manager that programs use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tapeline.runtime.array_walk import as_cotangent
from tapeline.runtime.dispatch import STATE, watchers
from tapeline.runtime.errors import ArgumentError, TapeError
from tapeline.runtime.op import define_op
from tapeline.runtime.record import record_joint
from tapeline.runtime.recorder import Tape, refresh_active, warn_not_differentiable
from tapeline.runtime.tensor import Tensor


def push_new_tape(persistent: bool = False, watch_accessed_variables: bool = True) -> Tape:
    """A new tape that records what this thread does from now on.

    Parameters
    ----------
    persistent : bool
        Whether it can be used for more than one gradient.
    watch_accessed_variables : bool
        Whether reading a trainable variable watches it.

    Returns
    -------
    Tape
        The tape, which is recording.

    Examples
    --------
    >>> import tapeline as tl
    >>> x, recording = tl.asarray(3.0), tl.tape.push_new_tape()
    >>> tl.tape.watch(recording, x)
    >>> y = x * x
    >>> tl.tape.pop_tape(recording)
    >>> [slope.item() for slope in tl.tape.imperative_grad(None, recording, [y], [x])]
    [6.0]
    """
    tape = Tape(persistent, watch_accessed_variables)
    tape.start()
    return tape


def pop_tape(tape: Tape) -> None:
    """Stop the recording of `tape`; it need not be the last one pushed.

    Parameters
    ----------
    tape : Tape
        A tape that is recording.

    Examples
    --------
    See `push_new_tape`:

    >>> import tapeline as tl
    >>> recording = tl.tape.push_new_tape()
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.could_possibly_record()
    False
    """
    if not tape._is_recording or tape not in STATE.open:
        raise TapeError("pop_tape: this tape is not recording in this thread")
    tape.stop()


def watch(tape: Tape, tensor: Any) -> None:
    """Let `tape` record what is computed from a tensor or variable.

    Parameters
    ----------
    tape : Tape
        The tape.
    tensor : Tensor
        What it is to follow from here on.

    Raises
    ------
    ArgumentError
        (a ValueError) if it is neither.

    Examples
    --------
    >>> import tapeline as tl
    >>> x, recording = tl.asarray(5.0), tl.tape.push_new_tape()
    >>> tl.tape.watch(recording, x)
    >>> y = 2.0 * x
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.imperative_grad(None, recording, [y], [x])[0].item()
    2.0
    """
    if type(tensor) is Tensor:
        tape.watch_tensor(tensor)
    elif hasattr(tensor, "is_differentiable"):
        if not tensor.is_differentiable:
            warn_not_differentiable(tensor.dtype)
        tape.watch_variable(tensor)
    else:
        raise ArgumentError(
            f"watch: expected a tensor or a Variable, got {type(tensor).__name__}; "
            "convert with tl.asarray first"
        )


def watched_variables(tape: Tape) -> tuple[Any, ...]:
    """The variables that `tape` watches, in the order in which they were created.

    Parameters
    ----------
    tape : Tape
        The tape.

    Returns
    -------
    tuple of Variable
        In order of creation.

    Examples
    --------
    >>> import tapeline as tl
    >>> v, recording = tl.Variable(5.0), tl.tape.push_new_tape()
    >>> y = 2.0 * v
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.watched_variables(recording)[0] is v
    True
    """
    return tape.list_variables()


def could_possibly_record() -> bool:
    """Whether a tape of this thread records now.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapeline as tl
    >>> with tl.GradientTape():
    ...     tl.tape.could_possibly_record()
    True
    """
    return STATE.active is not None


@contextmanager
def stop_recording() -> Iterator[None]:
    """A block of this thread that no tape records.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     with tl.stop_recording():
    ...         factor = x * x
    ...     y = factor * x
    >>> tape.gradient(y, x).item()
    9.0
    """
    STATE.stopped += 1
    STATE.active = None
    try:
        yield
    finally:
        STATE.stopped -= 1
        refresh_active()


@contextmanager
def hide_tapes() -> Iterator[None]:
    """A block of this thread in which only tapes record that are opened in it."""
    before, stopped = STATE.open, STATE.stopped
    STATE.open, STATE.stopped = (), 0
    STATE.active = None
    try:
        yield
    finally:
        inside = STATE.open
        STATE.open, STATE.stopped = (*before, *inside), stopped
        refresh_active()


def record_operation(
    op_type: str,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    backward_function: Callable[..., Any],
    accepts_none: bool = False,
) -> None:
    """Tell the recording tapes that `outputs` were computed from `inputs`.

    Parameters
    ----------
    op_type : str
        A name, for `export`.
    outputs, inputs : sequence of Tensor
        The outputs lose the history they had.
    backward_function : function
        Takes one cotangent per output and returns one, or None, per input.
    accepts_none : bool
        Whether it takes None for an output that nothing depends on. Otherwise, and while a function
        is traced, zeros stand for it.

    Examples
    --------
    A function of foreign code, on the tape by hand:

    >>> import numpy as np
    >>> import tapeline as tl
    >>> x = tl.asarray([1.0, 4.0])
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tl.asarray(np.sqrt(x.numpy()))
    ...     tl.tape.record_operation("sqrt", [y], [x], lambda ct: ct / (2 * y))
    >>> tape.gradient(y, x)
    tl.Tensor([0.5  0.25], shape=(2,), dtype=float64)
    """
    if STATE.handler is not None:
        staged = STATE.handler.stage_gradient(
            op_type, outputs, inputs, lambda *cts: _listed(backward_function(*cts))
        )
        for out, new in zip(outputs, staged, strict=True):
            out._value, out._node = new._value, new._node
        return
    active = STATE.active
    if active is None:
        return
    parents, tapes = watchers(inputs, active)
    if tapes is None:
        return

    def run_backward(cts: tuple[Any, ...], attrs: Any, needed: Any) -> list[Any]:
        parts = _listed(backward_function(*[as_cotangent(ct) for ct in cts]))
        if all(type(ct) is not Tensor for ct in cts):  # a walk over plain arrays
            parts = [_plain_value(part) for part in parts]
        return parts

    op = define_op(
        op_type, kernel=_not_callable, infer=_not_callable, n_inputs=len(inputs),
        n_outputs=len(outputs), joint_vjp=run_backward, accepts_none=accepts_none, register=False,
    )  # fmt: skip
    specs = tuple([(out.shape, out.dtype) for out in outputs])
    for out, pick in zip(outputs, record_joint(op, (), parents, (), specs, tapes), strict=True):
        if out.dtype.kind in "fcV":
            out._node = pick


def _listed(parts: Any) -> list[Any]:
    return list(parts) if isinstance(parts, list | tuple) else [parts]


def _plain_value(part: Any) -> Any:
    """The array of a tensor, unless something that records now may know its history."""
    if type(part) is not Tensor or (part._node is not None and STATE.active is not None):
        return part
    return part._value


def _not_callable(*_: Any) -> NoReturn:
    raise TapeError("record_operation: what was recorded has a gradient but cannot run again")
