"""Many threads that call, trace, tape and clear caches at once."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import tapeline as tl


@pytest.mark.filterwarnings("ignore:.*was traced in")
@pytest.mark.parametrize("seconds", [2.0, pytest.param(8.0, marks=pytest.mark.slow)])
def test_threads_get_right_results_whatever_the_others_do(seconds: float) -> None:
    shared = tl.Variable(np.ones(3))
    failures: list[str] = []

    class Model:
        def __init__(self, k: float) -> None:
            self.k = k

        @tl.function
        def scale(self, x: Any) -> Any:
            return x * self.k

    model = Model(3.0)

    @tl.function
    def f(x: Any, k: Any = 2.0) -> Any:
        y = x * k + shared
        if tl.sum(y) > 0:
            y = y * 2
        return tl.sum(y * y)

    def expected(x: Any, k: float) -> Any:
        y = x * k + 1
        return ((y * 2 if y.sum() > 0 else y) ** 2).sum()

    def call(rng: np.random.Generator) -> None:
        x, k = rng.standard_normal((int(rng.integers(1, 5)), 3)), float(rng.integers(1, 4))
        np.testing.assert_allclose(f(x, k).item(), expected(x, k), rtol=1e-12)
        np.testing.assert_array_equal(model.scale(x).numpy(), x * 3.0)
        np.testing.assert_array_equal(Model(k).scale(x).numpy(), x * k)

    def tape(rng: np.random.Generator) -> None:
        x = tl.asarray(rng.standard_normal(3))
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = f(x) + tl.sum(x * 3)
        value = x.numpy() * 2 + 1
        factor = 4 if value.sum() > 0 else 1
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), 4 * factor * value + 3, rtol=1e-12)

    def make(rng: np.random.Generator) -> None:
        scale = float(rng.integers(1, 9))
        fresh = tl.function(lambda x: x * scale)
        assert [fresh(x).item() for x in (tl.asarray(1.0), tl.asarray(2.0))] == [scale, 2 * scale]

    def clear(rng: np.random.Generator) -> None:
        f.cache_clear()
        Model.scale.cache_clear()
        repr(f.explain())
        time.sleep(0.01)

    end = time.monotonic() + seconds

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        jobs = [call, tape, make, call, tape, make, call, clear]
        try:
            while time.monotonic() < end and not failures:
                jobs[number](rng)
        except BaseException as error:
            failures.append(f"{jobs[number].__name__}: {error!r}")

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(700, 10, 10)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert not failures
    assert shared.numpy().tolist() == [1.0] * 3
