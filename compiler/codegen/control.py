"""Emits choices and loops as native branches and loops.

Each op of control flow in a program becomes one function `i64 name(ptr given, ptr arena)`; those
inside of its bodies are emitted in the same function. Numbers that a loop carries are phis, arrays
lie in two buffers that take turns, or in one that is written in place. Loops are rotated: the test
is emitted before the loop and at its end. The function returns the status of `run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.control_chunks import ChunkEmitter
from tapeline.compiler.codegen.control_loop import LoopEmitter
from tapeline.compiler.codegen.control_numbers import Frame, NumberEmitter
from tapeline.compiler.codegen.control_plan import (
    INDEX_SHIFT,
    Argument,
    PreparedBody,
    PreparedControl,
    Site,
    Steps,
)
from tapeline.compiler.codegen.loops import int64
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.numbers import is_cheap, is_number, is_read
from tapeline.compiler.codegen.program import (
    ControlStep,
    HostStep,
    Placed,
    ProgramStep,
    PutStep,
    RowStep,
    ScalarStep,
    touched,
)
from tapeline.compiler.codegen.register_loop import RegisterLoop, lanes_of
from tapeline.compiler.codegen.scalar import ScalarBuilder
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, is_supported, size_of
from tapeline.compiler.ir.control_ops import is_cond


class ControlEmitter(NumberEmitter):
    """Emits the function of one step; `emit_control` is the way in."""

    def __init__(self, target: Target, steps: Steps, sites: list[Site]) -> None:
        super().__init__(target, steps, sites)
        self.given: dict[int, str] = {}
        self.slots = 1
        self.calls_host = False
        self.is_guarded = False
        """Whether the function cannot fail where it writes over what it is given."""

    # ---- the function

    def emit(self, made: PreparedControl, name: str) -> str:
        """The text of the function."""
        b = self.b
        inputs, targets = self._parameters(made.step)
        results = self.control(made, inputs, targets, 0, is_outermost=True)
        for target, result in zip(targets, results, strict=True):
            if target is not None and result is not None:
                b.store(result, target)
        return self._finish(name)

    def emit_chunks(self, made: PreparedControl, name: str) -> str | None:
        """The text of a function of a range of turns (see `control_chunks`); None where a turn may
        fail."""
        b = self.b
        inputs, targets = self._parameters(made.step)
        ChunkEmitter(self, made, inputs, targets).emit()
        if self.failures or self.calls_host:
            return None
        b.line("ret void")
        memory = f"alloca [{made.nbytes or 1} x i8], align 64"
        head = f"define internal void @{name}(ptr noalias %given, i64 %lo, i64 %hi) nounwind "
        return self._text(head, [f"  %arena = {memory}"])

    def _parameters(self, step: ControlStep) -> tuple[list[Argument], list[str | None]]:
        """What the function is given: its arguments, and where each result goes."""
        inputs = [
            self._given(k, placed, known)
            for k, (placed, known) in enumerate(zip(step.inputs, step.known, strict=True))
        ]
        targets = [
            None if placed is None else self._pointer_given(len(inputs) + k, placed)
            for k, placed in enumerate(step.outputs)
        ]
        return inputs, targets

    def _pointer_given(self, slot: int, placed: Placed) -> str:
        """The pointer to a buffer, loaded once."""
        found = self.given.get(placed.buffer)
        if found is None:
            place = self.b.assign(f"getelementptr i64, ptr %given, i64 {slot}")
            found = self.b.assign(f"load ptr, ptr {place}, align 8")
            self.given[placed.buffer] = found
        return found

    def _given(self, slot: int, placed: Placed | None, known: Any) -> Argument:
        assert placed is not None
        if known is not None:
            return Argument(self.b.fixed(known, code_of(placed.spec.dtype)), None)
        pointer = self._pointer_given(slot, placed)
        if placed.spec.shape or not is_supported(placed.spec.dtype):
            return Argument(None, pointer)
        place = self.b.pointer_offset(pointer, placed.layout.offset)
        return Argument(self.b.load(place, code_of(placed.spec.dtype)), pointer)

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
        head = f"define internal i64 @{name}(ptr noalias %given, ptr noalias %arena) nounwind "
        return self._text(head, [])

    def _text(self, head: str, first: Sequence[str]) -> str:
        b = self.b
        width = 8 * b.target.vector_bytes
        return "\n".join(
            [
                f'{head}"stackrealign" "prefer-vector-width"="{width}" {{',
                "entry:",
                *first,
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
        frame = self.open_frame(prepared, arguments, targets, base)
        graph, program = prepared.body.graph, prepared.body.program
        scratch = prepared.arena.scratch
        for step, kernel, offset in zip(program.steps, prepared.kernels, scratch, strict=True):
            if isinstance(step, ScalarStep):
                node = step.nodes[0]
                frame.values[node] = self.scalar(frame, node)
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

    def open_frame(
        self,
        prepared: PreparedBody,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
    ) -> Frame:
        """What a body knows before its first step."""
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
        return frame

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
        size = step.source.spec.static_shape[step.axis]
        place = self.checked(self.number(frame, step.index), size, step.axis, step.location)
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
        fixed = graph.placeholders[len(graph.outputs) :]  # at most so many are states of a loop
        is_guess = is_cond(step.op) and is_read(graph, graph.inputs[node][0], fixed)
        results = self.control(made, arguments, targets, base, is_guess=is_guess)
        for part, result in zip(parts, results, strict=True):
            if part >= 0 and result is not None:
                frame.values[part] = result

    def control(
        self,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
        is_outermost: bool = False,
        is_guess: bool = False,
    ) -> list[Value | None]:
        """Emits a choice or a loop; returns its numbers, arrays go to `targets`. `is_guess` says
        that a processor can only guess what is chosen."""
        if not made.bodies:
            lanes = lanes_of(made.step.op, self.b.target)
            return RegisterLoop(self.b, lanes, self.require).emit(made, arguments, targets)
        if is_cond(made.step.op):
            return self._branch(made, arguments, targets, base, 1 if is_guess else 0)
        loop = LoopEmitter(self, made, arguments, targets, base, is_outermost)
        results = loop.emit()
        self.is_guarded = is_outermost and loop.is_guarded
        return results

    def _branch(
        self,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
        base: int,
        most_of_floats: int,
    ) -> list[Value | None]:
        b = self.b
        condition, *operands = arguments
        assert condition.value is not None
        if all(is_cheap(graph, most_of_floats) for graph in made.step.op.subgraphs):
            bodies = [
                self.run_body(prepared, operands, targets, base + made.body_offset)
                for prepared in made.bodies
            ]
            return [
                None if x is None or y is None else b.select(condition.value, x, y)
                for x, y in zip(*bodies, strict=True)
            ]
        labels, join = (b.new_label("then"), b.new_label("else")), b.new_label("join")
        b.branch_if(condition.value, *labels)
        ends = []
        for label, prepared in zip(labels, made.bodies, strict=True):
            b.start_block(label)
            filled = self._with_spares(prepared, targets)
            with b.scope():
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


def emit_control_chunks(
    made: PreparedControl, name: str, target: Target, steps: Steps, sites: list[Site]
) -> tuple[str, ScalarBuilder] | None:
    """As `emit_control`, for a range of turns; None where turns may fail."""
    emitter = ControlEmitter(target, steps, sites)
    text = emitter.emit_chunks(made, name)
    return None if text is None else (text, emitter.b)


def emit_control(
    made: PreparedControl, name: str, target: Target, steps: Steps, sites: list[Site]
) -> tuple[str, ScalarBuilder, bool]:
    """The text of a step's function, the builder that holds what it needs besides, and whether it
    cannot fail where it writes over what it is given."""
    emitter = ControlEmitter(target, steps, sites)
    text = emitter.emit(made, name)
    never_fails = not emitter.failures or emitter.is_guarded
    return text, emitter.b, never_fails and not emitter.calls_host
