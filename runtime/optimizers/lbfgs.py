"""Minimizing a function of few parameters by L-BFGS: Newton's method with a short memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.gradients.functional import value_and_grad
from tapeline.runtime.tensor import as_tensor, new_tensor

Vector: TypeAlias = npt.NDArray[np.float64]

_ENOUGH = 1e-4
"""How much of the decrease that the slope promises a step must bring (Armijo)."""
_HALVINGS = 40


class Minimum(NamedTuple):
    """Where a minimization ended."""

    x: Any
    """The parameters, a structure like that of the start."""
    value: float
    gradient_size: float
    """The largest element of the gradient."""
    steps: int
    converged: bool
    """Whether the gradient became as small as asked."""


def minimize(
    function: Callable[[Any], Any],
    start: Any,
    /,
    *,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    memory: int = 10,
) -> Minimum:
    """A place where a smooth function is smallest around, by L-BFGS.

    For problems with all data at hand and few parameters, where each evaluation is exact. Compile
    the function with `tl.function` to make evaluations fast.

    Parameters
    ----------
    function : callable
        From a structure of tensors to a 0-d tensor.
    start : structure of TensorLike of float
        Where to begin.
    tolerance : float
        Stop when no element of the gradient is larger.
    max_steps : int
        Stop after so many steps in any case.
    memory : int
        How many former steps tell the curvature.

    Returns
    -------
    Minimum
        `x`, `value`, `gradient_size`, `steps` and `converged`.

    Raises
    ------
    ArgumentError
        If the function is not finite at the start.

    Examples
    --------
    >>> import tapeline as tl
    >>> found = tl.optimizers.minimize(lambda x: tl.sum((x - 3.0) ** 2), tl.zeros(2))
    >>> found.x.numpy(), found.converged
    (array([3., 3.]), True)
    """
    problem = _Problem(function, start)
    x = problem.start
    value, slope = problem.evaluate(x)
    if not (np.isfinite(value) and np.isfinite(slope).all()):
        raise ArgumentError(f"minimize: the function is {value} at the start, or its slope is not")
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=max(int(memory), 1))
    steps = 0
    while np.abs(slope).max(initial=0.0) > tolerance and steps < max_steps:
        direction = _direction(slope, pairs)
        found = _search(problem, x, value, slope, direction, 1.0 if pairs else _first(slope))
        if found is None and pairs:
            pairs.clear()  # what was learnt of the curvature misleads: begin anew along the slope
            continue
        if found is None:
            break
        steps += 1
        new_x, value, new_slope = found
        move, change = new_x - x, new_slope - slope
        if move @ change > 1e-12 * np.sqrt((move @ move) * (change @ change)):
            pairs.append((move, change))
        x, slope = new_x, new_slope
    size = float(np.abs(slope).max(initial=0.0))
    return Minimum(problem.structure(x), float(value), size, steps, size <= tolerance)


class _Problem:
    """The function on one vector of doubles."""

    def __init__(self, function: Callable[[Any], Any], start: Any) -> None:
        leaves = [as_tensor(leaf, argument="minimize: start") for leaf in nest.flatten(start)]
        self._like = nest.unflatten(start, leaves)
        self._leaves = leaves
        self._function = value_and_grad(function)
        self.start = self._vector(leaves)

    @staticmethod
    def _vector(leaves: Any) -> Vector:
        parts = [np.asarray(leaf.numpy(), np.float64).reshape(-1) for leaf in leaves]
        return np.concatenate(parts) if parts else np.zeros(0)

    def structure(self, x: Vector) -> Any:
        """The vector as the structure that the function takes."""
        rest, leaves = x, []
        for leaf in self._leaves:
            part, rest = rest[: leaf.size], rest[leaf.size :]
            leaves.append(new_tensor(part.reshape(leaf.shape).astype(leaf.dtype)))
        return nest.unflatten(self._like, leaves)

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Value and slope."""
        value, slopes = self._function(self.structure(x))
        return float(value), self._vector(nest.flatten(slopes))


def _first(slope: Vector) -> float:
    """The first step: as nothing is known of the curvature, one of length 1 at most."""
    return min(1.0, 1.0 / float(np.abs(slope).sum() or 1.0))


def _direction(slope: Vector, pairs: deque[tuple[Vector, Vector]]) -> Vector:
    """The slope against the curvature that the pairs tell, downwards: two passes over them."""
    found = slope.copy()
    parts = []
    for move, change in reversed(pairs):
        part = (move @ found) / (move @ change)
        found -= part * change
        parts.append(part)
    if pairs:
        move, change = pairs[-1]
        found *= (move @ change) / (change @ change)
    for (move, change), part in zip(pairs, reversed(parts), strict=True):
        found += (part - (change @ found) / (move @ change)) * move
    return -found


def _search(
    problem: _Problem, x: Vector, value: float, slope: Vector, direction: Vector, step: float
) -> tuple[Vector, float, Vector] | None:
    """The first point along the direction that is low enough, halving the step; None if none is."""
    promise = float(slope @ direction)
    if not promise < 0:
        return None
    for _ in range(_HALVINGS):
        there = x + step * direction
        found, new_slope = problem.evaluate(there)
        if found <= value + _ENOUGH * step * promise and np.isfinite(new_slope).all():
            return there, found, new_slope
        step *= 0.5
    return None
