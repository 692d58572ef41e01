"""Objects of `np.vectorize` over tensors of a trace: all elements at once, each on its own path."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.frontend.convert.tables import is_unknown
from tapeline.runtime import nest
from tapeline.runtime.batching.vmap import vmap
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops.shaping import broadcast_shapes, broadcast_to, reshape
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor

Function = Callable[..., Any]


def vectorized(made: Any, callee: Callable[[Any], Any]) -> Function:
    """What a call of `np.vectorize(f)` means: `f`, converted, of all elements at once."""

    def call(*args: Any, **options: Any) -> Any:
        if not any(map(is_unknown, [*args, *options.values()])):
            return made(*args, **options)
        names = [name for name in options if name not in made.excluded]
        places = [k for k in range(len(args)) if k not in made.excluded]
        mapped = [*(args[k] for k in places), *(options[name] for name in names)]

        def one(*parts: Any) -> Any:
            every = dict(zip(places, parts, strict=False))
            named = options | dict(zip(names, parts[len(places) :], strict=True))
            full = [every.get(k, arg) for k, arg in enumerate(args)]
            return callee(made.pyfunc)(*full, **named)

        return _outputs(made, _mapped(one, [as_tensor(x) for x in mapped], _core_ranks(made)))

    return call


def _core_ranks(made: Any) -> list[int]:
    """How many dimensions of each argument belong to the function, by the signature."""
    inputs = (made.signature or "").split("->")[0]
    return [len([name for name in part.split(",") if name.strip()])
            for part in re.findall(r"\(([^)]*)\)", inputs)]  # fmt: skip


def _mapped(one: Function, arrays: list[Tensor], ranks: list[int]) -> Any:
    """The function of each element, or of each block of as many last dimensions as `ranks` says."""
    ranks = ranks or [0] * len(arrays)
    if len(ranks) != len(arrays):
        raise ArgumentError(
            f"np.vectorize: the signature has {len(ranks)} arguments, the call {len(arrays)}"
        )
    outer = [x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)]
    shape = broadcast_shapes(*outer)
    if not shape:
        return one(*arrays)
    rows = []
    for x, own in zip(arrays, outer, strict=True):
        core = x.shape[len(own) :]
        rows.append(reshape(broadcast_to(x, (*shape, *core)), (-1, *core)))
    found = vmap(one)(*rows)
    return nest.map_structure(lambda x: reshape(x, (*shape, *x.shape[1:])), found)


def _outputs(made: Any, found: Any) -> Any:
    if not made.otypes:
        return found
    parts = found if isinstance(found, tuple) else (found,)
    cast = [cast_tensor(as_tensor(x), np.dtype(c)) for x, c in zip(parts, made.otypes, strict=True)]
    return tuple(cast) if isinstance(found, tuple) else cast[0]
