"""Compiled functions as people call them: signatures, structures, effects, errors, threads."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import BUSY, STATE
from tapeline.runtime.errors import (
    ArgumentTypeError,
    DTypeError,
    LeakedTensorError,
    ShapeError,
    SymbolicTensorError,
    TracingError,
)

Pair = namedtuple("Pair", "first second")


def test_calls_of_one_signature_share_a_trace(rng: np.random.Generator) -> None:
    @tl.function
    def f(x: Any, y: Any) -> Any:
        return x * y + 1

    for _ in range(3):
        x, y = rng.standard_normal((2, 3, 4))
        np.testing.assert_allclose(f(tl.asarray(x), tl.asarray(y)).numpy(), x * y + 1)
    assert f.trace_count == 1
    f(tl.asarray(np.ones(4)), tl.asarray(np.ones(4)))
    f(tl.asarray(np.ones((3, 4), "f4")), tl.asarray(np.ones((3, 4), "f4")))
    assert f.trace_count == 3
    assert len(f.concrete_functions) == 3


def test_two_spellings_of_a_call_share_a_trace() -> None:
    @tl.function
    def f(a: Any, b: Any = 2.0, *, c: Any = 1) -> Any:
        return a * b + c

    x = tl.asarray([1.0, 2.0])
    results = [f(x), f(x, 2.0), f(a=x), f(x, b=2.0, c=1), f(c=1, a=x)]
    assert f.trace_count == 1
    for result in results:
        np.testing.assert_array_equal(result.numpy(), [3.0, 5.0])


def test_python_values_are_told_apart_by_type_and_sign() -> None:
    seen = []

    @tl.function
    def f(x: Any, k: Any) -> Any:
        seen.append(k)
        return x * k

    x = tl.asarray([1.0])
    for k in (1, True, 1.0, 1, 0.0, -0.0, float("nan"), float("nan"), 1, -0.0):
        f(x, k)
    assert [repr(k) for k in seen] == ["1", "True", "1.0", "0.0", "-0.0", "nan"]


def test_the_same_tensor_twice_is_another_signature_than_two_tensors() -> None:
    @tl.function
    def f(x: Any, y: Any) -> Any:
        x += y
        return x

    a, b = tl.asarray([1.0]), tl.asarray([2.0])
    np.testing.assert_array_equal(f(a, b).numpy(), [3.0])
    c = tl.asarray([5.0])
    np.testing.assert_array_equal(f(c, c).numpy(), [10.0])
    assert f.trace_count == 2


def test_the_order_of_a_dict_does_not_matter_to_those_who_do_not_ask() -> None:
    @tl.function
    def difference(d: Any) -> Any:
        return d["a"] - d["b"]

    a, b = tl.asarray(5.0), tl.asarray(2.0)
    for _ in range(3):
        assert difference({"a": a, "b": b}).item() == 3.0
        assert difference({"b": b, "a": a}).item() == 3.0
    assert difference.trace_count == 1
    with tl.no_retrace():
        assert difference({"b": b, "a": a}).item() == 3.0

    for size in (2, 3, 4, 5):
        x = tl.ones(size)
        assert difference({"b": x, "a": x * 2}).tolist() == [1.0] * size
        assert difference({"a": x * 2, "b": x}).tolist() == [1.0] * size
    assert difference.trace_count == 3


def test_slices_are_told_by_their_bounds() -> None:
    f = tl.function(lambda x, part: x[part])
    x = tl.asarray([1.0, 2.0, 3.0, 4.0])
    for _ in range(3):
        assert f(x, slice(1, 3)).tolist() == [2.0, 3.0]
        assert f(x, slice(None, None, 2)).tolist() == [1.0, 3.0]
        assert f(x, (slice(2, None),)).tolist() == [3.0, 4.0]
    assert f.trace_count == 3


def test_results_keep_the_order_of_each_call() -> None:
    @tl.function
    def doubled(d: Any, **more: Any) -> Any:
        return {k: v * 2 for k, v in d.items()}, d, more

    a, b = tl.asarray(5.0), tl.asarray(2.0)
    for _ in range(3):
        for d in ({"a": a, "b": b}, {"b": b, "a": a}):
            made, same, more = doubled(d, **d)
            assert list(made) == list(same) == list(more) == list(d)
            assert (made["a"].item(), made["b"].item()) == (10.0, 4.0)
    assert doubled.trace_count == 1


def test_code_that_walks_a_dict_is_traced_for_each_order() -> None:
    def walked(d: Any, **more: Any) -> Any:
        total = tl.asarray(0.0)
        for value in (*d.values(), *more.values()):
            total = total * 2 + value
        return total, list(d)

    traced = tl.function(walked)
    a, b = tl.asarray(5.0), tl.asarray(2.0)
    for _ in range(3):
        for d in ({"a": a, "b": b}, {"b": b, "a": a}):
            found, wanted = traced(d, **d), walked(d, **d)
            assert (found[0].item(), found[1]) == (wanted[0].item(), wanted[1])
    assert traced.trace_count == 2
    assert "the order of keys was 'a', 'b', is 'b', 'a'" in str(traced.explain())
    assert "in one order" in traced.explain().records[1].repair


def test_results_keep_their_structure() -> None:
    @tl.function
    def f(inputs: Any) -> Any:
        x, (y,) = inputs["x"], inputs["rest"]
        return {"sum": x + y, "pair": Pair(x, [y, None, "text", 3]), "none": None}

    x, y = tl.asarray([1.0]), tl.asarray([2.0])
    result = f({"x": x, "rest": (y,)})
    assert list(result) == ["sum", "pair", "none"]
    assert result["none"] is None
    pair = result["pair"]
    assert type(pair) is Pair
    assert pair.second[1:] == [None, "text", 3]
    np.testing.assert_array_equal(result["sum"].numpy(), [3.0])
    np.testing.assert_array_equal(pair.first.numpy(), [1.0])


def test_results_share_no_memory_with_inputs_captures_or_later_calls() -> None:
    outside = tl.asarray([4.0, 5.0])
    array = np.array([1.0, 2.0])

    @tl.function
    def f(x: Any) -> Any:
        return x, outside, x + 1

    same, captured, fresh = f(array)
    again = f(array)[2]
    assert not np.shares_memory(same.numpy(), array)
    assert not np.shares_memory(captured.numpy(), outside.numpy())
    assert not np.shares_memory(fresh.numpy(), again.numpy())
    array[:] = 9
    np.testing.assert_array_equal(same.numpy(), [1.0, 2.0])


def test_arrays_and_numpy_scalars_are_inputs() -> None:
    @tl.function
    def f(x: Any, k: Any) -> Any:
        return x * k

    np.testing.assert_array_equal(f(np.array([1.0, 2.0]), np.float64(3)).numpy(), [3.0, 6.0])
    np.testing.assert_array_equal(f(np.array([1.0, 2.0]), np.float64(4)).numpy(), [4.0, 8.0])
    assert f.trace_count == 1


def test_arrays_of_any_layout_give_numpys_result(rng: np.random.Generator) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * 2 + 1

    whole = rng.standard_normal((6, 8, 4))
    for view in (whole, whole.T, whole[::-1, ::2], whole[:, 3], whole[..., 1:1], whole[2, 3, 1:]):
        for _ in range(3):
            np.testing.assert_array_equal(f(view).numpy(), view * 2 + 1)


def test_outside_tensors_are_captured_once_in_order_of_use() -> None:
    a, b = tl.asarray([1.0]), tl.asarray([10.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * b + a + b

    np.testing.assert_array_equal(f(tl.asarray([2.0])).numpy(), [31.0])
    (concrete,) = f.concrete_functions
    assert concrete.captures == (b, a)
    a += 5  # the cell has another value now
    np.testing.assert_array_equal(f(tl.asarray([2.0])).numpy(), [36.0])
    assert f.trace_count == 1


def test_outside_arrays_are_read_at_each_call() -> None:
    scale = np.array([1.0, 2.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * scale

    x = tl.asarray([1.0, 1.0])
    np.testing.assert_array_equal(f(x).numpy(), [1.0, 2.0])
    scale[:] = [5.0, 6.0]
    np.testing.assert_array_equal(f(x).numpy(), [5.0, 6.0])


def test_writes_to_arguments_and_captures_reach_the_cells() -> None:
    outside = tl.asarray([1.0, 1.0])

    def plain(x: Any) -> Any:
        nonlocal outside
        x *= 2
        outside += x
        return x + outside

    def run(f: Any) -> list[Any]:
        nonlocal outside
        outside = tl.asarray([1.0, 1.0])
        x = tl.asarray([1.0, 2.0])
        results = []
        for _ in range(3):
            results += [f(x).tolist(), x.tolist(), outside.tolist()]
        return results

    assert run(tl.function(plain)) == run(plain)


def test_writes_to_an_array_argument_reach_the_array() -> None:
    @tl.function
    def f(x: Any) -> Any:
        x += 1
        x[0] = 7.0
        return x * 2

    for x in (np.zeros(3), np.zeros((3, 2))[:, 0]):
        for k in range(1, 4):
            x[1:] = k
            assert f(x).tolist() == [14.0, 2.0 * k + 2, 2.0 * k + 2]
            assert x.tolist() == [7.0, k + 1.0, k + 1.0]
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"its argument x in place.*read-only"):
        f(fixed)
    assert fixed.tolist() == [0.0, 0.0, 0.0]


def test_identical_results_stay_identical() -> None:
    @tl.function
    def f(x: Any) -> Any:
        y = x + 1
        return y, [y, x * 2], {"again": y}

    for _ in range(3):
        y, (again, other), table = f(tl.asarray([1.0]))
        assert y is again
        assert y is table["again"]
        assert other is not y


def test_variables_are_read_and_assigned_in_program_order() -> None:
    v = tl.Variable([1.0, 2.0], name="v")

    def plain(x: Any) -> Any:
        before = v * 1
        v.assign_add(x)
        between = v * 1
        v.assign(v * 10)
        return before, between, v.read_value()

    compiled = tl.function(plain)
    x = tl.asarray([0.5, 0.5])
    expected = [plain(x), plain(x)]
    v.assign([1.0, 2.0])
    for want in expected:
        got = compiled(x)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert compiled.trace_count == 1
    (concrete,) = compiled.concrete_functions
    assert concrete.variables == (v,)


def test_a_variable_that_is_only_assigned_is_no_input() -> None:
    v = tl.Variable(0.0)

    @tl.function
    def f(x: Any) -> None:
        v.assign(x * 2)

    assert f(tl.asarray(3.0)) is None
    assert v.numpy() == 6.0
    (concrete,) = f.concrete_functions
    assert len(concrete.graph.placeholders) == 1


def test_methods_see_their_own_instance() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = tl.asarray(by)

        @tl.function
        def __call__(self, x: Any) -> Any:
            return x * self.by

    double, triple = Scale(2.0), Scale(3.0)
    x = tl.asarray([1.0])
    assert double(x).tolist() == [2.0]
    assert triple(x).tolist() == [3.0]
    assert double(x).tolist() == [2.0]


def test_calls_inside_a_trace_stay_call_nodes_and_are_inlined() -> None:
    v = tl.Variable(1.0)

    @tl.function
    def inner(x: Any) -> Any:
        v.assign_add(1.0)
        return x * v, {"k": x + 1}

    @tl.function
    def outer(x: Any) -> Any:
        a, rest = inner(x)
        b, _ = inner(a)
        return a + b, rest["k"]

    result, rest = outer(tl.asarray(2.0))
    assert result.item() == 4.0 + 12.0
    assert rest.item() == 3.0
    assert v.numpy() == 3.0
    (concrete,) = outer.concrete_functions
    names = [op.name for op in concrete.graph.ops]
    assert names.count("call:inner") == 2
    assert "call:inner" not in [op.name for op in concrete.optimized_graph.ops]


def test_an_inner_function_may_capture_a_tensor_of_the_outer_trace() -> None:
    @tl.function
    def outer(x: Any) -> Any:
        y = x * 2

        @tl.function
        def inner(z: Any) -> Any:
            return y + z

        return inner(x) * 10

    np.testing.assert_array_equal(outer(tl.asarray([1.0, 2.0])).numpy(), [30.0, 60.0])


LEAK: list[Any] = []


def test_a_leaked_tensor_is_refused_with_the_line_that_made_it() -> None:
    @tl.function
    def leaking(x: Any) -> Any:
        LEAK[:] = [x * 3]
        return x

    leaking(tl.asarray(1.0))
    with pytest.raises(LeakedTensorError, match=r"multiply of 'leaking' at .*test_function.py:\d+"):
        LEAK[0] + 1.0

    @tl.function
    def other(x: Any) -> Any:
        return x + LEAK[0]

    with pytest.raises(LeakedTensorError, match="leaking"):
        other(tl.asarray(1.0))
    LEAK.clear()


@pytest.mark.parametrize("use", [bool, int, float, np.asarray, lambda x: range(x), str.format])
def test_a_symbolic_tensor_has_no_python_value(use: Any) -> None:
    use = (lambda x: x.item()) if use is str.format else use

    @tl.function(autograph=False)
    def f(x: Any) -> Any:
        return x if use(x) else -x

    with pytest.raises(SymbolicTensorError):
        f(tl.asarray(1))


def test_an_exception_in_a_trace_leaves_no_trace() -> None:
    v, outside = tl.Variable(1.0), tl.asarray([1.0])

    class Mine(Exception):
        pass

    @tl.function
    def f(x: Any, fail: bool) -> Any:
        nonlocal outside
        v.assign(x)
        outside += x
        if fail:
            raise Mine
        return x

    with tl.GradientTape() as tape:
        with pytest.raises(Mine):
            f(tl.asarray(7.0), True)
        assert STATE.handler is None
        assert STATE.active is not None
        assert tape.export() == []
    assert BUSY[0] == 0
    assert v.numpy() == 1.0
    assert outside.tolist() == [1.0]
    assert f.trace_count == 0
    assert f(tl.asarray(7.0), False).item() == 7.0
    assert v.numpy() == 7.0


def test_a_changed_argument_container_is_refused() -> None:
    @tl.function
    def f(items: list[Any]) -> Any:
        items.append(items[0] + 1)
        return items[-1]

    with pytest.raises(TracingError, match="changed its argument 'items'"):
        f([tl.asarray(1.0)])

    @tl.function
    def g(table: dict[str, Any]) -> Any:
        table["x"] = table["x"] * 2
        return table["x"]

    with pytest.raises(TracingError, match="changed its argument 'table'"):
        g({"x": tl.asarray(1.0)})


def test_bad_arguments_are_refused_by_name() -> None:
    @tl.function
    def f(x: Any, y: Any) -> Any:
        return x + y

    x = tl.asarray([1.0])
    with pytest.raises(ArgumentTypeError, match=r"f\(x, y\): missing"):
        f(x)  # type: ignore[call-arg]
    with pytest.raises(DTypeError, match="object"):
        f(x, np.array([object()]))
    with pytest.raises(DTypeError, match="<U"):
        f(x, np.array(["a"]))
    with pytest.raises(ArgumentTypeError, match="hash"):
        f(x, {1, 2})
    with pytest.raises(TypeError):
        f(x, None)
    with pytest.raises(ShapeError, match="broadcast"):
        f(tl.asarray(np.ones(2)), tl.asarray(np.ones(3)))


def test_coroutines_generators_and_non_functions_are_refused() -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield 1

    for bad in (coroutine, generator):
        with pytest.raises(ArgumentTypeError, match="coroutine or a generator"):
            tl.function(bad)
    with pytest.raises(ArgumentTypeError, match="expected a function"):
        tl.function(3)  # type: ignore[call-overload]


def test_the_decorated_function_keeps_its_face() -> None:
    def plain(x: tl.Tensor, n: int = 2) -> tl.Tensor:
        """Multiplies."""
        return x * n

    compiled = tl.function(plain)
    assert compiled.python_function is plain
    assert compiled.__name__ == "plain"
    assert compiled.__doc__ == "Multiplies."
    assert inspect.signature(compiled) == inspect.signature(plain)
    named = tl.function(name="other")(plain)
    assert "other" in repr(named)
    partial = tl.function(functools.partial(plain, n=3))
    assert partial(tl.asarray(2.0)).item() == 6.0


def test_get_concrete_function_takes_specs() -> None:
    @tl.function
    def f(x: Any, items: Any) -> Any:
        return x @ items[0], 3

    concrete = f.get_concrete_function(
        tl.TensorSpec([2, 3]), [tl.TensorSpec([3], tl.float64, name="v")]
    )
    assert concrete.inputs == (tl.TensorSpec([2, 3]), tl.TensorSpec([3]))
    assert concrete.outputs == (tl.TensorSpec([2]),)
    assert concrete.structured_outputs == (tl.TensorSpec([2]), 3)
    assert (concrete.output_shapes, concrete.output_dtypes) == (((2,), 3), (tl.float64, 3))
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    result, three = f(a, [b])
    assert three == 3
    np.testing.assert_allclose(result.numpy(), a @ b)
    assert f.trace_count == 1
    np.testing.assert_allclose(concrete(a, b)[0].numpy(), a @ b)
    with pytest.raises(ShapeError, match="argument v must be float64 of shape"):
        concrete(a, np.ones(4))


def test_one_trace_when_many_threads_call_first() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * 2 + 1

    barrier = threading.Barrier(8)
    results: list[Any] = []

    def work(k: int) -> None:
        barrier.wait()
        for _ in range(50):
            results.append((k, f(tl.asarray([float(k)])).item()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert f.trace_count == 1
    assert len(results) == 400
    assert all(value == 2.0 * k + 1 for k, value in results)


def test_a_host_call_that_raises_reaches_the_caller_and_the_next_call_works() -> None:
    from tapeline.runtime.dispatch import bind
    from tapeline.runtime.op import define_op

    def kernel(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if x[0] < 0:
            raise ValueError("negative")
        return np.sort(x)

    op = define_op("picky", kernel=kernel, infer=lambda spec: spec, register=False)

    @tl.function
    def f(x: Any) -> Any:
        return bind(op, (x * 2,)) + 1

    np.testing.assert_array_equal(f(np.array([3.0, 1.0])).numpy(), [3.0, 7.0])
    with pytest.raises(ValueError, match="negative"):
        f(np.array([-3.0, 1.0]))
    np.testing.assert_array_equal(f(np.array([3.0, 1.0])).numpy(), [3.0, 7.0])


def test_functions_run_eagerly_while_the_switch_is_on() -> None:
    seen = []

    @tl.function
    def f(x: Any) -> Any:
        seen.append(type(x._value))
        return x * 2

    x = tl.asarray([1.0])
    for _ in range(4):
        f(x)
    with tl.config.run_functions_eagerly(True):
        assert f(x).tolist() == [2.0]
        assert f(tl.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]
        with tl.config.run_functions_eagerly(False):
            f(x)
        f(x)
    f(x)
    assert seen.count(np.ndarray) == 3
    assert f.trace_count == 1
    assert BUSY[0] == 0
    tl.config.run_functions_eagerly(True)
    f(x)
    tl.config.run_functions_eagerly(False)
    assert seen.count(np.ndarray) == 4


class Layer:
    def __init__(self, w: Any, b: Any, kind: str) -> None:
        self.w, self.b, self.kind = w, b, kind


tl.nest.register(Layer, lambda x: ((x.w, x.b), x.kind), lambda kind, ps: Layer(ps[0], ps[1], kind))


def test_registered_classes_go_in_and_out() -> None:
    @tl.function
    def f(layer: Layer, x: Any) -> Layer:
        y = layer.w * x + layer.b
        return Layer(tl.tanh(y) if layer.kind == "tanh" else y, None, layer.kind)

    w, b, x = (tl.asarray([float(k)]) for k in (2, 3, 4))
    for _ in range(3):
        assert f(Layer(w, b, "linear"), x).w.tolist() == [11.0]
        squashed = f(Layer(w, b, "tanh"), x)
        assert squashed.kind == "tanh"
        assert squashed.w.item() == pytest.approx(np.tanh(11.0))
    assert f.trace_count == 2
    assert "layer[0]" in f.explain()[0].signature
    with tl.GradientTape() as tape:
        tape.watch(w)
        y = f(Layer(w, b, "linear"), x).w
    assert tape.gradient(y, w).tolist() == [4.0]


def test_ufuncs_of_numpy_are_functions_too() -> None:
    x, y = tl.asarray([0.5, 1.0]), tl.asarray([2.0, 3.0])
    hypot: Any = tl.function(np.hypot)
    np.testing.assert_array_equal(hypot(x, y).numpy(), np.hypot([0.5, 1], [2, 3]))
    compiled: Any = tl.function(np.expm1)
    np.testing.assert_allclose(compiled(x).numpy(), np.expm1([0.5, 1.0]), rtol=1e-15)
    assert "expm1" in compiled.get_concrete_function(x).name


def test_an_iterator_as_argument_is_asked_at_each_call() -> None:
    @tl.function
    def f(x: Any, items: Any) -> Any:
        return x * next(items)

    items = iter([1.0, 2.0, 3.0])
    assert [f(tl.asarray(1.0), items).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert f(tl.asarray(1.0), iter([5.0])).item() == 5.0
    record = f.explain().records[1]
    assert record.reason == "an iterator gives other items at each call"
    assert "list" in record.repair
