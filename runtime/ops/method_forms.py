"""Methods of tensors under the signatures of NumPy's arrays: what the library's functions take goes
to those at once, and `out=`, `where=`, `initial=` and `mean=` go the way that `np.sum(x, ...)` and
its like go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.cells import replace_value
from tapeline.runtime.errors import DTypeError
from tapeline.runtime.operators import attach_method
from tapeline.runtime.ops import (
    arranging,
    cast,
    extrema,
    gather,
    reduction,
    rounding,
    scan,
    searching,
    selection,
    sorting,
    statistics,
)
from tapeline.runtime.ops import matmul as products
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, as_tensor

Method = Callable[..., Any]

_MEAN: Method = np.mean
_CLIP: Method = np.clip
_ROUND: Method = np.round
_TAKE: Method = np.take
_DOT: Method = np.dot


def _total(plain: Method, further: Method) -> Method:
    def method(
        x: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        if out is None and initial is None and where is True:
            return plain(x, axis, dtype=dtype, keepdims=keepdims)
        return further(
            x, axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where
        )

    return method


def _mean(
    x: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *,
    where: Any = True,
) -> Any:  # fmt: skip
    if dtype is None and out is None and where is True:
        return statistics.mean(x, axis, keepdims=keepdims)
    return _MEAN(x, axis, dtype=dtype, out=out, keepdims=keepdims, where=where)


def _spread(plain: Method, further: Method) -> Method:
    def method(
        x: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float | None = None,
        keepdims: bool = False, *, where: Any = True, mean: Any = None, correction: float = 0,
    ) -> Any:  # fmt: skip
        if dtype is None and out is None and where is True and mean is None:
            return plain(x, axis, correction=correction, ddof=ddof, keepdims=keepdims)
        lost = correction if ddof is None else ddof
        options = {"dtype": dtype, "out": out, "ddof": lost, "keepdims": keepdims, "where": where}
        return further(x, axis, **options, **({} if mean is None else {"mean": mean}))

    return method


def _extremum(plain: Method, further: Method) -> Method:
    def method(
        x: Tensor, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
        where: Any = True,
    ) -> Any:  # fmt: skip
        if out is None and initial is None and where is True:
            return plain(x, axis, keepdims=keepdims)
        return further(x, axis, out=out, keepdims=keepdims, initial=initial, where=where)

    return method


def _truth(plain: Method, further: Method) -> Method:
    def method(
        x: Tensor, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
    ) -> Any:
        if out is None and where is True:
            return plain(x, axis, keepdims=keepdims)
        return further(x, axis, out=out, keepdims=keepdims, where=where)

    return method


def _place(plain: Method, further: Method) -> Method:
    def method(x: Tensor, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        if out is None:
            return plain(x, axis, keepdims=keepdims)
        return further(x, axis, out=out, keepdims=keepdims)

    return method


def _running(plain: Method, further: Method) -> Method:
    def method(x: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if out is None:
            return plain(x, axis, dtype=dtype)
        return further(x, axis, dtype=dtype, out=out)

    return method


def _clip(x: Tensor, min: Any = None, max: Any = None, out: Any = None) -> Any:
    if out is None:
        return selection.clip(x, min, max)
    return _CLIP(x, min, max, out=out)


def _round(x: Tensor, decimals: int = 0, out: Any = None) -> Any:
    return rounding.round(x, decimals) if out is None else _ROUND(x, decimals, out=out)


def _take(
    x: Tensor, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise"
) -> Any:
    if out is None and mode == "raise":
        return gather.take(x, indices, axis=axis)
    return _TAKE(x, indices, axis, out=out, mode=mode)


def _argsort(
    x: Tensor, axis: int | None = -1, kind: Any = None, order: None = None, *,
    stable: bool | None = None, descending: bool = False,
) -> Tensor:  # fmt: skip
    if axis is None:
        x, axis = x.reshape(-1), -1
    return sorting.argsort(x, axis, descending=descending)


def _dot(x: Tensor, b: Any, out: Any = None) -> Any:
    return products.dot(x, b) if out is None else _DOT(x, b, out=out)


def _searchsorted(x: Tensor, v: Any, side: Any = "left", sorter: Any = None) -> Tensor:
    return searching.searchsorted(x, v, side=side, sorter=sorter)


def _repeat(x: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    return arranging.repeat(x, repeats, axis=axis)


def _astype(
    x: Tensor, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True,
    copy: bool = True, *, device: Any = None,
) -> Tensor:  # fmt: skip
    if casting != "unsafe" and not np.can_cast(x.dtype, canonical_dtype(dtype), casting):
        raise DTypeError(
            f"astype: dtype {x.dtype} cannot become {canonical_dtype(dtype)} by the rule "
            f"casting={casting!r}"
        )
    return cast.astype(x, dtype, copy=copy, device=device)


def _set_real(x: Tensor, value: Any) -> None:
    x[...] = value + 1j * x.imag if x.dtype.kind == "c" else value


def _set_imag(x: Tensor, value: Any) -> None:
    if x.dtype.kind != "c":
        raise DTypeError(f"x.imag = value: x has dtype {x.dtype}, which has no imaginary part")
    x[...] = x.real + 1j * as_tensor(value)


def _resize(x: Tensor, *shape: Any, refcheck: bool = True) -> None:
    """Gives the cell another shape: elements in row-major order, then zeros."""
    extents = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
    row = x.reshape(-1)
    missing = int(np.prod(extents)) - row.shape[0]
    kept: Any = np.pad(row, (0, missing)) if missing > 0 else row[: row.shape[0] + missing]
    replace_value(x, as_tensor(kept).reshape(extents))


_METHODS: dict[str, Any] = {
    "sum": _total(reduction.sum, np.sum), "prod": _total(reduction.prod, np.prod),
    "mean": _mean, "var": _spread(statistics.var, np.var), "std": _spread(statistics.std, np.std),
    "max": _extremum(extrema.max, np.max), "min": _extremum(extrema.min, np.min),
    "any": _truth(reduction.any, np.any), "all": _truth(reduction.all, np.all),
    "argmax": _place(extrema.argmax, np.argmax), "argmin": _place(extrema.argmin, np.argmin),
    "cumsum": _running(scan.cumsum, np.cumsum),
    "cumprod": _running(scan.cumulative_prod, np.cumprod),
    "clip": _clip, "round": _round, "take": _take, "argsort": _argsort, "dot": _dot,
    "searchsorted": _searchsorted, "repeat": _repeat, "astype": _astype, "resize": _resize,
    "real": property(cast.real, _set_real), "imag": property(cast.imag, _set_imag),
}  # fmt: skip
for _name, _method in _METHODS.items():
    if not isinstance(_method, property):
        _method.__name__ = _method.__qualname__ = _name
    attach_method(_name, _method)
