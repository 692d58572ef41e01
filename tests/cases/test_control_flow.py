"""Python control flow over tensors, in functions that are traced."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import (
    assert_close,
    both_modes,
    derivatives,
    gradients,
    number,
    run_as,
    tensor,
)

import tapeline as tl
from tapeline.runtime.errors import SymbolicTensorError


@both_modes
def test_a_chained_comparison_decides_between_values(mode: str) -> None:
    def scale_inside(b: Any) -> Any:
        if 1 < b <= 4:
            b = b * 10
        return b

    f = run_as(mode, scale_inside)
    assert [number(f(tensor(k, "int64"))) for k in (0, 1, 2, 4, 5)] == [0, 1, 20, 40, 5]


@both_modes
def test_and_or_and_not_of_tensors(mode: str) -> None:
    def choose(a: Any, b: Any) -> Any:
        if a > 0 and not b > 0:
            r = a - b
        elif a > 0 or b > 5:
            r = a * b
        else:
            r = a + b
        return r

    f = run_as(mode, choose)
    pairs = [(1.0, -2.0), (1.0, 2.0), (-1.0, 6.0), (-1.0, 2.0)]
    assert [number(f(tensor(a), tensor(b))) for a, b in pairs] == [3.0, 2.0, -6.0, 1.0]


@both_modes
def test_an_assignment_in_the_branch_not_taken_does_not_happen(mode: str) -> None:
    v = tl.Variable(0.0)

    def add_positive(x: Any) -> Any:
        if x > 0:
            v.assign_add(x)
        return x * 2.0

    f = run_as(mode, add_positive)
    assert [number(f(tensor(3.0))), number(v)] == [6.0, 3.0]
    assert [number(f(tensor(-3.0))), number(v)] == [-6.0, 3.0]


@both_modes
def test_three_derivatives_through_a_while_loop(mode: str) -> None:
    def power(x: Any, n: Any) -> Any:
        y = x * 0.0 + 1.0
        while n > 0:
            y = y * x
            n = n - 1
        return y

    f = run_as(mode, power)
    five = derivatives(lambda x: f(x, tensor(5, "int64")), tensor(2.0), 3)
    assert five == [32.0, 80.0, 160.0, 240.0]
    assert number(f(tensor(2.0), tensor(0, "int64"))) == 1.0


@both_modes
def test_three_derivatives_of_products_in_a_loop(mode: str) -> None:
    base = tensor([[1.0, 1.0], [0.0, 1.0]])

    def cubed(x: Any) -> Any:
        def body(i: Any, m: Any) -> Any:
            return i + 1, tl.matmul(m, x * base)

        start = tensor(0, "int64"), tensor(np.eye(2))
        _, m = tl.while_loop(lambda i, m: i < 3, body, start)
        return tl.sum(m)  # x**3 times the sum of [[1, 3], [0, 1]]

    assert derivatives(run_as(mode, cubed), tensor(2.0), 3) == [40.0, 60.0, 60.0, 30.0]


@both_modes
def test_gradients_of_a_scan_by_start_factor_and_rows(mode: str) -> None:
    weights = tensor([1.0, 2.0, 3.0, 4.0, 5.0])

    def weighted(start: Any, factor: Any, rows: Any) -> Any:
        def step(x: Any, n: Any) -> Any:
            x = x + factor * n
            return x, x

        _, xs = tl.scan(step, start, rows)
        return tl.sum(xs * weights)

    f = run_as(mode, weighted)
    by_start, by_factor, by_rows = gradients(f, tensor(0.0), tensor(2.0), tensor(np.arange(5.0)))
    assert_close(by_start, 15.0)
    assert_close(by_factor, 0 * 1 + 1 * 2 + 3 * 3 + 6 * 4 + 10 * 5)
    assert_close(by_rows, [30.0, 28.0, 24.0, 18.0, 10.0])


@both_modes
@pytest.mark.parametrize(("flag", "slope"), [(True, 1.0), (False, 2.0)])
def test_a_gradient_of_a_choice_is_asked_twice(mode: str, flag: bool, slope: float) -> None:
    a = tl.Variable(np.ones(3))

    def twice(flag: Any) -> Any:
        with tl.GradientTape(persistent=True) as tape:
            factor = 2.0
            if flag:
                factor = 1.0
            loss = tl.sum(factor * a)
        return tape.gradient(loss, a), tape.gradient(loss, a)

    for gradient in run_as(mode, twice)(tensor(flag)):
        assert_close(gradient, [slope] * 3)


def test_errors_after_a_branch_name_the_users_line() -> None:
    def plain(x: Any, i: Any) -> Any:
        if tl.sum(x) > 0:
            x = x * 2.0
        b = x + 1.0
        return b[i] * 3.0

    f, x = tl.function(plain), tensor([1.0, 2.0])
    assert number(f(x, tensor(1, "int64"))) == 15.0
    with pytest.raises(IndexError) as caught:
        f(x, tensor(7, "int64"))
    line = plain.__code__.co_firstlineno + 4
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    assert f"test_control_flow.py:{line}" in notes


def cell(source: str) -> Any:
    """The function `f` of a notebook cell: a compiled string, whose text is in `linecache`."""
    source, name = textwrap.dedent(source), "<cell-1>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"tl": tl}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


def test_a_cell_that_ran_again_never_gives_the_function_of_before_its_branches() -> None:
    text = """
        def f(x):
            if x > 0:
                return x * {}
            return x * {}
    """
    old = tl.function(cell(text.format(2.0, 3.0)))
    new = tl.function(cell(text.format(5.0, 7.0)))
    assert [number(new(tensor(x))) for x in (1.0, -1.0)] == [5.0, -7.0]
    with pytest.raises(SymbolicTensorError):  # its text is gone
        old(tensor(1.0))
