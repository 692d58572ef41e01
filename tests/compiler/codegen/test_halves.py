"""Floats of 16 bits in compiled functions: the bits that NumPy and ml_dtypes give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op, Pointwise, registered_ops

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 needs ml_dtypes")
HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
each_half = pytest.mark.parametrize("dtype", HALVES, ids=str)
ONLY_FLOAT64 = {"exact_log", "cosine_of_turns", "sine_of_turns"}

ROUNDED_ONCE = {"sigmoid": 2, "rsqrt": 1}
"""Kernels that are several NumPy calls, of which each rounds: units that they may be off by."""


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def every_number(dtype: Any) -> Any:
    """All of them, NaN once."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    return np.append(numbers[~np.isnan(numbers)], np.array(np.nan, dtype))


def assert_same_bits(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint16), want[~nan].view(np.uint16))


@each_half
def test_every_number_goes_to_float32_and_back(dtype: Any) -> None:
    numbers = every_number(dtype)
    wide, same = tl.function(lambda x: (tl.astype(x, "float32"), tl.positive(x)))(
        tl.asarray(numbers)
    )
    np.testing.assert_array_equal(wide.numpy(), numbers.astype(np.float32))
    assert_same_bits(same.numpy(), numbers)


@each_half
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_casts_round_as_numpy_does(source: Any, dtype: Any, rng: np.random.Generator) -> None:
    numbers = every_number(dtype).astype(np.float64)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    between = (numbers[1:] + numbers[:-1]) / 2
    wide = rng.normal(size=9999) * 10.0 ** rng.integers(-9, 6, 9999)
    x = np.concatenate([between, between * (1 + 1e-12), between * (1 - 1e-12), wide, [np.inf]])
    x = x.astype(source)
    got = tl.function(lambda a: tl.astype(a, dtype))(tl.asarray(x)).numpy()
    assert_same_bits(got, x.astype(dtype))


def fused_ops() -> list[Op]:
    """The fused ops of one or two floats of 16 bits."""
    return [
        op
        for op in registered_ops()
        if "f" in op.kinds and isinstance(op.lowering, Pointwise) and not op.attr_names
        if op.n_inputs in (1, 2) and op.name not in ONLY_FLOAT64
    ]


@pytest.mark.parametrize("op", fused_ops(), ids=lambda op: op.name)
def test_fused_ops_give_the_bits_of_their_kernels(op: Op, rng: np.random.Generator) -> None:
    inputs = [rng.normal(size=300).astype(np.float16) for _ in range(op.n_inputs or 0)]
    want = np.asarray(op.kernel(*inputs))
    got = tl.function(lambda *x: bind(op, x, ()))(*map(tl.asarray, inputs)).numpy()
    assert got.dtype == want.dtype
    if op.name in ROUNDED_ONCE:
        unit = np.spacing(np.abs(want).astype(np.float16)).astype(float)
        off = np.abs(got.astype(float) - want.astype(float)) / unit
        assert np.nanmax(off) <= ROUNDED_ONCE[op.name]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    else:
        np.testing.assert_array_equal(got, want)


def test_a_chain_rounds_after_each_op_and_is_one_loop() -> None:
    x = tl.asarray(np.linspace(-3, 3, 1000).astype(np.float16))

    def chain(a: Any) -> Any:
        return tl.max(tl.exp(a) * a + 0.1, axis=0)

    function = tl.function(chain)
    np.testing.assert_array_equal(function(x).numpy(), chain(x).numpy())
    assert [k.kind for k in function.get_concrete_function(x).kernels()] == ["loop"]
