"""Learning rates that change with the step: functions from a step to a rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.exponential import exp
from tapeline.runtime.ops.rounding import floor
from tapeline.runtime.ops.selection import clip, where
from tapeline.runtime.ops.trigonometric import cos
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor

Rate: TypeAlias = Callable[[TensorLike], Tensor]


def _number(step: TensorLike) -> Tensor:
    return as_tensor(step, np.float64, "step")


def _check_steps(op_name: str, steps: int) -> float:
    if not steps > 0:
        raise ArgumentError(f"{op_name}: steps must be above 0, got {steps}")
    return float(steps)


def exponential_decay(initial: float, steps: int, rate: float, *, staircase: bool = False) -> Rate:
    """`initial * rate ** (step / steps)`.

    Parameters
    ----------
    initial : float
        The rate at step 0.
    steps : int
        After so many steps the rate is `rate` times what it was.
    rate : float
        Above 0.
    staircase : bool
        Change once in `steps` steps only.

    Returns
    -------
    callable
        From a step, an int or a 0-d tensor, to the rate, a 0-d tensor of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> rate = tl.optimizers.exponential_decay(1.0, 10, 0.25)
    >>> rate(0).item(), rate(10).item()
    (1.0, 0.25)
    """
    count = _check_steps("exponential_decay", steps)
    if not rate > 0:
        raise ArgumentError(f"exponential_decay: rate must be above 0, got {rate}")

    def schedule(step: TensorLike) -> Tensor:
        turns = _number(step) / count
        return exp((floor(turns) if staircase else turns) * math.log(rate)) * float(initial)

    return schedule


def cosine_decay(initial: float, steps: int, final: float = 0.0) -> Rate:
    """From `initial` to `final` in `steps` steps along half a wave of the cosine, then constant.

    Parameters
    ----------
    initial, final : float
        The rate at step 0 and at the end.
    steps : int
        After how many steps the end is reached.

    Returns
    -------
    callable
        From a step, an int or a 0-d tensor, to the rate, a 0-d tensor of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> rate = tl.optimizers.cosine_decay(1.0, 10)
    >>> rate(0).item(), rate(10).item(), rate(20).item()
    (1.0, 0.0, 0.0)
    """
    count = _check_steps("cosine_decay", steps)

    def schedule(step: TensorLike) -> Tensor:
        part = clip(_number(step) / count, 0.0, 1.0)
        return (cos(part * math.pi) + 1.0) * (0.5 * (initial - final)) + float(final)

    return schedule


def polynomial_decay(initial: float, steps: int, final: float = 0.0, power: float = 1.0) -> Rate:
    """From `initial` to `final` in `steps` steps, by a power of what is left; 1 is a line.

    Parameters
    ----------
    initial, final : float
        The rate at step 0 and at the end.
    steps : int
        After how many steps the end is reached.
    power : float
        The exponent; 1 is a straight line.

    Returns
    -------
    callable
        From a step, an int or a 0-d tensor, to the rate, a 0-d tensor of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> rate = tl.optimizers.polynomial_decay(1.0, 10, power=2.0)
    >>> rate(0).item(), rate(5).item(), rate(20).item()
    (1.0, 0.25, 0.0)
    """
    count = _check_steps("polynomial_decay", steps)

    def schedule(step: TensorLike) -> Tensor:
        left = 1.0 - clip(_number(step) / count, 0.0, 1.0)
        return left ** float(power) * (initial - final) + float(final)

    return schedule


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Rate:
    """One value up to and with each boundary, and one after the last.

    Parameters
    ----------
    boundaries : sequence of int
        Rising.
    values : sequence of float
        One more than boundaries.

    Returns
    -------
    callable
        From a step, an int or a 0-d tensor, to the rate, a 0-d tensor of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> rate = tl.optimizers.piecewise_constant([10], [1.0, 0.1])
    >>> rate(10).item(), rate(11).item()
    (1.0, 0.1)
    """
    bounds = [float(bound) for bound in boundaries]
    if len(values) != len(bounds) + 1 or sorted(bounds) != bounds:
        raise ArgumentError(
            f"piecewise_constant: needs rising boundaries and one value more, got {boundaries} "
            f"and {values}"
        )

    def schedule(step: TensorLike) -> Tensor:
        number = _number(step)
        rate = as_tensor(float(values[-1]))
        for bound, value in zip(reversed(bounds), reversed(values[:-1]), strict=True):
            rate = where(number <= bound, float(value), rate)
        return rate

    return schedule


def warmup(schedule: Rate | float, steps: int) -> Rate:
    """A rate that rises in a line from 0 over `steps` steps, and then is that of `schedule`.

    Parameters
    ----------
    schedule : callable or float
        The rate after the rise; it counts steps from the end of the rise.
    steps : int
        How long the rise takes.

    Returns
    -------
    callable
        From a step, an int or a 0-d tensor, to the rate, a 0-d tensor of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> rate = tl.optimizers.warmup(tl.optimizers.cosine_decay(1.0, 100), 10)
    >>> rate(0).item(), rate(5).item(), rate(10).item()
    (0.0, 0.5, 1.0)
    """
    count = _check_steps("warmup", steps)

    def warm(step: TensorLike) -> Tensor:
        number = _number(step)
        after = clip(number - count, 0.0)
        rate = schedule(after) if callable(schedule) else as_tensor(float(schedule))
        return rate * clip(number / count, 0.0, 1.0)

    return warm
