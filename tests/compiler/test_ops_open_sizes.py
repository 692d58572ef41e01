"""Every registered op in a trace with open sizes: other sizes give the same results as eagerly."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op, Sample, Trait, registered_ops

GROWTH = (0, 1, 3)
"""How much larger than in the sample each size is that is not 0 or 1."""
SIZED_ATTRIBUTES = frozenset({"concat"})
"""Ops whose attributes hold sizes of their inputs, so that they fit one size each."""


def cases() -> list[Any]:
    found = []
    for op in registered_ops():
        is_odd = op.subgraphs or not op.n_inputs or op.has(Trait.EFFECT) or op.has(Trait.RANDOM)
        if is_odd or op.name in SIZED_ATTRIBUTES:
            continue
        for number, sample in enumerate(op.samples):
            if not any(map(callable, sample.inputs)):
                found.append(pytest.param(op, sample, id=f"{op.name}-{number}"))
    return found


def drawn(op: Op, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    low, high = op.domain or (-2.0, 2.0)
    values = rng.uniform(max(low, -5.0), min(high, 5.0), shape)
    if "f" in op.kinds:
        return values
    if "c" in op.kinds:
        return values + 1j * values
    return rng.integers(0, 3, shape) if "i" in op.kinds else values > 0


@pytest.mark.parametrize(("op", "sample"), cases())
def test_other_sizes_are_served(op: Op, sample: Sample) -> None:
    f = tl.function(lambda *tensors: bind(op, tensors, sample.attrs))
    rng = np.random.default_rng(0)
    for growth in GROWTH:
        shapes = [tuple(n + growth if n > 1 else n for n in shape) for shape in sample.inputs]
        tensors = tuple(tl.asarray(drawn(op, shape, rng)) for shape in shapes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = bind(op, tensors, sample.attrs)
            except (ValueError, IndexError, TypeError):
                continue  # the attributes of the sample fit its own sizes only
            found = f(*tensors)
        for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-7, atol=1e-9)
    may_ask = op.name == "diagonal"  # which of two sides is shorter
    assert f.trace_count <= 2 + may_ask


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)
