"""What the functions of one LLVM module share: declarations, global tables and helper functions."""

from __future__ import annotations

from collections.abc import Iterable


class ModuleParts:
    """Collects text that a module needs once, however many functions use it.

    `declarations` are whole lines. `definitions` maps a key to the text of a global or of a helper
    function; equal keys mean equal text.
    """

    __slots__ = ("declarations", "definitions")

    def __init__(self) -> None:
        self.declarations: set[str] = set()
        self.definitions: dict[str, str] = {}

    def declare(self, line: str) -> None:
        """Adds a declaration."""
        self.declarations.add(line)

    def define(self, key: str, text: str) -> None:
        """Adds a global or a helper function, unless the key is there already."""
        self.definitions.setdefault(key, text)

    def include(
        self, declarations: Iterable[str], definitions: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Adds what another function was emitted with."""
        self.declarations.update(declarations)
        for key, text in definitions:
            self.define(key, text)

    def frozen(self) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
        """Declarations and definitions, as a `KernelFunction` carries them."""
        return frozenset(self.declarations), tuple(sorted(self.definitions.items()))

    def text(self) -> str:
        """Everything, as the head of a module; in one order whatever was added first."""
        lines = [text for _, text in sorted(self.definitions.items())] + sorted(self.declarations)
        return "\n".join(lines) + "\n"
