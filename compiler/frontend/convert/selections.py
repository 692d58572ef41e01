"""`x[mask]` in the body of a loop or of a branch of a trace, where no size may depend on values.

All of x is kept beside the mask. Elementwise functions see ones where the mask fails, sums and
their kin leave those places out, and `y[mask] = ...` writes the others. Whatever else needs the
elements alone goes as it would without this: the function runs op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.state import has_fixed_sizes
from tapeline.compiler.frontend.convert.tables import is_unknown
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.runtime.ops import creation
from tapeline.runtime.ops.cast import astype
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.shaping import expand_dims
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, as_tensor

_DEPTH = 4
"""How many ops back it is looked whether masks are the same."""
_REDUCTIONS = ("sum", "prod", "mean", "max", "min", "any", "all", "std", "var")


def is_mask_of(x: Tensor, key: Any) -> bool:
    """Whether the key is a mask over the first dimensions of x whose values are not known."""
    if not is_unknown(key):
        return False
    mask = as_tensor(key)
    fits: bool = mask.shape == x.shape[: mask.ndim]
    return fits and mask.dtype.kind == "b" and mask.ndim > 0


def over_rows(x: Tensor, mask: Tensor) -> Tensor:
    """The mask with a dimension for each of x."""
    rest = tuple(range(mask.ndim, x.ndim))
    return expand_dims(mask, rest) if rest else mask


class Selection(NDArrayOperatorsMixin):
    """`x[mask]`, with all of x."""

    __slots__ = ("_mask", "_whole")

    def __init__(self, whole: Tensor, mask: Tensor) -> None:
        self._whole = whole
        self._mask = mask

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._whole.dtype

    @property
    def ndim(self) -> int:
        """The dimensions of what is selected."""
        return self._whole.ndim - self._mask.ndim + 1

    @property
    def size(self) -> Any:
        """How many elements there are."""
        rest = self._whole.shape[self._mask.ndim :]
        return self._mask.sum() * int(np.prod(rest, dtype=np.int64))

    def alone(self) -> Tensor:
        """The elements without the others, whose number depends on values."""
        return self._whole[self._mask]

    __tapeline_tensor__ = alone
    is_apart = True
    """A variable that holds it is no tensor of a block."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.alone(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.alone()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.alone())

    def __bool__(self) -> bool:
        return bool(self.alone())

    def __len__(self) -> int:
        return len(self.alone())

    def selects_by(self, mask: Any) -> bool:
        """Whether it was selected by this mask, or one made of the same by the same ops."""
        if not isinstance(mask, Tensor):
            return False
        one, other = self._mask._value, mask._value
        if type(one) is Symbol and type(other) is Symbol and one.graph is other.graph:
            return _is_same(one.graph, one.id, other.id, _DEPTH)
        return one is other

    @property
    def whole(self) -> Tensor:
        """An element for each place, selected or not."""
        return self._whole

    def written_to(self, x: Tensor) -> Tensor:
        """x with the elements in the places that they were selected from."""
        return where(over_rows(x, self._mask), self._whole, x)

    def astype(self, dtype: Any) -> Selection:
        """The elements in another dtype."""
        return Selection(astype(self._whole, dtype), self._mask)

    def copy(self) -> Selection:
        """The same elements."""
        return self

    # what NumPy asks

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        is_elementwise = method == "__call__" and ufunc.signature is None and not options
        if is_elementwise and all(map(self._is_beside, inputs)):
            wholes = [x._whole if type(x) is Selection else x for x in inputs]
            found = ufunc(*wholes)
            if isinstance(found, tuple):
                return tuple(Selection(part, self._mask) for part in found)
            return Selection(found, self._mask)
        return getattr(ufunc, method)(*map(_alone, inputs), **options)

    def _is_beside(self, other: Any) -> bool:
        """Whether it has an element for each selected one, or one for all."""
        if type(other) is Selection:
            return other.selects_by(self._mask) and other._whole.shape == self._whole.shape
        return np.ndim(other) == 0

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, options: Any
    ) -> Any:
        name = function.__name__
        if name in _REDUCTIONS and args and args[0] is self and set(options) <= {"axis"}:
            return getattr(self, name)(*args[1:], **options)
        return function(*map(_alone, args), **options)

    # sums and their kin

    def _reduced(self, name: str, axis: Any, whole: Tensor, fill: Any) -> Any:
        """A tensor over all selected places; within each of them, a selection."""
        count = self._mask.ndim
        if axis is not None and type(axis) is not int:
            return getattr(self.alone(), name)(axis=axis)
        if axis is not None and axis % self.ndim:
            inner = axis % self.ndim + count - 1
            return Selection(getattr(whole, name)(axis=inner), self._mask)
        kept = where(over_rows(whole, self._mask), whole, fill)
        return getattr(kept, name)(axis=None if axis is None else tuple(range(count)))

    def sum(self, axis: Any = None) -> Any:
        """The sum."""
        return self._reduced("sum", axis, self._whole, 0)

    def prod(self, axis: Any = None) -> Any:
        """The product."""
        return self._reduced("prod", axis, self._whole, 1)

    def any(self, axis: Any = None) -> Any:
        """Whether any element is true."""
        return self._reduced("any", axis, self._whole != 0, False)

    def all(self, axis: Any = None) -> Any:
        """Whether all elements are true."""
        return self._reduced("all", axis, self._whole != 0, True)

    def max(self, axis: Any = None) -> Any:
        """The largest element."""
        return self._reduced("max", axis, self._whole, _limit(self.dtype, is_lowest=True))

    def min(self, axis: Any = None) -> Any:
        """The smallest element."""
        return self._reduced("min", axis, self._whole, _limit(self.dtype, is_lowest=False))

    def mean(self, axis: Any = None) -> Any:
        """The mean; NaN of no elements."""
        count = self._reduced("sum", axis, creation.ones(self._whole.shape), 0.0)
        return self.sum(axis) / count.astype(_mean_dtype(self.dtype))

    def var(self, axis: Any = None) -> Any:
        """The variance."""
        if axis is not None and axis % self.ndim:
            return self._reduced("var", axis, self._whole, 0)
        rest = self._whole - self.mean(axis)
        return Selection(rest * rest, self._mask).mean(axis)

    def std(self, axis: Any = None) -> Any:
        """The standard deviation."""
        return np.sqrt(self.var(axis))


def _is_same(graph: CapturingGraph, one: int, other: int, depth: int) -> bool:
    """Whether two nodes have one value, as far as that is seen at a glance."""
    if one == other:
        return True
    op, inputs, others = graph.ops[one], graph.inputs[one], graph.inputs[other]
    if op is not graph.ops[other] or not op.is_pure or not depth:
        return False
    if op is CONSTANT:
        values: Any = graph.constant_value(one), graph.constant_value(other)
        return np.array_equal(*values)
    if not inputs or len(inputs) != len(others) or graph.attrs[one] != graph.attrs[other]:
        return False
    return all(_is_same(graph, a, b, depth - 1) for a, b in zip(inputs, others, strict=True))


def _alone(x: Any) -> Any:
    return x.alone() if type(x) is Selection else x


def _mean_dtype(dtype: DType) -> DType:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _limit(dtype: DType, is_lowest: bool) -> Any:
    if dtype.kind == "b":
        return not is_lowest
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if is_lowest else limits.max
    return -np.inf if is_lowest else np.inf


class Selecting:
    """A tensor in the place of `x` in `x[key]`, where sizes are fixed."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, key: Any) -> Any:
        x = self._tensor
        if not is_mask_of(x, key):
            return x[key]
        mask = as_tensor(key)
        return Selection(where(over_rows(x, mask), x, 1), mask)


def selecting(x: Tensor) -> Any:
    """What stands in the place of `x` in `x[key]`."""
    return Selecting(x) if has_fixed_sizes() else x
