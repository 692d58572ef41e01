"""What the README and the documents say is so."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def project() -> dict[str, object]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(table, dict)
    return table


def test_opening_example_prints_what_the_readme_says() -> None:
    (example,), (expected,) = blocks("python"), blocks("text")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected


def test_readme_has_two_set_up_commands_of_one_line_each() -> None:
    commands = blocks("sh")
    assert len(commands) == 2
    for command in commands:
        assert len(command.splitlines()) == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")
    assert "examples/digits.py" in commands[0]
    assert "pytest" in commands[1]


def test_no_document_names_a_package_index() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / ".ci" / "run"]
    for path in documents:
        assert not re.search(r"index-url|pypi|https?://[^ )>]*/simple", path.read_text()), path


def test_documents_link_to_files_that_exist() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_dependency_is_explained() -> None:
    table = project()
    extras = table["optional-dependencies"]
    wanted = table["dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(wanted, list)
    explained = (ROOT / "docs" / "dependencies.md").read_text()
    for requirement in [*wanted, *(one for extra in extras.values() for one in extra)]:
        name, bounds = re.match(r"([\w-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
        stated = ", ".join(re.sub(r"(>=|<)", r"\1 ", bound) for bound in bounds.split(","))
        assert f"| {name} | {stated} |" in explained


@pytest.mark.parametrize("name", ["architecture.md", "dependencies.md", "decisions"])
def test_documents_are_there(name: str) -> None:
    assert (ROOT / "docs" / name).exists()


def test_digits_are_the_published_set() -> None:
    with gzip.open(ROOT / "examples" / "data" / "digits.csv.gz", "rt") as file:
        rows = [[float(cell) for cell in line.split(",")] for line in file]
    assert len(rows) == 1797
    assert {len(row) for row in rows} == {65}
    counts = [sum(row[-1] == digit for row in rows) for digit in range(10)]
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert {cell for row in rows for cell in row[:-1]} == {float(level) for level in range(17)}


def test_documents_name_every_environment_variable() -> None:
    documented = (ROOT / "docs" / "architecture.md").read_text()
    sources = [*ROOT.glob("runtime/**/*.py"), *ROOT.glob("compiler/**/*.py")]
    read = {name for path in sources for name in re.findall(r"TAPELINE_[A-Z_]+", path.read_text())}
    assert not [name for name in sorted(read) if f"`{name}=" not in documented]
