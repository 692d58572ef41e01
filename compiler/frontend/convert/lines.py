"""On which line a variable got its value, for messages: read off the code of blocks and of the
function around them."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from tapeline.compiler.frontend.location import is_library_code


def line_in(block: Callable[..., Any] | None, name: str) -> int | None:
    """The last line of a block that gives a variable a value; None if there is none."""
    if not isinstance(block, FunctionType):
        return None
    return max(_lines(block.__code__, name), default=None)


def line_before(name: str, block: Callable[..., Any] | None) -> int | None:
    """The last line before a block that gives a variable a value: in the function around, or the
    line where that begins, if it is an argument. To be asked while the function runs."""
    if not isinstance(block, FunctionType):
        return None
    first, filename = block.__code__.co_firstlineno, block.__code__.co_filename
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == filename and not is_library_code(code):
            found = [line for line in _lines(code, name) if line < first]
            if found:
                return max(found)
            if name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                return code.co_firstlineno
            if name in code.co_cellvars:
                return None
        frame = frame.f_back
    return None


def shown_line(line: int | None) -> str:
    """The line in brackets, if it is known."""
    return "" if line is None else f" (line {line})"


def _lines(code: CodeType, name: str) -> list[int]:
    """The lines on which code, or a block in it, gives a variable a value."""
    found: list[int] = []
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None:
            line = _line_of(instruction, line)
        is_store = instruction.opname in ("STORE_DEREF", "STORE_FAST", "STORE_GLOBAL")
        if is_store and instruction.argval == name:
            found.append(line)
    for item in code.co_consts:
        if isinstance(item, CodeType) and name in item.co_freevars and not _restores(item):
            found += _lines(item, name)
    return found


def _restores(code: CodeType) -> bool:
    """Whether it is what gives all variables of a block the values that they had."""
    return code.co_varnames[:1] == ("@s",)


def _line_of(instruction: dis.Instruction, before: int) -> int:
    """The line of an instruction that begins one; Python 3.13 says where, not only that."""
    line: Any = getattr(instruction, "line_number", instruction.starts_line)
    return line if isinstance(line, int) else before
