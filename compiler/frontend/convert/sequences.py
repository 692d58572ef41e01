"""What a `for` over tensors goes through: a number of items, and the item at an index.

`tl.range`, `enumerate`, `zip`, `reversed` and `map` over such things give such things again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tapeline.compiler.frontend.convert.row_lists import RowList
from tapeline.compiler.frontend.convert.state import is_symbolic
from tapeline.runtime.dims import is_open
from tapeline.runtime.errors import TracingError
from tapeline.runtime.ops.selection import maximum, minimum, where
from tapeline.runtime.tensor import Tensor, as_tensor

LONG = 64
"""Ranges of Python numbers up to this length are unrolled."""


class Sequence:
    """Items that can be computed from their index.

    Parameters
    ----------
    count : int or Tensor
        How many there are.
    item : callable
        The item at an index, which is an int or a tensor.
    is_long_range : bool
        Whether it is a `range` of Python numbers that is better not unrolled.
    is_explicit : bool
        Whether the user asks for a loop in the graph.
    rows : sequence of Tensor
        Tensors of which an item takes the part at its index along the first axis.
    of_rows : callable, optional
        The item for an index and those parts; it is a cheaper way to the same as `item`.
    """

    def __init__(
        self,
        count: Any,
        item: Callable[[Any], Any],
        is_long_range: bool = False,
        is_explicit: bool = False,
        rows: tuple[Tensor, ...] = (),
        of_rows: Callable[[Any, list[Any]], Any] | None = None,
    ) -> None:
        self.rows = rows
        self.of_rows = of_rows
        self.count = count
        self.item = item
        self.is_long_range = is_long_range
        self.is_explicit = is_explicit
        self.is_parallel = False
        """Whether the user says that rounds need nothing of one another."""

    def after(self, start: int) -> Sequence:
        """The same without the first items."""
        of_rows = self.of_rows
        return Sequence(
            self.count - start,
            lambda k: self.item(k + start),
            is_explicit=True,
            rows=tuple([row[start:] for row in self.rows]),
            of_rows=None if of_rows is None else lambda k, parts: of_rows(k + start, parts),
        )

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.count, int):
            raise TracingError(
                "the number of items depends on a tensor, so only a 'for' statement in converted "
                "code can go through them"
            )
        return (self.item(k) for k in range(self.count))

    def __len__(self) -> int:
        return self.count  # type: ignore[no-any-return]  # a tensor is a TypeError by itself


class TensorRange(Sequence):
    """`tl.arange(n)` where a trace does not know n: to go through it is a loop, and for all else it
    is a tensor, whose size is left open.

    Parameters
    ----------
    numbers : Sequence
        What to go through.
    item : callable
        The element at an index.
    make : callable
        Makes the tensor.
    """

    def __init__(
        self, numbers: Sequence, item: Callable[[Any], Any], make: Callable[[], Tensor]
    ) -> None:
        super().__init__(numbers.count, item, numbers.is_long_range, numbers.is_explicit)
        self._make = make
        self._tensor: Tensor | None = None

    def __tapeline_tensor__(self) -> Tensor:
        if self._tensor is None:
            self._tensor = self._make()
        return self._tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__tapeline_tensor__(), name)


def _forward(name: str) -> None:
    """Lets the special method be that of the tensor."""

    def method(self: TensorRange, *args: Any) -> Any:
        return getattr(self.__tapeline_tensor__(), name)(*args)

    setattr(TensorRange, name, method)


for _name in dir(Tensor):
    if callable(getattr(Tensor, _name)) and not hasattr(TensorRange, _name):
        _forward(_name)
for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    _forward(_name)


def sequence_of(x: Any) -> Sequence | None:
    """`x` as a sequence, if going through it is a matter of tensors."""
    if isinstance(x, Sequence):
        return x
    if type(x) is range:
        if len(x) <= LONG:
            return None
        return Sequence(len(x), lambda k: x.start + k * x.step, is_long_range=True)
    if is_symbolic(x):
        return tensor_items(x)
    if type(x) is RowList:
        return Sequence(
            x.count, x.item, rows=tuple(x.rows), of_rows=lambda _, parts: x.of_parts(parts)
        )
    return None


def short_range(x: Any) -> Sequence | None:
    """A range of Python numbers that is to be unrolled, if nothing speaks against it."""
    if type(x) is range and len(x) <= LONG:
        return Sequence(len(x), lambda k: x.start + k * x.step)
    return None


def tensor_items(x: Any) -> Sequence:
    """The parts of a tensor along its first axis."""
    tensor = as_tensor(x)
    if not tensor.shape:
        raise TypeError("iteration over a 0-d tensor")
    return Sequence(
        tensor.shape[0],
        lambda k: tensor[k],
        rows=(tensor,),
        of_rows=lambda _, parts: parts[0],
    )


def any_sequence(x: Any) -> Sequence | None:
    """`x` as a sequence, lists and ranges of any length too."""
    found = sequence_of(x)
    if found is None and isinstance(x, list | tuple | range):
        return Sequence(len(x), lambda k: x[k])
    return found


def range_of(start: Any, stop: Any, step: Any, is_explicit: bool = False) -> Sequence:
    """`range` where a bound is a tensor."""
    if is_symbolic(step):
        up = (stop - start + step - 1) // step
        down = (start - stop - step - 1) // -step
        count = maximum(where(as_tensor(step) > 0, up, down), 0)
    elif step == 0:
        raise ValueError("range() arg 3 must not be zero")
    elif step > 0:
        count = (stop - start + (step - 1)) // step if step != 1 else stop - start
    else:
        count = (start - stop + (-step - 1)) // -step
    count = max(count, 0) if isinstance(count, int) else maximum(count, 0)
    return Sequence(count, lambda k: start + k * step, is_explicit=is_explicit)


class OpenRange(Sequence):
    """`range` of sizes that the trace leaves open: something to loop over without asking for them.
    Whatever else is asked of a range, it asks for the sizes at hand."""

    def __init__(self, start: Any, stop: Any, step: int) -> None:
        made = range_of(start, stop, step)
        super().__init__(made.count, made.item, is_long_range=True)
        self._bounds = start, stop, step

    @property
    def at_hand(self) -> range:
        """The range for the sizes of the call that is traced."""
        return range(*self._bounds)

    def __getitem__(self, key: Any) -> Any:
        return self.at_hand[key]

    def __contains__(self, value: Any) -> bool:
        return value in self.at_hand

    def __eq__(self, other: object) -> bool:
        return self.at_hand == other

    def __hash__(self) -> int:
        return hash(self.at_hand)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.at_hand, name)


def range_like(*args: Any) -> Any:
    """`range`, which sizes that the trace leaves open leave open."""
    start, stop, step = range_bounds(args) if 0 < len(args) < 4 else (0, 0, 0)
    if type(step) is not int or step == 0 or not (is_open(start) or is_open(stop)):
        return range(*args)
    if not (isinstance(start, int) and isinstance(stop, int)):
        return range(*args)
    return OpenRange(start, stop, step)


def range_bounds(args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Start, stop and step as the arguments of `range` mean them."""
    found = tuple(args)
    if len(found) == 1:
        return 0, found[0], 1
    return found if len(found) == 3 else (*found, 1)


def shortest(counts: list[Any]) -> Any:
    """The smallest of some counts."""
    fixed = [count for count in counts if isinstance(count, int)]
    result: Any = min(fixed) if fixed else None
    for count in counts:
        if not isinstance(count, int):
            result = count if result is None else minimum(result, count)
    return result
