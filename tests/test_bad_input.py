"""Bad input: one paragraph that names the argument and says what to do, and all is as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import BUSY, STATE
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    LeakedTensorError,
    ShapeError,
    TapelineError,
    TracingError,
)

VECTOR, THREE = tl.asarray([1.0, 2.0]), tl.asarray([1.0, 2.0, 3.0])
MATRIX, ROWS = tl.asarray(np.ones((2, 3))), tl.asarray(np.ones((4, 2)))
INTS, FLAGS = tl.asarray([1, 2]), tl.asarray([True, False])
OBJECTS, TEXTS = np.array([object(), None]), np.array(["a", "b"])
MASKED: Any = np.ma.masked_array([1.0, 2.0], [False, True])
NONE: Any = None
untyped: Any = tl


@pytest.fixture(autouse=True)
def _state_is_as_before() -> Iterator[None]:
    before = STATE.handler, STATE.active, STATE.open, STATE.stopped, BUSY[0]
    values = [x.tolist() for x in (VECTOR, THREE, MATRIX, ROWS, INTS, FLAGS)]
    yield
    assert (STATE.handler, STATE.active, STATE.open, STATE.stopped, BUSY[0]) == before
    assert [x.tolist() for x in (VECTOR, THREE, MATRIX, ROWS, INTS, FLAGS)] == values
    assert (VECTOR + 1.0).tolist() == [2.0, 3.0]


def refuse(run: Callable[[], Any], kind: type[BaseException], *words: str) -> None:
    """`run` raises that kind of error, in one paragraph with all these words."""
    with pytest.raises(kind) as caught:
        run()
    assert isinstance(caught.value, TapelineError)
    message = str(caught.value)
    assert "\n" not in message.strip()
    assert 20 < len(message) < 500
    for word in words:
        assert word in message, message


Bad = tuple[Callable[[], Any], type[BaseException], tuple[str, ...]]

BAD_CALLS: dict[str, Bad] = {
    # ranks and shapes
    "add of other shapes": (
        lambda: tl.add(VECTOR, THREE), ShapeError, ("add", "(2,)", "(3,)", "equal or 1")),
    "operator of other shapes": (
        lambda: VECTOR * THREE, ShapeError, ("multiply", "(2,)", "(3,)", "equal or 1")),
    "product of other extents": (
        lambda: MATRIX @ MATRIX, ShapeError, ("matmul", "a has shape (2, 3)", "must equal")),
    "product with a number": (
        lambda: tl.matmul(tl.asarray(1.0), MATRIX), ShapeError, ("matmul", "a has shape ()", "*")),
    "axis": (lambda: tl.sum(MATRIX, axis=5), ShapeError, ("sum", "axis 5", "2 dimensions")),
    "reshape": (lambda: tl.reshape(MATRIX, (4,)), ShapeError, ("reshape", "4 elements", "has 6")),
    "concat of other ranks": (
        lambda: tl.concat([VECTOR, MATRIX]), ShapeError, ("concat", "one number of dimensions")),
    "concat of other shapes": (
        lambda: tl.concat([MATRIX, ROWS]), ShapeError, ("concat", "axis 0", "must be equal")),
    "stack of other shapes": (
        lambda: tl.stack([VECTOR, THREE]), ShapeError, ("stack", "must be equal")),
    "broadcast": (
        lambda: tl.broadcast_to(MATRIX, (3, 3)), ShapeError, ("broadcast_to", "(2, 3)", "(3, 3)")),
    "assigned element": (
        lambda: VECTOR.__setitem__(0, [1.0, 2.0]), ShapeError, ("x[key] = value", "(2,)", "()")),
    "labels": (
        lambda: tl.softmax_cross_entropy(MATRIX, ROWS), ShapeError,
        ("softmax_cross_entropy", "logits and labels", "(2, 3)", "(4, 2)")),
    "negative extent": (lambda: tl.zeros((2, -1)), ShapeError, ("zeros", "shape", ">= 0")),
    # dtypes
    "bits of floats": (
        lambda: VECTOR & VECTOR, DTypeError, ("bitwise_and", "float64", "astype")),
    "float indices": (
        lambda: tl.take(VECTOR, tl.asarray([0.5])), DTypeError, ("take", "indices", "astype")),
    "float labels": (
        lambda: tl.sparse_softmax_cross_entropy(MATRIX, VECTOR), DTypeError, ("labels", "astype")),
    "unknown dtype": (lambda: tl.asarray([1.0], "spam"), DTypeError, ("dtype", "'spam'", "use")),
    "long double": (lambda: tl.asarray(np.ones(2, "g")), DTypeError, ("asarray", "float")),
    "order of complex": (
        lambda: tl.maximum(tl.asarray([1j]), 1.0), DTypeError, ("maximum", "complex128")),
    # arrays of no numbers
    "masked elements": (
        lambda: tl.asarray(MASKED), ArgumentTypeError, ("asarray", "MaskedArray with 1", "filled")),
    "masked elements, shared": (
        lambda: tl.asarray(MASKED, copy=False), ArgumentTypeError, ("asarray", "MaskedArray")),
    "objects": (lambda: tl.asarray(OBJECTS), DTypeError, ("asarray", "object", "astype")),
    "texts": (lambda: tl.sin(TEXTS), DTypeError, ("sin", "<U1", "astype")),
    "objects as first operand": (
        lambda: tl.add(OBJECTS, VECTOR), DTypeError, ("add: first operand", "object", "astype")),
    "texts as second operand": (
        lambda: VECTOR + TEXTS, DTypeError, ("add: second operand", "<U1", "astype")),
    "list with None": (lambda: untyped.sum([1.0, None]), DTypeError, ("sum", "object")),
    "text": (lambda: tl.exp("a"), ArgumentTypeError, ("exp", "expected a tensor", "'a'")),
    "set": (lambda: untyped.asarray({1, 2}), ArgumentTypeError, ("asarray", "expected", "set")),
    "uneven rows": (lambda: tl.asarray([[1, 2], [3]]), ArgumentTypeError, ("asarray", "list")),
    # None
    "None": (lambda: tl.tanh(NONE), ArgumentTypeError, ("tanh", "expected a tensor", "None")),
    "None as second operand": (
        lambda: tl.add(VECTOR, NONE), ArgumentTypeError, ("add: second operand", "None")),
    "None as condition": (
        lambda: tl.where(NONE, VECTOR, VECTOR), ArgumentTypeError, ("where: condition", "None")),
    "None as choice": (
        lambda: tl.where(FLAGS, VECTOR, NONE), ArgumentTypeError, ("where: x2", "None")),
    "None in a list": (
        lambda: tl.concat([VECTOR, NONE]), ArgumentTypeError, ("concat: tensor 1", "None")),
    "None to reshape": (lambda: tl.reshape(NONE, (1,)), ArgumentTypeError, ("reshape", "None")),
    "None as shape": (lambda: tl.zeros(NONE), ShapeError, ("zeros", "shape", "None")),
    "None as variable": (lambda: tl.Variable(NONE), ArgumentTypeError, ("Variable", "None")),
    "None as element": (
        lambda: VECTOR.__setitem__(0, None), ArgumentTypeError, ("x[key] = value", "None")),
    "None to watch": (
        lambda: tl.GradientTape().watch(None), ArgumentError, ("watch", "None", "tl.asarray")),
    # other arguments
    "axis of no int": (
        lambda: untyped.sum(MATRIX, axis=1.5), ArgumentTypeError, ("sum: axis", "1.5")),
    "axis twice": (lambda: tl.sum(MATRIX, axis=(0, 0)), ArgumentError, ("sum: axis", "twice")),
    "shift": (lambda: untyped.roll(VECTOR, "a"), ArgumentTypeError, ("roll: shift", "'a'")),
    "ends": (lambda: untyped.arange("a"), ArgumentTypeError, ("arange: stop", "number", "'a'")),
    "index": (lambda: untyped.add(VECTOR, 0)["a"], ArgumentTypeError, ("index", "'a'", "use ints")),
    "no function": (lambda: untyped.function(3), ArgumentTypeError, ("expected a function", "int")),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_an_eager_call_names_what_is_wrong(name: str) -> None:
    run, kind, words = BAD_CALLS[name]
    refuse(run, kind, *words)


EAGER_ONLY = {"unknown dtype", "no function", "None to watch"}


@pytest.mark.parametrize("name", [name for name in BAD_CALLS if name not in EAGER_ONLY])
def test_a_traced_call_names_what_is_wrong_and_leaves_no_trace(name: str) -> None:
    run, kind, words = BAD_CALLS[name]

    @tl.function
    def f(x: Any) -> Any:
        run()
        return x

    with tl.GradientTape() as tape:
        tape.watch(VECTOR)
        refuse(lambda: f(VECTOR), kind, *words)
        assert tape.export() == []
    assert f.trace_count == 0


# Variables and tapes


def test_a_refused_assignment_leaves_the_variable_as_it_was() -> None:
    v = tl.Variable([1.0, 2.0], name="w")
    refuse(lambda: v.assign([1.0]), ShapeError, "assign", "value", "(1,)", "(2,)")
    refuse(lambda: v.assign(NONE), ArgumentTypeError, "assign", "None")
    refuse(lambda: v.assign(OBJECTS), DTypeError, "assign", "object")
    refuse(lambda: v.assign_add([1.0, 2.0, 3.0]), ShapeError, "assign_add", "'w'", "(3,)")
    refuse(lambda: tl.Variable([1]).assign([1.5]), DTypeError, "assign", "float64", "astype")
    assert v.numpy().tolist() == [1.0, 2.0]


def test_a_refused_assignment_in_a_trace_leaves_the_variable_as_it_was() -> None:
    v = tl.Variable([1.0, 2.0])

    @tl.function
    def f(x: Any) -> None:
        v.assign(x * 2.0)
        v.assign([1.0])

    refuse(lambda: f(VECTOR), ShapeError, "assign", "(1,)", "(2,)")
    assert v.numpy().tolist() == [1.0, 2.0]


def test_bad_targets_sources_and_cotangents_are_named_and_the_tape_still_answers() -> None:
    x = tl.asarray([1.0, 2.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    refuse(lambda: tape.gradient(None, x), ArgumentTypeError, "target is None", "pass a tensor")
    refuse(lambda: tape.gradient(y, None), ArgumentTypeError, "sources is None", "pass a tensor")
    refuse(lambda: tape.gradient(3, x), ArgumentTypeError, "target", "int")
    refuse(lambda: tape.gradient(y, np.ones(2)), ArgumentTypeError, "sources", "ndarray")
    refuse(lambda: tape.gradient(y, x, THREE), ShapeError, "output gradient", "(3,)", "(2,)")
    refuse(lambda: tape.gradient([y, y], x, [VECTOR]), ArgumentError, "output_gradients", "of 2")
    refuse(
        lambda: tape.gradient({"y": y}, x, {"z": VECTOR}), ArgumentError,
        "output_gradients must have the structure of target", "dict",
    )  # fmt: skip
    wrong: Any = "spam"
    refuse(
        lambda: tape.gradient(y, x, unconnected_gradients=wrong), ArgumentError,
        "unconnected_gradients", "'none' or 'zero'",
    )  # fmt: skip
    refuse(lambda: tape.batch_jacobian(y, [x]), ArgumentTypeError, "batch_jacobian", "list")
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("transform", [tl.grad, tl.value_and_grad, tl.jacobian, tl.hessian])
def test_only_functions_are_differentiated(transform: Any) -> None:
    refuse(lambda: transform(3), ArgumentTypeError, "expected a function", "int")
    square: Any = transform(lambda x: tl.sum(x * x), 0.5)
    refuse(lambda: square(VECTOR), ArgumentTypeError, "argnums", "0.5", "position or name")


def test_primals_and_modes_are_named() -> None:
    message = ("primals must be a list or tuple", "Tensor", "[x]")
    refuse(lambda: untyped.jvp(tl.sum, VECTOR, VECTOR), ArgumentTypeError, *message)
    refuse(lambda: untyped.hvp(tl.sum, VECTOR, VECTOR), ArgumentTypeError, *message)
    refuse(
        lambda: tl.vjp(untyped.pi, VECTOR), ArgumentTypeError, "vjp: expected a function", "float"
    )
    wrong: Any = "fwd"
    refuse(lambda: tl.jacobian(tl.sin, mode=wrong), ArgumentError, "'forward'", "'fwd'")


# Compiled functions


@tl.function
def affine(x: Any, weights: Any) -> Any:
    """A product and a sum, of a structure."""
    return x @ weights["w"] + weights["b"]


GOOD = {"w": MATRIX, "b": THREE}


@pytest.fixture(autouse=True)
def _functions_still_work() -> Iterator[None]:
    affine(ROWS, GOOD)
    traces = affine.trace_count
    yield
    np.testing.assert_array_equal(affine(ROWS, GOOD).numpy()[0], [3.0, 4.0, 5.0])
    assert affine.trace_count == traces


def test_arrays_of_no_numbers_as_arguments_are_named_by_their_place() -> None:
    refuse(lambda: affine(MASKED, GOOD), ArgumentTypeError, "affine: argument x:", "x.mask")
    refuse(lambda: affine(OBJECTS, GOOD), DTypeError, "affine: argument x:", "object", "astype")
    refuse(
        lambda: affine(ROWS, {"w": MATRIX, "b": TEXTS}), DTypeError,
        "affine: argument weights['b']:", "<U1", "astype",
    )  # fmt: skip
    refuse(lambda: affine(ROWS, {1, 2}), ArgumentTypeError, "argument weights:", "set", "pass")


def test_calls_that_do_not_fit_the_parameters_show_them() -> None:
    call: Any = affine
    refuse(lambda: call(ROWS), ArgumentTypeError, "affine(x, weights)", "'weights'")
    refuse(lambda: call(ROWS, GOOD, 1), ArgumentTypeError, "affine(x, weights)", "too many")
    refuse(lambda: call(ROWS, w=GOOD), ArgumentTypeError, "affine(x, weights)", "missing")


@pytest.mark.parametrize(
    ("x", "weights"),
    [(None, GOOD), (ROWS, None), (ROWS, [MATRIX, THREE]), (ROWS, {"w": MATRIX, "b": None})],
    ids=["None", "None for a dict", "a list for a dict", "None in a dict"],
)
def test_mixed_up_containers_and_none_fail_in_the_users_line(x: Any, weights: Any) -> None:
    with pytest.raises(TypeError) as caught:
        affine(x, weights)
    assert any(entry.name == "affine" for entry in caught.traceback)
    if weights is GOOD:
        assert "NoneType" in str(caught.value)


def test_a_trace_names_the_tensor_that_does_not_fit_it() -> None:
    concrete = affine.get_concrete_function(ROWS, GOOD)
    given = [ROWS.numpy(), THREE.numpy(), MATRIX.numpy()]
    np.testing.assert_array_equal(concrete(*given).numpy()[0], [3.0, 4.0, 5.0])
    refuse(
        lambda: concrete(ROWS, VECTOR, MATRIX), ShapeError,
        "affine: argument weights['b'] must be float64 of shape (3,)", "call the function itself",
    )  # fmt: skip
    refuse(
        lambda: concrete(ROWS, THREE.numpy().astype("f4"), MATRIX), ShapeError,
        "argument weights['b'] must be float64", "got float32",
    )  # fmt: skip
    refuse(lambda: concrete(ROWS, None, MATRIX), ArgumentTypeError, "weights['b']", "None")
    refuse(lambda: concrete(ROWS, OBJECTS, MATRIX), ArgumentTypeError, "weights['b']", "object")
    np.testing.assert_array_equal(concrete(ROWS, GOOD).numpy(), concrete(*given).numpy())


def test_a_mutated_argument_list_is_named() -> None:
    @tl.function
    def collect(items: list[Any], table: dict[str, Any]) -> Any:
        if len(items) == 1:
            items.append(items[0] * 2.0)
        else:
            table["new"] = items[0]
        return items[-1]

    items, table = [VECTOR], {"old": VECTOR}
    refuse(lambda: collect(items, table), TracingError, "collect", "'items'", "list", "copy")
    assert len(items) == 1
    items = [VECTOR, THREE]
    refuse(lambda: collect(items, table), TracingError, "collect", "'table'", "dict", "copy")
    assert list(table) == ["old"]
    assert collect.trace_count == 0


def test_an_op_on_a_closed_graph_is_refused() -> None:
    kept: list[Any] = []

    @tl.function
    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x + 1.0

    assert f(VECTOR).tolist() == [2.0, 3.0]
    (concrete,) = f.concrete_functions
    graph: Any = concrete.graph
    nodes = len(graph)
    for use in (lambda: kept[0] + 1.0, lambda: tl.sum(kept[0]), lambda: kept[0].numpy()):
        refuse(use, LeakedTensorError, "multiply of 'f'", "test_bad_input.py", "return it")
    refuse(
        lambda: graph.run_op(graph.ops[-1], (VECTOR, VECTOR), ()), TracingError,
        "the trace of 'f' is over", "trace a function",
    )  # fmt: skip
    assert len(graph) == nodes
    assert f(VECTOR).tolist() == [2.0, 3.0]
