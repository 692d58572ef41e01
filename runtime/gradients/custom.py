"""Functions whose gradient the user states: `custom_gradient` and what follows from it."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, overload

from tapeline.runtime import nest
from tapeline.runtime.dispatch import STATE, users
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapeline.runtime.gradients.parameters import name_of
from tapeline.runtime.gradients.watcher import VariableWatcher
from tapeline.runtime.tape import record_operation, stop_recording
from tapeline.runtime.tensor import Tensor, as_tensor, wrap
from tapeline.runtime.walk import TENSOR_SPACE


def leaves_with_none(structure: Any) -> list[Any]:
    """The leaves from left to right, where None counts as one."""
    if structure is None or nest.is_leaf(structure):
        return [structure]
    return [leaf for child in nest.children(structure) for leaf in leaves_with_none(child)]


class CustomGradient:
    """A function with a gradient of the user's; see `custom_gradient`."""

    __name__: str

    def __init__(self, function: Callable[..., Any], accepts_none: bool = False) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"custom_gradient: expected a function, got {type(function).__name__}"
            )
        functools.update_wrapper(self, function)
        self._function = function
        self._name = name_of(function)
        self._accepts_none = accepts_none

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return type(self)(types.MethodType(self._function, instance), self._accepts_none)

    def __repr__(self) -> str:
        return f"<custom gradient of {self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function, without its rule; tapes record one op for it."""
        if STATE.active is None and STATE.handler is None:
            result, _ = self._split(users(self._function)(*args, **kwargs))
            return nest.map_structure(as_tensor, result)
        given = nest.flatten(args)
        inputs = [as_tensor(leaf, None, self._name) for leaf in given]
        with VariableWatcher() as watcher:
            result, rule = self._split(users(self._function)(*args, **kwargs))
        passed = {id(leaf) for leaf in (*given, *nest.flatten(kwargs))}
        variables = [v for v in watcher.watched_variables() if id(v) not in passed]
        if variables:
            self._require_variables_argument(rule)
        backward = _Backward(self._name, rule, inputs, variables)
        outputs = [wrap(as_tensor(leaf)._value) for leaf in nest.flatten(result)]
        sources = [*inputs, *(variable.read_value() for variable in variables)]
        record_operation(self._name, outputs, sources, backward, self._accepts_none)
        if STATE.handler is None and any(tape.is_forward for tape in STATE.open):
            _try_rule(backward, outputs)
        return nest.unflatten(result, outputs)

    def _split(self, returned: Any) -> tuple[Any, Callable[..., Any]]:
        is_pair = isinstance(returned, tuple | list) and len(returned) == 2
        if not is_pair or not callable(returned[1]):
            raise ArgumentTypeError(
                f"custom_gradient: {self._name} must return a pair (result, grad_fn), got "
                f"{type(returned).__name__}"
            )
        return returned[0], returned[1]

    def _require_variables_argument(self, rule: Callable[..., Any]) -> None:
        try:
            parameters = inspect.signature(rule).parameters
        except (TypeError, ValueError):
            return
        kinds = {each.kind for each in parameters.values()}
        if "variables" not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ArgumentTypeError(
                f"custom_gradient: {self._name} uses Variables, so its grad_fn must accept a "
                "'variables' keyword argument: def grad_fn(*dys, variables=None), which returns "
                "the gradients of the arguments and a list with those of the Variables"
            )


def _try_rule(backward: _Backward, outputs: Sequence[Tensor]) -> None:
    """Let an error of the rule show at the call: in forward mode nobody calls the rule by name."""
    with stop_recording():
        backward(*[TENSOR_SPACE.ones(out.shape, out.dtype) for out in outputs])


class _Backward:
    """The user's rule, and checks of what it returns: one gradient per argument and Variable."""

    __slots__ = ("_name", "_rule", "_specs", "_variables")

    def __init__(
        self,
        name: str,
        rule: Callable[..., Any],
        inputs: Sequence[Tensor],
        variables: list[Any],
    ) -> None:
        self._name = name
        self._rule = rule
        self._variables = variables
        self._specs = [(x.shape, x.dtype) for x in (*inputs, *variables)]

    def __call__(self, *cts: Tensor) -> list[Any]:
        variables = self._variables
        if variables:
            returned = self._rule(*cts, variables=variables)
            if not isinstance(returned, tuple | list) or len(returned) != 2:
                raise ArgumentError(
                    f"{self._name}: with Variables its grad_fn must return a pair: the gradients "
                    "of the arguments, and a list with those of the Variables"
                )
            ours, theirs = (leaves_with_none(part) for part in returned)
        else:
            ours, theirs = leaves_with_none(self._rule(*cts)), []
        self._check_count(len(self._specs) - len(variables), len(ours), "argument")
        self._check_count(len(variables), len(theirs), "Variable")
        return [self._fit(part, place) for place, part in enumerate((*ours, *theirs))]

    def _check_count(self, expected: int, found: int, what: str) -> None:
        if expected != found:
            raise ArgumentError(
                f"{self._name}: custom_gradient function expected to return {expected} gradients, "
                f"but returned {found} instead; its grad_fn must return one, or None, per {what}"
            )

    def _fit(self, part: Any, place: int) -> Any:
        shape, dtype = self._specs[place]
        if part is None or dtype.kind not in "fcV":
            return None
        tensor = as_tensor(part, dtype, f"{self._name}: gradient {place}")
        if tensor.shape != shape:
            raise ShapeError(
                f"{self._name}: its grad_fn returned a gradient of shape {tensor.shape} for input "
                f"{place} of shape {shape}"
            )
        return tensor


@overload
def custom_gradient(f: Callable[..., Any], *, accepts_none: bool = ...) -> CustomGradient: ...
@overload
def custom_gradient(
    f: None = None, *, accepts_none: bool = ...
) -> Callable[[Callable[..., Any]], CustomGradient]: ...


def custom_gradient(f: Callable[..., Any] | None = None, *, accepts_none: bool = False) -> Any:
    """A function with a gradient that you state yourself.

    Parameters
    ----------
    f : callable
        Returns a pair `(result, grad_fn)`. The result is a tensor or a structure of tensors.
        `grad_fn(*dys)` takes one cotangent per tensor of the result and returns one gradient, or
        None, per leaf of the positional arguments. If `f` reads trainable Variables besides its
        arguments, `grad_fn(*dys, variables=None)` is given their list, and returns a pair: the
        gradients of the arguments, and a list of those of the Variables.
    accepts_none : bool
        Whether `grad_fn` takes None for a result that nothing depends on. Otherwise, and in
        compiled functions, it is given zeros.

    Returns
    -------
    callable
        Returns the result alone. It works as a decorator of functions and methods, eagerly and in
        compiled functions, and can be differentiated again: `grad_fn` is code like any other.

    Raises
    ------
    ArgumentTypeError
        (a TypeError), when called, if `f` returns no such pair, or `grad_fn` takes no `variables`.
    ArgumentError
        (a ValueError), where the gradient is asked for, if there are too few or too many.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.custom_gradient
    ... def log1pexp(x):
    ...     e = tl.exp(x)
    ...     def grad_fn(dy):
    ...         return dy * (1 - 1 / (1 + e))
    ...     return tl.log(1 + e), grad_fn
    >>> tl.grad(log1pexp)(100.0)
    tl.Tensor(1., shape=(), dtype=float64)
    """
    if f is None:
        return functools.partial(custom_gradient, accepts_none=accepts_none)
    return CustomGradient(f, accepts_none)


def grad_pass_through(f: Callable[..., Any]) -> CustomGradient:
    """The function with the gradient of the identity: cotangents pass through to its arguments.

    Parameters
    ----------
    f : callable
        Its result has the structure and the shapes of its positional arguments.

    Returns
    -------
    callable
        Variables that it reads get no gradient.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.grad(tl.grad_pass_through(tl.round))(2.7)
    tl.Tensor(1., shape=(), dtype=float64)
    """

    @functools.wraps(f)
    def passing(*args: Any, **kwargs: Any) -> Any:
        def grad_fn(*dys: Any, variables: Any = None) -> Any:
            return (dys, [None] * len(variables)) if variables else dys

        return f(*args, **kwargs), grad_fn

    return CustomGradient(passing)
