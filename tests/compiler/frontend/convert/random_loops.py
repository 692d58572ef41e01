"""Random programs over whole numbers, floats and small arrays: nested control flow, elements that
are read and written, jumps out of loops. They mean the same over NumPy and over tensors."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 4
"""Elements of the arrays."""
_INTS, _FLOATS, _ARRAYS = "ab", "pq", "vw"
_RETURN = "return a, b, p, q, v, w"


class LoopWriter:
    """Writes one program of a whole number, a float and an array, which uses nothing but exact
    operations: all ways to run it must agree to the last bit."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines = [
            "def program(n, x, y):",
            "    a = n % 5",
            "    b = n + 1",
            "    p = x * 0.5",
            "    q = x - 1.0",
            "    v = y * 1.0",
            "    w = y + x",
        ]
        self._counters = 0
        self._indices: list[str] = []
        self._block(3, 1, in_loop=False)
        self._write(1, _RETURN)

    @property
    def source(self) -> str:
        """The text of the program."""
        return "\n".join(self._lines) + "\n"

    def build(self, name: str, loop_range: Callable[..., Any]) -> Callable[..., Any]:
        """The program as a function whose source can be found."""
        filename = f"<random loops {name}>"
        source = self.source
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {"loop_range": loop_range}
        exec(compile(source, filename, "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    def _write(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _int(self) -> str:
        r = self._random
        names = [*_INTS, *self._indices]
        return f"({r.choice(names)} {r.choice('+-*')} {r.choice([*names, '1', '2', '3'])}) % 13"

    def _index(self) -> str:
        r = self._random
        if r.random() < 0.3:
            return str(r.randrange(SIZE))
        return f"({r.choice([*_INTS, *self._indices])} + {r.randrange(4)}) % {SIZE}"

    def _float(self) -> str:
        r = self._random
        kind = r.random()
        one, other = r.choice(_FLOATS), r.choice(_FLOATS)
        element = f"{r.choice(_ARRAYS)}[{self._index()}]"
        if kind < 0.3:
            return f"{one} * 0.5 - {element} * 0.25"
        if kind < 0.5:
            return f"abs({element}) - {other} * 0.5"
        if kind < 0.65:
            return f"max({one}, {element}) - 0.5"
        if kind < 0.8:
            return f"{one} * 0.25 + {self._int()} * 0.125"
        return f"{one} if {self._condition()} else {element}"

    def _array(self) -> str:
        r = self._random
        one, other = r.choice(_ARRAYS), r.choice(_ARRAYS)
        if r.random() < 0.5:
            return f"{one} * 0.5 + {r.choice(_FLOATS)} * 0.25"
        return f"({one} + {other}) * 0.5"

    def _condition(self) -> str:
        r = self._random
        kind = r.random()
        if kind < 0.4:
            left, test = r.choice([*_INTS, *self._indices]), r.choice(["<", ">=", "=="])
            return f"{left} {test} {r.randint(0, 8)}"
        if kind < 0.7:
            return f"{r.choice(_FLOATS)} > {r.choice(_ARRAYS)}[{self._index()}]"
        if kind < 0.85:
            return f"{r.choice(_FLOATS)} < 0.5 and {r.choice(_INTS)} > {r.randint(0, 5)}"
        return f"-1.0 < {r.choice(_FLOATS)} <= {r.choice(_FLOATS)} or not {r.choice(_INTS)} > 3"

    def _block(self, size: int, depth: int, in_loop: bool) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._statement(size, depth, in_loop)

    def _statement(self, size: int, depth: int, in_loop: bool) -> None:
        r = self._random
        kind = r.random()
        if size <= 0 or kind < 0.4:
            self._simple(depth)
        elif kind < 0.47:
            self._match(size, depth, in_loop)
        elif kind < 0.55:
            self._write(depth, f"if {self._condition()}:")
            self._block(size - 1, depth + 1, in_loop)
            if r.random() < 0.6:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, in_loop)
        elif kind < 0.75:
            self._for(size, depth)
            if r.random() < 0.2:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, in_loop)
        elif kind < 0.85:
            self._while(size, depth)
        elif kind < 0.9:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, _RETURN)
        elif in_loop:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, r.choice(["break", "continue"]))
        else:
            self._simple(depth)

    def _simple(self, depth: int) -> None:
        r = self._random
        kind = r.random()
        if kind < 0.25:
            self._write(depth, f"{r.choice(_INTS)} = {self._int()}")
        elif kind < 0.55:
            self._write(depth, f"{r.choice(_FLOATS)} = {self._float()}")
        elif kind < 0.8:
            self._write(depth, f"{r.choice(_ARRAYS)}[{self._index()}] = {self._float()}")
        elif kind < 0.9:
            self._write(depth, f"{r.choice(_ARRAYS)}[1:3] = {r.choice(_FLOATS)}")
        else:
            self._write(depth, f"{r.choice(_ARRAYS)} = {self._array()}")

    def _match(self, size: int, depth: int, in_loop: bool) -> None:
        r = self._random
        names = [*_INTS, *self._indices]
        guard = f" if {self._condition()}" if r.random() < 0.5 else ""
        if r.random() < 0.5:
            self._write(depth, f"match {self._int()}:")
            cases = [
                f"case {r.randint(0, 3)} | {r.randint(4, 9)}{guard}:",
                f"case {r.choice('03')}:",
            ]
        else:
            self._write(depth, f"match ({r.choice(names)} % 3, {r.choice(names)} % 2):")
            cases = [f"case (m{depth}, {r.randint(0, 1)}){guard}:", f"case ({r.randint(0, 2)}, _):"]
        for case in [*cases, "case _:"][: r.randint(1, 3)]:
            self._write(depth + 1, case)
            self._block(size - 1, depth + 2, in_loop)

    def _for(self, size: int, depth: int) -> None:
        r = self._random
        index = f"i{depth}"
        kind = r.random()
        if kind < 0.25:
            head = f"for {index} in range({r.randint(1, 3)}):"
        elif kind < 0.5:
            head = f"for {index} in loop_range({r.randint(1, 5)}):"
        elif kind < 0.75:
            head = f"for {index} in loop_range(n % {r.randint(2, 5)}):"
        else:
            head = f"for {index}, e{depth} in enumerate({r.choice(_ARRAYS)} * 1.0):"
        self._write(depth, head)
        if kind >= 0.75:
            self._write(depth + 1, f"{r.choice(_FLOATS)} = e{depth} * 0.5 - 0.25")
        self._indices.append(index)
        self._block(size - 1, depth + 1, in_loop=True)
        self._indices.pop()

    def _while(self, size: int, depth: int) -> None:
        self._counters += 1
        counter = f"k{self._counters}"
        self._write(depth, f"{counter} = 0")
        limit = self._random.randint(1, 4)
        self._write(depth, f"while {counter} < {limit} and ({self._condition()}):")
        self._write(depth + 1, f"{counter} = {counter} + 1")
        self._indices.append(counter)
        self._block(size - 1, depth + 1, in_loop=True)
        self._indices.pop()


def inputs_of(seed: int) -> list[tuple[int, float, np.ndarray[Any, Any]]]:
    """A few arguments for the program of a seed."""
    rng = np.random.default_rng(seed)
    return [
        (int(rng.integers(0, 9)), round(float(rng.normal()), 2), np.round(rng.normal(size=SIZE), 2))
        for _ in range(3)
    ]


def check_loops(seed: int) -> None:
    """Raises an error unless the program of a seed gives the same over NumPy, eagerly and
    compiled."""
    import tapeline as tl

    writer = LoopWriter(seed)
    plain = writer.build(f"{seed} plain", range)
    staged = writer.build(f"{seed}", tl.range)
    compiled = tl.function(staged)
    for n, x, y in inputs_of(seed):
        expected = [np.asarray(part) for part in plain(n, np.float64(x), y)]
        for way in (staged, compiled):
            found = way(tl.asarray(n), tl.asarray(x), tl.asarray(y))
            for name, part, right in zip("abpqvw", found, expected, strict=True):
                got = tl.asarray(part).numpy()
                same = got.shape == right.shape and np.array_equal(got, right)
                kind = "compiled" if way is compiled else "eager"
                assert same, f"{name} {kind} {got} {right} n={n} x={x} y={y}\n{writer.source}"
