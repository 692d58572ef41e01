"""Optimizers with a rate of its own for each element: Adam, AdamW, RMSprop, Adagrad."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.selection import maximum
from tapeline.runtime.optimizers.base import LearningRate, Optimizer, Slots, Step
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable


class Adam(Optimizer):
    """Steps along the decaying mean of the gradients, over the root of that of their squares.

    Both means are divided by what part of them is filled, so the first steps are not too small.
    A sparse gradient changes only the rows that it names, and only their means: those of the others
    wait for their next turn. With a weight decay, which concerns all rows, it is made dense.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        See `Optimizer`.
    beta1, beta2 : float
        Decay of the mean of the gradients, and of that of their squares.
    epsilon : float
        Added to the root.
    weight_decay : float
        This much of the value is added to the gradient.
    clip_norm : float, optional
        See `Optimizer`.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0, 2.0])
    >>> optimizer = tl.optimizers.Adam(0.1, epsilon=0.0)
    >>> optimizer.apply([tl.asarray([5.0, -0.01])], [x])
    >>> x.numpy()
    array([0.9, 2.1])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
    ) -> None:
        kept = ("mean", "square")
        super().__init__(learning_rate, clip_norm, kept, takes_rows=not weight_decay)
        self.beta1, self.beta2 = beta1, beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        if self.weight_decay:
            gradient = gradient + value * self.weight_decay
        return value - self._change(gradient, slots, step)

    def _change(self, gradient: Tensor, slots: Slots, step: Step) -> Tensor:
        mean = slots["mean"].read_value() * self.beta1 + gradient * (1.0 - self.beta1)
        old = slots["square"].read_value()
        square = old * self.beta2 + gradient * gradient * (1.0 - self.beta2)
        slots["mean"].assign(mean)
        slots["square"].assign(square)
        size = step.rate / step.correction(self.beta1)
        root = sqrt(square) / sqrt(step.correction(self.beta2))
        return mean / (root + self.epsilon) * size


class AdamW(Adam):
    """`Adam` where the values themselves decay, by `rate * weight_decay` at each step, rather than
    through the gradients.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0])
    >>> tl.optimizers.AdamW(0.1, epsilon=0.0, weight_decay=0.5).apply([tl.asarray([5.0])], [x])
    >>> x.numpy()
    array([0.85])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, weight_decay, clip_norm)

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        decayed = value - value * (step.rate * self.weight_decay)
        return decayed - self._change(gradient, slots, step)


class RMSprop(Optimizer):
    """Gradients over the root of the decaying mean of their squares, with momentum if asked.

    Sparse gradients are taken as in `Adam`.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        See `Optimizer`.
    decay : float
        Decay of the mean of the squares.
    momentum : float
        How much of the former step is kept.
    epsilon : float
        Added to the root.
    centered : bool
        Take the variance in place of the mean of the squares.
    clip_norm : float, optional
        See `Optimizer`.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0, 2.0])
    >>> tl.optimizers.RMSprop(0.1, decay=0.75, epsilon=0.0).apply([tl.asarray([4.0, -1.0])], [x])
    >>> x.numpy()
    array([0.8, 2.2])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-2,
        decay: float = 0.99,
        momentum: float = 0.0,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_norm: float | None = None,
    ) -> None:
        used = {"square": True, "mean": centered, "momentum": bool(momentum)}
        super().__init__(learning_rate, clip_norm, tuple(name for name in used if used[name]))
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        rest = 1.0 - self.decay
        square = slots["square"].read_value() * self.decay + gradient * gradient * rest
        slots["square"].assign(square)
        if self.centered:
            mean = slots["mean"].read_value() * self.decay + gradient * rest
            slots["mean"].assign(mean)
            square = maximum(square - mean * mean, 0.0)
        change = gradient / (sqrt(square) + self.epsilon)
        if self.momentum:
            change = slots["momentum"].read_value() * self.momentum + change
            slots["momentum"].assign(change)
        return value - change * step.rate


class Adagrad(Optimizer):
    """Gradients over the root of the sum of all their squares so far.

    A sparse gradient changes only the rows that it names, which is all that its zeros would leave.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        See `Optimizer`.
    initial : float
        What the sums start from.
    epsilon : float
        Added to the root.
    clip_norm : float, optional
        See `Optimizer`.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0, 2.0])
    >>> tl.optimizers.Adagrad(0.1).apply([tl.asarray([4.0, -1.0])], [x])
    >>> x.numpy()
    array([0.9, 2.1])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-2,
        initial: float = 0.0,
        epsilon: float = 1e-10,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, clip_norm, ("sum",))
        self.initial = initial
        self.epsilon = epsilon

    def _initial(self, name: str, variable: Variable) -> npt.NDArray[Any]:
        return np.full(variable.shape, self.initial, variable.dtype)

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        total = slots["sum"].read_value() + gradient * gradient
        slots["sum"].assign(total)
        return value - gradient / (sqrt(total) + self.epsilon) * step.rate
