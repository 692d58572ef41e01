"""A handful of ops with all kinds of traits, and the text-in text-out check of a pass."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from tapeline.compiler.ir.graph import Graph, graphs_equal
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.structure_ops import make_call_op
from tapeline.compiler.ir.text import constant_table
from tapeline.compiler.ir.verify import verify_graph
from tapeline.compiler.passes.base import Pass
from tapeline.runtime.op import IndexMap, Op, Trait, define_op
from tapeline.runtime.spec import TensorSpec, broadcast_shapes, spec_of

Transform: TypeAlias = Callable[[Pass, str], str]
Read: TypeAlias = Callable[[str], Graph]


def _same(x: TensorSpec, *rest: object) -> TensorSpec:
    shapes = [s.static_shape for s in (x, *rest) if isinstance(s, TensorSpec)]
    return spec_of(broadcast_shapes("op", *shapes), x.dtype)


def _to_shape(x: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    return spec_of(shape, x.dtype)


def _pair(x: TensorSpec, y: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return _same(x, y), _same(x, y)


def _filled(shape: tuple[int, ...]) -> TensorSpec:
    return spec_of(shape, np.dtype("float64"))


_OPS = [
    define_op(
        "add", kernel=np.add, infer=_same, n_inputs=2, traits=Trait.ELEMENTWISE | Trait.COMMUTATIVE,
        register=False,
    ),
    define_op(
        "sub", kernel=np.subtract, infer=_same, n_inputs=2, traits=Trait.ELEMENTWISE,
        register=False,
    ),
    define_op(
        "exp", kernel=np.exp, infer=_same, traits=Trait.ELEMENTWISE, register=False,
    ),
    define_op(
        "scale", kernel=lambda x, k: x * k, infer=_same, attr_names=("k",),
        traits=Trait.ELEMENTWISE, register=False,
    ),
    define_op(
        "spread", kernel=np.broadcast_to, infer=_to_shape, attr_names=("shape",), emit=IndexMap(),
        traits=Trait.VIEW, register=False,
    ),
    define_op(
        "filled", kernel=np.ones, infer=_filled, n_inputs=0, attr_names=("shape",), register=False,
    ),
    define_op(
        "divmod", kernel=np.divmod, infer=_pair, n_inputs=2, n_outputs=2, register=False,
    ),
    define_op("say", kernel=lambda x: x, infer=_same, traits=Trait.EFFECT, register=False),
    define_op("dice", kernel=lambda x: x, infer=_same, traits=Trait.RANDOM, register=False),
    define_op("fails", kernel=lambda x: 1 // 0, infer=_same, register=False),
]  # fmt: skip
_TABLE: dict[str, Op] = {op.name: op for op in _OPS}


def _make_call(graphs: tuple[Graph, ...]) -> Op:
    body = graphs[0]

    def kernel(*arrays: object) -> object:
        values = run_graph(body, arrays)  # type: ignore[arg-type]  # arrays
        return values[0] if len(values) == 1 else tuple(values)

    return make_call_op("call", body, kernel)


@pytest.fixture
def read() -> Read:
    """Reads graph text with the ops of this file; `call` calls a sub-graph."""
    return lambda text: parse_graph(text, {**_TABLE, "call": _make_call})


@pytest.fixture
def transform(read: Read) -> Transform:
    """The text after a pass, which must keep the contract and the values."""

    def run(a_pass: Pass, text: str) -> str:
        graph = read(text)
        verify_graph(graph)
        before = str(graph)
        result = a_pass.run(graph)
        assert str(graph) == before, "a pass must not edit its input"
        verify_graph(result.graph)
        assert result.changed == (not graphs_equal(graph, result.graph))
        assert constant_table(result.graph).keys() <= constant_table(graph).keys() or result.changed
        rng = np.random.default_rng(0)
        arrays = [
            rng.uniform(0.5, 2.0, graph.spec(i).static_shape).astype(graph.spec(i).dtype)
            for i in graph.placeholders
        ]
        for x, y in zip(run_graph(graph, arrays), run_graph(result.graph, arrays), strict=True):
            np.testing.assert_array_equal(x, y)
        return str(result.graph)

    return run
