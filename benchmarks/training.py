"""The training step of `examples/digits.py`, and its first call."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import EAGER, JAX, NUMPY, OURS, TORCH, Below, Case, Faster, peer
from benchmarks.measure import Call, Timing, summarize

DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_example", DIGITS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_batch(digits: ModuleType) -> tuple[Any, Any, list[Any]]:
    images, labels = digits.load_digits()
    weights = digits.initial_weights(np.random.default_rng(2026))
    return images[: digits.BATCH], labels[: digits.BATCH], weights


def jax_step(jax: Any, rate: float, images: Any, labels: Any, weights: list[Any]) -> Call:
    def loss_of(parameters: Any, x: Any, y: Any) -> Any:
        w1, b1, w2, b2 = parameters
        logits = jax.nn.log_softmax(jax.numpy.tanh(x @ w1 + b1) @ w2 + b2)
        return -jax.numpy.take_along_axis(logits, y[:, None], 1).mean()

    def step(parameters: Any, x: Any, y: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(parameters, x, y)
        return loss, [p - rate * s for p, s in zip(parameters, slopes, strict=True)]

    jitted = jax.jit(step, donate_argnums=0)
    x, y = jax.numpy.asarray(images), jax.numpy.asarray(labels.astype(np.int32))
    state = [jax.numpy.array(value) for value in weights]

    def call() -> Any:
        nonlocal state
        loss, state = jax.block_until_ready(jitted(state, x, y))
        return loss

    return call


def torch_step(torch: Any, rate: float, images: Any, labels: Any, weights: list[Any]) -> Call:
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    state = [torch.from_numpy(value.copy()).requires_grad_() for value in weights]

    def call() -> Any:
        w1, b1, w2, b2 = state
        logits = torch.tanh(x @ w1 + b1) @ w2 + b2
        loss = torch.nn.functional.cross_entropy(logits, y)
        slopes = torch.autograd.grad(loss, state)
        with torch.no_grad():
            for parameter, slope in zip(state, slopes, strict=True):
                parameter.sub_(slope, alpha=rate)
        return loss

    return call


def build_step() -> dict[str, Call]:
    digits = load_example()
    images, labels, weights = first_batch(digits)
    compiled = digits.make_train_step(digits.Network(weights))
    eager = digits.make_train_step(digits.Network(weights)).python_function
    x, y = tl.asarray(images), tl.asarray(labels)
    by_hand = [value.copy() for value in weights]
    calls: dict[str, Call] = {
        OURS: lambda: compiled(x, y),
        EAGER: lambda: eager(x, y),
        NUMPY: lambda: digits.numpy_train_step(by_hand, images, labels),
    }
    if jax := peer("jax"):
        calls[JAX] = jax_step(jax, digits.RATE, images, labels, weights)
    if torch := peer("torch"):
        calls[TORCH] = torch_step(torch, digits.RATE, images, labels, weights)
    return calls


def first_call() -> float:
    """Seconds that the first call of a fresh step takes: trace, differentiate, optimize, compile,
    run. In a fresh process it loads the compiler and LLVM as well."""
    digits = load_example()
    images, labels, weights = first_batch(digits)
    x, y = tl.asarray(images), tl.asarray(labels)
    step = digits.make_train_step(digits.Network(weights))
    start = time.perf_counter()
    step(x, y)
    return time.perf_counter() - start


def first_calls() -> dict[str, Timing]:
    """First calls, each in a fresh process of which no cache holds machine code, and those of
    jax.jit in this process, with empty caches."""
    digits = load_example()
    images, labels, weights = first_batch(digits)
    environment = {**os.environ, "TAPELINE_CACHE": "0"}
    command = [sys.executable, "-c", f"from {__name__} import first_call; print(first_call())"]
    times = []
    for _ in range(5):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    timings = {OURS: summarize(times)}
    if jax := peer("jax"):
        times = []
        for _ in range(5):
            jax.clear_caches()
            fresh = jax_step(jax, digits.RATE, images, labels, weights)
            start = time.perf_counter()
            fresh()
            times.append(time.perf_counter() - start)
        timings[JAX] = summarize(times)
    return timings


CASES = (
    Case(
        "digits_step",
        "training step of examples/digits.py, 64 digits",
        build_step,
        (Faster(1.5, NUMPY), Faster(3, EAGER)),
        tolerance=1e-3,
    ),
    Case("digits_first", "its first call", goals=(Below(0.4),), once=first_calls),
)
