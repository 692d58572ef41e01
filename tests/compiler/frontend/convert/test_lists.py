"""Lists that loops append to, and comprehensions, where tensors say how many items there are."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import DynamicShapeError


def values(result: Any) -> list[Any]:
    return [np.asarray(tl.asarray(leaf).numpy()) for leaf in tl.nest.flatten(result)]


def same(function: Callable[..., Any], *arguments: tuple[Any, ...]) -> Any:
    """Checks that the function gives the same eagerly and compiled, in lists of the same lengths;
    the answer is the compiled function."""
    compiled = tl.function(function)
    for argument in arguments:
        args = [tl.asarray(x) for x in argument]
        found, expected = compiled(*args), function(*args)
        for a, b in zip(values(found), values(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        tl.nest.assert_same_structure(found, expected)
    return compiled


def same_slopes(function: Callable[..., Any], *arguments: tuple[Any, ...]) -> None:
    """Checks the gradient to the first argument, of the compiled function and in a compiled one."""
    compiled = same(function, *arguments)
    for argument in arguments:
        args = [tl.asarray(x) for x in argument]
        expected = tl.grad(function)(*args).numpy()
        for derivative in (tl.grad(compiled), tl.function(tl.grad(function))):
            np.testing.assert_allclose(derivative(*args).numpy(), expected, rtol=1e-11)


def ops_of(compiled: Any, *args: Any) -> list[str]:
    return [op.name for op in compiled.get_concrete_function(*args).graph.ops]


# --- as many rounds as a tensor says ----------------------------------------------------------


def powers(x: Any, n: Any) -> Any:
    found = []
    for k in range(n):
        found.append(x**2 * k)
    return tl.stack(found)


def halves(x: Any, least: Any) -> Any:
    found = []
    while x > least:
        x = x / 2
        found.append(x)
    return found


def test_for_over_a_range_of_a_tensor() -> None:
    compiled = same(powers, (2.0, 5), (2.0, 3), (2.0, 200))
    assert compiled.trace_count == 1
    same_slopes(lambda x, n: powers(x, n).sum(), (2.0, 5), (3.0, 7))


def test_while_gives_back_a_list() -> None:
    compiled = same(halves, (1.0, 0.01), (1.0, 1e-6), (1.0, 2.0))
    assert compiled.trace_count == 1
    assert type(compiled(tl.asarray(1.0), tl.asarray(0.1))) is list

    def weighted(x: Any, least: Any) -> Any:
        return sum([v * (k + 1) for k, v in enumerate(halves(x, least))])

    same_slopes(weighted, (1.0, 0.01), (1.0, 1e-4))


def test_second_and_forward_derivatives() -> None:
    def f(x: Any, n: Any) -> Any:
        found = [x]
        for _ in range(n):
            found.append(found[-1] * tl.sin(x))
        return found[-1]

    x, n = tl.asarray(0.7), tl.asarray(4)
    compiled = tl.function(f)
    second = tl.grad(tl.grad(f))(x, n)
    np.testing.assert_allclose(tl.grad(tl.grad(compiled))(x, n).numpy(), second.numpy(), rtol=1e-11)
    _, slope = tl.jvp(lambda x: compiled(x, n), (x,), (tl.asarray(1.0),))
    np.testing.assert_allclose(slope.numpy(), tl.grad(f)(x, n).numpy(), rtol=1e-11)


def test_comprehensions() -> None:
    same(lambda x, n: [x * k for k in range(n)], (2.0, 5), (2.0, 1))
    same(lambda x, n: tl.stack([x * k for k in tl.range(n)]), (2.0, 5))
    same_slopes(lambda x, n: sum([x**k for k in range(n)]), (2.0, 5), (2.0, 6))


def test_comprehension_that_filters_by_a_tensor() -> None:
    x = np.linspace(-1.0, 2.0, 100)
    compiled = same(lambda x: [v * v for v in x if v > 1], ([0.5, 2.0, 3.0],), (x,), (-x,))
    assert compiled.trace_count <= 3  # the shapes
    same(lambda x: [v for v in x if v > 0 if v < 1], (x,))
    same_slopes(lambda x: sum([v * v for v in x if v > 1]), ([0.5, 2.0, 3.0],), (x,))


# --- as often as branches say -----------------------------------------------------------------


def test_branches_append_to_lists_of_different_kinds() -> None:
    def f(x: Any) -> Any:
        above, below = [], []
        for k, v in enumerate(x):
            if v > 0:
                above.append((k, v * 2))
            elif v < -1:
                below.append(v)
            else:
                continue
        return above, below

    x = np.linspace(-3, 3, 101)
    same(f, ([1.0, -2.0, 3.0, -0.5],), (x,), (np.zeros(3),))

    def g(x: Any) -> Any:
        above, below = f(x)
        return sum([v for _, v in above]) + sum([v * v for v in below])

    same_slopes(g, ([1.0, -2.0, 3.0, -0.5],), (x,))


def test_break_that_a_tensor_decides() -> None:
    def f(x: Any, most: Any) -> Any:
        sums = []
        total = tl.asarray(0.0)
        for v in x:
            total = total + v
            sums.append(total)
            if total > most:
                break
        return tl.stack(sums).sum()

    same_slopes(f, ([1.0, 2.0, 3.0], 2.5), ([1.0, 2.0, 3.0], 99.0), (np.ones(200), 57.5))


def test_python_conditions_of_short_loops_leave_a_list_of_known_length() -> None:
    def f(x: Any) -> Any:
        found = []
        for k in range(6):
            if k % 2:
                found.append(x * k)
        return found

    compiled = same(f, (2.0,))
    assert "span" not in ops_of(compiled, tl.asarray(2.0))


def test_branches_that_append_alike_leave_a_list_of_known_length() -> None:
    def f(x: Any) -> Any:
        found = []
        for j in range(3):
            if x[j] > 5:
                raise ValueError("too large")
            if x[j] > 0:
                found.append((x[j] * 2, j))
            else:
                found.append((-x[j], 0))
        return found

    compiled = same(f, ([1.0, -2.0, 3.0],))
    assert "span" not in ops_of(compiled, tl.zeros(3))
    with pytest.raises(ValueError, match="too large"):
        compiled(tl.asarray([1.0, 2.0, 6.0]))
    mapped = tl.vmap(f)(tl.asarray([[1.0, -2.0, 3.0], [-1.0, 2.0, 0.0]]))
    assert [x.numpy().tolist() for x, _ in mapped] == [[2.0, 1.0], [2.0, 4.0], [6.0, 0.0]]


def test_a_branch_outside_of_loops_runs_op_by_op() -> None:
    @tl.function
    def f(x: Any) -> Any:
        found = [x]
        if x > 0:
            found.append(x * 2)
        return found

    with pytest.warns(UserWarning, match="runs op by op.*'found'"):
        assert [float(v) for v in f(tl.asarray(1.0))] == [1.0, 2.0]
    assert [float(v) for v in f(tl.asarray(-1.0))] == [-1.0]


def test_inner_loops_append() -> None:
    def f(x: Any, n: Any) -> Any:
        found = []
        for i in range(n):
            for j in range(i):
                found.append(x * i + j)
        return found

    same(f, (2.0, 4), (2.0, 1), (2.0, 40))
    same_slopes(lambda x, n: sum(f(x, n)), (2.0, 5))


# --- lists that the loop reads ----------------------------------------------------------------


def test_the_last_item_and_the_length() -> None:
    def collatz(n: Any) -> Any:
        found = [n]
        while found[-1] != 1 and len(found) < 1000:
            last = found[-1]
            found.append(last // 2 if last % 2 == 0 else 3 * last + 1)
        return found, max(found), len(found)

    same(collatz, (6,), (27,), (1,))


def test_items_at_any_index() -> None:
    def primes(n: Any) -> Any:
        found: list[Any] = []
        for k in range(2, n):
            is_prime = True
            for i in range(len(found)):
                if found[i] * found[i] > k:
                    break
                if k % found[i] == 0:
                    is_prime = False
                    break
            if is_prime:
                found.append(k)
        return tl.asarray(found), len(found)

    same(primes, (30,), (100,))


def test_an_index_out_of_range_is_an_error() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        found = [x]
        for k in range(n):
            found.append(found[k + 1])
        return found[-1]

    with pytest.raises(IndexError):
        f(tl.asarray(1.0), tl.asarray(3))


def test_rounds_of_a_known_number_that_read_the_list_are_one_loop() -> None:
    def f(x: Any) -> Any:
        found = [x[0]]
        for row in x:
            found.append(row + found[-1])
        return found[-1]

    compiled = same(f, (np.ones((10, 2)),), (np.ones((100, 2)),))
    assert ops_of(compiled, tl.ones((100, 2))).count("scan") == 1
    same_slopes(lambda x: f(x).sum(), (np.ones((100, 2)),))


# --- after the loop ---------------------------------------------------------------------------


def test_what_can_be_done_with_the_list() -> None:
    def f(x: Any, n: Any) -> Any:
        found = []
        for k in range(n):
            found.append(tl.sin(x * k))
        rows = tl.stack(found, axis=1)
        total = tl.asarray(0.0)
        for row in found:
            total = total + row.sum()
        for a, b in zip(found, found[1:], strict=False):  # noqa: RUF007  # that is the point
            total = total + (a * b).sum()
        found.append(x)
        joined = found + [x * 2]  # noqa: RUF005  # that is the point
        return (
            rows, total, np.mean(np.array(found), axis=0), found[::2], found[-1],
            [row * 2 for row in found], joined, len(joined), tl.sum(found),
        )  # fmt: skip

    compiled = same(f, ([0.1, 0.2], 4), ([0.1, 0.2], 7))
    assert compiled.trace_count == 1


def test_a_question_about_the_length_is_answered_by_the_call() -> None:
    def f(x: Any, least: Any) -> Any:
        found = halves(x, least)
        if len(found) > 3:
            return found[3]
        return found[0] * 100 if found else x

    compiled = same(f, (1.0, 0.01), (1.0, 0.3), (1.0, 2.0), (1.0, 1e-4))
    assert compiled.trace_count == 3


def test_a_for_whose_length_is_asked() -> None:
    def f(x: Any, n: Any) -> Any:
        found = []
        for k in range(n):
            found.append(x * k)
        return found[-1] * 100 if len(found) > 3 else found[0]

    same(f, (1.0, 5), (1.0, 2), (1.0, 4))


def test_more_items_than_there_is_room_for_at_first() -> None:
    def f(x: Any, least: Any) -> Any:
        found = []
        while x > least:
            x = x * 0.999
            found.append(x)
        return len(found), found[-1]

    same(f, (1.0, 1e-1), (1.0, 1e-4))


def test_very_many_items_of_a_known_number() -> None:
    def f(x: Any) -> Any:
        found = []
        for k in range(30_000):
            found.append(x * k)
        return tl.stack(found).sum(), len(found)

    compiled = tl.function(f)
    total, count = compiled(tl.asarray(0.5))
    assert (float(total), int(count)) == (0.5 * sum(range(30_000)), 30_000)


def test_results_hold_nothing_of_the_trace() -> None:
    compiled = tl.function(halves)
    counts = []
    for _ in range(6):
        for _ in range(20):
            compiled(tl.asarray(1.0), tl.asarray(0.1))
        gc.collect()
        counts.append(len(gc.get_objects()))
    # a stage may be compiled on the way, which is kept once
    assert min(b - a for a, b in itertools.pairwise(counts)) <= 0


# --- where no graph can hold it ---------------------------------------------------------------


def test_a_list_of_outside_makes_the_function_run_op_by_op() -> None:
    kept: list[Any] = []

    @tl.function
    def f(n: Any) -> Any:
        for i in range(n):
            kept.append(i)
        return n

    with pytest.warns(UserWarning, match="runs op by op.*length or the keys of 'kept'"):
        f(tl.asarray(3))
    assert kept == [0, 1, 2]


def test_a_list_with_two_names_makes_the_function_run_op_by_op() -> None:
    @tl.function
    def f(n: Any) -> Any:
        found: list[Any] = []
        held = {"found": found}
        for i in range(n):
            found.append(i)
        return held

    with pytest.warns(UserWarning, match="'found' as often as tensors say, and .*held"):
        assert f(tl.asarray(3)) == {"found": [0, 1, 2]}


def test_items_of_two_kinds_make_the_function_run_op_by_op() -> None:
    @tl.function
    def f(x: Any, n: Any) -> Any:
        found = []
        for i in range(n):
            found.append(x)
            found.append((x, i))
        return len(found)

    with pytest.warns(UserWarning, match=r"'for' at line \d+ of .*test_lists.py.*of two kinds"):
        assert f(tl.asarray(1.0), tl.asarray(3)) == 6


def test_under_vmap_the_error_names_the_line_and_the_list() -> None:
    with pytest.raises(DynamicShapeError, match=r"'while' at line \d+ .* 'found'"):
        tl.vmap(lambda x: halves(x, 0.1))(tl.asarray([1.0, 2.0]))


# --- loops of known length --------------------------------------------------------------------


def test_list_that_a_rolled_loop_appends_to() -> None:
    def f(x: Any) -> Any:
        found = [x]
        pairs = []
        y = x
        for k in range(100):
            y = tl.sin(y) + k * 0.01
            found.append(y * 2)
            pairs.append((k, y.sum(), "name"))
        return tl.stack(found), len(pairs), [p[0] for p in pairs], pairs[70][1], pairs[3][2]

    x = tl.asarray([1.0, 2.0])
    compiled = tl.function(f)
    for a, b in zip(tl.nest.flatten(f(x)), tl.nest.flatten(compiled(x)), strict=True):
        if isinstance(a, str):
            assert a == b
        else:
            np.testing.assert_allclose(tl.asarray(b).numpy(), tl.asarray(a).numpy(), rtol=1e-12)
    assert ops_of(compiled, x).count("scan") == 1


def test_stack_of_what_a_loop_appended_is_no_copy_and_has_a_gradient() -> None:
    def f(x: Any) -> Any:
        found = []
        for row in x:
            found.append(row * row.sum())
        return tl.stack(found)

    x = tl.asarray(np.arange(200.0).reshape(100, 2))
    compiled = tl.function(f)
    np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())
    assert "stack" not in ops_of(compiled, x)
    for g in (f, compiled):
        gradient = tl.grad(lambda x: (g(x) ** 2).sum())(x)  # noqa: B023  # used at once
        right = tl.grad(lambda x: ((x * x.sum(axis=1, keepdims=True)) ** 2).sum())(x)
        np.testing.assert_allclose(gradient.numpy(), right.numpy(), rtol=1e-12)


def test_comprehension_over_many_rows_is_one_loop() -> None:
    def f(x: Any) -> Any:
        return tl.stack([v * 2 if v > 50 else v * v for v in x])

    same(f, (np.arange(4.0),), (np.arange(100.0),))
    assert ops_of(tl.function(f), tl.asarray(np.arange(100.0))).count("scan") == 1


def changed_later(b: Any, n: Any) -> Any:
    rows = []
    for _ in range(70):
        rows.append(b)
        b[0] = b[0] + n
    return rows


def changed_before(b: Any, n: Any) -> Any:
    rows = []
    for _ in range(70):
        b += n
        rows.append(b)
    return rows


def changed_as_often_as_a_tensor_says(b: Any, n: Any) -> Any:
    rows = []
    while b[0] < 5 * n:
        rows.append(b)
        b[0] = b[0] + n
    return rows


@pytest.mark.filterwarnings("ignore:.*unrolled 70 times", "ignore:.*op by op")
@pytest.mark.parametrize(
    "program", [changed_later, changed_before, changed_as_often_as_a_tensor_says]
)
def test_items_that_a_loop_changes_in_place_are_one_tensor(program: Callable[..., Any]) -> None:
    wanted = np.stack(program(np.ones(2), 2.0))
    found = tl.function(program)(tl.ones(2), tl.asarray(2.0))
    np.testing.assert_array_equal(np.stack([np.asarray(row) for row in found]), wanted)
    assert (wanted == wanted[0]).all()
