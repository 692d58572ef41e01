"""Traces a function: runs it once on symbolic tensors, and makes a `ConcreteFunction` of that."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.donation import Donation
from tapeline.compiler.frontend.capture import Capture, CapturingGraph
from tapeline.compiler.frontend.convert.entry import run_converted
from tapeline.compiler.frontend.convert.reads import Reads
from tapeline.compiler.frontend.families import Plan, open_shapes
from tapeline.compiler.frontend.frozen import Frozen
from tapeline.compiler.frontend.guards import Guard, build_guards, take_guards
from tapeline.compiler.frontend.number_inputs import OpenNumbers
from tapeline.compiler.frontend.signature import Call, Signature, is_tensor_leaf
from tapeline.compiler.frontend.snapshots import hold_weakly
from tapeline.compiler.frontend.trace_effects import warn_of_effects
from tapeline.compiler.open_function import OpenFunction
from tapeline.compiler.results import Output, Results
from tapeline.runtime import nest
from tapeline.runtime.dims import Dim, is_told
from tapeline.runtime.errors import MutatedArgumentError, VariableCreationError
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.spec import canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, as_tensor

CLOSED = Plan()


def trace(
    function: Callable[..., Any],
    name: str,
    signature: Signature,
    call: Call,
    autograph: bool = True,
    plan: Plan = CLOSED,
    manner: Manner = PLAIN,
    asked: set[int] | None = None,
    told: tuple[int, ...] = (),
) -> ConcreteFunction:
    """Runs the function once on symbolic tensors, with its control flow converted if `autograph`,
    and with sizes and numbers left open as planned; `asked` gets the numbers whose value it needs.
    The first sizes that depend on values are `told`, as far as a call knows them.

    Raises
    ------
    MutatedArgumentError
        If the function changed an argument's container.
    VariableCreationError
        If it makes Variables each time it runs.
    NumberAskedError
        If the function needs the value of a number that is to be left open.
    Exception
        What the function raises; nothing of the trace remains.
    """
    asked = set() if asked is None else asked
    one = _Trace(name, signature, call, plan, asked, told)
    one.run(function, autograph)
    if one.graph.n_created:
        # The Variables are there now; the function as it runs from now on is another one.
        one = _Trace(name, signature, call, plan, asked, told)
        one.run(function, autograph)
        if one.graph.n_created:
            raise VariableCreationError(
                f"{name}: the function makes a Variable each time it runs, and a compiled call "
                "would not; make it outside, or once, and keep it: "
                "`if self.v is None: self.v = tl.Variable(...)`"
            )
    one.call_back()
    made = one.made(manner)
    if one.reads is not None:
        arguments = nest.flatten((one.args, one.kwargs))
        warn_of_effects(name, function, one.reads, one.places, arguments)
    return made


class _Trace:
    """One run of a function on symbolic tensors."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        call: Call,
        plan: Plan,
        asked: set[int],
        told: tuple[int, ...],
    ) -> None:
        self.name = name
        self.signature = signature
        self.call = call
        self.plan = plan
        self.graph = graph = CapturingGraph(name)
        self.paths = signature.describe_leaves(call)
        self.sizes, shapes = open_shapes(call.shapes, plan.places)
        graph.sizes, graph.told = self.sizes, told
        self.specs = [
            spec_of(shape, canonical_dtype(value.dtype))
            for value, shape in zip(call.tensors, shapes, strict=True)
        ]
        self.placeholders: list[Tensor] = [
            graph.placeholder_tensor(spec, path)
            for spec, path in zip(self.specs, self.paths, strict=True)
        ]
        graph.feeds = {
            node: None if id(value) in call.abstract else value
            for node, value in zip(graph.placeholders, call.tensors, strict=True)
        }
        self.numbers = OpenNumbers(graph, signature, call, plan.numbers, asked)
        self.args, self.kwargs = self._symbolic_arguments()
        self.results: Any = None
        self.leaves: list[Any] = []
        self.written: list[tuple[Capture, int]] = []
        self.reads: Reads | None = None
        self.places: list[Guard] = []

    def _symbolic_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = self.call
        stand_ins = _by_identity(self.graph, call.tensors, self.placeholders)
        args, kwargs = call.args, call.kwargs
        if self.plan.numbers:
            self.specs += self.numbers.specs
            args, kwargs = self.numbers.replace(args, kwargs)
        return (
            tuple(nest.map_structure(stand_ins, value) for value in args),
            {key: nest.map_structure(stand_ins, x) for key, x in call.in_order(kwargs).items()},
        )

    def run(self, function: Callable[..., Any], autograph: bool) -> None:
        """Runs the function; the graph has what it computes."""
        graph = self.graph
        values = (*self.args, *self.kwargs.values())
        containers = [(_outline(value), nest.flatten(value)) for value in values]
        try:
            with graph.tracing():
                if autograph:
                    self.results = run_converted(graph, function, self.args, self.kwargs)
                else:
                    self.results = function(*self.args, **self.kwargs)
                _check_containers(self.name, self.signature, values, containers)
                self.leaves = _take_results(graph, self.results)
                self.numbers.check()
        finally:
            self.written = graph.written_cells()
            self.reads, graph.reads = graph.reads, None  # they must not live as long as the graph
            graph.outer = None  # it may hold this graph, in an op

    def call_back(self) -> None:
        """Tells those who wait for the end of the trace."""
        callbacks, self.graph.callbacks = self.graph.callbacks, []
        for callback in callbacks:
            callback()

    def made(self, manner: Manner) -> ConcreteFunction:
        """The function that was traced."""
        graph = self.graph
        reads = self.reads or Reads()
        self.places = take_guards(reads)
        guards = build_guards(self.places, reads.inherited)
        kind = OpenFunction if self.plan else ConcreteFunction
        results = Results(self.results, self.leaves)
        made = kind(graph, self.specs, results, self._cells(), guards, manner)
        args = tuple(nest.map_structure(hold_weakly, value) for value in self.args)
        kwargs = {key: nest.map_structure(hold_weakly, x) for key, x in self.kwargs.items()}
        made.given = args, kwargs, tuple(self.placeholders)
        made.signature = self.signature.signature
        donated = [k for k, path in enumerate(self.paths) if self.signature.is_donated(path)]
        if donated:
            made.donation, made.is_plain = Donation(self.name, donated), False
        graph.trace = weakref.ref(made)
        self.sizes.close()
        if isinstance(made, OpenFunction):
            return made.open(self.sizes, self.plan, self.call.numbers)
        return made

    def _cells(self) -> list[tuple[Capture | int, int]]:
        """What the run has changed in place: captures and arguments, with their new values."""
        cells: list[tuple[Capture | int, int]] = list(self.written)
        for position, placeholder in enumerate(self.placeholders):
            node = placeholder._value.id
            if node != self.graph.placeholders[position]:
                cells.append((position, node))
        return cells


def _by_identity(
    graph: CapturingGraph, values: Sequence[Any], placeholders: Sequence[Tensor]
) -> Callable[[Any], Any]:
    """Replaces each tensor leaf by its placeholder, and the same object by the same placeholder;
    what stands for a constant, by that."""
    found: dict[int, Any] = {}
    for value, placeholder in zip(values, placeholders, strict=True):
        found.setdefault(id(value), placeholder)

    def stand_in(leaf: Any) -> Any:
        if type(leaf) is Frozen:
            return graph.freeze(leaf.value)
        return found[id(leaf)] if is_tensor_leaf(leaf) else leaf

    return stand_in


def _outline(value: Any) -> Any:
    """The form of a structure, with the ids of its leaves; equal while nobody changes it."""
    if value is None or nest.is_leaf(value):
        return id(value)
    return type(value), [(part, _outline(child)) for part, child in nest.named_children(value)]


def _check_containers(
    name: str, signature: Signature, values: Sequence[Any], before: Sequence[tuple[Any, Any]]
) -> None:
    for position, (value, (outline, _)) in enumerate(zip(values, before, strict=True)):
        if _outline(value) != outline:
            names = signature.names
            argument = names[position] if position < len(names) else f"number {position}"
            raise MutatedArgumentError(
                f"{name}: the function changed its argument {argument!r} (a "
                f"{type(value).__name__}) while it was traced. A compiled call would not do that "
                "again: make a copy of the container, and return it"
            )


def _take_results(graph: CapturingGraph, results: Any) -> list[Any]:
    """The leaves of the results, with an `Output` for each tensor; its node becomes an output."""
    leaves: list[Any] = []
    seen: dict[int, Output] = {}
    for leaf in nest.flatten(results):
        if id(leaf) not in seen:
            if graph.is_table(leaf):
                leaves.append(np.array(leaf))  # as NumPy makes it
                continue
            value = _result_tensor(graph, leaf)
            if value is None:
                leaves.append(leaf.copy() if isinstance(leaf, np.ndarray) else leaf)
                continue
            is_number = type(leaf) is Dim or type(leaf) is OpenNumber
            seen[id(leaf)] = Output(len(graph.outputs), is_number)
            graph.outputs.append(graph.value_id(value))
        leaves.append(seen[id(leaf)])
    return leaves


def _result_tensor(graph: CapturingGraph, leaf: Any) -> Tensor | None:
    """What the program computes as a leaf of the results; None for a constant."""
    if is_told(leaf):
        return graph.size_tensor(leaf)
    if type(leaf) is OpenNumber:
        if graph.outer is not None:
            leaf.ask()  # the program around this one needs a number now
        return leaf.result()
    if type(leaf) is not Dim and hasattr(type(leaf), "__tapeline_tensor__"):
        return as_tensor(leaf)
    return leaf if type(leaf) is Tensor else None
