"""Writes compiled functions as ONNX models."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapeline.compiler.autodiff.joint import build_joint, is_differentiable_kind
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.export.onnx.complex_numbers import (
    Value,
    stacked,
    stacked_array,
    stacked_spec,
    unstacked,
)
from tapeline.compiler.export.onnx.model import (
    INT64,
    OPSET,
    OnnxGraph,
    Ref,
    is_open,
    onnx_type,
    save_model,
)
from tapeline.compiler.export.onnx.translate import Translator, fixing_conditions, prepare
from tapeline.compiler.export.onnx.value_sizes import check_example
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.open_function import OpenFunction
from tapeline.runtime.errors import DTypeError, ExportError
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """What was written: the names by which a runtime is given arrays and gives them.

    Attributes
    ----------
    path : str
        The file.
    inputs, outputs : dict of str to TensorSpec
        In order.
    opset : int
        The version of ONNX's operators.
    variables : dict of str to TensorSpec
        The Variables that the function assigns: inputs that need not be given, and then have the
        values of now. The output `new_<name>` is what comes after.
    notes : tuple of str
        What the model does not do: checks and printing, which ONNX does not know.
    """

    path: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    variables: dict[str, TensorSpec]
    opset: int
    notes: tuple[str, ...]


def export_onnx(
    concrete: ConcreteFunction, path: str | os.PathLike[str], gradient: bool = False
) -> OnnxModel:
    """See `tapeline.export.onnx`."""
    builder = _Builder(concrete)
    model = builder.gradient() if gradient else builder.forward()
    save_model(model, os.fspath(path))
    builder.note_conditions()
    inputs = {ref.name: spec for ref, spec in builder.inputs}
    outputs = {ref.name: spec for ref, spec in builder.outputs}
    notes = tuple(builder.onnx.shared.notes)
    variables = {ref.name: spec for ref, spec in builder.variables}
    return OnnxModel(os.fspath(path), inputs, outputs, variables, OPSET, notes)


class _Builder:
    """Puts a model together: arguments are inputs, Variables and captured tensors initializers."""

    def __init__(self, concrete: ConcreteFunction) -> None:
        self.concrete = concrete
        self.onnx = OnnxGraph()
        self.inputs: list[tuple[Ref, TensorSpec]] = []
        self.outputs: list[tuple[Ref, TensorSpec]] = []
        self.variables: list[tuple[Ref, TensorSpec]] = []
        self.problems: list[str] = []
        self.names: list[str] = []
        self.sizes = _sizes_of(concrete)
        if self.sizes is not None:
            check_example(concrete.name, self.sizes)

    def shown(self, spec: TensorSpec) -> TensorSpec:
        """The spec with a number for each size of which only one fits."""
        if self.sizes is None:
            return spec
        fixed = self.sizes.fixed()
        extents: tuple[Any, ...] = spec.static_shape
        shape = [
            extent.value
            if is_open(extent) and {n for m, _ in extent.terms for n in m} <= fixed
            else extent
            for extent in extents
        ]
        return spec_of(tuple(shape), spec.dtype)

    def note_conditions(self) -> None:
        """Tells for which of the open sizes the model is good."""
        if self.sizes is not None:
            fixed = self.sizes.fixed()
            for one in self.sizes.conditions:
                if not {n for m, _ in one.left.terms for n in m} <= fixed:
                    self.onnx.note(f"good for sizes where {one}")

    def forward(self) -> Any:
        """The model of the function: its results, then the new values of Variables it assigns."""
        graph = self.concrete.graph
        names = _result_names(self.concrete)
        return self._model(graph, self._given(graph), names)

    def gradient(self) -> Any:
        """The model of its gradient: inputs and cotangents of the results in; gradients out."""
        graph = self.concrete.graph
        wrt = tuple(
            position
            for position, node in enumerate(graph.placeholders)
            if is_differentiable_kind(graph.spec(node).dtype.kind)
        )
        whole = graph if self.sizes else self.concrete.differentiable.simplified
        with _questions_noted(self.sizes):
            before = fixing_conditions(self.sizes)
            joint = build_joint(whole, wrt)
            asked = [one for one in fixing_conditions(self.sizes) if one not in before]
        if asked:
            raise ExportError(
                f"onnx: the gradient of {self.concrete.name} depends on the size {asked[0].left}, "
                "which is open; export for fixed sizes, by a signature with numbers"
            )
        if not any(found is not None for found in joint.gradients):
            raise ExportError(f"onnx: {self.concrete.name} has no gradient")
        backward = joint.graph
        backward.outputs = backward.outputs[joint.n_outputs :]
        given = self._given(graph)
        results = _result_names(self.concrete)
        for number, node in zip(joint.differentiable, joint.cotangents, strict=True):
            given.append(self._input(f"cotangent_{results[number]}", backward.spec(node)))
        names = [
            f"gradient_{self.names[position]}"
            for position, found in zip(wrt, joint.gradients, strict=True)
            if found is not None
        ]
        return self._model(backward, given, names)

    def _given(self, graph: Graph) -> list[Value]:
        """What stands for the placeholders of the traced graph."""
        count = len(self.concrete.inputs)
        given: list[Value] = []
        for node in graph.placeholders[:count]:
            given.append(self._input(str(graph.attrs[node][0]), graph.spec(node)))
        if isinstance(self.concrete, OpenFunction):
            for k, ((number, axis), *_) in enumerate(self.concrete.places):
                size = self.onnx.add(
                    "Shape",
                    self.inputs[number][0],
                    dtype=INT64,
                    start=axis,
                    end=axis + 1,
                    wish="size",
                )
                self.onnx.shared.symbols[f"n{k}"] = size
        for node, source, is_variable in self.concrete.hidden_sources():
            name = str((source.name if is_variable else None) or graph.attrs[node][0])
            held = self._initializer(name, source)
            if any(source is one for one in self.concrete.assigned_variables):
                self.variables.append((held, stacked_spec(graph.spec(node))))
            self.names.append(held.name)
            given.append(unstacked(self.onnx, held, graph.spec(node)))
        return given

    def _input(self, name: str, spec: TensorSpec) -> Value:
        shown = stacked_spec(spec)
        ref = Ref(self.onnx.name(name), shown.dtype)
        try:
            onnx_type(shown.dtype)
        except DTypeError as error:
            self.problems.append(f"the input {name}: {error}")
        self.inputs.append((ref, self.shown(shown)))
        self.names.append(ref.name)
        return unstacked(self.onnx, ref, spec)

    def _initializer(self, name: str, source: Any) -> Ref:
        value = stacked_array(source.numpy() if hasattr(source, "numpy") else source)
        if isinstance(source, Tensor) and self.concrete.depends_on_trace:
            raise ExportError(f"onnx: {self.concrete.name} uses a tensor of an unfinished trace")
        try:
            return self.onnx.initializer(name, value)
        except DTypeError as error:
            self.problems.append(f"the array {name}: {error}")
            return Ref(self.onnx.name(name), value.dtype)

    def _model(self, graph: Graph, given: Sequence[Value], names: Sequence[str]) -> Any:
        translator = Translator(self.sizes)
        with _questions_noted(self.sizes):
            found = translator.graph(prepare(graph), self.onnx, given)
        problems = self.problems + translator.problems
        if problems:
            lines = "\n  ".join(problems)
            raise ExportError(f"onnx: {self.concrete.name} cannot be exported:\n  {lines}")
        self.onnx.location = None
        for ref, node, name in zip(found, graph.outputs, names, strict=True):
            named = self.onnx.add("Identity", stacked(self.onnx, ref), wish=name)
            self.outputs.append((named, self.shown(stacked_spec(graph.spec(node)))))
        text = f"{self.concrete.name}, written by Tapeline"
        inputs = [*self.inputs, *self.variables]
        return self.onnx.model(self.concrete.name, inputs, self.outputs, text)


def _sizes_of(concrete: ConcreteFunction) -> Sizes | None:
    """The sizes that a trace leaves open: those of its arguments, and those that values tell."""
    if isinstance(concrete, OpenFunction):
        return concrete.sizes
    return None if concrete.staged is None else concrete.staged.sizes


@contextlib.contextmanager
def _questions_noted(sizes: Sizes | None) -> Iterator[None]:
    """While a graph with open sizes is translated, what is asked of sizes is noted."""
    if sizes is None:
        yield
        return
    known = dict(sizes.conditions)
    sizes.is_open = True
    try:
        yield
    finally:
        sizes.conditions.clear()
        sizes.conditions.update(known)
        sizes.close()


def _result_names(concrete: ConcreteFunction) -> list[str]:
    """Names of the graph's outputs: results, then Variables and arguments that get new values."""
    count = len(concrete.outputs)
    names = ["result"] if count == 1 else [f"result_{k}" for k in range(count)]
    for k, variable in enumerate(concrete.assigned_variables):
        names.append(f"new_{getattr(variable, 'name', None) or f'variable_{k}'}")
    graph = concrete.graph
    for position in concrete.written_arguments():
        names.append(f"new_{graph.attrs[graph.placeholders[position]][0]}")
    return names
