"""Random loops that read and write elements side by side: whatever the passes make of them, they
give what plain Python gives."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

SIZE = 90
"""Elements of the arrays: more than a loop that is unrolled has turns."""


class Writer:
    """Writes one program over two arrays, one of which it may only read, and a table."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def program(x, y, a, table):", "    s = 0.0"]
        for _ in range(self.random.randrange(1, 3)):
            self._loop()
        self.lines.append("    return x, y, table, s")

    def build(self, loop_range: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The program, with `range` as given."""
        source = "\n".join(self.lines) + "\n"
        filename = f"<random loops over arrays {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {"loop_range": loop_range}
        exec(compile(source, filename, "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    def _loop(self) -> None:
        r = self.random
        step = r.choice([1, 1, 1, 2])
        self.lines.append(f"    for i in loop_range({r.randrange(0, 4)}, {SIZE - 4}, {step}):")
        if r.random() < 0.25:
            self._table()
            return
        for _ in range(r.randrange(1, 4)):
            self._statement(2, "i")
        if r.random() < 0.2:
            self.lines += ["        if s > 40.0:", "            break"]

    def _table(self) -> None:
        r = self.random
        self.lines.append(f"        for j in loop_range({r.randrange(1, 3)}, {SIZE - 2}):")
        above, left = r.choice(["i", "i - 1"]), r.choice(["j", "j - 1", "j + 1"])
        self.lines.append(
            f"            table[i, j] = table[{above}, {left}] * 0.5 + table[i, j - 1] * 0.25"
            " + a[j]"
        )

    def _element(self, i: str) -> str:
        r = self.random
        moved = r.choice(["", " - 1", " - 2", " + 1", " + 3"])
        return f"{r.choice('xya')}[{i}{moved}]"

    def _value(self, i: str) -> str:
        r = self.random
        one, other = self._element(i), self._element(i)
        return r.choice([
            f"{one} * 0.5 + {other} * 0.25",
            f"max({one}, {other}) - 0.25",
            f"{one} * 0.5 - {i} * 0.125",
            f"({one} if {other} > 0.0 else {i} * 0.0625)",
            f"{one} * 0.5 + s * 0.125",
            f"{one} * 0.25 + a[({i} * 7) % {SIZE}]",
        ])  # fmt: skip

    def _statement(self, depth: int, i: str) -> None:
        r, space = self.random, "    " * depth
        kind = r.random()
        place = f"{r.choice('xy')}[{i}{r.choice(['', '', ' + 1', ' - 1'])}]"
        if kind < 0.6:
            self.lines.append(f"{space}{place} = {self._value(i)}")
        elif kind < 0.75:
            self.lines.append(f"{space}s = s * 0.5 + {self._element(i)}")
        elif depth < 4:
            self.lines.append(f"{space}if {self._element(i)} > {self._element(i)}:")
            self._statement(depth + 1, i)
            if r.random() < 0.5:
                self.lines.append(f"{space}else:")
                self._statement(depth + 1, i)
        else:
            self.lines.append(f"{space}{place} = 0.5")


def inputs(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    shapes = (SIZE,), (SIZE,), (SIZE,), (SIZE, SIZE)
    return tuple(rng.integers(-8, 9, shape) * 0.25 for shape in shapes)


@pytest.mark.parametrize("seed", range(60))
def test_compiled_loops_give_what_python_gives(seed: int) -> None:
    writer = Writer(seed)
    expected = writer.build(range, f"{seed}")(*inputs(seed))
    program = writer.build(tl.range, f"{seed} compiled")
    found = tl.function(program)(*map(tl.asarray, inputs(seed)))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b, err_msg="\n".join(writer.lines))
