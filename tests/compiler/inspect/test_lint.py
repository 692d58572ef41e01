"""Each kind of finding is found, with its line, and clean code has none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.inspect.lint import lint_graph
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.errors import ArgumentTypeError

FLOAT = tl.TensorSpec([4], "float32")


def kinds(function: Any, *args: Any) -> list[tuple[str, str]]:
    found = tl.debugging.lint(tl.function(function), *(args or (FLOAT,)))
    return [(finding.kind, finding.message) for finding in found]


CASES: list[tuple[Any, str, str]] = [
    (lambda x: tl.log(tl.softmax(x)), "numerics", "log_softmax"),
    (lambda x: tl.log(tl.sum(tl.exp(x))), "numerics", "logsumexp"),
    (lambda x: tl.log(1 + x), "numerics", "log1p"),
    (lambda x: tl.exp(x) - 1, "numerics", "expm1"),
    (lambda x: tl.sqrt(tl.sum(x * x)), "gradient", "not finite where all elements are 0"),
    (lambda x: tl.round(x) * x, "gradient", "no gradient passes round"),
    (lambda x: tl.linalg.det(tl.reshape(x, (2, 2))), "host call", "det has no native form"),
    (lambda x: x * tl.asarray([1.0, 2.0, 3.0, 4.0]), "dtype", "float32 becomes float64"),
]


@pytest.mark.parametrize(("function", "kind", "text"), CASES)
def test_lint_finds(function: Any, kind: str, text: str) -> None:
    found = kinds(function)
    assert any(k == kind and text in message for k, message in found), found


def test_lint_finds_large_constants() -> None:
    graph = Graph("big")
    graph.outputs.append(graph.add_constant(np.ones((600, 600))))
    (finding,) = lint_graph(graph)
    assert finding.kind == "constant"
    assert "2.7 MiB is part of the graph" in finding.message


def test_lint_finds_numbers_that_make_traces() -> None:
    found = kinds(lambda x, n: x * n, FLOAT, 3)
    assert [kind for kind, _ in found] == ["retrace"]
    assert "n is a Python number (3)" in found[0][1]


def test_lint_has_nothing_against_clean_code() -> None:
    def clean(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        return tl.mean(tl.log_softmax(tl.tanh(x @ w)) * 2)

    specs = tl.TensorSpec([3, 4], "float32"), tl.TensorSpec([4, 2], "float32")
    findings = tl.debugging.lint(tl.function(clean), *specs)
    assert len(findings) == 0
    assert str(findings) == "clean: nothing found"


def test_findings_print_their_line() -> None:
    def norm(x: tl.Tensor) -> tl.Tensor:
        return tl.sqrt(tl.sum(x * x))

    text = str(tl.debugging.lint(tl.function(norm), FLOAT))
    assert text.startswith("test_lint.py:")
    assert text.splitlines()[-1].strip() == "return tl.sqrt(tl.sum(x * x))"


def test_lint_takes_compiled_functions_only() -> None:
    with pytest.raises(ArgumentTypeError, match=r"made by tl\.function"):
        tl.debugging.lint(len)  # type: ignore[arg-type]


def test_numbers_are_judged_by_what_became_of_them() -> None:
    @tl.function
    def scaled(x: tl.Tensor, rate: float, power: int) -> tl.Tensor:
        return x * rate ** (2 if power > 2 else power)

    x = tl.ones(3)
    (first, second) = tl.debugging.lint(scaled, x, 0.5, 3)
    assert "rate is a Python number (0.5)" in first.message
    assert "power is a Python number (3)" in second.message
    for k in range(4):
        scaled(x, 0.5 + k, 3 + k)
    (left,) = tl.debugging.lint(scaled, x, 9.5, 8)
    assert re.match(r"power was traced for \d values, as the code asks", left.message)
    assert max(map(len, str(left).splitlines())) <= 80
