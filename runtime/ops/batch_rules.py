"""How ops run on many examples at once: the words from which op files make `batch` rules.

A rule is `rule(op, size, inputs, mapped, attrs)`. Inputs that are mapped have the examples along
their first axis, `size` of them; the others are the same for all. The results have the examples
along their first axis. Shapes and axes in `attrs` are those of one example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Attrs, Op, get_op
from tapeline.runtime.tensor import Tensor, new_tensor

Rule: TypeAlias = Callable[[Op, int, Sequence[Tensor], Sequence[bool], Attrs], Any]
Change: TypeAlias = Callable[[int, Any], Any]
"""From the number of examples and an attribute to the attribute for all of them."""

_ALL = ("slice", None, None, None)


def apply(name: str, *inputs: Tensor, attrs: Attrs = ()) -> Tensor:
    """The one output of a registered op."""
    result: Tensor = bind(get_op(name), inputs, attrs)
    return result


def spread(x: Tensor, mapped: bool, size: int) -> Tensor:
    """The tensor with a first axis of examples."""
    return x if mapped else apply("broadcast_to", x, attrs=((size, *x.shape),))


def spread_all(inputs: Sequence[Tensor], mapped: Sequence[bool], size: int) -> list[Tensor]:
    """All inputs with a first axis of examples."""
    return [spread(x, is_mapped, size) for x, is_mapped in zip(inputs, mapped, strict=True)]


def widen(x: Tensor, mapped: bool, ndim: int) -> Tensor:
    """A mapped tensor with ones after the axis of examples, so that an example has `ndim` axes."""
    missing = ndim - len(x.shape) + 1
    if not mapped or missing <= 0:
        return x
    return apply("reshape", x, attrs=((x.shape[0], *(1,) * missing, *x.shape[1:]),))


def rank(x: Tensor, mapped: bool) -> int:
    """The number of axes of one example."""
    return len(x.shape) - mapped


def batch_elementwise(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Examples broadcast against each other from the last axis on."""
    ndim = max(map(rank, inputs, mapped))
    return bind(op, [widen(x, m, ndim) for x, m in zip(inputs, mapped, strict=True)], attrs)


def batch_leading(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """The op itself takes further axes in front."""
    return bind(op, spread_all(inputs, mapped, size), attrs)


def batch_changed(*changes: Change | None) -> Rule:
    """A rule that runs the op with other attributes; None leaves one as it is."""

    def rule(
        op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
    ) -> Any:
        new = [
            value if change is None else change(size, value)
            for change, value in zip(changes, attrs, strict=True)
        ]
        return bind(op, spread_all(inputs, mapped, size), tuple(new))

    return rule


def next_axis(size: int, axis: int) -> int:
    """An axis, behind that of the examples."""
    return axis + 1


def next_axes(size: int, axes: Any) -> Any:
    """Axes, behind that of the examples."""
    return tuple([axis + 1 for axis in axes])


def kept_first(size: int, axes: Any) -> Any:
    """A permutation that leaves the examples in front."""
    return (0, *next_axes(size, axes))


def larger_shape(size: int, shape: Any) -> Any:
    """A shape of all examples."""
    return (size, *shape)


def all_of_first(size: int, index: Any) -> Any:
    """An index into each example."""
    return (_ALL, *index)


def no_pad_first(size: int, pads: Any) -> Any:
    """Padding of each example."""
    return ((0, 0), *pads)


def batch_broadcast_to(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Each example to the shape."""
    shape: Any = attrs[0]
    return bind(op, [widen(inputs[0], True, len(shape))], ((size, *shape),))


def batch_matmul(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Products of stacks; vectors become matrices for the while."""
    (a, b), (map_a, map_b) = inputs, mapped
    row, column = rank(a, map_a) == 1, rank(b, map_b) == 1
    if row:
        a = apply("expand_dims", a, attrs=((len(a.shape) - 1,),))
    if column:
        b = apply("expand_dims", b, attrs=((len(b.shape),),))
    ndim = max(rank(a, map_a), rank(b, map_b))
    product: Tensor = bind(op, (widen(a, map_a, ndim), widen(b, map_b, ndim)))
    last = len(product.shape) - 1
    axes = (*((last - 1,) if row else ()), *((last,) if column else ()))
    return apply("squeeze", product, attrs=(axes,)) if axes else product


def batch_solve(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """As `batch_leading`, where a right-hand side may be a vector."""
    a, b = spread_all(inputs, mapped, size)
    is_vector = len(b.shape) == 2
    if is_vector:
        b = apply("expand_dims", b, attrs=((2,),))
    ndim = max(len(a.shape), len(b.shape)) - 1
    found: Tensor = bind(op, (widen(a, True, ndim), widen(b, True, ndim)), attrs)
    return apply("squeeze", found, attrs=((len(found.shape) - 1,),)) if is_vector else found


def _flat_places(indices: Tensor, extent: int) -> Tensor:
    """Mapped indices into an axis of `extent`, as indices into that axis of all examples in a row.

    Every index is checked, and counted from the front.
    """
    size = indices.shape[0]
    checked = apply("check_index", indices, attrs=(extent, 0))
    starts = np.arange(size, dtype=np.int64).reshape(size, *[1] * (len(indices.shape) - 1))
    zero, whole = (new_tensor(np.array(v, checked.dtype)) for v in (0, extent))
    front = apply(
        "where", apply("less", checked, zero), apply("add", checked, whole), checked
    )  # fmt: skip
    front = apply("cast", front, attrs=(np.dtype(np.int64),))
    return apply("add", front, new_tensor(starts * extent))


def batch_take(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Look-ups in each example, in the same places or in places of its own."""
    (x, indices), axis = inputs, attrs[0]
    assert isinstance(axis, int)
    if not mapped[1]:
        return bind(op, inputs, (axis + 1,))
    n_indices = len(indices.shape) - 1
    if mapped[0]:
        extent = x.shape[axis + 1]
        front = apply("permute_dims", x, attrs=(_moved(len(x.shape), axis + 1, 1),))
        rows = apply("reshape", front, attrs=((size * extent, *front.shape[2:]),))
        taken: Tensor = bind(op, (rows, _flat_places(indices, extent)), (0,))
        # (size, indices, axes before, axes behind) -> (size, before, indices, behind)
        order = list(range(len(taken.shape)))
        middle = order[1 : 1 + n_indices]
        rest = order[1 + n_indices :]
        order = [0, *rest[:axis], *middle, *rest[axis:]]
        return apply("permute_dims", taken, attrs=(tuple(order),))
    taken = bind(op, (x, indices), (axis,))
    return apply("permute_dims", taken, attrs=(_moved(len(taken.shape), axis, 0),))


def batch_take_grad(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """The transpose of `batch_take`."""
    (ct, indices), (axis, extent) = inputs, attrs
    assert isinstance(axis, int)
    assert isinstance(extent, int)
    ct = spread(ct, mapped[0], size)
    if not mapped[1]:
        return bind(op, (ct, indices), (axis + 1, extent))
    n_indices = len(indices.shape) - 1
    order = list(range(len(ct.shape)))
    middle = order[1 + axis : 1 + axis + n_indices]
    rest = [*order[1 : 1 + axis], *order[1 + axis + n_indices :]]
    rows = apply("permute_dims", ct, attrs=((0, *middle, *rest),))
    total: Tensor = bind(op, (rows, _flat_places(indices, extent)), (0, size * extent))
    total = apply("reshape", total, attrs=((size, extent, *total.shape[1:]),))
    return apply("permute_dims", total, attrs=(_moved(len(total.shape), 1, axis + 1),))


def _moved(ndim: int, source: int, target: int) -> tuple[int, ...]:
    """The permutation that moves one axis to another place."""
    order = [axis for axis in range(ndim) if axis != source]
    order.insert(target, source)
    return tuple(order)


def batch_setitem(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Values written into each example."""
    x, values = spread_all(inputs, mapped, size)
    index = (_ALL, *attrs[0])  # type: ignore[misc]  # attributes are typed loosely
    region = apply("getitem", x, attrs=(index,))
    return bind(op, (x, widen(values, True, len(region.shape) - 1)), (index,))


def batch_position(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Any:
    """Positions along one axis, or in all elements of each example in a row."""
    (x,), (axes, keepdims) = inputs, attrs
    assert isinstance(axes, tuple)
    if len(axes) == 1:
        return bind(op, (x,), ((axes[0] + 1,), keepdims))
    extent = math.prod(x.shape[1:])
    rows = apply("reshape", x, attrs=((size, extent),))
    found: Tensor = bind(op, (rows,), ((1,), False))
    if not keepdims:
        return found
    return apply("reshape", found, attrs=((size, *(1,) * (len(x.shape) - 1)),))
