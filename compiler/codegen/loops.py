"""Kernel functions: slots for what is known at run time, counted loops, and vector loops.

A kernel is `void name(ptr A, i64 lo, i64 hi)`, where A is an array of int64 slots: pointers,
extents, strides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.nest import KernelFunction
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, constant_of, type_of


def int64(number: int) -> Value:
    """An int64 constant."""
    return constant_of(number, "i8")


ZERO = int64(0)
ONE = int64(1)


MANY_LINES = 100
"""A function of more lines may run out of registers. It then keeps vectors on the stack, which must
be aligned to them: a vector that lies across two cache lines takes twice as long."""


class Index(NamedTuple):
    """A loop counter plus a constant, kept apart so that addresses fold the constant."""

    base: Value
    extra: int = 0


LoopBody = Callable[[Value, list[Value]], Sequence[Value]]
VectorBody = Callable[[Index, Value | None, int, list[Value]], Sequence[Value]]


class FunctionBuilder(Builder):
    """Emits the body of one kernel function."""

    __slots__ = ("_pointers", "_slots")

    def __init__(self, target: Target) -> None:
        super().__init__(ModuleParts(), target)
        self._slots: dict[str, int] = {}
        self._pointers: set[str] = set()

    # ---- what is known at run time

    @property
    def low(self) -> Value:
        """Where the chunk begins."""
        return Value("%lo", "i8", 1)

    @property
    def high(self) -> Value:
        """Where the chunk ends."""
        return Value("%hi", "i8", 1)

    def slot(self, name: str) -> Value:
        """An int64 of the slot array, loaded once on entry."""
        number = self._slots.setdefault(name, len(self._slots))
        return Value(f"%slot{number}", "i8", 1)

    def pointer_slot(self, name: str) -> str:
        """A pointer of the slot array."""
        self._pointers.add(name)
        return f"%pointer{self._slots.setdefault(name, len(self._slots))}"

    def finish(self, name: str, key: Hashable) -> KernelFunction:
        """The function with everything emitted so far as its body."""
        head = []
        for slot, number in self._slots.items():
            head.append(f"  %place{number} = getelementptr i64, ptr %A, i64 {number}")
            kind, register = ("ptr", "pointer") if slot in self._pointers else ("i64", "slot")
            head.append(f"  %{register}{number} = load {kind}, ptr %place{number}, align 8")
        width = 8 * self.target.vector_bytes
        aligned = '"stackrealign" ' if len(self.lines) > MANY_LINES else ""
        text = "\n".join(
            [
                f"define void @{name}(ptr noalias %A, i64 %lo, i64 %hi) nounwind "
                f'{aligned}"prefer-vector-width"="{width}" {{',
                "entry:",
                *self.allocas,
                *head,
                *self.lines,
                "  ret void",
                "}",
                "",
            ]
        )
        declarations, definitions = self.parts.frozen()
        return KernelFunction(key, name, text, declarations, tuple(self._slots), definitions)

    # ---- addresses

    def element(self, pointer: str, code: str, index: Index) -> str:
        """The address of the element at an index of a dense array."""
        if code == "b1":
            code = "u1"
        moved = pointer
        if index.base != ZERO:
            moved = self.assign(
                f"getelementptr {type_of(code)}, ptr {pointer}, i64 {index.base.name}"
            )
        return self.pointer_offset(moved, index.extra * int(code[1:]))

    def moved(self, pointer: str, count: Value, stride: Value) -> str:
        """A pointer moved by `count` times `stride` bytes."""
        return self.pointer_offset(pointer, self.mul(count, stride))

    def at(self, index: Index) -> Value:
        """The value of an index."""
        return self.add(index.base, int64(index.extra)) if index.extra else index.base

    # ---- loops

    def loop(
        self, start: Value, stop: Value, step: int, carry: Sequence[Value], body: LoopBody
    ) -> list[Value]:
        """`for i in range(start, stop, step): carry = body(i, carry)`; returns the last carry."""
        before, head, after = self.current, self.new_label("loop"), self.new_label("done")
        self.branch_if(self.compare("lt", start, stop), head, after)
        self.start_block(head)
        counter = self.open_phi(start, before)
        phis = [self.open_phi(x, before) for x in carry]
        ends = list(body(counter.value, [phi.value for phi in phis]))
        following = self.hidden(self.value(f"add nsw i64 {counter.value.name}, {step}", "i8", 1))
        latch = self.current
        self.close_phi(counter, (following, latch))
        for phi, end in zip(phis, ends, strict=True):
            self.close_phi(phi, (end, latch))
        self.branch_if(self.compare("lt", following, stop), head, after)
        self.start_block(after)
        return [
            self.phi((first, before), (last, latch))
            for first, last in zip(carry, ends, strict=True)
        ]

    def hidden(self, x: Value) -> Value:
        """The same int64, but opaque to loop strength reduction, which only costs compile time."""
        function = "llvm.expect.i64"
        call = self.raw_call("i64", function, ("i64", x.name), ("i64", "0"), declare=True)
        return self.value(call, "i8", 1)

    def vector_loop(
        self,
        start: Value,
        stop: Value,
        lanes: int,
        unroll: int,
        carry: Sequence[Value],
        body: VectorBody,
        exact: bool = False,
    ) -> list[Value]:
        """Runs over a range with vectors: `carry = body(index, mask, group, carry)`.

        Full vectors, `unroll` (their number is the group) per turn, then one masked loop for the
        rest as group 0. With an unroll of 0 there is only the masked loop. An `exact` range is a
        multiple of a turn's vectors: there is no masked loop then.
        """

        def masked(i: Value, values: list[Value]) -> Sequence[Value]:
            mask = self.mask_first(self.sub(stop, i), lanes)
            return body(Index(i), mask, 0, values)

        if unroll == 0 and not exact:
            return self.loop(start, stop, lanes, carry, masked)

        def main(i: Value, values: list[Value]) -> Sequence[Value]:
            for group in range(max(unroll, 1)):
                values = list(body(Index(i, group * lanes), None, group, values))
            return values

        if exact:
            return self.loop(start, stop, lanes * max(unroll, 1), carry, main)
        whole = self.bit_and(self.sub(stop, start), int64(-lanes * unroll))
        middle = self.add(start, whole)
        carry = self.loop(start, middle, lanes * unroll, carry, main)
        return self.loop(middle, stop, lanes, carry, masked)

    def when(self, condition: Value, body: Callable[[], None]) -> None:
        """Runs `body` where a scalar condition holds."""
        then, after = self.new_label("then"), self.new_label("after")
        self.branch_if(condition, then, after)
        self.start_block(then)
        body()
        self.branch(after)
        self.start_block(after)
