"""Optimizers that step along the gradient or its sign: SGD and Lion."""

from __future__ import annotations

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.ops.signs import sign
from tapeline.runtime.optimizers.base import LearningRate, Optimizer, Slots, Step
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable


class SGD(Optimizer):
    """Gradient descent, with momentum if asked.

    A sparse gradient changes only the rows that it names, and only their momentum: that of the
    others waits for their next turn. With a weight decay, which concerns all rows, it is made
    dense.

    `v = momentum * v + g`, then `x -= rate * v`; with Nesterov's momentum
    `x -= rate * (g + momentum * v)`.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        See `Optimizer`.
    momentum : float
        How much of the former step is kept.
    nesterov : bool
        Look ahead along the momentum.
    weight_decay : float
        This much of the value is added to the gradient.
    clip_norm : float, optional
        See `Optimizer`.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0, 2.0])
    >>> optimizer = tl.optimizers.SGD(0.5)
    >>> optimizer.apply([tl.asarray([1.0, 1.0])], [x])
    >>> x.numpy()
    array([0.5, 1.5])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
    ) -> None:
        kept = ("momentum",) if momentum else ()
        super().__init__(learning_rate, clip_norm, kept, takes_rows=not weight_decay)
        if nesterov and not momentum:
            raise ArgumentError("SGD: nesterov needs a momentum above 0")
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = weight_decay

    def _update_rows(
        self, rows: IndexedSlices, variable: Variable, slots: dict[str, Variable], step: Step
    ) -> None:
        if self.momentum:
            super()._update_rows(rows, variable, slots, step)
        else:
            variable.assign_sub(rows * step.rate)

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        if self.weight_decay:
            gradient = gradient + value * self.weight_decay
        if not self.momentum:
            return value - gradient * step.rate
        kept = slots["momentum"]
        velocity = kept.read_value() * self.momentum + gradient
        kept.assign(velocity)
        if self.nesterov:
            velocity = gradient + velocity * self.momentum
        return value - velocity * step.rate


class Lion(Optimizer):
    """Steps of one size along the sign of a mean of gradients.

    `x -= rate * (sign(b1 * m + (1 - b1) * g) + weight_decay * x)`, then
    `m = b2 * m + (1 - b2) * g`. Sparse gradients are taken as in `SGD`.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        See `Optimizer`.
    beta1, beta2 : float
        Decay of the mean for the step, and of the mean that is kept.
    weight_decay : float
        How fast values decay, in parts of the learning rate.
    clip_norm : float, optional
        See `Optimizer`.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.Variable([1.0, 2.0])
    >>> tl.optimizers.Lion(0.5).apply([tl.asarray([7.0, -0.1])], [x])
    >>> x.numpy()
    array([0.5, 2.5])
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-4,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
    ) -> None:
        super().__init__(learning_rate, clip_norm, ("mean",), takes_rows=not weight_decay)
        self.beta1, self.beta2 = beta1, beta2
        self.weight_decay = weight_decay

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        mean = slots["mean"].read_value()
        change = sign(mean * self.beta1 + gradient * (1.0 - self.beta1))
        slots["mean"].assign(mean * self.beta2 + gradient * (1.0 - self.beta2))
        if self.weight_decay:
            change = change + value * self.weight_decay
        return value - change * step.rate
