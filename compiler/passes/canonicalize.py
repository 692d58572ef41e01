"""Brings equal things into one form, so that other passes need to know one form only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tapeline.compiler.ir.graph import Graph, attrs_key, infer_spec
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.compiler.passes.base import PassResult
from tapeline.compiler.passes.rewrite import GeneralRule, Match, Rule, RuleSet
from tapeline.runtime.op import Op, Reduction, Trait
from tapeline.runtime.ops.cast import CAST, IDENTITY, STOP_GRADIENT
from tapeline.runtime.ops.permuting import FLIP, PERMUTE_DIMS
from tapeline.runtime.ops.shaping import BROADCAST_TO, EXPAND_DIMS, RESHAPE, SQUEEZE
from tapeline.runtime.ops.signs import POSITIVE
from tapeline.runtime.ops.slicing import GETITEM
from tapeline.runtime.spec import DType, Shape, TensorSpec, spec_of


@dataclass(frozen=True, slots=True)
class Canonicalize:
    """One form for constants, broadcasts, casts and views. All rewrites keep every bit.

    - A constant stands on the right of a commutative op, as a scalar if it holds one value.
    - An elementwise op takes what a broadcast takes: broadcasts come as late as they can, and are
      dropped where the op broadcasts anyway.
    - Casts and views that do nothing are dropped, and two in a row become one.
    - A reduction of single elements is a reshape; one whose lost dimensions come back keeps them.

    Parameters
    ----------
    differentiated : bool
        Whether gradients are in the graph already, so that `stop_gradient` has done its work and
        may be dropped.
    """

    differentiated: bool = False
    name: str = "canonicalize"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph in its canonical form."""
        return _RULES[self.differentiated].run(graph)


def _constant_to_the_right(m: Match) -> int | None:
    """c + x is x + c."""
    x, y = m.inputs
    if m.is_a(x, CONSTANT) and not m.is_a(y, CONSTANT):
        return m.make(m.op, y, x, attrs=m.attrs)
    return None


def _scalar_constant(m: Match) -> int | None:
    """A constant with one value in all places is a scalar, where the op broadcasts it anyway."""
    values = [m.uniform(i) if m.operand_spec(k).ndim else None for k, i in enumerate(m.inputs)]
    if all(value is None for value in values):
        return None
    specs = tuple(
        m.graph.spec(i) if value is None else spec_of((), value.dtype)
        for i, value in zip(m.inputs, values, strict=True)
    )
    if infer_spec(m.op, specs, m.attrs, attrs_key(m.attrs)) != m.spec:
        return None
    inputs = [
        i if value is None else m.scalar(value, i)
        for i, value in zip(m.inputs, values, strict=True)
    ]
    return m.make(m.op, *inputs, attrs=m.attrs)


def _broadcast_later(m: Match) -> int | None:
    """f(broadcast(x), y) is f(x, y), broadcast afterwards if need be, for an elementwise f."""
    if not any(m.is_a(i, BROADCAST_TO) for i in m.inputs):
        return None
    inputs = tuple(m.inputs_of(i)[0] if m.is_a(i, BROADCAST_TO) else i for i in m.inputs)
    specs = tuple(m.graph.specs[i] for i in inputs)
    spec = infer_spec(m.op, specs, m.attrs, attrs_key(m.attrs))
    result = m.make(m.op, *inputs, attrs=m.attrs)
    if spec == m.spec:
        return result
    return m.make(BROADCAST_TO, result, attrs=(_shape(m),))


def _view_of_one_element(m: Match) -> int | None:
    """A view of one element spread out is that element spread out."""
    spread = m.inputs[0]
    if not m.is_a(spread, BROADCAST_TO):
        return None
    x = m.inputs_of(spread)[0]
    if m.graph.spec(x).size != 1:
        return None
    return m.make(BROADCAST_TO, m.make(RESHAPE, x, attrs=((),)), attrs=(_shape(m),))


def _expand_dims_of_broadcast(m: Match) -> int | None:
    """New dimensions come before a broadcast that adds none."""
    spread = m.inputs[0]
    if not m.is_a(spread, BROADCAST_TO):
        return None
    x = m.inputs_of(spread)[0]
    if m.graph.spec(x).ndim != m.operand_spec(0).ndim:
        return None
    return m.make(BROADCAST_TO, m.make(EXPAND_DIMS, x, attrs=m.attrs), attrs=(_shape(m),))


def _keep_dims(m: Match) -> int | None:
    """A reduction whose lost dimensions come back keeps them."""
    reduced = m.inputs[0]
    op, attrs = m.graph.ops[reduced], m.graph.attrs[reduced]
    if not isinstance(op.lowering, Reduction) or attrs[1] or not m.has_one_use(reduced):
        return None
    x = m.inputs_of(reduced)[0]
    axes = cast(tuple[int, ...], attrs[0])
    kept = tuple(1 if k in axes else n for k, n in enumerate(m.graph.spec(x).shape))
    return m.make(op, x, attrs=(axes, True)) if kept == _shape(m) else None


def _reduction_of_single_elements(m: Match) -> int | None:
    """A reduction over axes of extent 1 is a reshape; not a float sum, which turns -0.0 to 0.0."""
    lowering = m.op.lowering
    assert isinstance(lowering, Reduction)
    x = m.operand_spec(0)
    axes = cast(tuple[int, ...], m.attrs[0])
    single = all(x.shape[axis] == 1 for axis in axes)
    if not single or x.dtype != _spec(m).dtype or (lowering.kind == "sum" and x.dtype.kind in "fc"):
        return None
    return m.inputs[0] if m.fits(m.inputs[0]) else m.make(RESHAPE, m.inputs[0], attrs=(_shape(m),))


def _nothing_to_do(m: Match) -> int | None:
    """An op that gives its input as it is."""
    return m.inputs[0]


def _same_spec(m: Match) -> int | None:
    """A view or cast that changes neither shape nor dtype is its input."""
    return m.or_none(m.inputs[0])


def _no_index(m: Match) -> int | None:
    """x[()] is x."""
    return m.or_none(m.inputs[0]) if m.attrs == ((),) else None


def _cast_of_cast(m: Match) -> int | None:
    """A cast through a dtype that holds all values of the first is one cast, or none."""
    inner = m.inputs[0]
    if not m.is_a(inner, CAST):
        return None
    x = m.inputs_of(inner)[0]
    first, middle = m.graph.spec(x).dtype, m.graph.spec(inner).dtype
    if not _holds_all(first, middle):
        return None
    if m.fits(x):
        return x
    return m.make(CAST, x, attrs=m.attrs) if _family(first) == _family(middle) else None


def _holds_all(narrow: DType, wide: DType) -> bool:
    """Whether each value of one dtype is a value of the other."""
    if narrow.kind in "iu" and wide.kind in "fc":  # NumPy calls int64 to float64 safe
        part = wide.itemsize // (2 if wide.kind == "c" else 1)
        return narrow.itemsize < part
    return np.can_cast(narrow, wide, "safe")


def _family(dtype: DType) -> str:
    return "i" if dtype.kind in "biu" else dtype.kind


def _reshape_of_reshape(m: Match) -> int | None:
    """Two changes of shape in the same row-major order are one reshape, or none."""
    inner = m.inputs[0]
    if not m.is_a(inner, RESHAPE, EXPAND_DIMS, SQUEEZE):
        return None
    x = m.inputs_of(inner)[0]
    if m.fits(x):
        return x
    return m.make(RESHAPE, x, attrs=(_shape(m),)) if m.op is RESHAPE else None


def _broadcast_of_broadcast(m: Match) -> int | None:
    """Two broadcasts are one."""
    inner = m.inputs[0]
    if not m.is_a(inner, BROADCAST_TO):
        return None
    return m.make(BROADCAST_TO, m.inputs_of(inner)[0], attrs=m.attrs)


def _permute_of_permute(m: Match) -> int | None:
    """Two permutations are one, and the identity is none."""
    inner, axes = m.inputs[0], cast(tuple[int, ...], m.attrs[0])
    if axes == tuple(range(len(axes))):
        return inner
    if not m.is_a(inner, PERMUTE_DIMS):
        return None
    first = cast(tuple[int, ...], m.graph.attrs[inner][0])
    joined = tuple(first[axis] for axis in axes)
    return m.make(PERMUTE_DIMS, m.inputs_of(inner)[0], attrs=(joined,))


def _flip_of_single_elements(m: Match) -> int | None:
    """A flip along axes of extent 0 or 1 is its input."""
    x, axes = m.operand_spec(0), cast(tuple[int, ...], m.attrs[0])
    return m.inputs[0] if all(x.static_shape[axis] <= 1 for axis in axes) else None


def _spec(m: Match) -> TensorSpec:
    assert isinstance(m.spec, TensorSpec)
    return m.spec


def _shape(m: Match) -> Shape:
    return _spec(m).static_shape


def _keeps_elements(op: Op) -> bool:
    """Whether a reduction of one element gives that element."""
    return isinstance(op.lowering, Reduction) and op.lowering.kind not in ("argmax", "argmin")


_GENERAL: tuple[GeneralRule, ...] = (
    GeneralRule(lambda op: op.n_inputs == 2 and op.has(Trait.COMMUTATIVE), _constant_to_the_right),
    GeneralRule(lambda op: op.has(Trait.ELEMENTWISE), _scalar_constant),
    GeneralRule(lambda op: op.has(Trait.ELEMENTWISE), _broadcast_later),
    GeneralRule(lambda op: op.has(Trait.VIEW), _view_of_one_element),
    GeneralRule(_keeps_elements, _reduction_of_single_elements),
)

_BY_OP: dict[Op, Sequence[Rule]] = {
    CAST: (_same_spec, _cast_of_cast),
    IDENTITY: (_nothing_to_do,),
    POSITIVE: (_nothing_to_do,),
    RESHAPE: (_same_spec, _reshape_of_reshape, _keep_dims),
    EXPAND_DIMS: (_same_spec, _reshape_of_reshape, _expand_dims_of_broadcast, _keep_dims),
    SQUEEZE: (_same_spec, _reshape_of_reshape),
    BROADCAST_TO: (_same_spec, _broadcast_of_broadcast),
    PERMUTE_DIMS: (_permute_of_permute,),
    FLIP: (_flip_of_single_elements,),
    GETITEM: (_no_index,),
}

_RULES = {
    False: RuleSet(_GENERAL, _BY_OP),
    True: RuleSet(_GENERAL, {**_BY_OP, STOP_GRADIENT: (_nothing_to_do,)}),
}
