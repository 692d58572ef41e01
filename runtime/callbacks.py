"""Watching ops as they run, for debugging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from tapeline.runtime.dispatch import STATE, set_callbacks
from tapeline.runtime.errors import ArgumentTypeError
from tapeline.runtime.tensor import Tensor

OpCallback: TypeAlias = Callable[
    [str, dict[str, Any], tuple[Tensor, ...], tuple[Tensor, ...]], object
]


@contextmanager
def op_callback(callback: OpCallback) -> Iterator[None]:
    """A block of this thread in which each op is shown to a function after it ran.

    A call of a compiled function is one op. While a function is traced its ops are shown as they
    are traced, with symbolic tensors. The ops of backward walks are shown too. What the callback
    itself computes is not.

    Parameters
    ----------
    callback : callable
        Takes the name of the op, a dict of its attributes, a tuple of the inputs and a tuple of the
        outputs. What it returns is ignored; what it raises reaches the caller of the op.

    Returns
    -------
    context manager

    Raises
    ------
    ArgumentTypeError
        If it is not callable.

    Examples
    --------
    >>> import tapeline as tl
    >>> def show(name, attributes, inputs, outputs):
    ...     print(name, attributes, [x.shape for x in inputs], [y.shape for y in outputs])
    >>> x = tl.asarray([[1.0, 2.0]])
    >>> with tl.debugging.op_callback(show):
    ...     y = tl.sum(x * x, axis=0)
    multiply {} [(1, 2), (1, 2)] [(1, 2)]
    sum {'axes': (0,), 'keepdims': False} [(1, 2)] [(2,)]
    """
    if not callable(callback):
        raise ArgumentTypeError(
            f"op_callback: expected a function, got {type(callback).__name__} {callback!r}"
        )
    before = STATE.callbacks
    set_callbacks((*before, callback))
    try:
        yield
    finally:
        set_callbacks(before)
