"""Writes object files, a header and what else a C program needs to call a compiled function."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tapeline.compiler.codegen.objects import emit_object
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.export.aot.describe import Description, c_name
from tapeline.compiler.export.aot.entry import Parameter, data_text, emit_entry
from tapeline.compiler.export.aot.source import (
    cmake_text,
    example_text,
    header_text,
    prototype,
)
from tapeline.compiler.export.aot.symbols import symbols_of
from tapeline.compiler.export.aot.targets import Machine, find_machine
from tapeline.compiler.export.signature import check_sizes
from tapeline.runtime.errors import ArgumentError, ExportError

_C_LIBRARY = frozenset({"memcpy", "memset", "memmove", "bcmp", "memcmp"})
_MATH_LIBRARY = frozenset({"fma", "fmaf", "floor", "floorf", "ceil", "ceilf", "trunc", "truncf",
                           "rint", "rintf"})  # fmt: skip
"""What the code of old processors takes from the C library, and nothing else."""
_RUNTIMES = {
    "linux": frozenset({"roundeven", "roundevenf"}),
    "macos": frozenset({"bzero", "memset_pattern16", "_bzero"}),
    "windows": frozenset({"_fltused", "__chkstk"}),
}
"""What C programs of such a system find there besides."""
_CBLAS = frozenset({"cblas_sgemm", "cblas_dgemm", "cblas_sgemv", "cblas_dgemv"})
_BLAS_LIBRARIES = ("-lopenblas", "-lcblas", "-lblas")
"""Libraries that may hold CBLAS, as linkers are told of them."""


@dataclass(frozen=True, slots=True)
class AotLibrary:
    """What was written.

    Attributes
    ----------
    name : str
        What the C function is called; its gradient is `<name>_gradient`.
    files : tuple of str
        All files, the header first.
    prototypes : tuple of str
        The C declarations.
    parameters : dict of str to tuple of Parameter
        Per C function what it takes: `name`, `spec`, `role`.
    workspaces : dict of str to int
        Per C function how many bytes of memory it is given.
    symbols : dict of str to tuple of str
        Per target what the object takes from the C and math libraries, and from CBLAS where that
        is asked for.
    library : str or None
        The shared library, if one was made.
    note : str
        Why there is none, or by what it was linked.
    """

    name: str
    files: tuple[str, ...]
    prototypes: tuple[str, ...]
    parameters: dict[str, tuple[Parameter, ...]]
    workspaces: dict[str, int]
    symbols: dict[str, tuple[str, ...]]
    library: str | None
    note: str


def export_aot(
    concrete: ConcreteFunction, directory: str | os.PathLike[str], targets: Sequence[str],
    gradient: bool, name: str | None, blas: bool,
) -> AotLibrary:  # fmt: skip
    """See `tapeline.export.aot`."""
    check_sizes("aot", concrete)
    machines = [find_machine(target) for target in targets]
    if not machines:
        raise ArgumentError("aot: targets is empty; name a machine, such as 'host'")
    if name is not None and c_name(name) != name:
        raise ArgumentError(f"aot: {name!r} is no name of a C function")
    described = Description(concrete, name or c_name(concrete.name), gradient)
    made = _Objects(described, blas)
    images = {machine: made.emit(machine) for machine in machines}
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    title, entries = described.name, described.entries
    texts = {
        f"{title}.h": header_text(title, entries, made.workspaces, made.initial, blas),
        "example.c": example_text(title, entries, made.initial, blas),
        f"{title}.cmake": cmake_text(title, blas),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    files = [str(folder / file) for file in texts]
    for machine, image in images.items():
        path = folder / object_name(title, machine)
        path.write_bytes(image)
        files.append(str(path))
    library, note = _link(folder, title, machines[0], blas)
    return AotLibrary(
        title, tuple(files + ([library] if library else [])), tuple(map(prototype, entries)),
        {entry.name: entry.parameters for entry in entries}, made.workspaces, made.symbols,
        library, note,
    )  # fmt: skip


def object_name(title: str, machine: Machine) -> str:
    """The file of a target: that of this machine has the plain name."""
    return f"{title}.o" if machine.name == "host" else f"{title}-{machine.name}.o"


class _Objects:
    """The object code of all entries, target by target."""

    def __init__(self, described: Description, blas: bool) -> None:
        self.described = described
        self.blas = blas
        self.workspaces = {entry.name: 0 for entry in described.entries}
        self.symbols: dict[str, tuple[str, ...]] = {}
        named = {p.name: p for entry in described.entries for p in entry.parameters}
        self.initial = {
            f"{described.name}_initial_{name}": named[name] for name in described.initial
        }

    def emit(self, machine: Machine) -> bytes:
        """The object for a target."""
        texts: list[str] = []
        for entry in self.described.entries:
            emitted = emit_entry(entry, self._cpu(machine))
            texts += [text for text in emitted.texts if text not in texts]
            known = self.workspaces[entry.name]
            self.workspaces[entry.name] = max(known, emitted.workspace)
        values = self.described.initial
        for symbol, parameter in self.initial.items():
            texts.append(data_text(symbol, values[parameter.name]))
        exported = {*self.workspaces, *self.initial}
        image = emit_object(texts, machine.triple, machine.cpu, exported)
        self._check(machine, image, exported)
        return image

    def _cpu(self, machine: Machine) -> Target:
        """The processor, with the float rules that the function was made with."""
        manner = self.described.concrete.differentiable.manner
        return machine.cpu._replace(fastmath=manner.fastmath, calls_blas=self.blas)

    def _check(self, machine: Machine, image: bytes, exported: set[str]) -> None:
        """Nothing but what is promised may go in or out."""
        symbols = symbols_of(image)
        foreign = set(symbols.undefined) - _C_LIBRARY - _MATH_LIBRARY
        foreign -= _RUNTIMES[machine.system]
        foreign -= _CBLAS if self.blas else set()
        if foreign or set(symbols.defined) != exported:
            raise ExportError(
                f"aot: the object for {machine.name} needs {sorted(foreign)} and gives "
                f"{sorted(symbols.defined)}; please report this with the function"
            )
        self.symbols[machine.name] = symbols.undefined


def _link(folder: Path, title: str, machine: Machine, blas: bool) -> tuple[str | None, str]:
    """A shared library of the first object, by the system's compiler."""
    if not machine.is_host:
        return None, f"no shared library: {machine.name} is not this system"
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        return None, (
            "no shared library: there is no C compiler (cc, gcc or clang, or the one that the "
            f"environment variable CC names); link {object_name(title, machine)} with one elsewhere"
        )
    suffix = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    target = folder / f"lib{title}.{suffix}"
    command = [compiler, "-shared", "-o", str(target), str(folder / object_name(title, machine))]
    libraries = [] if sys.platform == "win32" else ["-lm"]
    if blas and sys.platform == "linux":
        libraries.append("-Wl,--no-undefined")
    for one in _BLAS_LIBRARIES if blas else ("",):
        done = subprocess.run(
            [*command, *filter(None, [one]), *libraries],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.returncode:
            return str(target), f"linked by {compiler}{f' with {one}' if one else ''}"
    if blas:
        return None, (
            f"no shared library: {compiler} found no CBLAS ({', '.join(_BLAS_LIBRARIES)}); link "
            f"{object_name(title, machine)} with yours, or export with blas=False"
        )
    return None, f"no shared library: {compiler} failed: {done.stderr.strip()[:400]}"
