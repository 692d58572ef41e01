"""What tapes record, watch and answer."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tapeline.runtime import recorder
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, TapeError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.tape import (
    could_possibly_record,
    hide_tapes,
    pop_tape,
    push_new_tape,
    record_operation,
    stop_recording,
    watch,
    watched_variables,
)
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.variable import Variable
from tapeline.runtime.walk import VSpace


def values(x: Any) -> Any:
    return x.numpy().tolist()


def test_gradient_of_a_product(tiny: Any) -> None:
    x, y = as_tensor([1.0, 2.0]), as_tensor([3.0, 4.0])
    with GradientTape() as tape:
        tape.watch([x, {"y": y}])
        z = x * y
    gx, gy = tape.gradient(z, (x, y))
    assert values(gx) == [3.0, 4.0]
    assert values(gy) == [1.0, 2.0]


def test_gradient_keeps_the_structure_of_sources(tiny: Any) -> None:
    x, y = as_tensor(2.0), as_tensor(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch((x, y))
        z = x * y
    found = tape.gradient({"z": [z]}, {"a": x, "b": [y, None]})
    assert values(found["a"]) == 3.0
    assert values(found["b"][0]) == 2.0
    assert found["b"][1] is None
    assert type(tape.gradient(z, [x])) is list
    assert type(tape.gradient(z, (x,))) is tuple
    assert type(tape.gradient(z, x)) is Tensor


def test_unwatched_tensors_are_not_recorded(tiny: Any) -> None:
    x = as_tensor(2.0)
    with GradientTape() as tape:
        y = x * x
        assert tape.export() == []
    assert y._node is None
    assert tape.gradient(y, x) is None


def test_unconnected_gradients_are_none_or_zeros(tiny: Any) -> None:
    x, other = as_tensor([1.0, 2.0]), as_tensor(np.ones(3, np.float32))
    with GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = x * x
    assert tape.gradient(y, other) is None
    zeros = tape.gradient(y, other, unconnected_gradients="zero")
    assert (values(zeros), zeros.dtype) == ([0.0, 0.0, 0.0], np.dtype("float32"))
    with pytest.raises(ArgumentError, match="'none' or 'zero'"):
        tape.gradient(y, x, unconnected_gradients="zeros")  # type: ignore[arg-type]


def test_output_gradients_scale_targets(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x * 5.0
    assert values(tape.gradient(y, x, output_gradients=as_tensor([10.0, 1.0]))) == [20.0, 4.0]
    both = tape.gradient([y, z], x, output_gradients=[None, as_tensor([0.0, 1.0])])
    assert values(both) == [2.0, 9.0]
    mapped = tape.gradient({"y": y, "z": z}, x, output_gradients={"z": [0.0, 1.0], "y": None})
    assert values(mapped) == [2.0, 9.0]
    with pytest.raises(ValueError, match="does not fit its target of shape"):
        tape.gradient(y, x, output_gradients=as_tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="must have the structure of target"):
        tape.gradient([y], x, output_gradients=[None, None])


def test_same_target_twice_counts_twice(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert values(tape.gradient([y, y, x], x)) == 13.0


def test_target_may_be_the_source(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
    assert values(tape.gradient(x, x)) == [1.0, 1.0]


def test_intermediate_sources(tiny: Any) -> None:
    x, b = as_tensor([1.0, 2.0]), as_tensor(2.0)
    with GradientTape() as tape:
        tape.watch([x, b])
        h = x * b
        y = tiny.total(h + h)
    gh, gx, gb = tape.gradient(y, [h, x, b])
    assert (values(gh), values(gx), values(gb)) == ([2.0, 2.0], [4.0, 4.0], 6.0)


def test_second_gradient_needs_persistence(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert values(tape.gradient(y, x)) == 6.0
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, x)
    with pytest.raises(TapeError, match="persistent=True"):
        tape.watch(x)


def test_tape_that_was_never_entered_is_no_tape() -> None:
    tape = GradientTape()
    x = as_tensor(1.0)
    for use in (lambda: tape.gradient(x, x), lambda: tape.watch(x), tape.reset):
        with pytest.raises(RuntimeError, match="nothing is recorded yet"):
            use()
    assert tape.export() == []
    assert tape.watched_variables() == ()


def test_persistent_tape_answers_again(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * x
    assert values(tape.gradient(y, x)) == 6.0
    assert values(tape.gradient(z, x)) == 27.0
    assert values(tape.gradient(z, y)) == 3.0


def test_entering_twice_and_leaving_twice_are_errors() -> None:
    tape = GradientTape()
    with tape, pytest.raises(ValueError, match="recording already"):
        tape.__enter__()
    with pytest.raises(ValueError, match="not recording"):
        tape.__exit__(None, None, None)
    with pytest.raises(ValueError, match="not recording"), tape.stop_recording():
        pass


def test_reentering_goes_on_recording(tiny: Any) -> None:
    x = as_tensor(3.0)
    tape = GradientTape()
    with tape:
        tape.watch(x)
        y = x * x
    outside = x * x
    with tape:
        z = y * x
    assert outside._node is None
    assert values(tape.gradient(z, x)) == 27.0


def test_reentering_a_used_tape_starts_afresh(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with tape:
        y = x * x
        assert y._node is None
        tape.watch(x)
        y = x * x
    assert values(tape.gradient(y, x)) == 6.0


def test_gradient_inside_the_own_context_ends_the_tape(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert values(tape.gradient(y, x)) == 6.0
        assert not could_possibly_record()
        assert (x * x)._node is None
    assert STATE.open == ()


def test_persistent_gradient_inside_the_own_context_is_recorded(tiny: Any) -> None:
    x = as_tensor([0.3, -0.7])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tiny.sin(x) * x
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    v = x.numpy()
    np.testing.assert_allclose(first, np.sin(v) + v * np.cos(v), rtol=1e-14)
    np.testing.assert_allclose(second, 2 * np.cos(v) - v * np.sin(v), rtol=1e-14)
    np.testing.assert_allclose(third, -3 * np.sin(v) - v * np.cos(v), rtol=1e-14)


def test_reset_forgets_and_goes_on(tiny: Any) -> None:
    x, v = as_tensor(3.0), Variable(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        old = x * x * v
        tape.reset()
        assert tape.export() == []
        assert tape.watched_variables() == ()
        assert (x * x)._node is None
        tape.watch(x)
        y = x * x
    assert values(tape.gradient([y, old], x)) == 6.0


def test_exception_in_the_block_closes_the_tape(tiny: Any) -> None:
    x = as_tensor(3.0)
    with contextlib.suppress(ZeroDivisionError), GradientTape() as tape:
        tape.watch(x)
        y = x * x
        raise ZeroDivisionError
    assert STATE.active is None
    assert values(tape.gradient(y, x)) == 6.0


def test_stop_recording_of_one_tape_leaves_others(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as outer, GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with inner.stop_recording():
            y = x * x
        z = y * x
        assert len(outer.export()) == 2
        assert len(inner.export()) == 1
    assert values(outer.gradient(z, x)) == 27.0
    assert values(inner.gradient(z, x)) == 9.0


def test_stop_recording_stops_all_tapes_of_the_thread(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        assert could_possibly_record()
        with stop_recording():
            assert not could_possibly_record()
            with stop_recording():
                y = x * x
            assert not could_possibly_record()
            with GradientTape() as late:
                late.watch(x)
                assert (x * x)._node is None
        assert could_possibly_record()
        z = x * x
    assert tape.gradient(y, x) is None or y._node is None
    assert z._node is not None


def test_hidden_tapes_record_nothing(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        with hide_tapes(), GradientTape() as inner:
            inner.watch(x)
            y = x * x
            assert len(inner.export()) == 1
        z = x * x
        assert len(tape.export()) == 1
    assert values(tape.gradient([y, z], x)) == 6.0


def test_integers_warn_once_and_have_no_gradient(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_WARNED", set())
    i, x = as_tensor([1, 2]), as_tensor(2.0)
    with GradientTape() as tape:
        with pytest.warns(UserWarning, match="int64 tensors have no gradient"):
            tape.watch(i)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tape.watch(i)
        tape.watch(x)
        y = i * x
    with pytest.warns(UserWarning, match=r"gradient: a source is of dtype int64.*astype"):
        gi, gx = tape.gradient(y, (i, x))
    assert gi is None
    assert values(gx) == 3.0


def test_integer_results_are_not_recorded(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        assert tiny.less(x, 1.5)._node is None
        assert tiny.rint(x)._node is None
        assert tape.export() == []
        target = tiny.less(x, 1.5)
    with pytest.warns(UserWarning, match="gradient: the target is of dtype bool") as told:
        assert tape.gradient(target, x) is None
    assert told[0].filename == __file__


def test_the_dtype_is_not_blamed_for_what_it_does_not_explain() -> None:
    x, other, i = as_tensor(1.0), as_tensor(2.0), as_tensor(3)
    with GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y, z = x * i, x < 2.0
    assert tape.gradient(y, other) is None  # warnings are errors in tests
    assert tape.gradient([y, z], [x])[0].item() == 3.0
    with pytest.warns(UserWarning, match="gradient: all targets are of dtype bool, int64"):
        assert tape.gradient([z, i], {"x": x}) == {"x": None}


@pytest.mark.parametrize("thing", [3.0, np.ones(2), "x", [1.0]])
def test_watching_what_is_no_tensor_is_a_value_error(thing: Any) -> None:
    with GradientTape() as tape, pytest.raises(ValueError, match="expected a tensor"):
        tape.watch(thing)
    low = push_new_tape()
    pop_tape(low)
    with pytest.raises(ValueError, match="expected a tensor"):
        watch(low, thing)


@pytest.mark.parametrize("thing", [3.0, np.ones(2)])
def test_sources_and_targets_must_be_tensors(thing: Any) -> None:
    x = as_tensor(1.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
    with pytest.raises(ArgumentTypeError, match="sources must be tensors"):
        tape.gradient(x, thing)
    with pytest.raises(ArgumentTypeError, match="target must be tensors"):
        tape.gradient(thing, x)


def test_watching_makes_an_old_intermediate_a_leaf(tiny: Any) -> None:
    x = as_tensor([1.0, 3.0])
    with GradientTape() as outer:
        outer.watch(x)
        h = x * x
        with GradientTape() as inner:
            inner.watch([h, x])
            y = tiny.total(h * x)
        gh, gx = inner.gradient(y, [h, x])
    assert values(gh) == [1.0, 3.0]
    assert values(gx) == [1.0, 9.0]
    assert values(outer.gradient(y, x)) == [3.0, 27.0]


def test_watching_is_local_to_a_tape(tiny: Any) -> None:
    x = as_tensor(2.0)
    with GradientTape() as outer, GradientTape() as inner:
        outer.watch(x)
        y = x * x
    assert inner.gradient(y, x) is None
    assert values(outer.gradient(y, x)) == 4.0


def test_tapes_may_close_in_any_order(tiny: Any) -> None:
    x = as_tensor(3.0)
    first, second, third = GradientTape(), GradientTape(), GradientTape()
    for tape in (first, second, third):
        tape.__enter__()
        tape.watch(x)
    y = x * x
    second.__exit__(None, None, None)
    z = y * x
    first.__exit__(None, None, None)
    u = z * x
    assert len(third.export()) == 3
    third.__exit__(None, None, None)
    assert STATE.active is None
    assert values(first.gradient(z, x)) == 27.0
    assert values(second.gradient(y, x)) == 6.0
    assert values(third.gradient(u, x)) == 108.0


def test_interleaved_generators_keep_their_tapes_apart(tiny: Any) -> None:
    def work(x: Tensor) -> Iterator[Any]:
        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
            yield None
            z = y * x
            yield None
        yield values(tape.gradient(z, x))

    a, b = work(as_tensor(2.0)), work(as_tensor(3.0))
    next(a), next(b), next(a), next(b)
    assert next(a) == 12.0
    assert next(b) == 27.0
    assert STATE.open == ()


def test_other_threads_do_not_record(tiny: Any) -> None:
    x = as_tensor(2.0)
    out: list[Tensor] = []
    with GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: out.append(x * x))
        thread.start()
        thread.join()
    assert out[0]._node is None


def test_export_lists_ops_in_order(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        h = tiny.exp(x)
        s, c = tiny.sin_cos(h)
        y = s * c
        entries = tape.export()
    assert [entry.op for entry in entries][:2] == ["expo", "sin_cos"]
    assert entries[0].saved_shapes == ((2,),)
    assert entries[0].saved_bytes == 16
    assert entries[1].inputs == (entries[0].serial,)
    assert entries[2].inputs == (entries[1].serial, entries[1].serial)
    assert [e.serial for e in entries] == sorted(e.serial for e in entries)
    assert y.shape == (2,)


def test_multi_output_gradients(tiny: Any) -> None:
    x = as_tensor([0.3, 0.5])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        s, c = tiny.sin_cos(x)
        both = s * 2.0 + c
        one = s + 0.0
        (g,) = tape.gradient(both, [x])
        second = tape.gradient(g, x)
    v = x.numpy()
    np.testing.assert_allclose(g, 2 * np.cos(v) - np.sin(v))
    np.testing.assert_allclose(second, -2 * np.sin(v) - np.cos(v))
    np.testing.assert_allclose(tape.gradient(one, x), np.cos(v))
    np.testing.assert_allclose(tape.gradient(both, s), [2.0, 2.0])
    np.testing.assert_allclose(tape.gradient(s, [x, c])[0], np.cos(v))
    assert tape.gradient(s, c) is None


def test_multi_output_second_order_survives_a_dead_output(tiny: Any) -> None:
    x = as_tensor([0.3, 0.5])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        c = tiny.sin_cos(x)[1]
        g = tape.gradient(c, x)
        second = tape.gradient(g, x)
    np.testing.assert_allclose(second, -np.cos(x.numpy()))


@pytest.mark.parametrize("persistent", [False, True])
def test_third_derivative_through_nested_tapes(tiny: Any, persistent: bool) -> None:
    v = np.array([0.3, -0.7, 1.1, 0.2])
    x = as_tensor(v)
    with GradientTape(persistent) as t3:
        t3.watch(x)
        with GradientTape(persistent) as t2:
            t2.watch(x)
            with GradientTape(persistent) as t1:
                t1.watch(x)
                y = tiny.total(tiny.sin(x) * tiny.exp(x) + x * x * x + tiny.tanh(x))
            d1 = t1.gradient(y, x)
        d2 = t2.gradient(d1, x)
    d3 = t3.gradient(d2, x)
    s, c, e, t = np.sin(v), np.cos(v), np.exp(v), np.tanh(v)
    u = 1 - t * t
    np.testing.assert_allclose(d1, e * (s + c) + 3 * v**2 + u, rtol=1e-13)
    np.testing.assert_allclose(d2, 2 * e * c + 6 * v - 2 * t * u, rtol=1e-13)
    np.testing.assert_allclose(d3, 2 * e * (c - s) + 6 - 2 * u * u + 4 * t * t * u, rtol=1e-13)


def test_low_level_tape(tiny: Any) -> None:
    x, v = as_tensor(3.0), Variable(2.0, name="v")
    tape = push_new_tape(persistent=False, watch_accessed_variables=False)
    watch(tape, x)
    watch(tape, v)
    y = x * v * x
    pop_tape(tape)
    with pytest.raises(TapeError, match="pop_tape"):
        pop_tape(tape)
    assert watched_variables(tape) == (v,)
    gx, gv = imperative_grad(None, tape, [y], [x, v])
    assert (values(gx), values(gv)) == (12.0, 9.0)
    with pytest.raises(TapeError):
        imperative_grad(None, tape, [y], [x])


@pytest.mark.parametrize("outer_watches", [False, True])
def test_record_operation_uses_its_backward_function(tiny: Any, outer_watches: bool) -> None:
    x, k = as_tensor([1.0, 2.0]), as_tensor([5.0, 5.0])
    seen: list[type] = []

    def backward(ct: Tensor) -> list[Any]:
        seen.append(type(ct))
        return [ct * 7.0, None]

    with GradientTape() as outer:
        if outer_watches:
            outer.watch(x)
        with GradientTape() as tape:
            tape.watch([x, k])
            with stop_recording():
                y = x * k
            record_operation("custom", [y], [x, k], backward)
            z = y * y
            assert tape.export()[0].op == "custom"
        gx, gk = tape.gradient(z, [x, k])
    assert values(gx) == [70.0, 140.0]
    assert gk is None
    assert seen == [Tensor]


def test_record_operation_does_nothing_without_a_watching_tape(tiny: Any) -> None:
    x, y = as_tensor(1.0), as_tensor(2.0)
    record_operation("custom", [y], [x], lambda ct: [ct])
    with GradientTape():
        record_operation("custom", [y], [x], lambda ct: [ct])
    assert y._node is None


def test_another_vector_space(tiny: Any) -> None:
    """Cotangents that are exact fractions: one per tensor, elements do not matter."""
    space = VSpace(
        add=lambda a, b: a + b,
        zeros=lambda shape, dtype: Fraction(0),
        ones=lambda shape, dtype: Fraction(1),
        num_elements=lambda value: 1,
    )
    x, other = as_tensor(1.0), as_tensor(1.0)
    tape = push_new_tape(persistent=True)
    watch(tape, x)
    watch(tape, other)

    def third(value: Tensor) -> Tensor:
        with stop_recording():
            out = value * 1.0
        record_operation("third", [out], [value], lambda ct: [ct / 3])
        return out

    a, b = third(x), third(x)
    with stop_recording():
        y = a + b
    record_operation("sum", [y], [a, b], lambda ct: [ct, ct])
    pop_tape(tape)
    assert imperative_grad(space, tape, [y], [x, a]) == [Fraction(2, 3), Fraction(1)]
    assert imperative_grad(space, tape, [y], [x], [Fraction(1, 2)]) == [Fraction(1, 3)]
    assert imperative_grad(space, tape, [y], [other]) == [None]
    assert imperative_grad(space, tape, [y], [other], None, "zero") == [Fraction(0)]


def test_source_names_the_value_that_was_watched(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    same = x
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        x += 1.0
        z = x * x
    assert same is x
    assert values(x) == [2.0, 3.0]
    assert values(tape.gradient(y, x)) == [2.0, 4.0]
    assert values(tape.gradient(z, x)) == [4.0, 6.0]


def test_watching_again_names_the_new_value(tiny: Any) -> None:
    x = as_tensor(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        x *= x
        tape.watch(x)
        y = x * x
        x += 1.0
    assert values(tape.gradient(y, x)) == 8.0


def test_unwatched_source_names_its_present_value(tiny: Any) -> None:
    x = as_tensor(2.0)
    with GradientTape() as tape:
        tape.watch(x)
        h = x * x
        h += 1.0
        y = h * h
    assert values(tape.gradient(y, h)) == 10.0


def run_threads(work: Callable[[int], None], number: int = 4) -> None:
    errors: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_may_watch_one_tensor_and_one_variable(tiny: Any) -> None:
    x, v = as_tensor(3.0), Variable(2.0)

    def work(index: int) -> None:
        for _ in range(200):
            with GradientTape() as tape:
                tape.watch(x)
                y = x * x * v
            gx, gv = tape.gradient(y, (x, v))
            assert (values(gx), values(gv)) == (12.0, 9.0)

    run_threads(work)


def test_only_one_of_many_threads_uses_a_tape(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    won: list[float] = []

    def work(index: int) -> None:
        with contextlib.suppress(TapeError):
            won.append(values(tape.gradient(y, x)))

    run_threads(work)
    assert won == [6.0]


def test_listing_while_other_threads_record(tiny: Any) -> None:
    x = as_tensor(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        active = STATE.active

        def work(index: int) -> None:
            STATE.active = active
            for _ in range(2000):
                y = x * x
                z = y * y
                del y, z

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            tape.export()
        assert tape.export() == []
