"""Turns LLVM text into machine code in this process: one LLJIT, one library per compiled graph.

Texts arrive with the vector code already in them, so no pass pipeline runs: parse, verify, emit an
object, link. Absolute addresses never stand in a text; they are symbols, bound per library when it
is linked. Nothing here knows what the code is for.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import llvmlite.binding as llvm
from llvmlite.binding import orcjit

from tapeline.compiler.codegen.object_cache import ObjectCache
from tapeline.compiler.codegen.recent_objects import RecentObjects
from tapeline.compiler.codegen.target import Target, host_target
from tapeline.runtime.errors import TapelineError

_OPT_LEVEL = 2
"""For instruction selection only. Never 0 for vectors: LLVM aborts the process on AVX-512 masks."""

_SHOWN_LINES = 2

_LIBRARIES_PER_JIT = 64
"""LLJIT keeps some 10 KB of every library it ever linked, so after so many a new one takes over;
the old one goes with the last of its libraries."""


class EmissionError(TapelineError, RuntimeError):
    """LLVM refused a text we emitted: a defect of Tapeline, not of the program being compiled.

    The message shows the line at fault. Please report it with the function that was compiled.
    """


class CompiledModule:
    """Machine code of one text. The code is freed with this object, so keep it while code may run.

    Made by `Engine.compile_module` only.
    """

    __slots__ = ("_addresses", "_engine", "_number", "object_bytes", "text")

    text: str
    object_bytes: bytes

    def __init__(
        self,
        engine: Engine,
        number: int,
        text: str,
        object_bytes: bytes,
        addresses: dict[str, int],
    ) -> None:
        self._engine = engine
        self._number = number
        self._addresses = addresses
        self.text = text
        self.object_bytes = object_bytes

    def address(self, name: str) -> int:
        """The address of an exported function or global."""
        return self._addresses[name]

    def asm(self) -> str:
        """The assembly, produced when asked for."""
        return self._engine.emit_asm(self.text)

    def __del__(self) -> None:
        number = getattr(self, "_number", None)
        if number is not None:
            self._engine.dispose(number)


class Engine:
    """The process's code generator; safe to use from many threads. Get it by `get_engine()`."""

    def __init__(self, target: Target | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.lock = threading.RLock()
        self.target = target or host_target()
        self._machine = machine_for(self.target)
        self._quick_machine = machine_for(self.target, 0)
        self._jit = self._new_jit()
        self._cache = ObjectCache(self.target)
        self._names = itertools.count(1)
        self._libraries: dict[int, tuple[llvm.ResourceTracker, Any]] = {}
        """Each library that lives, and the JIT that it is in. Nobody else refers to these, so that
        a garbage collection in one thread never frees what another thread is freeing."""
        self._dead: list[int] = []
        self._recent = RecentObjects()

    def _new_jit(self) -> Any:
        return llvm.create_lljit_compiler(
            machine_for(self.target), use_jit_link=True, suppress_errors=True
        )

    def compile_module(
        self, text: str, symbols: Mapping[str, int], exports: Sequence[str], quick: bool = False
    ) -> CompiledModule:
        """Machine code for `text`.

        Parameters
        ----------
        text : str
            An LLVM module.
        symbols : mapping of str to int
            Addresses of the external symbols that are not exported by the process itself.
        exports : sequence of str
            The functions and globals whose addresses will be asked for.
        quick : bool
            Compile in half the time, to slower code. Only for texts without vectors.

        Raises
        ------
        EmissionError
            If LLVM cannot parse, verify or link the text.
        """
        with self.lock:
            return self.link_object(self.emit_object(text, quick), symbols, exports, text)

    def emit_object(self, text: str, quick: bool = False) -> bytes:
        """The object file for `text`, which `link_object` takes in this or in a later process; from
        the cache on disk where it is there."""
        recent = self._recent.key(text, quick)
        with self.lock:
            image = self._recent.get(recent)
            if image is None:
                key = self._cache.key(text, quick)
                image = self._cache.find(key)
                if image is None:
                    machine = self._quick_machine if quick else self._machine
                    image = cast(bytes, machine.emit_object(parse_module(text)))
                    self._cache.store(key, text, image)
                self._recent.put(recent, image)
            return image

    def emit_asm(self, text: str) -> str:
        """The assembly for `text`."""
        with self.lock:
            return self._machine.emit_assembly(parse_module(text))  # type: ignore[no-any-return]

    def link_object(
        self, image: bytes, symbols: Mapping[str, int], exports: Sequence[str], text: str = ""
    ) -> CompiledModule:
        """A library from an object file; the other parameters are those of `compile_module`."""
        with self.lock:
            self._bury()
            _keep_array_types(len(symbols), len(exports))
            library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            for name, address in symbols.items():
                library.import_symbol(name, address)
            for name in exports:
                library.export_symbol(name)
            number = next(self._names)
            if number % _LIBRARIES_PER_JIT == 0:
                self._jit = self._new_jit()
            try:
                tracker = library.link(self._jit, f"tapeline{number}")
            except RuntimeError as error:
                unbound = ", ".join(_unbound(text, symbols)) or "none"
                raise EmissionError(
                    f"codegen: linking failed: {str(error).strip()}; unbound symbols: {unbound}"
                ) from None
            self._libraries[number] = tracker, self._jit
            addresses = {name: tracker[name] for name in exports}
            return CompiledModule(self, number, text, image, addresses)

    def dispose(self, number: int, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Frees a library's code, now or (when another thread is compiling) at the next link.

        The function is bound early: at the interpreter's end the module's names may be gone.
        """
        if _is_finalizing():
            return
        self._dead.append(number)
        if self.lock.acquire(blocking=False):
            try:
                self._bury()
            finally:
                self.lock.release()

    def _bury(self) -> None:
        while self._dead:
            tracker, _jit = self._libraries.pop(self._dead.pop())
            tracker.close()


def machine_for(cpu: Target, opt: int = _OPT_LEVEL) -> llvm.TargetMachine:
    """A target machine for that processor, all its features included."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=cpu.cpu, features=cpu.features, opt=opt, jit=True, codemodel="jitdefault"
    )


def parse_module(text: str) -> Any:
    """The parsed and verified module; an `EmissionError` that shows the offending line."""
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise EmissionError(_explain(str(error), text)) from None
    try:
        module.verify()
    except RuntimeError as error:
        raise EmissionError(f"codegen: LLVM found invalid code: {str(error).strip()}") from None
    return module


def _explain(message: str, text: str) -> str:
    """LLVM's parse error with the lines around it."""
    found = re.search(r"<string>:(\d+):(\d+): error: (.*)", message)
    if found is None:
        return f"codegen: LLVM cannot parse the emitted text: {message.strip()}"
    number, column = int(found[1]), int(found[2])
    lines = text.splitlines()
    first = max(0, number - 1 - _SHOWN_LINES)
    shown = [f"{n:5} | {line}" for n, line in enumerate(lines[first:number], first + 1)]
    pointer = " " * (7 + column) + "^"
    return "\n".join([f"codegen: line {number}: {found[3]}", *shown, pointer])


def _unbound(text: str, symbols: Mapping[str, int]) -> list[str]:
    """The external symbols of `text` that nobody gives an address."""
    declared = re.findall(r"^\s*(?:declare\b.*?@|@)([\w.$]+)(?:\(|\s*=\s*external\b)", text, re.M)
    return [
        name
        for name in declared
        if name not in symbols and not name.startswith("llvm.") and not llvm.address_of_symbol(name)
    ]


_ARRAY_TYPES: dict[tuple[str, int], Any] = {}


def _keep_array_types(n_symbols: int, n_exports: int) -> None:
    """Keeps the ctypes arrays' types that llvmlite passes lists by. It makes them at each link; a
    type that dies is garbage that only a collection finds."""
    for name, length in (("_LinkElement", 2), ("_SymbolAddress", n_symbols),
                         ("_SymbolAddress", n_exports)):  # fmt: skip
        element = getattr(orcjit, name, None)
        if element is not None and (name, length) not in _ARRAY_TYPES:
            _ARRAY_TYPES[name, length] = element * length


_ENGINE: Engine | None = None
_CREATION = threading.Lock()


def get_engine() -> Engine:
    """The engine of this process, made at the first call."""
    global _ENGINE
    if _ENGINE is None:
        with _CREATION:
            if _ENGINE is None:
                _ENGINE = Engine()
    return _ENGINE


def _before_fork() -> None:
    """No compilation is under way while the process forks, so the child inherits a sound engine."""
    _CREATION.acquire()
    if _ENGINE is not None:
        _ENGINE.lock.acquire()


def _after_fork() -> None:
    if _ENGINE is not None:
        _ENGINE.lock.release()
    _CREATION.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
