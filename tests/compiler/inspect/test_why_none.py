"""Why a gradient is None, with the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def stopped(x: Any) -> Any:
    y = x * x
    return tl.sum(tl.stop_gradient(y) + 1.0)  # here


def cast_to_int(x: Any) -> Any:
    y = x * 3.0
    n = y.astype(tl.int64)  # here
    return tl.sum(n * 2.0)


def through_numpy(x: Any) -> Any:
    y = x * x
    z = np.sin(y.numpy())  # here
    return tl.sum(z * tl.ones(2))


def through_a_number(x: Any) -> Any:
    n = float(tl.sum(x))  # here
    return tl.asarray(n) * 2.0


def steps(x: Any) -> Any:
    return tl.sum(tl.floor(x * 2.0))  # here


def compared(x: Any) -> Any:
    return tl.sum(tl.where(x > 1.0, 2.0, 3.0))  # here


@tl.function
def compiled_inside(x: Any) -> Any:
    y = tl.exp(x)
    return tl.stop_gradient(y) * 2.0  # here


def compiled(x: Any) -> Any:
    return tl.sum(compiled_inside(x))


BREAKS: dict[str, tuple[Callable[..., Any], Any]] = {
    "stop_gradient": (stopped, stopped),
    "dtype": (cast_to_int, cast_to_int),
    "left through NumPy": (through_numpy, through_numpy),
    "left through NumPy, as a number": (through_a_number, through_a_number),
    "no rule": (steps, steps),
    "dtype, of a comparison": (compared, compared),
    "stop_gradient, compiled": (compiled, compiled_inside.python_function),
}


def line_of(function: Any) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if line.rstrip().endswith("# here"))


@pytest.mark.parametrize("name", BREAKS)
def test_the_kind_and_the_line_of_a_break(name: str) -> None:
    f, where = BREAKS[name]
    x = tl.asarray([0.5, 1.5])
    with tl.debugging.remember_ops():
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert tape.gradient(y, x) is None
        found = tl.debugging.why_none(tape, y, x)
    assert found.kind == name.split(",")[0]
    assert found.location is not None
    assert found.location.line == line_of(where), str(found)
    assert "# here" in str(found)


def test_what_is_not_watched_or_not_recorded() -> None:
    x, v = tl.asarray([1.0, 2.0]), tl.Variable(1.0, trainable=False)
    with tl.debugging.remember_ops():
        with tl.GradientTape() as tape:
            y = x * v
        assert tl.debugging.why_none(tape, y, x).kind == "not watched"
        assert "not trainable" in str(tl.debugging.why_none(tape, y, v))
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x * 2.0
            with tape.stop_recording():
                z = y * y
        late = y * 3.0
        found = tl.debugging.why_none(tape, z, x)
        assert (found.kind, "stop_recording" in found.message) == ("not recorded", True)
        assert tl.debugging.why_none(tape, late, x).kind == "not recorded"
        assert tl.debugging.why_none(tape, y, x).kind == "connected"
        assert tl.debugging.why_none(tape, tl.ones(2) * 2.0, x).kind == "no path"


def test_without_the_block_it_says_what_it_can() -> None:
    x, n = tl.asarray([1.0, 2.0]), tl.asarray([1, 2])
    tape = tl.GradientTape()
    assert tl.debugging.why_none(tape, x, x).kind == "not recorded"
    with tape:
        tape.watch(x)
        y = tl.stop_gradient(x * x)
    assert tl.debugging.why_none(tape, y, n).kind == "dtype"
    assert tl.debugging.why_none(tape, n, x).kind == "dtype"
    assert "remember_ops" in str(tl.debugging.why_none(tape, y, x))
    assert tl.debugging.why_none(tape, y, tl.Variable(1.0)).kind == "not watched"
    assert tape.gradient(y, x) is None
    assert "remember_ops" in str(tl.debugging.why_none(tape, y, x))
