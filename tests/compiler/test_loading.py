"""How the compiler's modules are loaded."""

from __future__ import annotations

import gc

import pytest

from tapeline.compiler.loading import without_collections


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_go_on_as_before(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with without_collections():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
