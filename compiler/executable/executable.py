"""Runs an optimized graph as native code: arrays in, fresh arrays out.

This is the Python path to the compiled code: it checks nothing that the caller has not promised,
allocates the
outputs and calls `run`. The native entry does the same without Python.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.compiler.codegen.control_plan import (
    INDEX_ERROR,
    INDEX_SHIFT,
    LOOP_LIMIT,
    NEEDS_ROOM,
    SITE_SHIFT,
)
from tapeline.compiler.codegen.engine import CompiledModule, get_engine
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.module import HOST_ERROR, Module, assemble
from tapeline.compiler.codegen.perf_names import announce, names_are_wanted
from tapeline.compiler.codegen.program import HostStep, Placed
from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.executable import timing
from tapeline.compiler.executable.timing import Timing
from tapeline.compiler.frontend.tracebacks import users_traceback
from tapeline.compiler.ir.control_ops import no_room
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime.errors import IndexOutOfRangeError, TapelineError
from tapeline.runtime.spec import DType

if TYPE_CHECKING:
    import numpy.typing as npt

    from tapeline.compiler.ir.location import Location

Array: TypeAlias = "npt.NDArray[Any]"
NOTHING_SHARED: Mapping[int, Array] = MappingProxyType({})
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
    manner : Manner
        How the code is made.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: Sequence[Layout | None] | None = None,
        manner: Manner = PLAIN,
    ) -> None:
        self.graph = graph
        self._target = manner.target()
        self.module: Module = assemble(lower_graph(graph, self._target, layouts), self._target)
        self._failures = threading.local()
        self._making = threading.Lock()
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
        self.code: CompiledModule = self._link(self.module, symbols)
        self._word = np.zeros(1, np.uint64)
        self.timing: Timing | None = None
        self._first: Any = None
        """What is called where code that notes times is wanted, and not made yet."""
        first: dict[int, int] = {}
        self._outputs: list[tuple[tuple[int, ...], DType, int]] = [
            (spec.static_shape, spec.dtype, first.setdefault(node, k))
            for k, (spec, node) in enumerate(
                zip(self.module.program.outputs, graph.outputs, strict=True)
            )
        ]
        """Shape and dtype, and the number of the first output that is the same."""
        self.note_times(False)
        timing.register(self)

    def _link(self, module: Module, symbols: dict[str, int]) -> CompiledModule:
        code = get_engine().compile_module(module.text, symbols, ["run"])
        if names_are_wanted():
            announce(code, "run", self.graph.name, self._names())
        return code

    @property
    def run_word(self) -> int:
        """The address of a word with the address of the code that is to run: an `i64 (ptr)`."""
        return int(self._word.__array_interface__["data"][0])

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

    def __call__(
        self,
        arrays: Sequence[Array],
        spare: list[Array] | None = None,
        shared: Mapping[int, Array] = NOTHING_SHARED,
    ) -> list[Array]:
        """The outputs for these arrays, whose shapes, dtypes and layouts are the compiled ones.
        They are taken out of the arrays in `spare` where these fit. An output in `shared` is an
        input that is written over; see `Module.shared`.

        Raises
        ------
        Exception
            What a host call raised.
        MemoryError
            If there is no memory for intermediate values.
        """
        outputs: list[Array] = []
        for k, (shape, dtype, first) in enumerate(self._outputs):
            if first < k:
                outputs.append(outputs[first])
            elif k in shared:
                outputs.append(shared[k])
            elif spare:
                outputs.append(_taken(spare, shape, dtype))
            else:
                outputs.append(np.empty(shape, dtype))
        given = (*arrays, *outputs)
        pointers = [array.__array_interface__["data"][0] for array in given]
        status = self._run(_slots(len(pointers))(*pointers))
        if status & 255 == NEEDS_ROOM:
            return self(arrays, spare)
        if status:
            self.fail(status)
        return outputs

    def first_of(self, output: int) -> int:
        """The number of the first output that is the same as this one."""
        return self._outputs[output][2]

    def note_times(self, wanted: bool) -> None:
        """Runs code that notes the times of its steps from now on, or plain code."""
        address = self.code.address("run")
        if wanted and self.timing is not None:
            address = self.timing.address
        elif wanted:
            if self._first is None:
                self._first = _RUN(_first_run(weakref.ref(self)))
            found = ctypes.c_void_p.from_buffer(self._first).value
            assert found is not None
            address = found
        self._run: Callable[..., int] = _RUN(address)
        self._word[0] = address

    def run_noting_times(self, slots: int) -> int:
        """Makes the code that notes times, and runs it."""
        started = time.perf_counter()
        with self._making:
            if self.timing is None:
                module = assemble(self.module.program, self._target, timed=True)
                words, trace = timing.words_for(len(module.program.steps)), timing.trace()
                symbols = dict(self.symbols)
                symbols["timing"] = words.__array_interface__["data"][0]
                symbols["trace"] = trace.__array_interface__["data"][0]
                code = self._link(module, symbols)
                timing.made(self, Timing(self.graph, self.module, code, words))
                timing.compile_seconds[0] += time.perf_counter() - started
        assert self.timing is not None
        return int(_RUN(self.timing.address)(slots))

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

    def fail_natively(self, status: int) -> None:
        """The same for native entries, which call the Python path if nothing is raised: that one
        makes more room."""
        if status & 255 == LOOP_LIMIT:
            return
        try:
            self.fail(status)
        except Exception as error:
            error.__traceback__ = users_traceback(error.__traceback__)
            raise

    def _loop_error(self, status: int) -> Exception:
        """What a status that a loop or a choice made stands for."""
        number = status >> INDEX_SHIFT
        if status & 255 == LOOP_LIMIT:
            return no_room(number)
        site = self.module.sites[status >> SITE_SHIFT & 0xFFFF]
        error = IndexOutOfRangeError(
            f"index {number} is out of range for axis {site.axis} with size {site.size}"
        )
        if site.location is not None:
            error.add_note(self._place(site.location))
        return error

    def _place(self, where: Location | None) -> str:
        """What an error is told of the line that it comes from."""
        return "" if where is None else f"in {self.graph.name}, from {where.filename}:{where.line}"

    def _host_call(self, step: HostStep) -> Callable[[int], int]:
        """The callback for a host call; it takes an array of pointers, and keeps what the kernel
        raises."""
        views = [_viewer(placed) for placed in (*step.inputs, *step.outputs)]
        n_inputs = len(step.inputs)
        kernel, attrs, count = step.op.kernel, step.attrs, len(views)
        several = step.op.n_outputs is not None
        place = self._place(step.location)
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


def _first_run(reference: weakref.ref[Executable]) -> Callable[[int], int]:
    """What stands for code that notes times until it is made. Whoever calls it keeps the
    executable."""

    def run(slots: int) -> int:
        executable = reference()
        assert executable is not None
        try:
            return executable.run_noting_times(slots)
        except KeyboardInterrupt:
            _thread.interrupt_main()
        except Exception:  # such as too little memory: then it runs without being timed
            pass
        return int(_RUN(executable.code.address("run"))(slots))

    return run


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
