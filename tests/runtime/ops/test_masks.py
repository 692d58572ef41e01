"""What a mask leaves out may be infinite or NaN: gradients of every op are as if it were not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.sampling import gradient_cases, sampled_ops

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Op

Array = Any
Function = Callable[..., Any]
SPECIAL = (0.0, -1.0, 1000.0, np.inf, -np.inf, np.nan)
SUMS = {
    "matmul", "conv", "conv_input_grad", "conv_weight_grad", "convolve", "convolve_weights",
}  # fmt: skip
"""Ops of which each result is a sum: the terms that count are told one by one only where a gradient
is seen to be NaN, and by rows elsewhere."""
TWO_ORDERS = {"abs", "asinh", "power"}
"""Ops with third derivatives that are NaN, eagerly, behind a mask: at infinity or a complex 0."""

TRIANGULAR = {"cholesky", "qr"}
"""Ops with results that are 0 in one half, of whatever matrix."""
BY_ROWS = {"solve_triangular", "lu"}
"""Ops that find rows of a result from others: their rules do without whole matrices, not rows."""


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def is_differentiable(op: Op, arrays: tuple[Array, ...], index: int) -> bool:
    rules = op.vjps or ()
    has_rule = op.joint_vjp is not None or (index < len(rules) and rules[index] is not None)
    return has_rule and arrays[index].dtype.kind in "fc" and arrays[index].size > 1


def bent_sum(slopes: Any) -> Any:
    """A number whose gradient depends on the slopes."""
    parts = [tl.real(slope) for slope in slopes]
    return sum([tl.sum(part * part + 0.7 * part) for part in parts])


def real_sum(slopes: Any) -> Any:
    return sum([tl.sum(tl.real(slope)) for slope in slopes])


class Masked:
    """The sum of those results of an op that do not depend on the first element of an input."""

    def __init__(self, op: Op, arrays: tuple[Array, ...], attrs: Any, index: int) -> None:
        self.op, self.arrays, self.attrs, self.index = op, arrays, attrs, index
        self.places = [k for k in range(len(arrays)) if is_differentiable(op, arrays, k)]
        self.places.sort(key=lambda k: k != index)
        self.plain = self.results(arrays[index])
        moved = self.results(self.with_first(arrays[index].flat[0] * 0.97 + 0.013))
        self.keep = [
            (a == b) & np.isfinite(a) if a.dtype.kind in "fc" else np.zeros(a.shape, bool)
            for a, b in zip(self.plain, moved, strict=True)
        ]
        if op.name in TRIANGULAR:
            self.keep = [mask & (a != 0) for a, mask in zip(self.plain, self.keep, strict=True)]
        if op.name in BY_ROWS:
            self.keep = [
                mask & mask.all((-2, -1), keepdims=True) if mask.ndim > 1 else mask
                for mask in self.keep
            ]
        self.leaves_some = any(bool(mask.any()) for mask in self.keep)

    def with_first(self, value: Any) -> Array:
        changed = self.arrays[self.index].copy()
        changed.flat[0] = value
        return changed

    def results(self, array: Array) -> list[Array]:
        return [np.asarray(y.numpy()) for y in self.call(tl.asarray(array))]

    def call(self, *inputs: Any) -> list[Any]:
        operands = [tl.asarray(array) for array in self.arrays]
        for place, tensor in zip(self.places, inputs, strict=False):
            operands[place] = tensor
        return listed(bind(self.op, operands, self.attrs))

    def loss(self, *inputs: Any) -> Any:
        total: Any = 0.0
        for y, mask in zip(self.call(*inputs), self.keep, strict=True):
            if mask.any():
                weights = np.linspace(0.5, 1.5, mask.size).reshape(mask.shape)
                kept = tl.where(mask, y, 0.0) * weights
                total = total + tl.sum(tl.real(kept * kept) if y.dtype.kind == "c" else kept)
        return total

    def derivatives(self, order: int) -> Function:
        """A function that gives the gradients of the first `order` orders, from nested tapes: each
        one is of a number made of the gradients before it."""
        every = tuple(range(len(self.places)))
        numbers = (self.loss, bent_sum, real_sum)

        def of_number(level: int, *inputs: Any) -> Any:
            if level == 0:
                return self.loss(*inputs), ()
            lower = functools.partial(of_number, level - 1)
            slopes, found = tl.grad(lower, every, has_aux=True)(*inputs)
            return numbers[level](slopes) if level < order else None, (*found, *slopes)

        return lambda *inputs: of_number(order, *inputs)[1]

    def inputs(self, first: Array) -> list[Any]:
        return [tl.asarray(first), *[tl.asarray(self.arrays[k]) for k in self.places[1:]]]

    def specials(self) -> Iterator[Array]:
        """The input with special values in its first element which the kept results ignore."""
        for value in SPECIAL:
            array = self.with_first(value)
            try:
                found = self.results(array)
            except np.linalg.LinAlgError:
                continue
            pairs = zip(found, self.plain, self.keep, strict=True)
            if all(np.array_equal(a[mask], b[mask]) for a, b, mask in pairs):
                yield array


Points = list[list[Any]]


def eager(f: Function, points: Points) -> list[Any]:
    return [f(*point) for point in points]


def mapped(f: Function, points: Points) -> list[Any]:
    """All points in one call."""
    columns = [tl.stack(list(column)) for column in zip(*points, strict=True)]
    found = tl.vmap(f)(*columns)
    return [[part[k] for part in found] for k in range(len(points))]


def compiled(f: Function, points: Points) -> list[Any]:
    return eager(tl.function(f), points)


def masked_cases(op: Op, limit: int) -> Iterator[Masked]:
    for dtype in ("float64", "complex128"):
        if np.dtype(dtype).kind in op.kinds:
            for arrays, attrs in list(gradient_cases(op, dtype))[:limit]:
                for index in range(len(arrays)):
                    if is_differentiable(op, arrays, index):
                        case = Masked(op, arrays, attrs, index)
                        if case.leaves_some:
                            yield case


OPS = [op for op in sampled_ops() if not op.name.startswith("guarded")]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:vmap:UserWarning")
@pytest.mark.parametrize("mode", [eager, mapped, compiled], ids=["eager", "vmap", "compiled"])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_gradient_is_that_without_what_a_mask_leaves_out(op: Op, mode: Any) -> None:
    if mode is not eager and op.name in SUMS:
        return
    for case in masked_cases(op, 1 if mode is compiled else 3):
        f = case.derivatives(2 if op.name in TWO_ORDERS else 3)
        firsts = [case.arrays[case.index], *case.specials()]
        want, *found = mode(f, [case.inputs(first) for first in firsts])
        for got in found:
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mode", [lambda f: f, tl.function], ids=["eager", "compiled"])
def test_rows_of_missing_data_do_not_spoil_weights(mode: Any) -> None:
    data = np.array([[1.0, 2.0], [np.nan, 4.0], [5.0, np.inf], [0.5, -1.0]])
    valid = np.isfinite(data).all(1)

    def loss(w: Any, x: Any) -> Any:
        hidden = tl.where(valid[:, None], x @ w, 0.0)
        return tl.sum(hidden * hidden) + tl.sum(tl.where(valid, x @ w[:, 0], 0.0))

    w = tl.asarray([[1.0, -2.0, 0.5], [3.0, 0.25, 1.0]])
    want = tl.grad(lambda w: loss(w, tl.asarray(np.where(valid[:, None], data, 0.0))))(w)
    for found in (mode(tl.grad(loss))(w, data), tl.grad(mode(loss))(w, tl.asarray(data))):
        np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mode", [lambda f: f, tl.function], ids=["eager", "compiled"])
def test_attention_over_nothing_has_no_gradient(mode: Any) -> None:
    sees = np.array([[True, True, False], [False, False, False]])

    def loss(scores: Any) -> Any:
        shares = tl.nn.softmax(tl.where(sees, scores, -np.inf))
        return tl.sum(tl.where(sees, shares, 0.0) * [1.0, 2.0, 3.0])

    found = mode(tl.grad(loss))(tl.asarray([[0.0, 0.0, 1.0], [1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(found.numpy(), [[-0.25, 0.25, 0.0], [0.0, 0.0, 0.0]], atol=1e-15)


@pytest.mark.parametrize("mode", [lambda f: f, tl.function], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "name", ["matmul", "inv", "solve", "det", "cholesky", "eigvalsh", "svdvals"]
)
def test_directions_pass_behind_a_mask(name: str, mode: Any, rng: np.random.Generator) -> None:
    """Forward mode comes of rules whose cotangents are zeros, which mask nothing."""
    a = rng.normal(size=(3, 3))
    a, t = a @ a.T + np.eye(3), rng.normal(size=(3, 3))
    t = t + t.T
    function = getattr(tl.linalg, name)
    operand = [tl.asarray(rng.normal(size=(3, 2)))] if name in ("matmul", "solve") else []

    def f(x: Any) -> Any:
        symmetric = tl.tril(x) + tl.tril(x, k=-1).T
        return tl.maximum(function(symmetric, *operand), -0.1)

    h = 1e-6
    want = (f(tl.asarray(a + h * t)).numpy() - f(tl.asarray(a - h * t)).numpy()) / (2 * h)
    found = tl.jvp(mode(f), [tl.asarray(a)], [tl.asarray(t)])[1]
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6, atol=1e-6)
