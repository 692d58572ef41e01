"""ONNX rules of the ops whose results have a size that depends on values. Each tells its size,
which nodes after it ask for by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.export.onnx.model import INT64, Ref
from tapeline.compiler.export.onnx.named import argsort
from tapeline.compiler.export.onnx.rules import Use
from tapeline.compiler.export.onnx.scalar import BOOL, COMPARISONS
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.errors import ExportError
from tapeline.runtime.op import Predicate
from tapeline.runtime.sizes import Condition, Sizes


def check_example(name: str, sizes: Sizes) -> None:
    """Refuses a trace of a special case: one in which a size that values tell must be small, as
    where the mask of the example picked nothing.

    Raises
    ------
    ExportError
        With what to do.
    """
    for one in sizes.conditions:
        if one.holds and type(one.right) is not Dim and sizes.is_told(one.left):
            raise ExportError(
                f"onnx: {name} was traced for a special case, {one}, where values tell "
                f"{one.left}; {way_out(one)}"
            )


def way_out(condition: Condition) -> str:
    """What to do about a condition on a size that values tell."""
    return (
        f"trace the function first with arguments for which {condition} does not hold, such as a "
        "mask with several true elements, and pass these as signature"
    )


def translate_sized(use: Use, sizes: Sizes) -> list[Ref]:
    """The outputs of such an op, whose size the model knows from there on.

    Raises
    ------
    ExportError
        If there is no ONNX form of it.
    """
    rule = _RULES.get(use.op.name)
    if rule is None:
        raise ExportError(f"there is no ONNX form of {use.op.name}")
    found = rule(use)
    size = use.graph.add("Shape", found[0], dtype=INT64, start=-1, wish="size")
    name = source_of(use.attrs[-1])
    use.graph.shared.symbols[name] = size
    fails = _failure(use, sizes, int(name.removeprefix("n")))
    if fails is not None:
        size = use.graph.add("Gather", size, use.graph.cast(fails, INT64), axis=0)
        use.graph.shared.symbols[name] = size
        zero, last = use.graph.ints([0]), use.graph.ints([-1])
        found[0] = use.graph.add("Slice", found[0], zero, size, last)
    where = f" at {use.graph.location}" if use.graph.location else ""
    use.graph.note(f"{name} is the size of what {use.op.name}{where} gives")
    return found


def _failure(use: Use, sizes: Sizes, number: int) -> Ref | None:
    """Whether the size is one for which the function would be traced anew: a place beyond the only
    element there is, so that the model fails rather than give what is not so. That a size is not
    some number is no matter: it may well be, mostly, and the notes say so."""
    graph, known = use.graph, dict(use.graph.shared.sizes)
    found = None
    for one in sizes.conditions_on(number):
        if one.relation == "==" and not one.holds:
            continue
        sides: list[Any] = [one.left, one.right]
        left, right = (graph.ints([side]) for side in sides)
        fails = graph.add(COMPARISONS[_PREDICATES[one.relation]], left, right, dtype=BOOL)
        if one.holds:
            fails = use.scalars.bit_not(fails)
        found = fails if found is None else use.scalars.bit_or(found, fails)
    graph.shared.sizes.clear()
    graph.shared.sizes.update(known)
    return found


_PREDICATES: dict[str, Predicate] = {"==": "eq", "<": "lt", "<=": "le"}


def _nonzero(use: Use) -> list[Ref]:
    flags = use.scalars.cast(use.inputs[0], BOOL)
    return [use.graph.add("NonZero", flags, dtype=INT64)]


def _span(use: Use) -> list[Ref]:
    """The numbers from the first up to the second."""
    start, stop = (use.graph.cast(one, INT64) for one in use.inputs)
    return [use.graph.add("Range", start, stop, use.graph.constant(np.int64(1)))]


def _size_of(use: Use) -> list[Ref]:
    stop = use.graph.cast(use.inputs[0], INT64)
    zero, one = use.graph.constant(np.int64(0)), use.graph.constant(np.int64(1))
    return [use.graph.add("Range", zero, stop, one)]


def _repeat_places(use: Use) -> list[Ref]:
    """How many sums of the counts each place is not below: a mark where each count ends, added
    up."""
    graph = use.graph
    counts = graph.cast(use.inputs[0], INT64)
    zero = graph.constant(np.int64(0))
    row = graph.constant(np.array([0]))
    ends = graph.add("CumSum", counts, zero)
    total = graph.add("ReduceSum", counts, row, keepdims=1)
    room = graph.add("Add", total, graph.constant(np.array([1])))
    marks = graph.add("Expand", zero, room)
    ones = graph.add("Expand", graph.constant(np.int64(1)), graph.add("Shape", ends))
    marks = graph.add("ScatterElements", marks, ends, ones, axis=0, reduction="add")
    return [graph.add("Slice", graph.add("CumSum", marks, zero), row, total)]


def _unique(use: Use) -> list[Ref]:
    """Elements in order: the first of each kind differs from the one before it."""
    axis, equal_nan, _ = use.attrs
    if axis is not None and use.specs[0].ndim > 1:
        raise ExportError("there is no ONNX form of tl.unique of parts along an axis")
    graph, scalars = use.graph, use.scalars
    x = use.flat(0)
    count = use.specs[0].size
    order = argsort(use, x, (count,), 0)
    row = graph.add("Gather", x, order, axis=0)
    zero, one, end = (graph.ints([number]) for number in (0, 1, count))
    last = graph.add("Sub", end, one)
    before, after = graph.add("Slice", row, zero, last), graph.add("Slice", row, one, end)
    differs = scalars.compare("ne", before, after)
    if equal_nan and x.dtype.kind == "f":
        both = scalars.bit_and(
            scalars.compare("ne", before, before), scalars.compare("ne", after, after)
        )
        differs = scalars.bit_and(differs, scalars.bit_not(both))
    begins = graph.add("Concat", graph.constant(np.array([True])), differs, axis=0)
    begins = graph.add("Slice", begins, zero, end)
    starts = graph.reshape(graph.add("NonZero", begins, dtype=INT64), (-1,))
    ranks = graph.add("CumSum", graph.cast(begins, INT64), graph.constant(np.int64(0)))
    ranks = graph.add("Sub", ranks, one)
    inverse = graph.add("ScatterElements", ranks, order, ranks, axis=0)
    shape = use.outputs[1].static_shape
    following = graph.add("Slice", starts, one, graph.add("Shape", starts))
    counts = graph.add("Sub", graph.add("Concat", following, end, axis=0), starts)
    first = graph.add("Gather", order, starts, axis=0)
    return [first, graph.reshape(inverse, shape), counts]


_RULES: dict[str, Callable[[Use], list[Ref]]] = {
    "nonzero": _nonzero,
    "span": _span,
    "size_of": _size_of,
    "repeat_places": _repeat_places,
    "unique": _unique,
}
