"""Python's control flow in functions under `vmap`: each example goes its own way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

X = np.array([1.0, -2.5, 0.3, -7.0, 2.25])


def branch_and_while(x: Any) -> Any:
    if x > 0:
        return x * 2
    s = x
    while s < 3:
        s = s + 1
    return s


def numbers_promote_weakly(x: Any) -> Any:
    k = 0
    while x < 4:
        x = x + 1
        k += 1
    return x * k


def loop_with_break(x: Any) -> Any:
    t = x * 0
    for k in range(6):
        if t > 4:
            break
        if k == 2:
            continue
        t = t + abs(x) * k
    else:
        t = t + 100
    return t


def expressions(x: Any) -> Any:
    y = max(x, 0.5) if -3 < x < 2 and x != 1 else min(x, 1)
    return y + len([x, y])


def over_rows(x: Any) -> Any:
    row = tl.stack([x, x * 2, -x])
    best = row[0]
    for item in row:
        if item > best:
            best = item
    return best


def kinds(x: Any) -> Any:
    match x > 0, x > 2:
        case True, True:
            return x
        case True, _:
            return x * 10
        case _:
            return -x


PROGRAMS = [
    branch_and_while, numbers_promote_weakly, loop_with_break, expressions, over_rows, kinds,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_example_goes_its_own_way(
    program: Callable[..., Any], is_traced: bool, dtype: str
) -> None:
    x = tl.asarray(X.astype(dtype))
    mapped = tl.vmap(program)
    got = (tl.function(mapped) if is_traced else mapped)(x).numpy()
    expected = np.array([np.asarray(program(v), dtype) for v in x])
    assert got.dtype == expected.dtype == dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "traced"])
def test_gradients_inside_and_outside(is_traced: bool) -> None:
    x = tl.asarray(X)
    inside = tl.vmap(tl.grad(branch_and_while))
    outside = tl.grad(lambda v: tl.vmap(branch_and_while)(v).sum())
    for slopes in (inside, outside):
        found = (tl.function(slopes) if is_traced else slopes)(x)
        assert found.numpy().tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]


def test_gradient_of_a_loop_of_many_turns_keeps_as_many_as_there_are() -> None:
    def f(x: Any) -> Any:
        while x < 1000:
            x = x * 1.5
        return x

    slopes = tl.vmap(tl.grad(f))(tl.asarray([1.0, 900.0, 2000.0])).numpy()
    np.testing.assert_allclose(slopes, [1.5**18, 1.5, 1.0])


def test_what_is_the_same_for_all_examples() -> None:
    def f(x: Any, n: Any) -> Any:
        while n > 0:
            x = x * 2
            n = n - 1
        return x

    x, n = tl.asarray([1.0, 2.0]), tl.asarray(3)
    assert tl.vmap(f, in_axes=(0, None))(x, n).numpy().tolist() == [8.0, 16.0]
    assert tl.vmap(lambda x: f(x, n))(x).numpy().tolist() == [8.0, 16.0]


def test_globals_read_by_a_mapped_function_are_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    traced = tl.function(lambda v: tl.vmap(_scaled)(v))
    assert traced(tl.asarray([1.0, -1.0])).numpy().tolist() == [2.0, -1.0]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert traced(tl.asarray([1.0, -1.0])).numpy().tolist() == [5.0, -1.0]


FACTOR = 1.0


def _scaled(x: Any) -> Any:
    return x * FACTOR if x > 0 else x


def test_a_function_that_changes_a_variable_around_it() -> None:
    def f(x: Any) -> Any:
        total = x * 0

        def add(v: Any) -> None:
            nonlocal total
            total = total + v

        for k in range(3):
            add(x * k)
            if total > 1.0:
                add(-0.5)
        return total

    values = [0.1, 0.5, 3.0]
    expected = [float(f(tl.asarray(v))) for v in values]
    for mapped in (tl.vmap(f), tl.vmap(tl.function(f)), tl.function(lambda x: tl.vmap(f)(x))):
        np.testing.assert_allclose(mapped(tl.asarray(values)).numpy(), expected)


def test_python_raises_as_ever() -> None:
    def f(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tl.vmap(f)(tl.asarray([1.0]))


def test_gradients_of_examples_need_no_compiled_function_before() -> None:
    program = f"""
import tapeline as tl
from {__name__} import X, branch_and_while
print(tl.vmap(tl.grad(branch_and_while))(tl.asarray(X)).tolist())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    want = tl.vmap(tl.grad(branch_and_while))(tl.asarray(X)).tolist()
    assert done.stdout.strip() == str(want)
