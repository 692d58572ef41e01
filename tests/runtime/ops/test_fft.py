"""Fourier transforms are those of NumPy, and their gradients are adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl


def complex_values(rng: np.random.Generator, *shape: int) -> Any:
    """Random complex numbers."""
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 3, 4, 7, 8])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward", None])
def test_transform_along_an_axis_is_that_of_numpy(
    name: str, n: int | None, norm: str | None, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(5, 3)) if name in ("rfft", "ihfft") else complex_values(rng, 5, 3)
    want = getattr(np.fft, name)(x, n, 0, norm)
    got = getattr(tl.fft, name)(x, n=n, axis=0, norm=norm)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    through_numpy = getattr(np.fft, name)(tl.asarray(x), n, 0, norm)
    np.testing.assert_array_equal(through_numpy.numpy(), got.numpy())


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(
    ("s", "axes"), [(None, None), ((4, 5), (2, 0)), (None, (1,)), ((3, 4, 5), (0, 1, 2))]
)
def test_transform_along_axes_is_that_of_numpy(
    name: str, s: Any, axes: Any, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(4, 3, 6)) if name == "rfftn" else complex_values(rng, 4, 3, 6)
    want = getattr(np.fft, name)(x, s, axes)
    got = getattr(tl.fft, name)(x, s=s, axes=axes)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


def test_single_precision_stays_single() -> None:
    assert tl.fft.fft(tl.ones(4, dtype="float32")).dtype == tl.complex64
    assert tl.fft.irfft(tl.ones(3, dtype="complex64")).dtype == tl.float32
    assert tl.fft.rfft([1, 2, 3]).dtype == tl.complex128


def test_gradient_of_the_power_spectrum_is_twice_the_signal(rng: np.random.Generator) -> None:
    x = tl.asarray(rng.normal(size=8))
    with tl.GradientTape() as tape:
        tape.watch(x)
        power = tl.sum(tl.abs(tl.fft.fft(x, norm="ortho")) ** 2)
    np.testing.assert_allclose(tape.gradient(power, x).numpy(), 2 * x.numpy())


def test_transforms_run_compiled(rng: np.random.Generator) -> None:
    x = tl.asarray(rng.normal(size=(3, 8)))

    @tl.function
    def smooth(x: tl.Tensor) -> tl.Tensor:
        return tl.fft.irfft(tl.fft.rfft(x) * tl.exp(-tl.fft.rfftfreq(8)))

    want = np.fft.irfft(np.fft.rfft(x.numpy()) * np.exp(-np.fft.rfftfreq(8)))
    np.testing.assert_allclose(smooth(x).numpy(), want, atol=1e-12)


def test_fftshift_and_its_inverse_are_those_of_numpy(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 5))
    for axes in (None, 0, (0, 1)):
        shifted = tl.fft.fftshift(x, axes=axes)
        np.testing.assert_array_equal(shifted.numpy(), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(tl.fft.ifftshift(shifted, axes=axes).numpy(), x)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="norm is 'none'"):
        tl.fft.fft([1.0], norm="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        tl.fft.fft([1.0], n=0)
    with pytest.raises(TypeError, match="rfft: dtype complex128"):
        tl.fft.rfft([1j])
    with pytest.raises(ValueError, match="s="):
        tl.fft.fftn([1.0], s=(2, 2), axes=(0,))
    with pytest.raises(ValueError, match="0-d"):
        tl.fft.fft(1.0)
