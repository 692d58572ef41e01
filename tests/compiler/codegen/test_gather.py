"""Rows taken and added by index, against NumPy; bad indices are reported, not followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen import harness

import tapeline as tl
from tapeline.compiler.codegen.along import emit_indexed
from tapeline.compiler.codegen.gather import RowMode, TakeShape
from tapeline.compiler.codegen.target import Target

Array = np.ndarray[Any, Any]
each_target = pytest.mark.parametrize("target", harness.TARGETS, ids=lambda t: t.cpu)
SHAPES = [(1, 7, 5, 3), (1, 50, 33, 64), (2, 5, 9, 100), (1, 20, 40, 1), (3, 4, 17, 1)]


def draw(outer: int, size: int, count: int, inner: int, code: str, index: str) -> tuple[Array, ...]:
    rng = np.random.default_rng(size)
    source = harness.guarded((rng.standard_normal((outer, size, inner)) * 9).astype(code))
    low = -size if index[0] == "i" else 0
    return source, harness.guarded(rng.integers(low, size, count).astype(index))


@each_target
@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("code", ["f4", "f8", "u1", "c16", "?"])
def test_take_agrees_with_numpy(dims: tuple[int, int, int, int], code: str, target: Target) -> None:
    for index in ("i4", "i8", "u1"):
        source, indices = draw(*dims, code, index)
        outer, size, count, inner = dims
        shape = TakeShape(source.dtype, indices.dtype, outer, size, count, inner)
        runner = harness.Runner(emit_indexed(shape, target, "take_rows"), target)
        for split in (None, harness.odd_chunks):
            out = harness.guarded(np.zeros((outer, count, inner), source.dtype))
            error = np.zeros(1, np.int64)
            runner.run([source, indices, out, error], split)
            assert error[0] == 0
            assert np.array_equal(out, source.take(indices, 1))


@each_target
@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("code", ["f4", "f8", "i4", "c8"])
def test_take_grad_adds_in_order_of_indices(
    dims: tuple[int, int, int, int], code: str, target: Target
) -> None:
    outer, size, count, inner = dims
    _, indices = draw(*dims, code, "i8")
    rng = np.random.default_rng(0)
    taken = harness.guarded((rng.standard_normal((outer, count, inner)) * 9).astype(code))
    expected = np.zeros((outer, size, inner), code)
    for o in range(outer):
        np.add.at(expected[o], indices, taken[o])
    shape = TakeShape(taken.dtype, indices.dtype, outer, size, count, inner, "take_grad")
    runner = harness.Runner(emit_indexed(shape, target, "add_rows"), target)
    for split in (None, harness.odd_chunks):
        out = np.full_like(expected, 7)
        runner.run([taken, indices, out, np.zeros(1, np.int64)], split)
        assert np.array_equal(out, expected)


@each_target
@pytest.mark.parametrize("dims", [(1, 7, 5, 3), (40, 10, 1, 1), (3, 5, 9, 4)])
@pytest.mark.parametrize("code", ["f4", "i8", "c16"])
def test_take_along_axis_and_its_transpose(
    dims: tuple[int, ...], code: str, target: Target
) -> None:
    outer, size, count, inner = dims
    rng = np.random.default_rng(4)
    source = harness.guarded((rng.standard_normal((outer, size, inner)) * 9).astype(code))
    indices = harness.guarded(rng.integers(-size, size, (outer, count, inner)))
    expected = np.take_along_axis(source, indices, 1)
    sums = np.zeros_like(source)
    for o, i, k in np.ndindex(indices.shape):
        sums[o, indices[o, i, k], k] += expected[o, i, k]
    cases: tuple[tuple[RowMode, Array, Array], ...] = (
        ("take_along_axis", source, expected), ("take_along_axis_grad", expected, sums),
    )  # fmt: skip
    for mode, first, wanted in cases:
        shape = TakeShape(source.dtype, indices.dtype, outer, size, count, inner, mode)
        runner = harness.Runner(emit_indexed(shape, target, "along"), target)
        for split in (None, harness.odd_chunks):
            out, error = harness.guarded(np.full_like(wanted, 7)), np.zeros(1, np.int64)
            runner.run([first, indices, out, error], split)
            assert np.array_equal(out, wanted)
            assert error[0] == 0


@each_target
@pytest.mark.parametrize("bad", [50, -51, 2**31 - 1])
def test_bad_index_leaves_its_position(bad: int, target: Target) -> None:
    source, indices = draw(1, 50, 33, 4, "f4", "i4")
    indices[20] = bad
    shape = TakeShape(source.dtype, indices.dtype, 1, 50, 33, 4)
    error = np.zeros(1, np.int64)
    out = np.zeros((1, 33, 4), np.float32)
    harness.Runner(emit_indexed(shape, target, "take_bad"), target).run(
        [source, indices, out, error]
    )
    assert error[0] == 21
    error[0] = 0
    shape = replace(shape, mode="take_grad")
    runner = harness.Runner(emit_indexed(shape, target, "add_bad"), target)
    runner.run([out, indices, source.copy(), error])
    assert error[0] == 21


def test_compiled_take_and_its_gradient_agree_with_eager_ones() -> None:
    rng = np.random.default_rng(0)
    table = tl.asarray(rng.standard_normal((6, 4, 5)))
    indices = tl.asarray(rng.integers(-4, 4, (2, 7)))

    def loss(x: tl.Tensor, i: tl.Tensor) -> tl.Tensor:
        rows = tl.take(x, i, axis=1)
        return tl.sum(rows * rows * 0.5)

    compiled = tl.function(loss)
    np.testing.assert_allclose(compiled(table, indices).numpy(), loss(table, indices).numpy())
    gradients = []
    for f in (loss, compiled):
        with tl.GradientTape() as tape:
            tape.watch(table)
            value = f(table, indices)
        gradients.append(tape.gradient(value, table).numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-12)


def test_compiled_take_of_a_view_and_bad_indices() -> None:
    x = np.arange(12.0).reshape(3, 4)
    pick = tl.function(lambda x, i: tl.take(x.T, i, axis=0))
    found = pick(tl.asarray(x), tl.asarray(np.array([3, -4, 1]))).numpy()
    assert np.array_equal(found, x.T[[3, 0, 1]])
    with pytest.raises(IndexError, match="4"):
        pick(tl.asarray(x), tl.asarray(np.array([3, 4, 1])))
    found = pick(tl.asarray(x), tl.asarray(np.array([3, -4, 1]))).numpy()
    assert np.array_equal(found, x.T[[3, 0, 1]])


@pytest.mark.parametrize("code", ["i4", "i8", "u1", "u8"])
def test_compiled_labels_are_checked(code: str) -> None:
    loss = tl.function(lambda z, y: tl.sparse_softmax_cross_entropy(z, y))
    logits = tl.asarray(np.random.default_rng(0).standard_normal((40, 5)))
    labels = np.arange(40).astype(code) % 5
    np.testing.assert_allclose(
        loss(logits, tl.asarray(labels)).numpy(),
        tl.sparse_softmax_cross_entropy(logits, tl.asarray(labels)).numpy(),
    )
    for bad in (5, 100) if code[0] == "u" else (5, -1):
        labels[33] = bad
        with pytest.raises(IndexError, match=f"label {bad} "):
            loss(logits, tl.asarray(labels))


def test_compiled_take_along_axis_agrees_with_the_eager_one() -> None:
    rng = np.random.default_rng(0)
    x = tl.asarray(rng.standard_normal((8, 5)))
    y = tl.asarray(rng.integers(-5, 5, (8, 1)))

    def loss(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
        return tl.sum(tl.take_along_axis(x.T * x.T, y.T, axis=0))

    gradients = []
    for f in (loss, tl.function(loss)):
        with tl.GradientTape() as tape:
            tape.watch(x)
            value = f(x, y)
        gradients.append(tape.gradient(value, x).numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-12)
    with pytest.raises(IndexError, match="is out of range"):
        tl.function(loss)(x, y + 7)


def test_compiled_indexing_by_several_tensors_runs_natively() -> None:
    x = tl.asarray(np.arange(60.0).reshape(3, 4, 5))
    pick = tl.function(lambda x, i, j: x[i, :, j])
    i, j = np.array([[0, -1], [2, 1]]), np.array([4, -5], np.int32)
    found = pick(x, tl.asarray(i), tl.asarray(j)).numpy()
    assert np.array_equal(found, x.numpy()[i, :, j])
    with pytest.raises(IndexError, match="index 5 is out of range for axis 2 with size 5"):
        pick(x, tl.asarray(i), tl.asarray(np.array([5, 0], np.int32)))
