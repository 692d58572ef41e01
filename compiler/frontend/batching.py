"""Choices and loops of a graph under `vmap`: for each the graphs run again, on all examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.compiler.frontend.replay import replay
from tapeline.compiler.ir.control_ops import install_batching, loop_form
from tapeline.runtime.at_work import examples_at_work, only_at_work
from tapeline.runtime.batching.level import Level
from tapeline.runtime.batching.loops import MappedLoop
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.tensor import Tensor


def _results(op: Op, level: Level, found: Sequence[Tensor]) -> Any:
    results = [level.examples(x) for x in found]
    return results[0] if op.n_outputs is None else tuple(results)


def batch_cond(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """What the branches give, chosen from per example."""
    level = Level(size, examples_at_work())
    condition, *operands = map(level.cell, inputs, mapped)
    then, other = op.subgraphs
    with only_at_work(None), level.inside():
        found = level.stage_cond(
            condition, lambda *xs: replay(then, xs), lambda *xs: replay(other, xs), operands
        )
    return _results(op, level, found)


def batch_loop(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Turns as long as any example goes on."""
    level, form = Level(size, examples_at_work()), loop_form(op, attrs)
    cells = list(map(level.cell, inputs, mapped))
    state, xs, captures = form.split(cells)

    def body(*values: Tensor) -> list[Tensor]:
        return replay(form.body, [*values, *captures])

    def test(*values: Tensor) -> list[Tensor]:
        assert form.test is not None
        return replay(form.test, [*values, *captures])

    checked = None if form.test is None else test
    with only_at_work(None), level.inside():
        if form.length is None:
            loop = MappedLoop(level, checked, body, None, state, (), 0, False)
            return _results(op, level, loop.run()[1])
        specs = [form.body.spec(node) for node in form.body.outputs[form.n_state :]]
        loop = MappedLoop(
            level, checked, body, cells[0], state, xs, form.length, form.reverse, specs
        )
        count, last, rows = loop.run()
    return _results(op, level, [count, *last, *rows])


install_batching(cond=batch_cond, loop=batch_loop)
