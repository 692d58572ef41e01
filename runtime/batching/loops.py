"""A loop over many examples at once: turns as long as any of them goes on. Those that are done keep
what they have.

In a trace it becomes one loop of the program around; eagerly it runs turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.batching.inner_tapes import record_results
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import LoopLimitError
from tapeline.runtime.ops.batch_rules import apply
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.surroundings import Surroundings
from tapeline.runtime.tensor import Tensor, adopt, new_tensor, wrap

if TYPE_CHECKING:
    from tapeline.runtime.batching.level import Level

Body = Callable[..., Sequence[Any]]

_INT64 = np.dtype(np.int64)
UNLIMITED = int(np.iinfo(np.int64).max)


class MappedLoop:
    """A loop whose state, rows and number of turns may differ between examples.

    Parameters
    ----------
    level : Level
        The `vmap` at work; the loop is made inside of it.
    test : function or None
        From the state of an example to one bool; None: all turns up to the limit are made.
    body : function
        From the state and one row of each of `xs` to the next state and rows that are kept.
    limit : Tensor, int or None
        How many turns there are at most; it may differ between examples.
    state, xs : sequence of Tensor
        Tensors of inside; the xs have `length` rows.
    reverse : bool
        Whether an example begins with row `limit - 1`.
    y_specs : sequence of TensorSpec
        What the body keeps each turn, for loops that may make none.
    """

    def __init__(
        self,
        level: Level,
        test: Body | None,
        body: Body,
        limit: Tensor | int | None,
        state: Sequence[Tensor],
        xs: Sequence[Tensor],
        length: int,
        reverse: bool,
        y_specs: Sequence[TensorSpec] = (),
    ) -> None:
        self.level = level
        self.test, self.body = test, body
        self.length, self.reverse = length, reverse
        self.y_specs = y_specs
        self.is_endless = limit is None
        self.state, self.xs = list(state), list(xs)
        self.given: list[Tensor] = []
        self.rows: list[tuple[Tensor, bool]] = []
        with level.outside():
            if isinstance(limit, Tensor):
                self.limit, self.has_limits = level.lower(limit)
            else:
                turns = UNLIMITED if limit is None else limit
                self.limit, self.has_limits = _number(turns), False
            self.top = (
                apply("max", self.limit, attrs=((0,), False)) if self.has_limits else self.limit
            )

    def run(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """How many turns each example made, its last state, and its rows, as tensors of inside."""
        level, tapes, n = self.level, STATE.active, len(self.state)
        given = [level.examples(x) for x in self.state]
        rows = [level.lower(x) for x in self.xs]
        if tapes is None or level.outer is None:
            found = self._results(given, rows)
            cells = [level.cell(x, True) for x in found]
        else:
            around = Surroundings(self.test, self.body)
            found, met = level.tensors_met(lambda: self._results(given, rows), tapes)

            def run_again(*below: Tensor) -> list[Tensor]:
                rest = below[n + len(rows) :]
                nobody = level.cell(adopt(new_tensor(np.asarray(False))), False)
                start, xs = below[:n], [(x, True) for x in below[n : n + len(rows)]]
                with (
                    level.here(), level.replacing(met, rest), level.where(nobody),
                    around.as_before(),
                ):  # fmt: skip
                    return self._results(start, xs)

            inputs = [*self.state, *self.xs, *met]
            cells = record_results(level, "loop", run_again, inputs, found)
        return cells[0], cells[1 : n + 1], cells[n + 1 :]

    def _results(
        self, given: Sequence[Tensor], rows: Sequence[tuple[Tensor, bool]]
    ) -> list[Tensor]:
        """The numbers of turns, the last state and the rows, as tensors of outside."""
        self.given = list(given)
        with self.level.outside():
            self.rows = [(_swapped(x) if mapped else x, mapped) for x, mapped in rows]
            counts = adopt(new_tensor(np.zeros(self.level.size, _INT64)))
            start = [_number(0), counts, *self.given]
            goes_on, turn = self.level.bound(self._goes_on), self.level.bound(self._turn)
            test = None if self.test is None else goes_on
            handler = STATE.handler
            if handler is None:
                last, columns = self._turn_by_turn(start, test)
            elif self.is_endless:
                last, columns = handler.stage_while(goes_on, turn, start), []
            else:
                _, last, columns = handler.stage_scan(
                    test, turn, self.top, start, [x for x, _ in self.rows], self.length,
                    self.reverse,
                )  # fmt: skip
            columns = [_swapped(column) for column in columns]
        return [*last[1 : 2 + len(self.given)], *columns]

    # ---- what the program around runs

    def _cells(self, states: Sequence[Tensor]) -> list[Tensor]:
        return [self.level.cell(x, True) for x in states]

    def _goes_on(self, turn: Tensor, counts: Tensor, *states: Tensor) -> list[Tensor]:
        """Whether any example goes on."""
        level = self.level
        assert self.test is not None
        with level.here():
            with level.inside():
                (going,) = self.test(*self._cells(states))
            return [apply("any", level.examples(going), attrs=((0,), False))]

    def _turn(self, turn: Tensor, counts: Tensor, *rest: Tensor) -> list[Tensor]:
        """One turn of all examples that go on."""
        level, n = self.level, len(self.given)
        with level.here():
            place = turn
            if self.reverse:
                place = apply("subtract", apply("subtract", self.top, _number(1)), turn)
            rows = [level.cell(x, m) for x, (_, m) in zip(rest[n:], self.rows, strict=True)]
            before = self._cells(rest[:n])
            with level.inside():
                limit = level.cell(self.limit, self.has_limits)
                active = apply("less", level.cell(place, False), limit)
                if self.test is not None:
                    (going,) = self.test(*self._cells(rest[:n]))
                    active = apply("logical_and", active, going)
                with level.where(active):
                    results = list(self.body(*self._cells(rest[:n]), *rows))
                pairs = zip(results[:n], before, strict=True)
                after = [apply("where", active, a, b) for a, b in pairs]
                one = apply("cast", active, attrs=(_INT64,))
                made = apply("add", level.cell(counts, True), one)
            found = [level.examples(x) for x in (made, *after, *results[n:])]
            return [apply("add", turn, _number(1)), *found]

    def _turn_by_turn(
        self, start: list[Tensor], test: Body | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        total = int(self.top._value)
        state, n = start, len(start)
        kept: dict[int, list[Tensor]] = {}
        made = 0
        while made < total and (test is None or bool(test(*state)[0]._value)):
            place = total - 1 - made if self.reverse else made
            rows = [apply("getitem", x, attrs=((place,),)) for x, _ in self.rows]
            results = self._turn(*[wrap(x._value, x._node) for x in state], *rows)
            state = results[:n]
            if results[n:]:
                if place >= self.length:
                    raise LoopLimitError(
                        f"vmap: a loop makes more than {self.length} turns, and there is room for "
                        "the rows of no more"
                    )
                kept[place] = results[n:]
            made += 1
        return state, self._columns(kept)

    def _columns(self, kept: dict[int, list[Tensor]]) -> list[Tensor]:
        """The rows that the turns kept, zeros where there was no turn."""
        if kept:
            like = [(x.shape, x.dtype) for x in next(iter(kept.values()))]
        else:
            size = self.level.size
            like = [((size, *spec.static_shape), spec.dtype) for spec in self.y_specs]
        columns = []
        for k, (shape, dtype) in enumerate(like):
            empty = new_tensor(np.zeros(shape, dtype))
            rows = [kept[p][k] if p in kept else empty for p in range(self.length)]
            if rows:
                columns.append(apply("stack", *rows, attrs=(0,)))
            else:
                columns.append(new_tensor(np.zeros((0, *shape), dtype)))
        return columns


def _number(value: int) -> Tensor:
    return adopt(new_tensor(np.asarray(value, _INT64)))


def _swapped(x: Tensor) -> Tensor:
    """The first two axes in the other order."""
    return apply("permute_dims", x, attrs=((1, 0, *range(2, len(x.shape))),))
