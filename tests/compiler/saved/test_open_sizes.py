"""Graphs and functions with open sizes, written down and read back."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.parse import parse_graph
from tapeline.runtime.errors import ArgumentError, GraphError, SavedFileError


def program(x: Any) -> Any:
    n = x.shape[0]
    y = tl.concat([x, tl.zeros((n // 2 + 1, 4))])
    z = tl.reshape(y[1:], (-1,)) * n
    return z, tl.sum(x) / n if n > 2 else tl.sum(x), n


def open_graph() -> Graph:
    f = tl.function(program)
    for n in (6, 9):
        f(tl.ones((n, 4)))
    return f.concrete_functions[-1].graph


def without_lines(graph: Graph) -> str:
    return "\n".join(line.split("  # ")[0].rstrip() for line in str(graph).splitlines())


def test_text_parses_back() -> None:
    graph = open_graph()
    read = parse_graph(str(graph))
    assert without_lines(read) == without_lines(graph)
    assert "sizes n0=9" in str(graph)
    assert "where n0 > 2" in str(graph)
    assert graphs_equal(graph, read)


def test_json_reads_back() -> None:
    graph = open_graph()
    read = Graph.from_json(graph.to_json())
    assert str(read) == str(graph)
    assert graphs_equal(graph, read)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("sizes",), 3, "must be an object"),
        (("sizes", "values"), [-1], "ints >= 0"),
        (("sizes", "values"), "n0", "ints >= 0"),
        (("sizes", "conditions"), [["n0", "==", "3", True]], "comes out differently"),
        (("sizes", "conditions"), [["n0", "is", "3", True]], "cannot be"),
        (("sizes", "conditions"), [["n9", "==", "3", True]], "cannot read"),
        (("graphs", 0, "nodes", 0, "spec"), ["float64", ["n0 ** 99", 4]], "cannot read"),
        (("graphs", 0, "nodes", 0, "spec"), ["float64", ["n0 - 20", 4]], "list of extents"),
        (("graphs", 0, "nodes", 0, "spec"), ["float64", ["n0 * 99999999999", 4]], "larger"),
        (("graphs", 0, "nodes", 2, "spec"), ["float64", ["n0", 4]], "is written"),
    ],
)
def test_what_does_not_fit_is_refused(path: Any, value: Any, message: str) -> None:
    document = json.loads(open_graph().to_json())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(GraphError, match=message):
        Graph.from_json(json.dumps(document))


def test_a_saved_function_serves_other_sizes(tmp_path: Path) -> None:
    weights = tl.Variable([1.0, 2.0, 3.0, 4.0])

    @tl.function
    def f(x: Any, k: int = 2) -> Any:
        return tl.sum(x * weights, axis=1) * k, x.shape[0]

    for n in (3, 5):
        f(tl.ones((n, 4)))
    path = tmp_path / "f.tl"
    tl.export.save(f, path)
    loaded = tl.load(path)
    for n in (3, 5, 7, 1, 0):
        result, size = loaded(tl.ones((n, 4)))
        assert result.tolist() == [20.0] * n
        assert size == n
        assert type(size) is int
    assert loaded.trace_count == 0


def test_open_specs_are_saved_and_differentiated(tmp_path: Path) -> None:
    f = tl.function(lambda x: tl.tanh(x) * 2)
    path = tmp_path / "f.tl"
    tl.export.save(f, path, signatures=[(tl.TensorSpec([None, None], "float32"),)])
    loaded = tl.load(path)
    for shape in [(2, 3), (5, 1), (1, 1)]:
        x = tl.asarray(np.linspace(-1, 1, shape[0] * shape[1], dtype="float32").reshape(shape))
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = loaded(x)
        np.testing.assert_allclose(y.numpy(), np.tanh(x.numpy()) * 2, rtol=1e-6)
        slope = 2 * (1 - np.tanh(x.numpy()) ** 2)
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), slope, rtol=1e-5)


def scaled(x: Any) -> Any:
    return x * 3 + x.shape[0]


def test_pickled_functions_keep_their_open_sizes() -> None:
    f = tl.function(scaled)
    for n in (3, 5):
        f(tl.ones(n))
    other = pickle.loads(pickle.dumps(f))
    assert other(tl.ones(8)).tolist() == [11.0] * 8


@pytest.fixture
def step() -> Any:
    @tl.function
    def step(w: tl.Tensor, rates: dict[str, float], turns: int) -> tl.Tensor:
        return w - rates["slow"] * w + rates["fast"] * turns

    w = tl.asarray([1.0, 2.0])
    for k in range(4):
        step(w, {"slow": 0.5 + k, "fast": k - 9.5}, 2 + k)
    return step


def test_numbers_that_vary_are_inputs_of_the_loaded_function(step: Any, tmp_path: Path) -> None:
    tl.export.save(step, tmp_path / "step.tapeline")
    loaded = tl.load(tmp_path / "step.tapeline")
    assert any("turns = any int" in repr(one) for one in loaded.concrete_functions)
    w = tl.asarray([3.0, -1.0])
    for function in (loaded, pickle.loads(pickle.dumps(loaded)), tl.load(_again(loaded, tmp_path))):
        for k in range(5):
            given = {"slow": 0.125 * (k + 1), "fast": -2.5 * (k + 1)}, 11 + k
            np.testing.assert_array_equal(function(w, *given), step(w, *given))
        with pytest.raises(ArgumentError, match="not saved for such arguments"):
            function(w, {"slow": 0.5, "fast": 2.5}, 5)  # the trace is for negative ones
        with tl.GradientTape() as tape:
            tape.watch(w)
            total = tl.sum(function(w, {"slow": 0.75, "fast": -3.5}, 5))
        np.testing.assert_array_equal(tape.gradient(total, w), [0.25, 0.25])


def _again(function: Any, folder: Path) -> Path:
    tl.export.save(function, folder / "again.tapeline")
    return folder / "again.tapeline"


@pytest.mark.parametrize(
    "numbers", [[0], [0, 1], [1, 0, 2], [0, 1, 5], [0, 1, -1], "012", [0, 1, None]]
)
def test_numbers_that_do_not_fit_are_refused(step: Any, numbers: Any, tmp_path: Path) -> None:
    path = tmp_path / "step.tapeline"
    tl.export.save(step, path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(content["tapeline.json"])
    (trace,) = (one for one in document["traces"] if "numbers" in one)
    assert trace["numbers"] == [0, 1, 2]
    trace["numbers"] = numbers
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, json.dumps(document) if name == "tapeline.json" else data)
    with pytest.raises(SavedFileError):
        tl.load(path)


def test_an_open_number_of_a_file_stays_on_its_side_of_zero(tmp_path: Path) -> None:
    """The error says so; a file of a function that was called with both signs serves both."""
    x = tl.asarray([1.0, 2.0])
    scaled = tl.function(lambda x, rate: x * rate + (1 if rate > 0 else -1), name="scaled")
    for rate in (0.5, 1.5, 2.5, 3.5):
        scaled(x, rate)
    tl.export.save(scaled, tmp_path / "f.tapeline")
    loaded = tl.load(tmp_path / "f.tapeline")
    np.testing.assert_array_equal(loaded(x, 8.5), scaled(x, 8.5))
    with pytest.raises(ArgumentError, match="rate = any float above 0"):
        loaded(x, -8.5)
    for rate in (-0.5, -1.5, -2.5):
        scaled(x, rate)
    tl.export.save(scaled, tmp_path / "f.tapeline")
    loaded = tl.load(tmp_path / "f.tapeline")
    for rate in (8.5, -8.5):
        np.testing.assert_array_equal(loaded(x, rate), scaled(x, rate))
