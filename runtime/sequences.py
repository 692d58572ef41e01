"""Losses over sequences, which run along time as loops do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.loops import scan
from tapeline.runtime.ops.along_axis import take_along_axis
from tapeline.runtime.ops.exponential import EXP, exp, log
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.selection import maximum, where
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims, reshape
from tapeline.runtime.ops.softmax import log_softmax
from tapeline.runtime.ops.statistics import mean as mean_over
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor

_NEVER = -1e30
"""The logarithm of an impossible event: finite, so that gradients are too."""


def ctc_loss(
    logits: TensorLike,
    labels: TensorLike,
    logit_lengths: TensorLike | None = None,
    label_lengths: TensorLike | None = None,
    /,
    *,
    blank: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """Connectionist temporal classification: minus the log probability of label sequences.

    At each step a model names a class or the blank. What it says stands for a label sequence when
    runs of one class are made one and blanks are left out; all ways to say it count.

    Parameters
    ----------
    logits : TensorLike of float, shape (batch, steps, classes)
        Scores before the softmax over classes.
    labels : TensorLike of int, shape (batch, length)
        Classes other than the blank. What lies beyond a sequence's length does not matter.
    logit_lengths, label_lengths : TensorLike of int, shape (batch,), optional
        How many steps and labels each sequence has; by default all.
    blank : int
        The class of the blank.
    reduction : str
        "mean" of all losses, their "sum", or "none": each loss.

    Returns
    -------
    Tensor of float, 0-d unless `reduction` is "none"
        Infinity where there are too few steps for the labels; the gradient there is 0.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    ArgumentError
        If the blank is no class, or the reduction is not one of the three.

    Examples
    --------
    >>> import tapeline as tl
    >>> logits = tl.zeros((1, 2, 3))
    >>> round(tl.exp(-tl.nn.ctc_loss(logits, [[1]])).item(), 4)
    0.3333
    """
    scores = promote_one(EXP, as_tensor(logits, argument="ctc_loss: logits"))
    wanted = as_tensor(labels, argument="ctc_loss: labels")
    if scores.ndim != 3 or wanted.ndim != 2 or scores.shape[0] != wanted.shape[0]:
        raise ShapeError(
            f"ctc_loss: logits have shape {scores.shape}, labels {wanted.shape}; expected "
            f"(batch, steps, classes) and (batch, length)"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(
            f"ctc_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}"
        )
    batch, steps, classes = scores.shape
    if not 0 <= blank < classes:
        raise ArgumentError(f"ctc_loss: blank must be one of {classes} classes, got {blank}")
    n_steps = _lengths("logit_lengths", logit_lengths, batch, steps)
    n_labels = _lengths("label_lengths", label_lengths, batch, wanted.shape[1])
    inside = as_tensor(np.arange(wanted.shape[1])) < expand_dims(n_labels, 1)
    wanted = where(inside, cast_tensor(wanted, np.dtype(np.int64)), blank)
    path, may_skip = _path(wanted, blank)
    log_probabilities = log_softmax(scores, axis=-1)
    places = broadcast_to(expand_dims(path, 1), (batch, steps, path.shape[1]))
    emitted = moveaxis(take_along_axis(log_probabilities, places, axis=2), 1, 0)
    found = _forward(emitted, may_skip, n_steps, n_labels)
    losses = where(found < _NEVER / 2, np.inf, -found)
    if reduction == "none":
        return losses
    return mean_over(losses) if reduction == "mean" else sum_over(losses)


def _lengths(name: str, given: TensorLike | None, batch: int, whole: int) -> Tensor:
    if given is None:
        return as_tensor(np.full(batch, whole))
    lengths = as_tensor(given, argument=f"ctc_loss: {name}")
    if lengths.shape != (batch,) or lengths.dtype.kind not in "iu":
        raise ShapeError(
            f"ctc_loss: {name} must be ints of shape ({batch},), got {lengths.dtype} of shape "
            f"{lengths.shape}"
        )
    return lengths


def _path(labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Blank, label, blank, label, ..., blank; and which of these may follow the label before last
    without the blank in between."""
    batch, count = labels.shape
    blanks = broadcast_to(as_tensor(blank), (batch, count, 1))
    pairs = concat([blanks, expand_dims(labels, 2)], axis=2)
    path = concat([reshape(pairs, (batch, 2 * count)), blanks[:, :1, 0]], axis=1) if count else (
        broadcast_to(as_tensor(blank), (batch, 1))
    )  # fmt: skip
    if path.shape[1] < 3:
        return path, as_tensor(np.zeros(path.shape, np.bool_))
    differs = (path[:, 2:] != path[:, :-2]) & (path[:, 2:] != blank)
    first = as_tensor(np.zeros((batch, 2), np.bool_))
    return path, concat([first, differs], axis=1)


def _forward(emitted: Tensor, may_skip: Tensor, n_steps: Tensor, n_labels: Tensor) -> Tensor:
    """The log probability of each sequence, summed over all ways, step by step."""
    steps, batch, width = emitted.shape
    never = as_tensor(np.full((batch, 2), _NEVER), emitted.dtype)
    is_start = as_tensor(np.arange(width) < 2)
    start = where(is_start, as_tensor(0.0, emitted.dtype), as_tensor(_NEVER, emitted.dtype))
    state = broadcast_to(start, (batch, width)) + emitted[0]

    def turn(carried: Any, given: Any) -> Any:
        now, step = given
        one = concat([never[:, :1], carried[:, :-1]], axis=1)
        two = concat([never, carried[:, :-2]], axis=1)[:, :width]
        two = where(may_skip, two, as_tensor(_NEVER, two.dtype))
        largest = maximum(maximum(carried, one), two)
        sums = exp(carried - largest) + exp(one - largest) + exp(two - largest)
        moved = maximum(largest + log(sums) + now, as_tensor(_NEVER, now.dtype))
        return where(expand_dims(step < n_steps, 1), moved, carried), None

    if steps > 1:
        state, _ = scan(turn, state, (emitted[1:], as_tensor(np.arange(1, steps))))
    ends = expand_dims(2 * n_labels, 1)
    last = take_along_axis(state, ends, axis=1)[:, 0]
    before = take_along_axis(state, maximum(ends - 1, 0), axis=1)[:, 0]
    before = where(n_labels > 0, before, as_tensor(_NEVER, before.dtype))
    largest = maximum(last, before)
    return largest + log(exp(last - largest) + exp(before - largest))
