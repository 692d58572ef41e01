"""What happens once a trace is named in a warning, once."""

import datetime
import random
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapeline as tl

COUNT = 0
SEEN: list[Any] = []
RNG = np.random.default_rng(0)
LARGE = [float(k) for k in range(100)]
ONE = tl.asarray(1.0)


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def warnings_of(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(w.category is tl.errors.TracingWarning for w in found)
    assert all(w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


def test_changed_state_is_named_once() -> None:
    @tl.function
    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        SEEN.append(x.shape)
        return x * COUNT

    (text,) = warnings_of(lambda: (f(ONE), f(ONE)))
    assert text.startswith(
        "f: while it was traced it changed global COUNT (it was 0) and changed global SEEN"
    )
    assert "once a trace" in text
    assert "tl.Variable" in text
    assert COUNT == 1
    assert not warnings_of(lambda: f(tl.ones(3)))
    assert f.trace_count == 2


def test_state_of_objects_and_closures() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        @tl.function
        def __call__(self, x: Any) -> Any:
            self.count += 1
            return x

    total = 0

    @tl.function
    def g(x: Any) -> Any:
        nonlocal total
        total += 2
        return x

    (text,) = warnings_of(lambda: Counter()(ONE))
    assert "changed attribute count of Counter (it was 0)" in text
    (text,) = warnings_of(lambda: g(ONE))
    assert "changed closure variable total (it was 0)" in text


def test_what_is_set_up_at_first_use_is_meant() -> None:
    class Layer:
        def __init__(self) -> None:
            self.built = False
            self.weight: Any = None

        @tl.function
        def __call__(self, x: Any) -> Any:
            if not self.built:
                self.weight, self.built = tl.Variable(2.0), True
            return self.weight * x

    assert Layer()(ONE).item() == 2.0


@pytest.mark.parametrize(
    ("shifted", "title"),
    [
        (lambda x: x + np.random.rand(), "np.random.rand()"),
        (lambda x: x + np.random.normal(size=1)[0], "np.random.normal()"),
        (lambda x: x + random.random(), "random.random()"),
        (lambda x: x + random.gauss(0.0, 1.0), "random.gauss()"),
        (lambda x: x + RNG.normal(), "Generator.normal()"),
        (lambda x: x + time.time(), "time.time()"),
        (lambda x: x + datetime.datetime.now().year, "datetime.now()"),
    ],
)
def test_draws_and_clocks_are_named(shifted: Callable[[Any], Any], title: str) -> None:
    (text,) = warnings_of(lambda: tl.function(shifted)(ONE))
    assert f"called {title}" in text
    assert "tl.random" in text


def test_a_generator_among_the_arguments() -> None:
    @tl.function
    def f(x: Any, rng: Any) -> Any:
        return x + rng.random()

    (text,) = warnings_of(lambda: f(ONE, np.random.default_rng(1)))
    assert "Generator.random()" in text


def test_the_same_numbers_each_time_are_no_matter() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x + np.random.default_rng(5).normal()

    @tl.function
    def g(x: Any) -> Any:
        np.random.seed(3)
        return x + np.random.rand()

    state = np.random.get_state()
    try:
        assert f(ONE).item() == 1 + np.random.default_rng(5).normal()
        assert g(ONE).item() == 1 + np.random.RandomState(3).rand()
    finally:
        np.random.set_state(state)


def test_what_is_new_at_each_read_is_no_change() -> None:
    class Scaled:
        matrix = np.ones((2, 2))

        @property
        def half(self) -> Any:
            return self.matrix / 2

        def doubled(self) -> Any:
            return self.matrix * 2

        @tl.function
        def __call__(self, x: Any) -> Any:
            return self.matrix.T @ x + self.half @ x + self.doubled() @ x

    np.testing.assert_array_equal(Scaled()(np.ones(2)), [7.0, 7.0])


def test_containers_that_are_not_watched_in_full() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * LARGE[3]

    (text,) = warnings_of(lambda: f(ONE))
    assert "f reads global LARGE, a list of 100 items" in text
    assert "tl.constant" in text
    assert not warnings_of(lambda: tl.function(lambda x: x * LARGE[2:4][0] if x.ndim > 9 else x))
    table = tuple(LARGE)
    assert tl.function(lambda x: x * table[2])(ONE).item() == 2.0


def test_an_iterator_of_outside_is_named_once() -> None:
    items = iter([1.0, 2.0, 3.0])

    @tl.function
    def f(x: Any) -> Any:
        return x * next(items)

    (text,) = warnings_of(lambda: (f(ONE), f(ONE)))
    assert "it went on with closure variable items, an iterator" in text
    assert next(items) == 2.0


def test_iterators_that_a_trace_makes_are_its_own() -> None:
    @tl.function
    def f(x: Any) -> Any:
        items = iter([1.0, 2.0, 3.0, 4.0])
        for _, (a, b) in zip(items, enumerate([0.5, 1.5]), strict=False):
            x = x * a + b
        return x * next(items)

    assert not warnings_of(lambda: (f(ONE), f(ONE)))


def test_arrays_that_a_trace_fills_are_its_own_and_those_of_outside_are_named() -> None:
    table, rows = np.zeros(4), [np.zeros(4)]

    def counted(into: Any) -> Any:
        for k in range(4):
            into[k] = 1.0 if into[k - 1] == 0.0 else 2.0
        return into

    @tl.function
    def own(x: Any) -> Any:
        return x + counted(np.zeros(4))

    @tl.function
    def others(x: Any) -> Any:
        return x + counted(table)

    @tl.function
    def row_of_others(x: Any) -> Any:
        return x + counted(rows[0][:3].base)

    assert not warnings_of(lambda: (own(ONE), own(ONE)))
    for function in (others, row_of_others):
        (text,) = warnings_of(lambda function=function: function(ONE))  # type: ignore[misc]
        assert "it changed the elements of an array" in text
