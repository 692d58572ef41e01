"""What native control flow needs besides its code: kernels of the steps in bodies, and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tapeline.compiler.codegen.arena import ArenaPlan, plan_arena
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.numbers import is_number
from tapeline.compiler.codegen.program import (
    Body,
    ControlStep,
    ProgramStep,
    PutStep,
    RowStep,
    ScalarStep,
)
from tapeline.compiler.codegen.values import Value
from tapeline.compiler.ir.control_ops import is_cond, loop_form
from tapeline.compiler.ir.location import Location

INDEX_ERROR, LOOP_LIMIT, NEEDS_ROOM = 3, 4, 5
"""Statuses: the low byte; above it 16 bits for the place in the program, then the index. The last
one is that of a loop which may fail, and will not write over an argument then."""
FEWEST_BYTES = 1 << 12
"""Smaller arrays never share memory with a result."""
SITE_SHIFT, INDEX_SHIFT = 8, 24


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
    """An op of control flow with its bodies (none: it stays in registers); `spare` are the offsets
    of second buffers for states, by position."""

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
    if not bodies:
        return made
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
    body = body_of(made)
    for k in range(form.n_state):
        if is_number(form.body, form.body.placeholders[k]):
            continue
        wanted = step.outputs[form.first + k] is not None
        buffers = (0 if wanted else 1) + (0 if k in body.body.in_place else 1)
        nbytes = -(-max(form.body.spec(form.body.placeholders[k]).nbytes, 1) // 64) * 64
        made.spare[k] = made.nbytes
        made.nbytes += buffers * nbytes


def body_of(made: PreparedControl) -> PreparedBody:
    """The body of a loop, among its test and body."""
    return made.bodies[-1] if made.step.op.attr_names == () else made.bodies[0]


def test_of(made: PreparedControl) -> PreparedBody | None:
    if made.step.op.attr_names == ():
        return made.bodies[0]
    return made.bodies[1] if len(made.bodies) > 1 else None


class Argument(NamedTuple):
    """What a body is given: a number in a register, or a pointer, or both."""

    value: Value | None
    pointer: str | None
