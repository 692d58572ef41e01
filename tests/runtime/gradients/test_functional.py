"""Gradients of functions of nested structures, eager, compiled and across the border."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


@MODES
def test_grad_is_that_of_the_first_argument(mode: Wrapper) -> None:
    gradient = mode(tl.grad(mode(lambda x, y: tl.sum(x * x * y))))
    assert gradient(tl.asarray([1.0, 2.0]), 3.0).numpy().tolist() == [6.0, 12.0]


@MODES
def test_argnums_choose_arguments(mode: Wrapper) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y * y * z

    x, y, z = (tl.asarray(v) for v in (2.0, 3.0, 5.0))
    assert mode(tl.grad(f, 1))(x, y, z).item() == 60.0
    assert mode(tl.grad(f, -1))(x, y, z).item() == 18.0
    assert mode(tl.grad(f, "z"))(x, y, z).item() == 18.0
    found = mode(tl.grad(f, ("z", 0)))(x, y, z)
    assert [t.item() for t in found] == [18.0, 45.0]


@MODES
def test_gradient_has_the_structure_of_the_argument(mode: Wrapper) -> None:
    def loss(params: Any, x: Any) -> Any:
        return tl.sum(tl.tanh(x @ params["w"] + params["b"][0]))

    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=(3, 2)), rng.normal(size=2), rng.normal(size=(4, 3))
    params = {"w": tl.asarray(w), "b": [tl.asarray(b), None]}
    found = mode(tl.grad(loss))(params, tl.asarray(x))
    slope = 1 - np.tanh(x @ w + b) ** 2
    assert found["b"][1] is None
    np.testing.assert_allclose(found["w"].numpy(), x.T @ slope, rtol=1e-10)
    np.testing.assert_allclose(found["b"][0].numpy(), slope.sum(0), rtol=1e-10)


def test_value_and_grad_with_aux() -> None:
    (value, aux), gradient = tl.value_and_grad(lambda x: (x * x, {"x": x + 1}), has_aux=True)(3.0)
    assert (value.item(), aux["x"].item(), gradient.item()) == (9.0, 4.0, 6.0)
    gradient, aux = tl.grad(lambda x: (x * x, "kept"), has_aux=True)(3.0)
    assert (gradient.item(), aux) == (6.0, "kept")
    with pytest.raises(ArgumentTypeError, match="must return a pair"):
        tl.grad(lambda x: x, has_aux=True)(3.0)


@MODES
def test_grad_nests_to_any_order(mode: Wrapper) -> None:
    f: Any = mode(lambda x: tl.sin(x) * x)
    x, found = tl.asarray(0.7), []
    for _ in range(4):
        f = mode(tl.grad(f))
        found.append(f(x).item())
    s, c, v = np.sin(0.7), np.cos(0.7), 0.7
    np.testing.assert_allclose(
        found, [s + v * c, 2 * c - v * s, -3 * s - v * c, -4 * c + v * s], rtol=1e-12
    )


def test_arguments_are_independent_of_what_the_function_reads_elsewhere() -> None:
    x = tl.asarray(3.0)
    assert tl.grad(lambda a: a * x)(x).item() == 3.0
    assert [g.item() for g in tl.grad(lambda a, b: a * b * b, (0, 1))(x, x)] == [9.0, 18.0]
    compiled = tl.function(lambda a: tl.grad(lambda b: b * x)(x))
    assert compiled(x).item() == 3.0


def test_outer_tape_sees_through_grad() -> None:
    x, y = tl.asarray(2.0), tl.asarray(5.0)
    with tl.GradientTape() as tape:
        tape.watch([x, y])
        slope = tl.grad(lambda a: a * a * a * y)(x)
    found = tape.gradient(slope, [x, y])
    assert [g.item() for g in found] == [60.0, 12.0]


def test_argument_that_nothing_depends_on_gets_zeros() -> None:
    assert tl.grad(lambda x: tl.asarray(1.0))(tl.asarray([1.0, 2.0])).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: x, ShapeError, r"must return a tensor of shape \(\), got shape \(2,\)"),
        (lambda x: [x[0], x[1]], ArgumentTypeError, "must return one number, got list"),
        (lambda x: tl.sum(x) * 1j, DTypeError, "must return a real float"),
        (lambda x: tl.sum(x).astype(tl.int64), DTypeError, "must return a real float"),
    ],
)
def test_results_that_are_no_real_number_are_refused(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        tl.grad(f)(tl.asarray([1.0, 2.0]))
    assert STATE.open == ()


def test_arguments_that_cannot_be_differentiated_are_refused() -> None:
    with pytest.raises(DTypeError, match="must be of float or complex dtype, got int64"):
        tl.grad(lambda x: x)(3)
    with pytest.raises(ArgumentError, match="no argument 1"):
        tl.grad(lambda x: x, 1)(3.0)
    with pytest.raises(ArgumentError, match="named 'y'"):
        tl.grad(lambda x: x, "y")(3.0)
    with pytest.raises(ArgumentError, match="twice"):
        tl.grad(lambda x: x, (0, "x"))(3.0)
    with pytest.raises(ArgumentTypeError, match="position or its name"):
        tl.grad(lambda x: x, (1.5,))(3.0)  # type: ignore[arg-type]
    assert STATE.open == ()


def test_vjp_pulls_back_any_number_of_times() -> None:
    x = tl.asarray([1.0, 2.0])
    result, pull_back = tl.vjp(lambda a, b: {"y": a * b["s"]}, x, {"s": 3.0})
    assert result["y"].numpy().tolist() == [3.0, 6.0]
    for scale in (1.0, 10.0):
        ga, gb = pull_back({"y": [scale, scale]})
        assert ga.numpy().tolist() == [3.0 * scale] * 2
        assert gb["s"].item() == 3.0 * scale
    with pytest.raises(ShapeError, match="the cotangent has shape"):
        pull_back({"y": 1.0})
    with pytest.raises(ArgumentError, match="structures differ"):
        pull_back({"z": [1.0, 1.0]})


def test_vjp_is_differentiable_in_cotangent_and_arguments() -> None:
    x, ct = tl.asarray(2.0), tl.asarray(3.0)
    with tl.GradientTape() as tape:
        tape.watch([x, ct])
        _, pull_back = tl.vjp(lambda a: a * a * a, x)
        (pulled,) = pull_back(ct)
    assert [g.item() for g in tape.gradient(pulled, [x, ct])] == [36.0, 12.0]


@MODES
def test_vjp_with_aux(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        result, pull_back, aux = tl.vjp(lambda a: (a * a, a + 1), x, has_aux=True)
        return result, pull_back(2.0)[0], aux

    assert [t.item() for t in mode(f)(tl.asarray(3.0))] == [9.0, 12.0, 4.0]


def test_calls_with_other_counts_of_arguments_resolve_argnums_anew() -> None:
    gradient = tl.grad(lambda *args: args[0] * args[-1] ** 2, -1)
    x, y, z = (tl.asarray(v) for v in (2.0, 3.0, 5.0))
    assert gradient(x, y).item() == 12.0
    assert gradient(x, y, z).item() == 20.0
    assert gradient(x, y).item() == 12.0
    with pytest.raises(ArgumentError, match="argument"):
        tl.grad(lambda x: x, 1)(x)


def test_tensors_beside_structures_and_unused_tensors() -> None:
    x, y, unused = (tl.asarray(v) for v in ([1.0, 2.0], [3.0, 4.0], [[5.0]]))
    value, found = tl.value_and_grad(lambda x, pair, z: tl.sum(x * pair["y"]), (0, 1, 2))(
        x, {"y": y, "none": None}, unused
    )
    assert value.item() == 11.0
    assert found[0].numpy().tolist() == [3.0, 4.0]
    assert found[1]["y"].numpy().tolist() == [1.0, 2.0]
    assert found[1]["none"] is None
    assert found[2].numpy().tolist() == [[0.0]]


def test_a_gradient_leaves_the_tensors_it_was_asked_for_unwatched() -> None:
    x = tl.asarray([1.0, 2.0])
    gradient = tl.grad(lambda x: tl.sum(x * x))(x)
    assert x._node is None
    assert gradient._node is None
