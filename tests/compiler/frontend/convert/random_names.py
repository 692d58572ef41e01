"""Random programs in which names come to mean the same array and part again, as conditions say, and
in which arrays are written in place: what is the same object for Python is so in a trace."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_NAMES = ("a", "b", "c")
_HELPERS = """\
def pick(p, q, n):
    if n > 2:
        return p
    if n == 1:
        q[1] = q[1] + 1
        return q
    return p * 0.5


def bump(p, n):
    if n > 1:
        p = p + 1
    p[0] = p[0] * 0.5
    return p


class Box:
    pass


"""


class NameWriter:
    """Writes one program of three arrays, a number and a list, an object or a dict that hold arrays
    as well."""

    def __init__(self, seed: int, most: int = 4) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._holder = self._random.choice(["", "list", "dict", "object"])
        self._lines = ["def program(a, b, n):", "    c = a", "    i = n * 0"]
        if self._holder == "list":
            self._lines.append("    h = [a, b * 2]")
        elif self._holder == "dict":
            self._lines.append("    h = {'k': a, 'm': b * 2}")
        elif self._holder == "object":
            self._lines += ["    h = Box()", "    h.k = a", "    h.m = b * 2"]
        for _ in range(self._random.randint(2, most)):
            self._statement(3, 1, in_loop=False)
        self._write(1, f"return {', '.join((*_NAMES, *self._held()))}")

    @property
    def source(self) -> str:
        """The text of the program."""
        return _HELPERS + "\n".join(self._lines) + "\n"

    def build(self, name: str) -> Callable[..., Any]:
        """The program as a function whose source can be found."""
        filename = f"<random names {name}>"
        source = self.source
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {"__name__": "random_names"}
        exec(compile(source, filename, "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    def _held(self) -> Sequence[str]:
        held = {"": (), "list": ("h[0]", "h[1]"), "dict": ("h['k']", "h['m']")}
        return held.get(self._holder, ("h.k", "h.m"))

    def _name(self) -> str:
        places = _NAMES if self._random.random() < 0.75 else (*_NAMES, *self._held())
        return self._random.choice(places)

    def _value(self) -> str:
        r = self._random
        kind = r.random()
        if kind < 0.4:
            return self._name()
        if kind < 0.6:
            return f"{self._name()} * {r.choice(['0.5', '1.5'])}"
        if kind < 0.75:
            return f"({self._name()} if {self._condition()} else {self._value()})"
        if kind < 0.85:
            return f"pick({self._name()}, {self._name()}, n)"
        if kind < 0.92:
            return f"bump({self._name()}, n)"
        return f"{self._name()} + {self._name()} * 0.25"

    def _condition(self) -> str:
        r = self._random
        if r.random() < 0.3:
            return f"{r.choice(_NAMES)}[{r.randint(0, 1)}] > {r.randint(0, 3)}"
        return f"{r.choice(['n', 'n', 'i'])} {r.choice(['<', '>', '=='])} {r.randint(0, 3)}"

    def _write(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _block(self, size: int, depth: int, in_loop: bool) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._statement(size, depth, in_loop)

    def _statement(self, size: int, depth: int, in_loop: bool) -> None:
        r = self._random
        kind = r.random()
        if size <= 0 or kind < 0.5:
            self._simple(depth)
        elif kind < 0.7:
            self._write(depth, f"if {self._condition()}:")
            self._block(size - 1, depth + 1, in_loop)
            if r.random() < 0.5:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, in_loop)
        elif kind < 0.78:
            self._write(depth, f"for i in range({r.choice(['2', '3', '70'])}):")
            self._block(size - 1, depth + 1, in_loop=True)
        elif kind < 0.9:
            self._count += 1
            counter = f"w{self._count}"
            self._write(depth, f"{counter} = n * 0")
            self._write(depth, f"while {counter} < n:")
            self._write(depth + 1, f"{counter} = {counter} + 1")
            self._block(size - 1, depth + 1, in_loop=True)
        elif kind < 0.96 and in_loop:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, r.choice(["break", "continue"]))
        elif kind < 0.97:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, f"return {', '.join((*_NAMES, *self._held()))}")
        else:
            self._write(depth, "try:")
            self._block(size - 1, depth + 1, in_loop)
            self._write(depth, "finally:")
            self._simple(depth + 1)

    def _simple(self, depth: int) -> None:
        r = self._random
        kind = r.random()
        name = self._name()
        if kind < 0.35:
            self._write(depth, f"{name} = {self._value()}")
        elif kind < 0.65:
            self._write(depth, f"{name}[{r.randint(0, 2)}] = {r.choice(['n', 'i', '2'])} + 0.5")
        elif kind < 0.75:
            self._write(depth, f"{name} {r.choice(['+=', '*='])} 0.5")
        elif kind < 0.82:
            self._write(depth, f"{name}[1:] += 0.25")
        elif kind < 0.92:
            other = self._name()
            if other != name:
                self._write(depth, f"{name}, {other} = {other}, {name}")
            else:
                self._write(depth, f"{name} = {name} - 0.5")
        else:
            self._write(depth, f"bump({name}, n)")


def check_names(seed: int, most: int = 4) -> None:
    """Raises an error unless the program of a seed gives the same over NumPy, eagerly and
    compiled, and leaves the same in its arguments."""
    import tapeline as tl

    writer = NameWriter(seed, most)
    program = writer.build(str(seed))
    compiled = tl.function(program)
    for n in (0, 1, 2, 3):
        given = [np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5])]
        expected = [*program(*given, n), *given]
        for kind, way in (("eager", program), ("compiled", compiled)):
            tensors = [tl.asarray([1.0, 2.0, 3.0]), tl.asarray([0.5, 1.5, 2.5])]
            found = [*way(*tensors, tl.asarray(n)), *tensors]
            for place, (right, got) in enumerate(zip(expected, found, strict=True)):
                if not np.allclose(got.numpy(), right, rtol=1e-9, atol=1e-9, equal_nan=True):
                    raise AssertionError(
                        f"seed {seed} {kind} n={n}, value {place}: {got.numpy()!r} instead of "
                        f"{right!r}\n{writer.source.removeprefix(_HELPERS)}"
                    )
