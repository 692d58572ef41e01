"""`constant`: a value that a traced function takes as it is now, on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.scopes import init_scope
from tapeline.runtime.tensor import Tensor, as_tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["constant"]

_NUMBERS = (bool, int, float, complex)


def constant(value: Any, dtype: npt.DTypeLike | None = None) -> Any:
    """The value as a constant: a compiled function keeps what it is when it is traced.

    What a function reads of globals, closures and attributes is watched otherwise: a change makes
    it trace again, and arrays and Variables are read at each call.

    Parameters
    ----------
    value : object
        Tensors, arrays, Variables and nested sequences of numbers give a tensor with a copy of
        their present elements. Anything else comes back as it is. Where a function reads a place
        only for this, changes of the place are not looked at any more.
    dtype : dtype-like, optional
        Makes a tensor of a number, too.

    Returns
    -------
    Tensor or object

    Examples
    --------
    >>> import tapeline as tl
    >>> class Settings:
    ...     scale = 2.0
    >>> settings = Settings()
    >>> f = tl.function(lambda x: x * tl.constant(settings.scale))
    >>> y = f(tl.asarray(1.0))
    >>> settings.scale = 3.0
    >>> f(tl.asarray(1.0)).item(), f.trace_count
    (2.0, 1)
    """
    handler: Any = STATE.handler
    forget = getattr(getattr(handler, "reads", None), "forget", None)
    if forget is not None:
        forget(value)
    is_tensor = hasattr(type(value), "__tapeline_tensor__")
    is_data = is_tensor or isinstance(value, np.ndarray | np.generic | list | tuple)
    if not is_data and (dtype is None or not isinstance(value, _NUMBERS)):
        return value
    if type(value) is Tensor and type(value._value) is not np.ndarray:
        return value  # what a trace computes is nobody's state
    with init_scope():
        array = np.array(as_tensor(value, dtype, "constant")._concrete("constant(x)"), order="C")
    made = wrap(array)
    freeze = getattr(handler, "freeze", None)
    return made if freeze is None else freeze(made)
