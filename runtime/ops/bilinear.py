"""Products of cotangents with saved values in gradient rules, of which each result is a sum.

An exact zero wins in each term, as in `along` for single products: a row of a matrix that holds NaN
adds nothing to the gradient of the other factor where nothing depends on what it gave. One NaN in a
sum spoils it all, so here the terms that count are told from the rest. Term by term that takes
several products, and is done only in walks that are repeated because NaN came out; rows, and the
matrices of a stack, are told apart in traces too, behind a rule that masks.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import GUARDED, GUARDING, STATE
from tapeline.runtime.indexed_slices import densified
from tapeline.runtime.op import get_op
from tapeline.runtime.ops.pointwise import call, zero_like
from tapeline.runtime.ops.shaping import EXPAND_DIMS, SQUEEZE


def is_guarding() -> bool:
    """Whether zeros must win over whatever they meet here."""
    return _is_repeated() or _nobody_looks()


def _is_repeated() -> bool:
    """Whether this walk is one of those that found NaN before."""
    return GUARDING[0] > 0 and GUARDED[0]


def _nobody_looks() -> bool:
    """Whether nobody can see that a NaN came out, while a rule before has masked."""
    return STATE.handler is not None and STATE.masked and GUARDED[0]


def through(multiply: Callable[[Any, Any], Any], ct: Any, factor: Any) -> Any:
    """`multiply(ct, factor)`, which is linear in both; in a repeated walk a zero of the cotangent
    wins in each of its terms.

    Parameters
    ----------
    multiply : callable
        Sums of products, such as `ct @ factor`. It may conjugate.
    ct : Tensor or array
        The cotangent.
    factor : Tensor or array
        Saved values, which may be infinite or NaN.
    """
    if not _is_repeated():
        return multiply(ct, factor)
    ct = densified(ct)
    where, is_finite = get_op("where"), call(get_op("isfinite"), factor)
    zero, one = zero_like(factor), np.ones((), factor.dtype)
    clean = multiply(ct, call(where, is_finite, factor, zero))
    counts = call(where, ct != 0, np.ones((), ct.dtype), zero_like(ct))
    spoiled = multiply(counts, call(where, is_finite, zero, one)) != 0
    return call(where, spoiled, multiply(ct, factor), clean)


def counted(values: Any, ct: Any, axis: int) -> Any:
    """Saved values that meet cotangents in a sum; NaN and infinities are 0 where all cotangents
    along an axis are zero. The values have 1 or as many elements along the axis.
    """
    if not is_guarding():
        return values
    counts = call(get_op("any"), ct != 0, attrs=((len(ct.shape) + axis,), True))
    kept = counts | call(get_op("isfinite"), values)
    return call(get_op("where"), kept, values, zero_like(values))


def regular(matrices: Any, ct: Any, rank: int = 2) -> Any:
    """Matrices that a rule solves with or takes apart; where zeros must win, others in the places
    of those with NaN or infinities that nothing depends on: diagonal ones of different numbers.
    Forward mode is the derivative of rules by a cotangent that is zero, so numbers stay.

    Parameters
    ----------
    matrices : Tensor or array, shape (..., m, n)
        What the op was given.
    ct : Tensor or array
        The cotangent of what it made of them.
    rank : int
        Over how many of its last dimensions a cotangent belongs to one matrix.
    """
    if not is_guarding():
        return matrices
    return _replaced(matrices, _counts(ct, rank), 2)


def regular_parts(parts: Sequence[Any], cts: Sequence[Any], ranks: Sequence[int]) -> Sequence[Any]:
    """The same for what matrices were taken apart into: parts of these ranks, with cotangents or
    None."""
    if not is_guarding():
        return parts
    given = [_counts(ct, rank) for ct, rank in zip(cts, ranks, strict=True) if ct is not None]
    counts = functools.reduce(operator.or_, given)
    return [_replaced(part, counts, rank) for part, rank in zip(parts, ranks, strict=True)]


def _counts(ct: Any, rank: int) -> Any:
    """Whether anything depends on a matrix, of shape (..., 1, 1)."""
    counts, ndim = ct != 0, len(ct.shape)
    if rank:
        counts = call(get_op("any"), counts, attrs=(tuple(range(ndim - rank, ndim)), True))
    for extra in range(2 - rank):
        counts = call(EXPAND_DIMS, counts, attrs=((ndim + extra,),))
    return counts


def _replaced(values: Any, counts: Any, rank: int) -> Any:
    """Vectors or matrices, with plain ones where they do not count."""
    numbers, ndim = np.arange(1, values.shape[-1] + 1), len(values.shape)
    if rank == 1:
        counts = call(SQUEEZE, counts, attrs=((len(counts.shape) - 1,),))
    else:
        numbers = np.eye(*values.shape[-2:]) * numbers
    axes = tuple(range(ndim - rank, ndim))
    are_finite = call(get_op("all"), call(get_op("isfinite"), values), attrs=(axes, True))
    return call(get_op("where"), counts | are_finite, values, numbers.astype(values.dtype))
