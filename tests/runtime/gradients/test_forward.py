"""Derivatives along a direction, and Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


def layer(w: Any, x: Any) -> Any:
    return tl.tanh(x @ w) / (1.0 + tl.exp(-x @ w))


@MODES
def test_jvp_is_the_slope_along_the_direction(mode: Wrapper, rng: np.random.Generator) -> None:
    w, x, dw, dx = (rng.normal(size=s) for s in ((3, 2), (4, 3), (3, 2), (4, 3)))
    f = mode(layer)
    run = mode(lambda *v: tl.jvp(f, v[:2], v[2:]))
    result, tangent = run(*(tl.asarray(v) for v in (w, x, dw, dx)))
    np.testing.assert_allclose(result.numpy(), layer(tl.asarray(w), tl.asarray(x)).numpy())
    h = 1e-5
    up, down = (layer(tl.asarray(w + s * dw), tl.asarray(x + s * dx)) for s in (h, -h))
    np.testing.assert_allclose(tangent.numpy(), ((up - down) / (2 * h)).numpy(), rtol=1e-6)


def test_jvp_keeps_structures_and_aux() -> None:
    result, tangent, aux = tl.jvp(
        lambda p: ({"y": p["a"] * p["b"], "c": tl.asarray(1.0)}, 5),
        [{"a": 2.0, "b": 3.0}], [{"a": 1.0, "b": 10.0}], has_aux=True,
    )  # fmt: skip
    assert result["y"].item() == 6.0
    assert (tangent["y"].item(), tangent["c"].item(), aux) == (23.0, 0.0, 5)


def test_jvp_refuses_tangents_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="a tangent has shape"):
        tl.jvp(lambda x: x, [tl.asarray([1.0, 2.0])], [1.0])
    with pytest.raises(ArgumentError, match="one tangent per primal"):
        tl.jvp(lambda x: x, [1.0], [])


def test_jvp_of_complex_functions_is_real_linear(rng: np.random.Generator) -> None:
    z, dz = (rng.normal(size=(2, 3)) @ np.array([1, 1j, 0]) for _ in range(2))
    holomorphic = tl.jvp(lambda x: x * x * x, [tl.asarray(z)], [tl.asarray(dz)])[1]
    np.testing.assert_allclose(holomorphic.numpy(), 3 * z * z * dz)
    other = tl.jvp(lambda x: tl.conj(x) * x, [tl.asarray(z)], [tl.asarray(dz)])[1]
    np.testing.assert_allclose(other.numpy(), dz.conj() * z + z.conj() * dz)


@MODES
def test_jvp_nests_with_itself_and_with_grad(mode: Wrapper) -> None:
    f: Any = mode(lambda x: x * x * x * x)

    def along(g: Any) -> Any:
        return mode(lambda x: tl.jvp(g, [x], [1.0])[1])

    x = tl.asarray(2.0)
    assert along(f)(x).item() == 32.0
    assert along(along(f))(x).item() == 48.0
    assert mode(tl.grad(along(f)))(x).item() == 48.0
    assert along(mode(tl.grad(f)))(x).item() == 48.0
    assert along(along(along(f)))(x).item() == 48.0


def test_linearize_applies_many_times() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return x * y

    result, push_forward = tl.linearize(f, 2.0, 3.0)
    assert result.item() == 6.0
    assert [push_forward(*t).item() for t in ((1.0, 0.0), (0.0, 1.0), (2.0, 2.0))] == [3, 2, 10]
    assert len(calls) == 1


@MODES
def test_hvp_is_the_hessian_times_the_vector(mode: Wrapper, rng: np.random.Generator) -> None:
    x, v = tl.asarray(rng.normal(size=4)), tl.asarray(rng.normal(size=4))
    f = mode(lambda x: tl.sum(tl.exp(tl.sin(x)) * x[0]))
    found = mode(lambda x, v: tl.hvp(f, [x], [v]))(x, v)
    np.testing.assert_allclose(found.numpy(), (tl.hessian(f)(x) @ v).numpy(), rtol=1e-10)


def test_hvp_of_several_arguments() -> None:
    found = tl.hvp(lambda x, y: x * y * y, [2.0, 3.0], [1.0, 10.0])
    assert [t.item() for t in found] == [60.0, 46.0]


def test_gradient_of_a_direction_where_arrays_and_recorded_tensors_add_up() -> None:
    x, w = tl.asarray([-0.5, 0.25]), tl.asarray([0.75, -2.0])

    def along(x: Any) -> Any:
        return tl.jvp(lambda x: tl.maximum(x, 0.0) + tl.exp(x), [x], [w])[1]

    slope = tl.grad(lambda x: tl.sum(along(x)))(x)
    np.testing.assert_allclose(slope.numpy(), np.exp(x.numpy()) * w.numpy(), rtol=1e-14)


def test_derivatives_of_a_compiled_function_are_one_compiled_call(rng: np.random.Generator) -> None:
    w = tl.asarray(rng.normal(size=(3, 3)))

    def plain(x: Any, s: Any) -> Any:
        return tl.sum(tl.tanh(w @ x) ** 2) * s["scale"]

    f = tl.function(plain)
    x, v = tl.asarray(rng.normal(size=3)), [rng.normal(size=3).tolist(), {"scale": 0.5}]
    primals = [x, {"scale": 2.0}]
    for _ in range(2):
        for a, b in zip(tl.hvp(f, primals, v), tl.hvp(plain, primals, v), strict=True):
            pairs = zip(tl.nest.flatten(a), tl.nest.flatten(b), strict=True)
            for got, want in pairs:
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
        for got, want in zip(tl.jvp(f, primals, v), tl.jvp(plain, primals, v), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
    hvp = f.derived("hvp", lambda _: plain)
    assert (hvp.trace_count, hvp.concrete_functions[0].name) == (1, "plain_hvp")
    slope = tl.grad(lambda x: tl.sum(tl.hvp(f, [x, primals[1]], v)[0]))(x)
    want = tl.grad(lambda x: tl.sum(tl.hvp(plain, [x, primals[1]], v)[0]))(x)
    np.testing.assert_allclose(slope.numpy(), want.numpy(), rtol=1e-10)
