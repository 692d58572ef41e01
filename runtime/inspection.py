"""What array-API code may ask the library about itself."""

from __future__ import annotations

from typing import Any

from tapeline.runtime.device import CPU, Device, check_device
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.limits import KIND_CODES
from tapeline.runtime.spec import SUPPORTED_DTYPES, DType, canonical_dtype

_DEFAULTS: dict[str, DType] = {
    "real floating": canonical_dtype("float64"),
    "complex floating": canonical_dtype("complex128"),
    "integral": canonical_dtype("int64"),
    "indexing": canonical_dtype("int64"),
}


class NamespaceInfo:
    """Devices, dtypes and abilities of the library."""

    def capabilities(self) -> dict[str, Any]:
        """What indexing and shapes can do; None stands for no limit.

        Masks and shapes that depend on values work eagerly and in compiled functions. NumPy bounds
        the number of dimensions.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device of new tensors."""
        return CPU

    def devices(self) -> tuple[Device, ...]:
        """All devices."""
        return (CPU,)

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """The dtype of new tensors, by kind."""
        check_device("default_dtypes", device)
        return dict(_DEFAULTS)

    def dtypes(
        self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by name: all, or those of a kind (or of one in a tuple of kinds)."""
        check_device("dtypes", device)
        wanted = tuple(KIND_CODES) if kind is None else (kind,) if isinstance(kind, str) else kind
        for name in wanted:
            if name not in KIND_CODES:
                known = ", ".join(repr(known) for known in KIND_CODES)
                raise ArgumentError(f"dtypes: {name!r} is no kind of dtype; use one of {known}")
        codes = "".join(KIND_CODES[name] for name in wanted)
        return {dtype.name: dtype for dtype in SUPPORTED_DTYPES if dtype.kind in codes}


def __array_namespace_info__() -> NamespaceInfo:
    """What array-API code may ask the library about itself.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.__array_namespace_info__().default_device()
    'cpu'
    """
    return NamespaceInfo()
