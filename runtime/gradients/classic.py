"""Gradients of functions by the tape, in the manner of early eager TensorFlow.

Each of these runs a function under a tape of its own and walks back at once, or when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tapeline.runtime import nest
from tapeline.runtime.backprop import imperative_grad
from tapeline.runtime.dispatch import users
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.gradients.parameters import (
    Argument,
    name_of,
    positions_of,
    source_tensor,
    watch_float,
)
from tapeline.runtime.ops.cast import identity
from tapeline.runtime.tape import pop_tape, push_new_tape
from tapeline.runtime.tensor import Tensor, as_tensor


def _reject_none(function: Any) -> NoReturn:
    name = name_of(function)
    raise ArgumentError(
        f"cannot differentiate a function that returns None; did you forget to return a value from "
        f"{name}?"
    )


def _reject_keywords(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ArgumentError(
            "functions to be differentiated cannot receive keyword arguments, got "
            f"{sorted(kwargs)}; pass them by position"
        )


def make_vjp(
    f: Callable[..., Any], params: Sequence[Argument] | None = None, persistent: bool = True
) -> Callable[..., tuple[Any, Callable[..., list[Any]]]]:
    """A function that computes `f` and a function of cotangents: its vector-Jacobian product.

    Parameters
    ----------
    f : callable
        What to differentiate; it is called with positional arguments only.
    params : sequence of int or of str, optional
        Positions or names of the arguments to differentiate; by default all.
    persistent : bool
        Whether the vector-Jacobian product can be called more than once.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns `(result, vjp)`. `vjp(dy=None)` returns one gradient,
        or None, per differentiated argument; `dy` is a cotangent per result, None stands for ones.

    Raises
    ------
    ArgumentError
        (a ValueError), when called, for a parameter that does not exist, for keyword arguments, and
        if `f` returns None.

    Examples
    --------
    >>> import tapeline as tl
    >>> result, vjp = tl.make_vjp(lambda x: x * x)(3.0)
    >>> vjp()
    [tl.Tensor(6., shape=(), dtype=float64)]
    >>> vjp(dy=10.0)
    [tl.Tensor(60., shape=(), dtype=float64)]
    """

    def with_vjp(*args: Any, **kwargs: Any) -> tuple[Any, Callable[..., list[Any]]]:
        _reject_keywords(kwargs)
        positions = positions_of("make_vjp", f, params, len(args))
        values = list(args)
        sources = _take_arguments(values, positions)
        tape = push_new_tape(persistent=persistent)
        try:
            for source in sources:
                watch_float(tape, source)
            result = users(f)(*values)
            if result is None:
                _reject_none(f)
            flat = [identity(leaf) for leaf in nest.flatten(result)]
        finally:
            pop_tape(tape)

        def vjp(dy: Any = None) -> list[Any]:
            return imperative_grad(None, tape, flat, sources, _flat_seeds(dy, flat))

        return nest.unflatten(result, flat), vjp

    return with_vjp


def _take_arguments(values: list[Any], positions: Sequence[int]) -> list[Tensor]:
    """Make tensors of the arguments at these positions, in place, and return them."""
    taken: set[int] = set()
    for position in dict.fromkeys(positions):
        values[position] = source_tensor("make_vjp", values[position], taken)
    return [values[position] for position in positions]


def _flat_seeds(dy: Any, flat: Sequence[Tensor]) -> list[Any] | None:
    if dy is None:
        return None
    if len(flat) == 1 and (nest.is_leaf(dy) or not isinstance(dy, dict | list | tuple)):
        return [dy]
    if len(flat) == 1 and flat[0].ndim:  # nested numbers that stand for one array
        given = as_tensor(dy, flat[0].dtype, "dy")
        return [given if given.shape == flat[0].shape else dy[0]]
    return list(nest.flatten(dy))


def value_and_gradients_function(
    f: Callable[..., Any], params: Sequence[Argument] | None = None
) -> Callable[..., tuple[Any, list[Any]]]:
    """A function that computes `f` and its gradients.

    Parameters
    ----------
    f : callable
        What to differentiate. The sum of its results counts.
    params : sequence of int or of str, optional
        Positions or names of the arguments to differentiate; by default all.

    Returns
    -------
    callable
        Takes the arguments of `f`, and `dy=` for the cotangents of its results; returns
        `(result, gradients)`.

    Raises
    ------
    ArgumentError
        As for `make_vjp`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.value_and_gradients_function(lambda x, y: x * y)(2.0, 3.0)[1]
    [tl.Tensor(3., shape=(), dtype=float64), tl.Tensor(2., shape=(), dtype=float64)]
    """
    prepared = make_vjp(f, params, persistent=False)

    def value_and_gradients(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, list[Any]]:
        value, vjp = prepared(*args, **kwargs)
        return value, vjp(dy=dy)

    return value_and_gradients


def gradients_function(
    f: Callable[..., Any], params: Sequence[Argument] | None = None
) -> Callable[..., list[Any]]:
    """A function that computes the gradients of `f`.

    Parameters
    ----------
    f : callable
        What to differentiate. The sum of its results counts.
    params : sequence of int or of str, optional
        Positions or names of the arguments to differentiate; by default all.

    Returns
    -------
    callable
        Takes the arguments of `f`, and `dy=` for the cotangents of its results; returns one
        gradient, or None, per differentiated argument. A tensor that is passed twice counts as two.

    Raises
    ------
    ArgumentError
        As for `make_vjp`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.gradients_function(lambda x, y: x * y, params=["y"])(2.0, 3.0)
    [tl.Tensor(2., shape=(), dtype=float64)]
    """
    both = value_and_gradients_function(f, params)

    def gradients(*args: Any, dy: Any = None, **kwargs: Any) -> list[Any]:
        return both(*args, dy=dy, **kwargs)[1]

    return gradients


def implicit_value_and_gradients(
    f: Callable[..., Any],
) -> Callable[..., tuple[Any, list[tuple[Any, Any]]]]:
    """A function that computes `f` and its gradients by the Variables that it reads.

    Parameters
    ----------
    f : callable
        What to differentiate. The sum of its results counts.

    Returns
    -------
    callable
        Takes the arguments of `f`; returns its result and a list of pairs `(gradient, variable)`,
        one per trainable Variable that was read, in the order in which these were created. The
        gradient of a Variable that only rows were taken from comes as `IndexedSlices`.

    Raises
    ------
    ArgumentError
        (a ValueError), when called, if `f` returns None or reads no trainable Variable.

    Examples
    --------
    >>> import tapeline as tl
    >>> v = tl.Variable(3.0)
    >>> value, [(gradient, variable)] = tl.implicit_value_and_gradients(lambda: v * v)()
    >>> gradient
    tl.Tensor(6., shape=(), dtype=float64)
    >>> variable is v
    True
    """

    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        tape = push_new_tape()
        try:
            result = users(f)(*args, **kwargs)
            if result is None:
                _reject_none(f)
        finally:
            pop_tape(tape)
        variables = tape.list_variables()
        if not variables:
            raise ArgumentError(
                f"no trainable variables were accessed while {name_of(f)} was computed"
            )
        targets = [as_tensor(leaf) for leaf in nest.flatten(result)]
        found = imperative_grad(None, tape, targets, variables, sparse=True)
        return result, list(zip(found, variables, strict=True))

    return value_and_gradients


def implicit_gradients(f: Callable[..., Any]) -> Callable[..., list[tuple[Any, Any]]]:
    """A function that computes the gradients of `f` by the Variables that it reads.

    Parameters
    ----------
    f : callable
        What to differentiate. The sum of its results counts.

    Returns
    -------
    callable
        Takes the arguments of `f`; returns pairs `(gradient, variable)` as
        `implicit_value_and_gradients` does.

    Raises
    ------
    ArgumentError
        (a ValueError), when called, if `f` returns None or reads no trainable Variable.

    Examples
    --------
    >>> import tapeline as tl
    >>> v = tl.Variable(3.0)
    >>> [(gradient, variable)] = tl.implicit_gradients(lambda x: v * x)(5.0)
    >>> gradient
    tl.Tensor(5., shape=(), dtype=float64)
    """
    both = implicit_value_and_gradients(f)

    def gradients(*args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        return both(*args, **kwargs)[1]

    return gradients
