"""Indices out of range are errors in compiled code too."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cases.comparing import Program, both_modes, number, run_as, tensor

import tapeline as tl

READS: dict[str, Program] = {
    "element": lambda x, i: x[i] * 1.0,
    "elements": lambda x, i: tl.sum(x[tl.stack([i, i])]),
    "take": lambda x, i: tl.sum(tl.take(x, tl.stack([i, i]))),
    "row": lambda x, i: tl.sum(tl.reshape(x, (12, 1))[i]),
}


@both_modes
@pytest.mark.parametrize("name", READS)
def test_a_read_out_of_range_is_an_index_error(mode: str, name: str) -> None:
    x = tensor(np.arange(12.0))
    f = run_as(mode, READS[name])
    scale = 2 if name in ("elements", "take") else 1
    assert number(f(x, tensor(3, "int64"))) == 3.0 * scale
    assert number(f(x, tensor(-1, "int64"))) == 11.0 * scale
    for bad in (17, 12, -13, 10**12):
        with pytest.raises(IndexError, match=f"index {bad} is out of range .* size 12"):
            f(x, tensor(bad, "int64"))
    assert number(f(x, tensor(3, "int64"))) == 3.0 * scale


@both_modes
def test_a_write_out_of_range_is_an_index_error_and_writes_nothing(mode: str) -> None:
    v = tl.Variable(np.zeros(3))

    def write(i: tl.Tensor) -> None:
        x = v * 1.0
        x[i] = 5.0
        v.assign(x)

    f = run_as(mode, write)
    f(tensor(1, "int64"))
    for _ in range(2):
        with pytest.raises(IndexError, match=r"index 3 is out of range .* size 3"):
            f(tensor(3, "int64"))
    assert v.numpy().tolist() == [0.0, 5.0, 0.0]


@both_modes
def test_a_slice_ends_with_its_tensor(mode: str) -> None:
    x = tensor(np.arange(12.0))
    assert number(run_as(mode, lambda x: tl.sum(x[5:1000]))(x)) == 56.0
    assert number(run_as(mode, lambda x: tl.sum(x[-1000:2]))(x)) == 1.0
