"""What a routine of the library is: an op's work on dense arrays, by a kernel written for it.

A routine is a record of sizes and dtypes. Its kernel's operands are the op's inputs, its output,
and an int64 error cell that is 0 before; where a routine leaves something else there, the op's
NumPy kernel is called to raise what it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, SlotValue
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value


class Routine(Protocol):
    """A piece of work that has a kernel of its own."""

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel, whose functions are named after `name`."""
        ...


def single_launch(
    strategy: str,
    function: KernelFunction,
    numbers: Mapping[str, int],
    operands: Sequence[str],
    *,
    extent: int,
    grain: int = 1,
    work: int = 0,
    scratch_bytes: int = 0,
) -> Kernel:
    """A kernel of one launch; slots are named numbers, operands by their position, or "scratch",
    which is memory for the while."""
    values: list[SlotValue] = []
    for slot in function.slots:
        if slot in numbers:
            values.append(numbers[slot])
        elif slot == "scratch":
            values.append(("scratch", 0, 0))
        else:
            values.append(("operand", operands.index(slot), 0))
    launch = Launch(function, tuple(values), extent, grain, work)
    return Kernel(strategy, (launch,), scratch_bytes)


def each_row(
    f: FunctionBuilder,
    outer: tuple[Value, Value],
    count: Value,
    inner: Value,
    row: Callable[[Value], None],
) -> None:
    """Emits `row` for each row of `count` elements, `inner` apart from each other, of a range of
    outer indices; it is given where the row begins."""

    def turn(o: Value, _: list[Value]) -> list[Value]:
        first = f.mul(o, f.mul(count, inner))

        def lane(k: Value, _: list[Value]) -> list[Value]:
            row(f.add(first, k))
            return []

        return f.loop(ZERO, inner, 1, [], lane)

    f.loop(*outer, 1, [], turn)
