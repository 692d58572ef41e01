"""A graph of which sizes depend on values, as something to call: stage by stage.

Each stage runs for the sizes that were told before it. Sizes that come for the first time are
served by a script, which costs what the ops cost in NumPy; for those that come again, and for
loops, the stage is compiled like any other graph. Tapes record what runs, so gradients need no
rules of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.compiled import OBSERVER
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.specialize import Specializer
from tapeline.compiler.ir.control_ops import is_loop
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.compiler.staged.callable import call_op
from tapeline.compiler.staged.other_sizes import OtherSizes
from tapeline.compiler.staged.rooms import fits_a_room
from tapeline.compiler.staged.script import Script, script_of
from tapeline.compiler.staged.stages import (
    Stage,
    Teller,
    begin_alike,
    cut,
    is_sized,
)
from tapeline.runtime.dims import COMPARE, Dim
from tapeline.runtime.dispatch import STATE, bind
from tapeline.runtime.op import Op
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.tensor import Tensor, new_tensor, wrap
from tapeline.runtime.value_sizes import bind_sized

MAX_CASES = 128
"""For how many sizes a stage keeps native code."""
_WORTH_PLANNING = 5e-3
"""Seconds that scripts may spend on one size before it is compiled, as long as nobody knows what
that costs for the stage."""
_REMEMBERED = 4096


class StagedGraph:
    """What `DifferentiableGraph` is for graphs whose sizes do not depend on values.

    Parameters
    ----------
    graph : Graph
        A traced graph.
    sizes : Sizes
        Its open sizes: all of them depend on values.
    manner : Manner
        How code is made.
    max_bytes : int, optional
        How much a call under a tape may keep for its gradient, per stage.
    """

    def __init__(
        self, graph: Graph, sizes: Sizes, manner: Manner = PLAIN, max_bytes: int | None = None
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.manner = manner
        self.max_bytes = max_bytes
        self.n_inputs = len(graph.placeholders)
        self.n_outputs = len(graph.outputs)
        self.stages = [_StageCode(self, stage) for stage in cut(graph)]
        self._drops = self._last_uses()
        self._constants = {
            node: new_tensor(value)
            for node in range(len(graph))
            if (value := graph.constant_value(node)) is not None
        }
        self._arrays = {node: tensor._value for node, tensor in self._constants.items()}
        given = {*graph.placeholders, *self._constants}
        self._given_outputs = [k for k, node in enumerate(graph.outputs) if node in given]

    def _last_uses(self) -> list[list[int]]:
        """For each stage what is not needed any more when it is over. While conditions may fail,
        all is kept, for another trace may need it."""
        asked = [k for k in range(len(self.stages)) if self.sizes.conditions_on(k)]
        settled = asked[-1] + 1 if asked else 0
        held: set[int | None] = set(self.graph.placeholders)
        for code in self.stages:
            held.update(code.stage.outputs)
            held.update(code.stage.teller.results if code.stage.teller else ())
        found: list[list[int]] = [[] for _ in self.stages]
        for number, code in enumerate(self.stages[:-1]):
            found[max(number, settled)] += [node for node in code.stage.last if node in held]
        found[-1].clear()
        return found

    @property
    def seconds(self) -> tuple[float, float]:
        """Spent in passes and in code generation, in all stages."""
        spent = [case.seconds for code in self.stages for case in list(code.cases.values())]
        return sum(a for a, _ in spent), sum(b for _, b in spent)

    def traced_stages(self) -> list[Graph]:
        """The stages as graphs, for the sizes of the call that was traced."""
        filler = Specializer(self.sizes, self.sizes.values, call_op)
        return [filler.graph(code.stage.graph)[0] for code in self.stages if not code.is_empty]

    def __call__(
        self, inputs: Sequence[Tensor], other: OtherSizes | None = None
    ) -> tuple[Tensor, ...]:
        """The outputs for these tensors; from where a call of another trace stopped, if one did.

        Raises
        ------
        OtherSizes
            If the sizes on the way do not fit the trace.
        """
        first, sizes = (0, ()) if other is None else (other.stage, other.sizes)
        if other is None and STATE.handler is None and _is_unwatched(inputs):
            arrays = dict(self._arrays)
            for node, tensor in zip(self.graph.placeholders, inputs, strict=True):
                arrays[node] = tensor._value
            return self._run(arrays, first, sizes, raw=True)
        values: dict[int, Any] = dict(self._constants)
        if other is not None:
            values |= {node: value for node, value in other.values.items() if node < other.end}
        values.update(zip(self.graph.placeholders, inputs, strict=True))
        if STATE.handler is not None:
            return self._inlined(values, other)
        return self._run(values, first, sizes, raw=False)

    def _run(
        self, values: dict[int, Any], first: int, sizes: tuple[int, ...], raw: bool
    ) -> tuple[Tensor, ...]:
        """The outputs, from a stage on; values are arrays if `raw`, else tensors."""
        for number in range(first, len(self.stages)):
            if sizes and not self.sizes.hold(sizes, len(sizes) - 1):
                raise self._other_sizes(number, sizes, values)
            code = self.stages[number]
            stage = code.stage
            outputs = code.run([values[node] for node in stage.inputs], sizes, raw)
            values.update(zip(stage.outputs, outputs, strict=True))
            if stage.teller is not None:
                sizes = (*sizes, _tell(stage.teller, values, raw))
            for node in self._drops[number]:
                values.pop(node, None)
        found = [values[node] for node in self.graph.outputs]
        for k in self._given_outputs:  # which others hold as well
            given = found[k]
            found[k] = given.copy() if raw else wrap(given._value.copy(), given._node)
        return tuple([wrap(array) for array in found] if raw else found)

    def _other_sizes(
        self, number: int, sizes: tuple[int, ...], values: dict[int, Any]
    ) -> OtherSizes:
        teller = self.stages[number - 1].stage.teller
        assert teller is not None
        values = {n: v if type(v) is Tensor else wrap(np.asarray(v)) for n, v in values.items()}
        failed = self.sizes.first_failure(sizes)
        return OtherSizes(self.graph, teller.end, number, sizes, values, str(failed))

    def goes_on(self, other: OtherSizes) -> bool:
        """Whether it can go on where a call of another trace stopped."""
        stages = self.stages[: other.stage]
        if len(stages) < other.stage or not self.sizes.hold(other.present):
            return False
        teller = stages[-1].stage.teller
        is_like = teller is not None and teller.end == other.end
        return is_like and begin_alike(self.graph, other.graph, other.end)

    def _inlined(self, values: dict[int, Any], other: OtherSizes | None) -> tuple[Tensor, ...]:
        """The outputs in a trace around: the ops become part of it."""
        graph = self.graph
        known: list[Any] = [] if other is None else list(other.sizes)
        ops: dict[Op, Op] = {}
        for node in range(0 if other is None else other.end, len(graph)):
            op, attrs = graph.ops[node], graph.attrs[node]
            arguments = [values[k] for k in graph.inputs[node]]
            if op is PLACEHOLDER:
                continue
            if op is CONSTANT:
                values[node] = _constant(self._constants[node])
            elif op is PICK:
                values[node] = arguments[0][attrs[0]]
            elif is_sized(op):
                made = bind_sized(op, arguments, None, tuple(attrs[:-1]))
                values[node] = made
                known.append((made if type(made) is Tensor else made[0]).shape[-1])
            else:
                filler = Specializer(self.sizes, known, call_op)
                if op not in ops:
                    ops[op] = filler.op(op)
                values[node] = bind(ops[op], arguments, filler.fill(attrs))
            if known and self.stages[len(known) - 1].ends_at(node):
                self._ask_again(known, values)
        return tuple([values[node] for node in graph.outputs])

    def _ask_again(self, known: Sequence[Any], values: dict[int, Any]) -> None:
        """Asks the trace around what this one asked of the size that was told last."""
        for condition in self.sizes.conditions_on(len(known) - 1):
            left, right = (
                self.sizes.evaluate(size, known) for size in (condition.left, condition.right)
            )
            if bool(COMPARE[condition.relation](left, right)) is not condition.holds:
                teller = self.stages[len(known) - 1].stage.teller
                assert teller is not None
                raise OtherSizes(
                    self.graph, teller.end, len(known), tuple(known), values, str(condition)
                )


def _constant(tensor: Tensor) -> Tensor:
    """A constant, as one of the trace under way."""
    handler = STATE.handler
    if isinstance(handler, CapturingGraph):
        return handler.tensor(handler.add_constant(tensor._value, handler.location))
    return tensor


def _is_unwatched(inputs: Sequence[Tensor]) -> bool:
    """Whether nobody wants to know which ops are applied to these tensors."""
    if STATE.callbacks:
        return False
    return STATE.active is None or all(tensor._node is None for tensor in inputs)


def _tell(teller: Teller, values: dict[int, Any], raw: bool) -> int:
    """Runs the op that tells a size."""
    inputs, attrs = [values[k] for k in teller.inputs], (*teller.attrs, None)
    found = teller.op.kernel(*inputs, *attrs) if raw else bind(teller.op, inputs, attrs)
    results = found if isinstance(found, tuple) else (found,)
    for node, result in zip(teller.results, results, strict=True):
        if node is not None:
            values[node] = result
    return int(results[0].shape[-1])


def _called(case: DifferentiableGraph, inputs: Sequence[Any], raw: bool) -> Sequence[Any]:
    if not raw:
        return case(inputs)
    found = case.compiled(*inputs)
    return found if isinstance(found, tuple) else (found,)


class _StageCode:
    """A stage and what runs it, by sizes."""

    def __init__(self, owner: StagedGraph, stage: Stage) -> None:
        self.owner = owner
        self.stage = stage
        graph = stage.graph
        self.symbols = _symbols(graph, owner.sizes)
        self.is_final = stage.teller is None
        self.is_heavy = any(
            is_loop(op) and not fits_a_room(op, [graph.spec(k) for k in graph.inputs[node]])
            for node, op in enumerate(graph.ops)
        )
        self.is_empty = len(graph) == len(graph.placeholders)
        self.cases: dict[tuple[int, ...], DifferentiableGraph] = {}
        self._spent: dict[tuple[int, ...], float] = {}
        self._worth = _WORTH_PLANNING
        self._usual: dict[bool, float] = {}
        """What a script takes of late, with and without tapes; 0 after the first time."""
        self._scripts: dict[bool, Script] = {}
        self._lock = threading.RLock()
        results = set(owner.graph.outputs)
        self._results = [k for k, node in enumerate(stage.outputs) if node in results]

    def ends_at(self, node: int) -> bool:
        """Whether the node is the last one of the stage, with what tells the next size."""
        teller = self.stage.teller
        return teller is not None and teller.end == node + 1

    def run(self, inputs: Sequence[Any], sizes: tuple[int, ...], raw: bool) -> Sequence[Any]:
        """The outputs for these sizes: arrays of arrays if `raw`, else tensors of tensors."""
        if self.is_empty:
            return ()
        key = tuple([sizes[k] for k in self.symbols])
        case = self.cases.get(key)
        if case is not None:
            return _called(case, inputs, raw)
        is_worth_it = not self.symbols or self._spent.get(key, 0.0) > self._worth
        if is_worth_it or self.is_heavy or OBSERVER[0] is not None:
            case = self.case(key, sizes)
            outputs = _called(case, inputs, raw)
            self._worth = (self._worth + sum(case.seconds)) / 2
            return outputs
        start = time.perf_counter()
        outputs = self._run_script(inputs, sizes, raw)
        self._charge(key, raw, time.perf_counter() - start)
        return outputs

    def case(self, key: tuple[int, ...], sizes: Sequence[int]) -> DifferentiableGraph:
        """The compiled stage for these sizes, made if need be."""
        with self._lock:
            found = self.cases.get(key)
            if found is None:
                if len(self.cases) >= MAX_CASES:
                    del self.cases[next(iter(self.cases))]
                graph, manner = self.stage.graph, self.owner.manner
                if self.symbols:
                    graph, _ = Specializer(self.owner.sizes, sizes, call_op).graph(graph)
                    manner = manner._replace(open_sizes=True)
                found = DifferentiableGraph(graph, manner, self.owner.max_bytes)
                self.cases[key] = found
            return found

    def _run_script(
        self, inputs: Sequence[Any], sizes: tuple[int, ...], raw: bool
    ) -> Sequence[Any]:
        script = self._script(raw)
        if not raw:
            outputs: Sequence[Tensor] = script(sizes, *inputs)
            return outputs
        with np.errstate(all="ignore"):
            arrays = [np.asarray(array) for array in script(sizes, *inputs)]
        for k in self._results:
            if not arrays[k].flags.owndata:
                arrays[k] = arrays[k].copy()  # it may be memory of an argument
        return arrays

    def _charge(self, key: tuple[int, ...], raw: bool, seconds: float) -> None:
        """Remembers what a script took for these sizes; outliers, which compile, count little."""
        usual = self._usual.get(raw)
        if usual is None:
            self._usual[raw] = 0.0  # the first one is no measure
            return
        seconds = min(seconds, 4 * usual) if usual else seconds
        if len(self._spent) >= _REMEMBERED:
            self._spent.clear()
        self._spent[key] = self._spent.get(key, 0.0) + seconds
        self._usual[raw] = 0.8 * usual + 0.2 * seconds if usual else seconds

    def _script(self, raw: bool) -> Script:
        found = self._scripts.get(raw)
        if found is None:
            owner = self.owner
            found = script_of(self.stage.graph, owner.sizes, call_op, owner.manner, raw)
            self._scripts[raw] = found
        return found


def _symbols(graph: Graph, sizes: Sizes) -> tuple[int, ...]:
    """The numbers of the symbols that a graph speaks of."""
    found: set[int] = set()

    def look(value: Any) -> None:
        if type(value) is Dim:
            found.update(sizes.symbols_in(value))
        elif type(value) is tuple:
            for part in value:
                look(part)

    pending = [graph]
    for one in pending:
        for specs in one.specs:
            for spec in specs if isinstance(specs, tuple) else (specs,):
                look(spec.shape)
        for attrs in one.attrs:
            look(tuple(attrs))
        pending += [inner for op in dict.fromkeys(one.ops) for inner in op.subgraphs]
    return tuple(sorted(found))
