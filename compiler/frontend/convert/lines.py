"""On which line a variable, an item or an attribute got its value, for messages: read off the code
of blocks and of the function around them."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from tapeline.compiler.frontend.convert.containers import Slot
from tapeline.compiler.frontend.location import is_library_code


def line_in(block: Callable[..., Any] | None, place: str | Slot) -> int | None:
    """The last line of a block that gives a variable or a place a value; None if there is none."""
    if not isinstance(block, FunctionType):
        return None
    return max(_lines(block.__code__, place), default=None)


def line_before(place: str | Slot, block: Callable[..., Any] | None) -> int | None:
    """The last line before a block that gives a variable or a place a value: in the function
    around, or the line where that begins, if it is an argument. To be asked while the function
    runs."""
    if not isinstance(block, FunctionType):
        return None
    first, filename = block.__code__.co_firstlineno, block.__code__.co_filename
    name = place if isinstance(place, str) else re.split(r"[.\[]", place.path, maxsplit=1)[0]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == filename and not is_library_code(code):
            is_own = isinstance(place, Slot) and code.co_name == block.__code__.co_name
            for wanted in (place, name) if is_own else (name,):
                found = [line for line in _lines(code, wanted) if line < first]
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


def _lines(code: CodeType, place: str | Slot) -> list[int]:
    """The lines on which code, or a block in it, gives a variable or a place a value."""
    found: list[int] = []
    line, before = code.co_firstlineno, None
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None:
            line = _line_of(instruction, line)
        if _stores(place, instruction, before):
            found.append(line)
        before = instruction
    for item in code.co_consts:
        if not isinstance(item, CodeType) or _restores(item):
            continue
        if item.co_name == code.co_name if isinstance(place, Slot) else place in item.co_freevars:
            found += _lines(item, place)
    return found


def _stores(
    place: str | Slot, instruction: dis.Instruction, before: dis.Instruction | None
) -> bool:
    """Whether an instruction gives a variable, or an attribute or item of that name, a value."""
    if isinstance(place, str):
        is_store = instruction.opname in ("STORE_DEREF", "STORE_FAST", "STORE_GLOBAL")
        return is_store and instruction.argval == place
    if instruction.opname == "STORE_ATTR":
        return place.holder is not place.container and instruction.argval == place.key
    if instruction.opname != "STORE_SUBSCR" or place.holder is not place.container:
        return False
    return before is None or before.opname != "LOAD_CONST" or before.argval == place.key


def _restores(code: CodeType) -> bool:
    """Whether it is what gives all variables of a block the values that they had."""
    return code.co_varnames[:1] == ("@s",)


def _line_of(instruction: dis.Instruction, before: int) -> int:
    """The line of an instruction that begins one; Python 3.13 says where, not only that."""
    line: Any = getattr(instruction, "line_number", instruction.starts_line)
    return line if isinstance(line, int) else before
