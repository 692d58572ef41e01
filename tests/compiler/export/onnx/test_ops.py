"""Every op that exports gives in ONNX Runtime what its kernel gives, generated from the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.export.onnx.running import NEEDS_ONNX, export_and_run, stacked
from tests.compiler.test_ops_compiled import distinct
from tests.gradients import outputs_of
from tests.sampling import Case, op_cases, sampled_ops, special_cases

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import ExportError
from tapeline.runtime.op import Op, Pointwise, get_op
from tapeline.runtime.tensor import Tensor

pytest.importorskip("onnx", reason=NEEDS_ONNX)

NOT_EXPORTED = {"eig", "eigvals", "gamma", "poisson"}
"""Complex eigenvalues, and draws that throw numbers away: each is named in an error."""

REAL_ONLY = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "prod", "cumulative_prod", "cholesky", "qr",
    "eigh", "eigvalsh", "svd", "svdvals", "pinv", "inv", "solve", "det", "slogdet", "matrix_exp",
}  # fmt: skip
"""Ops that export, though not on complex numbers."""

ZEROS_OF_ONE_SIGN = {"digamma"}
"""Ops with another value at -0 than at 0, which choose by Where: ONNX Runtime's makes 0 of -0."""

TOLERANCE = {"float32": 4e-5, "float64": 4e-13}
"""Relative; of the largest entry where an op adds numbers up. ONNX Runtime's float32 functions are
short polynomials."""

OPS = [op for op in sampled_ops() if op.name not in NOT_EXPORTED]
SPECIAL = [op for op in OPS if next(special_cases(op), None) is not None]


@pytest.fixture(autouse=True)
def _ignore_float_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def is_complex(case: Case) -> bool:
    return any(x.dtype.kind == "c" for x in case.arrays)


def outputs_in_onnx(op: Op, cases: Sequence[Case], path: Path) -> list[tuple[Any, ...]]:
    """The outputs of all cases, by one model."""

    def together(*tensors: Tensor) -> list[Any]:
        results: list[Any] = []
        position = 0
        for case in cases:
            given = tensors[position : position + len(case.arrays)]
            position += len(given)
            made = bind(op, given, case.attrs)
            results += made if type(made) is tuple else (made,)
        return results

    arrays = [x for case in cases for x in case.arrays]
    found = iter(export_and_run(tl.function(autograph=False)(together), arrays, path).values())
    count = op.n_outputs or 1
    return [tuple([next(found) for _ in range(count)]) for _ in cases]


def with_same_signs(op: Op, got: Sequence[Any], want: Sequence[Any]) -> list[Any]:
    """Vectors of a factorization with the signs of the others: these are arbitrary."""
    found = list(got)
    if op.name == "eigh":
        found[1] = got[1] * np.sign(np.sum(got[1] * want[1], axis=-2, keepdims=True))
    elif op.name == "svd":
        count = want[1].shape[-1]
        u, vh = got[0].copy(), got[2].copy()
        signs = np.sign(np.sum(u * want[0], axis=-2, keepdims=True))
        u *= signs
        vh[..., :count, :] *= signs.swapaxes(-1, -2)[..., :count, :]
        found[0], found[2] = u, vh
    return found


def assert_close(op: Op, got: Any, want: Any, what: str) -> None:
    want = stacked(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    rtol = TOLERANCE[want.dtype.name]
    finite = np.abs(want[np.isfinite(want)])
    atol = 0.0 if isinstance(op.lowering, Pointwise) else rtol * np.max(finite, initial=1.0)
    tiny = 4 * float(np.finfo(want.dtype).tiny)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=max(atol, tiny), err_msg=what)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_op_gives_in_onnxruntime_what_its_kernel_gives(op: Op, tmp_path: Path) -> None:
    cases = distinct(op_cases(op))
    if op.name in REAL_ONLY:
        cases = [case for case in cases if not is_complex(case)]
    for case, got in zip(cases, outputs_in_onnx(op, cases, tmp_path / "m.onnx"), strict=True):
        want = outputs_of(op, case.arrays, case.attrs)
        for a, b in zip(with_same_signs(op, got, want), want, strict=True):
            assert_close(op, a, b, str(case))


@pytest.mark.parametrize("op", SPECIAL, ids=lambda op: op.name)
def test_op_treats_special_values_as_its_kernel_does(op: Op, tmp_path: Path) -> None:
    cases = list(special_cases(op))
    if op.name in ZEROS_OF_ONE_SIGN:
        cases = [Case((np.where(c.arrays[0] == 0, 0, c.arrays[0]),), ()) for c in cases]
    for case, got in zip(cases, outputs_in_onnx(op, cases, tmp_path / "m.onnx"), strict=True):
        for a, b in zip(got, outputs_of(op, case.arrays, case.attrs), strict=True):
            assert_close(op, a, b, str(case))


@pytest.mark.parametrize("name", sorted(NOT_EXPORTED))
def test_op_without_a_rule_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    op = get_op(name)
    case = next(op_cases(op), None)
    if case is None:
        assert name == "eig"  # it has no samples of its own
        case = Case((np.eye(2),), ())
    function = tl.function(lambda *x: bind(op, x, case.attrs))
    with pytest.raises(ExportError, match=rf"{name} at test_ops\.py:\d+"):
        export_and_run(function, case.arrays, tmp_path / "m.onnx")


@pytest.mark.parametrize("name", sorted(REAL_ONLY))
def test_complex_numbers_without_a_rule_are_named_with_their_line(
    name: str, tmp_path: Path
) -> None:
    op = get_op(name)
    case = next((case for case in op_cases(op) if is_complex(case)), None)
    if case is None:
        assert name in ("eigh", "svd")  # they have no complex samples
        case = Case((np.eye(2) + 0j,), (True,) if name == "svd" else ())
    function = tl.function(lambda *x: bind(op, x, case.attrs))
    with pytest.raises(ExportError, match=rf"{name} at test_ops\.py:\d+: .*complex"):
        export_and_run(function, case.arrays, tmp_path / "m.onnx")


def test_a_nan_is_the_largest_in_order(tmp_path: Path) -> None:
    x = np.array([3.0, np.nan, np.inf, -np.inf, np.nan, 1.0])

    def orders(x: Tensor) -> tuple[Tensor, ...]:
        return tl.sort(x), tl.argsort(x), tl.sort(x, descending=True), tl.argmax(x), tl.max(x)

    got = export_and_run(tl.function(orders), [x], tmp_path / "m.onnx")
    for a, b in zip(got.values(), orders(tl.asarray(x)), strict=True):
        np.testing.assert_array_equal(a, b.numpy())
