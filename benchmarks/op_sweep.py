"""Every function that NumPy has too, eagerly beside NumPy: few elements and a million.

    python -m benchmarks.op_sweep [--all] [NAME ...]

Prints the functions that take more than 1.3 times NumPy's time on a million elements, or more than
NumPy's time and a microsecond on few; with `--all` every function. Times are the least of many
repetitions, in CPU time of this thread, so other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tapeline as tl

LARGE, SMALL = 1_000_000, 10
LARGE_RATIO, SMALL_MICROSECONDS = 1.3, 1.0

INT_FUNCTIONS = {
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift",
    "bitwise_right_shift",
}  # fmt: skip
UNARY_INSIDE = {"acos", "asin", "atanh"}
"""Functions that are drawn from -1 to 1; the others from 0.5 to 2."""

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "negative",
    "positive",
    "reciprocal",
    "rint",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "bitwise_invert",
    "round",
    "real",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "power",
    "maximum",
    "minimum",
    "hypot",
    "logaddexp",
    "atan2",
    "copysign",
    "nextafter",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
]

NUMPY_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "atan2": "arctan2", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip

Call = Callable[..., Any]

OTHERS: dict[str, tuple[Call, Call]] = {
    "sum": (tl.sum, np.sum),
    "sum of rows": (lambda x: tl.sum(x, axis=-1), lambda x: np.sum(x, axis=-1)),
    "prod": (tl.prod, np.prod),
    "mean": (tl.mean, np.mean),
    "mean of columns": (lambda x: tl.mean(x, axis=0), lambda x: np.mean(x, axis=0)),
    "var": (tl.var, np.var),
    "std": (tl.std, np.std),
    "max": (tl.max, np.max),
    "min": (tl.min, np.min),
    "argmax": (tl.argmax, np.argmax),
    "argmin": (tl.argmin, np.argmin),
    "any": (tl.any, np.any),
    "all": (tl.all, np.all),
    "cumulative_sum": (lambda x: tl.cumulative_sum(x, axis=-1), lambda x: np.cumsum(x, axis=-1)),
    "cumulative_prod": (
        lambda x: tl.cumulative_prod(x, axis=-1), lambda x: np.cumprod(x, axis=-1),
    ),
    "sort": (tl.sort, lambda x: np.sort(x, kind="stable")),
    "argsort": (tl.argsort, lambda x: np.argsort(x, kind="stable")),
    "clip": (lambda x: tl.clip(x, 0.7, 1.2), lambda x: np.clip(x, 0.7, 1.2)),
    "where": (lambda x: tl.where(x > 1, x, 0.0), lambda x: np.where(x > 1, x, 0.0)),
    "add a number": (lambda x: x + 2.0, lambda x: x + 2.0),
    "transpose": (tl.matrix_transpose, lambda x: np.swapaxes(x, -1, -2)),
    "transposed copy": (lambda x: tl.matrix_transpose(x) + 1.0, lambda x: x.T + 1.0),
    "reshape": (lambda x: tl.reshape(x, (-1,)), lambda x: np.reshape(x, (-1,))),
    "concat": (lambda x: tl.concat([x, x]), lambda x: np.concatenate([x, x])),
    "stack": (lambda x: tl.stack([x, x]), lambda x: np.stack([x, x])),
    "flip": (tl.flip, np.flip),
    "roll": (lambda x: tl.roll(x, 1, axis=0), lambda x: np.roll(x, 1, axis=0)),
    "tile": (lambda x: tl.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "repeat": (lambda x: tl.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, axis=0)),
    "slice": (lambda x: x[1:, :-1], lambda x: x[1:, :-1]),
    "take": (lambda x: tl.take(x, [0, 1], axis=0), lambda x: np.take(x, [0, 1], axis=0)),
    "astype": (lambda x: tl.astype(x, "float32"), lambda x: x.astype("float32")),
    "matmul": (lambda x: x[:100] @ x[:100].T, lambda x: x[:100] @ x[:100].T),
    "zeros_like": (tl.zeros_like, np.zeros_like),
    "ones_like": (tl.ones_like, np.ones_like),
    "broadcast_to": (
        lambda x: tl.broadcast_to(x, (3, *x.shape)), lambda x: np.broadcast_to(x, (3, *x.shape)),
    ),
    "expand_dims": (lambda x: tl.expand_dims(x, 0), lambda x: np.expand_dims(x, 0)),
    "squeeze": (lambda x: tl.squeeze(x[None], 0), lambda x: np.squeeze(x[None], 0)),
    "diff": (tl.diff, np.diff),
    "tril": (tl.tril, np.tril),
    "count_nonzero": (tl.count_nonzero, np.count_nonzero),
    "isin": (lambda x: tl.isin(x, [1.0, 2.0]), lambda x: np.isin(x, [1.0, 2.0])),
    "searchsorted": (
        lambda x: tl.searchsorted([0.5, 1.0, 1.5], x), lambda x: np.searchsorted([0.5, 1.0, 1.5], x)
    ),
    "outer": (lambda x: tl.linalg.outer(x[0], x[0]), lambda x: np.outer(x[0], x[0])),
    "pad": (lambda x: tl.pad(x, 1), lambda x: np.pad(x, 1)),
    "swapaxes": (lambda x: tl.swapaxes(x, 0, 1), lambda x: np.swapaxes(x, 0, 1)),
    "moveaxis": (lambda x: tl.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "permute_dims": (lambda x: tl.permute_dims(x, (1, 0)), lambda x: np.permute_dims(x, (1, 0))),
    "split": (lambda x: tl.split(x, 2), lambda x: np.split(x, 2)),
    "unstack": (lambda x: tl.unstack(x[:2]), lambda x: np.unstack(x[:2])),
    "element": (lambda x: x[1, 1], lambda x: x[1, 1]),
    "rows by index": (lambda x: x[[0, 1]], lambda x: x[[0, 1]]),
    "take_along_axis": (
        lambda x: tl.take_along_axis(x, tl.argsort(x)), lambda x: np.take_along_axis(
            x, np.argsort(x, kind="stable"), axis=-1
        ),
    ),
    "nonzero": (lambda x: tl.nonzero(x), lambda x: np.nonzero(x)),
    "unique_values": (tl.unique_values, np.unique_values),
    "triu": (tl.triu, np.triu),
    "trace": (tl.linalg.trace, np.trace),
    "diagonal": (tl.diagonal, np.diagonal),
    "dot": (lambda x: tl.dot(x[0], x[0]), lambda x: np.dot(x[0], x[0])),
    "vecdot": (lambda x: tl.vecdot(x, x), lambda x: np.vecdot(x, x)),
    "tensordot": (
        lambda x: tl.tensordot(x[0], x[0], axes=1), lambda x: np.tensordot(x[0], x[0], axes=1)
    ),
    "einsum": (
        lambda x: tl.einsum("i,i->", x[0], x[0]), lambda x: np.einsum("i,i->", x[0], x[0])
    ),
    "vector_norm": (tl.linalg.vector_norm, np.linalg.vector_norm),
    "inv": (lambda x: tl.linalg.inv(x[:2, :2]), lambda x: np.linalg.inv(x[:2, :2])),
    "solve": (
        lambda x: tl.linalg.solve(x[:2, :2], x[:2, 0]),
        lambda x: np.linalg.solve(x[:2, :2], x[:2, 0]),
    ),
    "fft": (lambda x: tl.fft.fft(x), lambda x: np.fft.fft(x)),
    "meshgrid": (
        lambda x: tl.meshgrid(x[0], x[0]), lambda x: np.meshgrid(x[0], x[0])
    ),
    "asarray": (lambda x: tl.asarray([1.0, 2.0, 3.0]), lambda x: np.asarray([1.0, 2.0, 3.0])),
    "arange": (lambda x: tl.arange(x.shape[1]), lambda x: np.arange(x.shape[1])),
    "linspace": (
        lambda x: tl.linspace(0.0, 1.0, x.shape[1]), lambda x: np.linspace(0.0, 1.0, x.shape[1])
    ),
    "zeros": (lambda x: tl.zeros((3, 4)), lambda x: np.zeros((3, 4))),
    "ones": (lambda x: tl.ones((3, 4)), lambda x: np.ones((3, 4))),
    "full": (lambda x: tl.full((3, 4), 2.0), lambda x: np.full((3, 4), 2.0)),
    "full_like": (lambda x: tl.full_like(x, 2.0), lambda x: np.full_like(x, 2.0)),
    "eye": (lambda x: tl.eye(3), lambda x: np.eye(3)),
    "ravel": (tl.ravel, np.ravel),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One function: seconds per call of ours and of NumPy's, for few elements and for many."""

    name: str
    small: tuple[float, float]
    large: tuple[float, float]

    @property
    def is_slow(self) -> bool:
        """Whether the function misses the goal."""
        few, many = ((ours - numpys) * 1e6 for ours, numpys in (self.small, self.large))
        is_longer = self.large[0] > LARGE_RATIO * self.large[1]
        return few > SMALL_MICROSECONDS or (is_longer and many > SMALL_MICROSECONDS)

    def __str__(self) -> str:
        ours, numpys = self.small
        many, numpys_many = self.large
        return (
            f"{self.name:22s} few: {ours * 1e6:7.2f} us, NumPy {numpys * 1e6:7.2f}   "
            f"many: {many * 1e3:8.3f} ms, NumPy {numpys_many * 1e3:8.3f} "
            f"({many / numpys_many:.2f} times)"
        )


def in_turns(calls: Sequence[Callable[[], Any]], budget: float) -> list[float]:
    """The least CPU time of each call, over blocks of calls that take turns."""
    clock = time.thread_time
    sizes = []
    for call in calls:
        start = clock()
        call()
        sizes.append(max(1, int(2e-4 / max(clock() - start, 1e-7))))
    best = [float("inf")] * len(calls)
    end = clock() + budget * len(calls)
    while clock() < end:
        for place, (call, inner) in enumerate(zip(calls, sizes, strict=True)):
            start = clock()
            for _ in range(inner):
                call()
            best[place] = min(best[place], (clock() - start) / inner)
    return best


def inputs_of(name: str, count: int, size: int) -> list[Any]:
    """Arrays that suit a function."""
    rng = np.random.default_rng(0)
    shape = (size // 1000, 1000) if size >= 1000 else (2, size // 2)
    if name in INT_FUNCTIONS:
        return [rng.integers(0, 9, shape) for _ in range(count)]
    low, high = (-0.9, 0.9) if name in UNARY_INSIDE else (1.1, 2.0)
    return [rng.uniform(low, high, shape) for _ in range(count)]


def measure(name: str, ours: Call, numpys: Call, count: int, budget: float) -> Row:
    """Times a function beside NumPy's."""
    found = []
    for size in (SMALL, LARGE):
        arrays = inputs_of(name, count, size)
        tensors = [tl.asarray(array) for array in arrays]
        calls = [lambda: ours(*tensors), lambda: numpys(*arrays)]  # noqa: B023  # used at once
        own, other = in_turns(calls, budget)
        found.append((own, other))
    return Row(name, *found)


def all_cases() -> dict[str, tuple[Call, Call, int]]:
    """Name, our function, NumPy's, and how many arrays they take."""
    cases = {}
    for names, count in ((UNARY, 1), (BINARY, 2)):
        for name in names:
            ours = getattr(tl, name, None)
            if ours is not None:
                cases[name] = (ours, getattr(np, NUMPY_NAMES.get(name, name)), count)
    return cases | {name: (*pair, 1) for name, pair in OTHERS.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="print every function")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds per measurement")
    options = parser.parse_args()
    slow = 0
    for name, (ours, numpys, count) in all_cases().items():
        if options.names and name not in options.names:
            continue
        row = measure(name, ours, numpys, count, options.budget)
        slow += row.is_slow
        if row.is_slow or options.all or options.names:
            print(row, flush=True)
    print(f"{slow} functions miss the goal")


if __name__ == "__main__":
    main()
