"""Adding an op takes one block: eager, taped, traced and compiled, it follows from its record.

The block below is all that an op's file would hold; no line of the library knows of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tapeline as tl
from tapeline.runtime.dispatch import bind
from tapeline.runtime.op import Attrs, Op, ScalarEmitter, Trait, V, define_op
from tapeline.runtime.spec import TensorSpec

# --- the block -----------------------------------------------------------------------------------


def _infer(x: TensorSpec) -> TensorSpec:
    return x


def _kernel(x: Any) -> Any:
    return x / (1 + np.abs(x))


def _vjp(ct: Any, attrs: Attrs, x: Any) -> Any:
    y = 1 + abs(x)
    return ct / (y * y)


def _emit(b: ScalarEmitter[V], x: V) -> V:
    return b.div(x, b.add(b.const(1, x), b.abs(x)))


SOFTSIGN: Op = define_op(
    "softsign",
    kernel=_kernel,
    infer=_infer,
    saves=(0,),
    vjps=(_vjp,),
    emit=_emit,
    traits=Trait.ELEMENTWISE,
    register=False,
)


def softsign(x: tl.Tensor) -> tl.Tensor:
    result: tl.Tensor = bind(SOFTSIGN, (x,))
    return result


# --- what follows from it -----------------------------------------------------------------------

VALUES = np.array([-3.0, -0.5, 0.25, 2.0])
SLOPES = 1 / (1 + np.abs(VALUES)) ** 2
BENDS = -2 * np.sign(VALUES) / (1 + np.abs(VALUES)) ** 3


def derivatives(function: Any) -> tuple[Any, Any]:
    """First and second derivative of the sum of a function."""
    x = tl.asarray(VALUES)
    with tl.GradientTape() as outer:
        outer.watch(x)
        with tl.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = inner.gradient(y, x)
    return first.numpy(), outer.gradient(first, x).numpy()


def test_new_op_runs_eagerly() -> None:
    np.testing.assert_array_equal(softsign(tl.asarray(VALUES)).numpy(), _kernel(VALUES))


def test_new_op_has_gradients_of_order_one_and_two() -> None:
    first, second = derivatives(softsign)
    np.testing.assert_allclose(first, SLOPES, rtol=1e-14)
    np.testing.assert_allclose(second, BENDS, rtol=1e-14)


def test_new_op_compiles_to_the_same() -> None:
    compiled = tl.function(softsign)
    for _ in range(3):  # by way of Python, then natively
        result = compiled(tl.asarray(VALUES))
        np.testing.assert_array_equal(result.numpy(), _kernel(VALUES))


def test_new_op_has_compiled_gradients_of_order_one_and_two() -> None:
    first, second = derivatives(tl.function(softsign))
    np.testing.assert_allclose(first, SLOPES, rtol=1e-14)
    np.testing.assert_allclose(second, BENDS, rtol=1e-14)


def test_new_op_fuses_with_what_is_around_it() -> None:
    @tl.function
    def around(x: tl.Tensor) -> tl.Tensor:
        return softsign(x * 2) + 1

    concrete = around.get_concrete_function(tl.TensorSpec([4], "float64"))
    (kernel,) = concrete.kernels()
    assert kernel.kind == "loop"
    assert kernel.ops == ("multiply", "softsign", "add")
    assert "softsign" in str(concrete.graph)


def test_new_op_without_a_lowering_is_called_in_between() -> None:
    plain = define_op("plain_softsign", kernel=_kernel, infer=_infer, register=False)

    @tl.function
    def around(x: tl.Tensor) -> tl.Tensor:
        result: tl.Tensor = bind(plain, (x * 2,)) + 1
        return result

    concrete = around.get_concrete_function(tl.TensorSpec([4], "float64"))
    assert [kernel.kind for kernel in concrete.kernels()] == ["loop", "NumPy call", "loop"]
    np.testing.assert_array_equal(around(tl.asarray(VALUES)).numpy(), _kernel(VALUES * 2) + 1)
