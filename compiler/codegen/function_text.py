"""Writes the text of one LLVM function: numbered temporaries, loops with carried values, branches.

Integers are i64 unless a type is said. Values are the text LLVM calls them by (`%t7`, `0`, `null`),
so a Python int may stand wherever a value may. Knows nothing of arrays, kernels or Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Value: TypeAlias = str | int
Carried: TypeAlias = Sequence[tuple[str, Value]]
"""Type and first value of each value that a loop carries."""


class FunctionText:
    """A function being written, block after block; `finish` gives its text.

    Parameters
    ----------
    header : str
        What stands between `define` and the brace, such as `void @f(ptr %A) nounwind`.
    """

    def __init__(self, header: str) -> None:
        self.header = header
        self.declarations: set[str] = set()
        self.block = "entry"
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def finish(self, result: str = "void") -> str:
        """The function's text, ended by a return of `result` (`void`, or a type and a value)."""
        self.line(f"ret {result}")
        return self.text()

    def text(self) -> str:
        """The function's text; the last block must have been ended."""
        body = "\n".join(self._allocas + self._lines)
        return f"define {self.header} {{\nentry:\n{body}\n}}\n"

    # -- lines and values

    def number(self) -> int:
        """A number not used before in this function."""
        self._count += 1
        return self._count

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append("  " + text)

    def value(self, text: str) -> str:
        """An instruction's result."""
        name = f"%t{self.number()}"
        self._lines.append(f"  {name} = {text}")
        return name

    def alloca(self, size: int, align: int = 64) -> str:
        """Stack memory of constant size, taken once however often the place is passed."""
        name = f"%t{self.number()}"
        self._allocas.append(f"  {name} = alloca [{size} x i8], align {align}")
        return name

    def declare(self, declaration: str) -> None:
        """Asks the module for this declaration."""
        self.declarations.add(declaration)

    def call(self, result: str, name: str, *args: tuple[str, Value]) -> str:
        """A call of a declared function (declared here too); the result, or "" for void."""
        types = ", ".join(type_ for type_, _ in args)
        self.declare(f"declare {result} @{name}({types})")
        return self.call_defined(result, f"@{name}", *args)

    def call_defined(self, result: str, callee: str, *args: tuple[str, Value]) -> str:
        """A call through a name or pointer that needs no declaration."""
        given = ", ".join(f"{type_} {value}" for type_, value in args)
        if result == "void":
            self.line(f"call void {callee}({given})")
            return ""
        return self.value(f"call {result} {callee}({given})")

    # -- i64 arithmetic

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if b == 0:
            return a
        return self.value(f"add i64 {a}, {b}")

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.value(f"sub i64 {a}, {b}")

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.value(f"mul i64 {a}, {b}")

    def min(self, a: Value, b: Value) -> str:
        """The smaller of two signed integers."""
        return self.call("i64", "llvm.smin.i64", ("i64", a), ("i64", b))

    def max(self, a: Value, b: Value) -> str:
        """The larger of two signed integers."""
        return self.call("i64", "llvm.smax.i64", ("i64", a), ("i64", b))

    def compare(self, predicate: str, a: Value, b: Value, type_: str = "i64") -> str:
        """An i1."""
        return self.value(f"icmp {predicate} {type_} {a}, {b}")

    def select(self, condition: str, a: Value, b: Value, type_: str = "i64") -> str:
        """a where the condition holds, else b."""
        return self.value(f"select i1 {condition}, {type_} {a}, {type_} {b}")

    # -- memory

    def offset(self, pointer: str, amount: Value) -> str:
        """The pointer moved by a number of bytes."""
        if amount == 0:
            return pointer
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {amount}")

    def load(self, type_: str, pointer: str, align: int = 8) -> str:
        """The value at the pointer."""
        return self.value(f"load {type_}, ptr {pointer}, align {align}")

    def store(self, type_: str, value: Value, pointer: str, align: int = 8) -> None:
        """Stores a value."""
        self.line(f"store {type_} {value}, ptr {pointer}, align {align}")

    # -- control

    def label(self, name: str) -> None:
        """Begins a block."""
        self._lines.append(f"{name}:")
        self.block = name

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Ends the block by a choice of two labels."""
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def jump(self, target: str) -> None:
        """Ends the block by going to a label."""
        self.line(f"br label %{target}")

    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value,
        body: Callable[[str, list[str]], Sequence[Value] | None],
        carried: Carried = (),
    ) -> list[str]:
        """`for i in range(start, stop, step): carried = body(i, carried)`; the last carried.

        The increment is hidden behind `llvm.expect`: strength reduction of the addresses would
        cost more compile time than it gains.
        """
        number = self.number()
        head, inside, latch, done = (
            f"{part}{number}" for part in ("head", "body", "latch", "done")
        )
        index, following = f"%i{number}", f"%n{number}"
        before = self.block
        names = [f"%c{number}_{position}" for position in range(len(carried))]
        self.jump(head)
        self.label(head)
        at = len(self._lines)
        self.branch(self.compare("slt", index, stop), inside, done)
        self.label(inside)
        results = list(body(index, names) or ())
        self.jump(latch)
        self.label(latch)
        advanced = self.value(f"add nsw i64 {index}, {step}")
        self.declare("declare i64 @llvm.expect.i64(i64, i64)")
        self.line(f"{following} = call i64 @llvm.expect.i64(i64 {advanced}, i64 0)")
        self.jump(head)
        phis = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"]
        for name, (type_, first), result in zip(names, carried, results, strict=True):
            phis.append(f"  {name} = phi {type_} [ {first}, %{before} ], [ {result}, %{latch} ]")
        self._lines[at:at] = phis
        self.label(done)
        return names

    def when(
        self,
        condition: str,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """`if condition: then() else: otherwise()`."""
        number = self.number()
        last = f"end{number}"
        self.branch(condition, f"then{number}", f"else{number}" if otherwise else last)
        self.label(f"then{number}")
        then()
        self.jump(last)
        if otherwise:
            self.label(f"else{number}")
            otherwise()
            self.jump(last)
        self.label(last)
