"""Results have the same bits whatever the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tapeline.compiler.codegen.pool import is_pool_supported

PROGRAM = """
import hashlib
import numpy as np
import tapeline as tl

rng = np.random.default_rng(0)
tall = tl.asarray(rng.normal(size=(30_000, 70)).astype(np.float32))
wide = tl.asarray(rng.normal(size=(60, 40_000)))
square = tl.asarray(rng.normal(size=(1500, 1500)).astype(np.float32))
cube = tl.asarray(rng.normal(size=(120, 90, 110)))
weights = tl.asarray(rng.normal(size=(70, 300)).astype(np.float32))
indices = tl.asarray(rng.integers(0, 30_000, size=40_000))

CASES = {
    "map": lambda: tl.tanh(tall) * 2 + tl.exp(-tall),
    "sum": lambda: tl.sum(square),
    "sum rows": lambda: tl.sum(wide * wide, axis=1),
    "sum columns": lambda: tl.sum(tl.exp(tall), axis=0),
    "middle": lambda: tl.sum(cube, axis=1),
    "outer": lambda: tl.sum(cube, axis=(0, 2)),
    "max": lambda: tl.max(tall, axis=1),
    "argmax": lambda: tl.argmax(square, axis=1),
    "softmax": lambda: tl.softmax(tall),
    "softmax wide": lambda: tl.softmax(wide),
    "center": lambda: (square - tl.mean(square, axis=0)) / tl.std(square, axis=0),
    "transpose": lambda: tl.permute_dims(square, (1, 0)) + square,
    "matmul": lambda: tl.matmul(tall, weights),
    "matmul square": lambda: tl.matmul(square, tl.permute_dims(square, (1, 0))),
    "matmul batch": lambda: tl.matmul(cube, tl.permute_dims(cube, (0, 2, 1))),
    "take": lambda: tl.take(tall, indices, axis=0) * 2,
}
for name, case in CASES.items():
    compiled = tl.function(case)
    digests = set()
    for _ in range(4):
        digests.add(hashlib.sha256(compiled().numpy().tobytes()).hexdigest())
    assert len(digests) == 1, name
    print(name, digests.pop())

x = tl.asarray(rng.normal(size=(20_000, 70)).astype(np.float32))
step = tl.function(lambda x, w: tl.mean(tl.tanh(tl.matmul(x, w)) ** 2))
with tl.GradientTape() as tape:
    tape.watch(weights)
    loss = step(x, weights)
gradient = tape.gradient(loss, weights).numpy()
print("gradient", hashlib.sha256(gradient.tobytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(not is_pool_supported(), reason="no thread pool on this system")
def test_results_have_the_same_bits_for_any_number_of_threads() -> None:
    outputs = []
    for threads in ("1", "2", "5"):
        environment = {**os.environ, "TAPELINE_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    assert outputs[0] == outputs[1]
    assert outputs[0] == outputs[2]
