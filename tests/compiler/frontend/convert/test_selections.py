"""`x[mask]` in loops and branches of compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.testing import check_gradients

RNG = np.random.default_rng(2)
POINTS = RNG.normal(size=(12, 2))
CENTRES = RNG.normal(size=(3, 2))
X = RNG.normal(size=9)


def _means(points: Any, centres: Any) -> Any:
    for _ in range(3):
        nearest = np.linalg.norm(points[:, None] - centres[None], axis=-1).argmin(1)
        centres = np.array(
            [
                points[nearest == k].mean(axis=0) if np.any(nearest == k) else centres[k]
                for k in range(3)
            ]
        )
    return centres


def _written_means(points: Any, centres: Any) -> Any:
    centres = centres.copy()
    nearest = ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)
    for k in range(len(centres)):
        mine = nearest == k
        if mine.any():
            centres[k] = points[mine].mean(0)
    return centres


def _escape(x: Any) -> Any:
    c = x * 1.5
    z = np.zeros_like(c)
    turns = np.zeros(c.shape, dtype=int)
    while np.any(np.abs(z) <= 2) and turns.max() < 30:
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        turns[inside] += 1
        turns[~inside] = turns[~inside] * 1
        if z.max() > 1e9:
            z[z > 5] = np.log(z[z > 5])
    return turns


def _statistics(x: Any) -> Any:
    if x.sum() < 100:
        taken = x[x > 0]
        scaled = np.exp(taken) - taken * 2
        return np.stack(
            [
                scaled.sum(), scaled.max(), np.min(scaled), np.mean(scaled), scaled.std(),
                taken.var(), np.prod(scaled), taken.size * 1.0, (scaled > 0).all() * 1.0,
                np.any(scaled > 3) * 1.0,
            ]
        )  # fmt: skip
    return np.concatenate([x, x[:1]])


def _rows(points: Any) -> Any:
    if points.sum() < 1000:
        right = points[points[:, 0] > 0]
        return np.stack([right.sum(0), right.std(axis=0), np.max(right, axis=0)]), right.mean(
            1
        ).sum()
    return points[:3], points[0, 0]


def _swapped(x: Any) -> Any:
    y = np.zeros_like(x)
    for k in range(40):
        low = x < y + k * 0.01
        y[low] += x[low] * 0.1
        y[~low], x = x[~low], x * 0.99
    return y


def _newton(x: Any) -> Any:
    y = np.abs(x) + 1.0
    turns = 0
    active = np.abs(y * y - 2) > 1e-12
    while active.any() and turns < 50:
        old = y[active]
        y[active] = old - (old**2 - 2) / (2 * old)
        active = np.abs(y * y - 2) > 1e-12
        turns += 1
    return y


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "k-means": (_means, (POINTS, CENTRES)),
    "k-means in place": (_written_means, (POINTS, CENTRES)),
    "escape times": (_escape, (X,)),
    "what is still active": (_newton, (X,)),
    "statistics": (_statistics, (X,)),
    "rows": (_rows, (POINTS,)),
    "writes of one mask and its opposite": (_swapped, (X,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_numpys(name: str) -> None:
    program, arrays = PROGRAMS[name]
    expected = program(*arrays)
    found = tl.function(program)(*map(tl.asarray, arrays))
    for got, wanted in zip(
        *([r] if not isinstance(r, tuple) else r for r in (found, expected)), strict=True
    ):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)


def test_gradients_ignore_what_is_not_selected() -> None:
    def f(x: Any) -> Any:
        if x.sum() < 100:
            return np.log(x[x > 0]).sum() + np.sqrt(x[x > 0]).mean()
        return x.sum()

    check_gradients(tl.function(f), (X,))


def test_many_examples_select_each_for_itself() -> None:
    def f(x: Any) -> Any:
        return x[x > 0].sum()

    found = tl.function(tl.vmap(f))(tl.asarray(POINTS))
    np.testing.assert_allclose(found.numpy(), np.where(POINTS > 0, POINTS, 0).sum(1))


@pytest.mark.parametrize(
    "use",
    [
        np.median,
        tl.sum,
        lambda taken: taken @ taken,
        lambda taken: taken[0] + taken[-1],
        lambda taken: np.add.reduce(taken),
        lambda taken: sum(v for v in taken),
        lambda taken: taken.shape[0] * 1.0,
        lambda taken: (taken + np.ones(len(taken))).sum(),
        lambda taken: np.where(taken > 1, taken, 0.0).sum(),
        lambda taken: taken.cumsum()[-1],
    ],
)
def test_where_the_elements_alone_are_needed_the_function_runs_op_by_op(
    use: Callable[[Any], Any],
) -> None:
    def f(x: Any) -> Any:
        if x.sum() < 100:
            return use(x[x > 0])
        return x.sum()

    with pytest.warns(UserWarning, match="the size of the result depends on values"):
        found = tl.function(f)(tl.asarray(X))
    np.testing.assert_allclose(np.asarray(found), f(X))
