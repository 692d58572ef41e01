"""The minimum cut, with networkx as the oracle."""

import time

import networkx as nx
import numpy as np
import pytest

from tapeline.compiler.autodiff.mincut import CutProblem, minimum_cut
from tapeline.runtime.errors import GraphError


def _random_problem(rng: np.random.Generator, count: int, ties: bool = True) -> CutProblem:
    users: list[list[int]] = [[] for _ in range(count)]
    for v in range(1, count):
        for s in rng.integers(max(0, v - 8), v, rng.integers(0, 4)):
            users[int(s)].append(v)
    sizes = [int(s) for s in rng.integers(1, 4 if ties else 1000, count)]
    fixed = [bool(b) for b in rng.random(count) < 0.2]
    wanted = [bool(b) for b in rng.random(count) < 0.2]
    return CutProblem(sizes, users, fixed, wanted)


def _oracle(problem: CutProblem) -> tuple[int, set[int]]:
    """The value of the cut, and the saved set of the cut nearest the sink."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["s", "t"])
    for v, size in enumerate(problem.sizes):
        graph.add_edge((v, "in"), (v, "out"), capacity=size)
        if problem.fixed[v]:
            graph.add_edge("s", (v, "in"))
        if problem.wanted[v]:
            graph.add_edge((v, "out"), "t")
        for u in problem.users[v]:
            graph.add_edge((v, "out"), (u, "in"))
    value, (_, near_sink) = nx.minimum_cut(graph, "s", "t")  # all that reaches the sink
    saved = {
        v
        for v in range(len(problem.sizes))
        if (v, "out") in near_sink and (v, "in") not in near_sink
    }
    return int(value), saved


def _cost(problem: CutProblem, saved: tuple[int, ...]) -> int:
    return sum(problem.sizes[v] or 0 for v in saved)


def _every_path_is_cut(problem: CutProblem, saved: tuple[int, ...]) -> bool:
    reached = [False] * len(problem.sizes)
    for v in range(len(problem.sizes)):
        reached[v] = (reached[v] or problem.fixed[v]) and v not in saved
        if reached[v]:
            if problem.wanted[v]:
                return False
            for u in problem.users[v]:
                reached[u] = True
    return True


@pytest.mark.parametrize("seed", range(40))
def test_minimum_cut_agrees_with_networkx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = _random_problem(rng, int(rng.integers(1, 60)), ties=seed % 2 == 0)
    saved = minimum_cut(problem)
    value, expected = _oracle(problem)
    assert _cost(problem, saved) == value
    assert set(saved) == expected
    assert list(saved) == sorted(saved)


@pytest.mark.parametrize("seed", range(20))
def test_minimum_cut_does_not_depend_on_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = _random_problem(rng, 60)
    count = len(problem.sizes)
    # another topological order: repeatedly take a random value that nothing waits for
    waiting = [0] * count
    for listed in problem.users:
        for u in listed:
            waiting[u] += 1
    ready = [v for v in range(count) if not waiting[v]]
    order = []
    while ready:
        v = ready.pop(int(rng.integers(len(ready))))
        order.append(v)
        for u in problem.users[v]:
            waiting[u] -= 1
            if not waiting[u]:
                ready.append(u)
    new = {v: k for k, v in enumerate(order)}
    users = [[new[u] for u in rng.permutation(problem.users[v]).tolist()] for v in order]
    shuffled = CutProblem(
        [problem.sizes[v] for v in order],
        users,
        [problem.fixed[v] for v in order],
        [problem.wanted[v] for v in order],
    )
    assert sorted(new[v] for v in minimum_cut(problem)) == list(minimum_cut(shuffled))


def test_a_tie_keeps_what_is_nearest_the_sink() -> None:
    problem = CutProblem([4, 4, 4], [[1], [2], []], [True, False, False], [False, False, True])
    assert minimum_cut(problem) == (2,)


def test_a_free_value_is_kept_only_where_it_is_needed() -> None:
    fixed, wanted = [True, True, False], [False, False, True]
    assert minimum_cut(CutProblem([0, 0, 5], [[2], [], []], fixed, wanted)) == (0,)
    assert minimum_cut(CutProblem([0, 0, 0], [[2], [2], []], fixed, wanted)) == (2,)


def test_nothing_is_kept_where_everything_can_be_computed_again() -> None:
    assert minimum_cut(CutProblem([3, 3], [[1], []], [False, False], [False, True])) == ()
    assert minimum_cut(CutProblem([], [], [], [])) == ()


def test_a_fixed_value_between_hides_what_is_before_it() -> None:
    problem = CutProblem([1, 9, 9], [[1], [2], []], [True, True, False], [False, False, True])
    assert minimum_cut(problem) == (2,)


def test_values_that_cannot_be_kept_are_passed_over() -> None:
    fixed, wanted = [True, False, False], [False, False, True]
    assert minimum_cut(CutProblem([None, None, 7], [[1], [2], []], fixed, wanted)) == (2,)


def test_a_path_on_which_nothing_can_be_kept_is_an_error() -> None:
    fixed, wanted = [True, False, False, False], [False, False, True, False]
    problem = CutProblem(
        [None, None, None, 1], [[1, 3], [2], [], [2]], fixed, wanted, ["a", "b", "c", "d"]
    )
    with pytest.raises(GraphError, match="nothing on the way a -> b -> c can be kept"):
        minimum_cut(problem)
    with pytest.raises(GraphError, match="nothing on the way 0 can be kept"):
        minimum_cut(CutProblem([None], [[]], [True], [True]))


@pytest.mark.parametrize("seed", range(10))
def test_the_simple_cut_of_huge_components_is_a_cut(seed: int) -> None:
    problem = _random_problem(np.random.default_rng(seed), 80)
    saved = minimum_cut(problem, greedy_above=0)
    assert _every_path_is_cut(problem, saved)
    assert _cost(problem, saved) >= _cost(problem, minimum_cut(problem))


def _long_problem(count: int) -> CutProblem:
    """A recurrence like an LSTM's: one component, with shortcuts."""
    rng = np.random.default_rng(0)
    users: list[list[int]] = [[] for _ in range(count)]
    for v in range(count):
        users[v] = [u for u in (v + 1, v + 5, v + 17) if u < count]
    sizes = [int(s) for s in rng.choice([64, 128, 512], count)]
    fixed = [v % 11 == 0 for v in range(count)]
    wanted = [v % 3 == 1 for v in range(count)]
    return CutProblem(sizes, users, fixed, wanted)


def test_a_chain_of_many_thousands_needs_no_recursion() -> None:
    count = 30_000
    problem = CutProblem(
        [5] * count,
        [[v + 1] for v in range(count - 1)] + [[]],
        [v == 0 for v in range(count)],
        [v == count - 1 for v in range(count)],
    )
    assert minimum_cut(problem) == (count - 1,)


@pytest.mark.slow
def test_seventy_thousand_values_take_linear_time() -> None:
    problem = _long_problem(70_000)
    start = time.perf_counter()
    saved = minimum_cut(problem)
    assert time.perf_counter() - start < 20.0
    assert _every_path_is_cut(problem, saved)
