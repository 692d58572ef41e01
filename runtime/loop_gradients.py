"""Two other ways to differentiate a loop than to keep what each turn needs.

With *checkpoints* a loop is a loop over runs of k turns. An inner loop is run again for its
gradient, so that only the state before each run is kept.

A loop that ends at a *fixed point* of its body has a gradient that knows nothing of the way there:
the cotangents w of the solution are those that one turn leaves as they are, w = ct + w dx'/dx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.bodies import fresh
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.gradients.checkpointing import checkpoint, sources_before
from tapeline.runtime.ops.creation import ones_like, zeros_like
from tapeline.runtime.ops.extrema import max as max_along
from tapeline.runtime.ops.joining import concat, stack
from tapeline.runtime.ops.logic import logical_or
from tapeline.runtime.ops.selection import minimum
from tapeline.runtime.ops.signs import abs as absolute
from tapeline.runtime.record import next_serial
from tapeline.runtime.tape import pop_tape, push_new_tape, record_operation
from tapeline.runtime.tensor import Tensor, as_tensor, wrap

Step = Callable[..., Sequence[Tensor]]
Run = Callable[[Sequence[Tensor], Any, int], list[Tensor]]
"""`run(state, limit, length)`: the state after at most `limit` turns, which is <= `length`."""

ADJOINT_TURNS = 10_000
"""The most turns that the gradient of a fixed point takes to settle."""
_SETTLED = 4.0
"""Settled is what changes by fewer units in the last place of the largest element."""


def run_turns(
    test: Step, turn: Step, state: Sequence[Tensor], limit: Any, length: int | None
) -> list[Tensor]:
    """The state after at most `limit` turns, for which there is an upper bound `length`."""
    handler = STATE.handler
    if handler is None:
        made = 0
        leaves: Sequence[Tensor] = state
        while made != limit and bool(test(*map(fresh, leaves))[0]):
            leaves = turn(*map(fresh, leaves))
            made += 1
        return list(leaves)
    if length is None:
        return handler.stage_while(test, turn, state)
    return handler.stage_scan(test, turn, limit, state, (), length, False)[1]


def run_with_checkpoints(
    test: Step, run: Run, state: Sequence[Tensor], limit: int | None, every: int
) -> list[Tensor]:
    """The state that a loop ends with, of which checkpoints are kept every so many turns."""
    if STATE.handler is None:
        return _run_eagerly(test, run, state, limit, every)
    if limit is None:
        return STATE.handler.stage_while(test, lambda *s: run(s, every, every), state)
    count = -(-limit // every)

    def is_going(made: Tensor, *inner: Tensor) -> list[Tensor]:
        return [(made < limit) & test(*inner)[0]]

    def stretch(made: Tensor, *inner: Tensor) -> list[Tensor]:
        return [made + every, *run(inner, minimum(as_tensor(every), limit - made), every)]

    start = as_tensor(0, np.int64)
    _, last, _ = STATE.handler.stage_scan(
        is_going, stretch, count, [start, *state], (), count, False
    )
    return list(last[1:])


def _run_eagerly(
    test: Step, run: Run, state: Sequence[Tensor], limit: int | None, every: int
) -> list[Tensor]:
    made = 0
    leaves = list(state)
    while limit is None or made < limit:
        length = every if limit is None else min(every, limit - made)
        if not bool(test(*map(fresh, leaves))[0]):
            break
        leaves = checkpoint(_stretch(run, length))(*leaves)
        made += length
    return leaves


def run_rows(
    turn: Step, state: Sequence[Tensor], rows: Sequence[Tensor], count: int, reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """The state after a turn for each row, and what the turns gave besides, stacked."""
    handler = STATE.handler
    if handler is not None:
        _, last, stacked = handler.stage_scan(None, turn, count, state, rows, count, reverse)
        return list(last), list(stacked)
    n_state = len(state)
    leaves: Sequence[Tensor] = state
    kept: list[Sequence[Tensor]] = []
    for number in range(count):
        place = count - 1 - number if reverse else number
        made = turn(*map(fresh, leaves), *(x[place] for x in rows))
        leaves = made[:n_state]
        kept.append(made[n_state:])
    if reverse:
        kept.reverse()
    return list(leaves), [stack(list(column)) for column in zip(*kept, strict=True)]


def run_rows_with_checkpoints(
    turn: Step,
    state: Sequence[Tensor],
    rows: Sequence[Tensor],
    count: int,
    reverse: bool,
    every: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """The same, with the state kept every so many turns only."""
    n_state = len(state)
    stretches = count // every
    middle = stretches * every
    head = [x[:middle].reshape((stretches, every, *x.shape[1:])) for x in rows]
    tail = [x[middle:] for x in rows]

    def stretch(*leaves: Tensor) -> list[Tensor]:
        last, given = run_rows(turn, leaves[:n_state], leaves[n_state:], every, reverse)
        return [*last, *given]

    once = stretch if STATE.handler is not None else checkpoint(stretch)
    rest = count - middle
    parts: list[list[Tensor]] = []
    if reverse and rest:
        state, given = run_rows(turn, state, tail, rest, reverse)
        parts.append(given)
    if stretches:
        state, given = run_rows(once, state, head, stretches, reverse)
        parts.append([x.reshape((middle, *x.shape[2:])) for x in given])
    if rest and not reverse:
        state, given = run_rows(turn, state, tail, rest, reverse)
        parts.append(given)
    if reverse:
        parts.reverse()
    return list(state), [concat(list(column)) for column in zip(*parts, strict=True)]


def _stretch(run: Run, length: int) -> Callable[..., list[Tensor]]:
    return lambda *state: run(state, length, length)


def fixed_point(step: Step, state: Sequence[Tensor]) -> list[Tensor]:
    """The state, which `step` leaves as it is, with the gradients of the solution of that equation
    for what `step` reads. Derivatives are right to the second order in traces, to any order
    outside."""
    if not any(x.dtype.kind in "fc" for x in state):
        return list(state)
    if STATE.handler is not None:
        return STATE.handler.stage_fixed_point(step, state)
    start = next_serial()
    still = [wrap(x._value) for x in state]
    sources = sources_before(start, step(*map(fresh, still)))
    found, adjoint = attach_adjoint(step, still, sources)
    adjoint.at = list(found)
    return found


def attach_adjoint(
    step: Step, at: Sequence[Tensor], sources: Sequence[Tensor]
) -> tuple[list[Tensor], Adjoint]:
    """The values of `at` as the solution of an equation in `sources`, linearized at `at`."""
    moving = [k for k, x in enumerate(at) if x.dtype.kind in "fc"]
    found = [wrap(x._value) for x in at]
    adjoint = Adjoint(step, list(at), moving, sources)
    record_operation("fixed_point", [found[k] for k in moving], sources, adjoint)
    return found, adjoint


class Adjoint:
    """The gradient of a fixed point: from cotangents of the solution to those of the sources.

    Parameters
    ----------
    step : callable
        One turn, from the state to the state.
    at : list of Tensor
        The state at which it is linearized.
    moving : sequence of int
        Which parts of the state have gradients.
    sources : sequence of Tensor
        What `step` reads besides, as cells that a tape can watch.
    """

    def __init__(
        self, step: Step, at: list[Tensor], moving: Sequence[int], sources: Sequence[Tensor]
    ) -> None:
        self.step = step
        self.at = at
        self.moving = moving
        self.sources = sources

    def __call__(self, *cts: Tensor) -> list[Tensor | None]:
        at = [fresh(x) for x in self.at]
        return self._gradients(at, self.sources, self._settle(cts))

    def _settle(self, cts: Sequence[Tensor]) -> list[Tensor]:
        """The cotangents of the solution that a turn leaves as they are.

        The same is done with ones, and it goes on until both have settled: so the number of turns
        is right for the derivatives of the result too, also where the cotangents are zero.
        """
        count = len(cts)
        given = [*cts, *(ones_like(ct) for ct in cts)]
        start = as_tensor(0, np.int64)

        def is_going(made: Tensor, *both: Tensor) -> list[Tensor]:
            moved: Any = False
            for new, old in zip(both[: 2 * count], both[2 * count :], strict=True):
                moved = logical_or(_has_moved(new, old), moved)
            return [(made < ADJOINT_TURNS) & moved]

        def turn(made: Tensor, *both: Tensor) -> list[Tensor]:
            pulled = [*self._pull(both[:count]), *self._pull(both[count : 2 * count])]
            new = [a + b for a, b in zip(given, pulled, strict=True)]
            return [made + 1, *new, *both[: 2 * count]]

        state = [start, *given, *(zeros_like(x) for x in given)]
        return run_turns(is_going, turn, state, None, None)[1 : 1 + count]

    def _pull(self, cts: Sequence[Tensor]) -> list[Tensor]:
        """The cotangents of the state before a turn, from those after it."""
        at = [fresh(x) for x in self.at]
        found = self._gradients(at, [at[k] for k in self.moving], cts)
        return [
            zeros_like(ct) if part is None else part for ct, part in zip(cts, found, strict=True)
        ]

    def _gradients(
        self, at: Sequence[Tensor], sources: Sequence[Tensor], cts: Sequence[Tensor]
    ) -> list[Tensor | None]:
        tape = push_new_tape(watch_accessed_variables=False)
        try:
            for source in sources:
                if source.dtype.kind in "fc":
                    tape.watch_tensor(source)
            after = self.step(*at)
        finally:
            pop_tape(tape)
        targets = [after[k] for k in self.moving]
        return imperative_grad(None, tape, targets, sources, list(cts))


def _has_moved(new: Tensor, old: Tensor) -> Tensor:
    if 0 in new.shape:
        return as_tensor(False)
    unit = _SETTLED * float(np.finfo(new.dtype).eps)
    return max_along(absolute(new - old)) > unit * max_along(absolute(new))
