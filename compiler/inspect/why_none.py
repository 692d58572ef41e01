"""Why a gradient is None: where the way from a source to a target breaks, with the user's line."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tapeline.compiler.frontend.location import user_location
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.inspect.code import source_line
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import PICK
from tapeline.runtime.callbacks import op_callback
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.op import Op, Trait, registered_ops
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tensor import Tensor

Kind = Literal[
    "connected", "dtype", "left through NumPy", "no path", "no rule", "not recorded",
    "not watched", "stop_gradient", "unknown",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a gradient ends; prints as a sentence.

    Attributes
    ----------
    kind : str
        "connected" if it does not end, "dtype", "left through NumPy", "no path", "no rule",
        "not recorded", "not watched", "stop_gradient", or "unknown".
    message : str
        What happened, and what to do.
    location : Location or None
        The line of the program.
    """

    kind: Kind
    message: str
    location: Location | None = None

    def __str__(self) -> str:
        if self.location is None:
            return self.message
        return f"{self.message}\n  at {self.location}: {source_line(self.location)}"

    __repr__ = __str__


_Reason = tuple[Kind, str, Location | None]


class _Use(NamedTuple):
    """One op: numbers of its values, and what of them lets a gradient through."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    blocked: tuple[_Reason | None, ...]
    """Per input why no gradient comes to it; None where one does."""
    location: Location | None


class _Event(NamedTuple):
    """One op as it ran."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: list[Any]
    known: list[tuple[int, ...]]
    """Per input the ids of the tapes that knew it."""
    dtypes: list[str]
    """Of the outputs."""
    made: list[Any]
    """Per output the op that tapes recorded, and their ids; None where none did."""
    recording: tuple[int, ...]
    location: Location | None


def _identity(value: Any) -> Hashable:
    return (id(value.graph), value.id) if isinstance(value, Symbol) else id(value)


class Memory:
    """A block of this thread whose ops are remembered, with their lines and all their values."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.departures: list[tuple[int, str, Location | None]] = []
        self._kept: list[Any] = []
        self._of_cell: dict[int, tuple[int, Any]] = {}
        self._of_value: dict[Hashable, int] = {}
        self._thread = 0
        self._callback: Any = None
        self._concrete: Any = None
        self._before: Memory | None = None
        self.idents: dict[int, set[int]] = {}
        """By id of a tape the ids that it recorded under."""

    def __enter__(self) -> Memory:
        self._thread = threading.get_ident()
        self._before = current()
        _CURRENT.memory = self
        self._callback = op_callback(self._note)
        self._callback.__enter__()
        self._concrete = Tensor._concrete
        before, own_thread = self._concrete, self._thread

        def noting(tensor: Tensor, what: str) -> Any:
            if threading.get_ident() == own_thread:
                self.departures.append((self.key(tensor), what, user_location()))
            return before(tensor, what)

        Tensor._concrete = noting  # type: ignore[assignment,method-assign]  # for this block only
        return self

    def __exit__(self, *details: Any) -> None:
        Tensor._concrete = self._concrete  # type: ignore[method-assign]  # as it was
        self._callback.__exit__(*details)
        _CURRENT.memory = self._before

    def key(self, tensor: Any) -> int:
        """The number of the value that a cell has now, new if it was not met yet."""
        value = tensor._value
        known = self._of_cell.get(id(tensor))
        if known is not None and known[1] is value:
            return known[0]
        found = self._of_value.get(_identity(value))
        return self._new_key(tensor) if found is None else found

    def _new_key(self, tensor: Any) -> int:
        made = len(self._kept)
        self._kept.append((tensor, tensor._value))  # or their ids would be used again
        self._of_cell[id(tensor)] = made, tensor._value
        self._of_value[_identity(tensor._value)] = made
        return made

    def _note(
        self, name: str, _: dict[str, Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        active = STATE.active
        for tape in STATE.open:
            self.idents.setdefault(id(tape), set()).update(tape._own.ids)
        nodes = [x._node for x in inputs]
        made = [None if y._node is None else (y._node.op, y._node.tapes.ids) for y in outputs]
        given = tuple([self.key(x) for x in inputs])
        self.events.append(
            _Event(
                name,
                given,
                tuple([self._new_key(y) for y in outputs]),
                nodes,
                [() if node is None else node.tapes.ids for node in nodes],
                [y.dtype.name for y in outputs],
                made,
                () if active is None else active.ids,
                user_location(),
            )
        )

    def uses(self, ident: set[int]) -> list[_Use]:
        """The ops as the tape with these ids saw them."""
        rules = {op.name: op for op in registered_ops()}
        found = []
        for event in self.events:
            op = rules.get(event.name) or next((m[0] for m in event.made if m is not None), None)
            recorded = any(m is not None and ident & set(m[1]) for m in event.made)
            how = bool(ident & set(event.recording)), recorded
            blocked = tuple(
                _why_blocked(event.name, op, k, event.dtypes, *how)
                for k in range(len(event.inputs))
            )
            found.append(_Use(event.name, event.inputs, event.outputs, blocked, event.location))
        return found

    def watched(self, source: Any, ident: set[int]) -> tuple[set[int], bool, Location | None]:
        """The numbers of the values that the source had, whether the tape knew one of them when it
        was used, and the line of the first use."""
        keys = {self.key(source)}
        is_known, first = False, None
        for event in self.events:
            for key, node, known in zip(event.inputs, event.nodes, event.known, strict=True):
                if key in keys or (node is not None and node is source._node):
                    keys.add(key)
                    is_known = is_known or bool(ident & set(known))
                    first = first or event.location
        return keys, is_known, first


def _why_blocked(
    name: str, op: Op | None, k: int, dtypes: Sequence[str], recording: bool, recorded: bool
) -> _Reason | None:
    """Why no gradient comes to input k of an op; None where one does."""
    if name == "stop_gradient":
        return "stop_gradient", "tl.stop_gradient ends the gradient here", None
    if not any(dtype.startswith(("float", "complex")) for dtype in dtypes):
        return (
            "dtype",
            f"{name} gives {', '.join(sorted(set(dtypes)))} here, and only float and complex "
            "tensors have gradients; keep to floats, or use a smooth formula",
            None,
        )
    if op is not None and op.joint_vjp is None and op.vjps and op.vjps[k] is None:
        message = f"{name} has no gradient by its input {k}: its slope is 0 or undefined"
        return "no rule", message, None
    if not recording:
        return (
            "not recorded",
            f"{name} ran while the tape did not record: outside of its `with` block, or inside of "
            "stop_recording",
            None,
        )
    if op is not None and op.has(Trait.CALL) and op.subgraphs:
        return _why_blocked_inside(op, k)
    if not recorded:
        return "unknown", f"the tape did not record {name}", None
    return None


def _why_blocked_inside(op: Op, k: int) -> _Reason | None:
    """The same for a compiled call: no result may have a gradient by the input."""
    graph = op.subgraphs[0]
    uses = _graph_uses(graph)
    found: _Reason = "no path", "", None
    for output in graph.outputs:
        kind, message, location = _find_break(uses, {graph.placeholders[k]}, output)
        if kind == "connected":
            return None
        if kind != "no path":
            name = graph.name
            found = kind, f"inside of the compiled function {name}: {message}", location
    return found


def _find_break(uses: Sequence[_Use], start: set[int], target: int) -> _Reason:
    """Where the way from the start to the target ends."""
    if target in start:
        return "connected", "", None
    maker: dict[int, _Use] = {}
    live = set(start)
    for use in uses:
        places = [k for k, key in enumerate(use.inputs) if key in maker or key in start]
        if not places:
            continue
        flows = any(use.inputs[k] in live and use.blocked[k] is None for k in places)
        for key in use.outputs:
            maker[key] = use
            if flows:
                live.add(key)
    if target in live:
        return "connected", "", None
    at = target
    while at in maker:
        use = maker[at]
        for key, reason in zip(use.inputs, use.blocked, strict=True):
            if key in live and reason is not None:
                return reason[0], reason[1], reason[2] or use.location
        at = next(key for key in use.inputs if key in maker)
    return "no path", "", None


def _graph_uses(graph: Graph) -> list[_Use]:
    """The nodes of a graph as ops that a tape records."""
    found = []
    for at, op in enumerate(graph.ops):
        if not graph.inputs[at]:
            continue
        spec = graph.specs[at]
        dtypes = [each.dtype.name for each in (spec if isinstance(spec, tuple) else (spec,))]
        inputs = tuple(graph.inputs[at])
        blocked = tuple(
            None if op is PICK else _why_blocked(op.name, op, k, dtypes, True, True)
            for k in range(len(inputs))
        )
        found.append(_Use(op.name, inputs, (at,), blocked, graph.locations[at]))
    return found


def explain(tape: Tape, target: Any, source: Any) -> Explanation:
    """Why the gradient of `target` by `source` is None; see `tapeline.debugging.why_none`."""
    early = _without_memory(tape, target, source)
    memory = current()
    if early is not None:
        return early
    if memory is None:
        return Explanation(
            "unknown",
            "why_none: to find the line, run the program again inside of "
            "`with tl.debugging.remember_ops():` and ask before the block ends",
        )
    ident = memory.idents.get(id(tape), set())
    keys, is_known, first = memory.watched(source, ident)
    if not is_known:
        return _not_watched(tape, source, first)
    uses = memory.uses(ident)
    kind, message, location = _find_break(uses, keys, memory.key(target))
    if kind == "connected":
        message = "the target depends on the source on this tape, so there is a gradient"
    elif kind == "no path":
        departed = _departed(memory, uses, keys)
        if departed is not None:
            return departed
        message = "no op of this block leads from the source to the target"
    return Explanation(kind, message, location)


def _departed(memory: Memory, uses: Sequence[_Use], keys: set[int]) -> Explanation | None:
    """Whether something that depends on the source became a NumPy array or a Python number."""
    derived = set(keys)
    for use in uses:
        if derived & set(use.inputs):
            derived |= set(use.outputs)
    for key, what, location in memory.departures:
        if key in derived and location is not None:
            return Explanation(
                "left through NumPy",
                f"{what} leaves Tapeline, and what NumPy or Python makes of it is a constant to "
                "the tape; use Tapeline's functions, or tl.custom_gradient around foreign code",
                location,
            )
    return None


def _without_memory(tape: Tape, target: Any, source: Any) -> Explanation | None:
    """What can be told without the history."""
    for what, x in (("source", source), ("target", target)):
        if x.dtype.kind not in "fc":
            return Explanation(
                "dtype",
                f"the {what} is of {x.dtype}, and only float and complex tensors have gradients; "
                "convert with astype(tl.float64) before the computation",
            )
    if tape._own is None:
        return Explanation("not recorded", "the tape was never entered; use `with tape:`")
    if current() is not None or tape._is_used:
        return None
    node = source._node
    if node is None or not set(tape._own.ids) & set(node.tapes.ids):
        return _not_watched(tape, source, None)
    if target._node is None or not set(tape._own.ids) & set(target._node.tapes.ids):
        return Explanation(
            "not recorded",
            "the tape knows the source but recorded nothing that leads to the target; run the "
            "program inside of `with tl.debugging.remember_ops():` to see the line",
        )
    return None


def _not_watched(tape: Tape, source: Any, location: Location | None) -> Explanation:
    if type(source) is Tensor:
        how = "call tape.watch(x) inside of its block, before x is used"
    elif not source.trainable:
        how = "the Variable is not trainable; call tape.watch(variable)"
    elif not tape.watch_accessed_variables:
        how = "it was made with watch_accessed_variables=False; call tape.watch(variable)"
    else:
        how = "read the Variable inside of its block"
    return Explanation("not watched", f"the tape does not watch the source: {how}", location)


class _Current(threading.local):
    memory: Memory | None = None


_CURRENT = _Current()


def current() -> Memory | None:
    """The innermost block of this thread that remembers ops."""
    return _CURRENT.memory
