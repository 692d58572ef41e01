"""What is special about tensors as sets."""

from __future__ import annotations

import numpy as np

import tapeline as tl


def test_unique_values_keeps_every_nan() -> None:
    values = tl.unique_values([np.nan, 2.0, np.nan, 2.0]).numpy()
    np.testing.assert_array_equal(values, [2.0, np.nan, np.nan])


def test_unique_all_gives_what_rebuilds_the_tensor() -> None:
    x = tl.asarray([[3, 1], [1, 3], [2, 2]])
    found = tl.unique_all(x)
    assert found.inverse_indices.shape == x.shape
    np.testing.assert_array_equal(tl.take(found.values, found.inverse_indices).numpy(), x.numpy())
    np.testing.assert_array_equal(found.counts.numpy(), [2, 2, 2])
    np.testing.assert_array_equal(found.indices.numpy(), [1, 4, 0])


def test_gradient_of_unique_values_goes_to_the_first_of_equals() -> None:
    x = tl.asarray([3.0, 1.0, 3.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        total = tl.sum(tl.unique_values(x) * tl.asarray([10.0, 1.0]))
    np.testing.assert_array_equal(tape.gradient(total, x).numpy(), [1.0, 10.0, 0.0])


def test_isin_promotes_its_operands() -> None:
    np.testing.assert_array_equal(
        tl.isin(tl.asarray([1, 2, 3], dtype="int8"), [2.0, 2.5], invert=True).numpy(),
        [True, False, True],
    )
