"""Machine code on disk, so that a later process need not compile what this one compiled.

An entry is the object file of one LLVM text. Its name is a hash of the text, the processor and the
version of LLVM; no text holds an address, so an object serves in any process. Files are written in
one go, checked when read, and lie in a folder that nobody else may write to, for they are code.
What goes wrong with the cache is as if there were none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapeline.compiler.codegen.target import Target

DIRECTORY_VARIABLE = "TAPELINE_CACHE_DIR"
"""Environment variable that names the folder."""
SWITCH_VARIABLE = "TAPELINE_CACHE"
"""Environment variable that turns the cache off: `TAPELINE_CACHE=0`."""
SIZE_LIMIT = 512 << 20
"""Bytes of all entries. Beyond it, the ones that were not used for longest go until there is room
for some more."""

_MAGIC = b"tapeline object 1\n"
_LENGTHS = struct.Struct("<QQ")
_ROOM = 8
"""What part of the limit is made free: so many entries are looked through at once that it should
not happen often."""
_SUBFOLDERS = 256
_KEYS_PER_CHECK = 16
_FORMAT = "1"


@dataclass(slots=True)
class CacheCounts:
    """What this process asked of the cache."""

    hits: int = 0
    misses: int = 0
    stored: int = 0
    missed: list[str] = field(default_factory=list)
    """The keys of the misses."""


COUNTS = CacheCounts()
_LOCK = threading.Lock()


def default_directory() -> Path:
    """Where objects are kept unless the environment says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if sys.platform == "win32":
        base = base or os.environ.get("LOCALAPPDATA", "")
    return Path(base) / "tapeline" if base else Path.home() / ".cache" / "tapeline"


def cache_directory() -> Path | None:
    """The folder of this process; None where the cache is off or the folder cannot be trusted."""
    return _usable(
        os.environ.get(SWITCH_VARIABLE, ""), os.environ.get(DIRECTORY_VARIABLE, ""),
        os.environ.get("XDG_CACHE_HOME", ""),
    )[0]  # fmt: skip


def why_unusable() -> str:
    """Why there is no cache; empty where there is one."""
    return _usable(
        os.environ.get(SWITCH_VARIABLE, ""), os.environ.get(DIRECTORY_VARIABLE, ""),
        os.environ.get("XDG_CACHE_HOME", ""),
    )[1]  # fmt: skip


@functools.lru_cache(maxsize=8)
def _usable(switch: str, named: str, _: str) -> tuple[Path | None, str]:
    if switch == "0":
        return None, f"the environment variable {SWITCH_VARIABLE} is 0"
    try:
        folder = Path(named) if named else default_directory()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError) as error:
        return None, f"the folder cannot be made: {error}"
    if hasattr(os, "getuid"):
        if found.st_uid != os.getuid():
            return None, f"{folder} belongs to somebody else"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None, f"{folder} can be written by others: chmod 700 {folder}"
    return folder, ""


def environment(target: Target) -> dict[str, str]:
    """What an object depends on besides its text."""
    import llvmlite

    return {
        "format": _FORMAT,
        "llvmlite": llvmlite.__version__,
        "cpu": target.cpu,
        "features": hashlib.sha256(target.features.encode()).hexdigest()[:16],
        "platform": f"{sys.platform}-{os.uname().machine if hasattr(os, 'uname') else ''}",
    }


class ObjectCache:
    """The objects of one target."""

    def __init__(self, target: Target) -> None:
        self._environment = environment(target)
        self._prefix = json.dumps(self._environment, sort_keys=True).encode()

    def key(self, text: str, quick: bool) -> str:
        """What the object of a text is found under."""
        content = hashlib.sha256(self._prefix)
        content.update(b"quick" if quick else b"full")
        content.update(text.encode())
        return content.hexdigest()

    def find(self, key: str) -> bytes | None:
        """The object, or None."""
        folder = cache_directory()
        if folder is None:
            return None
        path = _path(folder, key)
        try:
            content = path.read_bytes()
            image = _parse(content)[1]
            os.utime(path)
        except (OSError, ValueError, KeyError):
            with _LOCK:
                COUNTS.misses += 1
                COUNTS.missed.append(key)
            return None
        with _LOCK:
            COUNTS.hits += 1
        return image

    def store(self, key: str, text: str, image: bytes) -> None:
        """Keeps an object."""
        folder = cache_directory()
        if folder is None:
            return
        about = {**self._environment, "text": hashlib.sha256(text.encode()).hexdigest()}
        try:
            _write(_path(folder, key), _format(about, image))
        except OSError:
            return
        with _LOCK:
            COUNTS.stored += 1
        if int(key[-2:], 16) % _KEYS_PER_CHECK == 0:
            with contextlib.suppress(OSError):
                if _is_full(folder / key[:2]):
                    _evict(folder)


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key[2:]}.o"


def _format(about: dict[str, str], image: bytes) -> bytes:
    head = json.dumps(about).encode()
    check = hashlib.sha256(head + image).digest()
    return _MAGIC + check + _LENGTHS.pack(len(head), len(image)) + head + image


def _parse(content: bytes) -> tuple[dict[str, str], bytes]:
    """What `_format` wrote; a `ValueError` if it is damaged."""
    start = len(_MAGIC) + 32
    if content[: len(_MAGIC)] != _MAGIC or len(content) < start + _LENGTHS.size:
        raise ValueError("this is no object of the cache")
    head_length, length = _LENGTHS.unpack_from(content, start)
    rest = content[start + _LENGTHS.size :]
    if len(rest) != head_length + length:
        raise ValueError("the object is cut off")
    if hashlib.sha256(rest).digest() != content[len(_MAGIC) : start]:
        raise ValueError("the object is damaged")
    return json.loads(rest[:head_length]), rest[head_length:]


def _write(path: Path, content: bytes) -> None:
    """Writes the file so that no reader ever sees a part of it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


# ---- for people


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An object on disk."""

    path: Path
    nbytes: int
    used: float
    """When it was last used, in seconds since 1970."""

    def about(self) -> dict[str, Any]:
        """What it was compiled for; empty if the file is damaged."""
        try:
            return dict(_parse(self.path.read_bytes())[0])
        except (OSError, ValueError):
            return {}


def cache_entries(folder: Path) -> Iterator[CacheEntry]:
    """All objects in a folder."""
    for path in folder.glob("??/*.o"):
        try:
            found = path.stat()
        except OSError:
            continue
        yield CacheEntry(path, found.st_size, found.st_mtime)


def clear_cache(folder: Path) -> int:
    """Deletes all objects in a folder; how many there were."""
    count = 0
    for path in [*folder.glob("??/*.o"), *folder.glob("??/*.part")]:
        path.unlink(missing_ok=True)
        count += path.suffix == ".o"
    return count


def _is_full(subfolder: Path) -> bool:
    """Whether there is too much in all, as far as one of the subfolders tells: keys are spread
    evenly. A process that compiles a little need not look at each entry."""
    total = 0
    with os.scandir(subfolder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # somebody else deleted it
                total += entry.stat().st_size
    return total * _SUBFOLDERS > SIZE_LIMIT


def _evict(folder: Path) -> None:
    """Deletes what was not used for longest, where there is too much."""
    entries = sorted(cache_entries(folder), key=lambda entry: entry.used)
    total = sum(entry.nbytes for entry in entries)
    if total <= SIZE_LIMIT:
        return
    for entry in entries:
        if total <= SIZE_LIMIT - SIZE_LIMIT // _ROOM:
            return
        entry.path.unlink(missing_ok=True)
        total -= entry.nbytes


def explain_misses(folder: Path) -> list[str]:
    """For each object that this process did not find, what is there instead."""
    known: dict[str, dict[str, Any]] = {}
    for entry in cache_entries(folder):
        about = entry.about()
        if about:
            known[entry.path.parent.name + entry.path.stem] = about
    reasons = []
    for key in COUNTS.missed:
        own = known.get(key)
        if own is None:
            reasons.append("not kept: the file could not be written, or was deleted since")
            continue
        others = [a for k, a in known.items() if k != key and a.get("text") == own["text"]]
        differing = {
            name: f"{other[name]}, not {own[name]}"
            for other in others
            for name in own
            if other.get(name) != own[name] and name in other
        }
        if differing:
            parts = "; ".join(f"{name} {text}" for name, text in differing.items())
            reasons.append(f"kept for another machine or version: {parts}")
        else:
            reasons.append("new: nothing was compiled from this code before; it is kept now")
    return reasons
