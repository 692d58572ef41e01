"""astype, identity, stop_gradient and the parts of complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DTypeError


def test_floats_out_of_range_become_the_nearest_int() -> None:
    x = tl.asarray([-1e30, -1.5, 2.7, 1e30, np.inf, -np.inf, np.nan])
    for dtype in ("int8", "int64", "uint8", "uint64"):
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        want = [low, max(-1, low), 2, high, high, low, 0]
        assert x.astype(dtype).tolist() == want, dtype


def test_float32_at_the_edge_of_int32_is_exact() -> None:
    x = tl.asarray(np.array([2.0**31 - 128, 2.0**31, -(2.0**31)], np.float32))
    assert x.astype("int32").tolist() == [2**31 - 128, 2**31 - 1, -(2**31)]


def test_astype_of_the_same_dtype_is_another_tensor_unless_copy_is_false() -> None:
    x = tl.asarray([1.0])
    assert x.astype("float64") is not x
    assert tl.astype(x, "float64", copy=False) is x


def test_astype_rejects_dtypes_that_do_not_exist() -> None:
    with pytest.raises(DTypeError, match=r"astype: dtype: dtype \w+ is not supported"):
        tl.astype([1.0], np.longdouble)
    with pytest.raises(DTypeError, match="is no dtype"):
        tl.astype([1.0], "no such")


def test_gradient_comes_back_in_the_dtype_of_the_source() -> None:
    x = tl.asarray(np.array([1.0, 2.0], np.float32))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.astype(x, "float64") * 3.0
    gradient = tape.gradient(y, x)
    assert gradient.dtype == np.float32
    assert gradient.tolist() == [3.0, 3.0]


def test_casts_to_ints_end_the_gradient() -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.astype(tl.astype(x, "int32"), "float64") * 3.0
    assert tape.gradient(y, x) is None


def test_stop_gradient_ends_the_gradient_and_identity_does_not() -> None:
    x = tl.asarray(2.0)
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        same, stopped = tl.identity(x), tl.stop_gradient(x)
    assert same is not x
    assert tape.gradient(same, x).tolist() == 1.0
    assert tape.gradient(stopped, x) is None


def test_gradient_of_the_modulus_points_outwards() -> None:
    z = tl.asarray(3 + 4j)
    with tl.GradientTape() as tape:
        tape.watch(z)
        size = tl.abs(z)
    assert size.dtype == np.float64
    assert tape.gradient(size, z).item() == pytest.approx(0.6 + 0.8j)


def test_parts_of_complex_tensors_are_properties() -> None:
    z = tl.asarray([1 + 2j, 3 - 4j])
    assert z.real.tolist() == [1.0, 3.0]
    assert z.imag.tolist() == [2.0, -4.0]
    assert z.conj().tolist() == [1 - 2j, 3 + 4j]
    x = tl.asarray([1.5])
    assert x.real.tolist() == [1.5]
    assert x.imag.tolist() == [0.0]


@pytest.mark.parametrize("kind", ["int64", "int32", "bool"])
def test_a_cast_to_what_has_no_gradient_ends_it(kind: str) -> None:
    x = tl.asarray([1.5, 2.5])
    for again in range(3):  # later calls may take another way
        with tl.GradientTape() as tape:
            tape.watch(x)
            whole = x.astype(kind)
            y = tl.sum(whole.astype(tl.float64) * 2.0)
        assert tape.gradient(y, x) is None, again
        assert whole._node is None
    tl.function(lambda x: x * 2.0)(x)  # loads the compiler
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sum(x.astype(kind).astype(tl.float64))
    assert tape.gradient(y, x) is None
