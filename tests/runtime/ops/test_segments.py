"""Extrema and means of segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl

IDS = np.array([2, 0, 2, 1, 0, 4])


def wanted(name: str, data: Any) -> Any:
    """Segment by segment."""
    rows = []
    for number in range(5):
        own = data[number == IDS]
        if len(own):
            rows.append(getattr(np, name)(own, axis=0))
        else:
            rows.append(np.full(data.shape[1:], {"max": -np.inf, "min": np.inf, "mean": 0}[name]))
    return np.stack(rows)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", ["max", "min", "mean"])
def test_segments_are_reduced_one_by_one(name: str, mode: str, rng: np.random.Generator) -> None:
    function = getattr(tl, f"segment_{name}")

    def program(data: Any, ids: Any) -> Any:
        return function(data, ids, 5)

    run = tl.function(program) if mode == "compiled" else program
    for shape in ((6,), (6, 3)):
        data = rng.normal(size=shape)
        got = run(tl.asarray(data), tl.asarray(IDS)).numpy()
        np.testing.assert_allclose(got, wanted(name, data), rtol=1e-15)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", ["max", "min", "mean"])
def test_gradients_agree_with_differences(name: str, mode: str, rng: np.random.Generator) -> None:
    function = getattr(tl, f"segment_{name}")
    ids = np.array([1, 0, 1, 1, 0, 2])

    def program(data: Any) -> Any:
        return function(data, ids, 3)

    run = tl.function(program) if mode == "compiled" else program
    tl.testing.check_gradients(run, [tl.asarray(rng.normal(size=(6, 2)))])


def test_equal_rows_share_the_cotangent() -> None:
    slope = tl.grad(lambda x: tl.sum(tl.segment_max(x, [0, 0, 1], 2)))(tl.asarray([2.0, 2.0, 1.0]))
    np.testing.assert_array_equal(slope.numpy(), [0.5, 0.5, 1.0])


def test_ints_have_extrema_too() -> None:
    got = tl.segment_max(np.array([3, 7], np.int8), [1, -1], 2).numpy()
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, [-128, 7])


def test_segments_map_over_examples(rng: np.random.Generator) -> None:
    data = rng.normal(size=(4, 6))
    got = tl.vmap(lambda x: tl.segment_min(x, IDS, 5))(tl.asarray(data)).numpy()
    np.testing.assert_array_equal(got, [wanted("min", row) for row in data])


def test_segments_reject_numbers_that_do_not_belong() -> None:
    with pytest.raises(ValueError, match="segment_max: segment_ids has shape"):
        tl.segment_max([1.0, 2.0], [0], 1)
    with pytest.raises(IndexError, match="3"):
        tl.segment_mean([1.0], [3], 2)
