"""Shapes in annotations are checked at the door, and their names are left open."""

# ruff: noqa: F821, UP037
# mypy: ignore-errors
# (a type checker takes strings in annotations for types)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def test_annotations_check_shapes_and_leave_names_open() -> None:
    @tl.function
    def weighted(x: tl.F64["n", "d"], w: tl.F64["d"], k: tl.F64[()] = 2.0) -> Any:
        return (x @ w) * k

    for n, d in [(2, 3), (5, 3), (1, 4), (0, 7), (4, 4)]:
        x, w = numbers(n, d), numbers(d)
        np.testing.assert_allclose(weighted(x, w).numpy(), x @ w * 2, rtol=1e-12)
    assert weighted.trace_count == 1
    assert str(weighted.concrete_functions[0].graph).count("n0") > 0
    with pytest.raises(ShapeError, match=r"argument w must be F64\['d'\].*d is 4 there and 3 in x"):
        weighted(tl.ones((2, 3)), tl.ones(4))
    with pytest.raises(ShapeError, match=r"argument x must be F64\['n', 'd'\], got shape \(3,\)"):
        weighted(tl.ones(3), tl.ones(3))
    with pytest.raises(TypeError, match=r"argument x must be .*, got dtype float32; convert"):
        weighted(tl.ones((2, 3), dtype="float32"), tl.ones(3))
    assert weighted.trace_count == 1


def test_annotations_in_quotes_fixed_sizes_and_any_size() -> None:
    @tl.function
    def f(x: "tl.F32[2, None, 'n']", *, y: "tl.F32['n']") -> "tl.F32":
        return x + y

    for n in (3, 4):
        assert f(tl.ones((2, n + 1, n), dtype="float32"), y=tl.ones(n, dtype="float32")).shape == (
            2, n + 1, n,
        )  # fmt: skip
    assert f.trace_count == 1
    with pytest.raises(ShapeError, match="axis 0 has size 3 and not 2"):
        f(tl.ones((3, 1, 2), dtype="float32"), y=tl.ones(2, dtype="float32"))


def test_annotations_say_what_to_trace() -> None:
    @tl.function
    def f(x: tl.F64["n", "d"], w: tl.F64["d"]) -> Any:
        return x @ w

    concrete = f.get_concrete_function()
    assert concrete.inputs == (tl.TensorSpec([None, None]), tl.TensorSpec([None]))
    np.testing.assert_allclose(concrete(tl.ones((2, 5)), tl.ones(5)).numpy(), [5.0, 5.0])


def test_bad_sizes_in_annotations() -> None:
    for sizes in [("n", -1), ("two words",), (1.5,), (True,)]:
        with pytest.raises(ValueError, match="a size is an int >= 0, a name or None"):
            tl.F64[sizes]
    assert repr(tl.F64["n", 3, None]) == "F64['n', 3, None]"
    assert tl.F64["n", 3] == tl.F64["n", 3]
