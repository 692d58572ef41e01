"""A handful of ops, so that tests of the eager core stand on no op file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from tapeline.runtime import cells, operators, tensor
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.op import OUT, Op, ShapeOf, define_op
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor


def _infer(*specs: Any) -> TensorSpec:
    raise NotImplementedError


def _define(name: str, kernel: Callable[..., Any], **rules: Any) -> Op:
    rules.setdefault("kinds", "fc")
    return define_op(name, kernel=kernel, infer=_infer, register=False, **rules)


def _fit(ct: Any, shape: tuple[int, ...]) -> Any:
    return ct if ct.shape == shape else bind(SUM_TO, (ct,), (shape,))


def _sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    lead = x.ndim - len(shape)
    axes = tuple(a for a in range(x.ndim) if a < lead or shape[a - lead] != x.shape[a])
    return np.add.reduce(x, axes, keepdims=True).reshape(shape)


_SHAPES = (ShapeOf(0), ShapeOf(1))


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


SPREAD: Op = _define(
    "spread_to", _spread, saves=(ShapeOf(0),),
    vjps=(lambda ct, attrs, shape: bind(SUM_TO, (ct,), (shape,)),), attr_names=("shape",),
)  # fmt: skip
SUM_TO: Op = _define(
    "sum_to", _sum_to, saves=(ShapeOf(0),), attr_names=("shape",),
    vjps=(lambda ct, attrs, shape: bind(SPREAD, (ct,), (shape,)),),
)  # fmt: skip
TOTAL: Op = _define(
    "total", lambda x: np.add.reduce(x, None), saves=(ShapeOf(0),),
    vjps=(lambda ct, attrs, shape: bind(SPREAD, (ct,), (shape,)),),
)  # fmt: skip
ADD: Op = _define(
    "plus", np.add, n_inputs=2, saves=_SHAPES, kinds="biufc",
    vjps=(lambda ct, attrs, s, t: _fit(ct, s), lambda ct, attrs, s, t: _fit(ct, t)),
)  # fmt: skip
SUB: Op = _define(
    "minus", np.subtract, n_inputs=2, saves=_SHAPES, kinds="iufc",
    vjps=(lambda ct, attrs, s, t: _fit(ct, s), lambda ct, attrs, s, t: _fit(-ct, t)),
)  # fmt: skip
MUL: Op = _define(
    "times", np.multiply, n_inputs=2, saves=(0, 1), kinds="biufc",
    vjps=(
        lambda ct, attrs, x, y: _fit(ct * y, x.shape),
        lambda ct, attrs, x, y: _fit(ct * x, y.shape),
    ),
)  # fmt: skip
NEG: Op = _define("minus_of", np.negative, kinds="iufc", vjps=(lambda ct, attrs: -ct,))
SIN: Op = _define("sine", np.sin, saves=(0,), vjps=(lambda ct, attrs, x: ct * bind(COS, (x,)),))
COS: Op = _define(
    "cosine", np.cos, saves=(0,), vjps=(lambda ct, attrs, x: -(ct * bind(SIN, (x,))),)
)
EXP: Op = _define("expo", np.exp, saves=(OUT,), vjps=(lambda ct, attrs, y: ct * y,))
TANH: Op = _define(
    "tangens", np.tanh, saves=(OUT,), vjps=(lambda ct, attrs, y: ct * (1.0 - y * y),)
)
LESS: Op = _define("less_than", np.less, n_inputs=2, kinds="biuf", vjps=(None, None))
RINT: Op = _define("nearest", np.rint, vjps=(None,))
NO_RULE: Op = _define("no_rule", np.cbrt)
CAST: Op = _define(
    "convert", lambda x, dtype: x.astype(dtype), attr_names=("dtype",), kinds="biufc",
    saves=(0,), vjps=(lambda ct, attrs, x: bind(CAST, (ct,), (x.dtype,)),),
)  # fmt: skip


def _sin_cos_vjp(cts: Any, attrs: Any, needed: Any, s: Any, c: Any) -> tuple[Any]:
    return (cts[0] * c - cts[1] * s,)


SIN_COS: Op = _define(
    "sin_cos", lambda x: (np.sin(x), np.cos(x)), n_outputs=2, saves=(OUT, OUT - 1),
    joint_vjp=_sin_cos_vjp,
)  # fmt: skip


class Tiny:
    """The ops as functions, and their records; used as a namespace, never instantiated."""

    add: Callable[[Any, Any], Tensor] = operators.make_binary(ADD)
    sub: Callable[[Any, Any], Tensor] = operators.make_binary(SUB)
    mul: Callable[[Any, Any], Tensor] = operators.make_binary(MUL)
    less: Callable[[Any, Any], Tensor] = operators.make_binary(LESS)
    neg: Callable[[Any], Tensor] = operators.make_unary(NEG)
    sin: Callable[[Any], Tensor] = operators.make_unary(SIN)
    cos: Callable[[Any], Tensor] = operators.make_unary(COS)
    exp: Callable[[Any], Tensor] = operators.make_unary(EXP)
    tanh: Callable[[Any], Tensor] = operators.make_unary(TANH)
    total: Callable[[Any], Tensor] = operators.make_unary(TOTAL)
    rint: Callable[[Any], Tensor] = operators.make_unary(RINT)
    no_rule: Callable[[Any], Tensor] = operators.make_unary(NO_RULE)

    @staticmethod
    def sin_cos(x: Tensor) -> tuple[Tensor, Tensor]:
        """Both at once: an op with two outputs."""
        return bind(SIN_COS, (x,))  # type: ignore[no-any-return]

    ops: ClassVar[dict[str, Op]] = {
        op.name: op
        for op in (
            ADD, SUB, MUL, NEG, SIN, COS, EXP, TANH, LESS, RINT, NO_RULE, CAST, SIN_COS, TOTAL,
            SPREAD, SUM_TO,
        )
    }  # fmt: skip


def _install_operators() -> None:
    """Give tensors arithmetic, unless the op files did so already."""
    if "cast" not in tensor._CONVERSIONS:
        tensor.install_conversions(cast=lambda x, dtype: bind(CAST, (x,), (dtype,)))
    for name, op in {"add": ADD, "sub": SUB, "mul": MUL, "lt": LESS}.items():
        if f"__{name}__" not in Tensor.__dict__:
            method = operators.make_binary(op, method=True)
            operators.attach_method(f"__{name}__", method)
            operators.attach_method(f"__r{name}__", operators.make_binary(op, reflected=True))
            operators.attach_method(f"__i{name}__", cells.make_inplace(f"{name}=", method))
    if "__neg__" not in Tensor.__dict__:
        operators.attach_method("__neg__", operators.make_unary(NEG))


@pytest.fixture
def tiny() -> type[Tiny]:
    """A few ops to test with."""
    _install_operators()
    return Tiny


@pytest.fixture(autouse=True)
def _clean_state() -> Iterator[None]:
    """No test leaves a tape or a handler behind."""
    yield
    left = STATE.handler, STATE.open, STATE.active
    for tape in STATE.open:
        tape.stop()
    assert left == (None, (), None)
