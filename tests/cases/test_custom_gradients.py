"""Gradients that users state themselves."""

from __future__ import annotations

from typing import Any

from tests.cases.comparing import both_modes, derivatives, number, run_as, tensor

import tapeline as tl


@both_modes
def test_a_stated_gradient_that_reads_a_variable(mode: str) -> None:
    v = tl.Variable(3.0)

    @tl.custom_gradient
    def scaled(x: Any) -> Any:
        y = x * v

        def gradient(ct: Any, variables: Any = None) -> Any:
            by_x = ct * 100.0
            return by_x if variables is None else (by_x, [ct * 7.0 for _ in variables])

        return y, gradient

    f, x = run_as(mode, lambda x: scaled(x)), tensor(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert number(y) == 6.0
    by_x, by_v = tape.gradient(y, [x, v])
    assert [number(by_x), number(by_v)] == [100.0, 7.0]


@both_modes
def test_a_stated_gradient_is_differentiated_again(mode: str) -> None:
    @tl.custom_gradient
    def square(x: Any) -> Any:
        return x * x, lambda ct: ct * 2.0 * x

    got = derivatives(run_as(mode, lambda x: square(x) * 1.0), tensor(5.0), 2)
    assert got == [25.0, 10.0, 2.0]
