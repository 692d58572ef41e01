"""Which results of a program may lie where an argument lies, so that nothing need be copied.

A loop that writes elements of an argument works on a copy, which is a result. The caller may pass
one pointer for both, where nobody else holds the argument: the loop then writes over it. That is
right if all else that reads the argument comes before, and if nothing can fail once it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tapeline.compiler.codegen.control_loop import FEWEST_BYTES
from tapeline.compiler.codegen.control_plan import PreparedControl, body_of
from tapeline.compiler.codegen.program import (
    ControlStep,
    MatmulStep,
    NestStep,
    Placed,
    Program,
    touched,
)
from tapeline.compiler.ir.control_ops import is_loop, loop_form


def shared_results(
    program: Program, controls: dict[int, PreparedControl], sure: Collection[int]
) -> tuple[tuple[int, int], ...]:
    """The results, and for each the input in whose memory it may lie.

    Parameters
    ----------
    program : Program
        What runs.
    controls : dict
        Its steps of control flow, by number.
    sure : collection of int
        Those that cannot fail.
    """
    found = []
    for number, made in controls.items():
        later = program.steps[number + 1 :]
        if number in sure and all(isinstance(step, NestStep | MatmulStep) for step in later):
            found += [
                (program.buffers[target].index, program.buffers[source].index)
                for source, target in _states(made)
                if _is_free(program, number, source, target)
            ]
    return tuple(found)


def _states(made: PreparedControl) -> Iterator[tuple[int, int]]:
    """The buffers of arrays that a loop writes in place: where it finds and leaves them."""
    step = made.step
    if not is_loop(step.op) or not made.bodies:
        return
    form = loop_form(step.op, step.attrs)
    for k in range(form.n_state):
        source, target = step.inputs[form.first + k], step.outputs[form.first + k]
        if source is None or target is None or k not in body_of(made).body.in_place:
            continue
        if not source.layout.offset and source.spec.nbytes >= FEWEST_BYTES:
            yield source.buffer, target.buffer


def _is_free(program: Program, number: int, source: int, target: int) -> bool:
    """Whether nobody reads the one after the loop began, or writes the other before."""
    kinds = program.buffers[source].kind, program.buffers[target].kind
    step = program.steps[number]
    assert isinstance(step, ControlStep)
    if kinds != ("input", "output") or _count(step.inputs, source) != 1:
        return False
    if any(one in (source, target) for pair in program.based for one in pair):
        return False
    if [placed.buffer for placed in program.inputs].count(source) != 1:
        return False
    before, after = program.steps[:number], program.steps[number + 1 :]
    return not any(target in touched(one) for one in before) and not any(
        source in touched(one) for one in after
    )


def _count(places: tuple[Placed | None, ...], buffer: int) -> int:
    return sum(placed is not None and placed.buffer == buffer for placed in places)
