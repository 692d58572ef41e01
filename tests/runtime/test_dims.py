"""Sizes that are left open: they compute like ints, and note what is asked of them."""

from __future__ import annotations

import itertools
import math
import operator
import random
from typing import Any

import numpy as np
import pytest

from tapeline.runtime.dims import extent, is_open_shape
from tapeline.runtime.sizes import Sizes

OPERATIONS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def expression(rng: random.Random, leaves: list[Any], depth: int) -> Any:
    """A function of leaves, as nested tuples."""
    if depth == 0 or rng.random() < 0.2:
        return rng.randrange(len(leaves))
    return rng.choice(OPERATIONS), *(expression(rng, leaves, depth - 1) for _ in range(2))


def run(tree: Any, leaves: list[Any]) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    return tree[0](run(tree[1], leaves), run(tree[2], leaves))


def test_random_expressions_are_those_of_ints() -> None:
    rng = random.Random(1)
    checked = 0
    for _ in range(400):
        values = [rng.randrange(1, 12) for _ in range(3)]
        sizes = Sizes(values)
        constants = [rng.randrange(-5, 6) for _ in range(3)]
        tree = expression(rng, [*values, *constants], 4)
        try:
            expected = run(tree, [*values, *constants])
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                run(tree, [*sizes.symbols, *constants])
            continue
        found = run(tree, [*sizes.symbols, *constants])
        assert sizes.evaluate(found, values) == expected
        for other in itertools.product((1, 5, 8), repeat=3):
            if sizes.hold(other):
                assert sizes.evaluate(found, other) == run(tree, [*other, *constants])
                checked += 1
    assert checked > 1000


def test_random_comparisons_hold_where_conditions_do() -> None:
    rng = random.Random(2)
    for _ in range(400):
        values = [rng.randrange(1, 9) for _ in range(2)]
        sizes = Sizes(values)
        trees = [expression(rng, [*values, 2, 3], 2) for _ in range(2)]
        relation = rng.choice(COMPARISONS)
        try:
            found = relation(*(run(tree, [*sizes.symbols, 2, 3]) for tree in trees))
        except ZeroDivisionError:
            continue
        assert bool(found) == relation(*(run(tree, [*values, 2, 3]) for tree in trees))
        for other in itertools.product(range(1, 9), repeat=2):
            if sizes.hold(other):
                assert relation(*(run(tree, [*other, 2, 3]) for tree in trees)) == found


def test_equal_sizes_are_one_object_and_need_no_condition() -> None:
    sizes = Sizes((7, 3))
    n, m = sizes.symbols
    assert n * 4 // 4 is n
    assert n + m - n is m
    assert math.prod((n, 2, m)) is 2 * m * n
    assert (6 * n) % 3 == 0
    assert n - n == 0
    assert n >= 0
    assert n != -1
    assert not n < 0
    assert n + 1 > n
    assert len({n, n * 1, m}) == 2
    assert not sizes.conditions


def test_what_python_asks_for_is_fixed() -> None:
    for ask in (int, range, operator.index, lambda n: np.zeros(n), lambda n: [0] * n, float):
        sizes = Sizes((7,))
        (n,) = sizes.symbols
        ask(n)
        assert sizes.fixed() == {0}
        assert sizes.hold((7,))
        assert not sizes.hold((8,))


def test_a_size_passes_for_an_int() -> None:
    sizes = Sizes((7,))
    (n,) = sizes.symbols
    assert isinstance(n, int)
    assert extent(n) is n
    assert extent(np.int64(3)) == 3
    assert is_open_shape((2, n))
    assert not is_open_shape((2, 7))
    assert str((2, n)) == "(2, n0=7)"
    assert str(2 * n + 1) == "(2*n0 + 1)=15"
    assert f"{n // 2}" == "(n0 // 2)=3"
    sizes.close()
    assert str((2, n)) == "(2, n0)"


def test_questions_after_the_trace_leave_no_condition() -> None:
    sizes = Sizes((7,))
    (n,) = sizes.symbols
    sizes.close()
    assert n == 7
    assert n > 5
    assert sizes.hold((3,))
