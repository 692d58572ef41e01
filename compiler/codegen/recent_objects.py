"""Object files that this process has made, by the text they were made of.

Graphs that differ in sizes alone often have one text, so most new sizes cost no code generation.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

LIMIT_BYTES = 16 << 20
"""Room for object files; those that were used longest ago go first."""


class RecentObjects:
    """Object files by the content of their text. Not safe for threads: the engine's lock guards it.

    Parameters
    ----------
    limit : int
        How many bytes of object files are kept.
    """

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self.limit = limit
        self.nbytes = 0
        self._objects: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    @staticmethod
    def key(text: str, quick: bool) -> bytes:
        """What an object file is found by: its text, and how it is compiled."""
        found = hashlib.blake2b(text.encode(), digest_size=20, salt=b"quick" if quick else b"")
        return found.digest()

    def get(self, key: bytes) -> bytes | None:
        """The object file, which is the one used last from now on."""
        found = self._objects.get(key)
        if found is not None:
            self._objects.move_to_end(key)
        return found

    def put(self, key: bytes, image: bytes) -> None:
        """Keeps an object file."""
        self._objects[key] = image
        self.nbytes += len(image)
        while self.nbytes > self.limit and len(self._objects) > 1:
            _, oldest = self._objects.popitem(last=False)
            self.nbytes -= len(oldest)
