"""Object files are found by their text, and sizes are no part of it where they are open."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapeline as tl
from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.recent_objects import RecentObjects


def test_the_oldest_objects_go_first() -> None:
    cache = RecentObjects(limit=100)
    keys = [cache.key(f"text {k}", quick=False) for k in range(5)]
    assert len({*keys, cache.key("text 0", quick=True)}) == 6
    for key in keys[:3]:
        cache.put(key, b"x" * 30)
    assert cache.get(keys[0]) == b"x" * 30
    cache.put(keys[3], b"y" * 30)
    assert cache.get(keys[1]) is None
    assert cache.get(keys[0]) is not None
    assert cache.nbytes == 90
    cache.put(keys[4], b"z" * 500)
    assert len(cache) == 1


def texts_for(function: Any, sizes: Any) -> set[str]:
    f = tl.function(function)
    found = set()
    for n in sizes:
        x = np.random.default_rng(n).normal(size=(n, 64))
        np.testing.assert_allclose(
            f(tl.asarray(x)).numpy(), function(tl.asarray(x)).numpy(), rtol=1e-11, atol=1e-12
        )
        call = f._signature.take_apart(f._signature.bind((tl.asarray(x),), {}))
        concrete = f.find_concrete(call)
        found.add(concrete.differentiable.compiled.executable().module.text)
    return found


def test_one_text_serves_many_sizes() -> None:
    sizes = range(40, 70)
    for function in (
        lambda x: tl.tanh(x) * 2 + 0.1,
        lambda x: tl.mean(tl.exp(x), axis=0),
        lambda x: tl.nn.softmax(x @ x.T),
        lambda x: x - tl.sum(x, axis=0) / x.shape[0],
    ):
        assert len(texts_for(function, sizes)) <= len(sizes) // 3


def test_equal_texts_are_compiled_once() -> None:
    engine = get_engine()
    f = tl.function(lambda x: tl.exp(x) * 3.25 - 1.125)
    f(tl.ones(101)), f(tl.ones(102)), f(tl.ones(103))
    before = len(engine._recent)
    for n in (105, 106, 107, 109, 110, 111):  # a multiple of 8 has no rest, and a text of its own
        f(tl.ones(n))
    assert len(engine._recent) == before
