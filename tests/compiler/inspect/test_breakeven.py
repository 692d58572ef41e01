"""When compiling pays off, and tables in terminals."""

from __future__ import annotations

import io
import re

import pytest

import tapeline as tl
from tapeline.compiler.inspect.breakeven import TraceBreakeven


def test_a_heavy_function_pays_off_after_some_calls() -> None:
    w = tl.Variable(tl.ones(20_000), name="w")

    @tl.function
    def heavy(x: tl.Tensor) -> tl.Tensor:
        w.assign_add(x)
        return tl.sum(tl.exp(x) * tl.sin(x) + tl.tanh(x) ** 2 - w)

    heavy(tl.zeros(20_000))
    before = w.numpy().copy()
    (found,) = heavy.breakeven()
    assert found.calls is not None
    assert 1 <= found.calls < 100_000
    assert found.compile_seconds > 0
    assert (w.numpy() == before).all()
    text = str(heavy.breakeven())
    assert text.startswith("heavy: compiling pays off")
    assert "(float64[20000])" in text
    assert re.search(r"after [\d,]+ calls", text)


def test_what_is_slower_compiled_never_pays_off() -> None:
    assert TraceBreakeven("()", 0.1, 0.1, 1.0, 2.0).calls is None
    assert TraceBreakeven("()", 0.25, 0.25, 2.0, 1.0).calls == 1
    assert TraceBreakeven("()", 2.0, 1.5, 2.0, 1.0).calls == 4


def test_a_function_that_prints_is_not_run() -> None:
    @tl.function
    def loud(x: tl.Tensor) -> tl.Tensor:
        tl.print(x)
        return x

    loud.get_concrete_function(tl.ones(2))
    with pytest.raises(ValueError, match="loud has effects"):
        loud.breakeven()


def test_tables_have_a_rich_form() -> None:
    pytest.importorskip("rich", reason="rich is not installed; it is optional everywhere")
    from rich.console import Console

    function = tl.function(lambda x: tl.sum(tl.exp(x)))
    with tl.debugging.profile() as profile:
        function(tl.ones(100))
    concrete = function.concrete_functions[0]
    tables = (
        concrete.kernels(), concrete.cost(), function.explain(), function.breakeven(), profile,
    )  # fmt: skip
    for table in tables:
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(table)
        assert "─" in console.export_text()


def test_stages_are_measured_together_and_lines_fit_a_terminal() -> None:
    function = tl.function(lambda x: tl.sum(tl.tanh(x[x > 0.5])), name="chosen")
    function(tl.linspace(0, 1, 5000))
    (found,) = function.breakeven()
    assert found.signature == "(float64[5000])"
    assert found.numpy_seconds > 0
    assert found.compiled_seconds > 0
    lines = str(function.breakeven()).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("compiled")
