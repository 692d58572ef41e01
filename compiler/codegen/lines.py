"""The text of one function body: blocks, intrinsics, constants and moving lanes about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import (
    Value,
    constant_of,
    splat_constant,
    suffix_of,
    type_of,
)

TypedText = tuple[str, str]
"""An LLVM type (with parameter attributes) and an operand."""


@dataclass(slots=True)
class OpenPhi:
    """A phi that waits for the values of further incoming edges."""

    value: Value
    line: int
    incoming: list[tuple[str, str]]


class Lines:
    """Lines of one function body, with the module parts and the target they are emitted for.

    `current` is the label of the block that is being filled. A phi must name the block in which a
    value was *last* defined, and any operation may start new blocks: read `current` afterwards.
    """

    __slots__ = (
        "_latest", "_numbers", "allocas", "current", "lines", "parts", "relaxed", "target",
    )  # fmt: skip

    def __init__(self, parts: ModuleParts, target: Target, entry: str = "entry") -> None:
        self.parts = parts
        self.target = target
        self.relaxed = False
        """Whether float products and sums that are emitted now may be fused and regrouped."""
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.current = entry
        self._numbers = 0
        self._latest: tuple[Any, Any] = (None, None)

    def body(self) -> str:
        """The function body: stack slots first, then the lines; the entry label is not included."""
        return "\n".join(self.allocas + self.lines) + "\n"

    def emit_op(self, emit: Callable[..., Any], *args: Any) -> Any:
        """What the `emit` of an op of the program gives: of its floats `fastmath` speaks."""
        return self._in_mode(self.target.fastmath, emit, *args)

    def once(self, key: Any, args: tuple[Any, ...], compute: Callable[..., Any]) -> Any:
        """`compute(self, *args)`, or what it gave, where that was the last such thing and this is
        still the block in which it ended."""
        known, result = self._latest
        if known != (key, args, self.current, self.relaxed):
            result = compute(self, *args)
            self._latest = ((key, args, self.current, self.relaxed), result)
        return result

    def emit_exactly(self, emit: Callable[..., Any], *args: Any) -> Any:
        """What a function emits whose every rounding counts."""
        return self._in_mode(False, emit, *args)

    def _in_mode(self, relaxed: bool, emit: Callable[..., Any], *args: Any) -> Any:
        before, self.relaxed = self.relaxed, relaxed
        try:
            return emit(self, *args)
        finally:
            self.relaxed = before

    # ---- text

    def new_name(self) -> str:
        """A register name that is still free."""
        self._numbers += 1
        return f"%v{self._numbers}"

    def line(self, text: str) -> None:
        """Adds an instruction without a result."""
        self.lines.append("  " + text)

    def assign(self, instruction: str) -> str:
        """Adds an instruction and returns the register with its result."""
        name = self.new_name()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def value(self, instruction: str, code: str, lanes: int) -> Value:
        """Adds an instruction with a typed result."""
        return Value(self.assign(instruction), code, lanes)

    def stack(self, type_text: str, count: int = 1, align: int = 64) -> str:
        """A pointer to memory that lives as long as the function; made once, on entry."""
        name = self.new_name()
        self.allocas.append(f"  {name} = alloca {type_text}, i64 {count}, align {align}")
        return name

    def raw_call(self, result: str, function: str, *arguments: TypedText, declare: bool) -> str:
        """The text of a call; the function is declared in the module if asked."""
        if declare:
            types = ", ".join(kind for kind, _ in arguments)
            self.parts.declare(f"declare {result} @{function}({types})")
        texts = ", ".join(f"{kind} {text}" for kind, text in arguments)
        return f"call {result} @{function}({texts})"

    def intrinsic(self, name: str, *operands: Value, code: str = "", lanes: int = 0) -> Value:
        """Calls `llvm.<name>.<type>` for the first operand's type; the result has that type too,
        unless given."""
        first = operands[0]
        code, lanes = code or first.code, lanes or first.lanes
        function = f"llvm.{name}.{suffix_of(first.code, first.lanes)}"
        arguments = ((x.type, x.name) for x in operands)
        text = self.raw_call(type_of(code, lanes), function, *arguments, declare=True)
        return self.value(text, code, lanes)

    # ---- blocks

    def new_label(self, hint: str = "b") -> str:
        """A block label that is still free."""
        self._numbers += 1
        return f"{hint}{self._numbers}"

    def start_block(self, label: str) -> None:
        """Begins a block; the block before it must have ended with a branch."""
        self.lines.append(label + ":")
        self.current = label

    def branch(self, label: str) -> None:
        """Ends the block with a jump."""
        self.line(f"br label %{label}")

    def branch_if(
        self, condition: Value, then: str, otherwise: str, *, unlikely: bool = False
    ) -> None:
        """Ends the block with a jump to `then` where the scalar condition holds, else to
        `otherwise`."""
        weights = ', !prof !{!"branch_weights", i32 1, i32 2000}' if unlikely else ""
        self.line(f"br {condition.operand}, label %{then}, label %{otherwise}{weights}")

    def phi(self, *incoming: tuple[Value, str]) -> Value:
        """The value that came along the edge taken; (value, block it comes from) per edge."""
        first = incoming[0][0]
        edges = ", ".join(f"[ {x.name}, %{block} ]" for x, block in incoming)
        return self.value(f"phi {first.type} {edges}", first.code, first.lanes)

    def open_phi(self, initial: Value, block: str) -> OpenPhi:
        """A phi at the head of a loop, to be completed by `close_phi` when the loop's end is
        known."""
        name = self.new_name()
        self.lines.append("")
        value = initial._replace(name=name)
        return OpenPhi(value, len(self.lines) - 1, [(initial.name, block)])

    def close_phi(self, phi: OpenPhi, *incoming: tuple[Value, str]) -> None:
        """Adds the remaining edges of a phi and writes it."""
        phi.incoming.extend((x.name, block) for x, block in incoming)
        edges = ", ".join(f"[ {name}, %{block} ]" for name, block in phi.incoming)
        self.lines[phi.line] = f"  {phi.value.name} = phi {phi.value.type} {edges}"

    def any_lane(self, condition: Value) -> Value:
        """A scalar bool: whether some lane of a bool holds."""
        if condition.lanes == 1:
            return condition
        word = f"i{condition.lanes}"
        bits = self.assign(f"bitcast {condition.operand} to {word}")
        return self.value(f"icmp ne {word} {bits}, 0", "b1", 1)

    def rare(
        self,
        condition: Value,
        fallback: Callable[..., Iterable[Value]],
        values: Sequence[Value],
    ) -> list[Value]:
        """`values`, unless some lane of `condition` holds: then `fallback(*values)`, which must
        itself keep the values of the lanes that do not need it."""
        slow, join = self.new_label("rare"), self.new_label("join")
        before = self.current
        self.branch_if(self.any_lane(condition), slow, join, unlikely=True)
        self.start_block(slow)
        replaced = list(fallback(*values))
        after = self.current
        self.branch(join)
        self.start_block(join)
        return [
            self.phi((old, before), (new, after)) for old, new in zip(values, replaced, strict=True)
        ]

    # ---- constants and lanes

    def fixed(self, value: Any, code: str, lanes: int = 1) -> Value:
        """A constant of a dtype code."""
        return constant_of(value, code, lanes)

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane; a value that has so many lanes already is returned as it is."""
        if x.lanes == lanes:
            return x
        if x.lanes != 1:
            raise ValueError(f"a value of {x.lanes} lanes cannot have {lanes} lanes")
        if x.is_constant:
            return splat_constant(x, lanes)
        kind = type_of(x.code, lanes)
        first = self.assign(f"insertelement {kind} poison, {x.operand}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {first}, {kind} poison, {zeros}", x.code, lanes)

    def align_lanes(self, *values: Value) -> tuple[Value, ...]:
        """The values with equally many lanes each."""
        lanes = max([x.lanes for x in values])
        return tuple([x if x.lanes == lanes else self.splat(x, lanes) for x in values])

    def iota(self, code: str, lanes: int) -> Value:
        """The lane numbers 0, 1, 2, ..."""
        if lanes == 1:
            return constant_of(0, code)
        items = ", ".join(constant_of(i, code).operand for i in range(lanes))
        return Value(f"<{items}>", code, lanes)

    def vector_constant(self, values: Sequence[Any], code: str) -> Value:
        """A constant with its own value in each lane."""
        if len(values) == 1:
            return constant_of(values[0], code)
        items = ", ".join(constant_of(v, code).operand for v in values)
        return Value(f"<{items}>", code, len(values))

    def shuffle(self, a: Value, b: Value | None, picks: Iterable[int]) -> Value:
        """Lanes of `a` (0 .. lanes-1) and `b` (lanes .. 2*lanes-1) in the order of `picks`; -1 is
        a lane with any value. Operands and result may be scalars."""
        numbers = list(picks)
        if len(numbers) == 1:
            number = numbers[0]
            source = a if number < a.lanes or b is None else b
            return self.lane(source, max(number, 0) % a.lanes)
        if a.lanes == 1:
            a = self.insert_lane(Value("poison", a.code, 2), a, 0)
            b = None if b is None else self.insert_lane(Value("poison", b.code, 2), b, 0)
            numbers = [2 * number if number > 0 else number for number in numbers]
        other = "poison" if b is None else b.name
        mask = ", ".join("i32 poison" if number < 0 else f"i32 {number}" for number in numbers)
        text = f"shufflevector {a.operand}, {a.type} {other}, <{len(numbers)} x i32> <{mask}>"
        return self.value(text, a.code, len(numbers))

    def reverse(self, x: Value) -> Value:
        """The lanes in reverse order."""
        return x if x.lanes == 1 else self.shuffle(x, None, range(x.lanes - 1, -1, -1))

    def lane(self, x: Value, index: int | Value) -> Value:
        """One lane as a scalar."""
        if x.lanes == 1:
            return x
        place = index.operand if isinstance(index, Value) else f"i64 {index}"
        return self.value(f"extractelement {x.operand}, {place}", x.code, 1)

    def insert_lane(self, x: Value, scalar: Value, index: int | Value) -> Value:
        """`x` with one lane replaced."""
        if x.lanes == 1:
            return scalar
        place = index.operand if isinstance(index, Value) else f"i64 {index}"
        text = f"insertelement {x.operand}, {scalar.operand}, {place}"
        return self.value(text, x.code, x.lanes)

    def concatenate(self, a: Value, b: Value) -> Value:
        """The lanes of `a`, then the lanes of `b` (as many)."""
        return self.shuffle(a, b, range(2 * a.lanes))

    def pointer_offset(self, pointer: str, offset: int | Value) -> str:
        """`pointer` moved by bytes; a vector of offsets gives a vector of pointers."""
        if isinstance(offset, int):
            return (
                pointer
                if offset == 0
                else self.assign(f"getelementptr i8, ptr {pointer}, i64 {offset}")
            )
        return self.assign(f"getelementptr i8, ptr {pointer}, {offset.operand}")

    def table(self, key: str, values: tuple[Any, ...], code: str) -> str:
        """A pointer to a constant array, 64-byte aligned, that the module holds once."""
        name = f"@{key}"
        self.parts.define(name, _table_text(name, values, code))
        return name


@cache
def _table_text(name: str, values: tuple[Any, ...], code: str) -> str:
    items = ", ".join(constant_of(v, code).operand for v in values)
    array = f"[{len(values)} x {type_of(code)}] [{items}]"
    return f"{name} = private unnamed_addr constant {array}, align 64"
