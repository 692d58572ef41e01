from __future__ import annotations

import ctypes
import functools
import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.codegen.engine import CompiledModule, Engine
from tapeline.compiler.codegen.gemm import K_BLOCK, gemm_text, routine_name
from tapeline.compiler.codegen.target import Target, host_target, named_target

Array = np.ndarray[Any, np.dtype[Any]]

HOST = host_target()
TARGETS = [HOST] + ([named_target("x86-64-v3")] if HOST.avx512 else [])

pytestmark = pytest.mark.skipif(HOST.vector_bytes < 32, reason="needs 32-byte vectors")


@functools.cache
def routine(size: int, target: Target) -> tuple[CompiledModule, Any]:
    """The routine, compiled for a target that this machine can run."""
    module = Engine(target).compile_module(gemm_text(size, target), {}, [routine_name(size)])
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(
        None, pointer, integer, integer, pointer, integer, integer, pointer, integer,
        integer, integer, integer, pointer, pointer,
    )  # fmt: skip
    return module, prototype(module.address(routine_name(size)))


def product_of(a: Array, b: Array, target: Target = HOST, padding: int = 3) -> Array:
    """a @ b by the routine, in an array whose surroundings are checked to stay as they were."""
    m, k = a.shape
    n = b.shape[1]
    frame = np.full((m + 2, n + padding), 7, a.dtype)
    c = frame[1:-1, :n]
    routine(a.itemsize, target)[1](
        a.ctypes.data,
        *a.strides,
        b.ctypes.data,
        *b.strides,
        c.ctypes.data,
        c.strides[0],
        m,
        n,
        k,
        None,
        None,
    )
    assert (frame[0] == 7).all()
    assert (frame[-1] == 7).all()
    assert (frame[:, n:] == 7).all()
    return np.ascontiguousarray(c)


def assert_close(actual: Array, a: Array, b: Array) -> None:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    unit = np.finfo(actual.dtype).eps
    assert (np.abs(actual - exact) <= 4 * unit * np.sqrt(a.shape[1] + 1) * bound).all()


@pytest.fixture(params=TARGETS, ids=lambda target: target.cpu)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_small_sizes(dtype: Any, target: Target) -> None:
    rng = np.random.default_rng(0)
    rows, columns = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17), (1, 3, 8, 15, 16, 17, 31, 32, 33, 50)
    for m, n, k in itertools.product(rows, columns, (1, 2, 7, 9)):
        a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
        assert_close(product_of(a, b, target), a, b)
        assert_close(product_of(a, np.asfortranarray(b), target), a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(100, 130, K_BLOCK + 5), (70, 600, 2 * K_BLOCK), (9, 70, 1000), (65, 1500, 400)],
)
def test_blocks_and_layouts(m: int, n: int, k: int, dtype: Any, target: Target) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    wide = np.zeros((2 * m, 3 * k), dtype)
    wide[::2, ::3] = a
    results = [
        product_of(left, right, target)
        for left in (a, np.asfortranarray(a), wide[::2, ::3], a[::-1][::-1])
        for right in (b, np.asfortranarray(b))
    ]
    assert_close(results[0], a, b)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_have_the_bits_of_the_whole(dtype: Any, target: Target) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(150, 500)).astype(dtype), rng.normal(size=(500, 700)).astype(dtype)
    whole = product_of(a, b, target)
    for start in range(0, 700, 128):
        part = product_of(a, b[:, start : start + 128], target)
        np.testing.assert_array_equal(part, whole[:, start : start + 128])
    for start in range(0, 150, 56):
        part = product_of(a[start : start + 56], b, target)
        np.testing.assert_array_equal(part, whole[start : start + 56])


def test_column_blocks(target: Target) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(64, 10)), rng.normal(size=(10, 9000))
    assert_close(product_of(a, b, target), a, b)
    assert_close(product_of(a, np.asfortranarray(b), target), a, b)


def test_nothing_is_read_outside(target: Target) -> None:
    for m, n, k in ((5, 17, 3), (9, 40, 390), (70, 33, 9)):
        for order in ("C", "F"):
            a, b = np.full((m + 2, k + 2), np.nan), np.full((k + 2, n + 2), np.nan)
            if order == "F":
                b = np.asfortranarray(b)
            a[1:-1, 1:-1], b[1:-1, 1:-1] = 1, 2
            result = product_of(a[1:-1, 1:-1], b[1:-1, 1:-1], target)
            np.testing.assert_array_equal(result, np.full((m, n), 2.0 * k))


def test_special_values() -> None:
    a, b = np.ones((20, 40)), np.ones((40, 50))
    a[3, 5], a[4, 6], b[7, 9] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(product_of(a, b), a @ b)
    zeros = product_of(np.full((20, 3), -0.0), np.ones((3, 50)))
    assert not np.signbit(zeros).any()


def test_broadcast_operands() -> None:
    a = np.broadcast_to(np.arange(40.0), (30, 40))
    b = np.broadcast_to(np.arange(60.0), (40, 60))
    np.testing.assert_allclose(product_of(a, b), np.ascontiguousarray(a) @ np.ascontiguousarray(b))


def test_text_does_not_depend_on_the_order_of_calls() -> None:
    assert gemm_text(4, HOST) == gemm_text(4, HOST)


WITHOUT_MEMORY = """
import ctypes, resource, sys
import numpy as np
import tapeline as tl

m, n, k = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
a, b = rng.standard_normal((m, k)), rng.standard_normal((n, k)).T
expected = a @ b
f = tl.function(lambda x, y: x @ y)
concrete = f.get_concrete_function(tl.asarray(a), tl.asarray(b))
executable = concrete.differentiable.compiled.executable([a, b])
out = np.empty((m, n))
pointers = (ctypes.c_int64 * 3)(*(x.ctypes.data for x in (a, b, out)))
used = next(line for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = 1024 * int(used.split()[1])
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
try:
    np.empty(1 << 21)
except MemoryError:
    assert executable._run(pointers) == 0
    resource.setrlimit(resource.RLIMIT_AS, before)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
    print("did without")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits its memory by Linux's means")
@pytest.mark.parametrize("sizes", [(200, 700, 900), (70, 33, 2000), (65, 1100, 65)])
def test_product_without_memory_for_panels_is_the_same(sizes: tuple[int, int, int]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY, *map(str, sizes)],
        env={**os.environ, "TAPELINE_NUM_THREADS": "1", "TAPELINE_BLAS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "did without" in done.stdout
