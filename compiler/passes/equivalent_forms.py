"""Other forms of the same function that are at least as accurate as the ops they replace.

None is used where an op that it replaces is needed for something else as well. This list is all the
freedom that is taken with floats. `test_equivalent_forms.py` measures both
sides of each entry against the exact result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from tapeline.compiler.passes.rewrite import Match, Rule
from tapeline.runtime.op import Op
from tapeline.runtime.ops.arithmetic import ADD, DIVIDE, MULTIPLY, SUBTRACT
from tapeline.runtime.ops.exponential import EXP, EXPM1, LOG, LOG1P
from tapeline.runtime.ops.hyperbolic import TANH
from tapeline.runtime.ops.joining import CONCAT, PAD
from tapeline.runtime.ops.powers import POWER, RECIPROCAL, RSQRT, SQRT, SQUARE
from tapeline.runtime.ops.special import SIGMOID
from tapeline.runtime.spec import TensorSpec

Pads: TypeAlias = tuple[tuple[int, int], ...]


def _is_real(m: Match) -> bool:
    return m.operand_spec(0).dtype.kind == "f"


def _other_than(m: Match, node_id: int, op: Op, number: float) -> int | None:
    """What a node computes `op` of, together with that number, in either order."""
    if not m.is_a(node_id, op):
        return None
    x, y = m.inputs_of(node_id)
    for other, constant in ((x, y), (y, x)):
        value = m.uniform(constant)
        if value is not None and value == number:
            return other if m.graph.specs[other] == m.graph.specs[node_id] else None
    return None


def _product_with_itself(m: Match) -> int | None:
    """x * x is square(x): the same bits."""
    return (
        m.make(SQUARE, m.inputs[0]) if m.inputs[0] == m.inputs[1] and _is_square_able(m) else None
    )


def _is_square_able(m: Match) -> bool:
    return m.operand_spec(0).dtype.kind in SQUARE.kinds


def _halved_sigmoid(m: Match) -> int | None:
    """x * 0.5 * (1 + tanh(k)) is x * sigmoid(2 k), in which nothing cancels.

    The halving may stand with x, or the product may be of 0.5 and the sum alone, or the sum may
    be divided by 2 (which `exact_rules` turns into the product).
    """
    if not _is_real(m):
        return None
    for sum_id, rest in (m.inputs, m.inputs[::-1]):
        curve = _other_than(m, sum_id, ADD, 1.0)
        if curve is None or not m.is_a(curve, TANH) or not m.has_one_use(curve):
            continue
        k = m.inputs_of(curve)[0]
        value = m.uniform(rest)
        if value is not None and value == 0.5 and m.fits(sum_id):
            return m.make(SIGMOID, _doubled(m, k))
        x = _other_than(m, rest, MULTIPLY, 0.5)
        if x is not None:
            return m.make(MULTIPLY, x, m.make(SIGMOID, _doubled(m, k)))
    return None


def _doubled(m: Match, node_id: int) -> int:
    return m.make(MULTIPLY, node_id, m.scalar(2, node_id))


def _exp_minus_one(m: Match) -> int | None:
    """exp(x) - 1 is expm1(x)."""
    power, one = m.inputs
    number = 1.0 if m.op is SUBTRACT else -1.0
    value = m.uniform(one)
    if value is None or value != number or not _is_real(m) or not m.is_a(power, EXP):
        return None
    if not m.has_one_use(power) or not m.fits(power):
        return None
    return m.make(EXPM1, m.inputs_of(power)[0])


def _log_of_one_plus(m: Match) -> int | None:
    """log(1 + x) is log1p(x)."""
    x = _other_than(m, m.inputs[0], ADD, 1.0) if _is_real(m) else None
    return None if x is None else m.make(LOG1P, x)


def _one_over(m: Match) -> int | None:
    """1 / sqrt(x) is rsqrt(x), and 1 / x is reciprocal(x): the same bits."""
    numerator, x = m.inputs
    value = m.uniform(numerator)
    if not _is_real(m) or value is None or value != 1.0 or not m.fits(x):
        return None
    if m.is_a(x, SQRT) and m.has_one_use(x):
        return m.make(RSQRT, m.inputs_of(x)[0])
    return m.make(RECIPROCAL, x)


def _reciprocal_of_root(m: Match) -> int | None:
    """reciprocal(sqrt(x)) is rsqrt(x): the same bits."""
    root = m.inputs[0]
    if not _is_real(m) or not m.is_a(root, SQRT) or not m.has_one_use(root):
        return None
    return m.make(RSQRT, m.inputs_of(root)[0])


def _small_power(m: Match) -> int | None:
    """power(x, n) for n of 1, 2, 3 and -1 by at most two roundings.

    Not for 0.5: power(-0.0, 0.5) is 0.0 and power(-inf, 0.5) is inf, unlike their roots.
    """
    x, y = m.inputs
    value = m.uniform(y)
    if value is None or not _is_real(m) or not m.fits(x):
        return None
    if value == 1:
        return x
    if value == 2:
        return m.make(SQUARE, x)
    if value == 3:
        return m.make(MULTIPLY, m.make(SQUARE, x), x)
    return m.make(RECIPROCAL, x) if value == -1 else None


def _joined(m: Match) -> int | None:
    """A sum of two arrays with zeros around them, where one ends where the other begins, is the two
    joined: the same bits, but for -0.0 + 0.0.

    So the gradients of the parts of an array come together.
    """
    x, y = m.inputs
    if x == y or not all(m.is_a(k, PAD) and m.has_one_use(k) and m.fits(k) for k in (x, y)):
        return None
    (pads_x, fill_x), (pads_y, fill_y) = (
        cast(tuple[Pads, float], m.graph.attrs[k]) for k in (x, y)
    )
    axes = {k for k, pair in enumerate((*pads_x, *pads_y)) if pair != (0, 0)}
    axes = {k % len(pads_x) for k in axes}
    if fill_x or fill_y or len(axes) != 1:
        return None
    (axis,) = axes
    shape = m.spec.static_shape if isinstance(m.spec, TensorSpec) else ()
    if pads_x[axis][0] > pads_y[axis][0]:
        x, y, pads_x, pads_y = y, x, pads_y, pads_x
    if shape[axis] - pads_x[axis][1] != pads_y[axis][0]:
        return None
    parts = [*_parts(m, m.inputs_of(x)[0], axis), *_parts(m, m.inputs_of(y)[0], axis)]
    sizes = tuple(m.graph.spec(part).static_shape[axis] for part in parts)
    whole = m.make(CONCAT, *parts, attrs=(axis, sizes))
    around = (pads_x[axis][0], pads_y[axis][1])
    if around == (0, 0):
        return whole
    pads = tuple(around if k == axis else (0, 0) for k in range(len(pads_x)))
    return m.make(PAD, whole, attrs=(pads, 0))


def _parts(m: Match, node_id: int, axis: int) -> tuple[int, ...]:
    """What an array was joined from along an axis."""
    if m.is_a(node_id, CONCAT) and m.graph.attrs[node_id][0] == axis and m.has_one_use(node_id):
        return m.inputs_of(node_id)
    return (node_id,)


EQUIVALENT_FORMS: dict[Op, Sequence[Rule]] = {
    MULTIPLY: (_product_with_itself, _halved_sigmoid),
    SUBTRACT: (_exp_minus_one,),
    ADD: (_exp_minus_one, _joined),
    LOG: (_log_of_one_plus,),
    DIVIDE: (_one_over,),
    RECIPROCAL: (_reciprocal_of_root,),
    POWER: (_small_power,),
}
