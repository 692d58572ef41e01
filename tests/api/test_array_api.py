"""Every name of the array API standard 2025.12 is there, and works on traced tensors too.

What the functions do is the public suite's business: `docs/conformance.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conformance.traced_namespace import namespace_of

import tapeline as tl

FUNCTIONS = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh
bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip concat conj copysign cos cosh
count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims
expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo
imag inf isdtype isfinite isin isinf isnan less less_equal linspace log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min
minimum moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones ones_like
permute_dims pi positive pow prod real reciprocal remainder repeat reshape result_type roll round
searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse
unique_values unstack var vecdot where zeros zeros_like
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
__array_api_version__ __array_namespace_info__
"""

LINALG = """
cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
vector_norm
"""

FFT = """
fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn
"""

METHODS = """
T dtype device mT ndim shape size to_device __abs__ __add__ __and__ __array_namespace__ __bool__
__complex__ __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__
__index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__
__or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__
__iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__ __imatmul__ __iand__ __ior__
__ixor__ __ilshift__ __irshift__ __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rpow__
__rmod__ __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__
"""


@pytest.mark.parametrize(
    ("place", "names"),
    [(tl, FUNCTIONS), (tl.linalg, LINALG), (tl.fft, FFT), (tl.Tensor, METHODS)],
    ids=["functions", "linalg", "fft", "methods"],
)
def test_every_name_of_the_standard_is_there(place: Any, names: str) -> None:
    missing = [name for name in names.split() if not hasattr(place, name)]
    assert not missing


@pytest.mark.parametrize("name", ["tanh", "concat", "var", "sort", "tensordot", "meshgrid"])
def test_traced_namespace_gives_what_the_eager_one_gives(name: str) -> None:
    x = tl.asarray([3.0, 1.0, 2.0])
    arguments: dict[str, tuple[Any, ...]] = {
        "concat": ([x, x],),
        "meshgrid": (x, x),
        "tensordot": (x, x),
    }
    options: dict[str, dict[str, Any]] = {
        "var": {"correction": 1},
        "sort": {"descending": True},
        "tensordot": {"axes": 1},
    }
    given, named = arguments.get(name, (x,)), options.get(name, {})
    want = getattr(tl, name)(*given, **named)
    got = getattr(namespace_of(tl), name)(*given, **named)
    for a, b in zip(*([y] if isinstance(y, tl.Tensor) else y for y in (got, want)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
