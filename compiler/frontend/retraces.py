"""Why a function was traced: what each trace was for, and what was new about it.

Everything here runs while a function is traced, never on a call that finds its trace.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tapeline.runtime.errors import RetraceError
from tapeline.runtime.tables import Table, Tabular

WARN_AFTER = 5
"""A function that is traced in each of this many calls in a row gets a warning."""
MAX_WARNINGS = 2
ORDER = "the order of keys"
"""What has changed where dicts, or arguments by name, come in another order."""

AN_ITERATOR = ", an iterator"
"""How the text for an argument ends that gives other items at each call."""


def log_warning(message: str) -> None:
    """Shows a warning to programs that look at logs, and says nothing otherwise."""
    import logging  # slow to load, and rarely needed

    logger = logging.getLogger("tapeline")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.warning(message)


class TraceRecord(NamedTuple):
    """One trace of a function.

    Attributes
    ----------
    number : int
        Counted from 1.
    signature : dict of str to str
        What each argument leaf was, such as `"float32[3, 4]"` or `"2.0"`, by its name.
    nearest : int or None
        The number of the earlier trace that differs in the fewest leaves; None for the first.
    changes : tuple of (str, str, str)
        Name, what `nearest` had, and what this call has, for each leaf that differs.
    seconds : float
        How long the Python function ran under the trace.
    optimizing, compiling : float
        Seconds spent on the graph, and on machine code, since then; of a trace that is kept.
    calls : int
        How many calls it has served since then, if it is kept.
    open : tuple of str
        What it leaves open: `"x[0]"` for the first dimension of x, names for numbers; dimensions
        that must agree are written `"x[0] = y[0]"`.
    conditions : tuple of str
        What its code asked of open sizes, `n0`, `n1`, ... in the order of `open`.
    """

    number: int
    signature: Mapping[str, str]
    nearest: int | None
    changes: tuple[tuple[str, str, str], ...]
    seconds: float = 0.0
    optimizing: float = 0.0
    compiling: float = 0.0
    calls: int = 0
    open: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why it was made, in one line."""
        if self.nearest is None:
            return "first call"
        listed = [f"{name} was {before}, is {now}" for name, before, now in self.changes[:3]]
        if len(self.changes) > 3:
            listed.append(f"and {len(self.changes) - 3} more differ")
        if not listed and self._takes_iterator:
            return "an iterator gives other items at each call"
        return "; ".join(listed) or "a trace of this signature was dropped"

    @property
    def _takes_iterator(self) -> bool:
        return any(shown.endswith(AN_ITERATOR) for shown in self.signature.values())

    @property
    def repair(self) -> str:
        """What would avoid it, in one line."""
        if self.nearest is None or self.open:
            return ""
        if any(before.endswith(" when traced") for _, before, _ in self.changes):
            return "pass it as an argument, or change it only before the first call"
        if any(before == "true" for _, before, _ in self.changes):
            return "ask less of sizes that depend on values"
        if any(name == ORDER for name, *_ in self.changes):
            return "give dicts, and arguments by name, in one order"
        if not self.changes and self._takes_iterator:
            return "pass what it gives, or a list of that"
        kinds = {_kind(before, now) for _, before, now in self.changes}
        if kinds == {"number"}:
            return "pass the number as a tensor: tl.asarray(value)"
        if "dtype" in kinds:
            return "convert with astype before the call"
        if kinds and kinds <= {"shape", "number"}:
            return "pad or batch to one shape, or ask for sizes and numbers less"
        if "same" in kinds:
            return "pass different tensors, or always the same one twice"
        return "keep what does not change outside of the arguments"


def _kind(before: str, now: str) -> str:
    """What sort of change a leaf went through."""
    if before.startswith("same as") or now.startswith("same as"):
        return "same"
    was, is_ = before.split("["), now.split("[")
    if len(was) == len(is_) == 2 and was[1].endswith("]") and is_[1].endswith("]"):
        return "shape" if was[0] == is_[0] else "dtype"
    try:
        float(before), float(now)
    except ValueError:
        return "other"
    return "number"


def compare(
    number: int, signature: Mapping[str, str], earlier: Sequence[TraceRecord], seconds: float = 0.0
) -> TraceRecord:
    """The record of a trace, held against the earlier ones."""
    nearest: TraceRecord | None = None
    changes: tuple[tuple[str, str, str], ...] = ()
    for record in reversed(earlier):
        names = dict.fromkeys([*record.signature, *signature])
        found = tuple(
            (name, record.signature.get(name, "absent"), signature.get(name, "absent"))
            for name in names
            if record.signature.get(name) != signature.get(name)
        )
        if nearest is None or len(found) < len(changes):
            nearest, changes = record, found
    near = None if nearest is None else nearest.number
    return TraceRecord(number, signature, near, changes, seconds)


class Explanation(Tabular, Sequence[TraceRecord]):
    """The traces of a function, oldest first; prints as a table of at most 80 columns."""

    def __init__(self, name: str, records: Sequence[TraceRecord]) -> None:
        self.name = name
        self.records = tuple(records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> TraceRecord:  # type: ignore[override]  # no slices
        return self.records[index]

    def __str__(self) -> str:
        count = len(self.records)
        lines = [f"{self.name}: {count} trace{'s' if count != 1 else ''}"]
        for record in self.records:
            given = ", ".join(f"{name}: {text}" for name, text in record.signature.items())
            lines.append(_cut(f"  {record.number:>3}  {1e3 * record.seconds:6.1f} ms  {given}"))
            near = "" if record.nearest is None else f" (nearest: {record.nearest})"
            lines.append(_cut(f"       because {record.reason}{near}"))
            lines.append(
                f"       optimized in {1e3 * record.optimizing:.1f} ms, compiled in "
                f"{1e3 * record.compiling:.1f} ms, served {record.calls} "
                f"call{'s' if record.calls != 1 else ''}"
            )
            if record.open:
                lines.append(_cut(f"       leaves open {', '.join(record.open)}"))
            if record.conditions:
                lines.append(_cut(f"       where {' and '.join(record.conditions)}"))
            if record.repair:
                lines.append(_cut(f"       to avoid it, {record.repair}"))
        return "\n".join(lines)

    __repr__ = __str__

    def table(self) -> Table:
        """The traces with their reasons."""
        rows = [
            (
                record.number,
                *(
                    f"{1e3 * s:.1f} ms"
                    for s in (record.seconds, record.optimizing, record.compiling)
                ),
                record.calls,
                ", ".join(f"{name}: {text}" for name, text in record.signature.items()),
                ", ".join(record.open),
                record.reason,
                record.repair,
            )
            for record in self
        ]
        head = (
            "trace", "tracing", "optimizing", "compiling", "calls", "for", "leaves open",
            "because", "to avoid it",
        )  # fmt: skip
        return f"{self.name}: {len(rows)} traces", head, rows


def _cut(line: str, limit: int = 80) -> str:
    return line if len(line) <= limit else line[: limit - 3] + "..."


class _Forbidden(threading.local):
    depth = 0


_FORBIDDEN = _Forbidden()


@contextlib.contextmanager
def no_retrace() -> Iterator[None]:
    """A block of this thread in which tracing a function is an error.

    Returns
    -------
    context manager

    Raises
    ------
    RetraceError
        At the call that would trace, with the reason and the repair. The function stays as it was.

    Examples
    --------
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: x * 2)
    >>> x = tl.asarray([1.0, 2.0])
    >>> y = f(x)
    >>> with tl.no_retrace():
    ...     y = f(x)
    """
    _FORBIDDEN.depth += 1
    try:
        yield
    finally:
        _FORBIDDEN.depth -= 1


def check_allowed(name: str, record: TraceRecord) -> None:
    """Raises where tracing is forbidden now."""
    if _FORBIDDEN.depth:
        repair = f" To avoid it, {record.repair}." if record.repair else ""
        raise RetraceError(
            f"{name} would be traced inside of tl.no_retrace(): {record.reason}.{repair}"
        )
