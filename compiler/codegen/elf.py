"""Reads the symbols of ELF object files, and writes files that hold nothing but symbols."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Symbols(NamedTuple):
    """Names that an object gives to others, and those that it takes from them."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


class FunctionSymbol(NamedTuple):
    """A function of an object: its place is that in its section, or an address."""

    name: str
    place: int
    size: int


_SYMTAB, _STRTAB, _NOBITS = 2, 3, 8
_FUNCTION = 2
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def read_symbols(image: bytes) -> Symbols:
    """The global symbols of a little-endian ELF64 object."""
    defined: list[str] = []
    undefined: list[str] = []
    for name, info, _, index, _, _ in _symbols(image):
        if name and info >> 4:
            (defined if index else undefined).append(name)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)))


def read_functions(image: bytes) -> list[FunctionSymbol]:
    """The functions of an object, those of its own included."""
    return [
        FunctionSymbol(name, value, size)
        for name, info, _, index, value, size in _symbols(image)
        if index and info & 15 == _FUNCTION
    ]


def _symbols(image: bytes) -> Iterator[tuple[str, int, int, int, int, int]]:
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no little-endian ELF64 file")
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [_SECTION.unpack_from(image, start + size * k) for k in range(count)]
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, *rest = _SYMBOL.unpack_from(image, place)
            first = names + name
            yield image[first : image.index(b"\0", first)].decode(), *rest


def write_functions(functions: Sequence[FunctionSymbol], machine: int) -> bytes:
    """An ELF file that says which functions stand at which addresses; for debuggers."""
    low = min(one.place for one in functions)
    high = max(one.place + one.size for one in functions)
    strings, symbols = bytearray(b"\0"), bytearray(_SYMBOL.size)
    for one in functions:
        symbols += _SYMBOL.pack(len(strings), 1 << 4 | _FUNCTION, 0, 1, one.place, one.size)
        strings += one.name.encode() + b"\0"
    names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    parts = (bytes(symbols), bytes(strings), names)
    places = []
    at = _HEADER.size
    for part in parts:
        places.append(at)
        at += len(part) + -len(part) % 8
    sections = [
        (0,) * 10,
        (1, _NOBITS, 6, low, _HEADER.size, high - low, 0, 0, 16, 0),
        (7, _SYMTAB, 0, 0, places[0], len(symbols), 3, 1, 8, _SYMBOL.size),
        (15, _STRTAB, 0, 0, places[1], len(strings), 0, 0, 1, 0),
        (23, _STRTAB, 0, 0, places[2], len(names), 0, 0, 1, 0),
    ]
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 2, machine, 1, low, 0, at, 0, _HEADER.size, 56, 0,
        _SECTION.size, len(sections), 4,
    )  # fmt: skip
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    return header + body + b"".join(_SECTION.pack(*section) for section in sections)
