"""How long functions, traces and what they captured live."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import assert_close, tensor

import tapeline as tl


class Holder:
    """Something that can be referred to weakly."""

    scale: Any


@pytest.mark.filterwarnings("ignore:f was traced in")
def test_all_traces_of_a_dropped_function_are_freed() -> None:
    def build() -> tuple[Any, Any]:
        holder = Holder()
        holder.scale = tensor([1.0, 2.0])

        @tl.function
        def f(x: Any) -> Any:
            return tl.sum(x) * holder.scale

        return f, weakref.ref(holder)

    f, alive = build()
    for n in range(1, 16):
        assert_close(f(tensor(np.ones(n))), [n, 2.0 * n])
    x = tensor(np.ones(4))
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.sum(f(x))
    assert_close(tape.gradient(y, x), [3.0] * 4)
    del f, tape, x, y
    gc.collect()
    assert alive() is None


def test_a_bound_method_as_argument_is_traced_once_and_its_instance_freed() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def step(self, x: Any) -> Any:
            return x * self.scale

    @tl.function
    def run(step: Any, x: Any) -> Any:
        return step(x) + 1.0

    model, other = Model(2.0), Model(3.0)
    for k in range(5):
        assert_close(run(model.step, tensor(float(k))), 2.0 * k + 1.0)
    assert run.trace_count == 1
    assert_close(run(other.step, tensor(1.0)), 4.0)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_a_function_keeps_no_instance_alive_that_it_was_called_with() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

    @tl.function
    def f(model: Model, x: Any) -> Any:
        return x * model.scale

    model = Model(2.0)
    assert_close(f(model, tensor(3.0)), 6.0)
    assert_close(f(model, tensor(4.0)), 8.0)
    assert f.trace_count == 1
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    assert_close(f(Model(5.0), tensor(4.0)), 20.0)
