"""What people do with compiled functions, in small programs."""

from __future__ import annotations

import functools
import gc
import inspect
import weakref
from typing import Any

import numpy as np
import pytest

import tapeline as tl


def test_callbacks_run_when_the_trace_ends_inner_ones_too() -> None:
    ended: list[str] = []

    @tl.function
    def inner(x: Any) -> Any:
        tl.on_trace_end(lambda: ended.append("inner"))
        return x * 2

    @tl.function
    def outer(x: Any) -> Any:
        if tl.sum(x) > 0:
            tl.on_trace_end(lambda: ended.append("outer"))
        y = inner(x)
        ended.append("body")
        return y

    for _ in range(3):
        outer(tl.asarray(1.0))
    assert ended == ["inner", "body", "outer"]
    with pytest.raises(RuntimeError, match="no function is traced"):
        tl.on_trace_end(lambda: None)


def test_a_captured_tensor_may_be_the_result_and_a_copy() -> None:
    w = tl.asarray([1.0, 2.0])
    f = tl.function(lambda: w)
    result = f()
    result[0] = 9.0
    assert w.tolist() == [1.0, 2.0]
    with tl.GradientTape() as tape:
        tape.watch(w)
        y = f() * 3
    assert tape.gradient(y, w).tolist() == [3.0, 3.0]


def test_an_inner_function_returns_a_captured_symbolic_tensor() -> None:
    @tl.function
    def outer(x: Any) -> Any:
        y = x * 2
        return tl.function(lambda: y)() + 1

    assert outer(tl.asarray(3.0)).item() == 7.0


def test_values_of_the_world_retrace_and_tensors_of_it_do_not() -> None:
    class World:
        number = 2.0
        tensor = tl.asarray(3.0)

    world = World()
    f = tl.function(lambda x: x * world.number + world.tensor)
    assert f(tl.asarray(1.0)).item() == 5.0
    world.tensor = tl.asarray(10.0)
    assert f(tl.asarray(1.0)).item() == 12.0
    count = f.trace_count
    world.number = 3.0
    assert f(tl.asarray(1.0)).item() == 13.0
    assert f.trace_count == count + 1


def test_missing_arguments_through_decorators_are_type_errors() -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) * 2

        return wrapper

    inside = tl.function(doubled(lambda x, y: x - y))
    outside = doubled(tl.function(lambda x, y: x - y))
    twice = tl.function(tl.function(lambda x, y: x - y))
    for f, factor in ((inside, 2), (outside, 2), (twice, 1)):
        assert f(tl.asarray(5.0), tl.asarray(2.0)).item() == 3.0 * factor
        assert f(y=tl.asarray(2.0), x=tl.asarray(5.0)).item() == 3.0 * factor
        with pytest.raises(TypeError):
            f(tl.asarray(5.0))


def test_an_integer_output_beside_the_loss_has_no_gradient() -> None:
    f = tl.function(lambda x: (tl.sum(x * x), tl.argmax(x)))
    x = tl.asarray([1.0, 3.0, 2.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        loss, place = f(x)
    assert tape.gradient(loss, x).tolist() == [2.0, 6.0, 4.0]
    assert place.item() == 1
    assert tape.gradient([loss, place], x).tolist() == [2.0, 6.0, 4.0]


@pytest.mark.parametrize("by_name", [False, True])
def test_arrays_are_tensors_inside_and_share_a_trace_by_shape_and_dtype(by_name: bool) -> None:
    kinds: list[type] = []

    @tl.function
    def f(x: Any) -> Any:
        kinds.append(type(x))
        return x * 2

    def call(x: Any) -> Any:
        return (f(x=x) if by_name else f(x)).tolist()

    array = np.array([1.0, 2.0])
    assert call(array) == [2.0, 4.0]
    array[0] = 5.0
    assert call(array) == [10.0, 4.0]
    assert call(np.array([3.0, 4.0]).view(np.recarray)) == [6.0, 8.0]
    assert kinds == [tl.Tensor]
    call(np.array([1, 2]))
    assert f.trace_count == 2


def test_dtypes_enums_and_classes_are_arguments_that_count_by_value() -> None:
    f = tl.function(lambda x, dtype: tl.astype(x, dtype))
    x = tl.asarray([1.5, 2.5])
    for dtype in (np.float32, np.int64, np.dtype("float32"), tl.float32, np.float32):
        assert f(x, dtype).dtype == np.dtype(dtype)
    assert f.trace_count <= 3


def test_which_arguments_are_one_variable_is_part_of_the_signature() -> None:
    f = tl.function(lambda a, b, c: a.assign_add(b).read_value() + c)

    def fresh() -> list[tl.Variable]:
        return [tl.Variable(v) for v in (1.0, 10.0, 100.0)]

    for pick, expected in (((0, 1, 2), 111.0), ((0, 0, 2), 102.0), ((2, 1, 1), 120.0)):
        variables = fresh()
        for _ in range(2):
            chosen = [variables[k] for k in pick]
            wanted = chosen[0].numpy() + chosen[1].numpy()
            got = f(*chosen).item()
            assert got == wanted + chosen[2].numpy()
        assert expected > 0


def test_a_spec_and_a_tensor_of_it_give_the_same_trace() -> None:
    f = tl.function(lambda x: x * 2)
    assert f.get_concrete_function(tl.TensorSpec([3])) is f.get_concrete_function(tl.zeros(3))


def test_signatures_and_names_are_seen_through_the_decorator() -> None:
    class Model:
        @tl.function
        def scale(self, x: Any, k: int = 2) -> Any:
            """Scales."""
            return x * k

    assert list(inspect.signature(Model.scale).parameters) == ["self", "x", "k"]
    assert list(inspect.signature(Model().scale).parameters) == ["x", "k"]
    assert Model.scale.__name__ == "scale"
    model = Model()
    assert Model.scale(model, tl.asarray(1.0)).item() == model.scale(tl.asarray(1.0)).item() == 2.0
    by_class = Model.scale.get_concrete_function(model, tl.TensorSpec([]))
    by_object = model.scale.get_concrete_function(tl.TensorSpec([]))
    assert by_class(tl.asarray(1.0)).item() == by_object(tl.asarray(1.0)).item() == 2.0


def test_a_dropped_object_frees_its_variables_at_once() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = tl.Variable(2.0)

        @tl.function
        def scale(self, x: Any) -> Any:
            return x * self.w

    model = Model()
    for _ in range(4):
        model.scale(tl.asarray(1.0))
    alive = weakref.ref(model.w)
    gc.disable()
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()


def test_a_training_loop_with_an_optimizer_inside_of_one_function() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((64, 2))
    target = data @ np.array([2.0, -1.0])
    w, optimizer = tl.Variable(np.zeros(2)), tl.optimizers.SGD(0.1)

    @tl.function
    def train(x: Any, y: Any, steps: Any) -> Any:
        loss = tl.asarray(0.0)
        for _ in tl.range(steps):
            with tl.GradientTape() as tape:
                loss = tl.mean((x @ w - y) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            if loss < 1e-8:
                break
        return loss

    loss = train(data, target, tl.asarray(500))
    assert loss.item() < 1e-8
    np.testing.assert_allclose(w.numpy(), [2.0, -1.0], atol=1e-3)


def test_the_stack_of_functions_is_told_in_errors_of_python_inside() -> None:
    def bad(x: Any) -> Any:
        raise OSError("no such place")

    @tl.function
    def inner(x: Any) -> Any:
        return tl.py_function(bad, [x], tl.float64)

    outer = tl.function(lambda x: inner(x) + 1)
    with pytest.raises(OSError, match="no such place") as caught:
        outer(tl.asarray(1.0))
    assert any("in outer" in note or "<lambda>" in note for note in caught.value.__notes__)


def test_memory_of_many_calls_stays_flat() -> None:
    f = tl.function(lambda x, k: x * k)
    x = tl.asarray(np.ones(10))

    def tensors() -> int:
        gc.collect()
        return sum(type(one) is tl.Tensor for one in gc.get_objects())

    for k in range(5):
        f(x, 1.0 + k)
    before = tensors()
    for k in range(200):
        f(x, 1.0 + k)
    assert tensors() <= before + 2
