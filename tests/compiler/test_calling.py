"""The ways to call one trace of a function."""

from __future__ import annotations

import logging
import weakref
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import MutatedArgumentError, SignatureMismatchError

SCALAR = tl.TensorSpec([], "float64")


def nested() -> Any:
    @tl.function
    def f(x: Any, y: Any = (30.0, 4), *, scale: float = 1.0) -> Any:
        return (x["a"] + x["b"]) * scale, y[0] + y[1]

    return f


A, B, C = (tl.asarray(v) for v in (1000.0, 200.0, 30.0))


def test_structured_flat_and_named_calls_give_the_same() -> None:
    cf = nested().get_concrete_function({"a": SCALAR, "b": SCALAR}, (SCALAR, 4))
    table, pair = {"b": B, "a": A}, (C, 4)
    for y in (
        cf(table, pair),
        cf(table, y=pair),
        cf(y=pair, x=table, scale=1.0),
        cf({"a": 1000, "b": 200.0}, (30, 4)),
        cf(A, B, C),
        cf(A, B, np.float64(30.0)),
        cf(A, **{"x['b']": B, "y[0]": C}),
        cf(x=A, x_1=B, y=C),
    ):
        assert [one.item() for one in y] == [1200.0, 34.0]


def test_bound_arguments_may_be_left_out_or_must_be_the_same() -> None:
    f = nested()
    cf = f.get_concrete_function({"a": SCALAR, "b": SCALAR})
    table = {"a": A, "b": B}
    for y in (cf(table), cf(table, (30.0, 4)), cf(A, B), cf(table, scale=1.0)):
        assert y[0].item() == 1200.0
    others: list[tuple[Any, Any]] = [
        ((table, (30.0, 5)), {}),
        ((table, (30, 4)), {}),
        ((table,), {"scale": 2.0}),
        ((table, (C, 4)), {}),
    ]
    for args, kwargs in others:
        with pytest.raises(SignatureMismatchError, match="bound in this trace"):
            cf(*args, **kwargs)
    constant = f.get_concrete_function({"a": 1.0, "b": 2}, (3, 4))
    assert constant() == constant({"a": 1.0, "b": 2}, (3, 4)) == (3.0, 7)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((A,), {}, "missing a required argument: 'y'"),
        ((A, B, C), {}, r"too many positional arguments|takes"),
        ((A, B), {"c": C}, "unexpected keyword argument|no more"),
        ((A,), {"x": A, "y": B}, "multiple values"),
        ((A, [B]), {}, "argument y"),
        ((A, tl.ones(3)), {}, r"argument y must be float64 of shape \(\)"),
        ((A, np.float32(1.0)), {}, "argument y must be float64 .* got float32"),
        ((A, 1j), {}, "argument y"),
        ((A, "text"), {}, "argument y"),
    ],
)
def test_other_calls_are_refused(args: Any, kwargs: Any, message: str) -> None:
    @tl.function
    def f(x: Any, y: Any) -> Any:
        return x - y

    cf = f.get_concrete_function(SCALAR, SCALAR)
    with pytest.raises(SignatureMismatchError, match=message) as caught:
        cf(*args, **kwargs)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    assert cf(A, B).item() == 800.0


def test_variadic_arguments_are_matched_one_by_one() -> None:
    @tl.function
    def f(x: Any, *rest: Any, **named: Any) -> Any:
        return x + sum(rest) + named["k"]

    cf = f.get_concrete_function(SCALAR, SCALAR, 2, k=SCALAR)
    assert cf(A, B, 2, k=C).item() == 1232.0
    assert cf(A, B, C).item() == 1232.0
    others: list[tuple[Any, Any, str]] = [
        ((A, B, 2), {}, "missing a required argument: 'k'"),
        ((A, 1, 3), {"k": C}, "bound"),
        ((A, B, 2, 5), {"k": C}, "too many"),
        ((A, B, 2), {"k": C, "j": C}, "unexpected keyword"),
    ]
    for args, kwargs, message in others:
        with pytest.raises(SignatureMismatchError, match=message):
            cf(*args, **kwargs)


def test_the_same_tensor_twice_is_one_argument_for_both() -> None:
    f = tl.function(lambda x, y: x * 10 + y)
    x, y = tl.asarray(1.0), tl.asarray(2.0)
    assert f.get_concrete_function(x, y)(y, x).item() == 21.0
    twice = f.get_concrete_function(x, x)
    assert twice(x, x).item() == 11.0


def test_names_come_from_specs_or_arguments() -> None:
    f = tl.function(lambda x, *rest: x - rest[0])
    named = f.get_concrete_function(tl.TensorSpec([], name="a"), tl.TensorSpec([], name="b"))
    assert named.input_names == ("a", "b")
    assert named(b=B, a=A).item() == 800.0
    args, kwargs = named.structured_input_signature
    assert ([spec.name for spec in args], kwargs) == (["a", "b"], {})
    assert f.get_concrete_function(SCALAR, SCALAR) is named
    other = f.get_concrete_function(tl.TensorSpec([], name="c"), SCALAR)
    assert other.input_names == ("c", "b")
    assert f.trace_count == 1


def test_structured_calls_win_over_names_that_say_otherwise() -> None:
    f = tl.function(lambda x, y: x * 10 + y)
    cf = f.get_concrete_function(tl.TensorSpec([], name="y"), tl.TensorSpec([], name="x"))
    assert cf(x=5.0, y=6.0).item() == 56.0


def test_a_method_is_called_without_its_object() -> None:
    class Model:
        @tl.function
        def scale(self, x: Any, k: int) -> Any:
            return x * k

    model = Model()
    cf = model.scale.get_concrete_function(SCALAR, 3)
    for y in (cf(A, 3), cf(A), cf(x=A), cf(model, A, 3)):
        assert y.item() == 3000.0


def test_gradients_go_through_structured_calls() -> None:
    cf = nested().get_concrete_function({"a": SCALAR, "b": SCALAR})
    with tl.GradientTape() as tape:
        tape.watch(A)
        y = cf({"a": A, "b": B})[0] * 2
    assert tape.gradient(y, A).item() == 2.0


def test_concrete_functions_print_what_they_take_read_and_give() -> None:
    v, w = tl.Variable([1.0, 2.0], name="v"), tl.asarray([3.0, 4.0])

    @tl.function
    def f(x: Any, k: int = 2) -> Any:
        v.assign_add(x)
        return {"y": v * w * k, "n": 3}

    cf = f.get_concrete_function(tl.TensorSpec([2]))
    assert repr(cf) == "<concrete function f(x: float64[2], k = 2) -> {'y': float64[2], 'n': 3}>"
    assert str(cf).splitlines() == [
        "concrete function f",
        "  takes x: float64[2]",
        "  takes k = 2",
        "  captures float64[2]",
        "  assigns variable 'v': float64[2]",
        "  gives {'y': float64[2], 'n': 3}",
    ]


def test_specs_without_a_rank_serve_tensors_of_any_shape() -> None:
    f = tl.function(lambda x, y: x * 2 + y, input_signature=[tl.TensorSpec(None)] * 2)
    cf = f.get_concrete_function()
    assert "any shape" in repr(cf)
    for x in (1.0, [1.0, 2.0], [[1.0], [2.0]]):
        np.testing.assert_array_equal(cf(x, 1.0).numpy(), np.asarray(x) * 2 + 1)
    assert cf.graph.placeholders
    with pytest.raises(SignatureMismatchError, match="float64 of shape None"):
        cf(tl.asarray(1), tl.asarray(1.0))


def test_open_sizes_that_must_be_equal_are_found_to_be() -> None:
    f = tl.function(lambda a: a @ a)
    cf = f.get_concrete_function(tl.TensorSpec([None, None]))
    np.testing.assert_array_equal(cf(np.eye(3) * 2).numpy(), np.eye(3) * 4)


@pytest.mark.parametrize(
    "change",
    [
        lambda n: n[0].append(n[1].pop(0)),
        lambda n: n[1].clear(),
        lambda n: n.insert(0, []),
        lambda n: n[2].update(k=1),
        lambda n: n[2].pop("t"),
    ],
    ids=["moved", "cleared", "inserted", "added", "removed"],
)
def test_a_changed_argument_container_is_a_value_error_that_names_it(change: Any) -> None:
    @tl.function
    def modify(nested: Any) -> None:
        change(nested)

    one = tl.asarray(1.0)
    with pytest.raises(MutatedArgumentError, match="changed its argument 'nested'") as caught:
        modify([[one], [one * 2, one * 3], {"t": one}])
    assert isinstance(caught.value, ValueError)


def test_weak_references_are_no_arguments() -> None:
    f = tl.function(lambda x: x)
    for bad in (weakref.ref(nested), weakref.proxy(nested)):
        with pytest.raises(TypeError, match="weakref"):
            f(bad)


def test_retracing_is_told_to_logs_and_not_from_inside_of_other_traces(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = tl.function(lambda x, k: x + len(k))
    outer = tl.function(lambda x, k: inner(x, k) * 2)
    with caplog.at_level(logging.WARNING):
        for k in range(4):
            inner(1.0, "a" * k)
            outer(1.0, "b" * k)
        assert not caplog.messages
        with pytest.warns(UserWarning, match="outer|lambda"):
            outer(1.0, "c")
    assert len(caplog.messages) == 1
    assert "Tracing is expensive" in caplog.messages[0]


def test_numbers_that_a_trace_left_open_are_passed_as_numbers() -> None:
    f = tl.function(lambda x, k: x * k)
    for k in (1.5, 2.5, 3.5, 4.5):
        f(A, k)
    cf = f.concrete_functions[-1]
    assert cf(B, 0.5).item() == 100.0
    assert cf(x=B, k=2).item() == 400.0
    with pytest.raises(SignatureMismatchError, match="missing a required argument: 'k'"):
        cf(B)
