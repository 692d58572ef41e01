"""Cross entropy of softmax, straight from the logits, for dense and for integer labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.errors import DTypeError, IndexOutOfRangeError, ShapeError
from tapeline.runtime.op import Attrs, Expansion, LibraryCall, Sample, define_op, get_op
from tapeline.runtime.ops.axes import Array, as_index
from tapeline.runtime.ops.batch_rules import batch_changed, batch_leading, next_axis
from tapeline.runtime.ops.extrema import max_reduce
from tapeline.runtime.ops.gather import index_tensor, require_int_dtype
from tapeline.runtime.ops.pointwise import along, apply, call, check_dtype
from tapeline.runtime.ops.reduction import SUM, add_reduce
from tapeline.runtime.ops.shaping import EXPAND_DIMS, broadcast_arrays
from tapeline.runtime.ops.softmax import (
    LOG_SOFTMAX,
    SOFTMAX,
    log_softmax_array,
    logsumexp_array,
)
from tapeline.runtime.promotion import promote, promote_named, promote_one
from tapeline.runtime.spec import (
    DType,
    TensorSpec,
    broadcast_shapes,
    canonical_dtype,
    normalize_axis,
    spec_of,
)
from tapeline.runtime.tensor import Tensor, TensorLike, cast_tensor, new_tensor

# --- one_hot ---------------------------------------------------------------------------------


def _one_hot_kernel(labels: Array, depth: int, dtype: DType) -> Array:
    return np.equal(labels[..., None], np.arange(depth)).astype(dtype)


def _one_hot_infer(labels: TensorSpec, depth: int, dtype: DType) -> TensorSpec:
    require_int_dtype("one_hot", labels.dtype)
    return spec_of((*labels.static_shape, depth), dtype)


def _one_hot_expand(labels: Tensor, depth: int, dtype: DType) -> Tensor:
    column = apply(EXPAND_DIMS, labels, attrs=((labels.ndim,),))
    places = cast_tensor(new_tensor(np.arange(depth)), labels.dtype)
    return cast_tensor(column == places, dtype)


ONE_HOT = define_op(
    "one_hot",
    batch=batch_leading,
    kernel=_one_hot_kernel,
    infer=_one_hot_infer,
    attr_names=("depth", "dtype"),
    vjps=(None,),
    emit=Expansion(_one_hot_expand),
    kinds="iu",
    samples=(
        Sample((lambda rng: rng.integers(0, 3, (4,)),), (3, np.dtype(np.float32))),
        Sample((lambda rng: rng.integers(-1, 4, (2, 2)),), (3, np.dtype(np.int64))),
    ),
)


def one_hot(labels: TensorLike, /, depth: int, *, dtype: Any = np.float64) -> Tensor:
    """For each label a row of zeros with a one at the label's place.

    Parameters
    ----------
    labels : TensorLike of int
        Places of the ones; a label outside of the row gives zeros only.
    depth : int
        Length of the rows.
    dtype : dtype-like
        Element type of the result.

    Returns
    -------
    Tensor, shape (*labels.shape, depth)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.one_hot([0, 2], 3).numpy()
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    tensor = index_tensor("one_hot", labels, "labels")
    attrs = (as_index("one_hot", depth), canonical_dtype(dtype, "one_hot: dtype"))
    return apply(ONE_HOT, tensor, attrs=attrs)


# --- dense labels ----------------------------------------------------------------------------


def _cross_entropy_kernel(logits: Array, labels: Array, axis: int) -> Any:
    return -add_reduce(labels * log_softmax_array(logits, axis), axis)


def _cross_entropy_infer(logits: TensorSpec, labels: TensorSpec, axis: int) -> TensorSpec:
    check_dtype("softmax_cross_entropy", logits.dtype, "f")
    shape = logits.static_shape
    if labels.static_shape != shape:
        raise ShapeError(
            f"softmax_cross_entropy: logits have shape {shape}, labels {labels.static_shape}; they "
            f"must be equal (for integer labels use tl.sparse_softmax_cross_entropy)"
        )
    if labels.dtype != logits.dtype:
        raise DTypeError(
            f"softmax_cross_entropy: dtypes {logits.dtype} and {labels.dtype} differ; cast one"
        )
    return spec_of((*shape[:axis], *shape[axis + 1 :]), logits.dtype)


def _kept(ct: Any, axis: Any) -> Any:
    return call(EXPAND_DIMS, ct, attrs=((axis,),))


def _cross_entropy_vjp_logits(ct: Any, attrs: Attrs, logits: Any, labels: Any) -> Any:
    mass = call(SUM, labels, attrs=((attrs[0],), True))
    return along(_kept(ct, attrs[0]), call(SOFTMAX, logits, attrs=attrs) * mass - labels)


def _cross_entropy_vjp_labels(ct: Any, attrs: Attrs, logits: Any, labels: Any) -> Any:
    return -along(_kept(ct, attrs[0]), call(LOG_SOFTMAX, logits, attrs=attrs))


def _cross_entropy_expand(logits: Tensor, labels: Tensor, axis: int) -> Any:
    log_probabilities = apply(LOG_SOFTMAX, logits, attrs=(axis,))
    return -apply(SUM, labels * log_probabilities, attrs=((axis,), False))


SOFTMAX_CROSS_ENTROPY = define_op(
    "softmax_cross_entropy",
    batch=batch_changed(next_axis),
    kernel=_cross_entropy_kernel,
    infer=_cross_entropy_infer,
    n_inputs=2,
    attr_names=("axis",),
    saves=(0, 1),
    vjps=(_cross_entropy_vjp_logits, _cross_entropy_vjp_labels),
    emit=Expansion(_cross_entropy_expand),
    kinds="f",
    ulp=(16.0, 16.0),
    samples=(
        Sample(((3, 4), (3, 4)), (1,)),
        Sample(((3, 4), (3, 4)), (0,)),
        Sample(((5,), (5,)), (0,)),
    ),
)


def softmax_cross_entropy(logits: TensorLike, labels: TensorLike, /, axis: int = -1) -> Tensor:
    """The cross entropy between labels and the softmax of logits, one loss per row.

    Parameters
    ----------
    logits : TensorLike of float, shape (..., classes)
        Unscaled log probabilities.
    labels : TensorLike of float
        Probabilities of the classes; broadcast against the logits.
    axis : int
        Axis of the classes.

    Returns
    -------
    Tensor of float, the shape of the logits without `axis`

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.softmax_cross_entropy([[0.0, 0.0]], [[0.5, 0.5]]).numpy()
    array([0.69314718])
    """
    first, second = promote_named(
        SOFTMAX_CROSS_ENTROPY, promote, logits, labels, ("logits", "labels")
    )
    if first.shape != second.shape:
        broadcast_shapes("softmax_cross_entropy: logits and labels", first.shape, second.shape)
        first, second = broadcast_arrays(first, second)
    attrs = (normalize_axis("softmax_cross_entropy", axis, first.ndim),)
    return apply(SOFTMAX_CROSS_ENTROPY, first, second, attrs=attrs)


# --- integer labels --------------------------------------------------------------------------


def _check_labels(labels: Array, classes: int) -> None:
    if not labels.size:
        return
    unsigned = labels.view(f"u{labels.dtype.itemsize}")  # a negative label is a large one here
    if max_reduce(unsigned, None) >= classes:
        label = labels[unsigned >= classes].flat[0]
        raise IndexOutOfRangeError(
            f"sparse_softmax_cross_entropy: label {label} is out of range for {classes} classes "
            f"(the last axis of the logits)"
        )


def _sparse_kernel(logits: Array, labels: Array) -> Any:
    _check_labels(labels, logits.shape[-1])
    chosen = logits.reshape(-1, logits.shape[-1])[np.arange(labels.size), labels.reshape(-1)]
    return logsumexp_array(logits, (logits.ndim - 1,), False) - chosen.reshape(labels.shape)


def _sparse_infer(logits: TensorSpec, labels: TensorSpec) -> TensorSpec:
    check_dtype("sparse_softmax_cross_entropy", logits.dtype, "f")
    require_int_dtype("sparse_softmax_cross_entropy", labels.dtype)
    shape = logits.static_shape
    if not shape or labels.static_shape != shape[:-1]:
        raise ShapeError(
            f"sparse_softmax_cross_entropy: logits have shape {shape}, labels "
            f"{labels.static_shape}; labels must have the shape of the logits without the last axis"
        )
    return spec_of(labels.static_shape, logits.dtype)


def _sparse_vjp(ct: Any, attrs: Attrs, logits: Any, labels: Any) -> Any:
    axis = len(logits.shape) - 1
    target = call(ONE_HOT, labels, attrs=(logits.shape[-1], logits.dtype))
    return along(_kept(ct, axis), call(SOFTMAX, logits, attrs=(axis,)) - target)


def _checked_labels_kernel(labels: Array, classes: int) -> Array:
    _check_labels(labels, classes)
    return labels


def _checked_labels_infer(labels: TensorSpec, classes: int) -> TensorSpec:
    require_int_dtype("sparse_softmax_cross_entropy", labels.dtype)
    return labels


CHECK_LABELS = define_op(
    "check_labels",
    batch=batch_leading,
    kernel=_checked_labels_kernel,
    infer=_checked_labels_infer,
    attr_names=("classes",),
    vjps=(None,),
    emit=LibraryCall("check_indices"),
    kinds="iu",
    samples=(Sample((lambda rng: rng.integers(0, 3, (4,)),), (3,)),),
)
"""The labels themselves, once they are known to be valid."""


def _sparse_expand(logits: Tensor, labels: Tensor) -> Any:
    """The chosen term is the only one in a sum: cheaper than a gather, and it fuses."""
    axis = logits.ndim - 1
    checked = apply(CHECK_LABELS, labels, attrs=(logits.shape[-1],))
    chosen = apply(ONE_HOT, checked, attrs=(logits.shape[-1], np.dtype(np.bool)))
    log_probabilities = apply(LOG_SOFTMAX, logits, attrs=(axis,))
    zero = new_tensor(np.zeros((), logits.dtype))
    terms = apply(get_op("where"), chosen, log_probabilities, zero)
    return -apply(SUM, terms, attrs=((axis,), False))


SPARSE_SOFTMAX_CROSS_ENTROPY = define_op(
    "sparse_softmax_cross_entropy",
    batch=batch_leading,
    kernel=_sparse_kernel,
    infer=_sparse_infer,
    n_inputs=2,
    saves=(0, 1),
    vjps=(_sparse_vjp, None),
    emit=Expansion(_sparse_expand),
    kinds="f",
    ulp=(16.0, 16.0),
    samples=(
        Sample(((3, 4), lambda rng: rng.integers(0, 4, (3,)))),
        Sample(((2, 3, 4), lambda rng: rng.integers(0, 4, (2, 3)))),
        Sample(((5,), lambda rng: rng.integers(0, 5, ()))),
    ),
)


def sparse_softmax_cross_entropy(logits: TensorLike, labels: TensorLike, /) -> Tensor:
    """The cross entropy between integer labels and the softmax of logits, one loss per row.

    Parameters
    ----------
    logits : TensorLike of float, shape (..., classes)
        Unscaled log probabilities.
    labels : TensorLike of int, shape (...)
        The true class of each row.

    Returns
    -------
    Tensor of float, shape (...)

    Raises
    ------
    IndexOutOfRangeError
        If a label is negative or not below the number of classes.
    ShapeError
        If the labels do not have the shape of the logits without the last axis.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.sparse_softmax_cross_entropy([[0.0, 0.0], [0.0, 1000.0]], [1, 1]).numpy()
    array([0.69314718, 0.        ])
    """
    scores = promote_one(SPARSE_SOFTMAX_CROSS_ENTROPY, logits)
    classes = index_tensor("sparse_softmax_cross_entropy", labels, "labels")
    _sparse_infer(spec_of(scores.shape, scores.dtype), spec_of(classes.shape, classes.dtype))
    return apply(SPARSE_SOFTMAX_CROSS_ENTROPY, scores, classes)
