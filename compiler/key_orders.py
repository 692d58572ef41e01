"""Whether a trace serves dicts whose items come in another order.

A dict that is only asked for its items by their keys gives the same graph in any order; one that is
walked through may not. Nobody can see from outside what a program does, so a call with another
order is traced once more. If graph and results are the same, the trace that was there serves both.
If only the results come in another order, nothing was found out that would be worth a word: such a
trace does not count as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.frontend.families import Given, Order
from tapeline.compiler.frontend.retraces import ORDER
from tapeline.compiler.frontend.signature import ordered_keys
from tapeline.compiler.ir.interchange import graph_to_document, opaque_attributes
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.runtime import nest

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction


def twins(known: Iterable[ConcreteFunction | None], order: Order) -> list[ConcreteFunction]:
    """Of the traces that are known for arguments like those at hand, those that serve no calls with
    this order, as far as anybody knows, and are in force otherwise."""
    found = []
    for one in known:
        if one is None or one.general is not None or one.orders is None or order in one.orders:
            continue
        if one.guards is None or one.guards.hold():
            found.append(one)
    return found


def adopted(twin: ConcreteFunction, made: ConcreteFunction, given: Given) -> Any:
    """The trace that serves the call which `made` is a trace of: a twin that computes the very same
    in another order of keys. None if it does not."""
    from tapeline.compiler.open_function import OpenFunction  # loads the compiler

    if type(twin) is not type(made) or not _is_same(twin, made):
        return None
    assert twin.orders is not None
    if not isinstance(twin, OpenFunction) or not isinstance(made, OpenFunction):
        twin.orders.add(given.order)
        return twin
    if (twin.places, twin.open_numbers) != (made.places, made.open_numbers):
        return None
    values = twin.values_for(given.shapes) if twin.has_numbers(given.numbers) else None
    if values is None:
        return None
    twin.orders.add(given.order)
    return twin.at(values)


def is_reordered(twin: ConcreteFunction, made: ConcreteFunction) -> bool:
    """Whether two traces give the same under the same keys, and differ only in the order in which
    they do so."""
    known: dict[str, int] = {}
    first, second = _numbered_results(twin, known), _numbered_results(made, known)
    return first is not None and first == second


def _numbered_results(one: ConcreteFunction, known: dict[str, int]) -> Any:
    """The results with the dicts in them sorted, and a number for each value: one number for what
    is computed in the same way. None where the order of what happens may be seen."""
    graph = one.graph
    sources = {node: f"hidden {id(source)}" for node, source, _ in one.hidden_sources()}
    computed = [op for op in graph.ops if op is not PLACEHOLDER and op is not CONSTANT]
    if one.writes_cells or one.assigned_variables or opaque_attributes(graph):
        return None
    if any(op.subgraphs or not op.is_pure for op in computed):
        return None
    (document,) = graph_to_document(graph)["graphs"]
    numbers: list[int] = []
    for node, written in enumerate(document["nodes"]):
        what = sources.get(node, written.get("attrs"))
        if graph.ops[node] is CONSTANT:
            what = document["constants"][written["attrs"][0]]
        inputs = [numbers[value] for value in written.get("inputs", ())]
        key = repr((written["op"], what, inputs, written["spec"]))
        numbers.append(known.setdefault(key, len(known)))
    structure, leaves = one.results.template
    shown = [
        repr((type(value), value)) if place is None else f"{value} {numbers[graph.outputs[place]]}"
        for place, value in leaves
    ]
    return _sorted(nest.unflatten(structure, shown))


def _sorted(structure: Any) -> Any:
    if structure is None or nest.is_leaf(structure):
        return structure
    if isinstance(structure, dict):
        keys = ordered_keys(structure)
        return type(structure), keys, [_sorted(structure[key]) for key in keys]
    parts = [_sorted(child) for child in nest.children(structure)]
    return type(structure), nest.auxiliary(structure), parts


def other_order(order: Order, known: Iterable[Order] | None) -> tuple[str, str, str]:
    """What a call differs in from those before: name, old and new."""
    for before in known or ():
        for old, new in zip(before, order, strict=True):
            if old != new:
                return ORDER, _shown(old), _shown(new)
    return ORDER, "another", _shown([key for keys in order for key in keys])


def _shown(keys: Iterable[Any]) -> str:
    return ", ".join(map(repr, keys))


def _is_same(a: ConcreteFunction, b: ConcreteFunction) -> bool:
    hidden = [
        [(node, id(source), kind) for node, source, kind in one.hidden_sources()] for one in (a, b)
    ]
    assigned = [list(map(id, one.assigned_variables)) for one in (a, b)]
    if hidden[0] != hidden[1] or assigned[0] != assigned[1] or not _has_same_results(a, b):
        return False
    if a.writes_cells or b.writes_cells:
        return False
    if any(opaque_attributes(one.graph) for one in (a, b)):
        return False  # such objects are made anew by each trace
    return graph_to_document(a.graph) == graph_to_document(b.graph)


def _has_same_results(a: ConcreteFunction, b: ConcreteFunction) -> bool:
    (first, leaves), (second, others) = a.results.template, b.results.template
    if _form(first) != _form(second) or len(leaves) != len(others):
        return False
    for (place, one), (other_place, other) in zip(leaves, others, strict=True):
        if place != other_place or type(one) is not type(other):
            return False
        if isinstance(one, np.ndarray):
            if one.dtype != other.dtype or not np.array_equal(one, other):
                return False
        elif one is not other and repr(one) != repr(other):
            return False
    return True


def _form(structure: Any) -> Any:
    """What tells structures apart, dicts with another order included."""
    if structure is None or nest.is_leaf(structure):
        return None
    keys = tuple(structure) if isinstance(structure, dict) else nest.auxiliary(structure)
    return type(structure), keys, tuple(map(_form, nest.children(structure)))
