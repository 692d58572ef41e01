"""Emits one loop: rotated, numbers as phis, arrays in two buffers that take turns or in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tapeline.compiler.codegen.control_numbers import Frame
from tapeline.compiler.codegen.control_plan import (
    FEWEST_BYTES,
    LOOP_LIMIT,
    NEEDS_ROOM,
    Argument,
    PreparedBody,
    PreparedControl,
    body_of,
    test_of,
)
from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, int64
from tapeline.compiler.codegen.numbers import is_number
from tapeline.compiler.codegen.values import Value, code_of
from tapeline.compiler.codegen.vector_plan import VectorPlan, vector_plan
from tapeline.compiler.codegen.vector_turns import Numbers, VectorTurns
from tapeline.compiler.ir.control_ops import LoopForm, loop_form
from tapeline.runtime.op import get_op

UNLIMITED = (1 << 63) - 1


class Owner(Numbers, Protocol):
    """Who emits the bodies."""

    def open_frame(
        self,
        prepared: PreparedBody,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> Frame:
        """What a body knows before its first step."""
        ...

    def run_body(
        self,
        prepared: PreparedBody,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> list[Value | None]:
        """Emits a body; arrays that it gives go to `targets`, numbers are returned."""
        ...

    def require(self, condition: Value, number: Value, code: int) -> None:
        """Fails with a status where the condition does not hold."""
        ...


def copy_bytes(b: FunctionBuilder, target: str, source: str, nbytes: int) -> None:
    """Copies an array."""
    if nbytes and target != source:
        arguments = ("ptr", target), ("ptr", source), ("i64", str(nbytes)), ("i1", "false")
        call = b.raw_call("void", "llvm.memcpy.p0.p0.i64", *arguments, declare=False)
        b.parts.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        b.line(call)


def copy_to_own(b: FunctionBuilder, target: str, source: str, nbytes: int) -> None:
    """Copies a large array, unless it lies there already; smaller ones in any case."""
    if nbytes < FEWEST_BYTES or target == source:
        copy_bytes(b, target, source, nbytes)
        return
    away = b.value(f"icmp ne ptr {target}, {source}", "b1", 1)
    b.when(away, lambda: copy_bytes(b, target, source, nbytes))


@dataclass(slots=True)
class Carried:
    """What a loop carries from turn to turn."""

    turn: Value
    numbers: dict[int, Value]
    current: dict[int, str]
    """Where arrays lie, by position of the state."""
    spare: dict[int, str]
    """Where their next value goes, for those that are not written in place."""


class LoopEmitter:
    """Emits one loop."""

    def __init__(
        self,
        owner: Owner,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
        is_outermost: bool = False,
    ) -> None:
        self.owner, self.b, self.made = owner, owner.b, made
        self.is_outermost = is_outermost
        self.form: LoopForm = loop_form(made.step.op, made.step.attrs)
        self.targets = targets
        self.base = base
        self.state, self.xs, self.captures = self.form.split(arguments)
        self.limit = arguments[0].value if self.form.first else None
        if self.limit is not None and self.limit.name == str(UNLIMITED):
            self.limit = None
        self.body, self.test = body_of(made), test_of(made)
        self.counts = bool(self.form.first)
        self.again = ZERO
        """Whether there is one more turn, at the end of one."""
        self.is_guarded = False
        """Whether nothing fails if arrays lie where their results are to lie."""

    def emit(self) -> list[Value | None]:
        """The numbers that the loop gives."""
        b = self.b
        start = self._vector_turns(self._start())
        going = self._going(start)
        head, done, before = b.new_label("loop"), b.new_label("done"), b.current
        b.branch_if(going, head, done)
        b.start_block(head)
        with b.scope():
            following, latch = self._repeat(start, before)
        b.branch_if(self.again, head, done)
        b.start_block(done)
        return self._results(start, following, before, latch)

    def _repeat(self, start: Carried, before: str) -> tuple[Carried, str]:
        """Emits what is between the head and the jump back; the state then, and the last block."""
        b = self.b
        turn = b.open_phi(start.turn, before) if self.counts else None
        numbers = {k: b.open_phi(x, before) for k, x in start.numbers.items()}
        swapped = {
            k: (self._open_pointer(start.current[k], before), self._open_pointer(x, before))
            for k, x in start.spare.items()
        }
        carried = Carried(
            ZERO if turn is None else turn.value,
            {k: phi.value for k, phi in numbers.items()},
            {**start.current, **{k: phi[0] for k, (phi, _) in swapped.items()}},
            {k: phi[0] for k, (_, phi) in swapped.items()},
        )
        self._note_counters(carried)
        following = self._turn(carried)
        self.again = self._going(following)
        latch = b.current
        if turn is not None:
            b.close_phi(turn, (following.turn, latch))
        for k, phi in numbers.items():
            b.close_phi(phi, (following.numbers[k], latch))
        for k, (now, other) in swapped.items():
            self._close_pointer(now, following.current[k], latch)
            self._close_pointer(other, following.spare[k], latch)
        return following, latch

    def _note_counters(self, carried: Carried) -> None:
        """Notes where the numbers begin that only grow, and where they end."""
        graph = self.form.body
        last = None
        if self.limit is not None and self.limit.is_constant:
            last = int(self.limit.name) - 1
        if carried.turn.name.startswith("%"):
            self.b.least[carried.turn.name] = 0
        for k, value in carried.numbers.items():
            initial = self.state[k].value
            assert initial is not None
            least = self.b.least_of(initial) if value.code[0] == "i" else None
            if least is None:
                continue
            own, end = graph.placeholders[k], graph.outputs[k]
            if graph.ops[end] is not get_op("add") or own not in graph.inputs[end]:
                continue
            step = next((i for i in graph.inputs[end] if i != own), own)
            constant = graph.constant_value(step)
            if constant is not None and constant.item() >= 0:
                self.b.least[value.name] = least
                if initial.is_constant and last is not None:
                    self.b.most[value.name] = least + constant.item() * last

    def _vector_turns(self, start: Carried) -> Carried:
        """Makes the first turns in vectors, where that is possible; the state after them."""
        plan = vector_plan(self.form, self.body.body)
        if plan is None:
            return start
        b = self.b
        arguments, base = self._arguments(start), self.base + self.made.body_offset
        targets = [start.current.get(k) for k in range(self.form.n_state)]
        frame = self.owner.open_frame(self.body, [*arguments, *self.captures], targets, base)
        turns = self._turns_left(plan, start)
        made = VectorTurns(self.owner, plan, self.form, frame)
        count = made.count(turns)
        if self.is_outermost:
            self._require_room(b.compare("lt", count, turns))
        made.emit(count)
        numbers = {
            k: b.add(x, b.mul(count, int64(plan.counters[k]))) for k, x in start.numbers.items()
        }
        return Carried(b.add(start.turn, count), numbers, start.current, start.spare)

    def _require_room(self, may_fail: Value) -> None:
        """Ends the function where turns that may fail would write over what it was given."""
        b = self.b
        for k in self.body.body.in_place:
            source, target = self._source(k), self.targets[self.form.first + k]
            if target is not None and source != target:
                shared = b.value(f"icmp eq ptr {source}, {target}", "b1", 1)
                self.owner.require(b.bit_not(b.bit_and(shared, may_fail)), ZERO, NEEDS_ROOM)
        self.is_guarded = True

    def _turns_left(self, plan: VectorPlan, start: Carried) -> Value:
        """How many turns the loop makes from here on; it may be negative."""
        b = self.b
        turns = None if self.limit is None else b.sub(self.limit, start.turn)
        if plan.limit is not None:
            assert self.test is not None
            position, node = plan.limit
            given = [*self._arguments(start), *self.captures]
            frame = self.owner.open_frame(self.test, given, [None], self.base)
            end = self.owner.number(frame, node)
            left = b.intrinsic("ssub.sat", end, start.numbers[position])
            turns = left if turns is None else b.minimum(turns, left)
        assert turns is not None
        return turns

    # ---- before and after

    def _start(self) -> Carried:
        """The state before the first turn: arrays are copied to where they may be written."""
        carried = Carried(ZERO, {}, {}, {})
        for k, argument in enumerate(self.state):
            if argument.value is not None:
                carried.numbers[k] = argument.value
                continue
            nbytes = self._nbytes(k)
            offset = self.base + self.made.spare[k]
            target = self.targets[self.form.first + k]
            if target is None:
                target = self.b.pointer_offset("%arena", offset)
                offset += -(-max(nbytes, 1) // 64) * 64
            copy_to_own(self.b, target, self._source(k), nbytes)
            carried.current[k] = target
            if k not in self.body.body.in_place:
                carried.spare[k] = self.b.pointer_offset("%arena", offset)
        return carried

    def _source(self, k: int) -> str:
        """Where an array of the state lies before the loop."""
        pointer, placed = self.state[k].pointer, self.made.step.inputs[self.form.first + k]
        assert pointer is not None
        assert placed is not None
        return self.b.pointer_offset(pointer, placed.layout.offset)

    def _nbytes(self, k: int) -> int:
        graph = self.form.body
        return graph.spec(graph.placeholders[k]).nbytes

    def _results(self, start: Carried, end: Carried, before: str, latch: str) -> list[Value | None]:
        b = self.b
        results: list[Value | None] = []
        if self.counts:
            results.append(b.phi((start.turn, before), (end.turn, latch)))
        for k in range(self.form.n_state):
            if k in start.numbers:
                pair = (start.numbers[k], before), (end.numbers[k], latch)
                results.append(b.phi(*pair))
            else:
                results.append(None)
        last = {
            k: b.assign(
                f"phi ptr [ {start.current[k]}, %{before} ], [ {end.current[k]}, %{latch} ]"
            )
            for k in start.spare
            if self.targets[self.form.first + k] is not None
        }
        for k, pointer in last.items():
            self._bring_home(start.current[k], pointer, self._nbytes(k))
        return [*results, *([None] * self.form.n_ys)]

    def _bring_home(self, target: str, source: str, nbytes: int) -> None:
        """Copies a result that ended up in the other buffer."""
        b = self.b
        away, home = b.new_label("away"), b.new_label("home")
        moved = b.value(f"icmp ne ptr {target}, {source}", "b1", 1)
        b.branch_if(moved, away, home)
        b.start_block(away)
        copy_bytes(self.b, target, source, nbytes)
        b.branch(home)
        b.start_block(home)

    def _open_pointer(self, initial: str, block: str) -> tuple[str, int, str]:
        name = self.b.new_name()
        self.b.lines.append("")
        return name, len(self.b.lines) - 1, f"[ {initial}, %{block} ]"

    def _close_pointer(self, phi: tuple[str, int, str], end: str, block: str) -> None:
        name, line, first = phi
        self.b.lines[line] = f"  {name} = phi ptr {first}, [ {end}, %{block} ]"

    # ---- one turn

    def _going(self, carried: Carried) -> Value:
        """Whether there is one more turn."""
        b = self.b
        within = None if self.limit is None else b.compare("lt", carried.turn, self.limit)
        if self.test is None:
            assert within is not None
            return within
        if within is None:
            return self._test(carried)
        ask, known, before = b.new_label("ask"), b.new_label("known"), b.current
        b.branch_if(within, ask, known)
        b.start_block(ask)
        with b.scope():
            answer = self._test(carried)
        after = b.current
        b.branch(known)
        b.start_block(known)
        return b.phi((b.fixed(False, "b1"), before), (answer, after))

    def _test(self, carried: Carried) -> Value:
        assert self.test is not None
        arguments = [*self._arguments(carried), *self.captures]
        base = self.base + self.made.body_offset
        (answer,) = self.owner.run_body(self.test, arguments, [None], base)
        assert answer is not None
        return answer

    def _arguments(self, carried: Carried) -> list[Argument]:
        return [
            Argument(carried.numbers.get(k), carried.current.get(k))
            for k in range(self.form.n_state)
        ]

    def _turn(self, carried: Carried) -> Carried:
        b, form = self.b, self.form
        row = carried.turn
        if form.reverse:
            assert self.limit is not None
            row = b.sub(b.sub(self.limit, ONE), carried.turn)
        if form.n_ys or form.n_xs:
            self._check_room(row)
        arguments = self._arguments(carried)
        arguments += [self._row(k, x, row) for k, x in enumerate(self.xs)]
        targets: list[str | None] = [
            carried.current[k] if k in self.body.body.in_place else carried.spare.get(k)
            for k in range(form.n_state)
        ]
        targets += [self._row_target(k, row) for k in range(form.n_ys)]
        base = self.base + self.made.body_offset
        values = self.owner.run_body(self.body, [*arguments, *self.captures], targets, base)
        for target, value in zip(targets[form.n_state :], values[form.n_state :], strict=True):
            if value is not None and target is not None:
                b.store(value, target)
        following = Carried(carried.turn, {}, dict(carried.current), dict(carried.spare))
        for k in carried.numbers:
            value = values[k]
            assert value is not None
            following.numbers[k] = value
        for k in carried.spare:
            following.current[k], following.spare[k] = carried.spare[k], carried.current[k]
        if self.counts:
            step = b.value(f"add nsw i64 {carried.turn.name}, 1", "i8", 1)
            following.turn = b.hidden(step)
        return following

    def _check_room(self, row: Value) -> None:
        """Fails where there are more turns than rows."""
        length = self.form.length
        assert length is not None
        limit = self.limit
        if self.test is None or (limit is not None and limit.name == str(length)):
            return
        fits = self.b.compare("lt", row, int64(length))
        self.owner.require(fits, int64(length), LOOP_LIMIT)

    def _row(self, k: int, x: Argument, row: Value) -> Argument:
        placed = self.made.step.inputs[self.form.first + self.form.n_state + k]
        assert placed is not None
        assert x.pointer is not None
        b = self.b
        start = b.pointer_offset(x.pointer, placed.layout.offset)
        where = b.pointer_offset(start, b.mul(row, int64(placed.layout.strides[0])))
        node = self.form.body.placeholders[self.form.n_state + k]
        if not is_number(self.form.body, node):
            return Argument(None, where)
        return Argument(b.load(where, code_of(placed.spec.dtype)), where)

    def _row_target(self, k: int, row: Value) -> str | None:
        target = self.targets[self.form.first + self.form.n_state + k]
        node = self.form.body.outputs[self.form.n_state + k]
        nbytes = self.form.body.spec(node).nbytes
        if target is None:
            if is_number(self.form.body, node):
                return None
            return self.b.stack("i8", nbytes or 1)
        return self.b.pointer_offset(target, self.b.mul(row, int64(nbytes)))
