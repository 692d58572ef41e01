"""Which machine code is emitted for."""

from __future__ import annotations

import pytest

from tapeline.compiler.codegen.target import CPU_VARIABLE, host_target, named_target


def test_the_environment_names_another_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CPU_VARIABLE, "generic")
    assert host_target() == named_target("generic")
    assert not host_target().avx512
    assert host_target().lanes(4) == 4


def test_named_cpus_have_their_vectors() -> None:
    assert named_target("x86-64-v4").avx512
    assert named_target("x86-64-v4").lanes(8) == 8
    assert named_target("haswell").lanes(4) == 8
    assert not named_target("haswell").avx512
