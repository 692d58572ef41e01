from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.engine import get_engine
from tapeline.compiler.codegen.entry import build_entry, compile_entry
from tapeline.compiler.codegen.entry_spec import (
    ArgSpec,
    CellGuard,
    CellSpec,
    Container,
    EntrySpec,
    OutSpec,
    busy_guard,
)
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.compiler.codegen.native_call import (
    NativeCallable,
    NativeEntry,
    enable_native_calls,
    set_entry,
)
from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.line_memory import HUGE_PAGE, LINE
from tapeline.runtime.tensor import Tensor, wrap

pytestmark = pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


class Callee(NativeCallable):
    __slots__ = ("__dict__", "__weakref__", "_entry", "_slow", "kept")

    def __init__(self, slow: Callable[..., Any]) -> None:
        self._slow = slow
        self._entry = None

    kept: list[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._slow(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


enable_native_calls(Callee)

# out[i] = 2 * in[i] + 1 for four float32, from data pointer `a` to data pointer `b`
AXPB = """
define i64 @run(ptr %data) {{
entry:
  %from_place = getelementptr ptr, ptr %data, i64 {a}
  %to_place = getelementptr ptr, ptr %data, i64 {b}
  %from = load ptr, ptr %from_place
  %to = load ptr, ptr %to_place
  %x = load <4 x float>, ptr %from, align 4
  %m = fmul <4 x float> %x, splat (float 2.0)
  %y = fadd <4 x float> %m, splat (float 1.0)
  store <4 x float> %y, ptr %to, align 4
  ret i64 {status}
}}
"""


def slow_path(*args: Any, **kwargs: Any) -> Any:
    return "slow", args, kwargs


def entry_for(
    spec: EntrySpec, run: str = AXPB.format(a=0, b=1, status=0), following: Any = None
) -> NativeEntry:
    module = get_engine().compile_module(run, {}, ["run"])
    word = np.array([module.address("run")])
    return compile_entry(spec, word.__array_interface__["data"][0], (module, word), following)


def callee(spec: EntrySpec, run: str = AXPB.format(a=0, b=1, status=0)) -> Callee:
    function = Callee(slow_path)
    set_entry(function, entry_for(spec, run))
    return function


TENSOR_SPEC = EntrySpec((ArgSpec("tensor", F4, (4,)),), (OutSpec("tensor", F4, (4,)),), Tensor)


@pytest.fixture
def x() -> Tensor:
    return wrap(np.arange(4, dtype=np.float32))


def is_slow(answer: Any) -> bool:
    return type(answer) is tuple and answer[0] == "slow"


def test_before_the_first_entry_python_serves(x: Tensor) -> None:
    assert Callee(slow_path)(x, k=1) == ("slow", (x,), {"k": 1})


def test_tensor_in_tensor_out(x: Tensor) -> None:
    result = callee(TENSOR_SPEC)(x)
    assert type(result) is Tensor
    assert result._node is None
    np.testing.assert_array_equal(result._value, [1, 3, 5, 7])
    assert result._value.flags.owndata


def test_results_do_not_share_memory(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    first, second = function(x), function(x)
    assert not np.shares_memory(first._value, second._value)


def test_small_results_are_recycled_only_when_unshared(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    first = function(x)
    view = first._value[1:]
    del first
    second = function(wrap(np.zeros(4, np.float32)))
    np.testing.assert_array_equal(view, [3, 5, 7])
    np.testing.assert_array_equal(second._value, [1, 1, 1, 1])
    del second
    buffer = memoryview(function(x)._value)
    function(wrap(np.zeros(4, np.float32)))
    assert buffer.tolist() == [1, 3, 5, 7]


def test_recycled_array_dies_with_the_entry(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    alive = weakref.ref(function(x)._value)
    set_entry(function, None)
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(("size", "step"), [(1 << 20, LINE), (9_000_001, HUGE_PAGE)])
def test_large_results_begin_at_a_line_and_live_as_long_as_anybody_holds_them(
    size: int, step: int
) -> None:
    spec = EntrySpec((ArgSpec("array", F4, (4,)),), (OutSpec("array", F4, (size,)),), Tensor)
    function = callee(spec)
    results = [function(np.full(4, k, np.float32)) for k in range(5)]
    assert all(result.flags.owndata and result.flags.writeable for result in results)
    if layout.line_handler() is not None:
        assert not any(result.__array_interface__["data"][0] % step for result in results)
    results[2][:] = 1
    assert results[2].sum() == size
    view = results[3][:4]
    del results
    for k in range(5):
        function(np.full(4, -k, np.float32))
    np.testing.assert_array_equal(view, [7, 7, 7, 7])


def test_large_results_without_memory_are_an_error() -> None:
    spec = EntrySpec((ArgSpec("array", F4, (4,)),), (OutSpec("array", F4, (1 << 50,)),), Tensor)
    with pytest.raises(MemoryError):
        callee(spec)(np.zeros(4, np.float32))


def test_large_results_leave_memory_flat() -> None:
    spec = EntrySpec((ArgSpec("array", F4, (4,)),), (OutSpec("array", F4, (1 << 20,)),), Tensor)
    function, x = callee(spec), np.zeros(4, np.float32)
    tracemalloc.start()
    try:
        function(x)
        before, _ = tracemalloc.get_traced_memory()
        held = function(x)
        during, _ = tracemalloc.get_traced_memory()
        assert during - before >= 1 << 22
        del held
        for _ in range(100):
            function(x)
        after, _ = tracemalloc.get_traced_memory()
        assert after - before < 1 << 16
    finally:
        tracemalloc.stop()


def test_array_in_array_out() -> None:
    spec = EntrySpec((ArgSpec("array", F4, (2, 2)),), (OutSpec("array", F4, (4,)),), Tensor)
    function = callee(spec)
    result = function(np.arange(4, dtype=np.float32).reshape(2, 2))
    np.testing.assert_array_equal(result, [1, 3, 5, 7])
    view = result[1:]
    del result
    again = function(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(view, [3, 5, 7])
    assert not np.shares_memory(again, view)


def test_other_calls_take_the_slow_path(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    watched = wrap(x._value)
    watched._node = object()  # type: ignore[assignment]
    others = [
        x._value,
        1,
        None,
        wrap(np.zeros(4)),
        wrap(np.zeros(5, np.float32)),
        wrap(np.zeros((4, 1), np.float32)),
        wrap(np.zeros(8, np.float32)[::2]),
        wrap(np.zeros(4, ">f4")),
        wrap(np.zeros(17, np.uint8)[1:].view(np.float32)),
        wrap(np.float32(1.0).reshape(())),
        Tensor(),
        watched,
    ]
    for other in others:
        answer = function(other)
        assert is_slow(answer), other
        assert answer[1] == (other,) or answer[1][0] is other
    assert is_slow(function())
    assert is_slow(function(x, x))
    assert function(x, key=2) == ("slow", (x,), {"key": 2})
    assert function(value=x) == ("slow", (), {"value": x})


def test_calls_through_star_args(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    assert type(function(*[x])) is Tensor
    assert is_slow(function(*[x], **{"k": 1}))


def test_exceptions_of_the_slow_path_propagate(x: Tensor) -> None:
    def refuse(*_: Any) -> None:
        raise KeyError("refused")

    function = Callee(refuse)
    set_entry(function, entry_for(TENSOR_SPEC))
    assert type(function(x)) is Tensor
    with pytest.raises(KeyError, match="refused"):
        function(1)


def test_nonzero_status_falls_back(x: Tensor) -> None:
    function = callee(TENSOR_SPEC, AXPB.format(a=0, b=1, status=7))
    assert is_slow(function(x))


def test_nonzero_status_raises_what_the_handler_raises(x: Tensor) -> None:
    def fail(status: int) -> None:
        raise MemoryError(f"status {status}")

    run = AXPB.format(a=0, b=1, status=7)
    spec = EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, on_error=fail)
    function = callee(spec, run)
    for _ in range(3):
        with pytest.raises(MemoryError, match="status 7"):
            function(x)
    ignoring = EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, on_error=lambda _: None)
    assert is_slow(callee(ignoring, run)(x))


def test_entry_can_stand_in_the_module_of_its_code(x: Tensor) -> None:
    code = build_entry(TENSOR_SPEC)
    run = AXPB.format(a=0, b=1, status=0).replace("@run", "@code")
    word = "@run = internal global ptr @code"
    text = "\n".join([*sorted(code.declarations), run, word, code.text])
    module = get_engine().compile_module(text, code.symbols, ["entry"])
    function = Callee(slow_path)
    set_entry(function, NativeEntry(module.address("entry"), (module, code.kept)))
    assert type(function(x)) is Tensor


def test_busy_counter_turns_the_entry_off(x: Tensor) -> None:
    spec = EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, guards=(busy_guard(BUSY),))
    function = callee(spec)
    assert type(function(x)) is Tensor
    BUSY[0] += 1
    try:
        assert is_slow(function(x))
    finally:
        BUSY[0] -= 1
    assert type(function(x)) is Tensor


def test_version_guard(x: Tensor) -> None:
    version = ctypes.c_int64(3)
    guard = CellGuard(ctypes.addressof(version), 3, holder=version)
    function = callee(EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, guards=(guard,)))
    assert type(function(x)) is Tensor
    version.value = 4
    assert is_slow(function(x))


def test_entries_are_tried_in_turn(x: Tensor) -> None:
    array_spec = EntrySpec((ArgSpec("array", F4, (4,)),), (OutSpec("array", F4, (4,)),), Tensor)
    function = Callee(slow_path)
    set_entry(function, entry_for(TENSOR_SPEC, following=entry_for(array_spec)))
    assert type(function(x)) is Tensor
    assert type(function(x._value)) is np.ndarray
    assert is_slow(function(3))
    set_entry(function, None)
    assert is_slow(function(x))


def test_works_as_a_method(x: Tensor) -> None:
    class Owner:
        pass

    owner = Owner()
    arguments = (ArgSpec("object", value=owner), ArgSpec("tensor", F4, (4,)))
    Owner.method = callee(EntrySpec(arguments, TENSOR_SPEC.outputs, Tensor))  # type: ignore[attr-defined]
    for _ in range(100):
        np.testing.assert_array_equal(owner.method(x)._value, [1, 3, 5, 7])  # type: ignore[attr-defined]
    bound = owner.method  # type: ignore[attr-defined]
    assert type(bound(x)) is Tensor
    other = Owner()
    assert other.method(x)[1] == (other, x)  # type: ignore[attr-defined]


def test_captured_cells_are_read_at_each_call(x: Tensor) -> None:
    spec = EntrySpec((), TENSOR_SPEC.outputs, Tensor, captures=(CellSpec(x, F4, (4,)),))
    function = callee(spec)
    np.testing.assert_array_equal(function()._value, [1, 3, 5, 7])
    x._value = np.ones(4, np.float32)
    np.testing.assert_array_equal(function()._value, [3, 3, 3, 3])
    x._value = np.ones(5, np.float32)
    assert is_slow(function())


def test_captured_array(x: Tensor) -> None:
    array = np.arange(4, dtype=np.float32)
    cell = CellSpec(array, F4, (4,), slot=None)
    function = callee(EntrySpec((), TENSOR_SPEC.outputs, Tensor, captures=(cell,)))
    array += 1
    np.testing.assert_array_equal(function()._value, [3, 5, 7, 9])


def test_output_stored_into_a_cell(x: Tensor) -> None:
    target = wrap(np.zeros(4, np.float32))
    old = weakref.ref(target._value)
    outputs = (OutSpec("store", F4, (4,), target),)
    function = callee(EntrySpec(TENSOR_SPEC.args, outputs, Tensor, structure="none"))
    assert function(x) is None
    np.testing.assert_array_equal(target._value, [1, 3, 5, 7])
    assert old() is None


@pytest.mark.parametrize(("structure", "kind"), [("tuple", tuple), ("list", list)])
def test_structures(structure: Any, kind: type, x: Tensor) -> None:
    marker = object()
    outputs = (
        OutSpec("tensor", F4, (4,)),
        OutSpec("object", target=marker),
        OutSpec("array", F8, (2, 3)),
    )
    spec = EntrySpec(TENSOR_SPEC.args, outputs, Tensor, structure=structure)
    result: Any = callee(spec)(x)
    assert isinstance(result, tuple | list)
    assert type(result) is kind
    np.testing.assert_array_equal(result[0]._value, [1, 3, 5, 7])
    assert result[1] is marker
    assert result[2].shape == (2, 3)
    assert result[2].dtype == F8
    assert gc.is_tracked(result)


def test_nested_results(x: Tensor) -> None:
    marker = object()
    outputs = (
        OutSpec("tensor", F4, (4,)),
        OutSpec("array", F8, (3,)),
        OutSpec("object", target=marker),
    )
    inner = Container("tuple", (1, Container("list", ()), 2))
    tree = Container("dict", (inner, 0), ("first", 7))
    function = callee(EntrySpec(TENSOR_SPEC.args, outputs, Tensor, structure=tree))
    result: Any = function(x)
    assert list(result) == ["first", 7]
    assert type(result["first"]) is tuple
    assert result["first"][0].shape == (3,)
    assert result["first"][1:] == ([], marker)
    np.testing.assert_array_equal(result[7]._value, [1, 3, 5, 7])
    before = sys.getrefcount(marker)
    for _ in range(1000):
        function(x)
    assert abs(sys.getrefcount(marker) - before) < 5
    gc.collect()
    count = len(gc.get_objects())
    for _ in range(100):
        function(x)
    assert abs(len(gc.get_objects()) - count) < 10


def test_tensor_or_array(x: Tensor) -> None:
    function = callee(EntrySpec((ArgSpec("value", F4, (4,)),), TENSOR_SPEC.outputs, Tensor))
    for value in (x, x._value):
        result = function(value)
        assert type(result) is Tensor
        np.testing.assert_array_equal(result._value, [1, 3, 5, 7])
    watched = wrap(x._value)
    watched._node = object()  # type: ignore[assignment]
    for other in (watched, 1, None, [x], np.zeros(4), np.zeros(8, np.float32)[::2], Tensor()):
        assert is_slow(function(other))


def nested_spec() -> ArgSpec:
    leaf = ArgSpec("value", F4, (4,))
    row = ArgSpec("list", items=(leaf, ArgSpec("object", value=None)))
    return ArgSpec("dict", items=(row, ArgSpec("tuple", items=(leaf,))), keys=("a", "b"))


def test_containers_of_tensors(x: Tensor) -> None:
    run = AXPB.format(a=1, b=2, status=0)
    function = callee(EntrySpec((nested_spec(),), TENSOR_SPEC.outputs, Tensor), run)
    y = wrap(np.ones(4, np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(function({"a": [y, None], "b": (x,)})._value, [1, 3, 5, 7])
    grown = {"c": 1, "a": [y, None]}
    del grown["c"]
    grown["b"] = (x._value,)
    np.testing.assert_array_equal(function(grown)._value, [1, 3, 5, 7])
    others: list[Any] = [
        {"b": (x,), "a": [y, None]},
        {"a": [y, None]},
        {"a": [y, None], "b": (x,), "c": 1},
        {"a": [y, None], "c": (x,)},
        {"a": (y, None), "b": (x,)},
        {"a": [y, 1], "b": (x,)},
        {"a": [y], "b": (x,)},
        {"a": [y, None], "b": [x]},
        {"a": [y, None], "b": (x, x)},
        {"a": [y, None], "b": (1,)},
        {},
        [],
        x,
    ]
    for other in others:
        assert is_slow(function(other)), other


def test_items_of_a_dict_are_counted_in_the_order_given(x: Tensor) -> None:
    leaf = ArgSpec("value", F4, (4,))
    table = ArgSpec("dict", items=(leaf, leaf), keys=("b", "a"), order=(1, 0))
    run = AXPB.format(a=0, b=2, status=0)
    function = callee(EntrySpec((table,), TENSOR_SPEC.outputs, Tensor), run)
    y = wrap(np.ones(4, np.float32))
    np.testing.assert_array_equal(function({"b": y, "a": x})._value, [1, 3, 5, 7])
    assert is_slow(function({"a": x, "b": y}))


@pytest.mark.parametrize("count", [3, 20])
def test_leaves_of_containers_are_told_apart(count: int, x: Tensor) -> None:
    leaves = [wrap(x._value) for _ in range(count)]
    row = ArgSpec("list", items=(ArgSpec("value", F4, (4,)),) * count)
    run = AXPB.format(a=0, b=count, status=0)
    spec = EntrySpec((row,), TENSOR_SPEC.outputs, Tensor, same=tuple(range(count)))
    function = callee(spec, run)
    assert type(function(leaves)) is Tensor
    assert is_slow(function([*leaves[:-1], leaves[0]]))
    assert is_slow(function([leaves[1], *leaves[1:]]))
    alike = EntrySpec((row,), TENSOR_SPEC.outputs, Tensor, same=(*range(count - 1), 0))
    function = callee(alike, run)
    assert type(function([*leaves[:-1], leaves[0]])) is Tensor
    assert is_slow(function(leaves))


def test_builder_makes_the_result(x: Tensor) -> None:
    outputs = (OutSpec("tensor", F4, (4,)), OutSpec("object", target=None))
    spec = EntrySpec(
        TENSOR_SPEC.args, outputs, Tensor, structure="call", builder=lambda a, b: {"a": a, "b": b}
    )
    result: Any = callee(spec)(x)
    np.testing.assert_array_equal(result["a"]._value, [1, 3, 5, 7])

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    spec = EntrySpec(TENSOR_SPEC.args, outputs, Tensor, structure="call", builder=fail)
    function = callee(spec)
    with pytest.raises(ZeroDivisionError):
        function(x)


def test_single_structure_needs_one_output() -> None:
    with pytest.raises(ValueError, match="'single' needs one output, got 0"):
        build_entry(EntrySpec((), (), Tensor))


def test_zero_dimensional_output(x: Tensor) -> None:
    run = """
    define i64 @run(ptr %data) {
      %place = getelementptr ptr, ptr %data, i64 1
      %to = load ptr, ptr %place
      store double 2.5, ptr %to
      ret i64 0
    }
    """
    result = callee(EntrySpec(TENSOR_SPEC.args, (OutSpec("tensor", F8, ()),), Tensor), run)(x)
    assert type(result._value) is np.ndarray
    assert result._value.shape == ()
    assert result._value == 2.5


NUMBERS = """
define i64 @run(ptr %data) {
  %float_place = load ptr, ptr %data
  %int_at = getelementptr ptr, ptr %data, i64 1
  %int_place = load ptr, ptr %int_at
  %f = load double, ptr %float_place
  %i = load i64, ptr %int_place
  %d = sitofp i64 %i to double
  %sum = fadd double %f, %d
  %out_at = getelementptr ptr, ptr %data, i64 2
  %out = load ptr, ptr %out_at
  store double %sum, ptr %out
  ret i64 0
}
"""


def test_python_numbers() -> None:
    arguments = (ArgSpec("float"), ArgSpec("int"))
    function = callee(EntrySpec(arguments, (OutSpec("array", F8, ()),), Tensor), NUMBERS)
    assert function(0.5, 7) == 7.5
    assert function(0.5, -1) == -0.5
    assert is_slow(function(0.5, 2**70))
    assert is_slow(function(0.5, True))
    assert is_slow(function(1, 1))


def test_constants() -> None:
    arguments = (ArgSpec("constant", value=-0.0), ArgSpec("constant", value=1000))
    outputs = (OutSpec("object", target="served"),)
    function = callee(
        EntrySpec(arguments, outputs, Tensor), "define i64 @run(ptr %d) {\nret i64 0\n}"
    )
    assert function(-0.0, 1000) == "served"
    assert function(-0.0, int("1000")) == "served"
    for other in ((0.0, 1000), (-0.0, 1001), (-0.0, 1000.0), (0, 1000), (-0.0, 2**70)):
        assert is_slow(function(*other))


def test_keywords(x: Tensor) -> None:
    y = wrap(np.ones(4, np.float32))
    leaf = ArgSpec("tensor", F4, (4,))
    spec = EntrySpec((leaf, leaf), TENSOR_SPEC.outputs, Tensor, keywords=("second",), order=(1, 0))
    function = callee(spec, AXPB.format(a=0, b=2, status=0))
    np.testing.assert_array_equal(function(y, second=x)._value, [1, 3, 5, 7])
    for args, kwargs in (((y, x), {}), ((y,), {"first": x}), ((), {"a": y, "second": x})):
        assert is_slow(function(*args, **kwargs))


def test_which_arguments_are_the_same_object(x: Tensor) -> None:
    arguments = (TENSOR_SPEC.args[0],) * 2
    run = AXPB.format(a=0, b=2, status=0)
    other = wrap(x._value)
    distinct = callee(EntrySpec(arguments, TENSOR_SPEC.outputs, Tensor, same=(0, 1)), run)
    assert is_slow(distinct(x, x))
    assert type(distinct(x, other)) is Tensor
    alike = callee(EntrySpec(arguments, TENSOR_SPEC.outputs, Tensor, same=(0, 0)), run)
    assert type(alike(x, x)) is Tensor
    assert is_slow(alike(x, other))


@pytest.mark.parametrize("long_running", [False, True])
def test_reference_counts_are_stable(long_running: bool, x: Tensor) -> None:
    target = wrap(np.zeros(4, np.float32))
    outputs = (
        OutSpec("tensor", F4, (4,)),
        OutSpec("store", F4, (4,), target),
        OutSpec("object", target=(marker := object())),
    )
    cell = wrap(np.ones(4, np.float32))
    captures = (CellSpec(cell, F4, (4,)),)
    spec = EntrySpec(
        TENSOR_SPEC.args, outputs, Tensor, captures, structure="tuple", long_running=long_running
    )
    function = callee(spec, AXPB.format(a=0, b=2, status=0))
    failing = callee(spec, AXPB.format(a=0, b=2, status=1))
    watched = (x, x._value, cell, cell._value, marker, target, Tensor, F4, None, function)

    def counts() -> list[int]:
        return [sys.getrefcount(item) for item in watched]

    function(x), failing(x), function(1)
    before = counts()
    for _ in range(100_000):
        function(x)
    for _ in range(20_000):
        failing(x), function(1)
    drift = [after - start for after, start in zip(counts(), before, strict=True)]
    assert max(map(abs, drift)) < 10


def test_memory_is_flat(x: Tensor) -> None:
    function = callee(TENSOR_SPEC)
    function(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        function(x)
    assert abs(len(gc.get_objects()) - before) < 10


def test_cycles_are_collected() -> None:
    function = callee(TENSOR_SPEC)
    function.kept = [function]
    function._slow = types.MethodType(slow_path, function)
    reference = weakref.ref(function)
    del function
    gc.collect()
    assert reference() is None


def test_an_entry_may_be_dropped_while_it_runs(x: Tensor) -> None:
    function = Callee(slow_path)

    def build(value: Tensor) -> Tensor:
        set_entry(function, None)
        gc.collect()
        return value

    spec = EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, structure="call", builder=build)
    set_entry(function, entry_for(spec))
    for _ in range(20):
        set_entry(function, entry_for(spec))
        np.testing.assert_array_equal(function(x)._value, [1, 3, 5, 7])


def test_slow_path_may_replace_the_entry(x: Tensor) -> None:
    def slow(*args: Any) -> Any:
        set_entry(function, entry_for(TENSOR_SPEC))
        gc.collect()
        return "slow"

    function = Callee(slow)
    set_entry(function, entry_for(TENSOR_SPEC))
    for _ in range(20):
        assert function(1) == "slow"
        assert type(function(x)) is Tensor


SPIN = """
define i64 @run(ptr %data) {
entry:
  %to_at = getelementptr ptr, ptr %data, i64 1
  %to = load ptr, ptr %to_at
  %from = load ptr, ptr %data
  br label %wait
wait:
  %n = phi i64 [ 0, %entry ], [ %next, %wait ]
  %next = add i64 %n, 1
  %seen = load volatile float, ptr %from
  %done = icmp eq i64 %next, 100000000
  br i1 %done, label %end, label %wait
end:
  store float %seen, ptr %to
  ret i64 0
}
"""


def test_input_stays_alive_while_the_gil_is_released(x: Tensor) -> None:
    spec = EntrySpec(TENSOR_SPEC.args, TENSOR_SPEC.outputs, Tensor, long_running=True)
    function = callee(spec, SPIN)
    array = x._value = np.full(4, 5, np.float32)
    at_rest = sys.getrefcount(array)
    alive = weakref.ref(array)
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(function(x)))
    thread.start()
    while thread.is_alive() and sys.getrefcount(array) == at_rest:
        pass
    del array
    x._value = np.zeros(4, np.float32)
    thread.join()
    assert results[0]._value[0] == 5
    assert alive() is None


def test_forbidden_native_entries_leave_the_python_path() -> None:
    code = """
from tapeline.compiler.codegen.native_call import (
    NativeCallable, NativeEntry, enable_native_calls, set_entry)
class Callee(NativeCallable):
    __slots__ = ("_entry", "_slow")
    def __call__(self, *args):
        return self._slow(*args)
assert not enable_native_calls(Callee)
function = Callee()
function._slow = lambda *args: ("slow", args)
set_entry(function, NativeEntry(1234, None))
assert function(5) == ("slow", (5,))
"""
    environment = {**os.environ, "TAPELINE_NATIVE_ENTRY": "0"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_types_need_no_llvmlite() -> None:
    code = "import sys, tapeline.compiler.codegen.entry, tapeline.compiler.codegen.native_call\n"
    code += "assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
