"""Small networks trained with `tl.nn`, `tl.random` and `tl.optimizers`, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapeline as tl

RNG = np.random.default_rng(12)


def losses(make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]], steps: int) -> Any:
    """The losses of a training step, run eagerly and compiled from the same start."""
    found = []
    for compiled in (False, True):
        step, inputs = make()
        run = tl.function(step) if compiled else step
        found.append([float(run(*inputs)) for _ in range(steps)])
    return np.array(found)


def variable(generator: tl.random.Generator, *shape: int) -> tl.Variable:
    scale = 1.0 / np.sqrt(np.prod(shape[:-1]))
    return tl.Variable(generator.normal(shape, 0.0, scale))


def test_images_are_told_apart() -> None:
    labels = RNG.integers(0, 3, 24)
    images = RNG.normal(size=(24, 8, 8, 1)) * 0.3
    images[np.arange(24), :, labels * 2 + 1, 0] += 1.0  # a bar at the place of the label

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        generator = tl.random.Generator(1)
        parameters = {
            "kernel": variable(generator, 3, 3, 1, 6), "scale": tl.Variable(np.ones(6)),
            "offset": tl.Variable(np.zeros(6)), "weight": variable(generator, 54, 3),
        }  # fmt: skip
        mean = tl.Variable(np.zeros(6), trainable=False)
        spread = tl.Variable(np.ones(6), trainable=False)
        optimizer = tl.optimizers.AdamW(
            tl.optimizers.warmup(tl.optimizers.cosine_decay(0.05, 60), 3), clip_norm=5.0
        )

        def step(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
            with tl.GradientTape() as tape:
                h = tl.nn.conv2d(x, parameters["kernel"], padding=0)
                h = tl.nn.batch_norm(
                    h, mean, spread, parameters["scale"], parameters["offset"], training=True
                )
                h = tl.nn.max_pool(tl.nn.gelu(h), 2)
                h = tl.nn.dropout(tl.reshape(h, (24, 54)), 0.1, generator.key())
                scores = tl.nn.linear(h, parameters["weight"])
                loss = tl.nn.cross_entropy(scores, y, label_smoothing=0.05)
            optimizer.apply(tape.gradient(loss, parameters), parameters)
            return loss

        return step, (tl.asarray(images), tl.asarray(labels))

    found = losses(make, 25)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-7)
    assert found[0, -1] < 0.4 < 0.8 < found[0, 0]


def test_sequences_are_learnt_by_attention() -> None:
    """Each token's successor is the token before it; the first one's is itself."""
    tokens = RNG.integers(0, 5, (8, 6))
    wanted = np.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1)

    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        generator = tl.random.Generator(2)
        table, places = variable(generator, 5, 8), variable(generator, 6, 8)
        projections = [variable(generator, 8, 8) for _ in range(3)]
        out = variable(generator, 8, 5)
        parameters = [table, places, *projections, out]
        optimizer = tl.optimizers.Adam(0.03)

        def step(x: tl.Tensor, y: tl.Tensor) -> tl.Tensor:
            with tl.GradientTape() as tape:
                h = tl.nn.layer_norm(tl.nn.embedding(table, x) + places)
                query, key, value = (h @ weight for weight in projections)
                h = h + tl.nn.scaled_dot_product_attention(query, key, value, causal=True)
                loss = tl.nn.cross_entropy(tl.nn.rms_norm(h) @ out, y)
            optimizer.apply(tape.gradient(loss, parameters), parameters)
            return loss

        return step, (tl.asarray(tokens), tl.asarray(wanted))

    found = losses(make, 60)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert found[0, -1] < 0.2 < 1.2 < found[0, 0]
