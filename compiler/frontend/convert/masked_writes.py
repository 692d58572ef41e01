"""`x[mask] += v` over tensors of a trace, and `x[mask] = y[mask]` in loops and branches: all of x
is computed, and what the mask takes is kept. So no size depends on values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.selections import Selection, is_mask_of, over_rows
from tapeline.compiler.frontend.convert.state import has_fixed_sizes, is_symbolic
from tapeline.runtime.ops.selection import where
from tapeline.runtime.tensor import Tensor, as_tensor

_DONE = object()


class Cell:
    """A tensor in the place of `x` in `x[key] op= value`."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, key: Any) -> Any:
        x = self._tensor
        return Masked(x, as_tensor(key)) if is_mask_of(x, key) else x[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self._tensor
        if type(value) is Selection and value.selects_by(key):
            x[...] = value.written_to(x)
        elif value is not _DONE:
            x[key] = value


class Masked:
    """`x[mask]`, before it is known what becomes of it."""

    __slots__ = ("_mask", "_tensor")

    def __init__(self, tensor: Tensor, mask: Tensor) -> None:
        self._tensor = tensor
        self._mask = mask

    def changed(self, change: Callable[[Any, Any], Any], value: Any) -> Any:
        """Writes to the tensor what `change` makes of the elements; elsewhere it sees ones."""
        x, mask = self._tensor, self._mask
        if type(value) is Selection and value.selects_by(mask):
            value = value.whole
        elif type(value) is Selection or np.ndim(value):
            x[mask] = change(x[mask], value)
            return _DONE
        mask = over_rows(x, mask)
        x[...] = where(mask, change(where(mask, x, 1), value), x)
        return _DONE


def _method(change: Callable[[Any, Any], Any]) -> Callable[[Masked, Any], Any]:
    return lambda self, value: self.changed(change, value)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor"):
    setattr(Masked, f"__i{_name.rstrip('_')}__", _method(getattr(operator, _name)))


def written(holder: Any) -> Any:
    """What stands in the place of `holder` in `holder[key] op= value`."""
    return Cell(holder) if type(holder) is Tensor and is_symbolic(holder) else holder


def assigned(holder: Any) -> Any:
    """What stands in the place of `holder` in `holder[key] = value`."""
    return Cell(holder) if type(holder) is Tensor and has_fixed_sizes() else holder
