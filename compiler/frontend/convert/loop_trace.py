"""One loop on its way into the graph: what goes round it, found by tracing the body.

The body is traced with its variables as inputs. The first attempt takes Python numbers that the
body binds as tensors; as long as the body changes more than was expected (another number, an item
of a list, a tensor of outside), or gives a wider type, it is traced again with that as input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert import int_growth
from tapeline.compiler.frontend.convert.arrays import (
    as_carried,
    blank_like,
    is_plain_array,
    refuse_growth,
    with_tensors,
)
from tapeline.compiler.frontend.convert.blocktrace import (
    Leaf,
    RaisedError,
    Surroundings,
    Value,
    trace_block,
)
from tapeline.compiler.frontend.convert.carried import (
    Carried,
    DriftError,
    describe_python,
    identity_of,
    input_form,
    output_form,
)
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.lines import line_before, line_in, shown_line
from tapeline.compiler.frontend.convert.loop_sameness import LoopSameness
from tapeline.compiler.frontend.convert.nodes import mark_weak
from tapeline.compiler.frontend.convert.row_lists import LoopList
from tapeline.compiler.frontend.convert.sequences import Sequence
from tapeline.compiler.frontend.convert.state import (
    LOOPS,
    RESULT,
    UNDEF,
    State,
    is_flagged,
    is_symbolic,
    outer_graph,
    shown_name,
)
from tapeline.compiler.frontend.convert.truth import as_condition
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    describe,
    describe_value,
    is_number,
    join_leaves,
    same_object,
)
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, DynamicShapeError, TracingError
from tapeline.runtime.loop_options import LoopOptions
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

_ATTEMPTS = 12
INDEX = np.dtype(np.int64)
"""The dtype of the index of a loop that counts."""


@dataclass(eq=False)
class Loop:
    """One loop on its way into the graph."""

    state: State
    test: Callable[[], Any] | None
    body: Callable[[], None]
    what: str
    is_counted: bool = False
    is_parallel: bool = False
    """Whether the rounds are said to need nothing of one another."""
    runs_once: bool = False
    rows: tuple[Tensor, ...] = ()
    """Tensors of which each round takes one part, for `row_body` instead of `index_body`."""
    row_body: Callable[[Any, list[Any]], None] | None = None
    limit: int | None = None
    """How many rounds there are at most, where that is known."""
    index_test: Callable[[Any], Any] = field(default=lambda _: True)
    index_body: Callable[[Any], None] = field(default=lambda _: None)
    carried: list[Carried] = field(default_factory=list)
    needs_round: list[str] = field(default_factory=list)
    """Variables that have no value where no round runs."""
    growing: dict[int, list[Any]] = field(default_factory=dict)
    """By id, lists that the body appends to and does nothing else with."""
    options: LoopOptions = field(default_factory=LoopOptions)
    first_condition: Any = None
    """What the test of a `while` gave before the first round."""
    appended: list[tuple[Tensor, Any]] = field(default_factory=list)
    """What a round appends to lists that go round as rows of tensors, and what it held then."""
    source: Callable[..., Any] | None = None
    """The block of the user's that is the body."""

    def __post_init__(self) -> None:
        self.sameness = LoopSameness(self)

    # ---- tracing until nothing new turns up

    def trace(self) -> None:
        """Finds what goes round, and traces body and test for it."""
        self.around = Surroundings.around(self.state, (self.body, self.test or nothing))
        self._begin()
        for _ in range(_ATTEMPTS):
            self.body_inputs: list[int] = []
            self.sameness.prepare()
            self.body_trace = trace_block(
                self._run_body, self.around, self.what, growing=self.growing
            )
            if self._settle() and self.sameness.is_settled():
                break
        else:
            raise TracingError(f"{self.what}: its variables do not come to lasting types")
        self._check_appended()
        self.test_inputs: list[int] = []
        self.test_trace = trace_block(self._run_test, self.around, self.what, True)
        self._check_test()

    def _begin(self) -> None:
        """Variables with tensors or numbers go round from the start; flags that end the loop are
        False at the start of each round."""
        for position, name in enumerate(self.state.names):
            value = self.around.before[position]
            if name in self.state.stops or id(value) in self.growing:
                continue
            if value is UNDEF:
                self.poison(name, "may read it in the first round; give it a value")
                continue
            leaves = nest.flatten(value)
            if any(is_number(leaf) or is_symbolic(leaf) for leaf in leaves):
                self._carry(position, name, value)

    def _carry(self, place: Any, name: str, value: Any) -> None:
        leaves = [as_tensor(x) if is_symbolic(x) else x for x in nest.flatten(value)]
        wanted = [input_form(leaf) for leaf in leaves]
        self.carried.append(Carried(place, name, value, wanted, leaves))

    def _carry_cell(self, cell: Tensor) -> None:
        """A tensor of outside that rounds write to."""
        if not any(item.place is cell for item in self.carried):
            self._carry(cell, "a tensor", cell)

    def _carry_flag(self, position: int, name: str) -> None:
        value = self.around.before[position]
        wanted: list[Any] = [Joined(spec_of((), np.dtype(np.bool_)), bool)]
        self.carried.append(Carried(position, name, value, wanted, [value]))

    def _placeholders(self, graph: CapturingGraph, inputs: list[int]) -> list[Any]:
        """New inputs of the graph for all that goes round, as values of the same structures."""
        values = []
        for item in self.carried:
            leaves = []
            for wanted in item.wanted:
                if type(wanted) is not Joined:
                    leaves.append(wanted)
                    continue
                node = graph.add_placeholder(wanted.spec, item.name.replace("@", ""))
                inputs.append(node)
                if wanted.weak is int:
                    graph.python_ints[node] = None
                leaves.append(mark_weak(graph.tensor(node), wanted.weak))
            values.append(nest.unflatten(item.structure, leaves))
        return values

    def _enter(self, graph: CapturingGraph, inputs: list[int], is_body: bool) -> Any:
        """Gives the variables of a round their values; the answer is the index, if there is one."""
        index = None
        if self.is_counted:
            node = graph.add_placeholder(spec_of((), INDEX), "index")
            inputs.append(node)
            count = self.limit if type(self.limit) is int else None
            graph.python_ints[node] = int_growth.rounds_of(count)
            index = mark_weak(graph.tensor(node), int)
        values = self._placeholders(graph, inputs)
        self.sameness.enter(graph, inputs)
        variables = list(self.around.before)
        if is_body:
            for position, name in enumerate(self.state.names):
                if name in self.state.stops:
                    variables[position] = False
        for item, value in zip(self.carried, values, strict=True):
            place = item.place
            item.entered = value
            item.held = value._value if type(value) is Tensor else None
            if item.is_late:
                continue
            if type(place) is int:
                if is_body and item.name in self.state.stops:
                    continue
                variables[place] = value
            elif isinstance(place, Slot):
                place.write(value)
            elif type(place) is Tensor:
                graph.value_id(place)
                place._value = value._value
            else:
                place.assign(value)
        self.state.set(tuple(variables))
        if is_body:
            self.sameness.link()
        return index

    def take_options(
        self,
        gradient: str = "stack",
        maximum_iterations: int | None = None,
        shape_invariants: Any = (),
    ) -> None:
        """What the body asks for, by `tl.set_loop_options`."""
        if any(shape is None or None in shape for _, shape in shape_invariants):
            raise DynamicShapeError(
                f"{self.what} depends on a tensor, and set_loop_options says that a shape changes "
                "from round to round"
            )
        self.options = LoopOptions(gradient, maximum_iterations)

    def _run_body(self, graph: CapturingGraph) -> None:
        self.appended = []
        with LOOPS.entered(self):
            self._run_round(graph)
        self.sameness.leave(graph)

    def _run_round(self, graph: CapturingGraph) -> None:
        index = self._enter(graph, self.body_inputs, True)
        if self.row_body is not None:
            parts = []
            for row in self.rows:
                node = graph.add_placeholder(spec_of(row.shape[1:], row.dtype), "row")
                self.body_inputs.append(node)
                parts.append(graph.tensor(node))
            self.row_body(index, parts)
        elif self.is_counted:
            self.index_body(index)
        else:
            self.body()

    def _run_test(self, graph: CapturingGraph) -> Any:
        index = self._enter(graph, self.test_inputs, False)
        going = self._going(index)
        for item in self.carried:
            if type(item.entered) is LoopList and not item.entered.is_exact:
                has_room = item.entered.filled <= item.entered.room
                going = has_room & (as_condition(going) if is_symbolic(going) else going)
        return going

    def _going(self, index: Any) -> Any:
        if self.is_counted:
            going = self.index_test(index)
            rest = True if self.test is None else self.test()
            if not is_symbolic(rest):
                return as_tensor(going) if rest else as_tensor(False)
            return as_condition(rest) & as_condition(going) if is_symbolic(going) else rest
        assert self.test is not None
        return as_condition(self.test())

    def check_independence(self, item: Carried, same: int, after: int) -> None:
        """Raises an error if a number goes from round to round of a loop that is said to have
        independent ones."""
        if self.is_parallel and same != after and not self.body_trace.graph.spec(same).shape:
            raise TracingError(
                f"{self.what} goes through tl.range(parallel=True), so its rounds must need "
                f"nothing of one another, but {item.name!r} goes from round to round; leave "
                "parallel=True away, or write to an element of an array for each round"
            )

    def _check_appended(self) -> None:
        """Raises an error if what is in a list changes in place: rows of tensors would keep what it
        was when it was appended."""
        cells = {id(item.place) for item in self.carried if type(item.place) is Tensor}
        written = {
            id(item.entered)
            for item in self.carried
            if type(item.entered) is Tensor and item.entered._value is not item.held
        }
        for tensor, held in self.appended:
            if tensor._value is not held or id(tensor) in cells or id(tensor) in written:
                raise DynamicShapeError(
                    f"{self.what} appends a tensor to a list that it also changes in place, as by "
                    "+= or x[i] = v; append a copy, x[:], so that the loop runs as native code"
                )

    def _check_test(self) -> None:
        if self.test_trace.raised is not None:
            raise RaisedError(self.test_trace.raised)
        leaf = self.test_trace.returned.leaves[0]  # type: ignore[union-attr]  # it returned
        if type(leaf) is not Leaf or leaf.spec.static_shape:
            raise ArgumentError(f"{self.what}: its test gives {describe(leaf)}, not one bool")
        self.condition = leaf.node

    # ---- what a round changed

    def carried_leaves(self) -> Iterator[tuple[Carried, Any, Joined, int, Any]]:
        """Each tensor and number that goes round: its variable, what it begins with, what it is in
        all rounds, its placeholder in the body, and what a round leaves there, None where no round
        changes the variable."""
        inputs = iter(self.body_inputs[1 if self.is_counted else 0 :])
        for item in self.carried:
            after = self.after.get(identity_of(item.place))
            for k, wanted in enumerate(item.wanted):
                if type(wanted) is Joined:
                    left = None if after is None else after.leaves[k]
                    yield item, item.initial[k], wanted, next(inputs), left

    def _settle(self) -> bool:
        """Whether the last trace of the body agrees with what was assumed; otherwise takes note."""
        if self.body_trace.raised is not None:
            raise TracingError(
                f"{self.what} depends on a tensor and raises an exception in every round"
            ) from self.body_trace.raised
        is_settled = True
        if self.rows and self.options.gradient != "stack":
            self.rows, self.row_body = (), None  # the rounds of a stretch read by index
            is_settled = False
        by_place = {identity_of(item.place): item for item in self.carried}
        self.after: dict[int | tuple[Any, ...], Value] = {}
        for position, name in enumerate(self.state.names):
            value = self.body_trace.values[position]
            item = by_place.get(position)
            if item is not None:
                is_settled &= self._meet(item, value)
            else:
                is_settled &= self._meet_new(position, name, value)
        return self._settle_places(by_place) and is_settled

    def _meet_new(self, position: int, name: str, value: Value) -> bool:
        """A variable that does not go round yet."""
        before = self.around.before[position]
        if name in self.state.stops:
            if value.original is False:
                return True
            self._carry_flag(position, name)
            return False
        if value.original is before or value.original is UNDEF:
            return True
        if before is UNDEF:
            is_needed = is_flagged(name) or name in self.state.live
            if is_needed and isinstance(value.original, Sequence):
                raise DynamicShapeError(
                    f"{self.what} gives {name!r} a range whose length depends on a tensor"
                )
            if is_needed:
                self._carry_late(position, name, value)
            return not is_needed
        if same_object(before, value.original):
            return True
        array = blank_like(before, value.original)
        if array is not None:
            self._carry(position, name, array)
            return False
        tensors = with_tensors(before)
        if tensors is not None:
            self._carry(position, name, tensors)
            return False
        refuse_growth(self.what, name, before, value.original)
        raise self._drift(name, describe_python(before), describe_value(value))

    def _carry_late(self, place: Any, name: str, value: Value) -> None:
        wanted = [output_form(leaf) for leaf in value.leaves]
        zeros = [0 if type(x) is Joined else x for x in wanted]
        item = Carried(place, name, value.original, wanted, zeros, is_late=True)
        self.carried.append(item)
        if not is_flagged(name) and not self.runs_once:
            self.needs_round.append(name)

    def _meet(self, item: Carried, value: Value) -> bool:
        """Whether a value comes back in the form in which it went in; widens weak numbers."""
        value = as_carried(value, item.wanted, self.body_trace.graph)
        self.after[identity_of(item.place)] = value
        item.is_kept = value.original is item.entered
        if value.original is item.entered and self._is_written(item):
            # as by `x += y`: whoever holds the tensor under another name sees it too
            self.carried.remove(item)
            self._carry_cell(item.structure)
            return False
        if value.original is UNDEF:
            raise TracingError(f"{self.what} over a tensor deletes {item.name!r} in its body")
        try:
            nest.assert_same_structure(item.structure, value.original)
        except ArgumentError:
            refuse_growth(self.what, item.name, item.structure, value.original)
            raise self._drift(
                item.shown_place, describe_python(item.structure), describe_value(value)
            ) from None
        is_settled = True
        for k, (wanted, leaf) in enumerate(zip(item.wanted, value.leaves, strict=True)):
            if type(wanted) is not Joined:
                if same_object(wanted, leaf):
                    continue
                if is_plain_array(wanted):
                    item.wanted[k] = Joined(spec_of(wanted.shape, wanted.dtype), None)
                    item.initial[k] = 0 if item.is_late else wanted
                    is_settled = False
                else:
                    raise self._drift(item.shown_place, describe(wanted), describe(leaf))
                continue
            given = Leaf(0, wanted.spec, wanted.weak)
            joined = self._widen(item, given, leaf)
            if joined != wanted:
                item.wanted[k] = joined
                is_settled = False
        return is_settled

    def _is_written(self, item: Carried) -> bool:
        """Whether the body wrote into the tensor that a variable held at the start of a round."""
        is_named = type(item.place) is int or isinstance(item.place, Slot)
        is_cell = is_named and type(item.structure) is Tensor and not item.is_late
        if not is_cell or type(item.wanted[0]) is not Joined or item.wanted[0].weak is not None:
            return False
        if getattr(item.structure._value, "weak", None) is not None:
            return False  # it began as a Python number, which nobody else sees change
        is_written = item.entered._value is not item.held
        return is_written or id(item.structure) in self.body_trace.cells

    def _widen(self, item: Carried, given: Leaf, leaf: Any) -> Joined:
        try:
            joined = join_leaves(given, leaf)
        except MismatchError:
            is_start_weak = given.weak is not None and (self.runs_once or item.is_late)
            if not (is_start_weak and type(leaf) is Leaf):
                raise self._drift(
                    item.shown_place,
                    describe(given),
                    describe(leaf),
                    _growth_hint(item.name, given, leaf),
                ) from None
            joined = Joined(leaf.spec, None)  # as in `total = 0`, then `total + row`
        assert type(joined) is Joined
        return joined

    def _drift(self, place: str | Slot, before: str, after: str, hint: str = "") -> TracingError:
        shown = f"the variable {shown_name(place)!r}" if isinstance(place, str) else place.path
        shown = "the result of the function" if place == RESULT else shown
        error = DriftError(
            f"{self.what} depends on a tensor, and {shown} is {before} before a round"
            f"{shown_line(line_before(place, self.source))} and {after} after it"
            f"{shown_line(line_in(self.source, place))}; it must keep its type: give it its "
            f"lasting dtype and shape before the loop{hint}"
        )
        error.is_tensor = before.startswith("a tensor")
        return error

    def _settle_places(self, by_place: dict[Any, Carried]) -> bool:
        """The same for items, attributes, tensors of outside and Variables."""
        is_settled = True
        traced = self.body_trace
        for key, (slot, value) in traced.slots.items():
            item = by_place.get(key)
            if item is None:
                before = slot.read()
                if before is UNDEF:
                    self._carry_late(slot, slot.path, value)
                else:
                    tensors = with_tensors(before) if value.has_tensors else None
                    self._carry(slot, slot.path, before if tensors is None else tensors)
                is_settled = False
            else:
                is_settled &= self._meet(item, value)
        for cell, node in traced.cells.values():
            if any(cell is row for row in self.rows):
                self.rows, self.row_body = (), None  # its parts are to be read as they are then
                is_settled = False
            item = by_place.get(("cell", id(cell)))
            if item is None:
                self._carry_cell(cell)
                is_settled = False
            else:
                leaf = Leaf(node, traced.graph.spec(node), None)
                self.after[identity_of(cell)] = Value(cell, (leaf,))
        for resource in traced.graph.resources.values():
            if not resource.is_assigned:
                continue
            name = identity_of(resource.variable)
            if name not in by_place:
                self._carry(resource.variable, resource.variable.name or "a Variable", 0)
                item = self.carried[-1]
                item.wanted = [Joined(resource.spec, None)]
                item.initial = [as_tensor(resource.variable)]
                is_settled = False
            else:
                leaf = Leaf(resource.current, resource.spec, None)
                self.after[name] = Value(resource.variable, (leaf,))
        return is_settled

    def poison(self, name: str, reason: str) -> None:
        """Remembers why a variable has no value."""
        graph = outer_graph()
        if graph is not None and graph.reads is not None:
            graph.reads.poisoned[name] = f"{self.what} {reason} before the loop"


def _growth_hint(name: str, given: Leaf, leaf: Any) -> str:
    """What to do about a tensor whose shape changes from round to round."""
    if type(leaf) is not Leaf or leaf.spec.dtype != given.spec.dtype:
        return ""
    before, after = given.spec.shape, leaf.spec.shape
    if len(before) != len(after):
        return ""
    shape = tuple([a if a == b else None for a, b in zip(before, after, strict=True)])
    return (
        f", write to a tl.TensorArray of known size, or call tl.set_loop_options(shape_invariants="
        f"[({name}, {shape})]) in the loop, and the function runs op by op"
    )


def nothing() -> None:
    """A body that does nothing."""
