"""Forward mode as a context: tangents of what a block computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.backprop import TENSOR_SPACE, Unconnected
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.gradients.forward import Linearized
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tape import watch
from tapeline.runtime.tensor import as_tensor


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

    __slots__ = ("_primals", "_tangents", "_tape")

    def __init__(self, primals: Any, tangents: Any) -> None:
        self._primals = nest.flatten(primals)
        given = [tangents] if nest.is_leaf(primals) else nest.flatten(tangents)
        if len(given) != len(self._primals):
            raise ArgumentError(
                f"ForwardAccumulator: {len(given)} tangents for {len(self._primals)} primals"
            )
        if len({id(primal) for primal in self._primals}) < len(self._primals):
            raise ArgumentError("ForwardAccumulator: a primal is given twice; add its tangents")
        self._tangents = [
            as_tensor(tangent, primal.dtype, "ForwardAccumulator: tangent")
            for primal, tangent in zip(self._primals, given, strict=True)
        ]
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if tangent.shape != primal.shape:
                raise ShapeError(
                    f"ForwardAccumulator: a tangent of shape {tangent.shape} for a primal of shape "
                    f"{primal.shape}"
                )
        self._tape = Tape(persistent=True, watch_accessed_variables=False)
        self._tape.start()
        try:
            for primal in self._primals:
                if primal.dtype.kind in "fc":
                    watch(self._tape, primal)
        finally:
            self._tape.stop()

    def __enter__(self) -> ForwardAccumulator:
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
            In the structure given. Other tapes and accumulators see how they are computed; this one
            does not.
        """
        if unconnected_gradients not in ("none", "zero"):
            raise ArgumentError(
                f"jvp: unconnected_gradients must be 'none' or 'zero', got "
                f"{unconnected_gradients!r}"
            )
        targets = [as_tensor(leaf) for leaf in nest.flatten(primals)]
        with self._paused():
            found = Linearized(self._tape, targets, self._primals)(self._tangents)
        if unconnected_gradients == "zero":
            found = [
                TENSOR_SPACE.zeros(target.shape, target.dtype) if part is None else part
                for target, part in zip(targets, found, strict=True)
            ]
        return nest.unflatten(primals, found)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """A block that this accumulator does not record."""
        if not self._tape._is_recording:
            yield
            return
        self._tape.stop()
        try:
            yield
        finally:
            self._tape.start()
