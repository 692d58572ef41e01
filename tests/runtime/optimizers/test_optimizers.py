"""Optimizers against the same updates written with NumPy, eagerly and compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ShapeError

RATE = 0.05
STEPS = 6
START = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.5]])

Reference = Callable[[Any, Iterator[Any]], Any]


def gradient_of(x: Any) -> Any:
    """That of `loss`, below."""
    return 2 * x * np.array([1.0, 10.0, 0.1]) - 1.0


def loss(x: Any) -> tl.Tensor:
    return tl.sum(x * x * np.array([1.0, 10.0, 0.1])) - tl.sum(x)


def sgd(momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0) -> Any:
    def run(x: Any) -> Any:
        kept = np.zeros_like(x)
        for _ in range(STEPS):
            g = gradient_of(x) + decay * x
            kept = momentum * kept + g
            x = x - RATE * (g + momentum * kept if nesterov else kept)
        return x

    return run


def adam(decay: float = 0.0, decoupled: bool = False) -> Any:
    def run(x: Any) -> Any:
        m = v = np.zeros_like(x)
        for t in range(1, STEPS + 1):
            g = gradient_of(x)
            if decoupled:
                x = x * (1 - RATE * decay)
            else:
                g = g + decay * x
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
            x = x - RATE * m_hat / (np.sqrt(v_hat) + 1e-8)
        return x

    return run


def rmsprop(momentum: float = 0.0, centered: bool = False) -> Any:
    def run(x: Any) -> Any:
        s = m = kept = np.zeros_like(x)
        for _ in range(STEPS):
            g = gradient_of(x)
            s, m = 0.9 * s + 0.1 * g * g, 0.9 * m + 0.1 * g
            spread = s - m * m if centered else s
            kept = momentum * kept + g / (np.sqrt(spread) + 1e-8)
            x = x - RATE * kept
        return x

    return run


def adagrad(x: Any) -> Any:
    s = np.full_like(x, 0.1)
    for _ in range(STEPS):
        g = gradient_of(x)
        s = s + g * g
        x = x - RATE * g / (np.sqrt(s) + 1e-10)
    return x


def lion(x: Any) -> Any:
    m = np.zeros_like(x)
    for _ in range(STEPS):
        g = gradient_of(x)
        x = x - RATE * (np.sign(0.9 * m + 0.1 * g) + 0.1 * x)
        m = 0.99 * m + 0.01 * g
    return x


optimizers = tl.optimizers
CASES: dict[str, tuple[Callable[[], tl.optimizers.Optimizer], Any]] = {
    "sgd": (lambda: optimizers.SGD(RATE), sgd()),
    "momentum": (lambda: optimizers.SGD(RATE, 0.9, weight_decay=0.1), sgd(0.9, decay=0.1)),
    "nesterov": (lambda: optimizers.SGD(RATE, 0.9, nesterov=True), sgd(0.9, nesterov=True)),
    "adam": (lambda: optimizers.Adam(RATE), adam()),
    "adam with decay": (lambda: optimizers.Adam(RATE, weight_decay=0.1), adam(0.1)),
    "adamw": (lambda: optimizers.AdamW(RATE, weight_decay=0.1), adam(0.1, decoupled=True)),
    "rmsprop": (lambda: optimizers.RMSprop(RATE, 0.9), rmsprop()),
    "rmsprop centered": (
        lambda: optimizers.RMSprop(RATE, 0.9, 0.5, centered=True),
        rmsprop(0.5, True),
    ),
    "adagrad": (lambda: optimizers.Adagrad(RATE, initial=0.1), adagrad),
    "lion": (lambda: optimizers.Lion(RATE, weight_decay=0.1), lion),
}


def train(optimizer: tl.optimizers.Optimizer, x: tl.Variable, compiled: bool) -> None:
    def step() -> None:
        with tl.GradientTape() as tape:
            value = loss(x)
        optimizer.apply([tape.gradient(value, x)], [x])

    run = tl.function(step) if compiled else step
    for _ in range(STEPS):
        run()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_optimizer_does_what_its_formula_says(name: str, compiled: bool) -> None:
    make, reference = CASES[name]
    optimizer, x = make(), tl.Variable(START)
    train(optimizer, x, compiled)
    np.testing.assert_allclose(x.numpy(), reference(START), rtol=1e-11)
    assert optimizer.step.numpy() == STEPS


@pytest.mark.parametrize("name", CASES)
def test_float32_stays_and_compiled_agrees(name: str) -> None:
    found = []
    for compiled in (False, True):
        x = tl.Variable(START.astype(np.float32))
        optimizer = CASES[name][0]()
        with tl.GradientTape() as tape:
            value = tl.sum(x * x)
        gradient = tape.gradient(value, x)

        def step(g: tl.Tensor, optimizer: Any = optimizer, x: Any = x) -> None:
            optimizer.apply([g], [x])

        (tl.function(step) if compiled else step)(gradient)
        assert x.dtype == np.float32
        found.append(x.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_states_bring_earlier_progress_back(name: str) -> None:
    optimizer, x = CASES[name][0](), tl.Variable(START)
    train(optimizer, x, compiled=False)
    kept, middle = optimizer.state(), x.numpy()
    train(optimizer, x, compiled=False)
    again, y = CASES[name][0](), tl.Variable(middle)
    again.build([y])
    again.restore(kept)
    train(again, y, compiled=True)
    np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-11)
    with pytest.raises(ArgumentError, match="the state does not fit, only one side has strange"):
        again.restore({**kept, "strange": np.zeros(1)})


def test_learning_rate_changes_without_a_new_trace() -> None:
    x = tl.Variable([1.0])
    optimizer = tl.optimizers.SGD(0.5)
    traces = []

    @tl.function
    def step() -> None:
        traces.append(1)
        optimizer.apply([tl.ones(1)], [x])

    step()
    optimizer.learning_rate = 0.25
    step()
    assert x.numpy() == 0.25
    assert len(traces) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_schedules_see_the_step(compiled: bool) -> None:
    x = tl.Variable(0.0)
    optimizer = tl.optimizers.SGD(tl.optimizers.piecewise_constant([0, 1], [1.0, 10.0, 100.0]))

    def step() -> None:
        optimizer.apply(tl.asarray(-1.0), x)

    run = tl.function(step) if compiled else step
    for want in (1.0, 11.0, 111.0, 211.0):
        run()
        assert x.numpy() == want
    with pytest.raises(ArgumentError, match="SGD: the learning rate follows a schedule"):
        optimizer.learning_rate = 1.0


def test_structures_and_missing_gradients() -> None:
    parameters: Any = {"w": tl.Variable([1.0]), "rest": [tl.Variable([2.0]), tl.Variable([3.0])]}
    optimizer = tl.optimizers.Adam(0.1, epsilon=0.0)
    optimizer.apply({"w": tl.asarray([5.0]), "rest": [None, tl.asarray([-5.0])]}, parameters)
    optimizer.apply_gradients([(None, parameters["w"]), (tl.asarray([1.0]), parameters["rest"][0])])
    values = [v.numpy()[0] for v in tl.nest.flatten(parameters)]
    assert values[0] == pytest.approx(0.9)
    assert values[2] == pytest.approx(3.1)
    with pytest.raises(ArgumentError, match="there is no gradient for any variable"):
        optimizer.apply({"w": None, "rest": None}, parameters)
    with pytest.raises(ArgumentError, match="must have the same structure"):
        optimizer.apply([tl.asarray([1.0])], parameters)
    with pytest.raises(ShapeError, match="a gradient has shape"):
        optimizer.apply([tl.ones(2)], [parameters["w"]])
    with pytest.raises(ArgumentError, match="expected Variables, got Tensor"):
        optimizer.apply([tl.ones(2)], [tl.ones(2)])


# Bounds and schedules


def test_gradients_are_clipped_together() -> None:
    x, y = tl.Variable([0.0]), tl.Variable([0.0, 0.0])
    gradients = [tl.asarray([3.0]), tl.asarray([0.0, 4.0])]
    optimizer = tl.optimizers.SGD(1.0, clip_norm=1.0)
    tl.function(lambda: optimizer.apply(gradients, [x, y]))()
    np.testing.assert_allclose(x.numpy(), [-0.6])
    np.testing.assert_allclose(y.numpy(), [0.0, -0.8])
    small, norm = tl.optimizers.clip_by_global_norm(gradients, 50.0)
    assert norm.item() == 5.0
    np.testing.assert_array_equal(small[0].numpy(), [3.0])
    with pytest.raises(ArgumentError, match="max_norm must be above 0"):
        tl.optimizers.clip_by_global_norm(gradients, 0.0)


SCHEDULES: list[tuple[Any, Callable[[int], float]]] = [
    (optimizers.exponential_decay(0.5, 10, 0.9), lambda t: 0.5 * 0.9 ** (t / 10)),
    (optimizers.exponential_decay(0.5, 10, 0.9, staircase=True), lambda t: 0.5 * 0.9 ** (t // 10)),
    (
        optimizers.cosine_decay(0.5, 20, 0.1),
        lambda t: 0.1 + 0.2 * (1 + math.cos(math.pi * min(t / 20, 1))),
    ),
    (
        optimizers.polynomial_decay(0.5, 20, 0.1, 2.0),
        lambda t: 0.1 + 0.4 * (1 - min(t / 20, 1)) ** 2,
    ),
    (optimizers.piecewise_constant([5, 12], [3.0, 2.0, 1.0]), lambda t: 3.0 - (t > 5) - (t > 12)),
    (optimizers.warmup(0.5, 10), lambda t: 0.5 * min(t / 10, 1)),
    (
        optimizers.warmup(optimizers.exponential_decay(0.5, 10, 0.9), 10),
        lambda t: 0.5 * 0.9 ** (max(t - 10, 0) / 10) * min(t / 10, 1),
    ),
]


@pytest.mark.parametrize(("schedule", "want"), SCHEDULES)
def test_schedules_follow_their_formulas(schedule: Any, want: Callable[[int], float]) -> None:
    compiled = tl.function(schedule)
    for step in (0, 1, 5, 6, 10, 13, 20, 35):
        assert schedule(step).item() == pytest.approx(want(step), rel=1e-12)
        got = compiled(tl.asarray(step))
        assert got.item() == pytest.approx(want(step), rel=1e-12)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="cosine_decay: steps must be above 0"):
        optimizers.cosine_decay(1.0, 0)
    with pytest.raises(ArgumentError, match="piecewise_constant: needs rising boundaries"):
        optimizers.piecewise_constant([2, 1], [1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError, match="SGD: nesterov needs a momentum"):
        optimizers.SGD(0.1, nesterov=True)
    with pytest.raises(ArgumentError, match="Adam: clip_norm must be above 0"):
        optimizers.Adam(0.1, clip_norm=0.0)
