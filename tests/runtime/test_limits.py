"""Questions about dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import tapeline as tl


def test_finfo_and_iinfo_give_python_numbers() -> None:
    limits = tl.finfo(tl.complex64)
    assert (limits.bits, limits.dtype) == (32, tl.float32)
    assert type(limits.max) is float
    assert tl.iinfo(tl.asarray([1], dtype="uint8")).max == 255
    with pytest.raises(TypeError, match=r"use tl\.iinfo"):
        tl.finfo("int8")
    with pytest.raises(TypeError, match=r"use tl\.finfo"):
        tl.iinfo("float32")


def test_isdtype_knows_kinds_and_dtypes() -> None:
    assert tl.isdtype(tl.uint8, "integral")
    assert not tl.isdtype(tl.bool, "numeric")
    assert tl.isdtype(tl.float32, (tl.float64, "real floating"))
    with pytest.raises(TypeError, match="isdtype: kind"):
        tl.isdtype(tl.float32, "imaginary")


def test_result_type_takes_tensors_dtypes_and_numbers() -> None:
    assert tl.result_type(tl.asarray(1, dtype="uint8"), tl.int8, 3) == tl.int16
    assert tl.result_type(tl.float32, 1.5) == tl.float32
    with pytest.raises(ValueError, match="at least one"):
        tl.result_type()


def test_can_cast_is_that_of_numpy() -> None:
    for a in (tl.int8, tl.uint8, tl.int64, tl.float32, tl.complex64):
        for b in (tl.int8, tl.uint8, tl.int64, tl.float32, tl.complex64):
            assert tl.can_cast(a, b) == np.can_cast(a, b)
