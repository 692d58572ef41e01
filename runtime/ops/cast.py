"""Ops that change how values are held, not what they are: dtype, complex parts, identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.op import Attrs, DTypeOf, Sample, ScalarEmitter, Trait, V
from tapeline.runtime.operators import attach_method, make_unary
from tapeline.runtime.ops.pointwise import apply, call, define_pointwise, shorten, to_real
from tapeline.runtime.spec import (
    SUPPORTED_DTYPES,
    DType,
    TensorSpec,
    canonical_dtype,
    is_bfloat16,
    spec_of,
)
from tapeline.runtime.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    install_conversions,
    register_ufunc,
)
from tapeline.runtime.unwatched import plain_array, wrapped

if TYPE_CHECKING:
    import numpy.typing as npt


# -- real, imag, conj ------------------------------------------------------------------------------
def _identity_emit(b: ScalarEmitter[V], x: V) -> V:
    return x


def _real_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.real(x) if b.dtype_of(x).kind == "c" else x


def _real_kernel(x: Any) -> Any:
    return np.real(x) if x.dtype.kind == "c" else x


def _real_vjp(ct: Any, attrs: Attrs, dtype: DType) -> Any:
    return call(CAST, ct, attrs=(dtype,))


REAL = define_pointwise(
    "real",
    kernel=_real_kernel,
    kinds="biufc",
    result=to_real,
    saves=(DTypeOf(0),),
    vjps=(_real_vjp,),
    emit=_real_emit,
    traits=Trait.IDEMPOTENT | Trait.ROWS,
)

_real = make_unary(REAL)


def real(x: TensorLike, /) -> Tensor:
    """The real part of each element.

    Real tensors stay as they are.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of float, or the dtype of a real `x`
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.real([(1+2j)]).numpy()
    array([1.])
    """
    return _real(x)


register_ufunc(np.real, real)
attach_method("real", property(_real))


def _imag_kernel(x: Any) -> Any:
    return np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x)


def _imag_vjp(ct: Any, attrs: Attrs, dtype: DType) -> Any:
    return ct * 1j if dtype.kind == "c" else None


def _imag_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.imag(x) if b.dtype_of(x).kind == "c" else b.constant(0, b.dtype_of(x))


IMAG = define_pointwise(
    "imag",
    kernel=_imag_kernel,
    kinds="biufc",
    result=to_real,
    saves=(DTypeOf(0),),
    vjps=(_imag_vjp,),
    emit=_imag_emit,
)

_imag = make_unary(IMAG)


def imag(x: TensorLike, /) -> Tensor:
    """The imaginary part of each element, 0 for real ones.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor of float, or the dtype of a real `x`
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.imag([(1+2j)]).numpy()
    array([2.])
    """
    return _imag(x)


register_ufunc(np.imag, imag)
attach_method("imag", property(_imag))


def _conj_kernel(x: Any) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


def _conj_vjp(ct: Any, attrs: Attrs) -> Any:
    return call(CONJ, ct)


def _conj_emit(b: ScalarEmitter[V], x: V) -> V:
    return b.conj(x) if b.dtype_of(x).kind == "c" else x


CONJ = define_pointwise(
    "conj",
    kernel=_conj_kernel,
    kinds="biufc",
    vjps=(_conj_vjp,),
    emit=_conj_emit,
    traits=Trait.INVOLUTION,
)

_conj = make_unary(CONJ)


def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate of each element.

    Real tensors stay as they are.

    Parameters
    ----------
    x : TensorLike
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.conj([(1+2j)]).numpy()
    array([1.-2.j])
    """
    return _conj(x)


register_ufunc(np.conjugate, conj)
attach_method("conj", _conj)

# -- cast ------------------------------------------------------------------------------------------


def _cast_kernel(x: Any, dtype: DType) -> Any:
    if x.dtype.kind == dtype.kind == "f":
        return x.astype(dtype)
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        x = x.real
    if is_bfloat16(x.dtype) and dtype.kind != "f":
        x = x.astype(np.float32)
    if is_bfloat16(dtype) and x.dtype.kind not in "fV":
        x = x.astype(np.float32)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        return _float_to_int(x, dtype)
    return x.astype(dtype)


def _float_to_int(x: Any, dtype: DType) -> Any:
    """As compiled code does it: NaN becomes 0, what is out of range the nearest int.

    NumPy leaves these to the processor, and warns.
    """
    least, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    too_low, too_high = x <= float(least) - 1.0, x >= float(greatest) + 1.0
    outside = too_low | too_high | np.isnan(x)
    if not outside.any():
        return x.astype(dtype)
    result = np.where(outside, 0, x).astype(dtype)
    result[too_low] = least
    result[too_high] = greatest
    return result


def _cast_infer(x: TensorSpec, dtype: DType) -> TensorSpec:
    return spec_of(x.shape, dtype)  # type: ignore[arg-type]  # extents may be None


def _cast_vjp(ct: Any, attrs: Attrs, dtype: DType) -> Any:
    return call(CAST, ct, attrs=(dtype,))


def _cast_emit(b: ScalarEmitter[V], x: V, dtype: DType) -> V:
    return b.cast(x, dtype)


CAST = define_pointwise(
    "cast",
    kernel=_cast_kernel,
    infer=_cast_infer,
    kinds="biufc",
    attr_names=("dtype",),
    saves=(DTypeOf(0),),
    vjps=(_cast_vjp,),
    emit=_cast_emit,
    samples=tuple(Sample(((2, 3),), (dtype,)) for dtype in SUPPORTED_DTYPES),
)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return apply(CAST, x, attrs=(dtype,))


install_conversions(cast=_cast)


def _same_size(dtype: DType, kind: str) -> DType:
    return np.dtype(f"{kind}{dtype.itemsize}")


def _bitcast_kernel(x: Any, kind: str) -> Any:
    return np.ascontiguousarray(x).view(_same_size(x.dtype, kind)).reshape(x.shape)


def _bitcast_infer(x: TensorSpec, kind: str) -> TensorSpec:
    return spec_of(x.shape, _same_size(x.dtype, kind))  # type: ignore[arg-type]  # extents


def _bitcast_emit(b: ScalarEmitter[V], x: V, kind: str) -> V:
    return b.bitcast(x, _same_size(b.dtype_of(x), kind))


BITCAST = define_pointwise(
    "bitcast",
    kernel=_bitcast_kernel,
    infer=_bitcast_infer,
    kinds="iuf",
    attr_names=("kind",),
    vjps=(None,),
    emit=_bitcast_emit,
    samples=(Sample(((2, 3),), ("i",)), Sample(((2, 3),), ("u",))),
)


def astype(
    x: TensorLike, dtype: npt.DTypeLike, /, *, copy: bool = True, device: Device | None = None
) -> Tensor:
    """The values in another dtype.

    Floats become ints by dropping the fraction, NaN becomes 0, and a float beyond the ints the
    nearest one; complex numbers become real by dropping the
    imaginary part; what is not 0 becomes True. Gradients pass between floats and complex numbers.

    Parameters
    ----------
    x : TensorLike
        Of any shape.
    dtype : dtype-like
        The wanted dtype.
    copy : bool
        False gives a tensor that has the dtype already back as it is.
    device : "cpu", optional
        Where the result lives.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If there is no such dtype, or Tapeline does not have it.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.astype([1.7, -1.7], "int32").numpy()
    array([ 1, -1], dtype=int32)
    """
    check_device("astype", device)
    x = as_tensor(x, None, "astype")
    wanted = canonical_dtype(dtype, "astype: dtype")
    if x.dtype is wanted:
        return copied(x) if copy else x
    array = plain_array(x)
    return _cast(x, wanted) if array is None else wrapped(_cast_kernel(array, wanted))


attach_method("astype", astype)

# -- identity and stop_gradient --------------------------------------------------------------------


def _identity_kernel(x: Any) -> Any:
    return x


def _identity_vjp(ct: Any, attrs: Attrs) -> Any:
    return ct


IDENTITY = define_pointwise(
    "identity",
    kernel=_identity_kernel,
    kinds="biufc",
    vjps=(_identity_vjp,),
    emit=_identity_emit,
    traits=Trait.IDEMPOTENT,
)

STOP_GRADIENT = define_pointwise(
    "stop_gradient",
    kernel=_identity_kernel,
    kinds="biufc",
    vjps=(None,),
    emit=_identity_emit,
    traits=Trait.IDEMPOTENT,
)


def identity(x: TensorLike, /) -> Tensor:
    """The same values as another tensor: gradients flow, and a tape can watch it by itself.

    Parameters
    ----------
    x : TensorLike
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.identity([1.0, 2.0]).numpy()
    array([1., 2.])
    """
    return _identity(x)


def copied(x: TensorLike) -> Tensor:
    """The same values, in elements of their own where x is a part of another tensor, so that they
    may be written to in place."""
    result: Tensor = _identity(x)
    value = result._value
    if type(value) is np.ndarray and value.base is not None:
        result._value = value.copy()
    return result


def _copy(x: Tensor, order: str = "C") -> Tensor:
    """`x.copy()`."""
    return copied(x)


attach_method("copy", _copy)

_identity = make_unary(IDENTITY)
_stop_gradient = make_unary(STOP_GRADIENT)


def stop_gradient(x: TensorLike, /) -> Tensor:
    """The same values, taken as a constant by every tape.

    Parameters
    ----------
    x : TensorLike
        Of any shape and dtype.

    Returns
    -------
    Tensor
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> import tapeline as tl
    >>> with tl.GradientTape() as tape:
    ...     x = tl.asarray(3.0)
    ...     tape.watch(x)
    ...     y = x * tl.stop_gradient(x)
    >>> float(tape.gradient(y, x))
    3.0
    """
    return _stop_gradient(x)


shorten(CAST)
