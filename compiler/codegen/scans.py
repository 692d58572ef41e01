"""Sums and products along an axis that keep every step, in the order that NumPy adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from tapeline.compiler.codegen.loops import ONE, ZERO, FunctionBuilder, Index
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.routine import single_launch
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, code_of, size_of
from tapeline.runtime.spec import DType, TensorSpec

ScanKind: TypeAlias = Literal["cumulative_sum", "cumulative_prod"]


@dataclass(frozen=True, slots=True)
class Scan:
    """`out[o, i, k] = x[o, 0, k] + ... + x[o, i, k]`, or the product, in the dtype of `out`."""

    kind: ScanKind
    dtype: DType
    result: DType
    outer: int
    count: int
    inner: int

    def emit(self, target: Target, name: str) -> Kernel:
        """The kernel; a chunk is a range of outer indices."""
        f = FunctionBuilder(target)
        parts = 2 if self.dtype.kind == "c" else 1
        multiplies = self.kind == "cumulative_prod"
        form = "complex" if parts == 2 and multiplies else "row" if self.inner == 1 else "columns"
        if form == "row" and parts == 2:
            form = "columns"
        source, result = (
            f"f{dtype.itemsize // 2}" if dtype.kind == "c" else code_of(dtype)
            for dtype in (self.dtype, self.result)
        )
        emitter = _Emitter(f, source, result, multiplies)
        {"complex": emitter.complex, "row": emitter.row, "columns": emitter.columns}[form]()
        function = f.finish(name, (self.kind, target, source, result, form))
        per_element = 1 if form == "complex" else parts
        numbers = {"count": self.count, "inner": self.inner * per_element}
        work = self.outer * self.count * self.inner * 4
        return single_launch(
            self.kind, function, numbers, ["source", "result"], extent=self.outer, work=work
        )


def scan_routine(kind: ScanKind, specs: Sequence[TensorSpec], axis: int) -> Scan:
    """The routine for an input and an output."""
    given, result = specs
    shape = given.static_shape
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    return Scan(kind, given.dtype, result.dtype, outer, shape[axis], inner)


class _Emitter:
    def __init__(self, f: FunctionBuilder, source: str, result: str, multiplies: bool) -> None:
        self.f = f
        self.source, self.result = f.pointer_slot("source"), f.pointer_slot("result")
        self.source_code, self.code = source, result
        self.combine = f.mul if multiplies else f.add
        self.count, self.inner = f.slot("count"), f.slot("inner")
        self.start = f.fixed(1 if multiplies else 0, result)

    def _load(self, index: Index, lanes: int = 1, mask: Value | None = None) -> Value:
        f = self.f
        place = f.element(self.source, self.source_code, index)
        return f.cast_code(f.load(place, self.source_code, lanes, mask=mask), self.code)

    def row(self) -> None:
        """Elements side by side: one after the other."""
        f = self.f

        def outer(o: Value, _: list[Value]) -> list[Value]:
            first = f.mul(o, self.count)

            def step(i: Value, carry: list[Value]) -> list[Value]:
                x, at = self._load(Index(i)), f.element(self.result, self.code, Index(i))
                total = f.select(f.compare("eq", i, first), x, self.combine(carry[0], x))
                f.store(total, at)
                return [total]

            f.loop(first, f.add(first, self.count), 1, [self.start], step)
            return []

        f.loop(f.low, f.high, 1, [], outer)

    def columns(self) -> None:
        """Rows of elements, each added to the one before it."""
        f, lanes = self.f, self.f.target.lanes(size_of(self.code))

        def outer(o: Value, _: list[Value]) -> list[Value]:
            first = f.mul(o, f.mul(self.count, self.inner))

            def move(k: Index, mask: Value | None, _: int, __: list[Value]) -> list[Value]:
                at = Index(f.add(first, k.base), k.extra)
                f.store(
                    self._load(at, lanes, mask), f.element(self.result, self.code, at), mask=mask
                )
                return []

            def step(i: Value, _: list[Value]) -> list[Value]:
                row = f.add(first, f.mul(i, self.inner))

                def add(k: Index, mask: Value | None, _: int, __: list[Value]) -> list[Value]:
                    at = Index(f.add(row, k.base), k.extra)
                    above = Index(f.sub(at.base, self.inner), k.extra)
                    place = f.element(self.result, self.code, above)
                    before = f.load(place, self.code, lanes, mask=mask)
                    total = self.combine(before, self._load(at, lanes, mask))
                    f.store(total, f.element(self.result, self.code, at), mask=mask)
                    return []

                return f.vector_loop(ZERO, self.inner, lanes, 1, [], add)

            f.when(
                f.compare("gt", self.count, ZERO),
                lambda: _ignore(f.vector_loop(ZERO, self.inner, lanes, 1, [], move)),
            )
            f.loop(ONE, self.count, 1, [], step)
            return []

        f.loop(f.low, f.high, 1, [], outer)

    def complex(self) -> None:
        """Products of complex numbers, one after the other."""
        f = self.f

        def outer(o: Value, _: list[Value]) -> list[Value]:
            first = f.mul(o, f.mul(self.count, self.inner))

            def lane(k: Value, _: list[Value]) -> list[Value]:
                def step(i: Value, carry: list[Value]) -> list[Value]:
                    at = f.mul(f.add(f.add(first, k), f.mul(i, self.inner)), f.fixed(2, "i8"))
                    x, y = self._load(Index(at)), self._load(Index(at, 1))
                    real = f.sub(f.mul(carry[0], x), f.mul(carry[1], y))
                    imag = f.add(f.mul(carry[0], y), f.mul(carry[1], x))
                    is_first = f.compare("eq", i, ZERO)
                    total = [f.select(is_first, x, real), f.select(is_first, y, imag)]
                    for part, value in enumerate(total):
                        f.store(value, f.element(self.result, self.code, Index(at, part)))
                    return total

                start = [self.start, f.fixed(0, self.code)]
                f.loop(ZERO, self.count, 1, start, step)
                return []

            return f.loop(ZERO, self.inner, 1, [], lane)

        f.loop(f.low, f.high, 1, [], outer)


def _ignore(_: object) -> None:
    """Nothing: for loops that carry nothing."""
