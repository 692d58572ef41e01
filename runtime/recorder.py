"""One tape: when it records, what it watches, what it holds.

`tape` has the functions and the context manager that programs use.
"""

from __future__ import annotations

import threading
import warnings
from _thread import RLock
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapeline.runtime.array_writes import warn_of_write
from tapeline.runtime.dispatch import RECORDING, STATE
from tapeline.runtime.errors import ArgumentError, TapeError
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
    release,
    remember_cell,
    tape_set,
    watch_node,
)
from tapeline.runtime.spec import Shape
from tapeline.runtime.tensor import Tensor, install_conversions

install_conversions(leave=warn_of_write)
_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")
_lock, _unlock = LOCK.acquire, LOCK.release  # half the price of `with`


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

    is_forward = False
    """Whether tangents will be asked of it rather than gradients."""
    persistent: bool
    watch_accessed_variables: bool
    _own: TapeSet | None
    """None until the tape records for the first time."""
    _variables: dict[int, Any] | None
    _lock: threading.RLock
    """Held during a walk over a persistent tape."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self.persistent = persistent
        self.watch_accessed_variables = watch_accessed_variables
        self._own = self._variables = None
        self._is_recording = self._is_used = self._is_ended = False
        self._lock = RLock() if persistent else LOCK

    def __del__(self) -> None:
        try:
            own = self._own
        except AttributeError:
            return  # not made after all
        if own is None or self._is_used:
            return
        if self._is_recording:  # its thread ended meanwhile
            RECORDING.pop(own.ids[0], None)
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
        RECORDING[own.ids[0]] = None
        here = STATE.__dict__  # one look at the thread for all of it
        before = here["open"]
        if before or here["stopped"]:
            here["open"] = (*before, self)
            refresh_active()
        else:
            here["open"] = (self,)
            here["active"] = own

    def stop(self) -> None:
        """Record nothing more, until started again."""
        if not self._is_recording:
            raise ArgumentError("GradientTape: this tape is not recording; enter it with `with`")
        self._is_recording = False
        RECORDING.pop(self._own.ids[0], None)  # type: ignore[union-attr]  # it was started
        here = STATE.__dict__
        before = here["open"]
        if len(before) == 1 and before[0] is self:
            here["open"] = ()
            here["active"] = None
        else:
            here["open"] = tuple([tape for tape in before if tape is not self])
            refresh_active()

    def forget(self) -> None:
        """Lose all records, watched values and watched variables; go on recording if so now."""
        with self._lock:
            own = self._require("reset")
            (ident,) = own.ids
            release(own)
            self._own = own = open_tape_set()
            self._variables = None
            self._is_used = False
            if self._is_recording:
                RECORDING[own.ids[0]] = None
                RECORDING.pop(ident, None)
                refresh_active()

    def _require(self, what: str) -> TapeSet:
        own = self._own
        if own is None:
            raise TapeError(f"{what}: nothing is recorded yet; enter the tape first, by `with`")
        if self._is_used:
            raise TapeError(
                f"{what}: this tape was used and is not persistent, so it is no more; "
                "make it GradientTape(persistent=True), or ask for all gradients in one call"
            )
        return own

    # Watching

    def watch_tensor(self, tensor: Tensor) -> None:
        """Record what is computed from the tensor's present value."""
        own = self._own
        if own is None or self._is_used:
            own = self._require("watch")
        dtype = tensor._value.dtype
        if dtype is not _FLOAT32 and dtype is not _FLOAT64 and dtype.kind not in "fcV":
            warn_not_differentiable(dtype)
            return
        _lock()
        try:
            node = tensor._node
            if node is None:
                tensor._node = new_leaf(own)
            else:
                tapes = node.tapes
                if not tapes.ids:
                    node.tapes = own
                elif own.ids[0] not in tapes.ids:
                    watch_node(node, own)
                elif own.ids[0] in node.rec.ids:
                    remember_cell(own.ids[0], tensor, node)
                    return
        finally:
            _unlock()
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
        """Take the tape for one gradient. One that is not persistent stops recording, and no other
        walk begins; others are locked until the walk ends."""
        if self.persistent:
            self._lock.acquire()
            try:
                return self._require("gradient")
            except BaseException:
                self._lock.release()
                raise
        _lock()
        try:
            own = self._own
            if own is None or self._is_used:
                self._require("gradient")  # raises
                raise AssertionError
            self._is_used = True  # no call since the check: machine code claims without the lock
        finally:
            _unlock()
        if self._is_recording:
            self.stop()
            self._is_ended = True
        return own

    def end_walk(self, own: TapeSet) -> None:
        """Let go of all records, or unlock the tape if it is persistent."""
        if self.persistent:
            self._lock.release()
        else:
            release(own)

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


def warn_not_differentiable(dtype: Any) -> None:
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
