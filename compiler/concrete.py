"""One trace of a function: its graph, what it takes besides the arguments, and how results are put
together."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tapeline.compiler.autodiff.joint import is_differentiable_kind
from tapeline.compiler.calling import TraceCalls
from tapeline.compiler.codegen.target import PLAIN, Manner
from tapeline.compiler.compiled import OBSERVER
from tapeline.compiler.differentiable import DifferentiableGraph
from tapeline.compiler.donation import Donation
from tapeline.compiler.frontend.capture import Capture, CapturingGraph
from tapeline.compiler.frontend.families import Order
from tapeline.compiler.frontend.guards import Guards
from tapeline.compiler.in_place import results_in_place
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.text import sizes_of
from tapeline.compiler.results import Output, Results
from tapeline.compiler.staged.callable import callable_graph
from tapeline.compiler.staged.other_sizes import OtherSizes
from tapeline.runtime.deferred import Deferred
from tapeline.runtime.dims import is_open_shape
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import (
    ArgumentError,
    ValueSizeError,
)
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import TensorSpec, canonical_dtype
from tapeline.runtime.tensor import Tensor, wrap

if TYPE_CHECKING:
    from tapeline.compiler.inspect.cost import Cost
    from tapeline.compiler.inspect.kernels import KernelList
    from tapeline.compiler.inspect.memory_plan import MemoryPlan
    from tapeline.compiler.staged.staged import StagedGraph


class ConcreteFunction(TraceCalls):
    """A function traced for one signature.

    Made by `Function.get_concrete_function`. Call it with the tensors that the trace has as inputs,
    in order.

    Attributes
    ----------
    graph : Graph
        The graph as traced. Its placeholders are the arguments, then captures and Variables.
    """

    general: ConcreteFunction | None = None
    """The trace with open sizes that this is a case of."""
    donation: Donation | None = None
    """The memory of arguments that are given away."""
    orders: set[Order] | None = None
    """The orders of dicts and of arguments by name that it is known to serve; None for any."""

    def __init__(
        self,
        graph: CapturingGraph,
        inputs: Sequence[TensorSpec],
        results: Results,
        cells: list[tuple[Capture | int, int]],
        guards: Guards | None = None,
        manner: Manner = PLAIN,
    ) -> None:
        self.name = graph.name
        self.given = (), {}, ()
        self.served = np.zeros(1, np.int64)
        """How many calls it served, in a word that native entries count in."""
        self.guards = guards
        """What it took from globals, closures and attributes, and whether it is still so."""
        self.graph: Graph = graph
        self._inputs = tuple(inputs)
        self.results = results
        """How outputs of the graph become what a call returns."""
        resources = list(graph.resources.values())
        self._hidden: list[tuple[int, Any, bool]] = sorted(
            [(c.placeholder, c.source, False) for c in graph.captures]
            + [(r.placeholder, r.variable, True) for r in resources if r.placeholder is not None],
            key=lambda item: item[0],
        )
        self._assigned = [r.variable for r in resources if r.is_assigned]
        self._cells = [target for target, _ in cells]
        self._n_results = len(graph.outputs)
        graph.outputs += [r.current for r in resources if r.is_assigned]
        graph.outputs += [node for _, node in cells]
        self._variables = tuple(r.variable for r in resources)
        self._differentiable: DifferentiableGraph | None = None
        self.staged: StagedGraph | None = None
        """What it runs where sizes in it depend on values."""
        self.install(callable_graph(graph, graph.sizes, manner))
        self.is_plain = (
            not (self._hidden or self._assigned or self._cells)
            and results.form == "single"
            and self.staged is None
        )
        """Whether `differentiable` does all that a call with tensors does."""

    # ---- what it is made of

    def serves(self, order: Order) -> bool:
        """Whether it serves calls with dicts and arguments by name in this order, as things are."""
        is_known = self.orders is None or order in self.orders
        return is_known and (self.guards is None or self.guards.hold())

    def install(self, runs: DifferentiableGraph | StagedGraph) -> None:
        """Makes this what it runs."""
        if isinstance(runs, DifferentiableGraph):
            self._differentiable, self.staged = runs, None
        else:
            self._differentiable, self.staged = None, runs

    @property
    def differentiable(self) -> DifferentiableGraph:
        """What it runs, as a whole.

        Raises
        ------
        ValueSizeError
            If it runs in stages, since sizes in it depend on values.
        """
        found = self._differentiable
        if found is None:
            raise ValueSizeError(
                f"{self.name}: sizes in it depend on values, so there is no code for the whole of "
                "it; look at its stages instead, `concrete.stages`"
            )
        return found

    @property
    def stages(self) -> tuple[ConcreteFunction, ...]:
        """The parts that run one after the other, each with the sizes of the call that was traced;
        itself alone where no size depends on values.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.sum(x[x > 0.5] * 2))
        >>> y = f(tl.asarray([0.1, 0.7, 0.9]))
        >>> for stage in f.concrete_functions[0].stages:
        ...     print(stage)
        concrete function <lambda>_stage0
          takes v0: float64[3]
          gives (bool[3],)
        concrete function <lambda>_stage1
          takes v3: int64[1, 2]
          takes v0: float64[3]
          gives (float64[],)
        """
        if self.staged is None:
            return (self,)
        return tuple([_stage_function(graph) for graph in self.staged.traced_stages()])

    @property
    def graph_sizes(self) -> Sizes | None:
        """The sizes that its graph leaves open; None where it leaves none."""
        return sizes_of(self.graph)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The specs of the tensors among the results, in order; None for sizes that values tell."""
        specs = [self.graph.spec(node) for node in self.graph.outputs[: self._n_results]]
        return tuple([with_none(spec) for spec in specs])

    @property
    def output_shapes(self) -> Any:
        """The results with a shape in the place of each tensor."""
        return self._each_output(lambda spec: spec.shape)

    @property
    def output_dtypes(self) -> Any:
        """The results with a dtype in the place of each tensor."""
        return self._each_output(lambda spec: spec.dtype)

    def _each_output(self, what: Callable[[TensorSpec], Any]) -> Any:
        return self.results.filled([what(spec) for spec in self.outputs])

    @property
    def captures(self) -> tuple[Any, ...]:
        """The tensors and arrays of outside that the function reads, in order of first use; a
        `Deferred` for what is asked for at each call."""
        return tuple(source for _, source, is_variable in self._hidden if not is_variable)

    @property
    def variables(self) -> tuple[Any, ...]:
        """The Variables that the function reads or assigns, in order of first use."""
        return self._variables

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of `variables` that tapes watch by themselves."""
        return tuple(variable for variable in self._variables if variable.trainable)

    @property
    def depends_on_trace(self) -> bool:
        """Whether it captured a symbolic tensor of an enclosing trace, and ends with that."""
        return any(
            type(source) is Tensor and type(source._value) is not np.ndarray
            for source in self.captures
        )

    def with_captures(self, replaced: Sequence[tuple[Any, Any]]) -> ConcreteFunction:
        """The same trace with other captures or Variables: it shares the code.

        Parameters
        ----------
        replaced : sequence of (old, new)
            Old ones are among `captures` or `variables`; new ones have the same shape and dtype. A
            Variable that the function assigns is replaced by a Variable.

        Raises
        ------
        ArgumentError
            (a ValueError) if an old one is not captured, or a new one does not fit.

        Examples
        --------
        >>> import tapeline as tl
        >>> w = tl.Variable(2.0)
        >>> f = tl.function(lambda x: x * w)
        >>> other = tl.Variable(5.0)
        >>> concrete = f.get_concrete_function(tl.TensorSpec([]))
        >>> concrete.with_captures([(w, other)])(3.0).item(), concrete(3.0).item()
        (15.0, 6.0)
        """
        new_by_old = {id(old): self._fit_capture(old, new) for old, new in replaced}
        made = copy.copy(self)
        made._hidden = [
            (node, new := new_by_old.get(id(old), old), hasattr(type(new), "read_value"))
            for node, old, _ in self._hidden
        ]
        made._variables = tuple(new_by_old.get(id(v), v) for v in self._variables)
        made._assigned = [new_by_old.get(id(v), v) for v in self._assigned]
        made.served = np.zeros(1, np.int64)
        return made

    def _fit_capture(self, old: Any, new: Any) -> Any:
        if not any(one is old for one in (*self.captures, *self._variables)):
            raise ArgumentError(f"{self.name}: with_captures: {old!r} is not captured")
        fits = getattr(new, "shape", None) == old.shape and getattr(new, "dtype", None) == old.dtype
        is_assigned = any(one is old for one in self._assigned)
        if not fits or (is_assigned and not hasattr(type(new), "assign")):
            what = "a Variable of " if is_assigned else ""
            raise ArgumentError(
                f"{self.name}: with_captures: for {old.dtype}{list(old.shape)} the function takes "
                f"{what}the same dtype and shape, got {new!r}"
            )
        return new

    @property
    def structured_outputs(self) -> Any:
        """The results with a `TensorSpec` in the place of each tensor."""
        return self.results.filled(self.outputs)

    @property
    def hidden_inputs(self) -> tuple[Any, ...]:
        """The captures and Variables whose values are inputs of the graph, in the order of
        inputs."""
        return tuple(source for _, source, _ in self._hidden)

    @property
    def assigned_variables(self) -> tuple[Any, ...]:
        """The Variables that get new values, in the order of the graph's outputs after the
        results."""
        return tuple(self._assigned)

    @property
    def writes_cells(self) -> bool:
        """Whether a call changes tensors that exist already."""
        return bool(self._cells)

    @classmethod
    def rebuild(
        cls,
        graph: CapturingGraph,
        inputs: Sequence[TensorSpec],
        results: Results,
        cells: Sequence[tuple[int, int]],
    ) -> ConcreteFunction:
        """A concrete function of its parts: `cells` are pairs of an argument that is changed in
        place and the node of its new value."""
        return cls(graph, inputs, results, list(cells))

    def hidden_sources(self) -> list[tuple[int, Any, bool]]:
        """The node, the source, and whether that is a Variable, for each capture and each Variable
        that is read, in the order of inputs."""
        return list(self._hidden)

    def written_arguments(self) -> list[int]:
        """The arguments that a call changes in place.

        Raises
        ------
        ArgumentError
            If it changes a tensor that it captured.
        """
        if not all(isinstance(target, int) for target in self._cells):
            raise ArgumentError(
                f"{self.name} changes a tensor of outside in place; make it a Variable"
            )
        return [target for target in self._cells if isinstance(target, int)]

    @property
    def seconds(self) -> tuple[float, float]:
        """Spent in passes and in code generation since it was traced."""
        return (self.staged or self.differentiable).seconds

    def set_max_bytes(self, max_bytes: int | None) -> None:
        """How much a call under a tape may keep for its gradient; set before the first one."""
        runs: DifferentiableGraph | StagedGraph = self.staged or self.differentiable
        runs.max_bytes = max_bytes

    @property
    def optimized_graph(self) -> Graph:
        """The graph after all passes: what is compiled when no tape records."""
        return self.differentiable.compiled.optimized

    def kernels(self) -> KernelList:
        """What runs when no tape records: loops with the ops they fuse, products, NumPy calls; of
        all stages in turn where it runs in stages."""
        from tapeline.compiler.inspect.kernels import (  # loads codegen
            describe_kernels,
            joined_kernels,
        )

        if self.staged is not None:
            return joined_kernels(self.name, [stage.kernels() for stage in self.stages])
        executable = self.differentiable.compiled.executable()
        return describe_kernels(executable.graph, executable.module)

    def llvm_ir(self) -> str:
        """The LLVM IR that is emitted when no tape records, with what each function computes.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.tanh(x) * 2)
        >>> concrete = f.get_concrete_function(tl.TensorSpec([8], "float32"))
        >>> print(concrete.llvm_ir().split("define void")[0].splitlines()[-2])
        ;   computes tanh, multiply
        """
        from tapeline.compiler.inspect.code import annotated_ir, of_stages  # loads codegen

        if self.staged is not None:
            return of_stages([(stage.name, stage.llvm_ir()) for stage in self.stages], ";")
        executable = self.differentiable.compiled.executable()
        module = executable.module
        return annotated_ir(module.text, executable.graph, module, self.kernels())

    def asm(self) -> str:
        """The machine code that runs when no tape records, as assembly; comments before each
        function say what it computes, and from which source lines."""
        from tapeline.compiler.inspect.code import (  # loads codegen
            COMMENT,
            annotated_asm,
            of_stages,
        )

        if self.staged is not None:
            return of_stages([(stage.name, stage.asm()) for stage in self.stages], COMMENT)
        executable = self.differentiable.compiled.executable()
        text = executable.code.asm()
        return annotated_asm(text, executable.graph, executable.module, self.kernels())

    def memory_plan(self) -> MemoryPlan:
        """How the values in between share memory: prints as a table, `to_svg()` draws it."""
        from tapeline.compiler.inspect.memory_plan import (  # loads codegen
            describe_memory,
            joined_plans,
        )

        if self.staged is not None:
            return joined_plans(self.name, [stage.memory_plan() for stage in self.stages])
        executable = self.differentiable.compiled.executable()
        return describe_memory(executable.graph, executable.module)

    def gradient_memory(self) -> int:
        """How many bytes a call under a tape keeps for the gradient of all inputs, besides inputs
        and results. It is known without a call; loops whose number of turns depends on tensors
        count with the turns that there is room for.

        Examples
        --------
        >>> import tapeline as tl
        >>> def f(x, mode):
        ...     step = lambda y, _: (tl.sin(y), None)
        ...     return tl.scan(step, x, length=1000, gradient=mode)[0]
        >>> x = tl.asarray(1.0)
        >>> modes = "stack", "checkpoint:50"
        >>> [tl.function(f).get_concrete_function(x, m).gradient_memory() for m in modes]
        [8000, 160]
        """
        watched = self._watched()
        if not watched:
            return 0
        pair = self.differentiable.pair(watched)
        rows = pair.forward.outputs[len(self.outputs) :]
        return sum(pair.forward.spec(node).nbytes for node in rows)

    def _watched(self) -> tuple[int, ...]:
        """The positions of the inputs that have gradients; none if no result has one."""
        graph = self.graph
        kinds = [graph.spec(node).dtype.kind for node in graph.placeholders]
        if not any(is_differentiable_kind(spec.dtype.kind) for spec in self.outputs):
            return ()
        return tuple(k for k, kind in enumerate(kinds) if is_differentiable_kind(kind))

    def cost(self) -> Cost:
        """Element operations and bytes of a call, and the least time that these take on this
        machine, whose speed is measured once."""
        from tapeline.compiler.inspect.cost import Cost  # loads codegen
        from tapeline.compiler.inspect.machine import measure_machine

        return Cost(self.name, self.kernels(), measure_machine())

    def to_html(self) -> str:
        """What runs under a tape as one HTML page, without network: forward graph, backward graph
        and the kernels of both side by side, to pan, zoom, search and click. Only the forward where
        no input has a gradient, and the stages side by side where it runs in stages.

        Examples
        --------
        >>> import tapeline as tl
        >>> f = tl.function(lambda x: tl.sum(tl.tanh(x)))
        >>> page = f.get_concrete_function(tl.TensorSpec([8], "float32")).to_html()
        >>> page.startswith("<!doctype html>"), "backward kernels" in page
        (True, True)
        """
        from tapeline.compiler.inspect.page import (  # loads codegen
            compiled_to_html,
            staged_to_html,
        )

        if self.staged is not None:
            parts = [stage.differentiable.compiled.executable() for stage in self.stages]
            return staged_to_html(self.name, self.graph, [(p.graph, p.module) for p in parts])
        watched = self._watched()
        if not watched:
            one = self.differentiable.compiled.executable()
            return compiled_to_html(self.name, (one.graph, one.module), None)
        pair = self.differentiable.compiled_pair(watched)
        forward, backward = (compiled.executable() for compiled in pair)
        return compiled_to_html(
            self.name, (forward.graph, forward.module), (backward.graph, backward.module)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        from tapeline.compiler.saved.pickling import reduce_concrete  # builds on this class

        return reduce_concrete(self)

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def _repr_html_(self) -> str:
        from tapeline.compiler.inspect.notebook import concrete_html  # loads codegen

        return concrete_html(self)

    def __repr__(self) -> str:
        given = ", ".join(self.forms.describe())
        return f"<concrete function {self.name}({given}) -> {self.results.shown(self.outputs)}>"

    def __str__(self) -> str:
        lines = [f"concrete function {self.name}"]
        lines += [f"  takes {line}" for line in self.forms.describe()]
        for source in self.captures:
            lines.append(f"  captures {source.dtype.name}{list(source.shape)}")
        for variable in self._variables:
            change = "assigns" if any(v is variable for v in self._assigned) else "reads"
            what = f"{variable.dtype.name}{list(variable.shape)}"
            lines.append(f"  {change} {variable._label()}: {what}")
        lines.append(f"  gives {self.results.shown(self.outputs)}")
        return "\n".join(lines)

    # ---- calls

    def call(self, tensors: Sequence[Any], other: OtherSizes | None = None) -> Any:
        """The results for tensors or arrays that fit the trace; nothing is checked. Where a call of
        another trace stopped, this one goes on.

        Raises
        ------
        OtherSizes
            If sizes that values tell do not fit the trace.
        """
        self.served[0] += 1
        inputs = [_as_input(value) for value in tensors]
        inputs += [
            source.read_value() if is_variable else _as_input(source)
            for _, source, is_variable in self._hidden
        ]
        for target in self._cells:
            if isinstance(target, int):
                self._check_writable(tensors[target], target)
        donation = self.donation
        if donation is None or not donation.is_possible():
            donation = None
        if self.staged is not None:
            outputs = self.staged(inputs, other)
        elif donation is None:
            outputs = self._written_over(inputs) or self.differentiable(inputs)
        else:
            outputs = donation.results(self.differentiable.compiled, inputs)
        first, last = self._n_results, self._n_results + len(self._assigned)
        for variable, value in zip(self._assigned, outputs[first:last], strict=True):
            variable.assign(value)
        for target, value in zip(self._cells, outputs[last:], strict=True):
            cell: Any = tensors[target] if isinstance(target, int) else target.cell
            if type(cell) is Tensor:
                cell._value, cell._node = value._value, value._node
            else:
                np.copyto(cell, value.numpy())
        if donation is not None:
            donation.take(tensors)
        return self.results.pack(*outputs)

    def _written_over(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
        """The graph's outputs, with changed arguments written over; None where that cannot be."""
        if not self._cells or not Donation.is_possible() or OBSERVER[0] is not None:
            return None
        last = self._n_results + len(self._assigned)
        changed = [
            (target, last + k) for k, target in enumerate(self._cells) if isinstance(target, int)
        ]
        return results_in_place(self.differentiable.compiled, inputs, changed)

    def _check_writable(self, value: Any, position: int) -> None:
        if type(value) is not Tensor and not (
            isinstance(value, np.ndarray) and value.flags.writeable
        ):
            name = self.graph.attrs[self.graph.placeholders[position]][0]
            raise ArgumentError(
                f"{self.name}: the function changes its argument {name} in place, and the array "
                "that was passed is read-only; pass a copy of it, or a tensor"
            )


def _stage_function(graph: Graph) -> ConcreteFunction:
    """A graph that reads and changes nothing outside as a function of its inputs."""
    whole = CapturingGraph(graph.name)
    for name in Graph.__slots__:
        setattr(whole, name, getattr(graph, name))
    whole.outputs = list(graph.outputs)
    inputs = [graph.spec(node) for node in graph.placeholders]
    leaves = [Output(k) for k in range(len(graph.outputs))]
    return ConcreteFunction(whole, inputs, Results(tuple(range(len(leaves))), leaves), [])


def with_none(spec: TensorSpec) -> TensorSpec:
    """The spec with None for open sizes."""
    if not is_open_shape(spec.static_shape):
        return spec
    shape = [None if is_open_shape((size,)) else size for size in spec.static_shape]
    return TensorSpec(shape, spec.dtype, spec.name)


def _as_input(value: Any) -> Tensor:
    if type(value) is Tensor:
        return value
    if type(value) is Deferred:
        defer = getattr(STATE.handler, "defer", None)
        return value.value() if defer is None else defer(value)
    array = np.asarray(value)
    dtype = canonical_dtype(array.dtype)
    return wrap(array if array.dtype is dtype else array.astype(dtype))
