"""The functions of the math library by name.

A function takes a builder and values of one float dtype and equally many lanes.
"""

from __future__ import annotations

from collections.abc import Callable

from tapeline.compiler.codegen.values import Value

MathFunction = Callable[..., Value]

FUNCTIONS: dict[str, MathFunction] = {}
