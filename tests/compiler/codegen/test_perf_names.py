"""Emitted functions have names in perf's map and in gdb."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tapeline as tl
from tapeline.compiler.codegen.elf import FunctionSymbol, read_functions, write_functions

PROGRAM = """
import os
import tapeline as tl

@tl.function
def step(x):
    return tl.sum(tl.tanh(x) * 2)

concrete = step.get_concrete_function(tl.ones(9))
executable = concrete.differentiable.compiled.executable()
print(os.getpid(), executable.code.address("run"))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="perf is of Linux",
)


def test_symbols_are_read_back() -> None:
    functions = [FunctionSymbol("one@a.py:3", 0x7F0000001000, 20), FunctionSymbol("b", 5000, 4)]
    assert read_functions(write_functions(functions, 62)) == functions


def test_kernels_have_names_with_their_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    environment = {
        **os.environ,
        "TAPELINE_PERF": "1",
        "PYTHONPATH": str(Path(tl.__file__).parent.parent),
    }
    printed = subprocess.run(
        [sys.executable, str(script)], env=environment, check=True, capture_output=True, text=True
    ).stdout
    process, address = map(int, printed.split())
    files = list(Path("/tmp").glob(f"*-{process}*"))
    try:
        lines = Path(f"/tmp/perf-{process}.map").read_text().splitlines()
        found = {name: (int(at, 16), int(size, 16)) for at, size, name in map(str.split, lines)}
        (kernel,) = (name for name in found if name.endswith("@train.py:7"))
        assert kernel == "step/0:tanh+multiply+sum@train.py:7"
        assert found["step/run"][0] == address
        assert all(size > 0 for _, size in found.values())
        if shutil.which("gdb"):
            commands = ["-x", f"/tmp/tapeline-{process}.gdb", "-ex", f"info symbol {address}"]
            shown = subprocess.run(
                ["gdb", "-nx", "-batch", *commands], check=True, capture_output=True, text=True
            ).stdout
            assert "step/run in section .text" in shown
    finally:
        for file in files:
            file.unlink()


def test_nothing_is_written_unasked() -> None:
    tl.function(lambda x: x + 1)(tl.ones(3))
    assert not Path(f"/tmp/perf-{os.getpid()}.map").exists()
