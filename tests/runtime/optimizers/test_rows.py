"""Sparse gradients in optimizers and in clipping: only the rows that they name change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.runtime.optimizers.trajectories import (
    BETAS,
    LOOK_UPS,
    NO_EPSILON,
    SPARSE_CASES,
    SPARSE_FILE,
    TABLE,
)

import tapeline as tl

Make = Callable[[], tl.optimizers.Optimizer]
RECORDED: dict[str, list[list[float]]] = json.loads(SPARSE_FILE.read_text())
LIKE_PYTORCH: dict[str, Make] = {
    "sgd": lambda: tl.optimizers.SGD(0.02),
    "adam": lambda: tl.optimizers.Adam(0.05, epsilon=NO_EPSILON),
    "adam betas": lambda: tl.optimizers.Adam(0.05, *BETAS, epsilon=NO_EPSILON),
    "adagrad": lambda: tl.optimizers.Adagrad(0.1, initial=0.1),
}
OTHERS: dict[str, Make] = {
    "momentum": lambda: tl.optimizers.SGD(0.1, 0.9),
    "nesterov": lambda: tl.optimizers.SGD(0.1, 0.9, nesterov=True),
    "lion": lambda: tl.optimizers.Lion(0.1),
    "rmsprop": lambda: tl.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
}
MODES = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def stepper(optimizer: tl.optimizers.Optimizer, table: tl.Variable, compiled: bool) -> Any:
    """A function of indices that makes a step along the sparse gradient of a look-up."""

    def step(indices: Any) -> None:
        with tl.GradientTape() as tape:
            rows = tl.take(table, indices, axis=0)
            value: Any = tl.sum(rows * rows) - tl.sum(rows)
        gradient = tape.gradient(value, table, sparse=True)
        assert type(gradient) is tl.IndexedSlices
        optimizer.apply([gradient], [table])

    return tl.function(step) if compiled else step


def test_every_case_is_recorded_and_compared() -> None:
    assert set(RECORDED) == set(SPARSE_CASES) == set(LIKE_PYTORCH)


@MODES
@pytest.mark.parametrize("name", LIKE_PYTORCH)
def test_each_step_is_that_of_pytorch(name: str, compiled: bool) -> None:
    table = tl.Variable(np.array(TABLE))
    step = stepper(LIKE_PYTORCH[name](), table, compiled)
    for rows, want in zip(LOOK_UPS, RECORDED[name], strict=True):
        step(tl.asarray(rows))
        np.testing.assert_allclose(table.numpy().ravel(), want, rtol=1e-12, atol=1e-14)


@MODES
@pytest.mark.parametrize("name", OTHERS)
def test_a_row_moves_as_if_it_were_alone_at_its_turns(name: str, compiled: bool) -> None:
    table = tl.Variable(np.array(TABLE))
    step = stepper(OTHERS[name](), table, compiled)
    for rows in LOOK_UPS:
        step(tl.asarray(rows))
    for number, start in enumerate(TABLE):
        alone, optimizer = tl.Variable(np.array(start)), OTHERS[name]()
        for rows in LOOK_UPS:
            if number in rows:
                gradient = (alone.numpy() * 2 - 1) * rows.count(number)
                optimizer.apply([tl.asarray(gradient)], [alone])
        np.testing.assert_allclose(table.numpy()[number], alone.numpy(), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", [*LIKE_PYTORCH, *OTHERS])
def test_rows_that_are_not_named_keep_their_bits(name: str) -> None:
    optimizer = (LIKE_PYTORCH | OTHERS)[name]()
    table = tl.Variable(np.array(TABLE, np.float32))
    stepper(optimizer, table, False)(tl.asarray([1, 1]))
    before = table.numpy().copy()
    stepper(optimizer, table, False)(tl.asarray([-2, 3]))
    changed = (table.numpy() != before).any(axis=1)
    assert changed.tolist() == [False, False, False, True, False]
    assert table.dtype == np.float32


def test_no_rows_change_nothing() -> None:
    optimizer, table = tl.optimizers.Adam(0.1), tl.Variable(np.array(TABLE))
    none = tl.IndexedSlices(np.zeros((0, 2)), np.zeros(0, np.int64), (5, 2))
    optimizer.apply([none], [table])
    assert table.numpy().tolist() == TABLE
    assert int(optimizer.step) == 1


def test_decay_makes_a_sparse_gradient_dense() -> None:
    slices = tl.IndexedSlices([[1.0, 2.0]], [1], (5, 2))
    for make in (tl.optimizers.AdamW, tl.optimizers.Adam, tl.optimizers.SGD, tl.optimizers.Lion):
        tables = [tl.Variable(np.array(TABLE)) for _ in range(2)]
        for table, gradient in zip(tables, (slices, tl.asarray(slices)), strict=True):
            optimizer: Any = make(0.1, weight_decay=0.5)
            optimizer.apply([gradient], [table])
        assert tables[0].numpy().tolist() == tables[1].numpy().tolist()
        assert (tables[0].numpy() != np.array(TABLE)).all()


def test_an_index_out_of_range_is_refused() -> None:
    from tapeline.runtime.errors import IndexOutOfRangeError

    table = tl.Variable(np.array(TABLE))
    with pytest.raises(IndexOutOfRangeError):
        tl.optimizers.Adam(0.1).apply([tl.IndexedSlices([[1.0, 2.0]], [5], (5, 2))], [table])
    assert table.numpy().tolist() == TABLE


@MODES
def test_clipping_keeps_rows_and_means_what_it_means_for_the_whole(compiled: bool) -> None:
    values, indices = [[3.0, -1.0], [4.0, 0.5], [-2.0, 0.25]], [2, 0, 2]

    def clipped(values: Any, indices: Any) -> Any:
        slices = tl.IndexedSlices(values, indices, (4, 2))
        pair = [slices, {"b": tl.asarray([2.0])}]
        by_norm, norm = tl.optimizers.clip_by_global_norm(pair, 1.5)
        return by_norm, norm, tl.optimizers.clip_by_value(pair, 0.75)

    run = tl.function(clipped) if compiled else clipped
    by_norm, norm, by_value = run(tl.asarray(values), tl.asarray(indices))
    whole = np.zeros((4, 2))
    np.add.at(whole, indices, values)
    length = np.sqrt((whole**2).sum() + 4.0)
    np.testing.assert_allclose(norm.item(), length, rtol=1e-14)
    assert type(by_norm[0]) is type(by_value[0]) is tl.IndexedSlices
    np.testing.assert_allclose(by_norm[0].numpy(), whole * 1.5 / length, rtol=1e-14)
    np.testing.assert_allclose(by_norm[1]["b"].numpy(), [2.0 * 1.5 / length], rtol=1e-14)
    np.testing.assert_allclose(by_value[0].numpy(), np.clip(whole, -0.75, 0.75), rtol=1e-14)


@MODES
def test_a_bound_for_the_norm_leaves_rows_alone(compiled: bool) -> None:
    tables = [tl.Variable(np.array(TABLE)) for _ in range(2)]
    for table, is_sparse in zip(tables, (True, False), strict=True):
        optimizer = tl.optimizers.Adagrad(0.1, clip_norm=0.5)

        def step(
            indices: Any,
            table: Any = table,
            optimizer: Any = optimizer,
            is_sparse: bool = is_sparse,
        ) -> None:
            with tl.GradientTape() as tape:
                value = tl.sum(tl.take(table, indices, axis=0) ** 2)
            optimizer.apply([tape.gradient(value, table, sparse=is_sparse)], [table])

        run = tl.function(step) if compiled else step
        for rows in LOOK_UPS:
            run(tl.asarray(rows))
    np.testing.assert_allclose(tables[0].numpy(), tables[1].numpy(), rtol=1e-12)
