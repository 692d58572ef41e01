"""What the kernels of all strategies for matrix products share: slots, and the loop over the batch.

A kernel's launch goes over `extent` indices, by default one per product of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.matrix import Product
from tapeline.compiler.codegen.nest import Kernel, KernelFunction, Launch, SlotValue
from tapeline.runtime.spec import DType

FLOAT_TYPES: Mapping[str, str] = {"float32": "float", "float64": "double"}


@dataclass(slots=True)
class Frame:
    """What the kernels of all strategies share: slots, and the loop over the batch."""

    product: Product
    dtype: DType
    pointers: tuple[SlotValue, SlotValue, SlotValue]
    names: list[str] = field(default_factory=list)
    values: list[SlotValue] = field(default_factory=list)
    key: tuple[object, ...] = ()
    extent: int = 0
    """Indices of the launch; 0 for one per product of the batch."""
    grain: int = 1
    scratch_bytes: int = 0
    definitions: tuple[tuple[str, str], ...] = ()
    """Functions and tables that the text refers to."""
    fn: FunctionText = field(default_factory=lambda: FunctionText(""))

    @property
    def type(self) -> str:
        """LLVM's name of the element type."""
        return FLOAT_TYPES[self.dtype.name]

    def slot(self, name: str, value: SlotValue, type_: str = "i64") -> str:
        """A number or pointer that the launch passes."""
        place = self.fn.offset("%A", 8 * len(self.names))
        self.names.append(name)
        self.values.append(value)
        return self.fn.load(type_, place)

    def open(self, *key: object) -> tuple[str, str, str]:
        """Begins the function; the pointers of a, b and c. `key` is what the text depends on beyond
        slots."""
        self.key = ("matmul", self.dtype.name, len(self.product.batch), *key)
        a = self.slot("pa", self.pointers[0], "ptr")
        b = self.slot("pb", self.pointers[1], "ptr")
        c = self.slot("pc", self.pointers[2], "ptr")
        return a, b, c

    def at_index(self, index: str, a: str, b: str, c: str) -> tuple[str, str, str]:
        """The pointers moved to the product number `index` of the batch."""
        rest: Value = index
        pointers = [a, b, c]
        for position in reversed(range(len(self.product.batch))):
            axis = self.product.batch[position]
            at = rest
            if position:
                extent = self.slot(f"d{position}", axis.extent)
                at = self.fn.value(f"urem i64 {rest}, {extent}")
                rest = self.fn.value(f"udiv i64 {rest}, {extent}")
            steps = (axis.a, axis.b, axis.c)
            for number, step in enumerate(steps):
                amount = self.fn.mul(at, self.slot(f"{'abc'[number]}{position}", step))
                pointers[number] = self.fn.offset(pointers[number], amount)
        return pointers[0], pointers[1], pointers[2]

    def kernel(self, strategy: str) -> Kernel:
        """The finished kernel."""
        name = "_".join(str(part) for part in self.key)
        self.fn.header = f"void @{name}(ptr %A, i64 %lo, i64 %hi) nounwind"
        function = KernelFunction(
            self.key,
            name,
            self.fn.finish(),
            frozenset(self.fn.declarations),
            tuple(self.names),
            self.definitions,
        )
        product = self.product
        work = product.m * product.n * max(product.k, 1) * product.batch_size
        extent = self.extent or product.batch_size
        launch = Launch(function, tuple(self.values), extent, self.grain, work)
        what = f"matmul {strategy} {product.m}x{product.k}x{product.n}"
        return Kernel(what, (launch,), self.scratch_bytes)
