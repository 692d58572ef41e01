"""Guards: a change of what a trace read is seen at the next call, nothing else costs a trace."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import tapeline as tl

SCALE: Any = 2.0
TABLE: dict[str, Any] = {"k": 1.0, "rates": [0.5, 0.25]}
ARRAY = np.ones(2)


def helper(x: Any) -> Any:
    return x * SCALE


def other_helper(x: Any) -> Any:
    return x + 100.0


X = tl.asarray([1.0, 2.0])


def first(result: Any) -> float:
    return float(result[0])


def test_changed_global_retraces_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return helper(x) + 1

    for _ in range(4):
        assert first(f(X)) == 3.0
    assert f.trace_count == 1
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert first(f(X)) == 4.0
    assert f.trace_count == 2
    assert f.explain()[1].reason == "global SCALE was 2.0 when traced, is 3.0 now"
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    for _ in range(4):
        assert first(f(X)) == 3.0
    assert f.trace_count == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0.0, -0.0), (None, 0), ("a", "b"), ((1, 2), (1, 3)), (2, np.int64(2))],
)
def test_values_are_told_apart_by_type_and_sign(before: Any, after: Any) -> None:
    value = before
    seen = []

    @tl.function
    def f(x: Any) -> Any:
        seen.append(value)
        return x + 1

    for _ in range(3):
        f(X)
    value = after
    for _ in range(3):
        f(X)
    assert f.trace_count == 2
    assert [repr(one) for one in seen] == [repr(before), repr(after)]


@pytest.mark.parametrize("value", [math.nan, 1e300, 10**20, "text", (1.5, "a", None)])
def test_equal_values_of_other_identity_do_not_retrace(value: Any) -> None:
    current = value

    @tl.function
    def f(x: Any) -> Any:
        return x + 1 if current else x

    for _ in range(3):
        f(X)
    current = eval(repr(value), {"nan": math.nan})
    for _ in range(3):
        f(X)
    assert f.trace_count == 1


def test_changed_closure_and_changed_helper_retrace(monkeypatch: pytest.MonkeyPatch) -> None:
    k = 1.0

    @tl.function
    def f(x: Any) -> Any:
        return helper(x) + k

    for _ in range(3):
        assert first(f(X)) == 3.0
    k = 5.0
    for _ in range(3):
        assert first(f(X)) == 7.0
    assert f.explain()[1].reason == "closure variable k was 1.0 when traced, is 5.0 now"
    monkeypatch.setitem(globals(), "helper", other_helper)
    for _ in range(3):
        assert first(f(X)) == 106.0
    assert f.trace_count == 3


def test_changed_attributes_retrace() -> None:
    class Optimizer:
        def __init__(self) -> None:
            self.rate = 0.5
            self.hidden = 2.0
            self.calls = 0

        @property
        def doubled(self) -> float:
            return self.hidden * 2

        def step(self, x: Any) -> Any:
            self.calls += 1
            return x * self.rate + self.doubled

    optimizer = Optimizer()
    step = tl.function(optimizer.step)
    for _ in range(3):
        assert first(step(X)) == 4.5
    optimizer.rate = 1.0
    for _ in range(3):
        assert first(step(X)) == 5.0
    optimizer.hidden = 0.0
    for _ in range(3):
        assert first(step(X)) == 1.0
    assert step.trace_count == 3
    assert step.explain()[1].reason == (
        "attribute rate of Optimizer was 0.5 when traced, is 1.0 now"
    )
    assert optimizer.calls == 3


def test_items_of_containers_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x * TABLE["k"] + sum(TABLE["rates"])

    for _ in range(3):
        assert first(f(X)) == 1.75
    monkeypatch.setitem(TABLE, "k", 2.0)
    assert first(f(X)) == 2.75
    rates: Any = TABLE["rates"]
    rates[0] = 1.5
    assert first(f(X)) == 3.75
    rates[0] = 0.5
    assert f.trace_count == 3


def test_arrays_are_read_anew_and_rebound_ones_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x + ARRAY

    monkeypatch.setitem(globals(), "ARRAY", np.ones(2))
    assert first(f(X)) == 2.0
    ARRAY[0] = 10.0
    assert first(f(X)) == 11.0
    assert f.trace_count == 1
    monkeypatch.setitem(globals(), "ARRAY", np.full(2, 50.0))
    assert first(f(X)) == 51.0


def test_what_the_trace_changes_itself_is_not_guarded() -> None:
    log: list[Any] = []
    state = {"n": 0}

    @tl.function
    def f(x: Any) -> Any:
        log.append("traced")
        state["n"] = state["n"] + 1
        return x + 1

    for _ in range(4):
        f(X)
    state["n"] = 100
    f(X)
    assert log == ["traced"]


def test_toggled_value_keeps_both_traces() -> None:
    flag = True

    @tl.function
    def f(x: Any) -> Any:
        return x + 1 if flag else x - 1

    for k in range(10):
        flag = k % 2 == 0
        assert first(f(X)) == (2.0 if flag else 0.0)
    assert f.trace_count == 2


def test_guards_of_a_function_that_is_called_hold_for_the_caller() -> None:
    k = 1.0
    inner = tl.function(lambda x: x * k)
    outer = tl.function(lambda x: inner(x) + 1)
    for _ in range(3):
        assert first(outer(X)) == 2.0
    k = 4.0
    for _ in range(3):
        assert first(outer(X)) == 5.0


def test_objects_made_by_the_trace_have_no_guards() -> None:
    class Point:
        def __init__(self, x: Any) -> None:
            self.x = x
            self.me = self
            self.scale = 3.0

    @tl.function
    def f(x: Any) -> Any:
        point = Point(x)
        return point.me.x * point.scale

    for _ in range(3):
        assert first(f(X)) == 3.0
        gc.collect()
    assert f.trace_count == 1


def test_guards_keep_no_object_alive() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 3.0

    model = Model()
    reference = weakref.ref(model)

    @tl.function
    def f(x: Any, m: Any) -> Any:
        return x * m.scale

    for _ in range(3):
        f(X, model)
    model.scale = 4.0
    assert first(f(X, model)) == 4.0
    del model
    gc.collect()
    assert reference() is None


def test_global_that_moves_in_its_table_is_still_found() -> None:
    scope: dict[str, Any] = {"K": 1.5, "tl": tl}
    source = "def f(x):\n    return x * K\n"
    import linecache

    linecache.cache["<moving>"] = (len(source), None, source.splitlines(True), "<moving>")
    exec(compile(source, "<moving>", "exec"), scope)
    f = tl.function(scope["f"])
    for _ in range(3):
        assert first(f(X)) == 1.5
    for k in range(1000):
        scope[f"v{k}"] = k
    assert first(f(X)) == 1.5
    scope["K"] = 2.5
    for _ in range(3):
        assert first(f(X)) == 2.5
    del scope["K"]
    with pytest.raises(NameError):
        f(X)
    scope["K"] = 2.5
    assert first(f(X)) == 2.5
