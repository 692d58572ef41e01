"""Gradients of a tape's targets: seeds, the walk, and what sources get.

See `walk` for the way back itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from tapeline.runtime.array_walk import as_cotangent
from tapeline.runtime.dispatch import BUSY, GUARDED, STATE, bind, guarding
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.op import get_op
from tapeline.runtime.record import Node, TapeSet, release, source_nodes
from tapeline.runtime.tensor import Tensor, as_tensor, wrap
from tapeline.runtime.walk import (
    TENSOR_SPACE,
    VSpace,
    filled,
    walk,
)

if TYPE_CHECKING:
    from tapeline.runtime.recorder import Tape

Unconnected: TypeAlias = Literal["none", "zero"]

_ndarray = np.ndarray


def imperative_grad(
    vspace: VSpace | None,
    tape: Tape,
    targets: Sequence[Any],
    sources: Sequence[Any],
    output_gradients: Sequence[Any] | None = None,
    unconnected_gradients: Unconnected = "none",
    sparse: bool = False,
) -> list[Any]:
    """The gradients of the sum of the targets with respect to each source.

    Parameters
    ----------
    vspace : VSpace or None
        Where the cotangents live; None is `TENSOR_SPACE`.
    tape : Tape
        The tape that recorded the targets. Unless it is persistent it ends here.
    targets, sources : sequence of Tensor or Variable
        A source names the value that it had when the tape watched it.
    output_gradients : sequence, optional
        One cotangent, or None for ones, per target.
    unconnected_gradients : "none" or "zero"
        What stands for the gradient of a source that no target depends on.
    sparse : bool
        Whether the gradient of rows that were looked up in a source comes as `IndexedSlices`.

    Returns
    -------
    list
        A cotangent, or None, per source.

    Raises
    ------
    TapeError
        If the tape was used already and is not persistent, or recorded nothing yet.

    Examples
    --------
    >>> import tapeline as tl
    >>> x, recording = tl.asarray(2.0), tl.tape.push_new_tape()
    >>> tl.tape.watch(recording, x)
    >>> y = x**3
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.imperative_grad(None, recording, [y], [x], [tl.asarray(0.5)])[0].item()
    6.0
    """
    if unconnected_gradients not in ("none", "zero"):
        raise ArgumentError(
            f"gradient: unconnected_gradients must be 'none' or 'zero', "
            f"got {unconnected_gradients!r}"
        )
    _count_gradient()
    space = TENSOR_SPACE if vspace is None else vspace
    seeds = _seeds(space, targets, output_gradients)
    own = tape.begin_walk()
    try:
        found = walk_from(space, own, source_nodes(own, sources), seeds, sparse)
    finally:
        tape.end_walk(own)
    if unconnected_gradients == "zero":
        found = [
            space.zeros(source.shape, source.dtype) if part is None else part
            for source, part in zip(sources, found, strict=True)
        ]
    return found


WARM_AFTER = 2000
"""Gradients after which a program is expected to ask for many more."""
WARM_UP: list[Callable[[], object]] = []
"""What is called then, once: to load what makes gradients faster."""
_next_gradient = count(1).__next__


def _count_gradient() -> None:
    """One more gradient was asked for."""
    if _next_gradient() == WARM_AFTER:
        for warm_up in WARM_UP:
            warm_up()


def gradient_of(tape: Tape, target: Tensor, sources: Sequence[Any]) -> list[Any]:
    """`imperative_grad` of one target, with ones for its cotangent: what most programs ask for."""
    _count_gradient()
    node = target._node
    seeds: tuple[tuple[Node, Any], ...] = ()
    if node is not None:
        value = target._value
        seeds = ((node, filled(1, value.shape, value.dtype)),)
    own = tape.begin_walk()
    try:
        return walk_from(TENSOR_SPACE, own, source_nodes(own, sources), seeds)
    finally:
        tape.end_walk(own)


GRADIENT_OF: list[Callable[[Tape, Tensor, Sequence[Any]], list[Any]]] = [gradient_of]
"""`gradient_of`, or machine code that does the same."""


def settle(
    own: TapeSet, wanted: dict[Node | None, Any], node: Node, seed: Any
) -> dict[Node | None, Any]:
    """The cotangents that a walk from the node found, or those of a guarded walk."""
    return _settled(own, wanted, ((node, seed),))


def abandon_walk(own: TapeSet, here: dict[str, Any], masked: bool) -> None:
    """End a tape whose walk failed."""
    if masked:
        here["masked"] = True
    release(own)


def _settled(
    own: TapeSet, wanted: dict[Node | None, Any], seeds: Sequence[tuple[Node, Any]]
) -> dict[Node | None, Any]:
    """The cotangents themselves if no NaN is among them, else those that a guarded walk finds."""
    if not GUARDED[0] or not _any_nan(wanted):
        return wanted
    again: dict[Node | None, Any] = dict.fromkeys(wanted)
    with guarding(), np.errstate(all="ignore"):
        walk(TENSOR_SPACE, own, again, seeds)
    return again


def walk_from(
    space: VSpace,
    own: TapeSet,
    nodes: Sequence[Node | None],
    seeds: Sequence[tuple[Node, Any]],
    sparse: bool = False,
) -> list[Any]:
    """The cotangent, or None, of each of the nodes, for these cotangents of the targets."""
    wanted: dict[Node | None, Any] = dict.fromkeys(nodes)
    here = STATE.__dict__  # one look at the thread for all of it
    before_masked, before_sparse = here["masked"], here["sparse"]
    here["masked"], here["sparse"] = False, sparse
    try:
        walk(space, own, wanted, seeds)
        masks = here["masked"] and space is TENSOR_SPACE
        if masks:
            wanted = _settled(own, wanted, seeds)
    finally:
        here["sparse"] = before_sparse
        if before_masked:
            here["masked"] = True
    if space is not TENSOR_SPACE:
        return [wanted[node] for node in nodes]
    found: list[Any] = []
    for node in nodes:
        part = wanted[node]
        if type(part) is not Tensor:
            part = wrap(part) if type(part) is _ndarray and not BUSY[0] else as_cotangent(part)
        elif masks and part._node is not None and _nobody_traces(part):
            part = bind(get_op("guarded_result"), (part,))
        found.append(part)
    return found


def _nobody_traces(part: Tensor) -> bool:
    """Whether a recorded gradient is one of numbers: in traces products are guarded ones."""
    return GUARDED[0] and STATE.handler is None and part._value.dtype.kind in "fc"


def _any_nan(found: dict[Node | None, Any]) -> bool:
    """Whether a NaN is among these cotangents; symbols have no value to ask for."""
    for part in found.values():
        array = part._value if type(part) is Tensor else part
        if type(array) is not _ndarray:
            if isinstance(array, np.inexact) and array != array:  # NumPy's kind of number
                return True
            continue
        if array.ndim < 2 or array.flags.c_contiguous:
            flat = array if array.ndim < 2 else array.reshape(-1)
            total = flat.dot(flat)  # cheaper than to ask each element
            if total == total:
                continue
        distinct = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
        if np.isnan(distinct).any():
            return True
    return False


def _seeds(
    space: VSpace, targets: Sequence[Any], output_gradients: Sequence[Any] | None
) -> list[tuple[Node, Any]]:
    """The nodes of the targets that have one, each with its cotangent."""
    if output_gradients is not None and len(output_gradients) != len(targets):
        raise ArgumentError(
            f"gradient: {len(output_gradients)} output_gradients for {len(targets)} targets; "
            "give one, or None, per target"
        )
    seeds: list[tuple[Node, Any]] = []
    for index, target in enumerate(targets):
        node = target._node
        given = None if output_gradients is None else output_gradients[index]
        if given is None:
            if node is not None and space is TENSOR_SPACE:
                value = target._value
                seeds.append((node, filled(1, value.shape, value.dtype)))
            elif node is not None:
                seeds.append((node, space.ones(target.shape, target.dtype)))
            continue
        if space is TENSOR_SPACE:
            given = as_tensor(given, target.dtype, "output_gradients")
        _check_size(space, given, target)
        if node is not None:
            seeds.append((node, given))
    return seeds


def _check_size(space: VSpace, given: Any, target: Any) -> None:
    shape = target.shape
    fits = given.shape == shape if space is TENSOR_SPACE else True
    if not fits or space.num_elements(given) != math.prod(shape):
        raise ShapeError(
            f"gradient: an output gradient of {space.num_elements(given)} elements, {given!r}, "
            f"does not fit its target of shape {shape}"
        )
