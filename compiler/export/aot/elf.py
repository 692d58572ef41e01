"""Reads the symbols of ELF object files, to say what else a program must be linked with."""

from __future__ import annotations

import struct
from typing import NamedTuple


class Symbols(NamedTuple):
    """Names that an object gives to others, and those that it takes from them."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]


_SYMTAB = 2
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def read_symbols(image: bytes) -> Symbols:
    """The global symbols of a little-endian ELF64 object."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no little-endian ELF64 file")
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [_SECTION.unpack_from(image, start + size * k) for k in range(count)]
    defined: list[str] = []
    undefined: list[str] = []
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, index, _, _ = _SYMBOL.unpack_from(image, place)
            first = names + name
            text = image[first : image.index(b"\0", first)].decode()
            if text and info >> 4:
                (defined if index else undefined).append(text)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)))
