"""All first or second derivatives of a function, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.batching.vmap import vmap
from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.gradients.forward import Linearized, zeros_for_none
from tapeline.runtime.gradients.functional import ArgNums, Run, grad, resolve, run_watched
from tapeline.runtime.gradients.parameters import require_function
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, new_tensor

Mode = Literal["auto", "reverse", "forward"]


def unit_vectors(shape: Shape, dtype: DType) -> Tensor:
    """Along the first axis one example per element, 1 there and 0 elsewhere, in row-major order."""
    size = int(np.prod(shape))
    return new_tensor(np.eye(size, dtype=dtype).reshape(size, *shape))


def _zeros(shape: Shape, dtype: DType) -> Tensor:
    return new_tensor(np.zeros(shape, dtype))


def _rows(run: Run) -> list[list[Tensor]]:
    """For each target and source the Jacobian: a backward walk per row, all of them at once."""
    table: list[list[Tensor]] = []
    for index, target in enumerate(run.targets):
        shapes = [(*target.shape, *source.shape) for source in run.sources]
        if not target.size:
            pairs = zip(shapes, run.sources, strict=True)
            table.append([_zeros(shape, source.dtype) for shape, source in pairs])
            continue

        def row(unit: Tensor, index: int = index) -> list[Tensor]:
            seeds = [_zeros(each.shape, each.dtype) for each in run.targets]
            seeds[index] = unit
            found: list[Tensor] = run.gradients(seeds)
            return found

        rows = vmap(row)(unit_vectors(target.shape, target.dtype))
        table.append([reshape(x, shape) for x, shape in zip(rows, shapes, strict=True)])
    return table


def _columns(run: Run) -> list[list[Tensor]]:
    """For each target and source the Jacobian: a walk forwards per column, all of them at once."""
    linear = Linearized(run.tape, run.targets, run.sources, persistent=True)
    table: list[list[Tensor]] = [[] for _ in run.targets]
    for index, source in enumerate(run.sources):
        shapes = [(*target.shape, *source.shape) for target in run.targets]

        def column(unit: Tensor, index: int = index) -> list[Tensor]:
            tangents = [_zeros(each.shape, each.dtype) for each in run.sources]
            tangents[index] = unit
            return zeros_for_none(run.targets, linear(tangents))

        if source.size:
            columns = vmap(column, out_axes=-1)(unit_vectors(source.shape, source.dtype))
            found = [reshape(x, shape) for x, shape in zip(columns, shapes, strict=True)]
        else:
            pairs = zip(shapes, run.targets, strict=True)
            found = [_zeros(shape, target.dtype) for shape, target in pairs]
        for row, part in zip(table, found, strict=True):
            row.append(part)
    return table


def jacobian(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, mode: Mode = "auto"
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `f`.

    Parameters
    ----------
    f : callable
        Returns a tensor or a structure of tensors.
    argnums : int, str or sequence of them
        Position or name of the argument to differentiate, or several. They may be structures.
    has_aux : bool
        Whether `f` returns a pair `(result, aux)`, of which only the first is differentiated.
    mode : "auto", "reverse" or "forward"
        Row by row or column by column. "auto" takes what is less.

    Returns
    -------
    callable
        Takes the arguments of `f`; returns the Jacobian, with `has_aux` `(jacobian, aux)`. For a
        result of shape `s` and an argument of shape `t` it has the shape `s + t`. It is nested:
        outside as the result, inside as the argument.

    Raises
    ------
    ArgumentError
        (a ValueError) for another mode; when called, if there is no such argument.
    ArgumentTypeError
        (a TypeError) if `f` is not a function.
    DTypeError
        (a TypeError), when called, if an argument is not of float.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.jacobian(lambda x: x ** 2)(tl.asarray([1.0, 2.0])).numpy()
    array([[2., 0.],
           [0., 4.]])
    """
    require_function("jacobian", f)
    if mode not in ("auto", "reverse", "forward"):
        raise ArgumentError(f"jacobian: mode must be 'auto', 'reverse' or 'forward', got {mode!r}")

    def with_jacobian(*args: Any, **kwargs: Any) -> Any:
        positions, single = resolve("jacobian", f, argnums, len(args))
        run = run_watched("jacobian", f, args, kwargs, positions, has_aux=has_aux, persistent=True)
        inputs, outputs = (sum(x.size for x in side) for side in (run.sources, run.targets))
        forward = mode == "forward" or (mode == "auto" and 4 * inputs < outputs)
        table = _columns(run) if forward else _rows(run)
        blocks = []
        for row in table:
            packed = run.pack(row)
            blocks.append(packed[0] if single else tuple(packed))
        rest = iter(blocks)
        found = nest.map_structure(lambda _: next(rest), run.result)
        return (found, run.aux) if has_aux else found

    return with_jacobian


def hessian(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that computes the Hessian of `f`.

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
        Takes the arguments of `f`; returns the Hessian, with `has_aux` `(hessian, aux)`. For an
        argument of shape `t` it has the shape `t + t`; for structures it is nested twice.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        As for `grad`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.hessian(lambda x: x[0] * x[1])(tl.asarray([1.0, 2.0])).numpy()
    array([[0., 1.],
           [1., 0.]])
    """
    return jacobian(grad(f, argnums, has_aux), argnums, has_aux)
