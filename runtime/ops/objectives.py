"""Losses of models against targets, made of simpler ops and reduced as asked."""

from __future__ import annotations

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.ops.activations import softplus
from tapeline.runtime.ops.arithmetic import SUBTRACT
from tapeline.runtime.ops.axes import Axis
from tapeline.runtime.ops.exponential import log
from tapeline.runtime.ops.gather import index_tensor
from tapeline.runtime.ops.losses import (
    SOFTMAX_CROSS_ENTROPY,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import maximum, where
from tapeline.runtime.ops.signs import abs as size_of
from tapeline.runtime.ops.softmax import logsumexp
from tapeline.runtime.ops.statistics import mean as mean_over
from tapeline.runtime.promotion import promote, promote_one
from tapeline.runtime.spec import normalize_axis
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_REDUCTIONS = ("mean", "sum", "none")


def check_reduction(op_name: str, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ArgumentError(f"{op_name}: reduction must be one of {_REDUCTIONS}, got {reduction!r}")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """All losses, their sum or their mean."""
    if reduction == "none":
        return losses
    return mean_over(losses) if reduction == "mean" else sum_over(losses)


def difference_of(op_name: str, prediction: TensorLike, target: TensorLike) -> Tensor:
    """Prediction less target; they must have one shape, for a broadcast here is a slip."""
    first = as_tensor(prediction, argument=f"{op_name}: prediction")
    second = as_tensor(target, argument=f"{op_name}: target")
    if first.shape != second.shape:
        raise ShapeError(
            f"{op_name}: the prediction has shape {first.shape}, the target {second.shape}; they "
            f"must be equal"
        )
    first, second = promote(SUBTRACT, first, second)
    return promote_one(SOFTMAX_CROSS_ENTROPY, first) - promote_one(SOFTMAX_CROSS_ENTROPY, second)


# --- of numbers ------------------------------------------------------------------------------


def mse(prediction: TensorLike, target: TensorLike, /, reduction: str = "mean") -> Tensor:
    """The squared differences between predictions and targets.

    Parameters
    ----------
    prediction, target : TensorLike of float
        Of one shape; ints are taken as floats.
    reduction : str
        "mean" of all losses, their "sum", or "none": each loss.

    Returns
    -------
    Tensor of float, 0-d unless `reduction` is "none"

    Raises
    ------
    ShapeError
        If the shapes differ.
    ArgumentError
        If the reduction is not one of the three.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.mse([1.0, 2.0], [1.0, 4.0]).item()
    2.0
    """
    check_reduction("mse", reduction)
    error = difference_of("mse", prediction, target)
    return reduced(error * error, reduction)


def mae(prediction: TensorLike, target: TensorLike, /, reduction: str = "mean") -> Tensor:
    """The sizes of the differences between predictions and targets.

    Parameters
    ----------
    prediction, target : TensorLike of float
        Of one shape; ints are taken as floats.
    reduction : "mean", "sum" or "none"
        What becomes of the numbers.

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.mae([1.0, 2.0], [1.0, 4.0]).item()
    1.0
    """
    check_reduction("mae", reduction)
    return reduced(size_of(difference_of("mae", prediction, target)), reduction)


def huber(
    prediction: TensorLike, target: TensorLike, /, delta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Half of the squared difference up to `delta`, and from there on a line of slope `delta`.

    Parameters
    ----------
    prediction, target : TensorLike of float
        Of one shape.
    delta : float
        Where the parabola ends, above 0.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.huber([1.0, 5.0], [2.0, 1.0], reduction="none").numpy()
    array([0.5, 3.5])
    """
    check_reduction("huber", reduction)
    if not delta > 0:
        raise ArgumentError(f"huber: delta must be above 0, got {delta}")
    error = difference_of("huber", prediction, target)
    size = size_of(error)
    line = (size - 0.5 * delta) * float(delta)
    return reduced(where(size <= delta, error * error * 0.5, line), reduction)


# --- of classes ------------------------------------------------------------------------------


def cross_entropy(
    logits: TensorLike,
    labels: TensorLike,
    /,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy between labels and the softmax of logits.

    Parameters
    ----------
    logits : TensorLike of float
        Unscaled log probabilities of the classes.
    labels : TensorLike
        Ints: the true class of each row, of the shape of the logits without `axis`. Floats: the
        probabilities of the classes, of the shape of the logits.
    axis : int
        Axis of the classes.
    label_smoothing : float
        The share, from 0 to 1, of each label that is spread evenly over all classes.
    ignore_index : int, optional
        Rows with this label do not count: their loss is 0, and the mean is one of the others (0 if
        there are none). Only for int labels.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Raises
    ------
    IndexOutOfRangeError
        If a label is no class and not ignored.
    ShapeError
        If the labels do not fit the logits.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.cross_entropy([[0.0, 0.0], [0.0, 1000.0]], [1, -1], ignore_index=-1).item()
    0.6931471805599453
    """
    check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}"
        )
    scores = promote_one(SOFTMAX_CROSS_ENTROPY, logits)
    target = as_tensor(labels, argument="cross_entropy: labels")
    axis = normalize_axis("cross_entropy", axis, scores.ndim)
    if axis != scores.ndim - 1:
        scores = moveaxis(scores, axis, -1)
        target = moveaxis(target, axis, -1) if target.dtype.kind == "f" else target
    if target.dtype.kind == "f":
        if ignore_index is not None:
            raise ArgumentError("cross_entropy: ignore_index needs int labels, these are floats")
        losses = softmax_cross_entropy(scores, target)
        return reduced(_smoothed(losses, scores, label_smoothing), reduction)
    target = index_tensor("cross_entropy", target)
    if ignore_index is None:
        losses = sparse_softmax_cross_entropy(scores, target)
        return reduced(_smoothed(losses, scores, label_smoothing), reduction)
    counts = target != ignore_index
    losses = sparse_softmax_cross_entropy(scores, where(counts, target, 0))
    losses = where(counts, _smoothed(losses, scores, label_smoothing), 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    count = cast_tensor(sum_over(counts), losses.dtype)
    return sum_over(losses) / maximum(count, 1.0)


def _smoothed(losses: Tensor, scores: Tensor, smoothing: float) -> Tensor:
    """The losses with a share of them replaced by that of even labels."""
    if smoothing == 0:
        return losses
    even = logsumexp(scores, axis=-1) - mean_over(scores, axis=-1)
    return losses * (1.0 - smoothing) + even * float(smoothing)


def binary_cross_entropy_with_logits(
    logits: TensorLike,
    labels: TensorLike,
    /,
    *,
    positive_weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy between labels from 0 to 1 and the logistic function of logits.

    Parameters
    ----------
    logits, labels : TensorLike of float
        Of one shape.
    positive_weight : TensorLike of float, optional
        What the part of label 1 is multiplied by; broadcasts.
    reduction : str
        "mean", "sum" or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.binary_cross_entropy_with_logits([0.0, 1000.0], [1.0, 1.0], reduction="none").numpy()
    array([0.69314718, 0.        ])
    """
    op_name = "binary_cross_entropy_with_logits"
    check_reduction(op_name, reduction)
    difference_of(op_name, logits, labels)
    x, y = promote(SOFTMAX_CROSS_ENTROPY, logits, labels)
    if positive_weight is None:
        return reduced(softplus(x) - x * y, reduction)
    weight = as_tensor(positive_weight, x.dtype, f"{op_name}: positive_weight")
    return reduced(x * (1.0 - y) + softplus(-x) * (1.0 + (weight - 1.0) * y), reduction)


def kl_divergence(
    log_probabilities: TensorLike,
    target: TensorLike,
    /,
    *,
    axis: Axis = -1,
    reduction: str = "mean",
) -> Tensor:
    """The divergence of a model's log probabilities from target probabilities, one per row.

    It is the sum of `target * (log(target) - log_probabilities)`, with 0 where the target is 0.

    Parameters
    ----------
    log_probabilities : TensorLike of float
        Such as `tl.log_softmax` gives.
    target : TensorLike of float
        Probabilities, of the same shape.
    axis : int, sequence of int or None
        Axes of the classes; all of them for None.
    reduction : str
        "mean" of the rows, their "sum", or "none".

    Returns
    -------
    Tensor of float
        0-d, or one number for each sample where `reduction` is "none".

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.kl_divergence(tl.log_softmax([[0.0, 0.0]]), [[1.0, 0.0]]).item()
    0.6931471805599453
    """
    check_reduction("kl_divergence", reduction)
    difference_of("kl_divergence", log_probabilities, target)
    model, wanted = promote(SOFTMAX_CROSS_ENTROPY, log_probabilities, target)
    is_possible = wanted > 0
    terms = wanted * (log(where(is_possible, wanted, 1.0)) - model)
    return reduced(sum_over(where(is_possible, terms, 0.0), axis=axis), reduction)
