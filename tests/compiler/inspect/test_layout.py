"""The layered layout: everything goes down, nothing overlaps."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from tapeline.compiler.inspect.layout import (
    GAP_X,
    layer_numbers,
    layered_layout,
    place_in_order,
)


def test_layer_numbers_put_every_user_below_what_it_uses() -> None:
    edges = [(0, 2), (1, 2), (0, 3), (2, 3)]
    assert layer_numbers(4, edges) == [0, 0, 1, 2]


def test_layer_numbers_bring_a_box_down_to_its_first_user() -> None:
    edges = [(0, 1), (1, 2), (3, 4), (2, 4)]
    assert layer_numbers(5, edges) == [0, 1, 2, 2, 3]


def test_layer_numbers_bring_down_whatever_only_leads_to_it() -> None:
    edges = [(0, 1), (1, 4), (2, 3), (3, 5), (4, 5), (5, 6)]
    layers = layer_numbers(7, edges)
    assert all(layers[target] > layers[source] for source, target in edges)
    assert layers[2] == layers[3] - 1


def test_place_in_order_keeps_wanted_positions_that_fit() -> None:
    assert place_in_order([0.0, 10.0, 30.0], [1.0] * 3, [5.0, 5.0]) == [0.0, 10.0, 30.0]


def test_place_in_order_shares_the_way_between_boxes_that_collide() -> None:
    assert place_in_order([0.0, 0.0], [1.0, 1.0], [4.0]) == [-2.0, 2.0]
    assert place_in_order([0.0, 0.0], [3.0, 1.0], [4.0]) == [-1.0, 3.0]


@pytest.mark.parametrize("count", [1, 2, 10, 60])
def test_layout_overlaps_nothing_and_goes_down(count: int, rng: np.random.Generator) -> None:
    edges = [
        (int(source), target)
        for target in range(1, count)
        for source in set(rng.integers(max(0, target - 6), target, size=2))
    ]
    sizes = [(float(width), 20.0) for width in rng.integers(40, 200, size=count)]
    layout = layered_layout(sizes, edges, layer_numbers(count, edges))
    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(layout.corners, sizes, strict=True)]
    for a, b in combinations(boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a, b)
    for route in layout.routes:
        assert all(lower[1] >= upper[1] for upper, lower in pairwise(route))
    assert all(x >= -1e-9 and right <= layout.width + 1e-9 for x, _, right, _ in boxes)
    assert all(bottom <= layout.height + 1e-9 for *_, bottom in boxes)


def test_layout_draws_the_longest_way_straight() -> None:
    edges = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (5, 6)]
    layout = layered_layout([(50.0, 20.0)] * 7, edges, layer_numbers(7, edges))
    spine = [layout.corners[box][0] for box in (0, 1, 3, 4, 5, 6)]
    assert max(spine) - min(spine) < GAP_X


def test_layout_uncrosses_two_crossed_edges() -> None:
    edges = [(0, 3), (1, 2)]
    layout = layered_layout([(50.0, 20.0)] * 4, edges, [0, 0, 1, 1])
    left, right = sorted(layout.routes, key=lambda route: route[0][0])
    assert left[-1][0] < right[-1][0]


def test_layout_of_nothing_is_empty() -> None:
    layout = layered_layout([], [], [])
    assert (layout.corners, layout.width, layout.height) == ([], 0.0, 0.0)
