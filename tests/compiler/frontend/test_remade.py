"""Functions that are decorated again and again for one call each."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tapeline as tl


def made_with(factor: float) -> Callable[[Any], Any]:
    """A compiled function of its own, all of the same code."""

    @tl.function
    def scaled(x: Any) -> Any:
        return x * factor

    return scaled


def made_elsewhere(factor: float) -> Callable[[Any], Any]:
    """As `made_with`, of code of its own."""

    @tl.function
    def shifted(x: Any) -> Any:
        return x + factor

    return shifted


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the library said in the log."""
    return [record.getMessage() for record in caplog.records if record.name == "tapeline"]


def test_a_warning_says_where_a_function_is_decorated_in_a_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tapeline"):
        for k in range(4):
            made_with(k)(tl.ones(3))
        assert messages(caplog) == []
        with pytest.warns(UserWarning, match="decorated and traced anew 5 times") as warned:
            made_with(5)(tl.ones(3))
        assert [warning.filename for warning in warned] == [__file__]
        (said,) = messages(caplog)
        assert said.startswith(f"scaled at {__file__}:")
        assert "decorated and traced anew 5 times" in said
        assert "Tracing is expensive" in said
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for k in range(30):
                made_with(k)(tl.ones(3))
        assert len(messages(caplog)) == 2


def test_functions_that_serve_calls_are_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tapeline"):
        for k in range(12):
            f = made_elsewhere(k)
            for _ in range(3):
                f(tl.ones(3))

        class Model:
            @tl.function
            def __call__(self, x: Any) -> Any:
                return x * 2

        for _ in range(12):
            Model()(tl.ones(3))
    assert messages(caplog) == []
