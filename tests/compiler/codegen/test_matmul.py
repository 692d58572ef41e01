from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.codegen.blas import find_blas
from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.matmul import (
    choose_strategy,
    emit_matmul,
    matmul_needs_copy,
    matmul_symbols,
    matrix_operand,
    supports_matmul,
)
from tapeline.compiler.codegen.matmul_inline import split_columns
from tapeline.compiler.codegen.matrix import build_product
from tapeline.compiler.codegen.nest import Kernel
from tapeline.compiler.codegen.target import Target, host_target, named_target

Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.skipif(find_blas() is None, reason="NumPy has no callable BLAS")
TARGET = host_target()


def run(kernel: Kernel, arrays: tuple[Array, ...], splits: int = 1) -> None:
    """Compiles and launches a kernel over these buffers, each launch in `splits` chunks."""
    for launch in kernel.launches:
        function = launch.function
        text = "\n".join(sorted(function.declarations)) + "\n" + function.text
        module = get_engine().compile_module(text, matmul_symbols(kernel), [function.name])
        slots = (ctypes.c_int64 * max(1, len(launch.values)))()
        for number, value in enumerate(launch.values):
            if isinstance(value, tuple):
                slots[number] = arrays[value[1]].ctypes.data + value[2]
            else:
                slots[number] = value
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            module.address(function.name)
        )
        bounds = [launch.extent * part // splits for part in range(splits + 1)]
        for low, high in itertools.pairwise(bounds):
            call(ctypes.addressof(slots), low, high)


def product_of(a: Array, b: Array, target: Target = TARGET, splits: int = 1) -> Array:
    """matmul by the emitted kernel, with the copies it asks for; the strategy is checked to run."""
    out = np.full(np.matmul(a, b).shape, np.nan, a.dtype)
    described = (matrix_operand(a), matrix_operand(b), matrix_operand(out))
    copy_a, copy_b = matmul_needs_copy(*described, target)
    a, b = (np.ascontiguousarray(a) if copy_a else a), (np.ascontiguousarray(b) if copy_b else b)
    kernel = emit_matmul(matrix_operand(a), matrix_operand(b), matrix_operand(out), target)
    run(kernel, (a, b, out), splits)
    return out


def close(actual: Array, expected: Array) -> None:
    tolerance = 1e-4 if actual.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


SHAPES = [
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((7, 5), (5, 19)),
    ((32, 32), (32, 32)),
    ((33, 17), (17, 40)),
    ((64, 64), (64, 64)),
    ((100, 3), (3, 1)),
    ((1, 50), (50, 60)),
    ((5,), (5,)),
    ((90,), (90,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((70,), (70, 80)),
    ((80, 70), (70,)),
    ((3, 4, 5), (3, 5, 6)),
    ((3, 40, 50), (50, 6)),
    ((40, 50), (3, 50, 60)),
    ((2, 1, 4, 5), (3, 5, 6)),
    ((2, 1, 40, 50), (3, 50, 60)),
    ((6, 40), (2, 3, 40, 60)),
    ((2, 3, 40), (40,)),
    ((40,), (2, 40, 3)),
    ((170, 180), (180, 190)),
    ((400, 70), (70, 200)),
    ((3, 130, 128), (3, 128, 130)),
    ((12, 80, 90), (12, 90, 80)),
    ((2, 1, 100, 128), (3, 128, 128)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_matmul_equals_numpy(a_shape: Any, b_shape: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=a_shape).astype(dtype)
    b = rng.normal(size=b_shape).astype(dtype)
    close(product_of(a, b), np.matmul(a, b))


@pytest.mark.parametrize("cpu", ["generic", "haswell", "znver4"])
def test_inline_kernels_of_all_vector_sizes(cpu: str) -> None:
    target = named_target(cpu)
    if target.vector_bytes > TARGET.vector_bytes:
        pytest.skip("this processor has shorter vectors")
    rng = np.random.default_rng(1)
    for m, k, n in itertools.product((1, 2, 9), (1, 4, 5), (1, 3, 8, 17, 31)):
        a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        close(product_of(a, b, target), a @ b)


def views(rng: np.random.Generator, rows: int, columns: int) -> dict[str, Array]:
    """The same matrix in many layouts."""
    base = rng.normal(size=(rows, columns))
    wide = np.zeros((2 * rows, 2 * columns))
    wide[::2, ::2] = base
    sliced = np.zeros((rows, columns + 3))
    sliced[:, :columns] = base
    return {
        "dense": base,
        "transposed": np.asfortranarray(base),
        "strided": wide[::2, ::2],
        "sliced": sliced[:, :columns],
        "reversed": np.ascontiguousarray(base[::-1, ::-1])[::-1, ::-1],
        "sliced columns": np.asfortranarray(sliced)[:, :columns],
    }


@pytest.mark.parametrize(
    ("m", "k", "n"), [(6, 7, 8), (40, 50, 60), (1, 50, 60), (40, 50, 1), (170, 160, 180)]
)
def test_matmul_of_views(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(2)
    for a, b in itertools.product(views(rng, m, k).values(), views(rng, k, n).values()):
        close(product_of(a, b), a @ b)


def test_transposed_operands_need_no_copy() -> None:
    a, b, out = np.ones((50, 40)).T, np.ones((60, 50)).T, np.ones((40, 60))
    described = (matrix_operand(a), matrix_operand(b), matrix_operand(out))
    assert matmul_needs_copy(*described, TARGET) == (False, False)
    strided = np.ones((80, 100))[::2, ::2]
    described = (matrix_operand(strided), matrix_operand(b), matrix_operand(out))
    assert matmul_needs_copy(*described, TARGET) == (True, False)
    row = np.broadcast_to(np.ones(50), (40, 50))
    described = (matrix_operand(row), matrix_operand(b), matrix_operand(out))
    assert matmul_needs_copy(*described, TARGET) == (True, False)


def test_column_major_result() -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((5, 6, 7), (50, 60, 70)):
        a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        out = np.zeros((n, m)).T
        kernel = emit_matmul(matrix_operand(a), matrix_operand(b), matrix_operand(out), TARGET)
        run(kernel, (a, b, out))
        close(out, a @ b)


def test_product_over_nothing_is_zero() -> None:
    for shape in ((3, 4), (300, 400)):
        a, b = np.ones((shape[0], 0)), np.ones((0, shape[1]))
        result = product_of(a, b)
        assert np.array_equal(result, np.zeros(shape))
        assert not np.signbit(result).any()


def test_empty_result_launches_nothing() -> None:
    a, b, out = np.ones((0, 3)), np.ones((3, 4)), np.ones((0, 4))
    kernel = emit_matmul(matrix_operand(a), matrix_operand(b), matrix_operand(out), TARGET)
    assert kernel.launches == ()


@pytest.mark.parametrize("size", [3, 50])
def test_nan_and_infinity_propagate(size: int) -> None:
    a, b = np.ones((size, size)), np.ones((size, size))
    a[0, 0], b[1, 1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(product_of(a, b), expected)


@pytest.mark.parametrize("size", [3, 50])
def test_batch_in_chunks_gives_the_same_bits(size: int) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(7, size, size)), rng.normal(size=(7, size, size))
    np.testing.assert_array_equal(product_of(a, b), product_of(a, b, splits=3))


def strategy_of(a: Array, b: Array, target: Target = TARGET) -> str:
    out = np.zeros(np.matmul(a, b).shape)
    product = build_product(matrix_operand(a), matrix_operand(b), matrix_operand(out))
    return choose_strategy(product, target)


def test_strategy_depends_on_sizes() -> None:
    wide = named_target("znver4")
    assert strategy_of(np.ones((0, 3)), np.ones((3, 4)), wide) == "none"
    assert strategy_of(np.ones((3, 0)), np.ones((0, 4)), wide) == "zero"
    assert strategy_of(np.ones((4, 5)), np.ones((5, 6)), wide) == "inline"
    assert strategy_of(np.ones((1, 50)), np.ones((50, 60)), wide) == "gemv"
    assert strategy_of(np.ones((64, 64)), np.ones((64, 64)), wide) == "blas"
    assert strategy_of(np.ones((256, 256)), np.ones((256, 256)), wide) == "own"
    assert strategy_of(np.ones((900, 900)), np.ones((900, 10)), wide) == "blas"
    assert strategy_of(np.ones((256, 256)), np.ones((256, 256)), named_target("haswell")) == "blas"


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((170, 180), (180, 300)), ((400, 130), (130, 140)), ((12, 90, 80), (12, 80, 90))],
)
def test_own_products_in_chunks_give_the_same_bits(a_shape: Any, b_shape: Any) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=a_shape), rng.normal(size=b_shape)
    whole = product_of(a, b)
    for splits in (2, 3, 7):
        np.testing.assert_array_equal(product_of(a, b, splits=splits), whole)


def test_own_products_need_no_copy_of_the_left_operand() -> None:
    if not TARGET.avx512:
        pytest.skip("BLAS serves these sizes")
    a, b = np.ones((400, 400))[::2, ::2], np.ones((400, 400))[::2, ::2]
    described = (matrix_operand(a), matrix_operand(b), matrix_operand(np.ones((200, 200))))
    assert matmul_needs_copy(*described, TARGET) == (False, True)


def test_without_blas_all_sizes_are_served() -> None:
    if TARGET.vector_bytes < 32:
        pytest.skip("needs 32-byte vectors")
    code = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("cases", sys.argv[1])
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
assert cases.supports_matmul(np.dtype("float32"), cases.TARGET)
for shapes in cases.SHAPES:
    a, b = (np.random.default_rng(0).normal(size=shape) for shape in shapes)
    cases.close(cases.product_of(a, b), np.matmul(a, b))
"""
    environment = {**os.environ, "TAPELINE_BLAS": "0"}
    command = [sys.executable, "-c", code, __file__]
    subprocess.run(command, env=environment, check=True, timeout=100)


def test_shared_right_operand_is_one_product() -> None:
    a, b, out = np.ones((5, 40, 50)), np.ones((50, 60)), np.ones((5, 40, 60))
    product = build_product(matrix_operand(a), matrix_operand(b), matrix_operand(out))
    assert (product.m, product.k, product.n, product.batch) == (200, 50, 60, ())


def test_gemm_text_does_not_depend_on_sizes() -> None:
    def function_of(m: int, k: int, n: int) -> Any:
        a, b, out = np.ones((m, k)), np.ones((k, n)), np.ones((m, n))
        described = (matrix_operand(a), matrix_operand(b), matrix_operand(out))
        return emit_matmul(*described, TARGET).launches[0].function

    assert function_of(40, 50, 60) == function_of(70, 80, 90)
    assert function_of(4, 5, 6).key != function_of(40, 50, 60).key


def test_columns_are_split_into_vectors() -> None:
    assert [(p.first, p.columns, p.lanes) for p in split_columns(21, 8)] == [
        (0, 8, 8),
        (8, 8, 8),
        (16, 5, 8),
    ]
    assert [p.lanes for p in split_columns(1, 8)] == [1]


def test_only_floats_are_emitted() -> None:
    assert supports_matmul(np.dtype("float32"), TARGET)
    assert not supports_matmul(np.dtype("int64"), TARGET)
    assert not supports_matmul(np.dtype("complex64"), TARGET)
    assert not supports_matmul(np.dtype(">f8"), TARGET)
