"""NumPy's arrays that are made of sizes, such as `np.arange(x.shape[0])`.

Where the trace leaves the sizes open, or computes them, or what fills the array, they are tensors;
NumPy itself would ask for the numbers at hand. Whoever asks such a tensor for its elements still
gets them, for these sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tapeline.compiler.frontend.convert.tables import is_unknown
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.runtime import nest
from tapeline.runtime.dims import is_open
from tapeline.runtime.ops import (
    bessel,
    creation,
    evenly_spaced,
    grids,
    joining,
    powers,
    real_fft,
    shaping,
    signs,
    trigonometric,
)
from tapeline.runtime.tensor import Tensor, as_tensor


def _eye(rows: Any, columns: Any = None, k: int = 0, dtype: Any = float) -> Tensor:
    return grids.eye(rows, columns, k=k, dtype=dtype)


def _identity(rows: Any, dtype: Any = None) -> Tensor:
    return grids.eye(rows, dtype=dtype)


def _tri(rows: Any, columns: Any = None, k: int = 0, dtype: Any = float) -> Tensor:
    shape = (rows, rows if columns is None else columns)
    return grids.tril(creation.ones(shape, dtype=dtype), k=k)


def _zeros(shape: Any, dtype: Any = float) -> Tensor:
    return creation.zeros(shape, dtype=dtype)


def _ones(shape: Any, dtype: Any = None) -> Tensor:
    return creation.ones(shape, dtype=float if dtype is None else dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    value = as_tensor(fill_value, None if dtype is None else np.dtype(dtype), "np.full")
    return creation.asarray(shaping.broadcast_to(value, shape), copy=True)


def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None
) -> Tensor:
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        between: Callable[..., Any] = np.linspace
        return as_tensor(between(start, stop, num, endpoint, dtype=dtype))
    return evenly_spaced.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    return evenly_spaced.arange(start, stop, step, dtype=dtype)


def _indices(dimensions: Any, dtype: Any = int) -> Tensor:
    return _dense([evenly_spaced.arange(size, dtype=dtype) for size in dimensions])


def _dense(counts: Sequence[Tensor]) -> Tensor:
    """The coordinates of a grid, one after the other."""
    shape = tuple([count.shape[0] for count in counts])
    return joining.stack([shaping.broadcast_to(one, shape) for one in _sparse(counts)])


def _sparse(counts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Coordinates, each along an axis of its own."""
    rest = len(counts) - 1
    return tuple(
        [
            shaping.reshape(count, (*[1] * k, count.shape[0], *[1] * (rest - k)))
            for k, count in enumerate(counts)
        ]
    )


class Grid:
    """`np.mgrid` and `np.ogrid`, also of sizes that the trace leaves open."""

    def __init__(self, plain: Any, is_sparse: bool) -> None:
        self._plain = plain
        self._is_sparse = is_sparse

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        bounds = [(part.start, part.stop, part.step) for part in parts if type(part) is slice]
        has_open = any(is_open(bound) for one in bounds for bound in one)
        if not has_open or len(bounds) < len(parts) or any(type(s) is complex for *_, s in bounds):
            return self._plain[key]
        counts = [
            evenly_spaced.arange(0 if start is None else start, stop, 1 if step is None else step)
            for start, stop, step in bounds
        ]
        if type(key) is slice:
            return _as_table(counts[0])
        if self._is_sparse:
            return tuple(map(_as_table, _sparse(counts)))
        return _as_table(_dense(counts))


GRIDS: Final[dict[int, Grid]] = {
    id(np.mgrid): Grid(np.mgrid, is_sparse=False),
    id(np.ogrid): Grid(np.ogrid, is_sparse=True),
}
"""What stands for NumPy's grids while a trace is under way, by their ids."""


def _fftfreq(n: Any, d: Any = 1.0) -> Tensor:
    return real_fft.fftfreq(n, d=d)


def _rfftfreq(n: Any, d: Any = 1.0) -> Tensor:
    return real_fft.rfftfreq(n, d=d)


def _logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None
) -> Tensor:
    exponents = evenly_spaced.linspace(start, stop, num, endpoint=endpoint)
    return as_tensor(powers.power(float(base), exponents), dtype and np.dtype(dtype))


def _bartlett(count: Any) -> Tensor:
    if count <= 1:
        return creation.ones(max(count, 0))
    return 1.0 - signs.abs(evenly_spaced.arange(1 - count, count, 2) / (count - 1))


def _kaiser(count: Any, beta: float) -> Tensor:
    if count <= 1:
        return creation.ones(max(count, 0))
    places = evenly_spaced.arange(1 - count, count, 2) / (count - 1)
    return bessel.i0(beta * powers.sqrt(1.0 - places * places)) / bessel.i0(float(beta))


def _window(*coefficients: float) -> Callable[[Any], Tensor]:
    """A window of so many points: a sum of cosines."""

    def window(count: Any) -> Tensor:
        if count <= 1:
            return creation.ones(max(count, 0))
        places = evenly_spaced.arange(1 - count, count, 2) * (np.pi / (count - 1))
        result = creation.asarray(coefficients[0])
        for k, coefficient in enumerate(coefficients[1:], 1):
            result = result + coefficient * trigonometric.cos(places * k)
        return result

    return window


_COUNTERPARTS: dict[Any, Callable[..., Any]] = {
    np.arange: _arange,
    np.empty: _zeros,
    np.eye: _eye,
    np.full: _full,
    np.identity: _identity,
    np.linspace: _linspace,
    np.ones: _ones,
    np.tri: _tri,
    np.zeros: _zeros,
    np.indices: _indices,
    np.fft.fftfreq: _fftfreq,
    np.fft.rfftfreq: _rfftfreq,
    np.logspace: _logspace,
    np.bartlett: _bartlett,
    np.kaiser: _kaiser,
    np.hanning: _window(0.5, 0.5),
    np.hamming: _window(0.54, 0.46),
    np.blackman: _window(0.42, 0.5, 0.08),
}


def open_to_sizes(function: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in the place of a function of NumPy, or of what else stands for it, while a
    trace is under way; `plain` itself if it makes nothing of sizes."""
    counterpart = _COUNTERPARTS.get(function)
    if counterpart is None:
        return plain

    def make(*args: Any, **options: Any) -> Any:
        leaves = nest.flatten((args, options))
        is_computed = any(map(is_unknown, leaves))
        if is_computed or any(map(is_open, leaves)):
            try:
                made = counterpart(*args, **options)
                return made if is_computed else _as_table(made)
            except TypeError:  # options of NumPy's own
                pass
        return plain(*args, **options)

    return make


def _as_table(made: Tensor) -> Tensor:
    """The tensor, which comes back as an array of NumPy's if it is a result of the function."""
    symbol = made._value
    if type(symbol) is Symbol:
        symbol.graph.tables.add(symbol.id)
    return made


TABLES: tuple[Any, ...] = tuple(_COUNTERPARTS)
"""The functions of NumPy that this module knows."""
