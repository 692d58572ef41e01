"""Plans the memory of intermediate values: one arena, buffers that are never live together may
share bytes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from tapeline.compiler.codegen.program import Program, touched

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Byte offset of each arena buffer, and of each step's scratch memory."""

    offsets: dict[int, int]
    scratch: tuple[int, ...]
    nbytes: int
    lifetimes: dict[int, tuple[int, int]]
    """First and last step that touches a buffer."""


class _FreeList:
    """Free ranges of a growing arena, sorted by offset."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.end = 0

    def take(self, nbytes: int) -> int:
        """The offset of a range of this size: the smallest free one that fits, or new at the
        end."""
        best: int | None = None
        for position, (_, size) in enumerate(self.ranges):
            if size >= nbytes and (best is None or size < self.ranges[best][1]):
                best = position
        if best is not None:
            offset, size = self.ranges.pop(best)
            if size > nbytes:
                insort(self.ranges, (offset + nbytes, size - nbytes))
            return offset
        offset = self.end
        if self.ranges and sum(self.ranges[-1]) == self.end:
            offset = self.ranges.pop()[0]
        self.end = offset + nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Returns a range, joined with free neighbours."""
        insort(self.ranges, (offset, nbytes))
        position = self.ranges.index((offset, nbytes))
        for left in (position, position - 1):
            if 0 <= left < len(self.ranges) - 1:
                (start, size), (following, more) = self.ranges[left], self.ranges[left + 1]
                if start + size == following:
                    self.ranges[left : left + 2] = [(start, size + more)]


def _rounded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


def plan_arena(program: Program, scratch: Sequence[int]) -> ArenaPlan:
    """Offsets for the arena buffers of a program whose step k needs `scratch[k]` bytes while it
    runs."""
    lifetimes: dict[int, tuple[int, int]] = {}
    based = dict(program.based)
    for number, step in enumerate(program.steps):
        for buffer in touched(step):
            while buffer in based:
                buffer = based[buffer]
            if program.buffers[buffer].kind == "arena":
                first = lifetimes.get(buffer, (number, number))[0]
                lifetimes[buffer] = (first, number)
    for buffer in program.kept:
        while buffer in based:
            buffer = based[buffer]
        if buffer in lifetimes:
            lifetimes[buffer] = (lifetimes[buffer][0], len(program.steps) - 1)
    starting: dict[int, list[int]] = {}
    ending: dict[int, list[int]] = {}
    for buffer, (first, last) in lifetimes.items():
        starting.setdefault(first, []).append(buffer)
        ending.setdefault(last, []).append(buffer)
    free = _FreeList()
    offsets: dict[int, int] = {}
    scratch_offsets = []
    for number in range(len(program.steps)):
        for buffer in starting.get(number, ()):
            offsets[buffer] = free.take(_rounded(program.buffers[buffer].nbytes))
        need = scratch[number]
        place = free.take(_rounded(need)) if need else 0
        scratch_offsets.append(place)
        if need:
            free.give(place, _rounded(need))
        for buffer in ending.get(number, ()):
            free.give(offsets[buffer], _rounded(program.buffers[buffer].nbytes))
    return ArenaPlan(offsets, tuple(scratch_offsets), free.end, lifetimes)
