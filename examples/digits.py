"""Trains a classifier on real handwritten digits, each training step one compiled call.

A network of two layers learns 1,437 of the 1,797 digits in `data/digits.csv.gz` and is then asked
about the other 360. The step - forward pass, loss, gradient and update - is one function under
`@tl.function`. At the end the same step is timed in eager mode, compiled, and written by hand in
NumPy, and the graph is drawn to `digits.svg`.

    python examples/digits.py
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tapeline as tl

DATA = Path(__file__).parent / "data" / "digits.csv.gz"
PICTURE = Path("digits.svg")
HIDDEN = 64
BATCH = 64
EPOCHS = 60
RATE = 0.5
TIMED_ROUNDS = 300

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def load_digits() -> tuple[Floats, Ints]:
    """Images as rows of 64 values from 0 to 1, and the digit that each shows."""
    with gzip.open(DATA, "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int64)


def initial_weights(rng: np.random.Generator) -> list[Floats]:
    """Weights and biases of the two layers, before any training."""
    return [
        (rng.standard_normal((64, HIDDEN)) / 8).astype(np.float32),
        np.zeros(HIDDEN, np.float32),
        (rng.standard_normal((HIDDEN, 10)) / 8).astype(np.float32),
        np.zeros(10, np.float32),
    ]


# The network, in Tapeline


class Network:
    """Two dense layers with a tanh between them."""

    def __init__(self, weights: list[Floats]) -> None:
        names = ("w1", "b1", "w2", "b2")
        self.variables = [
            tl.Variable(value, name=name) for value, name in zip(weights, names, strict=True)
        ]

    def logits(self, images: tl.Tensor) -> tl.Tensor:
        w1, b1, w2, b2 = self.variables
        return tl.tanh(images @ w1 + b1) @ w2 + b2


def make_train_step(network: Network) -> tl.Function[[tl.Tensor, tl.Tensor], tl.Tensor]:
    """The compiled step: it updates the network and returns the loss before the update."""

    @tl.function
    def train_step(images: tl.Tensor, labels: tl.Tensor) -> tl.Tensor:
        with tl.GradientTape() as tape:
            losses = tl.sparse_softmax_cross_entropy(network.logits(images), labels)
            loss = tl.mean(losses)
        gradients = tape.gradient(loss, network.variables)
        for variable, gradient in zip(network.variables, gradients, strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    return train_step


# The same step by hand, in NumPy


def numpy_train_step(weights: list[Floats], images: Floats, labels: Ints) -> float:
    """Updates the weights in place and returns the loss before the update."""
    w1, b1, w2, b2 = weights
    hidden = images @ w1
    hidden += b1
    np.tanh(hidden, out=hidden)
    logits = hidden @ w2
    logits += b2
    logits -= logits.max(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    picked = logits[rows, labels]
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    loss = float(np.mean(np.log(total[:, 0]) - picked))

    d_logits = np.divide(logits, total, out=logits)
    d_logits[rows, labels] -= 1
    d_logits /= len(labels)
    d_hidden = d_logits @ w2.T
    w2 -= RATE * (hidden.T @ d_logits)
    b2 -= RATE * d_logits.sum(axis=0)
    np.multiply(hidden, hidden, out=hidden)
    np.subtract(1, hidden, out=hidden)
    d_hidden *= hidden
    w1 -= RATE * (images.T @ d_hidden)
    b1 -= RATE * d_hidden.sum(axis=0)
    return loss


# Training, and what is said about it


class Progress:
    """One line that is written over and over; a plain line now and then where nobody watches."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.live = sys.stdout.isatty()

    def show(self, done: int, text: str) -> None:
        if self.live:
            bar = "#" * (24 * done // self.total)
            end = "\n" if done == self.total else ""
            print(f"\r[{bar:<24}] {text:<50}", end=end, flush=True)
        elif done % 10 == 0 or done == self.total:
            print(text, flush=True)


def batches(count: int, rng: np.random.Generator) -> Iterator[Ints]:
    """The numbers from 0 to count - 1, shuffled, in batches; the last batch is smaller."""
    order = rng.permutation(count)
    for start in range(0, count, BATCH):
        yield order[start : start + BATCH]


def accuracy(network: Network, images: Floats, labels: Ints) -> float:
    """The share of images that the network tells right."""
    guesses = network.logits(tl.asarray(images)).numpy().argmax(axis=1)
    return float((guesses == labels).mean())


def time_steps(steps: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each step in microseconds, all of them in turns."""
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(TIMED_ROUNDS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) * 1e6 for name, values in times.items()}


def time_first_call(weights: list[Floats], images: Floats, labels: Ints) -> float:
    """Seconds for the first call of a fresh step: trace, differentiate, optimize, compile, run."""
    train_step = make_train_step(Network(weights))
    x, y = tl.asarray(images), tl.asarray(labels)
    start = time.perf_counter()
    train_step(x, y)
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(2026)
    images, labels = load_digits()
    order = rng.permutation(len(images))
    train, held_out = order[:1437], order[1437:]
    weights = initial_weights(rng)
    network = Network(weights)
    train_step = make_train_step(network)
    by_hand = [value.copy() for value in weights]

    print(f"{len(train)} digits to learn, {len(held_out)} held out, batches of {BATCH}")
    first_call = time_first_call(weights, images[train[:BATCH]], labels[train[:BATCH]])
    progress = Progress(EPOCHS)
    began = time.perf_counter()
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for rows in batches(len(train), rng):
            batch, answers = images[train[rows]], labels[train[rows]]
            losses.append(float(train_step(tl.asarray(batch), tl.asarray(answers))))
            numpy_train_step(by_hand, batch, answers)
        right = accuracy(network, images[held_out], labels[held_out])
        progress.show(epoch, f"epoch {epoch:2}  loss {np.mean(losses):.4f}  held out {right:.3f}")
    took = time.perf_counter() - began

    apart = max(
        float(np.abs(variable.numpy() - value).max())
        for variable, value in zip(network.variables, by_hand, strict=True)
    )
    print(f"\nheld-out accuracy   {right:.4f}")
    print(f"weights             within {apart:.1e} of the same training by hand in NumPy")
    print(f"training            {took:.1f} s, {train_step.trace_count} traces")
    print(f"first call          {1e3 * first_call:.0f} ms to trace, differentiate and compile")

    batch, answers = images[train[:BATCH]], labels[train[:BATCH]]
    x, y = tl.asarray(batch), tl.asarray(answers)
    timed = time_steps(
        {
            "eager": lambda: train_step.python_function(x, y),
            "NumPy by hand": lambda: numpy_train_step(by_hand, batch, answers),
            "compiled": lambda: train_step(x, y),
        }
    )
    print(f"\ntime of one step of {BATCH} digits (median of {TIMED_ROUNDS})")
    for name, microseconds in timed.items():
        ratio = microseconds / timed["compiled"]
        print(f"  {name:<16}{microseconds:9.1f} us  {ratio:6.2f} x compiled")

    concrete = train_step.get_concrete_function(x, y)
    print(f"\n{concrete.graph.summary()}")
    print(f"\n{concrete.kernels()}")
    PICTURE.write_text(concrete.graph.to_svg())
    print(f"\nthe graph is drawn in {PICTURE}")


if __name__ == "__main__":
    main()
