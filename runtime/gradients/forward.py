"""Derivatives along a direction, and products with the Hessian.

A backward walk is linear in its cotangents. So differentiating that walk with respect to them gives
the walk forwards, without a second set of rules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.gradients.functional import Run, beside, grad, leaves_like, run_watched
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tape import pop_tape, push_new_tape
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.walk import TENSOR_SPACE


class _Asked(threading.local):
    """Whether a `ForwardAccumulator` of this thread walks back now."""

    forward = False


_ASKED = _Asked()


@contextmanager
def asking_forward() -> Iterator[None]:
    """A block whose backward walk serves a tangent."""
    before = _ASKED.forward
    _ASKED.forward = True
    try:
        yield
    finally:
        _ASKED.forward = before


def is_forward_asked() -> bool:
    """Whether the present backward walk serves a tangent of a `ForwardAccumulator`."""
    return _ASKED.forward


class Linearized:
    """The map from tangents of sources to tangents of targets, at the values that a tape saw.

    Parameters
    ----------
    tape : Tape
        Recorded how the targets come from the sources.
    targets, sources : sequence of Tensor
        Its ends.
    persistent : bool
        Whether the map is applied more than once.
    """

    __slots__ = ("_outer", "_pulled", "_seeds", "_targets")

    def __init__(
        self,
        tape: Tape,
        targets: Sequence[Tensor],
        sources: Sequence[Any],
        persistent: bool = False,
    ) -> None:
        self._targets = targets
        self._seeds = [TENSOR_SPACE.zeros(each.shape, each.dtype) for each in targets]
        self._outer = push_new_tape(persistent=persistent, watch_accessed_variables=False)
        try:
            for seed in self._seeds:
                if seed.dtype.kind in "fcV":
                    self._outer.watch_tensor(seed)
            self._pulled = imperative_grad(None, tape, targets, sources, self._seeds)
        finally:
            pop_tape(self._outer)

    @property
    def connected(self) -> list[bool]:
        """Whether each target depends on a source."""
        found = imperative_grad(
            None, self._outer, [part for part in self._pulled if part is not None], self._seeds
        )
        return [part is not None for part in found]

    def __call__(self, tangents: Sequence[Tensor]) -> list[Tensor | None]:
        """The tangent of each target; None where it depends on no source."""
        pairs = [
            (pulled, tangent)
            for pulled, tangent in zip(self._pulled, tangents, strict=True)
            if pulled is not None
        ]
        return imperative_grad(
            None, self._outer, [pulled for pulled, _ in pairs], self._seeds,
            [tangent for _, tangent in pairs],
        )  # fmt: skip


def zeros_for_none(targets: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor]:
    """The tangents, with zeros for targets that depend on nothing."""
    return [
        TENSOR_SPACE.zeros(target.shape, target.dtype) if part is None else part
        for target, part in zip(targets, found, strict=True)
    ]


def _tangent_leaves(caller: str, run: Run, tangents: Any) -> list[Tensor]:
    if not isinstance(tangents, list | tuple) or len(tangents) != len(run.structures):
        raise ArgumentError(
            f"{caller}: tangents must be a sequence with one tangent per primal: "
            f"{len(run.structures)} of them"
        )
    return [
        leaf
        for structure, tangent in zip(run.structures, tangents, strict=True)
        for leaf in leaves_like(caller, "a tangent", structure, tangent)
    ]


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of `f`, and its derivative along a direction.

    Parameters
    ----------
    f : callable
        What to differentiate.
    primals : sequence of structures of TensorLike
        Its arguments.
    tangents : sequence
        The direction: for each argument a tangent of the same structure and shapes.
    has_aux : bool
        Whether `f` returns a pair `(result, aux)`, of which only the first is differentiated.

    Returns
    -------
    result : structure of Tensor
    tangent : structure of Tensor
        As the result; zeros for what does not depend on the arguments.
    aux
        With `has_aux`.

    Raises
    ------
    ArgumentError, ShapeError
        If the tangents do not fit the primals.
    ArgumentTypeError
        (a TypeError) if `f` is not a function, or the primals are no list or tuple.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.jvp(lambda x: x ** 2, [3.0], [1.0])[1]
    tl.Tensor(6., shape=(), dtype=float64)
    """
    _require_primals("jvp", primals)
    if not has_aux and (compiled := _derived(f, "jvp", _jvp_of, primals, tangents)) is not None:
        return compiled(*_as_tensors(primals, tangents))  # type: ignore[no-any-return]
    return _jvp(f, primals, tangents, has_aux)


def _jvp_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda primals, tangents: _jvp(f, primals, tangents)


def _jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    run = run_watched("jvp", f, list(primals), {}, range(len(primals)), has_aux=has_aux)
    leaves = _tangent_leaves("jvp", run, tangents)
    found = Linearized(run.tape, run.targets, run.sources)(leaves)
    tangent = nest.unflatten(run.result, zeros_for_none(run.targets, found))
    return (run.result, tangent, run.aux) if has_aux else (run.result, tangent)


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of `f`, and its derivative as a function of the direction.

    Parameters
    ----------
    f : callable
        What to differentiate.
    *primals : structures of TensorLike
        Its arguments.

    Returns
    -------
    result : structure of Tensor
    push_forward : callable
        Takes a tangent per argument; returns the tangent of the result. `f` does not run again.

    Examples
    --------
    >>> import tapeline as tl
    >>> result, push_forward = tl.linearize(lambda x: x ** 2, 3.0)
    >>> push_forward(1.0), push_forward(2.0)
    (tl.Tensor(6., shape=(), dtype=float64), tl.Tensor(12., shape=(), dtype=float64))
    """
    run = run_watched("linearize", f, primals, {}, range(len(primals)))
    linear = Linearized(run.tape, run.targets, run.sources, persistent=True)

    def push_forward(*tangents: Any) -> Any:
        found = linear(_tangent_leaves("linearize", run, tangents))
        return nest.unflatten(run.result, zeros_for_none(run.targets, found))

    return run.result, push_forward


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the Hessian of `f` with a vector, at the cost of a few runs of `f`.

    Parameters
    ----------
    f : callable
        Returns a real number, a tensor of shape ().
    primals : sequence of structures of TensorLike
        Its arguments.
    tangents : sequence
        The vector: for each argument a tangent of the same structure and shapes.

    Returns
    -------
    structure of Tensor
        That of the argument; a tuple where there are several.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        If the tangents do not fit the primals, or the result is not one real number.
    ArgumentTypeError
        (a TypeError) if `f` is not a function, or the primals are no list or tuple.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.hvp(lambda x: tl.sum(x ** 3), [tl.asarray([1.0, 2.0])], [tl.asarray([1.0, 0.0])])
    tl.Tensor([6. 0.], shape=(2,), dtype=float64)
    """
    _require_primals("hvp", primals)
    compiled = _derived(f, "hvp", _hvp_of, primals, tangents)
    if compiled is not None:
        return compiled(*_as_tensors(primals, tangents))
    return _hvp(f, primals, tangents)


def _require_primals(caller: str, primals: Any) -> None:
    if not isinstance(primals, list | tuple):
        raise ArgumentTypeError(
            f"{caller}: primals must be a list or tuple with the arguments of the function, got "
            f"{type(primals).__name__}; write [x] for one argument"
        )


def _derived(
    f: Callable[..., Any],
    name: str,
    build: Callable[[Any], Callable[..., Any]],
    primals: Sequence[Any],
    tangents: Any,
) -> Callable[..., Any] | None:
    """The compiled function that gives a derivative of a compiled function; None for others, and in
    a trace, which becomes one graph anyway."""
    is_sequence = isinstance(tangents, list | tuple) and len(tangents) == len(primals)
    if STATE.handler is not None or not hasattr(f, "derived") or not is_sequence:
        return None
    return f.derived(name, build)  # type: ignore[no-any-return]  # a Function


def _as_tensors(primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Both with tensors for numbers, which would be constants of the trace."""
    given = nest.map_structure(as_tensor, list(primals))
    flat = [as_tensor(part, like.dtype) for like, part in beside(given, list(tangents))]
    return [given, nest.unflatten(given, flat)]


def _hvp_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda primals, tangents: _hvp(f, primals, tangents)


def _hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    positions = range(len(primals))
    gradient = grad(f, tuple(positions))
    run = run_watched("hvp", gradient, list(primals), {}, positions)
    packed = run.pack(run.gradients(_tangent_leaves("hvp", run, tangents)))
    return packed[0] if len(packed) == 1 else tuple(packed)
