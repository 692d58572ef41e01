"""Functions in which sizes depend on values: compiled they give what they give eagerly, with one
trace for all sizes that their code does not tell apart."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.parse import parse_graph
from tapeline.compiler.staged import staged
from tapeline.compiler.staged.stages import check_tellers
from tapeline.runtime.errors import (
    ExportError,
    GraphError,
    IndexOutOfRangeError,
    ShapeError,
    SymbolicTensorError,
)
from tapeline.runtime.op import get_op
from tapeline.runtime.sizes import Sizes

X = [
    np.array([0.9, 0.1, 0.6, 0.4, 0.7, 0.2]),
    np.array([0.3, 0.8, 0.1, 0.55, 0.2, 0.05]),
    np.array([0.9, 0.8, 0.7, 0.6, 0.51, 0.1]),
]
SPECIAL = [np.zeros(6), np.array([0, 0, 1.0, 0, 0, 0]), np.ones(6)]
TABLES = [np.random.default_rng(k).integers(0, 3, (4, 3)) * 1.0 for k in range(4)]
COUNTS = [np.random.default_rng(k).integers(0, 4, 7) for k in range(4)] + [np.zeros(7, int)]


def assert_same(got: Any, want: Any) -> None:
    got, want = tl.nest.flatten(got), tl.nest.flatten(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-13)


def compare(function: Callable[..., Any], *arguments: np.ndarray[Any, Any]) -> Any:
    """The compiled function, after calls with tensors of each of the arguments."""
    compiled = tl.function(function)
    for x in arguments:
        want = function(tl.asarray(x))
        for _ in range(2):
            got = compiled(tl.asarray(x))
            assert_same(got, want)
            for a, b in zip(tl.nest.flatten(got), tl.nest.flatten(want), strict=True):
                assert type(a) is type(b)
    return compiled


def stages_of(compiled: Any) -> Any:
    return compiled.concrete_functions[0].staged.stages


# --- one trace for all sizes -----------------------------------------------------------------


def test_a_mask_picks_elements_with_one_trace_for_all_counts() -> None:
    def picked(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        return y * 2 + 1, tl.sum(y), tl.exp(y) @ y, y.shape[0], y.size + 1

    compiled = compare(picked, *X)
    assert compiled.trace_count == 1
    assert compiled.concrete_functions[0].outputs[0] == tl.TensorSpec([None], tl.float64)


def test_what_follows_a_mask_may_be_any_op() -> None:
    def chain(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        return (
            tl.sort(y), tl.concat([y, x]), y[:1], y[-1], y[::-1], tl.cumulative_sum(y), tl.max(y),
            tl.mean(y), tl.argmax(y), tl.reshape(y, (-1, 1)) * y, tl.arange(y.shape[0]) * y,
            tl.stack([y, y]), tl.broadcast_to(y, (2, y.shape[0])), tl.zeros(y.shape[0]),
            tl.flip(y), tl.where(y > 0.7, y, 0.0), tl.var(y), tl.any(y > 0.8),
        )  # fmt: skip

    assert compare(chain, *X).trace_count == 1


def test_masks_of_tables() -> None:
    def masks(x: tl.Tensor) -> Any:
        rows = x[:, 0] > 0
        return (
            x[x > 1], x[rows], x[rows, 1], x[1:, x[0] > 0], tl.sum(x[(x > 0) & (x < 2)]),
            x[:, x[0] > 0][rows], x[None, rows], tl.matrix_transpose(x)[:, rows] @ x[rows],
        )  # fmt: skip

    assert compare(masks, *TABLES).trace_count <= 2


def test_functions_of_sizes_and_matrices_of_open_size() -> None:
    def matrices(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        z = tl.reshape(y, (-1, 1)) * y
        count = len(y)
        return (
            tl.tril(z), tl.triu(z, k=1), tl.eye(count) * z, tl.eye(count, 2), np.sqrt(count) * y,
            tl.linspace(0.0, 1.0, count), tl.linspace(0.0, 1.0, count, endpoint=False),
            int(count) * y, y / float(count), np.median(y), np.quantile(y, [0.25, 0.9]), np.cov(z),
            np.bincount(tl.astype(y * 3, tl.int64)),
        )  # fmt: skip

    def rows(x: tl.Tensor) -> tl.Tensor:
        z = x[x > 0.5][:, None] * tl.asarray([1.0, 2.0])
        z[tl.asarray([0, 1])] = 7.0
        z[:, 0] += 1
        return z

    assert compare(matrices, *X).trace_count == 1
    assert compare(rows, *X).trace_count == 1


def test_writing_at_masks() -> None:
    def write(x: tl.Tensor) -> tl.Tensor:
        x = x + 0.0
        x[x > 1] = x[x > 1] * 10
        x[x[:, 0] > 0] = 7.0
        x[x[:, 1] > 0, 1] += 1
        x[x < 1] -= 1
        return x

    compare(write, *TABLES)


def test_places_and_distinct_elements() -> None:
    def found(x: tl.Tensor) -> Any:
        return tl.nonzero(x), tl.unique_all(x), tl.unique_values(x), tl.take(x, tl.nonzero(x)[0])

    assert compare(found, *COUNTS).trace_count <= 2


def test_repeats_by_a_tensor() -> None:
    def repeated(x: tl.Tensor) -> Any:
        return tl.repeat(x, x), tl.repeat(tl.reshape(x, (1, -1)) * 0.5, x, axis=1)

    assert compare(repeated, *COUNTS).trace_count <= 2


def test_negative_repeats_are_an_error() -> None:
    repeated = tl.function(lambda x: tl.repeat(x, x))
    assert repeated(tl.asarray([2, 1])).shape == (3,)
    with pytest.raises(ValueError, match=r"repeat: repeats must be ints >= 0, got -1"):
        repeated(tl.asarray([2, -1]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (np.where(x > 1), np.argwhere(x > 1), np.flatnonzero(x), np.extract(x > 1, x)),
        lambda x: (np.compress(x > 1, x), np.repeat(x, x), np.ix_(x > 1, x < 1)),
        lambda x: (np.unique(x), np.unique(x, return_index=True, return_inverse=True)),
        lambda x: np.unique(np.reshape(x[:6], (3, 2)), axis=0, return_counts=True),
        lambda x: (np.bincount(x), np.bincount(x, minlength=3), np.bincount(x, weights=x * 0.5)),
        lambda x: (np.trim_zeros(x), np.trim_zeros(x, "f"), np.trim_zeros(x, "b")),
        lambda x: (np.union1d(x, [1, 7]), np.setdiff1d(x, [1]), np.intersect1d(x, [1, 2, 5])),
    ],
)
def test_numpy_functions_are_traced(function: Callable[..., Any]) -> None:
    compiled = tl.function(function)
    for x in COUNTS:
        want = function(x)
        assert_same(compiled(tl.asarray(x)), want)
        assert_same(function(tl.asarray(x)), want)


def test_several_masks_one_after_the_other() -> None:
    def narrowed(x: tl.Tensor) -> Any:
        y = x[x > 0.15]
        z = y[y < 0.85]
        return z * 2, tl.sum(y), tl.sum(x), z.shape[0] + y.shape[0]

    compare(narrowed, *X, *SPECIAL)


# --- questions about sizes -------------------------------------------------------------------


def test_a_size_decides_in_python_with_a_trace_per_answer() -> None:
    def either(x: tl.Tensor) -> tl.Tensor:
        y = x[x > 0.5]
        return y * 2 if y.shape[0] > 3 else y * 3

    compiled = compare(either, *X)
    assert compiled.trace_count == 2
    assert "n0 > 3 was true, is false" in str(compiled.explain()) or (
        "n0 <= 3 was true, is false" in str(compiled.explain())
    )
    with tl.no_retrace():
        compare_again = [compiled(tl.asarray(x)) for x in X]
    assert_same(compare_again, [either(tl.asarray(x)) for x in X])


def test_one_and_none_broadcast_and_fail_as_eagerly() -> None:
    compare(lambda x: x[x > 0.5] * tl.asarray([1.0]), *X, *SPECIAL)
    largest = tl.function(lambda x: tl.max(x[x > 0.5]))
    assert largest(tl.asarray(X[0])).item() == 0.9
    with pytest.raises(ShapeError, match="max: no elements"):
        largest(tl.asarray(SPECIAL[0]))
    last = tl.function(lambda x: x[x > 0.5][-1])
    assert last(tl.asarray(X[0])).item() == 0.7
    with pytest.raises(IndexOutOfRangeError):
        last(tl.asarray(SPECIAL[0]))


def test_two_counts_may_have_to_agree() -> None:
    both = tl.function(lambda x, y: x[x > 0.5] + y[y > 0.5])
    a, b, c = (tl.asarray(x) for x in X)
    assert_same(both(a, a), a[a > 0.5] * 2)
    with pytest.raises(ShapeError, match="do not broadcast"):
        both(a, b)
    assert_same(both(c, c), c[c > 0.5] * 2)


def test_too_many_questions_end_in_a_warning_and_right_results() -> None:
    def square(x: tl.Tensor) -> Any:
        count = int(x[x > 0].shape[0])
        return len("x" * count) + tl.sum(x)

    compiled = tl.function(square)
    warnings.filterwarnings("ignore", "square was traced in")
    given = [tl.asarray(np.arange(12) < count, "float64") for count in range(12)]
    with pytest.warns(UserWarning, match="square runs op by op from now on"):
        found = [compiled(x) for x in given]
    assert_same(found, [square(x) for x in given])
    traces = compiled.trace_count
    assert_same(compiled(tl.ones(12)), square(tl.ones(12)))
    assert compiled.trace_count == traces


def test_effects_before_a_mask_happen_once_where_another_trace_takes_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @tl.function
    def noisy(x: tl.Tensor) -> tl.Tensor:
        tl.print("begin")
        y = x[x > 0.5]
        return y * 2 if y.shape[0] > 3 else y * 3

    for x in X:
        noisy(tl.asarray(x))
    assert capsys.readouterr().out.count("begin") == 3


def test_variables_change_once_where_another_trace_takes_over() -> None:
    total = tl.Variable(0.0)

    @tl.function
    def add(x: tl.Tensor) -> tl.Tensor:
        total.assign_add(1.0)
        y = x[x > 0.5]
        total.assign_add(tl.sum(y) if y.shape[0] > 3 else 100.0)
        return total.read_value()

    for x in (X[0], X[2], X[0]):
        add(tl.asarray(x))
    np.testing.assert_allclose(total.numpy(), 3 + 100 + 3.51 + 100)


# --- loops -----------------------------------------------------------------------------------


def test_loops_over_what_a_mask_picked_are_one_trace() -> None:
    def loops(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        total = tl.asarray(0.0)
        for v in y:
            total = total + v * v
        for i in range(y.shape[0]):
            total = total + i * y[i]
        for i, v in enumerate(y):
            total = total + i * v
        return total, len(y)

    assert compare(loops, *X).trace_count == 1


def test_loops_over_new_sizes_share_their_code_and_have_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged, "_WORTH_PLANNING", math.inf)  # however long a script takes

    def looping(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        total = tl.asarray(0.0)
        for v in y:
            if v > 0.7:
                total = total + v * v
        last, rows = tl.scan(lambda c, v: (c + v, c * v), tl.asarray(0.0), y)
        return total + last + tl.sum(rows) + tl.sum(tl.map_fn(lambda v: tl.exp(v), y))

    compiled = tl.function(looping)
    rng = np.random.default_rng(0)
    for size in (5, 9, 20, 40, 3):
        x = tl.asarray(np.concatenate([rng.random(size), np.full(40 - size, 0.25), [0.75]]))
        assert_same(compiled(x), looping(x))
        assert_same(tl.grad(compiled)(x), tl.grad(looping)(x))
    assert compiled.trace_count == 1
    (stage,) = stages_of(compiled)[1:]
    assert not stage.cases


# --- arguments of other sizes, other functions -----------------------------------------------


def test_open_sizes_of_arguments_and_sizes_of_values_go_together() -> None:
    def ranked(x: tl.Tensor) -> Any:
        y = x[x > 0.5]
        return tl.sum(x) + y * x.shape[0], y.shape[0] + x.shape[0], x.shape[0]

    compiled = tl.function(ranked)
    rng = np.random.default_rng(0)
    for size in (8, 9, 12, 30, 9, 8, 31):
        x = tl.asarray(rng.random(size))
        assert_same(compiled(x), ranked(x))
    assert compiled.trace_count == 2
    assert compiled.concrete_functions[0].inputs[0].shape == (None,)


def test_a_signature_without_sizes() -> None:
    @tl.function(input_signature=[tl.TensorSpec([None], tl.float64)])
    def positive(x: tl.Tensor) -> tl.Tensor:
        return tl.concat([x[x > 0], x])

    for size in (3, 5, 1):
        x = np.arange(size) - 1.0
        assert_same(positive(tl.asarray(x)), np.concatenate([x[x > 0], x]))


def test_compiled_functions_call_each_other() -> None:
    pick = tl.function(lambda x: x[x > 0.5])
    outer = tl.function(lambda x: (pick(x) * 2, tl.sum(pick(1 - x))))
    for x in X:
        assert_same(outer(tl.asarray(x)), (x[x > 0.5] * 2, (1 - x)[1 - x > 0.5].sum()))
    assert outer.trace_count == 1


def test_a_concrete_function_is_called_in_a_trace_and_outside() -> None:
    concrete = tl.function(lambda x: x[x > 0.5] * 2).get_concrete_function(
        tl.TensorSpec([6], tl.float64)
    )
    outer = tl.function(lambda x: concrete(x) + 1)
    for x in X:
        assert_same(concrete(x), x[x > 0.5] * 2)
        assert_same(outer(tl.asarray(x)), x[x > 0.5] * 2 + 1)


def test_results_share_no_memory_with_arguments() -> None:
    compiled = tl.function(lambda x: (x[x > 5], x[None], x))
    for _ in range(3):
        x = np.zeros(4)
        _, view, same = compiled(x)
        x[:] = 1.0
        np.testing.assert_array_equal(view.numpy(), np.zeros((1, 4)))
        np.testing.assert_array_equal(same.numpy(), np.zeros(4))
    given = tl.zeros(4)
    with tl.GradientTape() as tape:
        tape.watch(given)
        _, _, same = compiled(given)
        total = tl.sum(same * 3)
    assert same is not given
    np.testing.assert_array_equal(tape.gradient(total, given).numpy(), np.full(4, 3.0))


def test_a_size_that_comes_again_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_WORTH_PLANNING", 0.0)
    compiled = tl.function(lambda x: tl.sum(tl.exp(x[x > 0.5])))
    x = tl.asarray(np.random.default_rng(0).random(300))
    for _ in range(4):
        got = compiled(x)
    (stage,) = stages_of(compiled)[1:]
    assert len(stage.cases) == 1
    np.testing.assert_allclose(got.numpy(), np.exp(x.numpy()[x.numpy() > 0.5]).sum())


# --- gradients -------------------------------------------------------------------------------


def loss(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
    y = x[x > 0]
    return tl.sum(y * y * w) + tl.max(y) + tl.sum(tl.take(x * w, tl.nonzero(x > 1)[0]))


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: tl.Tensor, w: tl.Tensor) -> Any:
        with tl.GradientTape() as tape:
            tape.watch(x)
            tape.watch(w)
            value = function(x, w)
        return tape.gradient(value, [x, w])

    return compute


@pytest.mark.parametrize("way", ["around", "inside", "both"])
def test_gradients_are_the_eager_ones(way: str) -> None:
    function = loss if way == "inside" else tl.function(loss)
    compute = gradients(function)
    compiled = compute if way == "around" else tl.function(compute)
    rng = np.random.default_rng(0)
    for k in range(5):
        x, w = tl.asarray(rng.normal(size=8)), tl.asarray(2.0 + k)
        assert_same(compiled(x, w), gradients(loss)(x, w))


def test_second_and_forward_derivatives() -> None:
    compiled = tl.function(loss)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x, w = tl.asarray(rng.normal(size=6) + 0.5), tl.asarray(2.0)
        second = tl.hessian(lambda x, w=w: loss(x, w))(x)
        assert_same(tl.hessian(lambda x, w=w: compiled(x, w))(x), second)
        assert_same(tl.function(tl.hessian(lambda x, w=w: compiled(x, w)))(x), second)
        want = tl.jvp(lambda x, w=w: loss(x, w), (x,), (x,))
        assert_same(tl.jvp(lambda x, w=w: compiled(x, w), (x,), (x,)), want)


def test_the_gradient_of_what_a_compiled_size_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_WORTH_PLANNING", 0.0)
    compiled = tl.function(lambda x: tl.sum(tl.exp(x[x > 0.5])))
    x = tl.asarray(np.random.default_rng(0).random(100))
    want = np.where(x.numpy() > 0.5, np.exp(x.numpy()), 0.0)
    for _ in range(4):
        np.testing.assert_allclose(tl.grad(compiled)(x).numpy(), want, rtol=1e-14)
    assert stages_of(compiled)[1].cases


# --- graphs and files ------------------------------------------------------------------------


def asking(x: tl.Tensor) -> Any:
    y = x[x > 0.5]
    doubled = y * 2 if y.shape[0] > 2 else y * 3
    return doubled, tl.unique_values(tl.round(y * 4)), {"count": y.shape[0] + 1}


SIGNATURES = [None, [tl.TensorSpec([None], tl.float64)]]


@pytest.mark.parametrize("signature", SIGNATURES, ids=["closed", "open"])
def test_graphs_are_read_back(signature: Any) -> None:
    compiled = tl.function(asking, input_signature=signature)
    compiled(tl.asarray(X[0]))
    graph = compiled.concrete_functions[0].graph
    assert str(Graph.from_json(graph.to_json())) == str(graph)
    without_lines = [line.split("#")[0].rstrip() for line in str(graph).splitlines()]
    assert [line.rstrip() for line in str(parse_graph(str(graph))).splitlines()] == without_lines


@pytest.mark.parametrize("signature", SIGNATURES, ids=["closed", "open"])
def test_functions_are_pickled_and_saved(signature: Any, tmp_path: Path) -> None:
    compiled = tl.function(asking, input_signature=signature)
    want = [compiled(tl.asarray(x)) for x in X]
    tl.export.save(compiled, tmp_path / "f.tl")
    for loaded in (
        pickle.loads(pickle.dumps(compiled)), tl.load(tmp_path / "f.tl"), copy.deepcopy(compiled)
    ):  # fmt: skip
        found = [loaded(tl.asarray(x)) for x in X]
        assert_same(found, want)
        assert all(type(counts["count"]) is int for _, _, counts in found)
        assert_same(tl.function(lambda x, f=loaded: f(x))(tl.asarray(X[0])), want[0])


def test_a_file_without_a_trace_for_the_sizes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):  # they take Python code along
        monkeypatch.delitem(sys.modules, name, raising=False)
    compiled = tl.function(lambda x: asking(x))
    compiled(tl.asarray(X[0]))
    loaded = pickle.loads(pickle.dumps(compiled))
    with pytest.raises(ValueError, match="was not saved for such arguments"):
        loaded(tl.asarray(X[1]))


def test_a_document_whose_ops_tell_other_sizes_is_refused() -> None:
    sizes = Sizes([4])
    graph = Graph("f")
    x = graph.add_placeholder(tl.TensorSpec([6], tl.bool))
    graph.outputs = [graph.add(get_op("nonzero"), [x], (sizes.symbols[0],))]
    check_tellers(graph, 0)
    with pytest.raises(GraphError, match="must tell the sizes"):
        check_tellers(graph, 1)


def test_stages_can_be_looked_at() -> None:
    compiled = tl.function(lambda x: tl.sum(tl.exp(x[x > 0.5])))
    compiled(tl.asarray(X[0]))
    (concrete,) = compiled.concrete_functions
    first, last = concrete.stages
    plan = concrete.memory_plan()
    assert plan.n_steps == first.memory_plan().n_steps + last.memory_plan().n_steps
    assert plan.nbytes == last.memory_plan().nbytes > 0
    assert all(one.name.startswith("stage 1: %") for one in plan.intervals)
    assert min(one.first for one in plan.intervals) >= first.memory_plan().n_steps
    assert "greater" in str(first.kernels())
    assert "exp" in last.llvm_ir()
    assert last.inputs[0].shape == (1, 3)
    assert first.stages == (first,)


def test_views_show_all_stages() -> None:
    """Kernels and code of one stage after the other, and a page with a column for each."""
    function = tl.function(lambda x: tl.sum(tl.tanh(x[x > 0.5]) * 2), name="chosen")
    function(tl.asarray([0.1, 0.7, 0.9]))
    (concrete,) = function.concrete_functions
    kernels = concrete.kernels()
    assert [k.ops for k in kernels] == [k.ops for part in concrete.stages for k in part.kernels()]
    assert any("tanh" in kernel.ops for kernel in kernels)
    assert len(list(concrete.cost())) == len(kernels)
    for text in (concrete.llvm_ir(), concrete.asm()):
        assert "---- chosen_stage0" in text
        assert "---- chosen_stage1" in text
    page = concrete.to_html()
    assert '"title":"kernels of stage 1"' in page
    assert '"columns":[[0,1],[2,3]]' in page


def test_exports_name_the_line(tmp_path: Path) -> None:
    compiled = tl.function(lambda x: x[x > 0.5])
    with pytest.raises(ExportError, match=r"aot: in .* nonzero at .*test_value_sizes.py:\d+ gives"):
        tl.export.aot(compiled, tmp_path, [tl.TensorSpec([6], tl.float64)])


# --- where it cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tl.map_fn(lambda row: tl.sum(row[row > 0]), x),
        lambda x: tl.cond(tl.sum(x) > 0, lambda: tl.sum(x[x > 0]), lambda: tl.sum(x)),
        lambda x: tl.while_loop(
            lambda k, s: k < 3, lambda k, s: (k + 1, s + tl.sum(x[x > 0])), (0, tl.asarray(0.0))
        ),
    ],
    ids=["map_fn", "cond", "while_loop"],
)
def test_in_a_part_of_a_trace_it_runs_op_by_op_with_the_line_and_the_repair(
    function: Callable[..., Any],
) -> None:
    x = tl.asarray(np.arange(12.0).reshape(3, 4) - 5)
    with pytest.warns(
        UserWarning, match=r"op by op: nonzero at .*test_value_sizes.py:\d+: .*tl\.where"
    ):
        found = tl.function(function)(x)
    assert_same(found, function(x))


@pytest.mark.parametrize("wrap", [lambda f: f, tl.function])
def test_under_vmap_the_error_says_so(wrap: Callable[..., Any]) -> None:
    picked = wrap(lambda x: tl.vmap(lambda row: tl.sum(row[row > 0]))(x))
    with (
        warnings.catch_warnings(),
        pytest.raises(SymbolicTensorError, match=r"vmap: nonzero: .*from example to example"),
    ):
        picked(tl.ones((3, 4)))


def test_a_mask_that_is_the_same_for_all_examples_works_under_vmap() -> None:
    mask = np.array([True, False, True])
    x = tl.asarray(np.arange(6.0).reshape(2, 3))

    def picked(x: tl.Tensor, keep: tl.Tensor) -> Any:
        return tl.vmap(lambda row: row[keep] * 2)(x)

    for function in (picked, tl.function(picked)):
        assert_same(function(x, tl.asarray(mask)), x.numpy()[:, mask] * 2)
