"""`check_gradients`: derivatives against differences, along random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.errors import (
    ArgumentError,
    DTypeError,
    GradientCheckError,
    TapelineError,
)
from tapeline.runtime.gradients.forward import jvp
from tapeline.runtime.gradients.functional import vjp
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, as_tensor, new_tensor

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Mode = Literal["reverse", "forward"]

TOLERANCES = {"float32": 2e-3, "complex64": 2e-3, "float64": 1e-6, "complex128": 1e-6}
"""What differences are accurate to, by the dtype that they are taken in."""

_STEPS = {"float32": 2e-2, "complex64": 2e-2, "float64": 1e-3, "complex128": 1e-3}
_WIDER = {"float32": "float64", "complex64": "complex128"}


class _Problem(NamedTuple):
    """A function of flat arguments, all of which are differentiated, with flat float results."""

    f: Callable[..., list[Tensor]]
    point: list[Array]
    name: str


def check_gradients(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[Mode] = ("reverse", "forward"),
    *,
    tolerance: float | None = None,
    step: float | None = None,
    seed: int = 0,
) -> None:
    """Compare the derivatives of a function with differences of its values.

    Along a random direction, the tangent in forward mode, and the product of a random cotangent
    with the gradients in reverse mode, must be the slope that four values of `f` give. For higher
    orders the same is asked of the derivatives themselves, in every combination of modes.

    Parameters
    ----------
    f : callable
        Smooth near `args`. Returns a structure of tensors; what is not of float is left out.
    args : sequence of structures of TensorLike
        The positional arguments. Leaves of float or complex dtype are differentiated.
    order : int
        Up to which order.
    modes : sequence of "reverse" and "forward"
        Which modes to check.
    tolerance : float, optional
        The largest difference that passes, relative to the numbers compared where these are above
        1. By default 1e-6 in double precision, 2e-3 in single.
    step : float, optional
        How far apart the values are taken. Where `f` takes them, differences of single-precision
        arguments are taken in double precision.
    seed : int
        Of the directions.

    Raises
    ------
    GradientCheckError
        (an AssertionError) where they differ: with the order, the mode and both numbers.
    ArgumentError, DTypeError
        If a mode or order is unknown, or nothing can be differentiated.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.testing.check_gradients(lambda x: tl.sin(x) * x, [tl.asarray([0.5, 2.0])])
    >>> @tl.custom_gradient
    ... def wrong(x):
    ...     return x * x, lambda dy: dy * x
    >>> tl.testing.check_gradients(wrong, [3.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tapeline.runtime.errors.GradientCheckError: check_gradients: wrong: order 1, reverse: ...
    """
    unknown = [mode for mode in modes if mode not in ("reverse", "forward")]
    if unknown or not modes:
        raise ArgumentError(
            f"check_gradients: modes must be 'reverse' and 'forward', got {modes!r}"
        )
    if order < 1:
        raise ArgumentError(f"check_gradients: order must be 1 or more, got {order}")
    problem = _flattened(f, args)
    dtype = _widest([x.dtype for x in problem.point])
    rng = np.random.default_rng(seed)
    check = _Check(tuple(modes), _Accuracy(tolerance, step, dtype), rng)
    check.run(problem, order, "")


def _flattened(f: Callable[..., Any], args: Sequence[Any]) -> _Problem:
    """The function of the leaves that can be differentiated."""
    leaves = [as_tensor(leaf, None, "check_gradients") for leaf in nest.flatten(list(args))]
    places = [k for k, leaf in enumerate(leaves) if leaf.dtype.kind in "fcV"]
    if not places:
        raise DTypeError("check_gradients: no argument is of float or complex dtype")

    def flat(*tensors: Any) -> list[Tensor]:
        values: list[Any] = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        results = nest.flatten(f(*nest.unflatten(list(args), values)))
        found = [as_tensor(result, None, "check_gradients: result") for result in results]
        return [tensor for tensor in found if tensor.dtype.kind in "fcV"]

    name = str(getattr(f, "__name__", type(f).__name__))
    return _Problem(flat, [np.array(leaves[place].numpy()) for place in places], name)


def _widest(dtypes: Sequence[DType]) -> str:
    return str(np.result_type(*dtypes))


class _Accuracy(NamedTuple):
    """What the caller stated, and the dtype of the arguments."""

    tolerance: float | None
    step: float | None
    dtype: str

    def of(self, dtype: str) -> float:
        """The tolerance for differences taken in `dtype` of derivatives in that of the
        arguments."""
        if self.tolerance is not None:
            return self.tolerance
        return max(TOLERANCES.get(dtype, 1e-6), 2e-4 if self.dtype in _WIDER else 0.0)


class _Check:
    """One call of `check_gradients`."""

    def __init__(self, modes: tuple[Mode, ...], accuracy: _Accuracy, rng: Any) -> None:
        self.modes = modes
        self.accuracy = accuracy
        self.rng = rng

    def run(self, problem: _Problem, order: int, path: str, depth: int = 1) -> None:
        """Check one derivative, then those of the derivatives."""
        point = [new_tensor(x) for x in problem.point]
        results = problem.f(*point)
        if not results:
            return
        tangents = [self.random(x.shape, x.dtype) for x in problem.point]
        weights = [self.random(y.shape, y.dtype) for y in results]
        want, used = self.slope(problem, tangents, weights)
        for mode in self.modes:
            found, derivative = self.derivative(problem, mode, tangents, weights)
            self.compare(problem.name, f"{mode}{path}", depth, want, found, used)
            if depth < order:
                self.run(problem._replace(f=derivative), order, f" of {mode}{path}", depth + 1)

    def random(self, shape: Sequence[int], dtype: DType) -> Array:
        """A direction of numbers of both signs, none near zero."""
        size = self.rng.uniform(0.5, 1.0, shape) * self.rng.choice([-1.0, 1.0], shape)
        if dtype.kind == "c":
            size = size + 1j * self.rng.uniform(0.5, 1.0, shape)
        return np.asarray(size, dtype)

    def derivative(
        self, problem: _Problem, mode: Mode, tangents: list[Array], weights: list[Array]
    ) -> tuple[float, Callable[..., list[Tensor]]]:
        """The slope along the tangents, weighted, by one mode; and the function that is derived
        for the next order."""
        if mode == "forward":

            def along(*point: Any) -> list[Tensor]:
                directions = [
                    new_tensor(t.astype(x.dtype)) for t, x in zip(tangents, point, strict=True)
                ]
                return list(jvp(problem.f, point, directions)[1])

            found = along(*[new_tensor(x) for x in problem.point])
            return _product(weights, found), along

        def gradients(*point: Any) -> list[Tensor]:
            result, pull_back = vjp(problem.f, *point)
            cotangents = [
                new_tensor(w.astype(y.dtype)) for w, y in zip(weights, result, strict=True)
            ]
            return list(pull_back(cotangents))

        found = gradients(*[new_tensor(x) for x in problem.point])
        return _product(tangents, found), gradients

    def slope(
        self, problem: _Problem, tangents: list[Array], weights: list[Array]
    ) -> tuple[float, str]:
        """The weighted slope by differences of fourth order, and the dtype they were taken in."""
        own = self.accuracy.dtype
        for dtype in (_WIDER.get(own, own), own):
            step = self.accuracy.step or _STEPS.get(dtype, 1e-3)
            try:
                values = [
                    self.value(problem, tangents, weights, k * step, dtype != own)
                    for k in (-2, -1, 1, 2)
                ]
            except TapelineError:
                if dtype == own:
                    raise
                continue
            far_below, below, above, far_above = values
            return (8 * (above - below) - (far_above - far_below)) / (12 * step), dtype
        raise AssertionError("the arguments' own dtype was tried")

    def value(
        self, problem: _Problem, tangents: list[Array], weights: list[Array], at: float, wide: bool
    ) -> float:
        moved = []
        for x, tangent in zip(problem.point, tangents, strict=True):
            dtype = np.dtype(_WIDER.get(x.dtype.name, x.dtype.name)) if wide else x.dtype
            moved.append(new_tensor(np.asarray(x.astype(dtype) + at * tangent, dtype)))
        return _product(weights, problem.f(*moved))

    def compare(
        self, name: str, mode: str, depth: int, want: float, found: float, dtype: str
    ) -> None:
        tolerance = self.accuracy.of(dtype)
        if abs(found - want) <= tolerance * max(1.0, abs(want)):
            return
        raise GradientCheckError(
            f"check_gradients: {name}: order {depth}, {mode}: the derivative along a random "
            f"direction is {found:.9g}, differences of values give {want:.9g}; they may differ by "
            f"{tolerance:.1g}. Is a gradient rule wrong, or is there a kink near the point?"
        )


def _product(weights: Sequence[Array], values: Sequence[Tensor]) -> float:
    """The real inner product that the cotangents of complex numbers are meant for."""
    total = 0.0
    for weight, value in zip(weights, values, strict=True):
        array = value.numpy()
        wide = np.complex128 if array.dtype.kind == "c" else np.float64
        total += float(np.real(np.sum(np.conj(weight) * array.astype(wide))))
    return total
