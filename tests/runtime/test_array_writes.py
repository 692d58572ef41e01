"""A number that a tape follows does not get lost in a NumPy array without a word."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime import array_writes


@pytest.fixture(autouse=True)
def _nothing_told() -> Iterator[None]:
    array_writes._TOLD.clear()
    yield
    array_writes._TOLD.clear()


def item(out: Any, x: Any) -> None:
    out[0] = x[0] * 2.0


def part(out: Any, x: Any) -> None:
    out[:2] = x * 2.0


def listed(out: Any, x: Any) -> None:
    out[:2] = [x[0], x[1] * 2.0]


def updated(out: Any, x: Any) -> None:
    out[1] += x[0]


def whole(out: Any, x: Any) -> None:
    out += tl.sum(x)


def through_out(out: Any, x: Any) -> None:
    np.add(out, x[0], out=out)


def watched(out: Any, x: Any) -> None:
    out[:2] = x


@pytest.mark.parametrize(
    "write", [item, part, listed, updated, whole, through_out, watched], ids=lambda f: f.__name__
)
def test_writing_a_recorded_tensor_into_an_array_warns(write: Callable[[Any, Any], None]) -> None:
    def loss(x: Any) -> Any:
        out: Any = np.zeros(3)
        write(out, x)
        return tl.sum(out * x[0])

    x = tl.asarray([1.0, 2.0])
    with pytest.warns(UserWarning, match=r"gradient is recorded .* NumPy array.*tl\.stack") as told:
        tl.grad(loss)(x)
    assert len(told) == 1
    code = write.__code__
    assert told[0].filename == code.co_filename
    assert told[0].lineno == code.co_firstlineno + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.grad(loss)(x)  # once per line


def test_writing_a_variable_that_a_tape_reads_warns() -> None:
    v = tl.Variable(2.0)
    out = np.zeros(2)
    with tl.GradientTape(), pytest.warns(UserWarning, match="NumPy array"):
        out[0] = v
    assert out[0] == 2.0


def test_numbers_for_people_are_no_matter() -> None:
    x, history, seen, out = tl.asarray([1.0, 2.0]), np.zeros(4), {}, tl.zeros(2)
    with tl.GradientTape() as tape:
        tape.watch(x)
        loss = tl.sum(x * x)
        history[0] = float(loss)
        history[1] = loss.item()
        history[2:] = x.numpy()
        seen["loss"] = loss
        out[0] = loss
        total = tl.sum(out)
        text = f"{loss:.1f} {float(loss)}"
        asked = np.asarray(loss), np.array([loss, loss]), int(loss)
    assert text == "5.0 5.0"
    assert asked[0] == asked[2] == history[0] == 5
    gradient = tape.gradient(total, x)
    assert gradient is not None
    assert gradient.tolist() == [2.0, 4.0]


def test_what_no_tape_records_is_no_matter() -> None:
    x, c, out = tl.asarray(2.0), tl.asarray(3.0), np.zeros(6)
    out[0] = x
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        out[1] = c
        out[2] = tl.stop_gradient(y)
        out[tl.argmax(y)] = 1.0
        with tl.stop_recording():
            out[3] = y * 2.0
    out[4] = y
    assert out.tolist() == [1.0, 3.0, 4.0, 8.0, 4.0, 0.0]
