"""Which results of a program may lie where an argument lies, so that nothing need be copied.

A loop that writes elements of an argument works on a copy, which is a result; what it computes of
them element by element is a result as well. The caller may pass one pointer for both, where nobody
else holds the argument: it is then written over. That is right if all else that reads the argument
comes before, and if nothing can fail once it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from tapeline.compiler.codegen.control_plan import FEWEST_BYTES, PreparedControl, body_of
from tapeline.compiler.codegen.nest import Operand
from tapeline.compiler.codegen.program import MatmulStep, NestStep, Program, touched
from tapeline.compiler.codegen.views import dense_layout
from tapeline.compiler.ir.control_ops import is_loop, loop_form
from tapeline.runtime.spec import Shape


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
    found: dict[int, int] = {}
    for number in range(len(program.steps) - 1, -1, -1):
        step = program.steps[number]
        if isinstance(step, NestStep):
            pairs = _elementwise(step)
        else:
            pairs = _states(controls[number]) if number in sure else iter(())
        for source, target in pairs:
            if _is_free(program, number, source, target):
                found.setdefault(program.buffers[target].index, program.buffers[source].index)
        if not isinstance(step, NestStep | MatmulStep):
            break  # nothing that may fail comes after
    return tuple(found.items())


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


def _elementwise(step: NestStep) -> Iterator[tuple[int, int]]:
    """The buffers of which a nest makes one of the other, each element in its place."""
    nest = step.nest
    if nest.axes or any(one.kind != "map" for one in nest.steps) or len(nest.results) != 1:
        return
    *sources, target = nest.operands
    if _is_dense(target, nest.shape):
        for source, buffer in zip(sources, step.buffers, strict=False):
            if source == target:
                yield buffer, step.buffers[-1]


def _is_dense(operand: Operand, shape: Shape) -> bool:
    """Whether an operand is a large array from its first byte to its last, in C order."""
    strides = dense_layout(shape, operand.dtype.itemsize).strides
    nbytes = prod(shape) * operand.dtype.itemsize
    wanted = [s for s, n in zip(strides, shape, strict=True) if n > 1]
    found = [s for s, n in zip(operand.strides, shape, strict=True) if n > 1]
    return not operand.offset and wanted == found and nbytes >= FEWEST_BYTES


def _is_free(program: Program, number: int, source: int, target: int) -> bool:
    """Whether nobody reads the one after the loop began, or writes the other before."""
    kinds = program.buffers[source].kind, program.buffers[target].kind
    step = program.steps[number]
    if kinds != ("input", "output") or touched(step).count(source) != 1:
        return False
    if program.buffers[source].nbytes != program.buffers[target].nbytes:
        return False
    if any(one in (source, target) for pair in program.based for one in pair):
        return False
    if [placed.buffer for placed in program.inputs].count(source) != 1:
        return False
    before, after = program.steps[:number], program.steps[number + 1 :]
    return not any(target in touched(one) for one in before) and not any(
        source in touched(one) for one in after
    )
