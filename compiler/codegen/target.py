"""The machine that code is emitted for: what the emitters ask about it."""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import NamedTuple

CPU_VARIABLE = "TAPELINE_CPU"
"""Environment variable that names another CPU (LLVM's names, or "generic") to compile for."""

_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
_WITH_AVX512 = ("x86-64-v4", "skylake-avx512", "icelake-server", "sapphirerapids", "znver4")
_WITH_AVX2 = ("x86-64-v3", "haswell", "broadwell", "skylake", "znver1", "znver2", "znver3")


class Target(NamedTuple):
    """A CPU by LLVM's name and feature string, and what it means for emitted text."""

    cpu: str
    features: str
    avx512: bool
    vector_bytes: int
    fastmath: bool = False
    """Whether products and sums of floats may be fused and regrouped."""
    standalone: bool = False
    """Whether the code is to run outside of this process: it uses no BLAS, no threads, no memory of
    its own, and no NumPy."""

    calls_blas: bool = False
    """Standalone code only: whether it calls CBLAS, with ints of 32 bits, which the program that it
    becomes a part of brings."""

    open_sizes: bool = False
    """Whether the sizes may be others in the next program of its kind: numbers that may follow from
    them are read from memory, so that one text serves many sizes."""

    threads: int = 0
    """On how many threads large kernels run at most; 0: on all."""

    def lanes(self, size: int) -> int:
        """Elements of `size` bytes in one vector register."""
        return self.vector_bytes // size


class Manner(NamedTuple):
    """How code is to be made, besides what for and on which machine; see `Target`."""

    fastmath: bool = False
    open_sizes: bool = False
    threads: int = 0

    def target(self) -> Target:
        """The machine to compile for, in this manner."""
        return host_target()._replace(
            fastmath=self.fastmath, open_sizes=self.open_sizes, threads=self.threads
        )


PLAIN = Manner()


def named_target(cpu: str) -> Target:
    """The target of a CPU name; unknown names count as having 16-byte vectors."""
    if cpu in _WITH_AVX512:
        return Target(cpu, "", True, 64)
    if cpu in _WITH_AVX2:
        return Target(cpu, "", False, 32)
    if cpu == "generic" and platform.machine() in ("x86_64", "AMD64"):
        cpu = "x86-64"
    return Target(cpu, "", False, 16)


def host_target() -> Target:
    """The target to compile for: this machine, unless the environment names another CPU."""
    cpu = os.environ.get(CPU_VARIABLE, "")
    return named_target(cpu) if cpu and cpu != "host" else _detect()


@cache
def _detect() -> Target:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    avx512 = all(features.get(name, False) for name in _AVX512_FEATURES)
    wide = 64 if avx512 else 32 if features.get("avx2", False) else 16
    return Target(llvm.get_host_cpu_name(), features.flatten(), avx512, wide)
