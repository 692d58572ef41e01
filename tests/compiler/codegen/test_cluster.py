"""Which nodes are computed together: graph text in, groups of nodes out."""

from __future__ import annotations

import numpy as np

import tapeline as tl
from tapeline.compiler.codegen.cluster import MAX_NEEDS, MAX_ROW, form_clusters
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.parse import parse_graph


def groups(graph: Graph) -> list[list[int]]:
    return [cluster.nodes for cluster in form_clusters(graph)]


def clusters_of(text: str) -> list[list[int]]:
    return groups(parse_graph(text))


def test_elementwise_chains_are_one_cluster() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[3, 4]
  %1 = placeholder(name='y') : float32[4]
  %2 = add(%0, %1) : float32[3, 4]
  %3 = exp(%2) : float32[3, 4]
  %4 = multiply(%3, %0) : float32[3, 4]
  return %4, %3""") == [[2, 3, 4]]


def test_softmax_is_one_cluster_with_its_epilogue() -> None:
    graph = tl.function(lambda x: tl.softmax(x, axis=-1) * 2).get_concrete_function(
        tl.TensorSpec([8, 16], "float32")
    )
    (cluster,) = form_clusters(graph.optimized_graph)
    assert cluster.space == (8, 16)
    assert cluster.axes == (1,)


def test_a_product_stands_alone_and_what_follows_joins_later_inputs() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 4]
  %1 = exp(%0) : float32[4, 4]
  %2 = matmul(%0, %0) : float32[4, 4]
  %3 = multiply(%1, %2) : float32[4, 4]
  return %3""") == [[2], [1, 3]]


def test_no_cycle_through_a_product() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 4]
  %1 = exp(%0) : float32[4, 4]
  %2 = matmul(%1, %0) : float32[4, 4]
  %3 = multiply(%1, %2) : float32[4, 4]
  return %3""") == [[1], [2], [3]]


def test_reduction_over_other_axes_starts_a_cluster() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 5]
  %1 = exp(%0) : float32[4, 5]
  %2 = sum(%1, axes=(1,), keepdims=False) : float32[4]
  %3 = sum(%1, axes=(0,), keepdims=False) : float32[5]
  return %2, %3""") == [[1, 2], [3]]


def test_elements_wait_for_a_reduction_only_along_rows() -> None:
    text = """\
graph g:
  %0 = placeholder(name='x') : float32[{shape}]
  %1 = sum(%0, axes=({axis},), keepdims=True) : float32[{reduced}]
  %2 = divide(%0, %1) : float32[{shape}]
  return %2"""
    assert clusters_of(text.format(shape="4, 5", axis=1, reduced="4, 1")) == [[1, 2]]
    assert clusters_of(text.format(shape="4, 5", axis=0, reduced="1, 5")) == [[1], [2]]
    long = 2 * MAX_ROW
    assert clusters_of(text.format(shape=f"4, {long}", axis=1, reduced="4, 1")) == [[1], [2]]


def test_views_that_rearrange_dimensions_do_not_part_a_cluster() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 5]
  %1 = sum(%0, axes=(1,), keepdims=False) : float32[4]
  %2 = expand_dims(%1, axes=(1,)) : float32[4, 1]
  %3 = subtract(%0, %2) : float32[4, 5]
  %4 = permute_dims(%3, axes=(1, 0)) : float32[5, 4]
  %5 = exp(%4) : float32[5, 4]
  return %5""") == [[1, 3, 5]]


def test_views_that_mix_dimensions_do() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 5]
  %1 = exp(%0) : float32[4, 5]
  %2 = reshape(%1, shape=(20,)) : float32[20]
  %3 = exp(%2) : float32[20]
  %4 = flip(%1, axes=(0,)) : float32[4, 5]
  %5 = add(%4, %1) : float32[4, 5]
  return %3, %5""") == [[1], [3], [5]]


def test_a_broadcast_to_a_bigger_space_starts_a_cluster() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[5]
  %1 = placeholder(name='y') : float32[4, 5]
  %2 = exp(%0) : float32[5]
  %3 = add(%1, %2) : float32[4, 5]
  return %3""") == [[2], [3]]


def test_every_computed_node_is_in_one_cluster_and_the_order_runs() -> None:
    def step(x: tl.Tensor, w: tl.Tensor, v: tl.Tensor) -> tl.Tensor:
        h = tl.tanh(x @ w)
        z = h @ v
        return tl.mean(tl.logsumexp(z, axis=1) - z[:, 0]) + tl.sum(h * h)

    specs = [tl.TensorSpec(s, "float32") for s in ([6, 4], [4, 5], [5, 3])]
    graph = tl.function(step).get_concrete_function(*specs).optimized_graph
    clusters = form_clusters(graph)
    members = [node for cluster in clusters for node in cluster.nodes]
    assert len(members) == len(set(members))
    done: set[int] = set()
    for cluster in clusters:
        assert cluster.needs <= done
        done.add(cluster.number)


def test_a_value_and_its_flipped_self_are_not_mixed_up_where_clusters_meet() -> None:
    def step(x: tl.Tensor) -> tuple[tl.Tensor, tl.Tensor]:
        p = x * x
        r = p + 3
        return r * (1 + tl.flip(p)), tl.sum(r)

    x = tl.asarray(np.arange(12.0).reshape(4, 3))
    for got, want in zip(tl.function(step)(x), step(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_long_chains_form_clusters_in_linear_time() -> None:
    graph = Graph("long")
    value = graph.add_placeholder(tl.TensorSpec([4], "float32"))
    from tapeline.runtime.op import get_op

    for _ in range(20_000):
        value = graph.add(get_op("exp"), (value,))
    graph.outputs = [value]
    clusters = form_clusters(graph)
    assert sum(len(cluster.nodes) for cluster in clusters) == 20_000
    assert len(clusters) < 500


def test_a_reduction_that_is_read_across_its_rows_stays_in_front() -> None:
    def apart(x: tl.Tensor) -> tl.Tensor:
        a = tl.exp(x)
        s = tl.sum(a, axis=1)
        return (s[None, :] - s[:, None]) * a

    graph = tl.function(apart).get_concrete_function(tl.TensorSpec([3, 3])).optimized_graph
    first, *rest = form_clusters(graph)
    names = [[graph.ops[node].name for node in cluster.nodes] for cluster in (first, *rest)]
    assert names[0] == ["exp", "sum"]
    assert "subtract" in names[1]
    x = tl.asarray(np.linspace(-1.0, 1.0, 9).reshape(3, 3))
    np.testing.assert_allclose(tl.function(apart)(x).numpy(), apart(x).numpy(), rtol=1e-14)


def test_the_slope_of_an_activation_is_computed_where_it_is_used() -> None:
    assert clusters_of("""\
graph g:
  %0 = placeholder(name='x') : float32[4, 4]
  %1 = placeholder(name='w') : float32[4, 4]
  %2 = tanh(%0) : float32[4, 4]
  %3 = matmul(%2, %1) : float32[4, 4]
  %4 = square(%2) : float32[4, 4]
  %5 = multiply(%3, %4) : float32[4, 4]
  return %5""") == [[2], [3], [4, 5]]


def test_a_long_sum_of_products_does_not_wait_for_all_of_them() -> None:
    lines = ["graph g:", "  %0 = placeholder(name='x') : float32[4, 4]"]
    lines += ["  %1 = exp(%0) : float32[4, 4]"]
    for k in range(40):
        lines.append(f"  %{2 * k + 2} = matmul(%{2 * k}, %0) : float32[4, 4]")
        lines.append(f"  %{2 * k + 3} = add(%{2 * k + 1}, %{2 * k + 2}) : float32[4, 4]")
    sums = [group for group in clusters_of("\n".join([*lines, "  return %81"])) if group[0] % 2]
    assert max(len(group) for group in sums) <= MAX_NEEDS + 1
