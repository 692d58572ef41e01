"""Control flow over tensors in traced functions: as eagerly, or an error that says why not."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.frontend.convert import programs

import tapeline as tl
from tapeline.runtime.errors import (
    ArgumentError,
    SymbolicTensorError,
    TracingError,
    UndefinedVariableError,
)


def same(function: Callable[..., Any], *arguments: Any) -> None:
    """Checks that the function gives the same eagerly and compiled, for each argument."""
    compiled = tl.function(function)
    for argument in arguments:
        args = argument if isinstance(argument, tuple) else (argument,)
        eager = function(*[tl.asarray(x) for x in args])
        got = compiled(*[tl.asarray(x) for x in args])
        expected, found = tl.asarray(eager).numpy(), tl.asarray(got).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("program", programs.ON_TENSORS, ids=lambda f: f.__name__)
def test_program_over_a_tensor(program: Callable[..., Any]) -> None:
    compiled = tl.function(program)
    for x in (1, 2, 3, 4, 5, 6, 7, 12, 27):
        assert int(compiled(tl.asarray(x))) == program(x)
    assert compiled.trace_count == 1


def test_numbers_of_a_loop_promote_as_python_numbers() -> None:
    def f(x: Any) -> Any:
        k = 0
        step = 1
        while x.sum() > k:
            k += step
        return x * k + step / 2

    same(f, *(np.array([1, 2], dtype) for dtype in ("float32", "float64", "int32")))


def test_total_begins_as_a_number_and_becomes_an_array() -> None:
    def f(x: Any) -> Any:
        total = 0
        for row in x:
            total = total + row
        return total

    same(f, np.arange(6.0).reshape(3, 2), np.ones((100, 2), np.float32))


def test_last_item_and_index_are_there_after_the_loop() -> None:
    def f(x: Any) -> Any:
        for i, row in enumerate(x):  # noqa: B007  # used after the loop
            y = row * 2
        return y + i

    same(f, np.arange(80.0))


def test_long_range_becomes_one_loop() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(10_000):
            x = x * 0.5 + i
        return x

    compiled = tl.function(f)
    x = tl.asarray([1.0, 2.0])
    np.testing.assert_allclose(compiled(x, 0).numpy(), f(x, 0).numpy())
    assert len(compiled.concrete_functions[0].graph) < 40


def test_long_range_over_python_values_stays_python() -> None:
    def f(x: Any) -> Any:
        table = {}
        total = 0
        for i in range(1000):
            table[i] = i * i
            total += i
        return x * table[7] + total

    same(f, 2.0)


def test_long_range_with_a_python_index_is_unrolled() -> None:
    weights = [float(k) for k in range(100)]

    def f(x: Any) -> Any:
        for i in range(100):
            x = x + weights[i]
        return x

    same(f, 2.0)


def test_very_long_range_that_must_be_unrolled_warns() -> None:
    weights = [float(k) for k in range(1001)]

    @tl.function
    def f(x: Any) -> Any:
        for i in range(1001):
            x = x + weights[i]
        return x

    with pytest.warns(UserWarning, match="unrolled 1001 times, since it cannot be one loop"):
        assert float(f(tl.asarray(0.0))) == sum(weights)


def test_range_of_a_tensor() -> None:
    def f(n: Any) -> Any:
        total = 0
        for i in range(n):
            total = total + i * i
        for i in range(n, 0, -2):
            total = total * 2 + i
        return total

    compiled = tl.function(f)
    for n in (0, 1, 5, 6):
        assert int(compiled(tl.asarray(n))) == f(n)
    assert compiled.trace_count == 1


def test_explicit_range_is_a_loop_and_means_the_same_eagerly() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x
        for i in tl.range(n):
            y = y * x + i
        for _ in tl.range(1, 7, 2):
            y = y * 0.5
        return y

    compiled = tl.function(f)
    for n in (0, 3):
        got = compiled(tl.asarray(1.5), tl.asarray(n))
        assert float(got) == float(f(tl.asarray(1.5), n))
    names = [op.name for op in compiled.concrete_functions[0].graph.ops]
    assert "while_loop" in names
    assert "scan" in names


def test_zip_enumerate_reversed_and_map_over_tensors() -> None:
    def f(x: Any, y: Any) -> Any:
        total = 0.0
        for i, (a, b) in enumerate(zip(x, y, strict=False), 3):
            total = total * 0.9 + i * a - b
        for a in reversed(x):
            total = total * 0.5 + a
        for a in map(lambda t: t * t if t > 0 else -t, x):  # noqa: C417  # map is tested
            total = total + a
        return total

    rng = np.random.default_rng(0)
    compiled = tl.function(f)
    for size in (3, 70):
        x, y = rng.standard_normal((2, size))
        np.testing.assert_allclose(
            float(compiled(tl.asarray(x), tl.asarray(y))), float(f(x, y)), rtol=1e-12
        )


def test_builtins_over_tensors() -> None:
    def f(x: Any) -> Any:
        a = max(x[0], x[1], 2.0) + min(x[0], x[1])
        b = abs(x[2]) + sum(x) + len(x)
        c = float(int(x[0])) + (1.0 if bool(x[1]) else 0.0) + round(x[2])
        d = 3.0 if any([x[0] > 100, x[1] > 1]) and all(x > -100) else 0.0
        return a * 1000 + b * 100 + c * 10 + d

    same(f, np.array([1.5, 2.5, -3.25]), np.array([4.5, -2.5, 3.75]))


def test_and_or_not_stop_at_the_operand_that_decides() -> None:
    def f(x: Any, i: Any) -> Any:
        inside = i >= 0 and i < 4 and x[i] > 1
        outside = not inside or x[0] > 5
        return tl.astype(inside, "int64") * 2 + tl.astype(outside, "int64")

    compiled = tl.function(f)
    x = np.array([0.0, 2.0, 3.0, 0.5])
    for i in (-1, 0, 1, 3, 4):
        inside = 0 <= i < 4 and x[i] > 1
        expected = 2 * inside + (not inside or x[0] > 5)
        assert int(compiled(tl.asarray(x), tl.asarray(i))) == expected


def test_only_the_branch_that_is_taken_runs(capsys: pytest.CaptureFixture[str]) -> None:
    @tl.function
    def f(x: Any) -> Any:
        if x > 0:
            print("positive", x)
            x = x + 1
        else:
            print("not positive", {"x": [x, 1]})
        return x

    f(tl.asarray(1))
    f(tl.asarray(-1))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "positive tl.Tensor(1, shape=(), dtype=int64)",
        "not positive {'x': [tl.Tensor(-1, shape=(), dtype=int64), 1]}",
    ]


def test_print_in_a_loop_keeps_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    @tl.function
    def f(n: Any) -> Any:
        for i in range(n):
            print(i, n)
        return n

    f(tl.asarray(3))
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["0", "1", "2"]


def test_assert_is_checked_when_the_function_runs() -> None:
    @tl.function
    def f(x: Any) -> Any:
        assert x.sum() > 0, "must be positive"
        return x * 2

    assert float(f(tl.asarray([1.0, 2.0]))[0]) == 2.0
    with pytest.raises(AssertionError, match="must be positive"):
        f(tl.asarray([1.0, -2.0]))


def test_raise_in_a_branch_raises_when_the_branch_runs() -> None:
    @tl.function
    def f(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return tl.sqrt(x)

    assert float(f(tl.asarray(4.0))) == 2.0
    with pytest.raises(ValueError, match="negative"):
        f(tl.asarray(-4.0))
    assert float(f(tl.asarray(9.0))) == 3.0


def test_exception_that_a_branch_catches_itself_stays_python() -> None:
    def fail() -> Any:
        raise ValueError("caught")

    @tl.function
    def f(x: Any) -> Any:
        if x > 0:
            return x * 2
        try:
            return fail()
        except ValueError:
            pass
        return x - 1

    assert [float(f(tl.asarray(x))) for x in (3.0, -3.0)] == [6.0, -4.0]


def test_exception_of_a_branch_comes_too_late_for_a_handler_around_it() -> None:
    @tl.function
    def caught(x: Any) -> Any:
        try:
            while x < 10:
                x = x + 3
                if x > 8:
                    raise StopIteration
        except (KeyError, StopIteration):
            x = -x
        return x

    with pytest.raises(TracingError, match="StopIteration is raised where a tensor decides"):
        caught(tl.asarray(1.0))

    @tl.function
    def passes(x: Any) -> Any:
        try:
            if x > 8:
                raise ValueError("large")
            try:
                raise KeyError("always")
            except KeyError:
                x = x + 1
        except KeyError:
            x = -x
        return x

    assert passes(tl.asarray(1.0)).item() == 2.0
    with pytest.raises(ValueError, match="large"):
        passes(tl.asarray(9.0))


def test_raise_in_a_loop_raises_in_its_round() -> None:
    @tl.function
    def f(x: Any) -> Any:
        for i in range(x):
            if i == 5:
                raise LookupError("five")
        return x

    assert int(f(tl.asarray(5))) == 5
    with pytest.raises(LookupError, match="five"):
        f(tl.asarray(6))


def test_variables_and_tensors_of_outside_change_in_branches_and_loops() -> None:
    v = tl.Variable(1.0)
    table = tl.asarray(np.zeros(4))

    @tl.function
    def f(x: Any) -> Any:
        i = 0
        while i < x:
            table[i] = v + i
            v.assign_add(2.0)
            i += 1
        if x > 2:
            v.assign(v * 10)
            table[0] = 100.0
        return v + 0

    assert float(f(tl.asarray(2))) == 5.0
    np.testing.assert_array_equal(table.numpy(), [1.0, 4.0, 0.0, 0.0])
    assert float(f(tl.asarray(3))) == 110.0
    np.testing.assert_array_equal(table.numpy(), [100.0, 8.0, 11.0, 0.0])
    assert float(v.read_value()) == 110.0


def test_attributes_and_items_change_in_branches_and_loops() -> None:
    class Box:
        def __init__(self) -> None:
            self.total: Any = 0.0
            self.items = [0.0, 1.0]
            self.table = {"k": 2.0}

    @tl.function
    def f(x: Any) -> Any:
        box = Box()
        for i in range(x):
            box.total = box.total + i
            box.items[1] = box.items[1] * 2
        if x > 3:
            box.table["k"] = box.total * 100
        else:
            box.items[0] = box.total
        return box.total, box.items[0], box.items[1], box.table["k"]

    assert [float(r) for r in f(tl.asarray(3))] == [3.0, 3.0, 8.0, 2.0]
    assert [float(r) for r in f(tl.asarray(4))] == [6.0, 0.0, 16.0, 600.0]


def test_items_that_a_loop_adds_are_there_after_it() -> None:
    @tl.function
    def f(x: Any) -> Any:
        table = {}
        while x > 0:
            table["last"] = x * 2
            x = x - 1
        return table["last"]

    assert int(f(tl.asarray(3))) == 2
    with pytest.raises(UnboundLocalError, match="ran no round"):
        f(tl.asarray(0))


def test_called_functions_change_closures_and_globals_in_branches_and_loops() -> None:
    def f(x: Any) -> Any:
        n = 0
        m = 0

        def count() -> None:
            nonlocal n
            n += 1

        while x > 0:
            count()
            x = x - 1
        if n > 2:
            m = 5
            count()
        return n * 10 + m

    compiled = tl.function(f)
    for x in (0, 2, 3):
        assert int(compiled(tl.asarray(x))) == f(x)
    programs.COUNTER = 0

    def g(x: Any) -> Any:
        for _ in range(x):
            programs.count_up()
        return programs.COUNTER + x * 0

    assert int(tl.function(g)(tl.asarray(4))) == 4
    programs.COUNTER = 0


def test_and_or_as_a_choice_between_numbers() -> None:
    def f(x: Any) -> Any:
        return (x > 0 and 5) or 7

    compiled = tl.function(f)
    assert int(compiled(tl.asarray(1.0))) == 5
    assert int(compiled(tl.asarray(-1.0))) == 7


def test_in_place_update_in_a_loop_is_seen_under_both_names() -> None:
    def f(x: Any) -> Any:
        total = x * 0
        other = total
        for row in range(5):
            total += row
        return other + total

    same(f, np.ones(3))


def test_structures_go_round_a_loop() -> None:
    def f(x: Any) -> Any:
        state = {"a": (x, 1), "b": [x * 2]}
        k = 0
        while k < x.sum():
            state = {"a": (state["a"][0] + 1, state["a"][1] + 1), "b": [state["b"][0] * 0.5]}
            k += 1
        return state["a"][0] + state["a"][1] + state["b"][0]

    same(f, np.array([1.0, 2.5]))


def test_functions_called_are_converted_too() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 3.0

        def __call__(self, x: Any) -> Any:
            return self.step(x) if x > 0 else x

        def step(self, x: Any) -> Any:
            return clipped(x * self.scale)

    def clipped(x: Any) -> Any:
        if x > 5:
            return x * 0 + 5
        return x

    model = Model()

    def f(x: Any) -> Any:
        return model(x) + (lambda t: t if t > 1 else -t)(x)

    same(f, 1.0, 7.0, -2.0)


def test_constructors_are_converted() -> None:
    class Clipped:
        def __init__(self, x: Any, limit: float = 5.0) -> None:
            self.value = x
            if x > limit:
                self.value = x * 0 + limit

    class Doubled(Clipped):
        def __init__(self, x: Any) -> None:
            super().__init__(x * 2, limit=8.0)

    def f(x: Any) -> Any:
        return Clipped(x).value + Doubled(x).value

    same(f, 1.0, 7.0)


def test_gradient_through_a_branch_and_a_counted_loop() -> None:
    @tl.function
    def f(x: Any) -> Any:
        y = x
        for i in range(100):
            y = tl.sin(y) * x if i % 2 == 0 else y + x
        if y > 0:
            return y * y
        return y

    def plain(x: float) -> float:
        y = x
        for i in range(100):
            y = np.sin(y) * x if i % 2 == 0 else y + x
        return y * y if y > 0 else y

    for start in (0.7, -0.4):
        x = tl.asarray(start)
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        slope = float(tape.gradient(y, x))
        assert float(y) == pytest.approx(plain(start), rel=1e-12)
        step = 1e-6
        expected = (plain(start + step) - plain(start - step)) / (2 * step)
        assert slope == pytest.approx(expected, rel=1e-5)


# ---- errors


def test_variable_of_one_branch_is_an_error_only_where_it_is_used() -> None:
    def f(x: Any, use: bool) -> Any:
        if x > 0:
            y = x * 2
        return y if use else x

    compiled = tl.function(f)
    assert float(compiled(tl.asarray(1.0), False)) == 1.0
    with pytest.raises(UndefinedVariableError, match=r"'y' may be undefined.*'if' at line"):
        compiled(tl.asarray(1.0), True)
    with pytest.raises(UnboundLocalError):
        compiled(tl.asarray(1.0), True)


def test_variable_of_a_loop_that_runs_no_round() -> None:
    @tl.function
    def counted(n: Any) -> Any:
        for i in range(n):
            y = i * 2
        return y

    @tl.function
    def tested(n: Any) -> Any:
        while n > 0:
            y = n * 2
            n = n - 1
        return y

    for f, expected in ((counted, 4), (tested, 2)):
        assert int(f(tl.asarray(3))) == expected
        with pytest.raises(UnboundLocalError, match=r"'y' has no value.*ran no round"):
            f(tl.asarray(0))


def test_variable_that_a_loop_reads_before_it_has_a_value() -> None:
    @tl.function
    def f(n: Any) -> Any:
        for i in range(n):
            y: Any = 1 if i == 0 else y + 1  # noqa: F821  # undefined is the point
        return y

    with pytest.raises(UndefinedVariableError, match=r"'y' may be undefined.*first round"):
        f(tl.asarray(3))


def test_variable_of_a_loop_that_nobody_reads_afterwards_is_no_matter() -> None:
    def f(n: Any) -> Any:
        total = n * 0
        for i in range(n):
            t = i * 2
            total = total + t
        for i in range(n - 2):
            t = i * 3
            total = total + t
        return total

    compiled = tl.function(f)
    for n in (0, 1, 5):
        assert int(compiled(tl.asarray(n))) == int(f(n))


def test_branches_of_two_types_are_named() -> None:
    @tl.function
    def f(x: Any) -> Any:
        if x.sum() > 0:  # noqa: SIM108  # a branch is what is tested
            y = x
        else:
            y = x[0]
        return y

    first = f.python_function.__code__.co_firstlineno
    expected = (
        rf"'if' at line {first + 2} of .*'y' is on its two paths a tensor of float64 and shape "
        rf"\(2,\) \(line {first + 3}\) and a tensor of float64 and shape \(\) \(line {first + 5}\)"
    )
    with pytest.raises(TracingError, match=expected):
        f(tl.asarray([1.0, 2.0]))


def test_lines_of_values_that_were_given_before_and_of_results() -> None:
    @tl.function
    def kept(x: Any) -> Any:
        y = None
        if x > 0:
            z = x * 2
            y = z
        return y

    first = kept.python_function.__code__.co_firstlineno
    message = rf"'y' is on its two paths .* \(line {first + 5}\) and None \(line {first + 2}\)"
    with pytest.raises(TracingError, match=message):
        kept(tl.asarray(1.0))

    @tl.function
    def returned(x: Any) -> Any:
        if x > 0:
            return "yes"
        return x

    first = returned.python_function.__code__.co_firstlineno
    message = rf"'yes' \(line {first + 3}\) and a tensor of .* \(line {first + 4}\)"
    with pytest.raises(TracingError, match=message):
        returned(tl.asarray(1.0))

    @tl.function
    def drifts(x: Any) -> Any:
        y = x * 2
        for k in tl.range(100):
            if k > 3:
                y = tl.stack([x, x])
            else:
                z = x * k
                y = tl.stack([z, x])
        return y

    first = drifts.python_function.__code__.co_firstlineno
    message = rf"before a round \(line {first + 2}\) and a tensor .* after it \(line {first + 8}\)"
    with pytest.raises(TracingError, match=message):
        drifts(tl.asarray(1.0))


def test_variable_that_nobody_reads_after_a_branch_may_be_of_two_types() -> None:
    def f(x: Any) -> Any:
        t = x * 2
        if t.sum() > 0:
            return t.sum()
        t = tl.stack([t, t])
        return t.sum()

    same(f, [1.0, 2.0], [-1.0, 0.5])


def test_variable_that_both_branches_delete() -> None:
    @tl.function
    def f(x: Any) -> Any:
        y = x
        if x > 0:
            del y
        else:
            del y
        return y

    with pytest.raises(UndefinedVariableError, match=r"'y' may be undefined.*on both paths"):
        f(tl.asarray(1.0))


def test_return_in_finally_over_a_tensor() -> None:
    def f(x: Any) -> Any:
        try:
            if x > 3:
                return x * 10
            x = x + 1
        finally:
            if x > 1:
                return -x  # noqa: B012  # it wins over the other return
            x = x * 2
        return x

    same(f, 0.0, 1.0, 2.0, 5.0)


def test_result_on_one_path_and_none_on_another() -> None:
    @tl.function
    def f(x: Any) -> Any:
        if x > 0:
            return x

    with pytest.raises(TracingError, match="falls off its end"):
        f(tl.asarray(1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: tl.astype(y, "float32"), r"'y' is a tensor of float64.*float32"),
        (lambda y: tl.stack([y, y]), r"'y' is a tensor of.*shape \(\).*shape \(2,\)"),
        (lambda y: None, r"'y' is a tensor.*None after it"),
    ],
)
def test_type_that_drifts_in_a_loop_is_named(change: Callable[[Any], Any], message: str) -> None:
    @tl.function
    def f(x: Any) -> Any:
        y = x * 2
        while x > 0:
            y = change(y)
            x = x - 1
        return x

    with pytest.raises(TracingError, match=message):
        f(tl.asarray(1.0))


def test_variable_that_begins_as_none() -> None:
    def f(x: Any) -> Any:
        last: Any = None
        total = 0.0
        for v in x:
            if last is not None:
                total = total + v * last
            last = v
        return total + last

    same(f, np.arange(100.0), np.arange(3.0))


def test_rows_written_in_the_loop_are_read_as_they_are_then() -> None:
    def f(x0: Any) -> Any:
        x = x0 * 1
        total = 0.0
        k = 0
        for v in x:
            if k < 99:
                x[k + 1] = v + x[k + 1]
            k = k + 1
            total = total + v
        return total

    same(f, np.arange(100.0))


def test_gradient_through_rows_with_a_break() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i, (a, b) in enumerate(zip(x, x * 2, strict=True)):
            if total > 50:
                break
            total = total * 0.9 + a * b + i
        return total

    slopes = []
    for function in (f, tl.function(f)):
        x = tl.asarray(np.linspace(0, 1, 80))
        with tl.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        slopes.append(tape.gradient(y, x).numpy())
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12)


def test_condition_of_many_elements_is_ambiguous() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(ArgumentError, match=r"shape \(2,\) is ambiguous"):
        f(tl.asarray([1.0, 2.0]))


def test_function_without_source_says_so_at_the_branch() -> None:
    scope: dict[str, Any] = {}
    exec(compile("def f(x):\n    return 1 if x else 2\n", "<nowhere>", "exec"), scope)
    with pytest.raises(SymbolicTensorError, match="stays Python, because there is no source"):
        tl.function(scope["f"])(tl.asarray(1.0))


def test_unconverted_on_request() -> None:
    @tl.function(autograph=False)
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(SymbolicTensorError):
        f(tl.asarray(1.0))


def test_error_of_the_user_shows_the_users_lines_only() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return programs.boom(x)

    with pytest.raises(ValueError, match="here") as caught:
        f(1)
    frames = traceback.extract_tb(caught.value.__traceback__)
    names = [frame.name for frame in frames if frame.filename in (programs.__file__, __file__)]
    assert names[-2:] == ["f", "boom"]
    assert "the line of the traceback" in str(frames[-1].line)


def test_failed_trace_leaves_everything_usable() -> None:
    box = [0.0]

    @tl.function
    def f(x: Any, fail: bool) -> Any:
        while x > 0:
            box[0] = box[0] + 1
            x = x - 1
            if fail:
                x.no_such_attribute  # noqa: B018  # fails
        return x

    with pytest.raises(AttributeError, match="no_such_attribute"):
        f(tl.asarray(2.0), True)
    assert box == [0.0]
    assert float(f(tl.asarray(2.5), False)) == -0.5


def test_unroll_makes_copies_of_a_long_loop() -> None:
    def f(x: Any) -> Any:
        for k in tl.unroll(range(70)):
            x = x * 1.5 + (1 if k % 7 == 0 else 0)
        return x

    same(f, 0.5)
    graph = tl.function(f).get_concrete_function(tl.asarray(0.5)).graph
    assert "scan" not in {op.name for op in graph.ops}
    rows = tl.function(lambda x: [row * 2 for row in tl.unroll(x)])(tl.ones((3, 2)))
    assert len(rows) == 3


def test_loop_whose_shapes_change_runs_op_by_op_where_it_says_so() -> None:
    @tl.function
    def f(n: Any) -> Any:
        v = tl.asarray([0, 0])
        i = 0
        while i < n:
            tl.set_loop_options(shape_invariants=[(v, (None,))])
            v = tl.concat((v, [i]))
            i += 1
        return v

    with pytest.warns(UserWarning, match="f runs op by op.*set_loop_options says that a shape"):
        assert f(tl.asarray(2)).numpy().tolist() == [0, 0, 0, 1]
    assert f(tl.asarray(4)).numpy().tolist() == [0, 0, 0, 1, 2, 3]
    assert f(3).numpy().tolist() == [0, 0, 0, 1, 2]


def test_range_that_a_loop_leaves_behind_runs_op_by_op() -> None:
    @tl.function
    def f(n: Any) -> Any:
        k = 0
        while k < n:
            v = tl.arange(k)
            k += 1
        return v

    with pytest.warns(UserWarning, match="f runs op by op: span at"):
        assert f(tl.asarray(4)).numpy().tolist() == [0, 1, 2]


def test_trace_around_a_function_of_changing_shapes_runs_op_by_op_too() -> None:
    @tl.function
    def inner(n: Any) -> Any:
        v = tl.asarray([1])
        while v.sum() < n:
            tl.set_loop_options(shape_invariants=[(v, (None,))])
            v = tl.concat((v, v))
        return v

    outer = tl.function(lambda n: inner(n) * 2)
    with pytest.warns(UserWarning, match="runs op by op"):
        assert outer(tl.asarray(3)).numpy().tolist() == [2, 2, 2, 2]


def ops_of(compiled: Any, *args: Any) -> list[str]:
    return [op.name for op in compiled.get_concrete_function(*args).graph.ops]


def test_nest_of_short_loops_is_not_copied_round_by_round() -> None:
    def f(x: Any) -> Any:
        for i in range(64):
            for j in range(64):
                x = tl.sin(x) + 0.1 * i - 0.2 * j
        return x

    same(f, 0.5)
    names = ops_of(tl.function(f), tl.asarray(0.5))
    assert names.count("scan") == 1
    assert len(names) < 1000

    small = tl.function(lambda x: [x := tl.sin(x) for _ in range(60)][-1])
    assert "scan" not in ops_of(small, tl.asarray(0.5))


def test_nest_with_a_break_and_a_python_index_within_the_budget() -> None:
    weights = [0.5, 0.25, 2.0, 1.5] * 8

    def f(x: Any) -> Any:
        for i in range(32):
            for j in range(64):
                if x.sum() > 40 - i:
                    break
                x = x * 1.01 + 0.01 * j
            x = x * weights[i] * 0.5
        return x

    same(f, [0.5, 1.0], [30.0, 1.0])


def test_extrema_and_sorting_by_a_key() -> None:
    def f(x: Any) -> Any:
        farthest = max(x, key=lambda v: abs(v - 2.0))
        pairs = sorted([(x[0], 0), (x[1], 1), (x[2], 2)], key=lambda pair: -pair[0])
        best = max([], default=x[0])
        return farthest * 100 + pairs[0][1] * 10 + sorted([x[2], x[0], x[1]])[1] + best

    same(f, np.array([1.5, 2.5, -3.25]), np.array([4.5, -2.5, 3.75]))


def test_numbers_are_not_changed_in_place() -> None:
    def f(n: Any) -> Any:
        total = start = 0
        while n > 0:
            total += n
            n = n - 1
        return total * 10 + start

    same(f, np.asarray(3, np.int32), np.asarray(4, np.int64))


def test_number_that_becomes_a_tensor_in_an_inner_loop() -> None:
    def f(x: Any, y: Any) -> Any:
        total = 0
        while x > 0:
            x = x - 1
            while y > 0:
                y = y - 1
                if (x + y) % 2 == 0:
                    break
                total += x + y
            total += x
        return total

    for dtype in (np.int32, np.int64):
        same(
            f, *[(np.asarray(a, dtype), np.asarray(b, dtype)) for a, b in ((3, 4), (1, 2), (2, 0))]
        )


def test_item_in_a_list_of_tensors() -> None:
    same(lambda x: 10 if 2.0 in [x, x + 1] and 3.0 not in (x, x * 5) else 20, 1.0, 3.0)


def test_a_loop_over_arange_of_a_tensor_is_a_loop_of_the_graph() -> None:
    @tl.function
    def f(n: Any, x: Any) -> Any:
        total = 0.0 * x
        for i in tl.arange(n):
            total += x * i.astype(tl.float64)
        for i in tl.arange(1, n, 2, dtype=tl.int32):
            total += i.astype(tl.float64)
        return total

    assert f(tl.asarray(5), tl.asarray(2.0)).item() == 2.0 * 10 + 1 + 3
    assert f(tl.asarray(0), tl.asarray(2.0)).item() == 0.0
    assert f.trace_count == 1


def test_functions_given_to_transforms_and_loops_are_converted() -> None:
    def squared(x: Any) -> Any:
        while x < 10:
            x = x * x
        return x

    x = tl.asarray(2.0)
    assert tl.function(tl.grad(squared))(x).item() == 32.0
    assert tl.function(lambda x: tl.grad(lambda y: squared(y))(x))(x).item() == 32.0
    assert tl.function(tl.grad(tl.grad(squared)))(x).item() == 48.0

    rows = tl.asarray([1.0, -2.0, 3.0])
    scanned = tl.function(lambda x: tl.scan(lambda c, r: (c + r if r > 0 else c, r), 0.0, x)[0])
    assert scanned(rows).item() == 4.0
    mapped = tl.function(lambda x: tl.map_fn(lambda r: r * 2 if r > 0 else -r, x))
    assert mapped(rows).numpy().tolist() == [2.0, 2.0, 6.0]
    chosen = tl.function(lambda x: tl.cond(x > 0, lambda: squared(x) if x < 5 else x, lambda: -x))
    assert [chosen(tl.asarray(v)).item() for v in (2.0, 7.0, -1.0)] == [16.0, 7.0, 1.0]


def test_rounds_that_are_said_to_be_independent() -> None:
    def squares(x: Any) -> Any:
        y = tl.zeros(x.shape)
        for k in tl.range(x.shape[0], parallel=True):
            y[k] = x[k] * x[k] + k
        return y

    same(squares, np.arange(50.0))

    @tl.function
    def total(x: Any) -> Any:
        found = 0.0
        for k in tl.range(x.shape[0], parallel=True):
            found += x[k]
        return found

    with pytest.raises(TracingError, match=r"parallel=True.*'found' goes from round to round"):
        total(tl.ones(50))


def test_tensor_that_grows_from_round_to_round_is_told_what_to_do() -> None:
    @tl.function
    def f(x: Any) -> Any:
        while x.sum() < 10:
            x = tl.concat([x, x])
        return x

    with pytest.raises(TracingError, match=r"'x' is a tensor of float64 and shape \(2,\).*\(4,\)"):
        f(tl.ones(2))
    with pytest.raises(TracingError, match=r"set_loop_options\(shape_invariants=\[\(x, \(None,\)"):
        f(tl.ones(2))


def test_nest_whose_inner_loops_grow_is_one_node_from_some_round_on() -> None:
    def f(x: Any, a: Any) -> Any:
        for i in range(30):
            for j in range(i):
                for k in range(3):
                    x[i, j] = x[i, j] - x[i, k] * x[k, j] * a
        return x

    x, a = tl.asarray(np.random.default_rng(0).random((30, 30))), tl.asarray(0.1)
    names = ops_of(tl.function(f), x, a)
    assert len(names) < 400
    assert len([name for name in names if name in ("scan", "while_loop")]) == 1
    expected = x.numpy().copy()
    for i in range(30):
        for j in range(i):
            for k in range(3):
                expected[i, j] -= expected[i, k] * expected[k, j] * 0.1
    np.testing.assert_allclose(tl.function(f)(x * 1.0, a).numpy(), expected, rtol=1e-12)

    def total(x: Any) -> Any:
        return tl.sum(f(x * 1.0, a))

    slope = tl.function(tl.grad(total))(x).numpy()
    step = np.zeros((30, 30))
    step[7, 2] = 1e-6
    ends = [total(tl.asarray(x.numpy() + way * step)).item() for way in (1, -1)]
    np.testing.assert_allclose(slope[7, 2], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_size_of_the_rounds_decides_and_not_their_number() -> None:
    def long_rounds(x: Any) -> Any:
        for i in range(20):
            for _ in range(12):
                x = tl.sin(x) * 0.5 + 0.01 * i
        return x

    same(long_rounds, [0.5, 0.25])
    assert "scan" in ops_of(tl.function(long_rounds), tl.asarray(0.5))
    short_rounds = tl.function(lambda x: [x := tl.sin(x) * 0.5 for _ in range(64)][-1])
    assert "scan" not in ops_of(short_rounds, tl.asarray(0.5))


def test_rounds_that_cannot_be_one_node_are_not_tried_again_and_again() -> None:
    seen = []

    def f(x: Any, weights: Any) -> Any:
        for i in range(40):
            seen.append(i)
            for _ in range(10):
                x = tl.sin(x) * weights[i]
        return x

    weights = [0.5 + 0.01 * k for k in range(40)]
    found = tl.function(f, autograph=True)(tl.asarray(0.3), weights)
    assert len(seen) < 80
    x = 0.3
    for i in range(40):
        for _ in range(10):
            x = np.sin(x) * weights[i]
    np.testing.assert_allclose(found.numpy(), x, rtol=1e-13)


def test_short_loop_that_a_tensor_may_end_is_a_loop_with_a_test() -> None:
    def f(x: Any) -> Any:
        steps = 0
        for j in range(50):
            if x.sum() > 40:
                break
            x = x * 1.1 + 0.1 * j
            steps = steps + 1
        else:
            x = -x
        return x * steps

    same(f, [0.5, 1.0], [50.0, 1.0], [-9e9, 0.0], [5.0, 5.0])
    assert len(ops_of(tl.function(f), tl.asarray([0.5, 1.0]))) < 40

    def loss(x: Any) -> Any:
        return tl.sum(f(x))

    x = tl.asarray([0.5, 1.0])
    slopes = tl.function(tl.grad(loss))(x).numpy()
    np.testing.assert_allclose(slopes, tl.grad(loss)(x).numpy(), rtol=1e-13)
