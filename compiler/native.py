"""Native entries for concrete functions and for compiled graphs: what they check, run and return.

An entry serves the plain case of a signature: positional arguments that are tensors without history
or simple constants, no trace and, where Variables are read, no tape. A further one, made when calls
are recorded, serves tensors that exactly the recording tapes watch. Everything else stays with the
Python path, which does the same. Loaded at the first call that asks for an entry, since it needs
codegen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.codegen import tape_code
from tapeline.compiler.codegen.entry import compile_entry
from tapeline.compiler.codegen.entry_spec import (
    ArgSpec,
    CellGuard,
    CellSpec,
    Container,
    ContainerKind,
    EntrySpec,
    OutSpec,
    Recording,
    Structure,
    busy_guard,
    empty_guard,
)
from tapeline.compiler.codegen.native_call import NativeEntry
from tapeline.compiler.executable.executable import Executable
from tapeline.compiler.frontend.signature import is_told_by_identity, ordered_keys
from tapeline.runtime import nest
from tapeline.runtime.deferred import Deferred
from tapeline.runtime.dispatch import BUSY, RECORDING
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.differentiable import Recorded
    from tapeline.compiler.frontend.signature import Call

LONG_WORK = 100_000
"""Element operations from which on the GIL is released: some 20 microseconds."""

_CONTAINERS: dict[type, ContainerKind] = {tuple: "tuple", list: "list", dict: "dict"}
_ITEMS = 256
"""Items of a container up to which native code looks through it."""


def array_entry(executable: Executable) -> NativeEntry:
    """The entry from arrays to arrays: one, or a tuple of them."""
    graph = executable.graph
    args = tuple(
        ArgSpec("array", graph.spec(node).dtype, graph.spec(node).static_shape)
        for node in graph.placeholders
    )
    outputs = tuple(
        OutSpec("array", graph.spec(node).dtype, graph.spec(node).static_shape)
        for node in graph.outputs
    )
    spec = EntrySpec(
        args=args,
        outputs=outputs,
        tensor_class=Tensor,
        structure="single" if len(outputs) == 1 else "tuple",
        guards=(busy_guard(BUSY),),
        on_error=executable.fail_natively,
        long_running=is_long(executable),
    )
    return compile_entry(spec, executable.run_word, executable)


def function_entry(
    concrete: ConcreteFunction,
    call: Call,
    given: tuple[tuple[Any, ...], dict[str, Any]],
    following: NativeEntry | None,
) -> NativeEntry | None:
    """The entry for calls such as `call`, spelled with the arguments `given`; None where only the
    Python path can serve them."""
    leaves: list[Any] = []
    numbers = _Numbers(getattr(concrete.general, "open_numbers", ()))
    args = _arguments((*given[0], *given[1].values()), leaves, numbers)
    n_tensors = len(call.tensors) - len(numbers.open)
    order = _order(leaves, call.tensors[:n_tensors])
    if args is None or order is None or concrete.writes_cells or concrete.staged is not None:
        return None
    if any(type(source) is Deferred for source in concrete.captures):
        return None
    if numbers.open:
        if given[1] or not numbers.are_last(leaves):
            return None
        order = (*order, *range(n_tensors, len(call.tensors)))
    traced = concrete.guards
    words = None if traced is None else traced.words()
    outputs, structure, builder = _results(concrete)
    captures = tuple(_cell(source) for source in concrete.hidden_inputs)
    guards: list[CellGuard] = [busy_guard(BUSY)]
    if concrete.variables:
        guards.append(empty_guard(RECORDING))
    guards += [CellGuard(*word) for word in words or ()]
    executable = concrete.differentiable.compiled.executable()
    spec = EntrySpec(
        args=args,
        outputs=outputs,
        tensor_class=Tensor,
        captures=captures,
        structure=structure,
        builder=builder,
        guards=tuple(guards),
        check=traced.hold if traced is not None and words is None else None,
        recording=empty_guard(RECORDING),
        same=_aliases(leaves),
        keywords=tuple(given[1]),
        order=order,
        counter=concrete.served,
        on_error=executable.fail_natively,
        long_running=is_long(executable),
    )
    entry = compile_entry(spec, executable.run_word, executable, following)
    # a builder knows the function, which would keep itself alive
    if builder is None and not numbers.open:
        concrete.differentiable.add_entry(entry, spec)
    return entry


class _Numbers:
    """The Python numbers among arguments as they are counted, and those that are inputs."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.open = frozenset(positions)
        self.count = 0
        self._tensors_before: list[int] = []

    def is_input(self, leaves: Sequence[Any]) -> bool:
        """Whether the next number is an input; the leaves are the tensors before it."""
        found = self.count in self.open
        self.count += 1
        if found:
            self._tensors_before.append(len(leaves))
        return found

    def are_last(self, leaves: Sequence[Any]) -> bool:
        """Whether all of them were found, after all tensors."""
        found = self._tensors_before
        return len(found) == len(self.open) and min(found) == len(leaves)


def add_recording_entry(
    entry: NativeEntry, spec: EntrySpec, recorded: Recorded, watched: Sequence[int]
) -> None:
    """Lets machine code also serve calls such as `entry` does under a tape that watches the inputs
    at these positions, if it can."""
    pair, executable = recorded.pair, recorded.forward.executable()
    arguments = range(len(spec.order or ()))
    reads_variables = any(
        cell.slot is not None and cell.node_slot is None for cell in spec.captures
    )
    visible = [out for out in spec.outputs if out.kind == "tensor"]
    graph = executable.graph
    is_served = (
        all(out.kind in ("tensor", "object") for out in spec.outputs)
        and len(visible) == recorded.n_outputs
        and bool(pair.differentiable)
        and any(position is not None for position in pair.gradients)
        and all(position in arguments for position in watched)
        and not reads_variables
        and len(set(spec.same or arguments)) == len(arguments)
    )
    if not is_served:
        return
    specs = [graph.spec(node) for node in graph.outputs]
    kept = [OutSpec("kept", s.dtype, s.static_shape) for s in specs[recorded.n_outputs :]]
    joint_specs = tuple((s.static_shape, s.dtype) for s in specs)
    recording_spec = replace(
        spec,
        outputs=(*spec.outputs, *kept),
        recording=None,
        recorded=Recording(
            recorded.op,
            frozenset(watched),
            pair.saved_outputs,
            None if recorded.n_outputs == 1 else joint_specs,
        ),
        on_error=executable.fail_natively,
        long_running=is_long(executable),
    )
    tape_code.install()
    entry.following = compile_entry(
        recording_spec, executable.run_word, executable, entry.following
    )


def is_long(executable: Executable) -> bool:
    """Whether the code runs so long that it pays to release the GIL. Host calls need the GIL
    anyway."""
    if not all(step.is_rare for step in executable.module.hosts):
        return False
    if executable.module.has_control:
        return True
    work = sum(launch.work for k in executable.module.kernels if k for launch in k.launches)
    return work >= LONG_WORK


def _arguments(
    values: Sequence[Any], leaves: list[Any], numbers: _Numbers
) -> tuple[ArgSpec, ...] | None:
    """What stands for the arguments as they are given; the tensors in them join `leaves`."""
    specs = [_argument(value, leaves, numbers) for value in values]
    return None if None in specs else tuple(spec for spec in specs if spec is not None)


def _order(leaves: Sequence[Any], tensors: Sequence[Any]) -> tuple[int, ...] | None:
    """Which of the leaves each input of the trace is; None where one is not among them, such as a
    default value."""
    first: dict[int, int] = {}
    for position, leaf in enumerate(leaves):
        first.setdefault(id(leaf), position)
    order = tuple(first.get(id(tensor), -1) for tensor in tensors)
    return None if -1 in order or len(order) != len(leaves) else order


def _argument(value: Any, leaves: list[Any], numbers: _Numbers) -> ArgSpec | None:
    """What stands for an argument or an item of one; None where only the Python path can tell. The
    tensors in it join `leaves`, a dict's in the order of its sorted keys."""
    kind = type(value)
    if kind is Tensor or kind is np.ndarray:
        if canonical_dtype(value.dtype) is not value.dtype:
            return None
        leaves.append(value)
        return ArgSpec("value", value.dtype, value.shape)
    if (kind is float or kind is int) and numbers.is_input(leaves):
        return ArgSpec("float" if kind is float else "int", value=value)
    if is_unique(value) or kind is str:
        return ArgSpec("object", value=value)
    if kind is float or (kind is int and -(2**63) <= value < 2**63):
        return ArgSpec("constant", value=value)
    if nest.is_leaf(value) and is_told_by_identity(value):
        reference = reference_to(value)
        return None if reference is None else ArgSpec("weak", value=reference)
    container, keys = _CONTAINERS.get(kind), _keys(value)
    if container is None or keys is None or len(value) > _ITEMS:
        return None
    order: tuple[int, ...] = ()
    if kind is dict:
        order = tuple(keys.index(key) for key in ordered_keys(value))
    children = list(value.values() if kind is dict else value)
    items: list[ArgSpec | None] = [None] * len(children)
    for number in order or range(len(children)):
        items[number] = _argument(children[number], leaves, numbers)
    if None in items:
        return None
    known = tuple(item for item in items if item is not None)
    return ArgSpec(container, items=known, keys=keys, order=order)


def reference_to(value: Any) -> weakref.ref[Any] | None:
    """A weak reference to the object; None where it cannot have one."""
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def _keys(container: Any) -> tuple[Any, ...] | None:
    """The keys of a dict, none for others; None where a key could run code when it is compared."""
    keys = tuple(container) if type(container) is dict else ()
    return keys if all(type(key) is str or type(key) is int for key in keys) else None


def is_unique(value: Any) -> bool:
    """Whether equal values of this kind are always the same object, which may live for ever."""
    if value is None or type(value) is bool:
        return True
    return type(value) is int and -5 <= value <= 256  # CPython makes these once


def _aliases(tensors: Sequence[Any]) -> tuple[int, ...] | None:
    """Per tensor or array among the arguments the first one that is the same object."""
    if len(tensors) < 2:
        return None
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(value), position) for position, value in enumerate(tensors))


def _cell(source: Any) -> CellSpec:
    if isinstance(source, np.ndarray):
        return CellSpec(source, source.dtype, source.shape, slot=None)
    if type(source) is Tensor:
        return CellSpec(source, source.dtype, source.shape)
    return CellSpec(source, source.dtype, source.shape, node_slot=None)


def _results(
    concrete: ConcreteFunction,
) -> tuple[tuple[OutSpec, ...], Structure | Container, Any]:
    """What the entry makes and returns: the results, new values of Variables, constants."""
    outputs = [OutSpec("tensor", s.dtype, s.static_shape) for s in concrete.outputs]
    n_tensors = len(outputs)
    outputs += [
        OutSpec("store", variable.dtype, variable.shape, variable)
        for variable in concrete.assigned_variables
    ]
    shape = concrete.results.form
    if shape != "other":
        return tuple(outputs), shape, None
    structure, leaves = concrete.results.template
    if concrete.results.has_numbers:
        return tuple(outputs), "call", concrete.results.pack
    constants: list[Any] = []
    tree = _tree(structure, iter(leaves), n_tensors, constants)
    if not isinstance(tree, Container):
        return tuple(outputs), "call", concrete.results.pack
    outputs += [OutSpec("object", target=value) for value in constants]
    return tuple(outputs), tree, None


def _tree(
    structure: Any,
    leaves: Iterator[tuple[int | None, Any]],
    n_tensors: int,
    constants: list[Any],
) -> Container | int | None:
    """How native code puts results together; constants are counted on from the tensors. None where
    it cannot: for arrays, which are copied, and for other containers."""
    if structure is None or nest.is_leaf(structure):
        output, leaf = (None, None) if structure is None else next(leaves)
        if output is not None:
            return output
        if not (leaf is None or type(leaf) in (bool, int, float, complex, str, bytes)):
            return None
        constants.append(leaf)
        return n_tensors + len(constants) - 1
    container, keys = _CONTAINERS.get(type(structure)), _keys(structure)
    if container is None or keys is None:
        return None
    items = []
    for child in structure.values() if container == "dict" else structure:
        item = _tree(child, leaves, n_tensors, constants)
        if item is None:
            return None
        items.append(item)
    return Container(container, tuple(items), keys)
