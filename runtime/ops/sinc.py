"""The normalized sinc function, with derivatives of every order at 0."""

from __future__ import annotations

import math

from tapeline.runtime.ops.comparison import less
from tapeline.runtime.ops.selection import where
from tapeline.runtime.ops.signs import abs as magnitude
from tapeline.runtime.ops.trigonometric import SIN, sin
from tapeline.runtime.promotion import promote_one
from tapeline.runtime.tensor import Tensor, TensorLike

_NEAR = 0.5
_TERMS = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
"""sin(t) / t by t**2."""


def sinc(x: TensorLike, /) -> Tensor:
    """`sin(pi * x) / (pi * x)` of each element, 1 at 0.

    Ints and bools are taken as floats: float64, or float32 if they have 8 or 16 bits.

    Parameters
    ----------
    x : TensorLike of float or complex
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Raises
    ------
    DTypeError
        If an operand is not of float, nor of a dtype taken as such.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.special.sinc([0.0, 0.5, 2.5]).numpy()
    array([1.        , 0.63661977, 0.12732395])
    """
    t = promote_one(SIN, x) * math.pi
    is_near = less(magnitude(t), _NEAR)
    small, safe = where(is_near, t, 0.0), where(is_near, 1.0, t)
    square = small * small
    series = square * 0.0 + _TERMS[-1]
    for term in _TERMS[-2::-1]:
        series = series * square + term
    return where(is_near, series, sin(safe) / safe)
