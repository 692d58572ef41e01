"""A graph that can be called on tensors, and that tapes record as one op.

Without a tape the inference executable runs. Where a tape watches inputs, the forward executable of
a pair runs: its further outputs, the residuals, are what the backward executable needs. Where
something may record the backward itself, the backward is again a compiled graph, of the inputs and
the cotangents, so any order of derivative works.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapeline.compiler.autodiff import control as _control  # noqa: F401  # gives loops gradients
from tapeline.compiler.autodiff.joint import Joint, build_joint, is_differentiable_kind
from tapeline.compiler.autodiff.pair import Pair, build_pair
from tapeline.compiler.autodiff.room import larger_room, room_now, with_room
from tapeline.compiler.call_rules import Mask, as_tuple, joint_rule, single_rule, spread
from tapeline.compiler.codegen.native_call import (
    NativeEntry,
)
from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.compiled import Array, Compiled, optimize
from tapeline.compiler.frontend.capture import CapturingGraph
from tapeline.compiler.frontend.replay import replay
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CALL_PREFIX, make_call_op
from tapeline.compiler.passes.pipeline import BEFORE_GRADIENTS, run_pipeline
from tapeline.runtime.at_work import examples_at_work, only_at_work
from tapeline.runtime.batching.level import Level
from tapeline.runtime.dispatch import GUARDING, STATE, bind, finish, is_guarded
from tapeline.runtime.errors import LoopLimitError
from tapeline.runtime.op import OUT, RESIDUAL, Attrs, Op, Saved, Vjp
from tapeline.runtime.record import TapeSet, join, meet, record_one
from tapeline.runtime.spec import spec_of
from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    from tapeline.compiler.codegen.entry_spec import EntrySpec


class _Rules:
    """How the call of a graph is differentiated and batched: what an op needs that is such a call.
    It does not know that op, so that neither keeps the other alive.

    The gradients come from the inputs. That serves traces, and where the backward may itself be
    recorded.
    """

    def __init__(self, graph: Graph, manner: Manner) -> None:
        self.graph = graph
        self.manner = manner
        self._lock = threading.RLock()
        self._room = 1
        """How many times the first room loops have for what their gradients need."""
        self._vjps: dict[tuple[Mask, bool, bool, int], tuple[Joint, DifferentiableGraph]] = {}
        self._batched: dict[tuple[int, tuple[bool, ...], bool], DifferentiableGraph] = {}
        self._simplified: Graph | None = None

    @property
    def simplified(self) -> Graph:
        """The graph as it is differentiated."""
        if self._simplified is None:
            self._simplified = run_pipeline(self.graph, BEFORE_GRADIENTS)
        return self._simplified

    def vjp_graph(
        self, wrt: Mask, guarded: bool = False, sparse: bool = False
    ) -> tuple[Joint, DifferentiableGraph]:
        """The graph from inputs and cotangents to the gradients of these inputs."""
        with self._lock, with_room(self._room):
            key = wrt, guarded, sparse, room_now()
            found = self._vjps.get(key)
            if found is None:
                joint = build_joint(self.simplified, wrt, guarded, sparse)
                graph = joint.graph
                graph.outputs = graph.outputs[joint.n_outputs :]
                graph.name = f"{self.graph.name}_vjp"
                found = joint, DifferentiableGraph(optimize(graph), self.manner)
                self._vjps[key] = found
            return found

    def vjp(
        self, cts: Sequence[Any], attrs: Attrs, needed: Sequence[bool], *saved: Any
    ) -> tuple[Any, ...]:
        """The gradients of the inputs, `saved`."""
        wrt = tuple(
            position
            for position, wanted in enumerate(needed)
            if wanted and is_differentiable_kind(saved[position].dtype.kind)
        )
        last: int | None = None
        while True:
            try:
                found = self._gradients(wrt, cts, saved)
                return spread(len(saved), wrt, range(len(wrt)), found)
            except LoopLimitError as error:
                self._room = larger_room(self._room, error, last)
                last = error.room

    def _gradients(self, wrt: Mask, cts: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
        joint, backward = self.vjp_graph(wrt, is_guarded(), STATE.sparse)
        given = [*saved, *(cts[k] for k in joint.differentiable)]
        gradients: Sequence[Any]
        if any(type(value) is Tensor for value in given):
            tensors = [v if type(v) is Tensor else wrap(np.asarray(v)) for v in given]
            gradients = backward(tensors)
        else:
            gradients = as_tuple(backward.compiled(*given))
        return list(joint.gather(gradients))

    def batch(
        self, op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
    ) -> Any:
        """The outputs for many examples, by a graph made for that number of them."""
        mask = examples_at_work()
        key = size, tuple(mapped), mask is not None
        with self._lock:
            found = self._batched.get(key)
            if found is None:
                graph = self._batched_graph(*key)
                found = self._batched[key] = DifferentiableGraph(graph, self.manner)
        with only_at_work(None):
            outputs = found(inputs if mask is None else (mask, *inputs))
        return outputs[0] if len(outputs) == 1 else outputs

    def _batched_graph(self, size: int, mapped: tuple[bool, ...], is_masked: bool) -> Graph:
        graph = CapturingGraph(f"{self.graph.name}_batched")
        with graph.tracing():
            mask = None
            if is_masked:
                mask = graph.placeholder_tensor(spec_of((size,), np.dtype(np.bool_)), "at_work")
            level = Level(size, mask)
            cells = []
            for node, is_mapped in zip(self.graph.placeholders, mapped, strict=True):
                spec = self.graph.spec(node)
                shape = (size, *spec.static_shape) if is_mapped else spec.static_shape
                name = str(self.graph.attrs[node][0])
                placeholder = graph.placeholder_tensor(spec_of(shape, spec.dtype), name)
                cells.append(level.cell(placeholder, is_mapped))
            with level.inside():
                results = replay(self.graph, cells)
            graph.outputs = [graph.value_id(level.examples(result)) for result in results]
        return optimize(graph)


_MASKS = 8
"""Sets of watched inputs per graph that native entries serve."""


class Recorded(NamedTuple):
    """What serves calls under tapes that watch certain inputs."""

    op: Op
    pair: Pair
    forward: Compiled
    backward: Compiled
    n_outputs: int
    """Outputs of the graph. Where there is one, the tape's node has one value; it saves the inputs,
    then the outputs of the forward half that the backward half takes."""


class DifferentiableGraph:
    """A compiled graph as an op that tapes record.

    Parameters
    ----------
    graph : Graph
        A traced graph.
    manner : bool
        Whether products and sums of floats may be fused and regrouped, in all code made of it.
    max_bytes : int, optional
        How much a call under a tape may keep for its gradient.
    """

    def __init__(self, graph: Graph, manner: Manner = PLAIN, max_bytes: int | None = None) -> None:
        self.graph = graph
        self.manner = manner
        self.max_bytes = max_bytes
        self.compiled = Compiled(graph, manner)
        self.n_inputs = len(graph.placeholders)
        self.n_outputs = len(graph.outputs)
        self._rules = _Rules(graph, manner)
        self.op = self._call_op()
        self._lock = threading.RLock()
        self._pairs: dict[Mask, Recorded] = {}
        self._room = 1
        """How many times the first room loops have for what their gradients need."""
        self._entries: list[tuple[NativeEntry, EntrySpec]] = []
        self._recording: list[Mask] = []
        """What calls were recorded for more than once: entries serve that too."""

    @property
    def simplified(self) -> Graph:
        """The graph as it is differentiated."""
        return self._rules.simplified

    def vjp_graph(
        self, wrt: Mask, guarded: bool = False, sparse: bool = False
    ) -> tuple[Joint, DifferentiableGraph]:
        """The graph from inputs and cotangents to the gradients of these inputs."""
        return self._rules.vjp_graph(wrt, guarded, sparse)

    @property
    def seconds(self) -> tuple[float, float]:
        """Spent in passes and in code generation, with and without a tape."""
        made = [self.compiled]
        for pair in list(self._pairs.values()):
            made += [pair.forward, pair.backward]
        return sum(one.optimizing for one in made), sum(one.compiling for one in made)

    def __call__(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The outputs for these tensors; recorded as one op where a tape watches one of them."""
        active = STATE.active
        if active is None or STATE.handler is not None or STATE.callbacks:
            results = bind(self.op, inputs)
        else:
            results = self._call_taped(inputs, active)
        if self.op.n_outputs is None and type(results) is Tensor:
            return (results,)
        return results[: self.n_outputs]  # type: ignore[no-any-return]  # a tuple of tensors

    def _call_taped(self, inputs: Sequence[Tensor], active: TapeSet) -> Any:
        """`bind` with the op that serves the inputs which the tapes watch."""
        watched, values, parents = [], [], []
        tapes: TapeSet | None = None
        for position, tensor in enumerate(inputs):
            node = tensor._node
            values.append(tensor._value)
            parents.append(node)
            if node is not None:
                found = node.tapes
                if found is not active:
                    common = meet(found, active)
                    if common is None:
                        continue
                    found = common
                watched.append(position)
                tapes = found if tapes is None or tapes is found else join(tapes, found)
        if tapes is None:
            return finish(self.op, (), values, self.compiled(*values), tuple(parents), None)
        mask = tuple(watched)
        recorded = self._pairs.get(mask)
        if recorded is None:
            recorded = self.recorded(mask)
        elif mask not in self._recording and len(self._recording) < _MASKS:
            self._serve_recording(mask)
        try:
            results = recorded.forward(*values)
        except LoopLimitError as error:
            recorded, results = self._with_more_room(mask, values, error)
        if recorded.n_outputs != 1:
            return finish(recorded.op, (), values, results, tuple(parents), tapes)
        outputs = as_tuple(results)
        if not is_differentiable_kind(outputs[0].dtype.kind):
            return wrap(outputs[0])
        saved = (*values, *[outputs[k] for k in recorded.pair.saved_outputs])
        return wrap(outputs[0], record_one(recorded.op, (), tuple(parents), saved, tapes))

    def _with_more_room(
        self, watched: Mask, values: Sequence[Array], error: LoopLimitError
    ) -> tuple[Recorded, Any]:
        """What serves the call where a loop makes more turns than there was room for, and what its
        forward half gives."""
        last: int | None = None
        while True:
            self._room = larger_room(self._room, error, last)
            with self._lock:
                recorded = self._pairs[watched] = self._build_pair(watched)
            try:
                return recorded, recorded.forward(*values)
            except LoopLimitError as again:
                error, last = again, error.room

    def add_entry(self, entry: NativeEntry, spec: EntrySpec) -> None:
        """Takes note of an entry that serves calls without history."""
        with self._lock:
            self._entries.append((entry, spec))
            for watched in self._recording:
                self._add_recording_entry(entry, spec, watched)

    def _serve_recording(self, watched: Mask) -> None:
        with self._lock:
            if watched not in self._recording:
                self._recording.append(watched)
                for entry, spec in self._entries:
                    self._add_recording_entry(entry, spec, watched)

    def _add_recording_entry(self, entry: NativeEntry, spec: EntrySpec, watched: Mask) -> None:
        from tapeline.compiler.native import add_recording_entry  # loads LLVM

        add_recording_entry(entry, spec, self.recorded(watched), watched)

    def _call_op(self) -> Op:
        return make_call_op(
            f"{CALL_PREFIX}{self.graph.name}", self.graph, self.compiled,
            joint_vjp=self._rules.vjp, saves=tuple(range(self.n_inputs)),
            batch=self._rules.batch,
        )  # fmt: skip

    # ---- gradients from residuals: the fast way of a plain tape

    def recorded(self, watched: Mask) -> Recorded:
        """What serves a call under a tape that watches the inputs at these positions."""
        found = self._pairs.get(watched)
        if found is None:
            with self._lock:
                found = self._pairs.get(watched)
                if found is None:
                    found = self._pairs[watched] = self._build_pair(watched)
        return found

    def pair(self, watched: Mask) -> Pair:
        """The forward and backward graphs for a tape that watches the inputs at these positions."""
        return self.recorded(watched).pair

    def compiled_pair(self, watched: Mask) -> tuple[Compiled, Compiled]:
        """Forward and backward for a tape that watches the inputs at these positions."""
        found = self.recorded(watched)
        return found.forward, found.backward

    def _build_pair(self, watched: Mask) -> Recorded:
        wrt = tuple(
            p
            for p in watched
            if is_differentiable_kind(self.graph.spec(self.graph.placeholders[p]).dtype.kind)
        )
        rules = self._rules
        with with_room(self._room):
            joint = build_joint(rules.simplified, wrt)
        pair = build_pair(joint, optimize, self.max_bytes)
        forward, backward = (Compiled(g, self.manner) for g in (pair.forward, pair.backward))
        specs = [self.graph.spec(node) for node in self.graph.outputs]
        n_inputs = self.n_inputs

        def backpropagate(
            cts: Sequence[Any], attrs: Attrs, needed: Sequence[bool], *saved: Any
        ) -> tuple[Any, ...]:
            given = [
                np.zeros(specs[k].static_shape, specs[k].dtype) if cts[k] is None else cts[k]
                for k in pair.differentiable
            ]
            values = [*saved, *given]
            STATE.masked = True
            if GUARDING[0] or any(type(value) is Tensor for value in values):
                full = list(cts[: len(specs)])
                for k, ct in zip(pair.differentiable, given, strict=True):
                    full[k] = ct
                return rules.vjp(full, attrs, needed, *saved[:n_inputs])
            kept = [saved[k] for k in pair.kept]
            arrays = [np.asarray(value) for value in (*kept, *given)]
            gradients = as_tuple(backward(*arrays))
            return spread(n_inputs, wrt, pair.gradients, gradients)

        is_single = len(specs) == 1
        kept: list[Saved] = [RESIDUAL if is_single else OUT - k for k in pair.saved_outputs]
        saves = (*range(n_inputs), *kept)
        vjps: tuple[Vjp | None, ...] = ()
        if is_single and len(wrt) == 1 and pair.gradients[0] is not None:
            (position,) = wrt
            rule = single_rule(
                backward, backpropagate, pair.kept, position, len(saves), joint.masks
            )
            vjps = tuple(rule if k == position else None for k in range(n_inputs))
        else:
            whole_rule = joint_rule(
                backward, backpropagate, pair, specs, wrt, n_inputs, len(saves), joint.masks
            )
        meaning = self.graph if is_single else pair.forward
        op = make_call_op(
            f"{CALL_PREFIX}{self.graph.name}", meaning, forward, vjps=vjps,
            joint_vjp=None if vjps else whole_rule, accepts_none=True, saves=saves, masks=False,
        )  # fmt: skip
        return Recorded(op, pair, forward, backward, len(specs))
