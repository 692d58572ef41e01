"""The ops of control flow, made for one use each: a choice between two graphs, and loops over one.

    cond        (condition, operands...)               -> outputs of the graph that was chosen
    while_loop  (state..., captures...)                -> state
    scan        (limit, state..., xs..., captures...)  -> count, state, ys

All graphs of a `cond` take the operands. The body of a loop takes the state, one row of each of xs,
and the captures; it gives the next state, then a row for each of ys. The test takes the state and
the captures. A `scan` makes as many turns as `limit` says, fewer where it has a test that fails
before; `count` is how many it made. Its arrays xs and ys have `length` rows; turn t uses row t, or
row `limit - 1 - t` in reverse. Rows of ys that no turn wrote hold anything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.interpret import run_graph
from tapeline.runtime.errors import GraphError, LoopLimitError
from tapeline.runtime.op import OUT, Attrs, Branch, Loop, Op, Trait, define_op, install_maker
from tapeline.runtime.spec import TensorSpec, spec_of

INT64 = np.dtype(np.int64)

Differentiate = Callable[..., tuple[Any, ...]]
"""`rule(op, cts, attrs, needed, *saved)`: a `joint_vjp` that is told its op."""

_GRADIENTS: dict[str, Differentiate] = {}


def install_gradients(cond: Differentiate, loop: Differentiate) -> None:
    """Tells the ops made here their gradient rules, which need a tracer."""
    _GRADIENTS.update(cond=cond, loop=loop)


_BATCHING: dict[str, Callable[..., Any]] = {}


def install_batching(cond: Callable[..., Any], loop: Callable[..., Any]) -> None:
    """Tells the ops made here their rules under `vmap`, which need a tracer."""
    _BATCHING.update(cond=cond, loop=loop)


@dataclass(frozen=True, slots=True)
class LoopForm:
    """What a loop op and its attributes say: its graphs, and what its inputs and outputs are."""

    body: Graph
    test: Graph | None
    n_state: int
    n_xs: int
    length: int | None
    """Rows of xs and ys; None for a `while_loop`, which has neither."""
    reverse: bool = False

    @property
    def n_ys(self) -> int:
        """How many arrays of rows it gives."""
        return len(self.body.outputs) - self.n_state

    @property
    def first(self) -> int:
        """The position of the first state input, and of the first state output: after the limit,
        and the count."""
        return 0 if self.length is None else 1

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """State, xs and captures among the inputs of the op."""
        rest = list(values[self.first :])
        a, b = self.n_state, self.n_state + self.n_xs
        return rest[:a], rest[a:b], rest[b:]


def is_loop(op: Op) -> bool:
    """Whether the op is a loop over its graphs."""
    return isinstance(op.lowering, Loop)


def is_cond(op: Op) -> bool:
    """Whether the op is a choice between its graphs."""
    return isinstance(op.lowering, Branch)


def loop_form(op: Op, attrs: Attrs) -> LoopForm:
    """The form of a loop op."""
    return _form(op.subgraphs, attrs)


def _form(graphs: Sequence[Graph], attrs: Attrs) -> LoopForm:
    if not attrs:
        test, body = graphs
        return LoopForm(body, test, len(body.outputs), 0, None)
    n_state, n_xs, length, reverse = cast(tuple[int, int, int, bool], attrs)
    body, *tests = graphs
    return LoopForm(body, tests[0] if tests else None, n_state, n_xs, length, reverse)


def _traits(graphs: Sequence[Graph]) -> Trait:
    traits = Trait.NO_RECOMPUTE
    for graph in graphs:
        for op in dict.fromkeys(graph.ops):
            traits |= op.traits & (Trait.EFFECT | Trait.RANDOM)
    return traits


def _check_inputs(name: str, graph: Graph, given: Sequence[TensorSpec]) -> None:
    expected = [graph.spec(node) for node in graph.placeholders]
    if list(given) != expected:
        raise GraphError(f"{name}: given {list(given)}, but graph {graph.name} takes {expected}")


def _output_specs(graph: Graph) -> tuple[TensorSpec, ...]:
    return tuple(graph.spec(node) for node in graph.outputs)


def _make(
    name: str,
    kernel: Callable[..., Any],
    infer: Callable[..., Any],
    graphs: tuple[Graph, ...],
    n_inputs: int,
    n_outputs: int | None,
    lowering: Branch | Loop,
    attr_names: tuple[str, ...] = (),
) -> Op:
    rule = "cond" if isinstance(lowering, Branch) else "loop"

    def differentiate(cts: Any, attrs: Attrs, needed: Any, *saved: Any) -> tuple[Any, ...]:
        made = reference()
        assert made is not None, "who calls the rule of an op has the op"
        return _GRADIENTS[rule](made, cts, attrs, needed, *saved)

    def batch(op: Op, *given: Any) -> Any:
        return _BATCHING[rule](op, *given)

    outputs = range(n_outputs or 1) if rule == "loop" else ()
    op = define_op(
        name,
        kernel=kernel,
        infer=infer,
        n_inputs=n_inputs,
        n_outputs=n_outputs,
        attr_names=attr_names,
        saves=(*range(n_inputs), *(OUT - k for k in outputs)),
        joint_vjp=differentiate,
        accepts_none=True,
        batch=batch,
        emit=lowering,
        traits=_traits(graphs),
        kinds="biufc",
        subgraphs=graphs,
        register=False,
    )
    reference = weakref.ref(op)  # the op holds its rule, so the rule must not hold the op
    return op


def make_cond_op(then: Graph, other: Graph) -> Op:
    """An op of a bool and the graphs' inputs: what `then` gives where the bool is true, else what
    `other` gives. Both take and give the same specs.

    Raises
    ------
    GraphError
        If the graphs' inputs or outputs differ.
    """
    specs = _output_specs(then)
    if specs != _output_specs(other):
        raise GraphError(f"cond: {then.name} gives {specs}, {other.name} {_output_specs(other)}")
    single = len(specs) == 1

    def kernel(condition: Any, *operands: Any) -> Any:
        values = run_graph(then if condition else other, operands)
        return values[0] if single else tuple(values)

    def infer(condition: TensorSpec, *given: TensorSpec) -> Any:
        if condition.dtype.kind != "b" or condition.ndim:
            raise GraphError(f"cond: the condition must be one bool, got {condition}")
        _check_inputs("cond", then, given)
        _check_inputs("cond", other, given)
        return specs[0] if single else specs

    n_inputs, n_outputs = 1 + len(then.placeholders), None if single else len(specs)
    return _make("cond", kernel, infer, (then, other), n_inputs, n_outputs, Branch())


def make_while_op(test: Graph, body: Graph) -> Op:
    """An op of a loop's state and of what both graphs take besides: the state when the test
    fails."""
    specs = _output_specs(body)
    single = len(specs) == 1
    form = LoopForm(body, test, len(specs), 0, None)

    def kernel(*arrays: Any) -> Any:
        values = run_loop(form, arrays)
        return values[0] if single else tuple(values)

    def infer(*given: TensorSpec) -> Any:
        _check_inputs("while_loop", body, given)
        _check_inputs("while_loop", test, given)
        if specs != given[: len(specs)]:
            raise GraphError(f"while_loop: the state {given[: len(specs)]} becomes {specs}")
        return specs[0] if single else specs

    n_outputs = None if single else len(specs)
    n_inputs = len(body.placeholders)
    return _make("while_loop", kernel, infer, (test, body), n_inputs, n_outputs, Loop())


def make_scan_op(body: Graph, test: Graph | None = None, *, extends: Op | None = None) -> Op:
    """A loop with rows in and out; its attributes are those of `LoopForm`.

    Parameters
    ----------
    body, test : Graph
        What a turn does, and whether there is one more.
    extends : Op, optional
        A loop that gives the same states from the same inputs, but fewer rows: nobody need run it
        where this one runs.
    """
    graphs = (body,) if test is None else (body, test)

    def kernel(*values: Any) -> Any:
        arrays, attrs = values[:n_inputs], values[n_inputs:]
        return tuple(run_loop(_form(graphs, attrs), arrays))

    def infer(*values: Any) -> tuple[TensorSpec, ...]:
        given, attrs = values[:n_inputs], values[n_inputs:]
        return _infer_scan(_form(graphs, attrs), given)

    n_inputs = 1 + len(body.placeholders)
    return _make(
        "scan", kernel, infer, graphs, n_inputs, 1 + len(body.outputs), Loop(extends),
        ("state", "xs", "length", "reverse"),
    )  # fmt: skip


def remake(op: Op, graphs: tuple[Graph, ...]) -> Op:
    """An op of the same kind with other graphs; it extends no other."""
    if is_cond(op):
        return make_cond_op(*graphs)
    return make_scan_op(*graphs) if op.attr_names else make_while_op(*graphs)


def _infer_scan(form: LoopForm, given: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    count = spec_of((), INT64)
    if given[0] != count:
        raise GraphError(f"scan: the limit must be one int64, got {given[0]}")
    state, xs, captures = form.split(given)
    rows = []
    for spec in xs:
        if spec.ndim == 0 or spec.shape[0] != form.length:
            raise GraphError(f"scan: xs must have {form.length} rows, got {spec}")
        rows.append(spec_of(spec.static_shape[1:], spec.dtype))
    _check_inputs("scan", form.body, (*state, *rows, *captures))
    if form.test is not None:
        _check_inputs("scan", form.test, (*state, *captures))
    specs = _output_specs(form.body)
    if specs[: form.n_state] != tuple(state):
        raise GraphError(f"scan: the state {state} becomes {specs[: form.n_state]}")
    assert form.length is not None
    ys = [spec_of((form.length, *s.static_shape), s.dtype) for s in specs[form.n_state :]]
    return (count, *state, *ys)


def run_loop(form: LoopForm, arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a loop, by running its graphs turn by turn."""
    state, xs, captures = form.split(arrays)
    limit = None if form.length is None else int(arrays[0])
    specs = _output_specs(form.body)[form.n_state :]
    ys = [np.empty((form.length or 0, *s.static_shape), s.dtype) for s in specs]
    turn = 0
    while limit is None or turn < limit:
        if form.test is not None and not run_graph(form.test, [*state, *captures])[0]:
            break
        row = limit - 1 - turn if form.reverse and limit is not None else turn
        if ys and form.length is not None and row >= form.length:
            raise no_room(form.length)
        values = run_graph(form.body, [*state, *(x[row] for x in xs), *captures])
        state = values[: form.n_state]
        for y, value in zip(ys, values[form.n_state :], strict=True):
            y[row] = value
        turn += 1
    if form.length is None:
        return state
    return [np.asarray(turn), *state, *ys]


def no_room(length: int) -> LoopLimitError:
    """The error of a loop that makes more turns than there is room for."""
    error = LoopLimitError(
        f"while_loop: the loop makes more than {length} turns, and the gradient keeps room for no "
        "more; pass maximum_iterations= to say how many there may be"
    )
    error.room = length
    return error


PARSED: dict[str, Callable[[tuple[Graph, ...]], Op]] = {
    "cond": lambda graphs: make_cond_op(*graphs),
    "while_loop": lambda graphs: make_while_op(*graphs),
    "scan": lambda graphs: make_scan_op(*graphs),
}
"""How the ops are made again of graphs that were written down."""

for _name, _maker in PARSED.items():
    install_maker(_name, _maker)
