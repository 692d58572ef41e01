"""Tables for terminals with colours, by the package `rich` where that is installed.

`rich.print(concrete.kernels())` and notebooks in terminals come here; plain `print` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def rich_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """A table with a title; numbers and times stand to the right."""
    from rich import box
    from rich.table import Table

    cells = [[str(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for number, name in enumerate(head):
        column = [row[number] for row in cells]
        is_number = bool(column) and all(text[:1].isdigit() or not text for text in column)
        table.add_column(
            name, justify="right" if is_number else "left", overflow="fold", header_style="dim"
        )
    for row in cells:
        table.add_row(*row)
    return table
