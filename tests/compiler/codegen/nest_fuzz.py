"""Random nests, run and compared with NumPy; a script, so that a crash is one failed run.

    python nest_fuzz.py SEED ROUNDS

Inputs end where an unreadable page begins. Every nest runs whole and in uneven chunks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.compiler.codegen import harness
from tests.compiler.codegen.harness import Array, power, power_emit

from tapeline.compiler.codegen.nest import Nest, Operand, Step

EXTENTS = (1, 2, 3, 5, 7, 8, 16, 17, 32, 33, 40, 64, 128, 130)
LARGE = (300, 400, 1024, 4096, 1100, 5000)
FLOATS = ("f4", "f8")

Emit = Callable[..., Any]
UNARY: dict[str, tuple[Emit, Emit]] = {
    "half": (lambda b, x: b.mul(x, b.const(0.5, x)), lambda x: x * x.dtype.type(0.5)),
    "power": (power_emit, power),
    "neg": (lambda b, x: b.neg(x), lambda x: -x),
}
BINARY: dict[str, tuple[Emit, Emit]] = {
    "add": (lambda b, x, y: b.add(x, y), np.add),
    "sub": (lambda b, x, y: b.sub(x, y), np.subtract),
    "mul": (lambda b, x, y: b.mul(x, y), np.multiply),
    "max": (lambda b, x, y: b.maximum(x, y), np.maximum),
}
SUMS = {
    "sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
    "any": np.any, "all": np.all, "prod": np.prod,
}  # fmt: skip


class Maker:
    """Draws one nest with its arrays."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        ndim = int(rng.integers(0, 5))
        extents = [int(n) for n in rng.choice(EXTENTS, ndim)]
        while extents and np.prod(extents) > 40000:
            extents[int(np.argmax(extents))] = 2
        if extents and rng.random() < 0.25:
            extents[int(rng.integers(ndim))] = int(rng.choice(LARGE))
            while np.prod(extents) > 200000:
                extents[int(rng.integers(ndim))] = 2
        if extents and rng.random() < 0.03:
            extents[int(rng.integers(ndim))] = 0
        self.shape = tuple(extents)
        self.axes = tuple(d for d in range(ndim) if rng.random() < 0.5)
        if 0 in [self.shape[d] for d in self.axes]:
            self.axes = tuple(d for d in self.axes if self.shape[d])
        self.steps: list[Step] = []
        self.numpy: list[Emit | None] = []
        self.codes: list[str] = []

    def view(self, code: str, extents: tuple[int, ...], guard: bool = True) -> Array:
        """An array of a random layout."""
        rng = self.rng
        order = rng.permutation(len(extents)) if rng.random() < 0.35 else np.arange(len(extents))
        steps = [int(rng.choice([1, 1, 1, 1, -1, 2, -2, 3])) for _ in extents]
        full = [(n - 1) * abs(k) + 1 if n else 0 for n, k in zip(extents, steps, strict=True)]
        values = np.asarray(rng.standard_normal([full[d] for d in order]))
        if code[0] in "iu":
            values = values * 20
        array = np.asarray(values > 0) if code == "?" else values.astype(code)
        if code[0] == "f" and array.size > 3 and rng.random() < 0.1:
            array.reshape(-1)[rng.integers(array.size)] = np.nan
        dense = harness.guarded(array) if guard else np.array(array)
        moved = dense.transpose(np.argsort(order)) if extents else dense
        return moved[tuple(slice(None, None, k) for k in steps)] if extents else moved

    def pick(self, *codes: str) -> int | None:
        """A random value of one of these dtypes."""
        found = [k for k, code in enumerate(self.codes) if code in codes]
        return int(self.rng.choice(found)) if found else None

    def add(self, step: Step, code: str, evaluate: Emit | None = None) -> None:
        """Appends a step."""
        self.steps.append(step)
        self.codes.append(code)
        self.numpy.append(evaluate)

    def grow(self) -> None:
        """Appends a random step, if one fits."""
        rng = self.rng
        kind = str(
            rng.choice(["unary", "binary", "reduce", "reduce", "reduce", "less", "index", "cast"])
        )
        value = self.pick(*(("f4", "f8") if kind != "cast" else ("f4", "f8", "i8", "?", "i4")))
        if value is None:
            return
        code = self.codes[value]
        if kind == "unary":
            key = str(rng.choice(list(UNARY)))
            self.add(Step("map", np.dtype(code), (value,), UNARY[key][0], key), code, UNARY[key][1])
        elif kind == "binary":
            other = self.pick(code)
            assert other is not None
            key = str(rng.choice(list(BINARY)))
            emit, evaluate = BINARY[key]
            self.add(Step("map", np.dtype(code), (value, other), emit, key), code, evaluate)
        elif kind == "less":
            other = self.pick(code)
            assert other is not None
            emit = lambda b, x, y: b.compare("lt", x, y)  # noqa: E731 (a lambda like those above)
            self.add(Step("map", np.dtype(bool), (value, other), emit, "less"), "?", np.less)
        elif kind == "cast":
            target = str(rng.choice(["f4", "f8", "i4", "i8"]))
            if self.codes[value][0] == "f" and target[0] == "i":
                return
            emit = lambda b, x, t=target: b.cast(x, np.dtype(t))  # noqa: E731
            evaluate = lambda x, t=target: x.astype(t)  # noqa: E731
            self.add(
                Step("map", np.dtype(target), (value,), emit, ("to", target)), target, evaluate
            )
        elif kind == "index" and self.shape and rng.random() < 0.5:
            axis = int(rng.integers(len(self.shape)))
            self.add(Step("index", np.dtype(np.int64), axis=axis), "i8")
        elif kind == "reduce" and self.axes:
            self.reduce()

    def reduce(self) -> None:
        """Appends a reduction."""
        kind = str(
            self.rng.choice(["sum", "sum", "max", "min", "prod", "argmax", "argmin", "any", "all"])
        )
        value = (
            self.pick("?") if kind in ("any", "all") else self.pick("f4", "f8", "i4", "i8", "f4")
        )
        if value is None:
            return
        code = "i8" if kind.startswith("arg") else self.codes[value]
        if kind == "prod" and code[0] == "f" and np.prod([self.shape[d] for d in self.axes]) > 8:
            return  # the order decides between 0 and infinity
        self.add(Step(kind, np.dtype(code), (value,)), code)  # type: ignore[arg-type]

    def evaluate(self, inputs: list[Array]) -> list[Array]:
        """Every value, by NumPy, with all dimensions of the nest (extent 1 where reduced)."""
        values = list(inputs)
        for step, evaluate in zip(self.steps, self.numpy, strict=True):
            args = [values[arg] for arg in step.args]
            if step.kind == "index":
                extents = [1] * len(self.shape)
                extents[step.axis] = self.shape[step.axis]
                values.append(np.arange(self.shape[step.axis]).reshape(extents))
            elif evaluate is not None:
                values.append(evaluate(*args))
            else:
                values.append(self.reduced(step, args[0]))
        return values

    def reduced(self, step: Step, x: Array) -> Array:
        """A reduction by NumPy."""
        x = np.broadcast_to(x, self.shape)
        if step.kind.startswith("arg"):
            order = [d for d in range(x.ndim) if d not in self.axes] + list(self.axes)
            kept = [1 if d in self.axes else n for d, n in enumerate(self.shape)]
            outer = [n for d, n in enumerate(self.shape) if d not in self.axes]
            size = int(np.prod([self.shape[d] for d in self.axes]))
            flat = x.transpose(order).reshape(*outer, size)
            return SUMS[step.kind](flat, axis=-1).reshape(kept)  # type: ignore[no-any-return, operator]
        if step.kind in ("sum", "prod") and x.dtype.kind == "f":
            wide = SUMS[step.kind](x.astype("f8"), axis=self.axes, keepdims=True)  # type: ignore[operator]
            return wide.astype(x.dtype)  # type: ignore[no-any-return]
        options = {"dtype": x.dtype} if step.kind in ("sum", "prod") else {}
        return SUMS[step.kind](x, axis=self.axes, keepdims=True, **options)  # type: ignore[no-any-return, operator]


def varies(value: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a value of the interpreter has points along the reduced axes."""
    return any(value.shape[d] != 1 for d in axes if shape[d] != 1)


def run_one(rng: np.random.Generator, target: Any) -> str:
    """Draws, runs and checks one nest; returns its strategy."""
    maker = Maker(rng)
    inputs: list[Array] = []
    operands: list[Operand] = []
    for _ in range(int(rng.integers(1, 4))):
        code = str(rng.choice(["f4", "f4", "f4", "f8", "i4", "?", "i8"]))
        extents = tuple(1 if rng.random() < 0.2 else n for n in maker.shape)
        array = maker.view(code, extents)
        inputs.append(array)
        maker.codes.append(code)
        operands.append(Operand(array.dtype, np.broadcast_to(array, maker.shape).strides))
    for _ in range(int(rng.integers(1, 7))):
        maker.grow()
    if not maker.steps:
        return "none"
    with np.errstate(all="ignore"):
        values = maker.evaluate(inputs)
    last = len(values) - 1
    results = [last] + [
        int(k) for k in rng.integers(len(inputs), last + 1, int(rng.integers(0, 3)))
    ]
    outputs = []
    for value in results:
        whole = varies(values[value], maker.axes, maker.shape)
        extents = tuple(
            1 if d in maker.axes and not whole else n for d, n in enumerate(maker.shape)
        )
        code = maker.codes[value]
        array = maker.view(code, extents, guard=False)
        outputs.append(array)
        operands.append(Operand(array.dtype, np.broadcast_to(array, maker.shape).strides))
    in_place = pair_in_place(rng, maker, inputs, outputs, operands)
    nest = Nest(
        maker.shape, maker.axes, tuple(operands), len(inputs), tuple(maker.steps), tuple(results),
        in_place,
    )  # fmt: skip
    return check(nest, target, inputs, outputs, [values[k] for k in results])


def pair_in_place(
    rng: np.random.Generator,
    maker: Maker,
    inputs: list[Array],
    outputs: list[Array],
    operands: list[Operand],
) -> tuple[tuple[int, int], ...]:
    """Lets an output be an input where they have the same shape and dtype."""
    for i, x in enumerate(inputs):
        for k, out in enumerate(outputs):
            if x.shape == out.shape and x.dtype == out.dtype and rng.random() < 0.3:
                outputs[k] = x
                operands[len(inputs) + k] = operands[i]
                return ((i, len(inputs) + k),)
    return ()


def check(
    nest: Nest, target: Any, inputs: list[Array], outputs: list[Array], expected: list[Array]
) -> str:
    """Runs a nest twice and compares."""
    runner = harness.Runner(nest, target)
    saved = [x.copy() for x in inputs]
    found: list[list[Array]] = []
    for split in (None, harness.odd_chunks):
        for x, old in zip(inputs, saved, strict=True):
            x[...] = old
        for out in outputs:
            if not any(out is x for x in inputs):
                out[...] = 77
        runner.run([*inputs, *outputs], split)
        found.append([out.copy() for out in outputs])
    for got, again, want in zip(*found, expected, strict=True):
        want = np.broadcast_to(want, got.shape)
        assert np.array_equal(got, again, equal_nan=got.dtype.kind == "f"), f"chunks differ\n{nest}"
        if got.dtype.kind == "f":
            finite = want[np.isfinite(want)]
            scale = float(np.abs(finite).max()) if finite.size else 1.0
            close = np.allclose(got, want, 3e-4, 3e-4 * max(scale, 1e-30), equal_nan=True)
        else:
            close = np.array_equal(got, want)
        assert close, f"{runner.kernel.strategy}\n{nest}\n{got}\n{want}"
    return runner.kernel.strategy


def main() -> None:
    """Runs the rounds of a seed."""
    seed, rounds = int(sys.argv[1]), int(sys.argv[2])
    seen: dict[str, int] = {}
    for number in range(rounds):
        rng = np.random.default_rng([seed, number])
        print(f"round {number}", file=sys.stderr, flush=True)
        with np.errstate(all="ignore"):
            strategy = run_one(rng, harness.TARGETS[number % 2])
        seen[strategy] = seen.get(strategy, 0) + 1
    print(seen)


if __name__ == "__main__":
    main()
