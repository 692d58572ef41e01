from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tapeline.compiler.codegen.blas import Blas, find_blas


@pytest.fixture
def blas() -> Blas:
    found = find_blas()
    if found is None:
        pytest.skip("NumPy has no BLAS that can be called by address")
    return found


def test_numpy_wheels_bring_a_blas_that_is_found() -> None:
    config = np.show_config(mode="dicts")
    assert isinstance(config, dict)
    if "openblas" in config["Build Dependencies"]["blas"]["name"]:
        assert find_blas() is not None


def test_all_routines_have_addresses(blas: Blas) -> None:
    assert set(blas.addresses) == {"sgemm", "dgemm", "sgemv", "dgemv"}
    assert all(blas.addresses.values())
    assert blas.int_bits in (32, 64)


def test_thread_count_can_be_set_and_restored(blas: Blas) -> None:
    before = blas.thread_count()
    if before is None:
        pytest.skip("this BLAS has no thread control")
    try:
        assert blas.set_thread_count(1)
        assert blas.thread_count() == 1
    finally:
        blas.set_thread_count(before)


def test_environment_variable_hides_the_blas() -> None:
    code = "from tapeline.compiler.codegen.blas import find_blas; assert find_blas() is None"
    environment = {**os.environ, "TAPELINE_BLAS": "0"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_numpy_is_preferred_over_other_libraries(blas: Blas) -> None:
    import scipy.linalg  # its own BLAS is in the process from here on

    assert scipy.linalg is not None
    find_blas.cache_clear()
    again = find_blas()
    assert again is not None
    assert again.path == blas.path
