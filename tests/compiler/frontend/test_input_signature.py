"""Signatures that are fixed by hand."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentTypeError

PAIR = tl.TensorSpec([2], "float32")


class Point(NamedTuple):
    x: Any
    y: Any


def test_every_call_that_fits_shares_one_trace() -> None:
    @tl.function(input_signature=[PAIR])
    def f(x: Any) -> Any:
        return x * 2

    for given in ([1, 2], (1.0, 2.0), np.array([1, 2], "float32"), tl.asarray([1, 2], "float32")):
        result = f(given)
        np.testing.assert_array_equal(result.numpy(), np.array([2, 4], "float32"))
        assert result.dtype == tl.float32
    assert f.trace_count == 1
    assert f.input_signature == (PAIR,)
    assert f.get_concrete_function().inputs == (PAIR,)
    assert f.get_concrete_function() is f.get_concrete_function(PAIR)


@pytest.mark.parametrize(
    "given",
    [np.ones(2), np.ones((2, 1), "float32"), tl.ones(3, dtype="float32"), "text", None, [1, "a"]],
    ids=["dtype", "rank", "extent", "text", "none", "no numbers"],
)
def test_what_does_not_fit_is_a_type_error_that_names_the_argument(given: Any) -> None:
    @tl.function(input_signature=[PAIR])
    def f(value: Any) -> Any:
        return value

    with pytest.raises(ArgumentTypeError, match="value"):
        f(given)
    assert f.trace_count == 0


def test_wrong_numbers_of_arguments_are_type_errors() -> None:
    f = tl.function(lambda x: x, input_signature=[PAIR])
    with pytest.raises(TypeError, match="missing a required argument"):
        f()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional arguments"):
        f([1, 2], [3, 4])  # type: ignore[call-arg]


def test_structures_of_specs() -> None:
    scalar = tl.TensorSpec([], "float64")

    @tl.function(input_signature=[{"a": PAIR, "b": [scalar, (scalar,)]}, Point(scalar, None)])
    def f(table: Any, point: Any) -> Any:
        assert type(point) is Point
        assert type(table["b"][1]) is tuple
        return table["a"] * tl.astype(table["b"][0] + table["b"][1][0], "float32"), point.x

    rows = {"b": (1, [2.0]), "a": np.array([1, 2], "float32")}
    scaled, x = f(rows, Point(5, None))
    np.testing.assert_array_equal(scaled.numpy(), np.array([3, 6], "float32"))
    assert x.item() == 5.0
    with pytest.raises(ArgumentTypeError, match=r"argument table.*structure"):
        f({"a": [1, 2]}, Point(5, None))
    with pytest.raises(ArgumentTypeError, match=r"argument table\['b'\]\[1\].*structure"):
        f({"a": [1, 2], "b": [1, 2]}, Point(5, None))
    assert f.trace_count == 1


def test_parameters_beyond_the_specs_stay_at_their_defaults() -> None:
    @tl.function(input_signature=[PAIR])
    def f(x: Any, scale: int = 3, *, shift: float = 0.5) -> Any:
        return x * scale + shift

    np.testing.assert_array_equal(f([1, 2]).numpy(), np.array([3.5, 6.5], "float32"))
    assert f([1, 2], 3).numpy()[0] == np.float32(3.5)
    with pytest.raises(ArgumentTypeError, match=r"scale has no spec.*default 3; got 4"):
        f([1, 2], 4)
    assert f.trace_count == 1


def test_specs_for_variadic_arguments() -> None:
    f = tl.function(lambda x, *rest: x + rest[0] + rest[1], input_signature=[PAIR] * 3)
    np.testing.assert_array_equal(f([1, 2], [1, 1], [2, 2]).numpy(), np.array([4, 5], "float32"))
    with pytest.raises(TypeError, match="missing a required argument"):
        f([1, 2], [1, 1])


def test_specs_over_a_partial() -> None:
    def f(x: Any, y: Any, z: Any = 1.0) -> Any:
        return x * 100 + y * 10 + z

    scalar = tl.TensorSpec([], "float64")
    g = tl.function(functools.partial(f, 1.0, z=3.0), input_signature=[scalar])
    assert g(2).item() == 123.0
    with pytest.raises(TypeError, match="missing type constraint"):
        tl.function(functools.partial(f, z=3.0), input_signature=[scalar])


def test_specs_of_a_method_begin_after_the_object() -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tl.function(input_signature=[PAIR])
        def scale(self, x: Any) -> Any:
            return x * self.factor

        @tl.function(input_signature=[])
        def nothing(this, k: int = 7) -> Any:
            return k

    models = [Model(2.0), Model(3.0)]
    assert [m.scale([1, 2]).numpy()[1] for m in models] == [4.0, 6.0]
    assert models[0].scale.get_concrete_function().inputs == (PAIR,)
    assert models[1].nothing() == 7
    assert Model.scale.trace_count == 2


@pytest.mark.parametrize("specs", [[(2, 3), PAIR], PAIR, "float32", [tl.float32, PAIR]], ids=str)
def test_a_signature_of_something_else_is_refused(specs: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="input_signature must be a possibly nested"):
        tl.function(lambda a, b: a, input_signature=specs)


def test_a_parameter_without_spec_and_default_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="missing type constraint for b, c"):
        tl.function(lambda a, b, *rest, c, **more: a, input_signature=[PAIR])
    with pytest.raises(ArgumentTypeError, match="2 specs for 1 positional"):
        tl.function(lambda a: a, input_signature=[PAIR, PAIR])


def test_a_number_gets_the_dtype_of_its_spec() -> None:
    @tl.function(input_signature=[tl.TensorSpec([], "bool"), tl.TensorSpec([], "int32")])
    def f(flag: Any, n: Any) -> Any:
        return tl.where(flag, n, -n)

    assert f(False, 3).item() == -3
    assert f(True, 3).dtype == tl.int32
    with pytest.raises(ArgumentTypeError, match="argument n"):
        f(True, 1.5)


def test_gradients_reach_through_the_door() -> None:
    f = tl.function(lambda x: tl.sum(x * x), input_signature=[tl.TensorSpec([2], "float64")])
    x = tl.asarray([3.0, 4.0])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [6.0, 8.0])
