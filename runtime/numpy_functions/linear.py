"""NumPy's linear algebra and transforms with the arguments that the library's own do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops import factorizations, linalg, norms, singular, solving, spectral
from tapeline.runtime.ops.cast import conj
from tapeline.runtime.ops.fft import fftn, ifftn
from tapeline.runtime.ops.grids import tril, triu
from tapeline.runtime.ops.permuting import matrix_transpose, moveaxis
from tapeline.runtime.ops.real_fft import irfftn, rfftn
from tapeline.runtime.tensor import Tensor, as_tensor


def _svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    return singular.svd(a, full_matrices=full_matrices) if compute_uv else singular.svdvals(a)


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return factorizations.qr(a).R
    if mode not in ("reduced", "complete"):
        raise ArgumentError(
            f"np.linalg.qr: of tensors, mode must be 'reduced', 'complete' or 'r', got {mode!r}"
        )
    return factorizations.qr(a, mode="complete" if mode == "complete" else "reduced")


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    if rcond is not None and rtol is not None:
        raise ArgumentError("np.linalg.pinv: give rcond or rtol, not both")
    given = rcond if rtol is None else rtol
    return solving.pinv(a, rtol=1e-15 if given is None else given)


def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    if tol is None:
        return norms.matrix_rank(A, rtol=rtol)
    return (singular.svdvals(A) > tol).sum(axis=-1)


def _one_triangle(a: Any, UPLO: str) -> Tensor:
    """The symmetric or Hermitian matrix whose lower or upper triangle is given."""
    x = as_tensor(a)
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"np.linalg.eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    is_lower = UPLO.upper() == "L"
    half = tril(x) if is_lower else triu(x)
    other = tril(x, k=-1) if is_lower else triu(x, k=1)
    return half + conj(matrix_transpose(other))


def _eigh(a: Any, UPLO: str = "L") -> Any:
    return spectral.eigh(_one_triangle(a, UPLO))


def _eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    return spectral.eigvalsh(_one_triangle(a, UPLO))


def _cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(as_tensor(a), axisa, -1), moveaxis(as_tensor(b), axisb, -1)
    return moveaxis(linalg.cross(x, y), -1, axisc)


def _over_two(transform: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def transform2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Tensor:
        return transform(a, s=s, axes=axes, norm=norm or "backward")

    return transform2


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.linalg.svd: _svd, np.linalg.qr: _qr, np.linalg.pinv: _pinv,
    np.linalg.matrix_rank: _matrix_rank,
    np.linalg.eigh: _eigh, np.linalg.eigvalsh: _eigvalsh, np.cross: _cross,
    np.fft.fft2: _over_two(fftn), np.fft.ifft2: _over_two(ifftn),
    np.fft.rfft2: _over_two(rfftn), np.fft.irfft2: _over_two(irfftn),
}  # fmt: skip
