"""Shows arrays in notebooks: shape, dtype and statistics in a line, values in a small table."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_ROWS = 10
MAX_COLUMNS = 10
_SPACE = "padding:1px 7px;text-align:right;font-family:monospace;font-size:12px"
_GREEN, _ORANGE = (46, 125, 79), (196, 106, 27)


def array_html(title: str, array: npt.NDArray[Any]) -> str:
    """HTML for an array: a line that describes it, and its last two dimensions as a table.

    Parameters
    ----------
    title : str
        What stands before shape and dtype.
    array : ndarray
        Of more than two dimensions the first matrix is shown; what does not fit is left out.
    """
    shape = " x ".join(map(str, array.shape)) or "one value"
    head = f"<b>{escape(title)}</b> &nbsp;{shape} &nbsp;<code>{array.dtype.name}</code>"
    notes = _statistics(array)
    if notes:
        head += f' &nbsp;<span style="opacity:.65">{notes}</span>'
    matrix = array
    while matrix.ndim > 2 and len(matrix):
        matrix = matrix[0]
    if matrix.ndim > 2 or not array.size:
        return f"<div>{head}</div>"
    if array.ndim > 2:
        index = ", ".join(["0"] * (array.ndim - 2) + [":", ":"])
        head += f' &nbsp;<span style="opacity:.65">[{index}]</span>'
    return f"<div>{head}</div>{_table(np.atleast_2d(matrix))}"


def _statistics(array: npt.NDArray[Any]) -> str:
    """Range, mean, and how many are no numbers."""
    if array.dtype.kind not in "iuf" or array.size < 2:
        return ""
    numbers = array[np.isfinite(array)]
    if not numbers.size:
        return "no finite values"
    text = f"min {numbers.min():.4g}, mean {numbers.mean(dtype=np.float64):.4g}, "
    text += f"max {numbers.max():.4g}"
    bad = array.size - numbers.size
    return text + (f', <b style="color:#d2452d">{bad} not finite</b>' if bad else "")


def _table(matrix: npt.NDArray[Any]) -> str:
    rows, columns = matrix.shape
    shown = matrix[:MAX_ROWS, :MAX_COLUMNS]
    numbers = np.abs(shown[np.isfinite(shown)]) if shown.dtype.kind in "iuf" else shown[:0]
    largest = float(numbers.max()) if numbers.size else 0.0
    lines = []
    for row in shown:
        cells = "".join(_cell(value, largest) for value in row)
        lines.append(f"<tr>{cells}{_blank(columns > MAX_COLUMNS)}</tr>")
    if rows > MAX_ROWS:
        lines.append(f'<tr><td style="{_SPACE}" colspan="{min(columns, MAX_COLUMNS)}">⋮</td></tr>')
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def _blank(more: bool) -> str:
    return f'<td style="{_SPACE}">…</td>' if more else ""


def _cell(value: Any, largest: float) -> str:
    """A cell whose colour says sign and size."""
    style = _SPACE
    if value.dtype.kind in "iuf":
        if not np.isfinite(value):
            style += ";color:#d2452d;font-weight:bold"
        elif largest:
            red, green, blue = _GREEN if value >= 0 else _ORANGE
            share = 0.3 * abs(float(value)) / largest
            style += f";background:rgba({red},{green},{blue},{share:.3f})"
    text = f"{value:.5g}" if value.dtype.kind == "f" else str(value)
    return f'<td style="{style}">{escape(text)}</td>'
