"""Forward mode as a context: tangents of what a block computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.backprop import Unconnected
from tapeline.runtime.batching.vmap import vmap
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.gradients.forward import Linearized, asking_forward, zeros_for_none
from tapeline.runtime.gradients.functional import beside
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tape import watch
from tapeline.runtime.tensor import Tensor, as_tensor, wrap
from tapeline.runtime.walk import TENSOR_SPACE


class _ForwardTape(Tape):
    """The tape of an accumulator."""

    __slots__ = ()
    is_forward = True


class ForwardAccumulator:
    """Computes derivatives along a direction of what a `with` block computes.

    Parameters
    ----------
    primals : Tensor, Variable or structure of them
        What to differentiate by.
    tangents : structure of TensorLike
        The direction: one tangent per primal, of its shape.

    Raises
    ------
    ArgumentError
        (a ValueError) if a primal is given twice, or primals and tangents differ in number.
    ShapeError
        (a ValueError) if a tangent does not fit its primal.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray([1.0, 2.0])
    >>> with tl.ForwardAccumulator(x, [1.0, 0.0]) as accumulator:
    ...     y = x * x * x
    >>> accumulator.jvp(y)
    tl.Tensor([3. 0.], shape=(2,), dtype=float64)
    """

    __slots__ = ("_around", "_is_batched", "_sources", "_tangents", "_tape")

    def __init__(self, primals: Any, tangents: Any) -> None:
        leaves = nest.flatten(primals)
        given = [tangents] if nest.is_leaf(primals) else nest.flatten(tangents)
        if len(given) != len(leaves):
            raise ArgumentError(
                f"ForwardAccumulator: {len(given)} tangents for {len(leaves)} primals"
            )
        if len({id(primal) for primal in leaves}) < len(leaves):
            raise ArgumentError(
                "ForwardAccumulator: a primal is given multiple times; add its tangents"
            )
        self._open(is_batched=False)
        self._around: tuple[Any, ...] = ()
        self._sources: list[Tensor] = []
        self._tangents: list[Tensor] = []
        for primal, tangent in zip(leaves, given, strict=True):
            self.watch(primal, tangent)

    def _open(self, is_batched: bool) -> None:
        self._is_batched = is_batched
        self._tape = _ForwardTape(persistent=True, watch_accessed_variables=False)
        self._tape.start()
        self._tape.stop()

    @classmethod
    def batched(cls, primals: Any, tangents: Any) -> ForwardAccumulator:
        """An accumulator of many directions at once.

        Parameters
        ----------
        primals : Tensor, Variable or structure of them
            What to differentiate by.
        tangents : structure of TensorLike
            Per primal its tangents, along a first axis of the same length for all.

        Returns
        -------
        ForwardAccumulator
            Its `jvp` gives all tangents of a result, along a first axis.

        Raises
        ------
        ArgumentError, ShapeError
            As for one direction, and if the numbers of directions differ.

        Examples
        --------
        >>> import tapeline as tl
        >>> x = tl.asarray(3.0)
        >>> with tl.ForwardAccumulator.batched(x, [1.0, 10.0]) as accumulator:
        ...     y = x * x
        >>> accumulator.jvp(y)
        tl.Tensor([ 6. 60.], shape=(2,), dtype=float64)
        """
        given = [
            as_tensor(rows, primal.dtype, "ForwardAccumulator: tangents")
            for primal, rows in beside(primals, tangents)
        ]
        counts = {row.shape[:1] for row in given}
        if len(counts) != 1 or () in counts:
            raise ShapeError(
                "ForwardAccumulator.batched: all tangents must have the directions along a first "
                f"axis of one length, got shapes {[row.shape for row in given]}"
            )
        made = cls(primals, nest.unflatten(primals, [row[0] for row in given]))
        made._is_batched = True
        made._tangents = [wrap(row._value, row._node) for row in given]
        return made

    _batch_accumulator = batched

    def watch(self, primal: Any, tangent: Any) -> None:
        """Differentiate by one more tensor or Variable; a tangent that it has already adds up.

        Parameters
        ----------
        primal : Tensor or Variable
            What to differentiate by.
        tangent : TensorLike
            Its tangent, of its shape.
        """
        given = as_tensor(tangent, primal.dtype, "ForwardAccumulator: tangent")
        if given.shape != primal.shape:
            raise ShapeError(
                f"ForwardAccumulator: a tangent of shape {given.shape} for a primal of shape "
                f"{primal.shape}"
            )
        if primal.dtype.kind in "fcV":
            watch(self._tape, primal)
        # cells of our own: those of the program may die
        self._sources.append(wrap(np.empty(0, primal.dtype), primal._node))
        self._tangents.append(wrap(given._value, given._node))

    _watch = watch

    def __enter__(self) -> ForwardAccumulator:
        self._around = STATE.open
        self._tape.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tape.stop()

    def jvp(self, primals: Any, unconnected_gradients: Unconnected = "none") -> Any:
        """The tangents of what the block computed.

        Parameters
        ----------
        primals : Tensor, Variable or structure of them
            What the block computed.
        unconnected_gradients : "none" or "zero"
            What stands for the tangent of what does not depend on the primals.

        Returns
        -------
        Tensor, None or structure of them
            In the structure given. Tapes and accumulators around this one see how they are
            computed, even when their blocks are over by now; this one does not.
        """
        if unconnected_gradients not in ("none", "zero"):
            raise ArgumentError(
                f"jvp: unconnected_gradients must be 'none' or 'zero', got "
                f"{unconnected_gradients!r}"
            )
        targets = [_as_target(leaf) for leaf in nest.flatten(primals)]
        with self._paused():
            with asking_forward():
                linear = Linearized(self._tape, targets, self._sources, self._is_batched)
            found = self._each(linear, targets) if self._is_batched else linear(self._tangents)
        if unconnected_gradients == "zero":
            found = [
                TENSOR_SPACE.zeros(self._leading() + target.shape, target.dtype)
                if part is None
                else part
                for target, part in zip(targets, found, strict=True)
            ]
        return nest.unflatten(primals, found)

    def _leading(self) -> tuple[int, ...]:
        return self._tangents[0].shape[:1] if self._is_batched else ()

    def _each(self, linear: Linearized, targets: list[Tensor]) -> list[Tensor | None]:
        """The tangents of the targets for each direction; None where there are none."""
        connected = linear.connected
        chosen = [k for k in range(len(targets)) if connected[k]]

        def along(tangents: list[Tensor]) -> list[Tensor]:
            found = linear(tangents)
            return zeros_for_none([targets[k] for k in chosen], [found[k] for k in chosen])

        parts = iter(vmap(along)(self._tangents) if chosen else ())
        return [next(parts) if is_connected else None for is_connected in connected]

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """A block that this accumulator does not record, but those around it do."""
        was_recording = self._tape._is_recording
        if was_recording:
            self._tape.stop()
        entered = [tape for tape in self._around if not (tape._is_recording or tape._is_used)]
        for tape in entered:
            tape.start()
        try:
            yield
        finally:
            for tape in entered:
                tape.stop()
            if was_recording:
                self._tape.start()


def _as_target(leaf: Any) -> Tensor:
    """A tensor; a Variable as the value that the accumulator watches, whoever records now."""
    tensor = as_tensor(leaf)
    if type(leaf) is Tensor or not hasattr(leaf, "is_differentiable"):
        return tensor
    return wrap(tensor._value, leaf._node)
