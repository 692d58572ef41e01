"""Loops whose turns need nothing of one another, emitted so that threads share them.

Such a loop gives rows only, as `map_fn` does, or writes for each turn elements of its own: at a
place that moves with the counter. It becomes a function of a range of turns, like any kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapeline.compiler.codegen.control_loop import Carried, LoopEmitter, Owner
from tapeline.compiler.codegen.control_plan import Argument, PreparedBody, PreparedControl, body_of
from tapeline.compiler.codegen.loops import int64
from tapeline.compiler.codegen.numbers import is_number, is_put, is_take, row_put_index
from tapeline.compiler.codegen.program import ControlStep, HostStep
from tapeline.compiler.codegen.values import Value
from tapeline.compiler.ir.control_ops import LoopForm, is_loop, loop_form
from tapeline.runtime.op import get_op

MOST_STACK = 1 << 14
"""Bytes of memory for values in between; loops that need more run on one thread."""

INNER_TURNS = 16
"""How many turns a loop inside of such a loop is taken to make."""


def turns_of(made: PreparedControl) -> int | None:
    """The number of turns of a loop that threads can share; None for other ops."""
    step = made.step
    if not is_loop(step.op) or not made.bodies or made.nbytes > MOST_STACK:
        return None
    form = loop_form(step.op, step.attrs)
    turns = step.known[0] if form.first else None
    if form.test is not None or turns is None or form.reverse or turns != form.length:
        return None
    if step.outputs[0] is not None or _calls_host(body_of(made)):
        return None
    for k in range(form.n_state):
        wanted = step.outputs[form.first + k] is not None
        if is_number(form.body, form.body.placeholders[k]):
            if wanted or _pace(form, k) is None:
                return None
        elif not wanted or k not in body_of(made).body.in_place or not _is_own(form, k):
            return None
    return int(turns)


def work_of(made: PreparedControl, lines: int) -> int:
    """Roughly how many operations all turns take, from the lines of one."""
    inner = any(isinstance(step, ControlStep) for step in body_of(made).body.program.steps)
    return (turns_of(made) or 0) * lines * (INNER_TURNS if inner else 1)


def _calls_host(prepared: PreparedBody) -> bool:
    for step, kernel in zip(prepared.body.program.steps, prepared.kernels, strict=True):
        if isinstance(step, HostStep):
            return True
        if isinstance(kernel, PreparedControl) and any(map(_calls_host, kernel.bodies)):
            return True
    return False


def _pace(form: LoopForm, k: int) -> int | None:
    """By how much a number grows in each turn; None where it does not do so evenly."""
    body = form.body
    own, end = body.placeholders[k], body.outputs[k]
    if body.ops[end] is not get_op("add") or own not in body.inputs[end]:
        return None
    step = next((i for i in body.inputs[end] if i != own), own)
    constant = body.constant_value(step)
    if constant is None or constant.dtype.kind != "i" or constant.item() < 1:
        return None
    return int(constant.item())


def _is_own(form: LoopForm, k: int) -> bool:
    """Whether each turn writes one element or one entry of an array, at a counter plus a constant,
    and reads no other element of it."""
    body = form.body
    own, end = body.placeholders[k], body.outputs[k]
    if not (is_put(body, end) or row_put_index(body, end) is not None):
        return False
    if body.inputs[end][0] != own:
        return False
    row = row_put_index(body, end)
    place = _counted_place(form, body.inputs[end][1] if row is None else row)
    if place is None:
        return False
    for user, inputs in enumerate(body.inputs):
        if own not in inputs or user == end:
            continue
        if not is_take(body, user) or body.attrs[user] != (0,):
            return False
        if row is None and body.spec(own).ndim != 1:
            return False
        if _counted_place(form, inputs[1]) != place:
            return False
    return own not in body.outputs


def _counted_place(form: LoopForm, node: int) -> tuple[int, int, int] | None:
    """The counter that an index grows with, by how much, and what is added."""
    body, factor, constant = form.body, 1, 0
    counters = {body.placeholders[k]: k for k in range(form.n_state)}
    while node not in counters:
        op, inputs = body.ops[node], body.inputs[node]
        if op is get_op("check_index"):
            node = inputs[0]
            continue
        number = None if len(inputs) != 2 else body.constant_value(inputs[1])
        if number is None or number.ndim:
            return None
        if op is get_op("add"):
            constant += factor * int(number)
        elif op is get_op("multiply") and int(number) > 0:
            factor *= int(number)
        else:
            return None
        node = inputs[0]
    counter = counters[node]
    return None if _pace(form, counter) is None else (counter, factor, constant)


class ChunkEmitter(LoopEmitter):
    """Emits the turns from `%lo` to `%hi`. Arrays lie where their results are to be."""

    def __init__(
        self,
        owner: Owner,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
    ) -> None:
        super().__init__(owner, made, arguments, targets, 0)
        self.limit = Value("%hi", "i8", 1)

    def _start(self) -> Carried:
        b = self.b
        low = Value("%lo", "i8", 1)
        carried = Carried(low, {}, {}, {})
        b.least["%lo"] = 0
        b.most["%lo"] = (self.form.length or 1) - 1
        for k, argument in enumerate(self.state):
            target = self.targets[self.form.first + k]
            if target is not None:
                carried.current[k] = target
                continue
            assert argument.value is not None
            pace = _pace(self.form, k)
            assert pace is not None
            moved = b.mul(low, int64(pace)) if pace != 1 else low
            carried.numbers[k] = b.add(b.cast_code(moved, argument.value.code), argument.value)
        return carried

    def _note_counters(self, carried: Carried) -> None:
        length = self.form.length or 1
        self.b.least[carried.turn.name], self.b.most[carried.turn.name] = 0, length - 1
        for k, value in carried.numbers.items():
            initial, pace = self.state[k].value, _pace(self.form, k)
            assert initial is not None
            assert pace is not None
            least = self.b.least_of(initial)
            if least is not None and initial.is_constant:
                self.b.least[value.name] = least
                self.b.most[value.name] = least + pace * (length - 1)


def inner_copies(made: PreparedControl) -> list[tuple[int, int, int]]:
    """What has to be copied before the turns: positions among inputs and outputs, and bytes."""
    step = made.step
    form = loop_form(step.op, step.attrs)
    found = []
    for k in range(form.n_state):
        source, target = step.inputs[form.first + k], step.outputs[form.first + k]
        if source is None or target is None or source.buffer == target.buffer:
            continue
        spec = form.body.spec(form.body.placeholders[k])
        found.append((form.first + k, form.first + k, spec.nbytes))
    return found
