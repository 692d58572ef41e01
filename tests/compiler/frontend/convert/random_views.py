"""Random views of arrays and places in them, as text, with their shapes."""

from __future__ import annotations

import random

Shape = tuple[int, ...]


def view_of(r: random.Random, name: str, shape: Shape) -> tuple[str, Shape]:
    """A view of a variable of a shape of one axis or two, and the view's shape."""
    return _of_vector(r, name, shape[0]) if len(shape) == 1 else _of_matrix(r, name, shape)


def place_in(r: random.Random, shape: Shape) -> tuple[str, Shape]:
    """A place of an array that can be written, and its shape."""
    index, left = _along(r, shape[0])
    if len(shape) == 1 or r.random() < 0.5:
        return index, left + shape[1:]
    other, right = _along(r, shape[1])
    return f"{index}, {other}", left + right


def _along(r: random.Random, size: int) -> tuple[str, Shape]:
    """One place along an axis, or a piece of it."""
    kind = r.random()
    if kind < 0.35:
        return str(r.randrange(-size, size)), ()
    if kind < 0.5:
        return f"(n + {r.randrange(size)}) % {size}", ()
    if kind < 0.7 or size < 2:
        return "::-1", (size,)
    start = r.randrange(size - 1)
    stop = r.randint(start + 1, size)
    return f"{start}:{stop}", (stop - start,)


def _of_vector(r: random.Random, name: str, size: int) -> tuple[str, Shape]:
    kind = r.random()
    if kind < 0.8:
        index, shape = _along(r, size)
        return f"{name}[{index}]", shape
    if kind < 0.9:
        return f"np.broadcast_to({name}, (3, {size}))", (3, size)
    return f"{name}.reshape({size}, 1)[:, 0]", (size,)


def _of_matrix(r: random.Random, name: str, shape: Shape) -> tuple[str, Shape]:
    rows, columns = shape
    kind = r.random()
    if kind < 0.2:
        return f"{name}.T", (columns, rows)
    if kind < 0.3:
        return f"{name}.reshape({columns}, {rows})", (columns, rows)
    if kind < 0.4:
        return f"{name}.reshape({rows * columns})", (rows * columns,)
    if kind < 0.6:
        index, left = _along(r, rows)
        return f"{name}[{index}]", (*left, columns)
    index, left = _along(r, rows)
    other, right = _along(r, columns)
    return f"{name}[{index}, {other}]", left + right
