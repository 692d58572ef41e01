"""Programs that write in place, loop, choose and keep rules of their own: all derivatives of orders
one to three agree, whichever way they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.runtime.gradients.test_mixed_programs import by_tape, compiled, slopes

import tapeline as tl

Program = Callable[[Any], Any]
"""From three numbers to a tensor."""

DIRECTION = tl.asarray([0.3, -0.5, 0.8])
WEIGHT = tl.Variable([0.5, -0.3, 0.8])


def repeat(body: Program, times: int = 3) -> Program:
    return lambda x: tl.while_loop(lambda i, y: i < times, lambda i, y: (i + 1, body(y)), (0, x))[1]


def rows_written(x: Any) -> Any:
    y = tl.zeros((4, 3))
    y[0] = x
    for i in tl.arange(3):
        y[i + 1] = tl.sin(y[i]) * x
    return tl.sum(y, axis=0)


def argument_written(x: Any) -> Any:
    x = tl.identity(x)
    x[0] = x[1] * x[2]
    x[1:] += x[:2] * x[1:]
    x[x > 0.9] = 0.5
    return x * x


def written_twice(x: Any) -> Any:
    y = tl.zeros(5)
    y[np.array([0, 2, 4])] = x * x
    y[np.array([0, 0, 1])] += x
    return y * y


def grown_in_a_loop(x: Any) -> Any:
    y = x * 1.0
    for i in tl.arange(3):
        y += tl.sin(y) * x[i]
    return y


def place_by_example(x: Any) -> Any:
    def one(i: Any) -> Any:
        y = x * 1.0
        y[i] = y[i] * y[(i + 1) % 3]
        y[i] += 2.0 * x[i]
        return tl.sum(y * y)

    return tl.vmap(one)(tl.arange(3))


@tl.custom_gradient
def cube(x: Any) -> Any:
    return x * x * x, lambda ct: ct * 3.0 * x * x


def rule_in_a_scan(x: Any) -> Any:
    return tl.scan(lambda c, v: (cube(c) * v + tl.sin(v), c * v), x[0] * 1.0, x)[0]


def rule_in_a_mapped_scan(x: Any) -> Any:
    return tl.vmap(tl.grad(lambda v: tl.scan(lambda c, u: (cube(c * u) + v, c), v, x)[0]))(x)


def checkpoint_with_a_capture(x: Any) -> Any:
    return repeat(tl.checkpoint(lambda y: tl.sin(y) * x + tl.exp(-y * x)))(x)


def checkpoint_in_a_scan(x: Any) -> Any:
    block = tl.checkpoint(lambda c, v: tl.sin(c) * v + c * x)
    return tl.scan(lambda c, v: (block(c, v), c), x * 1.0, x)[0]


def checkpoint_in_a_mapped_loop(x: Any) -> Any:
    block = tl.checkpoint(lambda c, v: tl.sin(c) * v + x[1])
    return tl.vmap(tl.grad(lambda v: repeat(lambda c: block(c, v), 2)(v)))(x)


def mapped_choice_in_a_scan(x: Any) -> Any:
    def one(v: Any) -> Any:
        def turn(c: Any, u: Any) -> Any:
            return tl.cond(c * u > 0.3, lambda: tl.sin(c) * v + u, lambda: c + u * u * x[0]), c

        return tl.scan(turn, v, x)[0]

    return tl.vmap(tl.grad(one))(x)


def mapped_loop_of_some_turns(x: Any) -> Any:
    def one(v: Any) -> Any:
        return tl.while_loop(lambda y: y < 2.0, lambda y: (y * (1.3 + 0.2 * tl.sin(v)),), (v,))[0]

    return tl.vmap(tl.grad(one))(x)


def hessian_of_a_compiled_loop(x: Any) -> Any:
    @compiled
    def f(x: Any) -> Any:
        total = x[0]
        for i in tl.arange(3):
            if x[i] > 0.5:
                total = total * x[i]
                total += tl.sin(total)
            else:
                total += x[i] ** 3
        return total

    return tl.hessian(f)(x) @ x


def persistent_tape_over_calls(x: Any) -> Any:
    f, g = compiled(lambda x: tl.sin(x) * x), compiled(lambda y: tl.exp(-y))
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        z = g(y) * y
        slope = tape.gradient(y, x)
    return slope * tape.gradient(z, x) + tape.gradient(slope, x)


def accumulator_over_calls(x: Any) -> Any:
    f = compiled(lambda x: tl.cond(tl.sum(x) > 0, lambda: tl.sin(x) * x, lambda: x))
    g = compiled(repeat(tl.sin, 2))
    with tl.ForwardAccumulator(x, DIRECTION) as accumulator:
        y = g(f(x))
    return accumulator.jvp(y)


def accumulator_around_a_loop(x: Any) -> Any:
    with tl.ForwardAccumulator(x, DIRECTION) as accumulator:
        y = x * 1.0
        for i in tl.arange(3):
            y = tl.sin(y) * x[i]
    return accumulator.jvp(y)


def descent(x: Any) -> Any:
    y = x * 1.0
    for i in tl.arange(3):
        with tl.GradientTape() as tape:
            tape.watch(y)
            loss = tl.sum(tl.sin(y * x) * y)
        y = y - 0.1 * tape.gradient(loss, y) * x[i]
    return y


def newton(x: Any) -> Any:
    y = x * 1.0
    for _ in tl.arange(2):
        jacobian = tl.jacobian(lambda y: tl.sin(y) * x * y)(y)
        y = tl.linalg.solve(jacobian + 3.0 * tl.eye(3), y)
    return y


def rows_of_a_table(x: Any) -> Any:
    table = tl.stack([x, x * x, tl.sin(x)])
    with tl.GradientTape() as tape:
        tape.watch(table)
        rows = tl.take(table, np.array([0, 2, 2, 1]), axis=0)
        total = tl.sum(rows**3)
    return tl.asarray(tape.gradient(total, table, sparse=True)) * 2.0


def nested_arguments(x: Any) -> Any:
    def f(given: Any) -> Any:
        doubled, (first, wave) = given["b"]
        return tl.sum(given["a"] * doubled) * first + tl.sum(wave**3)

    found = tl.grad(f)({"a": x, "b": [x * 2, (x[0], tl.sin(x))]})
    return found["a"] + found["b"][0] * x + found["b"][1][1] + found["b"][1][0]


def complex_loop(x: Any) -> Any:
    z = tl.exp(1j * x)
    z = repeat(lambda c: c * c * 0.5 + z)(z)
    return tl.real(z) * tl.imag(z) + tl.abs(z)


PROGRAMS: list[Program] = [
    rows_written, argument_written, written_twice, grown_in_a_loop, place_by_example,
    rule_in_a_scan, rule_in_a_mapped_scan, checkpoint_with_a_capture, checkpoint_in_a_scan,
    checkpoint_in_a_mapped_loop, mapped_choice_in_a_scan, mapped_loop_of_some_turns,
    hessian_of_a_compiled_loop, persistent_tape_over_calls, accumulator_over_calls,
    accumulator_around_a_loop, descent, newton, rows_of_a_table, nested_arguments, complex_loop,
]  # fmt: skip
pytestmark = pytest.mark.slow
EACH = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
POINT = np.array([0.55, 0.9, 0.7])


def total_of(program: Program) -> Program:
    """A weighted sum of what the program gives."""

    def total(x: Any) -> Any:
        y = program(x)
        return tl.sum(y * np.linspace(0.7, 1.3, y.size).reshape(y.shape)) + tl.sum(WEIGHT * x**2)

    return total


def along(f: Program) -> Program:
    """Second derivatives along the direction."""
    return lambda x: tl.hvp(f, [x], [DIRECTION])


@EACH
def test_first_derivatives_agree(program: Program) -> None:
    f = total_of(program)
    two = tl.stack([tl.asarray(POINT * 0.9), tl.asarray(POINT)])
    want = slopes(f, POINT)
    ways: dict[str, Program] = {
        "eager": tl.grad(f),
        "tape": by_tape(f),
        "of compiled": by_tape(compiled(f)),
        "compiled": compiled(by_tape(f)),
        "forward": tl.jacobian(f, mode="forward"),
        "forward of compiled": tl.jacobian(compiled(f), mode="forward"),
        "forward compiled": compiled(tl.jacobian(f, mode="forward")),
        "mapped compiled": lambda x: compiled(tl.vmap(tl.grad(f)))(two)[1],
    }
    if program is not argument_written:  # as many elements as the mask says
        ways["mapped"] = lambda x: tl.vmap(tl.grad(f))(two)[1]
    for way, gradient in ways.items():
        found = gradient(tl.asarray(POINT)).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-7, err_msg=way)


@EACH
def test_second_and_third_derivatives_agree(program: Program) -> None:
    f = total_of(program)
    second = slopes(lambda x: tl.grad(f)(x) @ DIRECTION, POINT)
    third = slopes(lambda x: along(f)(x) @ DIRECTION, POINT)
    ways: dict[str, tuple[Program, Any]] = {
        "eager": (along(f), second),
        "of compiled": (along(compiled(f)), second),
        "tape around tape": (by_tape(lambda x: by_tape(compiled(f))(x) @ DIRECTION), second),
        "by columns": (lambda x: tl.jacobian(tl.grad(f), mode="forward")(x) @ DIRECTION, second),
        "third": (tl.grad(lambda x: along(f)(x) @ DIRECTION), third),
        "third compiled": (compiled(tl.grad(lambda x: along(f)(x) @ DIRECTION)), third),
    }
    for way, (derivative, want) in ways.items():
        found = derivative(tl.asarray(POINT)).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=way)
