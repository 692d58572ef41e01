"""Values that a trace takes as constants: arguments named in `static_args`, and `tl.constant`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    from tapeline.compiler.frontend.signature import Call


class Frozen:
    """Stands for an argument whose value is part of the signature.

    Two are equal if type and value are: for tensors and arrays dtype, shape and every bit.
    """

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        kind = type(value)
        if kind is Tensor or isinstance(value, np.ndarray):
            array = np.array(value.numpy() if kind is Tensor else value, order="C")
            array.flags.writeable = False
            self.value = wrap(array) if kind is Tensor else array
            self._key: Any = (kind, array.dtype.str, array.shape, array.tobytes())
        elif isinstance(value, float | complex | np.generic):
            self._key = (kind, repr(value))  # tells -0.0 from 0.0, and lets NaN equal itself
        else:
            self._key = (kind, value)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Frozen:
            return NotImplemented
        return bool(self._key == other._key)

    def __repr__(self) -> str:
        return repr(self.value)


def freeze(call: Call, static: Collection[str], names: Sequence[str]) -> Call:
    """The call with a `Frozen` in the place of each leaf of the arguments that are static."""
    call.args = tuple(
        nest.map_structure(Frozen, value) if k < len(names) and names[k] in static else value
        for k, value in enumerate(call.args)
    )
    call.kwargs = {
        name: nest.map_structure(Frozen, value) if name in static else value
        for name, value in call.kwargs.items()
    }
    return call
