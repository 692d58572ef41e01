"""Loops in Python's own words, against the same loops in Numba, and gradients through loops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.case import JAX, NUMBA, OURS, TORCH, Case, Faster, peer
from benchmarks.measure import Call, Timing, summarize
from benchmarks.peer_adapter import CASES as PROGRAMS

Inputs = Mapping[str, Any]
f32 = np.float32

FIRST_ROUNDS = 3


def ours(workload: str, variant: str, inputs: Inputs) -> Call:
    """Our program for a workload."""
    call, _ = PROGRAMS[workload][variant](inputs)
    return call


# --- the same loops for Numba --------------------------------------------------------------------


def collatz(last: float) -> float:
    total = 0.0
    for start in range(1, int(last) + 1):
        n = float(start)
        while n != 1.0:
            half = n * 0.5
            n = half if math.floor(half) == half else 3.0 * n + 1.0
            total += 1.0
    return total


def lorenz(s: Any, dt: float, steps: int, sigma: float, rho: float, beta: float) -> Any:
    x, y, z = s[0], s[1], s[2]
    for _ in range(steps):
        a1, b1, c1 = sigma * (y - x), x * (rho - z) - y, x * y - beta * z
        p, q, r = x + dt / 2 * a1, y + dt / 2 * b1, z + dt / 2 * c1
        a2, b2, c2 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        p, q, r = x + dt / 2 * a2, y + dt / 2 * b2, z + dt / 2 * c2
        a3, b3, c3 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        p, q, r = x + dt * a3, y + dt * b3, z + dt * c3
        a4, b4, c4 = sigma * (q - p), p * (rho - r) - q, p * q - beta * r
        x += dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        y += dt / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
        z += dt / 6 * (c1 + 2 * c2 + 2 * c3 + c4)
    return np.array([x, y, z])


def rosenbrock(start: Any, rate: Any, steps: int) -> Any:
    """Descent with the gradient written by hand."""
    x = start.copy()
    g = np.empty_like(x)
    for _ in range(steps):
        g[0] = f32(0)
        for k in range(x.size - 1):
            t = x[k + 1] - x[k] * x[k]
            g[k] += f32(-400) * x[k] * t - f32(2) * (f32(1) - x[k])
            g[k + 1] = f32(200) * t
        for k in range(x.size):
            x[k] -= rate * g[k]
    return x


def mandelbrot(cr: Any, ci: Any, turns: int) -> Any:
    """Point by point, each until it is gone."""
    counts = np.empty(cr.shape, np.int32)
    for i in range(cr.shape[0]):
        for j in range(cr.shape[1]):
            zr, zi, n = f32(0), f32(0), 0
            for _ in range(turns):
                re, im = zr * zr, zi * zi
                if re + im > f32(4):
                    break
                zi = f32(2) * zr * zi + ci[i, j]
                zr = re - im + cr[i, j]
                n += 1
            counts[i, j] = n
    return counts


# --- inputs --------------------------------------------------------------------------------------


def lorenz_inputs() -> dict[str, Any]:
    return {
        "s": np.ones(3), "dt": 0.001, "steps": 20_000, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3,
    }  # fmt: skip


def rosenbrock_inputs() -> dict[str, Any]:
    start = np.random.default_rng(15).uniform(-1, 1, 100)
    return {"x": start.astype(f32), "lr": 1e-4, "steps": 1000}


def mandelbrot_inputs() -> dict[str, Any]:
    x, y = np.meshgrid(np.linspace(-2, 0.6, 400, dtype=f32), np.linspace(-1.3, 1.3, 400, dtype=f32))
    return {"cr": x, "ci": y, "iters": 200}


def lstm_inputs() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    wx, wh = ((rng.standard_normal((64, 256)) / 8).astype(f32) for _ in range(2))
    xs = rng.standard_normal((100, 32, 64)).astype(f32)
    return {"xs": xs, "wx": wx, "wh": wh, "b": np.zeros(256, f32)}


# --- calls ---------------------------------------------------------------------------------------


def with_numba(
    calls: dict[str, Call], function: Callable[..., Any], *args: Any, fastmath: bool = False
) -> dict[str, Call]:
    """The calls, and that of the same loop compiled by Numba where that is installed."""
    numba = peer(NUMBA)
    if numba is not None:
        compiled = numba.njit(fastmath=fastmath)(function)
        calls[NUMBA] = lambda: compiled(*args)
    return calls


def collatz_calls() -> dict[str, Call]:
    inputs = {"n": np.float64(2000)}
    return with_numba({OURS: ours("hot_loop_scalar", "while", inputs)}, collatz, 2000.0)


def lorenz_calls(fastmath: bool) -> dict[str, Call]:
    inputs = lorenz_inputs()
    variant = "scan-fastmath" if fastmath else "scan"
    calls = {OURS: ours("lorenz_rk4", variant, inputs)}
    return with_numba(calls, lorenz, *inputs.values(), fastmath=fastmath)


def rosenbrock_calls() -> dict[str, Call]:
    inputs = rosenbrock_inputs()
    calls = {OURS: ours("rosenbrock_gd", "scan", inputs)}
    return with_numba(calls, rosenbrock, inputs["x"], f32(1e-4), 1000, fastmath=True)


def mandelbrot_calls() -> dict[str, Call]:
    inputs = mandelbrot_inputs()
    return with_numba(
        {OURS: ours("mandelbrot", "scan", inputs)}, mandelbrot, inputs["cr"], inputs["ci"], 200
    )


def lstm_calls() -> dict[str, Call]:
    inputs = lstm_inputs()
    calls = {OURS: ours("lstm_100", "scan", inputs)}
    for name, build in ((JAX, lstm_in_jax), (TORCH, lstm_in_torch)):
        module = peer(name)
        if module is not None:
            calls[name] = build(module, inputs)
    return calls


def lstm_in_jax(jax: Any, inputs: Inputs) -> Call:
    numpy, sigmoid = jax.numpy, jax.nn.sigmoid

    def loss_of(wx: Any, wh: Any, b: Any, xs: Any) -> Any:
        def turn(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = numpy.split(z + h @ wh, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
            h = sigmoid(o) * numpy.tanh(c)
            return (h, c), h

        nothing = numpy.zeros((32, 64), numpy.float32)
        _, hs = jax.lax.scan(turn, (nothing, nothing), xs @ wx + b)
        return (hs * hs).mean()

    both = jax.jit(jax.value_and_grad(loss_of, argnums=(0, 1, 2)))
    given = [numpy.asarray(inputs[name]) for name in ("wx", "wh", "b", "xs")]

    def call() -> Any:
        loss, slopes = jax.block_until_ready(both(*given))
        return (loss, *slopes)

    return call


def lstm_in_torch(torch: Any, inputs: Inputs) -> Call:
    """The layer that PyTorch brings, with our weights in its order."""
    layer = torch.nn.LSTM(64, 64)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.from_numpy(inputs["wx"].T.copy()))
        layer.weight_hh_l0.copy_(torch.from_numpy(inputs["wh"].T.copy()))
        layer.bias_ih_l0.zero_()
        layer.bias_hh_l0.zero_()
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]
    xs = torch.from_numpy(inputs["xs"])

    def call() -> Any:
        hs, _ = layer(xs)
        loss = (hs * hs).mean()
        wx, wh, b = torch.autograd.grad(loss, weights)
        return loss, wx.T, wh.T, b

    return call


def first_calls(build: Callable[[], dict[str, Call]]) -> Callable[[], dict[str, Timing]]:
    """How long the first call takes, compilation included, once each compiler is at work."""

    def once() -> dict[str, Timing]:
        for call in collatz_calls().values():
            call()
        times: dict[str, list[float]] = {}
        for _ in range(FIRST_ROUNDS):
            for name, call in build().items():
                start = time.perf_counter()
                call()
                times.setdefault(name, []).append(time.perf_counter() - start)
        return {name: summarize(values) for name, values in times.items()}

    return once


AS_NUMBA = (Faster(1, NUMBA),)

CASES = [
    Case("loop_collatz", "`while` in a loop, 134,100 turns in float64", collatz_calls, AS_NUMBA),
    Case("loop_lorenz", "20,000 Runge-Kutta steps, strict", lambda: lorenz_calls(False), AS_NUMBA),
    Case(
        "loop_lorenz_fastmath", "the same with fused multiply-adds", lambda: lorenz_calls(True),
        AS_NUMBA,
    ),
    Case(
        "loop_rosenbrock", "1,000 steps of descent in 100 dimensions; Numba's gradient by hand",
        rosenbrock_calls, AS_NUMBA, tolerance=1e-3,
    ),
    Case("loop_mandelbrot", "400 x 400 points, 200 turns, float32", mandelbrot_calls, AS_NUMBA),
    Case(
        "loop_lstm", "100 steps of an LSTM, loss and gradients", lstm_calls,
        (Faster(1, JAX), Faster(1, TORCH)),
    ),
    *(
        Case(f"first_{name}", f"first call of loop_{name}", once=first_calls(build), goals=AS_NUMBA)
        for name, build in (
            ("collatz", collatz_calls),
            ("lorenz", lambda: lorenz_calls(False)),
            ("rosenbrock", rosenbrock_calls),
            ("mandelbrot", mandelbrot_calls),
        )
    ),
    Case("first_lstm", "first call of loop_lstm", once=first_calls(lstm_calls),
         goals=(Faster(1, JAX),)),
]  # fmt: skip
