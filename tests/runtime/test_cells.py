"""Cells that get a new value: in-place operators and item assignment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapeline.runtime.cells import make_inplace, write_unshared
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.operators import make_binary
from tapeline.runtime.tensor import as_tensor, wrap


def test_inplace_changes_the_same_object(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    same, old = x, wrap(x._value)
    x += 1
    x *= as_tensor([2.0, 2.0])
    assert x is same
    assert x.tolist() == [4.0, 6.0]
    assert old.tolist() == [1.0, 2.0]


def test_inplace_keeps_dtype_and_shape(tiny: Any) -> None:
    add = make_inplace("+=", make_binary(tiny.ops["plus"], method=True))
    x = as_tensor(np.ones(2, np.float32))
    assert add(x, as_tensor([1.0, 1.0])) is x
    assert x.dtype == np.float32
    with pytest.raises(TypeError, match=r"x \+= y: the result has dtype float64"):
        add(as_tensor([1, 2]), 0.5)
    with pytest.raises(ValueError, match=r"the result has shape \(2,\), x has shape \(\)"):
        add(as_tensor(1.0), as_tensor([1.0, 2.0]))
    assert add(x, None) is NotImplemented


def test_inplace_gradient(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        y *= x
        y += x
    assert tape.gradient(y, x).tolist() == [3.0, 5.0]


def test_write_unshared_writes_only_where_nobody_looks() -> None:
    x = as_tensor([1.0, 2.0, 3.0])
    array = x._value
    assert not write_unshared(x, 0, 5.0)  # `array` holds it
    address = array.ctypes.data
    del array
    assert write_unshared(x, 0, 5.0)
    assert write_unshared(x, slice(1, None), as_tensor([7.0, 8.0]))
    assert x.tolist() == [5.0, 7.0, 8.0]
    assert x._value.ctypes.data == address
    view = x.numpy()
    assert not write_unshared(x, 0, 6.0)
    del view
    assert write_unshared(x, 0, 6.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, as_tensor(np.float32(1.0))),
        (0, 1j),
        (np.array([0]), 1.0),
        ([0], 1.0),
        (0, np.ones(())),
    ],
)
def test_write_unshared_leaves_the_rest_to_the_op(key: Any, value: Any) -> None:
    x = as_tensor([1.0, 2.0])
    assert not write_unshared(x, key, value)
    assert x.tolist() == [1.0, 2.0]


def test_write_unshared_respects_history(tiny: Any) -> None:
    x, v = as_tensor([1.0, 2.0]), as_tensor(2.0)
    with GradientTape() as tape:
        tape.watch(v)
        assert not write_unshared(x, 0, v)
        tape.watch(x)
        assert not write_unshared(x, 0, 1.0)
        y = x * 2.0
        assert not write_unshared(y, 0, 1.0)


def test_write_unshared_respects_saved_values(tiny: Any) -> None:
    x, w = as_tensor([1.0, 2.0]), as_tensor([3.0, 4.0])
    with GradientTape() as tape:
        tape.watch(w)
        y = x * w
        assert not write_unshared(x, 0, 9.0)
    assert tape.gradient(y, w).tolist() == [1.0, 2.0]


def test_write_unshared_leaves_bad_indices_to_the_op() -> None:
    x = as_tensor([1.0, 2.0])
    assert not write_unshared(x, 5, 1.0)
