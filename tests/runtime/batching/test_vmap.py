"""`vmap` is a loop over examples, only faster."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.sampling import build_inputs, rng_of, sampled_ops, samples_of

import tapeline as tl
from tapeline.runtime.dispatch import BUSY, STATE, bind
from tapeline.runtime.errors import (
    ArgumentError,
    LeakedTensorError,
    ShapeError,
    SymbolicTensorError,
    TracingError,
)
from tapeline.runtime.op import Expansion, Op, Trait
from tapeline.runtime.tensor import Tensor, wrap

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


MODES = pytest.mark.parametrize("mode", [eager, tl.function], ids=["eager", "compiled"])
SIZE = 3


def is_slow(op: Op) -> bool:
    """Whether the op runs once per example."""
    is_expanded = isinstance(op.lowering, Expansion)
    return op.batch is None and not (op.has(Trait.ELEMENTWISE) or is_expanded)


def listed(results: Any) -> list[Tensor]:
    return [results] if type(results) is Tensor else list(results)


@pytest.mark.parametrize("op", sampled_ops(), ids=lambda op: op.name)
def test_vmap_of_an_op_is_a_loop(op: Op) -> None:
    rng = rng_of(op, "vmap")
    dtype = "float64" if "f" in op.kinds else "int64" if "i" in op.kinds else "bool"
    for sample in samples_of(op):
        examples = [build_inputs(op, sample, dtype, rng) for _ in range(SIZE)]
        count = len(examples[0])
        for shared in [(), *[(k,) for k in range(count) if count > 1]]:
            columns = []
            for k in range(count):
                column = [examples[0 if k in shared else n][k] for n in range(SIZE)]
                columns.append(column)
            if any(len({x.shape for x in column}) > 1 for column in columns):
                continue
            check_against_loop(op, columns, shared, sample.attrs)


def check_against_loop(op: Op, columns: Any, shared: Any, attrs: Any) -> None:
    """vmap of the op gives what it gives for each example."""
    tensors = [wrap(c[0]) if k in shared else wrap(np.stack(c)) for k, c in enumerate(columns)]
    axes = [None if k in shared else 0 for k in range(len(columns))]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        if is_slow(op):
            warnings.simplefilter("ignore")
        found = listed(tl.vmap(lambda *xs: bind(op, xs, attrs), axes)(*tensors))
        for n in range(SIZE):
            want = listed(bind(op, [wrap(np.array(c[n])) for c in columns], attrs))
            for x, y in zip(found, want, strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_allclose(
                    x.numpy()[n], y.numpy(), rtol=1e-10, atol=1e-12, err_msg=f"{shared} {attrs}"
                )


@MODES
def test_gradient_of_each_example(mode: Wrapper, rng: np.random.Generator) -> None:
    w, x = rng.normal(size=(3, 2)), rng.normal(size=(5, 3))

    def loss(w: Any, x: Any) -> Any:
        return tl.sum(tl.tanh(x @ w) ** 2)

    each = mode(tl.vmap(tl.grad(loss), (None, 0)))(tl.asarray(w), tl.asarray(x))
    for n in range(5):
        want = tl.grad(loss)(tl.asarray(w), tl.asarray(x[n]))
        np.testing.assert_allclose(each.numpy()[n], want.numpy(), rtol=1e-10)


@MODES
def test_gradient_of_a_compiled_function_per_example(
    mode: Wrapper, rng: np.random.Generator
) -> None:
    f = tl.function(lambda x, w: tl.sum(tl.sin(x * w) * x))
    x, w = tl.asarray(rng.normal(size=(4, 3))), tl.asarray(rng.normal(size=3))
    each = mode(tl.vmap(tl.grad(f), (0, None)))(x, w)
    want = np.stack([tl.grad(f)(x[n], w).numpy() for n in range(4)])
    np.testing.assert_allclose(each.numpy(), want, rtol=1e-12)


@MODES
def test_gradient_through_vmap(mode: Wrapper, rng: np.random.Generator) -> None:
    x, w = tl.asarray(rng.normal(size=(4, 3))), tl.asarray(rng.normal(size=3))
    v = tl.Variable(2.0)

    def mapped(x: Any, w: Any) -> Any:
        return tl.sum(tl.vmap(lambda row: tl.exp(row @ w) * v)(x))

    def plain(x: Any, w: Any) -> Any:
        return tl.sum(tl.exp(x @ w) * v)

    for number in (0, 1):
        found = mode(tl.grad(mapped, number))(x, w)
        np.testing.assert_allclose(found.numpy(), tl.grad(plain, number)(x, w).numpy(), rtol=1e-10)
    with tl.GradientTape() as tape:
        y = mode(mapped)(x, w)
    np.testing.assert_allclose(tape.gradient(y, v).item(), plain(x, w).item() / 2, rtol=1e-10)


@MODES
def test_vmap_nests(mode: Wrapper) -> None:
    x, y = np.arange(3.0), np.arange(4.0)
    outer = mode(tl.vmap(lambda a: tl.vmap(lambda b: a * b + a)(tl.asarray(y))))
    np.testing.assert_allclose(outer(tl.asarray(x)).numpy(), np.outer(x, y) + x[:, None])


def test_axes_of_arguments_and_results() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    add = tl.vmap(lambda a, b: a + b, in_axes=(1, 0), out_axes=1)
    np.testing.assert_allclose(add(tl.asarray(x), tl.asarray(y)).numpy(), x + y)
    pick = tl.vmap(lambda p, b: {"s": p["a"] + b, "same": tl.asarray(7.0)}, ({"a": -1}, None),
                   {"s": 0, "same": None})  # fmt: skip
    found = pick({"a": tl.asarray(x)}, 10.0)
    np.testing.assert_allclose(found["s"].numpy(), x.T + 10)
    assert found["same"].item() == 7.0
    keyword = tl.vmap(lambda a, *, b: a * b)
    np.testing.assert_allclose(keyword(tl.asarray(y), b=tl.asarray(y)).numpy(), y * y)


def test_bad_axes_are_refused() -> None:
    x = tl.ones((2, 3))
    with pytest.raises(ShapeError, match="different numbers of examples"):
        tl.vmap(lambda a, b: a)(x, tl.ones(3))
    with pytest.raises(ShapeError, match="no axis of examples"):
        tl.vmap(lambda a: a)(1.0)
    with pytest.raises(ArgumentError, match="no argument has examples"):
        tl.vmap(lambda a: a, None)(x)
    with pytest.raises(ArgumentError, match="2 entries for 1"):
        tl.vmap(lambda a: a, (0, 0))(x)
    with pytest.raises(ArgumentError, match="differs between examples"):
        tl.vmap(lambda a: a, 0, None)(x)
    with pytest.raises(ArgumentError, match="does not have the structure"):
        tl.vmap(lambda a: a, ([0, 0],))([x])
    assert STATE.handler is None
    assert BUSY == [0]


def test_example_has_no_values() -> None:
    with pytest.raises(LeakedTensorError, match="no values of its own"):
        tl.vmap(lambda a: np.sin(a._value))(tl.ones(3))
    assert STATE.handler is None


@MODES
def test_custom_gradient_in_vmap(mode: Wrapper) -> None:
    @tl.custom_gradient
    def f(x: Any, w: Any) -> Any:
        return x * w, lambda dy: (dy * w * 10.0, dy * x * 100.0)

    x, w = tl.asarray([1.0, 2.0, 3.0]), tl.asarray(5.0)

    def total(x: Any, w: Any) -> Any:
        return tl.sum(tl.vmap(f, (0, None))(x, w))

    assert mode(tl.grad(total))(x, w).numpy().tolist() == [50.0] * 3
    assert mode(tl.grad(total, 1))(x, w).item() == 600.0
    each = mode(tl.vmap(tl.grad(f), (0, None)))(x, w)
    assert each.numpy().tolist() == [50.0] * 3


def test_choices_and_loops_per_example() -> None:
    x = tl.asarray([1.0, -2.0, 3.0])
    chosen = tl.vmap(lambda a: tl.cond(a > 0, lambda: a * 2, lambda: -a))(x)
    assert chosen.numpy().tolist() == [2.0, 2.0, 6.0]

    def doubled(a: Any) -> Any:
        return tl.while_loop(lambda y: y < 10, lambda y: (y * 2,), (a,))[0]

    assert tl.vmap(doubled)(tl.asarray([1.0, 3.0, 20.0])).numpy().tolist() == [16.0, 12.0, 20.0]
    assert tl.vmap(tl.grad(doubled))(tl.asarray([1.0, 3.0, 20.0])).numpy().tolist() == [16, 4, 1]

    def sums(row: Any) -> Any:
        return tl.scan(lambda c, v: (c + v, c * v), 0.0, row)

    rows = np.arange(6.0).reshape(2, 3)
    last, turns = tl.vmap(sums)(tl.asarray(rows))
    np.testing.assert_allclose(last.numpy(), rows.sum(1))
    before = np.cumsum(rows, 1) - rows
    np.testing.assert_allclose(turns.numpy(), before * rows)


def test_variable_takes_no_value_of_one_example() -> None:
    v = tl.Variable(1.0)

    def assign(a: Any) -> Any:
        v.assign(a)
        return a

    with pytest.raises(TracingError, match="differs between examples"):
        tl.vmap(assign)(tl.ones(3))


def test_op_without_a_rule_warns_once() -> None:
    from tapeline.runtime.batching import level
    from tapeline.runtime.op import define_op
    from tapeline.runtime.spec import TensorSpec

    def infer(spec: TensorSpec) -> TensorSpec:
        return spec

    odd = define_op("odd_one", kernel=lambda x: x[::-1].copy(), infer=infer, register=False)
    level._WARNED.discard("odd_one")
    x = tl.asarray([[1.0, 2.0], [3.0, 4.0]])
    with pytest.warns(UserWarning, match="odd_one has no batching rule"):
        found = tl.vmap(lambda r: bind(odd, (r,)))(x)
    assert found.numpy().tolist() == [[2.0, 1.0], [4.0, 3.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.vmap(lambda r: bind(odd, (r,)))(x)


def test_most_ops_have_a_rule() -> None:
    slow = [op.name for op in sampled_ops() if is_slow(op)]
    assert len(slow) < 0.2 * len(sampled_ops()), slow


@MODES
def test_arguments_left_out_keep_their_defaults(mode: Any) -> None:
    x = tl.asarray([[1.0, -2.0], [0.5, 3.0]])
    for function in (tl.nn.gelu, tl.nn.elu, tl.nn.layer_norm):
        got = mode(tl.vmap(function))(x)
        np.testing.assert_allclose(got.numpy(), function(x).numpy(), rtol=1e-14)


def test_vectorized_map_maps_rows_of_a_structure() -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    found = tl.vectorized_map(lambda p: p["x"] * p["y"], {"x": tl.asarray(x), "y": tl.asarray(y)})
    np.testing.assert_array_equal(found.numpy(), x * y[:, None])


@MODES
def test_draws_from_a_key_per_example(mode: Wrapper) -> None:
    keys = tl.random.split(tl.random.key(7), 3)
    draws: dict[str, Callable[[Any], Any]] = {
        "normal": lambda key: tl.random.normal(key, (2,)),
        "uniform": lambda key: tl.random.uniform(key, (2, 2)),
        "gamma": lambda key: tl.random.gamma(key, 2.0, (2,)),
        "poisson": lambda key: tl.random.poisson(key, 3.0, (2,)),
        "integers": lambda key: tl.random.integers(key, (3,), 0, 10),
        "keys": lambda key: tl.random.split(key, 2),
    }
    for name, draw in draws.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = mode(tl.vmap(draw))(keys)
        want = np.stack([draw(keys[n]).numpy() for n in range(3)])
        np.testing.assert_array_equal(found.numpy(), want, err_msg=name)


@MODES
def test_gradients_through_draws_per_example(mode: Wrapper) -> None:
    keys = tl.random.split(tl.random.key(3), 4)

    def noisy(key: Any, x: Any) -> Any:
        return tl.sum(tl.random.normal(key, (3,)) * x**2)

    x = tl.asarray(np.arange(4.0))
    each = mode(tl.vmap(tl.grad(noisy, 1)))(keys, x)
    want = [2 * n * tl.random.normal(keys[n], (3,)).numpy().sum() for n in range(4)]
    np.testing.assert_allclose(each.numpy(), want, rtol=1e-12)


@MODES
def test_compiled_loops_and_choices_inside_of_vmap(mode: Wrapper) -> None:
    @tl.function
    def f(x: Any) -> Any:
        for _ in tl.range(3):
            x = tl.sin(x) * x if x > 0.5 else x + 0.25
        return x

    x = tl.asarray([0.1, 0.4, 0.9, 2.0])
    found = mode(tl.vmap(f))(x)
    want = [f(x[n]).item() for n in range(4)]
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    slopes = mode(tl.vmap(tl.grad(f)))(x)
    want = [tl.grad(f)(x[n]).item() for n in range(4)]
    np.testing.assert_allclose(slopes.numpy(), want, rtol=1e-12)


def halved(x: Any) -> Any:
    """A loop whose number of turns differs between examples."""
    turns = 0
    while x > 1.0:
        x = x * x / (x + 1.5)
        turns = turns + 1
    return x + 0.1 * turns


HALVED = [4.0, 0.5, 9.0, 1.5]


@MODES
def test_examples_leave_a_loop_one_by_one(mode: Wrapper) -> None:
    f, x = tl.function(halved), tl.asarray(HALVED)
    want = [f(x[n]).item() for n in range(4)]
    np.testing.assert_allclose(mode(tl.vmap(f))(x).numpy(), want, rtol=1e-13)
    slopes = mode(tl.vmap(tl.grad(f)))(x)
    np.testing.assert_allclose(slopes.numpy(), [tl.grad(f)(x[n]).item() for n in range(4)])


@MODES
def test_gradients_through_mapped_loops(mode: Wrapper) -> None:
    f, x = tl.function(halved), tl.asarray(HALVED)
    total = mode(tl.grad(lambda x: tl.sum(tl.vmap(f)(x) ** 2)))(x)
    want = [2 * f(x[n]).item() * tl.grad(f)(x[n]).item() for n in range(4)]
    np.testing.assert_allclose(total.numpy(), want, rtol=1e-12)
    nested = mode(tl.vmap(tl.vmap(f)))(tl.reshape(x, (2, 2)))
    np.testing.assert_allclose(tl.ravel(nested).numpy(), [f(x[n]).item() for n in range(4)])


@MODES
def test_a_scan_inside_of_a_compiled_function_under_vmap(mode: Wrapper) -> None:
    @tl.function
    def f(rows: Any, start: Any) -> Any:
        last, sums = tl.scan(lambda c, r: (tl.sin(c + r), c * r), start, rows)
        return last + tl.sum(sums)

    rng = np.random.default_rng(4)
    rows, start = tl.asarray(rng.normal(size=(3, 5))), tl.asarray(rng.normal(size=3))
    for axes in ((0, 0), (0, None), (None, 0)):
        given = (rows if axes[0] == 0 else rows[0], start if axes[1] == 0 else start[0])
        each = [
            tuple(x[n] if axis == 0 else x for x, axis in zip(given, axes, strict=True))
            for n in range(3)
        ]
        found = mode(tl.vmap(f, axes))(*given)
        np.testing.assert_allclose(found.numpy(), [f(*pair).item() for pair in each], rtol=1e-12)
        slopes = mode(tl.vmap(tl.grad(f, 1), axes))(*given)
        want = [tl.grad(f, 1)(*pair).item() for pair in each]
        np.testing.assert_allclose(slopes.numpy(), want, rtol=1e-12)


@MODES
def test_a_number_that_all_examples_share_is_a_number(mode: Wrapper) -> None:
    def halves(x: Any) -> Any:
        count = tl.asarray(x.shape)[1] // 2
        return tl.vmap(lambda row: tl.sum(row[: int(count)]))(x)

    x = tl.asarray([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    assert mode(halves)(x).tolist() == [3.0, 11.0]
    with pytest.raises(SymbolicTensorError, match="differs from example to example"):
        tl.vmap(lambda row: row[: int(row[0])])(x)


def test_elements_and_parts_are_written_again_and_again() -> None:
    def f(x: Any) -> Any:
        y = tl.zeros((2, 3))
        y[0] = x
        y[1] = y[0] * 2.0
        y[:, 0] += x[0]
        row = y[1].copy()
        row[1] *= 3.0
        return y + row

    x = tl.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    want = np.stack([f(one).numpy() for one in x])
    for way in (tl.vmap(f), tl.function(tl.vmap(f)), tl.vmap(tl.function(f))):
        np.testing.assert_array_equal(way(x).numpy(), want)
