"""Every form of a graph is read by something that is not Tapeline, or comes back as it was: for the
examples and for 200 random functions."""

from __future__ import annotations

import io
import json
import pickle
import re
import runpy
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import numpy as np
import pytest
from tests.example_programs import PROGRAMS, load_program
from tests.random_functions import RandomFunction

import tapeline as tl
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.inspect.page import graph_to_html
from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.saved.writer import function_bytes

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs" / "schemas"
GROUPS = [*[f"random{first}" for first in range(0, 200, 20)], "examples"]


def random_functions(first: int) -> Iterator[tuple[Any, list[Any]]]:
    for seed in range(first, first + 20):
        made = RandomFunction(seed)
        yield made.function(), [tl.asarray(x) for x in made.arrays]


def examples() -> Iterator[tuple[Any, list[Any]]]:
    for path in PROGRAMS:
        program, given = load_program(path)
        yield tl.function(program), [tl.asarray(x) for x in given]
    digits = runpy.run_path(str(ROOT / "examples/digits.py"), run_name="digits")
    network = digits["Network"](digits["initial_weights"](np.random.default_rng(0)))
    images, labels = digits["load_digits"]()
    yield digits["make_train_step"](network), [tl.asarray(images[:8]), tl.asarray(labels[:8])]
    mixing = runpy.run_path(str(ROOT / "examples/mixing.py"), run_name="mixing")
    yield mixing["loss"], [tl.ones(5), tl.ones((9, 5)), tl.ones(9)]


def copies(given: list[Any]) -> list[Any]:
    """The inputs again, for functions that write to them."""
    return [tl.asarray(x.numpy().copy()) for x in given]


_MADE: dict[str, list[tuple[Any, list[Any], ConcreteFunction]]] = {}


def made(group: str) -> list[tuple[Any, list[Any], ConcreteFunction]]:
    """The functions of a group, traced once for all tests."""
    if group not in _MADE:
        found = examples() if group == "examples" else random_functions(int(group[6:]))
        _MADE[group] = [(f, given, f.get_concrete_function(*given)) for f, given in found]
    return _MADE[group]


def graphs(group: str) -> list[Graph]:
    return [concrete.graph for _, _, concrete in made(group)]


every_group = pytest.mark.parametrize("group", GROUPS)


@every_group
def test_text_and_json_come_back(group: str) -> None:
    for graph in graphs(group):
        assert graphs_equal(Graph.from_json(graph.to_json()), graph)
        if "constant(#" not in str(graph):  # larger constants are printed as a hash
            assert graphs_equal(parse_graph(str(graph)), graph)


@every_group
def test_files_come_back_and_run(group: str, tmp_path: Path) -> None:
    for number, (function, given, concrete) in enumerate(made(group)):
        path = tmp_path / "f.tapeline"
        tl.export.save(function, path)
        loaded = tl.load(path)
        (back,) = loaded.concrete_functions
        assert graphs_equal(back.graph, concrete.graph)
        if number % 5 == 0 or group == "examples":
            again = pickle.loads(pickle.dumps(loaded))
            got, other, want = (
                tl.nest.flatten(f(*copies(given))) for f in (loaded, again, function)
            )
            for a, b, c in zip(got, other, want, strict=True):
                np.testing.assert_array_equal(a.numpy(), c.numpy())
                np.testing.assert_array_equal(b.numpy(), c.numpy())


@pytest.fixture(scope="module")
def validators() -> tuple[Any, Any]:
    """For graphs, and for the documents of saved functions."""
    jsonschema = pytest.importorskip(
        "jsonschema", reason="jsonschema is not installed; it is in the extra 'test'"
    )
    referencing = pytest.importorskip("referencing", reason="it comes with jsonschema")
    schemas = [json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))]
    registry = referencing.Registry().with_resources(
        [(one["$id"], referencing.Resource.from_contents(one)) for one in schemas]
    )
    graph, saved = (jsonschema.Draft202012Validator(one, registry=registry) for one in schemas)
    return graph, saved


def document_of(function: Any) -> Any:
    """What a saved function's file says."""
    with zipfile.ZipFile(io.BytesIO(function_bytes(function))) as archive:
        return json.loads(archive.read("tapeline.json"))


@every_group
def test_documents_follow_their_schema(group: str, validators: tuple[Any, Any]) -> None:
    graph, saved = validators
    for function, _, concrete in made(group)[:6]:
        graph.validate(json.loads(concrete.graph.to_json()))
        saved.validate(document_of(function))
    broken = json.loads(concrete.graph.to_json())
    broken["graphs"][0]["nodes"][0]["spec"] = ["float63", [1]]
    assert not graph.is_valid(broken)


def test_documents_with_open_sizes_follow_their_schema(validators: tuple[Any, Any]) -> None:
    graph, saved = validators

    @tl.function
    def function(x: tl.Tensor) -> Any:
        n = x.shape[0]
        return tl.reshape(x, (n * 2, -1)), tl.sum(x) / n, tl.concat([x, x])[1:-1]

    function(tl.ones((4, 6)))
    function(tl.ones((5, 6)))
    documents = [json.loads(one.graph.to_json()) for one in function.concrete_functions]
    assert sorted(one["version"] for one in documents) == [1, 2]
    for one in documents:
        graph.validate(one)
    saved.validate(document_of(function))


@every_group
def test_networkx_takes_the_graph(group: str) -> None:
    for graph in graphs(group):
        found = graph.to_networkx()
        assert found.number_of_nodes() == len(graph)
        assert found.number_of_edges() == sum(map(len, graph.inputs))
        assert networkx.is_directed_acyclic_graph(found)
        assert [found.nodes[i]["op"] for i in range(len(graph))] == [op.name for op in graph.ops]
        assert found.graph["outputs"] == graph.outputs


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@every_group
def test_graphviz_lays_the_graph_out(group: str) -> None:
    """All graphs of a group by one process, but for long ones, which Graphviz takes minutes for."""
    texts = [graph.to_dot() for graph in graphs(group) if len(graph) < 80]
    done = subprocess.run(
        ["dot", "-Tplain"], input="\n".join(texts), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert sum(line.startswith("graph ") for line in done.stdout.splitlines()) == len(texts)
    assert sum(line.startswith("edge ") for line in done.stdout.splitlines()) >= len(texts)


@every_group
def test_pictures_are_valid_xml(group: str) -> None:
    for graph in graphs(group):
        picture = ElementTree.fromstring(graph.to_svg())
        assert picture.tag.endswith("svg")
        width, height = (float(picture.attrib[name]) for name in ("width", "height"))
        assert 0 < width < 20_000
        assert 0 < height < 200_000


@every_group
def test_pages_stand_alone(group: str) -> None:
    for graph in graphs(group)[:5]:
        page = graph_to_html(graph)
        assert page.startswith("<!doctype html>")
        assert not [word for word in ('src="http', 'href="http', "@import") if word in page]


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
HOST = """<!doctype html><body><script>
const pages = PAGES, pictures = PICTURES, found = [];
const frame = document.createElement("iframe");
Object.assign(frame, { width: 1200, height: 800 });
document.body.append(frame);
const load = (element, start) => new Promise((done) => {
  element.onload = element.onerror = done;
  start();
});
(async () => {
  for (const page of pages) {
    await load(frame, () => { frame.srcdoc = page; });
    const { ready, error } = frame.contentDocument.body.dataset;
    found.push(error || ready || "nothing happened");
  }
  for (const picture of pictures) {
    const image = new Image();
    const address = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(picture);
    await load(image, () => { image.src = address; });
    found.push(image.naturalWidth ? `${image.naturalWidth}` : "no picture");
  }
  document.body.dataset.found = found.join("|");
})();
</script></body>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
def test_pages_and_pictures_open_in_a_browser(tmp_path: Path) -> None:
    """Each page draws blocks in each of its panels: those of the examples, and of every fourth
    random function, all in one run."""
    assert BROWSER is not None
    shown = [
        graph for group in GROUPS for graph in graphs(group)[:: 1 if group == "examples" else 4]
    ]
    pages = [graph_to_html(graph) for graph in shown]
    pictures = [graph.to_svg() for graph in shown]
    text = HOST
    for word, value in (("PICTURES", pictures), ("PAGES", pages)):
        text = text.replace(word, json.dumps(value).replace("<", "\\u003c"), 1)
    (tmp_path / "host.html").write_text(text, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=60000",
    ]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (tmp_path / "host.html").as_uri()],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    assert match is not None, done.stdout[-300:]
    found = match[1].split("|")
    assert len(found) == len(pages) + len(pictures)
    for one in found[: len(pages)]:
        assert re.fullmatch(r"[1-9]\d*/[1-9]\d*", one), one
    assert all(int(one) > 0 for one in found[len(pages) :])
