"""Choices over tensors: `if`, `and`, `or` and the conditional expression."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Leaf,
    RaisedError,
    Surroundings,
    Value,
    trace_block,
)
from tapeline.compiler.frontend.convert.choice import Choice
from tapeline.compiler.frontend.convert.joined_paths import join_effects, join_lists, join_variable
from tapeline.compiler.frontend.convert.lines import shown_line
from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.state import (
    NOTHING,
    State,
    is_symbolic,
    line_of,
)
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.compiler.frontend.convert.unify import (
    MismatchError,
    is_plain_number,
)
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime.errors import PathError
from tapeline.runtime.tensor import Tensor


def choose_block(
    condition: Any,
    then: Callable[[], None],
    other: Callable[[], None],
    state: State,
    what: str | None = None,
) -> None:
    """`if` over a tensor: both blocks are traced, and one of them runs each time."""
    decided = as_condition(condition)
    around = Surroundings.around(state, (then, other))
    what = what or f"the 'if' at {line_of(then)}"
    lists = around.lists()
    first = trace_block(lambda _: then(), around, what, growing=lists)
    second = trace_block(lambda _: other(), around, what, growing=lists)
    choice = Choice(first, second)
    grown = join_lists(choice, lists, what)
    finish: list[Callable[[], None]] = join_effects(choice, what, around)
    values = [
        join_variable(choice, name, position, around, what)
        for position, name in enumerate(state.names)
    ]
    choice.apply(decided)
    state.set(tuple([value() for value in values]))
    for action in (*finish, *grown):
        action()
    choice.let_go()
    _raise_if_both(first, second)


def choose(condition: Any, then: Any, other: Any, is_logical: bool = False) -> Any:
    """`then if condition else other`; each may be a function that computes it.

    Of `and` and `or` one side is the condition itself: there bools become numbers, 0 and 1, where
    the other side is a number.
    """
    decided = as_condition(condition)
    sides = [side if callable(side) else _given(side) for side in (then, other)]
    around = Surroundings.around(NOTHING, tuple(sides))
    lines = [_line_of_side(side) for side in (then, other)]
    what = f"{'and/or' if is_logical else 'a conditional expression'}{_at_line(then, other)}"
    first, second = [trace_block(_run(side), around, what, True) for side in sides]
    simple = _flag(decided, first, second)
    if simple is not None:
        return simple
    choice = Choice(first, second)
    finish = join_effects(choice, what, around)
    if first.returned is None or second.returned is None:
        value = first.returned or second.returned
        _raise_if_both(first, second)
        assert value is not None
        result = choice.take(value, 0 if first.returned is not None else 1)
    else:
        if is_logical:
            first.returned, second.returned = _alike(first.returned, second.returned)
        try:
            result = choice.join(first.returned, second.returned)
        except MismatchError as error:
            one, two = (
                value + shown_line(line)
                for value, line in zip((error.one, error.other), lines, strict=True)
            )
            raise PathError(
                f"{what} over a tensor gives {one} and {two}; both must be tensors of one shape "
                "and dtype"
            ) from None
    choice.apply(decided)
    for action in finish:
        action()
    choice.let_go()
    return result()


def _flag(condition: Tensor, first: BlockTrace, second: BlockTrace) -> Tensor | None:
    """`a or b`, `a and b` of two bools that are there already: no choice is needed."""
    sides = []
    for traced in (first, second):
        if traced.returned is None or any(op is not PLACEHOLDER for op in traced.graph.ops):
            return None
        value = traced.returned.original
        if not is_symbolic(value) or value.dtype.kind != "b" or value.shape:
            return None
        sides.append(value)
    then, other = sides
    if then._value is condition._value:
        return mark_weak(condition | other, bool)
    if other._value is condition._value:
        return mark_weak(condition & then, bool)
    return None


def _alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Bools as the numbers 0 and 1 where the other value is a number."""
    if not (len(a.leaves) == len(b.leaves) == 1):
        return a, b
    x, y = a.leaves[0], b.leaves[0]
    if type(x) is Leaf and x.spec.dtype.kind == "b" and is_plain_number(y):
        x = Leaf(x.node, x.spec, bool)
    if type(y) is Leaf and y.spec.dtype.kind == "b" and is_plain_number(x):
        y = Leaf(y.node, y.spec, bool)
    return Value(a.original, (x,)), Value(b.original, (y,))


def _line_of_side(side: Any) -> int | None:
    """Where one of two expressions stands; None for a value that is there already."""
    side = inspect.unwrap(side) if isinstance(side, FunctionType) else None
    return None if side is None else side.__code__.co_firstlineno


def _at_line(*sides: Any) -> str:
    """Where a conditional expression, `and` or `or` stands."""
    found = [inspect.unwrap(side) for side in sides if isinstance(side, FunctionType)]
    return f" at {line_of(found[0])}" if found else ""


def _given(value: Any) -> Callable[[], Any]:
    return lambda: value


def _run(side: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda _: side()


def _raise_if_both(first: BlockTrace, second: BlockTrace) -> None:
    if first.raised is not None and second.raised is not None:
        raise RaisedError(second.raised)
