"""Nothing that is dropped waits for the garbage collector: functions, traces, code and tapes."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def plain() -> None:
    f = tl.function(lambda x: x * 2.0)
    for _ in range(4):
        f(tl.asarray([1.0, 2.0]))


def taped() -> None:
    f = tl.function(lambda x: tl.sum(tl.tanh(x) * x))
    for _ in range(4):
        x = tl.asarray([1.0, 2.0])
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        tape.gradient(y, x)


def variables() -> None:
    v = tl.Variable([1.0, 2.0])
    f = tl.function(lambda x: v.assign_add(x).read_value())
    for _ in range(4):
        f(tl.asarray([1.0, 2.0]))


def control_flow() -> None:
    v = tl.Variable([1.0, 2.0])

    @tl.function
    def f(x: Any) -> Any:
        y = x * 2 if tl.sum(x) > 0 else x
        for _ in tl.range(3):
            y = y + v
        while tl.sum(y) < 100.0:
            y = y * 2
        return y

    for _ in range(4):
        f(tl.asarray([1.0, 2.0]))
    with tl.GradientTape() as tape:
        y = f(tl.asarray([1.0, 2.0]))
    tape.gradient(y, v)


def host_calls() -> None:
    f = tl.function(lambda x: tl.sort(x) * 2)
    for _ in range(4):
        f(tl.asarray([2.0, 1.0]))


def nested() -> None:
    g = tl.function(lambda x: x * 2)
    f = tl.function(lambda x: g(x) + 1)
    for _ in range(4):
        f(tl.asarray([1.0, 2.0]))


def errors() -> None:
    f = tl.function(lambda x: x[1 // 0])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            f(tl.asarray(1.0))


def second_order() -> None:
    f = tl.function(lambda x: tl.sum(x * x * x))
    tl.grad(tl.grad(lambda x: f(x * x)))(tl.asarray(2.0))


def batched() -> None:
    f = tl.function(lambda x: x * 2)
    tl.vmap(f)(tl.asarray([1.0, 2.0]))


@pytest.mark.parametrize(
    "work",
    [plain, taped, variables, control_flow, host_calls, nested, errors, second_order, batched],
)
def test_dropped_functions_leave_no_cycles(work: Callable[[], None]) -> None:
    for _ in range(2):
        work()
    gc.collect()
    gc.disable()
    try:
        work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = Counter(type(one).__name__ for one in gc.garbage if is_ours(one))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kinds


def is_ours(one: Any) -> bool:
    """pytest's own objects come and go meanwhile."""
    return str(type(one).__module__).startswith("tapeline") or isinstance(one, np.ndarray)


def test_a_dropped_function_and_a_dropped_object_are_gone_at_once() -> None:
    class Model:
        @tl.function
        def scale(self, x: Any) -> Any:
            return x * 2.0

    model, f = Model(), tl.function(lambda x: x * 2.0)
    for _ in range(3):
        model.scale(tl.asarray(1.0))
        f(tl.asarray(1.0))
    method = model.scale.__func__
    alive = [weakref.ref(one) for one in (model, f, method)]
    gc.disable()
    try:
        del model, f, method
        assert [one() for one in alive] == [None] * 3
    finally:
        gc.enable()


def test_memory_stays_flat_over_short_lived_functions() -> None:
    def count() -> int:
        gc.collect()
        return sum(
            1 for one in gc.get_objects() if str(type(one).__module__).startswith("tapeline")
        )

    def work() -> None:
        for k in range(100):
            f = tl.function(lambda x, k=k: x + k)
            f(tl.asarray(1.0))

    work()
    before = count()
    work()
    assert count() <= before + 10
