from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading

import pytest

from tapeline.compiler.codegen.engine import CompiledModule, EmissionError, get_engine

ADD = """
define i64 @add(i64 %a, i64 %b) {
  %sum = add i64 %a, %b
  ret i64 %sum
}
"""

READ_CELL = """
@cell = external global i64
define i64 @read() {
  %value = load i64, ptr @cell
  ret i64 %value
}
"""


def as_function(module: CompiledModule, name: str, n_args: int) -> ctypes._CFunctionType:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n_args)
    return prototype(module.address(name))


def test_compiled_function_runs() -> None:
    module = get_engine().compile_module(ADD, {}, ["add"])
    assert as_function(module, "add", 2)(20, 22) == 42
    assert module.text == ADD
    assert "add" in module.asm()


def test_equal_names_in_two_libraries_bind_to_their_own_symbols() -> None:
    cells = [ctypes.c_int64(5), ctypes.c_int64(7)]
    modules = [
        get_engine().compile_module(READ_CELL, {"cell": ctypes.addressof(cell)}, ["read"])
        for cell in cells
    ]
    assert [as_function(module, "read", 0)() for module in modules] == [5, 7]


def test_object_bytes_link_again_to_other_addresses() -> None:
    first, second = ctypes.c_int64(1), ctypes.c_int64(2)
    engine = get_engine()
    module = engine.compile_module(READ_CELL, {"cell": ctypes.addressof(first)}, ["read"])
    again = engine.link_object(module.object_bytes, {"cell": ctypes.addressof(second)}, ["read"])
    assert as_function(again, "read", 0)() == 2


def test_process_symbols_resolve_by_name() -> None:
    text = """
    declare i64 @labs(i64)
    define i64 @absolute(i64 %x) {
      %y = call i64 @labs(i64 %x)
      ret i64 %y
    }
    """
    module = get_engine().compile_module(text, {}, ["absolute"])
    assert as_function(module, "absolute", 1)(-3) == 3


def test_parse_error_shows_the_line() -> None:
    broken = ADD.replace("add i64 %a, %b", "add i64 %a, %missing")
    with pytest.raises(EmissionError, match=r"line 3: use of undefined value[\s\S]*%missing"):
        get_engine().compile_module(broken, {}, ["add"])


def test_verifier_error_is_reported() -> None:
    broken = "define i64 @f() {\n  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n  ret i64 %y\n}"
    with pytest.raises(EmissionError, match="invalid code"):
        get_engine().compile_module(broken, {}, ["f"])


def test_unknown_symbol_is_reported() -> None:
    text = "declare i64 @no_such_symbol_here()\ndefine i64 @f() {\n"
    text += "  %x = call i64 @no_such_symbol_here()\n  ret i64 %x\n}"
    with pytest.raises(EmissionError, match="no_such_symbol_here"):
        get_engine().compile_module(text, {}, ["f"])


def test_many_modules_come_and_go() -> None:
    for _ in range(50):
        module = get_engine().compile_module(ADD, {}, ["add"])
        assert as_function(module, "add", 2)(1, 2) == 3
        del module
    gc.collect()


def test_threads_share_the_engine() -> None:
    results: list[int] = []

    def work(number: int) -> None:
        module = get_engine().compile_module(ADD, {}, ["add"])
        results.append(as_function(module, "add", 2)(number, 1))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(1, 9))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_engine_works_in_a_forked_child() -> None:
    code = f"""
import ctypes, os, sys
from tapeline.compiler.codegen.engine import get_engine
text = {ADD!r}
call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
before = get_engine().compile_module(text, {{}}, ["add"])
pid = os.fork()
after = get_engine().compile_module(text, {{}}, ["add"])
ok = call(before.address("add"))(1, 2) == call(after.address("add"))(1, 2) == 3
if pid == 0:
    os._exit(0 if ok else 1)
sys.exit(os.waitpid(pid, 0)[1] or not ok)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_threads_collect_garbage_while_another_one_links() -> None:
    code = f"""
import gc, sys, threading
from tapeline.compiler.codegen.engine import get_engine
sys.setswitchinterval(1e-6)
engine = get_engine()
def work():
    for _ in range(25):
        cycle = [engine.compile_module({ADD!r}, {{}}, ["add"])]
        cycle.append(cycle)
        del cycle
        gc.collect()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gc.collect()
engine.compile_module({ADD!r}, {{}}, ["add"])
assert len(engine._libraries) <= 1, engine._libraries
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
