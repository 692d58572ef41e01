"""The snippets of the documentation run, page by page, and print what the pages say.

`UPDATE_DOCUMENTS=1` writes what they print into the pages.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.rglob("*.md")
    if "```python" in path.read_text() and "decisions" not in path.parts
)
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.M | re.S)


@pytest.fixture(autouse=True)
def _leave_no_compiled_pages() -> Iterator[None]:
    yield
    linecache.clearcache()


@pytest.mark.parametrize("name", PAGES)
def test_snippets_run_and_print_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "export.md":
        pytest.importorskip("onnx", reason="onnx is not installed; it is in the extra 'test'")
    monkeypatch.chdir(tmp_path)
    page = DOCS / name
    text = page.read_text()
    source = tmp_path / "page.py"
    scope: dict[str, object] = {"__name__": "snippets"}
    written, shown, position = "", "", 0
    for block in BLOCK.finditer(text):
        code = "\n" * written.count("\n") + block[1]
        written += block[1]
        source.write_text(written)
        linecache.clearcache()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(source), "exec"), scope)
        shown += text[position : block.start()] + f"```python\n{block[1]}```\n"
        if block[2] is not None:
            shown += f"\n```text\n{printed.getvalue()}```\n"
        position = block.end()
    shown += text[position:]
    if name == "inspection.md":
        check_picture(DOCS / "pictures" / "graph.svg", scope["graph"])
    if os.environ.get("UPDATE_DOCUMENTS"):
        page.write_text(shown)
    else:
        assert shown == text


def check_picture(path: Path, graph: Any) -> None:
    """The picture on the page is that of the graph on the page."""
    if os.environ.get("UPDATE_DOCUMENTS"):
        path.write_text(graph.to_svg())
    else:
        assert path.read_text() == graph.to_svg()


def test_all_pages_are_in_the_site() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert pages - listed == set()


@pytest.mark.slow
def test_the_site_builds_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed; it is in the extra 'dev'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reference" / "index.html").read_text()
    for name in ("tl.function", "tl.export.onnx", "tl.debugging.profile", "tl.nn.conv2d"):
        assert f'id="{name.replace(".", "-").lower()}"' in page or f'id="{name}"' in page
    script = (tmp_path / "js" / "darkmode.js").read_text()
    wanted = re.findall(r"getElementById\('([\w-]+)'\)", script)
    for built in tmp_path.rglob("index.html"):
        text = built.read_text()
        assert all(f'id="{name}"' in text for name in wanted), "the colours cannot change"
        headings = re.findall(r'<h\d id="([^"]+)"', text)
        assert all(not name[0].isdigit() for name in headings), "the theme's script stops at these"
