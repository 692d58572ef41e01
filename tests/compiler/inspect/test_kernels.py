"""`concrete.kernels()` says what runs."""

from __future__ import annotations

import tapeline as tl


def test_kernels_of_an_elementwise_function_are_one_loop() -> None:
    @tl.function
    def scaled(x: tl.Tensor) -> tl.Tensor:
        return tl.sqrt(x * 2 + 1)

    kernels = scaled.get_concrete_function(tl.TensorSpec([8, 4], "float32")).kernels()
    assert len(kernels) == 1
    assert kernels[0].kind == "loop"
    assert kernels[0].ops == ("multiply", "add", "sqrt")
    assert kernels[0].nbytes == 2 * 8 * 4 * 4
    assert kernels[0].location.startswith("test_kernels.py:")


def test_kernels_print_within_80_columns() -> None:
    @tl.function
    def long(x: tl.Tensor) -> tl.Tensor:
        for _ in range(12):
            x = tl.sqrt(tl.abs(tl.floor(x) + 1) * x - tl.ceil(x)) / (x * x + 2)
        return x

    kernels = long.get_concrete_function(tl.TensorSpec([5], "float64")).kernels()
    lines = str(kernels).splitlines()
    assert lines[0].startswith("kernels of long: ")
    assert max(map(len, lines)) <= 80
    assert sum(kernel.ops.count("floor") for kernel in kernels) == 12
