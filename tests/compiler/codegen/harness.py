"""Builds nests over NumPy arrays, compiles their kernels and runs the launches, for the tests."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, pairwise
from typing import Any

import numpy as np

from tapeline.compiler.codegen.engine import Engine
from tapeline.compiler.codegen.kernels import emit_nest
from tapeline.compiler.codegen.nest import Kernel, Launch, Nest, Operand, Step
from tapeline.compiler.codegen.target import Target, host_target, named_target

HOST = host_target()
AVX2 = named_target("x86-64-v3" if HOST.vector_bytes >= 32 else "generic")
"""A target with narrower vectors that this machine can run."""
TARGETS = (HOST, AVX2)

Array = np.ndarray[Any, Any]
Splitter = Callable[[Launch], list[tuple[int, int]]]
_numbers = count()
_KEPT: list[Any] = []


@cache
def engine_for(target: Target) -> Engine:
    """An engine that compiles for a target."""
    return Engine(target)


def operand_of(array: Array, shape: tuple[int, ...], axes: Sequence[int] = ()) -> Operand:
    """An operand that reads `array` broadcast to `shape`; with `axes` one that lacks those."""
    if len(array.shape) == len(shape) - len(axes) and axes:
        strides, rest = [], iter(array.strides)
        for d in range(len(shape)):
            strides.append(0 if d in axes else next(rest))
        return Operand(array.dtype, tuple(strides))
    return Operand(array.dtype, np.broadcast_to(array, shape).strides)


def map_step(dtype: Any, args: tuple[int, ...], emit: Callable[..., Any], key: Any) -> Step:
    """A map step."""
    return Step("map", np.dtype(dtype), args, emit, key)


def module_text(kernel: Kernel) -> str:
    """The kernel's functions as one module."""
    declarations: set[str] = set()
    definitions: dict[str, str] = {}
    texts: dict[Any, str] = {}
    for launch in kernel.launches:
        function = launch.function
        declarations |= function.declarations
        definitions |= dict(function.definitions)
        texts.setdefault(function.name, function.text)
    head = [text for _, text in sorted(definitions.items())] + sorted(declarations)
    return "\n".join([*head, *texts.values()])


def power_emit(b: Any, x: Any) -> Any:
    """(1 + x/1024)**1024, which is nearly exp and costs about as much."""
    y = b.add(b.mul(x, b.const(1 / 1024, x)), b.const(1.0, x))
    for _ in range(10):
        y = b.mul(y, y)
    return y


def power(x: Array) -> Array:
    """What `power_emit` computes."""
    y = x * x.dtype.type(1 / 1024) + x.dtype.type(1.0)
    for _ in range(10):
        y = y * y
    return y  # type: ignore[no-any-return]


class Runner:
    """A compiled kernel; `run(arrays)` launches it on the operands' arrays."""

    def __init__(self, nest: Nest | Kernel, target: Target = HOST) -> None:
        name = f"nest{next(_numbers)}"
        self.kernel = nest if isinstance(nest, Kernel) else emit_nest(nest, target, name)
        names = sorted({launch.function.name for launch in self.kernel.launches})
        self.text = module_text(self.kernel)
        self.module = engine_for(target).compile_module(self.text, {}, names) if names else None

    def run(self, arrays: Sequence[Array], split: Splitter | None = None) -> None:
        """Runs all launches, each over the ranges that `split` gives."""
        scratch = np.full(self.kernel.scratch_bytes + 64, 0xA5, np.uint8)
        base = -(-scratch.ctypes.data // 64) * 64
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        for launch in self.kernel.launches:
            slots = np.zeros(max(len(launch.values), 1), np.int64)
            for k, value in enumerate(launch.values):
                if isinstance(value, int):
                    slots[k] = value
                elif value[0] == "scratch":
                    slots[k] = base + value[2]
                else:
                    slots[k] = arrays[value[1]].ctypes.data + value[2]
            assert self.module is not None
            function = signature(self.module.address(launch.function.name))
            ranges = split(launch) if split else [(0, launch.extent)]
            for low, high in ranges:
                function(slots.ctypes.data, low, high)


def odd_chunks(launch: Launch) -> list[tuple[int, int]]:
    """Uneven chunks at multiples of the grain, in reverse order."""
    step = launch.grain * 3
    cuts = [*range(0, launch.extent, step), launch.extent]
    return list(pairwise(cuts))[::-1]


def guarded(array: Array) -> Array:
    """A dense copy whose last byte is the last before a page that cannot be read."""
    page = mmap.PAGESIZE
    size = max(-(-array.nbytes // page), 1) * page
    memory = mmap.mmap(-1, size + page)
    _KEPT.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + size), page, 0) == 0
    offset = size - array.nbytes
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy
