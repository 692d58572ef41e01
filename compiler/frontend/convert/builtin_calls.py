"""Python's builtins over tensors of a trace: `range(n)`, `len(x)`, `int(x)`, `max(a, b)`, ..."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.growth import whole_of
from tapeline.compiler.frontend.convert.math_calls import MATH, as_number
from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.numpy_calls import NUMPY
from tapeline.compiler.frontend.convert.reads import note_attribute
from tapeline.compiler.frontend.convert.row_lists import LoopList, RowList
from tapeline.compiler.frontend.convert.sequences import (
    Sequence,
    TensorRange,
    any_sequence,
    range_bounds,
    range_like,
    range_of,
    sequence_of,
    shortest,
)
from tapeline.compiler.frontend.convert.size_tables import TABLES, open_to_sizes
from tapeline.compiler.frontend.convert.state import LOOPS, is_symbolic
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.runtime import loop_options, nest, ranges
from tapeline.runtime.dims import is_open, is_told
from tapeline.runtime.growing_array import GrowingArray
from tapeline.runtime.ops import creation, effects, evenly_spaced, joining, rounding
from tapeline.runtime.ops.extrema import max as max_along
from tapeline.runtime.ops.extrema import min as min_along
from tapeline.runtime.ops.permuting import moveaxis
from tapeline.runtime.ops.reduction import all as all_along
from tapeline.runtime.ops.reduction import any as any_along
from tapeline.runtime.ops.reduction import sum as sum_along
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.sorting import argsort, sort
from tapeline.runtime.tensor import Tensor, as_tensor


def _range(*args: Any) -> Any:
    if not any(is_symbolic(x) or is_told(x) for x in args):
        return range_like(*args)
    return range_of(*range_bounds(tuple(map(_index, args))))


def _explicit_range(*args: Any, parallel: bool = False) -> Any:
    made = range_of(*range_bounds(tuple(map(_index, args))), is_explicit=True)
    made.is_parallel = parallel
    return made


def _arange(start: Any, /, stop: Any = None, step: Any = 1, **options: Any) -> Any:
    """`tl.arange`; with bounds that a trace does not know something to loop over, whose length is
    left to the loop."""
    start, stop, step = map(evenly_spaced.known_number, (start, stop, step))
    bounds = (start, step) if stop is None else (start, stop, step)
    if not any(map(is_symbolic, bounds)):
        return evenly_spaced.arange(start, stop, step, **options)
    found = range_of(*map(_index, (0, *bounds) if stop is None else bounds))
    dtype = np.dtype(options.get("dtype") or np.int64)
    return TensorRange(
        found,
        lambda k: as_tensor(found.item(k), dtype),
        lambda: evenly_spaced.arange(start, stop, step, **options),
    )


def _index(x: Any) -> Any:
    """A bound of a range, as a whole number that promotes like Python's."""
    if not is_symbolic(x):
        return x
    tensor = as_tensor(x)
    if tensor.dtype.kind not in "iu" or tensor.size != 1:
        raise TypeError(
            f"range: expected whole numbers, got a tensor of {tensor.dtype} and shape "
            f"{tensor.shape}"
        )
    return mark_weak(as_tensor(tensor.reshape(()), np.int64), int)


def _len(x: Any) -> Any:
    if is_symbolic(x) and type(x) is Tensor and x.shape:
        return x.shape[0]  # which may be open
    if type(x) is GrowingArray or type(x) is LoopList:
        return x.size()
    if type(x) is RowList:
        return x.count
    return x.count if isinstance(x, Sequence) else builtins.len(x)


def _enumerate(items: Any, start: Any = 0) -> Any:
    found = sequence_of(items)
    if found is None:
        return builtins.enumerate(items, start)
    made = _derived(found, lambda k: (start + k, found.item(k)))
    of_rows = found.of_rows
    if of_rows is not None:
        made.rows = found.rows
        made.of_rows = lambda k, parts: (start + k, of_rows(k, parts))
    return made


def _zip(*items: Any, strict: bool = False) -> Any:
    if not any(sequence_of(x) is not None for x in items):
        return builtins.zip(*items, strict=strict)
    found = [x for x in map(any_sequence, items) if x is not None]
    if len(found) < len(items):
        return builtins.zip(*items, strict=strict)
    counts = [x.count for x in found]
    is_long = all(x.is_long_range for x in found)
    made = Sequence(shortest(counts), lambda k: tuple([x.item(k) for x in found]), is_long)
    if all(count == counts[0] for count in counts if isinstance(counts[0], int)):
        made.rows = tuple([row for x in found for row in x.rows])
        made.of_rows = lambda k, parts: tuple(_parts_of(found, k, parts))
    if strict and len({c for c in counts if isinstance(c, int)}) > 1:
        raise ValueError("zip() arguments have different lengths")
    return made


def _parts_of(found: list[Sequence], index: Any, parts: list[Any]) -> Iterator[Any]:
    """The item of each sequence, from the parts of the tensors of all of them."""
    start = 0
    for sequence in found:
        stop = start + len(sequence.rows)
        if sequence.of_rows is None:
            yield sequence.item(index)
        else:
            yield sequence.of_rows(index, parts[start:stop])
        start = stop


def _reversed(items: Any) -> Any:
    found = sequence_of(items)
    if found is None:
        return builtins.reversed(items)
    return _derived(found, lambda k: found.item(found.count - 1 - k))


def _derived(found: Sequence, item: Callable[[Any], Any]) -> Sequence:
    return Sequence(found.count, item, found.is_long_range, found.is_explicit)


def _map(function: Any, *items: Any) -> Any:
    from tapeline.compiler.frontend.convert.calls import callee

    converted = callee(function)
    return builtins.map(converted, *items)


def _number(kind: type, dtype: Any) -> Callable[..., Any]:
    def convert(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and kind is int and is_open(args[0]):
            return args[0]
        if len(args) == 1 and is_told(args[0]):
            args = (args[0].__tapeline_tensor__(),)
        if len(args) != 1 or kwargs or not is_symbolic(args[0]):
            return kind(*args, **kwargs)
        tensor = as_number(kind.__name__, args[0])
        if kind is int and tensor.dtype.kind == "f":
            tensor = rounding.trunc(tensor)
        return mark_weak(as_tensor(tensor, dtype), kind)

    return convert


def _item(x: Tensor, *index: Any) -> Any:
    """`x.item()`: a tensor that promotes like the Python number."""
    if not is_symbolic(x):
        return x.item(*index)
    found = x if not index else x.reshape(-1)[index[0]] if len(index) == 1 else x[index]
    return _as_python(as_number("item", found))


def _as_python(tensor: Tensor) -> Tensor:
    kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[tensor.dtype.kind]
    return mark_weak(as_tensor(tensor, np.dtype(kind)), kind)


def _tolist(x: Tensor) -> Any:
    """`x.tolist()`: lists of tensors that promote like Python numbers."""
    if not is_symbolic(x):
        return x.tolist()
    return _as_python(x) if x.ndim == 0 else [_tolist(item) for item in x]


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    """`copy.copy` and `copy.deepcopy`."""

    def convert(x: Any, *args: Any) -> Any:
        if type(x) is Tensor and is_symbolic(x):
            return creation.asarray(x, copy=True)
        return function(x, *args)

    return convert


def _bool(x: Any = False) -> Any:
    return mark_weak(as_condition(x), bool) if is_symbolic(x) else builtins.bool(x)


def _round(x: Any, digits: Any = None) -> Any:
    if not is_symbolic(x):
        return builtins.round(x) if digits is None else builtins.round(x, digits)
    tensor = as_tensor(x)
    rounded = rounding.round(tensor) if digits is None else rounding.round(tensor, digits)
    if digits is None and getattr(tensor._value, "weak", None) is float:
        return mark_weak(as_tensor(rounded, np.int64), int)  # as of a Python float
    return rounded


def _extremum(name: str, reduce: Callable[..., Any], is_better: Callable[..., Any]) -> Any:
    plain = getattr(builtins, name)

    def extremum(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        args = tuple(map(_rows, args))
        if len(args) == 1 and is_symbolic(args[0]) and as_tensor(args[0]).ndim == 1 and not key:
            return reduce(args[0])
        items = args if len(args) > 1 else tuple(args[0])
        keys = items if key is None else tuple(_map(key, items))
        if not any(map(is_symbolic, keys)):
            return plain(items, key=key, **kwargs) if len(args) == 1 else plain(*items, key=key)
        best, chosen = items[0], keys[0]
        for item, own in zip(items[1:], keys[1:], strict=True):
            better = as_condition(is_better(own, chosen))
            best = nest.map_structure(lambda a, b: where(better, a, b), item, best)  # noqa: B023  # used at once
            chosen = where(better, own, chosen)
        return best

    return extremum


def _rows(items: Any) -> Any:
    """A list of tensors of which a tensor decides how long it is, as one tensor."""
    return items.stacked() if type(items) is RowList and items.is_flat else items


def _sum(items: Any, start: Any = 0) -> Any:
    if type(items) is RowList and items.is_flat:
        return sum_along(items.stacked(), axis=0) + start
    if is_symbolic(items) and as_tensor(items).ndim == 1 and not is_symbolic(start) and start == 0:
        return sum_along(items)
    return builtins.sum(items, start)


def _quantifier(plain: Callable[..., Any], reduce: Callable[..., Any], stop: bool) -> Any:
    def quantifier(items: Any) -> Any:
        items = _rows(items)
        if is_symbolic(items):
            return reduce(items)
        found: Any = not stop
        for item in items:
            if is_symbolic(item):
                truth = as_condition(item)
                found = truth if found is (not stop) else (found | truth if stop else found & truth)
            elif builtins.bool(item) is stop:
                return stop
        return found

    return quantifier


def _sorted(items: Any, *, key: Any = None, reverse: Any = False) -> Any:
    if key is None and is_symbolic(items) and as_tensor(items).ndim == 1:
        return list(sort(items, descending=builtins.bool(reverse)))
    given = list(items)
    keys = given if key is None else list(_map(key, given))
    if not any(map(is_symbolic, keys)):
        return builtins.sorted(given, key=key, reverse=reverse)
    order = argsort(joining.stack(keys), descending=builtins.bool(reverse))
    columns = zip(*[nest.flatten(item) for item in given], strict=True)
    ordered = [joining.stack(column)[order] for column in columns]
    return [
        nest.unflatten(given[0], [column[k] for column in ordered])
        for k in builtins.range(len(given))
    ]


def _getattr(holder: Any, name: Any, *default: Any) -> Any:
    """`getattr`, a read like any other."""
    if not default:
        return note_attribute(holder, name)
    try:
        return note_attribute(holder, name)
    except AttributeError:
        return default[0]


def _hasattr(holder: Any, name: Any) -> bool:
    try:
        note_attribute(holder, name)
    except AttributeError:
        return False
    return True


def _vars(holder: Any) -> Any:
    return note_attribute(holder, "__dict__")


def _print(*values: Any, **options: Any) -> None:
    leaves = [leaf for value in values for leaf in nest.flatten(value)]
    if not any(map(is_symbolic, leaves)):
        builtins.print(*values, **options)
        return
    effects.print(*values, **options)


def _stack(arrays: Any, /, axis: int = 0) -> Any:
    if type(arrays) is RowList:
        return moveaxis(arrays.stacked(), 0, axis)
    whole = whole_of(arrays) if axis == 0 and isinstance(arrays, list | tuple) else None
    return joining.stack(arrays, axis=axis) if whole is None else whole


def _set_loop_options(**options: Any) -> None:
    loop_options.set_loop_options(**options)
    loop = LOOPS.stack[-1] if LOOPS.stack else None
    if loop is not None:
        loop.take_options(**options)


BUILTINS: dict[Any, Any] = {
    loop_options.set_loop_options: _set_loop_options,
    ranges.range: _explicit_range,
    evenly_spaced.arange: _arange,
    joining.stack: _stack,
    builtins.range: _range,
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.vars: _vars,
    builtins.len: _len,
    builtins.enumerate: _enumerate,
    builtins.zip: _zip,
    builtins.reversed: _reversed,
    builtins.map: _map,
    builtins.int: _number(int, np.int64),
    builtins.float: _number(float, np.float64),
    builtins.complex: _number(complex, np.complex128),
    builtins.bool: _bool,
    builtins.round: _round,
    builtins.max: _extremum("max", max_along, lambda a, b: a > b),
    builtins.min: _extremum("min", min_along, lambda a, b: a < b),
    builtins.sum: _sum,
    builtins.any: _quantifier(any, any_along, True),
    builtins.all: _quantifier(all, all_along, False),
    builtins.sorted: _sorted,
    builtins.print: _print,
    copy.copy: _copied(copy.copy),
    copy.deepcopy: _copied(copy.deepcopy),
    **MATH,
    **NUMPY,
    **{one: open_to_sizes(one, NUMPY.get(one, one)) for one in TABLES},
}
"""What is called in the place of a function of Python or NumPy while a trace is under way."""

METHODS: dict[Any, Any] = {Tensor.item: _item, Tensor.tolist: _tolist}
"""The same for methods of tensors."""
