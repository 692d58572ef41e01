"""What variables, lists, containers and tensors are after a choice between two blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapeline.compiler.frontend.convert.arrays import align, refuse_growth
from tapeline.compiler.frontend.convert.blocktrace import (
    BlockTrace,
    Surroundings,
    Value,
    length_changed,
)
from tapeline.compiler.frontend.convert.choice import Choice
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.lines import line_before, line_in, shown_line
from tapeline.compiler.frontend.convert.state import (
    RESULT,
    UNDEF,
    is_flagged,
    outer_graph,
    shown_name,
    tracing_graph,
)
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    describe,
)
from tapeline.runtime.errors import PathError
from tapeline.runtime.tensor import Tensor


def join_lists(choice: Choice, lists: dict[int, str], what: str) -> list[Callable[[], None]]:
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


def join_variable(
    choice: Choice, name: str, position: int, around: Surroundings, what: str
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
        if is_flagged(name):
            return choice.take((then, other)[sides[0]], sides[0])
        when = "does not hold" if sides[0] else "holds"
        _poison(name, f"{what} gives it a value only if the condition {when}")
        return _undefined
    refuse_growth(what, name, then.original, other.original)
    then, other = align((then, other), choice.traces)
    try:
        return choice.join(then, other)
    except MismatchError as error:
        if not is_flagged(name) and name not in around.state.live:
            _poison(name, f"on the two paths of {what} it is {error}")
            return _undefined
        shown = f"the variable {shown_name(name)!r}"
        shown = "the result of the function" if name == RESULT else shown
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


def join_effects(choice: Choice, what: str, around: Surroundings) -> list[Callable[[], None]]:
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


def _writer(choice: Choice, cell: Tensor, position: int) -> Callable[[], None]:
    def write() -> None:
        result = choice.cell(position)
        graph = tracing_graph()
        if graph is not None:
            graph.value_id(cell)  # a tensor of outside is to be captured before it changes
        cell._value, cell._node = result._value, result._node

    return write


def _slot_value(traced: BlockTrace, key: tuple[int, Any], slot: Slot) -> Value:
    found = traced.slots.get(key)
    return found[1] if found is not None else traced.value_after(slot.read())


def _slot_writer(slot: Slot, result: Callable[[], Any]) -> Callable[[], None]:
    return lambda: slot.write(result())


def _join_variables(choice: Choice) -> list[Callable[[], None]]:
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


def _assigner(choice: Choice, variable: Any, position: int) -> Callable[[], None]:
    def assign() -> None:
        variable.assign(choice.cell(position))

    return assign
