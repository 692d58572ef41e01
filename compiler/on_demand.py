"""Machine code for what a program does eagerly, loaded once the program does enough of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tapeline.compiler.function import function
from tapeline.runtime.backprop import WARM_UP
from tapeline.runtime.ops.draw_blocks import COMPILERS, Compiler
from tapeline.runtime.tensor import Tensor


def _load_tape_code() -> None:
    """Lets machine code compute gradients, in a program that asks for many."""
    from tapeline.compiler.codegen.tape_code import install  # loads LLVM

    install()


def _compile_draw(steps: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The steps of a block of random numbers as machine code."""
    return function(autograph=False)(steps)


def _is_loaded() -> bool:
    """Whether this program has compiled something already."""
    return "tapeline.compiler.codegen.engine" in sys.modules


WARM_UP.append(_load_tape_code)
COMPILERS.append(Compiler(_compile_draw, _is_loaded))
