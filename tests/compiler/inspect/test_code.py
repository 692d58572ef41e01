"""Emitted code says which function is which kernel, and where it comes from."""

from __future__ import annotations

from typing import Any

import tapeline as tl


def concrete() -> Any:
    @tl.function
    def layer(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        h = x @ w
        return tl.sum(tl.tanh(h) * 2)

    given = tl.TensorSpec([16, 8], "float32"), tl.TensorSpec([8, 4], "float32")
    return layer.get_concrete_function(*given)


def test_ir_describes_each_kernel_before_its_function() -> None:
    lines = concrete().llvm_ir().splitlines()
    starts = [k for k, line in enumerate(lines) if line.startswith("; kernel")]
    assert len(starts) == len(concrete().kernels())
    assert any("return tl.sum(tl.tanh(h) * 2)" in line for line in lines)
    assert "; layer: runs kernels 0 to 1" in lines


def test_assembly_has_source_lines_as_comments() -> None:
    lines = concrete().asm().splitlines()
    found = [line for line in lines if "test_code.py:" in line]
    assert any(line.endswith("h = x @ w") for line in found)
    assert all(line.startswith(("#", "//")) for line in found)
    assert any(line.strip().startswith("ret") for line in lines)


def test_loops_are_described_too() -> None:
    @tl.function
    def doubled(x: tl.Tensor) -> tl.Tensor:
        while tl.sum(x) < 10:
            x = x * 2
        return x

    traced = doubled.get_concrete_function(tl.TensorSpec([4], "float64"))
    text = traced.llvm_ir()
    before = text[: text.index("@control0(")].splitlines()
    assert any("while tl.sum(x) < 10:" in line for line in before)
    assert "define" in traced.to_html()
