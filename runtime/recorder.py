"""One tape: when it records, what it watches, what it holds.

`tape` has the functions and the context manager that programs use.
"""

from __future__ import annotations

import threading
import warnings
from _thread import RLock
from typing import Any, NamedTuple, Protocol

import numpy as np

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

    is_forward = False
    """Whether tangents will be asked of it rather than gradients."""
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
            RECORDING.pop(id(self), None)
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
        RECORDING[id(self)] = None
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
        RECORDING.pop(id(self), None)
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
            warn_not_differentiable(dtype)
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
