"""Tensors by index: versions, eager and in traces, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexOutOfRangeError,
    ShapeError,
)


def both(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives eagerly, after a check that it gives the same compiled."""
    eager = function(*args)
    compiled = tl.function(function)(*args)
    for a, b in zip(tl.nest.flatten(eager), tl.nest.flatten(compiled), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    return eager


def test_write_read_stack() -> None:
    def f(x: Any) -> Any:
        array = tl.TensorArray(size=3).write(2, x).write(0, x * 2)
        return array.stack(), array.read(2), array[-1], array.read(1)

    stacked, last, same, unwritten = both(f, tl.asarray([1.0, 2.0]))
    assert stacked.numpy().tolist() == [[2, 4], [0, 0], [1, 2]]
    assert last.numpy().tolist() == same.numpy().tolist() == [1, 2]
    assert unwritten.numpy().tolist() == [0, 0]


def test_a_write_leaves_older_versions_as_they_were() -> None:
    def f(x: Any) -> Any:
        first = tl.TensorArray(size=2).write(0, x)
        second = first.write(0, x * 2).write(1, x * 3)
        third = first.write(1, x * 4)
        return first.stack(), second.stack(), third.stack(), first.read(0)

    first, second, third, one = both(f, tl.asarray(1.0))
    assert first.numpy().tolist() == [1, 0]
    assert second.numpy().tolist() == [2, 3]
    assert third.numpy().tolist() == [1, 4]
    assert one.item() == 1


def test_old_versions_of_a_growing_array() -> None:
    versions = [tl.TensorArray(dynamic_size=True, element_shape=(), dtype="int64")]
    for k in range(6):
        versions.append(versions[-1].write(k, k).write(k // 2, -k))
    expected: list[list[int]] = [[]]
    for k in range(6):
        row = [*expected[-1], k]
        row[k // 2] = -k
        expected.append(row)
    for version, row in reversed(list(zip(versions, expected, strict=True))):
        assert version.size() == len(version) == len(row)
        assert version.stack().numpy().tolist() == row


def test_writing_to_what_was_read_or_written_changes_no_array() -> None:
    def f(x: Any) -> Any:
        element = x * 1
        array = tl.TensorArray(size=2).write(0, element)
        element += 5
        taken = array.read(0)
        taken += 7
        stacked = array.stack()
        stacked[0] = 9
        return array.stack()

    assert both(f, tl.asarray(1.0)).numpy().tolist() == [1, 0]


def test_unstack_gather_scatter() -> None:
    def f(x: Any) -> Any:
        array = tl.TensorArray(size=3).unstack(x)
        written = array.scatter([2, 0, 2], x * 10)
        return array.gather([1, 1, -1]), written.stack(), array.stack()

    gathered, scattered, plain = both(f, tl.asarray([[1.0], [2.0], [3.0]]))
    assert gathered.numpy().tolist() == [[2], [2], [3]]
    assert scattered.numpy().tolist() == [[20], [2], [30]]
    assert plain.numpy().tolist() == [[1], [2], [3]]


def test_concat_and_split() -> None:
    def f(x: Any) -> Any:
        parts = tl.TensorArray(dynamic_size=True, element_shape=(None,)).split(x, [1, 3, 2])
        even = tl.TensorArray(size=2).split(x, [3, 3])
        return parts.concat(), parts.read(1), even.stack(), even.concat()

    joined, middle, stacked, again = both(f, tl.asarray([1, 2, 3, 4, 5, 6]))
    assert joined.numpy().tolist() == again.numpy().tolist() == [1, 2, 3, 4, 5, 6]
    assert middle.numpy().tolist() == [2, 3, 4]
    assert stacked.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_empty_arrays_stack_where_dtype_and_shape_are_known() -> None:
    empty = tl.TensorArray("float32", element_shape=(2,), dynamic_size=True)
    assert empty.stack().shape == (0, 2)
    assert empty.stack().dtype == np.float32
    assert tl.TensorArray("int32", 2, element_shape=(3,)).stack().numpy().tolist() == [[0] * 3] * 2


def test_numbers_take_the_dtype_and_wider_values_are_refused() -> None:
    array = tl.TensorArray("float32", 2)
    assert array.write(0, 1).stack().dtype == np.float32
    assert array.write(0, tl.asarray(1.0)).stack().dtype == np.float32
    with pytest.raises(DTypeError, match="int64 cannot hold float64"):
        tl.TensorArray("int64", 2).write(0, tl.asarray(1.5))


def test_errors_name_the_method_and_leave_the_array_as_it_was() -> None:
    array = tl.TensorArray(size=2).write(0, [1.0, 2.0])
    with pytest.raises(IndexOutOfRangeError, match="write: index 2 in an array of size 2"):
        array.write(2, [1.0, 2.0])
    with pytest.raises(IndexOutOfRangeError, match="read: index -3"):
        array.read(-3)
    with pytest.raises(ShapeError, match=r"write: the elements have shape \(2,\).*\(3,\)"):
        array.write(1, [1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="unstack: 3 parts for an array of size 2"):
        array.unstack([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match="scatter: indices of shape"):
        array.scatter([0], [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ShapeError, match="split: lengths"):
        array.split([1.0, 2.0, 3.0], [1, 1])
    with pytest.raises(ShapeError, match="concat: the elements are scalars"):
        tl.TensorArray(size=1).write(0, 1).concat()
    with pytest.raises(ArgumentTypeError, match="index must be a whole number"):
        array.write(0.5, [1.0, 2.0])
    with pytest.raises(ArgumentError, match="size must be at least 0"):
        tl.TensorArray(size=-1)
    with pytest.raises(ArgumentError, match="give dtype= and element_shape="):
        tl.TensorArray(size=1).stack()
    assert array.stack().numpy().tolist() == [[1, 2], [0, 0]]


def test_compiled_loop_writes_and_reads_with_gradients_of_two_orders() -> None:
    def powers(x: Any) -> Any:
        array = tl.TensorArray(size=6).write(0, x)
        for k in tl.range(1, 6):
            array = array.write(k, array.read(k - 1) * x)
        return array.stack().sum()

    compiled = tl.function(powers)
    x = tl.asarray(1.5)
    for f in (powers, compiled):
        assert tl.grad(f)(x).item() == pytest.approx(sum(k * 1.5 ** (k - 1) for k in range(1, 7)))
        assert tl.grad(tl.grad(f))(x).item() == pytest.approx(
            sum(k * (k - 1) * 1.5 ** (k - 2) for k in range(2, 7))
        )


def test_array_of_unknown_elements_takes_them_from_a_branch_or_a_round() -> None:
    def f(x: Any, n: Any) -> Any:
        array = tl.TensorArray(size=4)
        k = 0
        while k < n:
            if k % 2 == 0:
                array = array.write(k, x * k)
            k += 1
        return array.stack()

    compiled = tl.function(f)
    x = tl.asarray([1.0, 2.0])
    got = compiled(x, tl.asarray(4))
    np.testing.assert_array_equal(got.numpy(), f(x, 4).numpy())
    assert compiled.trace_count == 1


def test_arrays_are_structures_of_arguments_and_results() -> None:
    @tl.function
    def append(array: Any, x: Any) -> Any:
        return array.write(1, x)

    array = append(tl.TensorArray(size=2).write(0, 1.0), tl.asarray(2.0))
    assert isinstance(array, tl.TensorArray)
    assert array.stack().numpy().tolist() == [1, 2]
    assert array.write(0, 5.0).stack().numpy().tolist() == [5, 2]


def test_array_in_function_forms_of_loops() -> None:
    def f(x: Any) -> Any:
        def body(k: Any, array: Any) -> Any:
            return k + 1, array.write(k, x * k)

        start = tl.TensorArray(x.dtype, 3, element_shape=())
        _, array = tl.while_loop(lambda k, array: k < 3, body, (0, start))
        return array.stack()

    assert both(f, tl.asarray(2.0)).numpy().tolist() == [0, 2, 4]


def test_array_that_grows_as_tensors_say_runs_op_by_op() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        array = tl.TensorArray(dynamic_size=True)
        k = 0
        while k < n:
            array = array.write(k, x * k)
            k += 1
        return array.stack()

    with pytest.warns(UserWarning, match="f runs op by op.*its size depends on data"):
        assert f(tl.asarray(2.0), tl.asarray(3)).numpy().tolist() == [0, 2, 4]
    assert f(tl.asarray(2.0), tl.asarray(5)).numpy().tolist() == [0, 2, 4, 6, 8]
    gradient = tl.grad(lambda x: f(x, tl.asarray(4)).sum())
    assert gradient(tl.asarray(1.0)).item() == 6


def test_growing_array_over_a_short_tensor_is_compiled() -> None:
    @tl.function
    def f(x: Any) -> Any:
        array = tl.TensorArray(dynamic_size=True)
        for row in x:
            array = array.write(array.size(), row.sum())
        return array.stack()

    assert f(tl.ones((3, 2))).numpy().tolist() == [2, 2, 2]
    assert f.trace_count == 1
