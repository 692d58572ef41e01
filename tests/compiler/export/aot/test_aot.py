"""Object files called from C, and from Python by way of a shared library, give the same numbers."""

from __future__ import annotations

import ctypes
import dataclasses
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.example_programs import PROGRAMS, load_program, name_of, results_of
from tests.random_functions import RandomFunction

import tapeline as tl
from tapeline.compiler.export.aot.build import AotLibrary
from tapeline.compiler.export.aot.targets import host_triple
from tapeline.runtime.errors import ArgumentError, ExportError
from tapeline.runtime.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]

ROOT = Path(__file__).resolve().parents[4]
MARGIN = 256
"""Bytes after the workspace that nobody may touch."""

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler to link with"
)
needs_x86_linux = pytest.mark.skipif(
    host_triple() != "x86_64-unknown-linux-gnu", reason="compiles for x86-64 Linux"
)


def call(made: AotLibrary, name: str, given: Sequence[Any]) -> tuple[int, list[Array]]:
    """The status and outputs of an entry of the shared library."""
    assert made.library is not None, made.note
    function = ctypes.CDLL(made.library)[name]
    function.restype = ctypes.c_int64
    inputs = [np.array(x, order="C") for x in given]
    parameters = made.parameters[name]
    outputs = [np.empty(p.spec.static_shape, p.spec.dtype) for p in parameters if p.is_output]
    left = iter(inputs)
    right = iter(outputs)
    arrays = [next(right) if p.is_output else next(left) for p in parameters]
    size = made.workspaces[name]
    room = np.full(size + MARGIN + 64, 77, np.uint8)
    start = -room.ctypes.data % 64
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in arrays]
    status = function(*pointers, ctypes.c_void_p(room.ctypes.data + start))
    assert (room[start + size :] == 77).all(), "it wrote after its workspace"
    for x, before in zip(inputs, given, strict=True):
        np.testing.assert_array_equal(x, before)
    return status, outputs


def run(function: Any, arrays: Sequence[Any], folder: Path, target: str = "host") -> list[Array]:
    """The outputs of a function, compiled for a target."""
    signature = tuple(map(tl.asarray, arrays))
    made = tl.export.aot(function, folder, signature, targets=[target], grad=False, name="f")
    status, outputs = call(made, "f", arrays)
    assert status == 0
    return outputs


def assert_all_close(got: Sequence[Array], want: Any, rtol: float = 1e-13) -> None:
    for a, b in zip(got, want if isinstance(want, tuple | list) else (want,), strict=True):
        value = b.numpy() if isinstance(b, Tensor) else np.asarray(b)
        assert (a.shape, a.dtype) == (value.shape, value.dtype)
        scale = float(np.max(np.abs(value[np.isfinite(value)]), initial=1.0))
        np.testing.assert_allclose(a, value, rtol=rtol, atol=rtol * scale)


# A program in C


@pytest.fixture(scope="module")
def network() -> Any:
    w = tl.Variable(np.linspace(-1, 1, 12).reshape(3, 4), name="w")
    shift = tl.asarray(0.5)

    @tl.function
    def loss(x: Tensor, y: Tensor) -> Tensor:
        return tl.mean((tl.tanh(x @ w + shift) - y) ** 2)

    return loss, w


SIGNATURE = (tl.TensorSpec([5, 3], "float64"), tl.TensorSpec([5, 4], "float64"))


def pattern(shape: tuple[int, ...]) -> Tensor:
    """What the example in C fills its arrays with."""
    count = int(np.prod(shape))
    return tl.asarray((0.125 + 0.25 * (np.arange(count) % 7)).reshape(shape))


@needs_compiler
def test_the_example_in_c_prints_what_python_computes(network: Any, tmp_path: Path) -> None:
    loss, w = network
    tl.export.aot(loss, tmp_path, SIGNATURE)
    warnings = ["-Wall", "-Wextra", "-Werror", "-std=c11", "-pedantic"]
    subprocess.run(
        ["cc", *warnings, "example.c", "loss.o", "-lm", "-o", "example"], cwd=tmp_path, check=True
    )
    printed = subprocess.run(
        [str(tmp_path / "example")], check=True, capture_output=True, text=True
    ).stdout
    found = {line.split()[0]: np.array(line.split()[1:], float) for line in printed.splitlines()}
    x, y = pattern((5, 3)), pattern((5, 4))
    with tl.GradientTape() as tape:
        tape.watch([x, y])
        value = loss(x, y)
    ct = tl.asarray(0.125)
    want = tape.gradient(value, [x, y, w], output_gradients=ct)
    np.testing.assert_allclose(found.pop("result"), float(value), rtol=1e-15)
    for name, slope in zip(("x", "y", "w"), want, strict=True):
        got = found.pop(f"gradient_{name}")
        np.testing.assert_allclose(got, slope.numpy().ravel(), rtol=1e-12, atol=1e-16)
    assert not found


@needs_compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_the_header_is_c_plus_plus_too(network: Any, tmp_path: Path) -> None:
    tl.export.aot(network[0], tmp_path, SIGNATURE)
    source = '#include "loss.h"\nint main() { return LOSS_WORKSPACE_SIZE < 0; }\n'
    (tmp_path / "main.cc").write_text(source)
    warnings = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run(["g++", *warnings, "-c", "main.cc"], cwd=tmp_path, check=True)


@needs_compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_arrays_of_every_kind_go_in_and_out(tmp_path: Path) -> None:
    """Halves are passed by their bits, complex numbers as pairs; C and C++ take the header."""
    shift = tl.Variable(np.array([0.5, -2.0, 3.0], np.float16), name="shift")

    @tl.function
    def kinds(h: Tensor, z: Tensor, k: Tensor, flag: Tensor) -> tuple[Tensor, ...]:
        return h * 3 + shift, z * z, tl.where(flag, k * 3, k), tl.logical_not(flag)

    given = [
        np.array([0.1, 2.0, 65504.0], np.float16), np.array([1 + 2j, -0.5j]),
        np.array([1, -2, 3], np.int32), np.array([True, False, True]),
    ]  # fmt: skip
    signature = tuple(map(tl.asarray, given))
    made = tl.export.aot(kinds, tmp_path, signature, grad=False)
    assert made.prototypes[0].startswith("int64_t kinds(const uint16_t *h, const double *z,")
    status, outputs = call(made, "kinds", [*given, shift.numpy()])
    assert status == 0
    for got, want in zip(outputs, kinds(*signature), strict=True):
        np.testing.assert_array_equal(got, want.numpy())
    assert "shift: variable, float16[3], by their bits" in (tmp_path / "kinds.h").read_text()
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    files = ["example.c", "kinds.o", "-lm", "-o", "example"]
    subprocess.run(["cc", "-std=c11", *warnings, *files], cwd=tmp_path, check=True)
    printed = subprocess.run(
        [str(tmp_path / "example")], check=True, capture_output=True, text=True
    ).stdout
    h = (0.125 + 0.25 * np.arange(3)).astype(np.float16)
    bits = (h * np.float16(3) + shift.numpy()).view(np.uint16)
    first = next(line for line in printed.splitlines() if not line.startswith("status"))
    assert [int(word) for word in first.split()[1:]] == bits.tolist()
    (tmp_path / "main.cc").write_text('#include "kinds.h"\nint main() { return 0; }\n')
    subprocess.run(["g++", *warnings, "-c", "main.cc"], cwd=tmp_path, check=True)


@needs_compiler
def test_two_objects_go_into_one_program(tmp_path: Path) -> None:
    for name, function in (("one", lambda x: tl.exp(x) @ x), ("two", lambda x: tl.sin(x) @ x)):
        tl.export.aot(
            tl.function(function), tmp_path, (tl.TensorSpec([70, 70], "float32"),), name=name
        )
    objects = [str(tmp_path / f"{name}.o") for name in ("one", "two")]
    target = tmp_path / "both.so"
    subprocess.run(["cc", "-shared", "-o", str(target), *objects, "-lm"], check=True)
    library = ctypes.CDLL(str(target))
    assert library.one
    assert library.two_gradient


# Gradients and Variables


@needs_compiler
def test_gradient_of_the_network(network: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    loss, w = network
    made = tl.export.aot(loss, tmp_path, SIGNATURE)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    status, (value,) = call(made, "loss", [x, y, w.numpy()])
    assert status == 0
    assert_all_close([value], loss(tl.asarray(x), tl.asarray(y)))
    status, slopes = call(made, "loss_gradient", [x, y, w.numpy(), np.array(2.0)])
    assert status == 0
    tensors = tl.asarray(x), tl.asarray(y)
    with tl.GradientTape() as tape:
        tape.watch(tensors)
        total = loss(*tensors) * 2
    assert_all_close(slopes, tape.gradient(total, [*tensors, w]), 1e-12)


@needs_compiler
def test_the_training_step_of_the_digits_example(tmp_path: Path) -> None:
    scope = runpy.run_path(str(ROOT / "examples/digits.py"), run_name="digits")
    images, labels = scope["load_digits"]()
    network = scope["Network"](scope["initial_weights"](np.random.default_rng(0)))
    step = scope["make_train_step"](network)
    given = (tl.asarray(images[:64]), tl.asarray(labels[:64]))
    made = tl.export.aot(step, tmp_path, given, grad=False)
    weights = [variable.numpy() for variable in network.variables]
    order = [p.name for p in made.parameters["train_step"] if p.role == "variable"]
    named = {v.name: v.numpy() for v in network.variables}
    for _ in range(3):
        arrays = [images[:64], labels[:64], *[named[name] for name in order]]
        status, (loss, *new) = call(made, "train_step", arrays)
        assert status == 0
        outputs = [p.name for p in made.parameters["train_step"] if p.role == "new value"]
        named = dict(zip([name.removeprefix("new_") for name in outputs], new, strict=True))
        assert_all_close([loss], step(*given), 1e-5)
    assert len(weights) == len(named)
    assert_all_close([named[v.name] for v in network.variables], network.variables, 1e-5)


# Kinds of programs, on several processors


def products(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a @ b, tl.transpose(b) @ tl.transpose(a), a[0] @ b, tl.stack([a] * 9) @ b[:, :5]


@needs_compiler
@needs_x86_linux
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (33, 40, 50), (70, 600, 130), (130, 31, 5000)])
def test_matrix_products_without_blas(
    sizes: tuple[int, int, int], target: str, dtype: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    m, k, n = sizes
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n))]
    got = run(tl.function(products), arrays, tmp_path, target)
    want = products(*map(tl.asarray, arrays))
    assert_all_close(got, want, 1e-5 if dtype == "float32" else 1e-13)


@needs_compiler
def test_checks_that_do_not_hold_are_told_by_the_status(tmp_path: Path) -> None:
    @tl.function
    def total(x: Tensor) -> Any:
        tl.debugging.assert_positive(x)
        total, k = tl.asarray(0.0), 0
        while k < x.shape[0]:
            assert total < 100.0
            total, k = total + x[k], k + 1
        return total

    made = tl.export.aot(total, tmp_path, (tl.TensorSpec([80]),))
    x = np.ones(80)
    status, (value,) = call(made, "total", [x])
    assert status == 0
    assert value == 80.0
    for wrong in (np.where(np.arange(80) == 7, -1.0, x), 2 * x):
        assert call(made, "total", [wrong])[0] == 1


@needs_compiler
@needs_x86_linux
@pytest.mark.parametrize("target", ["host", "x86-64-v3", "x86-64-v2"])
def test_control_flow_and_functions(target: str, tmp_path: Path, rng: np.random.Generator) -> None:
    @tl.function
    def several(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        y = x * 0 + 1
        while tl.max(tl.abs(y * y - x)) > 1e-10:
            y = (y + x / y) / 2
        total = tl.asarray(0.0)
        for row in x[:, None] * y:
            change = tl.sum(tl.sin(row))
            if change < 0:
                change = tl.max(tl.exp(-row))
            total = total + change
        return y, total, tl.take(x, i), tl.nn.softmax(x), tl.erf(x) * tl.tanh(y)

    arrays = [rng.uniform(0.5, 3, 20), rng.integers(0, 20, 7)]
    got = run(several, arrays, tmp_path, target)
    assert_all_close(got, several.python_function(*map(tl.asarray, arrays)), 1e-12)


@needs_compiler
def test_an_index_out_of_range_is_a_status(tmp_path: Path) -> None:
    function = tl.function(lambda x, i: tl.take(x, i) * 2)
    x, i = np.arange(5.0), np.array([0, 3])
    made = tl.export.aot(function, tmp_path, (tl.asarray(x), tl.asarray(i)), name="taken")
    status, (got,) = call(made, "taken", [x, i])
    assert status == 0
    np.testing.assert_array_equal(got, [0, 6])
    assert call(made, "taken", [x, np.array([0, 5])])[0] & 255 in (1, 3)


@needs_compiler
@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_example_program(path: Path, tmp_path: Path) -> None:
    program, given = load_program(path)
    try:
        got = run(tl.function(program), given, tmp_path)
    except ExportError as error:
        assert f"at {path.name}:" in str(error)  # noqa: PT017  # the others must not raise
        return
    assert_all_close(got, results_of(program, given), 1e-9)


def likelihood(x: Tensor) -> tuple[Tensor, ...]:
    square = x @ tl.matrix_transpose(x) + tl.eye(x.shape[0])
    lower = tl.linalg.cholesky(square)
    values, vectors = tl.linalg.eigh(square)
    q, r = tl.linalg.qr(x)
    sign, logarithm = tl.linalg.slogdet(square)
    spread = tl.sum(tl.log(tl.linalg.diagonal(lower))) + sign * logarithm
    total = spread + tl.sum(tl.linalg.svdvals(x)) + tl.linalg.det(square)
    return (
        total, tl.linalg.inv(square), tl.linalg.solve(square, x), lower, values,
        vectors * tl.expand_dims(values, 0) @ vectors.T, q @ r, tl.linalg.pinv(x),
        tl.linalg.matrix_exp(square / 4.0),
    )  # fmt: skip


@needs_compiler
@needs_x86_linux
@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
def test_factorizations_need_no_numpy(
    target: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(7, 5))
    got = run(tl.function(likelihood), [x], tmp_path, target)
    assert_all_close(got, likelihood(tl.asarray(x)), 1e-11)


@needs_compiler
def test_gradients_and_loops_take_factorizations_along(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    @tl.function
    def energy(x: Tensor, b: Tensor) -> Tensor:
        square = x @ x.T + tl.eye(4)
        for _ in range(tl.asarray(3)):
            b = tl.linalg.solve(square, b)
        return tl.sum(b) + tl.linalg.slogdet(square)[1]

    x, b = tl.asarray(rng.normal(size=(4, 4))), tl.asarray(rng.normal(size=(4, 1)))
    made = tl.export.aot(energy, tmp_path, (x, b))
    status, (value,) = call(made, "energy", [x.numpy(), b.numpy()])
    assert status == 0
    assert_all_close([value], energy(x, b), 1e-12)
    status, slopes = call(made, "energy_gradient", [x.numpy(), b.numpy(), np.ones(())])
    assert status == 0
    assert_all_close(slopes, tl.grad(energy, argnums=(0, 1))(x, b), 1e-10)


# Random graphs


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_functions(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        made = RandomFunction(seed, "float32" if seed % 4 == 3 else "float64", steps=8)
        folder = tmp_path / str(seed)
        try:
            got = run(made.function(), made.arrays, folder)
        except ExportError as error:
            assert "only a NumPy kernel" in str(error)  # noqa: PT017  # others must not raise
            continue
        rtol = 1e-11 if made.arrays[0].dtype == np.float64 else 1e-4
        assert_all_close(got, made(*map(tl.asarray, made.arrays)), rtol)


# Products by BLAS, and a project of CMake


CBLAS = """
#include <stdio.h>
#define MAKE(letter, type) \\
    void cblas_##letter##gemm(int order, int ta, int tb, int m, int n, int k, type alpha, \\
            const type *a, int lda, const type *b, int ldb, type beta, type *c, int ldc) { \\
        for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { \\
            type s = 0; \\
            for (int p = 0; p < k; p++) \\
                s += (ta == 111 ? a[i * lda + p] : a[p * lda + i]) \\
                   * (tb == 111 ? b[p * ldb + j] : b[j * ldb + p]); \\
            c[i * ldc + j] = order == 101 && beta == 0 ? alpha * s : 0; } } \\
    void cblas_##letter##gemv(int order, int ta, int m, int n, type alpha, const type *a, \\
            int lda, const type *x, int incx, type beta, type *y, int incy) { \\
        int rows = ta == 111 ? m : n, columns = ta == 111 ? n : m; \\
        for (int i = 0; i < rows; i++) { \\
            type s = 0; \\
            for (int p = 0; p < columns; p++) \\
                s += (ta == 111 ? a[i * lda + p] : a[p * lda + i]) * x[p * incx]; \\
            y[i * incy] = order == 101 && beta == 0 ? alpha * s : 0; } }
MAKE(s, float)
MAKE(d, double)
"""
"""A CBLAS for tests, where none may be installed."""


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_call_blas_where_that_is_asked_for(
    dtype: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((40, 50), (50, 60))]
    signature = tuple(map(tl.asarray, arrays))
    made = tl.export.aot(
        tl.function(products), tmp_path, signature, grad=False, name="f", blas=True
    )
    letter = dtype[-2:].replace("32", "s").replace("64", "d")
    wanted = {f"cblas_{letter}gemm", f"cblas_{letter}gemv"}
    assert wanted <= set(made.symbols["host"]) <= wanted | {"memcpy", "memset"}
    assert "CBLAS" in (tmp_path / "f.h").read_text()
    assert made.library is not None or "found no CBLAS" in made.note
    (tmp_path / "cblas.c").write_text(CBLAS)
    target = tmp_path / "with_blas.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(target), "cblas.c", "f.o"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    status, got = call(dataclasses.replace(made, library=str(target)), "f", arrays)
    assert status == 0
    assert_all_close(got, products(*signature), 1e-5 if dtype == "float32" else 1e-13)


CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.10)
project(uses C)
include(compiled/loss.cmake)
add_executable(uses compiled/example.c)
target_link_libraries(uses PRIVATE loss)
"""


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_a_cmake_project_builds_with_the_written_file(network: Any, tmp_path: Path) -> None:
    tl.export.aot(network[0], tmp_path / "compiled", SIGNATURE)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    build = tmp_path / "build"
    for command in (["-S", str(tmp_path), "-B", str(build)], ["--build", str(build)]):
        subprocess.run(["cmake", *command], check=True, capture_output=True)
    printed = subprocess.run([str(build / "uses")], check=True, capture_output=True, text=True)
    value = network[0](pattern((5, 3)), pattern((5, 4))).item()
    np.testing.assert_allclose(float(printed.stdout.split()[1]), value, rtol=1e-15)


# What is refused


def test_open_sizes_are_refused_with_what_to_do(tmp_path: Path) -> None:
    function = tl.function(lambda x: tl.sum(tl.tanh(x)), name="f")
    with pytest.raises(ExportError, match=r"sizes open \(x: float64\[None, 3\]\).*for each size"):
        tl.export.aot(function, tmp_path / "out", (tl.TensorSpec([None, 3], "float64"),))
    assert not (tmp_path / "out").exists()


@needs_compiler
def test_a_number_that_varies_is_an_input(tmp_path: Path) -> None:
    function = tl.function(lambda x, rate: x * rate, name="f")
    x = tl.asarray([1.0, 2.0])
    for rate in (0.5, 1.5, 2.5, 3.5):
        function(x, rate)
    made = tl.export.aot(function, tmp_path, (x, 4.5), grad=False)
    assert [p.name for p in made.parameters["f"]] == ["x", "rate", "result"]
    status, (got,) = call(made, "f", [x.numpy(), np.array(4.5)])
    assert status == 0
    np.testing.assert_array_equal(got, [4.5, 9.0])


def test_what_has_no_native_form_is_named_with_its_line(tmp_path: Path) -> None:
    function = tl.function(
        lambda x: tl.sum(tl.abs(tl.fft.rfft(x)) + tl.abs(tl.linalg.eigvals(x))[0])
    )
    folder = tmp_path / "out"
    with pytest.raises(ExportError, match=r"(?s)rfft at test_aot.py:\d+.*eigvals at test_aot"):
        tl.export.aot(function, folder, (tl.TensorSpec([3, 3], "float64"),))
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["mask", "nonzero", "unique", "repeat"])
def test_sizes_that_depend_on_values_are_refused_with_their_line(kind: str, tmp_path: Path) -> None:
    def sized(x: Tensor, counts: Tensor) -> Any:
        return {
            "mask": lambda: x[x > 0],
            "nonzero": lambda: tl.nonzero(x)[0],
            "unique": lambda: tl.unique_values(x),
            "repeat": lambda: tl.repeat(x, counts),
        }[kind]()

    given = (tl.asarray([1.0, -1.0, 2.0]), tl.asarray([2, 0, 1]))
    with pytest.raises(ExportError, match=r"at .*test_aot\.py:\d+ gives depends on values"):
        tl.export.aot(tl.function(sized), tmp_path / "out", given)
    assert not (tmp_path / "out").exists()


def test_unknown_targets_and_bad_names_are_refused(network: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no target 'pdp11'; there are 'host', 'x86-64'"):
        tl.export.aot(network[0], tmp_path, SIGNATURE, targets=["pdp11"])
    with pytest.raises(ArgumentError, match="targets is empty"):
        tl.export.aot(network[0], tmp_path, SIGNATURE, targets=[])
    with pytest.raises(ArgumentError, match="'a-b' is no name of a C function"):
        tl.export.aot(network[0], tmp_path, SIGNATURE, name="a-b")


def test_without_a_compiler_there_is_no_library_and_a_note(
    network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    made = tl.export.aot(network[0], tmp_path, SIGNATURE)
    assert made.library is None
    assert "there is no C compiler" in made.note
    assert (tmp_path / "loss.o").exists()
