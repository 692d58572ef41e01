"""Choices as functions: `tl.cond` and `tl.switch_case`.

Without a trace they are Python's own `if`, and tapes see the ops that run. In a trace the handler
makes one node of a choice, of which one side runs as native code; both sides must give the same
specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.bodies import Body, Function, as_condition, describe, fresh, tensor_spec
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.tensor import TensorLike, as_tensor

__all__ = ["cond", "switch_case"]


def cond(
    pred: TensorLike, true_fn: Function, false_fn: Function, operands: Sequence[Any] = ()
) -> Any:
    """What one of two functions gives: `true_fn(*operands)` where `pred` holds, else
    `false_fn(*operands)`. Only that one runs.

    Parameters
    ----------
    pred : TensorLike of bool, shape ()
        A Python bool is decided at once, also while a function is traced.
    true_fn, false_fn : callable
        In a trace both must give the same structure of tensors, alike in shape and dtype. They may
        use tensors from around them, and assign Variables.
    operands : sequence, optional
        Arguments: tensors or structures of them.

    Returns
    -------
    Structure of Tensor
        As the function gives it.

    Raises
    ------
    ShapeError
        If `pred` is not one bool, or the functions give results that differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> tl.cond(x > 2, lambda: x * x, lambda: x)
    tl.Tensor(9., shape=(), dtype=float64)
    """
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*operands)
    condition = as_condition("cond: pred", pred)
    structure = list(operands)
    leaves = [as_tensor(leaf, argument="cond") for leaf in nest.flatten(structure)]
    then = Body("cond: true_fn", true_fn, structure)
    other = Body("cond: false_fn", false_fn, structure)
    handler = STATE.handler
    if handler is None:
        chosen = then if bool(condition) else other
        results = chosen(*map(fresh, leaves))
        return nest.unflatten(chosen.result, results)
    results = handler.stage_cond(condition, then, other, leaves)
    nest.assert_same_structure(then.result, other.result)
    return nest.unflatten(then.result, results)


def switch_case(
    index: TensorLike, branches: Sequence[Function], operands: Sequence[Any] = ()
) -> Any:
    """What `branches[index](*operands)` gives; an index out of range chooses the last branch.

    Parameters
    ----------
    index : TensorLike of int, shape ()
        Which branch runs.
    branches : sequence of callable
        In a trace all must give the same structure, shapes and dtypes.
    operands : sequence, optional
        Arguments of the branches.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ArgumentError
        If there is no branch.
    ShapeError
        If `index` is not one int, or branches give results that differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> branches = [lambda x: x + 1.0, lambda x: x * 10.0]
    >>> tl.switch_case(1, branches, [tl.asarray(2.0)]).item()
    20.0
    """
    if not branches:
        raise ArgumentError("switch_case: branches is empty; give at least one function")
    tensor = as_tensor(index, argument="switch_case: index")
    if tensor.ndim or tensor.dtype.kind not in "iu":
        raise ShapeError(f"switch_case: index must be one int, got {describe(tensor_spec(tensor))}")
    count = len(branches)
    inside = (tensor >= 0) & (tensor < count)

    def choose(low: int, high: int) -> Function:
        """The branches from low to high, by halving."""
        if high - low == 1:
            return branches[low]
        middle = (low + high) // 2
        return lambda *given: cond(
            tensor < middle, choose(low, middle), choose(middle, high), given
        )

    return cond(inside, choose(0, count), branches[-1], operands)
