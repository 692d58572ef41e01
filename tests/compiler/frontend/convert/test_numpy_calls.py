"""NumPy's functions in a traced function, given tensors in ways that its protocols do not see."""

import copy
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapeline as tl

EXPRESSIONS = [
    "np.asarray(v)", "np.asarray(v, float)", "np.asarray(v, dtype=np.float32)",
    "np.asanyarray(v)", "np.ascontiguousarray(x)", "np.asfortranarray(v)",
    "np.asarray_chkfinite(v)", "np.require(v)", "np.array(v, copy=True)",
    "np.array(v, ndmin=3)", "np.array([v > 1, v > 2])", "np.asarray([x, 2 * x])",
    "np.asarray((x, 1.0), dtype=np.float32)", "np.array([[x, 1.0], [2.0, x]])",
    "np.float64(x)", "np.float32(v)", "np.int64(x)", "np.bool_(v)", "np.complex128(x)",
    "np.full(3, x)", "np.full((2, 2), v[:2])", "np.fromiter((t * 2 for t in [x, x]), float)",
    "np.concatenate([[x], [1.0, 2.0]])", "np.hstack(([x, x], 1.0))", "np.stack([[x, 1], [2, x]])",
    "np.block([[x, x], [x, x]])", "np.meshgrid([0.0, 1.0], [x, x])[1]", "np.polyval([1.0, x], 2.0)",
    "np.diag([x, x])", "np.maximum.reduce([x, 1.0, 2.0])", "np.add.reduce([x, x])",
    "np.add([x, x], 1.0)", "np.sum([x, x])", "np.mean([x, x, 1.0])", "np.cumsum([x, x])",
    "np.sort([x, 1.0])", "np.dot([x, x], [1.0, 2.0])", "np.max((x, 2.0))",
    "np.linalg.norm([x, x])", "np.bincount([0, 1], [x, x])", "np.roll([x, 1.0], 1)",
    "np.cross([x, 1.0, 0.0], [0.0, 1.0, 0.0])", "np.kron([x, 1.0], [1.0, 2.0])",
    "np.convolve([x, 1.0], [1.0, 2.0])", "np.trapezoid([x, 1.0])", "np.gradient([x, 1.0, 2.0])",
    "np.diff([x, 1.0])", "np.percentile([x, 1.0], 50)", "np.median([x, 1.0])",
    "np.cov([[x, 1.0], [1.0, 2.0]])", "np.size([x, x])", "np.where([True, False], [x, x], 0.0)",
    "np.select([[x > 1, x > 2]], [[x, x]], 0.0)", "np.einsum('i,i', [x, x], [1.0, x])",
    "np.r_[x, 1.0]", "np.r_[0:3, v]", "np.r_[v, v]", "np.c_[v, v * 2]", "np.c_[np.ones(3), v]",
    "np.allclose(v, v + 1e-9)", "np.allclose(v, v + 1)", "np.array_equal(v, v * 1)",
    "np.array_equal(v, v[:2])", "np.array_equiv(v, v[0])", "np.outer(x, v)",
    "np.vectorize(lambda t: t + 1 if t > 1.5 else -t)(v)",
    "np.vectorize(lambda a, b: (a + b, a - b))(v, x)[1]",
    "complex(x)", "copy.copy(v)", "copy.deepcopy(v)", "x.item() + 1", "v.tolist()[1] * 2",
    "v.item(1)", "v.trace() if v.ndim > 1 else v", "np.outer(v, v).trace()", "v.conjugate()",
    "v.compress([True, False, True])", "(v > 1).astype(int).choose([v, -v])",
]  # fmt: skip


def as_function(expression: str) -> Callable[..., Any]:
    """A function of x, a number, and v, a vector, with source."""
    source = f"def f(x, v):\n    return {expression}\n"
    name = f"<{expression}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    scope: dict[str, Any] = {"np": np, "copy": copy}
    exec(compile(source, name, "exec"), scope)
    made: Callable[..., Any] = scope["f"]
    return made


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_gives_what_numpy_gives(expression: str) -> None:
    f = as_function(expression)
    x, v = np.float64(1.5), np.array([1.0, 2.0, 3.0])
    wanted = np.asarray(f(x, v))
    got = np.asarray(tl.function(f)(tl.asarray(x), tl.asarray(v)))
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-15)


def test_gradients_go_through_lists() -> None:
    @tl.function
    def f(x: Any) -> Any:
        return np.sum(np.asarray([x, x * x]) * np.array([1.0, 3.0])) + np.dot([x, 1.0], [x, x])

    np.testing.assert_allclose(tl.grad(f)(2.0), 1 + 6 * 2 + 2 * 2 + 1)


def test_what_is_made_may_be_written_to() -> None:
    @tl.function
    def f(v: Any) -> Any:
        out = np.asarray(v, dtype=np.float64)
        total = np.full(3, v[0])
        total[1] = 7.0
        return out, total

    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(f(v)[1], [1.0, 7.0, 1.0])
    np.testing.assert_array_equal(v, [1.0, 2.0, 3.0])


def test_methods_that_write() -> None:
    def f(v: Any) -> Any:
        v = v.copy()
        v.sort()
        w = v.copy()
        w.fill(4.0)
        w.put([0, 2], [5.0, 6.0])
        u = v[::-1].copy()
        u.partition(0)
        return v, w, u[0]

    v = np.array([3.0, 1.0, 2.0])
    for made in (f(tl.asarray(v)), tl.function(f)(tl.asarray(v))):
        for got, wanted in zip(made, f(v), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_bytes_of_a_tensor() -> None:
    v = np.array([[3.0, 1.0]])
    assert tl.asarray(v).tobytes() == v.tobytes()


def test_a_loop_ends_when_arrays_are_close() -> None:
    @tl.function
    def settle(x: Any) -> Any:
        previous = x + 1
        while not np.allclose(previous, x, rtol=0, atol=1e-12):
            previous, x = x, np.cos(x)
        return x

    x = np.array([0.1, 1.0])
    np.testing.assert_allclose(settle(x), [0.7390851332151607] * 2, atol=1e-11)
