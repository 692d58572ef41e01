"""The gradient rules of recorded calls, as straight-line code for plain arrays.

A rule calls the compiled backward half of a pair. Where it gets tensors, something may record it,
and a general rule serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.compiler.autodiff.pair import Pair
from tapeline.runtime.dispatch import GUARDING, STATE
from tapeline.runtime.op import Vjp
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor

Mask = tuple[int, ...]
"""Positions of inputs, ascending."""


def single_rule(
    backward: Callable[..., Any],
    joint: Vjp,
    kept: Sequence[int],
    position: int,
    n_saved: int,
    masks: bool,
) -> Vjp:
    """The rule of one input of a graph with one output, as straight-line code for plain arrays."""
    saved = [f"x{k}" for k in range(n_saved)]
    arrays = ["ct", *(f"x{k}" for k in kept)]
    needed = tuple(k == position for k in range(position + 1))
    source = f"""
def rule({", ".join(["ct", "attrs", *saved])}):
    {"state.masked = True" if masks else ""}
    if not guarding[0] and {" and ".join(f"type({name}) is ndarray" for name in arrays)}:
        return backward({", ".join([*arrays[1:], "ct"])})
    return joint((ct,), {", ".join(["attrs", "needed", *saved])})[{position}]
"""
    scope: dict[str, Any] = {
        "ndarray": np.ndarray, "backward": backward, "joint": joint, "needed": needed,
        "guarding": GUARDING, "state": STATE,
    }  # fmt: skip
    exec(source, scope)
    return scope.pop("rule")  # type: ignore[no-any-return]  # defined by the text


def joint_rule(
    backward: Callable[..., Any],
    general: Vjp,
    pair: Pair,
    specs: Sequence[TensorSpec],
    wrt: Mask,
    n_inputs: int,
    n_saved: int,
    masks: bool,
) -> Vjp:
    """The rule of all inputs, as straight-line code for plain arrays."""
    saved = [f"x{k}" for k in range(n_saved)]
    cts = [f"ct{k}" for k in pair.differentiable]
    scope: dict[str, Any] = {
        "ndarray": np.ndarray, "backward": backward, "general": general, "guarding": GUARDING,
        "state": STATE, "asarray": np.asarray, "Tensor": Tensor,
    }  # fmt: skip
    lines = [f"def rule({', '.join(['cts', 'attrs', 'needed', *saved])}):"]
    for k, ct in zip(pair.differentiable, cts, strict=True):
        scope[f"zeros{k}"] = zeros = np.zeros(specs[k].static_shape, specs[k].dtype)
        zeros.flags.writeable = False
        lines += [
            f"    {ct} = cts[{k}]",
            f"    if type({ct}) is not ndarray:",
            f"        {ct} = zeros{k} if {ct} is None else {ct}",
            f"        {ct} = {ct} if type({ct}) is Tensor else asarray({ct})",
        ]
    kept = [f"x{k}" for k in pair.kept]
    arrays = dict.fromkeys([*saved[:1], *kept, *cts])
    plain = " and ".join([f"type({name}) is ndarray" for name in arrays])
    found = dict(zip(wrt, pair.gradients, strict=True))
    n_gradients = sum(each is not None for each in pair.gradients)
    parts = []
    for position in range(n_inputs):
        number = found.get(position)
        parts.append("None" if number is None else "g" if n_gradients == 1 else f"g[{number}]")
    lines += [
        f"    if not guarding[0] and {plain or 'True'}:",
        "        state.masked = True" if masks else "",
        f"        g = backward({', '.join([*kept, *cts])})",
        f"        return ({', '.join(parts)},)",
        f"    return general({', '.join(['cts', 'attrs', 'needed', *saved])})",
    ]
    exec("\n".join(lines), scope)
    return scope.pop("rule")  # type: ignore[no-any-return]  # defined by the text


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if type(results) is tuple else (results,)


def spread(
    n_inputs: int, wrt: Mask, positions: Sequence[int | None], gradients: Sequence[Any]
) -> tuple[Any, ...]:
    """One gradient or None per input, from those that exist."""
    result: list[Any] = [None] * n_inputs
    for position, found in zip(wrt, positions, strict=True):
        if found is not None:
            result[position] = gradients[found]
    return tuple(result)
