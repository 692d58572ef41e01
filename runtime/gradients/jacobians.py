"""All first or second derivatives of a function, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.gradients.forward import Linearized
from tapeline.runtime.gradients.functional import ArgNums, Run, grad, resolve, run_watched
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, new_tensor

Mode = Literal["auto", "reverse", "forward"]


def unit_vectors(shape: Shape, dtype: DType) -> Iterator[Tensor]:
    """One tensor per element, 1 there and 0 elsewhere, in row-major order."""
    size = int(np.prod(shape))
    for position in range(size):
        array = np.zeros(size, dtype)
        array[position] = 1
        yield new_tensor(array.reshape(shape))


def _zeros(shape: Shape, dtype: DType) -> Tensor:
    return new_tensor(np.zeros(shape, dtype))


def _rows(run: Run) -> list[list[Tensor]]:
    """For each target and source the Jacobian, found row by row."""
    table: list[list[Tensor]] = []
    for index, target in enumerate(run.targets):
        seeds = [_zeros(each.shape, each.dtype) for each in run.targets]
        found: list[list[Tensor]] = []
        for unit in unit_vectors(target.shape, target.dtype):
            seeds[index] = unit
            found.append(run.gradients(seeds))
        table.append(
            [
                _join([row[k] for row in found], (*target.shape, *source.shape), source.dtype)
                for k, source in enumerate(run.sources)
            ]
        )
    return table


def _join(parts: list[Tensor], shape: Shape, dtype: DType) -> Tensor:
    return reshape(stack(parts), shape) if parts else _zeros(shape, dtype)


def _columns(run: Run) -> list[list[Tensor]]:
    """For each target and source the Jacobian, found column by column."""
    linear = Linearized(run.tape, run.targets, run.sources, persistent=True)
    found: list[list[list[Tensor]]] = []
    for index, source in enumerate(run.sources):
        tangents = [_zeros(each.shape, each.dtype) for each in run.sources]
        columns: list[list[Tensor]] = []
        for unit in unit_vectors(source.shape, source.dtype):
            tangents[index] = unit
            columns.append(
                [
                    _zeros(target.shape, target.dtype) if part is None else part
                    for target, part in zip(run.targets, linear(tangents), strict=True)
                ]
            )
        found.append(columns)
    return [
        [
            _join_last([column[t] for column in found[s]], target, source)
            for s, source in enumerate(run.sources)
        ]
        for t, target in enumerate(run.targets)
    ]


def _join_last(parts: list[Tensor], target: Tensor, source: Tensor) -> Tensor:
    shape = (*target.shape, *source.shape)
    if not parts:
        return _zeros(shape, target.dtype)
    return reshape(stack(parts, axis=-1), shape)


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
    DTypeError, ArgumentError
        When called, if an argument is not of float, or there is none of that name.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.jacobian(lambda x: x ** 2)(tl.asarray([1.0, 2.0])).numpy()
    array([[2., 0.],
           [0., 4.]])
    """

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
