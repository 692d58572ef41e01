"""Predicts from counts what a compiled graph costs at least, and what limits each kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tapeline.compiler.inspect.kernels import KernelInfo, KernelList
from tapeline.compiler.inspect.machine import Machine
from tapeline.compiler.inspect.summary import WIDTH, bytes_text
from tapeline.runtime.tables import Table, Tabular

Limit: TypeAlias = Literal["memory", "arithmetic", "overhead"]

CALL_SECONDS = 1e-6
"""Kernels that take less than this are limited by what a call costs around them."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What a kernel costs at least.

    Attributes
    ----------
    kernel : KernelInfo
        What it does.
    seconds : float
        The larger of the time for its bytes and the time for its operations.
    limit : str
        "memory" or "arithmetic", whichever takes longer; "overhead" below a microsecond.
    """

    kernel: KernelInfo
    seconds: float
    limit: Limit


class Cost(Tabular, Sequence[KernelCost]):
    """The cost of a compiled graph, by kernel. Prints as a table of at most 80 columns.

    Attributes
    ----------
    flops : int
        Element operations of a call; a product counts two for each multiplication.
    nbytes : int
        Bytes that the kernels of a call read and write.
    seconds : float
        The least time that a call can take on this machine if nothing stays in a cache.
    limit : str
        What limits the kernel that takes longest.
    machine : Machine
        What this machine can do.
    """

    def __init__(self, name: str, kernels: KernelList, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self._costs = tuple(_cost_of(kernel, machine) for kernel in kernels)
        self.flops = sum(kernel.flops for kernel in kernels)
        self.nbytes = sum(kernel.nbytes for kernel in kernels)
        self.seconds = sum(cost.seconds for cost in self._costs)
        longest = max(self._costs, key=lambda cost: cost.seconds, default=None)
        self.limit: Limit = "overhead" if longest is None else longest.limit

    def __len__(self) -> int:
        return len(self._costs)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # as tuple's own
        return self._costs[index]

    def __repr__(self) -> str:
        return f"<cost of {self.name}: {self.flops} flops, {self.nbytes} bytes>"

    def table(self) -> Table:
        """What each kernel costs."""
        rows = [
            (
                number, one.kernel.kind, count_text(one.kernel.flops),
                bytes_text(one.kernel.nbytes), time_text(one.seconds), one.limit,
                one.kernel.location,
            )
            for number, one in enumerate(self)
        ]  # fmt: skip
        head = ("", "kind", "operations", "moves", "at least", "limited by", "line")
        return str(self).splitlines()[0], head, rows

    def __str__(self) -> str:
        lines = [
            f"cost of {self.name}: {count_text(self.flops)}flop, {bytes_text(self.nbytes)} moved, "
            f"at least {time_text(self.seconds)}, limited by {self.limit}",
            f"  this machine: {self.machine}",
        ]
        for number, cost in enumerate(self._costs):
            kernel = cost.kernel
            lines.append(
                f"  {number:>3}  {kernel.kind:<10}  {count_text(kernel.flops):>6}flop  "
                f"{bytes_text(kernel.nbytes):>9}  {time_text(cost.seconds):>8}  {cost.limit:<10}  "
                f"{kernel.location}"
            )
        return "\n".join(line[:WIDTH].rstrip() for line in lines)


def _cost_of(kernel: KernelInfo, machine: Machine) -> KernelCost:
    moving, computing = kernel.nbytes / machine.bandwidth, kernel.flops / machine.flops
    seconds = max(moving, computing)
    limit: Limit = "memory" if moving >= computing else "arithmetic"
    return KernelCost(kernel, seconds, limit if seconds >= CALL_SECONDS else "overhead")


def time_text(seconds: float) -> str:
    """A time as people say it."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def count_text(count: float) -> str:
    """A count with a decimal prefix, and a space where the unit goes."""
    for prefix in ("", "k", "M", "G", "T"):
        if count < 999.5 or prefix == "T":
            return f"{count:.3g} {prefix}"
        count /= 1000
    raise AssertionError
