"""Random bits: Philox 4x64 with ten rounds, block by block, as NumPy's generator gives them.

See Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value

ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_BLOCK = 4
_GRAIN = 64


@dataclass(frozen=True, slots=True)
class RandomBits:
    """`count` words of the stream that belongs to a key and a counter."""

    count: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of blocks."""
        f = FunctionBuilder(target)
        key, counter, result = (f.pointer_slot(s) for s in ("key", "counter", "result"))
        keys = [f.load(f.element(key, "u8", Index(ZERO, i)), "u8") for i in range(2)]
        start = [f.load(f.element(counter, "u8", Index(ZERO, i)), "u8") for i in range(4)]

        def block(number: Value, _: list[Value]) -> list[Value]:
            words = _rounds(f, keys, _advanced(f, start, f.add(number, ONE)))
            vector = Value("poison", "u8", _BLOCK)
            for lane, word in enumerate(words):
                vector = f.insert_lane(vector, word, lane)
            first = f.mul(number, f.fixed(_BLOCK, "i8"))
            mask = f.mask_first(f.sub(f.slot("count"), first), _BLOCK)
            f.store(vector, f.element(result, "u8", Index(first)), mask=mask)
            return []

        f.loop(f.low, f.high, 1, [], block)
        function = f.finish(name, ("random_bits", target))
        return single_launch(
            "philox", function, {"count": self.count}, ["key", "counter", "result"],
            extent=-(-self.count // _BLOCK), grain=_GRAIN, work=self.count * 16,
        )  # fmt: skip


def _advanced(f: FunctionBuilder, counter: list[Value], steps: Value) -> list[Value]:
    """The counter, one number of four words, so many steps later."""
    amount = steps._replace(code="u8")
    moved = []
    for word in counter:
        total = f.add(word, amount)
        moved.append(total)
        amount = f.cast_code(f.compare("lt", total, amount), "u8")
    return moved


def _rounds(f: FunctionBuilder, keys: list[Value], words: list[Value]) -> list[Value]:
    """The block of random words that a counter stands for."""
    first, second = keys
    a, b, c, d = words
    for number in range(ROUNDS):
        if number:
            first = f.add(first, f.fixed(KEY_STEPS[0], "u8"))
            second = f.add(second, f.fixed(KEY_STEPS[1], "u8"))
        high_a, low_a = _product(f, a, MULTIPLIERS[0])
        high_c, low_c = _product(f, c, MULTIPLIERS[1])
        a, b = f.bit_xor(f.bit_xor(high_c, b), first), low_c
        c, d = f.bit_xor(f.bit_xor(high_a, d), second), low_a
    return [a, b, c, d]


def _product(f: FunctionBuilder, x: Value, multiplier: int) -> tuple[Value, Value]:
    """The high and the low word of a product."""
    wide = f.assign(f"zext i64 {x.name} to i128")
    product = f.assign(f"mul i128 {wide}, {multiplier}")
    shifted = f.assign(f"lshr i128 {product}, 64")
    high = f.value(f"trunc i128 {shifted} to i64", "u8", 1)
    return high, f.value(f"trunc i128 {product} to i64", "u8", 1)
