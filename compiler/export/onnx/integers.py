"""ONNX rules of ops that compute with the bits of integers: powers and random numbers."""

from __future__ import annotations

import numpy as np

from tapeline.compiler.codegen import philox
from tapeline.compiler.export.onnx.model import INT64, OnnxGraph, Ref
from tapeline.compiler.export.onnx.rules import NamedRule, Use, spread
from tapeline.compiler.export.onnx.scalar import BOOL, OnnxScalars
from tapeline.runtime.spec import TensorSpec


def _integer_power(use: Use) -> Ref:
    """By squaring, bit by bit of the exponent, in a loop of one turn per bit."""
    graph, dtype = use.graph, use.dtype
    base, exponent = (spread(use, x, use.shape) for x in use.inputs)
    body = OnnxGraph(graph)
    scalars = OnnxScalars(body)
    specs = [TensorSpec((), INT64), TensorSpec((), BOOL), *[use.outputs[0]] * 3]
    names = ("turn", "going", "base", "exponent", "power")
    given = [Ref(body.name(n), s.dtype) for n, s in zip(names, specs, strict=True)]
    _, going, x, left, power = given
    one = scalars.const(1, x)
    is_odd = scalars.cast(scalars.bit_and(left, one), BOOL)
    found = [
        body.add("Identity", going), scalars.mul(x, x), scalars.shift_right(left, one),
        scalars.select(is_odd, scalars.mul(power, x), power),
    ]  # fmt: skip
    attribute = body.body(
        graph.name("body"), list(zip(given, specs, strict=True)),
        list(zip(found, specs[1:], strict=True)),
    )  # fmt: skip
    turns = graph.constant(np.int64(8 * dtype.itemsize))
    start = spread(use, graph.constant(np.ones((), dtype)), use.shape)
    state = [turns, graph.constant(np.array(True)), base, exponent, start]
    return graph.add_many("Loop", state, [dtype] * 3, body=attribute)[2]


def _random_bits(use: Use) -> Ref:
    """Philox 4x64 with ten rounds, all blocks side by side."""
    count = use.outputs[0].size
    graph, b = use.graph, use.scalars
    if not count:
        return graph.constant(np.zeros(use.shape, np.uint64))
    key, counter = use.inputs

    def word(source: Ref, place: int) -> Ref:
        return graph.add("Gather", source, graph.constant(np.int64(place)), axis=0)

    amount = graph.constant(np.arange(1, -(-count // 4) + 1, dtype=np.uint64))
    words = []
    for place in range(4):
        total = b.add(word(counter, place), amount)
        words.append(total)
        amount = b.cast(b.compare("lt", total, amount), total.dtype)
    keys = [word(key, 0), word(key, 1)]
    for number in range(philox.ROUNDS):
        if number:
            keys = [b.add(k, b.const(s, k)) for k, s in zip(keys, philox.KEY_STEPS, strict=True)]
        (high_a, low_a), (high_c, low_c) = (
            _wide_product(b, words[place], factor)
            for place, factor in zip((0, 2), philox.MULTIPLIERS, strict=True)
        )
        words = [
            b.bit_xor(b.bit_xor(high_c, words[1]), keys[0]), low_c,
            b.bit_xor(b.bit_xor(high_a, words[3]), keys[1]), low_a,
        ]  # fmt: skip
    columns = [graph.reshape(one, (-1, 1)) for one in words]
    row = graph.reshape(graph.add("Concat", *columns, axis=1), (-1,))
    first = graph.add("Slice", row, graph.ints([0]), graph.ints([count]))
    return graph.reshape(first, use.shape)


def _wide_product(b: OnnxScalars, x: Ref, factor: int) -> tuple[Ref, Ref]:
    """The high and the low word of a product of 64-bit words, by halves."""
    half, mask = b.const(32, x), b.const(2**32 - 1, x)
    low, high = b.bit_and(x, mask), b.shift_right(x, half)
    f_low, f_high = b.const(factor & (2**32 - 1), x), b.const(factor >> 32, x)
    low_low, high_low = b.mul(low, f_low), b.mul(high, f_low)
    low_high, high_high = b.mul(low, f_high), b.mul(high, f_high)
    middle = b.add(b.add(b.shift_right(low_low, half), b.bit_and(high_low, mask)), low_high)
    top = b.add(b.add(high_high, b.shift_right(high_low, half)), b.shift_right(middle, half))
    return top, b.mul(x, b.const(factor, x))


INTEGERS: dict[str, NamedRule] = {
    "integer_power": _integer_power,
    "random_bits": _random_bits,
}
