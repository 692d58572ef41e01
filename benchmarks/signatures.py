"""Cases of what calls look like in real programs, on four numbers: nested arguments, methods,
captured Variables, keywords, a tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import JAX, OURS, TENSORFLOW, TORCH, Below, Case, Faster, peer
from benchmarks.measure import Call

FASTER = (Faster(1, JAX), Faster(1, TORCH), Faster(1, TENSORFLOW))


def fours(count: int) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    """So many arrays of four numbers."""
    rng = np.random.default_rng(count)
    return [rng.standard_normal(4).astype(np.float32) for _ in range(count)]


def nested(values: list[Any]) -> dict[str, Any]:
    """Eight values in dicts, lists and tuples."""
    a, b, c, d, e, f, g, h = values
    return {"a": {"x": a, "y": [b, c]}, "b": (d, {"u": e, "v": f}), "c": [g, h]}


def of_nested(t: dict[str, Any]) -> Any:
    """A formula of all of them."""
    first = t["a"]["x"] + t["a"]["y"][0] * t["a"]["y"][1]
    second = t["b"][0] * t["b"][1]["u"] + t["b"][1]["v"]
    return (first - second) * t["c"][0] + t["c"][1]


def scaled(x: Any, *, scale: Any, shift: Any = 0.5) -> Any:
    """For calls by keyword."""
    return x * scale + shift


def contenders(function: Callable[..., Any], call: Callable[..., Any]) -> dict[str, Call]:
    """The compiled function of each system, called by `call(compiled, asarray)` with what makes
    its arrays."""
    calls: dict[str, Call] = {OURS: call(tl.function(function), tl.asarray)}
    if jax := peer("jax"):
        calls[JAX] = call(jax.jit(function), jax.numpy.asarray)
    if torch := compiling_torch():
        calls[TORCH] = call(torch.compile(function), torch.from_numpy)
    if tensorflow := peer("tensorflow"):
        calls[TENSORFLOW] = call(tensorflow.function(function), tensorflow.constant)
    return calls


def compiling_torch() -> Any | None:
    """Torch, where its compiler finds what it needs."""
    torch = peer("torch")
    if torch is None:
        return None
    try:
        torch.compile(lambda x: x + 1)(torch.ones(4))
    except Exception:
        return None
    return torch


def build_nested() -> dict[str, Call]:
    values = fours(8)

    def call(compiled: Any, asarray: Any) -> Call:
        given = nested([asarray(value) for value in values])
        return lambda: compiled(given)

    return contenders(of_nested, call)


def build_keywords() -> dict[str, Call]:
    values = fours(3)

    def call(compiled: Any, asarray: Any) -> Call:
        x, scale, shift = map(asarray, values)
        return lambda: compiled(x, scale=scale, shift=shift)

    return contenders(scaled, call)


def build_method() -> dict[str, Call]:
    w, value = fours(2)

    def model(wrap: Any, asarray: Any) -> Call:
        class Model:
            def __init__(self) -> None:
                self.w = asarray(w)

            @wrap  # type: ignore[untyped-decorator]  # of any system
            def scale(self, x: Any) -> Any:
                return x * self.w + 1

        one, x = Model(), asarray(value)
        return lambda: one.scale(x)

    calls: dict[str, Call] = {OURS: model(tl.function, tl.asarray)}
    if jax := peer("jax"):
        jitted = model(lambda f: jax.jit(f, static_argnums=0), jax.numpy.asarray)
        calls[JAX] = jitted
    if torch := compiling_torch():
        calls[TORCH] = model(torch.compile, torch.from_numpy)
    if tensorflow := peer("tensorflow"):
        calls[TENSORFLOW] = model(tensorflow.function, tensorflow.constant)
    return calls


def captured(function: Any, variable: Any, asarray: Any, values: list[Any]) -> tuple[Any, Any]:
    """A compiled function that reads three Variables, and its argument."""
    a, b, c = map(variable, values[:3])
    return function(lambda x: x * a + b * c), asarray(values[3])


def build_captures() -> dict[str, Call]:
    values = fours(4)
    f, x = captured(tl.function, tl.Variable, tl.asarray, values)
    calls: dict[str, Call] = {OURS: lambda: f(x)}
    if torch := compiling_torch():
        g, y = captured(torch.compile, torch.from_numpy, torch.from_numpy, values)
        calls[TORCH] = lambda: g(y)
    if tensorflow := peer("tensorflow"):
        h, z = captured(tensorflow.function, tensorflow.Variable, tensorflow.constant, values)
        calls[TENSORFLOW] = lambda: h(z)
    if jax := peer("jax"):  # which has no variables: they are arguments
        a, b, c, given = map(jax.numpy.asarray, values)
        jitted = jax.jit(lambda x, a, b, c: x * a + b * c)
        calls[JAX] = lambda: jitted(given, a, b, c)
    return calls


def build_captures_taped() -> dict[str, Call]:
    values = fours(4)
    f, x = captured(tl.function, tl.Variable, tl.asarray, values)

    def ours() -> Any:
        with tl.GradientTape():
            return f(x)

    calls: dict[str, Call] = {OURS: ours}
    if torch := compiling_torch():

        def parameter(value: Any) -> Any:
            return torch.from_numpy(value).requires_grad_()

        g, y = captured(torch.compile, parameter, torch.from_numpy, values)
        calls[TORCH] = lambda: g(y).detach()
    if tensorflow := peer("tensorflow"):
        h, z = captured(tensorflow.function, tensorflow.Variable, tensorflow.constant, values)

        def theirs() -> Any:
            with tensorflow.GradientTape():
                return h(z)

        calls[TENSORFLOW] = theirs
    return calls


CASES = (
    Case("call_nested", "8 tensors in nested dicts", build_nested, (Below(1e-6), *FASTER)),
    Case("call_method", "a method that reads an attribute", build_method, (Below(1e-6), *FASTER)),
    Case("call_captures", "3 captured Variables", build_captures, (Below(500e-9), *FASTER)),
    Case("call_keywords", "keyword arguments", build_keywords, (Below(500e-9), *FASTER)),
    Case(
        "call_captures_taped",
        "3 captured Variables, under a tape",
        build_captures_taped,
        (Faster(1, TORCH), Faster(1, TENSORFLOW)),
    ),
)
