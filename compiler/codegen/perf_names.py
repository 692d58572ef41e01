"""Names of emitted functions for `perf` and `gdb`, where the environment asks for them.

`perf report` reads `/tmp/perf-<pid>.map`. For gdb there is a file of symbols per compiled module
and a script that loads them: `gdb -p <pid> -x /tmp/tapeline-<pid>.gdb`.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapeline.compiler.codegen.elf import FunctionSymbol
    from tapeline.compiler.codegen.engine import CompiledModule

PERF_VARIABLE = "TAPELINE_PERF"
"""Environment variable: with 1 emitted functions have names in perf and gdb."""

_FOLDER = "/tmp"
_MACHINES = {"x86_64": 62, "aarch64": 183}
_LOCK = threading.Lock()
_COUNTS: dict[int, int] = {}


def names_are_wanted() -> bool:
    """Whether the environment asks for names."""
    return os.environ.get(PERF_VARIABLE) == "1" and platform.machine() in _MACHINES


def announce(code: CompiledModule, known: str, owner: str, names: Mapping[str, str]) -> None:
    """Tells perf and gdb where the functions of a module are.

    Parameters
    ----------
    code : CompiledModule
        The module.
    known : str
        One of its functions, whose address is exported.
    owner : str
        What functions without a name of their own are said to belong to.
    names : mapping of str to str
        Names for people, by symbol.
    """
    from tapeline.compiler.codegen.elf import FunctionSymbol, read_functions

    try:
        functions = read_functions(code.object_bytes)
    except ValueError:
        return
    base = next((code.address(known) - one.place for one in functions if one.name == known), None)
    if base is None:
        return
    placed = [
        FunctionSymbol(names.get(one.name, f"{owner}/{one.name}"), base + one.place, one.size)
        for one in functions
    ]
    with _LOCK:
        _write(placed)


def _write(functions: list[FunctionSymbol]) -> None:
    from tapeline.compiler.codegen.elf import write_functions

    process = os.getpid()
    with open(f"{_FOLDER}/perf-{process}.map", "a", encoding="utf-8") as file:
        file.writelines(f"{one.place:x} {one.size:x} {one.name}\n" for one in functions)
    count = _COUNTS[process] = _COUNTS.get(process, 0) + 1
    symbols = f"{_FOLDER}/tapeline-{process}-{count}.elf"
    with open(symbols, "wb") as binary:
        binary.write(write_functions(functions, _MACHINES[platform.machine()]))
    with open(f"{_FOLDER}/tapeline-{process}.gdb", "a", encoding="utf-8") as script:
        script.write(f"add-symbol-file {symbols}\n")
