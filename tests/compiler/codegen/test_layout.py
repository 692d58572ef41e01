from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.layout import (
    list_item_address,
    numpy_api,
    self_test,
    slot_offset,
)
from tapeline.runtime.tensor import Tensor


def test_self_test_passes_here() -> None:
    assert self_test()


@pytest.mark.parametrize(
    "name", ["ARRAY_DATA", "ARRAY_NDIM", "ARRAY_DESCR", "ARRAY_FLAGS", "ARRAY_DIMENSIONS"]
)
def test_self_test_notices_a_wrong_offset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, name, layout.ARRAY_STRIDES)
    assert not self_test.__wrapped__()


def test_self_test_notices_another_type_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "TYPE_FLAGS", 160)
    assert not self_test.__wrapped__()


def test_memory_is_left_to_numpy_where_arrays_keep_its_handler_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layout, "ARRAY_HANDLER", layout.ARRAY_DESCR)
    assert layout.line_handler.__wrapped__() is None


def test_the_word_of_a_lock_tells_whether_it_is_held() -> None:
    lock = threading.RLock()
    place = layout.lock_word_address(lock)
    assert place is not None
    word = ctypes.c_uint64.from_address(place)
    assert not word.value
    with lock:
        assert word.value
        with lock:
            assert word.value
        assert word.value
    assert not word.value
    other = threading.Thread(target=lock.acquire)
    other.start()
    other.join()
    assert word.value


def test_a_lock_of_another_kind_has_no_such_word() -> None:
    class Lock:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    assert layout.lock_word_address(Lock()) is None


def test_slot_offsets_lead_to_the_values() -> None:
    tensor = Tensor()
    tensor._value = np.ones(3)
    place = id(tensor) + slot_offset(Tensor, "_value")
    assert ctypes.c_void_p.from_address(place).value == id(tensor._value)
    assert slot_offset(Tensor, "_value") != slot_offset(Tensor, "_node")


def test_slot_offset_of_a_subclass() -> None:
    class Child(Tensor):
        __slots__ = ("more",)

    assert slot_offset(Child, "_value") == slot_offset(Tensor, "_value")
    assert slot_offset(Child, "more") >= Tensor.__basicsize__


def test_slot_offset_rejects_what_is_no_slot() -> None:
    with pytest.raises(LookupError, match="no slot 'shape'"):
        slot_offset(Tensor, "shape")
    with pytest.raises(LookupError, match="no slot 'nothing'"):
        slot_offset(Tensor, "nothing")


def test_list_item_address_sees_assignments() -> None:
    items: list[Any] = [0, 0]
    place = ctypes.c_void_p.from_address(list_item_address(items, 1))
    assert place.value == id(0)
    items[1] = 7
    assert place.value == id(7)


def test_numpy_interface_is_version_2() -> None:
    assert numpy_api().version >> 24 == 2
    assert numpy_api().array_type == id(np.ndarray)


@pytest.mark.parametrize(("value", "allowed"), [("0", False), ("1", True)])
def test_environment_variable_forbids_native_entries(value: str, allowed: bool) -> None:
    code = "from tapeline.compiler.codegen.layout import native_entry_allowed as f; print(f())"
    environment = {**os.environ, "TAPELINE_NATIVE_ENTRY": value}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(allowed)


def test_layout_loads_no_llvmlite() -> None:
    code = "import sys, tapeline.compiler.codegen.layout as l; l.self_test()\n"
    code += "assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_self_test_refuses_builds_without_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        assert not self_test.__wrapped__()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "abiflags", "t", raising=False)
        assert not self_test.__wrapped__()
    assert self_test.__wrapped__()


def test_without_the_gil_calls_take_the_python_path_and_writes_copy() -> None:
    code = """
import sys
sys._is_gil_enabled = lambda: False
import tapeline as tl
from tapeline.compiler.codegen.layout import native_entry_allowed

@tl.function
def f(x):
    y = x * 2
    y[0] = 7.0
    return tl.sum(y)

for _ in range(4):
    assert float(f(tl.ones(3))) == 11.0
    assert tl.grad(f)(tl.ones(3)).numpy().tolist() == [0.0, 2.0, 2.0]
assert not native_entry_allowed()
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
