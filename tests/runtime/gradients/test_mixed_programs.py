"""Programs that cross the border between eager and compiled code in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

Program = Callable[[Any], Any]
compiled = tl.function


def smooth(x: Any) -> Any:
    """A function that all programs are made of."""
    return tl.sum(tl.sin(x) * x * x)


def by_tape(f: Program, persistent: bool = False) -> Program:
    """The gradient by a tape around the call."""

    def gradient(x: Any) -> Any:
        with tl.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return gradient


def total(f: Program) -> Program:
    return lambda x: tl.sum(f(x))


def loop(body: Program) -> Program:
    """The body applied three times."""
    return lambda x: tl.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, body(y)), (0, x))[1]


def choice(a: Program, b: Program) -> Program:
    return lambda x: tl.cond(tl.sum(x) > 0.0, lambda: a(x), lambda: b(x))


@tl.custom_gradient
def cube(x: Any) -> Any:
    """x ** 3, whose stated gradient is the true one."""
    return x * x * x, lambda dy: dy * 3.0 * x * x


WEIGHT = tl.Variable([0.5, -0.25, 2.0])
CAPTURED = tl.asarray([1.0, -2.0, 0.5])
inner = compiled(lambda x: tl.tanh(x) * x)
middle = compiled(lambda x: inner(x) + inner(x * 2.0))
plain_cube = compiled(lambda x: x * x * x)

PROGRAMS: dict[str, Program] = {
    "eager": smooth,
    "compiled": compiled(smooth),
    "compiled in eager": lambda x: tl.sum(inner(x) * x),
    "eager in compiled in eager": lambda x: tl.sum(
        compiled(lambda y: tl.exp(-y) * inner(y))(x) * x
    ),
    "compiled in compiled": compiled(total(middle)),
    "compiled twice": lambda x: tl.sum(inner(inner(x))),
    "shared compiled function": lambda x: tl.sum(inner(x) * middle(x)),
    "captured tensor": compiled(lambda x: tl.sum(x * CAPTURED * tl.sin(x))),
    "Variable read in compiled": compiled(lambda x: tl.sum(tl.exp(x * WEIGHT))),
    "Variable read on both sides": lambda x: tl.sum(compiled(lambda y: y * y * WEIGHT)(x) * WEIGHT),
    "custom gradient": total(cube),
    "custom gradient compiled": compiled(total(cube)),
    "custom gradient around compiled": total(
        tl.custom_gradient(lambda x: (plain_cube(x), lambda dy: dy * 3.0 * x * x))
    ),
    "checkpoint": total(tl.checkpoint(lambda x: tl.sin(tl.exp(x) * x))),
    "checkpoint of compiled": total(tl.checkpoint(lambda x: middle(x) * x)),
    "checkpoint in compiled": compiled(total(tl.checkpoint(lambda x: tl.sin(x) * x))),
    "loop": total(loop(tl.sin)),
    "loop compiled": compiled(total(loop(lambda y: tl.sin(y) * y))),
    "compiled in eager loop": total(loop(inner)),
    "compiled in compiled loop": compiled(total(loop(inner))),
    "choice": choice(smooth, tl.sum),
    "choice compiled": compiled(choice(smooth, lambda x: tl.sum(x * x))),
    "choice of compiled functions": choice(compiled(smooth), compiled(tl.sum)),
    "scan": lambda x: tl.scan(lambda c, v: (c * v + tl.sin(v), None), tl.asarray(1.0), x)[0],
    "scan compiled": compiled(
        lambda x: tl.scan(lambda c, v: (c * v + tl.sin(v), None), tl.asarray(1.0), x)[0]
    ),
    "vmap": lambda x: tl.sum(tl.vmap(lambda v: tl.sin(v) * v)(x)),
    "vmap compiled": compiled(lambda x: tl.sum(tl.vmap(lambda v: tl.sin(v) * v)(x))),
    "vmap of compiled": lambda x: tl.sum(tl.vmap(inner)(x)),
    "vmap of gradient of compiled": lambda x: tl.sum(tl.vmap(tl.grad(inner))(x)),
    "gradient inside": total(tl.grad(smooth)),
    "gradient of compiled inside": total(tl.grad(compiled(smooth))),
    "gradient compiled": compiled(total(tl.grad(smooth))),
    "gradient of compiled in compiled": compiled(total(tl.grad(compiled(smooth)))),
    "tape inside": total(by_tape(smooth)),
    "tape inside compiled": compiled(total(by_tape(smooth))),
    "tape around compiled inside compiled": compiled(total(by_tape(compiled(smooth)))),
    "persistent tape inside": compiled(total(by_tape(smooth, persistent=True))),
    "gradient of gradient, inner compiled": total(tl.grad(total(compiled(tl.grad(smooth))))),
    "gradient of gradient, outer compiled": compiled(total(tl.grad(total(tl.grad(smooth))))),
    "direction inside": lambda x: tl.sum(tl.jvp(inner, [x], [x])[1]),
    "direction compiled": compiled(lambda x: tl.sum(tl.jvp(middle, [x], [CAPTURED])[1])),
    "Hessian times vector": lambda x: tl.sum(tl.hvp(compiled(smooth), [x], [x])),
    "Jacobian": lambda x: tl.sum(tl.jacobian(inner)(x) @ x),
    "Jacobian compiled": compiled(lambda x: tl.sum(tl.jacobian(middle)(x) @ x)),
}
"""Functions of three numbers to one, with two derivatives at least near the points used."""


def slopes(f: Program, x: Any, step: float = 1e-4) -> Any:
    """The gradient by central differences of fourth order."""
    found = np.zeros_like(x)
    for k in range(x.size):

        def at(n: int, k: int = k) -> float:
            moved = x.copy()
            moved[k] += n * step
            return float(f(tl.asarray(moved)))

        found[k] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradient_of_a_mixed_program(name: str, rng: np.random.Generator) -> None:
    f, x = PROGRAMS[name], rng.uniform(0.2, 1.0, 3)
    want = slopes(f, x)
    for way in (by_tape(f), tl.grad(f), compiled(tl.grad(f)), compiled(by_tape(f))):
        np.testing.assert_allclose(way(tl.asarray(x)).numpy(), want, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivative_of_a_mixed_program(name: str, rng: np.random.Generator) -> None:
    f, x = PROGRAMS[name], rng.uniform(0.2, 1.0, 3)
    v = tl.asarray(rng.normal(size=3))
    want = slopes(lambda x: tl.grad(f)(x) @ v, x)
    ways: list[Program] = [
        lambda x: tl.hvp(f, [x], [v]),
        lambda x: tl.jvp(tl.grad(f), [x], [v])[1],
        by_tape(lambda x: by_tape(f, persistent=True)(x) @ v),
    ]
    for way in ways:
        np.testing.assert_allclose(way(tl.asarray(x)).numpy(), want, rtol=1e-6, atol=1e-7)
