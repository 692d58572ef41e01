"""Every call of calls.txt gives of tensors what it gives of arrays: eagerly and compiled, values,
dtypes and shapes.

A line is an expression over the arrays below. `ip(x, "statements")` copies x to a, runs the
statements (b2 is the third argument) and gives a.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl

CALLS = [line for line in (Path(__file__).parent / "calls.txt").read_text().splitlines() if line]
_IN_PLACE = re.compile(r'ip\((\w+), "(.*?)"(?:, (.*))?\)$')


def _arrays() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    made: dict[str, Any] = {
        "x": rng.normal(size=(3, 4)) * 2,
        "y": rng.normal(size=(3, 4)),
        "v": rng.normal(size=6),
        "i": rng.integers(0, 5, (3, 4)),
        "b": rng.random((3, 4)) > 0.4,
        "z": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
        "c": rng.normal(size=(2, 3, 4)),
        "q": rng.normal(size=(3, 3)) + 2 * np.eye(3),
    }
    made["n"] = np.where(rng.random((3, 4)) > 0.7, np.nan, made["x"])
    made["n"][0, 0], made["n"][:, 1] = 1.0, 2.0
    made["s"] = made["q"] @ made["q"].T + np.eye(3)
    made["c2"] = rng.normal(size=(2, 3, 2, 3)) + np.eye(6).reshape(2, 3, 2, 3)
    made["q2"] = rng.normal(size=(2, 3))
    return made


def _source() -> str:
    """A function for each call, so that compiled functions find their source."""
    head = ", ".join(_arrays())
    lines = ["import numpy as np"]
    for number, call in enumerate(CALLS):
        lines.append(f"def f{number}({head}):")
        in_place = _IN_PLACE.match(call)
        if in_place is None:
            lines.append(f"    return {call}")
            continue
        target, statements, other = in_place.groups()
        lines.append(f"    a = {target}.copy()")
        lines += [f"    b2 = {other}"] if other else []
        lines += [f"    {statement}" for statement in statements.split("; ")]
        lines.append("    return a")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("calls") / "calls_of_numpy.py"
    path.write_text(_source())
    spec = importlib.util.spec_from_file_location("calls_of_numpy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _parts(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _parts(part)
    else:
        yield result


def _assert_same(expected: Any, found: Any) -> None:
    wanted, given = list(_parts(expected)), list(_parts(found))
    assert len(wanted) == len(given)
    for one, other in zip(wanted, given, strict=True):
        if isinstance(one, np.ndarray | np.generic):
            assert np.shape(other) == one.shape
            assert getattr(other, "dtype", one.dtype) == one.dtype
        precision = 1e-5 if getattr(one, "dtype", None) in (np.float32, np.complex64) else 1e-9
        np.testing.assert_allclose(np.asarray(other), one, rtol=precision, atol=precision)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("number", range(len(CALLS)), ids=CALLS)
def test_tensors_do_what_arrays_do(programs: Any, number: int, compiled: bool) -> None:
    program = getattr(programs, f"f{number}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's own: deprecations, divisions by zero
        expected = program(**_arrays())
        run = tl.function(program) if compiled else program
        found = run(**{name: tl.asarray(array) for name, array in _arrays().items()})
    _assert_same(expected, found)
