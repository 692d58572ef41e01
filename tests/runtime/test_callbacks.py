"""Watching ops as they run."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tapeline as tl
from tapeline.runtime.dispatch import BUSY, STATE
from tapeline.runtime.errors import ArgumentTypeError


class Log:
    """A callback that keeps what it is shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any], Any, Any]] = []

    def __call__(self, name: str, attributes: dict[str, Any], inputs: Any, outputs: Any) -> None:
        self.seen.append((name, attributes, inputs, outputs))

    @property
    def names(self) -> list[str]:
        """Names of the ops in order."""
        return [name for name, *_ in self.seen]


def test_callback_sees_name_attributes_inputs_and_outputs() -> None:
    log, x = Log(), tl.asarray([[1.0, 2.0]])
    with tl.debugging.op_callback(log):
        y = tl.sum(x, axis=1, keepdims=True)
    [(name, attributes, inputs, outputs)] = log.seen
    assert (name, attributes) == ("sum", {"axes": (1,), "keepdims": True})
    assert inputs[0] is x
    assert outputs[0] is y
    tl.sum(x)
    assert len(log.seen) == 1


def test_callbacks_nest_and_do_not_see_each_other() -> None:
    inner, x = Log(), tl.asarray(2.0)
    seen = []

    def outer(name: str, *_: Any) -> None:
        seen.append(name)
        tl.exp(x)

    with tl.debugging.op_callback(outer):
        with tl.debugging.op_callback(inner):
            tl.sin(x)
        tl.cos(x)
    assert inner.names == ["sin"]
    assert seen == ["sin", "cos"]


def test_callback_sees_backward_ops() -> None:
    log, x = Log(), tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = tl.exp(x)
    with tl.debugging.op_callback(log):
        gradient = tape.gradient(y, x)
    assert log.names == ["multiply"]
    assert gradient.item() == pytest.approx(float(y))


def test_call_of_a_compiled_function_is_one_op_with_its_gradient() -> None:
    log, x = Log(), tl.asarray(2.0)
    square = tl.function(lambda x: x * x)
    for _ in range(3):
        square(x)
    with tl.debugging.op_callback(log), tl.GradientTape() as tape:
        tape.watch(x)
        y = square(x)
    assert len(log.names) == 1
    assert log.names[0].startswith("call:")
    assert tape.gradient(y, x).item() == 4.0


def test_callback_sees_ops_as_they_are_traced() -> None:
    log = Log()
    square = tl.function(lambda x: tl.exp(x) * x)
    with tl.debugging.op_callback(log):
        square(tl.asarray(2.0))
    assert log.names[:2] == ["exp", "multiply"]


def test_error_of_a_callback_reaches_the_caller_and_leaves_nothing() -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tl.debugging.op_callback(fail):
        tl.exp(tl.asarray(1.0))
    assert STATE.callbacks == ()
    assert BUSY == [0]
    with pytest.raises(ArgumentTypeError, match="expected a function"), tl.debugging.op_callback(3):  # type: ignore[arg-type]
        pass


def test_callback_sees_only_its_own_thread() -> None:
    log = Log()
    with tl.debugging.op_callback(log):
        thread = threading.Thread(target=lambda: tl.exp(tl.asarray(1.0)))
        thread.start()
        thread.join()
    assert log.names == []
