"""Where in the user's source a node was made. Holds a code object and an offset, never a frame."""

from __future__ import annotations

import os
from types import CodeType


class Location:
    """A place in Python source: file, line and function, found out when somebody asks.

    Parameters
    ----------
    code : CodeType
        The code that ran.
    lasti : int
        Offset in bytes of the instruction that ran, as in `frame.f_lasti`.
    """

    __slots__ = ("_resolved", "code", "lasti")

    code: CodeType | None
    lasti: int
    _resolved: tuple[str, int, str] | None

    def __init__(self, code: CodeType | None, lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        self._resolved = None

    @classmethod
    def at(cls, filename: str, line: int, function: str = "") -> Location:
        """The location that is known by its file, line and function already."""
        location = cls(None, 0)
        location._resolved = (filename, line, function)
        return location

    def _resolve(self) -> tuple[str, int, str]:
        found = self._resolved
        if found is None:
            assert self.code is not None
            line = self.code.co_firstlineno
            for start, end, candidate in self.code.co_lines():
                if start <= self.lasti < end and candidate is not None:
                    line = candidate
                    break
            found = self._resolved = (self.code.co_filename, line, self.code.co_name)
        return found

    @property
    def filename(self) -> str:
        """The whole name of the source file."""
        return self._resolve()[0]

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        return self._resolve()[1]

    @property
    def function(self) -> str:
        """The name of the function."""
        return self._resolve()[2]

    def __str__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.line}"

    def __repr__(self) -> str:
        return f"<location {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Location):
            return NotImplemented
        return self._resolve() == other._resolve()

    def __hash__(self) -> int:
        return hash(self._resolve())

    def __reduce__(self) -> tuple[object, ...]:
        return Location.at, self._resolve()
