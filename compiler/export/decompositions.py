"""Factorizations of matrices and their kin, which run as NumPy calls here, as loops of simple ops:
for what leaves for where there is no NumPy. Each is a function of tensors, traced where a model or
an object needs it, for all matrices of a stack side by side.

Where NumPy raises, as for a matrix that is singular or not positive definite, these give infinities
or NaN. Eigenvectors and singular vectors may have the other sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.compiler.export.number_decompositions import NUMBER_DECOMPOSITIONS
from tapeline.runtime.loops import while_loop
from tapeline.runtime.ops.along_axis import take_along_axis
from tapeline.runtime.ops.creation import zeros
from tapeline.runtime.ops.distributions import INVERSE_ERF, unit_tensor
from tapeline.runtime.ops.exponential import exp, exp2, log, log1p, log2
from tapeline.runtime.ops.extrema import argmax
from tapeline.runtime.ops.extrema import max as largest
from tapeline.runtime.ops.gather import take
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.matrices import adjoint, diagonal_of, product, upper_triangle
from tapeline.runtime.ops.matrix_exp import RADIUS, pade
from tapeline.runtime.ops.powers import sqrt
from tapeline.runtime.ops.random_bits import counter_for_draws
from tapeline.runtime.ops.reduction import prod as product_of
from tapeline.runtime.ops.reduction import sum as total
from tapeline.runtime.ops.rounding import ceil
from tapeline.runtime.ops.selection import clip, copysign, maximum, where
from tapeline.runtime.ops.shaping import broadcast_to, expand_dims
from tapeline.runtime.ops.signs import abs as size
from tapeline.runtime.ops.signs import sign
from tapeline.runtime.ops.slicing import slice_along
from tapeline.runtime.ops.sorting import argsort, sort
from tapeline.runtime.ops.special import erf
from tapeline.runtime.tensor import Tensor, cast_tensor, new_tensor

FLOAT64 = np.dtype(np.float64)
"""Rotations and squarings add rounding errors up, so they are carried out in float64."""
SWEEPS = 30
"""Jacobi's method stops after so many sweeps; matrices of some hundred rows take about ten."""


# ---- elimination, column by column


def inv(x: Tensor) -> Tensor:
    """What the unit matrix becomes where x becomes that."""
    return solve(x, _unit(x, x.shape[-1]))


def solve(a: Tensor, b: Tensor) -> Tensor:
    """What b becomes where a becomes the unit matrix."""
    n, columns = b.shape[-2:]
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not n * columns * math.prod(outer):
        return zeros((*outer, n, columns), dtype=b.dtype)
    a, b = broadcast_to(a, (*outer, n, n)), broadcast_to(b, (*outer, n, columns))
    whole, _ = _eliminated(concat([a, b], axis=-1), n)
    found: Tensor = slice_along(whole, -1, n, n + columns)
    return found


def det(x: Tensor) -> Tensor:
    """The product of the pivots."""
    _, pivots = _eliminated(x, x.shape[-1], is_whole=False)
    return product_of(pivots, axis=-1)


def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant, and the logarithm of its size."""
    _, pivots = _eliminated(x, x.shape[-1], is_whole=False)
    return product_of(sign(pivots), axis=-1), total(log(size(pivots)), axis=-1)


def _eliminated(x: Tensor, n: int, is_whole: bool = True) -> tuple[Tensor, Tensor]:
    """The matrices with their first n columns made those of the unit matrix, and the pivots,
    negated where rows were exchanged. Turn k brings the row with the largest entry of column k, at
    or below row k, to row k, divides it by that entry, and takes it off all other rows.

    Unless the result is wanted as a whole, a pivot of 0 leaves its row as it is.
    """
    if not x.size:
        return x, new_tensor(np.ones((*x.shape[:-2], n), x.dtype))
    rows = new_tensor(np.arange(n))

    def turn(k: Tensor, matrix: Tensor, pivots: Tensor) -> tuple[Tensor, ...]:
        column = take(matrix, k, axis=-1)
        best = argmax(where(rows >= k, size(column), -1.0), axis=-1, keepdims=True)
        order = expand_dims(where(rows == k, best, where(rows == best, k, rows)), -1)
        matrix = take_along_axis(matrix, broadcast_to(order, x.shape), axis=-2)
        column = take(matrix, k, axis=-1)
        pivot = expand_dims(take(column, k, axis=-1), -1)
        divisor = pivot if is_whole else where(pivot == 0, 1.0, pivot)
        row = expand_dims(take(matrix, k, axis=-2) / divisor, -2)
        rest = matrix - expand_dims(column, -1) * row
        turned = where(best == k, pivot, -pivot)
        is_row = expand_dims(rows == k, -1)
        return k + 1, where(is_row, row, rest), where(rows == k, turned, pivots)

    pivots = zeros((*x.shape[:-2], n), dtype=x.dtype)
    matrix, pivots = _repeat(n, turn, x, pivots)
    return matrix, pivots


def lu(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Elimination below the diagonal; its factors take the place of what they made 0. A pivot of 0
    leaves the rows as they are."""
    m, n = x.shape[-2:]
    k = min(m, n)
    rows, columns = new_tensor(np.arange(m)), new_tensor(np.arange(n))
    order = broadcast_to(rows, x.shape[:-1])

    def turn(k: Tensor, matrix: Tensor, order: Tensor) -> tuple[Tensor, ...]:
        best = argmax(
            where(rows >= k, size(take(matrix, k, axis=-1)), -1.0), axis=-1, keepdims=True
        )
        exchanged = where(rows == k, best, where(rows == best, k, rows))
        order = take_along_axis(order, exchanged, axis=-1)
        places = broadcast_to(expand_dims(exchanged, -1), x.shape)
        matrix = take_along_axis(matrix, places, axis=-2)
        column, row = take(matrix, k, axis=-1), take(matrix, k, axis=-2)
        pivot = expand_dims(take(row, k, axis=-1), -1)
        factors = where(rows > k, column / where(pivot == 0, 1.0, pivot), 0.0)
        factors = expand_dims(where(pivot == 0, 0.0, factors), -1)
        rest = matrix - factors * expand_dims(where(columns >= k, row, 0.0), -2)
        is_below = expand_dims(rows > k, -1) & (columns == k)
        return k + 1, where(is_below, factors, rest), order

    matrix, order = _repeat(k, turn, x, order)
    unit = new_tensor(np.eye(m, k, dtype=x.dtype))
    is_lower = new_tensor(np.tri(m, k, -1, dtype=bool))
    lower = where(is_lower, slice_along(matrix, -1, 0, k), 0.0) + unit
    return order, lower, upper_triangle(slice_along(matrix, -2, 0, k))


# ---- triangles


def cholesky(x: Tensor, upper: bool) -> Tensor:
    """The lower factors, column by column: each is taken off what is left of the matrix."""
    n = x.shape[-1]
    whole = (x + adjoint(x)) * 0.5
    rows = new_tensor(np.arange(n))

    def turn(k: Tensor, rest: Tensor, factor: Tensor) -> tuple[Tensor, ...]:
        column = take(rest, k, axis=-1)
        pivot = expand_dims(take(column, k, axis=-1), -1)
        column = where(rows >= k, column / sqrt(pivot), 0.0)
        rest = rest - expand_dims(column, -1) * expand_dims(column, -2)
        return k + 1, rest, where(rows == k, expand_dims(column, -1), factor)

    _, factor = _repeat(n, turn, whole, zeros(x.shape, dtype=x.dtype))
    return adjoint(factor) if upper else factor


def qr(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """Reflections that turn one column after the other into that of a triangle, with the signs that
    LAPACK gives them."""
    m, n = x.shape[-2:]
    inner = m if mode == "complete" else min(m, n)
    q, r = _reflected(x)
    return slice_along(q, -1, 0, inner), upper_triangle(slice_along(r, -2, 0, inner))


def _reflected(x: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of a complete QR factorization; what is below the triangle is nearly zero."""
    m, n = x.shape[-2:]
    rows = new_tensor(np.arange(m))

    def turn(k: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, ...]:
        column = where(rows >= k, take(r, k, axis=-1), 0.0)
        first = expand_dims(take(column, k, axis=-1), -1)
        below = total(where(rows > k, column * column, 0.0), axis=-1, keepdims=True)
        last = -copysign(sqrt(below + first * first), first)
        normal = where(rows == k, first - last, column)
        norm = total(normal * normal, axis=-1, keepdims=True)
        is_needed = below > 0
        scale = where(is_needed, 2.0 / where(is_needed, norm, 1.0), 0.0)
        across, along = expand_dims(normal, -2), expand_dims(normal, -1)
        scaled = expand_dims(scale, -1) * along
        r = r - scaled * product(across, r)
        return k + 1, q - product(q, along) * adjoint(scaled), r

    q, r = _repeat(min(m, n), turn, _unit(x, m), x)
    return q, r


# ---- Jacobi's methods: rotations of pairs, disjoint pairs side by side


def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations of rows and columns, until the matrix is diagonal."""
    dtype, x, n = x.dtype, cast_tensor(x, FLOAT64), x.shape[-1]
    whole = (x + adjoint(x)) * 0.5
    if n < 2 or not x.size:
        return cast_tensor(diagonal_of(whole), dtype), cast_tensor(_unit(x, n), dtype)
    partners = _rounds(n)
    others = new_tensor(1 - np.eye(n, dtype=x.dtype))
    tiny = (n * float(np.finfo(dtype).eps)) ** 2

    def turn(k: Tensor, a: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
        partner = take(partners, k % len(partners), axis=0)
        values, beside = diagonal_of(a), diagonal_of(take(a, partner, axis=-1))
        beside = (beside + take(beside, partner, axis=-1)) * 0.5  # the same for both of a pair
        turned = _rotation(values, take(values, partner, axis=-1), beside, partner)
        a = adjoint(_turned(adjoint(_turned(a, partner, turned)), partner, turned))
        return k + 1, a, _turned(vectors, partner, turned)

    def goes_on(k: Tensor, a: Tensor, vectors: Tensor) -> Tensor:
        squares = a * a
        rest = total(squares * others, axis=(-2, -1)) - total(squares, axis=(-2, -1)) * tiny
        is_left = largest(rest) > 0
        return (k < SWEEPS * len(partners)) & ((k % len(partners) != 0) | is_left)

    _, a, vectors = while_loop(goes_on, turn, (0, whole, _unit(x, n)))
    values = diagonal_of(a)
    order = argsort(values, axis=-1)
    values, vectors = take_along_axis(values, order, axis=-1), _columns(vectors, order)
    return cast_tensor(values, dtype), cast_tensor(vectors, dtype)


def eigvalsh(x: Tensor) -> Tensor:
    """The eigenvalues alone."""
    return eigh(x)[0]


def svd(x: Tensor, full_matrices: bool) -> tuple[Tensor, ...]:
    """Rotations of columns, until they are orthogonal."""
    if x.shape[-2] < x.shape[-1]:
        u, s, vh = svd(adjoint(x), full_matrices)
        return adjoint(vh), s, adjoint(u)
    m, n = x.shape[-2:]
    turned, vectors = _orthogonal(cast_tensor(x, FLOAT64), n * float(np.finfo(x.dtype).eps))
    s = sqrt(total(turned * turned, axis=-2))
    order = argsort(s, axis=-1, descending=True)
    turned, vectors = _columns(turned, order), _columns(vectors, order)
    s = take_along_axis(s, order, axis=-1)
    lengths = expand_dims(where(s > 0, s, 1.0), -2)
    q, r = _reflected(turned / lengths)  # the same columns, and others where there were none
    signs = cast_tensor(where(expand_dims(diagonal_of(r), -2) < 0, -1.0, 1.0), FLOAT64)
    u = slice_along(q, -1, 0, n) * signs
    if full_matrices and m > n:
        u = concat([u, slice_along(q, -1, n, m)], axis=-1)
    return tuple(cast_tensor(one, x.dtype) for one in (u, s, adjoint(vectors)))


def svdvals(x: Tensor) -> Tensor:
    """The singular values alone."""
    tall = x if x.shape[-2] >= x.shape[-1] else adjoint(x)
    enough = tall.shape[-1] * float(np.finfo(x.dtype).eps)
    turned, _ = _orthogonal(cast_tensor(tall, FLOAT64), enough)
    lengths = sqrt(total(turned * turned, axis=-2))
    return cast_tensor(sort(lengths, axis=-1, descending=True), x.dtype)


def pinv(x: Tensor, rtol: Tensor) -> Tensor:
    """By the singular values that are large enough."""
    if not x.size:
        return zeros(adjoint(x).shape, dtype=x.dtype)
    u, s, vh = svd(x, False)
    least = expand_dims(rtol, -1) * largest(s, axis=-1, keepdims=True)
    is_large = s > cast_tensor(least, x.dtype)
    inverse = where(is_large, 1.0 / where(is_large, s, 1.0), 0.0)
    found: Tensor = product(adjoint(vh) * expand_dims(inverse, -2), adjoint(u))
    return found


def _orthogonal(x: Tensor, enough: float) -> tuple[Tensor, Tensor]:
    """x @ v with columns whose cosines are below `enough`, and v."""
    n = x.shape[-1]
    if n < 2 or not x.size:
        return x, _unit(x, n)
    partners, own = _rounds(n), new_tensor(np.arange(n))

    def turn(k: Tensor, worst: Tensor, a: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
        partner = take(partners, k % len(partners), axis=0)
        squares = total(a * a, axis=-2)
        others = take(squares, partner, axis=-1)
        angle = total(a * take(a, partner, axis=-1), axis=-2)
        is_pair = partner != own
        scale = sqrt(squares) * sqrt(others)
        cosine = where(is_pair & (scale > 0), size(angle) / where(scale > 0, scale, 1.0), 0.0)
        before = where(k % len(partners) == 0, 0.0, worst)
        turned = _rotation(squares, others, angle, partner)
        found = maximum(before, largest(cosine))
        return k + 1, found, _turned(a, partner, turned), _turned(vectors, partner, turned)

    def goes_on(k: Tensor, worst: Tensor, a: Tensor, vectors: Tensor) -> Tensor:
        return (k < SWEEPS * len(partners)) & ((k % len(partners) != 0) | (worst > enough))

    start = 0, new_tensor(np.ones((), x.dtype)), x, _unit(x, n)
    _, _, turned, vectors = while_loop(goes_on, turn, start)
    return turned, vectors


def _rounds(n: int) -> Tensor:
    """The partner of each of n in each round, so that each meets each other one once; who has none
    is its own."""
    count = n + n % 2
    rounds = []
    ring = list(range(count))
    for _ in range(count - 1):
        partner = [0] * count
        for k in range(count // 2):
            a, b = ring[k], ring[-1 - k]
            partner[a], partner[b] = b, a
        rounds.append([p if p < n else k for k, p in enumerate(partner[:n])])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return new_tensor(np.array(rounds))


def _rotation(
    here: Tensor, there: Tensor, beside: Tensor, partner: Tensor
) -> tuple[Tensor, Tensor]:
    """Cosine and sine that bring [[here, beside], [beside, there]] to a diagonal, for each column;
    its partner gets the same cosine and the sine with the other sign."""
    own = new_tensor(np.arange(here.shape[-1]))
    is_needed = (partner != own) & (beside != 0)
    slope = (there - here) / (where(is_needed, beside, 1.0) * 2.0)
    # of equal ones, the first turns one way and the second the other
    first = cast_tensor(where(partner > own, 1.0, -1.0), here.dtype)
    sign = where(where(slope == 0, first, slope) > 0, 1.0, -1.0)
    tangent = where(is_needed, 1.0 / (size(slope) + sqrt(1.0 + slope * slope)), 0.0)
    tangent = cast_tensor(sign, here.dtype) * tangent
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    return cosine, tangent * cosine


def _turned(a: Tensor, partner: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Each column turned with its partner."""
    cosine, sine = (expand_dims(one, -2) for one in rotation)
    return a * cosine - take(a, partner, axis=-1) * sine


def _columns(x: Tensor, order: Tensor) -> Tensor:
    """The columns of matrices in an order."""
    rows = expand_dims(order, -2)
    return take_along_axis(x, broadcast_to(rows, (*order.shape[:-1], *x.shape[-2:])), axis=-1)


def _unit(x: Tensor, n: int) -> Tensor:
    """A stack of unit matrices, as many as x has."""
    return broadcast_to(new_tensor(np.eye(n, dtype=x.dtype)), (*x.shape[:-2], n, n))


# ---- other things


def matrix_exp(x: Tensor) -> Tensor:
    """Scaling and squaring, each matrix as often as its norm asks for."""
    n = x.shape[-1]
    if not x.size:
        return x
    wide = cast_tensor(x, FLOAT64)
    norms = largest(total(size(wide), axis=-2, keepdims=True), axis=-1, keepdims=True)
    halvings = maximum(ceil(log2(maximum(norms, RADIUS) / RADIUS)), 0.0)
    wide = wide * exp2(-halvings)
    even, odd = pade(wide, new_tensor(np.eye(n)))
    result = solve(even - odd, even + odd)
    squarings = largest(halvings)

    def turn(k: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
        return k + 1.0, where(k < halvings, product(power, power), power)

    result = while_loop(lambda k, power: k < squarings, turn, (0.0, result))[1]
    return cast_tensor(result, x.dtype)


def _repeat(count: int, turn: Callable[..., tuple[Tensor, ...]], *state: Tensor) -> list[Tensor]:
    """The state after so many turns, which also take and give their number."""
    start = (0, *state)
    return list(while_loop(lambda k, *_: k < count, turn, start, maximum_iterations=count))[1:]


def truncated_normal(key: Tensor, shape: Any, dtype: Any, low: float, high: float) -> Tensor:
    """The inverse of the distribution function, as the kernel goes about it."""
    first, last = math.erf(low * math.sqrt(0.5)), math.erf(high * math.sqrt(0.5))
    place = unit_tensor(key, counter_for_draws(), shape) * (last - first) + first
    inside = clip(place, -1.0 + 2.0**-53, 1.0 - 2.0**-53)
    logs = log1p(-inside * inside)
    middle = logs * 0.5 + 2.0 / (math.pi * INVERSE_ERF)
    y = copysign(sqrt(sqrt(middle * middle - logs / INVERSE_ERF) - middle), inside)
    for _ in range(3):
        error = erf(y) - inside
        slope = exp(-y * y) * (2.0 / math.sqrt(math.pi))
        y = y - error / (slope + y * error)
    return cast_tensor(clip(y * math.sqrt(2.0), low, high), dtype)


DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "inv": inv,
    "solve": solve,
    "det": det,
    "slogdet": slogdet,
    "cholesky": cholesky,
    "qr": qr,
    "lu": lu,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
    "svd": svd,
    "svdvals": svdvals,
    "pinv": pinv,
    "matrix_exp": matrix_exp,
    "truncated_normal": truncated_normal,
    **NUMBER_DECOMPOSITIONS,
}
"""By the names of the ops that they stand for; they take their inputs and attributes."""
ARBITRARY_SIGNS = ("eigh", "svd")
