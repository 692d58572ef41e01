"""What must hold for every op when it is compiled, generated from the op records.

All cases of an op are computed in one traced function, so that a test compiles once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.accuracy import Array, errors_in_ulp, exact_outputs
from tests.gradients import has_gradient, outputs_of
from tests.sampling import Case, gradient_cases, op_cases, sampled_ops, special_cases

import tapeline as tl
from tapeline.compiler.codegen.target import CPU_VARIABLE, host_target
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Attrs, Op, Pointwise, get_op
from tapeline.runtime.tensor import Tensor, wrap

ROOT = Path(__file__).parents[2]
HOST = host_target()
OPS = sampled_ops()
SPECIAL = [op for op in OPS if next(special_cases(op), None) is not None]
WITH_GRADIENT = [
    op for op in OPS if has_gradient(op) and "f" in op.kinds and next(gradient_cases(op), None)
]
every_op = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
every_special_op = pytest.mark.parametrize("op", SPECIAL, ids=lambda op: op.name)
every_differentiable_op = pytest.mark.parametrize("op", WITH_GRADIENT, ids=lambda op: op.name)

ROUNDING = {"complex64": 2e-6, "complex128": 1e-14}
"""Of two NumPy computations of complex numbers: its loops differ in the last place by layout."""
EITHER_ZERO = {"maximum", "minimum"}
"""Ops for which a zero may have either sign where both were given: NumPy's own loops differ."""
GRADIENT_ROUNDING = 1e-12
"""Of gradients in double precision, relative to the largest entry or 1."""


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


# One function for many cases


def distinct(cases: Iterable[Case]) -> list[Case]:
    """One case for each dtype, each way of ranks and broadcasts, and each kind of strides."""
    seen: set[Any] = set()
    kept = []
    for case in cases:
        features = features_of(case)
        if not features <= seen:
            seen |= features
            kept.append(case)
    return kept


def features_of(case: Case) -> set[Any]:
    """What makes a case worth compiling beside others of the same op."""
    features: set[Any] = {(case.attrs, *[(x.ndim, x.size == 0, 1 in x.shape) for x in case.arrays])}
    if all(x.size for x in case.arrays):
        features.add(tuple([x.dtype for x in case.arrays]))
    if not all(x.flags.c_contiguous for x in case.arrays):
        signs = [(x.flags.f_contiguous, *np.sign(x.strides)) for x in case.arrays]
        features.add(str(signs))
    return features


def compiled_outputs(
    compute: Callable[[Sequence[Tensor], Attrs], Any], cases: Sequence[Case]
) -> list[Any]:
    """`compute(inputs, attrs)` of each case, all in one compiled function."""

    @tl.function
    def together(inputs: list[tuple[Tensor, ...]]) -> list[Any]:
        return [compute(x, case.attrs) for x, case in zip(inputs, cases, strict=True)]

    return together([tuple([wrap(x) for x in case.arrays]) for case in cases])


def compiled_op(op: Op, cases: Sequence[Case]) -> list[tuple[Array, ...]]:
    """The op's outputs for each case."""
    results = compiled_outputs(lambda inputs, attrs: bind(op, tuple(inputs), attrs), cases)
    return [
        tuple([y.numpy() for y in (result if type(result) is tuple else (result,))])
        for result in results
    ]


# Values


def stated_ulp(op: Op, dtype: np.dtype[Any]) -> float:
    """The accuracy that the op states for its compiled form."""
    return op.ulp[dtype == np.float64]


def assert_values(op: Op, case: Case, got: Sequence[Array]) -> None:
    """The kernel's results, to the bit or within the accuracy that the op states."""
    want = outputs_of(op, case.arrays, case.attrs)
    exact, slack = exact_outputs(op, case.arrays, case.attrs)
    for a, b, e in zip(got, want, exact, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), str(case)
        if a.dtype.kind == "c":
            rounding = ROUNDING[a.dtype.name]
            np.testing.assert_allclose(a, b, rtol=rounding, atol=rounding, err_msg=str(case))
        elif a.dtype.kind != "f" or stated_ulp(op, a.dtype) == 0.0:
            assert_same_bits(a, b, str(case), signs=op.name not in EITHER_ZERO)
        else:
            assert_same_kind(op, a, b, str(case))
            worst = float(np.max(errors_in_ulp(op, case.arrays, a, e), initial=0.0))
            assert worst <= stated_ulp(op, a.dtype) + slack, f"{worst} ulp: {case}"


def assert_same_bits(a: Array, b: Array, what: str, signs: bool = True) -> None:
    """Equal values, and zeros of equal sign unless told otherwise; any NaN is like another."""
    np.testing.assert_array_equal(a, b, err_msg=what)
    if a.dtype.kind == "f" and signs:
        number = ~np.isnan(b)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]), err_msg=what)


def assert_same_kind(op: Op, a: Array, b: Array, what: str) -> None:
    """NaN and infinities where the other has them; elementwise, also zeros of the same sign."""
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=what)
    special = np.isinf(b) | (b == 0 if isinstance(op.lowering, Pointwise) else False)
    assert_same_bits(a[special], b[special], what)


@every_op
def test_compiled_op_gives_what_its_kernel_gives(op: Op) -> None:
    cases = distinct(op_cases(op))
    for case, got in zip(cases, compiled_op(op, cases), strict=True):
        assert_values(op, case, got)


@every_special_op
def test_compiled_op_treats_special_values_as_its_kernel_does(op: Op) -> None:
    cases = list(special_cases(op))
    for case, got in zip(cases, compiled_op(op, cases), strict=True):
        assert_values(op, case, got)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std"])
def test_long_sums_keep_the_accuracy_of_short_ones(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    op = get_op(name)
    x = rng.uniform(0.5, 1.5, 100_003).astype(dtype)
    case = Case((x,), ((0,), False, 0)[: len(op.attr_names)])
    ((got,),) = compiled_op(op, [case])
    (exact,), _ = exact_outputs(op, case.arrays, case.attrs)
    assert abs(got.astype(exact.dtype) - exact) <= stated_ulp(op, x.dtype) * np.spacing(got)


# Other processors

NARROWER_CPUS = ("x86-64-v3", "generic") if HOST.vector_bytes >= 32 else ("generic",)
SEVERAL = ("multiply", "tanh", "remainder", "where", "cast", "flip", "concat", "sum", "argmax",
           "softmax", "take", "matmul")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cpu", NARROWER_CPUS)
def test_code_for_narrower_processors_gives_the_same(cpu: str) -> None:
    tests = [test_compiled_op_gives_what_its_kernel_gives, test_compiled_gradients_of_both_orders]
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            *[f"{__file__}::{test.__name__}[{name}]" for test in tests for name in SEVERAL
              if test is tests[0] or has_gradient(get_op(name))],
        ],
        cwd=ROOT, env={**os.environ, CPU_VARIABLE: cpu}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4000:]


# Gradients


def double_gradients(op: Op, inputs: Sequence[Tensor], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    """The gradients of a weighted sum of the outputs, and those of a weighted sum of these."""
    sources = [x for x in inputs if x.dtype.kind == "f"]
    with tl.GradientTape() as outer:
        outer.watch(sources)
        with tl.GradientTape() as inner:
            inner.watch(sources)
            value = weighted(bind(op, tuple(inputs), attrs))
        first = inner.gradient(value, sources, unconnected_gradients="zero")
        slope = weighted(tuple(first))
    return first, outer.gradient(slope, sources, unconnected_gradients="zero")


def weighted(values: Any) -> list[Tensor]:
    """Each float tensor times weights that differ from element to element."""
    flat = values if type(values) is tuple else (values,)
    return [
        y * tl.reshape(tl.linspace(0.5, 1.5, y.size), y.shape) for y in flat if y.dtype.kind == "f"
    ]


@every_differentiable_op
def test_compiled_gradients_of_both_orders(op: Op) -> None:
    cases = list(gradient_cases(op))
    got = compiled_outputs(lambda inputs, attrs: double_gradients(op, inputs, attrs), cases)
    for case, orders in zip(cases, got, strict=True):
        want = double_gradients(op, [wrap(x) for x in case.arrays], case.attrs)
        for compiled, eager in zip(orders, want, strict=True):
            assert_gradients(compiled, eager, str(case))


def assert_gradients(got: Sequence[Tensor], want: Sequence[Tensor], what: str) -> None:
    """Equal dtypes and shapes, and values but for rounding."""
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        scale = max(1.0, float(np.max(np.abs(b.numpy()), initial=0.0)))
        atol = GRADIENT_ROUNDING * scale
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=atol, err_msg=what)


@every_differentiable_op
def test_gradients_through_a_compiled_call_are_those_of_the_tape(op: Op) -> None:
    ranks = {tuple([x.ndim for x in case.arrays]): case for case in gradient_cases(op)}
    cases = list(ranks.values())

    @tl.function
    def together(inputs: list[tuple[Tensor, ...]]) -> list[Any]:
        pairs = zip(inputs, cases, strict=True)
        return [weighted(bind(op, tuple(x), case.attrs)) for x, case in pairs]

    inputs = [tuple([wrap(x) for x in case.arrays]) for case in cases]
    sources = [[x for x in group if x.dtype.kind == "f"] for group in inputs]
    with tl.GradientTape() as tape:
        tape.watch(sources)
        values = together(inputs)
    found = tape.gradient(values, sources, unconnected_gradients="zero")
    for case, group, got in zip(cases, inputs, found, strict=True):
        assert_gradients(got, double_gradients(op, group, case.attrs)[0], str(case))
