"""Intermediates share memory only when they are never live together."""

from __future__ import annotations

import numpy as np

import tapeline as tl
from tapeline.compiler.codegen.arena import ALIGNMENT, plan_arena
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.target import host_target


def test_buffers_overlap_only_when_their_lives_do_not(rng: np.random.Generator) -> None:
    def chain(x: tl.Tensor) -> tl.Tensor:
        for k in range(6):
            x = tl.tanh(x @ x) + x[::-1]
            if k % 2:
                x = tl.concat([x, x * 2], axis=0)[:8]
        return x

    graph = tl.function(chain).get_concrete_function(tl.TensorSpec([8, 8])).optimized_graph
    program = lower_graph(graph, host_target())
    scratch = [64 * int(k) for k in rng.integers(0, 3, len(program.steps))]
    plan = plan_arena(program, scratch)
    spans = [
        (*plan.lifetimes[b], plan.offsets[b], plan.offsets[b] + program.buffers[b].nbytes)
        for b in plan.offsets
    ]
    spans += [
        (step, step, place, place + scratch[step])
        for step, place in enumerate(plan.scratch)
        if scratch[step]
    ]
    for k, (first, last, low, high) in enumerate(spans):
        assert low % ALIGNMENT == 0
        assert high <= plan.nbytes
        for other_first, other_last, other_low, other_high in spans[:k]:
            together = first <= other_last and other_first <= last
            assert not together or high <= other_low or other_high <= low
    total = sum(high - low for *_, low, high in spans)
    assert plan.nbytes < total / 2
