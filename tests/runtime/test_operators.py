"""Generated operators: the same as `bind`, promotion, and changing a cell."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapeline.runtime import promotion
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import DTypeError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.op import Op, define_op
from tapeline.runtime.operators import make_binary, make_unary
from tapeline.runtime.promotion import constant
from tapeline.runtime.tensor import Tensor, as_tensor

DTYPES = ("float32", "float64", "int64", "float64")


def summary(x: Tensor) -> Any:
    """A tensor with the history it has, as plain data."""
    node = x._node
    if node is None:
        return x.dtype, x.shape, x.tolist()
    saved = [v.tolist() if isinstance(v, np.ndarray) else v for v in node.saved]
    parents = [None if p is None else p.serial for p in node.parents]
    return x.dtype, x.shape, x.tolist(), node.op, node.attrs, saved, parents, node.tapes.ids


def draw(rng: np.random.Generator) -> Tensor:
    shape = [(), (3,), (2, 3), (2, 1)][rng.integers(4)]
    return as_tensor(rng.uniform(0.5, 2.0, shape).astype(DTYPES[rng.integers(4)]))


@pytest.mark.parametrize("name", ["plus", "times", "minus", "less_than"])
def test_binary_closures_do_what_bind_does(tiny: Any, rng: np.random.Generator, name: str) -> None:
    op: Op = tiny.ops[name]
    forms: list[tuple[Callable[[Any, Any], Tensor], bool]] = [
        (make_binary(op), False),
        (make_binary(op, method=True), False),
        (make_binary(op, reflected=True), True),
    ]
    for _ in range(60):
        a, b = draw(rng), draw(rng)
        outer, inner = GradientTape(), GradientTape()
        with outer, inner:
            for tape in (outer, inner):
                for x in (a, b):
                    if rng.integers(2) and x.dtype.kind == "f":
                        tape.watch(x)
            if rng.integers(3) == 0:
                outer.stop()
            for closure, is_reflected in forms:
                pair = (b, a) if is_reflected else (a, b)
                expected = bind(op, promotion.promote(op, *pair))
                found = closure(a, b)
                if a.dtype == b.dtype:
                    assert summary(found) == summary(expected)
                else:  # the casts are nodes of their own, with serials of their own
                    assert summary(found)[:3] == summary(expected)[:3]
                    assert (found._node is None) == (expected._node is None)
            if not outer._is_recording:
                outer.start()


@pytest.mark.parametrize("name", ["sine", "expo", "nearest", "total", "minus_of"])
def test_unary_closures_do_what_bind_does(tiny: Any, rng: np.random.Generator, name: str) -> None:
    op: Op = tiny.ops[name]
    closure = make_unary(op)
    for _ in range(40):
        a = draw(rng)
        outer, inner = GradientTape(), GradientTape()
        with outer, inner:
            for tape in (outer, inner):
                if rng.integers(2) and a.dtype.kind == "f":
                    tape.watch(a)
            expected = bind(op, (promotion.promote_one(op, a),))
            assert summary(closure(a)) == summary(expected)


def test_scalars_are_weak(tiny: Any) -> None:
    x = as_tensor(np.ones(2, np.float32))
    assert (x + 1).dtype == np.float32
    assert (1.5 * x).dtype == np.float32
    assert (x * True).dtype == np.float32
    assert (x + np.float64(1.0)).dtype == np.float64
    assert tiny.add(x, 1j).dtype == np.complex64
    i = as_tensor(np.ones(2, np.int8))
    assert (i + 1).dtype == np.int8
    assert (i + 1.0).dtype == np.float64
    assert tiny.add(1, 2.5).dtype == np.float64
    with pytest.raises(OverflowError):
        i + 300


@pytest.mark.parametrize("a", ["bool", "int8", "int32", "uint8", "int64", "float32", "complex64"])
@pytest.mark.parametrize("b", ["int16", "uint32", "float32", "float64"])
def test_tensors_promote_as_in_numpy(tiny: Any, a: str, b: str) -> None:
    x, y = np.ones(2, a), np.ones(2, b)
    assert tiny.add(as_tensor(x), as_tensor(y)).dtype == (x + y).dtype
    assert tiny.add(as_tensor(x), y).dtype == (x + y).dtype


@pytest.mark.parametrize(
    ("given", "expected"),
    [("int64", "float64"), ("int32", "float64"), ("int16", "float32"), ("bool", "float32")],
)
def test_float_ops_take_ints_as_numpy_does(tiny: Any, given: str, expected: str) -> None:
    assert tiny.sin(as_tensor(np.ones(2, given))).dtype == expected


def test_unsupported_dtypes_are_named(tiny: Any) -> None:
    op = define_op("only_ints", kernel=np.bitwise_and, infer=lambda *_: _[0], n_inputs=2,
                   kinds="iu", vjps=(None, None), register=False)  # fmt: skip
    closure = make_binary(op)
    with pytest.raises(DTypeError, match="only_ints: dtype float64 is not supported"):
        closure(as_tensor(1.0), as_tensor(1.0))
    with pytest.raises(DTypeError, match="only_ints: dtype bool is not supported"):
        closure(as_tensor(True), as_tensor(True))
    assert closure(as_tensor(6), as_tensor(3)).item() == 2


def test_gradient_flows_through_promotion(tiny: Any) -> None:
    x, y = as_tensor(np.float32(3.0)), as_tensor(2.0)
    with GradientTape() as tape:
        tape.watch([x, y])
        z = x * y
    gx, gy = tape.gradient(z, [x, y])
    assert (gx.dtype, gx.item()) == (np.dtype("float32"), 2.0)
    assert (gy.dtype, gy.item()) == (np.dtype("float64"), 3.0)


def test_arrays_on_either_side(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    method = make_binary(tiny.ops["minus"], method=True)
    reflected = make_binary(tiny.ops["minus"], reflected=True)
    assert method(x, np.array([3.0, 3.0])).tolist() == [-2.0, -1.0]
    assert reflected(x, np.array([3.0, 3.0])).tolist() == [2.0, 1.0]
    assert reflected(x, [3.0, 3.0]).tolist() == [2.0, 1.0]


def test_unknown_operands_are_not_implemented(tiny: Any) -> None:
    method = make_binary(tiny.ops["plus"], method=True)
    for other in (None, "text", object()):
        assert method(as_tensor(1.0), other) is NotImplemented
    with pytest.raises(TypeError):
        as_tensor(1.0) + None


def test_constants_are_shared_but_not_mixed_up() -> None:
    f8 = np.dtype("float64")
    assert constant(2.5, f8) is constant(2.5, f8)
    assert math.copysign(1.0, constant(-0.0, f8).item()) == -1.0
    assert math.copysign(1.0, constant(0.0, f8).item()) == 1.0
    assert constant(True, f8) is not constant(1.0, f8)
    assert constant(1, np.dtype("int8")).dtype == np.int8
    assert math.isnan(constant(math.nan, f8).item())
    assert str(constant(complex(0.0, -0.0), np.dtype("complex128")).item()) == "-0j"


def test_constant_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "_CONSTANTS", {})
    monkeypatch.setattr(promotion, "_CONSTANT_LIMIT", 8)
    for k in range(100):
        assert constant(float(k), np.dtype("float64")).item() == k
    assert len(promotion._CONSTANTS) <= 8


def test_op_without_rules_is_recorded_so_that_its_gradient_can_complain(tiny: Any) -> None:
    x = as_tensor(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = tiny.no_rule(x)
    assert y._node is not None
    with pytest.raises(LookupError, match="no_rule: the op has no gradient rule"):
        tape.gradient(y, x)


def test_operators_of_python_reach_the_closures(tiny: Any) -> None:
    x = as_tensor([1.0, 2.0])
    for function in (operator.add, operator.sub, operator.mul):
        assert function(x, 2.0).tolist() == function(x.numpy(), 2.0).tolist()
        assert function(2.0, x).tolist() == function(2.0, x.numpy()).tolist()
