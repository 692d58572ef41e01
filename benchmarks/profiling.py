"""What `tl.debugging.profile()` adds to the calls that it times."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path

import numpy as np

import tapeline as tl
from benchmarks.case import OURS, Case, Faster
from benchmarks.measure import Call, Timing, summarize, time_block

PLAIN = "without profile"
ROUNDS = 400
BLOCK = 0.002
"""Seconds of calls between two readings of the clock."""
DIGITS = Path(__file__).resolve().parent.parent / "examples" / "digits.py"


def digits_step() -> Call:
    """The training step of `examples/digits.py` on its batch of 64 digits: some 13 kernels."""
    scope = runpy.run_path(str(DIGITS), run_name="digits")
    network = scope["Network"](scope["initial_weights"](np.random.default_rng(0)))
    images, labels = scope["load_digits"]()
    step = scope["make_train_step"](network)
    return partial(step, tl.asarray(images[:64]), tl.asarray(labels[:64]))


def long_kernel() -> Call:
    """One kernel of about a millisecond."""
    x = tl.asarray(np.random.default_rng(0).standard_normal(400_000))
    function = tl.function(lambda x: tl.sum(tl.exp(tl.sin(x)) * x))
    return partial(function, x)


def small_kernel() -> Call:
    """Two kernels of less than a microsecond."""
    x, w = tl.ones((32, 64)), tl.ones((64, 10)) * 0.01
    function = tl.function(lambda x, w: tl.mean(tl.tanh(x @ w) ** 2))
    return partial(function, x, w)


def timings(call: Call) -> dict[str, Timing]:
    """Blocks with and without a profile, in turns; entering it is not counted."""
    for _ in range(5):
        call()
    with tl.debugging.profile():
        call()
    number = max(1, round(BLOCK / time_block(call, 10)))
    plain, profiled = [], []
    for _ in range(ROUNDS):
        plain.append(time_block(call, number))
        with tl.debugging.profile():
            profiled.append(time_block(call, number))
    return {OURS: summarize(profiled), PLAIN: summarize(plain)}


CASES = (
    Case(
        "profile_digits",
        "the digits training step in a profile",
        goals=(Faster(0.95, PLAIN),),
        once=lambda: timings(digits_step()),
    ),
    Case(
        "profile_long",
        "a kernel of a millisecond in a profile",
        goals=(Faster(0.95, PLAIN),),
        once=lambda: timings(long_kernel()),
    ),
    Case("profile_small", "two tiny kernels in a profile", once=lambda: timings(small_kernel())),
)
