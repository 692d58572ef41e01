"""Arrays are written in place only where nobody looks at them as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

# Parts of tensors are meant as copies here.
pytestmark = pytest.mark.filterwarnings("ignore::tapeline.errors.ViewWriteWarning")

Function = Callable[..., Any]


def text_of(function: Function, *args: Any) -> str:
    """The LLVM text of a compiled function."""
    concrete = tl.function(function).get_concrete_function(*args)
    return concrete.differentiable.compiled.executable().module.text


def loop(n: int, body: Function, *state: Any) -> Any:
    """A counted loop; `body(i, *state)` gives the next state."""
    start = (tl.asarray(0), *state)
    return tl.while_loop(lambda i, *_: i < n, lambda i, *s: (i + 1, *body(i, *s)), start)[1:]


def sorted_by_swaps(x: Any) -> Any:
    def outer(i: Any, x: Any) -> Any:
        def inner(j: Any, x: Any) -> Any:
            def swap(x: Any) -> Any:
                a, b = x[j], x[j + 1]
                x[j], x[j + 1] = b, a
                return x

            return [tl.cond(x[j] > x[j + 1], swap, lambda x: x, [x])]

        return loop(x.shape[0] - 1, inner, x)

    return loop(x.shape[0], outer, x)[0]


def test_choice_in_nested_loops_swaps_in_place() -> None:
    x = np.random.default_rng(0).standard_normal(9)
    found = tl.function(sorted_by_swaps)(tl.asarray(x))
    np.testing.assert_array_equal(found.numpy(), np.sort(x))
    text = text_of(sorted_by_swaps, tl.asarray(x))
    control = text[text.index("@control0") : text.index("define i64 @run")]
    assert control.count("memcpy") == 1
    assert "call void @k" not in control


def writer_in_one_branch(x: Any) -> Any:
    def turn(i: Any, x: Any) -> Any:
        def write(x: Any) -> Any:
            x[i] = x[i] + 10
            return x

        return [tl.cond(i % 2 == 0, write, lambda x: x, [x])]

    return loop(4, turn, x)[0]


def old_value_kept(x: Any) -> Any:
    """The branch writes, but the array as it was is still wanted."""

    def turn(i: Any, x: Any, total: Any) -> Any:
        def write(x: Any) -> Any:
            x[i] = 100.0
            return x

        y = tl.cond(x[i] > 0, write, lambda x: x, [x])
        return y, total + x[i] + y[i]

    return loop(4, turn, x, tl.asarray(0.0))


def old_array_is_returned(x: Any) -> Any:
    def turn(i: Any, x: Any, before: Any) -> Any:
        y = x * 1
        y[i] = -1.0
        return y, x

    return loop(3, turn, x, x)


def two_versions(x: Any) -> Any:
    """Two arrays come of one: only one can have its buffer."""

    def turn(i: Any, x: Any, y: Any) -> Any:
        a, b = tl.asarray(x) * 1, x
        a[i] = 5.0
        c = tl.cond(i > 1, lambda: b + 1, lambda: b)
        c[0] = c[0] + a[i]
        return a, c

    return loop(3, turn, x, x)


def rows_before_writes(x: Any) -> Any:
    def turn(i: Any, x: Any) -> Any:
        first = x[i]
        x[i, 0] = 7.0
        x[i, 1] = first.sum() + x[i].sum()
        return [x]

    return loop(2, turn, x.reshape((2, 2)))[0]


def fresh_array_in_a_body(x: Any) -> Any:
    def turn(i: Any, total: Any) -> Any:
        y = x * (i + 1.0)
        (y,) = loop(3, lambda j, y: [set_element(y, j, y[j] + j)], y)
        return [total + y.sum()]

    return loop(3, turn, tl.asarray(0.0))[0]


def set_element(y: Any, j: Any, value: Any) -> Any:
    y[j] = value
    return y


def inner_loop_of_a_captured_array(x: Any) -> Any:
    """The inner loop begins with the outer state, which the outer body still uses."""

    def turn(i: Any, x: Any) -> Any:
        (y,) = loop(3, lambda j, y: [set_element(y, j, y[j] * 2)], x)
        return [x + y]

    return loop(2, turn, x)[0]


def rows_written(x: Any) -> Any:
    """A row per turn is computed from the one before, read again, and written over."""

    def turn(i: Any, path: Any, s: Any) -> Any:
        s = s * 0.5 + path[i - 1].sum()
        path[i] = s
        path[i, 0] = path[i, 1] + i
        old = path[i]
        path[i] = 0.25
        path[i - 1] = old
        return path, s

    return loop(5, turn, tl.zeros((6, 4)), x)


def fixed_elements(x: Any) -> Any:
    def turn(i: Any, x: Any, y: Any) -> Any:
        x[0] = x[1] + i
        y[1, 0] = x[0] * 2
        x[-1] = y[1, 0] + y[0, 1]
        return x, y

    return loop(3, turn, x, x.reshape((2, 2)))


def fixed_element_is_handed_on(x: Any) -> Any:
    """An element at a fixed place is carried on, and then written over."""

    def turn(i: Any, x: Any, last: Any) -> Any:
        first = x[0]
        return set_element(x, i * 0, first + last + 1), first

    return loop(3, turn, x, tl.asarray(0.5))


PROGRAMS = [
    rows_written, fixed_elements, fixed_element_is_handed_on, sorted_by_swaps, writer_in_one_branch,
    old_value_kept,
    old_array_is_returned, two_versions,
    rows_before_writes, fresh_array_in_a_body, inner_loop_of_a_captured_array,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_program_gives_what_the_eager_one_gives(program: Function) -> None:
    x = np.array([3.0, -1.0, 4.0, 2.0])
    expected, found = program(tl.asarray(x)), tl.function(program)(tl.asarray(x))
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def random_program(seed: int) -> Function:
    """A program of nested loops and choices that reads and writes elements of two arrays."""
    rng = np.random.default_rng(seed)

    def block(depth: int) -> Function:
        kinds = [str(k) for k in rng.choice(["set", "mix", "if", "for", "swap", "scale"], size=3)]
        numbers = [int(n) for n in rng.integers(0, 4, size=6)]
        inner = [block(depth + 1) if k in ("if", "for") and depth < 2 else None for k in kinds]

        def run(i: Any, x: Any, y: Any) -> Any:
            for kind, body, n in zip(kinds, inner, numbers, strict=False):
                if kind == "set":
                    x[(i + n) % 4] = y[i % 4] + n
                elif kind == "mix":
                    old = x[n]
                    x = set_element(x, i % 4, old + y[n])
                    y = set_element(y, n, old)
                elif kind == "scale":
                    y = y * 0.5 + x[n]
                elif kind == "swap":
                    x, y = y, x
                elif body is not None and kind == "if":
                    x, y = tl.cond(
                        x[n] > y[i % 4],
                        lambda x, y, b=body: b(i, x, y),
                        lambda x, y: (x, y),
                        [x, y],
                    )
                elif body is not None:
                    x, y = loop(3, lambda j, x, y, b=body: b(j, x, y), x, y)
            return x, y

        return run

    body = block(0)
    return lambda x, y: loop(3, body, x * 1, y * 1)


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_agree_with_eager(seed: int) -> None:
    program = random_program(seed)
    x, y = tl.asarray([1.0, 2.0, -3.0, 0.5]), tl.asarray([0.0, 1.5, 2.5, -1.0])
    for a, b in zip(program(x, y), tl.function(program)(x, y), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
