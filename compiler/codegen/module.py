"""One LLVM module per program: its kernels, and `run`, which carries out the steps in order.

For a standalone target the memory for intermediate values is a second argument, and a host call
stands only where an index is bad: `run` then returns 1.

`i64 run(ptr slots)` takes an array of pointers: the inputs, then the outputs. It returns 0, 1 where
a host call
raised, 2 where memory ran out. Constants and host calls are external symbols, bound when it is
linked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

from tapeline.compiler.codegen.arena import ArenaPlan, plan_arena
from tapeline.compiler.codegen.control_plan import PreparedControl, Site, prepare
from tapeline.compiler.codegen.epilogue import emit_finish
from tapeline.compiler.codegen.kernels import emit_nest
from tapeline.compiler.codegen.matmul import emit_matmul, matmul_symbols, matrix_operand_of
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, SlotValue
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.pool import (
    PARALLEL,
    PARALLEL_DECLARATION,
    chunk_limit,
    pool_symbols,
)
from tapeline.compiler.codegen.program import (
    ControlStep,
    HostStep,
    MatmulStep,
    NestStep,
    Program,
    ProgramStep,
    touched,
)
from tapeline.compiler.codegen.sharing import shared_results
from tapeline.compiler.codegen.step_clock import mark_text, marks_text, note_text
from tapeline.compiler.codegen.target import Target

STACK_ARENA = 16384
"""Arenas up to this size live on the stack of `run`."""

SUCCESS, HOST_ERROR, NO_MEMORY = 0, 1, 2

LONG = 4000
"""From so many lines on `run` goes on in another function: what LLVM does for a function grows
faster than the function."""


@dataclass(slots=True)
class Module:
    """The text of a program, what it refers to, and what people may want to know about it."""

    text: str
    program: Program
    kernels: tuple[Kernel | None, ...]
    """The kernel of each step; None for host calls."""
    arena: ArenaPlan
    constants: tuple[int, ...]
    """Numbers of the constants that it reads through the symbols `constant<k>`."""
    hosts: tuple[HostStep, ...]
    """Host calls, by the symbols `host<k>`."""
    symbols: dict[str, int] = field(default_factory=dict)
    arrays: tuple[Any, ...] = ()
    """Constants of bodies, by the symbols `inner<k>`."""
    sites: tuple[Site, ...] = ()
    """Where in bodies an index may be out of range, by the number in the status."""
    sizes: tuple[int, ...] = ()
    """Extents, strides and offsets that it reads from the symbol `sizes`, in order: programs that
    differ in nothing else have the same text."""
    has_control: bool = False
    """Whether there are choices or loops, so that nobody knows how long it runs."""
    shared: tuple[tuple[int, int], ...] = ()
    """Outputs that may lie where an input lies, and the input."""


class _Assembler:
    def __init__(self, program: Program, target: Target, timed: bool) -> None:
        self.sizes: list[int] = []
        self.program = program
        self.target = target
        self.timed = timed
        self.parts = ModuleParts()
        self.functions: dict[Hashable, KernelFunction] = {}
        self.names: set[str] = set()
        self.lines: list[str] = []
        self.constants: dict[int, None] = {}
        self.hosts: list[HostStep] = []
        self.count = 0
        self.prepared = 0
        self.symbols: dict[str, int] = {}
        self.arrays: list[Any] = []
        self.sites: list[Site] = []
        self.control_functions: list[str] = []
        self.control_slots = 1
        self.statuses: list[tuple[str, str]] = []
        self.sure: set[int] = set()
        """Numbers of steps of control flow that cannot fail."""
        self.pointers: dict[int, str] = {}
        """The buffers whose pointers are known where the next line goes."""
        self.part_functions: list[str] = []

    def run(self) -> Module:
        steps = self.program.steps
        kernels = [self.prepare(step) for step in steps]
        controls = {
            number: prepare(step, self)
            for number, step in enumerate(steps)
            if isinstance(step, ControlStep)
        }
        scratch = [kernel.scratch_bytes if kernel else 0 for kernel in kernels]
        for number, made in controls.items():
            scratch[number] = made.nbytes
        arena = plan_arena(self.program, scratch)
        self._mark(0)
        for number, (step, kernel) in enumerate(zip(steps, kernels, strict=True)):
            pointers = self._pointers_to(touched(step), arena)
            if number in controls:
                self._call_control(controls[number], pointers, arena.scratch[number])
            elif kernel is not None and self._copies_output(step):
                self._copy_output(kernel, step, pointers, arena.scratch[number])
            else:
                self.carry_out(step, kernel, pointers, arena.scratch[number])
            self._mark(number + 1)
            if len(self.lines) > LONG:
                self._close_part()
        if self.part_functions:
            self._close_part()
            self._call_parts("%arena" if arena.nbytes or self.target.standalone else "null")
        text = self._text(arena, kernels)
        return Module(
            text, self.program, tuple(kernels), arena, tuple(self.constants), tuple(self.hosts),
            self.symbols, tuple(self.arrays), tuple(self.sites), tuple(self.sizes), bool(controls),
            shared_results(self.program, controls, self.sure),
        )  # fmt: skip

    def carry_out(
        self, step: ProgramStep, kernel: Kernel | None, pointers: dict[int, str], scratch: int
    ) -> None:
        """Adds the call of a step."""
        if kernel is None:
            assert isinstance(step, HostStep)
            if step.is_rare:
                self._call_check(step, pointers)
            else:
                self._call_host(step, pointers)
        elif isinstance(step, HostStep):
            self._call_routine(kernel, step, pointers, scratch)
        else:
            self._call_kernel(kernel, step, pointers, scratch)

    def _copies_output(self, step: ProgramStep) -> bool:
        """Whether a step copies a result to where the same result is wanted once more."""
        if not isinstance(step, NestStep) or step.label != "copy":
            return False
        return all(self.program.buffers[buffer].kind == "output" for buffer in step.buffers)

    def _copy_output(
        self, kernel: Kernel, step: ProgramStep, pointers: dict[int, str], scratch: int
    ) -> None:
        """Copies a result, unless the caller wants both in one place."""
        source, target = (pointers[buffer] for buffer in touched(step))
        number = self.count
        same = self.value(f"icmp eq ptr {source}, {target}")
        self.lines.append(f"  br i1 {same}, label %copied{number}, label %copy{number}")
        self.lines.append(f"copy{number}:")
        self._call_kernel(kernel, step, pointers, scratch)
        self.lines.append(f"  br label %copied{number}")
        self.lines.append(f"copied{number}:")

    def constant_symbol(self, array: Any) -> str:
        """The name of a global that holds a constant of a body."""
        for number, known in enumerate(self.arrays):
            if known is array:
                return f"@inner{number}"
        name = f"inner{len(self.arrays)}"
        self.arrays.append(array)
        self.parts.define(name, f"@{name} = external global i8")
        return f"@{name}"

    def prepare(self, step: ProgramStep) -> Kernel | None:
        """The kernel of a step; None for a host call, and for control flow."""
        number = self.prepared
        self.prepared += 1
        if isinstance(step, NestStep):
            return emit_nest(step.nest, self.target, f"k{number}")
        if isinstance(step, MatmulStep):
            kernel = self._product(step)
            if not self.target.standalone:
                self.symbols |= matmul_symbols(kernel)
            return kernel
        if not isinstance(step, HostStep) or step.routine is None:
            return None
        return step.routine.emit(self.target, f"k{number}")

    def _product(self, step: MatmulStep) -> Kernel:
        a, b, out = (matrix_operand_of(placed) for placed in (step.a, step.b, step.out))
        if step.epilogue is None:
            return emit_matmul(a, b, out, self.target)
        nest = step.epilogue.nest
        m, n = prod(nest.shape[:-1]), nest.shape[-1]
        make = partial(emit_finish, nest, m, n, self.target)
        return emit_matmul(a, b, out, self.target, make)

    # ---- the text of `run`

    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %r{self.count} = {text}")
        return f"%r{self.count}"

    def size(self, number: int) -> str:
        """A number that follows from sizes: from outside, if these are open."""
        if not self.target.open_sizes:
            return str(number)
        place = f"getelementptr (i64, ptr @sizes, i64 {len(self.sizes)})"
        self.sizes.append(number)
        return self.value(f"load i64, ptr {place}, align 8")

    def offset(self, pointer: str, nbytes: int) -> str:
        """The pointer so many bytes further on, whatever the sizes."""
        return (
            pointer if not nbytes else self.value(f"getelementptr i8, ptr {pointer}, i64 {nbytes}")
        )

    def place(self, pointer: str, nbytes: int) -> str:
        """The pointer so many bytes further on, which follows from sizes."""
        if not nbytes:
            return pointer
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {self.size(nbytes)}")

    def _pointers_to(self, buffers: Sequence[int], arena: ArenaPlan) -> dict[int, str]:
        """The pointers to the buffers that a step touches, among all that are known."""
        known = self.pointers
        for number in buffers:
            if number in known:
                continue
            buffer = self.program.buffers[number]
            if buffer.kind == "arena":
                known[number] = self.place("%arena", arena.offsets[number])
            elif buffer.kind == "constant":
                self.constants[buffer.index] = None
                known[number] = f"@constant{buffer.index}"
            else:
                slot = buffer.index
                if buffer.kind == "output":
                    slot += len(self.program.inputs)
                place = self.offset("%slots", 8 * slot)
                known[number] = self.value(f"load ptr, ptr {place}")
        return known

    def _close_part(self) -> None:
        """Makes a function of the lines since the last one."""
        name = f"part{len(self.part_functions)}"
        closing = ["failed:", f"  ret i64 {HOST_ERROR}"]
        for status, label in self.statuses:
            closing += [f"{label}:", f"  ret i64 {status}"]
        head = "(ptr %slots, ptr %arena, ptr %A, ptr %E, ptr %marks) noinline nounwind {"
        lines = [f"define internal i64 @{name}{head}", "entry:", *self.lines]
        self.part_functions.append("\n".join([*lines, f"  ret i64 {SUCCESS}", *closing, "}"]))
        self.lines, self.statuses, self.pointers = [], [], {}

    def _call_parts(self, arena: str) -> None:
        """The calls of the parts, until one fails."""
        marks = "%marks" if self.timed else "null"
        given = f"ptr %slots, ptr {arena}, ptr %A, ptr %E, ptr {marks}"
        for number in range(len(self.part_functions)):
            status = self.value(f"call i64 @part{number}({given})")
            self.statuses.append((status, f"ended{number}"))
            failed = self.value(f"icmp ne i64 {status}, 0")
            self.lines.append(f"  br i1 {failed}, label %ended{number}, label %part{number}")
            self.lines.append(f"part{number}:")

    def _mark(self, number: int) -> None:
        """Reads the clock before step `number`, if that is wanted."""
        if self.timed:
            self.lines.append(mark_text(number))

    def _call_kernel(
        self, kernel: Kernel, step: ProgramStep, pointers: dict[int, str], scratch: int
    ) -> None:
        buffers = touched(step)
        for launch in kernel.launches:
            name = self._function(launch.function)
            for slot, value in enumerate(launch.values):
                self._store(slot, value, buffers, pointers, scratch)
            self._launch(name, launch)

    def _at_most(self, chunks: int) -> int:
        """The number of parts, so that no more threads take part than the function allows."""
        return min(chunks, self.target.threads or chunks)

    def _launch(self, name: str, launch: Launch) -> None:
        """The call of a kernel, by all threads where that is worth it."""
        extent, grain = launch.extent, launch.grain
        limit = self._at_most(chunk_limit(extent, grain, launch.work))
        symbols = pool_symbols() if limit > 1 and not self.target.standalone else {}
        if symbols:
            self.symbols |= symbols
            self.parts.declare(PARALLEL_DECLARATION)
            numbers = ", ".join(f"i64 {self.size(one)}" for one in (extent, grain, limit))
            self.lines.append(f"  call void @{PARALLEL}(ptr @{name}, ptr %A, {numbers})")
        else:
            self.lines.append(f"  call void @{name}(ptr %A, i64 0, i64 {self.size(extent)})")

    def _call_routine(
        self, kernel: Kernel, step: HostStep, pointers: dict[int, str], scratch: int
    ) -> None:
        """The kernel of a routine; then the host call, if a value turned out to be bad."""
        placed = (*step.inputs, *step.outputs)
        where = [self.offset(pointers[one.buffer], one.layout.offset) for one in placed]
        self.lines.append("  store i64 0, ptr %E")
        for launch in kernel.launches:
            name = self._function(launch.function)
            for slot, value in enumerate(launch.values):
                place = self.offset("%A", 8 * slot)
                if isinstance(value, int):
                    self.lines.append(f"  store i64 {self.size(value)}, ptr {place}")
                    continue
                kind, operand, nbytes = value
                if kind == "scratch":
                    pointer = self.place("%arena", scratch + nbytes)
                else:
                    pointer = [*where, "%E"][operand]
                self.lines.append(f"  store ptr {pointer}, ptr {place}")
            self._launch(name, launch)
        bad = self.value(f"icmp ne i64 {self.value('load i64, ptr %E')}, 0")
        self._call_host_if(bad, step, pointers)

    def _call_check(self, step: HostStep, pointers: dict[int, str]) -> None:
        """The host call of a check, if it does not hold."""
        (holds, *_), (out,) = step.inputs, step.outputs
        place = self.place(pointers[holds.buffer], holds.layout.offset)
        value = self.value(f"load i8, ptr {place}")
        self.lines.append(
            f"  store i8 1, ptr {self.place(pointers[out.buffer], out.layout.offset)}"
        )
        self._call_host_if(self.value(f"icmp eq i8 {value}, 0"), step, pointers)

    def _call_host_if(self, bad: str, step: HostStep, pointers: dict[int, str]) -> None:
        number = len(self.hosts)
        self.lines.append(f"  br i1 {bad}, label %bad{number}, label %good{number}")
        self.lines.append(f"bad{number}:")
        self._call_host(step, pointers)
        self.lines.append(f"  br label %good{number}")
        self.lines.append(f"good{number}:")

    def _store(
        self, slot: int, value: SlotValue, buffers: Sequence[int], pointers: dict[int, str],
        scratch: int,
    ) -> None:  # fmt: skip
        place = self.offset("%A", 8 * slot)
        if isinstance(value, int):
            self.lines.append(f"  store i64 {self.size(value)}, ptr {place}")
            return
        kind, number, nbytes = value
        if kind == "operand":
            pointer = self.place(pointers[buffers[number]], nbytes)
        else:
            pointer = self.place("%arena", scratch + nbytes)
        self.lines.append(f"  store ptr {pointer}, ptr {place}")

    def _function(self, function: KernelFunction) -> str:
        known = self.functions.get(function.key)
        if known is None:
            assert function.name not in self.names, f"two kernels are named {function.name}"
            self.names.add(function.name)
            self.functions[function.key] = known = function
            self.parts.include(function.declarations, function.definitions)
        return known.name

    def _call_host(self, step: HostStep, pointers: dict[int, str]) -> None:
        number = len(self.hosts)
        self.hosts.append(step)
        if self.target.standalone:
            self.lines.append(f"  br i1 true, label %failed, label %after{number}")
            self.lines.append(f"after{number}:")
            return
        for slot, buffer in enumerate(touched(step)):
            place = self.offset("%A", 8 * slot)
            self.lines.append(f"  store ptr {pointers[buffer]}, ptr {place}")
        status = self.value(f"call i64 @host{number}(ptr %A)")
        failed = self.value(f"icmp ne i64 {status}, 0")
        self.lines.append(f"  br i1 {failed}, label %failed, label %after{number}")
        self.lines.append(f"after{number}:")

    def _call_control(self, made: PreparedControl, pointers: dict[int, str], scratch: int) -> None:
        from tapeline.compiler.codegen.control import emit_control

        if self._call_chunks(made, pointers):
            return
        number = len(self.control_functions)
        step, name = made.step, f"control{number}"
        text, builder, is_sure = emit_control(made, name, self.target, self, self.sites)
        self.sure |= {k for k, one in enumerate(self.program.steps) if is_sure and one is step}
        self.control_functions.append(text)
        self.parts.include(*builder.parts.frozen())
        self._give(step, pointers)
        memory = self.place("%arena", scratch) if made.nbytes else "null"
        status = self.value(f"call i64 @{name}(ptr %A, ptr {memory})")
        self.statuses.append((status, f"stop{number}"))
        stopped = self.value(f"icmp ne i64 {status}, 0")
        self.lines.append(f"  br i1 {stopped}, label %stop{number}, label %went{number}")
        self.lines.append(f"went{number}:")

    def _stack_room(self, arena: ArenaPlan) -> int:
        """Bytes on the stack: with open sizes a power of two, so that few texts differ in it."""
        if not self.target.open_sizes:
            return arena.nbytes
        return 1 << max(6, (arena.nbytes - 1).bit_length())

    def _give(self, step: ControlStep, pointers: dict[int, str]) -> None:
        """Stores the pointers to what control flow takes and gives."""
        given = (*step.inputs, *step.outputs)
        self.control_slots = max(self.control_slots, len(given))
        for slot, placed in enumerate(given):
            if placed is not None:
                place = self.offset("%A", 8 * slot)
                self.lines.append(f"  store ptr {pointers[placed.buffer]}, ptr {place}")

    def _call_chunks(self, made: PreparedControl, pointers: dict[int, str]) -> bool:
        """Lets threads share the turns of a loop; False where they cannot, or it is not worth
        it."""
        from tapeline.compiler.codegen.control import emit_control_chunks
        from tapeline.compiler.codegen.control_chunks import inner_copies, turns_of, work_of

        turns = turns_of(made)
        if turns is None or self.target.standalone or not pool_symbols():
            return False
        step, name = made.step, f"control{len(self.control_functions)}"
        found = emit_control_chunks(made, name, self.target, self, self.sites)
        if found is None:
            return False
        text, builder = found
        self.sure |= {k for k, one in enumerate(self.program.steps) if one is step}
        limit = self._at_most(chunk_limit(turns, 1, work_of(made, text.count("\n"))))
        if limit < 2:
            return False
        self.control_functions.append(text)
        self.parts.include(*builder.parts.frozen())
        for source, target, nbytes in inner_copies(made):
            given, taken = step.inputs[source], step.outputs[target]
            assert given is not None
            assert taken is not None
            start = self.offset(pointers[given.buffer], given.layout.offset)
            self.parts.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            shared = self.value(f"icmp eq ptr {pointers[taken.buffer]}, {start}")
            count = self.value(f"select i1 {shared}, i64 0, i64 {nbytes}")
            self.lines.append(
                f"  call void @llvm.memcpy.p0.p0.i64(ptr {pointers[taken.buffer]}, ptr {start}, "
                f"i64 {count}, i1 false)"
            )
        self._give(step, pointers)
        self.symbols |= pool_symbols()
        self.parts.declare(PARALLEL_DECLARATION)
        numbers = f"i64 {turns}, i64 1, i64 {limit}"
        self.lines.append(f"  call void @{PARALLEL}(ptr @{name}, ptr %A, {numbers})")
        return True

    def _text(self, arena: ArenaPlan, kernels: Sequence[Kernel | None]) -> str:
        slots = [len(launch.values) for kernel in kernels if kernel for launch in kernel.launches]
        slots += [len(touched(step)) for step in self.hosts]
        slots.append(self.control_slots)
        own = self.target.standalone
        opening = [
            f"define i64 @run(ptr %slots{', ptr %arena' if own else ''}) nounwind {{",
            "entry:", "  %E = alloca i64, align 8",
            f"  %A = alloca [{max(slots, default=1) or 1} x i64], align 8",
        ]  # fmt: skip
        closing: list[str] = []
        heap = arena.nbytes > STACK_ARENA and not own
        if heap:
            self.parts.declare("declare ptr @aligned_alloc(i64, i64)")
            self.parts.declare("declare void @free(ptr)")
            room = str(arena.nbytes)
            if self.target.open_sizes:
                room, place = "%room", f"getelementptr (i64, ptr @sizes, i64 {len(self.sizes)})"
                self.sizes.append(arena.nbytes)
                opening.append(f"  %room = load i64, ptr {place}, align 8")
            opening += [
                f"  %arena = call ptr @aligned_alloc(i64 64, i64 {room})",
                "  %missing = icmp eq ptr %arena, null",
                "  br i1 %missing, label %nomemory, label %start",
                "start:",
            ]
            closing += ["nomemory:", f"  ret i64 {NO_MEMORY}"]
        elif arena.nbytes and not own:
            opening.append(f"  %arena = alloca [{self._stack_room(arena)} x i8], align 64")
        release = ["  call void @free(ptr %arena)"] if heap else []
        if self.hosts and not self.part_functions:
            closing += ["failed:", *release, f"  ret i64 {HOST_ERROR}"]
        for status, label in self.statuses:
            closing += [f"{label}:", *release, f"  ret i64 {status}"]
        noting = self._note(opening)
        body = [*self.lines, *release, *noting, f"  ret i64 {SUCCESS}", *closing, "}"]
        for number in range(len(self.hosts)):
            self.parts.declare(f"declare i64 @host{number}(ptr)")
        if self.sizes:
            self.parts.define("sizes", "@sizes = external global i64")
        for index in self.constants:
            self.parts.define(f"constant{index}", f"@constant{index} = external global i8")
        functions = [function.text for function in self.functions.values()]
        functions += self.control_functions + self.part_functions
        return "\n".join([self.parts.text(), *functions, *opening, *body]) + "\n"

    def _note(self, opening: list[str]) -> list[str]:
        """What ends a `run` that notes times; the memory for them joins the opening."""
        if not self.timed:
            return []
        n_steps = len(self.program.steps)
        self.parts.define("note", note_text(n_steps))
        opening.insert(2, marks_text(n_steps))
        return ["  call void @note(ptr %marks)"]


def assemble(program: Program, target: Target, timed: bool = False) -> Module:
    """The module of a program.

    For a target with open sizes, what follows from them is read from the symbol `sizes`.
    If `timed`, `run` notes what each step takes, see `step_clock`.
    """
    return _Assembler(program, target, timed).run()
