"""References to tensors and Variables that can be keys, as `==` of the things themselves is
elementwise."""

from __future__ import annotations

from typing import Any


class Reference:
    """Stands for one object; equal to the references to the same object only."""

    __slots__ = ("_object",)

    def __init__(self, referenced: Any) -> None:
        self._object = referenced

    def deref(self) -> Any:
        """The object."""
        return self._object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)

    def __repr__(self) -> str:
        return f"<reference to {self._object!r}>"
