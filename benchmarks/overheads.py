"""Cases on four numbers: what a call costs when there is nothing to compute."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import EAGER, JAX, NUMPY, OURS, TORCH, Below, Case, Faster, peer
from benchmarks.measure import Call, Timing, summarize
from tapeline.runtime.backprop import WARM_AFTER


def four(seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(4).astype(np.float32)


def build_call() -> dict[str, Call]:
    value = four(0)
    x = tl.asarray(value)

    @tl.function
    def compiled(x: tl.Tensor) -> tl.Tensor:
        return x * 2 + 1

    calls: dict[str, Call] = {OURS: lambda: compiled(x), NUMPY: lambda: value * 2 + 1}
    if jax := peer("jax"):
        jitted, there = jax.jit(lambda x: x * 2 + 1), jax.numpy.asarray(value)
        calls[JAX] = lambda: jitted(there).block_until_ready()
    if torch := peer("torch"):
        tensor = torch.from_numpy(value)
        calls[TORCH] = lambda: tensor * 2 + 1
    return calls


def build_call_under_tape() -> dict[str, Call]:
    value = four(0)
    x = tl.asarray(value)

    @tl.function
    def compiled(x: tl.Tensor) -> tl.Tensor:
        return x * 2 + 1

    def ours(function: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    calls: dict[str, Call] = {
        OURS: lambda: ours(compiled),
        EAGER: lambda: ours(lambda x: x * 2 + 1),
    }
    if torch := peer("torch"):
        ones = torch.ones(4)
        leaf = torch.from_numpy(value).requires_grad_()
        calls[TORCH] = lambda: torch.autograd.grad(leaf * 2 + 1, leaf, ones)
    return calls


def build_eager_add() -> dict[str, Call]:
    a, b = four(1), four(2)
    x, y = tl.asarray(a), tl.asarray(b)
    calls: dict[str, Call] = {EAGER: lambda: x + y, NUMPY: lambda: a + b}
    if jax := peer("jax"):
        p, q = jax.numpy.asarray(a), jax.numpy.asarray(b)
        calls[JAX] = lambda: (p + q).block_until_ready()
    if torch := peer("torch"):
        s, t = torch.from_numpy(a), torch.from_numpy(b)
        calls[TORCH] = lambda: s + t
    return calls


def build_eager_gradient() -> dict[str, Call]:
    a, b, c = four(3), four(4), four(5)
    x, w, bias = tl.asarray(a), tl.asarray(b), tl.asarray(c)

    def ours() -> Any:
        with tl.GradientTape() as tape:
            tape.watch(w)
            tape.watch(bias)
            y = tl.sum(tl.tanh(x * w + bias))
        return y, *tape.gradient(y, [w, bias])

    for _ in range(WARM_AFTER):  # what a program that goes on asking for gradients gets
        ours()

    def by_hand() -> Any:
        t = np.tanh(a * b + c)
        slope = 1 - t * t
        return t.sum(), slope * a, slope

    calls: dict[str, Call] = {EAGER: ours, NUMPY: by_hand}
    if torch := peer("torch"):
        p = torch.from_numpy(a)
        q, r = (torch.from_numpy(v).requires_grad_() for v in (b, c))

        def theirs() -> Any:
            y = torch.tanh(p * q + r).sum()
            return y, *torch.autograd.grad(y, (q, r))

        calls[TORCH] = theirs
    return calls


def import_times() -> dict[str, Timing]:
    """What the import of Tapeline takes after NumPy's, and NumPy's own, in fresh processes."""
    code = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); "
        "import tapeline; print(b - a, time.perf_counter() - b)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, capture_output=True, check=True)  # writes bytecode
    numpys, ours = [], []
    for _ in range(9):
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        one, other = map(float, done.stdout.split())
        numpys.append(one)
        ours.append(other)
    return {OURS: summarize(ours), NUMPY: summarize(numpys)}


CASES = (
    Case(
        "call",
        "x*2+1 on 4 float32, no tape",
        build_call,
        (Below(150e-9), Faster(1, NUMPY)),
    ),
    Case(
        "call_taped",
        "the same under a tape, with its gradient",
        build_call_under_tape,
        (Below(6e-6),),
    ),
    Case("eager_add", "x + y on 4 float32", build_eager_add, (Faster(0.5, NUMPY, EAGER),)),
    Case(
        "eager_grad",
        "sum(tanh(x*w+b)) on 4 float32: value, gradients, after 2,000",
        build_eager_gradient,
        (Below(20e-6, EAGER), Faster(2.5, TORCH, EAGER)),
    ),
    Case("import", "import tapeline, after import numpy", goals=(Below(80e-3),), once=import_times),
)
