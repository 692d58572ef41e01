"""Floats of 16 bits come back from every form of a function that is written, as other dtypes do."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.inspect.verification import reproduce
from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.parse import parse_graph

DTYPES = ["float16", "bfloat16"]


def made(dtype: str) -> tuple[Any, tl.Tensor]:
    """A function with a Variable, a captured tensor and casts, all of them halves."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed; it brings bfloat16")
    w = tl.Variable(tl.astype(tl.asarray([0.5, -1.0, 2.0]), dtype), name="w")
    shift = tl.astype(tl.asarray([1.0, 2.0, 3.0]), dtype)

    @tl.function
    def halves(x: tl.Tensor) -> tl.Tensor:
        return tl.tanh(x * w) + tl.astype(tl.astype(shift, "float32") * 2, x.dtype)

    return halves, tl.astype(tl.asarray([0.25, 1.0, -3.0]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_graphs_come_back_from_text_and_json(dtype: str) -> None:
    halves, x = made(dtype)
    graph = halves.get_concrete_function(x).graph
    assert graphs_equal(Graph.from_json(graph.to_json()), graph)
    assert graphs_equal(parse_graph(str(graph)), graph)


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_come_back_with_variables_and_arrays(dtype: str, tmp_path: Path) -> None:
    halves, x = made(dtype)
    want = halves(x)
    tl.export.save(halves, tmp_path / "f.tapeline")
    loaded = tl.load(tmp_path / "f.tapeline")
    for one in (loaded, pickle.loads(pickle.dumps(loaded))):
        got = one(x)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        assert one.variables[0].dtype == x.dtype
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = loaded(x)
    (slope,) = tape.gradient(y, [x])
    assert np.isfinite(slope.numpy().astype(np.float32)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_are_verified_and_a_reproduction_runs(dtype: str, tmp_path: Path) -> None:
    halves, x = made(dtype)
    with tl.debugging.verify() as checks:
        halves(x)
    assert checks.checked == 1
    graph = halves.get_concrete_function(x).optimized_graph
    arrays = [np.asarray(x.numpy())] * len(graph.placeholders)
    (tmp_path / "shown.py").write_text(reproduce(graph, arrays))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "shown.py")], check=True, capture_output=True, text=True
    )
    compiled, numpy = (line.split("[")[1] for line in done.stdout.splitlines())
    assert compiled.rstrip(",)").split("]")[0] == numpy.split("]")[0]


def test_documents_with_halves_follow_their_schema() -> None:
    jsonschema = pytest.importorskip(
        "jsonschema", reason="jsonschema is not installed; it is in the extra 'test'"
    )
    root = Path(__file__).resolve().parents[3]
    schema = json.loads((root / "docs/schemas/graph.schema.json").read_text())
    halves, x = made("float16")
    jsonschema.validate(json.loads(halves.get_concrete_function(x).graph.to_json()), schema)
