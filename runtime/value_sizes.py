"""Sizes that depend on values: how many elements of a mask are true, how many are distinct.

Such an op has `size` for an attribute. Eagerly that is None, for the result tells it. In a trace it
is an open size that the trace makes for the node, and that each call of the compiled function
learns on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.errors import SymbolicTensorError
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.tensor import Tensor


def bind_sized(op: Op, inputs: Sequence[Tensor], most: Any, attrs: Attrs = ()) -> Any:
    """Applies an op whose last attribute is the size of its result.

    Parameters
    ----------
    op : Op
        The op.
    inputs, attrs : sequence
        What it takes, without the size.
    most : int or None
        A size that the result never exceeds; None where there is none.
    """
    make = getattr(STATE.handler, "value_size", None)
    size = None if make is None else make(op, inputs, attrs, most)
    return bind(op, inputs, (*attrs, size))


def refuse_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> NoReturn:
    """The rule under `vmap`: the results of the examples have different sizes."""
    raise SymbolicTensorError(
        f"vmap: {op.name}: the size of the result depends on values, so it differs from example to "
        "example; use tl.where(mask, x, other) and the like, whose results have a fixed size, or a "
        "Python loop over the examples"
    )


def known_size(op_name: str, size: Any) -> Any:
    """The size that an infer rule is given.

    Raises
    ------
    SymbolicTensorError
        If there is none: the op is used where nobody can tell it later.
    """
    if size is None:
        raise SymbolicTensorError(
            f"{op_name}: the size of the result depends on values, which only a compiled function "
            "learns on its way; use tl.where(mask, x, other) and the like, whose results have a "
            "fixed size, or do this step outside"
        )
    return size
