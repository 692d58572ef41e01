"""Choices over tensors: `if`, `and`, `or`, the conditional expression, `assert` and `raise`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tapeline.compiler.frontend.convert.arrays import align, refuse_growth
from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Leaf,
    RaisedError,
    Surroundings,
    Value,
    length_changed,
    take_value,
    trace_block,
)
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.lines import line_before, line_in, shown_line
from tapeline.compiler.frontend.convert.nodes import apply_cond, mark_weak
from tapeline.compiler.frontend.convert.state import (
    NOTHING,
    RESULT,
    UNDEF,
    State,
    is_symbolic,
    line_of,
    outer_graph,
    tracing_graph,
)
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    describe,
    is_plain_number,
    join_values,
    node_of,
    zeros,
)
from tapeline.compiler.frontend.symbol import SHOWN
from tapeline.compiler.ir.structure_ops import PLACEHOLDER
from tapeline.runtime import nest
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ArgumentError, PathError, TracingError
from tapeline.runtime.ops.effects import HOST_ASSERT, Message
from tapeline.runtime.ops.logic import logical_not
from tapeline.runtime.tensor import Tensor, as_tensor

_BOOL = "bool"


def as_condition(x: Any) -> Tensor:
    """The truth value of a tensor of one element, as a bool tensor of no dimensions.

    Raises
    ------
    ArgumentError
        (a ValueError, as NumPy's) if it has more elements.
    """
    tensor = as_tensor(x)
    if tensor.size != 1:
        raise ArgumentError(
            f"the truth value of a tensor of shape {tensor.shape} is ambiguous; "
            "use .any() or .all(), or tl.where to choose element by element"
        )
    if tensor.shape:
        tensor = tensor.reshape(())
    return as_tensor(tensor, _BOOL)


def negate(x: Any) -> Tensor:
    """`not x`"""
    return logical_not(as_condition(x))


def contained(item: Any, container: Any) -> Any:
    """`item in container`"""
    if is_symbolic(container):
        return (as_tensor(container) == item).any()
    if not isinstance(container, list | tuple | range | set | frozenset):
        return item in container
    if not (is_symbolic(item) or any(map(is_symbolic, container))):
        return item in container
    found: Any = False
    for candidate in container:
        equal = as_condition(item == candidate)
        found = equal if found is False else found | equal
    return found


class _Choice:
    """The values of two blocks being joined; collects the outputs of both."""

    def __init__(self, then: BlockTrace, other: BlockTrace) -> None:
        self.traces = then, other
        self.outputs: tuple[list[int], list[int]] = ([], [])
        self.joined: list[Joined] = []
        self._results: list[Tensor] = []

    def add_node(self, a: int, b: int, wanted: Joined) -> int:
        """A pair of nodes; the answer is the position of the result."""
        self.outputs[0].append(a)
        self.outputs[1].append(b)
        self.joined.append(wanted)
        return len(self.joined) - 1

    def join(self, a: Value, b: Value) -> Callable[[], Any]:
        """Joins two values; what is returned gives the result once the op is applied."""
        leaves = join_values(a, b)
        made = []
        for leaf, x, y in zip(leaves, a.leaves, b.leaves, strict=True):
            if type(leaf) is Joined:
                nodes = node_of(self.traces[0], x, leaf), node_of(self.traces[1], y, leaf)
                made.append(self.add_node(*nodes, leaf))
            else:
                made.append(leaf)
        return self._rebuild(a.original, leaves, made)

    def take(self, value: Value, side: int) -> Callable[[], Any]:
        """The value of one block; nobody will look at it where the other one runs."""
        leaves = []
        made = []
        for leaf in value.leaves:
            try:
                wanted = join_values(Value(None, (leaf,)), Value(None, (leaf,)))[0]
            except MismatchError:
                wanted = leaf
            leaves.append(wanted)
            if type(wanted) is Joined:
                nodes = [zeros(traced, wanted) for traced in self.traces]
                nodes[side] = node_of(self.traces[side], leaf, wanted)
                made.append(self.add_node(nodes[0], nodes[1], wanted))
            else:
                made.append(leaf)
        return self._rebuild(value.original, tuple(leaves), made)

    def _rebuild(
        self, structure: Any, leaves: tuple[Any, ...], made: list[Any]
    ) -> Callable[[], Any]:
        def result() -> Any:
            values = [
                self._results[x] if type(leaf) is Joined else x
                for leaf, x in zip(leaves, made, strict=True)
            ]
            return nest.unflatten(structure, values)

        return result

    def apply(self, condition: Tensor) -> None:
        """Adds the op to the graph around."""
        results = apply_cond(condition, self.traces, self.outputs)
        self._results = [
            mark_weak(tensor, wanted.weak)
            for tensor, wanted in zip(results, self.joined, strict=False)
        ]

    def cell(self, position: int) -> Tensor:
        """The result at a position."""
        return self._results[position]


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
    choice = _Choice(first, second)
    grown = _join_lists(choice, lists, what)
    finish: list[Callable[[], None]] = _join_effects(choice, what, around)
    values = [
        _join_variable(choice, name, position, around, what)
        for position, name in enumerate(state.names)
    ]
    choice.apply(decided)
    state.set(tuple([value() for value in values]))
    for action in (*finish, *grown):
        action()
    _raise_if_both(first, second)


def _join_lists(choice: _Choice, lists: dict[int, str], what: str) -> list[Callable[[], None]]:
    """Joins what both blocks appended to lists, which must be as many items of the same kinds."""
    finish: list[Callable[[], None]] = []
    first, second = (traced.grown for traced in choice.traces)
    for key in {**first, **second}:
        pair = [grown.get(key) for grown in (first, second)]
        one = pair[0] or pair[1]
        assert one is not None
        ended = [side for side in (0, 1) if choice.traces[side].raised is not None]
        if ended:
            left = pair[1 - ended[0]]
            result = _nothing if left is None else choice.take(left[1], 1 - ended[0])
        elif pair[0] is None or pair[1] is None:
            raise length_changed(what, lists[key])
        else:
            try:
                result = choice.join(pair[0][1], pair[1][1])
            except MismatchError:
                raise length_changed(what, lists[key]) from None
        finish.append(_extender(one[0], result))
    return finish


def _nothing() -> list[Any]:
    return []


def _extender(items: list[Any], result: Callable[[], Any]) -> Callable[[], None]:
    return lambda: items.extend(result())


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
    choice = _Choice(first, second)
    finish = _join_effects(choice, what, around)
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


def _join_variable(
    choice: _Choice, name: str, position: int, around: Surroundings, what: str
) -> Callable[[], Any]:
    then, other = (traced.values[position] for traced in choice.traces)
    if then.original is UNDEF and other.original is UNDEF:
        _poison(name, f"{what} leaves it without a value on both paths")
        return _undefined
    if then.original is other.original and (
        then.original is around.before[position] or not then.has_tensors
    ):
        return lambda: then.original
    for side, traced in enumerate(choice.traces):
        if traced.raised is not None:
            value = (other, then)[side]
            return choice.take(value, 1 - side) if value.original is not UNDEF else _undefined
    sides = [side for side, value in enumerate((then, other)) if value.original is not UNDEF]
    if len(sides) == 1:
        if name == RESULT:
            return choice.take((then, other)[sides[0]], sides[0])
        when = "does not hold" if sides[0] else "holds"
        _poison(name, f"{what} gives it a value only if the condition {when}")
        return _undefined
    refuse_growth(what, name, then.original, other.original)
    then, other = align((then, other), choice.traces)
    try:
        return choice.join(then, other)
    except MismatchError as error:
        if name != RESULT and name not in around.state.live:
            _poison(name, f"on the two paths of {what} it is {error}")
            return _undefined
        shown = "the result of the function" if name == RESULT else f"the variable {name!r}"
        raise PathError(
            f"{what} depends on a tensor, and {shown} is on its two paths "
            f"{_with_lines(error, name, around)}; both must be tensors of one shape and dtype, or "
            "equal values"
        ) from None


def _with_lines(error: MismatchError, name: str | Slot, around: Surroundings) -> str:
    """The values on two paths, each with the line on which it is given."""
    parts = []
    for block, value in zip(around.blocks, (error.one, error.other), strict=True):
        line = line_in(block, name)
        if line is None and value != describe(UNDEF):
            line = line_before(name, around.blocks[0])
        parts.append(value + shown_line(line))
    return " and ".join(parts)


def _undefined() -> Any:
    return UNDEF


def _poison(name: str, reason: str) -> None:
    """Remembers why a variable has no value, for the error where it is used."""
    graph = outer_graph()
    if graph is not None and graph.reads is not None:
        graph.reads.poisoned[name] = reason


def _join_effects(choice: _Choice, what: str, around: Surroundings) -> list[Callable[[], None]]:
    """Joins what the blocks did to tensors, containers and Variables of outside."""
    finish: list[Callable[[], None]] = []
    first, second = choice.traces
    for key in {**first.cells, **second.cells}:
        cell = (first.cells.get(key) or second.cells[key])[0]
        nodes = [_cell_node(traced, cell) for traced in choice.traces]
        wanted = Joined(first.graph.spec(nodes[0]), None)
        finish.append(_writer(choice, cell, choice.add_node(nodes[0], nodes[1], wanted)))
    for place in {**first.slots, **second.slots}:
        slot = (first.slots.get(place) or second.slots[place])[0]
        values = [_slot_value(traced, place, slot) for traced in choice.traces]
        try:
            result = choice.join(*values)
        except MismatchError as error:
            raise PathError(
                f"{what} depends on a tensor, and {slot.path} is on its two paths "
                f"{_with_lines(error, slot, around)}; both must be tensors of one shape and dtype, "
                "or equal values"
            ) from None
        finish.append(_slot_writer(slot, result))
    finish += _join_variables(choice)
    return finish


def _cell_node(traced: BlockTrace, cell: Tensor) -> int:
    found = traced.cells.get(id(cell))
    if found is not None:
        return found[1]
    return traced.graph.value_id(cell)


def _writer(choice: _Choice, cell: Tensor, position: int) -> Callable[[], None]:
    def write() -> None:
        result = choice.cell(position)
        graph = tracing_graph()
        if graph is not None:
            graph.value_id(cell)  # a tensor of outside is to be captured before it changes
        cell._value, cell._node = result._value, result._node

    return write


def _slot_value(traced: BlockTrace, key: tuple[int, Any], slot: Slot) -> Value:
    found = traced.slots.get(key)
    return found[1] if found is not None else take_value(traced.graph, slot.read())


def _slot_writer(slot: Slot, result: Callable[[], Any]) -> Callable[[], None]:
    return lambda: slot.write(result())


def _join_variables(choice: _Choice) -> list[Callable[[], None]]:
    finish: list[Callable[[], None]] = []
    resources = [traced.graph.resources for traced in choice.traces]
    for key in {**resources[0], **resources[1]}:
        pair = [table.get(key) for table in resources]
        if not any(resource is not None and resource.is_assigned for resource in pair):
            continue
        resource = pair[0] or pair[1]
        assert resource is not None
        variable = resource.variable
        nodes = []
        for traced, mine in zip(choice.traces, pair, strict=True):
            if mine is None:
                nodes.append(traced.graph.read_variable(variable).id)
            else:
                nodes.append(mine.current)
        position = choice.add_node(nodes[0], nodes[1], Joined(resource.spec, None))
        finish.append(_assigner(choice, variable, position))
    return finish


def _assigner(choice: _Choice, variable: Any, position: int) -> Callable[[], None]:
    def assign() -> None:
        variable.assign(choice.cell(position))

    return assign


def check(condition: Any, message: Callable[[], Any] | None) -> None:
    """`assert` of a tensor: a check when the compiled function runs."""
    args = () if message is None else (message(),)
    SHOWN.forget(" ".join(map(str, args)))
    bind(HOST_ASSERT, (as_condition(condition),), (Message(args),))


def depth() -> int:
    """In how many branches and rounds that tensors decide the code is now."""
    graph, count = tracing_graph(), 0
    while graph is not None and graph.surroundings is not None:
        graph, count = graph.outer, count + 1
    return count


def raise_later(error: Any, outside: int, caught: Callable[[], Any]) -> Any:
    """The exception of a `raise` statement. If it leaves a branch over a tensor, it is raised when
    that branch runs: too late for a `try` around the branch.

    Raises
    ------
    TracingError
        If that `try`, which stands in `outside` such branches, would catch it.
    """
    graph = tracing_graph()
    if graph is None or graph.surroundings is None:
        return error
    SHOWN.forget(str(error))
    kind = error if isinstance(error, type) else type(error)
    if depth() > outside and issubclass(kind, caught()):
        raise TracingError(
            f"{kind.__name__} is raised where a tensor decides, and is to be caught by the 'try' "
            "around that; a compiled function has no handlers when it runs: say with a variable "
            "what happened"
        )
    graph.surroundings.raised.append(error)
    return error
