"""`for_each`: another op, example after example, as one op.

For ops without gradients whose kernel serves one example at a time, such as draws from a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Attrs, Op, Trait, define_op, get_op
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor

__all__: list[str] = []


def _kernel(*values: Any) -> Array:
    *inputs, name, size, mapped, attrs = values
    run = get_op(name).kernel
    found = [
        run(
            *[x[n] if is_mapped else x for x, is_mapped in zip(inputs, mapped, strict=True)], *attrs
        )
        for n in range(size)
    ]
    if not found:
        spec = _infer(*(spec_of(x.shape, x.dtype) for x in inputs), name, size, mapped, attrs)
        return np.zeros(spec.static_shape, spec.dtype)
    return np.stack(found)


def _infer(*values: Any) -> TensorSpec:
    *specs, name, size, mapped, attrs = values
    one = [
        spec_of(spec.static_shape[1:], spec.dtype) if is_mapped else spec
        for spec, is_mapped in zip(specs, mapped, strict=True)
    ]
    result = get_op(name).infer(*one, *attrs)
    assert isinstance(result, TensorSpec)
    return spec_of((size, *result.static_shape), result.dtype)


def _no_gradients(cts: Any, attrs: Attrs, needed: Sequence[bool], *saved: Any) -> tuple[None, ...]:
    return (None,) * len(needed)


FOR_EACH = define_op(
    "for_each",
    kernel=_kernel,
    infer=_infer,
    n_inputs=None,
    attr_names=("name", "size", "mapped", "attrs"),
    joint_vjp=_no_gradients,
    traits=Trait.NO_RECOMPUTE,
    kinds="biufc",
)
"""The named op for each of so many examples; mapped inputs have them along their first axis."""


def batch_each(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """A batching rule: one op that goes through the examples."""
    found: Tensor = bind(FOR_EACH, inputs, (op.name, size, tuple(mapped), attrs))
    return found
