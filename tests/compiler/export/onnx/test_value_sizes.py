"""Models of functions in which sizes depend on values: one model serves every size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, export_and_run, run_model

import tapeline as tl
from tapeline.runtime.errors import ExportError
from tapeline.runtime.tensor import Tensor

pytest.importorskip("onnx", reason=NEEDS_ONNX)


def masked(x: Tensor) -> tuple[Tensor, ...]:
    y = x[x > 0.1]
    return tl.sum(tl.exp(y) * 2 - y) / y.shape[0], y * 2


def twice_masked(x: Tensor) -> tuple[Tensor, ...]:
    y = x[x > 0]
    z = y[y < 1]
    return tl.concat([y, z, y * 2]), tl.sort(z), tl.cumulative_sum(y)


def places(x: Tensor) -> tuple[Tensor, ...]:
    return tl.nonzero(tl.reshape(x, (4, 5)) > 0)


def written(x: Tensor) -> Tensor:
    x = x + 0
    x[x > 0] = tl.sqrt(x[x > 0])
    return x


def looped(x: Tensor) -> Tensor:
    total = tl.asarray(0.0)
    for value in x[x > 0]:
        total = total + value * value
    return total


def chosen(x: Tensor) -> Tensor:
    y = x[x > 0]
    return tl.sum(y * y) if tl.sum(y) > 3 else tl.prod(y)


DIFFERENTIABLE = [masked, twice_masked, written, looped, chosen]


def same(got: dict[str, Any], want: Any) -> None:
    want = want if isinstance(want, tuple | list) else (want,)
    assert len(got) == len(want)
    for a, b in zip(got.values(), want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("function", [*DIFFERENTIABLE, places])
def test_a_model_serves_other_sizes(
    function: Callable[..., Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.normal(size=20)
    path = tmp_path / "m.onnx"
    same(export_and_run(tl.function(function), [x], path), function(tl.asarray(x)))
    for other in (rng.normal(size=20), np.abs(x) + 0.2):
        same(run_model(path, {"x": other}), function(tl.asarray(other)))


@pytest.mark.parametrize("function", DIFFERENTIABLE)
def test_its_gradient_does_too(
    function: Callable[..., Any], tmp_path: Path, rng: np.random.Generator
) -> None:
    x, other = rng.normal(size=(2, 20))
    signature = (tl.asarray(x),)
    made = tl.export.onnx(tl.function(function), tmp_path / "g.onnx", signature, grad=True)
    for values in (x, other):
        results, pull = tl.vjp(function, tl.asarray(values))
        results = results if isinstance(results, tuple) else (results,)
        cotangents = [rng.normal(size=one.shape) for one in results]
        given = tuple(map(tl.asarray, cotangents))
        got = run_model(made.path, dict(zip(made.inputs, [values, *cotangents], strict=True)))
        same(got, pull(given if len(given) > 1 else given[0]))


@pytest.mark.parametrize(
    "x",
    [
        np.array([2.5, np.nan, -0.0, 0.0, np.nan, 2.5, -np.inf]),
        np.array([[3, -1, 3], [7, -1, 0]], np.int8),
        np.array([2**63 + 1, 0, 2**63 + 1], np.uint64),
        np.array([True, False, True]),
    ],
    ids=["floats", "ints", "large ints", "bools"],
)
def test_distinct_elements(x: Any, tmp_path: Path) -> None:
    def parts(x: Tensor) -> tuple[Any, ...]:
        return (*tl.unique_all(x), np.unique(x))

    same(export_and_run(tl.function(parts), [x], tmp_path / "m.onnx"), parts(tl.asarray(x)))


def test_repetitions_as_counts_say(tmp_path: Path) -> None:
    def repeated(x: Tensor, counts: Tensor) -> Tensor:
        return tl.repeat(x, counts)

    x, counts = np.array([1.5, 2.5, 3.5, 4.5]), np.array([0, 2, 0, 3])
    path = tmp_path / "m.onnx"
    same(
        export_and_run(tl.function(repeated), [x, counts], path),
        repeated(tl.asarray(x), tl.asarray(counts)),
    )
    other = np.array([1, 0, 4, 0])
    same(run_model(path, {"x": x, "counts": other}), repeated(tl.asarray(x), tl.asarray(other)))


def test_bounds_and_sizes_that_are_computed(tmp_path: Path) -> None:
    def cut(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        return x[1:n] * 2, tl.zeros((cast(int, n), 2)) + x[:2]

    x = np.arange(9.0)
    path = tmp_path / "m.onnx"
    export_and_run(tl.function(cut), [x, np.int64(7)], path)
    for n in (7, 3, 9):
        got = run_model(path, {"x": x, "n": np.int64(n)})
        assert got["result_0"].tolist() == (x[1:n] * 2).tolist()
        assert got["result_1"].tolist() == (np.zeros((n, 2)) + x[:2]).tolist()


def test_sizes_of_both_kinds(tmp_path: Path, rng: np.random.Generator) -> None:
    @tl.function
    def shares(x: Tensor) -> Tensor:
        y = x[x > 0]
        return y / x.shape[0]

    made = tl.export.onnx(shares, tmp_path / "m.onnx", (tl.TensorSpec([None], "float64"),))
    assert str(made.inputs["x"].shape) == "(n0,)"
    assert str(made.outputs["result"].shape) == "(n1,)"
    for count in (5, 12):
        x = rng.normal(size=count)
        same(run_model(made.path, {"x": x}), shares(tl.asarray(x)))


def test_an_example_must_not_be_a_special_case(tmp_path: Path) -> None:
    def picked(x: Tensor) -> Tensor:
        return tl.sort(x[x > 0])

    with pytest.raises(
        ExportError, match=r"(?s)trace the function first with arguments for which .*several true"
    ):
        tl.export.onnx(tl.function(picked), tmp_path / "m.onnx", (tl.asarray([-1.0, -2.0]),))
    made = tl.export.onnx(tl.function(picked), tmp_path / "m.onnx", (tl.asarray([2.0, 1.0]),))
    for values in ([-1.0, -2.0], [3.0, -1.0], [4.0, 3.0]):
        same(run_model(made.path, {"x": np.array(values)}), picked(tl.asarray(values)))


def test_models_fail_where_another_trace_would_serve(tmp_path: Path) -> None:
    def by_count(x: Tensor) -> Tensor:
        y = x[x > 0]
        return tl.sum(y) if y.shape[0] < 3 else tl.prod(y)

    x = np.array([2.0, 3.0, 4.0, -1.0])
    with pytest.raises(ExportError, match=r"traced for a special case, n0 < 3, where values tell"):
        tl.export.onnx(tl.function(by_count), tmp_path / "m.onnx", (tl.asarray(x - 2),))
    made = tl.export.onnx(tl.function(by_count), tmp_path / "m.onnx", (tl.asarray(x),))
    assert "good for sizes where n0 >= 3" in made.notes
    same(run_model(made.path, {"x": x + 2}), by_count(tl.asarray(x + 2)))
    with pytest.raises(Exception, match="out of data bounds"):
        run_model(made.path, {"x": x - 2})


def test_parts_along_an_axis_are_refused_by_line(tmp_path: Path) -> None:
    @tl.function
    def rows(x: Tensor) -> Any:
        return np.unique(x, axis=0)

    with pytest.raises(ExportError, match=r"unique at .*test_value_sizes.*parts along an axis"):
        tl.export.onnx(rows, tmp_path / "m.onnx", (tl.ones((3, 2)),))
