"""Value operations, compiled, against NumPy: bit for bit, on edge values, several lane counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.codegen.running import BASELINE, HOST, Array, Emit, run_elementwise

import tapeline  # noqa: F401 - registers the ops
from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.parts import ModuleParts
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value
from tapeline.runtime.op import get_op
from tapeline.runtime.spec import DType

INTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f4", "f8")
TARGETS = list(dict.fromkeys([HOST, BASELINE]))
LANES = (1, 4, 16)
FLOAT_EDGES = (
    0.0, -0.0, 1, -1, 2.5, -2.5, 0.1, 3, -3, 7, 1e30, -1e30, 1e-40, -1e-40, 5e-324,
    np.inf, -np.inf, np.nan,
)  # fmt: skip


def edges(code: str) -> Array:
    """Values that are easily got wrong."""
    if code == "b1":
        return np.array([False, True])
    if code[0] == "f":
        return np.array(FLOAT_EDGES).astype(code)
    info = np.iinfo(code)
    values = np.array(
        [0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.min, info.min + 1], dtype=code
    )
    return np.concatenate([values, -values])


def pairs(code: str) -> tuple[Array, Array]:
    """Every edge value with every other one."""
    left, right = np.meshgrid(edges(code), edges(code))
    return left.ravel(), right.ravel()


def assert_same_bits(actual: Array, expected: Array) -> None:
    """Equal values and signs of zero; any NaN for a NaN."""
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(actual[numbers]), np.signbit(expected[numbers]), "sign of zero"
        )


def method(name: str, *extra: Any) -> Emit:
    """Emits one operation of the builder."""

    def emit(b: Builder, *args: Value) -> Value:
        operation: Callable[..., Value] = getattr(b, name)
        return operation(*extra, *args)

    return emit


def check(
    emit: Emit, expected: Array, arrays: list[Array], target: Target, lanes: tuple[int, ...] = LANES
) -> None:
    """Compiles for several lane counts and compares with what is expected."""
    for count in lanes:
        assert_same_bits(run_elementwise(emit, arrays, expected.dtype, count, target), expected)


targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)


@targets
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("code", INTS + FLOATS)
def test_division_follows_the_ops_kernel(name: str, code: str, target: Target) -> None:
    a, b = pairs(code)
    with np.errstate(all="ignore"):
        expected = get_op(name).kernel(a, b)
    check(method(name), expected, [a, b], target)


@pytest.mark.parametrize("code", FLOATS)
def test_float_remainder_is_exact_for_any_quotient(code: str, rng: np.random.Generator) -> None:
    limit = np.finfo(code).maxexp - 2
    a, b = ((2.0 ** rng.uniform(-limit, limit, (2, 2000))) * rng.choice([-1, 1], (2, 2000))).astype(
        code
    )
    for name in ("remainder", "floor_divide"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(a, b)
        check(method(name), expected, [a, b], HOST, (1, 16))


@targets
@pytest.mark.parametrize("code", INTS + FLOATS)
def test_arithmetic_follows_numpy(code: str, target: Target) -> None:
    a, b = pairs(code)
    names = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    if code in FLOATS:
        names["div"] = np.divide
    for name, function in names.items():
        with np.errstate(all="ignore"):
            expected = function(a, b)
        check(method(name), expected, [a, b], target, (1, 16))


@targets
@pytest.mark.parametrize("code", [*INTS, *FLOATS, "b1"])
def test_choices_follow_numpy(code: str, target: Target) -> None:
    a, b = pairs(code)
    for name in ("maximum", "minimum"):
        expected = getattr(np, name)(a, b)
        actual = run_elementwise(method(name), [a, b], code_dtype(code), 16, target)
        np.testing.assert_array_equal(actual, expected)  # the sign of a zero is free
    predicates = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    for predicate, function in predicates.items():
        check(method("compare", predicate), function(a, b), [a, b], target, (1, 8))
    condition = np.arange(len(a)) % 3 == 0
    check(method("select"), np.where(condition, a, b), [condition, a, b], target, (1, 8))


@targets
@pytest.mark.parametrize("code", INTS)
def test_bit_operations_and_shifts_follow_numpy(code: str, target: Target) -> None:
    a, b = pairs(code)
    names = {
        "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
        "shift_left": np.left_shift, "shift_right": np.right_shift,
    }  # fmt: skip
    width = 8 * int(code[1:])
    amounts = np.resize(np.array([0, 1, width - 1, width, width + 1, 100]), len(a)).astype(code)
    for name, function in names.items():
        for other in (b, amounts):
            check(method(name), function(a, other), [a, other], target, (1, 16))
    check(method("bit_not"), np.invert(a), [a], target, (1, 16))


@targets
@pytest.mark.parametrize("code", INTS + FLOATS)
def test_unary_operations_follow_numpy(code: str, target: Target) -> None:
    x = edges(code)
    names = {"neg": np.negative, "abs": np.absolute}
    if code in FLOATS:
        x = np.concatenate([x, np.array([0.5, 1.5, -0.5, -1.5, 2.49, 1e9 + 0.5], dtype=code)])
        names |= {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
        names["rint"] = np.rint
    for name, function in names.items():
        with np.errstate(all="ignore"):
            expected = function(x)
        check(method(name), expected, [x], target, (1, 16))


@targets
def test_bools_are_logical(target: Target) -> None:
    a, b = pairs("b1")
    check(method("add"), a | b, [a, b], target)
    check(method("mul"), a & b, [a, b], target)
    check(method("bit_and"), a & b, [a, b], target)
    check(method("bit_xor"), a ^ b, [a, b], target)
    check(method("bit_not"), ~a, [a], target)


@targets
@pytest.mark.parametrize("code", FLOATS)
def test_copysign_and_fma(code: str, target: Target) -> None:
    a, b = pairs(code)
    check(method("copysign"), np.copysign(a, b), [a, b], target)
    third = np.full(len(a), 1 + np.finfo(code).eps, dtype=code)
    one = np.ones(len(a), dtype=code)
    expected = np.full(len(a), 2 * np.finfo(code).eps + np.finfo(code).eps ** 2, dtype=code)
    check(method("fma"), expected, [third, third, -one], target)


@targets
@pytest.mark.parametrize("source", [*INTS, *FLOATS, "b1"])
def test_casts_follow_numpy(source: str, target: Target) -> None:
    x = edges(source)
    if source in FLOATS:
        x = np.array([0.0, -0.0, 1.9, -1.9, 100.5, 3, 1e-40], dtype=source)
    for code in (*INTS, *FLOATS, "b1"):
        values = x[x >= 0] if source in FLOATS and code[0] == "u" else x
        with np.errstate(all="ignore"):
            expected = values.astype(code_dtype(code))
        if code == "i1":
            values, expected = values[np.abs(expected) < 100], expected[np.abs(expected) < 100]
        check(cast_to(code), expected, [values], target, (1, 16))


def cast_to(code: str) -> Emit:
    """Emits a cast to the dtype of a code."""
    return lambda b, x: b.cast(x, code_dtype(code))


def code_dtype(code: str) -> DType:
    """The dtype of a code."""
    return np.dtype(bool if code == "b1" else code)


@targets
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("code", INTS)
def test_floats_beyond_an_int_saturate(source: str, code: str, target: Target) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], dtype=source)
    info = np.iinfo(code)
    expected = np.array([0, info.max, info.min, info.max, info.min], dtype=code)
    check(cast_to(code), expected, [x], target)


def test_bitcast_keeps_the_bits() -> None:
    x = edges("f4")
    check(lambda b, v: b.bitcast(v, np.dtype("i4")), x.view("i4"), [x], HOST)
    check(lambda b, v: b.bitcast(v, np.dtype("u4")), x.view("u4"), [x], HOST)


@pytest.mark.parametrize("code", [*INTS, *FLOATS, "b1"])
def test_constants_have_the_dtype_and_wrap(code: str) -> None:
    x = edges(code)
    dtype = code_dtype(code)
    value = True if code == "b1" else 3
    check(lambda b, v: b.const(value, v), np.full(len(x), value, dtype), [x], HOST)
    check(lambda b, v: b.constant(value, dtype), np.full(len(x), value, dtype), [x], HOST)
    if code[0] == "u":
        full = np.full(len(x), np.iinfo(code).max, dtype)
        check(lambda b, v: b.const(-1, v), full, [x], HOST)


def test_scalar_operands_are_repeated() -> None:
    x = np.arange(32, dtype="f4")
    two = np.dtype("f4")
    check(
        lambda b, v: b.mul(b.constant(2, two), b.add(v, b.constant(1, two))), 2 * (x + 1), [x], HOST
    )
    check(lambda b, v: b.add(v, b.lane(v, 0)), x + x // 16 * 16, [x], HOST, (16,))


def test_horizontal_halves() -> None:
    x = np.array([1e8, 1, -1e8, 1, 3, 5, 7, 9], dtype="f4")
    expected = np.float32(((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])))
    actual = run_elementwise(lambda b, v: b.horizontal(b.add, v), [x], "f4", 8)
    assert_same_bits(actual, np.full(8, expected))


def test_rare_keeps_the_usual_values() -> None:
    x = np.arange(64, dtype="f8")

    def emit(b: Builder, v: Value) -> Value:
        far = b.compare("gt", v, b.const(40, v))
        usual = b.mul(v, b.const(2, v))
        doubled = b.rare(far, lambda y: [b.select(far, b.const(-1, v), y)], [usual])[0]
        nested = b.rare(far, lambda y: b.rare(far, lambda z: [b.neg(z)], [y]), [doubled])[0]
        return b.select(far, b.neg(nested), nested)

    expected = np.where(x > 40, -1.0, 2 * x)
    for lanes in (1, 8):
        actual = run_elementwise(emit, [x], "f8", lanes)
        usual = np.arange(0, 40)
        np.testing.assert_array_equal(actual[usual], expected[usual])
        np.testing.assert_array_equal(actual[41:], expected[41:])


def test_module_parts_hold_a_helper_once() -> None:
    parts = ModuleParts()
    for _ in range(2):
        b = Builder(parts, HOST)
        b.call("sin", Value("%x", "f8", 8))
    declarations, definitions = parts.frozen()
    assert [key for key, _ in definitions] == ["tl_reduce_angles"]
    other = ModuleParts()
    other.include(declarations, definitions)
    other.include(declarations, definitions)
    assert other.text() == parts.text()


@targets
@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("name", ["sin", "tanh", "power", "log1p"])
def test_a_function_that_is_called_gives_the_bits_of_one_written_out(
    name: str, code: str, target: Target
) -> None:
    arrays = list(pairs(code)[: 2 if name == "power" else 1])

    def emit(b: Builder, *args: Value) -> Value:
        return b.call(name, *args)

    def emit_called(b: Builder, *args: Value) -> Value:
        b.shares_math = True
        first, second = b.call(name, *args), b.call(name, *args)
        assert len(b.lines) < 20
        assert list(b.parts.definitions).count(f"tl_{name}") <= 1
        return b.select(b.compare("eq", first, second), second, first)

    for lanes in LANES:
        written = run_elementwise(emit, arrays, np.dtype(code), lanes, target)
        called = run_elementwise(emit_called, arrays, np.dtype(code), lanes, target)
        assert_same_bits(called, written)
