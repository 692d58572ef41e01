"""Loops that a trace makes of a mapped function, for tapes inside of that function.

Such a loop is one op of the program around, where all examples are one tensor, so what runs in it
passes no tape of the inside. It is recorded there as one op, whose rule is the gradient that a tape
around finds; that is recorded in the same way, so any order works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.dispatch import STATE, set_handler
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.ops.batch_rules import apply
from tapeline.runtime.ops.cast import identity
from tapeline.runtime.tape import record_operation
from tapeline.runtime.tensor import Tensor, new_tensor, wrap

if TYPE_CHECKING:
    from tapeline.runtime.batching.level import Level

Outside = Callable[..., Sequence[Tensor]]
"""From tensors of outside, each with all examples, to such tensors."""


def run_recorded(level: Level, name: str, run: Outside, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What `run` gives for tensors of inside, known to tapes of inside."""
    below = [level.examples(x) for x in inputs]
    with level.outside():
        results = run(*below)
    return record_results(level, name, run, inputs, results)


def record_results(
    level: Level, name: str, run: Outside, inputs: Sequence[Tensor], results: Sequence[Tensor]
) -> list[Tensor]:
    """What `run` gave, as tensors of inside that tapes of inside know."""
    cells = [level.cell(result, True) for result in results]
    if STATE.active is not None:
        before = set_handler(None)
        try:
            record_operation(name, cells, inputs, _rule(level, name, run, inputs, results))
        finally:
            set_handler(before)
    return cells


def _rule(
    level: Level, name: str, run: Outside, inputs: Sequence[Tensor], results: Sequence[Tensor]
) -> Callable[..., list[Tensor | None]]:
    sources = _differentiable(inputs)
    targets = _differentiable(results)
    specs = [(results[k].shape[1:], results[k].dtype) for k in targets]

    def gradient(*below: Tensor) -> list[Tensor]:
        # with histories of their own: what the function has from elsewhere, or at two places, is
        # another source
        given = [wrap(x._value) if x._node is None else identity(x) for x in below[: len(inputs)]]
        wanted = [given[k] for k in sources]
        with GradientTape() as tape:
            tape.watch(wanted)
            found = run(*given)
        cts = list(below[len(inputs) :])
        outputs = [found[k] for k in targets]
        return list(tape.gradient(outputs, wanted, cts, unconnected_gradients="zero"))

    def rule(*cts: Any) -> list[Tensor | None]:
        given = [cts[k] for k in targets]
        for k, (shape, dtype) in enumerate(specs):
            if given[k] is None:
                given[k] = new_tensor(np.zeros(shape, dtype))
        parts = _run_mapped(level, f"{name}_gradient", gradient, [*inputs, *given])
        found: list[Tensor | None] = [None] * len(inputs)
        for place, part in zip(sources, parts, strict=True):
            found[place] = part
        return found

    return rule


def _run_mapped(level: Level, name: str, run: Outside, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The same where another `vmap` may be at work inside of the level, as that of a Jacobian: then
    once per example of it."""
    handler: Any = STATE.handler
    if handler is level or handler.__class__ is not level.__class__:
        return run_recorded(level, name, run, inputs)

    def run_each(*below: Tensor) -> list[Tensor]:
        found = []
        for number in range(handler.size):
            picked = [apply("getitem", x, attrs=((number,),)) for x in below]
            found.append(_run_mapped(level, name, run, picked))
        return [apply("stack", *column, attrs=(0,)) for column in zip(*found, strict=True)]

    return run_recorded(handler, name, run_each, inputs)


def _differentiable(tensors: Sequence[Tensor]) -> list[int]:
    return [k for k, x in enumerate(tensors) if x.dtype.kind in "fc"]
