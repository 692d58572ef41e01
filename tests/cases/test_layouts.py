"""Arrays that are not stored in one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import assert_same_bits, both_modes, run_as

import tapeline as tl

BASE = np.arange(60 * 7 * 3.0).reshape(60, 7, 3)
READ_ONLY = np.arange(5.0)
READ_ONLY.flags.writeable = False
VIEWS: dict[str, Any] = {
    "backwards": BASE[::-1, :, 0],
    "every third backwards": BASE[:, ::-3, 1],
    "transposed": BASE.transpose(2, 0, 1),
    "columns first": np.asfortranarray(BASE[:, :, 1]),
    "broadcast": np.broadcast_to(np.arange(9.0), (4, 9)),
    "one element": BASE[5:6, 3:4, 0],
    "stepped": BASE[::2, 1::3, ::-1],
    "vector backwards": np.arange(33.0)[::-1],
    "ints backwards": np.arange(66, dtype="int32")[::-2],
    "read-only": READ_ONLY,
    "bytes apart": np.zeros(9, [("skip", "i1"), ("value", "f8")])["value"],
}


@both_modes
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "in place"])
def test_strides_are_respected(mode: str, name: str, copied: bool) -> None:
    view = VIEWS[name]
    x = tl.asarray(view) if copied else tl.asarray(view, copy=False)
    assert_same_bits(run_as(mode, lambda t: t * 2 - 1)(x), view * 2 - 1)
    assert_same_bits(run_as(mode, lambda t: tl.sum(t * 1, axis=0))(x), (view * 1).sum(axis=0))


@pytest.mark.parametrize("name", VIEWS)
def test_arrays_as_arguments_keep_their_strides(name: str) -> None:
    view = VIEWS[name]
    double = tl.function(lambda t: t * 2 - 1)
    for _ in range(3):
        assert_same_bits(double(view), view * 2 - 1)
    assert_same_bits(double(view.copy()), view * 2 - 1)


@both_modes
def test_products_of_views(mode: str) -> None:
    a = np.arange(12.0).reshape(3, 4)
    x, y = tl.asarray(a.T, copy=False), tl.asarray(a[::-1], copy=False)
    assert_same_bits(run_as(mode, tl.matmul)(x, y), a.T @ a[::-1])
