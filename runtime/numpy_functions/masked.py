"""`where=` of NumPy's ufuncs on tensors: results only where a mask holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapeline.runtime.errors import DTypeError
from tapeline.runtime.ops.selection import where
from tapeline.runtime.promotion import WEAK_TYPES
from tapeline.runtime.tensor import as_tensor


def masked(
    function: Callable[..., Any], inputs: Sequence[Any], mask: Any, out: Sequence[Any] | None
) -> Any:
    """What the function gives for the inputs where the mask holds, and what `out` holds elsewhere:
    zeros where there is none. Elsewhere the function sees ones, so nothing can go wrong there."""
    mask = as_tensor(mask, argument="where=")
    if mask.dtype.kind != "b":
        raise DTypeError(f"where=: expected a mask of bools, got dtype {mask.dtype}")
    result = function(*[x if type(x) in WEAK_TYPES else where(mask, x, 1) for x in inputs])
    if not isinstance(result, tuple):
        return where(mask, result, out[0] if out else 0)
    others = out or (0,) * len(result)
    return tuple(where(mask, part, other) for part, other in zip(result, others, strict=True))
