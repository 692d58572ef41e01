"""In which order to contract several tensors, two at a time, so that the least work is done.

Knows labels and extents only, no tensors. The work of a step is the product of the extents of all
its labels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

Labels: TypeAlias = tuple[str, ...]
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Each step takes the terms at two positions, the first below the second, out of the list and
appends their product."""

OPTIMAL_UP_TO = 7
"""With more operands than this the search for the best order takes too long."""


@functools.lru_cache(maxsize=1024)
def contraction_order(
    inputs: tuple[Labels, ...],
    output: Labels,
    extents: tuple[tuple[str, int], ...],
    strategy: str = "auto",
) -> Steps:
    """The steps that contract the inputs to one.

    Parameters
    ----------
    inputs : tuple of tuple of str
        The labels of each operand.
    output : tuple of str
        The labels of the result.
    extents : tuple of (str, int)
        The extent of each label.
    strategy : "auto", "optimal", "greedy" or "left"
        Search all orders, take the step that shrinks most at each turn, or go from left to right;
        "auto" is the first for few operands and the second for many.
    """
    count = len(inputs)
    if strategy == "left" or count <= 2:
        return tuple((0, 1) if k == 0 else (0, count - k - 1) for k in range(count - 1))
    terms = [frozenset(labels) for labels in inputs]
    sizes = dict(extents)
    if strategy == "optimal" or (strategy == "auto" and count <= OPTIMAL_UP_TO):
        return _optimal(terms, frozenset(output), sizes)
    return _greedy(terms, frozenset(output), sizes)


def _volume(labels: frozenset[str], sizes: dict[str, int]) -> int:
    total = 1
    for label in labels:
        total *= sizes[label]
    return total


def _optimal(terms: list[frozenset[str]], output: frozenset[str], sizes: dict[str, int]) -> Steps:
    """The order of least work, from the best orders of all subsets of operands."""
    count = len(terms)
    everything = (1 << count) - 1
    kept = {1 << k: term for k, term in enumerate(terms)}
    work: dict[int, int] = {1 << k: 0 for k in range(count)}
    split: dict[int, int] = {}
    for size in range(2, count + 1):
        for members in combinations(range(count), size):
            whole = sum(1 << k for k in members)
            outside = output.union(*[terms[k] for k in range(count) if not whole >> k & 1])
            kept[whole] = frozenset().union(*[terms[k] for k in members]) & outside
            part = (whole - 1) & whole
            while part > whole ^ part:
                rest = whole ^ part
                total = work[part] + work[rest] + _volume(kept[part] | kept[rest], sizes)
                if whole not in work or total < work[whole]:
                    work[whole], split[whole] = total, part
                part = (part - 1) & whole
    return _as_steps(split, everything, count)


def _as_steps(split: dict[int, int], everything: int, count: int) -> Steps:
    """The tree of subsets as steps on a list of terms."""
    listed = [1 << k for k in range(count)]
    steps: list[tuple[int, int]] = []

    def contract(whole: int) -> None:
        if whole not in split:
            return
        part = split[whole]
        contract(part)
        contract(whole ^ part)
        first, second = sorted((listed.index(part), listed.index(whole ^ part)))
        del listed[second], listed[first]
        listed.append(whole)
        steps.append((first, second))

    contract(everything)
    return tuple(steps)


def _greedy(terms: list[frozenset[str]], output: frozenset[str], sizes: dict[str, int]) -> Steps:
    """At each turn the pair whose product grows least over its factors, then of least work."""
    listed = list(terms)
    steps: list[tuple[int, int]] = []
    while len(listed) > 1:
        best: tuple[tuple[int, int], int, int] | None = None
        for first, second in combinations(range(len(listed)), 2):
            a, b = listed[first], listed[second]
            result = (a | b) & _outside(listed, (first, second), output)
            growth = _volume(result, sizes) - _volume(a, sizes) - _volume(b, sizes)
            cost = (growth, _volume(a | b, sizes))
            if best is None or cost < best[0]:
                best = (cost, first, second)
        assert best is not None
        _, first, second = best
        outside = _outside(listed, (first, second), output)
        product = (listed[first] | listed[second]) & outside
        del listed[second], listed[first]
        listed.append(product)
        steps.append((first, second))
    return tuple(steps)


def _outside(
    listed: Sequence[frozenset[str]], pair: tuple[int, int], output: frozenset[str]
) -> frozenset[str]:
    """The labels that others than the pair need."""
    return output.union(*[term for k, term in enumerate(listed) if k not in pair])
