"""What a function does besides computing."""

from __future__ import annotations

from typing import Any

from tests.cases.comparing import number, tensor

import tapeline as tl


class Log:
    """Entries that belong to the class."""

    entries: list[str] = []  # noqa: RUF012  # that it is shared is the point


def test_a_side_effect_is_seen_once_a_trace() -> None:
    Log.entries.clear()

    @tl.function
    def f(x: Any) -> Any:
        Log.entries.append("called")
        return x + 1.0

    for k in range(4):
        assert number(f(tensor(float(k)))) == k + 1.0
    assert len(Log.entries) == f.trace_count == 1
    f(tensor([1.0, 2.0]))
    assert len(Log.entries) == f.trace_count == 2
