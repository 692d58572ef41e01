"""The first op that makes a NaN or an infinity is named with its line and inputs."""

from __future__ import annotations

from typing import Any

import pytest

import tapeline as tl
from tapeline.compiler.compiled import OBSERVER
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.errors import NumericsError


def shifted_log(x: tl.Tensor) -> tl.Tensor:
    y = x - 1
    z = tl.log(y)
    return tl.sum(z) * 0


def test_eager_op_is_named_with_its_line() -> None:
    with tl.debugging.check_numerics(), pytest.raises(NumericsError) as caught:
        shifted_log(tl.asarray([1.0, 2.0]))
    text = str(caught.value)
    assert "log gives 1 infinite of 2 values at test_numerics.py:" in text
    assert "z = tl.log(y)" in text
    assert "input 0: float64[2], from 0 to 1" in text


def test_compiled_function_is_looked_into() -> None:
    compiled = tl.function(shifted_log)
    x = tl.asarray([0.0, 2.0])
    for _ in range(4):
        compiled(x)
    with tl.debugging.check_numerics(), pytest.raises(NumericsError) as caught:
        compiled(x)
    assert "log gives 1 NaN of 2 values" in str(caught.value)
    assert "z = tl.log(y)" in str(caught.value)
    assert "(graph shifted_log)" in str(caught.value)


def test_gradients_are_looked_into() -> None:
    @tl.function
    def root(x: tl.Tensor) -> tl.Tensor:
        return tl.sum(tl.sqrt(x))

    x = tl.asarray([0.0, 4.0])
    with tl.debugging.check_numerics(), tl.GradientTape() as tape:
        tape.watch(x)
        y = root(x)
        with pytest.raises(NumericsError, match="infinite of 2 values"):
            tape.gradient(y, x)


def test_loops_are_looked_into() -> None:
    @tl.function
    def halved(x: tl.Tensor) -> tl.Tensor:
        while tl.sum(x) > 0.1:
            x = tl.log(x)
        return x

    with tl.debugging.check_numerics(), pytest.raises(NumericsError, match="log gives"):
        halved(tl.asarray([0.0, 3.0]))


def test_finite_programs_give_what_they_gave() -> None:
    compiled: Any = tl.function(lambda x: tl.softmax(tl.where(x > 0, x, -x)))
    x = tl.asarray([-1.0, 2.0, 0.0])
    expected = compiled(x).numpy()
    with tl.debugging.check_numerics():
        found = compiled(x).numpy()
    assert abs(found - expected).max() < 1e-15


def test_infinities_may_be_allowed_and_inputs_are_not_blamed() -> None:
    with tl.debugging.check_numerics(infinities=False):
        assert float(tl.log(tl.asarray([0.0]))[0]) == float("-inf")
    with tl.debugging.check_numerics():
        tl.asarray([float("nan")]) * 2


def test_the_block_leaves_nothing_behind() -> None:
    busy = BUSY[0]
    with pytest.raises(NumericsError), tl.debugging.check_numerics():
        shifted_log(tl.asarray([1.0]))
    assert OBSERVER[0] is None
    assert BUSY[0] == busy
