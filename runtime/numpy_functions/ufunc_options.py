"""The options of NumPy's ufuncs on tensors: `where=`, `dtype=`, `casting=` and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import ArgumentError, DTypeError
from tapeline.runtime.ops.selection import where as choose
from tapeline.runtime.promotion import WEAK_TYPES
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import as_tensor, cast_tensor

_KNOWN = frozenset({"casting", "dtype", "order", "signature", "subok", "where"})


def with_options(
    ufunc: np.ufunc, function: Callable[..., Any], inputs: Sequence[Any], out: Any, **options: Any
) -> Any:
    """What a function gives for the inputs where a ufunc was called with options.

    `order` and `subok` say nothing about tensors.
    """
    unknown = set(options) - _KNOWN
    if unknown:
        return function(*inputs, **options)  # such as axes; who knows none will say so
    wanted, signature = options.get("dtype"), options.get("signature")
    casting = options.get("casting", "same_kind")
    if wanted is not None:
        signature = (None,) * ufunc.nin + (canonical_dtype(wanted),) * ufunc.nout
    if signature is not None:
        inputs, results = _in_loop(ufunc, inputs, signature, casting)
    mask = options.get("where", True)
    found = function(*inputs) if mask is True else masked(function, inputs, mask, out)
    if signature is None:
        return found
    if not isinstance(found, tuple):
        return cast_tensor(found, results[0])
    return tuple(cast_tensor(part, dtype) for part, dtype in zip(found, results, strict=True))


def _in_loop(
    ufunc: np.ufunc, inputs: Sequence[Any], signature: Any, casting: Any
) -> tuple[Sequence[Any], Any]:
    """The inputs in the dtypes of the loop that NumPy would take, and those of its results."""
    if isinstance(signature, str):
        raise ArgumentError(
            f"np.{ufunc.__name__}: of tensors, signature must be a tuple of dtypes, got "
            f"{signature!r}"
        )
    arrays = [x if type(x) in (int, float, complex) else as_tensor(x) for x in inputs]
    given = [type(x) if type(x) in (int, float, complex) else x.dtype for x in arrays]
    loop = ufunc.resolve_dtypes(
        (*given, *(None,) * ufunc.nout), signature=signature, casting=casting
    )
    ready = [
        as_tensor(x, dtype) if type(x) in (int, float, complex) else cast_tensor(x, dtype)
        for x, dtype in zip(arrays, loop, strict=False)
    ]
    return ready, loop[ufunc.nin :]


def masked(
    function: Callable[..., Any], inputs: Sequence[Any], mask: Any, out: Sequence[Any] | None
) -> Any:
    """What the function gives for the inputs where the mask holds, and what `out` holds elsewhere:
    zeros where there is none. Elsewhere the function sees ones, so nothing can go wrong there."""
    mask = as_tensor(mask, argument="where=")
    if mask.dtype.kind != "b":
        raise DTypeError(f"where=: expected a mask of bools, got dtype {mask.dtype}")
    result = function(*[x if type(x) in WEAK_TYPES else choose(mask, x, 1) for x in inputs])
    if not isinstance(result, tuple):
        return choose(mask, result, out[0] if out else 0)
    others = out or (0,) * len(result)
    return tuple(choose(mask, part, other) for part, other in zip(result, others, strict=True))
