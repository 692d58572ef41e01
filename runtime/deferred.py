"""Values that a compiled function asks for at each call, by a Python function."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentTypeError, SignatureMismatchError
from tapeline.runtime.spec import DType, TensorSpec
from tapeline.runtime.tensor import Tensor, as_tensor

__all__ = ["deferred"]


class Deferred:
    """A capture whose value is what a Python function gives at each call.

    Parameters
    ----------
    function : callable
        Without parameters.
    spec : TensorSpec
        What it always gives.
    """

    def __init__(self, function: Callable[[], Any], spec: TensorSpec) -> None:
        self.function = function
        self.spec = spec

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return self.spec.static_shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    def value(self) -> Tensor:
        """What the function gives now."""
        found = self.function()
        is_typed = isinstance(found, np.ndarray | np.generic) or hasattr(
            type(found), "__tapeline_tensor__"
        )
        tensor = as_tensor(found, None if is_typed else self.dtype, "deferred")
        if (tensor.shape, tensor.dtype) != (self.shape, self.dtype):
            raise SignatureMismatchError(
                f"deferred: the function gave {tensor.dtype} of shape {tensor.shape}; its spec "
                f"promises {self.dtype} of shape {self.shape}"
            )
        return tensor

    def __repr__(self) -> str:
        return f"<deferred {self.spec}>"


def deferred(function: Callable[[], Any], spec: TensorSpec, key: Hashable | None = None) -> Tensor:
    """What a function without parameters gives, asked anew at each call of a compiled function.

    It runs before the compiled code, outside of it. Gradients reach the tensors that it gives.

    Parameters
    ----------
    function : callable
        Gives a tensor, an array or a number.
    spec : TensorSpec
        Its shape and dtype, always the same.
    key : hashable, optional
        Deferred values with the same key in one function are one: the first function is asked.

    Returns
    -------
    Tensor

    Raises
    ------
    SignatureMismatchError
        (a TypeError and a ValueError) where the function gives something else than `spec` says.

    Examples
    --------
    >>> import tapeline as tl
    >>> temperatures = iter([20.0, 25.0])
    >>> @tl.function
    ... def reading(scale):
    ...     return scale * tl.deferred(lambda: next(temperatures), tl.TensorSpec([]))
    >>> [reading(tl.asarray(2.0)).item() for _ in range(2)]
    [40.0, 50.0]
    """
    if not callable(function):
        raise ArgumentTypeError(f"deferred: expected a function, got {type(function).__name__}")
    source = Deferred(function, spec)
    defer = getattr(STATE.handler, "defer", None)
    return source.value() if defer is None else defer(source, key)
