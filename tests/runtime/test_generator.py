"""The generator: its state moves on eagerly and in compiled functions alike."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError


def draw(generator: tl.random.Generator) -> list[tl.Tensor]:
    """One draw of each kind."""
    return [
        generator.bits(2), generator.uniform(3), generator.normal((2, 2), dtype="float32"),
        generator.truncated_normal(2), generator.exponential(2), generator.gamma([1.0, 2.0]),
        generator.beta(1.0, 2.0, 2), generator.poisson(3.0, 2), generator.integers(4, 0, 100),
        generator.bernoulli(0.5, 8), generator.categorical([0.0, 1.0], shape=3),
        generator.permutation(5), generator.choice(9, 3),
    ]  # fmt: skip


def test_compiled_functions_move_the_state_on() -> None:
    eager, compiled = tl.random.Generator(3), tl.random.Generator(3)
    function = tl.function(lambda: draw(compiled))
    seen = []
    for _ in range(3):
        for a, b in zip(draw(eager), function(), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(eager.state.numpy(), compiled.state.numpy())
        seen.append(eager.state.numpy()[2])
    assert len(set(seen)) == 3


def test_earlier_states_bring_earlier_numbers_back() -> None:
    generator = tl.random.Generator(3)
    state = generator.state.numpy()
    first = generator.uniform(4).numpy()
    assert not np.array_equal(generator.uniform(4).numpy(), first)
    generator.state.assign(state)
    np.testing.assert_array_equal(generator.uniform(4).numpy(), first)


def test_stream_goes_on_from_block_to_block() -> None:
    generator = tl.random.Generator(11)
    parts = [generator.raw(count).numpy() for count in (4, 8, 0, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), np.random.Philox(11).random_raw(16))
    with pytest.raises(ArgumentError, match="count must be at least 0"):
        generator.raw(-1)


def test_split_generators_differ() -> None:
    parent = tl.random.Generator(3)
    children = parent.split(3)
    numbers = [tuple(g.uniform(4).numpy()) for g in (parent, *children)]
    assert len(set(numbers)) == 4
    again = tl.random.Generator(3).split(3)
    np.testing.assert_array_equal(again[1].uniform(4).numpy(), numbers[2])


def test_loops_draw_anew_at_each_turn() -> None:
    generator = tl.random.Generator(5)

    @tl.function
    def walk(steps: int) -> tl.Tensor:
        place = tl.zeros(2)
        for _ in range(steps):
            place = place + generator.normal(2)
        return place

    other = tl.random.Generator(5)
    want = sum(other.normal(2).numpy() for _ in range(4))
    np.testing.assert_allclose(walk(4).numpy(), want, rtol=1e-14)
