"""`:=` in operands that are computed only if they matter, and classes in functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapeline as tl
from tapeline.compiler.frontend.convert.operators import Operators

NUMBERS = (-1, 0, 1, 2, 3, 5, 9, 30)


def in_and(x: Any) -> Any:
    if (y := x * 2) > 3 and (z := y + 1) < 20:
        return z
    return y


def in_and_with_else(x: Any) -> Any:
    z = 100
    if x > 1 and (z := x + 1) > 3 and z < 9:
        r = z * 2
    elif x == 1:
        r = -1
    else:
        r = z
    return r + z


def in_or(x: Any) -> Any:
    z = 0
    r = 0
    if x > 5 or (z := x * 3) > 6:
        r = 1
    return r * 1000 + z


def in_while(x: Any) -> Any:
    n = t = 0
    while x > 0 and (t := t + x) < 40:
        x = x - 1
        if x == 7:
            continue
        n = n + 1
    return n * 100 + t


def in_loop_with_jumps(x: Any) -> Any:
    for k in range(6):
        if k > 1 and (y := k * x) > 8:
            return y
        elif k == 4 or (y := x) > 8:
            break
    return x + k


PROGRAMS = [in_and, in_and_with_else, in_or, in_while, in_loop_with_jumps]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program_means_the_same(program: Callable[..., Any]) -> None:
    converted = Operators.call(program)
    assert converted is not program
    assert [converted(n) for n in NUMBERS] == [program(n) for n in NUMBERS]
    compiled = tl.function(program)
    assert [int(compiled(tl.asarray(n))) for n in NUMBERS] == [program(n) for n in NUMBERS]


def test_class_in_a_function_keeps_its_name() -> None:
    def f(x: Any) -> Any:
        class Box:
            n = 0
            value: Any = None

            def get(self) -> Any:
                return self.value

        if x > 0:

            class Other:
                pass

            names.append(Other.__qualname__)
        box: Any = Box()
        box.value = x
        while box.value < 100:
            box.value = box.value * 3
            box.n += 1
        names.append(Box.__qualname__)
        names.append(Box.get.__qualname__)
        return box.get() + box.n

    names: list[str] = []
    assert int(f(3)) == 247
    plain, names[:] = list(names), []
    assert int(Operators.call(f)(3)) == 247
    assert names == plain
    names.clear()

    @tl.function
    def g(x: Any) -> Any:
        class Box:
            pass

        box: Any = Box()
        box.value = x
        while box.value < 100:
            box.value = box.value * 3
        return box.value

    assert int(g(tl.asarray(3))) == 243
