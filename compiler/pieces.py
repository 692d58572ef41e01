"""Loops of functions that run op by op: each is compiled by itself where it fills a `TensorArray`
of dynamic size.

No graph can hold an array whose size depends on data, so such a function runs op by op. Its loops
need not: a loop runs as native code in pieces. Within a piece the array has room for a number of
elements; where that is used up the piece ends, and the next one goes on with more. What the loop
reads and changes are the arguments and results of a piece, so tapes record it as one op.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from tapeline.compiler.frontend.convert import looping
from tapeline.compiler.frontend.convert.conversion import names_used
from tapeline.compiler.frontend.convert.entry import without_signals
from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.operators import Operators
from tapeline.compiler.frontend.convert.sequences import LONG
from tapeline.compiler.frontend.convert.state import (
    PIECES,
    UNDEF,
    State,
    outer_graph,
    read_cell,
)
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.compiler.frontend.options import Options
from tapeline.compiler.frontend.tracebacks import users_traceback
from tapeline.compiler.function import Function
from tapeline.runtime.errors import IndexOutOfRangeError
from tapeline.runtime.growing_array import WRITES, GrowingArray
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.tensor_array import TensorArray

FIRST_ROOM = 64
"""For how many elements a first piece has room, at least."""
GROWTH = 4
"""How many times larger the room of the next piece is."""
_LIMIT = 256
_MANY_TRACES = 16
_BLOCK = re.compile(r"@tl|@(then|else|test|body|get|set)\d+")


@dataclass(eq=False)
class _Loop:
    """One loop that runs now."""

    state: State
    test: Callable[[], Any] | None
    body: Callable[..., None]
    items: Any
    """What a `for` goes through: a range or a tensor; None for a `while`."""
    cells: dict[str, CellType]
    numbers: dict[str, type]
    """The variables that hold Python numbers, and their types."""
    start: int = 0
    """How many items the loop has taken."""
    numbers_after: tuple[bool, ...] = ()
    """Which variables hold Python's whole numbers, or bools, after a piece."""


class _Code:
    """The compiled pieces of one loop of a program."""

    def __init__(self) -> None:
        self.function = Function(self._piece, Options(name="loop", reduce_retracing=False))
        self.room = FIRST_ROOM
        """For how many elements there was room when the loop ended last."""
        self._calls = 0
        self._is_refused = False
        self._running = threading.local()

    @property
    def is_hopeless(self) -> bool:
        """Whether no graph can hold the loop, or each call would need one of its own, as where the
        loop calls a function that is made anew each time."""
        traces = self.function.trace_count
        return self._is_refused or (traces > _MANY_TRACES and 2 * traces > self._calls)

    def run(self, loop: _Loop, values: dict[str, Any]) -> dict[str, Any] | None:
        """The variables after a piece; None if there can be none."""
        running = self._running
        running.loop, running.has_failed = loop, False
        self._calls += 1
        self.function.expect_trace()  # for each size there is one
        items, start = loop.items, as_tensor(loop.start)
        if type(items) is range:
            items = tuple([as_tensor(x) for x in (items.start, items.step, len(items))])
        try:
            found, at, numbers = self.function(values, items, start)
        except Exception:
            if not running.has_failed:
                raise
            self._is_refused = True
            return None
        finally:
            running.loop = None
        loop.start, loop.numbers_after = int(at), numbers
        return dict(zip(loop.state.names, found, strict=True))

    def _piece(self, values: dict[str, Any], items: Any, start: Any) -> Any:
        """What is traced: the loop, on its real variables."""
        loop: _Loop = self._running.loop
        before = {name: read_cell(cell) for name, cell in loop.cells.items()}
        graph = outer_graph()
        if graph is not None and graph.reads is not None:
            for block in (loop.body, loop.test):
                if isinstance(block, FunctionType):
                    graph.reads.note_globals(block.__globals__, names_used(block.__code__)[0])
        try:
            for name, value in values.items():
                kind = loop.numbers.get(name)
                loop.cells[name].cell_contents = value if kind is None else mark_weak(value, kind)
            at = _trace(loop, items, start)
            after = loop.state.get()
            return list(after), at, tuple([_is_whole_number(value) for value in after])
        except BaseException:
            self._running.has_failed = True
            raise
        finally:
            for name, value in before.items():
                if value is UNDEF:
                    del loop.cells[name].cell_contents
                else:
                    loop.cells[name].cell_contents = value


def _trace(loop: _Loop, items: Any, start: Any) -> Any:
    """Adds the loop to the trace that is under way; the answer is the number of items taken."""
    box = [mark_weak(start, int)]
    state, body = loop.state, loop.body
    writes = WRITES[0]

    def test() -> Any:
        going = True if loop.test is None else loop.test()
        if items is not None:
            going = as_condition(box[0] < _length(items)) & as_condition(going)
        for array in _growing(state.get()):
            last = array.filled + max(1, WRITES[0] - writes)
            going = as_condition(last <= array.room) & as_condition(going)
        return going

    if items is None:
        looping.repeat_while(test(), test, body, state)
        return start

    def turn() -> None:
        body(_item(items, box[0]))
        box[0] = box[0] + 1

    def get() -> tuple[Any, ...]:
        return (*state.get(), box[0])

    def put(values: tuple[Any, ...]) -> None:
        state.set(values[:-1])
        box[0] = values[-1]

    counted = State((*state.names, "index"), get, put, state.stops, (*state.live, "index"))
    looping.repeat_while(test(), test, turn, counted)
    return box[0]


def _is_whole_number(value: Any) -> bool:
    """Whether a tensor of a trace stands for an int or a bool of Python's."""
    return type(value) is Tensor and getattr(value._value, "weak", None) in (int, bool)


def _length(items: Any) -> Any:
    return items[2] if isinstance(items, tuple) else items.shape[0]


def _item(items: Any, index: Any) -> Any:
    if isinstance(items, tuple):
        return mark_weak(items[0] + index * items[1], int)
    return items[index]


def _growing(values: tuple[Any, ...]) -> list[GrowingArray]:
    return [value for value in values if type(value) is GrowingArray]


# --- a loop in pieces -------------------------------------------------------------------------

_CODES: OrderedDict[CodeType, _Code] = OrderedDict()
_lock = threading.Lock()


def run_in_pieces(
    test: Callable[[], Any] | None, body: Callable[..., None], items: Any, state: State
) -> bool:
    """Runs a loop to its end; False where Python is to do it, from where the loop is now."""
    values = state.get()
    if not any(type(x) is TensorArray and x.dynamic_size for x in values):
        return False
    if not _is_long(items) or not isinstance(body, FunctionType):
        return False
    code = _code_of(body.__code__)
    if code.is_hopeless:
        return False
    cells = _cells_of(body, test)
    if any(name not in cells for name in state.names):
        return False
    loop = _Loop(state, test, body, items, cells, {})
    return _run(loop, code)


def _run(loop: _Loop, code: _Code) -> bool:
    """Piece after piece, each with more room than the one before."""
    room, retries = code.room, 0
    while True:
        given = _arguments(loop, room)
        if given is None:
            return _python_takes_over(loop)
        arrays = [value for value in given.values() if type(value) is GrowingArray]
        try:
            found = code.run(loop, given)
        except IndexOutOfRangeError:
            retries += 1
            if retries > 2:
                return _python_takes_over(loop)
            room = GROWTH * max(array.room for array in arrays)
            continue
        if found is None:
            return _python_takes_over(loop)
        grown = [x for x in found.values() if type(x) is GrowingArray]
        _take(loop, found)
        code.room = max(array.room for array in grown)
        if not _goes_on(loop):
            return True
        retries = 0
        room = GROWTH * code.room


def _goes_on(loop: _Loop) -> bool:
    if loop.items is not None and loop.start >= len(loop.items):
        return False
    return loop.test is None or bool(loop.test())


def _python_takes_over(loop: _Loop) -> bool:
    """The rest op by op: a `while` goes on by itself, a `for` has to be taken up where it is."""
    if loop.items is None or not loop.start:
        return False
    for number in range(loop.start, len(loop.items)):
        loop.body(loop.items[number])
        if loop.test is not None and not loop.test():
            break
    return True


def _arguments(loop: _Loop, room: int) -> dict[str, Any] | None:
    """What a piece takes: all variables that the loop knows, with room in its arrays."""
    given: dict[str, Any] = {}
    loop.numbers = {}
    for name, cell in loop.cells.items():
        value = read_cell(cell)
        if value is UNDEF:
            continue
        if name in loop.state.names:
            if type(value) is TensorArray and value.dynamic_size:
                growing = GrowingArray.of(value)
                if growing is None:
                    return None
                value = growing.with_room(max(room, _twice(growing.room)))
            elif type(value) in (bool, int, float):
                loop.numbers[name] = type(value)
                value = as_tensor(value)
        given[name] = value
    return given


def _twice(count: int) -> int:
    return 1 << (2 * count).bit_length()


def _take(loop: _Loop, found: dict[str, Any]) -> None:
    """Gives the variables their values after a piece, as Python would have left them."""
    values = []
    for name, is_number in zip(loop.state.names, loop.numbers_after, strict=True):
        value = found[name]
        if type(value) is GrowingArray:
            value = value.whole()
        values.append(value.item() if is_number else value)
    loop.state.set(tuple(values))


def _is_long(items: Any) -> bool:
    if items is None:
        return True
    if type(items) is range:
        return len(items) > LONG
    return type(items) is Tensor and items.ndim > 0 and items.shape[0] > LONG


def _code_of(code: CodeType) -> _Code:
    with _lock:
        found = _CODES.get(code)
        if found is None:
            while len(_CODES) >= _LIMIT:
                _CODES.popitem(last=False)
            found = _CODES[code] = _Code()
        return found


def _cells_of(body: FunctionType, test: Callable[[], Any] | None) -> dict[str, CellType]:
    """The variables that a loop shares with its function; blocks and operators are no matter."""
    found: dict[str, CellType] = {}
    for block in (body, test):
        if isinstance(block, FunctionType):
            found.update(zip(block.__code__.co_freevars, block.__closure__ or (), strict=True))
    return {name: cell for name, cell in found.items() if not _BLOCK.fullmatch(name)}


def run_op_by_op(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function gives whose loops run in pieces, and the rest as plain Python."""
    before, PIECES.run = PIECES.run, run_in_pieces
    try:
        return without_signals(Operators.call(function))(*args, **kwargs)
    except Exception as error:
        raise error.with_traceback(users_traceback(error.__traceback__)) from error.__cause__
    finally:
        PIECES.run = before
