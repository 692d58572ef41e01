"""Cases of arguments that change from call to call: sizes that are new, numbers that vary."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import JAX, NUMPY, OURS, Case, Faster, peer
from benchmarks.measure import Call, Timing, summarize

SIZES = range(200, 260)
"""Batch sizes of the sweep, each of which comes once."""
SEEN = (64, 65, 66)
FEATURES, HIDDEN = 64, 32

Array = np.ndarray[Any, Any]


def weights() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(FEATURES, HIDDEN)) * 0.1, rng.normal(size=(HIDDEN, 1)) * 0.1


def step_by_us() -> Callable[[Any], Any]:
    """Loss and gradients of a small network, for a batch."""
    first, second = map(tl.Variable, weights())

    @tl.function
    def step(x: Any) -> Any:
        with tl.GradientTape() as tape:
            loss = tl.mean((tl.tanh(x @ first) @ second) ** 2)
        return loss, tape.gradient(loss, (first, second))

    return step


def step_in_jax(jax: Any) -> Callable[[Any], Any]:
    """The same; JAX compiles anew for each size."""
    jax.config.update("jax_enable_x64", True)
    given = tuple(map(jax.numpy.asarray, weights()))

    def loss(parameters: Any, x: Any) -> Any:
        first, second = parameters
        return ((jax.numpy.tanh(x @ first) @ second) ** 2).mean()

    compiled = jax.jit(jax.value_and_grad(loss))
    return lambda x: jax.block_until_ready(compiled(given, x))


def new_sizes() -> dict[str, Timing]:
    """The time of a call of a size that was not seen before, after three that were."""
    steps = {OURS: step_by_us()}
    if jax := peer("jax"):
        steps[JAX] = step_in_jax(jax)
    found = {}
    rng = np.random.default_rng(1)
    for name, step in steps.items():
        times = []
        for size in (*SEEN, *(SIZES if name == OURS else SIZES[:12])):
            x = rng.normal(size=(size, FEATURES))
            start = time.perf_counter()
            step(x)
            times.append(time.perf_counter() - start)
        found[name] = summarize(times[len(SEEN) :])
    return found


def varying_number() -> dict[str, Call]:
    """`x - rate * x` on four numbers, with another Python float at each call."""
    x = np.linspace(-1.0, 1.0, 4, dtype=np.float32)

    def formula(x: Any, rate: float) -> Any:
        return x - rate * x

    def varying(function: Callable[[Any, float], Any], given: Any) -> Call:
        rates = itertools.cycle([1e-9 * k for k in range(1, 1000)])
        return lambda: function(given, next(rates))

    calls = {NUMPY: varying(formula, x), OURS: varying(tl.function(formula), tl.asarray(x))}
    if jax := peer("jax"):
        calls[JAX] = varying(jax.jit(formula), jax.numpy.asarray(x))
    return calls


CASES = [
    Case(
        "new_size", "training step of a batch size that is new", once=new_sizes,
        goals=(Faster(1, JAX),),
    ),
    Case(
        "varying_number", "call on 4 float32 with a Python float that is new each time",
        varying_number, (Faster(1, NUMPY), Faster(1, JAX)),
    ),
]  # fmt: skip
