"""Large draws go block by block through machine code, with the bits of NumPy's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.ops import draw_blocks
from tapeline.runtime.ops.draw_blocks import BLOCK, MANY

Draw = Callable[..., tl.Tensor]
DRAWS: dict[str, Draw] = {
    "uniform": tl.random.uniform,
    "normal": tl.random.normal,
    "exponential": tl.random.exponential,
    "gumbel": tl.random.gumbel,
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """Blocks are compiled at once; those that were."""
    blocks: dict[Any, Any] = {}
    monkeypatch.setattr(draw_blocks, "_COMPILED", blocks)
    monkeypatch.setattr(draw_blocks, "PATIENCE", 0)
    return blocks


def by_numpy(draw: Draw, *args: Any, **kwargs: Any) -> Any:
    """What the NumPy kernel draws, which answers while callbacks are shown ops."""
    with tl.debugging.op_callback(lambda *_: None):
        return draw(*args, **kwargs).numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DRAWS)
def test_blocks_have_the_bits_of_numpys_kernels(
    name: str, dtype: str, compiled: dict[Any, Any]
) -> None:
    key = tl.random.key(23)
    for count in (MANY, MANY + 1, 5 * BLOCK - 3):
        found = DRAWS[name](key, count, dtype=dtype).numpy()
        assert found.dtype == dtype
        assert found.tobytes() == by_numpy(DRAWS[name], key, count, dtype=dtype).tobytes()
    assert len(compiled) == 1


def test_blocks_fill_any_shape_and_follow_the_key(compiled: dict[Any, Any]) -> None:
    shape = (3, MANY // 2)
    first, second = (tl.random.normal(tl.random.key(k), shape).numpy() for k in (1, 2))
    assert first.shape == shape
    assert first.tobytes() == by_numpy(tl.random.normal, tl.random.key(1), shape).tobytes()
    assert (first != second).mean() > 0.99
    assert len(compiled) == 1


def test_blocks_have_the_bits_of_compiled_draws(compiled: dict[Any, Any]) -> None:
    @tl.function
    def draw(key: tl.Tensor) -> tl.Tensor:
        return tl.random.normal(key, MANY)

    key = tl.random.key(5)
    assert draw(key).numpy().tobytes() == tl.random.normal(key, MANY).numpy().tobytes()
    assert len(compiled) == 1


def test_small_draws_are_numpys(compiled: dict[Any, Any]) -> None:
    tl.random.normal(tl.random.key(5), MANY - 1)
    assert not compiled


def test_nothing_is_loaded_before_it_pays(
    compiled: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (compiler,) = draw_blocks.COMPILERS
    unloaded = compiler._replace(is_loaded=lambda: False)
    monkeypatch.setattr(draw_blocks, "COMPILERS", [unloaded])
    monkeypatch.setattr(draw_blocks, "PATIENCE", 2 * MANY)
    monkeypatch.setattr(draw_blocks, "_drawn", 0)
    key = tl.random.key(5)
    for _ in range(2):
        tl.random.normal(key, MANY)
        assert not compiled
    tl.random.normal(key, MANY)
    assert len(compiled) == 1


def test_generators_and_gradients_of_scales_go_on_as_before(compiled: dict[Any, Any]) -> None:
    scale = tl.asarray(2.0)
    key = tl.random.key(9)
    with tl.GradientTape() as tape:
        tape.watch(scale)
        total = tl.sum(tl.random.normal(key, MANY, 0.0, scale))
    gradient = tape.gradient(total, scale)
    assert gradient is not None
    expected = by_numpy(tl.random.normal, key, MANY).sum()
    np.testing.assert_allclose(gradient.item(), expected, rtol=1e-9)
    assert compiled
