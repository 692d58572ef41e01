"""What array-API code may ask the library about itself."""

from __future__ import annotations

import pytest

import tapeline as tl


def test_dtypes_are_given_by_kind() -> None:
    info = tl.__array_namespace_info__()
    assert info.dtypes(kind="real floating") == {"float32": tl.float32, "float64": tl.float64}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {
        "bool",
        "complex64",
        "complex128",
    }
    assert len(info.dtypes()) == 13
    with pytest.raises(ValueError, match="no kind of dtype"):
        info.dtypes(kind="imaginary")


def test_defaults_are_those_of_the_creation_functions() -> None:
    info = tl.__array_namespace_info__()
    assert info.default_device() == tl.ones(1).device
    assert info.default_dtypes()["real floating"] == tl.ones(1).dtype
    assert info.default_dtypes()["integral"] == tl.arange(1).dtype
    assert info.default_dtypes()["indexing"] == tl.argmax([1.0]).dtype
