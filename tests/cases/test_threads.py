"""One function called from several threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from tests.cases.comparing import assert_close, gradients, number, tensor

import tapeline as tl

THREADS = 8


def polynomial(x: Any) -> Any:
    """Twenty steps, alike for arrays and tensors."""
    y = x
    for _ in range(20):
        y = y * 1.5 - x
    return y


def test_first_calls_and_gradients_from_many_threads_at_once() -> None:
    f = tl.function(lambda x: tl.sum(polynomial(x)))
    slope = polynomial(1.0)
    barrier = threading.Barrier(THREADS)
    values: dict[int, Any] = {}
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            barrier.wait(30)
            x = tensor([float(k), 2.0])
            values[k] = number(f(x)), gradients(f, x)[0]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors
    for k in range(THREADS):
        value, gradient = values[k]
        assert_close(value, polynomial(np.array([float(k), 2.0])).sum(), rtol=1e-9)
        assert_close(gradient, [slope, slope], rtol=1e-9)
    assert f.trace_count == 1


def test_tapes_of_one_thread_do_not_see_calls_of_another() -> None:
    f = tl.function(lambda x: x * x)
    x = tensor(3.0)
    others: list[float] = []
    with tl.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: others.append(number(f(x))))
        thread.start()
        thread.join(60)
        entries = len(tape.export())
        y = f(x)
    assert others == [9.0]
    assert entries == 0
    assert_close(tape.gradient(y, x), 6.0)
