"""The functions of the math library by name.

Each takes a builder and values of one float dtype and equally many lanes. Loop bodies and tails
call the same functions, so values do not depend on where a vector ends.
"""

from __future__ import annotations

from collections.abc import Callable

from tapeline.compiler.codegen.division import Division
from tapeline.compiler.codegen.math import (
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    roots,
    segments,
    trigonometric,
)
from tapeline.compiler.codegen.math.floats import Floats
from tapeline.compiler.codegen.values import Value, is_float

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": segments.tanh,
    "erf": segments.erf,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "softplus": logarithm.softplus,
    "logaddexp": logarithm.logaddexp,
    "logaddexp2": logarithm.logaddexp2,
    "arcsinh": logarithm.arcsinh,
    "arccosh": logarithm.arccosh,
    "arctanh": logarithm.arctanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "arcsin": inverse_trigonometric.arcsin,
    "arccos": inverse_trigonometric.arccos,
    "arctan": inverse_trigonometric.arctan,
    "arctan2": inverse_trigonometric.arctan2,
    "rsqrt": roots.rsqrt,
    "cbrt": roots.cbrt,
    "hypot": roots.hypot,
    "power": power.power,
}
FUNCTIONS |= {
    name.replace("arc", "a", 1): function
    for name, function in FUNCTIONS.items()
    if name.startswith("arc")
}


def call_function(b: Division, name: str, *args: Value) -> Value:
    """Emits a function of the library.

    Raises
    ------
    KeyError
        If there is no such function.
    TypeError
        If the operands are not floats.
    """
    first = args[0]
    if not is_float(first.code):
        raise TypeError(f"{name}: the math library takes float32 and float64, not {first.code}")
    return FUNCTIONS[name](Floats(b, first.code, first.lanes), *args)
