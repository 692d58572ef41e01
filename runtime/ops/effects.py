"""Ops that are seen from outside: checks, exceptions and printing, at the time a program runs.

Each gives a bool that nobody needs; programs keep them, in order, because they are effects.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.at_work import examples_at_work
from tapeline.runtime.dispatch import bind
from tapeline.runtime.errors import CheckError
from tapeline.runtime.op import Attrs, Op, Trait, define_op
from tapeline.runtime.ops.batch_rules import apply, spread, spread_all
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, adopt, as_tensor, new_tensor, wrap

__all__ = ["HOST_ASSERT", "HOST_CHECK", "HOST_PRINT", "HOST_RAISE", "print"]

_BOOL = np.dtype(np.bool_)
_SHOWN = 6
"""How many places and items an error shows."""


def _infer(*_: Any) -> TensorSpec:
    return spec_of((), _BOOL)


class Message:
    """An exception of a check: its type and arguments; told from another by identity."""

    __slots__ = ("args", "error")

    def __init__(self, args: tuple[Any, ...], error: type[Exception] = AssertionError) -> None:
        self.args = args
        self.error = error

    def __repr__(self) -> str:
        return f"Message(args={self.args!r}, error={self.error!r})"


def _assert_kernel(condition: Any, message: Message) -> Any:
    if not condition:
        raise message.error(*message.args)
    return np.array(True)


def _true(size: int) -> Tensor:
    """What an effect gives for each example."""
    return adopt(new_tensor(np.ones(size, _BOOL)))


def _idle() -> Tensor | None:
    """The examples that are not at work; None where all are."""
    mask = examples_at_work()
    return None if mask is None else apply("logical_not", mask)


def _assert_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Once for all examples at work."""
    holds, idle = spread(inputs[0], mapped[0], size), _idle()
    if idle is not None:
        holds = apply("logical_or", holds, idle)
    bind(op, (apply("all", holds, attrs=((0,), False)),), attrs)
    return _true(size)


HOST_ASSERT = define_op(
    "host_assert",
    kernel=_assert_kernel,
    infer=_infer,
    attr_names=("message",),
    vjps=(None,),
    traits=Trait.EFFECT | Trait.NO_RECOMPUTE | Trait.CHECK,
    kinds="b",
    batch=_assert_batch,
)
"""Raises an exception, `AssertionError` by default, unless its input is true."""


class Claim:
    """What a check claims, and what its data are called; told from another by identity."""

    __slots__ = ("names", "text")

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text = text
        self.names = names

    def __repr__(self) -> str:
        return f"Claim(text={self.text!r}, names={self.names!r})"


def _check_kernel(holds: Any, condition: Any, *rest: Any) -> Any:
    *data, claim = rest
    if holds:
        return np.array(True)
    shown = [f"{claim.text} does not hold"]
    if condition.ndim:
        where = [tuple(map(int, index)) for index in np.argwhere(~condition)[:_SHOWN]]
        more = ", ..." if np.count_nonzero(~condition) > _SHOWN else ""
        shown.append(f"at {', '.join(map(str, where))}{more}")
    for name, array in zip(claim.names, data, strict=True):
        shown.append(f"{name} = {np.array2string(array, threshold=_SHOWN)}")
    raise CheckError("; ".join(shown))


def _check_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Once for all examples at work, whose values are shown with the others."""
    holds, condition, *data = spread_all(inputs, mapped, size)
    idle = _idle()
    if idle is not None:
        holds = apply("logical_or", holds, idle)
        idle = apply("reshape", idle, attrs=((size, *([1] * (condition.ndim - 1))),))
        idle = apply("broadcast_to", idle, attrs=(condition.shape,))
        condition = apply("logical_or", condition, idle)
    bind(op, (apply("all", holds, attrs=((0,), False)), condition, *data), attrs)
    return _true(size)


HOST_CHECK = define_op(
    "host_check",
    kernel=_check_kernel,
    infer=_infer,
    n_inputs=None,
    attr_names=("claim",),
    traits=Trait.EFFECT | Trait.NO_RECOMPUTE | Trait.CHECK,
    kinds="biufc",
    batch=_check_batch,
)
"""Raises `CheckError` unless its first input is true: whether the second one is everywhere. Shows
where it is not, and the others."""


def _raise_kernel(error: BaseException | type[BaseException]) -> Any:
    if isinstance(error, type):
        raise error
    try:
        fresh = type(error)(*error.args)
    except Exception:
        fresh = error
    raise fresh from error.__cause__


def _raise_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """If any example is at work."""
    idle = _idle()
    if idle is None:
        bind(op, (), attrs)
        return _true(size)
    (error,) = attrs
    args, kind = ((), error) if isinstance(error, type) else (error.args, type(error))  # type: ignore[attr-defined]  # an exception
    holds = apply("all", idle, attrs=((0,), False))
    bind(HOST_ASSERT, (holds,), (Message(args, kind),))
    return _true(size)


HOST_RAISE = define_op(
    "host_raise",
    kernel=_raise_kernel,
    infer=_infer,
    n_inputs=0,
    attr_names=("error",),
    traits=Trait.EFFECT | Trait.NO_RECOMPUTE,
    batch=_raise_batch,
)
"""Raises an exception."""


class Layout:
    """What is printed: values whose tensors are inputs, in order; told from another by identity.

    `python` says for each tensor whether it stands for a Python number.
    """

    __slots__ = ("options", "python", "values")

    def __init__(
        self, values: tuple[Any, ...], python: tuple[bool, ...], options: dict[str, Any]
    ) -> None:
        self.values = values
        self.python = python
        self.options = options

    def __repr__(self) -> str:
        parts = f"values={self.values!r}, python={self.python!r}, options={self.options!r}"
        return f"Layout({parts})"

    def print(self, arrays: Sequence[Any]) -> None:
        """Prints the values with these arrays in the place of tensors."""
        shown = iter(
            [
                array.item() if is_python else wrap(array)
                for array, is_python in zip(arrays, self.python, strict=True)
            ]
        )
        values = []
        for value in self.values:
            leaves = [next(shown) if _is_tensor(x) else x for x in nest.flatten(value)]
            values.append(nest.unflatten(value, leaves))
        builtins.print(*values, **self.options)


def _print_kernel(*inputs: Any) -> Any:
    *arrays, layout = inputs
    layout.print([np.array(array) for array in arrays])
    return np.array(True)


def _print_examples_kernel(mask: Any, *inputs: Any) -> Any:
    *arrays, layout, mapped = inputs
    for number in np.flatnonzero(mask):
        pairs = zip(arrays, mapped, strict=True)
        layout.print([np.array(array[number] if many else array) for array, many in pairs])
    return np.array(True)


def _print_examples_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """The examples of examples, one after the other."""
    shown, *arrays = spread_all(inputs, mapped, size)
    mask = examples_at_work()
    layout, is_inner = attrs
    count = shown.shape[1]

    def flat(x: Tensor, many: Any) -> Tensor:
        rest = x.shape[2:] if many else x.shape[1:]
        if not many:
            x = apply("reshape", x, attrs=((size, 1, *rest),))
            x = apply("broadcast_to", x, attrs=((size, count, *rest),))
        return apply("reshape", x, attrs=((size * count, *rest),))

    shown = flat(shown, True)
    if mask is not None:
        shown = apply("logical_and", shown, flat(mask, False))
    rows = [flat(x, many) for x, many in zip(arrays, cast(Any, is_inner), strict=True)]
    bind(op, (shown, *rows), (layout, (True,) * len(rows)))
    return _true(size)


HOST_PRINT_EXAMPLES = define_op(
    "host_print_examples",
    kernel=_print_examples_kernel,
    infer=_infer,
    n_inputs=None,
    attr_names=("layout", "mapped"),
    traits=Trait.EFFECT | Trait.NO_RECOMPUTE,
    kinds="biufc",
    batch=_print_examples_batch,
)
"""Prints, for each example that the first input names, the others; `mapped` says which of them
hold examples."""


def _print_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """For each example at work, one after the other."""
    mask = examples_at_work()
    shown = _true(size) if mask is None else mask
    bind(HOST_PRINT_EXAMPLES, (shown, *inputs), (*attrs, tuple(mapped)))
    return _true(size)


HOST_PRINT = define_op(
    "host_print",
    kernel=_print_kernel,
    infer=_infer,
    n_inputs=None,
    attr_names=("layout",),
    traits=Trait.EFFECT | Trait.NO_RECOMPUTE,
    kinds="biufc",
    batch=_print_batch,
)
"""Prints its inputs."""


def _is_tensor(x: Any) -> bool:
    return hasattr(type(x), "__tapeline_tensor__")


def print(*values: Any, **options: Any) -> None:
    """Prints as Python's `print`, at the time a compiled function runs, in order with its other
    effects.

    Parameters
    ----------
    *values : object
        Tensors, structures of tensors, and anything else.
    **options
        `sep`, `end`, `file` and `flush`, as for Python's `print`.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.print("total", tl.asarray([1, 2]).sum())
    total tl.Tensor(3, shape=(), dtype=int64)
    """
    tensors: list[Tensor] = [
        as_tensor(x) for value in values for x in nest.flatten(value) if _is_tensor(x)
    ]
    weak = tuple([getattr(tensor._value, "weak", None) is not None for tensor in tensors])
    bind(HOST_PRINT, tensors, (Layout(values, weak, options),))
