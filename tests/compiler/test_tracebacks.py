"""Errors of compiled calls show the user's lines, those of the library only where asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def _reshaped(x: Any) -> Any:
    return tl.reshape(x, (7,))


@tl.function
def while_tracing(x: Any) -> Any:
    return _reshaped(x)


@tl.function
def raised(x: Any) -> Any:
    if tl.sum(x) > 1.0:
        raise ValueError("the sum is too large")
    return x


def _complain(x: Any) -> Any:
    raise KeyError("mine")


@tl.function
def in_python(x: Any) -> Any:
    return tl.py_function(_complain, [x], tl.float64)


@tl.function
def taken(x: Any) -> Any:
    return x[tl.astype(tl.sum(x), tl.int64)]


@tl.function
def in_a_loop(x: Any) -> Any:
    for i in tl.range(tl.astype(tl.sum(x), tl.int64) + 1):
        x = x + x[i]
    return x


@tl.function
def singular(x: Any) -> Any:
    return tl.linalg.inv(tl.reshape(x, (1, 3)) * tl.zeros((3, 1)))


CASES: list[tuple[Callable[[Any], Any], list[str], str | None]] = [
    (while_tracing, ["while_tracing", "_reshaped"], None),
    (raised, [], "raise ValueError"),
    (in_python, ["_complain"], "tl.py_function"),
    (taken, [], "x[tl.astype"),
    (in_a_loop, [], "x + x[i]"),
    (singular, ["inv", "_raise_linalgerror_singular"], "tl.linalg.inv"),
]


@pytest.mark.parametrize(
    ("function", "frames", "line"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_the_frames_are_the_users(
    function: Callable[[Any], Any], frames: list[str], line: str | None
) -> None:
    x = tl.ones(3)
    for _ in range(2):  # by way of Python, and by the native entry where there is one
        with pytest.raises(Exception) as caught:  # noqa: PT011  # each case has its own
            function(x)
        error = caught.value
        here, *rest = traceback.extract_tb(error.__traceback__)
        assert here.filename == __file__
        assert [frame.name for frame in rest] == frames
        assert error.__context__ is None or error.__suppress_context__
        if line is not None:
            (note,) = error.__notes__
            name, _, number = note.rpartition(":")
            assert name == f"in {function.__name__}, from {__file__}"
            with open(__file__, encoding="utf-8") as source:
                assert line in source.read().splitlines()[int(number) - 1]


@pytest.mark.parametrize("function", [while_tracing, taken, in_a_loop])
def test_all_frames_are_there_where_asked_for(function: Callable[[Any], Any]) -> None:
    with tl.config.full_traceback(True), pytest.raises(Exception) as caught:  # noqa: PT011
        function(tl.ones(3))
    names = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(name.endswith(("compiler/function.py", "executable.py")) for name in names)


def test_values_that_do_not_fit_are_told_by_their_shapes() -> None:
    x = tl.zeros(3)
    with pytest.raises(tl.errors.ShapeError, match=r"\(3,\) does not broadcast .* \(2,\)"):
        x[0:2] = tl.ones(3)
    np.testing.assert_array_equal(x.numpy(), np.zeros(3))
