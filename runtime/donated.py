"""What a tensor holds in the place of its values when these were given away."""

from __future__ import annotations

from typing import Any, NoReturn

from tapeline.runtime.errors import DonatedTensorError
from tapeline.runtime.spec import DType, Shape


class Donated:
    """Stands for values that a compiled call was given for good."""

    __slots__ = ("dtype", "function", "shape")

    def __init__(self, shape: Shape, dtype: DType, function: str) -> None:
        self.shape = shape
        self.dtype = dtype
        self.function = function

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Says that the values are gone."""
        raise DonatedTensorError(
            f"a tensor of shape {self.shape} and dtype {self.dtype} was donated to a call of "
            f"{self.function}, so it has no values any more; pass a copy, or leave the argument "
            "out of donate="
        )

    __array__ = __array_ufunc__ = __array_function__ = refuse
    __array_interface__ = property(refuse)
    flags = property(refuse)
    nbytes = property(refuse)

    def __repr__(self) -> str:
        return f"donated to {self.function}"
