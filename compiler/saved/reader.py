"""Reads what `writer` wrote: a function without source that is called like the one that was saved,
differentiable, with its own Variables."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tapeline.compiler.codegen.native_call import enable_native_calls
from tapeline.compiler.concrete import ConcreteFunction
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.compiler.frontend.capture import Capture, CapturingGraph, Resource
from tapeline.compiler.frontend.families import Places, Plan
from tapeline.compiler.frontend.options import Options
from tapeline.compiler.frontend.signature import Call, numbers_of
from tapeline.compiler.frontend.snapshots import hold_weakly
from tapeline.compiler.function import Function
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interchange import check_header, graph_from_document
from tapeline.compiler.ir.interchange_values import Document
from tapeline.compiler.ir.text import sizes_of
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.open_function import OpenFunction
from tapeline.compiler.results import Results
from tapeline.compiler.saved.archive import ArchiveReader, Array
from tapeline.compiler.saved.structures import read_structure
from tapeline.compiler.saved.writer import FORMAT, VERSION
from tapeline.compiler.staged.stages import check_tellers
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, GraphError, SavedFileError, TapelineError
from tapeline.runtime.op import Op
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import Shape, TensorSpec
from tapeline.runtime.tensor import Tensor, wrap
from tapeline.runtime.variable import Variable

T = TypeVar("T")
Reference: TypeAlias = tuple[str, str] | bytes
"""The module and the name of a function; or a pickle of the Python function and its options."""


class LoadedFunction(Function[..., Any]):
    """A function from a file: like the one that was saved, for the signatures that were saved.

    Attributes
    ----------
    variables : tuple of Variable
        The Variables that it reads or assigns, in order of first use; they are its own.
    """

    variables: tuple[Variable, ...]
    reference: Reference | None
    """What leads to the function for signatures that were not saved."""


enable_native_calls(LoadedFunction)


def load_function(
    source: str | os.PathLike[str] | bytes,
    variables: Sequence[Variable] | None = None,
    reference: Reference | None = None,
    ends: Document | None = None,
) -> LoadedFunction:
    """See `tapeline.load`; the bytes of a file will do as well. With `variables`, these are its
    Variables; `reference` leads to the function that serves other signatures; `ends` are arguments
    and results of its one trace."""
    with ArchiveReader(source) as archive:
        try:
            document = archive.document()
            if ends is not None:
                document["traces"] = [{**one, **ends} for one in document["traces"]]
            check_header(document, FORMAT, VERSION)
            return _build(document, archive.array, variables, reference)
        except SavedFileError:
            raise
        except TapelineError as error:
            raise archive.error(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = f"its document does not fit together ({type(error).__name__}: {error})"
            raise archive.error(reason) from None


def _build(
    document: Document,
    fetch: Callable[[Any], Array],
    given: Sequence[Variable] | None,
    reference: Reference | None,
) -> LoadedFunction:
    name = document["name"]
    if not isinstance(name, str):
        raise GraphError("the name must be a string")
    variables = list(given or ())
    for one in document["variables"] if given is None else ():
        trainable = bool(one["trainable"])
        variables.append(Variable(fetch(one["value"]), trainable=trainable, name=one["name"]))
    shown: list[str] = []
    function = LoadedFunction(
        _stand_in(document, shown, reference), Options(name=name, autograph=False)
    )
    function.variables = tuple(variables)
    function.reference = reference
    for one in document["traces"]:
        concrete, call = _trace(one, variables, fetch)
        concrete.signature = inspect.signature(function.python_function)
        function.add_trace(call, concrete)
        shown.append(", ".join(concrete.forms.describe()))
    return function


def find_function(module: str, name: str) -> Any:
    """What a dotted name of a module stands for; None where there is nothing."""
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _stand_in(
    document: Document, shown: list[str], reference: Reference | None
) -> Callable[..., Any]:
    """The function that is traced for signatures that were not saved: it says so."""
    name = str(document["name"])

    @functools.cache
    def find_source() -> Any:
        if isinstance(reference, bytes):
            return Function(*pickle.loads(reference))  # it came in a pickle
        return None if reference is None else find_function(*reference)

    def loaded(*args: Any, **kwargs: Any) -> Any:
        source = find_source()
        if source is not None:
            return source(*args, **kwargs)
        known = "; ".join(f"({one})" for one in shown)
        raise ArgumentError(
            f"{name}: it was loaded from a file, and was not saved for such arguments; the file "
            f"has {known}. Save it with signatures= for others"
        )

    loaded.__name__ = loaded.__qualname__ = name
    loaded.__doc__ = document.get("doc")
    parameters = []
    for one in document["parameters"]:
        default = inspect.Parameter.empty
        if "default" in one:
            default = read_structure(one["default"], _no_tensor)
        kind = getattr(inspect.Parameter, one["kind"])
        parameters.append(inspect.Parameter(one["name"], kind, default=default))
    loaded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return loaded


def _no_tensor(name: str, content: Any) -> Any:
    raise GraphError(f"there cannot be a {name!r} here")


def _call_op(name: str, graph: Graph) -> Op:
    return DifferentiableGraph(graph).op


def _trace(
    document: Document, variables: list[Variable], fetch: Callable[[Any], Array]
) -> tuple[ConcreteFunction, Call]:
    plain = graph_from_document(document["graph"], fetch, make_call=_call_op)
    verify_graph(plain)
    graph = CapturingGraph(plain.name)
    for slot in Graph.__slots__:
        setattr(graph, slot, getattr(plain, slot))
    n_tensors, n_results = document["n_tensors"], document["n_results"]
    positions = document.get("numbers", [])
    n_inputs = n_tensors + len(positions)
    inputs = [graph.spec(node) for node in graph.placeholders[:n_inputs]]
    sizes = graph.sizes = sizes_of(graph) or (Sizes(()) if positions else None)
    places = _places(document.get("places", []), inputs, graph)
    shapes = [_known_shape(spec, sizes) for spec in inputs]
    stand_ins = [
        wrap(np.broadcast_to(np.zeros((), spec.dtype), shape))
        for spec, shape in zip(inputs[:n_tensors], shapes, strict=False)
    ]
    call = Call(*_arguments(document, stand_ins, _EXAMPLES))
    _check_numbers(positions, numbers_of(call), inputs[n_tensors:])
    assigned = [_pick(variables, number) for number in document["assigned"]]
    written = document["written"]
    for position in written:
        _pick(stand_ins, position)
    outputs, graph.outputs = graph.outputs, graph.outputs[:n_results]
    if len(outputs) != n_results + len(assigned) + len(written):
        raise GraphError("the number of outputs is not that of results and assignments")
    _add_hidden(graph, document, variables, fetch)
    for variable, node in zip(assigned, outputs[n_results:], strict=False):
        found = graph.resources.get(id(variable))
        if found is None:
            found = Resource(variable, graph.spec(node), None, node)
            graph.resources[id(variable)] = found
        found.current, found.is_assigned = node, True
    n_fixed = n_results + len(assigned)
    cells = list(zip(written, outputs[n_fixed:], strict=True))
    results, leaves = _results(document["results"], fetch, sizes)
    if any(not 0 <= k < n_results for k, _ in leaves if k is not None):
        raise GraphError("a result is no output of the graph")
    kind = OpenFunction if places or positions else ConcreteFunction
    concrete = kind.rebuild(graph, inputs, Results.of_template(results, leaves), cells)
    concrete.given = *_arguments(document, stand_ins, _SHOWN), tuple(stand_ins)
    if list(map(id, concrete.assigned_variables)) != list(map(id, assigned)):
        raise GraphError("assigned Variables are out of order")
    if isinstance(concrete, OpenFunction):
        assert sizes is not None
        concrete.open(sizes, Plan(places, tuple(positions)), numbers_of(call))
    return concrete, call


_EXAMPLES: dict[str, Any] = {"float": 0.5, "int": 7, "negative float": -0.5, "negative int": -7}
"""What stands for numbers that are inputs in the call that a trace is for."""
_SHOWN: dict[str, Any] = {
    name: hold_weakly(
        OpenNumber(wrap(np.asarray(value)), type(value), set(), frozenset(), -1 if value < 0 else 1)
    )
    for name, value in _EXAMPLES.items()
}
"""What stands for them where the call is shown."""


def _arguments(
    document: Document, tensors: Sequence[Tensor], numbers: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments, and those by name."""

    def argument(name: str, content: Any) -> Any:
        if name == "number" and content in numbers:
            return numbers[content]
        if name != "tensor":
            raise GraphError(f"there cannot be a {name!r} among arguments")
        return _pick(tensors, content)

    args = tuple(read_structure(one, argument) for one in document["args"])
    return args, {str(key): read_structure(one, argument) for key, one in document["kwargs"]}


def _check_numbers(positions: Any, numbers: Sequence[float], inputs: Sequence[TensorSpec]) -> None:
    """Complains unless the numbers at these positions are what the inputs are made of."""
    if sorted(set(positions)) != positions:
        raise GraphError("the numbers that are inputs are not in order")
    for position, spec in zip(positions, inputs, strict=True):
        kind = np.dtype(type(_pick(numbers, position)))
        if spec.shape != () or spec.dtype != kind:
            raise GraphError(f"number {position} is a {kind}, and its input {spec}")


def _known_shape(spec: TensorSpec, sizes: Sizes | None) -> Shape:
    """The shape with the sizes that were traced in the place of open ones."""
    if sizes is None:
        return spec.static_shape
    return tuple([sizes.evaluate(size, sizes.values) for size in spec.shape])


def _places(document: Any, inputs: Sequence[TensorSpec], graph: CapturingGraph) -> Places:
    """Where the open sizes stand among the shapes of the arguments; values tell the others."""
    sizes = graph.sizes
    if sizes is None:
        return ()
    groups: Places = tuple(tuple((number, axis) for number, axis in group) for group in document)
    check_tellers(graph, len(groups))
    sizes.values_tell(len(groups))
    for symbol, group in zip(sizes.symbols, groups, strict=False):
        for number, axis in group:
            shape = _pick(inputs, number).shape
            if not 0 <= axis < len(shape) or shape[axis] is not symbol:
                raise GraphError(f"argument {number} has no open size {symbol} at axis {axis}")
    return groups


def _add_hidden(
    graph: CapturingGraph, document: Document, variables: list[Variable],
    fetch: Callable[[Any], Array],
) -> None:  # fmt: skip
    """What the graph takes besides the arguments, as the trace left it."""
    hidden = document["hidden"]
    n_inputs = document["n_tensors"] + len(document.get("numbers", []))
    if [one["node"] for one in hidden] != graph.placeholders[n_inputs:]:
        raise GraphError("what the graph takes besides its arguments is not listed in order")
    placeholders: dict[int, int] = {}
    for one in hidden:
        node = one["node"]
        if len(one) != 2:
            raise GraphError("a further input is a Variable or an array")
        if "variable" in one:
            placeholders[one["variable"]] = node
            _check_spec(graph, node, _pick(variables, one["variable"])._value)
            continue
        array = fetch(one["array"])
        _check_spec(graph, node, array)
        source = wrap(array)
        graph.captures.append(Capture(source, node, source, None, None))
    for number in document["variables"]:
        variable = _pick(variables, number)
        place = placeholders.get(number)
        spec = variable.spec if place is None else graph.spec(place)
        current = -1 if place is None else place
        graph.resources[id(variable)] = Resource(variable, spec, place, current)


def _pick(values: Sequence[T], number: Any) -> T:
    """The value of that number, which comes from a file."""
    if type(number) is not int or not 0 <= number < len(values):
        raise GraphError(f"there is no number {number!r} among {len(values)}")
    return values[number]


def _check_spec(graph: Graph, node: int, value: Array) -> None:
    spec = graph.spec(node)
    if (value.shape, value.dtype) != (spec.shape, spec.dtype):
        raise GraphError(f"%{node} is {spec}, but {value.dtype}{list(value.shape)} is kept for it")


def _results(
    document: Any, fetch: Callable[[Any], Array], sizes: Sizes | None
) -> tuple[Any, list[tuple[int | None, Any]]]:
    """The structure of the results, and its leaves in order."""
    leaves: dict[int, tuple[int | None, Any]] = {}
    kept: list[Any] = []

    def result(name: str, content: Any) -> Any:
        marker = object()
        kept.append(marker)
        if name in ("output", "number"):
            leaves[id(marker)] = int(content), name == "number"
        elif name == "array":
            leaves[id(marker)] = None, fetch(content)
        elif name == "size" and sizes is not None:
            leaves[id(marker)] = None, sizes.parse(content)
        else:
            raise GraphError(f"there cannot be a {name!r} among results")
        return marker

    structure = read_structure(document, result)
    return structure, [leaves.get(id(leaf), (None, leaf)) for leaf in nest.flatten(structure)]
