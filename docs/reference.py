"""Writes the reference page of the documentation site from docstrings, when the site is built."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

_HEADING = re.compile(r"^(\w[\w ]*)\n-+$", re.M)
_NAMESPACES = (
    "nn", "linalg", "fft", "special", "random", "optimizers", "tape", "nest", "debugging", "export",
    "config", "errors",
)  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Adds the page."""
    files.append(File.generated(config, "reference.md", content="\n".join(reference()) + "\n"))
    return files


def reference() -> Iterator[str]:
    """The lines of the page: every public name with its docstring, by namespace."""
    import tapeline as tl

    yield "# Reference\n"
    yield "Made of the docstrings. Every example runs as a test.\n"
    yield "## tapeline\n"
    yield from _members(tl, "tl", lambda value: not isinstance(value, types.ModuleType))
    for name in _NAMESPACES:
        namespace = getattr(tl, name)
        yield f"## tapeline.{name}\n"
        yield f"{inspect.getdoc(namespace) or ''}\n"
        yield from _members(namespace, f"tl.{name}", lambda _: True)


def _members(namespace: Any, prefix: str, wanted: Any) -> Iterator[str]:
    names = getattr(namespace, "__all__", None) or dir(namespace)
    for name in sorted(names):
        value = getattr(namespace, name)
        is_ours = str(getattr(value, "__module__", "")).startswith("tapeline")
        if name.startswith("_") or isinstance(value, types.ModuleType) or not wanted(value):
            continue
        if is_ours and (inspect.isclass(value) or callable(value)):
            yield from _entry(value, f"{prefix}.{name}", 3)


def _entry(value: Any, name: str, level: int) -> Iterator[str]:
    anchor = name.replace(".", "-").lower()
    yield f"{'#' * level} {name} {{ #{anchor} }}\n"
    yield f"```python\n{name}{_signature(value)}\n```\n"
    yield from _docstring(inspect.getdoc(value) or "")
    if inspect.isclass(value) and level == 3:
        for part, member in inspect.getmembers(value):
            own = str(getattr(member, "__module__", "")).startswith("tapeline")
            if not part.startswith("_") and inspect.isfunction(member) and own:
                yield from _entry(member, f"{name}.{part}", 4)


def _signature(value: Any) -> str:
    try:
        text = re.sub(r"tapeline\.[\w.]+\.", "", str(inspect.signature(value)))
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    except (TypeError, ValueError):
        return "(...)"


def _docstring(text: str) -> Iterator[str]:
    """The parts of a numpydoc docstring as Markdown."""
    parts = _HEADING.split(text)
    yield _plain(parts[0]) + "\n"
    for title, content in zip(parts[1::2], parts[2::2], strict=True):
        yield f"**{title}**\n"
        if title == "Examples":
            yield f"```pycon\n{content.strip()}\n```\n"
        else:
            yield from _items(content)


def _items(content: str) -> Iterator[str]:
    """Names with what they are, and what is said of them."""
    lines = content.strip("\n").splitlines()
    for line in lines:
        if line and not line.startswith(" "):
            yield f"\n- `{line.strip()}`" if " : " in line or len(line) < 60 else f"\n- {line}"
        elif line.strip():
            yield f"    {_plain(line.strip())}"
    yield ""


def _plain(text: str) -> str:
    """Text in which Markdown takes nothing for markup but code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*_<>\[\]])", r"\\\1", piece)
        for piece in pieces
    )
