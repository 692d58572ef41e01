"""Log lines on request: `TAPELINE_LOG=retrace,compile,kernels` shows them on standard error."""

from __future__ import annotations

import os
import sys

VARIABLE = "TAPELINE_LOG"
"""Environment variable with the topics, separated by commas."""

_WANTED = frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(","))


def is_logged(topic: str) -> bool:
    """Whether lines of a topic are wanted."""
    return topic in _WANTED


def log(topic: str, text: str) -> None:
    """Shows a line if its topic is wanted."""
    if topic in _WANTED:
        print(f"tapeline {topic}: {text}", file=sys.stderr)
