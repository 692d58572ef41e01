"""Draws from keys: NumPy's stream, the same numbers compiled, and the right distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, DTypeError, ShapeError
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.random_bits import RANDOM_BITS

KEY = tl.random.key(2024)
COUNT = 20_000
LIMIT = 5.0
"""Standard errors that a statistic may be off; the numbers are always the same ones."""

DRAWS: dict[str, Callable[[tl.Tensor], tl.Tensor]] = {
    "bits": lambda key: tl.random.bits(key, 9),
    "split": lambda key: tl.random.split(key, 3),
    "fold_in": lambda key: tl.random.fold_in(key, 5),
    "uniform": lambda key: tl.random.uniform(key, (3, 5), -1.0, 3.0),
    "uniform32": lambda key: tl.random.uniform(key, 33, dtype="float32"),
    "normal": lambda key: tl.random.normal(key, (3, 5), 1.0, 2.0),
    "truncated_normal": lambda key: tl.random.truncated_normal(key, 33, low=-1.0),
    "exponential": lambda key: tl.random.exponential(key, 33, 2.0),
    "gumbel": lambda key: tl.random.gumbel(key, 33, dtype="float32"),
    "gamma": lambda key: tl.random.gamma(key, [0.5, 3.0], (7, 2)),
    "beta": lambda key: tl.random.beta(key, [0.5, 3.0], 2.0, (7, 2)),
    "poisson": lambda key: tl.random.poisson(key, [0.5, 30.0], (7, 2)),
    "integers": lambda key: tl.random.integers(key, 33, -4, 9),
    "small integers": lambda key: tl.random.integers(key, 33, 0, 256, dtype="uint8"),
    "bernoulli": lambda key: tl.random.bernoulli(key, 0.3, 33),
    "categorical": lambda key: tl.random.categorical(key, [[0.0, 1.0], [2.0, 0.0]], shape=8),
    "permutation": lambda key: tl.random.permutation(key, 33),
    "choice": lambda key: tl.random.choice(key, 7, 33, p=np.arange(7.0)),
    "choice without": lambda key: tl.random.choice(key, 7, 3, p=np.arange(7.0), replace=False),
    "dropout": lambda key: tl.nn.dropout(tl.ones((4, 5)), 0.4, key),
}


@pytest.mark.parametrize("seed", [0, 7, 2**80, (1, 2, 3)])
def test_bits_are_the_stream_of_numpys_philox(seed: Any) -> None:
    want = np.random.Philox(seed).random_raw(103)
    np.testing.assert_array_equal(tl.random.bits(tl.random.key(seed), 103).numpy(), want)
    np.testing.assert_array_equal(tl.random.Generator(seed).raw(103).numpy(), want)


def test_bits_of_a_counter_are_those_of_numpy_also_where_it_carries() -> None:
    counter = np.array([2**64 - 2, 2**64 - 1, 0, 9], np.uint64)
    want = np.random.Philox(key=KEY.numpy(), counter=counter).random_raw(40)
    got = apply(RANDOM_BITS, KEY, tl.asarray(counter), attrs=((40,),))
    np.testing.assert_array_equal(got.numpy(), want)


def test_uniform_numbers_are_the_highest_bits_of_the_words() -> None:
    words = tl.random.bits(KEY, 50).numpy()
    for dtype, digits in (("float64", 53), ("float32", 24)):
        want = (words >> np.uint64(64 - digits)).astype(np.float64) * 2.0**-digits
        np.testing.assert_array_equal(tl.random.uniform(KEY, 50, dtype=dtype).numpy(), want)


def test_published_block() -> None:
    """The known answer of Philox 4x64-10 for a key and a counter of ones in all bits."""
    ones = 2**64 - 1
    counter = np.array([ones - 1, ones, ones, ones], np.uint64)  # counted up before use
    got = apply(RANDOM_BITS, tl.full(2, ones, dtype="uint64"), tl.asarray(counter), attrs=((4,),))
    assert [f"{word:016x}" for word in got.numpy()] == [
        "87b092c3013fe90b", "438c3c67be8d0224", "9cc7d7c69cd777b6", "a09caebf594f0ba0",
    ]  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_draws_give_the_same_bits(name: str) -> None:
    draw = DRAWS[name]
    eager, again, compiled = draw(KEY), draw(KEY), tl.function(draw)(KEY)
    assert (compiled.shape, compiled.dtype) == (eager.shape, eager.dtype)
    assert compiled.numpy().tobytes() == eager.numpy().tobytes() == again.numpy().tobytes()
    other = draw(tl.random.fold_in(KEY, 1))
    assert other.shape == eager.shape
    assert other.numpy().tobytes() != eager.numpy().tobytes()


def test_threads_draw_what_one_draws_alone() -> None:
    keys = tl.random.split(KEY, 8)
    alone = [tl.random.normal(key, 5000).numpy() for key in keys]
    with ThreadPoolExecutor(8) as pool:
        together = pool.map(lambda key: tl.random.normal(key, 5000).numpy(), list(keys))
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_array_equal(a, b)


# Distributions


def assert_near(got: float, want: float, error: float) -> None:
    assert abs(got - want) <= LIMIT * error, f"{got} is {abs(got - want) / error} errors off {want}"


def assert_moments(x: tl.Tensor, mean: float, variance: float) -> None:
    """Mean and variance of many numbers; the error of the variance from the fourth moment."""
    values = x.numpy().astype(np.float64)
    assert_near(values.mean(), mean, math.sqrt(variance / values.size))
    fourth = ((values - values.mean()) ** 4).mean()
    assert_near(values.var(), variance, math.sqrt((fourth - variance**2) / values.size))


def assert_distribution(x: tl.Tensor, cumulative: Callable[[float], float]) -> None:
    """The largest distance from the distribution function, by Kolmogorov and Smirnov."""
    values = np.sort(x.numpy().astype(np.float64))
    want = np.array([cumulative(value) for value in values])
    steps = np.arange(values.size + 1) / values.size
    distance = max(np.abs(want - steps[1:]).max(), np.abs(want - steps[:-1]).max())
    assert distance < 2.0 / math.sqrt(values.size)  # one draw in 1500 is worse


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_continuous_draws_have_their_distribution(dtype: Any) -> None:
    keys = tl.random.split(KEY, 5)
    x = tl.random.uniform(keys[0], COUNT, dtype=dtype)
    assert x.dtype == np.dtype(dtype)
    assert x.numpy().min() >= 0
    assert x.numpy().max() < 1
    assert_distribution(x, lambda value: value)
    assert_distribution(tl.random.normal(keys[1], COUNT, dtype=dtype), normal_cdf)
    x = tl.random.exponential(keys[2], COUNT, dtype=dtype)
    assert_distribution(x, lambda value: -math.expm1(-value))
    x = tl.random.gumbel(keys[3], COUNT, dtype=dtype)
    assert_distribution(x, lambda value: math.exp(-math.exp(-value)))
    x = tl.random.truncated_normal(keys[4], COUNT, low=-1.0, high=3.0, dtype=dtype)
    low, high = normal_cdf(-1.0), normal_cdf(3.0)
    assert_distribution(x, lambda value: (normal_cdf(value) - low) / (high - low))


def test_other_draws_have_their_moments() -> None:
    keys = tl.random.split(KEY, 5)
    assert_moments(tl.random.gamma(keys[0], 3.0, COUNT, 2.0), 6.0, 12.0)
    assert_moments(tl.random.beta(keys[1], 2.0, 3.0, COUNT), 0.4, 0.04)
    assert_moments(tl.random.poisson(keys[2], 4.0, COUNT), 4.0, 4.0)
    assert_moments(tl.random.bernoulli(keys[3], 0.3, COUNT), 0.3, 0.21)
    assert_moments(tl.random.normal(keys[4], COUNT, 3.0, 2.0), 3.0, 4.0)


def assert_frequencies(found: Any, chances: Any) -> None:
    counts = np.bincount(found.reshape(-1), minlength=len(chances))
    for count, chance in zip(counts, chances, strict=True):
        error = math.sqrt(found.size * chance * (1 - chance))
        assert abs(count - found.size * chance) <= LIMIT * error


def test_choices_are_as_likely_as_asked() -> None:
    keys = tl.random.split(KEY, 5)
    chances = np.array([0.1, 0.0, 0.6, 0.3])
    assert_frequencies(tl.random.integers(keys[0], COUNT, 0, 7).numpy(), [1 / 7] * 7)
    assert_frequencies(tl.random.choice(keys[1], 4, COUNT, p=chances).numpy(), chances)
    with np.errstate(divide="ignore"):
        logits = np.log(chances)
    assert_frequencies(tl.random.categorical(keys[2], logits, shape=COUNT).numpy(), chances)
    first = [tl.random.permutation(key, 3).numpy()[0] for key in tl.random.split(keys[3], 600)]
    assert_frequencies(np.array(first), [1 / 3] * 3)
    words = tl.random.bits(keys[4], COUNT).numpy()
    for bit in (0, 1, 31, 32, 63):
        assert_frequencies((words >> np.uint64(bit) & np.uint64(1)).astype(int), [0.5, 0.5])


def test_neighbouring_draws_do_not_correlate() -> None:
    values = [tl.random.normal(KEY, COUNT).numpy()]
    values += [tl.random.normal(key, COUNT).numpy() for key in tl.random.split(KEY, 3)]
    values += [tl.random.normal(tl.random.fold_in(KEY, i), COUNT).numpy() for i in (0, 1)]
    values += [values[0][np.arange(1, COUNT + 1) % COUNT]]
    found = np.corrcoef(values) - np.eye(len(values))
    assert np.abs(found).max() < LIMIT / math.sqrt(COUNT)


# Parameters


def test_permutations_and_choices_move_whole_rows() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    moved = tl.random.permutation(KEY, rows).numpy()
    np.testing.assert_array_equal(np.sort(moved[:, 0]), rows[:, 0])
    np.testing.assert_array_equal(moved[:, 1], moved[:, 0] + 1)
    chosen = tl.random.choice(KEY, rows, 4, replace=False).numpy()
    assert len(np.unique(chosen[:, 0])) == 4
    assert tl.random.choice(KEY, rows, (2, 3), axis=1).shape == (6, 2, 3)
    with pytest.raises(ArgumentError, match="7 parts of 6 need replace=True"):
        tl.random.choice(KEY, rows, 7, replace=False)


def test_place_and_scale_have_gradients() -> None:
    mean, deviation = tl.asarray(1.0), tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch([mean, deviation])
        x = tl.random.normal(KEY, 5, mean, deviation)
    found = tape.gradient(x, [mean, deviation])
    assert found[0].item() == 5.0
    np.testing.assert_allclose(found[1].item(), ((x.numpy() - 1) / 2).sum())


def test_dropout_keeps_the_mean_and_drops_whole_axes_if_asked() -> None:
    x = tl.nn.dropout(tl.ones(COUNT), 0.25, KEY)
    assert set(np.unique(x.numpy())) == {0.0, 1.0 / 0.75}
    assert_near(x.numpy().mean(), 1.0, math.sqrt(1 / 3 / COUNT))
    rows = tl.nn.dropout(tl.ones((50, 4)), 0.5, KEY, shape=(50, 1)).numpy()
    assert (rows == rows[:, :1]).all()
    same = tl.ones(3)
    assert tl.nn.dropout(same, 0.5, KEY, training=False) is same
    with pytest.raises(ArgumentError, match="dropout: the rate must be from 0 up to 1"):
        tl.nn.dropout(same, 1.0, KEY)


def test_what_is_no_key_is_named() -> None:
    with pytest.raises(DTypeError, match="uniform: the key has dtype int64"):
        tl.random.uniform([1, 2], 3)
    with pytest.raises(ShapeError, match=r"bits: the key has shape \(2, 2\); expected \(2,\)"):
        tl.random.bits(tl.random.split(KEY))
    with pytest.raises(ArgumentError, match="key: the seed must be an int of at least 0"):
        tl.random.key(-1)
    with pytest.raises(DTypeError, match="expected a float"):
        tl.random.normal(KEY, 3, dtype="int32")
    with pytest.raises(ArgumentError, match="integers: low must be below high"):
        tl.random.integers(KEY, 3, 5, 5)
