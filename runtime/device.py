"""The one device that tensors live on."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tapeline.runtime.errors import ArgumentError

Device: TypeAlias = Literal["cpu"]

CPU: Device = "cpu"


def check_device(op_name: str, device: object) -> None:
    """An `ArgumentError` where a device argument is neither None nor "cpu"."""
    if device is not None and device != CPU:
        raise ArgumentError(
            f"{op_name}: there is no device {device!r}; tensors live on the device 'cpu', leave "
            f"device out"
        )
