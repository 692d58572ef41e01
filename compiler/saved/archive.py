"""The file that a saved function is: a zip archive of one JSON document and arrays, all stored as
they are. Reading believes nothing: no pickle, no compression, no names but the known ones."""

from __future__ import annotations

import io
import json
import math
import os
import re
import tokenize
import zipfile
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import SavedFileError
from tapeline.runtime.spec import bfloat16_dtype, dtype_named

Array: TypeAlias = npt.NDArray[Any]

DOCUMENT = "tapeline.json"
MAX_DOCUMENT = 1 << 28
"""Bytes of JSON that are read."""
MAX_MEMBERS = 100_000
_ARRAY = re.compile(r"arrays/\d{1,9}\.npy")
_NO_HEADER = (
    ValueError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError,
    tokenize.TokenError,
)  # fmt: skip
"""What reading the head of an array raises where there is none."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BFLOAT16 = "|V2"
"""What NumPy's format calls the dtype: two bytes, of which it knows no more."""


class Arrays:
    """The arrays to be written, each object once."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._arrays: list[Array] = []

    def store(self, array: Array) -> dict[str, str]:
        """What stands for the array in the document."""
        name = self._names.get(id(array))
        if name is None:
            name = self._names[id(array)] = f"arrays/{len(self._arrays)}.npy"
            self._arrays.append(array)
        return {"file": name}

    def items(self) -> list[tuple[str, Array]]:
        """Names and arrays."""
        return [(f"arrays/{k}.npy", array) for k, array in enumerate(self._arrays)]


def write_archive(target: str | IO[bytes], document: Any, arrays: Arrays) -> None:
    """Writes the archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo(DOCUMENT, _EPOCH), text)
        for name, array in arrays.items():
            content = io.BytesIO()
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            np.save(content, np.ascontiguousarray(little).reshape(array.shape), False)
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content.getbuffer())


def replace_archive(path: str | os.PathLike[str], document: Any, arrays: Arrays) -> None:
    """Writes the file in one go: whoever reads it meanwhile sees the former one."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        write_archive(temporary, document, arrays)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


class ArchiveReader:
    """A file, or the bytes of one, that is being read.

    Raises
    ------
    SavedFileError
        If it is no such file, or is damaged.
    """

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        given: str | IO[bytes]
        if isinstance(source, bytes):
            self.path, self._size = "the pickled function", len(source)
            given = io.BytesIO(source)
        else:
            self.path, self._size = os.fspath(source), os.path.getsize(source)
            given = self.path
        try:
            self._archive = zipfile.ZipFile(given)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise self.error(f"it is no zip archive, or is cut off ({error})") from None
        self._arrays: dict[str, Array] = {}
        try:
            self._members = self._check_members()
        except SavedFileError:
            self._archive.close()
            raise

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def error(self, reason: str) -> SavedFileError:
        """The error that says what is wrong with the file, whose name stands there once."""
        beginning = f"load: {self.path} cannot be read: "
        return SavedFileError(beginning + reason.replace(beginning, ""))

    def _check_members(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._archive.infolist()
        members = {info.filename: info for info in infos}
        if len(infos) > MAX_MEMBERS or len(members) != len(infos):
            raise self.error(f"it has {len(infos)} members, some perhaps twice")
        if DOCUMENT not in members:
            raise self.error(f"it holds no {DOCUMENT}; was it written by tl.export.save?")
        for name, info in members.items():
            if name != DOCUMENT and not _ARRAY.fullmatch(name):
                raise self.error(f"it holds a member {name[:80]!r} that does not belong there")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise self.error(f"{name} is compressed, and members must be stored as they are")
            if info.flag_bits & 1:
                raise self.error(f"{name} is encrypted")
        if sum(info.file_size for info in infos) > self._size:
            raise self.error("its members are larger than the file")
        if members[DOCUMENT].file_size > MAX_DOCUMENT:
            raise self.error(f"{DOCUMENT} is larger than {MAX_DOCUMENT} bytes")
        return members

    def _content(self, name: str) -> bytes:
        try:
            return self._archive.read(self._members[name])
        except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
            raise self.error(f"{name} is damaged ({error})") from None

    def document(self) -> Any:
        """The JSON document."""
        content = self._content(DOCUMENT)
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self.error(f"{DOCUMENT} is not JSON ({error})") from None

    def array(self, reference: Any) -> Array:
        """The array that a reference stands for."""
        name = reference.get("file") if isinstance(reference, dict) else None
        if not isinstance(name, str) or name == DOCUMENT or name not in self._members:
            raise self.error(f"there is no array {str(reference)[:80]!r} in it")
        if name not in self._arrays:
            self._arrays[name] = self._parse(name, self._content(name))
        return self._arrays[name]

    def _parse(self, name: str, content: bytes) -> Array:
        """An array of NumPy's own format; its size is checked before memory is taken."""
        stream = io.BytesIO(content)
        try:
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            else:
                shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        except _NO_HEADER as error:
            raise self.error(f"{name} is no array ({error})") from None
        native = bfloat16_dtype() if dtype.str == _BFLOAT16 else dtype_named(dtype.name)
        if native is None or is_fortran:
            raise self.error(f"{name} holds {dtype}, which Tapeline does not")
        data = content[stream.tell() :]
        if math.prod(shape) * dtype.itemsize != len(data):
            raise self.error(f"{name} has shape {shape} and {len(data)} bytes of data")
        read = np.frombuffer(data, native if dtype.str == _BFLOAT16 else dtype)
        return read.reshape(shape).astype(native)
