"""A traced loop as a node of the graph around, and the values that everything has after it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.blocktrace import Leaf
from tapeline.compiler.frontend.convert.carried import (
    Carried,
    identity_of,
    initial_tensor,
)
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.growth import take_growth
from tapeline.compiler.frontend.convert.int_growth import add_check, overflowing
from tapeline.compiler.frontend.convert.loop_sameness import FLAG
from tapeline.compiler.frontend.convert.loop_trace import INDEX, Loop
from tapeline.compiler.frontend.convert.nodes import LoopShape, apply_while, mark_weak
from tapeline.compiler.frontend.convert.sameness import When
from tapeline.compiler.frontend.convert.state import UNDEF
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.compiler.frontend.convert.unify import Joined, node_of
from tapeline.runtime import nest
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import IntOverflowError, TracingError
from tapeline.runtime.loop_options import parse_gradient
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.effects import HOST_ASSERT, Message
from tapeline.runtime.ops.logic import logical_not
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

_BOOL = np.dtype(np.bool_)


class _States:
    """The states of the node: what each is after a round, what it is before the first one, and how
    it is held."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.outputs: list[int] = []
        self.initial: list[Tensor] = []
        self.joined: list[Joined] = []

    def add(self, output: int, initial: Tensor, joined: Joined) -> None:
        self.outputs.append(output)
        self.initial.append(initial)
        self.joined.append(joined)

    def add_index(self) -> None:
        """The number of the round."""
        graph, index = self.loop.body_trace.graph, self.loop.body_inputs[0]
        one = graph.add_constant(np.array(1, INDEX))
        following = graph.add(get_op("add"), (index, one))
        self.add(following, as_tensor(0, INDEX), Joined(spec_of((), INDEX), int))

    def add_carried(self) -> None:
        """What the program carries from round to round."""
        loop = self.loop
        for item, initial, wanted, same, left in loop.carried_leaves():
            output = same
            if left is not None:
                output = node_of(loop.body_trace, left, wanted)
                loop.check_independence(item, same, output)
            self.add(output, initial_tensor(initial, wanted), wanted)

    def add_samenesses(self) -> None:
        """Whether tensors are one object, where writes have to know."""
        sameness = self.loop.sameness
        for pair, start in zip(sameness.carried(), sameness.initial(), strict=True):
            assert pair.after is not None
            self.add(pair.after, start, FLAG)

    def add_fit(self, risky: Any) -> None:
        """Whether ints of Python's have fitted their 64 bits so far."""
        loop, place = self.loop, len(self.initial)
        for traced, inputs in (
            (loop.body_trace, loop.body_inputs),
            (loop.test_trace, loop.test_inputs),
        ):
            inputs.insert(place, traced.graph.add_placeholder(spec_of((), _BOOL), "fits"))
        check = add_check(loop.body_trace.graph, loop.body_inputs[place], risky)
        self.add(check, as_tensor(True), Joined(spec_of((), _BOOL), None))


def finish(loop: Loop) -> None:
    """Adds the loop to the graph around, and gives everything its value after the loop."""
    states = _States(loop)
    if loop.is_counted:
        states.add_index()
    states.add_carried()
    states.add_samenesses()
    risky = overflowing(loop)
    if risky:
        states.add_fit(risky)
    if not states.outputs and not loop.body_trace.grown:
        raise TracingError(f"{loop.what} depends on a tensor that no round changes")
    growths = take_growth(loop.body_trace)
    rows = [node for growth in growths for node in growth.nodes]
    results = apply_while(
        loop.test_trace,
        loop.body_trace,
        (loop.test_inputs, loop.body_inputs),
        loop.condition,
        [*states.outputs, *rows],
        states.initial,
        _shape(loop),
    )
    count = len(states.outputs)
    stacked = results[count:]
    del results[count:]
    if risky:
        _check_fit(loop, results.pop())
    first = len(results) - len(loop.sameness.carried())
    one_object = results[first:]
    del results[first:]
    if loop.needs_round:
        _check_round(loop, results[0] > 0 if loop.is_counted else loop.first_condition)
    marked = [mark_weak(t, w.weak) for t, w in zip(results, states.joined, strict=False)]
    _put_results(loop, iter(marked[1 if loop.is_counted else 0 :]))
    loop.sameness.finish(one_object, _no_round(loop, results))
    loop.body_trace.graph.let_go()
    loop.test_trace.graph.let_go()
    for growth in growths:
        assert loop.limit is not None
        growth.extend(stacked[: len(growth.nodes)], loop.limit, loop.state, loop.what)
        del stacked[: len(growth.nodes)]


def _no_round(loop: Loop, results: list[Tensor]) -> When | None:
    """The condition under which no round runs; None where one does."""
    if loop.runs_once and loop.limit is not None:
        return None
    if loop.is_counted:
        index = results[0]
        return When(lambda: index == 0)
    going = loop.first_condition
    return When(lambda: logical_not(as_condition(going)))


def _shape(loop: Loop) -> LoopShape:
    every = parse_gradient(loop.options.gradient)
    bound = loop.options.maximum_iterations if loop.limit is None else None
    return LoopShape(loop.limit, loop.rows, every, bound, loop.what)


def _check_round(loop: Loop, is_run: Any) -> None:
    """Makes it an error of the compiled function if no round runs."""
    name = loop.needs_round[0]
    text = f"the variable {name!r} has no value: {loop.what} ran no round"
    bind(HOST_ASSERT, (as_condition(is_run),), (Message((text,), UnboundLocalError),))


def _check_fit(loop: Loop, fits: Tensor) -> None:
    """Makes it an error of the compiled function if an int of Python's did not fit."""
    text = (
        f"{loop.what} is a loop of the graph, whose ints have 64 bits, and one of its Python ints "
        "grew beyond; make it a float, or a tensor where it is to wrap around, before the loop"
    )
    bind(HOST_ASSERT, (fits,), (Message((text,), IntOverflowError),))


def _put_results(loop: Loop, tensors: Any) -> None:
    variables = list(loop.around.before)
    for position, name in enumerate(loop.state.names):
        value = loop.body_trace.values[position].original
        if variables[position] is UNDEF and value is not UNDEF:
            if not loop.runs_once:
                loop.poison(name, "gives it a value, but may run no round; give it one")
            elif not loop.body_trace.values[position].has_tensors:
                variables[position] = value
    for item in loop.carried:
        leaves = [next(tensors) if type(w) is Joined else w for w in item.wanted]
        value = nest.unflatten(item.structure, leaves)
        place = item.place
        if type(place) is int:
            variables[place] = _kept(loop, item, value)
        elif isinstance(place, Slot):
            place.write(value)
        elif type(place) is Tensor:
            place._value, place._node = value._value, value._node
        else:
            place.assign(value)
    loop.state.set(tuple(variables))


def _kept(loop: Loop, item: Carried, value: Any) -> Any:
    """The value of a variable after the loop: the very object, if no round changes it."""
    after = loop.after.get(identity_of(item.place))
    if after is None or item.is_late:
        return value
    is_number = getattr(item.wanted[0], "weak", None) is not None if item.wanted else True
    if type(item.structure) is Tensor and not item.is_kept and not is_number:
        return value  # equal, but another object
    entered = loop.around.before[item.place]
    held = after.leaves
    if all(
        type(w) is not Joined or (type(x) is Leaf and x.node in loop.body_inputs)
        for w, x in zip(item.wanted, held, strict=True)
    ) and _is_own_input(loop, item, held):
        return entered
    return value


def _is_own_input(loop: Loop, item: Carried, leaves: tuple[Any, ...]) -> bool:
    start = 1 if loop.is_counted else 0
    for other in loop.carried:
        size = sum(type(w) is Joined for w in other.wanted)
        if other is item:
            own = loop.body_inputs[start : start + size]
            return [x.node for x in leaves if type(x) is Leaf] == own
        start += size
    return False
