"""Random programs over one whole number: nested `if`, `for`, `while`, `try`, `with`, jumps."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

_VARIABLES = "abc"


class Writer:
    """Writes one program.

    Every variable is defined at the start, all values stay small, and every loop ends. `augmented`
    allows `a += 1`, which for a tensor changes whatever else is the same tensor.
    """

    def __init__(self, seed: int, augmented: bool) -> None:
        self._random = random.Random(seed)
        self._augmented = augmented
        self._lines = [
            "def program(x):", "    a = x", "    b = x + 1", "    c = 2",
        ]  # fmt: skip
        self._counters = 0
        self._block(3, 1, in_loop=False)
        self._lines.append("    return a * 1000 + b * 100 + c")

    @property
    def source(self) -> str:
        """The text of the program."""
        return "\n".join(self._lines) + "\n"

    def build(self, name: str) -> Callable[[Any], Any]:
        """The program as a function whose source can be found."""
        filename = f"<random program {name}>"
        source = self.source
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {}
        exec(compile("import contextlib\n", "<random>", "exec"), scope)
        exec(compile(source, filename, "exec"), scope)
        function: Callable[[Any], Any] = scope["program"]
        return function

    def _expression(self) -> str:
        r = self._random
        left, sign = r.choice("abcx"), r.choice("+-*")
        return f"({left} {sign} {r.choice(['1', '2', '3', 'x', 'a', 'b'])}) % 17"

    def _condition(self) -> str:
        r = self._random
        kind = r.random()
        if kind < 0.1:
            return f"{r.randint(-5, 2)} < {r.choice('abc')} <= {r.randint(2, 9)}"
        test = f"{r.choice('abcx')} {r.choice(['<', '>', '=='])} {r.randint(-3, 9)}"
        if kind < 0.3:
            test += f" {r.choice(['and', 'or'])} not {r.choice('abc')} > {r.randint(0, 5)}"
        return test

    def _write(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _block(self, size: int, depth: int, in_loop: bool) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._statement(size, depth, in_loop)

    def _statement(self, size: int, depth: int, in_loop: bool) -> None:
        r = self._random
        kind = r.random()
        name = r.choice(_VARIABLES)
        if size <= 0 or kind < 0.35:
            self._simple(name, depth)
        elif kind < 0.52:
            self._write(depth, f"if {self._condition()}:")
            self._block(size - 1, depth + 1, in_loop)
            if r.random() < 0.6:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, in_loop)
        elif kind < 0.66:
            self._write(depth, f"for i{depth} in range({r.randint(1, 4)}):")
            self._block(size - 1, depth + 1, in_loop=True)
            if r.random() < 0.3:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, in_loop)
        elif kind < 0.76:
            self._while(size, depth)
        elif kind < 0.82:
            self._protected(size, depth, in_loop)
        elif kind < 0.87:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, f"return {self._expression()}")
        elif kind < 0.94 and in_loop:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, r.choice(["break", "continue"]))
        else:
            self._write(depth, f"{name} = {self._expression()} if {self._condition()} else {name}")

    def _simple(self, name: str, depth: int) -> None:
        kind = self._random.random()
        if kind < 0.7:
            self._write(depth, f"{name} = {self._expression()}")
        elif kind < 0.85 and self._augmented:
            self._write(depth, f"{name} += {self._random.randint(1, 3)}")
        else:
            other = self._random.choice(_VARIABLES)
            self._write(depth, f"{name}, {other} = {other}, {self._expression()}")

    def _while(self, size: int, depth: int) -> None:
        self._counters += 1
        counter = f"w{self._counters}"
        self._write(depth, f"{counter} = 0")
        limit = self._random.randint(1, 4)
        self._write(depth, f"while {counter} < {limit} and ({self._condition()}):")
        self._write(depth + 1, f"{counter} = {counter} + 1")
        self._block(size - 1, depth + 1, in_loop=True)

    def _protected(self, size: int, depth: int, in_loop: bool) -> None:
        kind = self._random.random()
        if kind < 0.3:
            self._write(depth, "with contextlib.suppress(ValueError):")
            self._block(size - 1, depth + 1, in_loop)
            return
        self._write(depth, "try:")
        self._block(size - 1, depth + 1, in_loop)
        if kind < 0.6:
            self._write(depth, "finally:")
            self._simple(self._random.choice(_VARIABLES), depth + 1)
            return
        self._write(depth, "except ValueError:")
        self._write(depth + 1, "a = 0")
        if kind < 0.8:
            self._write(depth, "else:")
            self._block(size - 1, depth + 1, in_loop)
