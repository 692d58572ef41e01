"""Graphs, functions and tables show themselves in notebooks."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import tapeline as tl
from tapeline.runtime.tables import html_table


def concrete() -> Any:
    @tl.function
    def loss(x: tl.Tensor) -> tl.Tensor:
        return tl.sum(tl.tanh(x) ** 2)

    return loss.get_concrete_function(tl.TensorSpec([3, 2], "float32"))


def test_tables_escape_their_text() -> None:
    text = html_table("<a>", ("b & c",), [("<lambda>",)])
    ElementTree.fromstring(f"<div>{text}</div>")
    assert "&lt;lambda&gt;" in text


def test_graph_shows_its_page_in_a_frame() -> None:
    text = concrete().graph._repr_html_()
    assert text.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert text.count('"') == 8


def test_concrete_function_shows_what_it_takes_and_gives() -> None:
    text = concrete()._repr_html_()
    assert "float32[3, 2]" in text.split("<iframe")[0]
    assert "gives" in text


def test_kernels_and_cost_show_a_row_each() -> None:
    kernels = concrete().kernels()
    assert kernels._repr_html_().count("<tr>") == 1 + len(kernels)
    assert concrete().cost()._repr_html_().count("<tr>") == 1 + len(kernels)


def test_explanation_shows_reasons() -> None:
    doubled = tl.function(lambda x: x * 2)
    doubled(tl.asarray([1.0]))
    doubled(tl.asarray([1.0, 2.0]))
    assert "x was float64[1], is float64[2]" in doubled.explain()._repr_html_()
