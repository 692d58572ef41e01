"""The variables that a block binds, and how the operators reach them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

from tapeline.compiler.frontend.capture import CapturingGraph, graph_around
from tapeline.compiler.frontend.convert.jumps import KEPT
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.runtime.batching.level import Level
from tapeline.runtime.dims import Dim
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.tensor import Tensor

Get: TypeAlias = Callable[[], tuple[Any, ...]]
Set: TypeAlias = Callable[[tuple[Any, ...]], None]

RESULT = "@rv"
"""The variable for what a function returns; a flag says whether it means anything."""


def is_flagged(name: str) -> bool:
    """Whether a flag says that a variable means anything, so that it needs no value elsewhere."""
    return name == RESULT or name.startswith(KEPT)


def shown_name(name: str) -> str:
    """A variable as its user knows it."""
    return name.split("_", 1)[1] if name.startswith(KEPT) else name


class _Undefined:
    """Stands for a variable without a value."""

    def __repr__(self) -> str:
        return "undefined"


UNDEF: Final = _Undefined()


class ListsTold(NamedTuple):
    """What the syntax of a loop's body says of lists that it appends to."""

    names: tuple[str, ...]
    is_conditional: bool
    """Whether some statement under another one appends."""
    per_round: tuple[tuple[str, int], ...]
    """How many items a round appends at most, where that is known."""


@dataclass(frozen=True, slots=True)
class State:
    """The variables of a block.

    `stops` are the flags that end a loop, `live` the variables that are read after the block.
    """

    names: tuple[str, ...]
    get: Get
    set: Set
    stops: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    appended: Callable[[], tuple[Any, ...]] | None = None
    """The lists that a loop does nothing with but append to them."""
    lists: ListsTold | None = None
    """The variables of a loop that hold lists to which it appends."""


class _Loops(threading.local):
    """The loops whose bodies are run or traced in this thread, the innermost one last; None for one
    that Python runs."""

    def __init__(self) -> None:
        self.stack: list[Any] = []

    @contextmanager
    def entered(self, loop: Any) -> Iterator[None]:
        """The loop as the innermost one."""
        self.stack.append(loop)
        try:
            yield
        finally:
            self.stack.pop()


LOOPS: Final = _Loops()


class _Pieces(threading.local):
    """What runs loops of functions that run op by op in this thread: `run(test, body, items,
    state)` says whether it did; None elsewhere."""

    run: Callable[..., bool] | None = None


PIECES: Final = _Pieces()


def in_pieces(
    test: Callable[[], Any] | None, body: Callable[..., None], items: Any, state: State
) -> bool:
    """Whether the loop was run to its end as pieces of native code."""
    run = PIECES.run
    return run is not None and STATE.handler is None and run(test, body, items, state)


def appended_lists(state: State) -> list[list[Any]]:
    """The lists that a loop does nothing with but append to them."""
    if state.appended is None:
        return []
    try:
        return [x for x in state.appended() if type(x) is list]
    except NameError:
        return []


NOTHING = State((), tuple, lambda _: None)


def tracing_graph() -> CapturingGraph | None:
    """The graph that is being traced in this thread."""
    handler = STATE.handler
    return handler if isinstance(handler, CapturingGraph) else None


def is_staging() -> bool:
    """Whether tensors may decide what runs later: in a trace, and in a `vmap` at work."""
    handler = STATE.handler
    return isinstance(handler, CapturingGraph) or type(handler) is Level


def has_fixed_sizes() -> bool:
    """Whether no size may depend on values here: in a part of a trace that becomes one node, and
    for one of many examples."""
    handler = STATE.handler
    if type(handler) is Level:
        return True
    return isinstance(handler, CapturingGraph) and handler.sizes is None


def outer_graph() -> CapturingGraph | None:
    """The graph that is being traced in this thread, perhaps around a `vmap` at work."""
    return graph_around(STATE.handler)


def is_symbolic(x: Any) -> bool:
    """Whether `x` is a tensor whose value is not to be looked at: of a trace, or one of many
    examples."""
    kind = type(x)
    if kind is bool or kind is int or kind is Dim or kind is OpenNumber:
        return False
    if getattr(kind, "is_list", False):
        return False
    is_tensor = kind is Tensor or hasattr(kind, "__tapeline_tensor__")
    return is_tensor and is_staging()


def decided(condition: Any) -> Any:
    """A condition as Python's bool, where the trace knows it; else as it is."""
    is_tensor = hasattr(type(condition), "__tapeline_tensor__")
    symbol = getattr(condition, "_value", None) if is_tensor else None
    if type(symbol) is not Symbol or symbol.shape or symbol.graph is not tracing_graph():
        return condition
    value = symbol.settled
    return condition if value is None else bool(value)


def read_cell(cell: CellType) -> Any:
    """What a closure cell holds, `UNDEF` where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNDEF


def line_of(block: Callable[..., Any]) -> str:
    """Where a block of the user's code begins, for messages."""
    if not isinstance(block, FunctionType):
        return "an expression"
    code = block.__code__
    return f"line {code.co_firstlineno} of {code.co_filename}"
