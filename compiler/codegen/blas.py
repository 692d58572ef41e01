"""Finds the BLAS that NumPy has loaded, so that emitted code can call it by address.

NumPy's wheels bring OpenBLAS under a prefix and a suffix of their own; other builds bring MKL, BLIS
or a system BLAS. What is found is tried on a small product before it is trusted. Where nothing is
found, `find_blas` is None and matrix products go through NumPy.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

RoutineName: TypeAlias = Literal["sgemm", "dgemm", "sgemv", "dgemv"]

ROW_MAJOR = 101
NO_TRANS = 111
TRANS = 112

_ROUTINES: tuple[RoutineName, ...] = ("sgemm", "dgemm", "sgemv", "dgemv")
_LIBRARY = re.compile(r"openblas|mkl_rt|flexiblas|blis|libcblas|libblas|atlas", re.IGNORECASE)
_PATTERNS = ("scipy_{}64_", "scipy_{}", "{}64_", "{}_64", "{}")
_THREADS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)
_CONFIGS = ("scipy_openblas_get_config64_", "openblas_get_config64_", "openblas_get_config")


@dataclass(frozen=True, eq=False)
class Blas:
    """The CBLAS routines of one loaded library.

    `int_bits` is the width of its dimensions (64 or 32); enumerations are always 32 bits wide.
    """

    path: str
    int_bits: int
    addresses: Mapping[RoutineName, int]
    library: ctypes.CDLL = field(repr=False)

    def thread_count(self) -> int | None:
        """How many threads the library may use; None where it does not tell."""
        functions = self._thread_functions
        return int(functions[0]()) if functions else None

    def set_thread_count(self, count: int) -> bool:
        """Lets the library use `count` threads, NumPy's own calls included; False where it
        cannot be set."""
        functions = self._thread_functions
        if functions:
            functions[1](ctypes.c_int(count))
        return functions is not None

    @functools.cached_property
    def _thread_functions(self) -> tuple[Any, Any] | None:
        for getter, setter in _THREADS:
            if hasattr(self.library, getter) and hasattr(self.library, setter):
                functions = getattr(self.library, getter), getattr(self.library, setter)
                functions[1].restype = None
                return functions
        return None


@functools.cache
def find_blas() -> Blas | None:
    """The BLAS that NumPy uses; None when there is none that passes a small test.

    The environment variable `TAPELINE_BLAS=0` hides it, for tests of the other ways.
    """
    if os.environ.get("TAPELINE_BLAS") == "0":
        return None
    for path in _candidates():
        found = _open(path)
        if found is not None and _works(found):
            return found
    return None


def _candidates() -> Iterator[str]:
    """Paths of libraries that may be it, those that NumPy ships first."""
    home = Path(np.__file__).resolve().parent
    shipped = [
        str(path)
        for folder in (home.parent / "numpy.libs", home / ".dylibs", home / ".libs")
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if _LIBRARY.search(path.name)
    ]
    yield from shipped
    yield from (path for path in _mapped_libraries() if path not in shipped)


def _mapped_libraries() -> Iterable[str]:
    """Libraries of this process, by Linux's account of it."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return ()
    paths = (line.split(maxsplit=5)[-1].strip() for line in maps.read_text().splitlines())
    wanted = (p for p in paths if p.startswith("/") and _LIBRARY.search(os.path.basename(p)))
    return dict.fromkeys(wanted)


def _open(path: str) -> Blas | None:
    """The library at `path` if this process has loaded it and it has all routines."""
    try:
        library = ctypes.CDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0))
    except OSError:
        return None
    for pattern in _PATTERNS:
        names = {name: pattern.format("cblas_" + name) for name in _ROUTINES}
        if not all(hasattr(library, symbol) for symbol in names.values()):
            continue
        addresses = {name: _address(library, symbol) for name, symbol in names.items()}
        wide = "64" in pattern or _is_built_wide(library)
        return Blas(path, 64 if wide else 32, addresses, library)
    return None


def _address(library: ctypes.CDLL, symbol: str) -> int:
    address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    assert address is not None
    return address


def _is_built_wide(library: ctypes.CDLL) -> bool:
    """Whether an OpenBLAS without a suffix says that its integers have 64 bits."""
    for name in _CONFIGS:
        if hasattr(library, name):
            config = getattr(library, name)
            config.restype = ctypes.c_char_p
            return b"USE64BITINT" in (config() or b"")
    return False


def _works(blas: Blas) -> bool:
    """Whether small products come out as NumPy's."""
    integer: type[Any] = ctypes.c_int64 if blas.int_bits == 64 else ctypes.c_int32
    pointer, enum = ctypes.c_void_p, ctypes.c_int
    for routine, scalar in (("sgemm", ctypes.c_float), ("dgemm", ctypes.c_double)):
        a = np.arange(6, dtype=scalar).reshape(2, 3)
        b = np.arange(12, dtype=scalar).reshape(3, 4)
        c = np.full((2, 4), np.nan, dtype=scalar)
        prototype = ctypes.CFUNCTYPE(
            None, enum, enum, enum, integer, integer, integer, scalar, pointer, integer,
            pointer, integer, scalar, pointer, integer,
        )  # fmt: skip
        prototype(blas.addresses[routine])(  # type: ignore[index]
            ROW_MAJOR, NO_TRANS, NO_TRANS, 2, 4, 3, 1.0, a.ctypes.data, 3,
            b.ctypes.data, 4, 0.0, c.ctypes.data, 4,
        )  # fmt: skip
        if not np.array_equal(c, a @ b):
            return False
    return True
