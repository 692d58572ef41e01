"""A warning where NumPy would write through a view to the whole, and only there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime import view_writes


@pytest.fixture(autouse=True)
def _no_line_is_known() -> Iterator[None]:
    view_writes._searches.clear()
    yield
    view_writes._searches.clear()


def _item_of_a_row(x: Any) -> None:
    row = x[1]
    row[0] = 5.0


def _in_one_statement(x: Any) -> None:
    x[1][0] = 5.0


def _reversed(x: Any) -> None:
    x[:, ::-1][0] = 5.0


def _row_in_place(x: Any) -> None:
    row = x[1]
    row += 1.0


def _part_of_a_part(x: Any) -> None:
    column = x[:, 1:][:, 0]
    column[:] = 5.0


def _transposed(x: Any) -> None:
    x.T[0] = 5.0


def _flat(x: Any) -> None:
    x.reshape(-1)[3] = 5.0


def _by_a_function(x: Any) -> None:
    row = x[1]
    np.copyto(row, 5.0)


def _as_out(x: Any) -> None:
    row = x[1]
    np.add(row, 1.0, out=row)


THROUGH: list[Callable[[Any], None]] = [
    _item_of_a_row, _in_one_statement, _reversed, _row_in_place, _part_of_a_part, _transposed,
    _flat, _by_a_function, _as_out,
]  # fmt: skip


def _augmented_item(x: Any) -> None:
    x[1] += 1.0
    x[:, 1:] *= 2.0
    x[0, ::2] -= x[1, ::2]


def _number(x: Any) -> None:
    total = x[1, 1]
    total += 1.0


def _copied(x: Any) -> None:
    for row in (
        x[1].copy(), np.copy(x[1]), tl.asarray(x[1], copy=True), x[1].astype(float), x[[0, 1]],
        x[x > 2.0], x[1] * 1.0, np.concatenate([x[1]]),
    ):  # fmt: skip
        row[0] = 5.0


def _whole_is_gone(x: Any) -> None:
    rows = (x * 2.0)[1:]
    rows[0] = 5.0
    rows = rows[:, 1:]
    rows[0] = 5.0


def _beside(x: Any) -> None:
    x = x * 2.0
    first, second = x[0], x[1]
    del x
    first[0] = 5.0
    second[0] = 6.0


def _whole_itself(x: Any) -> None:
    row = x[1]
    x[0] = 5.0
    x += row


APART: list[Callable[[Any], None]] = [
    _augmented_item, _number, _copied, _whole_is_gone, _beside, _whole_itself,
]  # fmt: skip
GRID = np.arange(6.0).reshape(2, 3).copy()
WAYS = pytest.mark.parametrize("way", [lambda f: f, tl.function], ids=["eager", "compiled"])


@WAYS
@pytest.mark.parametrize("program", THROUGH)
def test_what_numpy_writes_through_is_told(program: Callable[[Any], None], way: Any) -> None:
    x = tl.asarray(GRID)
    array = GRID.copy()
    program(array)
    assert (array != GRID).any(), "NumPy does not write through"
    with pytest.warns(tl.errors.ViewWriteWarning, match=r"row = x\[i\]\.copy\(\)") as told:
        way(program)(x)
    assert [one.filename for one in told] == [__file__]
    assert x.numpy().tolist() == GRID.tolist()


@WAYS
@pytest.mark.parametrize("program", APART)
def test_other_writes_are_not(program: Callable[[Any], None], way: Any) -> None:
    array = GRID.copy()
    program(array)
    x = tl.asarray(GRID)
    way(program)(x)
    assert x.numpy().tolist() == array.tolist()


@WAYS
def test_a_row_by_an_index_of_the_trace_is_a_part(way: Any) -> None:
    def program(x: Any) -> Any:
        for i in tl.range(x.shape[0]):
            row = x[i]
            row[0] = 5.0
        return x

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert way(program)(tl.asarray(GRID)).numpy().tolist() == GRID.tolist()
    if way is tl.function:  # eagerly the row is a copy, which cannot be told from others
        assert [one.category for one in told] == [tl.errors.ViewWriteWarning]


def test_a_captured_tensor_is_a_whole_too() -> None:
    x = tl.asarray(GRID)

    @tl.function
    def program() -> Any:
        row = x[1]
        row[0] = 5.0
        return row

    with pytest.warns(tl.errors.ViewWriteWarning):
        assert program().numpy().tolist() == [5.0, 4.0, 5.0]


def test_each_line_is_told_of_once() -> None:
    x = tl.asarray(GRID)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            _item_of_a_row(x)
    assert len(told) == 1


def test_an_error_instead_of_a_warning_leaves_the_part_as_it_was() -> None:
    x = tl.asarray(GRID)
    row = x[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tl.errors.ViewWriteWarning):
            row[0] = 5.0
    assert row.numpy().tolist() == [3.0, 4.0, 5.0]
