"""logsumexp, softmax, log_softmax: sums of exponentials that do not overflow.

The eager kernels are direct; compiled, the ops become row-wise maxima, exponentials and sums, which
one kernel carries out while the row is hot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.runtime.op import OUT, Attrs, Expansion, Op, Sample, define_op, get_op
from tapeline.runtime.ops.axes import Array, Axis, normalize_axes
from tapeline.runtime.ops.batch_rules import batch_changed, next_axes, next_axis
from tapeline.runtime.ops.extrema import MAX, max_reduce
from tapeline.runtime.ops.pointwise import along, apply, call, check_dtype
from tapeline.runtime.ops.reduction import SUM, add_reduce, keep, reduced_shape
from tapeline.runtime.ops.shaping import SQUEEZE
from tapeline.runtime.promotion import constant, narrowed, promote_one
from tapeline.runtime.spec import TensorSpec, normalize_axis, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike

# --- logsumexp -------------------------------------------------------------------------------


def _finite_max(x: Array, axes: tuple[int, ...]) -> Any:
    """The maximum with its axes kept, and 0 where it is infinite: then there is nothing to
    scale."""
    top = max_reduce(x, axes, None, None, True, -np.inf)
    return np.where(np.isinf(top), np.zeros((), x.dtype), top)


def logsumexp_array(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The kernel of `logsumexp`, for other kernels too."""
    top = _finite_max(x, axes)
    total = add_reduce(np.exp(x - top), axes, None, None, True)
    with np.errstate(divide="ignore"):
        result = np.log(total) + top
    return result if keepdims else result.reshape(reduced_shape(x.shape, axes, False))


def _logsumexp_infer(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    check_dtype("logsumexp", x.dtype, "f")
    return spec_of(reduced_shape(x.static_shape, axes, keepdims), x.dtype)


def _logsumexp_vjp(ct: Any, attrs: Attrs, x: Any, out: Any) -> Any:
    axes: tuple[int, ...]
    keepdims: bool
    axes, keepdims = attrs  # type: ignore[assignment]  # attributes are typed loosely
    shape = x.shape
    weights = call(get_op("exp"), x - keep(out, shape, axes, keepdims))
    return along(keep(ct, shape, axes, keepdims), weights)


def _logsumexp_expand(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Any:
    if x.size == 0:
        total = apply(SUM, x, attrs=(axes, keepdims))
        return apply(get_op("log"), total)
    top = apply(MAX, x, attrs=(axes, True))
    zero = constant(0.0, x.dtype)
    top = apply(get_op("where"), apply(get_op("isinf"), top), zero, top)
    total = apply(SUM, apply(get_op("exp"), x - top), attrs=(axes, True))
    result = apply(get_op("log"), total) + top
    return result if keepdims or not axes else apply(SQUEEZE, result, attrs=(axes,))


LOGSUMEXP = define_op(
    "logsumexp",
    batch=batch_changed(next_axes, None),
    kernel=logsumexp_array,
    infer=_logsumexp_infer,
    attr_names=("axes", "keepdims"),
    saves=(0, OUT),
    vjps=(_logsumexp_vjp,),
    emit=Expansion(_logsumexp_expand),
    kinds="f",
    ulp=(8.0, 8.0),
    samples=(
        Sample(((3, 4),), ((1,), False)),
        Sample(((3, 4),), ((0,), True)),
        Sample(((2, 3, 4),), ((0, 2), False)),
        Sample(((),), ((), False)),
    ),
)


def logsumexp(x: TensorLike, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of the exponentials of the elements over the given axes.

    Parameters
    ----------
    x : TensorLike of float
        The tensor; ints are taken as floats.
    axis : int, sequence of int or None
        Axes to reduce; all of them for None.
    keepdims : bool
        Whether the reduced axes stay with extent 1.

    Returns
    -------
    Tensor of float; -inf where there is no element

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.logsumexp(tl.asarray([1000.0, 1000.0])).item()
    1000.6931471805599
    """
    tensor = promote_one(LOGSUMEXP, x)
    attrs = (normalize_axes("logsumexp", axis, tensor.ndim), bool(keepdims))
    return narrowed(apply(LOGSUMEXP, tensor, attrs=attrs), x)


# --- softmax ---------------------------------------------------------------------------------

_ROW_SAMPLES = (
    Sample(((5,),), (0,)),
    Sample(((3, 4),), (1,)),
    Sample(((3, 4),), (0,)),
    Sample(((2, 3, 2),), (1,)),
    Sample(((3, 1),), (1,)),
    Sample(((3, 0),), (1,)),
)


def _same_spec(op_name: str) -> Any:
    def infer(x: TensorSpec, axis: int) -> TensorSpec:
        check_dtype(op_name, x.dtype, "f")
        return spec_of(x.static_shape, x.dtype)

    return infer


def softmax_array(x: Array, axis: int) -> Array:
    """The kernel of `softmax`, for other kernels too."""
    if x.size == 0:
        return x.copy()
    top = max_reduce(x, axis, None, None, True, -np.inf)
    powers = np.exp(x - top)
    return np.asarray(powers / add_reduce(powers, axis, None, None, True))


def _softmax_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    weighted = along(ct, out)
    return weighted - along(call(SUM, weighted, attrs=((attrs[0],), True)), out)


def _softmax_expand(x: Tensor, axis: int) -> Any:
    if x.size == 0:
        return x * 1.0
    powers = apply(get_op("exp"), x - apply(MAX, x, attrs=((axis,), True)))
    return powers / apply(SUM, powers, attrs=((axis,), True))


SOFTMAX = define_op(
    "softmax",
    batch=batch_changed(next_axis),
    kernel=softmax_array,
    infer=_same_spec("softmax"),
    attr_names=("axis",),
    saves=(OUT,),
    vjps=(_softmax_vjp,),
    emit=Expansion(_softmax_expand),
    kinds="f",
    ulp=(8.0, 8.0),
    samples=_ROW_SAMPLES,
)


def log_softmax_array(x: Array, axis: int) -> Array:
    """The kernel of `log_softmax`, for other kernels too."""
    if x.size == 0:
        return x.copy()
    shifted = x - max_reduce(x, axis, None, None, True, -np.inf)
    total = add_reduce(np.exp(shifted), axis, None, None, True)
    return np.asarray(shifted - np.log(total))


def _log_softmax_vjp(ct: Any, attrs: Attrs, out: Any) -> Any:
    total = call(SUM, ct, attrs=((attrs[0],), True))
    return ct - along(total, call(get_op("exp"), out))


def _log_softmax_expand(x: Tensor, axis: int) -> Any:
    if x.size == 0:
        return x * 1.0
    shifted = x - apply(MAX, x, attrs=((axis,), True))
    total = apply(SUM, apply(get_op("exp"), shifted), attrs=((axis,), True))
    return shifted - apply(get_op("log"), total)


LOG_SOFTMAX = define_op(
    "log_softmax",
    batch=batch_changed(next_axis),
    kernel=log_softmax_array,
    infer=_same_spec("log_softmax"),
    attr_names=("axis",),
    saves=(OUT,),
    vjps=(_log_softmax_vjp,),
    emit=Expansion(_log_softmax_expand),
    kinds="f",
    ulp=(8.0, 8.0),
    samples=_ROW_SAMPLES,
)


def _along_axis(op: Op, x: TensorLike, axis: int) -> Tensor:
    tensor = promote_one(op, x)
    result = apply(op, tensor, attrs=(normalize_axis(op.name, axis, tensor.ndim),))
    return narrowed(result, x)


def softmax(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The exponentials of the elements, scaled so that they sum to 1 along an axis.

    Parameters
    ----------
    x : TensorLike of float
        The tensor; ints are taken as floats.
    axis : int
        Axis along which the result sums to 1.

    Returns
    -------
    Tensor of float, shape of `x`

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.softmax(tl.asarray([1000.0, 1000.0])).numpy()
    array([0.5, 0.5])
    """
    return _along_axis(SOFTMAX, x, axis)


def log_softmax(x: TensorLike, /, axis: int = -1) -> Tensor:
    """The logarithm of `tl.softmax`, exact where softmax itself would be 0.

    Parameters
    ----------
    x : TensorLike of float
        Of any shape; ints are taken as floats.
    axis : int
        The axis along which the exponentials of the result sum to 1.

    Returns
    -------
    Tensor of float
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.log_softmax(tl.asarray([0.0, 1000.0])).numpy()
    array([-1000.,     0.])
    """
    return _along_axis(LOG_SOFTMAX, x, axis)
