"""Inputs for the tests that are generated from op records.

`op_cases(op)` gives inputs over dtypes, shapes and memory layouts, `gradient_cases(op)` a few small
ones in double precision, `special_cases(op)` NaN, infinities and zeros of both signs. Each case is
the arrays and the attributes. The same op always gets the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.op import Attrs, Op, Sample, Trait, registered_ops

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Inputs of one op; unpacks as `arrays, attrs`."""

    arrays: tuple[Array, ...]
    attrs: Attrs

    def __iter__(self) -> Iterator[Any]:
        return iter((self.arrays, self.attrs))

    def __str__(self) -> str:
        inputs = ", ".join(f"{a.dtype}{list(a.shape)}/{list(a.strides)}" for a in self.arrays)
        return f"({inputs}) attrs {self.attrs}"


DTYPES_OF_KIND = {
    "b": ("bool",),
    "i": ("int8", "int16", "int32", "int64"),
    "u": ("uint8", "uint16", "uint32", "uint64"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}

UNARY_SHAPES: tuple[tuple[Shape, ...], ...] = (((),), ((0,),), ((7,),), ((2, 0, 3),), ((3, 4, 5),))
BINARY_SHAPES: tuple[tuple[Shape, ...], ...] = (
    ((), ()), ((0,), (1,)), ((7,), (7,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), ()),
    ((1,), (2, 0)),
)  # fmt: skip
TERNARY_SHAPES: tuple[tuple[Shape, ...], ...] = (
    ((), (), ()), ((5,), (5,), (5,)), ((3, 1), (4,), ()), ((2, 0), (1,), (2, 1)),
)  # fmt: skip
SHAPES = {1: UNARY_SHAPES, 2: BINARY_SHAPES, 3: TERNARY_SHAPES}

SPECIAL_VALUES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 1e30, -1e30, 1e-40, np.inf, -np.inf, np.nan,
)  # fmt: skip


def sampled_ops() -> list[Op]:
    """The registered ops that are computed by their kernel alone, from values alone."""
    return [op for op in registered_ops() if op.is_pure and samples_of(op)]


def samples_of(op: Op) -> tuple[Sample, ...]:
    """The op's own samples, or those that serve every elementwise op."""
    if op.samples or not op.has(Trait.ELEMENTWISE) or op.attr_names:
        return op.samples
    return tuple(Sample(shapes) for shapes in SHAPES.get(op.n_inputs or 0, ()))


def rng_of(op: Op, purpose: str) -> np.random.Generator:
    """A generator seeded from the op's name."""
    return np.random.default_rng(zlib.crc32(f"{op.name} {purpose}".encode()))


def draw(op: Op, shape: Shape, dtype: Any, rng: np.random.Generator) -> Array:
    """Random numbers that suit the op."""
    dtype = np.dtype(dtype)
    low, high = op.domain or (-2.0, 2.0)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        first, last = (int(np.ceil(low)), int(np.floor(high))) if op.domain else (-9, 9)
        return rng.integers(max(first, 0) if dtype.kind == "u" else first, last + 1, shape, dtype)
    values = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(values, dtype)


def build_inputs(op: Op, sample: Sample, dtype: Any, rng: np.random.Generator) -> tuple[Array, ...]:
    """The sample's inputs: shapes become random arrays, functions make their own."""
    return tuple(
        [
            np.asarray(item(rng)) if callable(item) else draw(op, item, dtype, rng)
            for item in sample.inputs
        ]
    )


# Memory layouts: the same values, otherwise stored


def _spaced(x: Array) -> Array:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2] = x
    return wide[..., 1::2]


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "columns first": lambda x: np.asfortranarray(x),
    "spaced": _spaced,
    "backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "rows backwards": lambda x: x[::-1].copy()[::-1],
    "spread": lambda x: np.broadcast_to(x[:1], x.shape),
}


def lay_out(arrays: Sequence[Array], layout: str) -> tuple[Array, ...]:
    """The arrays, those with dimensions in another layout."""
    return tuple([LAYOUTS[layout](x) if x.ndim and x.size else x for x in arrays])


# Cases


def op_cases(op: Op) -> Iterator[Case]:
    """Every sample in every dtype the op takes, and in other layouts in one of them."""
    rng = rng_of(op, "cases")
    dtypes = [dtype for kind in op.kinds for dtype in DTYPES_OF_KIND[kind]]
    for sample in samples_of(op):
        fixed = all(callable(item) for item in sample.inputs)
        for dtype in dtypes[:1] if fixed else dtypes:
            yield Case(build_inputs(op, sample, dtype, rng), sample.attrs)
        preferred = "float64" if "float64" in dtypes else dtypes[-1]
        for layout in LAYOUTS:
            arrays = build_inputs(op, sample, preferred, rng)
            if any(x.ndim and x.size > 1 and not callable(i) for x, i in _zip(arrays, sample)):
                yield Case(_lay_out_drawn(arrays, sample, layout), sample.attrs)


def _zip(arrays: Sequence[Array], sample: Sample) -> Iterator[tuple[Array, Any]]:
    return zip(arrays, sample.inputs, strict=True)


def _lay_out_drawn(arrays: Sequence[Array], sample: Sample, layout: str) -> tuple[Array, ...]:
    """Other layouts for the inputs that the sample gives by shape only."""
    return tuple([x if callable(i) else lay_out([x], layout)[0] for x, i in _zip(arrays, sample)])


def gradient_cases(op: Op, dtype: str = "float64", limit: int = 30) -> Iterator[Case]:
    """Samples of at most `limit` elements, for finite differences."""
    rng = rng_of(op, "gradient")
    for sample in samples_of(op):
        arrays = build_inputs(op, sample, dtype, rng)
        if 0 < sum(x.size for x in arrays) <= limit:
            yield Case(arrays, sample.attrs)


def special_cases(op: Op) -> Iterator[Case]:
    """All combinations of special values, for elementwise ops of floats without attributes."""
    if not op.has(Trait.ELEMENTWISE) or op.attr_names or "f" not in op.kinds or not op.n_inputs:
        return
    for dtype in DTYPES_OF_KIND["f"]:
        with np.errstate(over="ignore", under="ignore"):
            values = np.array(SPECIAL_VALUES, dtype)
        columns = np.array(list(product(values, repeat=min(op.n_inputs, 2))), dtype).T
        arrays: tuple[Array, ...] = tuple(columns)
        if op.n_inputs == 3:
            arrays = (np.arange(columns.shape[1]) % 3 == 0, *arrays)
        specs = samples_of(op)
        if op.n_inputs == 3 and not callable(specs[0].inputs[0]):
            arrays = (arrays[1], arrays[2], arrays[2][::-1])
        yield Case(arrays, ())
