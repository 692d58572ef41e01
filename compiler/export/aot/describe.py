"""Which C functions a traced function becomes, and what their parameters are called."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tapeline.compiler.autodiff.joint import is_differentiable_kind
from tapeline.compiler.calling import show_spec
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.export.aot.decompose import without_numpy_calls
from tapeline.compiler.export.aot.entry import Entry, Parameter, Role
from tapeline.compiler.ir.graph import Array
from tapeline.compiler.open_function import OpenFunction
from tapeline.runtime.errors import ExportError

_RESERVED = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while bool true false nullptr class new delete this template operator
    private public namespace using try catch throw workspace
    """.split()  # noqa: SIM905  # a list of single words reads worse
)


def c_name(text: str, taken: set[str] | None = None) -> str:
    """An identifier of C like the text, other than those that are taken."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    if name[0].isdigit() or name in _RESERVED:
        name = f"{name}_" if name in _RESERVED else f"v{name}"
    if taken is None:
        return name
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _with_fixed_sizes(concrete: OpenFunction) -> ConcreteFunction:
    """A trace that takes numbers as inputs, as an ordinary one.

    Raises
    ------
    ExportError
        If sizes are open as well.
    """
    open_inputs = [
        f"{name}: {show_spec(spec)}"
        for name, spec in zip(_argument_names(concrete), concrete.inputs, strict=True)
        if spec.shape is None or None in spec.shape
    ]
    if open_inputs:
        raise ExportError(
            f"aot: {concrete.name} leaves sizes open ({', '.join(open_inputs)}), and C functions "
            "are compiled for fixed ones; pass a signature with numbers, and export once, under a "
            "name of its own, for each size that you need"
        )
    return concrete.at(concrete.sizes.values)


def _argument_names(concrete: ConcreteFunction) -> list[str]:
    graph = concrete.graph
    return [str(graph.attrs[node][0]) for node in graph.placeholders[: len(concrete.inputs)]]


class Description:
    """The entries of a traced function.

    Attributes
    ----------
    entries : list of Entry
        The function, and its gradient if it has one and it is wanted.
    initial : dict of str to array
        The values that Variables have now, by the names of their parameters.
    """

    def __init__(self, concrete: ConcreteFunction, name: str, gradient: bool) -> None:
        if isinstance(concrete, OpenFunction):
            concrete = _with_fixed_sizes(concrete)
        if concrete.depends_on_trace:
            raise ExportError(f"aot: {concrete.name} uses a tensor of an unfinished trace")
        self.concrete = concrete
        self.name = name
        self.taken: set[str] = set()
        self.embedded: dict[int, Array] = {}
        self.initial: dict[str, Array] = {}
        self.inputs = self._inputs()
        self.results = self._results()
        self.entries = [self._forward()]
        if gradient:
            self.entries += self._gradient()

    def _parameter(self, name: str, spec: Any, role: Role) -> Parameter:
        return Parameter(c_name(name, self.taken), spec, role)

    def _inputs(self) -> dict[int, Parameter]:
        """The parameters of the inputs, by position; captured tensors are in the object."""
        graph, concrete = self.concrete.graph, self.concrete
        found = {}
        count = len(concrete.inputs)
        for position, node in enumerate(graph.placeholders[:count]):
            name = str(graph.attrs[node][0])
            found[position] = self._parameter(name, graph.spec(node), "input")
        for position, (node, source, is_variable) in enumerate(concrete.hidden_sources(), count):
            value = np.asarray(source.numpy() if hasattr(source, "numpy") else source)
            if not is_variable:
                self.embedded[position] = value
                continue
            name = str(source.name or graph.attrs[node][0])
            parameter = found[position] = self._parameter(name, graph.spec(node), "variable")
            self.initial[parameter.name] = value
        return found

    def _results(self) -> list[Parameter]:
        concrete, graph = self.concrete, self.concrete.graph
        count = len(concrete.outputs)
        names: list[tuple[str, Role]] = [
            ("result" if count == 1 else f"result{k}", "result") for k in range(count)
        ]
        for variable in concrete.assigned_variables:
            names.append((f"new_{variable.name or 'variable'}", "new value"))
        for position in concrete.written_arguments():
            names.append((f"new_{graph.attrs[graph.placeholders[position]][0]}", "new value"))
        return [
            self._parameter(name, graph.spec(node), role)
            for (name, role), node in zip(names, graph.outputs, strict=True)
        ]

    def _forward(self) -> Entry:
        compiled = self.concrete.differentiable.compiled
        graph = without_numpy_calls(compiled.optimized, compiled.manner)
        parameters = (*self.inputs.values(), *self.results)
        return Entry(self.name, parameters, graph, self.embedded)

    def _gradient(self) -> list[Entry]:
        wrt = tuple(
            position
            for position, parameter in self.inputs.items()
            if is_differentiable_kind(parameter.spec.dtype.kind)
        )
        has_output = any(is_differentiable_kind(one.spec.dtype.kind) for one in self.results)
        if not wrt or not has_output:
            return []
        joint, backward = self.concrete.differentiable.vjp_graph(wrt)
        cotangents = [
            self._parameter(f"cotangent_{self.results[k].name}", self.results[k].spec, "cotangent")
            for k in joint.differentiable
        ]
        gradients = [
            self._parameter(
                f"gradient_{self.inputs[position].name}", self.inputs[position].spec, "gradient"
            )
            for position, found in zip(wrt, joint.gradients, strict=True)
            if found is not None
        ]
        if not gradients:
            return []
        parameters = (*self.inputs.values(), *cotangents, *gradients)
        compiled = backward.compiled
        graph = without_numpy_calls(compiled.optimized, compiled.manner)
        return [Entry(f"{self.name}_gradient", parameters, graph, self.embedded)]
