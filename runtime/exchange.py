"""Sharing tensors with other array libraries: DLPack both ways, devices, and the namespace that
array-API code asks a tensor for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from tapeline.runtime.device import Device, check_device
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError
from tapeline.runtime.operators import attach_method
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, adopt, wrap

NUMPY_HAS_DLPACK_1 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether NumPy speaks version 1.0 of DLPack, which knows of read-only memory."""
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the array API standard that Tapeline follows, newest last."""


def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """The module whose functions take this tensor: `tapeline`.

    Raises
    ------
    ArgumentError
        If Tapeline does not follow that version of the standard.
    """
    if api_version is not None and api_version not in API_VERSIONS:
        raise ArgumentError(
            f"x.__array_namespace__: version {api_version!r} of the array API standard is not "
            f"known; use one of {', '.join(API_VERSIONS)}"
        )
    return importlib.import_module(__name__.partition(".")[0])


def __dlpack_device__(self: Tensor, /) -> tuple[Any, int]:
    """The kind and the number of the device in DLPack's words: the CPU."""
    return np.empty(0).__dlpack_device__()


def __dlpack__(
    self: Tensor,
    /,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of the values, for another library's `from_dlpack`.

    From version 1.0 on the capsule shares the tensor's memory and says that it is read-only. Older
    consumers cannot be told, so they get a copy; with `copy=False` they share the memory and must
    not write to it.
    """
    values = self._concrete("x.__dlpack__()")
    tells_read_only = max_version is not None and tuple(max_version) >= (1, 0)
    if tells_read_only and not copy:
        values = values.view()
        values.flags.writeable = False
    elif copy is None:
        copy = True
    if not NUMPY_HAS_DLPACK_1:  # no word of versions and of read-only memory: give a copy away
        return np.array(values).__dlpack__(stream=stream)
    return values.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def to_device(self: Tensor, device: Device, /, *, stream: Any = None) -> Tensor:
    """The tensor itself: "cpu" is the only device.

    Raises
    ------
    ArgumentError
        If `device` is another one, or a stream is given.
    """
    check_device("x.to_device", device)
    if stream is not None:
        raise ArgumentError("x.to_device: the device 'cpu' has no streams; leave stream out")
    return self


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of the values of another library's array, by the DLPack protocol.

    Parameters
    ----------
    x : object with `__dlpack__`
        An array on the CPU.
    device : "cpu", optional
        Where the tensor lives.
    copy : bool, optional
        By default, and with False, the memory is shared where the library allows it, and must not
        be written to any more. True gives the tensor memory of its own.

    Returns
    -------
    Tensor
        That shares the memory, or is a copy where `copy` says so.

    Raises
    ------
    ArgumentTypeError
        If `x` does not speak DLPack.
    DTypeError
        If Tapeline does not have the dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import tapeline as tl
    >>> tl.from_dlpack(np.asarray([1.0, 2.0])).numpy()
    array([1., 2.])
    """
    check_device("from_dlpack", device)
    if not hasattr(type(x), "__dlpack__"):
        raise ArgumentTypeError(
            f"from_dlpack: {type(x).__name__} has no __dlpack__; use tl.asarray for Python numbers "
            f"and sequences"
        )
    if NUMPY_HAS_DLPACK_1:
        array = np.from_dlpack(x, device=device, copy=copy)
    else:
        array = np.array(np.from_dlpack(x), copy=copy)
    canonical_dtype(array.dtype, "from_dlpack")
    return adopt(wrap(array), array)


for _method in (__array_namespace__, __dlpack_device__, __dlpack__, to_device):
    attach_method(_method.__name__, _method)
