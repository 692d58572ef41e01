"""Ints to the power of ints, by squaring; a negative exponent is reported, not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, is_signed, size_of
from tapeline.runtime.spec import DType, TensorSpec


@dataclass(frozen=True, slots=True)
class IntegerPower:
    """`result[i] = base[i] ** exponent[i]`, wrapping around."""

    dtype: DType
    count: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of elements."""
        f, code = FunctionBuilder(target), code_of(self.dtype)
        bases, exponents, result = (f.pointer_slot(s) for s in ("base", "exponent", "result"))
        unsigned, bits = "u" + code[1:], f.fixed(8 * size_of(code), "i8")
        zero = f.fixed(0, code)

        def one(i: Value, _: list[Value]) -> list[Value]:
            base = f.load(f.element(bases, code, Index(i)), code)._replace(code=unsigned)
            exponent = f.load(f.element(exponents, code, Index(i)), code)
            if is_signed(code):
                negative = f.compare("lt", exponent, zero)
                f.when(negative, lambda: f.store(ONE, f.pointer_slot("error")))
            exponent = exponent._replace(code=unsigned)
            zeros = f.cast_code(_leading_zeros(f, exponent), "i8")

            def turn(_: Value, carry: list[Value]) -> list[Value]:
                product, square, rest = carry
                odd = f.value(f"trunc {rest.operand} to i1", "b1", 1)
                product = f.select(odd, f.mul(product, square), product)
                return [product, f.mul(square, square), f.shift_bits("lshr", rest, 1)]

            start = [f.fixed(1, unsigned), base, exponent]
            raised, *_ = f.loop(ZERO, f.sub(bits, zeros), 1, start, turn)
            f.store(raised, f.element(result, unsigned, Index(i)))
            return []

        f.loop(f.low, f.high, 1, [], one)
        function = f.finish(name, ("integer_power", target, code))
        operands = ["base", "exponent", "result", "error"]
        return single_launch(
            "integer power", function, {}, operands, extent=self.count, work=self.count * 8
        )


def _leading_zeros(f: FunctionBuilder, x: Value) -> Value:
    function = f"llvm.ctlz.i{8 * size_of(x.code)}"
    call = f.raw_call(x.type, function, (x.type, x.name), ("i1", "false"), declare=True)
    return f.value(call, x.code, 1)


def integer_power_routine(specs: Sequence[TensorSpec]) -> IntegerPower | None:
    """The routine for a base, an exponent and a result; None where the shapes differ."""
    if len({spec.static_shape for spec in specs}) > 1:
        return None
    return IntegerPower(specs[2].dtype, specs[2].size)
