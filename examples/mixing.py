"""Mixes compiled and eager code under one tape, and checks the gradient on the spot.

A compiled call is one op on the tape, with a compiled backward; what is eager around it is
recorded op by op. The gradient that comes out is compared with central differences.

    python examples/mixing.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import tapeline as tl

STEP = 1e-6
TOLERANCE = 1e-8


@tl.function
def loss(w: tl.Tensor, x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
    return tl.mean((tl.tanh(x @ w) - y) ** 2)


def objective(w: tl.Tensor, x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
    """A compiled part, and an eager one."""
    return loss(w, x, y) + 0.1 * tl.sum(w * w)


def central_differences(
    w: npt.NDArray[np.float64], x: tl.Tensor, y: tl.Tensor
) -> npt.NDArray[np.float64]:
    """The gradient of the objective by stepping each weight up and down."""
    slopes = np.empty_like(w)
    for index in range(w.size):
        ahead, behind = w.copy(), w.copy()
        ahead[index] += STEP
        behind[index] -= STEP
        difference = objective(tl.asarray(ahead), x, y) - objective(tl.asarray(behind), x, y)
        slopes[index] = float(difference) / (2 * STEP)
    return slopes


def main() -> None:
    rng = np.random.default_rng(7)
    x = tl.asarray(rng.standard_normal((100, 5)))
    y = tl.asarray(rng.uniform(-1, 1, 100))
    weights = rng.standard_normal(5)

    w = tl.asarray(weights)
    with tl.GradientTape() as tape:
        tape.watch(w)
        value = objective(w, x, y)
    gradient = tape.gradient(value, w).numpy()
    slopes = central_differences(weights, x, y)

    print(f"value {float(value):.8f}, compiled and eager under one tape\n")
    print("weight      value    gradient   central difference   difference")
    for index, (weight, slope, other) in enumerate(zip(weights, gradient, slopes, strict=True)):
        print(f"w[{index}]  {weight:11.6f} {slope:11.8f} {other:20.8f} {slope - other:12.1e}")
    print(f"\ntraces of the compiled part: {loss.trace_count}")

    worst = float(np.abs(gradient - slopes).max())
    if worst > TOLERANCE:
        raise SystemExit(f"the gradients differ by {worst:.1e}, more than {TOLERANCE:.0e}")
    print(f"the gradients agree within {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
