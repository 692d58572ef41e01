"""Rewrites that keep every bit: of ints by modular arithmetic, of floats by IEEE 754.

For floats that rules out much of school algebra: x + 0 is not x for x = -0, x * 0 is not 0 for a
NaN, and nothing is associative. What is left is listed here. Complex numbers take part only where
a rule says so: their products and quotients mix the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.passes.rewrite import GeneralRule, Match, Rule
from tapeline.runtime.op import Op, Trait
from tapeline.runtime.ops.arithmetic import ADD, DIVIDE, FLOOR_DIVIDE, MULTIPLY, SUBTRACT
from tapeline.runtime.ops.bits import (
    BITWISE_AND,
    BITWISE_LEFT_SHIFT,
    BITWISE_OR,
    BITWISE_RIGHT_SHIFT,
)
from tapeline.runtime.ops.comparison import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NOT_EQUAL,
)
from tapeline.runtime.ops.logic import LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR
from tapeline.runtime.ops.powers import INTEGER_POWER, SQUARE
from tapeline.runtime.ops.selection import MAXIMUM, MINIMUM, WHERE
from tapeline.runtime.ops.signs import ABS, NEGATIVE

_INTS = "iu"


def _apply_twice(m: Match) -> int | None:
    """f(f(x)) is x for an involution, and f(x) for an idempotent op."""
    inner = m.inputs[0]
    if not m.is_a(inner, m.op) or m.graph.attrs[inner] != m.attrs:
        return None
    if m.op.has(Trait.INVOLUTION):
        return m.or_none(m.inputs_of(inner)[0])
    return m.or_none(inner) if m.op.has(Trait.IDEMPOTENT) else None


def _neutral_operand(m: Match) -> int | None:
    """x + -0.0, x * 1, x & True, max(x, -inf) are x, as the op's `identity` says."""
    assert m.op.identity is not None
    for k in (1, 0):
        value = m.uniform(m.inputs[k])
        if value is not None and m.fits(m.inputs[1 - k]) and _is_exactly(value, m.op.identity):
            return m.inputs[1 - k]
    return None


def _is_exactly(value: Any, number: float) -> bool:
    """Whether a real scalar is that number, the sign of a float zero included."""
    if value.dtype.kind == "c" or (value.dtype.kind != "f" and not math.isfinite(number)):
        return False
    if value != number:
        return False
    return value.dtype.kind != "f" or math.copysign(1, value) == math.copysign(1, number)


def _kind(m: Match) -> str:
    return m.operand_spec(0).dtype.kind


def _add_of_negative(m: Match) -> int | None:
    """x + (-y) is x - y."""
    x, y = m.inputs
    if m.is_a(y, NEGATIVE):
        return m.make(SUBTRACT, x, m.inputs_of(y)[0])
    if m.is_a(x, NEGATIVE):
        return m.make(SUBTRACT, y, m.inputs_of(x)[0])
    return None


def _join_int_constants(m: Match) -> int | None:
    """(x op c) op d is x op (c op d) for ints, of which + and * are associative."""
    x, y = m.inputs
    if _kind(m) not in _INTS or not m.is_a(x, m.op):
        return None
    inner, first = m.inputs_of(x)
    c, d = m.uniform(first), m.uniform(y)
    if c is None or d is None or not (m.graph.spec(x) == m.spec == m.graph.spec(inner)):
        return None
    with np.errstate(over="ignore"):
        return m.make(m.op, inner, m.scalar(m.op.kernel(c, d), y))


def _subtract_zero(m: Match) -> int | None:
    """x - 0.0 is x, -0.0 - x is -x; for ints 0 - x too."""
    x, y = m.inputs
    value = m.uniform(y)
    if value is not None and _is_exactly(value, 0.0):
        return m.or_none(x)
    value = m.uniform(x)
    if value is not None and _kind(m) in "if" and _is_exactly(value, -0.0) and m.fits(y):
        return m.make(NEGATIVE, y)
    return None


def _subtract_negative(m: Match) -> int | None:
    """x - (-y) is x + y."""
    x, y = m.inputs
    return m.make(ADD, x, m.inputs_of(y)[0]) if m.is_a(y, NEGATIVE) else None


def _sign_out_of_product(m: Match) -> int | None:
    """x * -1 is -x, (-x) * (-y) is x * y, and (-x) * c is x * -c."""
    if _kind(m) not in "if":
        return None
    x, y = m.inputs
    c = m.uniform(y)
    if c is not None and _is_exactly(c, -1.0) and m.fits(x):
        return m.make(NEGATIVE, x)
    if not m.is_a(x, NEGATIVE):
        return None
    inner = m.inputs_of(x)[0]
    if m.is_a(y, NEGATIVE):
        return m.make(MULTIPLY, inner, m.inputs_of(y)[0])
    if c is not None and m.graph.spec(y).ndim == 0:
        with np.errstate(over="ignore"):
            return m.make(MULTIPLY, inner, m.scalar(-c, y))
    return None


def _divide_by_constant(m: Match) -> int | None:
    """x / 1 is x, x / -1 is -x, and x / 2**k is x * 2**-k where that is a number."""
    x, y = m.inputs
    value = m.uniform(y)
    if value is None or _kind(m) != "f":
        return None
    if _is_exactly(value, 1.0):
        return m.or_none(x)
    if _is_exactly(value, -1.0) and m.fits(x):
        return m.make(NEGATIVE, x)
    if not np.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    with np.errstate(all="ignore"):
        inverse = value.dtype.type(1) / value
        exact = np.isfinite(inverse) and value.dtype.type(1) / inverse == value
    if not exact:
        return None
    full = np.full(m.graph.spec(y).static_shape, inverse, value.dtype)
    return m.make(MULTIPLY, x, m.graph.add_constant(full, m.location))


def _divide_negatives(m: Match) -> int | None:
    """(-x) / (-y) is x / y."""
    x, y = m.inputs
    if _kind(m) != "f" or not m.is_a(x, NEGATIVE) or not m.is_a(y, NEGATIVE):
        return None
    return m.make(DIVIDE, m.inputs_of(x)[0], m.inputs_of(y)[0])


def _int_by_one(m: Match) -> int | None:
    """x // 1 is x for ints."""
    value = m.uniform(m.inputs[1])
    if _kind(m) in _INTS and value is not None and value == 1:
        return m.or_none(m.inputs[0])
    return None


def _shift_by_zero(m: Match) -> int | None:
    """A shift by 0 is x."""
    value = m.uniform(m.inputs[1])
    return m.or_none(m.inputs[0]) if value is not None and value == 0 else None


def _negative_of_product(m: Match) -> int | None:
    """-(x * c) is x * -c."""
    product = m.inputs[0]
    if _kind(m) not in "if" or not m.is_a(product, MULTIPLY):
        return None
    x, y = m.inputs_of(product)
    c = m.uniform(y)
    if c is None or m.graph.spec(y).ndim:
        return None
    with np.errstate(over="ignore"):
        return m.make(MULTIPLY, x, m.scalar(-c, y))


def _drop_sign(m: Match) -> int | None:
    """f(-x) and f(|x|) are f(x) for the absolute value and the square."""
    inner = m.inputs[0]
    if _kind(m) in "if" and m.is_a(inner, NEGATIVE, ABS):
        return m.make(m.op, m.inputs_of(inner)[0])
    return None


def _same_twice(m: Match) -> int | None:
    """op(x, x) is x for maximum, minimum, and, or."""
    return m.or_none(m.inputs[0]) if m.inputs[0] == m.inputs[1] else None


def _where_of_not(m: Match) -> int | None:
    """where(not c, x, y) is where(c, y, x)."""
    condition, x, y = m.inputs
    if not m.is_a(condition, LOGICAL_NOT):
        return None
    return m.make(WHERE, m.inputs_of(condition)[0], y, x)


def _where_known(m: Match) -> int | None:
    """where(c, x, x) is x, and so is where(True, x, y)."""
    condition, x, y = m.inputs
    if x == y:
        return m.or_none(x)
    value = m.uniform(condition)
    return None if value is None else m.or_none(x if value else y)


_OPPOSITES = {
    EQUAL: NOT_EQUAL,
    NOT_EQUAL: EQUAL,
    LESS: GREATER_EQUAL,
    GREATER_EQUAL: LESS,
    GREATER: LESS_EQUAL,
    LESS_EQUAL: GREATER,
}


def _not_of_comparison(m: Match) -> int | None:
    """not x < y is x >= y for what is no float; not x == y is x != y for all."""
    comparison = m.inputs[0]
    opposite = _OPPOSITES.get(m.graph.ops[comparison])
    if opposite is None:
        return None
    x, y = m.inputs_of(comparison)
    if m.graph.spec(x).dtype.kind in "fc" and opposite not in (EQUAL, NOT_EQUAL):
        return None
    return m.make(opposite, x, y)


def _small_int_power(m: Match) -> int | None:
    """x ** n of ints by repeated squaring, for a constant n from 1 to 64."""
    x, y = m.inputs
    value = m.uniform(y)
    if value is None or not 1 <= value <= 64 or not m.fits(x):
        return None
    n, square, result = int(value), x, None
    while True:
        if n & 1:
            result = square if result is None else m.make(MULTIPLY, result, square)
        n >>= 1
        if not n:
            return result
        square = m.make(SQUARE, square)


def _may_repeat(op: Op) -> bool:
    return op.n_inputs == 1 and (op.has(Trait.INVOLUTION) or op.has(Trait.IDEMPOTENT))


def _has_neutral_operand(op: Op) -> bool:
    return op.n_inputs == 2 and op.identity is not None and op.has(Trait.ELEMENTWISE)


GENERAL_RULES: tuple[GeneralRule, ...] = (
    GeneralRule(_may_repeat, _apply_twice),
    GeneralRule(_has_neutral_operand, _neutral_operand),
)

EXACT_RULES: dict[Op, Sequence[Rule]] = {
    ADD: (_add_of_negative, _join_int_constants),
    SUBTRACT: (_subtract_zero, _subtract_negative),
    MULTIPLY: (_sign_out_of_product, _join_int_constants),
    DIVIDE: (_divide_by_constant, _divide_negatives),
    FLOOR_DIVIDE: (_int_by_one,),
    NEGATIVE: (_negative_of_product,),
    ABS: (_drop_sign,),
    SQUARE: (_drop_sign,),
    INTEGER_POWER: (_small_int_power,),
    MAXIMUM: (_same_twice,),
    MINIMUM: (_same_twice,),
    BITWISE_AND: (_same_twice,),
    BITWISE_OR: (_same_twice,),
    BITWISE_LEFT_SHIFT: (_shift_by_zero,),
    BITWISE_RIGHT_SHIFT: (_shift_by_zero,),
    LOGICAL_AND: (_same_twice,),
    LOGICAL_OR: (_same_twice,),
    LOGICAL_NOT: (_not_of_comparison,),
    WHERE: (_where_of_not, _where_known),
}
