"""The snippets of documents run, page by page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize("name", ["inspection.md"])
def test_snippets_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / name).read_text(), re.M | re.S)
    source = tmp_path / f"{name}.py"
    source.write_text("\n".join(blocks))
    exec(compile(source.read_text(), str(source), "exec"), {"__name__": "snippets"})
    assert "kernels of loss" in capsys.readouterr().out
    assert (tmp_path / "loss.tapeline").exists()
