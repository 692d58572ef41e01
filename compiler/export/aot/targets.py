"""The machines that object files can be written for, by the names that users give them."""

from __future__ import annotations

import platform
import sys
from typing import NamedTuple

from tapeline.compiler.codegen.target import Target, host_target, named_target
from tapeline.runtime.errors import ArgumentError


class Machine(NamedTuple):
    """A target: its name, the system by LLVM's name, and the processor."""

    name: str
    triple: str
    cpu: Target

    @property
    def system(self) -> str:
        """ "linux", "macos" or "windows"."""
        return next((s for s in ("macos", "windows") if s in self.triple), "linux")

    @property
    def is_host(self) -> bool:
        """Whether its code runs here: the system is this one."""
        return self.triple == host_triple()


_X86 = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
_FOREIGN = {
    "aarch64-linux": "aarch64-unknown-linux-gnu",
    "aarch64-macos": "arm64-apple-macosx11.0.0",
    "riscv64-linux": "riscv64-unknown-linux-gnu",
    "x86-64-macos": "x86_64-apple-macosx11.0.0",
    "x86-64-windows": "x86_64-pc-windows-msvc",
}
_CPUS = {"riscv64-linux": ("generic-rv64", "+m,+a,+f,+d,+c")}
TARGETS = ("host", *_X86, *_FOREIGN)
"""All names. The x86-64 levels are those of the psABI, for this system."""


def host_triple() -> str:
    """LLVM's name of this system."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if sys.platform == "darwin":
        return f"{'arm64' if machine == 'aarch64' else machine}-apple-macosx11.0.0"
    if sys.platform == "win32":
        return f"{machine}-pc-windows-msvc"
    return f"{machine}-unknown-linux-gnu"


def find_machine(name: str) -> Machine:
    """The target of that name.

    Raises
    ------
    ArgumentError
        If there is none.
    """
    if name == "host":
        return Machine(name, host_triple(), _standalone(host_target()))
    if name in _X86:
        triple = host_triple()
        if not triple.startswith("x86_64"):
            triple = "x86_64-unknown-linux-gnu"
        return Machine(name, triple, _standalone(named_target(name)))
    if name not in _FOREIGN:
        raise ArgumentError(
            f"aot: there is no target {name!r}; there are {', '.join(map(repr, TARGETS))}"
        )
    if name.startswith("x86-64"):
        return Machine(name, _FOREIGN[name], _standalone(named_target("x86-64-v2")))
    cpu, features = _CPUS.get(name, ("generic", ""))
    return Machine(name, _FOREIGN[name], Target(cpu, features, False, 16, standalone=True))


def _standalone(target: Target) -> Target:
    return target._replace(standalone=True)
