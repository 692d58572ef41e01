"""What a native entry serves: its arguments, captures, guards, outputs and how these are returned.

Plain descriptions; `entry` emits code for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tapeline.compiler.codegen import layout
from tapeline.runtime.spec import DType, Shape

ArgKind: TypeAlias = Literal[
    "tensor",
    "array",
    "value",
    "float",
    "int",
    "constant",
    "object",
    "weak",
    "tuple",
    "list",
    "dict",
]
ContainerKind: TypeAlias = Literal["tuple", "list", "dict"]
OutKind: TypeAlias = Literal["tensor", "array", "store", "object", "kept"]
Structure: TypeAlias = Literal["single", "tuple", "list", "none", "call"]


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One positional argument, or an item of one.

    kind "tensor" or "array": a tensor without history, or an ndarray, of this dtype and shape.
    "value": either of them. "tuple", "list", "dict": a container of exactly that type, with these
    items (and keys, in this order; `order` tells in which order its tensors are counted).
    "float", "int": a Python number, passed on as float64 or int64; with a `value` only one that
    is finite, not 0 and of the same sign, an int below 2**31. "object": this very object;
    "weak": the object that the weak reference `value` refers to, which is not kept alive.
    "constant": a float with the bits of `value`, or an int that equals it.
    """

    kind: ArgKind
    dtype: DType | None = None
    shape: Shape = ()
    value: Any = None
    """For kinds "object", "weak" and "constant"."""
    items: tuple[ArgSpec, ...] = ()
    keys: tuple[Any, ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CellSpec:
    """A captured array: the one in slot `slot` of `holder`, read at each call, or `holder` itself
    if `slot` is None. With `node_slot`, that slot must be None (no tape follows the value)."""

    holder: Any
    dtype: DType
    shape: Shape
    slot: str | None = "_value"
    node_slot: str | None = "_node"


@dataclass(frozen=True, slots=True)
class OutSpec:
    """One output.

    kind "tensor" or "array": returned as such. "store": put into slot `slot` of `target` and not
    returned. "object": this very object is returned, and the code does not see it. "kept": an array
    for the tape only.
    """

    kind: OutKind
    dtype: DType | None = None
    shape: Shape = ()
    target: Any = None
    slot: str = "_value"


@dataclass(frozen=True, slots=True)
class Container:
    """How results are put together: items are containers, or positions among the returned outputs.

    Keys of a "dict" are strings or integers.
    """

    kind: ContainerKind
    items: tuple[Container | int, ...]
    keys: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CellGuard:
    """A 64-bit word of memory that must hold `expected`: that integer, or where `is_object` a
    pointer to that object. `holder` is what keeps the memory alive."""

    address: int
    expected: Any
    is_object: bool = False
    holder: Any = None


@dataclass(frozen=True, slots=True)
class Recording:
    """The call is recorded as one node, which the first output gets, or as one for all outputs.

    Exactly the tapes that record now know the inputs at the positions `watched` (arguments in the
    order of the code, then captures), and the others have no history.
    """

    op: Any
    watched: frozenset[int]
    saved_outputs: tuple[int, ...]
    """What the node saves after all inputs: arrays of outputs, by number."""
    specs: tuple[tuple[Shape, DType], ...] | None = None
    """Shape and dtype of each output, where the node is one for all of them."""


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """What one native entry serves.

    The code that it runs is an `i64 (ptr)` at the address in the word `@<run>`. It gets an array of
    pointers to the data of the args (what is only compared left out; in the order `order`, if
    given), then the captures, then the outputs (kind "object" left out), and returns 0. At any
    other status the outputs are dropped and `on_error` is called with the status; it should raise.
    Without `on_error` the slow path is called, which does the work again.
    """

    args: tuple[ArgSpec, ...]
    """Positional ones, then those with the names `keywords`."""
    outputs: tuple[OutSpec, ...]
    tensor_class: type
    captures: tuple[CellSpec, ...] = ()
    structure: Structure | Container = "single"
    """Of the returned outputs; "call" passes them to `builder`, whose result is returned."""
    builder: Callable[..., Any] | None = None
    guards: tuple[CellGuard, ...] = ()
    check: Callable[[], bool] | None = None
    """Called after the guards; must return True. For what words of memory do not tell."""
    recording: CellGuard | None = None
    """Holds while no tape records, and nodes of tensors mean nothing; without it tensors must have
    no node."""
    recorded: Recording | None = None
    """None: no tape hears of the call."""
    same: tuple[int, ...] | None = None
    """Per tensor or array among the args, the number of the first one that is the same object;
    None: nobody cares."""
    keywords: tuple[str, ...] = ()
    order: tuple[int, ...] | None = None
    long_running: bool = False
    """The GIL is released while the code runs, so it must not call Python."""
    run: str = "run"
    name: str = "entry"
    on_error: Callable[[int], Any] | None = None
    counter: Any = None
    """An array of one int64, which counts the calls that are served."""


def empty_guard(table: dict[Any, Any]) -> CellGuard:
    """Holds while the dict is empty."""
    return CellGuard(layout.dict_size_address(table), 0, False, table)


def busy_guard(counter: list[int]) -> CellGuard:
    """Holds while `counter[0]` is 0. The list must keep its length."""
    return CellGuard(layout.list_item_address(counter, 0), 0, True, counter)
