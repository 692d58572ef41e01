"""NumPy's own functions where nobody watches: the same results and errors as by ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

Function = Callable[[tl.Tensor], Any]

MATRIX = np.arange(12.0).reshape(3, 4) - 5
ARRAYS = {
    "float64": MATRIX,
    "int32": MATRIX.astype(np.int32),
    "bool": MATRIX > 0,
    "complex64": (MATRIX + 1j).astype(np.complex64),
    "vector": MATRIX[0],
    "turned": MATRIX.T[::-1],
    "empty": np.zeros((0, 4)),
    "0-d": np.array(2.5),
}

FUNCTIONS: dict[str, Function] = {
    "getitem int": lambda x: x[1],
    "getitem negative": lambda x: x[-1],
    "getitem far": lambda x: x[7],
    "getitem slices": lambda x: x[1:, :-1],
    "getitem steps": lambda x: x[::-2],
    "getitem step 0": lambda x: x[::0],
    "getitem new axis": lambda x: x[None, ..., 0],
    "getitem two ellipses": lambda x: x[..., ...],
    "getitem all": lambda x: x[...],
    "getitem nothing": lambda x: x[()],
    "getitem too many": lambda x: x[0, 0, 0],
    "getitem float": lambda x: x[0.5],
    "getitem bound": lambda x: x["a":],
    "getitem bool": lambda x: x[True],
    "getitem list": lambda x: x[[0, 1]],
    "concat": lambda x: tl.concat([x, x], axis=-1),
    "concat flat": lambda x: tl.concat((x, x), axis=None),
    "concat far": lambda x: tl.concat([x, x], axis=5),
    "concat none": lambda x: tl.concat([]),
    "concat mixed": lambda x: tl.concat([x, tl.asarray([[1, 2, 3, 4]], "int8")]),
    "concat unlike": lambda x: tl.concat([x, tl.zeros((2, 2, 2), x.dtype)]),
    "stack": lambda x: tl.stack([x, x], axis=1),
    "stack last": lambda x: tl.stack((x, x), axis=-1),
    "stack unlike": lambda x: tl.stack([x, tl.zeros((9,), x.dtype)]),
    "stack none": lambda x: tl.stack([]),
    "reshape": lambda x: tl.reshape(x, (2, -1)),
    "reshape flat": lambda x: tl.reshape(x, -1),
    "reshape two": lambda x: tl.reshape(x, (-1, -1)),
    "reshape more": lambda x: tl.reshape(x, (5, 5)),
    "reshape less": lambda x: tl.reshape(x, (-2, 6)),
    "reshape bool": lambda x: tl.reshape(x, (True, -1)),
    "squeeze": lambda x: tl.squeeze(x),
    "squeeze axis": lambda x: tl.squeeze(x, 0),
    "squeeze axes": lambda x: tl.squeeze(tl.expand_dims(x, (0, 1)), (0, 1)),
    "squeeze twice": lambda x: tl.squeeze(tl.expand_dims(x, 0), (0, 0)),
    "broadcast_to": lambda x: tl.broadcast_to(x, (2, 3, 4)),
    "broadcast_to int": lambda x: tl.broadcast_to(x, 4),
    "broadcast_to less": lambda x: tl.broadcast_to(x, (-1, 3, 4)),
    "tile": lambda x: tl.tile(x, (2, 1, 3)),
    "tile int": lambda x: tl.tile(x, 2),
    "tile none": lambda x: tl.tile(x, ()),
    "tile 0": lambda x: tl.tile(x, 0),
    "tile less": lambda x: tl.tile(x, -1),
    "repeat": lambda x: tl.repeat(x, 2),
    "repeat axis": lambda x: tl.repeat(x, 3, axis=-1),
    "repeat 0": lambda x: tl.repeat(x, 0, axis=0),
    "repeat less": lambda x: tl.repeat(x, -1),
    "repeat far": lambda x: tl.repeat(x, 2, axis=3),
    "roll": lambda x: tl.roll(x, 1),
    "roll axis": lambda x: tl.roll(x, -7, axis=-1),
    "roll far": lambda x: tl.roll(x, 1, axis=4),
    "take": lambda x: tl.take(x, [0, -1], axis=0),
    "take int": lambda x: tl.take(x, 1),
    "take far": lambda x: tl.take(x, [0, 9], axis=0),
    "take floats": lambda x: tl.take(x, [0.5], axis=0),
    "take bools": lambda x: tl.take(x, [True], axis=0),
    "take none": lambda x: tl.take(x, [], axis=0),
    "take tensor": lambda x: tl.take(x, tl.asarray([[0, 1]]), axis=0),
    "take unsigned": lambda x: tl.take(x, tl.asarray([0, 1], "uint64"), axis=0),
    "take_along_axis": lambda x: tl.take_along_axis(x, tl.argsort(x)),
    "take_along_axis first": lambda x: tl.take_along_axis(x, tl.argsort(x, axis=0), axis=0),
    "take_along_axis far": lambda x: tl.take_along_axis(x, tl.asarray([[7]])),
    "take_along_axis wide": lambda x: tl.take_along_axis(x, tl.asarray([[1, 0]]), axis=-1),
    "take_along_axis none": lambda x: tl.take_along_axis(x, tl.zeros((3, 0), "int64")),
    "getitem rows": lambda x: x[tl.asarray([[0, -1], [1, 1]])],
    "getitem row far": lambda x: x[tl.asarray([0, 11])],
    "getitem mask": lambda x: x[x == x],
    "getitem mask of none": lambda x: x[x != x],
    "getitem mask long": lambda x: x[tl.asarray([True] * 7)],
    "getitem no rows": lambda x: x[[]],
    "getitem bools": lambda x: x[[True, False, True]],
    "getitem floats": lambda x: x[tl.asarray([0.5])],
    "unique_values": lambda x: tl.unique_values(x),
    "unique_values of few": lambda x: tl.unique_values(tl.astype(x, bool)),
    "nonzero": lambda x: tl.stack(tl.nonzero(x)),
    "isin": lambda x: tl.isin(x, [1.0, 2.5, -3.0]),
    "isin ints": lambda x: tl.isin(x, [1, 2], invert=True),
    "isin itself": lambda x: tl.isin(x, x),
    "searchsorted": lambda x: tl.searchsorted([-1.0, 0.5, 2.0], x),
    "searchsorted right": lambda x: tl.searchsorted([-1, 0, 2], x, side="right"),
    "searchsorted of rows": lambda x: tl.searchsorted(x, x),
    "zeros": lambda x: tl.zeros(x.shape, x.dtype),
    "ones less": lambda x: tl.ones((-1, 2)),
    "full": lambda x: tl.full(x.shape, 2.5, x.dtype),
    "full less": lambda x: tl.full((2, -1), 2.5),
    "vecdot far": lambda x: tl.vecdot(x, x, axis=3),
    "vecdot unlike": lambda x: tl.vecdot(x, tl.zeros((9,), x.dtype)),
    "diff": lambda x: tl.diff(x),
    "diff axis": lambda x: tl.diff(x, axis=0),
    "diff far": lambda x: tl.diff(x, axis=2),
    "flip": lambda x: tl.flip(x),
    "flip axes": lambda x: tl.flip(x, (0, -1)),
    "flip far": lambda x: tl.flip(x, 3),
    "sort": lambda x: tl.sort(x, axis=0),
    "sort far": lambda x: tl.sort(x, axis=2),
    "argsort": lambda x: tl.argsort(x),
    "argmax": lambda x: tl.argmax(x),
    "argmin rows": lambda x: tl.argmin(x, axis=1, keepdims=True),
    "count_nonzero": lambda x: tl.count_nonzero(x),
    "logical_not": lambda x: tl.logical_not(x),
    "zeros_like": lambda x: tl.zeros_like(x),
    "ones_like": lambda x: tl.ones_like(x),
    "where": lambda x: tl.where(x == x, x, 2),
    "pad": lambda x: tl.pad(x, 2),
    "pad less": lambda x: tl.pad(x, -1),
    "astype": lambda x: tl.astype(x, "float32"),
    "astype ints": lambda x: tl.astype(x, "int16"),
    "astype bools": lambda x: x.astype(bool),
    "astype complex": lambda x: tl.astype(x, tl.complex64),
    "astype unknown": lambda x: tl.astype(x, "U3"),
    "dot": lambda x: tl.dot(x, x),
    "dot unlike": lambda x: tl.dot(x, tl.zeros((9,), x.dtype)),
    "arange": lambda x: tl.arange(5),
    "arange from": lambda x: tl.arange(5, 2),
    "arange by 0": lambda x: tl.arange(5, 9, 0),
    "einsum turned": lambda x: tl.einsum("ij->ji", x),
    "einsum implicit": lambda x: tl.einsum("ji", x),
    "einsum ellipsis": lambda x: tl.einsum("...i->i...", x),
    "einsum diagonal": lambda x: tl.einsum("ii->i", x),
    "einsum rows": lambda x: tl.einsum("i->", x),
    "einsum diagonal of one row": lambda x: tl.einsum("ii->i", x[:1]),
    "einsum trace of one row": lambda x: tl.einsum("ii", x[:1]),
    "einsum by one": lambda x: tl.einsum("ij,kj->ij", x, tl.ones((1, 4), x.dtype)),
    "einsum digits": lambda x: tl.einsum("1", x),
    "einsum few": lambda x: tl.einsum("ij,jk", x),
    "einsum twice": lambda x: tl.einsum("ij->ii", x),
    "einsum unknown": lambda x: tl.einsum("ij->k", x),
    "tensordot all": lambda x: tl.tensordot(x, x, axes=2),
    "tensordot none": lambda x: tl.tensordot(x, x, axes=0),
    "tensordot unlike": lambda x: tl.tensordot(x, x, axes=1),
    "tensordot more": lambda x: tl.tensordot(x, x, axes=5),
    "tensordot less": lambda x: tl.tensordot(x, x, axes=-1),
    "diagonal": lambda x: tl.diagonal(x, 1),
    "diagonal turned": lambda x: tl.diagonal(x, -1, 1, 0),
    "diagonal of one axis": lambda x: tl.diagonal(x, 0, 1, 1),
    "diagonal far": lambda x: tl.diagonal(x, 0, 0, 2),
    "trace": lambda x: tl.linalg.trace(x),
    "floor_divide": lambda x: tl.floor_divide(x, 2),
}  # fmt: skip


def outcome(function: Function, array: Any) -> tuple[Any, ...]:
    """What a function does: the result's dtype, shape and elements, or the error."""
    with np.errstate(all="ignore"):
        try:
            result = function(tl.asarray(array)).numpy()
        except Exception as error:
            return type(error), str(error)
    return result.dtype, result.shape, result.tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ARRAYS)
def test_results_and_errors_are_those_of_the_ops(name: str, kind: str) -> None:
    short = outcome(FUNCTIONS[name], ARRAYS[kind])
    with tl.debugging.op_callback(lambda *_: None):  # everything goes by ops
        assert short == outcome(FUNCTIONS[name], ARRAYS[kind])


def test_ops_are_recorded_where_a_tape_knows_the_tensor() -> None:
    functions: dict[str, Function] = {
        name: FUNCTIONS[name]
        for name in (
            "getitem slices", "concat", "stack", "reshape", "broadcast_to", "tile", "repeat",
            "roll", "take", "diff", "flip", "sort", "pad", "where",
        )
    }  # fmt: skip
    for name, function in functions.items():
        x = tl.asarray(MATRIX)
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        gradient = tape.gradient(y, x)
        assert gradient is not None, name
        assert gradient.shape == x.shape, name


def test_a_tape_that_ended_leaves_the_short_way_open() -> None:
    x = tl.asarray(MATRIX)
    with tl.GradientTape() as tape:
        tape.watch(x)
    del tape
    assert tl.roll(x, 1, axis=0).numpy().tolist() == np.roll(MATRIX, 1, axis=0).tolist()


def test_callbacks_see_the_ops() -> None:
    seen: list[str] = []
    x = tl.asarray(MATRIX)
    with tl.debugging.op_callback(lambda name, *_: seen.append(name)):
        tl.tile(x, 2)
        x[1:]
    assert {"broadcast_to", "getitem"} <= set(seen)


def test_a_trace_sees_the_ops() -> None:
    @tl.function
    def traced(x: tl.Tensor) -> tl.Tensor:
        return tl.roll(tl.repeat(x[1:], 2, axis=0), 1, axis=0)

    expected = np.roll(np.repeat(MATRIX[1:], 2, axis=0), 1, axis=0)
    assert traced(tl.asarray(MATRIX)).numpy().tolist() == expected.tolist()


def test_a_result_never_changes_with_its_source() -> None:
    x = tl.asarray(MATRIX)
    results = [x[1:], tl.reshape(x, -1), tl.broadcast_to(x, (2, 3, 4)), tl.flip(x)]
    before = [result.numpy().tolist() for result in results]
    x[...] = 0.0
    with pytest.warns(tl.errors.ViewWriteWarning):
        results[0][...] = 7.0
    assert [result.numpy().tolist() for result in results][1:] == before[1:]
    assert x.numpy().tolist() == np.zeros((3, 4)).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_vecdot_agrees_with_its_steps_up_to_rounding(dtype: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (tl.asarray(rng.normal(size=(3, 50)).astype(dtype)) for _ in range(2))
    if dtype == "complex128":
        a = a * (1 + 2j)
    short = [tl.vecdot(a, b).numpy(), tl.vecdot(a, b, axis=0).numpy()]
    with tl.debugging.op_callback(lambda *_: None):
        steps = [tl.vecdot(a, b).numpy(), tl.vecdot(a, b, axis=0).numpy()]
    for one, other in zip(short, steps, strict=True):
        assert one.dtype == other.dtype
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
