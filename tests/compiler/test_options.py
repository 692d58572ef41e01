"""The options of `tl.function`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DonatedTensorError


def test_a_name_of_ones_own_is_in_graphs_and_messages() -> None:
    f = tl.function(lambda x, y: x + y, name="addition")
    assert "addition" in repr(f)
    assert f.get_concrete_function(tl.TensorSpec([2]), 1.0).graph.name == "addition"
    with pytest.raises(TypeError, match=r"addition\(x, y\): missing"):
        f(1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("as_keyword", [False, True])
def test_static_arrays_count_by_their_elements(as_keyword: bool) -> None:
    @tl.function(static_args="kernel")
    def smooth(x: Any, kernel: Any) -> Any:
        assert isinstance(kernel, np.ndarray)
        return sum(float(k) * x[i : i + 2] for i, k in enumerate(kernel))

    def call(kernel: Any) -> Any:
        found = smooth(x, kernel=kernel) if as_keyword else smooth(x, kernel)
        return found.numpy()

    x = tl.asarray([1.0, 2.0, 4.0])
    kernel = np.array([0.5, 0.5])
    np.testing.assert_array_equal(call(kernel), [1.5, 3.0])
    np.testing.assert_array_equal(call(kernel.copy()), [1.5, 3.0])
    assert smooth.trace_count == 1
    kernel[0] = 1.0
    np.testing.assert_array_equal(call(kernel), [2.0, 4.0])
    assert smooth.trace_count == 2
    np.testing.assert_array_equal(call(np.array([0.5, 0.5])), [1.5, 3.0])
    assert smooth.trace_count == 2


def test_static_tensors_are_constants_of_the_graph() -> None:
    f = tl.function(lambda x, w: x * w, static_args=["w"])
    w = tl.asarray([2.0, 3.0])
    for _ in range(3):
        np.testing.assert_array_equal(f(tl.asarray([1.0, 1.0]), w).numpy(), [2.0, 3.0])
    concrete = f.get_concrete_function(tl.TensorSpec([2]), w)
    assert (concrete.captures, len(concrete.inputs)) == ((), 1)
    w[0] = 7.0
    np.testing.assert_array_equal(f(tl.asarray([1.0, 1.0]), w).numpy(), [7.0, 3.0])
    assert f.trace_count == 2


def test_static_numbers_of_other_types_and_signs_are_told_apart() -> None:
    f = tl.function(lambda x, k: x * k, static_args="k")
    x = tl.asarray(2.0)
    for k in (1, 1.0, True, -0.0, 0.0, float("nan"), float("nan")):
        for _ in range(2):
            np.testing.assert_array_equal(f(x, k).numpy(), 2.0 * k)
    assert f.trace_count == 6


def test_static_structures_keep_their_form() -> None:
    @tl.function(static_args="layout")
    def f(x: Any, layout: Any) -> Any:
        assert type(layout["axes"]) is tuple
        return tl.permute_dims(x, layout["axes"])

    x = tl.ones((2, 3, 4))
    assert f(x, {"axes": (2, 0, 1)}).shape == (4, 2, 3)
    assert f(x, {"axes": (0, 2, 1)}).shape == (2, 4, 3)
    assert f.trace_count == 2


def test_max_traces_drops_the_trace_used_longest_ago() -> None:
    f = tl.function(lambda x, k: x if k == "" else x * len(k), max_traces=2)
    x = tl.asarray(1.0)
    for k in ("a", "b", "a", "c", "a"):
        f(x, k)
    assert f.trace_count == 3
    f(x, "b")
    assert f.trace_count == 4
    assert len(f.concrete_functions) == 2


def test_calls_that_machine_code_serves_count_as_use() -> None:
    f = tl.function(lambda x, k: x * len(k), max_traces=3)
    x = tl.asarray(1.0)
    for k in ("a", "b", "c"):
        for _ in range(3):
            f(x, k)
    for k in ("a", "c", "d"):
        f(x, k)
    assert f.trace_count == 4
    for k in ("a", "c", "d"):
        f(x, k)
    assert f.trace_count == 4
    f(x, "b")
    assert f.trace_count == 5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_traces": 0}, ArgumentError, "max_traces must be at least 1, got 0"),
        ({"static_args": "kernel"}, ArgumentError, "static_args: no parameter 'kernel'"),
        ({"static_args": [0]}, ArgumentTypeError, "static_args must be names of parameters, got 0"),
    ],
    ids=["max_traces", "unknown name", "position"],
)
def test_bad_options_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tl.function(lambda x: x, **options)


@pytest.mark.parametrize("threads", [1, 2, 3, None])
def test_threads_are_a_limit_that_changes_no_bit(threads: int | None) -> None:
    f = tl.function(lambda x: (tl.sum(tl.exp(x) * x), tl.tanh(x) * 2), threads=threads)
    x = np.linspace(-1.0, 1.0, 1 << 21)
    total, rest = f(x)
    expected = tl.function(lambda x: (tl.sum(tl.exp(x) * x), tl.tanh(x) * 2))(x)
    assert total.item() == expected[0].item()
    np.testing.assert_array_equal(rest.numpy(), expected[1].numpy())
    text = f.concrete_functions[0].llvm_ir()
    assert not (threads == 1 and "call void @tapeline_parallel" in text)


@pytest.mark.parametrize(("threads", "error"), [(0, ArgumentError), (1.5, ArgumentTypeError)])
def test_bad_numbers_of_threads_are_refused(threads: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="threads must be"):
        tl.function(lambda x: x, threads=threads)


def test_donated_tensors_give_their_memory_to_later_results() -> None:
    @tl.function(donate="x")
    def step(x: Any, scale: float = 2.0) -> Any:
        return x * scale + 1.0

    x = tl.asarray(np.ones(1000))
    places, value = set(), np.ones(1000)
    for _ in range(6):
        before, x = x, step(x)
        value = value * 2.0 + 1.0
        np.testing.assert_array_equal(x.numpy(), value)
        places.add(x.numpy().__array_interface__["data"][0])
        for use in (
            lambda t: t.numpy(), lambda t: t + 1, lambda t: tl.sort(t), lambda t: step(t), float,
            lambda t: tl.function(lambda y: y * 2)(t), lambda t: t[0], repr,
        ):  # fmt: skip
            if use is repr:
                assert "donated to step" in repr(before)
                continue
            with pytest.raises(DonatedTensorError, match="donated to a call of step"):
                use(before)
    assert len(places) <= 3


def test_donated_memory_that_others_see_is_left_alone() -> None:
    step = tl.function(lambda x: x * 2.0, donate="x")
    x = tl.asarray(np.ones(1000))
    view, kept = x.numpy(), x[:5]
    for _ in range(3):
        x = step(x)
    np.testing.assert_array_equal(view, 1.0)
    np.testing.assert_array_equal(kept.numpy(), 1.0)
    np.testing.assert_array_equal(x.numpy(), 8.0)
    array = np.ones(1000)
    assert step(array).numpy()[0] == 2.0
    np.testing.assert_array_equal(array, 1.0)


def test_nothing_is_donated_under_a_tape_or_in_a_trace() -> None:
    step = tl.function(lambda x: x * x, donate="x")
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = step(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [2.0, 4.0])
    outer = tl.function(lambda x: step(x) + x)
    np.testing.assert_array_equal(outer(x).numpy(), [2.0, 6.0])
    np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])


def test_leaves_of_a_donated_structure_are_donated_and_others_not() -> None:
    step = tl.function(lambda state, y: {"a": state["a"] + y, "b": state["b"] * y}, donate="state")
    state = {"a": tl.asarray([1.0]), "b": tl.asarray([2.0])}
    y = tl.asarray([3.0])
    made = step(state, y)
    assert [made[key].item() for key in "ab"] == [4.0, 6.0]
    assert y.item() == 3.0
    for key in "ab":
        with pytest.raises(DonatedTensorError):
            state[key].numpy()
    with pytest.raises(ArgumentError, match="donate: no parameter 'z'"):
        tl.function(lambda x: x, donate="z")
