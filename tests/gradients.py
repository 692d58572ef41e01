"""Gradients of an op by the tape and by differences, for the tests generated from op records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.tensor import Tensor, wrap

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Function: TypeAlias = Callable[..., Any]


def has_gradient(op: Op) -> bool:
    """Whether the op states a gradient for any input."""
    return op.joint_vjp is not None or any(op.vjps)


def outputs_of(op: Op, arrays: Sequence[Array], attrs: Attrs) -> tuple[Array, ...]:
    """What the kernel gives, as a tuple of arrays in any case."""
    result = op.kernel(*arrays, *attrs)
    return tuple(map(np.asarray, (result,) if op.n_outputs is None else result))


def differentiable(arrays: Sequence[Array]) -> list[int]:
    """Positions of the inputs that can have a gradient."""
    return [i for i, x in enumerate(arrays) if x.dtype.kind in "fc"]


def pair(weights: Sequence[Array], values: Sequence[Any]) -> Any:
    """The real part of sum(conj(weight) * value): its cotangent for a value is the weight."""
    total = 0.0
    for weight, value in zip(weights, values, strict=True):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            total += float(np.real(np.sum(np.conj(weight) * array)))
    return total


def tape_gradients(
    op: Op, arrays: Sequence[Array], attrs: Attrs, weights: Sequence[Array]
) -> list[Array]:
    """The gradients of `pair(weights, outputs)` by the tape, zeros where there is none."""
    tensors = [wrap(x) for x in arrays]
    sources = [tensors[i] for i in differentiable(arrays)]
    with GradientTape() as tape:
        tape.watch(sources)
        outputs = bind(op, tuple(tensors), attrs)
    targets, seeds = _seeded(outputs, weights)
    found = tape.gradient(targets, sources, seeds, unconnected_gradients="zero")
    return [g.numpy() for g in found]


def _seeded(outputs: Any, weights: Sequence[Array]) -> tuple[list[Tensor], list[Tensor]]:
    flat = [outputs] if type(outputs) is Tensor else list(outputs)
    chosen = [(y, w) for y, w in zip(flat, weights, strict=True) if y.dtype.kind in "fc"]
    return [y for y, _ in chosen], [wrap(w) for _, w in chosen]


def tape_second_gradients(
    op: Op,
    arrays: Sequence[Array],
    attrs: Attrs,
    weights: Sequence[Array],
    second_weights: Sequence[Array],
) -> list[Array]:
    """The gradients of `pair(second_weights, tape_gradients(...))` by a tape around a tape."""
    tensors = [wrap(x) for x in arrays]
    sources = [tensors[i] for i in differentiable(arrays)]
    with GradientTape() as outer:
        outer.watch(sources)
        with GradientTape() as inner:
            inner.watch(sources)
            outputs = bind(op, tuple(tensors), attrs)
        targets, seeds = _seeded(outputs, weights)
        first = inner.gradient(targets, sources, seeds, unconnected_gradients="zero")
    seeds = [wrap(w) for w in second_weights]
    found = outer.gradient(first, sources, seeds, unconnected_gradients="zero")
    return [g.numpy() for g in found]


def difference_gradients(
    function: Function, arrays: Sequence[Array], step: float = 1e-5
) -> list[Array]:
    """The gradients of a real function of arrays by central differences of fourth order.

    For a complex input a + ib it is df/da + i df/db.
    """
    gradients = []
    for position in differentiable(arrays):
        x = arrays[position]
        gradient = np.zeros(x.shape, x.dtype)
        for index in np.ndindex(x.shape):
            for unit in (1.0, 1j) if x.dtype.kind == "c" else (1.0,):
                gradient[index] += unit * _slope(function, arrays, position, index, step * unit)
        gradients.append(gradient)
    return gradients


def _slope(
    function: Function, arrays: Sequence[Array], position: int, index: Any, step: complex
) -> float:
    def at(factor: int) -> float:
        moved = [x.copy() for x in arrays]
        moved[position][index] += factor * step
        return float(function(*moved))

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * abs(step))
