"""Random graphs of awkward numbers: passes that promise the same bits give the same bits."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.passes.algebra import Algebra
from tapeline.compiler.passes.base import Pass
from tapeline.compiler.passes.canonicalize import Canonicalize
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.fold import Fold
from tapeline.compiler.passes.pipeline import run_pipeline
from tapeline.runtime.errors import TapelineError
from tapeline.runtime.op import Attrs, get_op
from tapeline.runtime.spec import TensorSpec

EXACT: tuple[Pass, ...] = (
    DeadCode(),
    Fold(),
    Canonicalize(differentiated=True),
    Algebra(equivalent_forms=False),
    CommonSubexpressions(),
    DeadCode(),
)
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.0, -0.5, 0.1, 8.0, np.inf, -np.inf, np.nan, 1e-310, 1e300]
INTS = [0, 1, -1, 2, 5, -7, 2**31 - 1, -(2**31)]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide"]
UNARY = ["negative", "abs", "square", "floor", "positive", "identity", "stop_gradient", "conj"]
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1), (1,), (2, 3, 1)]


class _Maker:
    """Grows a random graph."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.values = FLOATS if self.dtype.kind == "f" else INTS
        self.graph = Graph("fuzz")
        self.ids = [self.graph.add_placeholder(TensorSpec(s, dtype)) for s in SHAPES]

    def draw(self, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):
            return self.rng.choice(self.values, shape).astype(self.dtype)

    def pick(self) -> int:
        return int(self.ids[-1 - min(int(self.rng.exponential(6)), len(self.ids) - 1)])

    def step(self) -> None:
        kind = self.rng.random()
        try:
            if kind < 0.15:
                shape = SHAPES[int(self.rng.integers(3))]
                uniform = np.full(shape, self.draw(()))
                self.ids.append(self.graph.add_constant(uniform))
            elif kind < 0.5:
                self.add(str(self.rng.choice(BINARY)), self.pick(), self.pick())
            elif kind < 0.7:
                self.add(str(self.rng.choice(UNARY)), self.pick())
            elif kind < 0.78:
                test = self.graph.add(get_op("less"), (self.pick(), self.pick()))
                if self.rng.random() < 0.5:
                    test = self.graph.add(get_op("logical_not"), (test,))
                self.add("where", test, self.pick(), self.pick())
            else:
                self.view()
        except TapelineError:
            pass  # shapes that do not fit, or an op that does not take the dtype

    def add(self, name: str, *inputs: int, attrs: Attrs = ()) -> None:
        self.ids.append(self.graph.add(get_op(name), inputs, attrs))

    def view(self) -> None:
        x = self.pick()
        shape = self.graph.spec(x).static_shape
        axes = tuple(range(len(shape)))
        some = tuple(a for a in axes if self.rng.random() < 0.5)
        keep = bool(self.rng.random() < 0.5)
        choices: list[tuple[str, Attrs]] = [
            ("permute_dims", (tuple(int(a) for a in self.rng.permutation(axes)),)),
            ("flip", (some,)),
            ("reshape", (shape[::-1],)),
            ("reshape", ((int(np.prod(shape)),),)),
            ("expand_dims", ((int(self.rng.integers(len(shape) + 1)),),)),
            ("squeeze", (tuple(a for a in axes if shape[a] == 1),)),
            ("broadcast_to", ((2, *shape),)),
            ("broadcast_to", (tuple(3 if n == 1 else n for n in shape),)),
            ("max", (some, keep)),
            ("sum", (some, keep)),
            ("cast", (self.dtype,)),
        ]
        name, attrs = choices[int(self.rng.integers(len(choices)))]
        self.add(name, x, attrs=attrs)
        if self.graph.spec(self.ids[-1]).dtype != self.dtype:
            self.add("cast", self.ids[-1], attrs=(self.dtype,))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("seed", range(40))
def test_exact_passes_keep_every_bit(seed: int, dtype: str) -> None:
    maker = _Maker(seed, dtype)
    for _ in range(60):
        maker.step()
    graph = maker.graph
    graph.outputs = maker.ids[-8:]
    after = run_pipeline(graph, EXACT, verify=True)
    arrays = [maker.draw(graph.spec(i).static_shape) for i in graph.placeholders]
    for want, got in zip(run_graph(graph, arrays), run_graph(after, arrays), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind == "f":
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
