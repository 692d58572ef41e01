"""Objects with derivative rules for both modes."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, GradientCheckError

X, Y = tl.asarray([0.5, 1.25]), tl.asarray([2.0, -3.0])


def plain(x: Any, y: Any) -> Any:
    return {"product": tl.sin(x) * y, "sum": x + y}


def forward(x: Any, y: Any) -> Any:
    return plain(x, y), (x, y)


def backward(kept: Any, ct: Any) -> Any:
    x, y = kept
    return ct["product"] * tl.cos(x) * y + ct["sum"], ct["product"] * tl.sin(x) + ct["sum"]


def along(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return plain(x, y), {"product": tl.cos(x) * y * tx + tl.sin(x) * ty, "sum": tx + ty}


def made(rules: str) -> Any:
    f = tl.custom_derivative(plain)
    if "reverse" in rules:
        f.defvjp(forward, backward)
    if "forward" in rules:
        f.defjvp(along)
    return f


RULES = pytest.mark.parametrize("rules", ["reverse", "forward", "reverse and forward"])


@RULES
def test_rules_serve_both_modes_and_all_orders(rules: str) -> None:
    f = made(rules)
    f.check(X, Y, order=3)
    for wrap in (tl.function, tl.vmap):
        tl.testing.check_gradients(wrap(f), [X, Y])


def test_the_rule_of_each_mode_is_the_one_that_runs() -> None:
    ran = []

    def noted_backward(kept: Any, ct: Any) -> Any:
        ran.append("reverse")
        return backward(kept, ct)

    def noted_along(primals: Any, tangents: Any) -> Any:
        ran.append("forward")
        return along(primals, tangents)

    f = tl.custom_derivative(plain).defvjp(forward, noted_backward).defjvp(noted_along)
    tl.grad(lambda x: tl.sum(f(x, Y)["product"]))(X)
    assert ran == ["reverse"]
    tl.jvp(lambda x: f(x, Y)["product"], [X], [X])
    assert "forward" in ran


def test_rules_that_contradict_each_other_are_found() -> None:
    f = tl.custom_derivative(plain).defvjp(forward, lambda kept, ct: backward(kept, ct)[::-1])
    f.defjvp(along)
    with pytest.raises(GradientCheckError, match="the rules of plain contradict each other"):
        f.check(X, Y)
    half = made("").defjvp(lambda p, t: along(p, [0.5 * x for x in t]))
    with pytest.raises(GradientCheckError, match="order 1"):
        half.check(X, Y)


def test_rules_of_methods_get_the_object() -> None:
    class Scaled:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @tl.custom_derivative
        def cube(self, x: Any) -> Any:
            return x * x * x * self.scale

        cube.defvjp(
            lambda self, x: (x * x * x * self.scale, x),
            lambda self, kept, ct: (ct * 3.0 * kept * kept * self.scale,),
        )

    scaled = Scaled(2.0)
    assert tl.grad(scaled.cube)(2.0).item() == 24.0
    scaled.cube.check(2.0)


def test_a_forward_rule_may_call_the_function_itself() -> None:
    f = tl.custom_derivative(lambda x: tl.exp(x))

    def own(x: Any) -> Any:
        y = f(x)
        return y, y

    f.defvjp(own, lambda y, ct: (ct * y,))
    f.check(X, order=3)


def test_what_does_not_fit_is_refused() -> None:
    f = tl.custom_derivative(plain)
    with pytest.raises(ArgumentError, match="plain has no rule yet"):
        f(X, Y)
    f.defvjp(forward, lambda kept, ct: (ct["sum"],))
    with pytest.raises(ArgumentError, match="one gradient, or None, per argument: 2"):
        tl.grad(lambda x: tl.sum(f(x, Y)["sum"]))(X)
    v = tl.Variable(2.0)
    g = tl.custom_derivative(lambda x: x * v).defvjp(lambda x: (x * v, x), lambda x, ct: (ct * v,))
    with pytest.raises(ArgumentError, match="it reads Variables"):
        tl.grad(g)(3.0)
