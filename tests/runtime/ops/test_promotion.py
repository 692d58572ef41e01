"""Results of public functions and operators on all dtypes, held to those of NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.runtime.spec import SUPPORTED_DTYPES

BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "hypot": np.hypot, "logaddexp": np.logaddexp, "atan2": np.arctan2, "copysign": np.copysign,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}  # fmt: skip

UNARY: dict[str, Callable[..., Any]] = {
    "negative": np.negative, "positive": np.positive, "abs": np.absolute, "sign": np.sign,
    "square": np.square, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "exp": np.exp,
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit, "logical_not": np.logical_not,
    "bitwise_invert": np.invert, "conj": np.conjugate, "real": np.real, "imag": np.imag,
}  # fmt: skip

OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
}  # fmt: skip

NO_COMPLEX_ORDER = {
    "maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "<", "<=", ">", ">=",
}  # fmt: skip
"""NumPy orders complex numbers by their parts; we refuse, as the array API standard does."""

UNLIKE_NUMPY = {"reciprocal": "biu", "conj": "b"}
"""Kinds on which we differ: NumPy's reciprocal of ints is an int, its conjugate of bools int8."""


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Any:
    with np.errstate(all="ignore"):
        yield


def example(dtype: np.dtype[Any], first: bool) -> Any:
    """A few numbers with small and extreme ones; second operands are fit to shift or divide by."""
    if dtype.kind == "b":
        return np.array([True, False, True, False] if first else [True, True, False, True])
    if dtype.kind in "iu" and first:
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 7, 5], dtype)
    if dtype.kind == "c":
        return np.array([1 + 2j, -0.5 + 1j, 2, 0.25j] if first else [1, 2 + 1j, 0.5, -1], dtype)
    if dtype.kind == "f":
        return np.array([-1.75, 0.5, 3.0, -0.0] if first else [2.0, -0.5, 0.25, 1.0], dtype)
    return np.array([2, 1, 3, 2], dtype)


def numpy_result(function: Callable[..., Any], *arrays: Any) -> Any:
    """NumPy's result; where it would be float16, that of float32 operands."""
    result = np.asarray(function(*arrays))
    if result.dtype == np.float16:
        result = np.asarray(function(*[x.astype(np.float32) for x in arrays]))
    return result


def assert_like_numpy(ours: Any, numpys: Any, *arrays: Any, refuse: bool = False) -> None:
    """The same dtype and values, or a `TypeError` from both."""
    label = " and ".join(str(x.dtype) for x in arrays)
    try:
        want = numpy_result(numpys, *arrays)
    except TypeError:
        refuse = True
    if refuse:
        with pytest.raises(TypeError):
            ours(*[tl.asarray(x) for x in arrays])
        return
    got = ours(*[tl.asarray(x) for x in arrays]).numpy()
    assert got.dtype == want.dtype, label
    tolerance = 2e-6 if want.dtype.itemsize <= 4 or want.dtype == np.complex64 else 1e-14
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=label)
    else:
        np.testing.assert_allclose(got, want, rtol=tolerance, err_msg=label)


@pytest.mark.parametrize("name", BINARY)
def test_binary_function_gives_what_numpy_gives(name: str) -> None:
    for a, b in product(SUPPORTED_DTYPES, repeat=2):
        refuse = name in NO_COMPLEX_ORDER and "c" in (a.kind, b.kind)
        assert_like_numpy(
            getattr(tl, name), BINARY[name], example(a, True), example(b, False), refuse=refuse
        )


@pytest.mark.parametrize("sign", OPERATORS)
def test_operator_gives_what_numpy_gives(sign: str) -> None:
    apply = OPERATORS[sign]
    for a, b in product(SUPPORTED_DTYPES, repeat=2):
        refuse = sign in NO_COMPLEX_ORDER and "c" in (a.kind, b.kind)
        assert_like_numpy(apply, apply, example(a, True), example(b, False), refuse=refuse)


@pytest.mark.parametrize("name", UNARY)
def test_unary_function_gives_what_numpy_gives(name: str) -> None:
    if name in ("floor", "ceil", "trunc") and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy 2.0 turns bools into floats here; since 2.1 it keeps them, as we do")
    for dtype in SUPPORTED_DTYPES:
        if dtype.kind not in UNLIKE_NUMPY.get(name, ""):
            assert_like_numpy(getattr(tl, name), UNARY[name], example(dtype, True))


@pytest.mark.parametrize("number", [True, 2, -1, 2.0, 0.5, -1.0, 1.0, 0.0, 3, 1 + 2j], ids=repr)
@pytest.mark.parametrize("sign", OPERATORS)
def test_operator_with_a_python_number_gives_what_numpy_gives(sign: str, number: Any) -> None:
    apply = OPERATORS[sign]
    for dtype in SUPPORTED_DTYPES:
        x = example(dtype, True)
        if sign in NO_COMPLEX_ORDER and (dtype.kind == "c" or type(number) is complex):
            continue
        for ours, theirs in (
            (lambda t: apply(t, number), lambda x: apply(x, number)),
            (lambda t: apply(number, t), lambda x: apply(number, x)),
        ):
            if outcome(ours, tl.asarray(x)) != outcome(theirs, x):
                assert is_known_difference(sign, number, dtype), f"{number!r} {sign} {dtype}"


def outcome(function: Callable[..., Any], x: Any) -> Any:
    """dtype and values, or the kind of error."""
    try:
        result = np.asarray(function(x))
    except (TypeError, ValueError, OverflowError) as error:
        kinds = (TypeError, ValueError, OverflowError)
        return next(kind for kind in kinds if isinstance(error, kind))
    single = result.dtype in (np.float32, np.complex64)
    rounded = result if result.dtype.kind in "biu" else np.round(result, 4 if single else 11) + 0.0
    return result.dtype, str(rounded)


def is_known_difference(sign: str, number: Any, dtype: np.dtype[Any]) -> bool:
    """Bools to the power of an int are int64 for every int; NumPy has int8 for some."""
    return sign == "**" and dtype.kind == "b"


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_ints_compare_by_their_exact_values(sign: str) -> None:
    compare = OPERATORS[sign]
    edges = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    signed = [n for n in edges if n < 2**63]
    unsigned = [n for n in edges if n >= 0]
    a = np.array([n for n, _ in product(signed, unsigned)], np.int64)
    b = np.array([n for _, n in product(signed, unsigned)], np.uint64)
    want = np.array([compare(m, n) for m, n in product(signed, unsigned)])
    np.testing.assert_array_equal(compare(tl.asarray(a), tl.asarray(b)).numpy(), want)
    want = np.array([compare(n, m) for m, n in product(signed, unsigned)])
    np.testing.assert_array_equal(compare(tl.asarray(b), tl.asarray(a)).numpy(), want)


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("number", [-(2**70), -129, -128, -1, 0, 127, 128, 255, 256, 2**64, 2**70])
def test_tensors_compare_with_ints_beyond_their_dtype(sign: str, number: int) -> None:
    compare = OPERATORS[sign]
    for dtype in ("bool", "int8", "uint8", "int64", "uint64"):
        x = example(np.dtype(dtype), True)
        want = [compare(int(value), number) for value in x]
        np.testing.assert_array_equal(compare(tl.asarray(x), number).numpy(), want)
        want = [compare(number, int(value)) for value in x]
        np.testing.assert_array_equal(compare(number, tl.asarray(x)).numpy(), want)
