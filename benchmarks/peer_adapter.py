"""Tapeline's side of a harness that times several libraries on shared workloads.

The harness loads this file by its path. `CASES[workload][variant]` builds, from the workload's
inputs, a call without arguments and a function that turns what the first call returned into a
tuple of arrays in the reference's order. `setup` returns versions; `warmup` is a first compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

import tapeline as tl

Inputs = Mapping[str, Any]
Built = tuple[Callable[[], Any], Callable[[Any], tuple[Any, ...]]]
Build = Callable[[Inputs], Built]

CASES: dict[str, dict[str, Build]] = {}
MLP = ("w1", "b1", "w2", "b2", "w3", "b3")
GELU = math.sqrt(2 / math.pi)


def case(workload: str, variant: str) -> Callable[[Build], Build]:
    """Enters a builder as one way of doing a workload."""

    def enter(build: Build) -> Build:
        CASES.setdefault(workload, {})[variant] = build
        return build

    return enter


def setup(threads: int) -> dict[str, str]:
    """The versions that take part; a checkout that is not installed has none."""
    found = {}
    for name in ("tapeline", "numpy", "llvmlite"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def warmup() -> None:
    """Compiles something small, so that LLVM is loaded."""
    tl.function(lambda x: x - 1)(tl.asarray(np.ones(4, np.float32)))


def arrays(raw: Any) -> tuple[Any, ...]:
    """Copies of the tensors that a call returned."""
    return tuple(np.array(tensor) for tensor in (raw if isinstance(raw, tuple) else (raw,)))


def pure(
    function: Callable[..., Any], inputs: Inputs, names: Sequence[str], fastmath: bool = False
) -> Built:
    """A compiled function of fixed inputs."""
    compiled = tl.function(function, fastmath=fastmath)
    tensors = [tl.asarray(inputs[name]) for name in names]
    return (lambda: compiled(*tensors)), arrays


def forward_and_backward(
    function: Callable[..., tl.Tensor], inputs: Inputs, names: Sequence[str]
) -> Built:
    """One compiled function that gives the value and the gradients for a given `dy`."""

    def both(dy: tl.Tensor, *sources: tl.Tensor) -> tuple[tl.Tensor, ...]:
        with tl.GradientTape() as tape:
            for source in sources:
                tape.watch(source)
            y = function(*sources)
        return (y, *tape.gradient(y, list(sources), output_gradients=dy))

    return pure(both, inputs, ("dy", *names))


def descent(
    loss_of: Callable[..., tl.Tensor], inputs: Inputs, names: Sequence[str], data: Sequence[str]
) -> Built:
    """One compiled training step that updates variables in place."""
    variables = [tl.Variable(inputs[name], name=name) for name in names]
    tensors = [tl.asarray(inputs[name]) for name in data]
    rate = inputs["lr"]

    @tl.function
    def step(*batch: tl.Tensor) -> tl.Tensor:
        with tl.GradientTape() as tape:
            loss = loss_of(*variables, *batch)
        gradients = tape.gradient(loss, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(rate * gradient)
        return loss

    def result(raw: Any) -> tuple[Any, ...]:
        return (np.array(raw), *(np.array(variable.numpy()) for variable in variables))

    return (lambda: step(*tensors)), result


@case("call_overhead", "function")
def call_overhead(inputs: Inputs) -> Built:
    return pure(lambda x: x * 2 + 1, inputs, ("x",))


@case("eager_op", "eager")
def eager_op(inputs: Inputs) -> Built:
    x, y = tl.asarray(inputs["x"]), tl.asarray(inputs["y"])
    return (lambda: x + y), arrays


@case("eager_grad", "eager")
def eager_grad(inputs: Inputs) -> Built:
    x, w, b = (tl.asarray(inputs[name]) for name in ("x", "w", "b"))

    def call() -> tuple[tl.Tensor, ...]:
        with tl.GradientTape() as tape:
            tape.watch(w)
            tape.watch(b)
            y = tl.sum(tl.tanh(x * w + b))
        return (y, *tape.gradient(y, [w, b]))

    return call, arrays


def gelu(x: tl.Tensor) -> tl.Tensor:
    return 0.5 * x * (1 + tl.tanh(GELU * (x + 0.044715 * x * x * x)))


@case("gelu_1e6", "function")
def gelu_1e6(inputs: Inputs) -> Built:
    return pure(gelu, inputs, ("x",))


def prices(
    spot: tl.Tensor, strike: tl.Tensor, years: tl.Tensor, rate: float, sigma: float
) -> tuple[tl.Tensor, tl.Tensor]:
    """Black-Scholes prices of a European call and put."""

    def below(x: tl.Tensor) -> tl.Tensor:
        return 0.5 * (1 + tl.erf(x * math.sqrt(0.5)))

    spread = sigma * tl.sqrt(years)
    d1 = (tl.log(spot / strike) + (rate + 0.5 * sigma**2) * years) / spread
    n1, n2 = below(d1), below(d1 - spread)
    discounted = strike * tl.exp(-rate * years)
    return spot * n1 - discounted * n2, discounted * (1 - n2) - spot * (1 - n1)


@case("blackscholes_1e6", "function")
def blackscholes(inputs: Inputs) -> Built:
    rate, sigma = inputs["r"], inputs["sigma"]
    return pure(lambda s, k, t: prices(s, k, t, rate, sigma), inputs, ("S", "K", "T"))


@case("blackscholes_delta_1e6", "function")
def blackscholes_delta(inputs: Inputs) -> Built:
    rate, sigma = inputs["r"], inputs["sigma"]

    def delta(spot: tl.Tensor, strike: tl.Tensor, years: tl.Tensor) -> tl.Tensor:
        with tl.GradientTape() as tape:
            tape.watch(spot)
            call, put = prices(spot, strike, years, rate, sigma)
            total = tl.sum(call + put)
        gradient: tl.Tensor = tape.gradient(total, spot)
        return gradient

    return pure(delta, inputs, ("S", "K", "T"))


def softmax(x: tl.Tensor) -> tl.Tensor:
    return tl.softmax(x, axis=-1)


@case("softmax_fwd", "function")
def softmax_fwd(inputs: Inputs) -> Built:
    return pure(softmax, inputs, ("x",))


@case("softmax_fwdbwd", "function")
def softmax_fwdbwd(inputs: Inputs) -> Built:
    return forward_and_backward(softmax, inputs, ("x",))


def layer_norm(x: tl.Tensor, g: tl.Tensor, b: tl.Tensor, eps: float = 1e-5) -> tl.Tensor:
    c = x - tl.mean(x, axis=-1, keepdims=True)
    return c * tl.rsqrt(tl.mean(c * c, axis=-1, keepdims=True) + eps) * g + b


@case("layernorm_fwd", "function")
def layernorm_fwd(inputs: Inputs) -> Built:
    return pure(layer_norm, inputs, ("x", "g", "b"))


@case("layernorm_fwdbwd", "function")
def layernorm_fwdbwd(inputs: Inputs) -> Built:
    return forward_and_backward(layer_norm, inputs, ("x", "g", "b"))


def relu(x: tl.Tensor) -> tl.Tensor:
    return tl.maximum(x, 0)


@case("matmul_bias_relu", "function")
def matmul_bias_relu(inputs: Inputs) -> Built:
    return pure(lambda x, w, b: relu(x @ w + b), inputs, ("x", "w", "b"))


@case("mlp_step", "function")
def mlp_step(inputs: Inputs) -> Built:
    def loss(*values: tl.Tensor) -> tl.Tensor:
        w1, b1, w2, b2, w3, b3, x, y = values
        h = relu(relu(x @ w1 + b1) @ w2 + b2)
        return tl.mean(tl.sparse_softmax_cross_entropy(h @ w3 + b3, y))

    return descent(loss, inputs, MLP, ("x", "y"))


@case("logreg_step", "function")
def logreg_step(inputs: Inputs) -> Built:
    def loss(w: tl.Tensor, b: tl.Tensor, x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
        z = x @ w + b
        return tl.mean(tl.logaddexp(tl.zeros_like(z), z) - y * z)

    return descent(loss, inputs, ("w", "b"), ("X", "y"))


LENET = ("k1", "c1", "k2", "c2", "w1", "b1", "w2", "b2")


@case("lenet_step", "function")
def lenet_step(inputs: Inputs) -> Built:
    def loss(*values: tl.Tensor) -> tl.Tensor:
        k1, c1, k2, c2, w1, b1, w2, b2, x, y = values
        h = tl.nn.max_pool(relu(tl.nn.conv2d(x, k1, c1)), 2)
        h = tl.nn.max_pool(relu(tl.nn.conv2d(h, k2, c2)), 2)
        h = relu(tl.reshape(h, (h.shape[0], -1)) @ w1 + b1)
        return tl.mean(tl.sparse_softmax_cross_entropy(h @ w2 + b2, y))

    return descent(loss, inputs, LENET, ("x", "y"))


HEADS = 4
BLOCK = ("x", "g1", "n1", "wqkv", "bqkv", "wo", "bo", "g2", "n2", "w1", "b1", "w2", "b2")


def transformer_block(p: Mapping[str, tl.Tensor]) -> tl.Tensor:
    """A pre-norm transformer block."""
    x = p["x"]
    batch, steps, width = x.shape
    depth = width // HEADS
    qkv = layer_norm(x, p["g1"], p["n1"]) @ p["wqkv"] + p["bqkv"]
    q, k, v = (
        tl.transpose(tl.reshape(part, (batch, steps, HEADS, depth)), (0, 2, 1, 3))
        for part in tl.split(qkv, 3, axis=-1)
    )
    weights = softmax(q @ tl.transpose(k, (0, 1, 3, 2)) / math.sqrt(depth))
    mixed = tl.reshape(tl.transpose(weights @ v, (0, 2, 1, 3)), (batch, steps, width))
    x = x + mixed @ p["wo"] + p["bo"]
    h = gelu(layer_norm(x, p["g2"], p["n2"]) @ p["w1"] + p["b1"])
    return x + h @ p["w2"] + p["b2"]


@case("transformer_block_step", "function")
def transformer_block_step(inputs: Inputs) -> Built:
    def step(target: tl.Tensor, *values: tl.Tensor) -> tuple[tl.Tensor, ...]:
        with tl.GradientTape() as tape:
            for value in values:
                tape.watch(value)
            y = transformer_block(dict(zip(BLOCK, values, strict=True)))
            loss = tl.mean((y - target) ** 2)
        return (loss, *tape.gradient(loss, list(values)))

    return pure(step, inputs, ("tgt", *BLOCK))


@case("nbody_grad", "function")
def nbody_grad(inputs: Inputs) -> Built:
    def energy_and_gradient(p: tl.Tensor, m: tl.Tensor) -> tuple[tl.Tensor, tl.Tensor]:
        with tl.GradientTape() as tape:
            tape.watch(p)
            d = p[:, None] - p[None]
            apart = tl.rsqrt(tl.sum(d * d, axis=-1) + inputs["eps2"])
            pairs = tl.sum(m[:, None] * m[None] * apart)
            alone = tl.sum(m * m) / math.sqrt(inputs["eps2"])
            energy = -0.5 * (pairs - alone)
        return energy, tape.gradient(energy, p)

    return pure(energy_and_gradient, inputs, ("p", "m"))


@case("lstm_100", "scan")
def lstm_100(inputs: Inputs) -> Built:
    _, batch, width = inputs["xs"].shape

    def loss_of(wx: tl.Tensor, wh: tl.Tensor, b: tl.Tensor, xs: tl.Tensor) -> tl.Tensor:
        def turn(state: Any, z: tl.Tensor) -> Any:
            h, c = state
            i, f, g, o = tl.split(z + h @ wh, 4, axis=-1)
            c = tl.sigmoid(f) * c + tl.sigmoid(i) * tl.tanh(g)
            h = tl.sigmoid(o) * tl.tanh(c)
            return (h, c), h

        nothing = tl.zeros((batch, width), dtype=tl.float32)
        _, hs = tl.scan(turn, (nothing, nothing), xs @ wx + b)
        return tl.mean(hs * hs)

    def loss_and_gradients(
        xs: tl.Tensor, wx: tl.Tensor, wh: tl.Tensor, b: tl.Tensor
    ) -> tuple[tl.Tensor, ...]:
        with tl.GradientTape() as tape:
            for weight in (wx, wh, b):
                tape.watch(weight)
            loss = loss_of(wx, wh, b, xs)
        return (loss, *tape.gradient(loss, [wx, wh, b]))

    return pure(loss_and_gradients, inputs, ("xs", "wx", "wh", "b"))


@case("hot_loop_scalar", "while")
def hot_loop_scalar(inputs: Inputs) -> Built:
    def total_time(last: tl.Tensor) -> Any:
        total, start = 0.0, 1.0
        while start <= last:
            n = start
            while n != 1.0:
                half = n * 0.5
                n = half if tl.floor(half) == half else 3.0 * n + 1.0
                total += 1.0
            start += 1.0
        return total

    return pure(total_time, inputs, ("n",))


@case("lorenz_rk4", "scan")
def lorenz_strict(inputs: Inputs) -> Built:
    return lorenz(inputs, fastmath=False)


@case("lorenz_rk4", "scan-fastmath")
def lorenz_fast(inputs: Inputs) -> Built:
    return lorenz(inputs, fastmath=True)


def lorenz(inputs: Inputs, fastmath: bool) -> Built:
    """Steps of the Lorenz system."""
    dt, sigma, rho, beta = (inputs[name] for name in ("dt", "sigma", "rho", "beta"))

    def slope(state: Any) -> Any:
        x, y, z = state
        return sigma * (y - x), x * (rho - z) - y, x * y - beta * z

    def ahead(state: Any, k: Any, step: float) -> Any:
        return tuple(a + step * b for a, b in zip(state, k, strict=True))

    def turn(state: Any, _: Any) -> Any:
        k1 = slope(state)
        k2 = slope(ahead(state, k1, dt / 2))
        k3 = slope(ahead(state, k2, dt / 2))
        k4 = slope(ahead(state, k3, dt))
        mixed = (p + 2 * q + 2 * r + t for p, q, r, t in zip(k1, k2, k3, k4, strict=True))
        return ahead(state, tuple(mixed), dt / 6), None

    def run(s: tl.Tensor) -> tl.Tensor:
        state, _ = tl.scan(turn, (s[0], s[1], s[2]), length=inputs["steps"])
        return tl.stack(state)

    return pure(run, inputs, ("s",), fastmath)


@case("mandelbrot", "scan")
def mandelbrot(inputs: Inputs) -> Built:
    def run(cr: tl.Tensor, ci: tl.Tensor) -> tl.Tensor:
        def turn(state: Any, _: Any) -> Any:
            zr, zi, n = state
            r2, i2 = zr * zr, zi * zi
            alive = r2 + i2 <= 4
            zi = tl.where(alive, 2 * zr * zi + ci, zi)
            zr = tl.where(alive, r2 - i2 + cr, zr)
            return (zr, zi, n + tl.astype(alive, tl.int32)), None

        zero = tl.zeros_like(cr)
        start = (zero, zero, tl.zeros(cr.shape, dtype=tl.int32))
        count: tl.Tensor = tl.scan(turn, start, length=inputs["iters"])[0][2]
        return count

    return pure(run, inputs, ("cr", "ci"))


@case("rosenbrock_gd", "scan")
def rosenbrock_gd(inputs: Inputs) -> Built:
    def gradient(x: tl.Tensor) -> tl.Tensor:
        with tl.GradientTape() as tape:
            tape.watch(x)
            value = tl.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        slope: tl.Tensor = tape.gradient(value, x)
        return slope

    def run(x: tl.Tensor) -> tl.Tensor:
        def turn(x: tl.Tensor, _: Any) -> Any:
            return x - inputs["lr"] * gradient(x), None

        last: tl.Tensor = tl.scan(turn, x, length=inputs["steps"])[0]
        return last

    return pure(run, inputs, ("x",))
