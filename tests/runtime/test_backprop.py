"""The walk: sums, pruning, and that rules give the same on arrays and on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import GradientError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import Op, define_op
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.walk import TENSOR_SPACE


def joint_op(rule: Any, **more: Any) -> Op:
    return define_op(
        "two", kernel=lambda x, y: (x * y, x + y), infer=lambda *_: _[0], n_inputs=2, n_outputs=2,
        saves=(0, 1), joint_vjp=rule, register=False, **more,
    )  # fmt: skip


def product_and_sum(cts: Any, attrs: Any, needed: Any, x: Any, y: Any) -> Any:
    return cts[0] * y + cts[1], cts[0] * x + cts[1]


def random_program(
    tiny: Any, rng: np.random.Generator, leaves: list[Tensor], length: int
) -> Tensor:
    """A random graph with fan-out, broadcasting and ops of several outputs."""
    pool = list(leaves)
    for _ in range(length):
        a, b = (pool[k] for k in rng.integers(len(pool), size=2))
        choice = rng.integers(6)
        if choice == 0:
            pool.append(tiny.tanh(a) * b)
        elif choice == 1:
            pool.append(a + b)
        elif choice == 2:
            pool.extend(tiny.sin_cos(a))
        elif choice == 3:
            pool.append(tiny.sin(a))
        elif choice == 4:
            pool.append(a - b * 0.5)
        else:
            pool.append(tiny.exp(tiny.tanh(a)))
    total = tiny.total(pool[-1])
    for x in pool[-4:-1]:
        total = total + tiny.total(x)
    return total  # type: ignore[no-any-return]


def test_arrays_and_tensors_walk_to_the_same_gradient(tiny: Any, rng: np.random.Generator) -> None:
    for _ in range(40):
        seed = int(rng.integers(1 << 30))
        leaves = [as_tensor(rng.uniform(-1, 1, s)) for s in [(3,), (), (2, 3)]]
        found = []
        for mode in ("arrays", "mixed", "tensors"):
            with GradientTape() as outer:
                with GradientTape(persistent=True) as tape:
                    tape.watch(leaves)
                    if mode == "tensors":
                        outer.watch(leaves)
                    y = random_program(tiny, np.random.default_rng(seed), leaves, 12)
                if mode != "arrays":
                    found.append(tape.gradient(y, leaves))
            if mode == "arrays":
                found.append(tape.gradient(y, leaves))
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert a.shape == b.shape
                    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_gradient_agrees_with_differences(tiny: Any, rng: np.random.Generator) -> None:
    for _ in range(10):
        seed = int(rng.integers(1 << 30))
        leaves = [as_tensor(rng.uniform(-1, 1, s)) for s in [(3,), (), (2, 3)]]
        with GradientTape() as tape:
            tape.watch(leaves)
            y = random_program(tiny, np.random.default_rng(seed), leaves, 8)
        found = tape.gradient(y, leaves, unconnected_gradients="zero")
        directions = [as_tensor(rng.normal(size=x.shape)) for x in leaves]
        step = 1e-6

        def shifted(
            sign: float, seed: int = seed, leaves: Any = leaves, ds: Any = directions
        ) -> float:
            moved = [x + d * sign for x, d in zip(leaves, ds, strict=True)]
            return float(random_program(tiny, np.random.default_rng(seed), moved, 8))

        expected = (shifted(step) - shifted(-step)) / (2 * step)
        actual = sum(
            float((g.numpy() * d.numpy()).sum()) for g, d in zip(found, directions, strict=True)
        )
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_a_value_used_many_times_sums_its_parts(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        total = y
        for k in range(2, 6):
            total = total + y * float(k)
    g, gy = tape.gradient(total, [x, y])
    assert g.tolist() == [15.0, 15.0]
    assert gy.tolist() == [15.0, 15.0]


def test_sums_never_write_into_shared_arrays(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    ct = as_tensor([1.0, 1.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = x + x
        z = (y + y) + (y + y)
    tape.gradient(z, x, output_gradients=ct)
    assert ct.tolist() == [1.0, 1.0]
    assert x.tolist() == [1.0, 2.0]


def test_rules_of_unneeded_inputs_do_not_run(tiny: Any) -> None:
    ran: list[int] = []

    def rule(index: int) -> Any:
        def run(ct: Any, attrs: Any) -> Any:
            ran.append(index)
            return ct

        return run

    op = define_op(
        "noting", kernel=np.add, infer=lambda *_: _[0], n_inputs=2, vjps=(rule(0), rule(1)),
        register=False,
    )  # fmt: skip
    x, y, c = as_tensor(1.0), as_tensor(2.0), as_tensor(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        old = bind(op, (x, y))
        z = bind(op, (old, c))
    tape.gradient(z, y)
    assert ran == [0, 1]
    ran.clear()
    tape.gradient(z, old)
    assert ran == [0]


@pytest.mark.parametrize("nested", [False, True])
def test_missing_cotangents_are_zeros(tiny: Any, nested: bool) -> None:
    op = joint_op(product_and_sum)
    x, y = as_tensor([1.0, 2.0]), as_tensor([3.0, 4.0])
    with GradientTape() as outer:
        with GradientTape() as tape:
            tape.watch([x, y])
            if nested:
                outer.watch([x, y])
            product, _ = bind(op, (x, y))
        gx, gy = tape.gradient(product, [x, y])
    assert (gx.tolist(), gy.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_ops_may_accept_missing_cotangents(tiny: Any) -> None:
    seen: list[Any] = []

    def rule(cts: Any, attrs: Any, needed: Any, x: Any, y: Any) -> Any:
        seen.append((cts, needed))
        return None, cts[1]

    op = joint_op(rule, accepts_none=True)
    x, y = as_tensor([1.0, 2.0]), as_tensor([3.0, 4.0])
    with GradientTape() as tape:
        tape.watch(y)
        _, s = bind(op, (x, y))
    assert tape.gradient(s, y).tolist() == [1.0, 1.0]
    ((cts, needed),) = seen
    assert cts[0] is None
    assert needed == (False, True)


def test_rule_with_wrong_number_of_cotangents_is_named(tiny: Any) -> None:
    op = joint_op(lambda cts, attrs, needed, x, y: (cts[0],))
    x = as_tensor([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        product, _ = bind(op, (x, x))
    with pytest.raises(GradientError, match="two: its gradient rule returned 1 cotangents for 2"):
        tape.gradient(product, x)


def test_tape_is_unlocked_after_a_failing_rule(tiny: Any) -> None:
    def fail(ct: Any, attrs: Any) -> Any:
        raise ZeroDivisionError

    op = define_op(
        "failing", kernel=np.negative, infer=lambda *_: _[0], vjps=(fail,), register=False
    )
    x = as_tensor(1.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = bind(op, (x,)), x * 2.0
    with pytest.raises(ZeroDivisionError):
        tape.gradient(y, x)
    assert tape.gradient(z, x).item() == 2.0


def test_variadic_op_with_one_output(tiny: Any) -> None:
    op = define_op(
        "add_all", kernel=lambda *xs: sum(xs), infer=lambda *_: _[0], n_inputs=None,
        joint_vjp=lambda cts, attrs, needed: tuple(cts[0] if n else None for n in needed),
        register=False,
    )  # fmt: skip
    xs = [as_tensor(float(k)) for k in range(4)]
    with GradientTape() as tape:
        tape.watch(xs[1:])
        y = bind(op, xs)
    assert [None if g is None else g.item() for g in tape.gradient(y, xs)] == [None, 1, 1, 1]


def test_rule_may_say_that_there_is_no_gradient(tiny: Any) -> None:
    op = define_op(
        "half", kernel=np.add, infer=lambda *_: _[0], n_inputs=2,
        vjps=(lambda ct, attrs: None, lambda ct, attrs: ct), register=False,
    )  # fmt: skip
    x, y = as_tensor(1.0), as_tensor(2.0)
    with GradientTape() as tape:
        tape.watch([x, y])
        z = bind(op, (x, y))
    gx, gy = tape.gradient(z, [x, y])
    assert gx is None
    assert gy.item() == 1.0


def test_gradients_are_separate_cells(tiny: Any) -> None:
    x, y = as_tensor([1.0, 2.0]), as_tensor([3.0, 4.0])
    with GradientTape() as tape:
        tape.watch([x, y])
        z = x + y
    gx, gy = tape.gradient(z, [x, y])
    gx += 1.0
    assert gy.tolist() == [1.0, 1.0]


def test_tensor_space() -> None:
    zeros = TENSOR_SPACE.zeros((2,), np.dtype("float32"))
    ones = TENSOR_SPACE.ones((2,), np.dtype("float32"))
    assert (zeros.tolist(), ones.tolist(), ones.dtype) == ([0, 0], [1, 1], np.dtype("float32"))
    assert TENSOR_SPACE.num_elements(ones) == 2
    again = [TENSOR_SPACE.zeros((2,), np.dtype("float32"))._value for _ in range(2)]
    assert again[0] is again[1]  # `zeros` may have left the table to make room for `ones`


def test_imperative_grad_without_sources(tiny: Any) -> None:
    x = as_tensor(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert imperative_grad(TENSOR_SPACE, tape, [y], []) == []
