"""NumPy's arrays as the values of variables that branches and loops over tensors change."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

A, B = np.array([1.0, 2.0]), np.array([3.0, 4.0])


def one_of_two(x: Any) -> Any:
    return A if x.sum() > 0 else B


def statement(x: Any) -> Any:
    w = np.ones(2)
    if x.sum() > 0:
        w = x * 2
    return w, (A, x) if x[0] > 1 else (x, A)


def until_it_settles(x: Any) -> Any:
    w, last = np.ones(2) / 2, np.ones(2) * 100
    while np.linalg.norm(w - last) > 1e-10:
        last = w
        w = np.array([[0.5, 0.25], [0.5, 0.75]]) @ w + x * 0
    return w, last


def parts_of_a_state(x: Any) -> Any:
    state = (x, np.ones(2), 3)
    for _ in range(100):
        state = (state[0] * 0.9, state[1] + state[0], state[2])
    return state


def set_back(x: Any) -> Any:
    last = x
    while x.sum() > 1:
        last = np.zeros(2)
        x = x * 0.5
    return last


def items(x: Any) -> Any:
    found: dict[str, Any] = {"total": np.zeros(2), "n": 0}
    while x.sum() > 1:
        found["total"] = found["total"] + x
        found["n"] = found["n"] + 1
        x = x * 0.5
    return found


def rows(x: Any) -> Any:
    w = np.zeros(2)
    for v in (x[0], -x[1], x[1]):
        if v > 0:
            w = w + v
        elif v < -1:
            w = np.ones(2)
    return w


def scalars(x: Any) -> Any:
    w, k = np.float64(1.0), np.int32(3)
    while x.sum() > 1:
        w = w * x[0]
        k = k + np.int32(1)
        x = x * 0.5
    return w, k


def returned_by_a_round(x: Any) -> Any:
    while x.sum() > 1:
        x = x * 0.5
        if x[0] < 1.6:
            return np.ones(2), x
    return x, x


def returned_by_a_path_of_a_round(x: Any) -> Any:
    while x.sum() > 1:
        x = x * 0.5
        if x[1] > 1:
            if x[0] > 1.5:
                return np.ones(2), x
        else:
            x = x * 0.25
    return x, x


def returned_before_or_by_a_round(x: Any) -> Any:
    u = np.ones(2)
    for _ in range(70):
        if x[0] < 0.3:
            return u, x
        x = x * 0.99
    while x.sum() > 1:
        u = u * x
        x = x * 0.5
        if x[0] < 1.6:
            return u, x
    return x, u


PROGRAMS = [
    one_of_two, statement, until_it_settles, parts_of_a_state, set_back, items, rows, scalars,
    returned_by_a_round, returned_before_or_by_a_round, returned_by_a_path_of_a_round,
]  # fmt: skip


@pytest.mark.parametrize("x", [[4.0, 3.0], [-4.0, 3.0], [0.1, 0.2]])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_arrays_are_tensors_where_another_path_or_round_has_one(
    program: Callable[[Any], Any], x: list[float]
) -> None:
    given = np.array(x)
    wanted, got = (tl.nest.flatten(f(given)) for f in (program, tl.function(program)))
    for one, other in zip(wanted, got, strict=True):
        assert np.asarray(other).dtype == np.asarray(one).dtype
        np.testing.assert_allclose(other, one, rtol=1e-12)


def test_gradients_go_through() -> None:
    def f(x: Any) -> Any:
        w = np.ones(2)
        for _ in range(100):
            w = w * 0.9 + x
        return np.sum(w if x[0] > 0 else B)

    geometric = (1 - 0.9**100) / 0.1
    for x, slope in (([1.0, 2.0], geometric), ([-1.0, 2.0], 0.0)):
        np.testing.assert_allclose(tl.grad(tl.function(f))(np.array(x)), [slope] * 2, rtol=1e-12)


def test_another_shape_is_refused_with_both() -> None:
    @tl.function
    def f(x: Any) -> Any:
        w = np.ones(3)
        if x.sum() > 0:
            w = x
        return w

    with pytest.raises(TypeError, match=r"shape \(2,\) \(line \d+\) and .* shape \(3,\)"):
        f(A)
