"""The gradient tape: what records ops, and how a program says what it wants recorded.

A thread has its own open tapes; they may be closed in any order. The records themselves hang on
values (see `record`); a tape holds none of them.
"""

from __future__ import annotations

import threading
import warnings
from _thread import RLock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.backprop import TENSOR_SPACE, Unconnected, as_cotangent, imperative_grad
from tapeline.runtime.dispatch import LOST_TAPES, STATE, count_recording, watchers
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, TapeError
from tapeline.runtime.op import define_op
from tapeline.runtime.record import (
    CELLS,
    LOCK,
    Node,
    PickNode,
    TapeSet,
    forget_cell,
    live_nodes,
    new_leaf,
    open_tape_set,
    record_joint,
    release,
    remember_cell,
    tape_set,
    watch_node,
)
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor


class WatchedVariable(Protocol):
    """What a tape asks of a Variable."""

    _node: Node
    _serial: int

    @property
    def is_differentiable(self) -> bool: ...


class TapeEntry(NamedTuple):
    """One recorded op, as `export` shows it."""

    op: str
    serial: int
    """Entries are made in the order of their serials."""
    inputs: tuple[int | None, ...]
    """Serial of the entry or watched value that each input came from; None if not on a tape."""
    saved_shapes: tuple[Shape, ...]
    """Shapes of the arrays kept for the gradient."""
    saved_bytes: int


class Tape:
    """A tape without the comforts of `GradientTape`; see `push_new_tape`."""

    __slots__ = (
        "__weakref__", "_is_ended", "_is_recording", "_is_used", "_lock", "_own", "_variables",
        "persistent", "watch_accessed_variables",
    )  # fmt: skip

    persistent: bool
    watch_accessed_variables: bool
    _own: TapeSet | None
    """None until the tape records for the first time."""
    _variables: dict[int, Any] | None
    _lock: threading.RLock

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._own = self._variables = None
        self._is_recording = self._is_used = self._is_ended = False
        self._lock = RLock()

    def __del__(self) -> None:
        own = getattr(self, "_own", None)
        if own is None:
            return
        if self._is_recording:  # its thread ended meanwhile
            LOST_TAPES.append(None)
        if not self._is_used:
            release(own)

    # Recording

    def start(self) -> None:
        """Record what this thread does from now on."""
        if self._is_recording:
            raise ArgumentError("GradientTape: this tape is recording already; leave it first")
        own = self._own
        if own is None or self._is_used:
            self._own = own = open_tape_set()
            self._is_used = False
            self._variables = None
        self._is_recording = True
        count_recording(1)
        before = STATE.open
        STATE.open = (*before, self)
        if before or STATE.stopped:
            refresh_active()
        else:
            STATE.active = own

    def stop(self) -> None:
        """Record nothing more, until started again."""
        if not self._is_recording:
            raise ArgumentError("GradientTape: this tape is not recording; enter it with `with`")
        self._is_recording = False
        count_recording(-1)
        before = STATE.open
        if len(before) == 1 and before[0] is self:
            STATE.open = ()
            STATE.active = None
        else:
            STATE.open = tuple([tape for tape in before if tape is not self])
            refresh_active()

    def forget(self) -> None:
        """Lose all records, watched values and watched variables; go on recording if so now."""
        with self._lock:
            own = self._require("reset")
            release(own)
            self._own = open_tape_set()
            self._variables = None
            self._is_used = False
            if self._is_recording:
                refresh_active()

    def _require(self, what: str) -> TapeSet:
        own = self._own
        if own is None:
            raise TapeError(f"{what}: there is no tape yet; enter it first, with GradientTape() as")
        if self._is_used:
            raise TapeError(
                f"{what}: this tape was used and is not persistent, so it is no more; "
                "make it GradientTape(persistent=True), or ask for all gradients in one call"
            )
        return own

    # Watching

    def watch_tensor(self, tensor: Tensor) -> None:
        """Record what is computed from the tensor's present value."""
        own = self._require("watch") if self._own is None or self._is_used else self._own
        dtype = tensor._value.dtype
        if dtype.kind not in "fc":
            _warn_not_differentiable(dtype)
            return
        with LOCK:
            node = tensor._node
            if node is None:
                tensor._node = new_leaf(own)
            elif not node.tapes.ids:
                node.tapes = own
            elif own.ids[0] not in node.tapes.ids:
                watch_node(node, own)
            elif own.ids[0] in node.rec.ids:
                remember_cell(own.ids[0], tensor, node)
                return
        if CELLS:
            forget_cell(own.ids[0], tensor)

    def watch_variable(self, variable: WatchedVariable) -> None:
        """Record what is computed from any value of the variable."""
        own = self._require("watch")
        if not variable.is_differentiable:
            return
        if self._variables is None:
            self._variables = {}
        if variable._serial not in self._variables:
            self._variables[variable._serial] = variable
            watch_node(variable._node, own)

    def list_variables(self) -> tuple[Any, ...]:
        """The watched variables in the order in which they were created."""
        variables = self._variables or {}
        return tuple([variables[serial] for serial in sorted(variables)])

    # Walking

    def begin_walk(self) -> TapeSet:
        """Lock the tape for one gradient. A tape that is not persistent stops recording."""
        self._lock.acquire()
        try:
            own = self._require("gradient")
            if self._is_recording and not self.persistent:
                self.stop()
                self._is_ended = True
            return own
        except BaseException:
            self._lock.release()
            raise

    def end_walk(self) -> None:
        """Unlock the tape, and let go of all records unless it is persistent."""
        try:
            own = self._own
            if own is not None and not self.persistent and not self._is_used:
                self._is_used = True
                release(own)
        finally:
            self._lock.release()

    def list_entries(self) -> list[TapeEntry]:
        """What the tape holds now, oldest first."""
        if self._own is None or self._is_used:
            return []
        return [_entry(node) for node in live_nodes(self._own) if type(node) is not PickNode]


def _entry(node: Node) -> TapeEntry:
    assert node.op is not None
    arrays = [value for value in node.saved if hasattr(value, "shape")]
    sizes = [int(np.prod(value.shape)) * value.dtype.itemsize for value in arrays]
    inputs = tuple([None if p is None else _origin(p).serial for p in node.parents])
    shapes = tuple([value.shape for value in arrays])
    return TapeEntry(node.op.name, node.serial, inputs, shapes, sum(sizes))


def _origin(node: Node) -> Node:
    """The node of the op; for one output of several, that of the op they share."""
    parent = node.parents[0] if type(node) is PickNode and node.parents else None
    return node if parent is None else parent


_WARNED: set[str] = set()


def _warn_not_differentiable(dtype: Any) -> None:
    if dtype.name not in _WARNED:
        _WARNED.add(dtype.name)
        warnings.warn(
            f"watch: {dtype} tensors have no gradient, so nothing is recorded for them; "
            "watch a float tensor",
            stacklevel=4,
        )


def refresh_active() -> None:
    """Bring this thread's active set in line with its open tapes."""
    if STATE.stopped or not STATE.open:
        STATE.active = None
    else:
        STATE.active = tape_set(tuple(sorted([i for tape in STATE.open for i in tape._own.ids])))


# Functions on tapes


def push_new_tape(persistent: bool = False, watch_accessed_variables: bool = True) -> Tape:
    """A new tape that records what this thread does from now on.

    Parameters
    ----------
    persistent : bool
        Whether it can be used for more than one gradient.
    watch_accessed_variables : bool
        Whether reading a trainable variable watches it.
    """
    tape = Tape(persistent, watch_accessed_variables)
    tape.start()
    return tape


def pop_tape(tape: Tape) -> None:
    """Stop the recording of `tape`; it need not be the last one pushed."""
    if not tape._is_recording or tape not in STATE.open:
        raise TapeError("pop_tape: this tape is not recording in this thread")
    tape.stop()


def watch(tape: Tape, tensor: Any) -> None:
    """Let `tape` record what is computed from a tensor or variable.

    Raises
    ------
    ArgumentError
        (a ValueError) if it is neither.
    """
    if type(tensor) is Tensor:
        tape.watch_tensor(tensor)
    elif hasattr(tensor, "is_differentiable"):
        if not tensor.is_differentiable:
            _warn_not_differentiable(tensor.dtype)
        tape.watch_variable(tensor)
    else:
        raise ArgumentError(
            f"watch: expected a tensor or a Variable, got {type(tensor).__name__}; "
            "convert with tl.asarray first"
        )


def watched_variables(tape: Tape) -> tuple[Any, ...]:
    """The variables that `tape` watches, in the order in which they were created."""
    return tape.list_variables()


def could_possibly_record() -> bool:
    """Whether a tape of this thread records now."""
    return STATE.active is not None


@contextmanager
def stop_recording() -> Iterator[None]:
    """A block of this thread that no tape records."""
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
    """
    active = STATE.active
    if active is None:
        return
    parents, tapes = watchers(inputs, active)
    if tapes is None:
        return

    def run_backward(cts: tuple[Any, ...], attrs: Any, needed: Any) -> list[Any]:
        parts = backward_function(*[as_cotangent(ct) for ct in cts])
        if not isinstance(parts, list | tuple):
            parts = [parts]
        if all(type(ct) is not Tensor for ct in cts):  # a walk over plain arrays
            parts = [part._value if type(part) is Tensor else part for part in parts]
        return list(parts)

    op = define_op(
        op_type, kernel=_not_callable, infer=_not_callable, n_inputs=len(inputs),
        n_outputs=len(outputs), joint_vjp=run_backward, register=False,
    )  # fmt: skip
    specs = tuple([(out.shape, out.dtype) for out in outputs])
    for out, pick in zip(outputs, record_joint(op, (), parents, (), specs, tapes), strict=True):
        if out.dtype.kind in "fc":
            out._node = pick


def _not_callable(*_: Any) -> NoReturn:
    raise TapeError("record_operation: what was recorded has a gradient but cannot run again")


class GradientTape(Tape):
    """Records ops in a `with` block, to compute gradients of what the block computed.

    Parameters
    ----------
    persistent : bool
        Whether `gradient` can be called more than once. The records are then kept until the tape is
        dropped.
    watch_accessed_variables : bool
        Whether reading a trainable Variable watches it.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x)
    tl.Tensor(6., shape=(), dtype=float64)
    """

    __slots__ = ()

    def __enter__(self) -> GradientTape:
        self._is_ended = False
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_recording:
            self.stop()
        elif self._is_ended:
            self._is_ended = False
        else:
            self.stop()  # raises

    def watch(self, tensor: Any) -> None:
        """Record what is computed from a tensor or Variable, or from all in a structure.

        Parameters
        ----------
        tensor : Tensor, Variable or structure of them
            Of a float or complex dtype; others warn once and record nothing.

        Raises
        ------
        ArgumentError
            (a ValueError) if something else is among them.
        TapeError
            (a RuntimeError) if the tape was not entered yet, or was used.
        """
        if type(tensor) is Tensor:
            self.watch_tensor(tensor)
        else:
            for leaf in nest.flatten(tensor):
                watch(self, leaf)

    def watched_variables(self) -> tuple[Any, ...]:
        """The watched variables in the order in which they were created."""
        return self.list_variables()

    def reset(self) -> None:
        """Forget everything recorded and watched so far."""
        self.forget()

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A block that this tape does not record; other tapes do."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Unconnected = "none",
    ) -> Any:
        """The gradient of the sum of the targets with respect to each source.

        Parameters
        ----------
        target : Tensor or structure of them
            What the block computed.
        sources : Tensor, Variable or structure of them
            A tensor names the value it had when it was watched, a Variable all its values.
        output_gradients : structure, optional
            One cotangent, or None for ones, per target.
        unconnected_gradients : "none" or "zero"
            What stands for the gradient of a source that no target depends on.

        Returns
        -------
        Tensor, None or structure of them
            The structure of `sources`.

        Raises
        ------
        TapeError
            (a RuntimeError) at the second call, unless the tape is persistent.
        """
        flat_sources = _flat_tensors("sources", sources)
        found = imperative_grad(
            TENSOR_SPACE, self, _flat_tensors("target", target), flat_sources,
            _flat_cotangents(target, output_gradients), unconnected_gradients,
        )  # fmt: skip
        if flat_sources is sources:
            return found if type(sources) is list else tuple(found)
        return found[0] if type(sources) is Tensor else nest.unflatten(sources, found)

    def export(self) -> list[TapeEntry]:
        """What the tape holds now, oldest first: each op with its inputs and what it keeps."""
        return self.list_entries()


def _flat_tensors(argument: str, structure: Any) -> Sequence[Any]:
    """The leaves of a structure of tensors and Variables; a plain row of tensors is returned as it
    is."""
    kind = type(structure)
    if kind is Tensor:
        return [structure]
    if kind is list or kind is tuple:
        for leaf in structure:
            if type(leaf) is not Tensor:
                break
        else:
            return structure  # type: ignore[no-any-return]  # a list or tuple
    leaves = nest.flatten(structure)
    for leaf in leaves:
        if type(leaf) is not Tensor and not hasattr(leaf, "is_differentiable"):
            raise ArgumentTypeError(
                f"gradient: {argument} must be tensors or Variables, got {type(leaf).__name__}"
            )
    return leaves


def _flat_cotangents(target: Any, given: Any) -> list[Any] | None:
    """The given cotangents in the order of the leaves of `target`."""
    if given is None:
        return None
    if nest.is_leaf(target):
        is_row = isinstance(given, list | tuple) and len(given) == 1
        if is_row and (given[0] is None or hasattr(given[0], "dtype")):
            return list(given)
    return _match_leaves(target, given)


def _match_leaves(target: Any, given: Any) -> list[Any]:
    if nest.is_leaf(target):
        return [given]
    if given is None:
        return [None] * len(nest.flatten(target))
    if isinstance(target, dict) and isinstance(given, dict) and target.keys() == given.keys():
        pairs = [(target[key], given[key]) for key in target]
    elif isinstance(given, list | tuple) and len(given) == len(nest.children(target)):
        pairs = list(zip(nest.children(target), given, strict=True))
    elif type(given) is type(target) and not isinstance(target, dict | list | tuple):
        pairs = list(zip(nest.children(target), nest.children(given), strict=True))
    else:
        raise ArgumentError(
            "gradient: output_gradients must have the structure of target, with None for ones; "
            f"{type(given).__name__} {given!r} stands where target has {type(target).__name__} of "
            f"{len(nest.children(target))}"
        )
    return [leaf for part, item in pairs for leaf in _match_leaves(part, item)]
