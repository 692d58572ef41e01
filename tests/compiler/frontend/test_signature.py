"""Keys of calls: equal where calls may share a trace, different where they may not."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.frontend.signature import Call, Signature, build_matcher
from tapeline.runtime.errors import ArgumentTypeError


def take(function: Any, *args: Any, **kwargs: Any) -> Call:
    signature = Signature(function, "f")
    return signature.take_apart(signature.bind(args, kwargs))


def f(a: Any, b: Any = 1, *rest: Any, c: Any = 2, **more: Any) -> None: ...


def test_spellings_of_a_call_have_one_key() -> None:
    x = tl.asarray([1.0])
    keys = {
        take(f, x).key, take(f, x, 1).key, take(f, a=x, c=2).key, take(f, c=2, b=1, a=x).key,
    }  # fmt: skip
    assert len(keys) == 1
    assert take(f, x, z=1, y=2).key == take(f, x, y=2, z=1).key


def test_values_that_are_equal_but_not_the_same_have_different_keys() -> None:
    values: list[Any] = [
        1, True, 1.0, np.int64(1), np.float32(1), 0, 0.0, -0.0, float("nan"), "1", b"1", None, (),
        [], {}, (1,), [1], {"k": 1}, {"j": 1}, 1j, -1j, complex(0.0, -0.0), int, np.dtype("f4"),
    ]  # fmt: skip
    keys = [take(f, value).key for value in values]
    assert len(set(keys)) == len(values)
    assert [take(f, value).key for value in values] == keys


def test_tensors_count_by_dtype_and_shape() -> None:
    one, other = tl.asarray([1.0, 2.0]), tl.asarray([3.0, 4.0])
    assert take(f, one).key == take(f, other).key == take(f, np.ones(2)).key
    assert take(f, one).key != take(f, tl.asarray([1.0])).key
    assert take(f, one).key != take(f, tl.asarray([1.0, 2.0], dtype=tl.float32)).key
    assert take(f, one, one).key != take(f, one, other).key
    swapped = np.ones(2).astype(">f8")
    assert take(f, one).key == take(f, swapped).key


def test_objects_count_by_identity_and_are_not_kept_alive() -> None:
    class Thing:
        pass

    a, b = Thing(), Thing()
    assert take(f, a).key == take(f, a).key
    assert take(f, a).key != take(f, b).key
    key = take(f, a).key
    dead = weakref.ref(a)
    del a
    gc.collect()
    assert dead() is None
    assert key != take(f, Thing()).key


def test_unhashable_values_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="no hash"):
        take(f, {1, 2})
    with pytest.raises(ArgumentTypeError, match=r"f\(a, b=1.*missing"):
        take(f)


def test_leaves_have_the_names_people_use() -> None:
    @dataclasses.dataclass
    class Parameters:
        w: Any
        b: Any

    x = np.ones(1)
    signature = Signature(f, "f")
    call = signature.take_apart(
        signature.bind((Parameters(x, [x]), {"k": x}, x, x), {"c": (x, 3), "z": x})
    )
    assert signature.describe_leaves(call) == [
        "a.w", "a.b[0]", "b['k']", "args[0]", "args[1]", "c[0]", "z",
    ]  # fmt: skip
    assert len(call.tensors) == 7


def test_the_matcher_agrees_with_the_key() -> None:
    def plain(a: Any, b: Any) -> None: ...

    x, y = tl.asarray([1.0]), tl.asarray([2.0])
    matches = build_matcher(take(plain, x, y))
    assert matches is not None
    assert matches(y, x)
    assert not matches(x, x)
    assert not matches(x, np.ones(1))
    assert not matches(x, tl.asarray([1.0, 2.0]))
    assert not matches(x, tl.asarray([1]))
    assert build_matcher(take(plain, x, 3)) is None
    assert build_matcher(take(plain, x, x)) is None
    assert build_matcher(take(f, x, y)) is None
