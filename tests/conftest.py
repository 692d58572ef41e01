"""What every test may use."""

from __future__ import annotations

import gc
import os
import zlib

import numpy as np
import pytest

os.environ.setdefault("TAPELINE_CACHE", "0")
"""Tests compile what they test; those of the cache turn it on."""


def pytest_collection_finish() -> None:
    """Leaves thousands of tests, which live to the end, out of what the garbage collector walks,
    and lets it walk less often: compiling makes many objects, few of them garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded from the test's own name: the same numbers in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
