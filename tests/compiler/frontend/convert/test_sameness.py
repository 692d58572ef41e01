"""Names that mean one array or two, as tensors say: writes are seen under each name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.frontend.convert.random_names import check_names

import tapeline as tl

Program = Callable[[Any, Any, Any], tuple[Any, ...]]


def _after_if(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    if n > 2:
        b = b * 2
    b[0] = v
    return b, c


def _augmented_after_if(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    if n > 2:
        b = b * 2
    b += v
    return b, c


def _after_nested_if(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    if n > 1:
        b = b + 0.0
        if n > 2:
            b = b * 2
    else:
        if n > 0:
            b = b - 1
        c = b
    b[0] = v
    return b, c


def _two_names_in_branches(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    if n > 2:
        b = b * 2
        d = b
    else:
        d = c
    b[0] = v
    return b, c, d


def _expression(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b * 3
    d = b if n > 2 else c
    d[0] = v
    return b, c, d


def _nested_expression(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    d = (b if n > 3 else b * 2) if n > 2 else b + 1
    d[0] = v
    return b, d


def _early_return(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    def half(x: Any) -> Any:
        if n > 2:
            return x
        return x * 0.5

    d = half(b)
    d[0] = v
    return b, d


def _item_of_a_list(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    held = [b, b * 3]
    if n > 2:
        held[0] = b * 2
    b[0] = v
    held[0][1] = v
    return b, held[0], held[1]


def _written_in_one_branch(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    held = [b, b * 3]
    if n > 2:
        held[0], held[1] = held[1], held[0]
    else:
        b[0] = v
    return b, held[0], held[1]


def _after_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    i = n * 0
    while i < n:
        b = b * 2
        i = i + 1
    b[0] = v
    return b, c


def _written_then_rebound_in_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    i = n * 0
    while i < n:
        b[0] = v
        b = b * 2
        i = i + 1
    return b, c


def _rebound_as_the_round_says(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    d = b
    i = 0
    while i < n:
        if i > 1:
            d = b + 1
        d[0] = d[0] + v
        i = i + 1
    b[1] = v
    return b, d


def _exchanged_in_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b * 1.0
    i = n * 0
    while i < n:
        b[0] = v + i
        b, c = c, b
        i = i + 1
    return b, c


def _exchanged_and_read_in_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    d = b
    c = b * 1.0
    i = n * 0
    while i < n:
        b[0] = v + d[1]
        c[1] = d[0]
        b, c = c, b
        i = i + 1
    return b, c, d


def _one_of_two_after_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    d = b + 1
    for i in range(100):
        d[0] = 5.0
        if i == n:
            d = b
    d[1] = v
    return b, d


def _written_in_long_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    d = b if n > 2 else b * 2
    for _ in range(100):
        d[0] = d[0] + v
    return b, d


def _copied_in_loop(b: Any, n: Any, v: Any) -> tuple[Any, ...]:
    c = b
    i = n * 0
    while i < n:
        b = b[:] + 0
        i = i + 1
    b[0] = v
    return b, c


PROGRAMS: tuple[Program, ...] = (
    _after_if,
    _augmented_after_if,
    _after_nested_if,
    _two_names_in_branches,
    _expression,
    _nested_expression,
    _early_return,
    _item_of_a_list,
    _written_in_one_branch,
    _after_loop,
    _written_then_rebound_in_loop,
    _rebound_as_the_round_says,
    _exchanged_in_loop,
    _exchanged_and_read_in_loop,
    _one_of_two_after_loop,
    _written_in_long_loop,
    _copied_in_loop,
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_writes_are_seen_under_each_name(program: Program) -> None:
    compiled = tl.function(program)
    for n in range(5):
        given = np.array([1.0, 2.0])
        expected = [*program(given, n, 7.0), given]
        argument = tl.asarray([1.0, 2.0])
        found = [*compiled(argument, tl.asarray(n), tl.asarray(7.0)), argument]
        for right, got in zip(expected, found, strict=True):
            np.testing.assert_array_equal(got.numpy(), right, err_msg=f"n = {n}")
    assert compiled.trace_count == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_example_has_its_own_objects(program: Program) -> None:
    ns = range(5)
    expected = [program(np.array([1.0, 2.0]), n, 7.0) for n in ns]
    rows = tl.asarray(np.tile([1.0, 2.0], (len(ns), 1)))
    found = tl.vmap(program, in_axes=(0, 0, None))(rows, tl.asarray(list(ns)), tl.asarray(7.0))
    for n in ns:
        for right, got in zip(expected[n], found, strict=True):
            np.testing.assert_array_equal(got.numpy()[n], right, err_msg=f"n = {n}")


@pytest.mark.parametrize("n", [1, 3])
def test_gradients_go_through_either_name(n: int) -> None:
    def total(b: Any, v: Any) -> Any:
        values = b * 1.0
        results = _after_if(values, tl.asarray(n), v)
        return tl.sum(results[0] * 3.0) + tl.sum(results[1] * results[1])

    given = tl.asarray([1.0, 2.0]), tl.asarray(7.0)
    expected = tl.grad(total, argnums=(0, 1))(*given)
    found = tl.grad(tl.function(total), argnums=(0, 1))(*given)
    for right, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got.numpy(), right.numpy(), rtol=1e-12)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_of_names_agree(first: int) -> None:
    for seed in range(first, first + 10):
        check_names(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, 20))
def test_many_random_programs_of_names_agree(first: int) -> None:
    for seed in range(first, first + 20):
        check_names(seed)
