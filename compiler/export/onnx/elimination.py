"""Systems of linear equations, which ONNX has no operator for: Gauss-Jordan elimination with row
exchanges, as a loop over columns, for all matrices of a stack side by side.

A singular matrix gives infinities or NaN, where NumPy raises.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapeline.compiler.export.onnx.model import INT64, OnnxGraph, Ref
from tapeline.compiler.export.onnx.rules import Use, spread
from tapeline.compiler.export.onnx.scalar import BOOL, OnnxScalars
from tapeline.runtime.spec import TensorSpec


def inverse(use: Use) -> Ref:
    """inv(x)."""
    n = use.shape[-1]
    if not use.specs[0].size:
        return use.graph.zeros(use.shape, use.dtype)
    stack = math.prod(use.shape[:-2])
    unit = use.graph.constant(np.broadcast_to(np.eye(n, dtype=use.dtype), (stack, n, n)))
    solved, _ = _eliminate(use, use.graph.reshape(use.inputs[0], (stack, n, n)), unit, n, n, stack)
    return use.graph.reshape(solved, use.shape)


def solution(use: Use) -> Ref:
    """solve(a, b)."""
    n, columns = use.shape[-2:]
    if not use.outputs[0].size or not n:
        return use.graph.zeros(use.shape, use.dtype)
    outer = use.shape[:-2]
    stack = math.prod(outer)
    a = use.graph.reshape(spread(use, use.inputs[0], (*outer, n, n)), (stack, n, n))
    b = use.graph.reshape(spread(use, use.inputs[1], use.shape), (stack, n, columns))
    solved, _ = _eliminate(use, a, b, n, columns, stack)
    return use.graph.reshape(solved, use.shape)


def determinant(use: Use) -> Ref:
    """det(x): the product of the pivots, turned around at each exchange of rows."""
    pivots, shape = _pivots(use)
    if pivots is None:
        return use.graph.constant(np.ones(shape, use.dtype))
    found = use.graph.add("ReduceProd", pivots, use.graph.ints([1]), keepdims=0)
    return use.graph.reshape(found, shape)


def sign_and_logarithm(use: Use) -> list[Ref]:
    """slogdet(x)."""
    pivots, shape = _pivots(use)
    graph, b = use.graph, use.scalars
    if pivots is None:
        return [graph.constant(np.ones(shape, use.dtype)), graph.zeros(shape, use.dtype)]
    row = graph.ints([1])
    sign = graph.add("ReduceProd", graph.add("Sign", pivots), row, keepdims=0)
    total = graph.add("ReduceSum", b.unary("Log", b.abs(pivots)), row, keepdims=0)
    return [graph.reshape(sign, shape), graph.reshape(total, shape)]


def _pivots(use: Use) -> tuple[Ref | None, tuple[int, ...]]:
    given = use.shape_of(0)
    n, shape = given[-1], given[:-2]
    stack = math.prod(shape)
    if not n or not stack:
        return None, shape
    x = use.graph.reshape(use.inputs[0], (stack, n, n))
    nothing = use.graph.constant(np.zeros((stack, n, 1), use.specs[0].dtype))
    return _eliminate(use, x, nothing, n, 1, stack)[1], shape


def _eliminate(use: Use, a: Ref, b: Ref, n: int, columns: int, stack: int) -> tuple[Ref, Ref]:
    """The solutions (stack, n, columns) of stacked systems, and the pivots with signs (stack, n).

    The state is (a | b). Turn k brings the row with the largest entry of column k, at or below row
    k, to row k, divides it by that entry, and takes it off all other rows.
    """
    graph, dtype = use.graph, a.dtype
    whole = graph.add("Concat", a, b, axis=2)
    body = OnnxGraph(graph)
    state = TensorSpec((stack, n, n + columns), dtype)
    specs = [TensorSpec((), INT64), TensorSpec((), BOOL), state]
    turn, going, matrix = (
        Ref(body.name(wish), spec.dtype)
        for wish, spec in zip(("turn", "going", "matrix"), specs, strict=True)
    )
    new, pivot = _turn(body, turn, matrix, n, columns, stack)
    outputs = [
        (body.add("Identity", going), specs[1]), (new, state), (pivot, TensorSpec((stack,), dtype)),
    ]  # fmt: skip
    given = list(zip((turn, going, matrix), specs, strict=True))
    attribute = body.body(graph.name("elimination"), given, outputs)
    start: list[Any] = [graph.constant(np.int64(n)), graph.constant(np.array(True)), whole]
    last, pivots = graph.add_many("Loop", start, [dtype, dtype], body=attribute)
    solved = graph.add("Slice", last, graph.ints([n]), graph.ints([n + columns]), graph.ints([2]))
    return solved, graph.add("Transpose", pivots, perm=[1, 0])


def _turn(
    body: OnnxGraph, turn: Ref, matrix: Ref, n: int, columns: int, stack: int
) -> tuple[Ref, Ref]:
    """The matrices after one turn, and the pivots, negated where rows were exchanged."""
    b = OnnxScalars(body)
    rows = body.constant(np.arange(n))
    column = body.add("Gather", matrix, turn, axis=2)
    open_rows = b.compare("ge", rows, turn)
    sizes = b.select(open_rows, b.abs(column), b.const(-1.0, column))
    best = body.add("ArgMax", sizes, dtype=INT64, axis=1, keepdims=1)
    is_turn = b.compare("eq", rows, turn)
    is_best = b.compare("eq", rows, best)
    order = b.select(is_turn, best, b.select(is_best, turn, rows))
    shape = (stack, n, n + columns)
    places = body.add("Expand", body.reshape(order, (stack, n, 1)), body.ints(shape))
    moved = body.add("GatherElements", matrix, places, axis=1)
    column = body.add("Gather", moved, turn, axis=2)
    pivot = body.add("Gather", column, turn, axis=1)
    row = body.add("Gather", moved, turn, axis=1)
    row = b.div(row, body.reshape(pivot, (stack, 1)))
    factors = b.select(is_turn, b.const(0.0, column), column)
    taken = b.mul(body.reshape(factors, (stack, n, 1)), body.reshape(row, (stack, 1, n + columns)))
    rest = b.sub(moved, taken)
    is_row = body.reshape(is_turn, (1, n, 1))
    new = b.select(is_row, body.reshape(row, (stack, 1, n + columns)), rest)
    stays = b.compare("eq", body.reshape(best, (stack,)), turn)
    return new, b.select(stays, pivot, b.neg(pivot))
