"""Loops over arrays that are small enough to stay in registers: no turn reads or writes memory.

The state and what the loop reads besides are loaded before the first turn, as pieces (see
`pieces`), and stored after the last. Only rows go to and from memory on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tapeline.compiler.codegen.control_plan import LOOP_LIMIT, Argument, PreparedControl
from tapeline.compiler.codegen.loops import ONE, ZERO, int64
from tapeline.compiler.codegen.pieces import PieceBuilder, Pieces, is_in_pieces, piece_count
from tapeline.compiler.codegen.scalar import ScalarBuilder
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import Value, is_supported
from tapeline.compiler.ir.control_ops import LoopForm, is_cond, is_loop, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.spec import TensorSpec

MOST_ELEMENTS = 256
"""Elements of an array that may stay in registers."""

MOST_INSTRUCTIONS = 1500
"""Vector instructions of a turn, roughly; more take long to compile."""


def stays_in_registers(op: Op, attrs: Attrs, target: Target) -> bool:
    """Whether all arrays of a loop are few and small enough, and nothing in it needs memory."""
    if not is_loop(op):
        return False
    form = loop_form(op, attrs)
    specs = [form.body.spec(node) for node in form.body.placeholders]
    if not any(spec.shape for spec in specs[: form.n_state]):
        return False
    if not all(_fits(graph) for graph in _graphs(op)):
        return False
    lanes = lanes_of(op, target)
    kept = (*specs[: form.n_state], *specs[form.n_state + form.n_xs :])
    room = 24 if target.avx512 else 12
    if sum(piece_count(spec, lanes) for spec in kept if spec.shape) > room:
        return False
    count = sum(
        piece_count(graph.spec(node), lanes)
        for graph in _graphs(op)
        for node in range(len(graph))
        if isinstance(graph.specs[node], TensorSpec)
    )
    return count <= MOST_INSTRUCTIONS


def lanes_of(op: Op, target: Target) -> int:
    """Lanes of a piece: as many as the widest arrays leave room for."""
    sizes = [
        spec.dtype.itemsize
        for graph in _graphs(op)
        for spec in graph.specs
        if isinstance(spec, TensorSpec) and spec.shape
    ]
    return target.lanes(max(sizes, default=8))


def _graphs(op: Op) -> Iterator[Graph]:
    """The graphs of an op, and those of the ops in them."""
    for graph in op.subgraphs:
        yield graph
        for inner in dict.fromkeys(graph.ops):
            yield from _graphs(inner)


def _fits(graph: Graph) -> bool:
    for node, op in enumerate(graph.ops):
        specs = graph.specs[node]
        for spec in (specs,) if isinstance(specs, TensorSpec) else specs:
            if not is_supported(spec.dtype) or not 0 < spec.size <= MOST_ELEMENTS:
                return False
        if op is PLACEHOLDER or op is CONSTANT or op is PICK or is_cond(op):
            continue
        if is_loop(op):
            form = loop_form(op, graph.attrs[node])
            if form.n_xs or form.n_ys:
                return False
        elif not op.is_pure or not is_in_pieces(graph, node):
            return False
    return True


class RegisterLoop:
    """Emits one such loop.

    Parameters
    ----------
    fail : callable
        `fail(condition, number, code)`: ends the function with a status unless the condition holds.
    """

    def __init__(self, b: ScalarBuilder, lanes: int, fail: Any) -> None:
        self.b = b
        self.pieces = PieceBuilder(b, lanes)
        self.fail = fail

    def emit(
        self,
        made: PreparedControl,
        arguments: Sequence[Argument],
        targets: Sequence[str | None],
    ) -> list[Value | None]:
        """Emits a loop whose arrays lie in memory; its numbers are returned, arrays go to
        `targets`."""
        step = made.step
        form = loop_form(step.op, step.attrs)
        specs = [form.body.spec(node) for node in form.body.placeholders]
        state, xs, captures = form.split(arguments)
        offsets = [0 if placed is None else placed.layout.offset for placed in step.inputs]
        place_state, place_xs, place_captures = form.split(offsets)
        n, m = form.n_state, form.n_state + form.n_xs
        loaded = [
            self._loaded(*one) for one in zip(state, place_state, specs[:n], strict=True)
        ]  # fmt: skip
        fixed = [
            self._loaded(*one) for one in zip(captures, place_captures, specs[m:], strict=True)
        ]
        rows = [
            self.b.pointer_offset(x.pointer or "", at)
            for x, at in zip(xs, place_xs, strict=True)
        ]  # fmt: skip
        limit = arguments[0].value if form.first else None
        results = self._loop(form, limit, loaded, fixed, rows, targets[form.first + n :])
        count, ends = results
        found: list[Value | None] = [count] if form.first else []
        for k, pieces in enumerate(ends):
            target = targets[form.first + k]
            if not specs[k].shape:
                found.append(pieces[0])
                continue
            found.append(None)
            if target is not None:
                self.pieces.store(pieces, target, specs[k])
        return [*found, *([None] * form.n_ys)]

    def _loaded(self, argument: Argument, offset: int, spec: TensorSpec) -> Pieces:
        if argument.value is not None:
            return (argument.value,)
        assert argument.pointer is not None
        return self.pieces.load(self.b.pointer_offset(argument.pointer, offset), spec)

    # ---- a loop

    def _loop(
        self,
        form: LoopForm,
        limit: Value | None,
        state: Sequence[Pieces],
        captures: Sequence[Pieces],
        rows: Sequence[str],
        targets: Sequence[str | None],
    ) -> tuple[Value, list[Pieces]]:
        """The number of turns and the last state."""
        b = self.b
        going = self._going(form, limit, ZERO, state, captures)
        head, done, before = b.new_label("loop"), b.new_label("done"), b.current
        b.branch_if(going, head, done)
        b.start_block(head)
        with b.scope():
            turn = b.open_phi(ZERO, before)
            phis = [[b.open_phi(x, before) for x in pieces] for pieces in state]
            now: list[Pieces] = [tuple(phi.value for phi in each) for each in phis]
            b.least[turn.value.name] = 0
            following = self._turn(form, limit, turn.value, now, captures, rows, targets)
            step = b.value(f"add nsw i64 {turn.value.name}, 1", "i8", 1)
            next_turn = b.hidden(step)
            again = self._going(form, limit, next_turn, following, captures)
            latch = b.current
            b.close_phi(turn, (next_turn, latch))
            for each, pieces in zip(phis, following, strict=True):
                for phi, x in zip(each, pieces, strict=True):
                    b.close_phi(phi, (x, latch))
        b.branch_if(again, head, done)
        b.start_block(done)
        count = b.phi((ZERO, before), (next_turn, latch))
        ends: list[Pieces] = [
            tuple(b.phi((x, before), (y, latch)) for x, y in zip(first, last, strict=True))
            for first, last in zip(state, following, strict=True)
        ]
        return count, ends

    def _going(
        self,
        form: LoopForm,
        limit: Value | None,
        turn: Value,
        state: Sequence[Pieces],
        captures: Sequence[Pieces],
    ) -> Value:
        """Whether there is one more turn."""
        b = self.b
        within = None if limit is None else b.compare("lt", turn, limit)
        if form.test is None:
            assert within is not None
            return within
        ((answer,),) = self.run(form.test, [*state, *captures])
        return answer if within is None else b.bit_and(within, answer)

    def _turn(
        self,
        form: LoopForm,
        limit: Value | None,
        turn: Value,
        state: Sequence[Pieces],
        captures: Sequence[Pieces],
        rows: Sequence[str],
        targets: Sequence[str | None],
    ) -> list[Pieces]:
        """The state after a turn."""
        b, body = self.b, form.body
        row = turn
        if form.reverse and limit is not None:
            row = b.sub(b.sub(limit, ONE), turn)
        if rows or form.n_ys:
            self._check_room(form, limit, row)
        given = []
        for pointer, node in zip(rows, body.placeholders[form.n_state :], strict=False):
            spec = body.spec(node)
            place = b.pointer_offset(pointer, b.mul(row, int64(spec.nbytes)))
            given.append(self.pieces.load(place, spec))
        ends = self.run(body, [*state, *given, *captures])
        written = zip(targets, body.outputs[form.n_state :], ends[form.n_state :], strict=True)
        for target, node, pieces in written:
            if target is not None:
                spec = body.spec(node)
                place = b.pointer_offset(target, b.mul(row, int64(spec.nbytes)))
                self.pieces.store(pieces, place, spec)
        return ends[: form.n_state]

    def _check_room(self, form: LoopForm, limit: Value | None, row: Value) -> None:
        """Fails where there are more turns than rows."""
        length = form.length
        assert length is not None
        if form.test is not None and (limit is None or limit.name != str(length)):
            fits = self.b.compare("lt", row, int64(length))
            self.fail(fits, int64(length), LOOP_LIMIT)

    # ---- a graph

    def run(self, graph: Graph, arguments: Sequence[Pieces]) -> list[Pieces]:
        """The outputs of a graph for these arguments."""
        values: list[Any] = [None] * len(graph)
        for node, given in zip(graph.placeholders, arguments, strict=True):
            values[node] = given
        for node, op in enumerate(graph.ops):
            if op is PLACEHOLDER:
                continue
            inputs = [values[i] for i in graph.inputs[node]]
            constant = graph.constant_value(node)
            if constant is not None:
                values[node] = self.pieces.constant(constant, graph.spec(node))
            elif op is PICK:
                (number,) = graph.attrs[node]
                values[node] = inputs[0][number]
            elif is_cond(op):
                values[node] = self._bare(op, self._choice(op, inputs))
            elif is_loop(op):
                values[node] = self._bare(op, self._inner(op, graph.attrs[node], inputs))
            else:
                values[node] = self.pieces.apply(graph, node, inputs)
        return [values[node] for node in graph.outputs]

    @staticmethod
    def _bare(op: Op, results: list[Pieces]) -> Any:
        return results[0] if op.n_outputs is None else results

    def _inner(self, op: Op, attrs: Attrs, inputs: Sequence[Pieces]) -> list[Pieces]:
        form = loop_form(op, attrs)
        state, _, captures = form.split(inputs)
        limit = inputs[0][0] if form.first else None
        count, ends = self._loop(form, limit, state, captures, [], [])
        return [(count,), *ends] if form.first else ends

    def _choice(self, op: Op, inputs: Sequence[Pieces]) -> list[Pieces]:
        b = self.b
        ((condition,), *operands) = inputs
        labels, join = (b.new_label("then"), b.new_label("else")), b.new_label("join")
        b.branch_if(condition, *labels)
        ends = []
        for label, graph in zip(labels, op.subgraphs, strict=True):
            b.start_block(label)
            with b.scope():
                results = self.run(graph, operands)
            ends.append((results, b.current))
            b.branch(join)
        b.start_block(join)
        (first, from_first), (second, from_second) = ends
        return [
            tuple(b.phi((x, from_first), (y, from_second)) for x, y in zip(xs, ys, strict=True))
            for xs, ys in zip(first, second, strict=True)
        ]
