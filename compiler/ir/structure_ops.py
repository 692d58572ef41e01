"""The ops that give a graph its structure: placeholders, constants, picks and calls of sub-graphs.

They compute nothing by themselves, so they have no gradient rules and no lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, Saved, Trait, define_op
from tapeline.runtime.spec import TensorSpec, spec_of

if TYPE_CHECKING:
    from tapeline.compiler.ir.graph import Graph

__all__ = ["CONSTANT", "PICK", "PLACEHOLDER", "SIZE", "make_call_op"]

_INT64 = np.dtype(np.int64)


def _no_kernel(*_: Any) -> Any:
    raise GraphError("placeholders and constants have values of their own and are never run")


def _no_infer(*_: Any) -> TensorSpec:
    raise GraphError("use Graph.add_placeholder and Graph.add_constant: their specs are given")


PLACEHOLDER = define_op(
    "placeholder", kernel=_no_kernel, infer=_no_infer, n_inputs=0, attr_names=("name",)
)
"""An input of the graph; the attribute is its name."""

CONSTANT = define_op(
    "constant", kernel=_no_kernel, infer=_no_infer, n_inputs=0, attr_names=("index",)
)
"""A value known when the graph is built; the attribute is its position in `Graph.constants`."""


def _pick_kernel(values: tuple[Any, ...], index: int) -> Any:
    return values[index]


def _pick_infer(specs: tuple[TensorSpec, ...], index: int) -> TensorSpec:
    if not isinstance(specs, tuple) or not 0 <= index < len(specs):
        raise GraphError(f"pick: there is no value {index} in {specs}")
    return specs[index]


PICK = define_op("pick", kernel=_pick_kernel, infer=_pick_infer, attr_names=("index",))
"""One value of a node that yields several."""


def _size_kernel(size: int) -> Any:
    return np.asarray(int(size), np.int64)


def _size_infer(size: int) -> TensorSpec:
    return spec_of((), _INT64)


SIZE = define_op("size", kernel=_size_kernel, infer=_size_infer, n_inputs=0, attr_names=("size",))
"""A size that a trace left open, as a number."""


CALL_PREFIX = "call:"
"""How the names of calls of compiled functions begin."""


def make_call_op(
    name: str,
    subgraph: Graph,
    kernel: Callable[..., Any],
    *,
    vjps: tuple[Callable[..., Any] | None, ...] = (),
    joint_vjp: Callable[..., Any] | None = None,
    accepts_none: bool = False,
    saves: tuple[Saved, ...] = (),
    traits: Trait | None = None,
    batch: Callable[..., Any] | None = None,
    masks: bool = True,
) -> Op:
    """An op, not registered, whose meaning is `subgraph`.

    It takes one input per placeholder of the sub-graph. A sub-graph of one output gives a node with
    one value, else a node with as many values as there are outputs. `kernel(*arrays)` returns the
    array, or the tuple of arrays. Where `traits` are not given they follow from the sub-graph: an
    effect (or a random op) inside makes the call an effect (or random).
    """
    specs = tuple(subgraph.specs[i] for i in subgraph.outputs)
    single = len(specs) == 1

    def infer(*given: TensorSpec) -> Any:
        expected = [subgraph.specs[i] for i in subgraph.placeholders]
        if list(given) != expected:
            raise GraphError(f"{name}: called with {list(given)}, but its graph takes {expected}")
        return specs[0] if single else specs

    if traits is None:
        traits = Trait.NO_RECOMPUTE
        for op in dict.fromkeys(subgraph.ops):
            traits |= op.traits & (Trait.EFFECT | Trait.RANDOM)
    return define_op(
        name,
        kernel=kernel,
        infer=infer,
        n_inputs=len(subgraph.placeholders),
        n_outputs=None if single else len(specs),
        vjps=vjps,
        joint_vjp=joint_vjp,
        accepts_none=accepts_none,
        masks=masks,
        saves=saves,
        traits=traits | Trait.CALL,
        kinds="biufc",
        subgraphs=(subgraph,),
        batch=batch,
        register=False,
    )
