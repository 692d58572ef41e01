"""Shapes in annotations: `def f(x: tl.F64["n", "d"], w: tl.F64["d"])`.

A compiled function checks them at the door. A name stands for one size in all arguments of a call,
and is left open by the trace, so calls of other sizes share it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapeline.runtime.spec import DType
from tapeline.runtime.tensor import Tensor, as_tensor, wrap

if TYPE_CHECKING:
    from tapeline.compiler.frontend.families import Place, Places

Size: TypeAlias = int | str | None
"""A fixed size, the name of one, or any size."""

_EXAMPLES = (13, 17, 19, 23, 29, 31, 37)
"""Sizes that stand for names where no call says more."""


class ShapedTensor:
    """What an annotation such as `tl.F64["n", 3]` says; `tl.F64` and its kin make them."""

    __slots__ = ("dtype", "name", "sizes")

    def __init__(self, name: str, dtype: DType, sizes: tuple[Size, ...]) -> None:
        for size in sizes:
            is_name = isinstance(size, str) and size.isidentifier()
            is_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
            if not (is_name or is_size or size is None):
                raise ArgumentError(
                    f"{name}[...]: a size is an int >= 0, a name or None, got {size!r}"
                )
        self.name = name
        self.dtype = dtype
        self.sizes = sizes

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(map(repr, self.sizes)) or '()'}]"

    def __eq__(self, other: object) -> bool:
        if type(other) is not ShapedTensor:
            return NotImplemented
        return self.dtype == other.dtype and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash((self.dtype, self.sizes))


class DTypeAnnotation:
    """Makes annotations for tensors of one dtype: `tl.F32["rows", 3]`, `tl.F32[()]` for a number.

    Examples
    --------
    >>> import tapeline as tl
    >>> @tl.function
    ... def weighted(x: tl.F64["n", "d"], w: tl.F64["d"]):
    ...     return x @ w
    >>> weighted(tl.ones((2, 3)), tl.ones(3)).shape
    (2,)
    >>> weighted(tl.ones((5, 4)), tl.ones(4)).shape
    (5,)
    >>> weighted.trace_count
    1
    """

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)

    def __getitem__(self, sizes: Any) -> ShapedTensor:
        return ShapedTensor(self.name, self.dtype, sizes if isinstance(sizes, tuple) else (sizes,))

    def __repr__(self) -> str:
        return self.name


_KINDS = {"F": "float", "C": "complex", "I": "int", "U": "uint"}
BY_NAME: dict[str, DTypeAnnotation] = {"BOOL": DTypeAnnotation("BOOL", "bool")}
for _name in ("F32", "F64", "C64", "C128", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"):
    BY_NAME[_name] = DTypeAnnotation(_name, _KINDS[_name[0]] + _name[1:])

F32, F64, C64, C128 = (BY_NAME[name] for name in ("F32", "F64", "C64", "C128"))
I8, I16, I32, I64 = (BY_NAME[name] for name in ("I8", "I16", "I32", "I64"))
U8, U16, U32, U64 = (BY_NAME[name] for name in ("U8", "U16", "U32", "U64"))
BOOL = BY_NAME["BOOL"]

_MENTIONED = re.compile(rf"\b(?:{'|'.join(BY_NAME)})\[")


class Annotations:
    """The annotated parameters of one function.

    Parameters
    ----------
    name : str
        What messages call the function.
    shaped : dict
        The annotation of each parameter that has one.
    """

    def __init__(self, name: str, shaped: dict[str, ShapedTensor]) -> None:
        self.name = name
        self.shaped = shaped

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> Annotations | None:
        """Those of a function; None where no parameter has a shape."""
        function = inspect.unwrap(function)
        found: dict[str, ShapedTensor] = {}
        for parameter, annotation in getattr(function, "__annotations__", {}).items():
            value = annotation
            while isinstance(value, str) and _MENTIONED.search(value):
                value = _evaluated(value, function)  # in quotes, maybe twice
            if type(value) is ShapedTensor and parameter != "return":
                found[parameter] = value
        return cls(name, found) if found else None

    def conform(
        self, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with a tensor for each annotation. Python numbers take its dtype.

        Raises
        ------
        ArgumentTypeError
            (a TypeError) if an argument is no tensor of its dtype.
        ShapeError
            (a ValueError) if a size is not what the annotation, or another argument, says.
        """
        sizes: dict[str, tuple[int, str]] = {}
        made = list(args)
        for position, parameter in enumerate(names[: len(args)]):
            made[position] = self._fit(parameter, args[position], sizes)
        return tuple(made), {name: self._fit(name, x, sizes) for name, x in kwargs.items()}

    def _fit(self, parameter: str, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
        shaped = self.shaped.get(parameter)
        if shaped is None:
            return value
        called = f"{self.name}: argument {parameter}"
        tensor = value if type(value) is Tensor else as_tensor(value, None, called)
        if not hasattr(type(value), "dtype") and np.can_cast(
            tensor.dtype, shaped.dtype, "same_kind"
        ):
            tensor = as_tensor(value, shaped.dtype, called)
        if tensor.dtype != shaped.dtype:
            raise ArgumentTypeError(
                f"{called} must be {shaped!r}, got dtype {tensor.dtype}; convert it with "
                f"astype({shaped.dtype.name!r})"
            )
        if tensor.ndim != len(shaped.sizes):
            raise ShapeError(f"{called} must be {shaped!r}, got shape {tensor.shape}")
        for axis, (wanted, size) in enumerate(zip(shaped.sizes, tensor.shape, strict=True)):
            if isinstance(wanted, int) and wanted != size:
                raise ShapeError(
                    f"{called} must be {shaped!r}, got shape {tensor.shape}: axis {axis} has size "
                    f"{size} and not {wanted}"
                )
            if isinstance(wanted, str):
                known, where = sizes.setdefault(wanted, (size, parameter))
                if known != size:
                    raise ShapeError(
                        f"{called} must be {shaped!r}, got shape {tensor.shape}: {wanted} is "
                        f"{size} there and {known} in {where}"
                    )
        return tensor

    def places(self, leaves: Iterable[tuple[str, int]]) -> Places:
        """Where the names stand, from the parameter and the number of each tensor."""
        groups: dict[Any, list[Place]] = {}
        for parameter, number in leaves:
            shaped = self.shaped.get(parameter)
            for axis, size in enumerate(() if shaped is None else shaped.sizes):
                if not isinstance(size, int):
                    groups.setdefault(size or (number, axis), []).append((number, axis))
        return tuple(map(tuple, groups.values()))

    def stand_ins(self) -> dict[str, Tensor]:
        """A tensor for each annotated parameter, with example sizes for names."""
        known: dict[str, int] = {}
        found = {}
        for parameter, shaped in self.shaped.items():
            shape = [
                size
                if isinstance(size, int)
                else known.setdefault(size or "", _EXAMPLES[len(known) % len(_EXAMPLES)])
                for size in shaped.sizes
            ]
            found[parameter] = wrap(np.broadcast_to(np.zeros((), shaped.dtype), shape))
        return found


def _evaluated(annotation: str, function: Callable[..., Any]) -> Any:
    """What an annotation in quotes means where the function was written; None where that cannot be
    told."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    scope = getattr(function, "__globals__", vars(module) if module is not None else {})
    try:
        closed = inspect.getclosurevars(function).nonlocals
        return eval(annotation, {**scope, **closed})
    except Exception:
        return None
