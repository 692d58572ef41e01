"""Losses with margins, of probabilities, and of the parameters of distributions."""

from __future__ import annotations

import math

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.arithmetic import DIVIDE
from tapeline.runtime.ops.entropies import xlog1py, xlogy
from tapeline.runtime.ops.exponential import exp, log
from tapeline.runtime.ops.gamma_functions import gammaln
from tapeline.runtime.ops.norms import vector_norm
from tapeline.runtime.ops.objectives import check_reduction, difference_of, reduced
from tapeline.runtime.ops.selection import maximum
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def hinge(prediction: TensorLike, target: TensorLike, /, reduction: str = "mean") -> Tensor:
    """How much `target * prediction` falls short of 1, for targets of 1 and -1.

    Parameters
    ----------
    prediction, target : TensorLike of float
        Of one shape.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.hinge([2.0, 0.5, 0.5], [1.0, 1.0, -1.0], reduction="none").numpy()
    array([0. , 0.5, 1.5])
    """
    check_reduction("hinge", reduction)
    difference_of("hinge", prediction, target)
    product = promote_one(DIVIDE, prediction) * promote_one(DIVIDE, target)
    return reduced(maximum(1.0 - product, 0.0), reduction)


def triplet_margin(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    /,
    *,
    margin: float = 1.0,
    ord: float = 2,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer than by `margin` a vector is to a negative than to a positive example.

    Parameters
    ----------
    anchor, positive, negative : TensorLike of float, shape (..., n)
        The vectors.
    margin : float
        By how much the negative example should be farther away.
    ord : float
        Which norm of the differences, as of `tl.linalg.vector_norm`.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each vector where `reduction` is "none".

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.triplet_margin([0.0, 0.0], [3.0, 4.0], [0.0, 5.5]).item()
    0.5
    """
    check_reduction("triplet_margin", reduction)
    near = vector_norm(difference_of("triplet_margin", anchor, positive), axis=-1, ord=ord)
    far = vector_norm(difference_of("triplet_margin", anchor, negative), axis=-1, ord=ord)
    return reduced(maximum(near - far + margin, 0.0), reduction)


def binary_cross_entropy(
    probability: TensorLike, target: TensorLike, /, reduction: str = "mean"
) -> Tensor:
    """Cross entropy of two classes, of probabilities; see `binary_cross_entropy_with_logits`.

    Parameters
    ----------
    probability : TensorLike of float
        The probability of the second class, from 0 to 1.
    target : TensorLike of float, shape of `probability`
        What it should be, 0, 1 or between.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none". Infinite where something
        happens that has probability 0.

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.binary_cross_entropy([0.5, 1.0], [0.0, 1.0], reduction="none").numpy()
    array([0.69314718, 0.        ])
    """
    check_reduction("binary_cross_entropy", reduction)
    difference_of("binary_cross_entropy", probability, target)
    p, t = promote_one(DIVIDE, probability), promote_one(DIVIDE, target)
    return reduced(0.0 - (xlogy(t, p) + xlog1py(1.0 - t, -p)), reduction)


def poisson_nll(
    log_rate: TensorLike, target: TensorLike, /, *, full: bool = False, reduction: str = "mean"
) -> Tensor:
    """The negative log-likelihood of counts under Poisson distributions.

    Parameters
    ----------
    log_rate : TensorLike of float
        The logarithms of the means.
    target : TensorLike of float or int, shape of `log_rate`
        The counts.
    full : bool
        Whether to add the term `gammaln(target + 1)`, which does not depend on the rate.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is unknown.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.poisson_nll([0.0, 0.0], [1.0, 3.0], full=True, reduction="none").numpy()
    array([1.        , 2.79175947])
    """
    check_reduction("poisson_nll", reduction)
    difference_of("poisson_nll", log_rate, target)
    rate, count = promote_one(DIVIDE, log_rate), promote_one(DIVIDE, target)
    losses = exp(rate) - count * rate
    return reduced(losses + gammaln(count + 1.0) if full else losses, reduction)


def gaussian_nll(
    prediction: TensorLike,
    target: TensorLike,
    variance: TensorLike,
    /,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of numbers under normal distributions.

    Parameters
    ----------
    prediction, target : TensorLike of float
        The means and the numbers, of one shape.
    variance : TensorLike of float
        Of that shape or one that broadcasts to it.
    full : bool
        Whether to add `log(2 * pi) / 2`, which depends on nothing.
    epsilon : float
        The least variance, above 0.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is unknown, or epsilon not above 0.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.gaussian_nll([1.0, 2.0], [1.0, 4.0], 1.0, reduction="none").numpy()
    array([0., 2.])
    """
    check_reduction("gaussian_nll", reduction)
    if not epsilon > 0:
        raise ArgumentError(f"gaussian_nll: epsilon must be above 0, got {epsilon}")
    error = difference_of("gaussian_nll", prediction, target)
    spread = maximum(promote_one(DIVIDE, variance), epsilon)
    losses = 0.5 * (log(spread) + error * error / spread)
    return reduced(losses + _HALF_LOG_TWO_PI if full else losses, reduction)
