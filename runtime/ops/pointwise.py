"""What the families of elementwise ops share: spec rules, operands, and words for gradient rules.

Gradient rules are written once. `call` runs an op on whatever it is given: on arrays it runs the
kernel and gives an array, as soon as one operand is a tensor it binds and gives a tensor.

For complex operands the cotangent of z = a + ib under a real target L is dL/da + i dL/db, as in
TensorFlow and PyTorch: a holomorphic f passes `ct * conj(f'(z))` on. `along` and `conjugate` hold
that convention, so a rule need not ask for the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.cells import make_inplace
from tapeline.runtime.dispatch import BUSY, GUARDED, GUARDING, RECORDING, STATE, bind
from tapeline.runtime.errors import DTypeError
from tapeline.runtime.indexed_slices import IndexedSlices, densified
from tapeline.runtime.op import (
    Attrs,
    Infer,
    Op,
    ScalarEmitter,
    Trait,
    V,
    define_op,
    get_op,
)
from tapeline.runtime.operators import attach_method, make_binary, make_unary
from tapeline.runtime.promotion import Promote, promote
from tapeline.runtime.spec import (
    DType,
    Shape,
    TensorSpec,
    broadcast_shapes,
    is_bfloat16,
    spec_of,
)
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, new_tensor, wrap

BOOL = np.dtype(np.bool_)
_KIND_NAMES = {"b": "bool", "i": "int", "u": "unsigned int", "f": "float", "c": "complex"}


class _Numbers(dict[DType, Any]):
    """One number in each dtype that is asked for."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __missing__(self, dtype: DType) -> Any:
        made = self[dtype] = np.array(self.number, dtype)
        return made


_ZEROS = _Numbers(0)
_ONES = _Numbers(1)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

DTypeRule: TypeAlias = Callable[[DType], DType]


def check_dtype(op_name: str, dtype: DType, kinds: str) -> None:
    """A `DTypeError` where the op has no meaning for the dtype."""
    if dtype.kind not in kinds:
        expected = ", ".join(_KIND_NAMES[kind] for kind in kinds)
        raise DTypeError(
            f"{op_name}: dtype {dtype} is not supported; expected one of: {expected}. "
            f"Convert with tl.astype"
        )


def to_bool(dtype: DType) -> DType:
    """The dtype rule of predicates."""
    return BOOL


def to_real(dtype: DType) -> DType:
    """The dtype of the parts of a complex number; other dtypes stay."""
    if dtype.kind != "c":
        return dtype
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def same_dtype(dtype: DType) -> DType:
    """The dtype rule of most ops."""
    return dtype


def infer_pointwise(op_name: str, kinds: str, result: DTypeRule = same_dtype) -> Infer:
    """The spec rule of an elementwise op: inputs of one dtype of these kinds, shapes that
    broadcast."""

    def infer(x: TensorSpec, *rest: Any) -> TensorSpec:
        if not (is_bfloat16(x.dtype) and "f" in kinds):
            check_dtype(op_name, x.dtype, kinds)
        others = [spec for spec in rest if type(spec) is TensorSpec]
        if not others:
            return spec_of(x.shape, result(x.dtype))  # type: ignore[arg-type]
        for spec in others:
            if spec.dtype != x.dtype:
                raise DTypeError(
                    f"{op_name}: operands have dtypes {x.dtype} and {spec.dtype}; the op takes one "
                    f"dtype, convert with tl.astype"
                )
        shape = broadcast_shapes(op_name, x.static_shape, *(spec.static_shape for spec in others))
        return spec_of(shape, result(x.dtype))

    return infer


def define_pointwise(
    name: str,
    *,
    kernel: Callable[..., Any],
    kinds: str,
    result: DTypeRule = same_dtype,
    traits: Trait = Trait.NONE,
    infer: Infer | None = None,
    **rules: Any,
) -> Op:
    """A new elementwise op; the spec rule follows from `kinds` and `result` unless one is given."""
    return define_op(
        name,
        kernel=kernel,
        infer=infer or infer_pointwise(name, kinds, result),
        kinds=kinds,
        traits=Trait.ELEMENTWISE | traits,
        **rules,
    )


def emit_call(name: str) -> Callable[..., Any]:
    """The scalar body that is one call of the math library."""

    def emit(b: ScalarEmitter[V], /, *args: V) -> V:
        return b.call(name, *args)

    return emit


def attach_operators(name: str, sign: str, op: Op, promote: Promote = promote) -> None:
    """Give tensors `x sign y`, its reflected form, and `x sign= y`."""
    forward = make_binary(op, method=True, promote=promote)
    attach_method(f"__{name}__", forward)
    attach_method(f"__r{name}__", make_binary(op, reflected=True, promote=promote))
    attach_method(f"__i{name}__", make_inplace(f"{sign}=", forward))


_SHORT_WAYS: dict[Op, Callable[..., Tensor]] = {}


def shorten(*ops: Op) -> None:
    """Give ops of one input, any dtype and some attributes a short way through `apply`."""
    for op in ops:
        _SHORT_WAYS[op] = make_unary(op, is_promoted=False)


def apply(op: Op, *inputs: Tensor, attrs: Attrs = ()) -> Tensor:
    """The one output of an op on tensors."""
    short = _SHORT_WAYS.get(op)
    if short is not None:
        return short(*inputs, attrs)
    if not (BUSY[0] or RECORDING):  # nobody answers for NumPy, and nobody records
        try:
            value = op.kernel(*[tensor._value for tensor in inputs], *attrs)
        except Exception:
            value = None  # `bind` says what is wrong
        if value is not None:
            return wrap(value if type(value) is np.ndarray else np.asarray(value))
    result: Tensor = bind(op, inputs, attrs)
    return result


def computable(x: TensorLike, argument: str) -> Tensor:
    """The operand of an op as a tensor of a dtype that can be computed in: bfloat16 as float32."""
    tensor = as_tensor(x, argument=argument)
    return cast_tensor(tensor, _FLOAT32) if is_bfloat16(tensor.dtype) else tensor


# -- words for gradient rules ----------------------------------------------------------------------


def call(op: Op, *inputs: Any, attrs: Attrs = ()) -> Any:
    """Run the kernel on arrays, or bind where an input is a tensor."""
    for x in inputs:
        if type(x) is Tensor:
            return bind(op, inputs, attrs)
    return op.kernel(*inputs, *attrs)


def conjugate(x: Any) -> Any:
    """The complex conjugate; real tensors and arrays as they are."""
    return call(get_op("conj"), x) if x.dtype.kind == "c" else x


def along(ct: Any, derivative: Any) -> Any:
    """The cotangent passed on through a derivative: their product, conjugated where complex. Where
    gradients are guarded a zero wins."""
    dtype = derivative.dtype
    if dtype is not _FLOAT32 and dtype is not _FLOAT64 and dtype.kind == "c":
        derivative = call(get_op("conj"), derivative)
    if (GUARDING[0] or BUSY[0]) and _is_guarded(ct, derivative):  # as `scaled`, a call less
        return _guarded("guarded_multiply", ct, derivative)
    return ct * derivative


def scaled(ct: Any, factor: Any) -> Any:
    """`ct * factor`, as `along`, but as it is where it is complex."""
    if (GUARDING[0] or BUSY[0]) and _is_guarded(ct, factor):
        return _guarded("guarded_multiply", ct, factor)
    return ct * factor


def over(ct: Any, divisor: Any) -> Any:
    """The cotangent passed on through the derivative `1 / divisor`, as `along`."""
    STATE.masked = True
    if divisor.dtype.kind == "c":
        divisor = call(get_op("conj"), divisor)
    if (GUARDING[0] or BUSY[0]) and _is_guarded(ct, divisor):
        return _guarded("guarded_divide", ct, divisor)
    return ct / divisor


def masked(result: Any) -> Any:
    """What a rule found, where it makes exact zeros or may make infinities of finite numbers: only
    behind such a rule a zero can meet an infinity."""
    STATE.masked = True
    return result


def _guarded(name: str, ct: Any, other: Any) -> Any:
    """A guarded product or quotient; rows stay rows where a number scales them."""
    if type(ct) is IndexedSlices and other.shape == ():
        return ct.with_values(call(get_op(name), ct.values, other))
    return call(get_op(name), densified(ct), other)


def _is_guarded(ct: Any, other: Any) -> bool:
    """Whether their product or quotient shall be a guarded one: in a walk that is repeated, and in
    traces behind a rule that masks, for nobody looks at the result there."""
    if ct.dtype is not other.dtype or not GUARDED[0]:
        return False
    if GUARDING[0]:
        return True
    if STATE.handler is None or not STATE.masked:
        return False
    for x in (ct, other):
        known = getattr(x._value, "constant", None) if type(x) is Tensor else None
        if known is not None and known.all() and np.isfinite(known).all():
            return False
    return True


def unbroadcast(ct: Any, shape: Shape) -> Any:
    """The sum of a cotangent over the axes along which an operand of `shape` was broadcast."""
    if ct.shape == shape:
        return ct
    lead = len(ct.shape) - len(shape)
    axes = (
        *range(lead),
        *(lead + axis for axis, extent in enumerate(shape) if extent != ct.shape[lead + axis]),
    )
    total = call(get_op("sum"), ct, attrs=(axes, False))
    return total if total.shape == shape else call(get_op("reshape"), total, attrs=(shape,))


def beside(array: Any, x: Any) -> Any:
    """An array that a rule made, as an operand to use with `x`: a constant tensor if x is one."""
    return new_tensor(array) if type(x) is Tensor else array


def one_minus(x: Any) -> Any:
    """`1 - x`; an array meets a 0-d array there, which costs it half as much as a number."""
    return _ONES[x.dtype] - x if type(x) is np.ndarray else 1 - x


def zero_like(x: Any) -> Any:
    """A 0-d array 0 of the dtype, to use as an operand in a rule that masks a cotangent."""
    STATE.masked = True
    return _ZEROS[x.dtype]


def zeros_for(ct: Any) -> Any:
    """Zeros of the shape and dtype of a cotangent, without memory of that size."""
    zero = zero_like(ct)
    if type(ct) is not Tensor:
        return np.broadcast_to(zero, ct.shape)
    return bind(get_op("broadcast_to"), (new_tensor(zero),), (ct.shape,))
