"""Functions that workers get by value: from notebooks and scripts, with what they refer to."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapeline as tl

WORKER = """
import base64, pickle, sys
function, arguments = pickle.loads(base64.b64decode(sys.stdin.read()))
found = function(*arguments)
print(base64.b64encode(pickle.dumps(found)).decode())
"""


def in_another_process(function: Any, *arguments: Any) -> Any:
    """What a fresh process gives, which got the function as dask workers do."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="optional package")
    sent = base64.b64encode(cloudpickle.dumps((function, arguments))).decode()
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORKER],
        input=sent, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return pickle.loads(base64.b64decode(made.stdout))


def of_main(text: str, **names: Any) -> dict[str, Any]:
    """The names that a script or the cells of a notebook define."""
    scope: dict[str, Any] = {"tl": tl, "np": np, "__name__": "__main__", **names}
    exec(text, scope)
    return scope


@pytest.mark.parametrize("traced", [False, True])
def test_a_function_of_a_notebook_runs_and_is_differentiated_in_a_worker(traced: bool) -> None:
    scope = of_main(
        """
scale = 3.0

def helper(x):
    return x * scale

@tl.function
def total(x):
    return tl.sum(helper(x) ** 2)

def job(x):
    return float(total(x)), tl.grad(total)(x).numpy()
"""
    )
    x = np.array([1.0, 2.0])
    if traced:
        scope["total"](x)
    value, slope = in_another_process(scope["job"], tl.asarray(x))
    assert value == 45.0
    np.testing.assert_allclose(slope, 18 * x)


def test_an_object_with_compiled_methods_and_variables_goes_whole() -> None:
    scope = of_main(
        """
class Model:
    def __init__(self):
        self.w = tl.Variable([2.0, 3.0])

    @tl.function
    def step(self, x):
        return self.w.assign_add(x)

def job(model, x):
    model.step(x)
    return model.step(x).numpy(), model.w.numpy()
"""
    )
    model = scope["Model"]()
    model.step(np.ones(2))
    for found in in_another_process(scope["job"], model, np.ones(2)):
        np.testing.assert_array_equal(found, [5.0, 6.0])
    np.testing.assert_array_equal(model.w.numpy(), [3.0, 4.0])


def test_a_trace_that_takes_numbers_goes_as_its_graph() -> None:
    f = tl.function(lambda x, k: x * k + k)
    x = tl.ones(2)
    for k in (1.0, 2.0, 3.0):
        f(x, k)
    back = pickle.loads(pickle.dumps(f))
    with tl.no_retrace():
        assert back(x, 9.5).tolist() == [19.0, 19.0]
        assert back(x, 2.0).tolist() == [4.0, 4.0]
    assert tl.grad(lambda x: tl.sum(back(x, 7.0)))(x).tolist() == [7.0, 7.0]


def test_open_sizes_go_along_to_a_worker() -> None:
    scope = of_main("@tl.function\ndef norm(x):\n    return tl.sum(x * x) / x.shape[0]")
    norm = scope["norm"]
    for size in (3, 4, 5):
        norm(np.ones(size))
    found = in_another_process(norm, np.full(7, 2.0))
    assert float(found) == 4.0
