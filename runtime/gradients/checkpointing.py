"""Recomputing a part of a program for the gradient instead of keeping what it needs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE, users
from tapeline.runtime.errors import ForwardModeError
from tapeline.runtime.gradients.forward import is_forward_asked
from tapeline.runtime.gradients.parameters import name_of
from tapeline.runtime.record import Node, next_serial
from tapeline.runtime.surroundings import Surroundings
from tapeline.runtime.tape import pop_tape, push_new_tape, record_operation
from tapeline.runtime.tensor import Tensor, as_tensor, wrap


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which runs again for its gradient instead of keeping what that needs.

    A tape keeps the arguments and what else `f` reads, nothing between them and the results. `f`
    must do the same each time: no random numbers, no assignments. It runs again with the variables
    of functions around it as they were. It is the same in compiled
    functions; `tl.function(max_bytes=...)` is the other way there, where the compiler chooses.

    Parameters
    ----------
    f : callable
        Of tensors or structures of tensors.

    Returns
    -------
    callable
        With the results and the derivatives of `f`, of any order.

    Examples
    --------
    >>> import tapeline as tl
    >>> block = tl.checkpoint(lambda x: tl.sin(tl.exp(tl.cos(x))))
    >>> x = tl.asarray(0.5)
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = block(x)
    >>> [entry.op for entry in tape.export()]
    ['<lambda>']
    """

    return _recomputing(f, refuses_forward=False)


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow's `recompute_grad`: `checkpoint`, except that it has no forward mode.

    Parameters
    ----------
    f : callable
        As for `checkpoint`.

    Returns
    -------
    callable
        With the results and the gradients of `f`, of any order. Under a `ForwardAccumulator` it is
        an error, as in TensorFlow; `checkpoint` works there.

    Raises
    ------
    ForwardModeError
        (a NotImplementedError) where a `ForwardAccumulator` is asked for a tangent through it.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.grad(tl.recompute_grad(lambda x: tl.exp(x) * x))(0.0)
    tl.Tensor(1., shape=(), dtype=float64)
    """
    return _recomputing(f, refuses_forward=True)


def _recomputing(f: Callable[..., Any], refuses_forward: bool) -> Callable[..., Any]:
    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        stage = getattr(STATE.handler, "stage_checkpoint", None)
        if stage is not None:
            return _staged(f, stage, args, kwargs)
        if STATE.active is None or STATE.handler is not None:
            return users(f)(*args, **kwargs)
        held_args, held_kwargs = nest.map_structure(_hold, (args, kwargs))
        around = Surroundings(f, hold=_hold)
        start = next_serial()
        result = f(*held_args, **held_kwargs)
        leaves = [as_tensor(leaf) for leaf in nest.flatten(result)]
        sources = sources_before(start, leaves)

        def run_again(*cts: Tensor) -> list[Any]:
            if refuses_forward and is_forward_asked():
                raise ForwardModeError(
                    f"recompute_grad tried to transpose the gradient of {name_of(f)}, for a "
                    "ForwardAccumulator; use tl.checkpoint, which works in forward mode too"
                )
            tape = push_new_tape(watch_accessed_variables=False)
            try:
                for source in sources:
                    tape.watch_tensor(source)
                with around.as_before():
                    again = f(*held_args, **held_kwargs)
                targets = [as_tensor(x) for x in nest.flatten(again)]
            finally:
                pop_tape(tape)
            return imperative_grad(None, tape, targets, sources, cts)

        outputs = [wrap(leaf._value) for leaf in leaves]
        record_operation(name_of(f), outputs, sources, run_again)
        return nest.unflatten(result, outputs)

    return checkpointed


def _staged(f: Callable[..., Any], stage: Any, args: Any, kwargs: Any) -> Any:
    """The results in a trace, where the gradient is added later, if at all."""
    leaves = nest.flatten((args, kwargs))
    places = [k for k, leaf in enumerate(leaves) if type(leaf) is Tensor]
    kept: list[Any] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        inner_args, inner_kwargs = nest.unflatten((args, kwargs), values)
        kept[:] = [users(f)(*inner_args, **inner_kwargs)]
        return [as_tensor(leaf) for leaf in nest.flatten(kept[0])]

    results = stage(name_of(f), flat, [leaves[place] for place in places])
    return nest.unflatten(kept[0], results)


def _hold(leaf: Any) -> Any:
    """A tensor as it is now: its cell may get another value until the function runs again."""
    return wrap(leaf._value, leaf._node) if type(leaf) is Tensor else leaf


def sources_before(start: int, results: Sequence[Tensor]) -> list[Tensor]:
    """Cells for the recorded values, older than `start`, that the results were computed from."""
    found: dict[int, Tensor] = {}
    seen: set[int] = set()
    stack: list[Node] = [x._node for x in results if x._node is not None]
    while stack:
        node = stack.pop()
        if node.serial in seen:
            continue
        seen.add(node.serial)
        if node.serial < start:
            found[node.serial] = wrap(np.empty(0), node)
        else:
            stack += [parent for parent in node.parents if parent is not None]
    return [found[serial] for serial in sorted(found)]
