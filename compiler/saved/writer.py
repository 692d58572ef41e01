"""Writes compiled functions into a file that runs without their source."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.frontend.snapshots import Identity
from tapeline.compiler.function import Function
from tapeline.compiler.ir.interchange import graph_to_document, opaque_attributes
from tapeline.compiler.ir.interchange_values import Document
from tapeline.compiler.open_function import OpenFunction
from tapeline.compiler.saved.archive import Arrays, replace_archive, write_archive
from tapeline.compiler.saved.structures import Elsewhere, Part, Pickled, write_structure
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


def function_parts(
    function: Function[..., Any] | ConcreteFunction,
) -> tuple[bytes, list[Variable]]:
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
    their values are left out then, and arguments and results of one trace: see `pickled_ends`."""
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
    is_pickled = isinstance(function, ConcreteFunction) and kept is not None
    writer = _Writer(arrays, kept, with_ends=not is_pickled)
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

    def __init__(self, arrays: Arrays, kept: list[Variable] | None, *, with_ends: bool) -> None:
        self.arrays = arrays
        self._with_ends = with_ends
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

    def _ends(self, concrete: ConcreteFunction) -> Document:
        """The arguments that a trace is for, and its results."""

        def part(value: Any) -> Any:
            if type(value) is Part:
                return {value.name: value.content}
            return {"array": self.arrays.store(value)} if isinstance(value, np.ndarray) else None

        def here(value: Any) -> Any:
            return value.ref() if type(value) is Identity else value

        args, kwargs = nest.map_structure(here, _given_parts(concrete))
        return {
            "args": [write_structure(v, part, f"argument {k}") for k, v in enumerate(args)],
            "kwargs": [[k, write_structure(v, part, k)] for k, v in kwargs.items()],
            "results": write_structure(_result_parts(concrete), part, "the result"),
        }

    def trace(self, concrete: ConcreteFunction) -> Document:
        """One trace: graph, arguments, what it takes besides, and how results are put together."""
        _check(concrete)
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
            **(self._ends(concrete) if self._with_ends else {}),
            "inputs": [str(names[node][0]) for node in concrete.graph.placeholders],
            "n_tensors": len(concrete.given[2]),
            **_open_parts(concrete),
            "hidden": hidden,
            "variables": [self.variable(variable) for variable in concrete.variables],
            "assigned": [self.variable(variable) for variable in concrete.assigned_variables],
            "n_results": len(concrete.outputs),
            "written": concrete.written_arguments(),
        }


def _given_parts(concrete: ConcreteFunction) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a trace is for, with a `Part` for each tensor and each open number."""
    args, kwargs, placeholders = concrete.given
    numbers: dict[int, int] = {}
    for number, placeholder in enumerate(placeholders):
        numbers.setdefault(id(placeholder), number)

    def part(value: Any) -> Any:
        owned = value.ref() if type(value) is Identity else value
        if type(owned) is OpenNumber:
            word = "negative " if owned.sign < 0 else ""
            return Part("number", f"{word}{owned.kind.__name__}")
        found = numbers.get(id(owned)) if type(owned) is Tensor else None
        return value if found is None else Part("tensor", found)

    found: tuple[tuple[Any, ...], dict[str, Any]] = nest.map_structure(part, (args, kwargs))
    return found


def _result_parts(concrete: ConcreteFunction) -> Any:
    """The results of a trace, with a `Part` for each tensor, open number and open size."""
    structure, leaves = concrete.results.marked()
    by_marker = {id(marker): (position, value) for marker, position, value in leaves}

    def part(marker: Any) -> Any:
        position, value = by_marker.get(id(marker), (None, marker))
        if position is not None:
            return Part("number" if value else "output", position)
        return Part("size", source_of(value)) if type(value) is Dim else value

    return nest.map_structure(part, structure)


def pickled_ends(concrete: ConcreteFunction) -> Document:
    """Arguments and results of a trace as a pickle has them, for `load_function`."""

    def there(value: Any) -> Any:
        return Elsewhere(value.shown) if type(value) is Identity else value

    args, kwargs = nest.map_structure(there, _given_parts(concrete))
    return {
        "args": list(map(Pickled, args)),
        "kwargs": [[key, Pickled(value)] for key, value in kwargs.items()],
        "results": Pickled(_result_parts(concrete)),
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
