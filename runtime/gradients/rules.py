"""Functions with derivative rules of the user's, for either mode or both: `custom_derivative`."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, GradientCheckError
from tapeline.runtime.gradients.checking import TOLERANCES, check_gradients
from tapeline.runtime.gradients.custom import CustomGradient, custom_gradient
from tapeline.runtime.gradients.functional import vjp
from tapeline.runtime.gradients.parameters import name_of
from tapeline.runtime.tape import pop_tape, push_new_tape
from tapeline.runtime.tensor import Tensor, as_tensor, new_tensor
from tapeline.runtime.walk import TENSOR_SPACE

Rule = Callable[..., Any]


class _Running(threading.local):
    """How many `forward` rules of this thread run now."""

    count = 0


_RUNNING = _Running()


class CustomDerivative:
    """A function with rules of the user's; see `custom_derivative`."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"custom_derivative: expected a function, got {type(function).__name__}"
            )
        functools.update_wrapper(self, function)
        self._function = function
        self._name = name_of(function)
        self._forward: Rule | None = None
        self._backward: Rule | None = None
        self._along: Rule | None = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = type(self)(types.MethodType(self._function, instance))
        for name in ("_forward", "_backward", "_along"):
            rule = getattr(self, name)
            setattr(bound, name, None if rule is None else functools.partial(rule, instance))
        return bound

    def __repr__(self) -> str:
        return f"<custom derivative of {self._name}>"

    # Stating rules

    def defvjp(self, forward: Rule, backward: Rule) -> CustomDerivative:
        """State the rule of reverse mode.

        Parameters
        ----------
        forward : callable
            `forward(*args)` gives `(result, kept)`: what the function gives, and anything that
            `backward` needs.
        backward : callable
            `backward(kept, cotangent)` gives a tuple: per argument its gradient, in its structure,
            or None. The cotangent has the structure of the result. Rules of methods get the object
            first.

        Returns
        -------
        CustomDerivative
            Itself.
        """
        self._forward, self._backward = forward, backward
        return self

    def defjvp(self, rule: Rule) -> CustomDerivative:
        """State the rule of forward mode; works as a decorator of it.

        Parameters
        ----------
        rule : callable
            `rule(primals, tangents)`, two tuples with one entry per argument, gives
            `(result, tangent)`. It must be linear in the tangents.

        Returns
        -------
        CustomDerivative
            Itself.
        """
        self._along = rule
        return self

    # Calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result; tapes record one op with these rules."""
        if self._backward is None and self._along is None:
            raise ArgumentError(
                f"custom_derivative: {self._name} has no rule yet; state one with "
                f"{self._name}.defvjp(forward, backward) or {self._name}.defjvp(rule)"
            )
        return self._custom(*args, **kwargs)

    @functools.cached_property
    def _custom(self) -> CustomGradient:
        @functools.wraps(self._function)
        def with_rule(*args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
            return self._with_rule(*args, **kwargs)

        return custom_gradient(with_rule)

    def _with_rule(self, *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
        """The result, and the rule of reverse mode as `custom_gradient` wants it."""
        is_late = self._forward is None or _RUNNING.count > 0
        kept: Any = None
        if is_late:
            result = self._function(*args, **kwargs)
        else:
            result, kept = self._run_forward(args, kwargs)

        def grad_fn(*dys: Any, variables: Any = None) -> list[Any]:
            if variables:
                raise ArgumentError(
                    f"{self._name}: it reads Variables, which its rules cannot give gradients of; "
                    "pass them as arguments, or use tl.custom_gradient"
                )
            if self._backward is None:
                return self._transposed(args, kwargs, dys)
            held = self._run_forward(args, kwargs)[1] if is_late else kept
            if self._along is None:
                return self._pulled(held, result, args, dys)
            if STATE.active is None and STATE.handler is None:
                return self._pulled(held, result, args, dys)
            return self._with_both(args, kwargs, dys)

        return result, grad_fn

    def _run_forward(self, args: Sequence[Any], kwargs: Any) -> tuple[Any, Any]:
        """What `forward` gives; where it calls the function itself, that needs no rule at once."""
        assert self._forward is not None
        _RUNNING.count += 1
        try:
            found = self._forward(*args, **kwargs)
        finally:
            _RUNNING.count -= 1
        if not isinstance(found, tuple) or len(found) != 2:
            raise ArgumentError(f"{self._name}: forward must return a pair (result, kept)")
        return found

    def _pulled(self, kept: Any, result: Any, args: Sequence[Any], dys: Sequence[Any]) -> list[Any]:
        """The gradients by the rule of reverse mode, one per leaf of the arguments."""
        assert self._backward is not None
        parts = self._backward(kept, nest.unflatten(result, list(dys)))
        if not isinstance(parts, tuple | list) or len(parts) != len(args):
            raise ArgumentError(
                f"{self._name}: backward must return a tuple with one gradient, or None, per "
                f"argument: {len(args)} of them"
            )
        found: list[Any] = []
        for part, arg in zip(parts, args, strict=True):
            count = len(nest.flatten(arg))
            leaves = [None] * count if part is None else nest.flatten(part)
            if len(leaves) != count:
                raise ArgumentError(
                    f"{self._name}: backward returned {len(leaves)} gradients for an argument of "
                    f"{count} tensors"
                )
            found += leaves
        return found

    def _tangent(self, args: Sequence[Any], kwargs: Any, leaves: Sequence[Any]) -> list[Tensor]:
        """The tangents of the results by the rule of forward mode."""
        assert self._along is not None
        tangents = nest.unflatten(tuple(args), list(leaves))
        found = self._along(tuple(args), tangents, **kwargs)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ArgumentError(
                f"{self._name}: the rule of defjvp must return a pair (result, tangent)"
            )
        return [as_tensor(leaf, None, self._name) for leaf in nest.flatten(found[1])]

    def _transposed(self, args: Sequence[Any], kwargs: Any, dys: Sequence[Any]) -> list[Any]:
        """The gradients by the rule of forward mode, which is linear in the tangents."""
        leaves = [as_tensor(leaf) for leaf in nest.flatten(tuple(args))]
        zeros = [TENSOR_SPACE.zeros(leaf.shape, leaf.dtype) for leaf in leaves]
        tape = push_new_tape(watch_accessed_variables=False)
        try:
            for zero in zeros:
                if zero.dtype.kind in "fcV":
                    tape.watch_tensor(zero)
            targets = self._tangent(args, kwargs, zeros)
        finally:
            pop_tape(tape)
        return imperative_grad(None, tape, targets, zeros, list(dys))

    def _with_both(self, args: Sequence[Any], kwargs: Any, dys: Sequence[Any]) -> list[Any]:
        """The gradients by the rule of reverse mode, which know the rule of forward mode: the
        derivative by the cotangents."""
        flat = [as_tensor(leaf) for leaf in nest.flatten(tuple(args))]
        places = [k for k, leaf in enumerate(flat) if leaf.dtype.kind in "fcV"]

        def pulled(leaves: Sequence[Any], cts: Sequence[Any]) -> list[Tensor]:
            values = nest.unflatten(tuple(args), list(leaves))
            again, kept = self._run_forward(values, kwargs)
            found = self._pulled(kept, again, values, cts)
            return [
                TENSOR_SPACE.zeros(flat[k].shape, flat[k].dtype)
                if found[k] is None
                else as_tensor(found[k], flat[k].dtype)
                for k in places
            ]

        @custom_gradient
        def pull(leaves: Sequence[Any], cts: Sequence[Any]) -> tuple[list[Tensor], Any]:
            def rule(*tangents: Any) -> list[Any]:
                spread = [TENSOR_SPACE.zeros(x.shape, x.dtype) for x in flat]
                for k, tangent in zip(places, tangents, strict=True):
                    spread[k] = tangent
                values = nest.unflatten(tuple(args), list(leaves))
                by_cts = self._tangent(values, kwargs, spread)
                by_leaves: list[Any] = [None] * len(flat)

                def of_floats(*floats: Any) -> list[Tensor]:
                    moved = list(leaves)
                    for k, x in zip(places, floats, strict=True):
                        moved[k] = x
                    return pulled(moved, cts)

                _, pull_back = vjp(of_floats, *[leaves[k] for k in places])
                for k, part in zip(places, pull_back(list(tangents)), strict=True):
                    by_leaves[k] = part
                return [*by_leaves, *by_cts]

            return pulled(leaves, cts), rule

        found: list[Any] = [None] * len(flat)
        for k, part in zip(places, pull(flat, list(dys)), strict=True):
            found[k] = part
        return found

    # Checking

    def check(self, *args: Any, order: int = 2, tolerance: float | None = None) -> None:
        """Compare the rules with each other and with differences of values.

        Parameters
        ----------
        *args : structures of TensorLike
            A point near which the function is smooth.
        order : int
            Up to which order they are compared with differences.
        tolerance : float, optional
            As for `tl.testing.check_gradients`.

        Raises
        ------
        GradientCheckError
            (an AssertionError) where they contradict each other or the differences.
        """
        if self._along is not None and self._backward is not None:
            self._compare_rules(args, tolerance)
        check_gradients(self, args, order, tolerance=tolerance)

    def _compare_rules(self, args: Sequence[Any], tolerance: float | None) -> None:
        """What one rule makes of directions and cotangents the other one must make too."""
        rng = np.random.default_rng(0)
        args = tuple(nest.map_structure(as_tensor, list(args)))
        result, kept = self._run_forward(args, {})
        tangents = [_random(rng, leaf) for leaf in nest.flatten(args)]
        cts = [_random(rng, as_tensor(leaf)) for leaf in nest.flatten(result)]
        forward = _inner(cts, self._tangent(args, {}, tangents))
        reverse = _inner(tangents, self._pulled(kept, result, args, cts))
        limit = TOLERANCES.get(min(x.dtype.name for x in cts), 1e-6)
        if abs(forward - reverse) > (tolerance or limit) * max(1.0, abs(forward)):
            raise GradientCheckError(
                f"check: the rules of {self._name} contradict each other: along a random direction "
                f"defjvp gives {forward:.9g}, defvjp gives {reverse:.9g}"
            )


def _random(rng: np.random.Generator, like: Tensor) -> Tensor:
    if like.dtype.kind not in "fcV":
        return new_tensor(np.zeros(like.shape, like.dtype))
    size = rng.uniform(0.5, 1.0, like.shape) * rng.choice([-1.0, 1.0], like.shape)
    return new_tensor(np.asarray(size, like.dtype))


def _inner(weights: Sequence[Tensor], values: Sequence[Any]) -> float:
    pairs = [(w, v) for w, v in zip(weights, values, strict=True) if v is not None]
    return float(sum(np.real(np.sum(np.conj(np.asarray(w)) * np.asarray(v))) for w, v in pairs))


def custom_derivative(f: Callable[..., Any]) -> CustomDerivative:
    """A function with derivative rules that you state on the object, for one mode or for both.

    Where one rule is stated it serves both modes. `f.check(*args)` compares the rules with each
    other and with differences.

    Parameters
    ----------
    f : callable
        Of tensors or structures of tensors; also a method. Its rules give gradients of positional
        arguments. It reads no trainable Variables; pass these as arguments.

    Returns
    -------
    CustomDerivative
        With `defvjp`, `defjvp` and `check`. It works eagerly and in compiled functions, and its
        rules are code like any other, so higher derivatives are right too.

    Raises
    ------
    ArgumentError
        (a ValueError) when called without a rule, or if a rule returns something that does not fit.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.custom_derivative
    ... def f(x, y):
    ...     return tl.sin(x) * y
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x, y), (tx, ty) = primals, tangents
    ...     return f(x, y), tl.cos(x) * y * tx + tl.sin(x) * ty
    >>> _ = f.defvjp(
    ...     lambda x, y: (f(x, y), (x, y)),
    ...     lambda kept, ct: (ct * tl.cos(kept[0]) * kept[1], ct * tl.sin(kept[0])),
    ... )
    >>> f.check(0.5, 2.0)
    >>> tl.grad(f)(0.0, 2.0)
    tl.Tensor(2., shape=(), dtype=float64)
    """
    return CustomDerivative(f)
