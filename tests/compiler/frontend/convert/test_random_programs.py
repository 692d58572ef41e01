"""Random programs give the same plain, converted, and compiled over tensors."""

from __future__ import annotations

import pytest
from tests.compiler.frontend.convert.random_arrays import check_arrays
from tests.compiler.frontend.convert.random_loops import check_loops
from tests.compiler.frontend.convert.random_programs import Writer

import tapeline as tl
import tapeline.compiler.frontend.convert.operators  # converted code is run with these
from tapeline.compiler.frontend.convert.calls import callee

# Parts of tensors are meant as copies here.
pytestmark = pytest.mark.filterwarnings("ignore::tapeline.errors.ViewWriteWarning")

INPUTS = (-2, 0, 3, 7)


def check_numbers(seed: int) -> None:
    writer = Writer(seed, augmented=True)
    plain = writer.build(f"numbers {seed}")
    converted = callee(plain)
    assert converted is not plain
    for x in INPUTS:
        assert converted(x) == plain(x), f"x = {x}\n{writer.source}"


def check_tensors(seed: int) -> None:
    writer = Writer(seed, augmented=False)
    plain = writer.build(f"tensors {seed}")
    compiled = tl.function(plain)
    for x in INPUTS:
        expected = plain(x)
        got = compiled(tl.asarray(x))
        assert int(got) == expected, f"x = {x}\n{writer.source}"
    assert compiled.trace_count == 1


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_converted_programs_agree_on_numbers(first: int) -> None:
    for seed in range(first, first + 50):
        check_numbers(seed)


@pytest.mark.parametrize("seed", range(12))
def test_compiled_programs_agree_on_tensors(seed: int) -> None:
    check_tensors(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1060, 20))
def test_many_compiled_programs_agree_on_tensors(first: int) -> None:
    for seed in range(first, first + 20):
        check_tensors(seed)


@pytest.mark.parametrize("seed", range(8))
def test_programs_of_floats_and_arrays_agree(seed: int) -> None:
    check_loops(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 128, 20))
def test_many_programs_of_floats_and_arrays_agree(first: int) -> None:
    for seed in range(first, first + 20):
        check_loops(seed)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_programs_of_whole_arrays_and_views_agree(first: int) -> None:
    for seed in range(first, first + 10):
        check_arrays(seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1120, 20))
def test_many_programs_of_whole_arrays_and_views_agree(first: int) -> None:
    for seed in range(first, first + 20):
        check_arrays(seed)
