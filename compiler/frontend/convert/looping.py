"""Loops over tensors: `while` whose test is a tensor, `for` over a tensor or a range of tensors.

The body is traced with its variables as inputs. The first attempt takes Python numbers that the
body binds as tensors; as long as the body changes more than was expected (another number, an item
of a list, a tensor of outside), or gives a wider type, it is traced again with that as input.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.convert.arrays import blank_like, refuse_growth
from tapeline.compiler.frontend.convert.blocktrace import (
    Leaf,
    RaisedError,
    Surroundings,
    Value,
    trace_block,
)
from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.convert.nodes import LoopShape, apply_while, mark_weak
from tapeline.compiler.frontend.convert.sequences import Sequence, sequence_of
from tapeline.compiler.frontend.convert.staging import as_condition, choose_block
from tapeline.compiler.frontend.convert.state import (
    LOOPS,
    RESULT,
    UNDEF,
    State,
    is_symbolic,
    line_of,
    tracing_graph,
)
from tapeline.compiler.frontend.convert.unify import (
    Joined,
    MismatchError,
    describe,
    describe_value,
    is_number,
    join_leaves,
    node_of,
    same_object,
)
from tapeline.runtime import nest
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import (
    ArgumentError,
    DynamicShapeError,
    PathError,
    TracingError,
)
from tapeline.runtime.loop_options import LoopOptions, parse_gradient
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.effects import HOST_ASSERT, Message
from tapeline.runtime.ops.shaping import broadcast_to
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

_ATTEMPTS = 12
UNROLLED = 64
"""Loops of a known number of rounds up to this one are unrolled."""
MANY_UNROLLED = 1000
"""A longer loop that has to be unrolled is worth a warning."""
_INT = np.dtype(np.int64)


def repeat_while(
    condition: Any, test: Callable[[], Any], body: Callable[[], None], state: State
) -> None:
    """`while` over a tensor; `condition` is what the test gave just now."""
    loop = _Loop(state, test, body, f"the 'while' at {line_of(body)}")
    loop.first_condition = condition
    loop.run()


def repeat_for(
    iterable: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> bool:
    """`for` over a tensor or a long range; False where Python is to do it."""
    if tracing_graph() is None:
        return False
    items = sequence_of(iterable)
    if items is None:
        return False
    what = f"the 'for' at {line_of(body)}"
    if items.is_long_range:
        return _roll_range(items, test, body, state, what)
    count = items.count
    if isinstance(count, int) and count <= UNROLLED and not items.is_explicit:
        unroll((items.item(k) for k in range(count)), test, body, state)
        return True
    loop = _counted(items, test, body, state, what)
    try:
        loop.trace()
    except _DriftError as error:
        if test is not None or not isinstance(count, int) or count < 2 or error.is_tensor:
            raise
        # a variable such as `last = None` has its lasting type after one round
        body(items.item(0))
        loop = _counted(items.after_first(), test, body, state, what)
        loop.trace()
    loop.finish()
    return True


def unroll(
    items: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    """A `for` that Python runs. Once a flag that ends it is a tensor, the rest runs under tests."""
    with LOOPS.entered(None):
        _run_rounds(items, test, body, state)


def _run_rounds(
    items: Iterable[Any],
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
) -> None:
    going: Any = True
    is_staged = False
    for item in items:
        if is_staged:
            what = f"the 'for' with a 'break' at {line_of(body)}"
            choose_block(going, _bound(body, item), _nothing, state, what)
        else:
            body(item)
        if test is not None:
            going = test()
            is_staged = is_symbolic(going)
            if not is_staged and not going:
                return


def _bound(body: Callable[[Any], None], item: Any) -> Callable[[], None]:
    return lambda: body(item)


def _nothing() -> None:
    pass


def _counted(
    items: Sequence,
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
    what: str,
) -> _Loop:
    """The loop that counts an index up to the number of items."""
    count = items.count
    loop = _Loop(state, test, _nothing, what, is_counted=True)
    loop.runs_once = isinstance(count, int) and count > 0
    if isinstance(count, int):
        loop.limit = count
        if items.of_rows is not None and test is None:
            loop.rows, loop.row_body = items.rows, _row_body(items, body)
    else:
        loop.index_test = lambda index: index < count
    loop.index_body = lambda index: body(items.item(index))
    return loop


def _row_body(items: Sequence, body: Callable[[Any], None]) -> Callable[[Any, list[Any]], None]:
    of_rows = items.of_rows
    assert of_rows is not None
    return lambda index, parts: body(of_rows(index, parts))


def _roll_range(
    items: Sequence,
    test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    state: State,
    what: str,
) -> bool:
    """Tries to make a loop of a long range of Python numbers.

    It becomes one if a round changes a tensor, and the body does not need the index as a Python
    number; otherwise Python runs it.
    """
    around = Surroundings.around(state, (body,))
    try:
        trial = trace_block(lambda _: body(items.item(0)), around, what)
    except Exception:
        return False  # the error comes again, where Python runs the loop
    changes = bool(trial.cells or trial.slots) or any(
        value.has_tensors and value.original is not before
        for value, before in zip(trial.values, around.before, strict=True)
    )
    if not changes and not any(r.is_assigned for r in trial.graph.resources.values()):
        return False
    loop = _counted(items, test, body, state, what)
    try:
        loop.trace()
    except Exception as error:
        if items.count > MANY_UNROLLED:
            warnings.warn(
                f"{what} is unrolled {items.count} times, since it cannot be one loop: {error}",
                stacklevel=2,
            )
        return False
    loop.finish()
    return True


class _DriftError(PathError):
    """A variable does not keep its type; `is_tensor` says whether it is a tensor at the start."""

    is_tensor = False


@dataclass(slots=True, eq=False)
class _Carried:
    """One value that goes round: where it lives, and the spec of each of its tensors."""

    place: Any
    """The position of a variable, a `Slot`, a `Tensor` cell, or a Variable."""
    name: str
    structure: Any
    wanted: list[Any]
    """A `Joined`, or the Python object that stays, per leaf."""
    initial: list[Any]
    """The leaves at the start; None for a variable that the first round defines."""
    is_late: bool = False
    entered: Any = None
    """The value in the last trace of the body, and what it held then."""
    held: Any = None


@dataclass(eq=False)
class _Loop:
    """One loop on its way into the graph."""

    state: State
    test: Callable[[], Any] | None
    body: Callable[[], None]
    what: str
    is_counted: bool = False
    runs_once: bool = False
    rows: tuple[Tensor, ...] = ()
    """Tensors of which each round takes one part, for `row_body` instead of `index_body`."""
    row_body: Callable[[Any, list[Any]], None] | None = None
    limit: int | None = None
    """How many rounds there are at most, where that is known."""
    index_test: Callable[[Any], Any] = field(default=lambda _: True)
    index_body: Callable[[Any], None] = field(default=lambda _: None)
    carried: list[_Carried] = field(default_factory=list)
    needs_round: list[str] = field(default_factory=list)
    """Variables that have no value where no round runs."""
    options: LoopOptions = field(default_factory=LoopOptions)
    first_condition: Any = None
    """What the test of a `while` gave before the first round."""

    def run(self) -> None:
        """Traces the loop and adds it to the graph around."""
        self.trace()
        self.finish()

    # ---- tracing until nothing new turns up

    def trace(self) -> None:
        """Finds what goes round, and traces body and test for it."""
        self.around = Surroundings.around(self.state, (self.body, self.test or _nothing))
        self._begin()
        for _ in range(_ATTEMPTS):
            self.body_inputs: list[int] = []
            self.body_trace = trace_block(self._run_body, self.around, self.what)
            if self._settle():
                break
        else:
            raise TracingError(f"{self.what}: its variables do not come to lasting types")
        self.test_inputs: list[int] = []
        self.test_trace = trace_block(self._run_test, self.around, self.what, True)
        self._check_test()

    def _begin(self) -> None:
        """Variables with tensors or numbers go round from the start; flags that end the loop are
        False at the start of each round."""
        for position, name in enumerate(self.state.names):
            value = self.around.before[position]
            if name in self.state.stops:
                continue
            if value is UNDEF:
                self._poison(name, "may read it in the first round; give it a value")
                continue
            leaves = nest.flatten(value)
            if any(is_number(leaf) or is_symbolic(leaf) for leaf in leaves):
                self._carry(position, name, value)

    def _carry(self, place: Any, name: str, value: Any) -> None:
        leaves = [as_tensor(x) if is_symbolic(x) else x for x in nest.flatten(value)]
        wanted = [_input_form(leaf) for leaf in leaves]
        self.carried.append(_Carried(place, name, value, wanted, leaves))

    def _carry_flag(self, position: int, name: str) -> None:
        value = self.around.before[position]
        wanted: list[Any] = [Joined(spec_of((), np.dtype(np.bool_)), bool)]
        self.carried.append(_Carried(position, name, value, wanted, [value]))

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
                leaves.append(mark_weak(graph.tensor(node), wanted.weak))
            values.append(nest.unflatten(item.structure, leaves))
        return values

    def _enter(self, graph: CapturingGraph, inputs: list[int], is_body: bool) -> Any:
        """Gives the variables of a round their values; the answer is the index, if there is one."""
        index = None
        if self.is_counted:
            node = graph.add_placeholder(spec_of((), _INT), "index")
            inputs.append(node)
            index = mark_weak(graph.tensor(node), int)
        values = self._placeholders(graph, inputs)
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
        with LOOPS.entered(self):
            self._run_round(graph)

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
        if self.is_counted:
            going = self.index_test(index)
            rest = True if self.test is None else self.test()
            if not is_symbolic(rest):
                return as_tensor(going) if rest else as_tensor(False)
            return as_condition(rest) & as_condition(going) if is_symbolic(going) else rest
        assert self.test is not None
        return as_condition(self.test())

    def _check_test(self) -> None:
        if self.test_trace.raised is not None:
            raise RaisedError(self.test_trace.raised)
        leaf = self.test_trace.returned.leaves[0]  # type: ignore[union-attr]  # it returned
        if type(leaf) is not Leaf or leaf.spec.static_shape:
            raise ArgumentError(f"{self.what}: its test gives {describe(leaf)}, not one bool")
        self.condition = leaf.node

    # ---- what a round changed

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
        by_place = {_identity(item.place): item for item in self.carried}
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
            is_needed = name == RESULT or name in self.state.live
            if is_needed:
                self._carry_late(position, name, value)
            return not is_needed
        if same_object(before, value.original):
            return True
        array = blank_like(before, value.original)
        if array is not None:
            self._carry(position, name, array)
            return False
        refuse_growth(self.what, name, before, value.original)
        raise self._drift(name, describe_python(before), describe_value(value))

    def _carry_late(self, place: Any, name: str, value: Value) -> None:
        wanted = [_output_form(leaf) for leaf in value.leaves]
        zeros = [0 if type(x) is Joined else x for x in wanted]
        item = _Carried(place, name, value.original, wanted, zeros, is_late=True)
        self.carried.append(item)
        if name != RESULT and not self.runs_once:
            self.needs_round.append(name)

    def _meet(self, item: _Carried, value: Value) -> bool:
        """Whether a value comes back in the form in which it went in; widens weak numbers."""
        self.after[_identity(item.place)] = value
        if self._is_written(item):
            if value.original is item.entered:
                # as by `x += y`: whoever holds the tensor under another name sees it too
                self.carried.remove(item)
                self._carry(item.structure, "a tensor", item.structure)
                return False
            self._check_aliases(item)
        if value.original is UNDEF:
            raise TracingError(f"{self.what} over a tensor deletes {item.name!r} in its body")
        try:
            nest.assert_same_structure(item.structure, value.original)
        except ArgumentError:
            refuse_growth(self.what, item.name, item.structure, value.original)
            raise self._drift(
                item.name, describe_python(item.structure), describe_value(value)
            ) from None
        is_settled = True
        for k, (wanted, leaf) in enumerate(zip(item.wanted, value.leaves, strict=True)):
            if type(wanted) is not Joined:
                if not same_object(wanted, leaf):
                    raise self._drift(item.name, describe(wanted), describe(leaf))
                continue
            given = Leaf(0, wanted.spec, wanted.weak)
            joined = self._widen(item, given, leaf)
            if joined != wanted:
                item.wanted[k] = joined
                is_settled = False
        return is_settled

    def _is_written(self, item: _Carried) -> bool:
        """Whether the body wrote into the tensor that a variable held at the start of a round."""
        is_cell = type(item.place) is int and type(item.structure) is Tensor and not item.is_late
        if not is_cell or type(item.wanted[0]) is not Joined or item.wanted[0].weak is not None:
            return False
        return item.entered._value is not item.held

    def _check_aliases(self, item: _Carried) -> None:
        for name, value in self.around.variables:
            if value is item.structure and name != item.name:
                raise TracingError(
                    f"{self.what} both changes the tensor {item.name!r} in place, as by +=, and "
                    f"gives {item.name!r} another one, while {name!r} is the same tensor; write "
                    f"{item.name} = {item.name} + ... instead of +="
                )

    def _widen(self, item: _Carried, given: Leaf, leaf: Any) -> Joined:
        try:
            joined = join_leaves(given, leaf)
        except MismatchError:
            is_start_weak = given.weak is not None and (self.runs_once or item.is_late)
            if not (is_start_weak and type(leaf) is Leaf):
                raise self._drift(item.name, describe(given), describe(leaf)) from None
            joined = Joined(leaf.spec, None)  # as in `total = 0`, then `total + row`
        assert type(joined) is Joined
        return joined

    def _drift(self, name: str, before: str, after: str) -> TracingError:
        shown = "the result of the function" if name == RESULT else f"the variable {name!r}"
        error = _DriftError(
            f"{self.what} depends on a tensor, and {shown} is {before} before a round and "
            f"{after} after it; it must keep its type: give it its lasting dtype and shape "
            "before the loop"
        )
        error.is_tensor = before.startswith("a tensor")
        return error

    def _settle_places(self, by_place: dict[Any, _Carried]) -> bool:
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
                    self._carry(slot, slot.path, before)
                is_settled = False
            else:
                is_settled &= self._meet(item, value)
        for cell, node in traced.cells.values():
            if any(cell is row for row in self.rows):
                self.rows, self.row_body = (), None  # its parts are to be read as they are then
                is_settled = False
            item = by_place.get(("cell", id(cell)))
            if item is None:
                self._carry(cell, "a tensor", cell)
                is_settled = False
            else:
                leaf = Leaf(node, traced.graph.spec(node), None)
                self.after[_identity(cell)] = Value(cell, (leaf,))
        for resource in traced.graph.resources.values():
            if not resource.is_assigned:
                continue
            name = _identity(resource.variable)
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

    # ---- into the graph around

    def finish(self) -> None:
        """Adds the loop to the graph around, and gives everything its value after the loop."""
        outputs: list[int] = []
        initial: list[Tensor] = []
        joined: list[Joined] = []
        graph = self.body_trace.graph
        if self.is_counted:
            index = self.body_inputs[0]
            one = graph.add_constant(np.array(1, _INT))
            outputs.append(graph.add(get_op("add"), (index, one)))
            initial.append(as_tensor(0, _INT))
            joined.append(Joined(spec_of((), _INT), int))
        inputs = iter(self.body_inputs[1 if self.is_counted else 0 :])
        for item in self.carried:
            after = self.after.get(_identity(item.place))
            for k, wanted in enumerate(item.wanted):
                if type(wanted) is not Joined:
                    continue
                same = next(inputs)
                if after is None:
                    outputs.append(same)
                else:
                    outputs.append(node_of(self.body_trace, after.leaves[k], wanted))
                initial.append(_initial(item.initial[k], wanted))
                joined.append(wanted)
        placeholders = self.test_inputs, self.body_inputs
        if not outputs:
            raise TracingError(f"{self.what} depends on a tensor that no round changes")
        results = apply_while(
            self.test_trace,
            self.body_trace,
            placeholders,
            self.condition,
            outputs,
            initial,
            self._shape(),
        )
        if self.needs_round:
            self._check_round(results[0] > 0 if self.is_counted else self.first_condition)
        tensors = iter(
            [mark_weak(t, w.weak) for t, w in zip(results, joined, strict=True)][
                1 if self.is_counted else 0 :
            ]
        )
        self._put_results(tensors)

    def _shape(self) -> LoopShape:
        every = parse_gradient(self.options.gradient)
        bound = self.options.maximum_iterations if self.limit is None else None
        return LoopShape(self.limit, self.rows, every, bound, self.what)

    def _check_round(self, is_run: Any) -> None:
        """Makes it an error of the compiled function if no round runs."""
        name = self.needs_round[0]
        text = f"the variable {name!r} has no value: {self.what} ran no round"
        bind(HOST_ASSERT, (as_condition(is_run),), (Message((text,), UnboundLocalError),))

    def _put_results(self, tensors: Any) -> None:
        variables = list(self.around.before)
        for position, name in enumerate(self.state.names):
            value = self.body_trace.values[position].original
            if variables[position] is UNDEF and value is not UNDEF:
                if not self.runs_once:
                    self._poison(name, "gives it a value, but may run no round; give it one")
                elif not self.body_trace.values[position].has_tensors:
                    variables[position] = value
        for item in self.carried:
            leaves = [next(tensors) if type(w) is Joined else w for w in item.wanted]
            value = nest.unflatten(item.structure, leaves)
            place = item.place
            if type(place) is int:
                variables[place] = self._kept(item, value)
            elif isinstance(place, Slot):
                place.write(value)
            elif type(place) is Tensor:
                place._value, place._node = value._value, value._node
            else:
                place.assign(value)
        self.state.set(tuple(variables))

    def _kept(self, item: _Carried, value: Any) -> Any:
        """The value of a variable after the loop: the very object, if no round changes it."""
        after = self.after.get(_identity(item.place))
        if after is None or item.is_late:
            return value
        entered = self.around.before[item.place]
        held = after.leaves
        if all(
            type(w) is not Joined or (type(x) is Leaf and x.node in self.body_inputs)
            for w, x in zip(item.wanted, held, strict=True)
        ) and self._is_own_input(item, held):
            return entered
        return value

    def _is_own_input(self, item: _Carried, leaves: tuple[Any, ...]) -> bool:
        start = 1 if self.is_counted else 0
        for other in self.carried:
            size = sum(type(w) is Joined for w in other.wanted)
            if other is item:
                own = self.body_inputs[start : start + size]
                return [x.node for x in leaves if type(x) is Leaf] == own
            start += size
        return False

    def _poison(self, name: str, reason: str) -> None:
        graph = tracing_graph()
        if graph is not None and graph.reads is not None:
            graph.reads.poisoned[name] = f"{self.what} {reason} before the loop"


def _identity(place: Any) -> Any:
    if type(place) is int:
        return place
    if isinstance(place, Slot):
        return place.identity
    return ("cell" if type(place) is Tensor else "variable"), id(place)


def _input_form(leaf: Any) -> Any:
    if type(leaf) is Tensor:
        weak = getattr(leaf._value, "weak", None)
        return Joined(spec_of(leaf.shape, leaf.dtype), weak)
    if is_number(leaf):
        return Joined(spec_of((), np.dtype(type(leaf))), type(leaf))
    return leaf


def _output_form(leaf: Any) -> Any:
    if type(leaf) is Leaf:
        return Joined(leaf.spec, leaf.weak)
    return _input_form(leaf)


def _initial(leaf: Any, wanted: Joined) -> Tensor:
    tensor = as_tensor(leaf, wanted.spec.dtype)
    shape = wanted.spec.static_shape
    return tensor if tensor.shape == shape else broadcast_to(tensor, shape)


def describe_python(value: Any) -> str:
    """What a person calls a value of outside."""
    if nest.is_leaf(value):
        return (
            describe(Leaf(0, spec_of(value.shape, value.dtype), None))
            if is_symbolic(value)
            else describe(value)
        )
    return "None" if value is None else f"a {type(value).__name__}"
