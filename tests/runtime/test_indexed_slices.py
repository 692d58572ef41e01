"""Sparse gradients of look-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


def slices_of(values: Any, indices: Any, n: int = 4) -> tl.IndexedSlices:
    values = np.asarray(values, float)
    return tl.IndexedSlices(values, indices, (n, *values.shape[1:]))


@MODES
def test_gradient_of_a_look_up_is_sparse_when_asked(mode: Wrapper) -> None:
    table = tl.Variable(np.arange(8.0).reshape(4, 2))

    def run(weights: Any) -> Any:
        with tl.GradientTape(persistent=True) as tape:
            rows = tl.take(table, [2, 0, 2], axis=0)
            total = tl.sum(rows * weights)
        return tape.gradient(total, table, sparse=True), tape.gradient(total, table)

    weights = np.array([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]])
    sparse, dense = mode(run)(tl.asarray(weights))
    assert type(sparse) is tl.IndexedSlices
    assert type(dense) is tl.Tensor
    assert sparse.indices.numpy().tolist() == [2, 0, 2]
    assert sparse.shape == table.shape
    np.testing.assert_array_equal(sparse.values.numpy(), weights)
    np.testing.assert_array_equal(np.asarray(sparse), dense.numpy())


def test_look_ups_add_up_sparse_and_a_dense_use_makes_them_dense() -> None:
    table = tl.Variable(np.ones((4, 2)))
    with tl.GradientTape(persistent=True) as tape:
        two = tl.sum(tl.take(table, [1], axis=0)) + 2.0 * tl.sum(tl.take(table, [3, 1], axis=0))
        all_rows = two + tl.sum(table)
    sparse = tape.gradient(two, table, sparse=True)
    assert sorted(sparse.indices.numpy().tolist()) == [1, 1, 3]
    np.testing.assert_array_equal(sparse.numpy(), [[0, 0], [3, 3], [0, 0], [2, 2]])
    dense = tape.gradient(all_rows, table, sparse=True)
    np.testing.assert_array_equal(np.asarray(dense), [[1, 1], [4, 4], [1, 1], [3, 3]])


def test_look_up_from_what_was_computed_is_dense_before_it_goes_on() -> None:
    table = tl.Variable(np.ones((4, 2)))
    with tl.GradientTape() as tape:
        y = tl.sum(tl.take(table * table, [1, 1], axis=0))
    found = tape.gradient(y, table, sparse=True)
    np.testing.assert_array_equal(found.numpy(), [[0, 0], [4, 4], [0, 0], [0, 0]])


def test_sparse_gradient_is_differentiable_again() -> None:
    table, w = tl.Variable(np.ones((4, 2))), tl.asarray(3.0)
    with tl.GradientTape() as outer:
        outer.watch(w)
        with tl.GradientTape() as tape:
            y = tl.sum(tl.take(table, [1, 2], axis=0) * w * w)
        sparse = tape.gradient(y, table, sparse=True)
    assert outer.gradient(sparse, w).item() == 24.0


def test_rows_stay_rows_while_they_are_scaled_and_added() -> None:
    a, b = slices_of([[1.0, 2.0]], [3]), slices_of([[5.0, 6.0]], [0])
    for found, want in (
        (a * 2.0, 2 * a.numpy()),
        (2.0 * a, 2 * a.numpy()),
        (a / 2.0, a.numpy() / 2),
        (a * tl.asarray(2.0), 2 * a.numpy()),
        (-a, -a.numpy()),
        (a + b, a.numpy() + b.numpy()),
        (a - b, a.numpy() - b.numpy()),
    ):
        assert type(found) is tl.IndexedSlices
        np.testing.assert_array_equal(found.numpy(), want)


def test_rows_become_a_tensor_wherever_one_is_expected() -> None:
    a, x = slices_of([[1.0, 2.0]], [3]), tl.ones((4, 2))
    for found, want in (
        (a + x, a.numpy() + 1),
        (x + a, a.numpy() + 1),
        (x - a, 1 - a.numpy()),
        (a - x, a.numpy() - 1),
        (a * x, a.numpy()),
        (a / x, a.numpy()),
        (tl.exp(a), np.exp(a.numpy())),
        (np.ones((4, 2)) + a, a.numpy() + 1),
    ):
        assert type(found) is tl.Tensor
        np.testing.assert_array_equal(found.numpy(), want)
    assert "dense_shape=(4, 2)" in repr(a)
    assert a.dtype == tl.float64


@MODES
def test_variables_take_rows(mode: Wrapper) -> None:
    v = tl.Variable(np.ones((4, 2)))

    def step(values: Any) -> None:
        slices = tl.IndexedSlices(values, [1, 3, 1], (4, 2))
        v.assign_sub(slices)
        v.assign_add(slices * 0.5)

    mode(step)(tl.asarray(np.full((3, 2), 2.0)))
    np.testing.assert_array_equal(v.numpy(), [[1, 1], [-1, -1], [1, 1], [0, 0]])


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="no rows of an array"):
        tl.IndexedSlices(np.ones((2, 2)), [1], (4, 2))
    with pytest.raises(ShapeError, match="cannot be added"):
        slices_of([[1.0]], [0], 3) + slices_of([[1.0]], [0], 4)
    with pytest.raises(ShapeError, match="rows of a float64 array"):
        tl.Variable(np.ones((3, 1))).assign_sub(slices_of([[1.0]], [0], 4))


@MODES
def test_rows_come_out_of_compiled_calls(mode: Wrapper) -> None:
    table, w = tl.Variable(np.arange(8.0).reshape(4, 2)), tl.Variable(3.0)
    lookup = mode(lambda: tl.sum(tl.take(table, [[1, 3], [1, 0]], axis=0) * w))
    (rows, by_table), (by_w, _) = tl.implicit_gradients(lookup)()
    assert by_table is table
    assert type(rows) is tl.IndexedSlices
    assert rows.indices.numpy().tolist() == [1, 3, 1, 0]
    np.testing.assert_array_equal(rows.numpy(), [[3, 3], [6, 6], [0, 0], [3, 3]])
    assert by_w.item() == 2 + 3 + 6 + 7 + 2 + 3 + 0 + 1
    with tl.GradientTape(persistent=True) as tape:
        y = lookup() + tl.sum(table * 2.0)
    assert type(tape.gradient(y, table, sparse=True)) is tl.Tensor
    assert type(tape.gradient(y, table)) is tl.Tensor


@MODES
def test_gradient_descent_updates_the_rows_alone(mode: Wrapper) -> None:
    start = np.arange(8.0).reshape(4, 2)

    def trained(sparse: bool, **options: Any) -> Any:
        table = tl.Variable(start)
        optimizer = tl.optimizers.SGD(0.5, **options)

        def step() -> None:
            with tl.GradientTape() as tape:
                loss = tl.sum(tl.take(table, [1, 1, 2], axis=0) ** 2)
            optimizer.apply([tape.gradient(loss, table, sparse=sparse)], [table])

        step = mode(step)
        for _ in range(3):
            step()
        return table.numpy()

    options: dict[str, Any]
    for options in ({}, {"momentum": 0.5}, {"weight_decay": 0.1}, {"clip_norm": 1.0}):
        np.testing.assert_allclose(trained(True, **options), trained(False, **options), rtol=1e-12)


@MODES
def test_rows_flow_through_scaling_and_joining(mode: Wrapper) -> None:
    a, b = tl.Variable(np.ones((3, 2))), tl.Variable(np.ones((2, 2)))

    def run(factor: Any) -> Any:
        with tl.GradientTape(persistent=True) as tape:
            table = tl.concat([-(a * 2.0) * factor, b / 4.0], axis=0)
            y = tl.sum(tl.take(table, [4, 0, 0, 3], axis=0) * [[1.0], [2.0], [3.0], [4.0]])
        return tape.gradient(y, [a, b], sparse=True), tape.gradient(y, [a, b])

    sparse, dense = mode(run)(tl.asarray(10.0))
    for rows, whole in zip(sparse, dense, strict=True):
        assert type(rows) is tl.IndexedSlices
        np.testing.assert_allclose(rows.numpy(), whole.numpy())
    np.testing.assert_allclose(dense[0].numpy(), [[-100.0, -100.0], [0.0, 0.0], [0.0, 0.0]])


def test_a_column_of_factors_makes_rows_dense() -> None:
    table, factors = tl.Variable(np.ones((3, 2))), tl.asarray([[1.0], [2.0], [3.0]])
    with tl.GradientTape() as tape:
        y = tl.sum(tl.take(table * factors, [2, 2], axis=0))
    found = tape.gradient(y, table, sparse=True)
    np.testing.assert_array_equal(np.asarray(found), [[0.0, 0.0], [0.0, 0.0], [6.0, 6.0]])
