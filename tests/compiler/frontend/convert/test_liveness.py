"""What a loop gives back: the variables that may be read after it, whatever encloses it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tapeline.compiler.frontend.convert.liveness import Liveness

LOOP = """\
while a:
    inner = a
    inner = inner + 1
    kept = inner
"""


def after_loop(around: str) -> set[str]:
    """The names live after the loop that stands in the place of `LOOP`."""
    place = next(line for line in around.splitlines() if line.strip() == "LOOP")
    indent = place[: len(place) - len(place.lstrip())]
    source = around.replace(place, textwrap.indent(LOOP, indent).rstrip())
    body = ast.parse(source).body
    (loop,) = (node for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.While))
    return Liveness(body).after[id(loop)]


@pytest.mark.parametrize(
    "around",
    [
        "LOOP\nprint(kept)",
        "try:\n    LOOP\nexcept ValueError:\n    pass\nprint(kept)",
        "try:\n    LOOP\nexcept ValueError:\n    print(kept)",
        "try:\n    LOOP\nfinally:\n    print(kept)",
        "try:\n    pass\nexcept ValueError:\n    LOOP\nelse:\n    pass\nprint(kept)",
        "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    LOOP\n    print(kept)",
        "with open(f):\n    LOOP\n    print(kept)",
        "match a:\n    case 1:\n        LOOP\nprint(kept)",
        "def g():\n    return kept\nLOOP",
    ],
)
def test_only_what_is_read_later_leaves_a_loop(around: str) -> None:
    found = after_loop(around)
    assert "kept" in found
    assert "inner" not in found


def test_a_handler_sees_what_the_body_had_bound() -> None:
    assert "inner" in after_loop("try:\n    LOOP\nexcept ValueError:\n    print(inner)")
