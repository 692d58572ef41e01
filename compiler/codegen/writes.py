"""Elements written at places that indices name: of two values for one place the later stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.gather import TakeShape, check_range, place_of, words_of
from tapeline.compiler.codegen.loops import ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import TensorSpec


@dataclass(frozen=True, slots=True)
class Put:
    """A copy of `first` in which `values[i]` stands at `indices[i]`."""

    shape: TakeShape

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel, of one chunk: values are written in order."""
        f, shape = FunctionBuilder(target), self.shape
        words, code = words_of(shape)
        index_code, lanes = code_of(shape.index_dtype), target.lanes(size_of(code))
        check_range(f, shape, ZERO, f.slot("count"))
        source, values, result = (f.pointer_slot(s) for s in ("first", "values", "second"))

        def copy(i: Index, mask: Value | None, _: int, __: list[Value]) -> list[Value]:
            x = f.load(f.element(source, code, i), code, lanes, mask=mask)
            f.store(x, f.element(result, code, i), mask=mask)
            return []

        def write(i: Value, _: list[Value]) -> list[Value]:
            place = place_of(f, index_code, i)
            for word in range(words):
                here, there = (_scaled(f, number, words, word) for number in (i, place))
                x = f.load(f.element(values, code, here), code)
                f.store(x, f.element(result, code, there))
            return []

        f.vector_loop(ZERO, f.slot("words"), lanes, 2, [], copy)
        f.loop(ZERO, f.slot("count"), 1, [], write)
        function = f.finish(name, ("put", target, code, words, index_code))
        numbers = {"size": shape.size, "count": shape.count, "words": shape.size * words}
        operands = ["first", "indices", "values", "second", "error"]
        work = shape.size * words + 4 * shape.count
        return single_launch("put", function, numbers, operands, extent=1, work=work)


def _scaled(f: FunctionBuilder, number: Value, words: int, word: int) -> Index:
    return Index(f.mul(number, f.fixed(words, "i8")) if words > 1 else number, word)


def put_routine(specs: Sequence[TensorSpec]) -> Put | None:
    """The routine for an array, places, values and the result; None where values are spread."""
    source, places, values, _ = specs
    if values.static_shape != places.static_shape:
        return None
    return Put(TakeShape(source.dtype, places.dtype, 1, source.size, places.size, 1))
