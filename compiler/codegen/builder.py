"""The builder that pointwise bodies and loop emitters write LLVM text with.

Its operations are layered: text and lanes (`lines`), arithmetic (`arithmetic`), memory (`memory`),
division (`division`), and here horizontal reductions and the math library. All of them emit the
same
operations for a scalar and for every lane of a vector, so loop bodies and tails agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapeline.compiler.codegen.division import Division
from tapeline.compiler.codegen.math.library import call_function
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, suffix_of, type_of

LONG_BODY = 4000
"""From so many lines on, functions of the math library are called and not written out."""


class Builder(Division):
    """Emits one function body; implements `ScalarEmitter` of `tapeline.runtime.op`."""

    __slots__ = ("shares_math",)

    def __init__(self, parts: ModuleParts, target: Target, entry: str = "entry") -> None:
        super().__init__(parts, target, entry)
        self.shares_math = False
        """Whether functions of the math library are called, one copy per module, and not written
        out: a little slower, and several times as fast to compile."""

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
        operands = self.align_lanes(*args)
        shares = self.shares_math or len(self.lines) > LONG_BODY
        if shares and not any(x.is_constant for x in operands):
            return self._call_shared(name, operands)
        found: Value = self.emit_exactly(call_function, name, *operands)
        return found

    def _call_shared(self, name: str, operands: Sequence[Value]) -> Value:
        """Calls the one copy of a function that the module holds for these types."""
        suffix = "_".join(suffix_of(x.code, x.lanes) for x in operands)
        function = f"tl_{name}_{suffix}"
        if function not in self.parts.definitions:
            self._define_shared(function, name, operands)
        result = type_of(operands[0].code, operands[0].lanes)
        arguments = ((x.type, x.name) for x in operands)
        text = self.raw_call(result, function, *arguments, declare=False)
        return self.value(text, operands[0].code, operands[0].lanes)

    def _define_shared(self, function: str, name: str, operands: Sequence[Value]) -> None:
        inner = Builder(self.parts, self.target)
        arguments = [x._replace(name=f"%x{number}") for number, x in enumerate(operands)]
        result = call_function(inner, name, *arguments)
        taken = ", ".join(x.operand for x in arguments)
        head = f"define internal {result.type} @{function}({taken}) noinline nounwind "
        manner = f'"stackrealign" "prefer-vector-width"="{8 * self.target.vector_bytes}"'
        body = f"entry:\n{inner.body()}  ret {result.operand}\n"
        self.parts.define(function, f"{head}{manner} {{\n{body}}}\n")
