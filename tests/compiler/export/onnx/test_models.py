"""Whole functions as ONNX models: control flow, Variables, gradients, examples, random graphs."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, export_and_run, run_model, stacked
from tests.example_programs import PROGRAMS, load_program, name_of, results_of
from tests.random_functions import RandomFunction

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ExportError
from tapeline.runtime.tensor import Tensor

onnx = pytest.importorskip("onnx", reason=NEEDS_ONNX)

ROOT = Path(__file__).resolve().parents[4]


def kinds_of(path: Path) -> Counter[str]:
    """How many nodes of each kind a model has, bodies left out."""
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def assert_all_close(got: Any, want: Any, rtol: float) -> None:
    for a, b in zip(got, want, strict=True):
        value = stacked(b.numpy() if isinstance(b, Tensor) else b)
        assert (a.shape, a.dtype) == (value.shape, value.dtype)
        scale = np.max(np.abs(value[np.isfinite(value)]), initial=1.0) if value.size else 1.0
        np.testing.assert_allclose(a, value, rtol=rtol, atol=rtol * float(scale))


# Control flow


@tl.function
def chosen(x: Tensor) -> Tensor:
    if tl.sum(x) > 0:
        return tl.tanh(x) * 2
    return tl.exp(x)


@tl.function
def newton(x: Tensor) -> Tensor:
    y = x * 0 + 1
    while tl.max(tl.abs(y * y - x)) > 1e-10:
        y = (y + x / y) / 2
    return y


@tl.function
def recurrent(w: Tensor, xs: Tensor) -> Tensor:
    h = tl.zeros(3)
    for x in xs:
        h = tl.tanh(w @ h + x)
    return h


@tl.function
def stopped_early(xs: Tensor) -> Tensor:
    total = xs[0]
    for x in xs:
        if total > 30:
            break
        total = total + x * x
    return total


@pytest.mark.parametrize(
    ("function", "shapes", "kind"),
    [
        (chosen, [(4,)], "If"),
        (newton, [(4,)], "Loop"),
        (recurrent, [(3, 3), (100, 3)], "Scan"),
        (stopped_early, [(100,)], "Loop"),
    ],
)
def test_control_flow_and_its_gradient(
    function: Any, shapes: Any, kind: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    for sign in (1.0, -1.0):
        arrays = [rng.uniform(0.1, 1, shape) * sign for shape in shapes]
        if function is newton:
            arrays = [np.abs(x) for x in arrays]
        path = tmp_path / "m.onnx"
        got = export_and_run(function, arrays, path)
        assert kinds_of(path)[kind] == 1
        sources = [tl.asarray(x) for x in arrays]
        with tl.GradientTape() as tape:
            tape.watch(sources)
            value = function(*sources)
        assert_all_close(got.values(), [value], 1e-12)
        cotangent = rng.normal(size=value.shape)
        want = tape.gradient(value, sources, output_gradients=tl.asarray(cotangent))
        slopes = export_and_run(function, arrays, path, True, [cotangent])
        assert_all_close(slopes.values(), want, 1e-10)


# Variables


def test_variables_are_initializers_and_a_step_goes_on_from_step_to_step(tmp_path: Path) -> None:
    w = tl.Variable(np.array([1.0, -2.0]), name="w")
    rate = tl.asarray(0.1)

    @tl.function
    def step(x: Tensor) -> Tensor:
        with tl.GradientTape() as tape:
            loss = tl.sum((w * x - 1) ** 2)
        w.assign_sub(rate * tape.gradient(loss, w))
        return loss

    path = tmp_path / "m.onnx"
    x = np.array([0.5, 2.0])
    model = tl.export.onnx(step, path, (tl.TensorSpec([2], "float64"),))
    assert list(model.inputs) == ["x"]
    assert list(model.variables) == ["w"]
    assert list(model.outputs) == ["result", "new_w"]
    feeds = {"x": x}
    for _ in range(3):
        got = run_model(path, feeds)
        assert_all_close(got.values(), [step(tl.asarray(x)), w.numpy()], 1e-13)
        feeds["w"] = got["new_w"]


def test_gradients_reach_variables(tmp_path: Path) -> None:
    w = tl.Variable(np.array([1.0, -2.0]), name="w")
    function = tl.function(lambda x: tl.sum(tl.tanh(w * x)))
    x = np.array([0.5, 2.0])
    got = export_and_run(function, [x], tmp_path / "m.onnx", True, [np.array(1.0)])
    with tl.GradientTape() as tape:
        value = function(tl.asarray(x))
    assert_all_close([got["gradient_w"]], [tape.gradient(value, w)], 1e-13)


# Examples


def test_the_digits_of_the_example(tmp_path: Path) -> None:
    scope = runpy.run_path(str(ROOT / "examples/digits.py"), run_name="digits")
    rng = np.random.default_rng(0)
    images, labels = scope["load_digits"]()
    network = scope["Network"](scope["initial_weights"](rng))
    step = scope["make_train_step"](network)
    given = (tl.asarray(images[:64]), tl.asarray(labels[:64]))
    for _ in range(5):
        step(*given)
    logits = tl.function(network.logits)
    got = export_and_run(logits, [images[:9]], tmp_path / "logits.onnx")
    assert_all_close(got.values(), [logits(tl.asarray(images[:9]))], 2e-5)
    got = export_and_run(step, [images[:64], labels[:64]], tmp_path / "step.onnx")
    loss = step(*given)
    assert_all_close(got.values(), [loss, *[v.numpy() for v in network.variables]], 2e-5)


def test_the_loss_of_the_mixing_example_and_its_gradient(tmp_path: Path) -> None:
    scope = runpy.run_path(str(ROOT / "examples/mixing.py"), run_name="mixing")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in (5, (100, 5), 100)]
    loss = scope["loss"]
    got = export_and_run(loss, arrays, tmp_path / "m.onnx")
    assert_all_close(got.values(), [loss(*map(tl.asarray, arrays))], 1e-13)
    got = export_and_run(loss, arrays, tmp_path / "m.onnx", True, [np.array(1.0)])
    want = tl.grad(loss, argnums=(0, 1, 2))(*map(tl.asarray, arrays))
    assert_all_close(got.values(), want, 1e-12)


@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_example_program(path: Path, tmp_path: Path) -> None:
    program, given = load_program(path)
    got = export_and_run(tl.function(program), given, tmp_path / "m.onnx")
    assert_all_close(got.values(), results_of(program, given), 1e-9)


def test_a_transposed_matrix_times_a_vector(tmp_path: Path, rng: np.random.Generator) -> None:
    """ONNX Runtime 1.32 gets this wrong where the vector has one dimension."""
    a, x = rng.normal(size=(9, 4)), rng.normal(size=9)
    got = export_and_run(tl.function(lambda a, x: (a.T @ x, x @ a)), [a, x], tmp_path / "m.onnx")
    assert_all_close(got.values(), [a.T @ x, x @ a], 1e-13)


# Random graphs


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_functions(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        made = RandomFunction(seed, "float32" if seed % 4 == 3 else "float64")
        function: Callable[..., Any] = made.function()
        got = export_and_run(function, made.arrays, tmp_path / "m.onnx")
        rtol = 1e-11 if made.arrays[0].dtype == np.float64 else 2e-3
        assert_all_close(got.values(), made(*map(tl.asarray, made.arrays)), rtol)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_gradients_of_random_functions(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        made = RandomFunction(seed, steps=6)
        function = made.function()
        sources = [tl.asarray(x) for x in made.arrays]
        with tl.GradientTape() as tape:
            tape.watch(sources)
            value = made(*sources)
        cotangents = [np.full(v.shape, 1.0 + k) for k, v in enumerate(value)]
        want = tape.gradient(value, sources, output_gradients=tuple(map(tl.asarray, cotangents)))
        got = export_and_run(function, made.arrays, tmp_path / "m.onnx", True, cotangents)
        assert_all_close(got.values(), want, 1e-9)


# What is refused


def test_what_cannot_be_exported_is_named_all_at_once(tmp_path: Path) -> None:
    @tl.function
    def several(x: Tensor) -> Tensor:
        a = tl.prod(x + 1j)
        return tl.abs(a) + tl.sum(tl.abs(tl.linalg.eigvals(x)))

    with pytest.raises(ExportError, match=r"(?s)prod at test_models.py:\d+.*eigvals at test_mod"):
        export_and_run(several, [np.eye(3)], tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_a_function_without_a_trace_needs_a_signature(tmp_path: Path) -> None:
    function = tl.function(lambda x: x)
    with pytest.raises(ArgumentError, match=r"no trace; pass signature="):
        tl.export.onnx(function, tmp_path / "m.onnx")
    function(tl.ones(2))
    tl.export.onnx(function, tmp_path / "m.onnx")
    function(tl.ones(3))
    with pytest.raises(ArgumentError, match=r"2 traces; pass signature="):
        tl.export.onnx(function, tmp_path / "m.onnx")


def test_an_integer_function_has_no_gradient(tmp_path: Path) -> None:
    function = tl.function(lambda x: x + 1)
    with pytest.raises(ExportError, match="has no gradient"):
        export_and_run(function, [np.arange(3)], tmp_path / "m.onnx", True)


def test_checks_are_left_out_and_noted(tmp_path: Path) -> None:
    @tl.function
    def checked(x: Tensor, i: Tensor) -> Tensor:
        return x[i]

    x, i = np.arange(5.0), np.array([1, -1])
    model = tl.export.onnx(checked, tmp_path / "m.onnx", (tl.asarray(x), tl.asarray(i)))
    got = run_model(tmp_path / "m.onnx", {"x": x, "i": i})
    np.testing.assert_array_equal(got["result"], x[i])
    assert not model.notes or "not checked" in model.notes[0]


def test_nodes_say_where_they_come_from(tmp_path: Path) -> None:
    export_and_run(newton, [np.ones(2)], tmp_path / "m.onnx")
    texts = {node.doc_string for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert any(text.startswith("test_models.py:") for text in texts)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factorizations_of_larger_matrices(
    dtype: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    x = rng.standard_normal((2, 40, 31)).astype(dtype)
    tolerance = 2e-5 if dtype == "float32" else 1e-13

    def parts(x: tl.Tensor) -> tuple[tl.Tensor, ...]:
        square = tl.matrix_transpose(x) @ x
        u, s, vh = tl.linalg.svd(x, full_matrices=False)
        q, r = tl.linalg.qr(x)
        lower = tl.linalg.cholesky(square)
        values, vectors = tl.linalg.eigh(square)
        turned = vectors * tl.expand_dims(values, -2) @ tl.matrix_transpose(vectors)
        return u * tl.expand_dims(s, -2) @ vh, q @ r, lower, s, turned, tl.linalg.pinv(x)

    got = export_and_run(tl.function(parts), [x], tmp_path / "m.onnx")
    for a, b in zip(got.values(), parts(tl.asarray(x)), strict=True):
        scale = np.abs(b.numpy()).max()
        np.testing.assert_allclose(a, b.numpy(), atol=tolerance * scale, rtol=0)


def test_gradient_goes_through_factorizations(rng: np.random.Generator, tmp_path: Path) -> None:
    x = rng.standard_normal((4, 4))

    def likelihood(x: tl.Tensor) -> tl.Tensor:
        square = x @ x.T + tl.eye(4)
        half = tl.sum(tl.log(tl.linalg.diagonal(tl.linalg.cholesky(square))))
        return half + tl.sum(tl.linalg.svdvals(x) ** 3)

    got = export_and_run(
        tl.function(likelihood), [x], tmp_path / "m.onnx", gradient=True, cotangents=[np.ones(())]
    )
    (found,) = got.values()
    np.testing.assert_allclose(found, tl.grad(likelihood)(tl.asarray(x)).numpy(), rtol=1e-11)


def test_notes_tell_that_signs_of_vectors_are_free(tmp_path: Path) -> None:
    function = tl.function(lambda x: tl.linalg.eigh(x)[1])
    model = tl.export.onnx(function, tmp_path / "m.onnx", (tl.TensorSpec([3, 3], "float64"),))
    assert any("signs" in note for note in model.notes)
