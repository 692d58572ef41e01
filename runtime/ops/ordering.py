"""`after`: a value that is not there before another one is.

Recomputation needs it. What is computed again must not be found equal to what was computed before,
and must not run before the gradient needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.runtime.op import Attrs, Op, Sample, ScalarEmitter, Trait, V, define_op, get_op
from tapeline.runtime.ops.batch_rules import spread
from tapeline.runtime.ops.pointwise import apply, call
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor

__all__: list[str] = []


def _after_kernel(x: Any, token: Any) -> Any:
    return x


def _after_infer(x: TensorSpec, token: TensorSpec) -> TensorSpec:
    return x


def _after_vjp(ct: Any, attrs: Attrs) -> Any:
    return ct


def _after_emit(b: ScalarEmitter[V], x: V, token: V) -> V:
    return x


def _batch_after(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """One token for all examples."""
    x, token = inputs
    if mapped[1]:
        token = call(get_op("getitem"), token, attrs=((0,),))
    return apply(op, spread(x, mapped[0], size), token)


AFTER = define_op(
    "after",
    batch=_batch_after,
    kernel=_after_kernel,
    infer=_after_infer,
    n_inputs=2,
    vjps=(_after_vjp, None),
    emit=_after_emit,
    traits=Trait.ELEMENTWISE,
    kinds="biufc",
    samples=(Sample(((3, 4), ())), Sample(((), ())), Sample(((0,), ()))),
)
"""`x`, once the 0-d `token` is known."""


def after(x: Tensor, token: Tensor) -> Tensor:
    """The same values, which nobody can compute before the token is known. That has elements."""
    if token.ndim:
        token = call(get_op("getitem"), token, attrs=((0,) * token.ndim,))
    return apply(AFTER, x, token)
