"""`match` statements, and `finally` clauses that jump: over numbers and over tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

import tapeline as tl
from tapeline.compiler.frontend.convert.operators import Operators

NUMBERS = (-1, 0, 1, 2, 3, 4, 5, 6, 7, 12)


@dataclass
class Point:
    x: Any
    y: Any


class Limits:
    LOW = 2
    NUMBERS = 3


def values(n: Any) -> Any:
    match n:
        case 0:
            return 10
        case 1 | 3:
            r = 20
        case k if k > 5:
            r = k * 2
        case Limits.LOW:
            r = 1
        case _:
            r = -1
    return r


def sequences(n: Any) -> Any:
    y = 100
    t = 0
    for i in range(6):
        match (n, i):
            case (0, y):
                t = t + y
            case (1, 3):
                continue
            case (2, z) if z > n:
                t = t + z * 2
                break
            case (_, (4 | 5)) | (7, _):
                t = t + 1000
            case (m, *rest):
                t = t + m + rest[0]
    return t + y


def classes(n: Any) -> Any:
    match Point(n, n + 1):
        case Point(x=0, y=q):
            return q
        case Point(3, y) | Point(y, 6):
            return y * 7
        case Point() as p:
            return p.x + p.y
    return None


def mappings(n: Any) -> Any:
    match {"op": "add", "v": n, "w": 3}:
        case {"op": "mul", **rest}:
            return 0
        case {"op": "add", "v": 4, "w": w}:
            return w
        case {"v": v, **rest}:
            return v + rest["w"]
    return None


def nested(n: Any) -> Any:
    t = 0
    while n > 0:
        match n % 3, n % 2:
            case 0, 0:
                n = n // 2
            case 1, parity:
                match parity:
                    case 0:
                        t = t + 1
                    case _:
                        t = t + 10
                n = n - 1
            case _:
                n = n - 1
    return t


def falls_through(n: Any) -> Any:
    y = n
    match n:
        case 1:
            y = 5
        case 2 if y > 7:
            y = 6
    return y


def guard_fails_in_an_alternative(n: Any) -> Any:
    pair: Any = (n, 2)
    match pair:
        case (k, 2) | (2, k) if k > 3:
            return k
        case _:
            return -1


def continues_in_finally(x: Any) -> Any:
    t = k = 0
    while True:
        k = k + 1
        try:
            if k > 8:
                return t
            t = t + k
            if t > x:
                continue
        finally:
            if k > 5 and x < 6:
                break  # noqa: B012  # what is tested
        t = t + 100
    return t - 1


def break_swallows(x: Any) -> Any:
    t = 0
    for k in range(7):
        try:
            t = t + k
            if k == x:
                return 77
        finally:
            if t > 8:
                break  # noqa: B012  # what is tested
        t = t + 1
    else:
        t = t + 500
    return t


PROGRAMS = [
    values, sequences, classes, mappings, nested, falls_through, guard_fails_in_an_alternative,
    continues_in_finally, break_swallows,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_converted_program_does_what_the_plain_one_does(program: Callable[..., Any]) -> None:
    converted = Operators.call(program)
    assert converted is not program
    assert [converted(n) for n in NUMBERS] == [program(n) for n in NUMBERS]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_tensors_decide_as_numbers_do(program: Callable[..., Any]) -> None:
    compiled = tl.function(program)
    assert [int(compiled(tl.asarray(n))) for n in NUMBERS] == [program(n) for n in NUMBERS]
    assert compiled.trace_count == 1


def test_jump_in_finally_swallows_the_exception() -> None:
    def f(x: Any) -> Any:
        t = 0
        for k in range(6):
            try:
                t = t + 1
                if k == 3:
                    t = t + 1 // x
            finally:
                if k > 2:
                    continue  # noqa: B012  # what is tested
            t = t + 10
        return t

    converted = Operators.call(f)
    assert converted is not f
    assert (converted(0), converted(1)) == (f(0), f(1)) == (36, 37)


def test_name_of_a_pattern_that_fails_keeps_its_value() -> None:
    def f(n: Any) -> Any:
        y = 5
        match (n, 9):
            case (0, y):
                pass
        return y

    compiled = tl.function(f)
    assert (int(compiled(tl.asarray(0))), int(compiled(tl.asarray(1)))) == (9, 5)


def test_gradient_through_a_match() -> None:
    @tl.function
    def f(kind: Any, x: Any) -> Any:
        match kind:
            case 0:
                return x * x
            case 1:
                return tl.sin(x)
        return x * 3

    slopes = [float(tl.grad(f, argnums=1)(tl.asarray(k), tl.asarray(2.0))) for k in range(3)]
    assert slopes == pytest.approx([4.0, -0.4161468365471424, 3.0])


def test_exactly_the_lines_that_run_are_traced() -> None:
    def lines_of(function: Callable[..., Any]) -> set[int]:
        seen: set[int] = set()

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if frame.f_code.co_filename == __file__ and event == "line":
                seen.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function(2)
        finally:
            sys.settrace(before)
        return seen - {values.__code__.co_firstlineno, 0}

    assert lines_of(Operators.call(values)) - lines_of(values) == set()
    assert lines_of(values) - lines_of(Operators.call(values)) == set()


def test_attribute_named_as_a_global_is_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tl.function(lambda x: Limits().NUMBERS + x)
    assert compiled(tl.asarray(1)).item() == 4
    monkeypatch.setitem(globals(), "NUMBERS", ())
    assert compiled(tl.asarray(1)).item() == 4
    assert compiled.trace_count == 1


def test_what_a_pattern_catches_goes_round_no_loop() -> None:
    def f(x: Any) -> Any:
        t = x * 0
        for i in tl.range(70):
            k = 0
            while k < i % 3:
                k = k + 1
                match (k, i % 2):
                    case (m, 0) if m > 1:
                        t = t + m
                    case (_, 1):
                        t = t + x
        return t

    assert tl.function(f)(tl.asarray(2)).item() == f(2)
