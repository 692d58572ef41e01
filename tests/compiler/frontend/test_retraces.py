"""A function says why it was traced, and what would avoid it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.errors import ArgumentError, RetraceError


def f64(*shape: int) -> tl.Tensor:
    return tl.asarray(np.ones(shape))


def test_traces_say_what_they_leave_open() -> None:
    @tl.function
    def f(x: Any, y: Any, k: float) -> Any:
        return x * k + y if x.shape[0] > 2 else x

    for n in (5, 6):
        f(f64(n), f64(n), 0.5)
    f(f64(7), f64(7), 1.5)
    f(f64(8), f64(8), 2.5)
    last = f.explain()[-1]
    assert last.open == ("x[0] = y[0]", "k")
    assert last.conditions == ("n0 > 2",)
    assert last.repair == ""
    assert "leaves open x[0] = y[0], k" in str(f.explain())
    assert "k = any float" in repr(f.concrete_functions[-1])


def test_each_trace_has_a_reason_and_a_repair() -> None:
    @tl.function(reduce_retracing=False)
    def f(x: Any, k: Any = 2, *, d: Any = None) -> Any:
        return x * k if d is None else x * d["w"]

    f(f64(2))
    f(f64(3))
    f(tl.astype(f64(3), tl.float32))
    f(f64(3), 2.5)
    f(f64(2))
    f(f64(3), d={"w": f64(1)})
    x = f64(1)
    f(x, d={"w": x})
    records = f.explain()
    assert [r.reason for r in records] == [
        "first call",
        "x was float64[2], is float64[3]",
        "x was float64[3], is float32[3]",
        "k was 2, is 2.5",
        "d was None, is absent; d['w'] was absent, is float64[1]",
        "x was float64[3], is float64[1]; d['w'] was float64[1], is same as x",
    ]
    assert [r.nearest for r in records] == [None, 1, 2, 2, 2, 5]
    assert [r.repair for r in records][:4] == [
        "",
        "pad or batch to one shape, or ask for sizes and numbers less",
        "convert with astype before the call",
        "pass the number as a tensor: tl.asarray(value)",
    ]
    text = str(records)
    assert text.startswith("f: 6 traces")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_no_retrace_refuses_and_leaves_the_function_as_it_was() -> None:
    f = tl.function(name="double")(lambda x: x * 2)
    f(f64(2))
    with tl.no_retrace():
        f(f64(2))
        with pytest.raises(RetraceError, match=r"double would be traced.*x was float64\[2\]"):
            f(f64(3))
    assert f.trace_count == 1
    assert f(f64(3)).shape == (3,)


def test_a_storm_of_traces_is_warned_of_twice_at_most() -> None:
    f = tl.function(lambda x: x * 2, reduce_retracing=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 30):
            f(f64(n))
    assert len(caught) == 2
    message = str(caught[0].message)
    assert "traced in 5 calls in a row" in message
    assert "x was float64[4], is float64[5]" in message
    assert caught[0].filename == __file__

    g = tl.function(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 10):
            g(f64(n))
            g(f64(n))
            g(f64(n))


def test_the_oldest_traces_are_dropped() -> None:
    f = tl.function(max_traces=2, reduce_retracing=False)(lambda x: x * 2)
    for n in (1, 2, 3, 3, 2, 1):
        for _ in range(3):
            assert f(f64(n)).tolist() == [2.0] * n
    assert len(f.concrete_functions) == 2
    assert f.trace_count == 4
    with pytest.raises(ArgumentError, match="max_traces"):
        tl.function(max_traces=0)(lambda x: x)
