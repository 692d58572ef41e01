"""Runs an optimized graph as native code: arrays in, fresh arrays out.

This is the Python path to the compiled code: it checks nothing that the caller has not promised,
allocates the
outputs and calls `run`. The native entry does the same without Python.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.compiler.codegen.control_plan import (
    INDEX_ERROR,
    INDEX_SHIFT,
    LOOP_LIMIT,
    SITE_SHIFT,
)
from tapeline.compiler.codegen.engine import CompiledModule, get_engine
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.module import HOST_ERROR, Module, assemble
from tapeline.compiler.codegen.perf_names import announce, names_are_wanted
from tapeline.compiler.codegen.program import HostStep, Placed
from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.control_ops import loop_limit_message
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.errors import IndexOutOfRangeError, LoopLimitError, TapelineError
from tapeline.runtime.spec import DType

Array = npt.NDArray[Any]
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_memory_view: Any = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.restype = ctypes.py_object
_memory_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_WRITABLE = 0x200  # PyBUF_WRITE
_HOST = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class HostCallError(TapelineError, RuntimeError):
    """A host call failed and left no exception behind: a defect of Tapeline."""


class Executable:
    """Native code for one graph and one layout of its inputs.

    Parameters
    ----------
    graph : Graph
        An optimized graph.
    layouts : sequence of Layout or None
        Layout of each input; None is C-contiguous.
    timed : bool
        Whether the code notes the times of its steps, for `run_timed`.
    manner : Manner
        How the code is made.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: Sequence[Layout | None] | None = None,
        timed: bool = False,
        manner: Manner = PLAIN,
    ) -> None:
        self.graph = graph
        target = manner.target()
        self.module: Module = assemble(lower_graph(graph, target, layouts), target, timed)
        self._failures = threading.local()
        self._hosts = [_HOST(self._host_call(step)) for step in self.module.hosts]
        symbols = dict(self.module.symbols)
        for number, callback in enumerate(self._hosts):
            address = ctypes.c_void_p.from_buffer(callback).value  # a cast would make a cycle
            assert address is not None
            symbols[f"host{number}"] = address
        self._constants = [graph.constants[index] for index in self.module.constants]
        for index, array in zip(self.module.constants, self._constants, strict=True):
            symbols[f"constant{index}"] = array.__array_interface__["data"][0]
        for number, array in enumerate(self.module.arrays):
            symbols[f"inner{number}"] = array.__array_interface__["data"][0]
        self._sizes = np.array(self.module.sizes, np.int64)
        if len(self._sizes):
            symbols["sizes"] = self._sizes.__array_interface__["data"][0]
        self.symbols = symbols
        self.code: CompiledModule = get_engine().compile_module(self.module.text, symbols, ["run"])
        if names_are_wanted():
            announce(self.code, "run", graph.name, self._names())
        self._run: Callable[..., int] = _RUN(self.code.address("run"))
        self._outputs: list[tuple[tuple[int, ...], DType]] = [
            (spec.static_shape, spec.dtype) for spec in self.module.program.outputs
        ]

    def _names(self) -> dict[str, str]:
        """What the emitted functions are called in perf and gdb: function, kernel, source line."""
        names: dict[str, str] = {}
        module = self.module
        for number, step in enumerate(module.program.steps):
            kernel = module.kernels[number]
            where = "" if step.location is None else f"@{step.location}"
            for launch in kernel.launches if kernel is not None else ():
                text = f"{self.graph.name}/{number}:{step.label}{where}"
                names.setdefault(launch.function.name, text)
        return names

    def __call__(self, arrays: Sequence[Array], spare: list[Array] | None = None) -> list[Array]:
        """The outputs for these arrays, whose shapes, dtypes and layouts are the compiled ones.
        They are taken out of the arrays in `spare` where these fit.

        Raises
        ------
        Exception
            What a host call raised.
        MemoryError
            If there is no memory for intermediate values.
        """
        return self._call(arrays, (), spare)

    def run_timed(self, arrays: Sequence[Array]) -> tuple[list[Array], Array]:
        """The outputs, and the monotonic clock in nanoseconds before each step and at the end. Only
        for code that was made with `timed`."""
        times = np.empty((len(self.module.program.steps) + 1, 2), np.int64)
        outputs = self._call(arrays, (times,))
        return outputs, times[:, 0] * 1_000_000_000 + times[:, 1]

    def _call(
        self, arrays: Sequence[Array], further: Sequence[Array], spare: list[Array] | None = None
    ) -> list[Array]:
        if spare:
            outputs = [_taken(spare, *spec) for spec in self._outputs]
        else:
            outputs = [np.empty(shape, dtype) for shape, dtype in self._outputs]
        given = (*arrays, *outputs, *further)
        pointers = [array.__array_interface__["data"][0] for array in given]
        status = self._run(_slots(len(pointers))(*pointers))
        if status:
            self.fail(status)
        return outputs

    def fail(self, status: int) -> None:
        """Raises what the status of `run` stands for."""
        if status & 255 in (INDEX_ERROR, LOOP_LIMIT):
            raise self._loop_error(status)
        if status != HOST_ERROR:
            nbytes = self.module.arena.nbytes
            raise MemoryError(f"{self.graph.name}: no memory for {nbytes} bytes of intermediates")
        error = getattr(self._failures, "error", None)
        self._failures.error = None
        raise error or HostCallError(f"{self.graph.name}: a host call failed")

    def _loop_error(self, status: int) -> Exception:
        """What a status that a loop or a choice made stands for."""
        number = status >> INDEX_SHIFT
        if status & 255 == LOOP_LIMIT:
            return LoopLimitError(loop_limit_message(number))
        site = self.module.sites[status >> SITE_SHIFT & 0xFFFF]
        error = IndexOutOfRangeError(
            f"index {number} is out of range for axis {site.axis} with size {site.size}"
        )
        if site.location is not None:
            error.add_note(f"in {self.graph.name}, from {site.location}")
        return error

    def _host_call(self, step: HostStep) -> Callable[[int], int]:
        """The callback for a host call; it takes an array of pointers, and keeps what the kernel
        raises."""
        views = [_viewer(placed) for placed in (*step.inputs, *step.outputs)]
        n_inputs = len(step.inputs)
        kernel, attrs, count = step.op.kernel, step.attrs, len(views)
        several = step.op.n_outputs is not None
        where = step.location
        place = "" if where is None else f"in {self.graph.name}, from {where.filename}:{where.line}"
        failures = self._failures  # the executable keeps this function, not the other way round

        def call(address: int) -> int:
            try:
                pointers = (ctypes.c_int64 * count).from_address(address)
                arrays = [view(p) for view, p in zip(views, pointers, strict=True)]
                results = kernel(*arrays[:n_inputs], *attrs)
                for target, result in zip(
                    arrays[n_inputs:], results if several else (results,), strict=True
                ):
                    target[...] = result
            except BaseException as error:
                if place:
                    error.add_note(place)
                failures.error = error
                return 1
            return 0

        return call


def _taken(spare: list[Array], shape: tuple[int, ...], dtype: DType) -> Array:
    """An array out of those that are spare, or a new one."""
    for position, array in enumerate(spare):
        if array.shape == shape and array.dtype == dtype:
            return spare.pop(position)
    return np.empty(shape, dtype)


@functools.cache
def _slots(count: int) -> Any:
    """The type of an array of pointers; ctypes would make a new one each time."""
    return ctypes.c_int64 * count


def _viewer(placed: Placed) -> Callable[[int], Array]:
    """A function from a buffer's address to the array that lies there."""
    shape, dtype = placed.spec.static_shape, placed.spec.dtype
    strides, offset = placed.layout.strides, placed.layout.offset
    low = offset + sum(min(0, s * (e - 1)) for s, e in zip(strides, shape, strict=True))
    high = offset + sum(max(0, s * (e - 1)) for s, e in zip(strides, shape, strict=True))
    if placed.spec.size == 0:
        return lambda _: np.empty(shape, dtype)
    nbytes = high - low + dtype.itemsize

    def view(address: int) -> Array:
        buffer = _memory_view(address + low, nbytes, _WRITABLE)
        return np.ndarray(shape, dtype, buffer, offset - low, strides)

    return view
