"""The HTML page holds all of the graphs, refers to nothing outside, and works in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import tapeline as tl
from tapeline.compiler.ir.graph import Graph

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")


def layer(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
    return tl.tanh(x @ w) * 0.5


@tl.function
def loss(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
    h = layer(x, w)
    h = layer(h, w)
    return tl.sum(h * h)


def concrete() -> Any:
    return loss.get_concrete_function(
        tl.TensorSpec([8, 4], "float32"), tl.TensorSpec([4, 4], "float32")
    )


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def browse(page: str, tmp_path: Path, state: str = "") -> str:
    """The document after its scripts ran, as HTML."""
    assert BROWSER is not None
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [*command, "--dump-dom", f"{file.as_uri()}{state}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    body = re.search(r"<body[^>]*>", done.stdout)
    assert body is not None
    assert "data-error" not in body[0], body[0]
    assert "data-ready" in body[0], body[0]
    return unescape(done.stdout)


def details(document: str) -> str:
    """The text of the panel with details."""
    found = re.search(r'<aside id="details">(.*?)</aside>', document, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]+>", " ", found[1])


def test_page_shows_forward_backward_and_kernels_side_by_side() -> None:
    data = data_of(concrete().to_html())
    titles = [data["graphs"][index]["title"] for index in data["panels"]]
    assert titles == ["forward", "backward", "forward kernels", "backward kernels"]
    forward, kernels = (data["graphs"][data["panels"][k]] for k in (0, 2))
    work = [node for node in forward["nodes"] if not node.get("input") and not node.get("inline")]
    assert all("k" in node for node in work)
    assert any("define void" in kernel["ir"] for kernel in kernels["nodes"])
    assert sorted(n for kernel in kernels["nodes"] for n in kernel["n"]) == sorted(
        k for k, node in enumerate(forward["nodes"]) if "k" in node
    )


def test_page_gives_gradients_the_line_of_their_op() -> None:
    data = data_of(concrete().to_html())
    backward = data["graphs"][data["panels"][1]]
    texts = {data["locations"][node["l"]][4] for node in backward["nodes"] if node["l"] >= 0}
    assert "return tl.tanh(x @ w) * 0.5" in texts


def test_page_refers_to_nothing_outside() -> None:
    page = concrete().to_html()
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://|fetch\(""", page)


def test_page_of_one_graph_holds_its_subgraphs() -> None:
    @tl.function
    def steps(x: tl.Tensor) -> tl.Tensor:
        while tl.sum(x) < 10:
            x = x * 2
        return x

    graph = steps.get_concrete_function(tl.TensorSpec([2], "float64")).graph
    data = data_of(graph.to_html())
    inside = [node["g"] for node in data["graphs"][0]["nodes"] if "g" in node]
    assert len(inside) == 1
    assert all(data["graphs"][k]["nodes"] for k in inside[0])


def test_page_escapes_what_looks_like_html() -> None:
    graph = Graph("</script><b>")
    graph.outputs.append(graph.add_placeholder(tl.TensorSpec([2], "float32"), "</script>"))
    page = graph.to_html()
    assert page.count("</script>") == 2
    assert data_of(page)["graphs"][0]["nodes"][0]["t"] == "</script>"


def test_page_without_gradient_shows_only_the_forward() -> None:
    counted = tl.function(lambda n: n + 1)
    data = data_of(counted.get_concrete_function(tl.TensorSpec([], "int64")).to_html())
    assert [data["graphs"][k]["title"] for k in data["panels"]] == ["forward", "kernels"]


@needs_browser
def test_browser_shows_what_is_selected(tmp_path: Path) -> None:
    page = concrete().to_html()
    nodes = data_of(page)["graphs"][0]["nodes"]
    tanh = next(k for k, node in enumerate(nodes) if node["op"] == "tanh")
    text = details(browse(page, tmp_path, f"#select=0:{tanh}&collapse=function&search=tanh"))
    assert f"%{tanh} tanh" in text
    assert "float32[8, 4]" in text
    assert "return tl.tanh(x @ w) * 0.5" in text
    assert "Partner in backward" in text
    assert "Kernel" in text


GESTURES = """
<script>
const panel = page.panels[0], row = panel.rowOfNode.get(WHICH);
const area = panel.canvas.getBoundingClientRect();
const place = () => {
  const { x, y, scale } = panel.camera;
  return {
    clientX: area.left + x + (row.block.x + 5) * scale,
    clientY: area.top + y + (row.block.y + row.dy + 5) * scale, pointerId: 1, bubbles: true,
  };
};
const send = (kind, event) => panel.canvas.dispatchEvent(
  kind === "wheel" ? new WheelEvent(kind, event) : kind === "dblclick" ? new MouseEvent(kind, event)
    : new PointerEvent(kind, event));
panel.canvas.setPointerCapture = () => {};
const before = { ...panel.camera };
send("pointerdown", place());
send("pointerup", place());
document.body.dataset.clicked = page.selected.id;
send("wheel", { ...place(), deltaY: -200, cancelable: true });
document.body.dataset.zoomed = panel.camera.scale > before.scale;
const start = place(), moved = { ...panel.camera };
send("pointerdown", start);
send("pointermove", { ...start, clientX: start.clientX + 40, clientY: start.clientY + 25 });
send("pointerup", start);
document.body.dataset.panned = [panel.camera.x - moved.x, panel.camera.y - moved.y].map(Math.round);
document.querySelector("#collapse [data-by=function]").click();
const folded = panel.blocks.length;
const group = panel.blocks.flatMap((block) => block.rows).find((one) => one.unit.label);
panel.unfold(group.unit.key);
document.body.dataset.unfolded = panel.blocks.length > folded;
page.search("float32[8, tanh");
document.body.dataset.hits = page.order.length;
page.next(1);
document.body.dataset.next = page.order[0][1] === page.selected.id;
</script></body>"""


@needs_browser
def test_browser_clicks_zooms_pans_unfolds_and_searches(tmp_path: Path) -> None:
    page = concrete().to_html()
    nodes = data_of(page)["graphs"][0]["nodes"]
    tanh = next(k for k, node in enumerate(nodes) if node["op"] == "tanh")
    script = GESTURES.replace("WHICH", str(tanh))
    document = browse(page.replace("</body>", script), tmp_path)
    found = dict(re.findall(r'data-(\w+)="([^"]*)"', re.findall(r"<body[^>]*>", document)[0]))
    assert found["clicked"] == str(tanh)
    assert found["zoomed"] == found["unfolded"] == found["next"] == "true"
    assert found["panned"] == "40,25"
    assert int(found["hits"]) >= 2


KEYS = """<script>
const panel = page.panels[0];
const press = (key, target = panel.canvas) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  target.dispatchEvent(event);
  return event.defaultPrevented;
};
const said = [];
const before = { ...panel.camera };
press("ArrowLeft");
said.push(panel.camera.x - before.x);
press("+");
said.push(panel.camera.scale > before.scale);
press("Enter");
said.push(page.selected.id);
press("ArrowRight");
said.push(page.selected.id);
press("ArrowDown");
said.push(page.selected.id);
press("ArrowUp");
said.push(page.selected.id);
press("Escape");
said.push(page.selected === null);
said.push(document.querySelectorAll("canvas[tabindex='0'][aria-label]").length);
document.body.dataset.said = said.join(" ");
</script></body>"""


@needs_browser
def test_browser_is_used_by_keys_alone(tmp_path: Path) -> None:
    """Panning and zooming, the first node, the next one, one that uses it, and back to an input."""
    document = browse(concrete().to_html().replace("</body>", KEYS), tmp_path)
    said = re.search(r'data-said="([^"]*)"', document)
    assert said is not None
    assert said[1] == "60 true 0 1 2 0 true 4"


@needs_browser
def test_browser_goes_into_loops_and_back(tmp_path: Path) -> None:
    @tl.function
    def steps(x: tl.Tensor) -> tl.Tensor:
        while tl.sum(x) < 10:
            x = x * 2
        return x

    page = steps.get_concrete_function(tl.TensorSpec([2], "float64")).graph.to_html()
    loop = next(k for k, node in enumerate(data_of(page)["graphs"][0]["nodes"]) if "g" in node)
    script = f"""<script>
page.select(page.panels[0], {loop});
const inner = [...document.querySelectorAll("#details .chip")].pop();
inner.click();
document.body.dataset.inside = page.panels[0].graph.name;
page.panels[0].back.click();
document.body.dataset.outside = page.panels[0].graph.name;
</script></body>"""
    document = browse(page.replace("</body>", script), tmp_path)
    body = re.findall(r"<body[^>]*>", document)[0]
    assert "the 'while' at line" in body
    assert 'data-outside="steps"' in body


COUNTED = """<script>
const calls = {};
for (const name of ["fill", "stroke", "fillText"]) {
  const real = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...args) {
    calls[name] = (calls[name] || 0) + 1;
    return real.apply(this, args);
  };
}
const [whole] = page.panels, hits = page.hits;
page.hits = null;
whole.fit();
whole.paint();
page.hits = hits;
document.body.dataset.calls = [whole.painted, calls.fill + calls.stroke, calls.fillText || 0];
</script></body>"""


@needs_browser
@pytest.mark.slow
def test_browser_shows_five_thousand_nodes(tmp_path: Path) -> None:
    @tl.function(autograph=False)
    def long(x: tl.Tensor) -> tl.Tensor:
        for _ in range(1250):
            h = tl.tanh(x)
            x = x + h * tl.exp(-h)
        return x

    graph = long.get_concrete_function(tl.TensorSpec([4], "float32")).graph
    assert len(graph) > 5000
    page = graph.to_html().replace("</body>", COUNTED)
    document = browse(page, tmp_path, "#select=0:3000&search=tanh")
    assert "%3000" in details(document)
    assert "1250 found" in document
    seconds = re.search(r'data-seconds="([\d.]+)"', document)
    assert seconds is not None
    assert float(seconds[1]) < 20
    calls = re.search(r'data-calls="([^"]*)"', document)
    assert calls is not None
    painted, strokes, texts = map(int, calls[1].split(","))
    assert painted > 5000
    assert strokes < 30
    assert texts == 0
