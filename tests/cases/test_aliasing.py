"""Results own their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cases.comparing import Program, assert_close, number, tensor

import tapeline as tl


def test_results_of_earlier_calls_keep_their_values() -> None:
    f = tl.function(lambda x: x + 1.0)
    results = [f(tensor([float(k), k + 0.5])) for k in range(6)]
    for k, result in enumerate(results):
        assert_close(result, [k + 1.0, k + 1.5])
    total = tl.function(lambda x: tl.sum(x))
    sums = [total(tensor([1.0] * n)) for n in (2, 3, 4)]
    assert [number(y) for y in sums] == [2.0, 3.0, 4.0]
    assert number(tl.sum(f(tensor([1.1])) - f(tensor([1.2])))) != 0.0


SNAPSHOTS: dict[str, Program] = {
    "plus zero": lambda v: v + 0.0,
    "times one": lambda v: v * 1.0,
    "as it is": lambda v: v.read_value(),
    "reshaped": lambda v: tl.reshape(v, (1, 2)),
    "identity": tl.identity,
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_of_a_variable_keeps_its_value(name: str) -> None:
    v = tl.Variable([1.0, 2.0])
    f = tl.function(lambda: SNAPSHOTS[name](v))
    first, second = f(), f()
    v.assign([10.0, 20.0])
    v.assign_add([1.0, 1.0])
    for snapshot in (first, second):
        assert snapshot.numpy().ravel().tolist() == [1.0, 2.0]
    assert f().numpy().ravel().tolist() == [11.0, 21.0]


def test_results_cannot_be_written_and_change_nothing() -> None:
    x = tensor([1.0, 2.0])
    one, other = tl.function(lambda t: (t, t))(x)
    with pytest.raises(ValueError, match="read-only"):
        one.numpy()[...] = 99.0
    one[0] = 99.0
    assert_close(one, [99.0, 2.0])
    assert one is other
    assert_close(x, [1.0, 2.0])


def test_a_call_reads_the_array_that_it_is_given_and_keeps_no_part_of_it() -> None:
    array = np.array([1.0, 2.0])

    @tl.function
    def f(x: Any) -> Any:
        return x, tl.reshape(x, (2, 1)), x[::-1]

    results = [f(array) for _ in range(3)]
    array[:] = 9.0
    for same, column, reversed_ in results:
        assert_close(same, [1.0, 2.0])
        assert_close(column, [[1.0], [2.0]])
        assert_close(reversed_, [2.0, 1.0])
