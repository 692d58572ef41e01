"""Tables as notebooks show them, and as terminals do in colour where the package `rich` is
installed: `rich.print(concrete.kernels())`. Plain `print` does not come here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

Table: TypeAlias = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""Title, head and rows."""

_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"
_WHOLE = ";white-space:nowrap"
_SHORT = 16
"""Cells of so many characters stay on one line."""


class Tabular:
    """What can be shown as a table."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> Table:
        """Title, head and rows."""

    def _repr_html_(self) -> str:
        return html_table(*self.table())

    def __rich__(self) -> Any:
        return rich_table(*self.table())


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a title and a head, all text escaped."""
    from html import escape  # for notebooks only

    def cell(text: str) -> str:
        style = _CELL + _WHOLE * (len(text) <= _SHORT)
        return f'<td style="{style}">{escape(text)}</td>'

    names = "".join(f'<th style="{_CELL}{_WHOLE};opacity:.65">{escape(one)}</th>' for one in head)
    lines = [f"<tr>{''.join(cell(str(one)) for one in row)}</tr>" for row in rows]
    return (
        f"<div><b>{escape(title)}</b></div><table style='border-collapse:collapse;font-size:13px'>"
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def rich_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> Any:
    """A table with a title; numbers and times stand to the right."""
    from rich import box
    from rich.table import Table as RichTable

    cells = [[str(cell) for cell in row] for row in rows]
    table = RichTable(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for number, name in enumerate(head):
        column = [row[number] for row in cells]
        is_number = bool(column) and all(text[:1].isdigit() or not text for text in column)
        table.add_column(
            name, justify="right" if is_number else "left", overflow="fold", header_style="dim"
        )
    for row in cells:
        table.add_row(*row)
    return table
