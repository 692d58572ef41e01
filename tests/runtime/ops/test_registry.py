"""What must hold for every op, generated from the op records.

That a compiled op equals its kernel is tested in `tests/compiler/test_ops_compiled.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.gradients import (
    difference_gradients,
    differentiable,
    has_gradient,
    outputs_of,
    pair,
    tape_gradients,
    tape_second_gradients,
)
from tests.sampling import (
    Case,
    gradient_cases,
    op_cases,
    rng_of,
    sampled_ops,
    special_cases,
)

import tapeline as tl
from tapeline.runtime.op import Op, Trait
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, wrap

TOLERANCES = {"float64": 1e-6, "complex128": 1e-6}
"""Of gradients against differences, relative to the largest entry or 1."""

ROUNDING = {"float32": 2e-6, "complex64": 2e-6, "float64": 1e-14, "complex128": 1e-14}
"""Of two NumPy computations of the same: its loops differ in the last place between layouts."""

OPS = sampled_ops()
WITH_GRADIENT = [op for op in OPS if has_gradient(op)]


def by_name(op: Op) -> str:
    """The id of a parametrized test."""
    return op.name


every_op = pytest.mark.parametrize("op", OPS, ids=by_name)
every_differentiable_op = pytest.mark.parametrize("op", WITH_GRADIENT, ids=by_name)


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Any:
    with np.errstate(all="ignore"):
        yield


def specs_of(values: Any) -> list[TensorSpec]:
    """The specs of arrays."""
    return [spec_of(x.shape, x.dtype) for x in values]


def assert_same(a: Any, b: Any, what: str) -> None:
    """Equal shapes, dtypes and values, but for NumPy's own rounding."""
    assert (a.shape, a.dtype) == (b.shape, b.dtype), what
    rounding = ROUNDING.get(a.dtype.name, 0.0)
    np.testing.assert_allclose(a, b, rtol=rounding, atol=rounding, err_msg=what)


@every_op
def test_inferred_spec_is_that_of_the_kernels_result(op: Op) -> None:
    for case in op_cases(op):
        inferred = op.infer(*specs_of(case.arrays), *case.attrs)
        want = [inferred] if isinstance(inferred, TensorSpec) else list(inferred)
        assert specs_of(outputs_of(op, case.arrays, case.attrs)) == want, str(case)


@every_op
def test_kernel_leaves_its_inputs_alone(op: Op) -> None:
    for case in op_cases(op):
        before = [x.copy() for x in case.arrays]
        outputs_of(op, case.arrays, case.attrs)
        for x, kept in zip(case.arrays, before, strict=True):
            np.testing.assert_array_equal(x, kept)


@every_op
def test_kernel_gives_the_same_for_every_layout(op: Op) -> None:
    for case in op_cases(op):
        plain = outputs_of(op, [x.copy(order="C") for x in case.arrays], case.attrs)
        laid_out = outputs_of(op, case.arrays, case.attrs)
        for a, b in zip(plain, laid_out, strict=True):
            assert_same(a, b, str(case))


@pytest.mark.parametrize("op", [op for op in OPS if op.has(Trait.ELEMENTWISE)], ids=by_name)
def test_special_values_go_through_the_tensor_as_through_the_kernel(op: Op) -> None:
    for case in special_cases(op):
        (want,) = outputs_of(op, case.arrays, case.attrs)
        function = getattr(tl, op.name, None)
        if function is not None:
            got = function(*[wrap(x) for x in case.arrays]).numpy()
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("trait", [Trait.IDEMPOTENT, Trait.INVOLUTION], ids=str)
def test_ops_applied_twice_keep_what_their_traits_promise(trait: Trait) -> None:
    for op in OPS:
        if op.has(trait):
            for case in [*op_cases(op), *special_cases(op)]:
                (once,) = outputs_of(op, case.arrays, case.attrs)
                (twice,) = outputs_of(op, (once,), case.attrs)
                want = once if trait is Trait.IDEMPOTENT else case.arrays[0]
                assert twice.tobytes() == want.astype(twice.dtype).tobytes(), f"{op} {case}"


def test_commutative_ops_give_the_same_bits_with_swapped_inputs() -> None:
    for op in OPS:
        if op.has(Trait.COMMUTATIVE):
            for case in [*op_cases(op), *special_cases(op)]:
                if case.arrays[0].dtype.kind == "c":
                    continue  # NumPy's complex product is not symmetric in the last place
                (one,) = outputs_of(op, case.arrays, case.attrs)
                (other,) = outputs_of(op, case.arrays[::-1], case.attrs)
                np.testing.assert_array_equal(one, other, err_msg=f"{op} {case}")
                number = ~np.isnan(one)
                np.testing.assert_array_equal(np.signbit(one[number]), np.signbit(other[number]))


# Gradient rules


def weights_for(op: Op, values: Any, purpose: str) -> list[Any]:
    """A random cotangent per value."""
    rng = rng_of(op, purpose)
    made = []
    for y in values:
        weight = rng.uniform(0.5, 1.5, y.shape)
        if y.dtype.kind == "c":
            weight = weight + 1j * rng.uniform(0.5, 1.5, y.shape)
        made.append(np.asarray(weight, y.dtype if y.dtype.kind in "fc" else np.float64))
    return made


def run_rules(op: Op, case: Case, cts: list[Any], as_tensors: bool) -> list[Any]:
    """The cotangents of all inputs by the op's rules, on arrays or on tensors."""
    outputs = outputs_of(op, case.arrays, case.attrs)
    saved = op.save(*case.arrays, *outputs)
    if as_tensors:
        cts = [wrap(ct) for ct in cts]
        pairs = zip(op.saves, saved, strict=True)
        saved = tuple([wrap(v) if isinstance(item, int) else v for item, v in pairs])
    if op.joint_vjp is not None:
        needed = tuple([x.dtype.kind in "fc" for x in case.arrays])
        return list(op.joint_vjp(tuple(cts), case.attrs, needed, *saved))
    return [
        None if rule is None or x.dtype.kind not in "fc" else rule(cts[0], case.attrs, *saved)
        for rule, x in zip(op.vjps, case.arrays, strict=True)
    ]


def float_cases(op: Op) -> list[Case]:
    """The cases whose outputs can have a cotangent."""
    return [
        case
        for case in op_cases(op)
        if differentiable(case.arrays)
        and all(y.dtype.kind in "fc" for y in outputs_of(op, case.arrays, case.attrs))
    ]


@every_differentiable_op
def test_rules_give_the_same_on_arrays_and_on_tensors(op: Op) -> None:
    for case in float_cases(op):
        outputs = outputs_of(op, case.arrays, case.attrs)
        cts = weights_for(op, outputs, "cotangents")
        raw = run_rules(op, case, cts, as_tensors=False)
        bound = run_rules(op, case, cts, as_tensors=True)
        for x, a, b in zip(case.arrays, raw, bound, strict=True):
            assert (a is None) == (b is None), str(case)
            if a is not None:
                assert isinstance(a, np.ndarray | np.generic), str(case)
                assert type(b) is Tensor, str(case)
                assert (a.shape, a.dtype) == (x.shape, x.dtype), str(case)
                assert (b.shape, b.dtype) == (x.shape, x.dtype), str(case)
                assert_same(a, b.numpy(), str(case))


def gradient_dtypes(op: Op) -> list[str]:
    """Double precision of the kinds that the op takes."""
    return ["float64"] * ("f" in op.kinds) + ["complex128"] * ("c" in op.kinds)


def double_cases(op: Op, dtype: str, limit: int = 30) -> list[Case]:
    """The gradient cases that do not lose precision on the way, as a cast does."""
    return [
        case
        for case in gradient_cases(op, dtype, limit)
        if all(
            y.dtype.name not in ("float32", "complex64")
            for y in outputs_of(op, case.arrays, case.attrs)
        )
    ]


def assert_close(got: list[Any], want: list[Any], dtype: str, what: str) -> None:
    """Gradients agree within the stated tolerance."""
    for a, b in zip(got, want, strict=True):
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCES[dtype] * scale, err_msg=what)


@every_differentiable_op
def test_gradient_agrees_with_differences(op: Op) -> None:
    for dtype in gradient_dtypes(op):
        for case in double_cases(op, dtype):
            weights = weights_for(op, outputs_of(op, case.arrays, case.attrs), "weights")

            def value(*arrays: Any, case: Case = case, weights: Any = weights) -> float:
                return float(pair(weights, outputs_of(op, arrays, case.attrs)))

            got = tape_gradients(op, case.arrays, case.attrs, weights)
            assert_close(got, difference_gradients(value, case.arrays), dtype, str(case))


@every_differentiable_op
def test_second_gradient_agrees_with_differences_of_the_first(op: Op) -> None:
    for dtype in gradient_dtypes(op):
        for case in double_cases(op, dtype, limit=12):
            weights = weights_for(op, outputs_of(op, case.arrays, case.attrs), "weights")
            first = tape_gradients(op, case.arrays, case.attrs, weights)
            second = weights_for(op, first, "second weights")

            def value(
                *arrays: Any, case: Case = case, weights: Any = weights, second: Any = second
            ) -> float:
                return float(pair(second, tape_gradients(op, arrays, case.attrs, weights)))

            got = tape_second_gradients(op, case.arrays, case.attrs, weights, second)
            assert_close(got, difference_gradients(value, case.arrays), dtype, str(case))


# Public functions

PYTHON_DTYPES = ("bool", "int64", "float64", "complex128")
"""What nested lists of Python numbers become."""


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.has(Trait.ELEMENTWISE) and hasattr(tl, op.name)], ids=by_name
)
def test_public_function_takes_numbers_arrays_and_tensors(op: Op) -> None:
    function = getattr(tl, op.name)
    for case in op_cases(op):
        (want,) = outputs_of(op, case.arrays, case.attrs)
        as_given = [case.arrays, [wrap(x) for x in case.arrays]]
        if all(x.size and x.dtype.name in PYTHON_DTYPES for x in case.arrays):
            as_given.append([x.tolist() for x in case.arrays])
        for inputs in as_given:
            got = function(*inputs, *case.attrs)
            assert type(got) is Tensor
            assert_same(got.numpy(), want, str(case))
