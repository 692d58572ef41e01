"""Arbitrary Python in the middle of a compiled function: `py_function`.

In a trace the call becomes one node, an effect, whose kernel runs the Python function on tensors
with values. If a graph has its gradient, that run is recorded, and the gradient is taken from it
later; or the user states the gradient.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.errors import ArgumentTypeError, ShapeError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.gradients.custom import CustomGradient
from tapeline.runtime.op import OUT, Attrs, Op, Trait, define_op
from tapeline.runtime.scopes import init_scope
from tapeline.runtime.spec import DType, TensorSpec, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, wrap

__all__ = ["py_function"]

MOST_RECORDED = 256
"""Runs whose gradient may still be asked for; before the latest ones, the function runs again."""
_INT64 = np.dtype(np.int64)
_next_token: Callable[[], int] = itertools.count(1).__next__

Recorded = tuple[GradientTape, list[Tensor], list[Tensor]]


class PythonCall:
    """A Python function that a compiled function calls: told from another by identity.

    Parameters
    ----------
    function : callable
        From tensors to a structure of tensors.
    result : structure of TensorSpec
        What it gives.
    gradient : callable or None
        From cotangents and inputs to gradients of the inputs.
    """

    def __init__(
        self, function: Callable[..., Any], result: Any, gradient: Callable[..., Any] | None
    ) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.result = result
        self.specs: list[TensorSpec] = nest.flatten(result)
        self.gradient = gradient
        self.is_differentiated = False
        """Whether some graph has its gradient: then its runs are recorded."""
        self._recorded: OrderedDict[int, Recorded] = OrderedDict()

    def __repr__(self) -> str:
        return f"<python function {self.name}>"

    def outputs(self, result: Any) -> list[Tensor]:
        """The leaves of what the function gave, as promised."""
        nest.assert_same_structure(self.result, result)
        found = []
        for leaf, spec in zip(nest.flatten(result), self.specs, strict=True):
            tensor = as_tensor(leaf, None if hasattr(leaf, "dtype") else spec.dtype, self.name)
            if (tensor.shape, tensor.dtype) != (spec.shape, spec.dtype):
                raise ShapeError(
                    f"py_function: {self.name} gave {tensor.dtype} of shape {tensor.shape}; "
                    f"result= promises {spec.dtype} of shape {spec.shape}"
                )
            found.append(tensor)
        return found

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """The kernel: what the function gives, and a token for the run."""
        tensors = [wrap(np.array(array)) for array in arrays]
        with init_scope():
            if self.gradient is not None or not self.is_differentiated:
                return self._values(self.outputs(self.function(*tensors)), 0)
            token = _next_token()
            recorded = self._record(tensors)
        self._recorded[token] = recorded
        while len(self._recorded) > MOST_RECORDED:
            self._recorded.popitem(last=False)
        return self._values(recorded[2], token)

    def _record(self, tensors: list[Tensor]) -> Recorded:
        with GradientTape() as tape:
            for tensor in tensors:
                if tensor.dtype.kind in "fc":
                    tape.watch(tensor)
            outputs = self.outputs(self.function(*tensors))
        return tape, tensors, outputs

    def _values(self, outputs: list[Tensor], token: int) -> tuple[Any, ...]:
        return (*(x._concrete("py_function") for x in outputs), np.array(token))

    def differentiate(self, *arrays: Any) -> tuple[Any, ...]:
        """The kernel of the gradient: of cotangents, the token, and inputs, to the gradients of
        inputs that have one."""
        n_outputs = len(self.specs)
        cts = [wrap(np.array(ct)) for ct in arrays[:n_outputs]]
        given = arrays[n_outputs + 1 :]
        with init_scope():
            if self.gradient is not None:
                tensors = [wrap(np.array(array)) for array in given]
                found = self.gradient(*cts, *tensors)
                gradients = list(found) if isinstance(found, tuple | list) else [found]
            else:
                recorded = self._recorded.pop(int(arrays[n_outputs]), None)
                if recorded is None:
                    recorded = self._record([wrap(np.array(array)) for array in given])
                tape, tensors, outputs = recorded
                gradients = tape.gradient(outputs, tensors, cts, "zero")
        return tuple(map(np.asarray, self._slopes(given, gradients)))

    def _slopes(self, given: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs that have one, with zeros for None."""
        if len(gradients) != len(given):
            raise ArgumentTypeError(
                f"py_function: the gradient of {self.name} gave {len(gradients)} values for "
                f"{len(given)} inputs"
            )
        return [
            wrap(np.zeros(x.shape, x.dtype)) if gradient is None else gradient
            for x, gradient in zip(given, gradients, strict=True)
            if x.dtype.kind in "fc"
        ]

    def derivative(self, given: Sequence[TensorSpec]) -> PythonCall:
        """What `differentiate` gives, as a Python function of cotangents and inputs that can be
        differentiated itself; it runs this one again, unless its gradient was stated."""
        n_outputs = len(self.specs)

        def slopes(*values: Tensor) -> list[Any]:
            cts, inputs = values[:n_outputs], values[n_outputs:]
            if self.gradient is not None:
                found = self.gradient(*cts, *inputs)
                gradients = list(found) if isinstance(found, tuple | list) else [found]
            else:
                tape, tensors, outputs = self._record(list(inputs))
                gradients = tape.gradient(outputs, tensors, list(cts), "zero")
            return self._slopes(inputs, gradients)

        slopes.__name__ = f"gradient of {self.name}"
        return PythonCall(slopes, [spec for spec in given if spec.dtype.kind in "fc"], None)


def _make_op(call: PythonCall, inputs: Sequence[Tensor]) -> Op:
    specs = (*call.specs, spec_of((), _INT64))
    n_inputs, n_outputs = len(inputs), len(call.specs)
    kinds = [tensor.dtype.kind for tensor in inputs]
    slopes = _gradient_op(call, [spec_of(x.shape, x.dtype) for x in inputs])

    def joint_vjp(cts: Sequence[Any], attrs: Attrs, needed: Any, *saved: Any) -> tuple[Any, ...]:
        call.is_differentiated = True
        *given, token = saved
        gradients = iter(bind(slopes, [*cts[:n_outputs], token, *given], attrs))
        return tuple(next(gradients) if kind in "fc" else None for kind in kinds)

    return define_op(
        f"py_function:{call.name}",
        kernel=lambda *values: values[-1].run(*values[:-1]),
        infer=lambda *_: specs,
        n_inputs=n_inputs,
        n_outputs=n_outputs + 1,
        attr_names=("call",),
        joint_vjp=joint_vjp,
        saves=(*range(n_inputs), OUT - n_outputs),
        traits=Trait.EFFECT | Trait.NO_RECOMPUTE,
        kinds="biufc",
        register=False,
    )


def _gradient_op(call: PythonCall, given: Sequence[TensorSpec]) -> Op:
    """The op from cotangents, the token and the inputs to gradients of the inputs. Its own gradient
    is an op of this kind."""
    n_outputs = len(call.specs)
    specs = tuple(spec for spec in given if spec.dtype.kind in "fc")
    n_inputs = n_outputs + 1 + len(given)

    def joint_vjp(cts: Sequence[Any], attrs: Attrs, needed: Any, *saved: Any) -> tuple[Any, ...]:
        again = call.derivative(given)
        op = _gradient_op(again, [*call.specs, *given])
        token = saved[n_outputs]
        values = [*saved[:n_outputs], *saved[n_outputs + 1 :]]
        found = iter(bind(op, [*cts, token, *values], (again,)))
        slopes = [
            next(found) if spec.dtype.kind in "fc" else None for spec in (*call.specs, *given)
        ]
        return (*slopes[:n_outputs], None, *slopes[n_outputs:])

    return define_op(
        f"py_function_gradient:{call.name}",
        kernel=lambda *values: values[-1].differentiate(*values[:-1]),
        infer=lambda *_: specs,
        n_inputs=n_inputs,
        n_outputs=len(specs),
        attr_names=("call",),
        joint_vjp=joint_vjp,
        saves=tuple(range(n_inputs)),
        traits=Trait.NO_RECOMPUTE,
        kinds="biufc",
        register=False,
    )


def py_function(
    function: Callable[..., Any],
    inputs: Sequence[TensorLike],
    result: Any,
    gradient: Callable[..., Any] | None = None,
) -> Any:
    """What a Python function gives for tensors, called each time a compiled function runs.

    The function gets tensors with values, whatever it does with them: print, plot, call other
    libraries. It runs once a call, in order with other effects, also if nobody uses its result.

    Parameters
    ----------
    function : callable
        Takes one tensor per input.
    inputs : sequence of TensorLike
        What it is called with. Variables pass their present value.
    result : TensorSpec, dtype or a structure of these
        What it gives; a dtype stands for one number. None for nothing.
    gradient : callable, optional
        From the cotangents of the results, followed by the inputs, to the gradients of the inputs.
        By default the ops that the function uses on its tensors are recorded and differentiated;
        for derivatives of second and higher order the function runs again.

    Returns
    -------
    Tensor, or a structure of tensors as in `result`

    Raises
    ------
    ShapeError, ArgumentError
        When it runs, if the function gives something else than `result` says.
    Exception
        What the function raises.

    Examples
    --------
    >>> import tapeline as tl
    >>> def through_numpy(x):
    ...     return np.interp(x.numpy(), [0.0, 1.0], [10.0, 20.0])
    >>> @tl.function
    ... def f(x):
    ...     return tl.py_function(through_numpy, [x], tl.TensorSpec([2])) * 2
    >>> f(tl.asarray([0.0, 0.5]))
    tl.Tensor([20. 30.], shape=(2,), dtype=float64)
    """
    if not callable(function):
        raise ArgumentTypeError(f"py_function: expected a function, got {type(function).__name__}")
    tensors = [as_tensor(value, None, "py_function: inputs") for value in inputs]
    call = PythonCall(function, nest.map_structure(_as_spec, result), gradient)
    if STATE.handler is None:
        return _run_now(call, tensors)
    outputs = bind(_make_op(call, tensors), tensors, (call,))
    return nest.unflatten(call.result, outputs[:-1])


def _as_spec(leaf: Any) -> TensorSpec:
    if type(leaf) is TensorSpec:
        return leaf
    dtype: DType = canonical_dtype(leaf, "py_function: result")
    return TensorSpec([], dtype)


def _run_now(call: PythonCall, tensors: list[Tensor]) -> Any:
    """The result outside of a trace; tapes see the ops of the function itself."""
    if call.gradient is None:
        return nest.unflatten(call.result, call.outputs(call.function(*tensors)))
    rule = call.gradient

    def stated(*given: Tensor) -> tuple[Any, Callable[..., Any]]:
        outputs = call.outputs(call.function(*given))
        return tuple(outputs), lambda *cts: rule(*cts, *given)

    found = CustomGradient(stated)(*tensors)
    return nest.unflatten(call.result, list(found))
