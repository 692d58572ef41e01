"""Imports point one way, and heavy packages load late."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

RUNTIME_LAYERS = (
    ("errors", "line_memory", "user_frames"),
    ("dims",),
    ("sizes",),
    ("spec", "dtypes", "device", "constants", "display", "reference", "foreign_trees", "tables"),
    ("series",),
    ("op", "donated"),
    ("record",),
    ("tensor", "nest", "ranges", "loop_options"),
    ("dispatch",),
    ("promotion", "scopes", "collections", "at_work", "open_numbers", "deferred", "value_sizes"),
    ("array_writes", "view_writes", "surroundings"),
    ("operators", "cells", "limits", "exchange", "indexed_slices", "callbacks", "unwatched"),
    ("inspection",),
    ("ops",),
    ("numpy_functions",),
    ("associative", "bodies", "tensor_array", "growing_array"),
    ("control",),
    ("recorder", "tape", "gradient_tape", "backprop", "jacobian", "walk", "array_walk"),
    ("variable",),
    ("gradients", "api", "batching", "generator", "optimizers"),
    ("checks", "frozen_values", "python_calls"),
    ("loop_gradients",),
    ("loops",),
    ("sequences",),
)
"""Modules and packages of `runtime`, lowest first; a row may import itself and the rows above."""

COMPILER_LAYERS = (
    ("ir", "loading"),
    ("autodiff", "frontend", "passes"),
    ("codegen",),
    ("executable",),
    ("native",),
    ("compiled", "call_rules"),
    ("differentiable",),
    ("calling", "results", "donation", "eagerly", "examples", "in_place", "staged"),
    ("concrete", "inspect", "open_function", "any_rank"),
    ("key_orders", "tracer"),
    ("traces",),
    ("function",),
    ("reloading",),
    ("decorator",),
    ("on_demand", "pieces", "saved", "export"),
)
"""The same for `compiler`."""

SHOWN_BY = "tapeline.compiler.inspect"
"""Methods that show a thing, such as `Graph.to_svg`, import this when they are called."""

THIRD_PARTY = {
    "numpy": "",
    "llvmlite": "compiler.codegen",
    "networkx": "compiler.inspect",
    "onnx": "compiler.export.onnx",
    "rich": "runtime.tables",
    "ml_dtypes": "runtime.spec",
}
"""The packages that the library may import, and the only place for it ("" is anywhere)."""


@dataclass(frozen=True)
class Import:
    """One import statement: who (`runtime.tape`) imports what, and where it stands."""

    importer: str
    target: str
    path: Path
    line: int
    in_function: bool
    for_types_only: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


ASKED_BY = {
    "runtime.dims": ("tapeline.runtime.dispatch", "tapeline.runtime.tensor"),
    "runtime.open_numbers": ("tapeline.runtime.ops",),
    "runtime.numpy_functions.ufunc_methods": ("tapeline.runtime.loops",),
    "compiler.concrete": ("tapeline.compiler.saved.pickling",),
    "compiler.function": ("tapeline.compiler.saved.pickling", "tapeline.compiler.pieces"),
}
"""A size becomes a tensor, a function or a trace a pickle, and a ufunc a loop, where a program asks
for it."""


def sources() -> list[Path]:
    """All source files of the library, under their real paths."""
    found = [*ROOT.glob("runtime/**/*.py"), *ROOT.glob("compiler/**/*.py")]
    return sorted([*found, *(ROOT / "src" / "tapeline").glob("*.py")])


def module_name(path: Path) -> str:
    """`runtime.tape` for runtime/tape.py; modules of the face have no dot."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "src":
        parts = parts[2:]
    return ".".join(part for part in parts if part != "__init__") or "tapeline"


def is_type_checking(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a file, with what stands around it."""

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            types = for_types or (isinstance(child, ast.If) and is_type_checking(child))
            targets: list[str] = []
            if isinstance(child, ast.Import):
                targets = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                module = "." * child.level + (child.module or "")
                targets = [module]
                if module.startswith("tapeline"):
                    targets = [resolve(module, alias.name) for alias in child.names]
            for target in targets:
                line = getattr(child, "lineno", 0)
                yield Import(module_name(path), target, path, line, inside, types)
            yield from walk(child, inside, types)

    yield from walk(ast.parse(path.read_text(), str(path)), False, False)


def resolve(module: str, name: str) -> str:
    """The module that `from module import name` reaches: `module.name` where that is a module."""
    inner = ROOT.joinpath(*module.split(".")[1:])
    if module == "tapeline":
        inner = ROOT / "src" / "tapeline"
    is_module = (inner / name).is_dir() or (inner / f"{name}.py").exists()
    return f"{module}.{name}" if is_module else module


@functools.cache
def all_imports() -> list[Import]:
    """The imports of all source files, which are parsed once for all tests."""
    return [found for path in sources() for found in imports_of(path)]


def report(found: list[Import]) -> str:
    return "\n".join(str(one) for one in found)


def test_library_imports_only_numpy_networkx_llvmlite_and_the_standard_library() -> None:
    allowed = {*THIRD_PARTY, "tapeline", *sys.stdlib_module_names}
    bad = [one for one in all_imports() if one.target.split(".")[0] not in allowed]
    assert not bad, report(bad)


@pytest.mark.parametrize("package", ["llvmlite", "networkx", "onnx", "ml_dtypes", "rich"])
def test_heavy_package_is_imported_in_one_place_only(package: str) -> None:
    place = THIRD_PARTY[package]
    found = [one for one in all_imports() if one.target.split(".")[0] == package]
    bad = [one for one in found if not one.importer.startswith(place)]
    assert not bad, report(bad)


def test_runtime_imports_neither_compiler_nor_face() -> None:
    found = [one for one in all_imports() if one.importer.split(".")[0] == "runtime"]
    bad = [
        one
        for one in found
        if one.target.startswith("tapeline") and not one.target.startswith("tapeline.runtime")
    ]
    assert not bad, report(bad)


def test_compiler_does_not_import_face() -> None:
    below = ("tapeline.compiler", "tapeline.runtime")
    found = [one for one in all_imports() if one.importer.split(".")[0] == "compiler"]
    bad = [
        one
        for one in found
        if one.target.startswith("tapeline") and not one.target.startswith(below)
    ]
    assert not bad, report(bad)


@pytest.mark.parametrize(
    ("package", "layers"), [("runtime", RUNTIME_LAYERS), ("compiler", COMPILER_LAYERS)]
)
def test_modules_of_a_package_import_downwards(
    package: str, layers: tuple[tuple[str, ...], ...]
) -> None:
    rank = {name: number for number, row in enumerate(layers) for name in row}
    unranked = {
        path.stem
        for path in (ROOT / package).iterdir()
        if path.stem not in rank and not path.stem.startswith("__")
    }
    assert not unranked, f"give {sorted(unranked)} a row in the table above"
    bad = []
    for one in all_imports():
        importer = one.importer.split(".")
        target = one.target.split(".")[1:]
        inside = importer[0] == package and target[:1] == [package]
        if not inside or len(importer) < 2 or len(target) < 2 or one.for_types_only:
            continue
        if one.in_function and one.target.startswith((SHOWN_BY, *ASKED_BY.get(one.importer, ()))):
            continue
        if rank[importer[1]] < rank[target[1]]:
            bad.append(one)
    assert not bad, report(bad)


def test_imports_are_absolute_and_under_the_full_name() -> None:
    bad = [
        one
        for one in all_imports()
        if one.target.startswith(".") or one.target.split(".")[0] in {"compiler", "runtime"}
    ]
    assert not bad, report(bad)


def test_no_file_is_named_for_holding_anything() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    folders = ("runtime", "compiler", "src", "tests", "examples", "benchmarks")
    bad = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert not [path for path in bad if path.stem in vague]


def test_every_folder_of_the_library_is_a_package() -> None:
    folders = {path.parent for path in sources()}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_face_links_to_the_root_folders() -> None:
    for name in ("compiler", "runtime"):
        link = ROOT / "src" / "tapeline" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name
        assert not link.readlink().is_absolute()


def test_import_tapeline_loads_nothing_that_few_programs_need() -> None:
    code = "import numpy, sys; before = set(sys.modules); import tapeline; "
    code += "print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tapeline" in loaded
    heavy = {"llvmlite", "networkx", "scipy", "mpmath", "html", "logging", "pkgutil"}
    assert not {name.split(".")[0] for name in loaded} & heavy
    late = ("tapeline.compiler.frontend.convert.", "tapeline.compiler.passes")
    assert not [name for name in loaded if name.startswith(late)]
