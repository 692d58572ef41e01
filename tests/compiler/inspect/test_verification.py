"""Compiled calls are compared with NumPy, and a wrong op is found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.compiled import OBSERVER
from tapeline.compiler.inspect.verification import find_culprit, slice_graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, VerificationError
from tapeline.runtime.op import get_op

X = tl.asarray([0.5, 1.0, 2.0])


@tl.function
def program(x: tl.Tensor) -> tl.Tensor:
    y = tl.exp(x)
    z = tl.tanh(y) * x
    return tl.sum(z)


@pytest.fixture
def wrong_tanh() -> Iterator[None]:
    """NumPy's tanh, a little off: as if the compiled one were."""
    op = get_op("tanh")
    kernel = op.kernel
    object.__setattr__(op, "kernel", lambda x: kernel(x) + 1e-6)
    yield
    object.__setattr__(op, "kernel", kernel)


def test_calls_that_agree_pass_and_are_counted() -> None:
    with tl.debugging.verify() as checks:
        for _ in range(3):
            program(X)
        with tl.GradientTape() as tape:
            tape.watch(X)
            y = program(X)
        tape.gradient(y, X)
    assert checks.checked == 5
    assert OBSERVER[0] is None


def test_rate_chooses_calls() -> None:
    program(X)
    with tl.debugging.verify(rate=0.3) as checks:
        for _ in range(50):
            program(X)
    assert 3 < checks.checked < 30
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        tl.debugging.verify(rate=2)


@pytest.mark.usefixtures("wrong_tanh")
def test_difference_names_the_op_and_its_line() -> None:
    with tl.debugging.verify(), pytest.raises(VerificationError) as caught:
        program(X)
    text = str(caught.value)
    assert "compiled program gives other numbers than NumPy" in text
    assert "they part at %2 = tanh(%1)" in text
    assert "z = tl.tanh(y) * x" in text


@pytest.mark.usefixtures("wrong_tanh")
def test_reproduction_is_a_program_that_runs() -> None:
    with tl.debugging.verify(), pytest.raises(VerificationError) as caught:
        program(X)
    text = caught.value.reproduction
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compiled [")
    assert "NumPy" in done.stdout


@pytest.mark.usefixtures("wrong_tanh")
def test_reproduction_is_written_with_the_arrays_that_show_it(tmp_path: Path) -> None:
    checked = tl.debugging.verify(program, reproduction=tmp_path / "bug.py")
    x = tl.asarray(np.linspace(0.1, 0.9, 2000))
    with pytest.raises(VerificationError, match=r"bug\.py shows it"):
        checked(x)
    with np.load(tmp_path / "bug.npz") as kept:
        np.testing.assert_array_equal(kept["a0"], x)
    command = [sys.executable, str(tmp_path / "bug.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "compiled [" in done.stdout


def test_a_function_is_held_against_numpy_in_its_calls_only() -> None:
    calls: list[int] = []

    def twice(x: tl.Tensor, deep: bool = True) -> tl.Tensor:
        calls.append(BUSY[0])
        return checked(x, deep=False) if deep else program(x)

    busy = BUSY[0]
    checked = tl.debugging.verify(twice)
    np.testing.assert_array_equal(checked(X), program(X))
    assert calls == [busy + 1, busy + 1]
    assert BUSY[0] == busy
    assert checked.__name__ == "twice"
    with pytest.raises(ArgumentTypeError, match="expected a function, got float"):
        tl.debugging.verify(0.5)  # type: ignore[call-overload]


def test_functions_with_effects_run_once() -> None:
    count = tl.Variable(0)

    @tl.function
    def counted(x: tl.Tensor) -> tl.Tensor:
        count.assign_add(1)
        assert tl.sum(x) > 0
        return x * 2

    with tl.debugging.verify() as checks:
        counted(X)
    assert checks.checked == 0
    assert int(count) == 1


def test_slices_give_the_value_of_a_node() -> None:
    graph = program.get_concrete_function(X).graph
    part = slice_graph(graph, [1])
    np.testing.assert_array_equal(run_graph(part, [X.numpy()])[0], np.exp(X.numpy()))
    assert len(part) == 2
    assert find_culprit(graph, [X.numpy()], None) is None
