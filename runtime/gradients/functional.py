"""Gradients of functions of nested structures: nothing is watched but the arguments named.

Arguments are independent of everything else: a tensor that is also read from outside of the
arguments is a constant there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.backprop import GRADIENT_OF, Unconnected, imperative_grad
from tapeline.runtime.dispatch import STATE, users
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapeline.runtime.gradients.parameters import (
    Argument,
    name_of,
    position_of,
    require_float,
    require_function,
)
from tapeline.runtime.ops.cast import identity
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tape import pop_tape, push_new_tape
from tapeline.runtime.tensor import Tensor, as_tensor, wrap
from tapeline.runtime.walk import TENSOR_SPACE

ArgNums: TypeAlias = "Argument | Sequence[Argument]"


def fresh_cell(tensor: Tensor) -> Tensor:
    """The same value, known to the tapes that know it, in a cell that nobody else has."""
    is_captured = STATE.handler is not None and type(tensor._value) is np.ndarray
    if tensor._node is None and not is_captured:
        return wrap(tensor._value)
    return identity(tensor)


class Run(NamedTuple):
    """One call of a function under a tape that watches some leaves of its arguments."""

    tape: Tape
    structures: list[Any]
    """The differentiated arguments."""
    sources: list[Tensor]
    """Their leaves."""
    result: Any
    targets: list[Tensor]
    """The leaves of the result."""
    aux: Any

    def gradients(self, seeds: Sequence[Any] | None, unconnected: Unconnected = "zero") -> Any:
        """The cotangent of each source, for these cotangents of the targets."""
        if seeds is None and type(self.result) is Tensor:
            found = GRADIENT_OF[0](self.tape, self.result, self.sources)
            if unconnected == "zero":
                for place, part in enumerate(found):
                    if part is None:
                        source = self.sources[place]
                        found[place] = TENSOR_SPACE.zeros(source.shape, source.dtype)
            return found
        return imperative_grad(None, self.tape, self.targets, self.sources, seeds, unconnected)

    def pack(self, found: Sequence[Any]) -> list[Any]:
        """What belongs to the sources in the structures of the arguments."""
        if len(self.structures) == len(found):
            for structure in self.structures:
                if type(structure) is not Tensor:
                    break
            else:
                return list(found)
        rest = iter(found)
        return [
            nest.map_structure(lambda _: next(rest), structure) for structure in self.structures
        ]


def run_watched(
    caller: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    positions: Sequence[int],
    *,
    has_aux: bool = False,
    persistent: bool = False,
) -> Run:
    """Call `f` with the arguments at these positions watched."""
    require_function(caller, f)
    values = list(args)
    sources: list[Tensor] = []
    tape = push_new_tape(persistent=persistent, watch_accessed_variables=False)
    try:
        for position in positions:
            value = values[position]
            is_tensor = type(value) is Tensor
            leaves = (value,) if is_tensor else nest.flatten(value)
            flat = []
            for leaf in leaves:
                tensor = fresh_cell(as_tensor(leaf, None, caller))
                require_float(caller, tensor)
                tape.watch_tensor(tensor)
                flat.append(tensor)
            values[position] = flat[0] if is_tensor else nest.unflatten(value, flat)
            sources += flat
        result, aux = _split_aux(caller, users(f)(*values, **kwargs), has_aux)
        result, targets = _as_targets(caller, result)
    finally:
        pop_tape(tape)
    structures = [values[position] for position in positions]
    return Run(tape, structures, sources, result, targets, aux)


def _as_targets(caller: str, result: Any) -> tuple[Any, list[Tensor]]:
    """The result with tensors for its leaves, and these."""
    if type(result) is Tensor:
        return result, [result]
    targets = [as_tensor(leaf, None, f"{caller}: result") for leaf in nest.flatten(result)]
    return nest.unflatten(result, targets), targets


def _split_aux(caller: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentTypeError(
            f"{caller}: with has_aux the function must return a pair (result, aux), got "
            f"{type(result).__name__}"
        )
    return result


def resolve(
    caller: str, f: Callable[..., Any], argnums: ArgNums, count: int
) -> tuple[list[int], bool]:
    """The positions that `argnums` names, and whether it names a single one."""
    single = isinstance(argnums, int | str)
    if not single and not isinstance(argnums, Sequence):
        raise ArgumentTypeError(
            f"{caller}: argnums must be a position or name of an argument, or a sequence of them, "
            f"got {argnums!r}"
        )
    wanted: Sequence[Argument] = [argnums] if isinstance(argnums, int | str) else list(argnums)
    positions = [position_of(caller, f, each, count) for each in wanted]
    if len(set(positions)) < len(positions):
        raise ArgumentError(f"{caller}: argnums names an argument twice: {argnums!r}")
    return positions, single


def _require_scalar(caller: str, f: Callable[..., Any], result: Any) -> None:
    if type(result) is Tensor and result.shape == () and result.dtype.kind == "f":
        return
    if type(result) is not Tensor:
        raise ArgumentTypeError(
            f"{caller}: {name_of(f)} must return one number, got {type(result).__name__}; "
            "use tl.vjp or tl.jacobian for structures of results, has_aux for further results"
        )
    if result.shape != ():
        raise ShapeError(
            f"{caller}: {name_of(f)} must return a tensor of shape (), got shape {result.shape}; "
            "sum it, or use tl.vjp or tl.jacobian"
        )
    raise DTypeError(
        f"{caller}: {name_of(f)} must return a real float, got {result.dtype}; "
        "return a real number such as tl.real(y), or use tl.vjp"
    )


def value_and_grad(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that computes `f` and its gradient.

    Parameters
    ----------
    f : callable
        Returns a real number, a tensor of shape ().
    argnums : int, str or sequence of them
        Position or name of the argument to differentiate, or several. They may be structures.
    has_aux : bool
        Whether `f` returns a pair `(result, aux)`, of which only the first is differentiated.

    Returns
    -------
    callable
        Takes the arguments of `f`; returns `(value, gradient)`, with `has_aux`
        `((value, aux), gradient)`. The gradient has the structure of the argument; it is a tuple
        where `argnums` is a sequence.

    Raises
    ------
    ShapeError, DTypeError
        When called, if the result is not one real number or an argument is not of float.
    ArgumentError
        When called, if there is no such argument.
    ArgumentTypeError
        (a TypeError) if `f` is not a function; when called, if its result is no tensor.

    Examples
    --------
    >>> import tapeline as tl
    >>> value, gradient = tl.value_and_grad(lambda x: tl.sum(x * x))(tl.asarray([1.0, 2.0]))
    >>> value, gradient[1]
    (tl.Tensor(5., shape=(), dtype=float64), tl.Tensor(4., shape=(), dtype=float64))
    """

    require_function("grad", f)
    resolved: dict[int, tuple[list[int], bool]] = {}

    @functools.wraps(f)
    def with_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        count = len(args)
        if count not in resolved:
            resolved[count] = resolve("grad", f, argnums, count)
        positions, single = resolved[count]
        run = run_watched("grad", f, args, kwargs, positions, has_aux=has_aux)
        _require_scalar("grad", f, run.result)
        packed = run.pack(run.gradients(None))
        value = (run.result, run.aux) if has_aux else run.result
        return value, packed[0] if single else tuple(packed)

    return with_gradient


def grad(f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of `f`.

    Parameters
    ----------
    f : callable
        Returns a real number, a tensor of shape ().
    argnums : int, str or sequence of them
        Position or name of the argument to differentiate, or several. They may be structures.
    has_aux : bool
        Whether `f` returns a pair `(result, aux)`, of which only the first is differentiated.

    Returns
    -------
    callable
        Takes the arguments of `f`; returns the gradient, with `has_aux` `(gradient, aux)`. The
        gradient has the structure of the argument, zeros where nothing depends on it; it is a tuple
        where `argnums` is a sequence.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError, ArgumentTypeError
        As for `value_and_grad`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.grad(lambda x: x ** 3)(2.0)
    tl.Tensor(12., shape=(), dtype=float64)
    >>> tl.grad(tl.grad(lambda x: x ** 3))(2.0)
    tl.Tensor(12., shape=(), dtype=float64)
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `f`, and the function from its cotangents to those of the arguments.

    Parameters
    ----------
    f : callable
        What to differentiate.
    *primals : structures of TensorLike
        Its arguments; all are differentiated.
    has_aux : bool
        Whether `f` returns a pair `(result, aux)`, of which only the first is differentiated.

    Returns
    -------
    result : structure of Tensor
    pull_back : callable
        Takes a cotangent in the structure of the result; returns a tuple with the cotangent of each
        argument. It can be called any number of times.
    aux
        With `has_aux`.

    Examples
    --------
    >>> import tapeline as tl
    >>> result, pull_back = tl.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pull_back(1.0)
    (tl.Tensor(3., shape=(), dtype=float64), tl.Tensor(2., shape=(), dtype=float64))
    """
    positions = range(len(primals))
    run = run_watched("vjp", f, primals, {}, positions, has_aux=has_aux, persistent=True)

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        seeds = leaves_like("vjp", "the cotangent", run.result, cotangent)
        return tuple(run.pack(run.gradients(seeds)))

    return (run.result, pull_back, run.aux) if has_aux else (run.result, pull_back)


def leaves_like(caller: str, what: str, structure: Any, given: Any) -> list[Tensor]:
    """The leaves of `given` as tensors, which must fit those of the structure."""
    tensors = []
    for like, leaf in beside(structure, given):
        tensor = as_tensor(leaf, like.dtype, f"{caller}: {what}")
        if tensor.shape != like.shape:
            raise ShapeError(
                f"{caller}: {what} has shape {tensor.shape} where {like.shape} is expected"
            )
        tensors.append(tensor)
    return tensors


def beside(structure: Any, given: Any) -> list[tuple[Any, Any]]:
    """The leaves of a structure, each with what stands at its place in `given`: nested numbers may
    stand for a tensor."""
    if nest.is_leaf(structure):
        return [(structure, given)]
    inside = nest.children(structure)
    fits = type(given) is type(structure) and len(nest.children(given)) == len(inside)
    if not fits or (isinstance(given, dict) and list(given) != list(structure)):
        nest.assert_same_structure(structure, given)
    pairs = zip(inside, nest.children(given), strict=True)
    return [pair for like, part in pairs for pair in beside(like, part)]
