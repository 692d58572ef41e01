"""Prints a graph as text that people read and `parse_graph` reads back.

    graph loss:
      %0 = placeholder(name='x')              : float64[2, 3]  # model.py:12
      %1 = sum(%0, axes=(0,), keepdims=False) : float64[3]
      return %1

Sub-graphs follow the graph that uses them, numbered: `%4 = call(%1) [@1]`, then `graph @1 body:`.
Constants of a few elements stand inline; others as a hash of their content (`constant_table`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.runtime.dims import Dim, bare, source_of
from tapeline.runtime.op import Attrs, Op, Trait
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

INLINE_ELEMENTS = 16
_MAX_COLUMN = 64


def print_graph(graph: Graph) -> str:
    """The text of a graph and of all its sub-graphs; it ends without a newline."""
    ordered = subgraphs_first_use(graph)
    number = {id(g): k for k, g in enumerate(ordered)}
    blocks = []
    for k, g in enumerate(ordered):
        title = f"graph {g.name}:" if k == 0 else f"graph @{k} {g.name}:"
        opening = [title] if k else [title, *_sizes_lines(graph)]
        blocks.append("\n".join([*opening, *_lines(g, number)]))
    return "\n\n".join(blocks)


def _sizes_lines(graph: Graph) -> Iterator[str]:
    """What the open sizes were in the call that was traced, and what they must be."""
    sizes = sizes_of(graph)
    if sizes is not None:
        values = ", ".join(f"n{k}={value}" for k, value in enumerate(sizes.values))
        yield f"  sizes {values}"
        for condition in sizes.conditions:
            yield f"  where {condition}"


def sizes_of(graph: Graph) -> Sizes | None:
    """The sizes that a graph leaves open; None where it leaves none."""
    told = [node for node, op in enumerate(graph.ops) if op.has(Trait.SIZED)]
    for node in (*graph.placeholders, *told):
        specs = graph.specs[node]
        for spec in specs if isinstance(specs, tuple) else (specs,):
            for extent in cast(tuple[Any, ...], spec.shape):
                if type(extent) is Dim:
                    return extent.sizes
    return None


def subgraphs_first_use(graph: Graph) -> list[Graph]:
    """The graph and every sub-graph once, each after all the graphs that use it."""
    post_order: list[Graph] = []
    seen = {id(graph)}
    stack: list[tuple[Graph, Iterator[Graph]]] = [(graph, direct_subgraphs(graph))]
    while stack:
        current, children = stack[-1]
        child = next(children, None)
        if child is None:
            post_order.append(current)
            stack.pop()
        elif id(child) not in seen:
            seen.add(id(child))
            stack.append((child, direct_subgraphs(child)))
    return post_order[::-1]


def direct_subgraphs(graph: Graph) -> Iterator[Graph]:
    """The sub-graphs that the graph's own ops have, in order, possibly more than once."""
    for op in graph.ops:
        yield from op.subgraphs


def _lines(graph: Graph, number: dict[int, int]) -> Iterator[str]:
    calls = [_call_text(graph, i, number) for i in range(len(graph))]
    types = [spec_text(spec) for spec in graph.specs]
    call_width = min(max(map(len, calls), default=0), _MAX_COLUMN)
    type_width = min(max(map(len, types), default=0), _MAX_COLUMN)
    for call, kind, location in zip(calls, types, graph.locations, strict=True):
        line = f"  {call:<{call_width}} : "
        yield line + kind if location is None else f"{line}{kind:<{type_width}}  # {location}"
    yield "  return " + ", ".join(f"%{i}" for i in graph.outputs) if graph.outputs else "  return"


def _call_text(graph: Graph, node_id: int, number: dict[int, int]) -> str:
    op = graph.ops[node_id]
    if op is CONSTANT:
        array = graph.constants[cast(int, graph.attrs[node_id][0])]
        return f"%{node_id} = constant({constant_text(array)})"
    parts = [f"%{i}" for i in graph.inputs[node_id]]
    parts.extend(_attr_texts(op, graph.attrs[node_id]))
    text = f"%{node_id} = {op.name}({', '.join(parts)})"
    if op.subgraphs:
        text += f" [{', '.join(f'@{number[id(g)]}' for g in op.subgraphs)}]"
    return text


def _attr_texts(op: Op, attrs: Attrs) -> Iterator[str]:
    names = op.attr_names
    for k, value in enumerate(attrs):
        name = names[k] if k < len(names) else f"_{k}"
        yield f"{name}={attr_text(value)}"


def attr_text(value: object) -> str:
    """An attribute as text; in angle brackets, which do not parse, where it is some odd object."""
    if isinstance(value, tuple):
        inner = ", ".join(map(attr_text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is Dim:
        return bare(source_of(value))
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, np.generic):
        return f"{value.dtype.name}({attr_text(value.item())})"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if value is Ellipsis:
        return "Ellipsis"
    return f"<{type(value).__name__} {value!r}>"


def spec_text(spec: NodeSpec) -> str:
    """A spec as `float64[2, 3]`, with `?` for an extent that is not fixed; a tuple in brackets."""
    if isinstance(spec, tuple):
        return f"({', '.join(map(_one_spec_text, spec))})"
    return _one_spec_text(spec)


@lru_cache(maxsize=4096)
def _one_spec_text(spec: TensorSpec) -> str:
    extents = ", ".join("?" if extent is None else _extent_text(extent) for extent in spec.shape)
    return f"{spec.dtype.name}[{extents}]"


def _extent_text(extent: Any) -> str:
    return bare(source_of(extent)) if type(extent) is Dim else str(extent)


def constant_text(array: npt.NDArray[Any]) -> str:
    """The values of a small array, or `#` and the hash of its content."""
    if array.size <= INLINE_ELEMENTS and not np.isnan(array).any():
        return _nested_text(array)
    return f"#{constant_hash(array)}"


def _nested_text(array: npt.NDArray[Any]) -> str:
    if array.ndim == 0:
        value = array[()]
        if array.dtype.kind == "c":
            return f"complex({value.real!s}, {value.imag!s})"
        return str(value)
    return f"[{', '.join(map(_nested_text, array))}]"


def constant_hash(array: npt.NDArray[Any]) -> str:
    """A hash of dtype, shape and bytes."""
    digest = hashlib.sha256(f"{array.dtype.name}{array.shape}".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def constant_table(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """The constants of a graph and its sub-graphs that the text names by hash only."""
    return {
        constant_hash(array): array
        for g in subgraphs_first_use(graph)
        for array in g.constants
        if constant_text(array).startswith("#")
    }
