"""Goes through a graph and adds, node by node, what ONNX has for it. Bodies of control flow become
bodies of If, Loop and Scan, which see the values around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tapeline.compiler.export.onnx.complex_numbers import (
    TRANSFORMS,
    Value,
    constant,
    flat,
    grouped,
    is_complex,
    specs_of_parts,
    translate_complex,
)
from tapeline.compiler.export.onnx.model import INT64, OnnxGraph, Ref, is_open
from tapeline.compiler.export.onnx.named import NAMED, TRACED
from tapeline.compiler.export.onnx.rules import Use, translate
from tapeline.compiler.export.onnx.scalar import BOOL
from tapeline.compiler.export.onnx.value_sizes import translate_sized, way_out
from tapeline.compiler.frontend.replay import trace_into
from tapeline.compiler.frontend.specialize import has_open_sizes
from tapeline.compiler.ir.control_ops import LoopForm, is_cond, is_loop, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER, SIZE
from tapeline.compiler.passes.algebra import Algebra
from tapeline.compiler.passes.canonicalize import Canonicalize
from tapeline.compiler.passes.cse import CommonSubexpressions
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.fold import Fold
from tapeline.compiler.passes.inline_calls import InlineCalls
from tapeline.compiler.passes.pipeline import run_pipeline
from tapeline.runtime.errors import DTypeError, ExportError
from tapeline.runtime.op import Attrs, Expansion, Op, Trait
from tapeline.runtime.sizes import Condition, Sizes
from tapeline.runtime.spec import TensorSpec

_PASSES = (
    InlineCalls(), DeadCode(), Fold(), Canonicalize(True), Algebra(), CommonSubexpressions(),
    DeadCode(),
)  # fmt: skip
"""Compound ops stay whole: ONNX has some of them."""


def prepare(graph: Graph) -> Graph:
    """The graph in a simple form; passes take fixed sizes."""
    return graph if has_open_sizes(graph) else run_pipeline(graph, _PASSES)


def fixing_conditions(sizes: Sizes | None) -> list[Condition]:
    """The conditions noted so far that leave one size only."""
    found = () if sizes is None else sizes.conditions
    return [one for one in found if one.relation == "==" and one.holds]


class Translator:
    """Translates graphs; collects what cannot be, so that one error names all of it."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.problems: list[str] = []
        self.sizes = sizes

    def graph(self, source: Graph, target: OnnxGraph, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph for these inputs."""
        values: dict[int, Any] = dict(zip(source.placeholders, inputs, strict=True))
        for node, op in enumerate(source.ops):
            if op is PLACEHOLDER:
                continue
            if op is CONSTANT:
                values[node] = self._constant(source, node, target)
            elif op is SIZE:
                values[node] = self._size(source.attrs[node][0], target)
            elif op is PICK:
                values[node] = values[source.inputs[node][0]][cast(int, source.attrs[node][0])]
            else:
                target.location = source.locations[node] or target.location
                given = tuple(values[i] for i in source.inputs[node])
                specs = tuple(cast(TensorSpec, source.specs[i]) for i in source.inputs[node])
                values[node] = self._node(source, node, target, given, specs)
        return [values[node] for node in source.outputs]

    def _constant(self, source: Graph, node: int, target: OnnxGraph) -> Value:
        value = source.constant_value(node)
        assert value is not None
        try:
            return constant(target, value)
        except DTypeError as error:
            return self._problem(source, node, target, error)

    def _size(self, dim: Any, target: OnnxGraph) -> Ref:
        if not is_open(dim):
            return target.constant(np.int64(dim))
        known = target.shared.sizes
        if (dim, "scalar") not in known:
            outermost = target.shared.outermost
            assert outermost is not None
            known[dim, "scalar"] = outermost.reshape(target.size(dim), ())
        return known[dim, "scalar"]

    def _node(
        self, source: Graph, node: int, target: OnnxGraph, given: tuple[Value, ...],
        specs: tuple[TensorSpec, ...],
    ) -> Any:  # fmt: skip
        """The value of a node: one, or a list of several."""
        op, attrs, spec = source.ops[node], source.attrs[node], source.specs[node]
        outputs = spec if isinstance(spec, tuple) else (spec,)
        before = fixing_conditions(self.sizes)
        try:
            found = self._op(op, attrs, target, given, specs, outputs)
            asked = fixing_conditions(self.sizes)[len(before) :]
            if asked:
                raise ExportError(
                    f"its form depends on a size that is open; {self._way_out(asked)}"
                )
        except (ExportError, DTypeError) as error:
            found = [self._problem(source, node, target, error) for _ in outputs]
        return found if isinstance(spec, tuple) else found[0]

    def _way_out(self, asked: Sequence[Condition]) -> str:
        """What to do about conditions that leave one size only."""
        assert self.sizes is not None
        for one in asked:
            if self.sizes.is_told(one.left):
                return f"values tell it: {way_out(one)}"
        return "export for fixed sizes, by a signature with numbers"

    def _problem(self, source: Graph, node: int, target: OnnxGraph, error: Exception) -> Value:
        where = source.locations[node]
        spec = source.specs[node]
        text = f"{source.ops[node].name}{'' if where is None else f' at {where}'}: {error}"
        if text not in self.problems:
            self.problems.append(text)
        one = spec if isinstance(spec, TensorSpec) else TensorSpec((), BOOL)
        missing = [Ref(target.name("missing"), part.dtype) for part in specs_of_parts([one])]
        return grouped(missing, [one])[0]

    def _op(
        self, op: Op, attrs: Attrs, target: OnnxGraph, given: tuple[Value, ...],
        specs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...],
    ) -> Sequence[Value]:  # fmt: skip
        if is_cond(op):
            return self._cond(op, target, given, outputs)
        if is_loop(op):
            form = loop_form(op, attrs)
            return _LoopTranslation(self, form, target, given, outputs).run()
        if op.has(Trait.CALL):
            return self.graph(prepare(op.subgraphs[0]), target, given)
        use = Use(target, op, attrs, cast("tuple[Ref, ...]", given), specs, outputs)
        if op.name in TRANSFORMS:
            return self._expanded(use, TRANSFORMS[op.name])
        if is_complex((*specs, *outputs)):
            return self._complex(use)
        if op.has(Trait.SIZED):
            assert self.sizes is not None
            return list(translate_sized(use, self.sizes))
        rule = NAMED.get(op.name)
        found = None if rule is None else rule(use)
        if found is not None:
            return found if isinstance(found, list) else [found]
        if op.name in TRACED:
            return self._expanded(use, TRACED[op.name])
        if isinstance(op.lowering, Expansion):
            return self._expanded(use, op.lowering.expand)
        return [translate(use)]

    def _complex(self, use: Use) -> Sequence[Value]:
        """An op that takes or gives complex numbers."""

        def run(op: Op, attrs: Attrs, given: Sequence[Ref], specs: Sequence[TensorSpec]) -> Ref:
            outputs = (cast(TensorSpec, op.infer(*specs, *attrs)),)
            (found,) = self._op(op, attrs, use.graph, tuple(given), tuple(specs), outputs)
            return cast(Ref, found)

        found = translate_complex(use, run)
        if found is not None:
            return [found]
        if isinstance(use.op.lowering, Expansion):
            return self._expanded(use, use.op.lowering.expand)
        raise ExportError("it has no ONNX form for complex numbers")

    def _expanded(self, use: Use, function: Callable[..., Any]) -> list[Value]:
        graph = Graph(use.op.name)
        inputs = [graph.add_placeholder(spec) for spec in use.specs]
        graph.outputs = list(trace_into(graph, function, inputs, use.attrs))
        return self.graph(prepare(graph), use.graph, use.inputs)

    def _cond(
        self, op: Op, target: OnnxGraph, given: tuple[Value, ...], outputs: tuple[TensorSpec, ...]
    ) -> list[Value]:
        branches = []
        for name, subgraph in zip(("then", "else"), op.subgraphs, strict=True):
            inner = OnnxGraph(target)
            found = self.graph(prepare(subgraph), inner, given[1:])
            branches.append(inner.body(target.name(name), [], _own(inner, found, outputs)))
        dtypes = [spec.dtype for spec in specs_of_parts(outputs)]
        then, other = branches
        which = cast("tuple[Ref, ...]", given[:1])
        made = target.add_many("If", which, dtypes, then_branch=then, else_branch=other)
        return grouped(made, outputs)


def _own(
    inner: OnnxGraph, values: Sequence[Value], specs: Sequence[TensorSpec]
) -> list[tuple[Ref, TensorSpec]]:
    """Outputs of a body, which must be made in it, each under a name of its own."""
    own = [inner.add("Identity", value) for value in flat(values)]
    return list(zip(own, specs_of_parts(specs), strict=True))


def _named(values: Sequence[Value], specs: Sequence[TensorSpec]) -> list[tuple[Ref, TensorSpec]]:
    """Inputs of a body, as ONNX lists them."""
    return list(zip(flat(values), specs_of_parts(specs), strict=True))


class _LoopTranslation:
    """One loop: Scan where nothing but the number of rows ends it, else Loop."""

    def __init__(
        self, translator: Translator, form: LoopForm, target: OnnxGraph, given: Sequence[Value],
        outputs: Sequence[TensorSpec],
    ) -> None:  # fmt: skip
        self.translator, self.form, self.target = translator, form, target
        self.body = prepare(form.body)
        self.test = None if form.test is None else prepare(form.test)
        self.limit = None if form.length is None else cast(Ref, given[0])
        self.state, self.xs, self.captures = form.split(given)
        self.outputs = outputs
        placeholders = [self.body.spec(node) for node in self.body.placeholders]
        self.state_specs = placeholders[: form.n_state]
        self.row_specs = placeholders[form.n_state : form.n_state + form.n_xs]
        self.given_specs = [self.body.spec(node) for node in self.body.outputs]

    def run(self) -> list[Value]:
        """The outputs of the loop op."""
        form, graph = self.form, self.target
        if form.length is None:
            return self._loop()[0]
        assert self.limit is not None
        whole = self._constant_limit() == form.length and self.test is None
        if whole and self.xs and form.length:
            return [self.limit, *self._scan()]
        state, rows, count = self._loop()
        if not whole or form.reverse:
            placed = [self._placed(y, count) for y in flat(rows)]
            rows = grouped(placed, self.given_specs[form.n_state :])
        return [graph.cast(count, INT64), *state, *rows]

    def _constant_limit(self) -> int | None:
        for dim, ref in self.target.shared.sizes.items():
            if ref == self.limit and type(dim) is tuple:
                return cast(int, dim[0])
        for (dtype, _, content), ref in self.target.shared.constants.items():
            if ref == self.limit:
                return int(np.frombuffer(content, dtype)[0])
        return None

    def _inputs(self, inner: OnnxGraph, specs: Sequence[TensorSpec], wish: str) -> list[Value]:
        parts = [Ref(inner.name(wish), spec.dtype) for spec in specs_of_parts(specs)]
        return grouped(parts, specs)

    def _scan(self) -> list[Value]:
        form, inner = self.form, OnnxGraph(self.target)
        state = self._inputs(inner, self.state_specs, "state")
        rows = self._inputs(inner, self.row_specs, "row")
        found = self.translator.graph(self.body, inner, [*state, *rows, *self.captures])
        inputs = [*_named(state, self.state_specs), *_named(rows, self.row_specs)]
        body = inner.body(self.target.name("body"), inputs, _own(inner, found, self.given_specs))
        direction = int(form.reverse)
        n_xs, n_ys = len(flat(self.xs)), len(specs_of_parts(self.given_specs[form.n_state :]))
        made = self.target.add_many(
            "Scan", flat([*self.state, *self.xs]),
            [spec.dtype for spec in specs_of_parts(self.given_specs)], body=body,
            num_scan_inputs=n_xs, scan_input_directions=[direction] * n_xs,
            scan_output_directions=[direction] * n_ys,
        )  # fmt: skip
        return grouped(made, self.given_specs)

    def _loop(self) -> tuple[list[Value], list[Value], Ref]:
        """The last state, the rows in the order of turns, and the number of turns."""
        form, outer, inner = self.form, self.target, OnnxGraph(self.target)
        scalar = TensorSpec((), INT64)
        turn, going = Ref(inner.name("turn"), INT64), Ref(inner.name("going"), BOOL)
        count = Ref(inner.name("count"), INT64)
        state = self._inputs(inner, self.state_specs, "state")
        rows = grouped([self._row(inner, x, turn) for x in flat(self.xs)], self.row_specs)
        found = self.translator.graph(self.body, inner, [*state, *rows, *self.captures])
        new, ys = found[: form.n_state], found[form.n_state :]
        again = self._goes_on(inner, new)
        one = inner.constant(np.int64(1))
        more = inner.add("Add", count, one)
        n_state = form.n_state
        specs = [TensorSpec((), BOOL), scalar, *self.given_specs]
        body = inner.body(
            outer.name("body"),
            [(turn, scalar), (going, TensorSpec((), BOOL)), (count, scalar),
             *_named(state, self.state_specs)],
            _own(inner, [again, more, *new, *ys], specs),
        )  # fmt: skip
        start = self._goes_on(outer, self.state)
        zero = outer.constant(np.int64(0))
        dtypes = [INT64, *(spec.dtype for spec in specs_of_parts(self.given_specs))]
        given = [self.limit, start, zero, *flat(self.state)]
        count, *made = outer.add_many("Loop", given, dtypes, body=body)
        results = grouped(made, self.given_specs)
        return results[:n_state], results[n_state:], count

    def _row(self, inner: OnnxGraph, x: Ref, turn: Ref) -> Ref:
        if self.form.reverse:
            assert self.limit is not None
            last = inner.add("Sub", self.limit, inner.constant(np.int64(1)))
            turn = inner.add("Sub", last, turn)
        return inner.add("Gather", x, turn, axis=0)

    def _goes_on(self, graph: OnnxGraph, state: Sequence[Value]) -> Ref:
        if self.test is None:
            return graph.constant(np.array(True))
        (found,) = self.translator.graph(self.test, graph, [*state, *self.captures])
        return cast(Ref, found)

    def _placed(self, y: Ref, count: Ref) -> Ref:
        """The rows where they belong in an array of the full length; others hold zeros."""
        graph, length = self.target, self.form.length
        assert length is not None
        assert self.limit is not None
        numbers = graph.numbers(length)
        if self.form.reverse:
            last = graph.add("Sub", self.limit, graph.constant(np.int64(1)))
            numbers = graph.add("Sub", last, numbers)
            below = graph.add("Less", numbers, graph.constant(np.int64(0)), dtype=BOOL)
            numbers = graph.add("Where", below, count, numbers, dtype=INT64)
        places = graph.add("Min", numbers, count)
        return graph.add("Gather", self._with_zeros(y), places, axis=0)

    def _with_zeros(self, y: Ref) -> Ref:
        """One row of zeros after the last."""
        graph = self.target
        shape = graph.add("Shape", y, dtype=INT64, start=1)
        row = graph.add("Concat", graph.ints([1]), shape, axis=0)
        zero = graph.constant(np.zeros((), y.dtype))
        return graph.add("Concat", y, graph.add("Expand", zero, row), axis=0)
