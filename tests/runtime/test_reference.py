"""References as keys."""

from __future__ import annotations

import tapeline as tl


def test_references_are_equal_for_the_same_object_only() -> None:
    v, w, x = tl.Variable(1.0), tl.Variable(1.0), tl.asarray(1.0)
    assert v.ref() == v.ref()
    assert v.ref() != w.ref()
    assert x.ref() != v.ref()
    found = {v.ref(): "v", x.ref(): "x"}
    assert found[v.ref()] == "v"
    assert next(iter(found)).deref() is v
    assert v.handle == v.ref()
