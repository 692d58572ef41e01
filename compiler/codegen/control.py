"""Emits choices and loops as native branches and loops.

Each op of control flow in a program becomes one function `i64 name(ptr given, ptr arena)`; those
inside of its bodies are emitted in the same function. Numbers that a loop carries are phis, arrays
lie in two buffers that take turns, or in one that is written in place. Loops are rotated: the test
is emitted before the loop and at its end. The function returns the status of `run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

from tapeline.compiler.codegen.arena import ArenaPlan, plan_arena
from tapeline.compiler.codegen.bodies import is_number, is_take
from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.program import (
    Body,
    ControlStep,
    HostStep,
    Placed,
    ProgramStep,
    PutStep,
    RowStep,
    ScalarStep,
    touched,
)
from tapeline.compiler.codegen.scalar import ScalarBuilder
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.compiler.ir.control_ops import LoopForm, is_cond, loop_form
from tapeline.compiler.ir.location import Location
from tapeline.runtime.op import Pointwise, get_op

INDEX_ERROR, LOOP_LIMIT = 3, 4
"""Statuses: the low byte; above it 16 bits for the place in the program, then the index."""
SITE_SHIFT, INDEX_SHIFT = 8, 24
UNLIMITED = (1 << 63) - 1


class Steps(Protocol):
    """Who emits kernels and their calls: the assembler of the module."""

    lines: list[str]

    def prepare(self, step: ProgramStep) -> Kernel | None:
        """The kernel of a step."""
        ...

    def carry_out(
        self, step: ProgramStep, kernel: Kernel | None, pointers: dict[int, str], scratch: int
    ) -> None:
        """Adds the call of a step to `lines`."""
        ...

    def constant_symbol(self, array: Any) -> str:
        """The name of a global that holds a constant of a body."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """Where an index may be out of range."""

    axis: int
    size: int
    location: Location | None


@dataclass(slots=True)
class PreparedBody:
    """A body with the kernels of its steps and a plan of its memory."""

    body: Body
    kernels: list[Kernel | PreparedControl | None]
    arena: ArenaPlan


@dataclass(slots=True)
class PreparedControl:
    """An op of control flow with its bodies; `spare` are the offsets of second buffers for states,
    by position."""

    step: ControlStep
    bodies: list[PreparedBody]
    spare: dict[int, int] = field(default_factory=dict)
    body_offset: int = 0
    nbytes: int = 0


def prepare(step: ControlStep, steps: Steps) -> PreparedControl:
    """The kernels that a step needs, and how much memory."""
    bodies = []
    for body in step.bodies:
        kernels: list[Kernel | PreparedControl | None] = []
        scratch = []
        for inner in body.program.steps:
            if isinstance(inner, ControlStep):
                nested = prepare(inner, steps)
                kernels.append(nested)
                scratch.append(nested.nbytes)
                continue
            plain = isinstance(inner, ScalarStep | RowStep | PutStep)
            kernel = None if plain else steps.prepare(inner)
            kernels.append(kernel)
            scratch.append(kernel.scratch_bytes if kernel else 0)
        bodies.append(PreparedBody(body, kernels, plan_arena(body.program, scratch)))
    made = PreparedControl(step, bodies)
    if not is_cond(step.op):
        _plan_states(made)
    made.body_offset = made.nbytes
    made.nbytes += max(body.arena.nbytes for body in bodies)
    return made


def _plan_states(made: PreparedControl) -> None:
    """Memory for the states that are arrays: a second buffer, and a first one where nobody takes
    the result."""
    step = made.step
    form = loop_form(step.op, step.attrs)
    body = _body_of(made)
    for k in range(form.n_state):
        if is_number(form.body, form.body.placeholders[k]):
            continue
        wanted = step.outputs[form.first + k] is not None
        buffers = (0 if wanted else 1) + (0 if k in body.body.in_place else 1)
        nbytes = -(-max(form.body.spec(form.body.placeholders[k]).nbytes, 1) // 64) * 64
        made.spare[k] = made.nbytes
        made.nbytes += buffers * nbytes


def _body_of(made: PreparedControl) -> PreparedBody:
    """The body of a loop, among its test and body."""
    return made.bodies[-1] if made.step.op.attr_names == () else made.bodies[0]


def _test_of(made: PreparedControl) -> PreparedBody | None:
    if made.step.op.attr_names == ():
        return made.bodies[0]
    return made.bodies[1] if len(made.bodies) > 1 else None


class Argument(NamedTuple):
    """What a body is given: a number in a register, or a pointer, or both."""

    value: Value | None
    pointer: str | None


@dataclass(slots=True)
class Frame:
    """One run of a body, as it is emitted."""

    prepared: PreparedBody
    base: int
    """Where its memory begins in the arena."""
    values: dict[int, Value] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    """Buffers that are to hold a number when a step looks there: the number's node."""


class ControlEmitter:
    """Emits the function of one step; `emit_control` is the way in."""

    def __init__(self, target: Target, steps: Steps, sites: list[Site]) -> None:
        self.b = ScalarBuilder(target)
        self.steps = steps
        self.sites = sites
        self.failures: list[tuple[str, str, int]] = []
        self.slots = 1
        self.calls_host = False

    # ---- the function

    def emit(self, made: PreparedControl, name: str) -> str:
        """The text of the function."""
        step, b = made.step, self.b
        inputs = [
            self._given(k, placed, known)
            for k, (placed, known) in enumerate(zip(step.inputs, step.known, strict=True))
        ]
        offset = len(step.inputs)
        targets = [
            None if placed is None else self._pointer_given(offset + k)
            for k, placed in enumerate(step.outputs)
        ]
        results = self.control(made, inputs, targets, 0)
        for target, result in zip(targets, results, strict=True):
            if target is not None and result is not None:
                b.store(result, target)
        return self._finish(name)

    def _pointer_given(self, slot: int) -> str:
        place = self.b.assign(f"getelementptr i64, ptr %given, i64 {slot}")
        return self.b.assign(f"load ptr, ptr {place}, align 8")

    def _given(self, slot: int, placed: Placed | None, known: Any) -> Argument:
        assert placed is not None
        if known is not None:
            return Argument(self.b.fixed(known, code_of(placed.spec.dtype)), None)
        pointer = self._pointer_given(slot)
        if placed.spec.shape or placed.spec.dtype.kind == "c":
            return Argument(None, pointer)
        place = self.b.pointer_offset(pointer, placed.layout.offset)
        return Argument(self.b.load(place, code_of(placed.spec.dtype)), place)

    def _finish(self, name: str) -> str:
        b = self.b
        b.line("ret i64 0")
        if self.calls_host:
            b.start_block("failed")
            b.line("ret i64 1")
        if self.failures:
            b.start_block("stop")
            index = ", ".join(f"[ {value}, %{block} ]" for block, value, _ in self.failures)
            status = ", ".join(f"[ {code}, %{block} ]" for block, _, code in self.failures)
            high = b.assign(f"phi i64 {index}")
            low = b.assign(f"phi i64 {status}")
            high = b.assign(f"shl i64 {high}, {INDEX_SHIFT}")
            b.line(f"ret i64 {b.assign(f'or i64 {high}, {low}')}")
        width = 8 * b.target.vector_bytes
        return "\n".join(
            [
                f"define internal i64 @{name}(ptr noalias %given, ptr noalias %arena) nounwind "
                f'"prefer-vector-width"="{width}" {{',
                "entry:",
                f"  %A = alloca [{self.slots} x i64], align 8",
                "  %E = alloca i64, align 8",
                *b.allocas,
                *b.lines,
                "}",
                "",
            ]
        )

    # ---- a body

    def run_body(
        self,
        prepared: PreparedBody,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> list[Value | None]:
        """Emits a body; arrays that it gives go to `targets`, numbers are returned."""
        body = prepared.body
        graph, program = body.graph, body.program
        frame = Frame(prepared, base)
        for node, placed, argument in zip(
            graph.placeholders, program.inputs, arguments, strict=True
        ):
            if argument.value is not None:
                frame.values[node] = argument.value
            if argument.pointer is not None:
                frame.pointers[placed.buffer] = argument.pointer
        for number, buffer in enumerate(program.buffers):
            if buffer.kind == "output":
                target = targets[buffer.index]
                assert target is not None
                frame.pointers[number] = target
        for node, placed in body.places.items():
            given = placed.buffer in frame.pointers
            if is_number(graph, node) and not is_view(graph, node) and not given:
                frame.homes.setdefault(placed.buffer, node)
        scratch = prepared.arena.scratch
        for step, kernel, offset in zip(program.steps, prepared.kernels, scratch, strict=True):
            if isinstance(step, ScalarStep):
                node = step.nodes[0]
                frame.values[node] = self._scalar(frame, node)
            elif isinstance(step, RowStep):
                self._row(frame, step)
            elif isinstance(step, PutStep):
                self._put(frame, step)
            elif isinstance(step, ControlStep):
                assert isinstance(kernel, PreparedControl)
                self._nested(frame, step, kernel, base + offset)
            else:
                assert not isinstance(kernel, PreparedControl)
                self._array_step(frame, step, kernel, base + offset)
        return [
            self.number(frame, node) if is_number(graph, node) else None for node in graph.outputs
        ]

    def number(self, frame: Frame, node: int) -> Value:
        """A number of a body: in a register, a constant, or read from where it lies."""
        graph = frame.prepared.body.graph
        while is_view(graph, node) and is_number(graph, graph.inputs[node][0]):
            node = graph.inputs[node][0]
        found = frame.values.get(node)
        if found is not None:
            return found
        code = code_of(graph.spec(node).dtype)
        constant = graph.constant_value(node)
        if constant is not None:
            return self.b.fixed(constant.item(), code)
        placed = frame.prepared.body.places[node]
        place = self.b.pointer_offset(self.pointer(frame, placed.buffer), placed.layout.offset)
        found = frame.values[node] = self.b.load(place, code)
        return found

    def pointer(self, frame: Frame, buffer: int) -> str:
        """Where a buffer of a body begins."""
        found = frame.pointers.get(buffer)
        if found is not None:
            return found
        body = frame.prepared.body
        record = body.program.buffers[buffer]
        if record.kind == "arena":
            offset = frame.base + frame.prepared.arena.offsets[buffer]
            return self.b.pointer_offset("%arena", offset)
        if record.kind == "constant":
            return self.steps.constant_symbol(body.graph.constants[record.index])
        assert record.kind == "input", f"a {record.kind} buffer without a pointer"
        size = -(-max(record.nbytes, 1) // 8)
        found = frame.pointers[buffer] = self.b.stack("i64", size, 8)
        return found

    # ---- steps on arrays

    def _array_step(
        self, frame: Frame, step: ProgramStep, kernel: Kernel | None, scratch: int
    ) -> None:
        b = self.b
        buffers = touched(step)
        pointers = {buffer: self.pointer(frame, buffer) for buffer in dict.fromkeys(buffers)}
        for buffer, pointer in pointers.items():
            node = frame.homes.get(buffer)
            if node in frame.values:
                b.store(frame.values[node], pointer)
        if kernel is not None:
            self.slots = max(self.slots, *(len(one.values) for one in kernel.launches), 1)
        self.slots = max(self.slots, len(buffers))
        self.calls_host |= isinstance(step, HostStep)
        outer, self.steps.lines = self.steps.lines, b.lines
        self.steps.carry_out(step, kernel, pointers, scratch)
        self.steps.lines = outer
        label = next((line for line in reversed(b.lines) if line.endswith(":")), None)
        if label is not None:
            b.current = label[:-1]

    def _row(self, frame: Frame, step: RowStep) -> None:
        graph = frame.prepared.body.graph
        index = graph.inputs[step.nodes[0]][1]
        size = step.source.spec.static_shape[step.axis]
        place = self._checked(self.number(frame, index), size, step.axis, step.location)
        stride = step.source.layout.strides[step.axis]
        offset = self.b.mul(place, int64(stride))
        start = self.pointer(frame, step.source.buffer)
        frame.pointers[step.buffer] = self.b.pointer_offset(start, offset)

    def _put(self, frame: Frame, step: PutStep) -> None:
        graph = frame.prepared.body.graph
        _, where, what = graph.inputs[step.nodes[0]]
        value, place = self.number(frame, what), self.number(frame, where)
        start = self.pointer(frame, step.target.buffer)
        offset = self.b.mul(self.b.cast_code(place, "i8"), int64(size_of(value.code)))
        self.b.store(value, self.b.pointer_offset(start, offset))

    # ---- numbers

    def _scalar(self, frame: Frame, node: int) -> Value:
        graph = frame.prepared.body.graph
        op, attrs, inputs = graph.ops[node], graph.attrs[node], graph.inputs[node]
        location = graph.locations[node]
        if is_take(graph, node):
            return self._element(frame, node)
        if op is get_op("check_index"):
            size, axis = cast(tuple[int, int], attrs)
            return self._checked(self.number(frame, inputs[0]), size, axis, location)
        assert isinstance(op.lowering, Pointwise)
        values = [self.number(frame, i) for i in inputs]
        made: Value = op.lowering.emit(self.b, *values, *attrs)
        return made

    def _element(self, frame: Frame, node: int) -> Value:
        graph = frame.prepared.body.graph
        array, index = graph.inputs[node]
        placed = frame.prepared.body.places[array]
        axis = cast(int, graph.attrs[node][0])
        size = placed.spec.static_shape[axis]
        place = self._checked(self.number(frame, index), size, axis, graph.locations[node])
        offset = self.b.mul(place, int64(placed.layout.strides[axis]))
        start = self.pointer(frame, placed.buffer)
        start = self.b.pointer_offset(start, placed.layout.offset)
        where = self.b.pointer_offset(start, offset)
        return self.b.load(where, code_of(placed.spec.dtype))

    def _checked(self, index: Value, size: int, axis: int, location: Location | None) -> Value:
        """An index counted from the front; outside of the axis the function fails."""
        b = self.b
        place = given = b.cast_code(index, "i8")
        if index.code[0] == "i":
            negative = b.compare("lt", given, ZERO)
            place = b.select(negative, b.add(given, int64(size)), given)
        inside = b.value(f"icmp ult i64 {place.name}, {size}", "b1", 1)
        self._require(inside, given, INDEX_ERROR | self._site(axis, size, location))
        return place

    def _site(self, axis: int, size: int, location: Location | None) -> int:
        self.sites.append(Site(axis, size, location))
        return (len(self.sites) - 1) << SITE_SHIFT

    def _require(self, condition: Value, number: Value, code: int) -> None:
        b = self.b
        fine = b.new_label("fine")
        weights = '!prof !{!"branch_weights", i32 2000, i32 1}'
        b.line(f"br {condition.operand}, label %{fine}, label %stop, {weights}")
        self.failures.append((b.current, number.name, code))
        b.start_block(fine)

    # ---- control flow

    def _nested(self, frame: Frame, step: ControlStep, made: PreparedControl, base: int) -> None:
        graph = frame.prepared.body.graph
        node, *parts = step.nodes
        arguments = []
        for value, placed in zip(graph.inputs[node], step.inputs, strict=True):
            number = self.number(frame, value) if is_number(graph, value) else None
            pointer = None
            if placed is not None and number is None:
                pointer = self.pointer(frame, placed.buffer)
            arguments.append(Argument(number, pointer))
        targets = [
            None if placed is None else self.pointer(frame, placed.buffer)
            for placed in step.outputs
        ]
        results = self.control(made, arguments, targets, base)
        for part, result in zip(parts, results, strict=True):
            if part >= 0 and result is not None:
                frame.values[part] = result

    def control(
        self,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> list[Value | None]:
        """Emits a choice or a loop; returns its numbers, arrays go to `targets`."""
        if is_cond(made.step.op):
            return self._branch(made, arguments, targets, base)
        return _LoopEmitter(self, made, arguments, targets, base).emit()

    def _branch(
        self,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> list[Value | None]:
        b = self.b
        condition, *operands = arguments
        assert condition.value is not None
        labels, join = (b.new_label("then"), b.new_label("else")), b.new_label("join")
        b.branch_if(condition.value, *labels)
        ends = []
        for label, prepared in zip(labels, made.bodies, strict=True):
            b.start_block(label)
            filled = self._with_spares(prepared, targets)
            values = self.run_body(prepared, operands, filled, base + made.body_offset)
            ends.append((values, b.current))
            b.branch(join)
        b.start_block(join)
        (first, from_first), (second, from_second) = ends
        return [
            None if x is None or y is None else b.phi((x, from_first), (y, from_second))
            for x, y in zip(first, second, strict=True)
        ]

    def _with_spares(
        self, prepared: PreparedBody, targets: Sequence[str | None]
    ) -> list[str | None]:
        """The targets, with memory for arrays that nobody takes."""
        graph = prepared.body.graph
        filled = list(targets)
        for k, node in enumerate(graph.outputs):
            if filled[k] is None and not is_number(graph, node):
                filled[k] = self.b.stack("i8", graph.spec(node).nbytes or 1)
        return filled

    def copy_bytes(self, target: str, source: str, nbytes: int) -> None:
        """Copies an array."""
        if nbytes and target != source:
            arguments = ("ptr", target), ("ptr", source), ("i64", str(nbytes)), ("i1", "false")
            call = self.b.raw_call("void", "llvm.memcpy.p0.p0.i64", *arguments, declare=False)
            self.b.parts.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            self.b.line(call)


@dataclass(slots=True)
class _Carried:
    """What a loop carries from turn to turn."""

    turn: Value
    numbers: dict[int, Value]
    current: dict[int, str]
    """Where arrays lie, by position of the state."""
    spare: dict[int, str]
    """Where their next value goes, for those that are not written in place."""


class _LoopEmitter:
    """Emits one loop."""

    def __init__(
        self,
        owner: ControlEmitter,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> None:
        self.owner, self.b, self.made = owner, owner.b, made
        self.form: LoopForm = loop_form(made.step.op, made.step.attrs)
        self.targets = targets
        self.base = base
        self.state, self.xs, self.captures = self.form.split(arguments)
        self.limit = arguments[0].value if self.form.first else None
        if self.limit is not None and self.limit.name == str(UNLIMITED):
            self.limit = None
        self.body, self.test = _body_of(made), _test_of(made)
        self.counts = bool(self.form.first)

    def emit(self) -> list[Value | None]:
        """The numbers that the loop gives."""
        b = self.b
        start = self._start()
        going = self._going(start)
        head, done, before = b.new_label("loop"), b.new_label("done"), b.current
        b.branch_if(going, head, done)
        b.start_block(head)
        turn = b.open_phi(start.turn, before) if self.counts else None
        numbers = {k: b.open_phi(x, before) for k, x in start.numbers.items()}
        swapped = {
            k: (self._open_pointer(start.current[k], before), self._open_pointer(x, before))
            for k, x in start.spare.items()
        }
        carried = _Carried(
            ZERO if turn is None else turn.value,
            {k: phi.value for k, phi in numbers.items()},
            {**start.current, **{k: phi[0] for k, (phi, _) in swapped.items()}},
            {k: phi[0] for k, (_, phi) in swapped.items()},
        )
        following = self._turn(carried)
        going = self._going(following)
        latch = b.current
        if turn is not None:
            b.close_phi(turn, (following.turn, latch))
        for k, phi in numbers.items():
            b.close_phi(phi, (following.numbers[k], latch))
        for k, (now, other) in swapped.items():
            self._close_pointer(now, following.current[k], latch)
            self._close_pointer(other, following.spare[k], latch)
        b.branch_if(going, head, done)
        b.start_block(done)
        return self._results(start, following, before, latch)

    # ---- before and after

    def _start(self) -> _Carried:
        """The state before the first turn: arrays are copied to where they may be written."""
        carried = _Carried(ZERO, {}, {}, {})
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
            placed = self.made.step.inputs[self.form.first + k]
            assert argument.pointer is not None
            assert placed is not None
            source = self.b.pointer_offset(argument.pointer, placed.layout.offset)
            self.owner.copy_bytes(target, source, nbytes)
            carried.current[k] = target
            if k not in self.body.body.in_place:
                carried.spare[k] = self.b.pointer_offset("%arena", offset)
        return carried

    def _nbytes(self, k: int) -> int:
        graph = self.form.body
        return graph.spec(graph.placeholders[k]).nbytes

    def _results(
        self, start: _Carried, end: _Carried, before: str, latch: str
    ) -> list[Value | None]:
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
        self.owner.copy_bytes(target, source, nbytes)
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

    def _going(self, carried: _Carried) -> Value:
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
        answer = self._test(carried)
        after = b.current
        b.branch(known)
        b.start_block(known)
        return b.phi((b.fixed(False, "b1"), before), (answer, after))

    def _test(self, carried: _Carried) -> Value:
        assert self.test is not None
        arguments = [*self._arguments(carried), *self.captures]
        base = self.base + self.made.body_offset
        (answer,) = self.owner.run_body(self.test, arguments, [None], base)
        assert answer is not None
        return answer

    def _arguments(self, carried: _Carried) -> list[Argument]:
        return [
            Argument(carried.numbers.get(k), carried.current.get(k))
            for k in range(self.form.n_state)
        ]

    def _turn(self, carried: _Carried) -> _Carried:
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
        following = _Carried(carried.turn, {}, dict(carried.current), dict(carried.spare))
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
        self.owner._require(fits, int64(length), LOOP_LIMIT)

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


def emit_control(
    made: PreparedControl, name: str, target: Target, steps: Steps, sites: list[Site]
) -> tuple[str, FunctionBuilder]:
    """The text of a step's function, and the builder that holds what it needs besides."""
    emitter = ControlEmitter(target, steps, sites)
    return emitter.emit(made, name), emitter.b
