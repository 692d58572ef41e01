"""How far results may be from the exact ones, in units in the last place.

An op states its accuracy in its record (`Op.ulp`). An elementwise op is measured against each exact
result, an op that is made of others against the larger of that and its inputs, an op that adds up
many elements against the largest magnitude among its inputs and outputs: where terms cancel,
nothing more is to be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from tests.gradients import outputs_of

from tapeline.runtime.op import Attrs, Op, Pointwise, Trait

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

FINER: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float64),
    "float64": np.dtype(np.longdouble),
}
NUMPY_ULP = 4.0
"""What NumPy's own kernels may be off; counts where no finer dtype gives the exact result."""


def exact_outputs(op: Op, arrays: Sequence[Array], attrs: Attrs) -> tuple[tuple[Array, ...], float]:
    """What the kernel gives in a finer dtype, and how many units it may itself be off."""
    finer = [x.astype(FINER.get(x.dtype.name, x.dtype), copy=False) for x in arrays]
    try:
        exact = outputs_of(op, finer, attrs)
    except (TypeError, KeyError, ValueError):
        return outputs_of(op, arrays, attrs), NUMPY_ULP
    plain = outputs_of(op, arrays, attrs)
    known = all(
        e.dtype == FINER.get(p.dtype.name, p.dtype) and e.dtype.itemsize > p.dtype.itemsize
        for e, p in zip(exact, plain, strict=True)
        if p.dtype.kind == "f"
    )
    return (exact, 0.0) if known else (plain, NUMPY_ULP)


def errors_in_ulp(op: Op, arrays: Sequence[Array], got: Array, exact: Array) -> Array:
    """How far each finite element is off, in units in the last place of its own dtype."""
    finite = np.isfinite(exact) & np.isfinite(got)
    scale = np.abs(exact)
    if op.has(Trait.ELEMENTWISE) and not isinstance(op.lowering, Pointwise):
        for x in arrays:
            scale = np.maximum(scale, np.where(np.isfinite(x), np.abs(x), 0))
    elif not isinstance(op.lowering, Pointwise):
        largest = [np.max(np.abs(x), initial=0) for x in (*arrays, exact[finite])]
        scale = np.broadcast_to(np.asarray(max(map(float, largest))), exact.shape)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(scale, np.finfo(got.dtype).tiny).astype(got.dtype))
        off = np.abs(got.astype(exact.dtype) - exact) / unit
    return np.asarray(np.where(finite, off, 0.0), np.float64)
