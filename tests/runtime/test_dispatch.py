"""`bind`, handlers, and what happens without tensors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tapeline.runtime.dispatch import BUSY, STATE, bind, push_handler, set_handler
from tapeline.runtime.errors import LeakedTensorError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.tensor import Tensor, as_tensor, wrap


class Symbol:
    """What a trace's value must be: shape, dtype, and an error for NumPy."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no values")

    def __repr__(self) -> str:
        return self.name


class Trace:
    """Writes down the ops it is given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def run_op(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs) -> Any:
        self.seen.append(op.name)
        made = [
            Symbol(f"%{len(self.seen)}", inputs[0].shape, inputs[0].dtype)
            for _ in range(op.n_outputs or 1)
        ]
        return made[0] if op.n_outputs is None else tuple(made)

    def value_of(self, tensor: Tensor) -> Any:
        return tensor._value

    def enter_gradient(self, node: Any) -> None: ...

    def read_variable(self, variable: Any) -> Any:
        return Symbol("variable", variable.shape, variable.dtype)

    def assign_variable(self, variable: Any, value: Tensor) -> None:
        self.seen.append(f"assign {value!r}")

    def create_variable(self, value: Tensor) -> Any:
        return np.zeros(value.shape, value.dtype)


def new_trace() -> Any:
    """A `Trace` as a handler, though it stages no control flow."""
    return Trace()


def test_bind_runs_the_kernel(tiny: Any) -> None:
    out = bind(tiny.ops["times"], (as_tensor([1.0, 2.0]), as_tensor(3.0)))
    assert type(out) is Tensor
    assert out.tolist() == [3.0, 6.0]


def test_bind_makes_arrays_of_numpy_scalars(tiny: Any) -> None:
    out = bind(tiny.ops["total"], (as_tensor([1.0, 2.0]),))
    assert type(out._value) is np.ndarray
    assert out.shape == ()


def test_bind_returns_a_tuple_for_several_outputs(tiny: Any) -> None:
    s, c = bind(tiny.ops["sin_cos"], (as_tensor(0.0),))
    assert (s.item(), c.item()) == (0.0, 1.0)
    assert type(s._value) is np.ndarray


def test_bind_on_arrays_returns_what_the_kernel_returns(tiny: Any) -> None:
    out = bind(tiny.ops["times"], (np.ones(2), np.float64(2.0)))
    assert type(out) is np.ndarray


def test_bind_on_mixed_inputs_gives_a_tensor(tiny: Any) -> None:
    out = bind(tiny.ops["times"], (np.float64(2.0), as_tensor([1.0])))
    assert type(out) is Tensor
    assert out.tolist() == [2.0]


def test_handler_answers_instead_of_numpy(tiny: Any) -> None:
    trace = new_trace()
    x = as_tensor([1.0])
    with push_handler(trace):
        assert BUSY[0] >= 1
        y = tiny.sin(x) * 2.0
        a, b = tiny.sin_cos(y)
    assert STATE.handler is None
    assert repr(y._value) == "%2"
    assert {type(a._value), type(b._value)} == {Symbol}
    assert len(trace.seen) == 3


def test_tapes_record_what_a_handler_answers(tiny: Any) -> None:
    trace = new_trace()
    x = as_tensor([1.0, 2.0])
    with push_handler(trace), GradientTape() as tape:
        tape.watch(x)
        y = tiny.sin(x) * x
        g = tape.gradient(y, x)
    assert type(g._value) is Symbol
    assert trace.seen[0] == "sine"
    assert "cosine" in trace.seen


def test_handlers_nest_and_are_restored_after_errors(tiny: Any) -> None:
    outer, inner = new_trace(), new_trace()
    busy = BUSY[0]
    with push_handler(outer):
        with contextlib.suppress(ZeroDivisionError), push_handler(inner):
            tiny.sin(as_tensor(1.0))
            raise ZeroDivisionError
        tiny.sin(as_tensor(1.0))
        with push_handler(None):
            assert tiny.sin(as_tensor(0.0)).item() == 0.0
    assert BUSY[0] == busy
    assert inner.seen == outer.seen == ["sine"]


def test_other_threads_do_not_see_the_handler(tiny: Any) -> None:
    results: list[Any] = []
    with push_handler(new_trace()):
        thread = threading.Thread(target=lambda: results.append(tiny.sin(as_tensor(0.0))))
        thread.start()
        thread.join()
    assert results[0].item() == 0.0


def test_busy_counter_survives_many_threads() -> None:
    before = BUSY[0]

    def work() -> None:
        for _ in range(2000):
            old = set_handler(new_trace())
            set_handler(old)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert BUSY[0] == before


def test_leaked_symbols_are_explained(tiny: Any) -> None:
    leaked = wrap(Symbol("%7", (2,), np.dtype("float64")))
    with pytest.raises(LeakedTensorError, match=r"sine: a symbolic tensor made by %7"):
        bind(tiny.ops["sine"], (leaked,))
    with pytest.raises(LeakedTensorError, match="%7"):
        leaked * as_tensor([1.0, 2.0])
