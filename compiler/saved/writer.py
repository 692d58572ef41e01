"""Writes compiled functions into a file that runs without their source."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.frontend.convert.reads import Identity
from tapeline.compiler.function import Function
from tapeline.compiler.ir.interchange import graph_to_document, opaque_attributes
from tapeline.compiler.ir.interchange_values import Document
from tapeline.compiler.open_function import OpenFunction
from tapeline.compiler.saved.archive import Arrays, replace_archive, write_archive
from tapeline.compiler.saved.structures import write_structure
from tapeline.runtime import nest
from tapeline.runtime.deferred import Deferred
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, GraphError
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable

FORMAT = "tapeline.saved"
VERSION = 3
"""Files are written as version 1 where no trace leaves sizes open, and as version 2 where none
leaves numbers open."""

Given: TypeAlias = Sequence[Any] | dict[str, Any]


def save_function(
    function: Function[..., Any] | ConcreteFunction,
    path: str | os.PathLike[str],
    signatures: Iterable[Given] | None,
) -> None:
    """See `tapeline.export.save`."""
    replace_archive(path, *describe_function(function, signatures))


def function_bytes(function: Function[..., Any]) -> bytes:
    """What `save_function` would write."""
    content = io.BytesIO()
    write_archive(content, *describe_function(function, None))
    return content.getvalue()


def function_parts(function: Function[..., Any]) -> tuple[bytes, list[Variable]]:
    """The same without the values of Variables, and these."""
    content, variables = io.BytesIO(), list[Variable]()
    write_archive(content, *describe_function(function, None, variables))
    return content.getvalue(), variables


def describe_function(
    function: Function[..., Any] | ConcreteFunction,
    signatures: Iterable[Given] | None,
    kept: list[Variable] | None = None,
) -> tuple[Document, Arrays]:
    """The document of a function, and the arrays that it refers to. Its Variables join `kept`, and
    their values are left out then."""
    if isinstance(function, ConcreteFunction):
        concretes = [function]
    elif not isinstance(function, Function):
        raise ArgumentTypeError(
            f"save: expected a function made by tl.function, got {type(function).__name__}"
        )
    elif signatures is None:
        concretes = function.lasting_traces()
    else:
        concretes = [_concrete(function, given) for given in signatures]
    if not concretes:
        raise ArgumentError(
            f"save: {_name(function)} has no trace yet; call it once, or pass signatures="
        )
    arrays = Arrays()
    writer = _Writer(arrays, kept)
    doc = None
    if isinstance(function, Function):
        doc = inspect.getdoc(function.python_function)
    traces = [writer.trace(concrete) for concrete in dict.fromkeys(concretes)]
    document = {
        "format": FORMAT,
        "version": _version(traces),
        "name": _name(function),
        "doc": doc,
        "parameters": _parameters(function),
        "traces": traces,
        "variables": writer.variable_documents(),
    }
    return document, arrays


def _version(traces: Sequence[Document]) -> int:
    if any("numbers" in trace for trace in traces):
        return VERSION
    return 2 if any("places" in trace for trace in traces) else 1


def _open_parts(concrete: ConcreteFunction) -> Document:
    """Where the open sizes of the graph stand among the shapes of the arguments, and which of the
    numbers are inputs."""
    if not isinstance(concrete, OpenFunction):
        return {} if concrete.graph_sizes is None else {"places": []}  # values tell the sizes
    found: Document = {"places": [[list(place) for place in group] for group in concrete.places]}
    if concrete.open_numbers:
        found["numbers"] = list(concrete.open_numbers)
    return found


def _name(function: Function[..., Any] | ConcreteFunction) -> str:
    return function.name if isinstance(function, ConcreteFunction) else function.__name__


def _concrete(function: Function[..., Any], given: Given) -> ConcreteFunction:
    if isinstance(given, dict):
        return function.get_concrete_function(**given)
    if isinstance(given, tuple | list):
        return function.get_concrete_function(*given)
    raise ArgumentTypeError(
        "save: a signature is a tuple of arguments, or a dict of them by name, got "
        f"{type(given).__name__}"
    )


def _parameters(function: Function[..., Any] | ConcreteFunction) -> list[Document]:
    found = []
    if isinstance(function, ConcreteFunction):
        signature = function.signature or inspect.Signature()
    else:
        signature = inspect.signature(function.python_function)
    for parameter in signature.parameters.values():
        document: Document = {"name": parameter.name, "kind": parameter.kind.name}
        if parameter.default is not parameter.empty:
            try:
                what = f"the default of {parameter.name}"
                document["default"] = write_structure(parameter.default, lambda _: None, what)
            except ArgumentTypeError:
                document["default"] = {"value": None}
                document["is_lost"] = True
        found.append(document)
    return found


class _Writer:
    """The parts of a document that traces share: arrays and Variables."""

    def __init__(self, arrays: Arrays, kept: list[Variable] | None) -> None:
        self.arrays = arrays
        self._with_values = kept is None
        self._variables: dict[int, int] = {}
        self._kept: list[Variable] = [] if kept is None else kept

    def variable(self, variable: Any) -> int:
        """The number of a Variable in the file."""
        number = self._variables.get(id(variable))
        if number is None:
            if not isinstance(variable, Variable):
                raise ArgumentTypeError(f"save: cannot keep a {type(variable).__name__}")
            number = self._variables[id(variable)] = len(self._kept)
            self._kept.append(variable)
        return number

    def variable_documents(self) -> list[Document]:
        """The Variables with their present values."""
        return [
            {
                "name": variable.name,
                "trainable": variable.trainable,
                "value": self._value(variable),
            }
            for variable in self._kept
        ]

    def _value(self, variable: Variable) -> Any:
        return self.arrays.store(np.asarray(variable.numpy())) if self._with_values else None

    def trace(self, concrete: ConcreteFunction) -> Document:
        """One trace: graph, arguments, what it takes besides, and how results are put together."""
        _check(concrete)
        args, kwargs, placeholders = concrete.given
        numbers: dict[int, int] = {}
        for number, placeholder in enumerate(placeholders):
            numbers.setdefault(id(placeholder), number)

        def argument(value: Any) -> Any:
            if type(value) is OpenNumber:
                word = "negative " if value.sign < 0 else ""
                return {"number": f"{word}{value.kind.__name__}"}
            found = numbers.get(id(value)) if type(value) is Tensor else None
            return None if found is None else {"tensor": found}

        def given(value: Any, what: str) -> Any:
            owned = nest.map_structure(lambda x: x.ref() if type(x) is Identity else x, value)
            return write_structure(owned, argument, what)

        structure, leaves = concrete.rebuilding()
        outputs = {id(marker): (position, value) for marker, position, value in leaves}

        def result(value: Any) -> Any:
            position, kept = outputs.get(id(value), (None, None))
            if position is not None:
                return {"number" if kept else "output": position}
            if isinstance(kept, np.ndarray):
                return {"array": self.arrays.store(kept)}
            if type(kept) is Dim:
                return {"size": source_of(kept)}
            if id(value) in outputs:
                return write_structure(kept, lambda _: None, "a result")
            return None

        names = concrete.graph.attrs
        hidden: list[Document] = []
        for node, source, is_variable in concrete.hidden_sources():
            if is_variable:
                hidden.append({"node": node, "variable": self.variable(source)})
                continue
            if type(source) is Deferred:
                raise ArgumentTypeError(f"save: {concrete.name} asks for a value at each call")
            value = source.numpy() if type(source) is Tensor else np.asarray(source)
            hidden.append({"node": node, "array": self.arrays.store(value)})
        return {
            "graph": graph_to_document(concrete.graph, self.arrays.store),
            "args": [given(v, f"argument {k}") for k, v in enumerate(args)],
            "kwargs": [[k, given(v, k)] for k, v in kwargs.items()],
            "inputs": [str(names[node][0]) for node in concrete.graph.placeholders],
            "n_tensors": len(placeholders),
            **_open_parts(concrete),
            "hidden": hidden,
            "variables": [self.variable(variable) for variable in concrete.variables],
            "assigned": [self.variable(variable) for variable in concrete.assigned_variables],
            "n_results": len(concrete.outputs),
            "results": write_structure(structure, result, "the result"),
            "written": concrete.written_arguments(),
        }


def _check(concrete: ConcreteFunction) -> None:
    """Complains about what cannot be kept in a file."""
    if concrete.depends_on_trace:
        raise ArgumentError(f"save: {concrete.name} uses a tensor of a trace that is not finished")
    for graph, node in opaque_attributes(concrete.graph):
        where = graph.locations[node]
        raise GraphError(
            f"save: {concrete.name} cannot be kept in a file: {graph.ops[node].name}"
            f"{'' if where is None else f' at {where}'} holds an object of this process"
        )
