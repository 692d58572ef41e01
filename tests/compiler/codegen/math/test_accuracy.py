"""The math library against mpmath, in units in the last place, and its special values."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from tests.compiler.codegen.running import BASELINE, HOST, NARROW, Array, Emit, run_elementwise

from tapeline.compiler.codegen.builder import Builder
from tapeline.compiler.codegen.math.library import FUNCTIONS
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value

TARGETS = list(dict.fromkeys([HOST, NARROW, BASELINE]))
LIMITS = {
    "exp": (1.1, 1.2),
    "exp2": (1.1, 1.2),
    "expm1": (1.6, 2.0),
    "sigmoid": (1.9, 1.9),
    "sinh": (1.8, 1.7),
    "cosh": (1.5, 1.5),
    "tanh": (1.5, 1.5),
    "erf": (1.8, 1.8),
    "log": (1.1, 1.3),
    "log2": (1.9, 1.6),
    "log10": (1.7, 1.9),
    "log1p": (1.1, 1.3),
    "softplus": (1.7, 2.0),
    "arcsinh": (1.8, 1.9),
    "arccosh": (1.7, 1.8),
    "arctanh": (1.7, 1.9),
    "sin": (1.5, 1.5),
    "cos": (1.5, 1.5),
    "tan": (1.6, 1.8),
    "arcsin": (1.2, 1.2),
    "arccos": (1.1, 1.2),
    "arctan": (1.9, 1.9),
    "rsqrt": (1.5, 1.5),
    "cbrt": (0.8, 1.6),
    "arctan2": (1.9, 1.9),
    "hypot": (1.0, 1.0),
    "power": (1.3, 1.3),
}
"""Units in the last place that each function may be off, for float32 and float64; found by sampling
a million arguments and more."""
LIMIT = 2.0
"""What no function exceeds."""

EXACT: dict[str, Callable[..., Any]] = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "erf": mp.erf,
    "log": mp.log,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "log1p": mp.log1p,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "arctan2": mp.atan2,
    "hypot": mp.hypot,
    "power": mp.power,
}
DOMAINS = {
    "log": (1e-3, 20),
    "log2": (1e-3, 20),
    "log10": (1e-3, 20),
    "log1p": (-0.999, 20),
    "arccosh": (1, 20),
    "arctanh": (-0.999, 0.999),
    "arcsin": (-1, 1),
    "arccos": (-1, 1),
    "rsqrt": (1e-3, 20),
    "power": (1e-3, 20),
    "sin": (-100, 100),
    "cos": (-100, 100),
    "tan": (-100, 100),
}
"""Where moderate arguments are drawn; +-10 if not given here."""
POSITIVE = ("log", "log2", "log10", "rsqrt", "arccosh", "power")
BINARY = ("arctan2", "hypot", "power")
SPECIAL = (
    0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 3, -3, 1.5, 1e30, -1e30, np.inf, -np.inf, np.nan,
)  # fmt: skip


def emitter(name: str) -> Emit:
    """Emits a function of the library."""

    def emit(b: Builder, *args: Value) -> Value:
        return b.call(name, *args)

    return emit


def special_values(dtype: Any) -> Array:
    """Infinities, NaN, zeros, the least and greatest numbers, and neighbours of 1."""
    info = np.finfo(dtype)
    limits = [info.tiny, info.smallest_subnormal, info.max, info.tiny / 4]
    near_one = [1 - info.epsneg, 1 + info.eps]
    numbers = [*limits, *near_one]
    return np.array([*SPECIAL, *numbers, *(-x for x in numbers)], dtype=dtype)


def arguments(name: str, dtype: Any, count: int, rng: np.random.Generator) -> Array:
    """Numbers of all sizes at which the function is finite, or almost."""
    low, high = DOMAINS.get(name, (-10, 10))
    exponents = np.finfo(dtype).maxexp
    tiny = 2.0 ** rng.uniform(-exponents - 10, 0, count) * rng.choice([-1, 1], count)
    large = 2.0 ** rng.uniform(0, exponents, count) * rng.choice([-1, 1], count)
    near_one = rng.normal(1, 0.01, count)
    with np.errstate(over="ignore", under="ignore"):
        values = np.concatenate([rng.uniform(low, high, 2 * count), tiny, large, near_one])
        values = values.astype(dtype)
    if name in POSITIVE:
        values = np.abs(values)
    if name == "arccosh":
        values = np.where(values < 1, 1 + values, values).astype(dtype)
    if name in ("arcsin", "arccos", "arctanh"):
        values = values[np.abs(values) <= 1]
    return values[values > -1] if name == "log1p" else values


def units_off(actual: Array, exact: Sequence[Any]) -> Array:
    """How far each number is from the exact one, in units in its last place; an infinity counts as
    the number beyond the greatest one."""
    info = np.finfo(actual.dtype)
    least = mp.mpf(float(info.smallest_subnormal))
    beyond = mp.mpf(float(info.max)) * (1 + mp.mpf(float(info.eps)) / 2)
    result = []
    for y, want in zip(actual.tolist(), exact, strict=True):
        want = min(max(want, -beyond), beyond)
        y = min(max(mp.mpf(y), -beyond), beyond)
        unit = mp.mpf(2) ** (mp.floor(mp.log(abs(want), 2)) - info.nmant) if want else least
        result.append(float(abs(y - want) / max(unit, least)))
    return np.array(result)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_the_limit(name: str, dtype: Any, target: Target) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    count = 80 if target is HOST else 15
    arrays = [arguments(name, dtype, count, rng)]
    if name in BINARY:
        arrays.append(rng.permutation(arrays[0]))
    if name == "power":
        arrays[1] = rng.uniform(-30, 30, len(arrays[0])).astype(dtype)
    lanes = target.lanes(np.dtype(dtype).itemsize)
    actual = run_elementwise(emitter(name), arrays, dtype, lanes, target)
    with mp.workprec(120 if name not in ("sin", "cos", "tan", "erf", "tanh") else 1200):
        exact = [EXACT[name](*map(mp.mpf, map(float, x))) for x in zip(*arrays, strict=True)]
        off = units_off(actual, exact)
    worst = int(np.argmax(off))
    limit = LIMITS[name][dtype is np.float64]
    assert off[worst] <= limit, [x[worst] for x in arrays]


def test_no_limit_is_above_two_units() -> None:
    assert set(LIMITS) == set(EXACT)
    assert max(max(limits) for limits in LIMITS.values()) <= LIMIT


def expected_special(name: str, *arrays: Array) -> Array:
    """What NumPy, or the definition, says of special values; computed in long double."""
    wide = [x.astype(np.longdouble) for x in arrays]
    if name == "sigmoid":
        return 1 / (1 + np.exp(-wide[0]))
    if name == "softplus":
        return np.logaddexp(wide[0], np.longdouble(0))
    if name == "rsqrt":
        return 1 / np.sqrt(wide[0])
    if name == "erf":
        with mp.workprec(200):
            values = [float(mp.erf(mp.mpf(x))) for x in arrays[0].tolist()]
        return np.copysign(np.array(values, np.longdouble), wide[0])
    return getattr(np, name)(*wide)  # type: ignore[no-any-return]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("name", [*EXACT, "logaddexp", "logaddexp2"])
def test_special_values_are_those_of_numpy(name: str, dtype: Any, target: Target) -> None:
    arrays = [special_values(dtype)]
    if name in (*BINARY, "logaddexp", "logaddexp2"):
        arrays = [x.ravel() for x in np.meshgrid(arrays[0], arrays[0])]
    lanes = target.lanes(np.dtype(dtype).itemsize)
    actual = run_elementwise(emitter(name), arrays, dtype, lanes, target)
    with np.errstate(all="ignore"):
        wide = expected_special(name, *arrays)
        expected = wide.astype(dtype)
        size = np.abs(expected) if "logadd" not in name else np.maximum(np.abs(expected), 1)
        unit = np.spacing(np.minimum(size, np.finfo(dtype).max / 2))
        near = np.abs(actual - expected) <= 4 * unit
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected)) | near
    signs = (np.signbit(actual) == np.signbit(expected)) | np.isnan(expected)
    if "logadd" in name:
        signs |= near  # a sum that cancels
    wrong = np.flatnonzero(~(same & signs))
    rows = [([x[i] for x in arrays], actual[i], expected[i]) for i in wrong[:5]]
    assert not rows, rows


@pytest.mark.parametrize("target", [HOST, NARROW], ids=lambda t: t.cpu)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("name", dict(zip(FUNCTIONS.values(), FUNCTIONS, strict=True)).values())
def test_every_lane_count_gives_the_same_bits(name: str, dtype: Any, target: Target) -> None:
    rng = np.random.default_rng(7)
    special = special_values(dtype)
    base = np.concatenate([rng.normal(0, 3, 64).astype(dtype), special, rng.permutation(special)])
    binary = name in (*BINARY, "logaddexp", "logaddexp2", "atan2")
    arrays = [base, rng.permutation(base)] if binary else [base]
    emit = emitter(name)
    one = run_elementwise(emit, arrays, dtype, 1, target)
    for lanes in (2, 16) if target is HOST else (4,):
        many = run_elementwise(emit, arrays, dtype, lanes, target)
        np.testing.assert_array_equal(one, many)
        numbers = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(one[numbers]), np.signbit(many[numbers]))


@pytest.mark.parametrize("lanes", [3, 8, 32, 64])
def test_unusual_lane_counts_work(lanes: int, rng: np.random.Generator) -> None:
    for code in ("f4", "f8"):
        x = rng.uniform(0.1, 3, 128).astype(code)
        for name in ("log", "erf", "exp", "sin"):
            emit = emitter(name)
            expected = run_elementwise(emit, [x], code, 1)
            np.testing.assert_array_equal(run_elementwise(emit, [x], code, lanes), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
def test_logaddexp_is_close_where_it_does_not_cancel(dtype: Any, rng: np.random.Generator) -> None:
    a, b = rng.normal(0, 20, (2, 500)).astype(dtype)
    for name, base in (("logaddexp", mp.e), ("logaddexp2", mp.mpf(2))):
        actual = run_elementwise(emitter(name), [a, b], dtype, 16)
        with mp.workprec(200):
            sums = [base ** float(p) + base ** float(q) for p, q in zip(a, b, strict=True)]
            off = units_off(actual, [mp.log(total, base) for total in sums])
        clear = np.maximum(a, b) > 0
        assert off[clear].max() <= LIMIT


def test_call_names_an_unknown_dtype() -> None:
    with pytest.raises(TypeError, match="exp: the math library takes float32 and float64, not i4"):
        run_elementwise(emitter("exp"), [np.arange(4, dtype="i4")], "i4", 1)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_almost_a_multiple_of_a_quarter_turn_keep_their_digits(
    name: str, target: Target
) -> None:
    # The first one is nearer to a multiple of pi/2 than any other double.
    x = np.array([6381956970095103 * 2.0**797, 1e22, 2.0**1023, -np.finfo("f8").max, 2.0**28])
    actual = run_elementwise(emitter(name), [x], "f8", 8, target)
    with mp.workprec(1300):
        assert units_off(actual, [EXACT[name](mp.mpf(v)) for v in x.tolist()]).max() <= LIMIT
    near = np.array([16367173 * 2.0**72, 12688.107, 3e38], dtype="f4")
    actual = run_elementwise(emitter(name), [near], "f4", 16, target)
    with mp.workprec(400):
        assert units_off(actual, [EXACT[name](mp.mpf(v)) for v in near.tolist()]).max() <= LIMIT
