"""Matrix products: ranks, dtypes, operators, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

RANKS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("a_shape", "b_shape"), RANKS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float32", "complex64"])
def test_matmul_is_numpys_in_all_ranks(
    a_shape: Any, b_shape: Any, dtype: str, rng: np.random.Generator
) -> None:
    a = rng.integers(0, 2, a_shape).astype(dtype)
    b = rng.integers(0, 2, b_shape).astype(dtype)
    got, want = tl.asarray(a) @ tl.asarray(b), a @ b
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got.numpy(), want)


def test_matmul_rejects_mismatched_inner_dimension() -> None:
    message = (
        r"matmul: inner dimensions differ: a has shape \(3, 4\), b has shape \(5, 6\); "
        r"a\.shape\[-1\] must equal b\.shape\[-2\]"
    )
    with pytest.raises(ShapeError, match=message):
        tl.ones((3, 4)) @ tl.ones((5, 6))
    with pytest.raises(ShapeError, match=r"a\.shape\[-1\] must equal b\.shape\[-1\]"):
        tl.ones((3, 4)) @ tl.ones(5)


def test_matmul_rejects_scalars_and_unfit_stacks() -> None:
    with pytest.raises(ShapeError, match=r"matmul: b has shape \(\); both operands need"):
        tl.ones((3, 4)) @ 2.0
    with pytest.raises(ShapeError, match=r"matmul: shapes \(2,\) and \(3,\) do not broadcast"):
        tl.ones((2, 3, 4)) @ tl.ones((3, 4, 5))


def test_operands_promote_to_one_dtype() -> None:
    product = tl.ones((2, 2), dtype=tl.float32) @ tl.ones((2, 2), dtype=tl.int64)
    assert product.dtype == np.float64


def test_arrays_on_either_side_give_tensors() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    eye = np.eye(2)
    for product in (x @ eye, eye @ x, x @ eye.tolist(), eye.tolist() @ x, np.matmul(eye, x)):
        assert type(product) is tl.Tensor
        np.testing.assert_array_equal(product.numpy(), x.numpy())


def test_in_place_product_changes_the_cell_only() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    other, kept = x, tl.asarray(x, copy=True)
    x @= tl.asarray([[0.0, 1.0], [1.0, 0.0]])
    assert x is other
    np.testing.assert_array_equal(x.numpy(), [[2, 1], [4, 3]])
    np.testing.assert_array_equal(kept.numpy(), [[1, 2], [3, 4]])


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([0, 1], [1, 2]), (-1, 0), ([2, 0], [0, 2])])
def test_tensordot_is_numpys(axes: Any, rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 3, 3))
    b = rng.normal(size=(3, 3, 3))
    got = tl.tensordot(tl.asarray(a), tl.asarray(b), axes=axes)
    np.testing.assert_allclose(got.numpy(), np.tensordot(a, b, axes=axes), atol=1e-12)


def test_tensordot_rejects_bad_axes() -> None:
    with pytest.raises(ShapeError, match="tensordot: axis 1 of a has extent 3, axis 0 of b"):
        tl.tensordot(tl.ones((2, 3)), tl.ones((4, 5)), axes=1)
    with pytest.raises(ArgumentError, match="as many axes of a as of b"):
        tl.tensordot(tl.ones((2, 3)), tl.ones((2, 3)), axes=([0, 1], [0]))


@pytest.mark.parametrize(("a_shape", "b_shape"), [((), (3,)), ((2, 3), (4, 3, 5)), ((3,), (3,))])
def test_dot_is_numpys(a_shape: Any, b_shape: Any, rng: np.random.Generator) -> None:
    a, b = rng.normal(size=a_shape), rng.normal(size=b_shape)
    np.testing.assert_allclose(tl.dot(tl.asarray(a), tl.asarray(b)).numpy(), np.dot(a, b))


def test_vecdot_conjugates_its_first_operand() -> None:
    a = np.array([1j, 2.0])
    assert tl.vecdot(tl.asarray(a), tl.asarray(a)).item() == 5


def test_outer_needs_vectors() -> None:
    np.testing.assert_array_equal(tl.outer([1, 2], [3, 4]).numpy(), [[3, 4], [6, 8]])
    with pytest.raises(ShapeError, match="outer: both operands must be 1-d"):
        tl.outer([[1]], [1])
