"""Sharing tensors with other array libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.exchange import NUMPY_HAS_DLPACK_1

needs_dlpack_1 = pytest.mark.skipif(
    not NUMPY_HAS_DLPACK_1, reason="NumPy 2.0 knows no read-only memory in DLPack: it gets a copy"
)


@needs_dlpack_1
def test_dlpack_shares_memory_that_cannot_be_written_to() -> None:
    x = tl.asarray([1.0, 2.0])
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    assert not array.flags.writeable


def test_dlpack_copies_for_consumers_that_cannot_be_told() -> None:
    class Old:
        def __init__(self, x: tl.Tensor) -> None:
            self.x = x

        def __dlpack__(self, **_: object) -> object:
            return self.x.__dlpack__()

        def __dlpack_device__(self) -> object:
            return self.x.__dlpack_device__()

    x = tl.asarray([1.0, 2.0])
    array = np.from_dlpack(Old(x))  # type: ignore[arg-type]
    assert not np.shares_memory(array, x.numpy())


def test_from_dlpack_shares_or_copies() -> None:
    array = np.asarray([1.0, 2.0])
    assert np.shares_memory(tl.from_dlpack(array).numpy(), array)
    assert not np.shares_memory(tl.from_dlpack(array, copy=True).numpy(), array)
    with pytest.raises(TypeError, match="no __dlpack__"):
        tl.from_dlpack([1.0])


def test_a_tensor_that_shares_memory_is_not_written_to_in_place() -> None:
    array = np.asarray([1.0, 2.0])
    x = tl.from_dlpack(array)
    x[0] = 5.0
    np.testing.assert_array_equal(array, [1.0, 2.0])
    np.testing.assert_array_equal(x.numpy(), [5.0, 2.0])


def test_the_only_device_is_the_cpu() -> None:
    x = tl.ones(2, device="cpu")
    assert x.to_device("cpu") is x
    unknown: Any = "gpu"
    for make in (tl.zeros, tl.ones, tl.empty, tl.arange, tl.eye):
        with pytest.raises(ValueError, match="no device 'gpu'"):
            make(2, device=unknown)
    with pytest.raises(ValueError, match="no device"):
        x.to_device(unknown)


def test_a_tensor_names_its_namespace() -> None:
    x = tl.ones(2)
    assert x.__array_namespace__() is tl
    assert x.__array_namespace__(api_version=tl.__array_api_version__) is tl
    with pytest.raises(ValueError, match=r"version '1999\.01'"):
        x.__array_namespace__(api_version="1999.01")
