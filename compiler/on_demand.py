"""What the runtime asks of the compiler, loaded when it is asked for: machine code for what a
program does eagerly again and again, and converted control flow for `vmap`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tapeline.compiler.decorator import function
from tapeline.runtime.backprop import WARM_UP
from tapeline.runtime.batching.level import Level, install_conversion
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


def _convert_for_examples(level: Level, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its control flow converted, for `vmap`."""
    from tapeline.compiler.examples import convert_for_examples  # loads all of the conversion

    return convert_for_examples(level, function)


install_conversion(_convert_for_examples)
WARM_UP.append(_load_tape_code)
COMPILERS.append(Compiler(_compile_draw, _is_loaded))
