"""Sparse gradients: some rows of an array, the rest of which is zero.

Look-ups such as `take` from a large table have gradients with few rows. They stay rows while they
are added and scaled; wherever a tensor is expected, the whole array stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, new_tensor

if TYPE_CHECKING:
    import numpy.typing as npt


class IndexedSlices:
    """Rows of an array of `dense_shape`, added up where an index repeats; all else is zero.

    Parameters
    ----------
    values : TensorLike, shape (n,) + dense_shape[1:]
        The rows.
    indices : TensorLike of int, shape (n,)
        Where they stand along the first axis.
    dense_shape : sequence of int
        Shape of the whole.

    Raises
    ------
    ShapeError
        If the three do not fit.

    Examples
    --------
    >>> import tapeline as tl
    >>> table = tl.Variable(tl.zeros((5, 2)))
    >>> with tl.GradientTape() as tape:
    ...     y = tl.take(table, [3, 1, 3], axis=0)
    >>> slices = tape.gradient(y, table, sparse=True)
    >>> slices.indices.numpy()
    array([3, 1, 3])
    >>> tl.asarray(slices * 2.0).numpy()[:, 0]
    array([0., 2., 0., 4., 0.])
    """

    __slots__ = ("dense_shape", "indices", "values")

    values: Tensor
    indices: Tensor
    dense_shape: Shape

    __array_priority__ = 2000.0
    __array_ufunc__ = None

    def __init__(self, values: TensorLike, indices: TensorLike, dense_shape: Sequence[int]) -> None:
        self.values = as_tensor(values, None, "IndexedSlices: values")
        self.indices = as_tensor(indices, None, "IndexedSlices: indices")
        self.dense_shape = tuple(dense_shape)
        rows = self.indices.shape
        if len(rows) != 1 or self.values.shape != (*rows, *self.dense_shape[1:]):
            raise ShapeError(
                f"IndexedSlices: values of shape {self.values.shape} and indices of shape {rows} "
                f"are no rows of an array of shape {self.dense_shape}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of the whole."""
        return self.dense_shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.values.dtype

    def __tapeline_tensor__(self) -> Tensor:
        attrs = (0, self.dense_shape[0])
        whole: Tensor = bind(get_op("take_grad"), (self.values, self.indices), attrs)
        return whole

    def numpy(self) -> npt.NDArray[Any]:
        """The whole as a NumPy array that cannot be written to."""
        return self.__tapeline_tensor__().numpy()

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return self.__tapeline_tensor__().__array__(dtype, copy)

    def __repr__(self) -> str:
        return (
            f"tl.IndexedSlices(values={self.values!r}, indices={self.indices!r}, "
            f"dense_shape={self.dense_shape})"
        )

    def with_values(self, values: Tensor) -> IndexedSlices:
        """Other rows at the same places."""
        return IndexedSlices(values, self.indices, self.dense_shape)

    def part(self, start: int, size: int) -> IndexedSlices:
        """The rows from `start` on as those of an array of `size` rows. Others are kept as zeros,
        so that their number needs no look at the indices."""
        where, cast = get_op("where"), get_op("cast")
        zero = new_tensor(np.asarray(start, self.indices.dtype))
        end = new_tensor(np.asarray(start + size, self.indices.dtype))
        inside = bind(
            get_op("logical_and"),
            (bind(get_op("less_equal"), (zero, self.indices)),
             bind(get_op("less"), (self.indices, end))),
        )  # fmt: skip
        indices = bind(where, (inside, self.indices - zero, self.indices * 0))
        mask = bind(cast, (inside,), (self.dtype,))
        for axis in range(1, len(self.dense_shape)):
            mask = bind(get_op("expand_dims"), (mask,), ((axis,),))
        return IndexedSlices(self.values * mask, indices, (size, *self.dense_shape[1:]))

    def __neg__(self) -> IndexedSlices:
        return self.with_values(-self.values)

    def __add__(self, other: Any) -> Any:
        if type(other) is not IndexedSlices:
            return self.__tapeline_tensor__() + other
        if other.dense_shape != self.dense_shape:
            raise ShapeError(
                f"IndexedSlices: rows of arrays of shapes {self.dense_shape} and "
                f"{other.dense_shape} cannot be added"
            )
        return IndexedSlices(
            _join(self.values, other.values), _join(self.indices, other.indices), self.dense_shape
        )

    def __radd__(self, other: Any) -> Any:
        return other + self.__tapeline_tensor__()

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return other - self.__tapeline_tensor__()

    def __mul__(self, other: Any) -> Any:
        if _is_scalar(other):
            return self.with_values(self.values * other)
        return self.__tapeline_tensor__() * other

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if _is_scalar(other):
            return self.with_values(self.values / other)
        return self.__tapeline_tensor__() / other


def _join(a: Tensor, b: Tensor) -> Tensor:
    joined: Tensor = bind(get_op("concat"), (a, b), (0, (a.shape[0], b.shape[0])))
    return joined


def _is_scalar(x: Any) -> bool:
    return isinstance(x, int | float | complex) or getattr(x, "shape", None) == ()


def densified(x: Any) -> Any:
    """The whole array for sparse rows; anything else as it is."""
    return x.__tapeline_tensor__() if type(x) is IndexedSlices else x


def scatter(value: npt.NDArray[Any], slices: IndexedSlices, ufunc: np.ufunc) -> npt.NDArray[Any]:
    """A copy of an array with `ufunc` applied at each row that the slices name."""
    new = np.array(value, order="C")
    ufunc.at(new, slices.indices._value, slices.values._value)
    return new


def _unflatten(shape: Any, children: Sequence[Any]) -> Any:
    made = object.__new__(IndexedSlices)
    made.values, made.indices = children
    made.dense_shape = shape
    return made


def _flatten(slices: IndexedSlices) -> tuple[Sequence[Any], Shape]:
    return (slices.values, slices.indices), slices.dense_shape


nest.register(IndexedSlices, _flatten, _unflatten)
