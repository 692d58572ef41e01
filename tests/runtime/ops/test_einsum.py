"""Einsum is NumPy's, and does no more work than it must."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.gradients import difference_gradients

import tapeline as tl
from tapeline.runtime.ops.contraction import contraction_order

CASES: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ji,kj->ik", ((3, 2), (4, 3))),
    ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
    ("bij,jk->bik", ((5, 2, 3), (3, 4))),
    ("...ij,...jk->...ik", ((5, 1, 2, 3), (6, 3, 4))),
    ("i...,i...", ((3, 4, 5), (3, 1, 5))),
    ("...i->...", ((2, 3, 4),)),
    ("i...->...i", ((2, 3, 4),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iji->j", ((3, 2, 3),)),
    ("iii->i", ((3, 3, 3),)),
    ("ij->ji", ((2, 3),)),
    ("ba", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("i,i", ((4,), (4,))),
    ("i,i->i", ((4,), (4,))),
    ("i,j->ij", ((2,), (3,))),
    ("i,j->ji", ((2,), (3,))),
    ("ij,ij,ij->", ((2, 3), (2, 3), (2, 3))),
    ("ij,j,jk,kl->il", ((2, 3), (3,), (3, 4), (4, 2))),
    ("ab,bc,cd,de->ae", ((2, 5), (5, 3), (3, 6), (6, 2))),
    ("ij,ik->jk", ((1, 2), (3, 4))),
    (",ij->ij", ((), (2, 3))),
    ("ij,kl->", ((2, 3), (4, 2))),
    ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), CASES, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("optimize", [True, False, "greedy"])
def test_einsum_is_that_of_numpy(
    subscripts: str, shapes: Any, optimize: Any, rng: np.random.Generator
) -> None:
    arrays = [rng.normal(size=shape) for shape in shapes]
    got = tl.einsum(subscripts, *arrays, optimize=optimize)
    want = np.einsum(subscripts, *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


def test_einsum_takes_lists_of_axes(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    np.testing.assert_allclose(tl.einsum(a, [0, 1], b, [1, 2], [2, 0]).numpy(), (a @ b).T)
    np.testing.assert_allclose(tl.einsum(a, [..., 1], b, [1, 2]).numpy(), a @ b)


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_einsum_keeps_the_dtype(dtype: str) -> None:
    x = tl.ones((2, 2), dtype=dtype)
    for subscripts in ("ij->i", "ij,jk->ik", "ij,ij"):
        operands = [x] * (subscripts.count(",") + 1)
        assert tl.einsum(subscripts, *operands).dtype == dtype


def test_gradient_of_einsum_agrees_with_differences(rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=shape) for shape in ((2, 3), (3, 3), (3,))]

    def value(*arrays: Any) -> float:
        return float(np.sin(np.einsum("ij,jj,j->ij", *arrays)).sum())

    tensors = [tl.asarray(x) for x in arrays]
    with tl.GradientTape() as tape:
        tape.watch(tensors)
        total = tl.sum(tl.sin(tl.einsum("ij,jj,j->ij", *tensors)))
    for got, want in zip(
        tape.gradient(total, tensors), difference_gradients(value, arrays), strict=True
    ):
        np.testing.assert_allclose(got.numpy(), want, atol=1e-7)


def test_einsum_runs_compiled(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 5, 3))
    f = tl.function(lambda a, b: tl.einsum("bik,bjk->bij", a, b))
    np.testing.assert_allclose(
        f(tl.asarray(a), tl.asarray(b)).numpy(), np.einsum("bik,bjk->bij", a, b)
    )


def work_of(steps: Any, inputs: Any, output: str, sizes: dict[str, int]) -> int:
    """The products that the steps take."""
    terms = [set(labels) for labels in inputs]
    total = 0
    for first, second in steps:
        b, a = terms.pop(second), terms.pop(first)
        total += int(np.prod([sizes[label] for label in a | b]))
        terms.append((a | b) & set(output).union(*terms))
    return total


def test_optimal_order_takes_least_work_of_all() -> None:
    inputs = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d", "e"))
    sizes = {"a": 7, "b": 2, "c": 9, "d": 3, "e": 5}
    extents = tuple(sizes.items())
    found = work_of(contraction_order(inputs, ("e",), extents), inputs, "e", sizes)
    others = []
    for order in permutations(range(4)):
        chain = [inputs[k] for k in order]
        left = contraction_order(tuple(chain), ("e",), extents, "left")
        others.append(work_of(left, chain, "e", sizes))
    assert found <= min(others)


def test_many_operands_are_ordered_greedily() -> None:
    inputs = tuple((chr(97 + k), chr(98 + k)) for k in range(12))
    extents = tuple((chr(97 + k), 2 + k % 5) for k in range(13))
    steps = contraction_order(inputs, ("a", "m"), extents)
    assert len(steps) == 11


def test_bad_subscripts_are_named() -> None:
    x = tl.ones((2, 3))
    with pytest.raises(ValueError, match="names 2 operands, but 1"):
        tl.einsum("ij,jk->ik", x)
    with pytest.raises(ValueError, match="names 3 axes"):
        tl.einsum("ijk", x)
    with pytest.raises(ValueError, match="has extents 2 and 3"):
        tl.einsum("ii", x)
    with pytest.raises(ValueError, match="must name indices of the operands"):
        tl.einsum("ij->k", x)
    with pytest.raises(ValueError, match="more than letters"):
        tl.einsum("i1", x)
    with pytest.raises(ValueError, match="optimize is 'best'"):
        tl.einsum("ij", x, optimize="best")
