"""Forward and backward graphs out of a joint graph."""

from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.autodiff.partition import Partition, partition
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.ir.verify import verify_graph
from tapeline.runtime.errors import GraphError
from tapeline.runtime.op import Op, Pointwise, Reduction, Trait, define_op
from tapeline.runtime.spec import TensorSpec, broadcast_shapes, spec_of


def _same(x: TensorSpec, *rest: TensorSpec) -> TensorSpec:
    shapes = [s.static_shape for s in (x, *rest)]
    return spec_of(broadcast_shapes("op", *shapes), x.dtype)


def _scalar(x: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
    return spec_of((), x.dtype)


def _pair(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return x, x


LIGHT = Pointwise(lambda b, *values: values[0])
_OPS = [
    define_op("mul", kernel=np.multiply, infer=_same, n_inputs=2, emit=LIGHT, register=False),
    define_op("add", kernel=np.add, infer=_same, n_inputs=2, emit=LIGHT, register=False),
    define_op("tanh", kernel=np.tanh, infer=_same, emit=LIGHT, register=False),
    define_op(
        "dear", kernel=np.sin, infer=_same, emit=LIGHT, traits=Trait.NO_RECOMPUTE, register=False
    ),
    define_op("host", kernel=np.cos, infer=_same, register=False),
    define_op("say", kernel=np.copy, infer=_same, traits=Trait.EFFECT, register=False),
    define_op(
        "total", kernel=lambda x, axes, keepdims: np.sum(x), infer=_scalar, register=False,
        attr_names=("axes", "keepdims"), emit=Reduction("sum"),
    ),
    define_op(
        "both", kernel=lambda x: (np.sin(x), np.cos(x)), infer=_pair, n_outputs=2, emit=LIGHT,
        traits=Trait.NO_RECOMPUTE, register=False,
    ),
]  # fmt: skip
OPS: dict[str, Op] = {op.name: op for op in _OPS}


def _split(text: str, n_outputs: int, depth_limit: int = 64) -> Partition:
    joint = parse_graph(text, OPS)
    cotangents = [i for i in joint.placeholders if str(joint.attrs[i][0]).startswith("ct")]
    return _checked(joint, n_outputs, cotangents, depth_limit)


def _checked(joint: Graph, n_outputs: int, cotangents: list[int], depth_limit: int) -> Partition:
    """The partition, whose two graphs must compute what the joint graph does."""
    verify_graph(joint)
    before = str(joint)
    found = partition(joint, n_outputs, cotangents, depth_limit)
    assert str(joint) == before
    verify_graph(found.forward)
    verify_graph(found.backward)
    rng = np.random.default_rng(0)
    values = {i: rng.normal(size=joint.spec(i).static_shape) for i in joint.placeholders}
    expected = run_graph(joint, [values[i] for i in joint.placeholders])
    early = [values[i] for i in joint.placeholders if i not in cotangents]
    outputs = run_graph(found.forward, early)
    residuals = outputs[n_outputs:]
    gradients = run_graph(found.backward, [*residuals, *[values[i] for i in cotangents]])
    for got, want in zip([*outputs[:n_outputs], *gradients], expected, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(residuals) == len(found.residuals)
    for node, at, out in zip(
        found.forward.outputs[n_outputs:],
        found.input_of_residual,
        found.output_of_residual,
        strict=True,
    ):
        assert at is None or node == found.forward.placeholders[at]
        assert out is None or node == found.forward.outputs[out]
    return found


def test_an_output_is_kept_rather_than_computed_again() -> None:
    found = _split(
        """
graph f:
  %0 = placeholder(name='x') : float64[8]
  %1 = tanh(%0) : float64[8]
  %2 = placeholder(name='ct') : float64[8]
  %3 = constant(1.0) : float64[]
  %4 = mul(%1, %1) : float64[8]
  %5 = add(%3, %4) : float64[8]
  %6 = mul(%2, %5) : float64[8]
  return %1, %6""",
        1,
    )
    assert str(found.forward) == (
        "graph f:\n"
        "  %0 = placeholder(name='x') : float64[8]\n"
        "  %1 = tanh(%0)              : float64[8]\n"
        "  return %1, %1"
    )
    assert str(found.backward) == (
        "graph f_backward:\n"
        "  %0 = placeholder(name='tanh_1') : float64[8]\n"
        "  %1 = placeholder(name='ct')     : float64[8]\n"
        "  %2 = constant(1.0)              : float64[]\n"
        "  %3 = mul(%0, %0)                : float64[8]\n"
        "  %4 = add(%2, %3)                : float64[8]\n"
        "  %5 = mul(%1, %4)                : float64[8]\n"
        "  return %5"
    )
    assert (found.input_of_residual, found.output_of_residual) == ((None,), (0,))


CHEAP = """
graph f:
  %0 = placeholder(name='x') : float64[8]
  %1 = {op}(%0) : float64[8]
  %2 = tanh(%1) : float64[8]
  %3 = mul(%1, %2) : float64[8]
  %4 = total(%3, axes=(0,), keepdims=False) : float64[]
  %5 = placeholder(name='ct') : float64[]
  %6 = mul(%5, %3) : float64[8]
  %7 = mul(%6, %2) : float64[8]
  return %4, %7"""


def test_cheap_ops_are_computed_again_from_inputs() -> None:
    found = _split(CHEAP.format(op="tanh"), 1)
    assert found.residuals == (0,)
    assert found.input_of_residual == (0,)
    assert [op.name for op in found.backward.ops].count("tanh") == 2


@pytest.mark.parametrize("op", ["dear", "host", "say"])
def test_dear_ops_host_calls_and_effects_are_not_computed_again(op: str) -> None:
    found = _split(CHEAP.format(op=op), 1)
    assert found.residuals == (1,)
    assert op not in [o.name for o in found.backward.ops]
    assert [o.name for o in found.forward.ops].count(op) == 1


def test_the_depth_limit_bounds_what_is_computed_again() -> None:
    lines = ["graph f:", "  %0 = placeholder(name='x') : float64[8]"]
    lines += [f"  %{k + 1} = tanh(%{k}) : float64[8]" for k in range(20)]
    lines += ["  %21 = total(%20, axes=(0,), keepdims=False) : float64[]"]
    lines += ["  %22 = placeholder(name='ct') : float64[]", "  %23 = mul(%20, %22) : float64[8]"]
    lines += [f"  %{k + 24} = mul(%{k + 23}, %{20 - k}) : float64[8]" for k in range(20)]
    text = "\n".join([*lines, "  return %21, %43"])
    assert _split(text, 1).residuals == (0,)
    assert _split(text, 1, depth_limit=6).residuals == (0, 7, 14)


def test_a_big_reduction_is_kept_and_a_small_one_computed_again() -> None:
    text = """
graph f:
  %0 = placeholder(name='x') : float64[{n}]
  %1 = total(%0, axes=(0,), keepdims=False) : float64[]
  %2 = tanh(%1) : float64[]
  %3 = placeholder(name='ct') : float64[]
  %4 = mul(%3, %1) : float64[]
  return %2, %4"""
    assert _split(text.format(n=8), 1).residuals == (1,)
    assert _split(text.format(n=3), 1).residuals == (0,)


def test_parts_of_a_value_are_kept_not_the_whole() -> None:
    found = _split(
        """
graph f:
  %0 = placeholder(name='x') : float64[8]
  %1 = both(%0) : (float64[8], float64[8])
  %2 = pick(%1, index=0) : float64[8]
  %3 = pick(%1, index=1) : float64[8]
  %4 = total(%2, axes=(0,), keepdims=False) : float64[]
  %5 = placeholder(name='ct') : float64[]
  %6 = mul(%5, %3) : float64[8]
  return %4, %6""",
        1,
    )
    assert found.residuals == (3,)


def test_gradients_that_depend_on_no_cotangent_or_on_nothing_else() -> None:
    found = _split(
        """
graph f:
  %0 = placeholder(name='x') : float64[8]
  %1 = dear(%0) : float64[8]
  %2 = placeholder(name='ct0') : float64[8]
  %3 = placeholder(name='ct1') : float64[8]
  %4 = constant([0.0, 0.0]) : float64[2]
  return %1, %2, %1, %4, %0""",
        1,
    )
    assert found.residuals == (0, 1)
    names = [found.backward.attrs[i][0] for i in found.backward.placeholders]
    assert names == ["x", "dear_1", "ct0", "ct1"]


def test_effects_stay_where_they_belong() -> None:
    found = _split(
        """
graph f:
  %0 = placeholder(name='x') : float64[8]
  %1 = say(%0) : float64[8]
  %2 = placeholder(name='ct') : float64[8]
  %3 = mul(%2, %0) : float64[8]
  %4 = say(%3) : float64[8]
  %5 = tanh(%0) : float64[8]
  %6 = mul(%5, %2) : float64[8]
  %7 = say(%6) : float64[8]
  return %0, %3""",
        1,
    )
    assert [op.name for op in found.forward.ops] == ["placeholder", "say"]
    assert [op.name for op in found.backward.ops].count("say") == 2


def test_bad_joint_graphs_are_refused() -> None:
    joint = Graph("f")
    x = joint.add_placeholder(TensorSpec((2,)), "x")
    y = joint.add(OPS["tanh"], (x,))
    joint.outputs = [y, y]
    with pytest.raises(GraphError, match="primal output %1 depends on a cotangent"):
        partition(joint, 1, [x])
    with pytest.raises(GraphError, match="cotangent %1 is no placeholder"):
        partition(joint, 1, [y])


@pytest.mark.parametrize("seed", range(30))
def test_random_joint_graphs_compute_the_same_in_two_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = Graph("random")
    shapes: list[tuple[int, ...]] = [(), (3,), (4, 3)]
    ids = [joint.add_placeholder(TensorSpec(s), f"x{k}") for k, s in enumerate(shapes)]

    def grow(count: int) -> None:
        for _ in range(count):
            name = str(rng.choice(["mul", "add", "tanh", "dear", "host", "total", "both", "say"]))
            a, b = (int(i) for i in rng.choice(ids[-8:], 2))
            if name == "total":
                axes = tuple(range(joint.spec(a).ndim))
                ids.append(joint.add(OPS[name], (a,), (axes, False)))
            elif name == "both":
                ids.extend(joint.picks(joint.add(OPS[name], (a,))))
            else:
                ids.append(joint.add(OPS[name], (a, b) if name in ("mul", "add") else (a,)))

    grow(int(rng.integers(5, 40)))
    outputs = [int(i) for i in rng.choice(ids, 2)]
    cotangents = [joint.add_placeholder(joint.spec(i), f"ct{i}") for i in outputs]
    early = list(ids)
    ids.extend(cotangents)
    for i in rng.permutation(early)[:12]:
        ids.append(joint.add(OPS["mul"], (int(i), int(rng.choice(ids[-6:])))))
    joint.outputs = [*outputs, *(int(i) for i in rng.choice(ids, 4))]
    _checked(joint, 2, cotangents, int(rng.integers(1, 10)))


def deep(x: Any, w: Any) -> Any:
    for _ in range(8):
        x = tl.tanh(x @ w)
    return tl.sum(x)


@pytest.mark.parametrize("results", [0, 1, 3, 20])
def test_a_budget_bounds_what_is_kept(results: int, rng: np.random.Generator) -> None:
    x, w = tl.asarray(rng.normal(size=(6, 6))), tl.asarray(rng.normal(size=(6, 6)) / 4)
    f = tl.function(deep, max_bytes=results * x.nbytes)
    found = tl.grad(f, (0, 1))(x, w)
    for a, b in zip(found, tl.grad(deep, (0, 1))(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
    pair = f.concrete_functions[0].differentiable.pair((0, 1))
    kept = [pair.forward.spec(pair.forward.outputs[k]).nbytes for k in pair.saved_outputs]
    assert sum(kept) == min(results, 8) * x.nbytes
    tl.testing.check_gradients(f, [x, w])


def test_random_draws_are_kept_whatever_the_budget() -> None:
    f = tl.function(
        lambda x: tl.sum(tl.exp(x * tl.random.normal(tl.random.key(3), (4,)))), max_bytes=0
    )
    x = tl.asarray([0.1, 0.2, 0.3, 0.4])
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    slope = tape.gradient(y, x).numpy()
    assert np.all(np.isfinite(slope))


def test_bad_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes must be at least 0"):
        tl.function(deep, max_bytes=-1)
    with pytest.raises(TypeError, match="max_bytes must be an int"):
        tl.function(deep, max_bytes=1.5)  # type: ignore[call-overload]
