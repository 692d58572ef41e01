"""`tl.testing.check_gradients` on every op: both modes, both orders, every dtype; eagerly, compiled
and under `vmap`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.gradients import has_gradient, outputs_of
from tests.sampling import DTYPES_OF_KIND, Case, build_inputs, rng_of, sampled_ops, samples_of

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.gradients.checking import Mode
from tapeline.runtime.op import Op

LIMIT = 40
"""How many elements the inputs of a case have at most."""

KINKED = frozenset({"maximum", "minimum", "remainder"})
"""Ops with kinks so close to the samples that differences must be taken close by."""


def cases(op: Op, dtype: str) -> list[Case]:
    """The samples of an op in one dtype that have gradients, small ones."""
    rng = rng_of(op, f"check {dtype}")
    found = []
    for sample in samples_of(op):
        arrays = build_inputs(op, sample, dtype, rng)
        floats = [x for x in arrays if x.dtype.kind in "fc"]
        if not floats or not 0 < sum(x.size for x in arrays) <= LIMIT:
            continue
        results = outputs_of(op, arrays, sample.attrs)
        if any(
            y.dtype.kind in "fc" and np.finfo(y.dtype).eps <= np.finfo(floats[0].dtype).eps
            for y in results
        ):
            found.append(Case(arrays, sample.attrs))
    return found


def all_at_once(op: Op, listed: Sequence[Case]) -> Callable[..., Any]:
    """One function of the inputs of all cases."""

    def run(groups: Any) -> Any:
        pairs = zip(groups, listed, strict=True)
        return [bind(op, tuple(group), case.attrs) for group, case in pairs]

    return run


def tensors(listed: Sequence[Case]) -> list[list[tl.Tensor]]:
    return [[tl.asarray(x) for x in case.arrays] for case in listed]


DIFFERENTIABLE = [op for op in sampled_ops() if has_gradient(op) and set("fc") & set(op.kinds)]
PAIRS = [
    (op, dtype)
    for op in DIFFERENTIABLE
    for kind in "fc"
    if kind in op.kinds
    for dtype in DTYPES_OF_KIND[kind]
    if cases(op, dtype)
]
every_pair = pytest.mark.parametrize(
    ("op", "dtype"), PAIRS, ids=[f"{op.name}-{dtype}" for op, dtype in PAIRS]
)
MODES: tuple[tuple[Mode, ...], ...] = (("reverse",), ("forward",), ("reverse", "forward"))
DOUBLE = [op for op, dtype in PAIRS if dtype == "float64"]
every_op = pytest.mark.parametrize("op", DOUBLE, ids=lambda op: op.name)


@every_pair
def test_gradients_of_an_op(op: Op, dtype: str) -> None:
    listed = cases(op, dtype)
    order = 2 if dtype in ("float64", "complex128") else 1
    step = 1e-5 if op.name in KINKED else None
    tl.testing.check_gradients(all_at_once(op, listed), [tensors(listed)], order, step=step)


@pytest.mark.slow
@every_op
def test_gradients_of_a_compiled_op(op: Op) -> None:
    """To the first order in both modes; to the second one in one of them or in all combinations,
    which ops have in turn: compiled gradients of gradients are compared with eager ones for each
    op, and those with differences above."""
    listed = cases(op, "float64")
    step = 1e-5 if op.name in KINKED else None
    compiled, point = tl.function(all_at_once(op, listed)), [tensors(listed)]
    tl.testing.check_gradients(compiled, point, 1, step=step)
    tl.testing.check_gradients(compiled, point, 2, MODES[DOUBLE.index(op) % len(MODES)], step=step)


@every_op
def test_gradients_of_a_mapped_op(op: Op) -> None:
    one, other = (cases(op, "float64")[0] for _ in range(2))
    columns = [tl.asarray(np.stack(pair)) for pair in zip(one.arrays, other.arrays, strict=True)]
    mapped = tl.vmap(lambda *xs: bind(op, xs, one.attrs))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "vmap: .* has no batching rule")
        tl.testing.check_gradients(mapped, columns)
