"""Nests from their text, and kernels as text, for tests that state both."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.codegen.nest import Kernel, Nest, Operand, Step

EMITS: dict[str, Callable[..., Any]] = {
    "add": lambda b, x, y: b.add(x, y),
    "subtract": lambda b, x, y: b.sub(x, y),
    "multiply": lambda b, x, y: b.mul(x, y),
    "divide": lambda b, x, y: b.div(x, y),
    "square": lambda b, x: b.mul(x, x),
    "exp": lambda b, x: b.call("exp", x),
}
"""What the map steps of a text may be."""

_OPERAND = re.compile(r"(?:%\d+ = in|(out)) (\w+) strides \[(.*)\]")
_STEP = re.compile(r"%\d+ = (\w+)\((.*)\) : (\w+)")


def parse_nest(text: str) -> Nest:
    """The nest that prints as `text`."""
    first, *lines, last = [line.strip() for line in text.strip().splitlines()]
    shape, axes = (_ints(part) for part in re.findall(r"\[(.*?)\]", first))
    operands, steps, n_inputs = [], [], 0
    for line in lines:
        if found := _OPERAND.fullmatch(line):
            n_inputs += found[1] is None
            operands.append(Operand(np.dtype(found[2]), _ints(found[3])))
        elif found := _STEP.fullmatch(line):
            steps.append(_step(found[1], np.dtype(found[3]), _ints(found[2].replace("%", ""))))
        else:
            raise ValueError(f"no line of a nest: {line}")
    results = _ints(last.removeprefix("store ").replace("%", ""))
    return Nest(shape, axes, tuple(operands), n_inputs, tuple(steps), results)


def _step(name: str, dtype: np.dtype[Any], args: tuple[int, ...]) -> Step:
    if name in EMITS:
        return Step("map", dtype, args, EMITS[name], name)
    kind: Any = name
    return Step(kind, dtype, args)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def show_kernel(kernel: Kernel) -> str:
    """The strategy, and per launch how many loops its function has, and what it runs over."""
    launches = [
        f"{len(re.findall(r'^loop', launch.function.text, re.M))} loops over {launch.extent} "
        f"by {launch.grain}"
        for launch in kernel.launches
    ]
    return "; ".join([kernel.strategy, *launches])
