"""Loops over tensors: `while` whose test is a tensor, `for` over a tensor or a range of tensors;
and which loops become one node and which are unrolled.

A short loop of known length is unrolled. Where its rounds would take more nodes than a budget, as
in nests of short loops, the rounds that are left become one node if they can.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Any

from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    LengthChangedError,
    Surroundings,
    trace_block,
)
from tapeline.compiler.frontend.convert.carried import DriftError
from tapeline.compiler.frontend.convert.growth import growing_lists
from tapeline.compiler.frontend.convert.int_growth import overflowing
from tapeline.compiler.frontend.convert.list_loops import (
    holds_lists,
    lists_of,
    may_have_rows,
    run_with_lists,
    with_told_count,
)
from tapeline.compiler.frontend.convert.loop_result import finish
from tapeline.compiler.frontend.convert.loop_trace import Loop, nothing
from tapeline.compiler.frontend.convert.sequences import Sequence, sequence_of, short_range
from tapeline.compiler.frontend.convert.staging import choose_block
from tapeline.compiler.frontend.convert.state import (
    LOOPS,
    UNDEF,
    State,
    is_staging,
    is_symbolic,
    line_of,
    outer_graph,
    tracing_graph,
)
from tapeline.compiler.frontend.convert.unify import is_number
from tapeline.compiler.frontend.symbol import SHOWN
from tapeline.runtime.dims import is_open, is_told, present_value
from tapeline.runtime.errors import SymbolicTensorError
from tapeline.runtime.op import get_op

UNROLLED = 64
"""Loops of a known number of rounds up to this one are unrolled, as far as the budget goes."""
NODE_BUDGET = 500
"""How many nodes the rounds of an unrolled loop may add, if the loop can be one node as well."""
MOST_ATTEMPTS = 2
"""How often the rest of a loop is tried as one node: first rounds may differ from the others."""
MANY_STAGED = 8
"""So many rounds that each run under a test, after a `break`, are rather a loop with that test."""
_TRIALS = 2
"""So many rounds are looked at to see whether a loop changes tensors; the first may be special."""
MANY_UNROLLED = 1000
"""A longer loop that has to be unrolled is worth a warning."""


@dataclass(frozen=True, slots=True)
class ForStatement:
    """A `for` of the program, whatever it goes over."""

    test: Callable[[], Any] | None
    """Whether another round follows; None where a round does for each item."""
    body: Callable[[Any], None]
    """One round, with an item."""
    state: State
    what: str
    """What messages call it."""

    def around(self) -> Surroundings:
        """What a round may change, as it is now."""
        return Surroundings.around(self.state, (self.body,))


def repeat_while(
    condition: Any, test: Callable[[], Any], body: Callable[[], None], state: State
) -> None:
    """`while` over a tensor; `condition` is what the test gave just now."""
    if not LOOPS.stack:
        SHOWN.texts.clear()
    what = f"the 'while' at {line_of(body)}"

    def make() -> Loop:
        loop = Loop(state, test, body, what, source=body)
        loop.first_condition = condition
        return loop

    if holds_lists(state) and may_have_rows():
        run_with_lists(make, state, what)
        return
    loop = make()
    loop.trace()
    finish(loop)


def repeat_for(
    iterable: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
    place: Callable[..., Any] | None = None,
) -> bool:
    """`for` over a tensor or a range; False where Python is to do it. `place` is the user's code,
    if the body is not."""
    if not is_staging() or (type(iterable) is range and outer_graph() is None):
        return False
    items = short_range(iterable) or sequence_of(iterable)
    if items is None:
        return False
    if not LOOPS.stack:
        SHOWN.texts.clear()
    what = f"the 'for' at {line_of(place or body)}"
    statement = ForStatement(test, body, state, what)
    if holds_lists(state) and may_have_rows() and _run_with_lists(items, statement):
        return True
    count = items.count
    is_left_open = is_open(count) and not (items.is_explicit or is_told(count))
    if (items.is_long_range or is_left_open) and _roll_range(items, statement):
        return True
    if items.is_long_range:
        return False
    is_loop = items.is_explicit or not isinstance(count, int) or is_told(count)
    if not is_loop and count <= UNROLLED:
        _Unrolling(statement).run(items)
        return True
    loop = _traced(items, statement)
    if loop is None:
        _Unrolling(statement).run_all(items)
    else:
        finish(loop)
    return True


def _traced(items: Sequence, statement: ForStatement) -> Loop | None:
    """The loop as one node; None where a round needs the number of the round as Python's, to look
    into a list or a dict or to make a text of it, and it is known how many there are."""
    count = items.count
    is_fixed = isinstance(count, int) and not (items.is_explicit or is_told(count))
    loop = _counted(items, statement)
    before = len(SHOWN.texts)
    try:
        loop.trace()
    except DriftError as error:
        if statement.test is not None or not isinstance(count, int) or count < 2 or error.is_tensor:
            raise
        # a variable such as `last = None` has its lasting type after one round
        statement.body(items.item(0))
        loop = _counted(items.after(1), statement)
        loop.trace()
        return loop
    except Exception as error:
        is_asked = isinstance(error, SymbolicTensorError) or len(SHOWN.texts) > before
        if not (is_fixed and is_asked):
            raise
        _warn_of_copies(statement.what, count, error)
        return None
    if is_fixed and len(SHOWN.texts) > before:
        _warn_of_copies(statement.what, count, "a text is made of the number of a round")
        return None
    return None if is_fixed and _may_overflow(loop, count) else loop


def _may_overflow(loop: Loop, count: Any) -> bool:
    """Whether ints may not fit 64 bits, in a loop that Python can run instead. Others look at run
    time."""
    return type(count) is int and count <= MANY_UNROLLED and bool(overflowing(loop))


def _warn_of_copies(what: str, count: int, reason: object) -> None:
    """Warns of a long loop that has to be unrolled."""
    if present_value(count) > MANY_UNROLLED:
        warnings.warn(
            f"{what} is unrolled {present_value(count)} times, since it cannot be one loop: "
            f"{reason}",
            stacklevel=2,
        )


def _run_with_lists(items: Sequence, statement: ForStatement) -> bool:
    """Runs a loop whose lists have no place in another one: where tensors say how often it appends,
    or many rounds read what it appended; False for all others."""
    count = items.count
    is_forced = not isinstance(count, int) or _depends(items, statement)
    if not is_forced and (count <= UNROLLED or not _reads_lists(statement)):
        return False
    if not isinstance(count, int):
        items = with_told_count(items)
    make = functools.partial(_counted, items, statement, grows=False)
    told = statement.state.lists
    is_known = statement.test is None and told is not None and not told.is_conditional
    try:
        run_with_lists(make, statement.state, statement.what, items.count, is_known)
    except Exception:
        if is_forced or not items.is_long_range:
            raise
        return False
    return True


def _reads_lists(statement: ForStatement) -> bool:
    """Whether a loop does more with its lists than to append to them."""
    if statement.test is not None:
        return True
    growing = growing_lists(statement.state)
    return any(id(items) not in growing for items in lists_of(statement.state))


def _depends(items: Sequence, statement: ForStatement) -> bool:
    """Whether a tensor decides what the first round appends to a list, or whether another one
    follows it."""
    told = statement.state.lists
    if told is None or not (told.is_conditional or statement.test is not None) or items.count == 0:
        return False
    found: list[bool] = []

    def run(_: Any) -> None:
        statement.body(items.item(0))
        found.append(statement.test is not None and is_symbolic(statement.test()))

    try:
        with LOOPS.entered(None):
            growing = [id(x) for x in lists_of(statement.state)]
            trace_block(run, statement.around(), statement.what, growing=growing)
    except LengthChangedError:
        return True
    except Exception:
        return False  # the error comes again, where Python runs the loop
    return bool(found and found[0])


def unroll(
    items: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    """A `for` that Python runs."""
    what = f"the 'for' with a 'break' at {line_of(body)}"
    _Unrolling(ForStatement(test, body, state, what)).run_all(items)


class _Unrolling:
    """A `for` round by round. Once a flag that ends it is a tensor, the rest runs under tests."""

    def __init__(self, statement: ForStatement) -> None:
        self._statement = statement
        self._going: Any = True
        self._is_staged = False

    def run(self, items: Sequence) -> None:
        """All rounds; from some round on as one node, if they do not fit the budget."""
        graph: Sized = tracing_graph() or ()
        before = start = len(graph)
        failures = 0
        with LOOPS.entered(None):
            for number in range(items.count):
                if not self._round(items.item(number)):
                    return
                before, latest = len(graph), len(graph) - before
                rest = items.count - 1 - number
                if self._is_staged and rest >= MANY_STAGED:
                    self._finish_under_test(items.after(number + 1))
                    return
                if before - start + latest * rest <= NODE_BUDGET or failures == MOST_ATTEMPTS:
                    continue
                if rest > 1 and not self._is_staged:
                    if self._roll(items.after(number + 1)):
                        return
                    failures += 1

    def _finish_under_test(self, rest: Sequence) -> None:
        """The rounds that are left, if there are any, as one node if they can."""

        def finish_rounds() -> None:
            if not self._roll(rest):
                _Unrolling(self._statement).run_all(rest)

        statement = self._statement
        choose_block(self._going, finish_rounds, nothing, statement.state, statement.what)

    def _roll(self, rest: Sequence) -> bool:
        return _roll_range(rest, self._statement)

    def run_all(self, items: Iterable[Any]) -> None:
        """All rounds."""
        with LOOPS.entered(None):
            for item in items:
                if not self._round(item):
                    return

    def _round(self, item: Any) -> bool:
        """One round; False if it was the last one."""
        one = self._statement
        if self._is_staged:
            choose_block(self._going, lambda: one.body(item), nothing, one.state, one.what)
        else:
            one.body(item)
        if one.test is not None:
            self._going = one.test()
            self._is_staged = is_symbolic(self._going)
            return self._is_staged or bool(self._going)
        return True


def _counted(items: Sequence, statement: ForStatement, grows: bool = True) -> Loop:
    """The loop that counts an index up to the number of items."""
    count = items.count
    state, test, body = statement.state, statement.test, statement.body
    loop = Loop(state, test, nothing, statement.what, is_counted=True, source=body)
    loop.is_parallel = items.is_parallel
    loop.runs_once = isinstance(count, int) and count > 0
    if isinstance(count, int):
        loop.limit = count
        if test is None and grows:
            loop.growing = growing_lists(state)
        if items.of_rows is not None and test is None:
            loop.rows, loop.row_body = items.rows, _row_body(items, body)
    else:
        loop.index_test = lambda index: index < count
    loop.index_body = lambda index: body(items.item(index))
    return loop


def _row_body(items: Sequence, body: Callable[[Any], None]) -> Callable[[Any, list[Any]], None]:
    of_rows = items.of_rows
    assert of_rows is not None
    return lambda index, parts: body(of_rows(index, parts))


def _roll_range(items: Sequence, statement: ForStatement, may_be_special: bool = True) -> bool:
    """Tries to make a loop of a long range of Python numbers.

    It becomes one if one of the first rounds changes a tensor, and the body does not need the index
    as a Python number; otherwise Python runs it. Where a variable such as `last = None` has its
    lasting type after one round, Python runs that one.
    """
    around = statement.around()
    growing = growing_lists(statement.state) if statement.test is None else {}
    trial = None
    for number in range(min(present_value(items.count), _TRIALS)):
        try:
            run = functools.partial(_run_round, statement.body, items, number)
            trial = trace_block(run, around, statement.what, growing=growing)
        except Exception:
            return False  # the error comes again, where Python runs the loop
        if _changes_tensors(trial, around):
            break
    else:
        return False
    if is_open(items.count) and (trial.grown or _counts_in_python(trial, around, statement.state)):
        return False
    loop = _counted(items, statement)
    shown = len(SHOWN.texts)
    try:
        loop.trace()
    except Exception as error:
        is_special = isinstance(error, DriftError) and not error.is_tensor and may_be_special
        if is_special and statement.test is None and items.count > 1:
            statement.body(items.item(0))
            rest = items.after(1)
            if not _roll_range(rest, statement, may_be_special=False):
                _Unrolling(statement).run_all(rest)
            return True
        _warn_of_copies(statement.what, items.count, error)
        return False
    if len(SHOWN.texts) > shown or _raises_index(loop) or _may_overflow(loop, items.count):
        return False
    finish(loop)
    return True


def _run_round(body: Callable[[Any], None], items: Sequence, number: int, _: object) -> None:
    body(items.item(number))


def _changes_tensors(trial: BlockTrace, around: Surroundings) -> bool:
    """Whether a round changes a tensor."""
    return (
        bool(trial.cells or trial.slots or trial.grown)
        or any(r.is_assigned for r in trial.graph.resources.values())
        or any(
            value.has_tensors and value.original is not before
            for value, before in zip(trial.values, around.before, strict=True)
        )
    )


def _counts_in_python(trial: BlockTrace, around: Surroundings, state: State) -> bool:
    """Whether a round leaves a number that stays Python's behind. Python may return it, and knows
    no bounds for it, so it is to be for open sizes what it is for fixed ones."""
    for name, value, before in zip(state.names, trial.values, around.before, strict=True):
        is_left = is_number(before) or before is UNDEF
        if is_left and name in state.live and is_number(value.original):
            return True
    return False


def _raises_index(loop: Loop) -> bool:
    """Whether a round takes powers of the index, or to it, which are floats or may be too large for
    an int of the graph; not squares and cubes."""
    graph, index = loop.body_trace.graph, loop.body_inputs[0]
    of_index = {index}
    for node in range(index + 1, len(graph)):
        inputs = graph.inputs[node]
        if not inputs or any(k not in of_index and graph.constant_value(k) is None for k in inputs):
            continue
        of_index.add(node)
        if graph.ops[node] is get_op("integer_power"):
            exponent = graph.constant_value(inputs[1])
            if exponent is None or not 0 <= exponent.item() <= 3:
                return True
    return False
