"""Many numbers at once: a draw's numbers block by block, by its steps compiled for one block.

The numbers are those of the NumPy kernel, to the bit: word k of a key's stream makes number k, so a
block begins where the counter of its words begins. Who can compile joins `COMPILERS`. As long as
nothing was compiled in the process, a compiler is loaded only once NumPy has drawn so many numbers
that it would have paid for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapeline.runtime.dispatch import BUSY
from tapeline.runtime.ops.axes import Array
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, wrap

BLOCK = 1 << 15
"""Numbers in a block."""
MANY = 1 << 17
"""Draws of fewer numbers are left to NumPy."""
PATIENCE = 4_000_000
"""So many numbers NumPy draws in large draws before a compiler is loaded for their sake."""
_WORDS_PER_COUNT = 4

Steps = Callable[..., Tensor]
"""`steps(key, counter, shape, dtype, *rest)` draws by ops, from the words that begin there."""


class Compiler(NamedTuple):
    """Who compiles functions of tensors."""

    compile: Callable[[Callable[[Tensor, Tensor], Tensor]], Callable[[Tensor, Tensor], Tensor]]
    is_loaded: Callable[[], bool]
    """Whether compiling costs no loading any more."""


COMPILERS: list[Compiler] = []
_COMPILED: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {}
_drawn = 0


def draw_in_blocks(
    name: str, steps: Steps, key: Array, count: int, dtype: DType, rest: tuple[Any, ...]
) -> Array | None:
    """The first `count` numbers; None where NumPy shall draw them."""
    if count < MANY or BUSY[0] or not COMPILERS:
        return None
    block = _COMPILED.get((name, dtype, rest))
    if block is None:
        if not _is_worthwhile(count):
            return None
        block = _COMPILED[name, dtype, rest] = _compile(name, steps, dtype, rest)
    out = np.empty(count, dtype)
    key_tensor = wrap(key)
    for start in range(0, count, BLOCK):
        counter = np.array([start // _WORDS_PER_COUNT, 0, 0, 0], np.uint64)
        part = out[start : start + BLOCK]
        part[...] = block(key_tensor, wrap(counter))._value[: len(part)]
    return out


def _is_worthwhile(count: int) -> bool:
    """Whether to compile now; else these numbers count as drawn by NumPy."""
    global _drawn
    if _drawn >= PATIENCE or COMPILERS[-1].is_loaded():
        return True
    _drawn += count
    return False


def _compile(
    name: str, steps: Steps, dtype: DType, rest: tuple[Any, ...]
) -> Callable[[Tensor, Tensor], Tensor]:
    def block(key: Tensor, counter: Tensor) -> Tensor:
        return steps(key, counter, (BLOCK,), dtype, *rest)

    block.__name__ = block.__qualname__ = f"{name}_block"
    return COMPILERS[-1].compile(block)
