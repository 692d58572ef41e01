"""The builder that pointwise bodies and loop emitters write LLVM text with.

Its operations are layered: text and lanes (`lines`), arithmetic (`arithmetic`), memory (`memory`),
division (`division`), and here horizontal reductions and the math library. All of them emit the
same
operations for a scalar and for every lane of a vector, so loop bodies and tails agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

from tapeline.compiler.codegen.division import Division
from tapeline.compiler.codegen.math.library import call_function
from tapeline.compiler.codegen.values import Value


class Builder(Division):
    """Emits one function body; implements `ScalarEmitter` of `tapeline.runtime.op`."""

    __slots__ = ()

    def horizontal(self, combine: Callable[[Value, Value], Value], x: Value) -> Value:
        """All lanes combined into a scalar by halving: lane i with lane i + lanes/2, and so on.
        The number of lanes is a power of two."""
        while x.lanes > 1:
            half = x.lanes // 2
            low = self.shuffle(x, None, range(half))
            x = combine(low, self.shuffle(x, None, range(half, x.lanes)))
        return x

    def call(self, name: str, /, *args: Value) -> Value:
        """A function of the math library, by NumPy's name.

        Raises
        ------
        KeyError
            If there is no such function.
        TypeError
            If the operands are not floats.
        """
        found: Value = self.emit_exactly(call_function, name, *self.align_lanes(*args))
        return found
