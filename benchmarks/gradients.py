"""What gradients cost: of small functions, of a network, of second order, and in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl
from benchmarks.case import AUTOGRAD, EAGER, JAX, OURS, TORCH, Case, Faster, peer
from benchmarks.measure import Call, Timing
from benchmarks.overheads import four

FORWARD = "forward alone"
KEEPING = "keeping all"
UNGUARDED = "without the guard"
SIZES = ((64, 784), (784, 128), (128,), (128, 10), (10,))
"""A batch of images, and the weights of a network of two layers."""
LAYERS, WIDTH = 64, 128


def build_small() -> dict[str, Call]:
    """Value and gradients of a small function, eagerly."""
    values = four(3), four(4), four(5)
    x, w, bias = map(tl.asarray, values)

    def loss(w: Any, bias: Any) -> Any:
        return tl.sum(tl.tanh(x * w + bias))

    gradient = tl.value_and_grad(loss, (0, 1))

    def ours() -> Any:
        value, slopes = gradient(w, bias)
        return value, *slopes

    calls: dict[str, Call] = {EAGER: ours}
    if torch := peer("torch"):
        p = torch.from_numpy(values[0])
        q, r = (torch.from_numpy(v).requires_grad_() for v in values[1:])

        def torchs() -> Any:
            y = torch.tanh(p * q + r).sum()
            return y, *torch.autograd.grad(y, (q, r))

        calls[TORCH] = torchs
    if autograd := peer("autograd"):
        anp = autograd.numpy
        both = autograd.value_and_grad(
            lambda pair: anp.sum(anp.tanh(values[0] * pair[0] + pair[1]))
        )

        def autograds() -> Any:
            value, slopes = both(values[1:])
            return value, *slopes

        calls[AUTOGRAD] = autograds
    return calls


def drawn() -> list[Any]:
    rng = np.random.default_rng(2026)
    return [rng.normal(size=size).astype(np.float32) * 0.1 for size in SIZES]


def network(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return tl.mean(tl.logsumexp(tl.tanh(x @ w1 + b1) @ w2 + b2, axis=1))


def build_network() -> dict[str, Call]:
    """Forward and backward of a network of two layers, compiled as one function."""
    arrays = drawn()
    tensors = list(map(tl.asarray, arrays))
    step = tl.function(tl.value_and_grad(network, (1, 2, 3, 4)))

    def ours() -> Any:
        value, slopes = step(*tensors)
        return value, *slopes

    calls: dict[str, Call] = {OURS: ours}
    if jax := peer("jax"):
        jnp = jax.numpy

        def loss(weights: Any, x: Any) -> Any:
            w1, b1, w2, b2 = weights
            logits = jnp.tanh(x @ w1 + b1) @ w2 + b2
            return jax.scipy.special.logsumexp(logits, axis=1).mean()

        jitted = jax.jit(jax.value_and_grad(loss))
        x, *weights = map(jnp.asarray, arrays)

        def theirs() -> Any:
            value, slopes = jax.block_until_ready(jitted(weights, x))
            return value, *slopes

        calls[JAX] = theirs
    return calls


def build_hessian_vector() -> dict[str, Call]:
    """A Hessian-vector product of the compiled network, and the network itself."""
    x, *weights = map(tl.asarray, drawn())
    vectors = list(map(tl.asarray, drawn()))[1:]
    compiled = tl.function(lambda *w: network(x, *w))
    value = compiled(*weights)

    def product() -> Any:
        tl.hvp(compiled, weights, vectors)
        return value

    return {OURS: product, FORWARD: lambda: compiled(*weights)}


def build_guard() -> dict[str, Call]:
    """The gradient of a masked function with and without the rule that zeros win."""
    x = tl.asarray(np.linspace(0.1, 3.0, 100_000).astype(np.float32))

    def gradient() -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = tl.sum(tl.where(x > 1.0, tl.log(x), x * x))
        return tape.gradient(y, x)

    def unguarded() -> Any:
        before = tl.config.guard_gradients(False)
        try:
            return gradient()
        finally:
            tl.config.guard_gradients(before)

    return {EAGER: gradient, UNGUARDED: unguarded}


def chain(layer: Callable[[Any, int], Any], sizes: tuple[int, ...]) -> Callable[[Any], Any]:
    """The sum of what 64 layers give, in checkpoints of checkpoints of these sizes."""

    def part(x: Any, first: int, count: int, inner: tuple[int, ...]) -> Any:
        if not inner:
            for k in range(first, first + count):
                x = layer(x, k)
            return x
        size = inner[0]
        block = tl.checkpoint(lambda x, k: part(x, k, size, inner[1:]))
        for k in range(first, first + count, size):
            x = block(x, k)
        return x

    return lambda x: tl.sum(part(x, 0, LAYERS, sizes))


def chain_peaks(sizes: tuple[int, ...]) -> tuple[int, int]:
    """The most memory, in bytes, that the gradient of the chain takes: eagerly and compiled."""
    rng = np.random.default_rng(7)
    x = tl.asarray(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32))
    w = tl.asarray(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5)
    gradient = tl.grad(chain(lambda x, _: tl.tanh(x @ w), sizes))
    gradient(x)
    tracemalloc.start()
    gradient(x)
    eager = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plan = tl.function(gradient).get_concrete_function(x).memory_plan()
    return eager, plan.nbytes


def checkpoint_memory() -> dict[str, Timing]:
    """Bytes in the place of seconds: the eager peak with nested checkpoints, and without."""
    saving, keeping = chain_peaks((16, 4)), chain_peaks(())
    return {
        EAGER: Timing(saving[0], saving[0], 1),
        OURS: Timing(saving[1], saving[1], 1),
        f"{KEEPING}, {EAGER}": Timing(keeping[0], keeping[0], 1),
        f"{KEEPING}, {OURS}": Timing(keeping[1], keeping[1], 1),
    }


CASES = (
    Case(
        "small_gradient",
        "sum(tanh(x*w+b)) on 4 float32 by value_and_grad, eagerly",
        build_small,
        (Faster(2.5, TORCH, EAGER), Faster(5, AUTOGRAD, EAGER)),
    ),
    Case(
        "network_gradient",
        "a network of two layers on 64 images: value and gradients, compiled",
        build_network,
        (Faster(1, JAX),),
    ),
    Case(
        "hessian_vector",
        "a Hessian-vector product of that network against its value",
        build_hessian_vector,
        (Faster(0.2, FORWARD),),
    ),
    Case(
        "guard",
        "the gradient of a masked function of 100,000 numbers, with the guard and without",
        build_guard,
        (Faster(0.9, UNGUARDED, EAGER),),
    ),
    Case(
        "checkpoint_memory",
        "BYTES, not seconds: peak of the gradient of 64 layers, in checkpoints of 16 and of 4",
        goals=(
            Faster(4, f"{KEEPING}, {EAGER}", EAGER),
            Faster(4, f"{KEEPING}, {OURS}", OURS),
        ),
        once=checkpoint_memory,
    ),
)
