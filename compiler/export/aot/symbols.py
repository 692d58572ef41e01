"""Reads which names an object file gives and takes, in the formats of all targets: ELF, Mach-O of
64 bits, and COFF."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tapeline.compiler.codegen.elf import read_functions, read_symbols


class ObjectSymbols(NamedTuple):
    """Names of an object, as C programs write them, in order."""

    defined: tuple[str, ...]
    """What others can use."""

    undefined: tuple[str, ...]
    """What it takes from others."""

    functions: dict[str, int]
    """Where functions stand in the section of code, those that nobody else sees included."""


class _Symbol(NamedTuple):
    name: str
    place: int
    is_global: bool
    is_defined: bool
    is_code: bool


def symbols_of(image: bytes) -> ObjectSymbols:
    """The symbols of an object.

    Raises
    ------
    ValueError
        If it is in none of the formats.
    """
    if image[:4] == b"\x7fELF":
        known = read_symbols(image)
        functions = {one.name: one.place for one in read_functions(image)}
        return ObjectSymbols(known.defined, known.undefined, functions)
    if image[:4] == _MACH_O:
        return _gather(_mach_o(image))
    if image[:2] in _COFF_MACHINES:
        return _gather(_coff(image))
    raise ValueError("this is no ELF, Mach-O or COFF object")


def _gather(symbols: Iterator[_Symbol]) -> ObjectSymbols:
    defined: set[str] = set()
    undefined: set[str] = set()
    functions = {}
    for one in symbols:
        if one.is_global:
            (defined if one.is_defined else undefined).add(one.name)
        if one.is_code:
            functions[one.name] = one.place
    return ObjectSymbols(tuple(sorted(defined)), tuple(sorted(undefined)), functions)


def _text(image: bytes, start: int, limit: int | None = None) -> str:
    end = image.find(b"\0", start, limit)
    return image[start : end if end >= 0 else limit].decode()


_MACH_O = b"\xcf\xfa\xed\xfe"
_MACH_COMMANDS = 32
"""Where the commands of a Mach-O file begin."""
_LC_SYMTAB = 2
_N_STAB, _N_TYPE, _N_SECT, _N_EXT = 0xE0, 0x0E, 0x0E, 0x01


def _mach_o(image: bytes) -> Iterator[_Symbol]:
    """The symbols of a Mach-O object, without the underscore that C names have there. Its first
    section is code."""
    (commands,) = struct.unpack_from("<I", image, 16)
    place = _MACH_COMMANDS
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", image, place)
        if kind == _LC_SYMTAB:
            table, count, names, _ = struct.unpack_from("<IIII", image, place + 8)
            for k in range(count):
                name, info, section, _, value = struct.unpack_from("<IBBHQ", image, table + 16 * k)
                if info & _N_STAB:
                    continue
                text = _text(image, names + name)
                written = text.startswith("_")
                yield _Symbol(
                    text.removeprefix("_"), value, bool(info & _N_EXT),
                    info & _N_TYPE == _N_SECT, written and section == 1,
                )  # fmt: skip
        place += size


_COFF_MACHINES = (b"\x64\x86",)
_COFF_SYMBOL = struct.Struct("<8sIhHBB")
_EXTERNAL, _FUNCTION_TYPE = 2, 0x20
_COFF_CONSTANTS = ("__real@", "__xmm@", "__ymm@", "__zmm@")
"""Numbers that code needs, by their bits: each object brings its own and linkers keep one."""


def _coff(image: bytes) -> Iterator[_Symbol]:
    """The symbols of a COFF object."""
    table, count = struct.unpack_from("<II", image, 8)
    names = table + _COFF_SYMBOL.size * count
    skip = 0
    for k in range(count):
        if skip:
            skip -= 1
            continue
        at = table + _COFF_SYMBOL.size * k
        name, value, section, kind, storage, skip = _COFF_SYMBOL.unpack_from(image, at)
        if name[:4] == bytes(4):
            text = _text(image, names + int.from_bytes(name[4:], "little"))
        else:
            text = _text(image, at, at + 8)
        if not text.startswith(_COFF_CONSTANTS):
            is_code = kind == _FUNCTION_TYPE and section > 0
            yield _Symbol(text, value, storage == _EXTERNAL, section != 0, is_code)
