"""Division of ints and result dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cases.comparing import Array, Program, assert_same_bits, both_modes, run_as, tensor

import tapeline as tl

DTYPES = ["int8", "int32", "int64", "float32", "float64"]


@both_modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_division_of_negatives_goes_down(mode: str, dtype: str) -> None:
    a = np.array([-8, 8, -9, 9, -1, 0, 6] * 5, dtype)
    b = np.array([5, -5, 4, -4, 7, -3, 6] * 5, dtype)
    assert_same_bits(run_as(mode, lambda x, y: x // y)(tensor(a), tensor(b)), a // b)
    assert_same_bits(run_as(mode, lambda x, y: x % y)(tensor(a), tensor(b)), a % b)


@both_modes
def test_floor_division_of_floats_is_that_of_the_exact_quotient(mode: str) -> None:
    a, b = np.array([0.7, -0.7, 1e17]), np.array([0.1, 0.1, 3.0])
    assert_same_bits(run_as(mode, lambda x, y: x // y)(tensor(a), tensor(b)), a // b)
    assert_same_bits(run_as(mode, lambda x, y: x % y)(tensor(a), tensor(b)), a % b)
    assert (a // b)[0] == 6.0


U8, I32 = np.array([3, 200, 7], "uint8"), np.array([3, 200, 7], "int32")
U64, I64 = np.array([2**60 + 41, 5], "uint64"), np.array([-3, 4], "int64")
F32, I8 = np.array([1.5, 2.5], "float32"), np.full((2, 2), 100, "int8")

PROGRAMS: dict[str, tuple[Program, tuple[Array, ...]]] = {
    "uint8 minus uint8": (lambda a, b: a - b, (U8, U8[::-1].copy())),
    "uint8 plus uint8": (lambda a, b: a + b, (U8, U8)),
    "uint64 plus int64": (lambda a, b: a + b, (U64, I64)),
    "uint64 plus 5000": (lambda a: a + 5000, (U64,)),
    "uint8 times 2": (lambda a: a * 2, (U8,)),
    "float32 times 2.0": (lambda a: a * 2.0, (F32,)),
    "int64 over 2": (lambda a: a / 2, (I64,)),
    "float32 times int64": (lambda a, b: a * b, (F32, I64)),
    "sum of int32": (lambda a: a.sum(), (I32,)),
    "count": (lambda a: (a > 4).sum(), (I32,)),
    "minus uint8": (lambda a: -a, (U8,)),
    "int8 product": (lambda a: a @ a, (I8,)),
    "mean of int32": (lambda a: a.mean(), (I32,)),
    "between": (lambda a: (a > 1) & (a < 5), (I32,)),
    "uint8 squared": (lambda a: a**2, (U8,)),
    "abs of int64": (lambda a: abs(a), (I64,)),
}


@both_modes
@pytest.mark.parametrize("name", PROGRAMS)
def test_result_dtypes_and_bits_are_numpys(mode: str, name: str) -> None:
    program, arrays = PROGRAMS[name]
    assert_same_bits(run_as(mode, program)(*map(tensor, arrays)), program(*arrays))


@both_modes
def test_large_unsigned_numbers_compare_without_a_detour_by_floats(mode: str) -> None:
    a = tensor(np.array([2**60 + 57], "uint64"))
    b = tensor(np.array([2**60 + 58 - 5000], "uint64"))
    assert not run_as(mode, lambda a, b: tl.any(a >= b + 5000))(a, b).item()
    assert run_as(mode, lambda a, b: tl.any(a >= b + 4999))(a, b).item()
