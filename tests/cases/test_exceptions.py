"""What remains after an exception, and where errors say that they come from."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import assert_close, gradients, number, tensor

import tapeline as tl


def test_an_exception_while_tracing_leaves_tape_and_mode_intact() -> None:
    @tl.function
    def bad(x: Any) -> Any:
        x * 2.0
        raise ValueError("boom 17")

    x = tensor(3.0)
    with tl.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match="boom 17"):
            bad(x)
        y = x * x
    assert_close(tape.gradient(y, x), 6.0)
    assert number(x + 1.0) == 4.0


def test_an_exception_inside_a_tape_leaves_the_next_tape_intact() -> None:
    x = tensor(3.0)

    def record_and_fail() -> None:
        with tl.GradientTape() as broken:
            broken.watch(x)
            raise KeyError("inside a tape")

    with pytest.raises(KeyError):
        record_and_fail()
    assert number(x + 1.0) == 4.0
    (slope,) = gradients(lambda t: t * t * t, x)
    assert_close(slope, 27.0)


def test_an_exception_in_an_inner_function_leaves_the_outer_trace_intact() -> None:
    @tl.function
    def inner(x: Any) -> Any:
        raise ValueError("inner 5")

    @tl.function
    def outer(x: Any) -> Any:
        with pytest.raises(ValueError, match="inner 5"):
            inner(x)
        return x * 2.0

    assert number(outer(tensor(4.0))) == 8.0


def line_of(function: Callable[..., Any], offset: int) -> str:
    """How messages name a line of a function in this file."""
    return f"{Path(__file__).name}:{function.__code__.co_firstlineno + offset}"


def told_lines(error: BaseException) -> str:
    """What a person sees of an error, with traceback lines in the form `file:line`."""
    frames = [
        f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)
    ]
    return "\n".join([*frames, *traceback.format_exception_only(error)])


def test_an_error_of_a_compiled_call_names_the_users_line() -> None:
    def plain(x: Any, i: Any) -> Any:
        b = x + 1.0
        return b[i] * 3.0

    f, x = tl.function(plain), tensor([1.0, 2.0])
    assert number(f(x, tensor(1, "int64"))) == 9.0
    assert number(f(x, tensor(0, "int64"))) == 6.0
    with pytest.raises(IndexError) as caught:
        f(x, tensor(7, "int64"))
    assert line_of(plain, 2) in told_lines(caught.value)


def test_an_error_while_tracing_names_the_users_line() -> None:
    def mismatch(x: Any) -> Any:
        y = x + tl.asarray(np.ones(7))
        return y * 2.0

    with pytest.raises(ValueError, match=r"\(2,\) and \(7,\)") as caught:
        tl.function(mismatch)(tensor([1.0, 2.0]))
    assert line_of(mismatch, 1) in told_lines(caught.value)
