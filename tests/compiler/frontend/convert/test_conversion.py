"""Converted functions over Python values: exactly what the plain functions do."""

from __future__ import annotations

import bdb
import functools
import math
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.compiler.frontend.convert import programs

import tapeline as tl
import tapeline.compiler.frontend.convert.operators  # converted code is run with these
from tapeline.compiler.frontend.convert.calls import callee
from tapeline.compiler.frontend.convert.conversion import conversion_of
from tapeline.compiler.frontend.tracebacks import users_traceback


def converted(function: Any) -> Any:
    made = callee(function)
    assert made is not function
    return made


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("program", programs.ON_NUMBERS, ids=lambda f: f.__name__)
def test_converted_function_does_what_the_plain_one_does(program: Callable[..., Any]) -> None:
    conversion = conversion_of(program)  # type: ignore[arg-type]  # all are plain functions
    assert conversion.code is not None, conversion.reason
    for x in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 12, 27):
        expected = outcome(program, x) if program is not programs.collatz or x > 0 else None
        if expected is None:
            continue
        got = outcome(converted(program), x)
        if isinstance(expected, tuple) and expected and expected[0] is UnboundLocalError:
            assert issubclass(got[0], NameError)
        else:
            assert got == expected
            assert type(got) is type(expected)


def test_undefined_variable_is_a_name_error() -> None:
    with pytest.raises(NameError, match="'q'"):
        converted(programs.undefined)(-1)


def test_traceback_shows_the_users_lines_once() -> None:
    with pytest.raises(ValueError, match="here") as caught:
        converted(programs.boom)(1)
    frames = traceback.extract_tb(users_traceback(caught.value.__traceback__))
    assert [frame.name for frame in frames[1:]] == ["boom"]
    assert frames[-1].filename == programs.__file__
    assert frames[-1].line is not None
    assert "the line of the traceback" in frames[-1].line


def test_closure_cells_are_shared_both_ways() -> None:
    set_k, use, bump = programs.make_closures()
    new_use, new_bump = converted(use), converted(bump)
    assert new_use(1) == 2
    set_k(10)
    assert (new_use(1), new_bump(1), use(1), bump(1), new_use(0)) == (11, 11, 12, 12, 0)


def test_methods_super_and_private_names() -> None:
    b = programs.Derived()
    assert converted(b.method)(1) == b.method(1) == 1 + 1 + 9 + len("Derived")
    assert converted(programs.Derived.method)(b, 1) == b.method(1)
    assert converted(b.static)(1) == converted(b.of_class)(1) == 2
    assert converted(b)(-3) == 3
    assert converted(b)(1) == b(1)


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    assert [converted(function)(5) for function in programs.LAMBDAS] == [6, 4]


def test_modules_that_only_inner_functions_call_are_no_matter() -> None:
    def outer(x: Any) -> Any:
        def inner() -> Any:
            return math.floor(x) if x > 0 else [math.ceil(y) for y in (x, 2 * x)]

        return inner(), (lambda: math.sqrt(abs(x)))()

    conversion = conversion_of(outer)  # type: ignore[arg-type]  # a plain function
    assert conversion.code is not None, conversion.reason
    for x in (2.5, -2.5):
        assert converted(outer)(x) == outer(x)


def test_decorators_defaults_and_partials() -> None:
    for function in (programs.decorated, functools.partial(programs.decorated, y=5)):
        made = converted(function)
        for x in (1, -1):
            assert made(x) == function(x)
    assert converted(programs.decorated)(1, y=4, z=1) == 5


def test_converted_function_keeps_name_and_defaults() -> None:
    function = programs.collatz
    made = converted(function)
    assert made.__name__ == "collatz"
    assert made.__code__.co_qualname == function.__code__.co_qualname
    assert made.__defaults__ == function.__defaults__
    assert made.__globals__ is function.__globals__
    assert made.__code__.co_filename == function.__code__.co_filename
    assert made.__code__.co_firstlineno == function.__code__.co_firstlineno


def test_conversion_is_kept_by_code_object() -> None:
    def make(k: int) -> Callable[[int], int]:
        def add(x: int) -> int:
            return x + k if x > 0 else x

        return add

    first, second = make(1), make(2)
    assert converted(first).__code__ is converted(second).__code__
    assert (converted(first)(1), converted(second)(1)) == (2, 3)


def test_library_functions_are_called_as_they_are() -> None:
    import json
    import textwrap

    import numpy as np

    for function in (json.dumps, textwrap.dedent, np.stack, len, print, str.upper, "a".upper, dict):
        assert callee(function) is function


def test_function_without_source_stays_as_it_is() -> None:
    scope: dict[str, Any] = {}
    exec(compile("def f(x):\n    return 1 if x else 2\n", "<nowhere>", "exec"), scope)
    function = scope["f"]
    assert callee(function) is function
    assert "no source" in conversion_of(function).reason


def test_generator_function_stays_as_it_is() -> None:
    def numbers() -> Any:
        yield 1

    assert callee(numbers) is numbers


def test_edited_file_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x + 1 if x else x\n")
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    path.write_text("def f(x):\n    return x + 2 if x else x\n")
    assert callee(scope["f"]) is scope["f"]
    assert "no longer" in conversion_of(scope["f"]).reason


class _Stops(bdb.Bdb):
    def __init__(self) -> None:
        super().__init__()
        self.hits: list[tuple[int, Any]] = []

    def user_line(self, frame: FrameType) -> None:
        if self.break_here(frame):
            self.hits.append((frame.f_lineno, frame.f_locals.get("local")))
        self.set_continue()


def _line(text: str) -> int:
    with open(programs.__file__) as file:
        return next(k for k, line in enumerate(file, 1) if text in line)


def test_breakpoint_in_a_branch_is_hit_with_its_locals() -> None:
    debugger = _Stops()
    line = _line("# a breakpoint goes here")
    debugger.set_break(programs.__file__, line)
    before = sys.gettrace()
    try:
        result = debugger.runcall(converted(programs.for_debugger), 1)
    finally:
        sys.settrace(before)
    assert result == 43
    assert debugger.hits == [(line, 42)]


def test_exactly_the_lines_that_run_are_traced() -> None:
    def lines_of(function: Callable[..., Any]) -> set[int]:
        seen: set[int] = set()

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if frame.f_code.co_filename != programs.__file__:
                return None
            if event == "line":
                seen.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function(7)
        finally:
            sys.settrace(before)
        return seen

    for program in (programs.early, programs.nested, programs.while_in_while, programs.augmented):
        new = converted(program)
        first = program.__code__.co_firstlineno
        assert lines_of(new) - {first} == lines_of(program)


def test_nodes_name_the_lines_of_a_decorated_function() -> None:
    @tl.function
    def doubled(x: tl.Tensor) -> tl.Tensor:
        y = x * 2
        return tl.tanh(y)

    graph = doubled.get_concrete_function(tl.TensorSpec([2], "float64")).graph
    first = doubled.python_function.__code__.co_firstlineno
    lines = {
        op.name: location.line
        for op, location in zip(graph.ops, graph.locations, strict=True)
        if location is not None
    }
    assert lines["multiply"] == first + 2
    assert lines["tanh"] == first + 3
