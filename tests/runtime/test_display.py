"""Arrays show themselves in notebooks."""

from __future__ import annotations

import numpy as np

import tapeline as tl
from tapeline.runtime.display import MAX_COLUMNS, MAX_ROWS, array_html


def test_tensor_shows_shape_dtype_and_values() -> None:
    text = tl.asarray(np.array([[1.0, -2.5]], np.float32))._repr_html_()
    assert text is not None
    assert "<b>Tensor</b>" in text
    assert "1 x 2" in text
    assert "float32" in text
    assert ">-2.5</td>" in text


def test_variable_shows_its_name() -> None:
    assert "<b>Variable w&lt;0&gt;</b>" in tl.Variable([1, 2], name="w<0>")._repr_html_()


def test_large_arrays_are_cut() -> None:
    text = array_html("x", np.zeros((100, 100)))
    assert text.count("<td") == MAX_ROWS * (MAX_COLUMNS + 1) + 1


def test_arrays_of_any_kind_show() -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (3,), (2, 3), (2, 2, 2), (2, 0, 3)]
    for shape in shapes:
        for dtype in (np.bool_, np.int8, np.float64, np.complex64):
            assert array_html("x", np.ones(shape, dtype)).startswith("<div>")


def test_values_that_are_no_numbers_are_counted() -> None:
    assert "2 not finite" in array_html("x", np.array([1.0, np.nan, np.inf]))
    assert "no finite values" in array_html("x", np.array([np.nan, np.inf]))


def test_symbolic_tensors_have_no_table() -> None:
    shown: list[str | None] = []

    @tl.function
    def f(x: tl.Tensor) -> tl.Tensor:
        shown.append(x._repr_html_())
        return x * 2

    f(tl.asarray([1.0]))
    assert shown == [None]
