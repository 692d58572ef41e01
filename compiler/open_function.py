"""A trace that leaves sizes open: one graph for all of them, with native code for those that were
met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tapeline.compiler.concrete import ConcreteFunction, with_none
from tapeline.compiler.frontend.families import Places, Plan
from tapeline.compiler.frontend.specialize import Specializer
from tapeline.compiler.staged.callable import call_op, callable_graph
from tapeline.compiler.staged.other_sizes import OtherSizes
from tapeline.runtime.dims import Dim
from tapeline.runtime.errors import ShapeError
from tapeline.runtime.sizes import Condition, Sizes
from tapeline.runtime.spec import Shape, TensorSpec

MAX_SIZES = 64
"""For how many sizes a trace keeps native code of its own accord."""


class OpenFunction(ConcreteFunction):
    """A function traced for tensors of which some sizes are open.

    Its `graph` shows them as `n0`, `n1`, ...; `inputs` and `outputs` have None for them. What is
    compiled, and what `kernels()` and their kin show, is the graph for the sizes of the call that
    was traced.
    """

    sizes: Sizes
    places: Places
    open_numbers: tuple[int, ...]

    def open(self, sizes: Sizes, plan: Plan, numbers: Sequence[float]) -> OpenFunction:
        """Called once, with the symbols, where they stand among the shapes of the inputs and which
        of the numbers are inputs as well: the last ones."""
        self.sizes = sizes
        self.places, self.open_numbers = plan
        self._numbers = tuple(
            None if position in plan.numbers else _exactly(number)
            for position, number in enumerate(numbers)
        )
        self._made: dict[tuple[int, ...], ConcreteFunction] = {}
        open_places = {place for group in plan.places for place in group}
        self._closed = [
            (number, axis, size)
            for number, spec in enumerate(self._inputs)
            for axis, size in enumerate(spec.shape)
            if (number, axis) not in open_places
        ]
        count = len(self._inputs) - len(plan.numbers)
        self._ranks = [spec.ndim for spec in self._inputs[:count]]
        traced = self.at(sizes.values[: len(self.places)])
        self.install(traced.staged or traced.differentiable)
        return self

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The specs of the arguments that are tensors, with None for open sizes."""
        return self.named_specs([with_none(spec) for spec in self._inputs])

    @property
    def seconds(self) -> tuple[float, float]:
        """Spent in passes and in code generation, for all sizes that are kept."""
        spent = [one.seconds for one in list(self._made.values())]
        return sum(a for a, _ in spent), sum(b for _, b in spent)

    def has_numbers(self, numbers: Sequence[float]) -> bool:
        """Whether the numbers that it takes for constants are these."""
        return len(numbers) == len(self._numbers) and all(
            own is None or own == _exactly(number)
            for own, number in zip(self._numbers, numbers, strict=True)
        )

    def values_for(self, shapes: Sequence[Shape]) -> tuple[int, ...] | None:
        """What the symbols are for tensors of these shapes; None where the trace does not fit."""
        if [len(shape) for shape in shapes] != self._ranks:
            return None
        for number, axis, size in self._closed:
            if shapes[number][axis] != size:
                return None
        values = []
        for group in self.places:
            number, axis = group[0]
            value = shapes[number][axis]
            if any(shapes[number][axis] != value for number, axis in group):
                return None
            values.append(value)
        return tuple(values) if self.sizes.hold(values) else None

    def at(self, values: tuple[int, ...]) -> ConcreteFunction:
        """The function for given sizes."""
        found = self._made.get(values)
        if found is None:
            if len(self._made) >= MAX_SIZES:
                del self._made[next(iter(self._made))]
            found = self._made[values] = self._specialized(values)
        return found

    def _specialized(self, values: tuple[int, ...]) -> ConcreteFunction:
        left, filled = _told_by_values(self.sizes, values)
        specializer = Specializer(self.sizes, filled, call_op)
        graph, ids = specializer.graph(self.graph, keeps_specs=bool(left.symbols))
        made = ConcreteFunction.__new__(ConcreteFunction)
        made.__dict__.update(self.__dict__)
        made.graph = graph
        made._inputs = tuple(map(specializer.spec, self._inputs))
        made.results = self.results.mapped(specializer.fill)
        made._hidden = [(ids[node], source, kind) for node, source, kind in self._hidden]
        runs = self.staged or self.differentiable
        manner = runs.manner._replace(open_sizes=True)
        made.install(callable_graph(graph, left, manner, runs.max_bytes))
        made.is_plain = made.is_plain and made.staged is None
        made.general = self
        for name in OpenFunction.__annotations__:
            made.__dict__.pop(name, None)
        return made

    def call(self, tensors: Sequence[Any], other: OtherSizes | None = None) -> Any:
        """The results for tensors or arrays of the traced dtypes.

        Raises
        ------
        ShapeError
            If the trace does not hold for their sizes.
        """
        shapes = [tuple(value.shape) for value in tensors[: len(self._ranks)]]
        values = self.values_for(shapes)
        if values is None:
            asked = ", ".join(str(condition) for condition in self.sizes.conditions)
            raise ShapeError(
                f"{self.name}: this trace takes {', '.join(map(str, self.inputs))}"
                f"{f' where {asked}' if asked else ''}; got tensors of shapes "
                f"{', '.join(map(str, shapes))}. Call the function itself to trace for those"
            )
        return self.at(values).call(tensors, other)

    def with_captures(self, replaced: Sequence[tuple[Any, Any]]) -> OpenFunction:
        """As for any `ConcreteFunction`."""
        made = cast("OpenFunction", super().with_captures(replaced))
        made._made = {}
        return made


def _told_by_values(sizes: Sizes, given: tuple[int, ...]) -> tuple[Sizes, tuple[Any, ...]]:
    """The sizes that values tell, alone, where those of the arguments are given; and what all
    symbols become."""
    left = Sizes(sizes.values[len(given) :])
    left.values_tell(0)
    left.close()
    filled = (*given, *left.symbols)
    for condition in sizes.conditions if left.symbols else ():
        a: Any = sizes.evaluate(condition.left, filled)
        b: Any = sizes.evaluate(condition.right, filled)
        if type(b) is Dim and type(a) is not Dim and condition.relation == "==":
            a, b = b, a
        if type(a) is Dim:
            left.add_condition(Condition(a, condition.relation, b, condition.holds))
        elif type(b) is Dim:  # a < b: not b <= a
            opposite = {"<": "<=", "<=": "<"}[condition.relation]
            left.add_condition(Condition(b, opposite, a, not condition.holds))
    return left, filled


def _exactly(number: float) -> tuple[type, str]:
    """What two numbers share only if they are the same: type and value, sign of zero included."""
    return type(number), repr(number)
