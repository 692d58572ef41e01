"""A profile times the kernels of compiled calls, forward and backward, and changes no result."""

from __future__ import annotations

import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen import step_clock
from tapeline.compiler.executable import timing
from tapeline.runtime.dispatch import BUSY


@tl.function
def loss(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
    h = tl.tanh(x @ w)
    return tl.sum(tl.linalg.inv(h.T @ h) * h[:8])


def gradient(x: Any, w: Any) -> Any:
    with tl.GradientTape() as tape:
        tape.watch(w)
        value = loss(x, w)
    return tape.gradient(value, w)


def arrays(rng: np.random.Generator) -> tuple[tl.Tensor, tl.Tensor]:
    return tl.asarray(rng.standard_normal((32, 8))), tl.asarray(rng.standard_normal((8, 8)))


def test_profile_counts_and_times_kernels_of_both_directions(rng: np.random.Generator) -> None:
    x, w = arrays(rng)
    expected = gradient(x, w)
    with tl.debugging.profile() as profile:
        for _ in range(5):
            found = gradient(x, w)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    graphs = {one.graph for one in profile.kernels}
    assert graphs == {"loss_joint", "loss_joint_backward"}
    assert {one.calls for one in profile.kernels} == {5}
    assert all(one.nanoseconds > 0 for one in profile.kernels)
    total = sum(one.seconds for one in profile.kernels)
    assert total + profile.compile_seconds < profile.wall_seconds


def test_profile_sees_calls_that_native_entries_would_serve(rng: np.random.Generator) -> None:
    x, w = arrays(rng)
    for _ in range(4):
        loss(x, w)
    with tl.debugging.profile() as profile:
        loss(x, w)
    assert {one.calls for one in profile.kernels} == {1}
    loss(x, w)
    assert {one.calls for one in profile.kernels} == {1}


def test_profile_takes_inputs_of_any_layout(rng: np.random.Generator) -> None:
    doubled = tl.function(lambda x: x * 2)
    x = rng.standard_normal((6, 4))
    with tl.debugging.profile():
        np.testing.assert_array_equal(doubled(x.T).numpy(), 2 * x.T)
        np.testing.assert_array_equal(doubled(x.T.copy()).numpy(), 2 * x.T)


def test_profile_reports_by_kernel_and_by_line(rng: np.random.Generator) -> None:
    x, w = arrays(rng)
    with tl.debugging.profile() as profile:
        gradient(x, w)
    text, by_line = str(profile), profile.by_line()
    assert "matmul" in text
    assert "NumPy call" in text
    assert max(map(len, (text + "\n" + by_line).splitlines())) <= 80
    assert "h = tl.tanh(x @ w)" in by_line


def test_profile_writes_a_trace_of_complete_events(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    x, w = arrays(rng)
    with tl.debugging.profile() as profile:
        loss(x, w)
        loss(x, w)
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 2 * len(profile.kernels)
    assert all(event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 for event in events)
    assert any("matmul" in event["args"]["operations"] for event in events)


def test_profile_covers_other_threads(rng: np.random.Generator) -> None:
    x, w = arrays(rng)
    with tl.debugging.profile() as profile:
        threads = [threading.Thread(target=loss, args=(x, w)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {one.calls for one in profile.kernels} == {3}


def test_profile_ends_with_its_block_also_on_errors(rng: np.random.Generator) -> None:
    concrete = loss.get_concrete_function(tl.ones((32, 8)), tl.ones((8, 8)))
    executable = concrete.differentiable.compiled.executable()
    plain = executable._word[0]
    with tl.debugging.profile():
        assert executable._word[0] != plain
    assert executable._word[0] == plain
    with pytest.raises(KeyError), tl.debugging.profile():
        raise KeyError
    assert executable._word[0] == plain == executable.code.address("run")


def test_profiles_overlap(rng: np.random.Generator) -> None:
    x, w = arrays(rng)
    outer, inner = tl.debugging.profile(), tl.debugging.profile()
    with outer:
        loss(x, w)
        with inner:
            loss(x, w)
            assert {one.calls for one in inner.kernels} == {1}  # while the block still runs
        loss(x, w)
    assert {one.calls for one in outer.kernels} == {3}
    assert {one.calls for one in inner.kernels} == {1}
    assert len(outer.chrome_trace()["traceEvents"]) == 3 * len(outer.kernels)
    assert len(inner.chrome_trace()["traceEvents"]) == len(inner.kernels)


def test_profile_leaves_calls_to_their_native_entries(rng: np.random.Generator) -> None:
    doubled = tl.function(lambda x: x * 2)
    x = tl.asarray(rng.standard_normal(8))
    for _ in range(4):
        doubled(x)
    busy = BUSY[0]
    with tl.debugging.profile() as profile:
        assert BUSY[0] == busy
        for _ in range(100):
            doubled(x)
    assert [one.calls for one in profile.kernels] == [100]


def test_profile_keeps_what_a_dropped_function_took() -> None:
    with tl.debugging.profile() as profile:
        tl.function(lambda x: x + 1, name="dropped")(tl.ones(3))
        gc.collect()
    assert [one.graph for one in profile.kernels] == ["dropped"]


def test_full_trace_still_counts(rng: np.random.Generator) -> None:
    doubled = tl.function(lambda x: x * 2)
    x = tl.asarray(rng.standard_normal(8))
    words = timing.trace()
    room = words[1]
    words[1] = 23  # four records of five words, and a rest
    try:
        with tl.debugging.profile() as profile:
            for _ in range(10):
                doubled(x)
    finally:
        words[1] = room
    assert [one.calls for one in profile.kernels] == [10]
    assert len(profile.chrome_trace()["traceEvents"]) == 4


def test_times_agree_with_the_systems_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever clock the code reads, a kernel's time is the time that its call takes."""
    x = tl.ones(2_000_000)
    for steady in (step_clock.has_steady_counter(), False):
        monkeypatch.setattr(step_clock, "has_steady_counter", lambda steady=steady: steady)
        monkeypatch.setattr(timing, "_CLOCK", [])
        function = tl.function(lambda x: tl.sum(tl.exp(tl.sin(x))))
        with tl.debugging.profile():
            function(x)  # compiles
        with tl.debugging.profile() as profile:
            start = time.monotonic_ns()
            for _ in range(5):
                function(x)
            around = time.monotonic_ns() - start
        within = sum(one.nanoseconds for one in profile.kernels)
        assert 0.5 * around < within <= around
        events = profile.chrome_trace()["traceEvents"]
        assert events[0]["ts"] >= 0
        assert events[-1]["ts"] + events[-1]["dur"] <= profile.wall_seconds * 1e6


def test_profile_lets_errors_of_host_calls_through() -> None:
    @tl.function
    def checked(x: tl.Tensor) -> tl.Tensor:
        assert tl.sum(x) > 0, "must be positive"
        return x * 2

    with tl.debugging.profile():
        checked(tl.asarray([1.0]))
        with pytest.raises(AssertionError, match="must be positive"):
            checked(tl.asarray([-1.0]))
