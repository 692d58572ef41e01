"""Which targets and sources are connected, and what the gradient is where several paths meet."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import define_op
from tapeline.runtime.spec import spec_of

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])


def by_tape(f: Callable[..., Any], *sources: Any, **options: Any) -> list[Any]:
    with tl.GradientTape() as tape:
        tape.watch(list(sources))
        y = f(*sources)
    found: list[Any] = tape.gradient(y, list(sources), **options)
    return found


# Paths


@MODES
@pytest.mark.parametrize("uses", [2, 10, 33])
def test_all_uses_of_a_tensor_add_up(mode: Wrapper, uses: int) -> None:
    def f(x: Any) -> Any:
        total = x * 0.0
        for k in range(uses):
            total = total + x * float(k)
        return total

    assert by_tape(mode(f), tl.asarray(1.0))[0].item() == uses * (uses - 1) / 2


@MODES
def test_sources_that_depend_on_one_another_both_get_gradients(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            tape.watch(y)
            z = y * x
        return tape.gradient(z, [x, y])

    assert [g.item() for g in mode(f)(tl.asarray(3.0))] == [27.0, 3.0]


@MODES
def test_targets_that_depend_on_one_another_add_up(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            z = y * 3.0
        return tape.gradient([y, z, y], x)

    assert mode(f)(tl.asarray(2.0)).item() == 2 * 4 + 12


@MODES
def test_only_the_used_part_of_a_split_gets_a_gradient(mode: Wrapper) -> None:
    f = mode(lambda x: tl.sum(tl.split(x, 2)[1] * 3.0))
    assert by_tape(f, tl.asarray([1.0, 2.0, 3.0, 4.0]))[0].tolist() == [0.0, 0.0, 3.0, 3.0]
    both = mode(lambda x: tl.sum(tl.split(x, 2)[0] * tl.split(x, 2)[1]))
    assert by_tape(both, tl.asarray([1.0, 2.0, 3.0, 4.0]))[0].tolist() == [3.0, 4.0, 1.0, 2.0]


def test_results_of_one_op_are_not_connected_through_each_other() -> None:
    x = tl.asarray([1.0, 2.0, 3.0, 4.0])
    with tl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        a, b = tl.split(x, 2)
        y = a * 2.0
        z = tl.stop_gradient(a) * b
    assert tape.gradient(y, b) is None
    assert tape.gradient(z, a) is None
    assert tape.gradient(z, b).tolist() == [1.0, 2.0]


def test_an_op_of_a_float_and_an_int_result_differentiates_the_float() -> None:
    op = define_op(
        "doubled_and_order",
        kernel=lambda x: (x * 2, np.argsort(x)),
        infer=lambda x: (x, spec_of(x.shape, np.dtype(np.int64))),
        n_outputs=2,
        joint_vjp=lambda cts, attrs, needed: (cts[0] * 2.0,),
        register=False,
    )
    with tl.GradientTape(persistent=True) as tape:
        x = tl.asarray([3.0, 1.0])
        tape.watch(x)
        doubled, order = bind(op, (x,))
        y = doubled * order
    assert tape.gradient(y, x).tolist() == [2.0, 0.0]
    with pytest.warns(UserWarning, match="the target is of dtype int64"):
        assert tape.gradient(order, x) is None


@MODES
def test_a_choice_over_a_variable_follows_the_branch_taken(mode: Wrapper) -> None:
    v = tl.Variable(2.0)
    f = mode(lambda x: tl.cond(x > 0.0, lambda: v * v, lambda: v * 3.0))
    for x, want in ((1.0, 4.0), (-1.0, 3.0)):
        with tl.GradientTape() as tape:
            y = f(tl.asarray(x))
        assert tape.gradient(y, v).item() == want


@MODES
def test_a_cast_to_int_in_a_loop_cuts_the_gradient(mode: Wrapper) -> None:
    def f(x: Any) -> Any:
        return tl.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y.astype(tl.int64).astype(tl.float64)), (0, x)
        )[1]

    assert by_tape(mode(f), tl.asarray(2.5), unconnected_gradients="zero")[0].item() == 0.0


@MODES
def test_a_tape_inside_of_a_loop_differentiates_what_is_read_there(mode: Wrapper) -> None:
    v = tl.Variable(3.0)

    def f() -> Any:
        total = tl.asarray(0.0)
        for _ in range(3):
            with tl.GradientTape() as tape:
                y = v * v
            total = total + tape.gradient(y, v)
        return total

    assert mode(f)().item() == 18.0


# None and zeros


@MODES
def test_unconnected_sources_are_none_or_zeros_of_their_dtype(mode: Wrapper) -> None:
    v = tl.Variable(np.ones(3, np.float32))
    f = mode(lambda x: x * 2.0)
    x = tl.asarray(1.0)
    with tl.GradientTape(persistent=True) as tape:
        tape.watch([x, v])
        y = f(x)
        v.read_value()
    assert tape.gradient(y, v) is None
    zeros = tape.gradient(y, [x, v], unconnected_gradients="zero")
    assert (zeros[0].item(), zeros[1].tolist(), zeros[1].dtype) == (2.0, [0.0] * 3, tl.float32)
    with pytest.raises(ValueError, match="'none' or 'zero'"):
        tape.gradient(y, v, unconnected_gradients="nonsense")  # type: ignore[arg-type]


def test_stopped_inputs_give_the_partial_derivatives() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        d = a * b
        return d * d * c + b

    for stopped in itertools.chain.from_iterable(
        itertools.combinations(range(3), n) for n in range(4)
    ):

        @tl.function
        def by_argument(*xs: Any, stopped: Any = stopped) -> Any:
            chosen = [xs[k] for k in stopped] or None
            return tl.gradients(f(*xs), xs, unconnected_gradients="zero", stop_gradients=chosen)

        def by_op(*xs: Any, stopped: Any = stopped) -> Any:
            return f(*[tl.stop_gradient(x) if k in stopped else x for k, x in enumerate(xs)])

        values = tl.asarray(2.0), tl.asarray(3.0), tl.asarray(5.0)
        want = by_tape(by_op, *values, unconnected_gradients="zero")
        found = by_argument(*values)
        for k in range(3):
            if k not in stopped:
                assert found[k].item() == want[k].item()


def test_an_op_without_a_rule_is_a_lookup_error_behind_a_source() -> None:
    op = define_op("opaque", kernel=np.sin, infer=lambda x: x, register=False)
    x = tl.asarray(1.0)
    with pytest.raises(LookupError, match="opaque: the op has no gradient rule"):
        by_tape(lambda x: bind(op, (x,)), x)


def test_a_rule_of_foreign_code_with_too_few_gradients_names_itself() -> None:
    x, y = tl.asarray(1.0), tl.asarray(2.0)
    with tl.GradientTape() as tape:
        tape.watch([x, y])
        z = tl.asarray(3.0)
        tl.tape.record_operation("foreign", [z], [x, y], lambda ct: [ct])
    with pytest.raises(LookupError, match="foreign: its gradient rule returned 1 cotangents for 2"):
        tape.gradient(z, [x, y])


# Functions and captures


@MODES
def test_nested_functions_differentiate_by_what_they_captured(mode: Wrapper) -> None:
    x, v = tl.asarray(3.0), tl.Variable(2.0)

    @tl.function
    def outer() -> Any:
        y = x * v

        @tl.function
        def inner() -> Any:
            z = y * y * x
            return tl.gradients(z, [x, v, y])

        return inner()

    by_x, by_v, by_y = mode(outer)()
    assert by_y.item() == 2 * 6.0 * 3.0
    assert by_x.item() == 6.0 * 6.0
    assert by_v is None


def test_arguments_that_are_not_differentiated_keep_their_type() -> None:
    seen: list[Any] = []

    def f(x: Any, strides: Any, name: str) -> Any:
        seen.append((strides, name))
        return x * float(strides[0])

    (gradient,) = tl.gradients_function(f, params=[0])(3.0, [2, 4], "conv")
    assert gradient.item() == 2.0
    assert seen == [([2, 4], "conv")]


def test_gradient_of_an_input_of_any_rank() -> None:
    f = tl.function(lambda x: tl.sum(x * x), input_signature=[tl.TensorSpec(None, tl.float64)])
    for shape in ((), (3,), (2, 2)):
        x = tl.asarray(np.full(shape, 1.5))
        assert (tl.grad(f)(x).numpy() == 3.0).all()


def test_rows_of_a_table_are_trained_through_implicit_gradients() -> None:
    table = tl.Variable(np.ones((4, 2)))
    gradients = tl.implicit_gradients(lambda: tl.sum(tl.take(table, [1, 1], axis=0)))()
    assert type(gradients[0][0]) is tl.IndexedSlices
    tl.optimizers.SGD(0.5).apply_gradients(gradients)
    assert table.numpy().tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]


def test_implicit_gradients_without_variables_are_an_error() -> None:
    with pytest.raises(ValueError, match="no trainable variables were accessed"):
        tl.implicit_gradients(tl.function(lambda x: x * x))(tl.asarray(1.0))


# Custom gradients, recomputation, pass-through


def test_only_variables_read_in_a_custom_function_count_as_its_own() -> None:
    behind, inside = tl.Variable(2.0), tl.Variable(3.0)
    seen: list[Any] = []

    @tl.custom_gradient
    def f(x: Any) -> Any:
        def grad_fn(dy: Any, variables: Any = None) -> Any:
            seen.append(variables)
            return dy * inside, [dy * x]

        return x * inside, grad_fn

    with tl.GradientTape() as tape:
        y = f(behind * 5.0)
    by_behind, by_inside = tape.gradient(y, [behind, inside])
    assert (by_behind.item(), by_inside.item()) == (15.0, 10.0)
    assert [[v is inside for v in found] for found in seen] == [[True]]


@MODES
def test_recomputed_gradients_are_the_plain_ones(mode: Wrapper) -> None:
    x = tl.asarray([1.0, 2.0])
    for f in (lambda a, b: a * tl.sin(b), lambda a, b: [a * b, tl.exp(a), {"c": b}]):
        for g in (tl.checkpoint(f), tl.recompute_grad(f)):

            def both(x: Any, f: Any = g) -> Any:
                return f(x, x)

            plain = by_tape(lambda x, f=f: f(x, x), x)[0]
            np.testing.assert_allclose(by_tape(mode(both), x)[0].numpy(), plain.numpy())


def test_recomputing_nested_functions_with_a_loop_keeps_nothing() -> None:
    @tl.function
    def looped(x: Any) -> Any:
        for _ in tl.range(3):
            x = tl.sin(x) * x
        return x

    block = tl.recompute_grad(lambda x: looped(looped(x)))
    x = tl.asarray([0.5, 1.5])
    kept = []
    for _ in range(3):
        gradient = by_tape(block, x)[0]
        kept.append(weakref.ref(gradient))
        del gradient
    gc.collect()
    assert all(ref() is None for ref in kept)


@MODES
def test_pass_through_of_an_assignment(mode: Wrapper) -> None:
    v = tl.Variable(1.0)

    def f(x: Any) -> Any:
        return tl.grad_pass_through(lambda x: v.assign(x * 2.0).read_value())(x) * 3.0

    assert by_tape(mode(f), tl.asarray(4.0))[0].item() == 3.0
    assert v.numpy() == 8.0


# Jacobians and Hessians


def test_batch_jacobian_of_a_jacobian() -> None:
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = tl.reshape(inner.batch_jacobian(y, x), (2, 4))
    second = outer.batch_jacobian(first, x)
    want = np.zeros((2, 4, 2))
    for n in range(2):
        want[n, 0, 0], want[n, 3, 1] = 6 * x.numpy()[n]
    np.testing.assert_allclose(second.numpy(), want)


def test_gradient_of_a_batch_jacobian_through_a_convolution() -> None:
    rng = np.random.default_rng(5)
    image, kernel = tl.asarray(rng.normal(size=(2, 5, 1))), tl.asarray(rng.normal(size=(3, 1, 1)))

    def size(kernel: Any) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(image)
            y = tl.nn.conv1d(image, kernel) ** 2
        return tl.sum(tape.batch_jacobian(y, image) ** 2)

    tl.testing.check_gradients(size, [kernel], order=1)


def test_hessians_of_several_and_of_matrices_and_of_no_number() -> None:
    rng = np.random.default_rng(6)
    for shape in ((3,), (2, 2), (2, 3)):
        m = rng.normal(size=(np.prod(shape), np.prod(shape)))
        hessian = tl.hessian(lambda x, m=m: tl.ravel(x) @ tl.asarray(m) @ tl.ravel(x))(
            tl.asarray(rng.normal(size=shape))
        )
        np.testing.assert_allclose(hessian.numpy(), (m + m.T).reshape(*shape, *shape), rtol=1e-10)
    both = tl.hessian(lambda a, b: a * a * b, (0, 1))(2.0, 3.0)
    assert [[x.item() for x in row] for row in both] == [[6.0, 4.0], [4.0, 0.0]]
    with pytest.raises(ValueError, match=r"must return a tensor of shape \(\)"):
        tl.hessian(lambda x: x * x)(tl.asarray([1.0, 2.0]))


@MODES
def test_batch_norm_to_the_second_order(mode: Wrapper) -> None:
    rng = np.random.default_rng(8)

    def normalized(x: Any, scale: Any) -> Any:
        return tl.nn.batch_norm(x, tl.mean(x, axis=0), tl.var(x, axis=0), scale=scale)

    def by_hand(x: Any, scale: Any) -> Any:
        return (x - tl.mean(x, axis=0)) / tl.sqrt(tl.var(x, axis=0) + 1e-3) * scale

    f = normalized if hasattr(tl.nn, "batch_norm") else by_hand
    x, scale = tl.asarray(rng.normal(size=(4, 2))), tl.asarray([1.0, 1.1])
    tl.testing.check_gradients(mode(f), [x, scale], tolerance=1e-5)


def test_intermediate_tangents_are_freed() -> None:
    x = tl.asarray(np.ones(4))
    with tl.ForwardAccumulator(x, np.ones(4)) as accumulator:
        y = x * 2.0
        first = weakref.ref(accumulator.jvp(y))
        z = y * 3.0
    gc.collect()
    assert first() is None
    assert accumulator.jvp(z).tolist() == [6.0] * 4


def test_a_whole_training_loop_in_one_function() -> None:
    v = tl.Variable(5.0)
    optimizer = tl.optimizers.SGD(0.1)

    @tl.function
    def train(steps: Any) -> Any:
        loss = tl.asarray(0.0)
        for _ in tl.range(steps):
            with tl.GradientTape() as tape:
                loss = (v - 2.0) ** 2
            optimizer.apply([tape.gradient(loss, v)], [v])
        return loss

    optimizer.build([v])
    assert train(tl.asarray(60)).item() < 1e-8
    np.testing.assert_allclose(v.numpy(), 2.0, atol=1e-4)
