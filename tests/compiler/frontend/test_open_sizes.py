"""Dimensions that vary are left open: one trace for all sizes, right for each of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ShapeError

Make = Callable[[int], tuple[np.ndarray[Any, Any], ...]]


STORM = ".*was traced in 5 calls"
pytestmark = pytest.mark.filterwarnings(f"error:{STORM}")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def attention(x: Any) -> Any:
    scores = tl.nn.softmax(x @ x.mT / math.sqrt(4.0))
    return scores @ x


def padded(x: Any) -> Any:
    n = x.shape[0]
    return tl.concat([x, tl.zeros((n // 2 + 1, 4))], axis=0)


def centred(x: Any) -> Any:
    return x - tl.sum(x, axis=0) / x.shape[0]


def gradient(x: Any) -> Any:
    with tl.GradientTape() as tape:
        tape.watch(x)
        loss = tl.mean(tl.tanh(x) ** 2) + tl.sum(x[:, 1:] * x[:, :-1])
    return tape.gradient(loss, x)


PROGRAMS: list[Any] = [
    lambda x: x * 2 + 1,
    lambda x: tl.sum(x, axis=0),
    lambda x: tl.reshape(x, (-1,)),
    lambda x: tl.reshape(x, (2, -1, 2)),
    lambda x: tl.reshape(x, (x.shape[0] * 2, 2)),
    lambda x: x.T @ x,
    lambda x: tl.broadcast_to(tl.sum(x), x.shape),
    lambda x: tl.concat([x, x], axis=0),
    lambda x: tl.stack([x, -x]),
    lambda x: tl.flip(tl.cumulative_sum(x, axis=0), axis=0),
    lambda x: tl.zeros_like(x) + tl.ones((x.shape[0], 1)),
    lambda x: tl.full((x.shape[0], 2), 0.5),
    lambda x: tl.arange(x.shape[0]) * 2,
    lambda x: tl.arange(1, x.shape[0] + 1, 2),
    lambda x: tl.where(x > 0, x, tl.zeros(x.shape)),
    lambda x: tl.argmax(tl.concat([x, x]), axis=1),
    lambda x: tl.mean(x) * x.shape[0] ** 0.5,
    lambda x: tl.sum(x) / (x.shape[0] + 1),
    lambda x: 1.0 / (1 + x.shape[0]) + tl.sum(x),
    lambda x: tl.pad(x, ((1, 1), (0, 0))),
    lambda x: tl.tile(x, (2, 1)),
    lambda x: tl.repeat(x, 2, axis=0),
    lambda x: x[1:],
    lambda x: x[:, 0],
    lambda x: x[::-1],
    lambda x: tl.permute_dims(tl.expand_dims(x, axis=0), (2, 0, 1)),
    lambda x: tl.sort(x, axis=0),
    lambda x: tl.tensordot(x, x, axes=2),
    lambda x: tl.einsum("ij,kj->ik", x, x),
    lambda x: tl.linalg.vector_norm(x, axis=1),
    lambda x: tl.nn.log_softmax(x, axis=1),
    lambda x: (x.shape[0], x, {"size": x.size}),
    attention,
    padded,
    centred,
    gradient,
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_one_trace_serves_many_sizes(number: int) -> None:
    function = PROGRAMS[number]
    f = tl.function(function)
    for n in (6, 9, 4, 11, 8, 30, 7, 2, 64):
        x = tl.asarray(numbers(n, 4))
        assert_same(f(x), function(x))
    assert f.trace_count <= 3


def assert_same(got: Any, expected: Any) -> None:
    given, wanted = tl.nest.flatten(got), tl.nest.flatten(expected)
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        assert type(one) is type(other)
        if isinstance(other, tl.Tensor):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)
        else:
            assert one == other


def test_a_sweep_over_sizes_takes_few_traces() -> None:
    f = tl.function(lambda x, w: tl.tanh(x @ w))
    w = tl.asarray(numbers(3, 2))
    for n in range(60):
        x = numbers(n, 3)
        np.testing.assert_allclose(f(tl.asarray(x), w).numpy(), np.tanh(x @ w.numpy()), rtol=1e-13)
    assert f.trace_count <= 3


def test_sizes_of_one_are_not_broadcast_for_others() -> None:
    warnings.filterwarnings("ignore", STORM)  # each pattern is a trace of its own
    f = tl.function(lambda x, y: x + y)
    for shapes in [((1,), (5,)), ((5,), (5,)), ((4,), (1,)), ((1,), (1,)), ((7,), (7,)),
                   ((7,), (1,)), ((1,), (9,)), ((8,), (8,))]:  # fmt: skip
        x, y = (numbers(*shape) for shape in shapes)
        assert_same(f(tl.asarray(x), tl.asarray(y)), tl.asarray(x + y))
    with pytest.raises(ShapeError, match="do not broadcast"):
        f(tl.ones(3), tl.ones(4))


def test_code_may_ask_for_a_size() -> None:
    def f(x: Any) -> Any:
        if x.shape[0] > 10:
            return tl.sum(x)
        return tl.max(x)

    compiled = tl.function(f)
    for n in (3, 5, 20, 30, 7, 25, 11, 10):
        x = tl.asarray(numbers(n))
        assert_same(compiled(x), f(x))
    assert compiled.trace_count <= 4


def test_a_loop_over_a_size_is_right_for_each() -> None:
    def f(x: Any) -> Any:
        total = tl.asarray(0.0)
        for k in range(x.shape[0]):
            total = total + x[k] * k
        return total

    compiled = tl.function(f)
    for n in (3, 5, 4, 8, 3, 6):
        x = tl.asarray(numbers(n))
        assert_same(compiled(x), f(x))


def test_two_varying_dimensions() -> None:
    f = tl.function(lambda x, y: x @ y)
    for m, k, n in [(2, 3, 4), (3, 3, 5), (4, 5, 6), (7, 2, 3), (5, 5, 5)]:
        x, y = numbers(m, k), numbers(k, n)
        np.testing.assert_allclose(f(tl.asarray(x), tl.asarray(y)).numpy(), x @ y, rtol=1e-12)
    assert f.trace_count <= 4


def test_gradients_through_calls_of_varying_sizes() -> None:
    f = tl.function(lambda x, w: tl.sum(tl.tanh(x @ w) ** 2))
    w = tl.asarray(numbers(3, 2))
    for n in (4, 5, 6, 9):
        x = tl.asarray(numbers(n, 3))
        with tl.GradientTape() as tape:
            tape.watch((x, w))
            value = f(x, w)
        found = tape.gradient(value, (x, w))
        h = np.tanh(x.numpy() @ w.numpy())
        inner = 2 * h * (1 - h * h)
        np.testing.assert_allclose(found[0].numpy(), inner @ w.numpy().T, rtol=1e-10)
        np.testing.assert_allclose(found[1].numpy(), x.numpy().T @ inner, rtol=1e-10)
    assert f.trace_count == 2


def test_variables_and_captures_of_an_open_trace() -> None:
    total = tl.Variable(0.0)
    scale = tl.asarray(2.0)

    @tl.function
    def f(x: Any) -> Any:
        total.assign_add(tl.sum(x))
        return x * scale + total

    expected = 0.0
    for n in (2, 3, 4, 5):
        x = numbers(n)
        expected += float(x.sum())
        np.testing.assert_allclose(f(tl.asarray(x)).numpy(), x * 2 + expected, rtol=1e-12)
    assert f.trace_count == 2


def test_a_compiled_function_inside_an_open_trace() -> None:
    inner = tl.function(lambda x: tl.exp(x) - x.shape[0])
    f = tl.function(lambda x: tl.sum(inner(x) * inner(-x), axis=0))
    for n in (2, 3, 4, 5):
        x = numbers(n, 2)
        expected = ((np.exp(x) - n) * (np.exp(-x) - n)).sum(0)
        np.testing.assert_allclose(f(tl.asarray(x)).numpy(), expected, rtol=1e-10)
    assert f.trace_count == 2


def test_control_flow_over_tensors_in_an_open_trace() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        while tl.sum(tl.abs(y)) > 1.0:
            if tl.max(y) > 0.5:
                y = y * 0.5
            y = y * 0.75
        return y

    compiled = tl.function(f)
    for n in (3, 4, 5, 9):
        x = tl.asarray(numbers(n))
        assert_same(compiled(x), f(x))
    assert compiled.trace_count == 2


def test_custom_gradients_in_an_open_trace() -> None:
    @tl.custom_gradient
    def clipped(x: Any) -> Any:
        return x * 3, lambda ct: tl.clip(ct, -1.0, 1.0) * x.shape[0]

    def f(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = tl.sum(clipped(x) * 5)
        return tape.gradient(y, x)

    compiled = tl.function(f)
    for n in (3, 4, 5):
        x = tl.asarray(numbers(n))
        assert_same(compiled(x), f(x))


def test_without_reducing_each_shape_is_a_trace() -> None:
    f = tl.function(lambda x: x * 2, reduce_retracing=False)
    for n in (1, 2, 3, 4):
        f(tl.ones(n))
    assert f.trace_count == 4


def test_specs_leave_dimensions_open() -> None:
    f = tl.function(lambda x: tl.sum(x, axis=1), input_signature=[tl.TensorSpec([None, 3])])
    for n in (4, 1, 0, 9):
        assert f(tl.ones((n, 3))).tolist() == [3.0] * n
    assert f.trace_count == 1
    concrete = f.get_concrete_function()
    assert concrete.inputs == (tl.TensorSpec([None, 3]),)
    assert concrete.outputs == (tl.TensorSpec([None]),)
    assert concrete(tl.ones((5, 3))).tolist() == [3.0] * 5
    with pytest.raises(ShapeError, match="must be float64 of shape"):
        concrete(tl.ones((5, 4)))


def test_a_concrete_function_for_open_specs() -> None:
    f = tl.function(lambda x, y: x + y)
    spec = tl.TensorSpec([None, None], "float32")
    concrete = f.get_concrete_function(spec, spec)
    assert concrete is f.get_concrete_function(spec, spec)
    assert f.trace_count == 1
    x = np.ones((3, 5), "float32")
    assert concrete(x, x).numpy().tolist() == (x + x).tolist()
    with pytest.raises(ShapeError, match=r"n1 == n0|n2 == n0"):
        concrete(x, np.ones((4, 5), "float32"))


def test_an_error_tells_names_and_sizes_of_what_a_signature_leaves_open() -> None:
    spec = tl.TensorSpec([None, 3])
    f = tl.function(lambda x, y: x + y, input_signature=[spec, spec])
    with pytest.raises(ShapeError, match=r"shapes \(n0=4, 3\) and \(n1=5, 3\) do not broadcast"):
        f(tl.ones((4, 3)), tl.ones((5, 3)))
    assert f(tl.ones((4, 3)), tl.ones((4, 3))).shape == (4, 3)
    assert "=" not in str(f.concrete_functions[0].graph.spec(0))


def test_an_open_graph_shows_its_sizes() -> None:
    f = tl.function(lambda x: tl.concat([x, x]))
    f(tl.ones((3, 2)))
    f(tl.ones((4, 2)))
    graph = f.concrete_functions[-1].graph
    assert "float64[n0, 2]" in str(graph)
    assert "float64[2*n0, 2]" in str(graph)


def test_arrays_beside_sizes_keep_to_one_size() -> None:
    table = np.arange(40.0)

    def f(x: Any) -> Any:
        return x + table[: x.shape[0]]  # NumPy asks for the size itself

    compiled = tl.function(f)
    for n in (3, 4, 5, 9, 4):
        x = tl.asarray(numbers(n))
        assert_same(compiled(x), f(x))


def test_errors_speak_of_the_sizes_at_hand() -> None:
    f = tl.function(lambda x, y: x + y)
    for n in (3, 4, 5):
        f(tl.ones(n), tl.ones(n))
    with pytest.raises(ShapeError, match=r"shapes \(6,\) and \(7,\) do not broadcast"):
        f(tl.ones(6), tl.ones(7))
    traces = f.trace_count
    f(tl.ones(8), tl.ones(8))
    assert f.trace_count == traces


def test_code_that_wants_ints_gets_them() -> None:
    def f(x: Any) -> Any:
        assert type(x.shape[0]) is int
        return x * 2

    compiled = tl.function(f)
    for n in (3, 4, 5):
        assert compiled(tl.ones(n)).tolist() == [2.0] * n
