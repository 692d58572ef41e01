"""The graph that a function is traced into: it answers op calls with symbols and adopts what it
meets.

A tensor or an array from outside becomes a *capture*, a hidden input, once per tensor and in the
order of first use. A Variable becomes a *resource*: its value at the start of the call is an input,
its value at the end an output. A number is a constant, and so is an array that only the trace has,
where it asks for a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.compiler.frontend.location import user_location
from tapeline.compiler.frontend.symbol import Symbol
from tapeline.compiler.ir.graph import SMALL_CONSTANT_BYTES, Graph
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import PLACEHOLDER, SIZE
from tapeline.runtime.batching.level import Level
from tapeline.runtime.collections import copy_of_collections
from tapeline.runtime.deferred import Deferred
from tapeline.runtime.dispatch import STATE, push_handler
from tapeline.runtime.errors import LeakedTensorError, TracingError
from tapeline.runtime.op import Attrs, Op, get_op
from tapeline.runtime.promotion import WEAK_TYPES
from tapeline.runtime.record import Node, PickNode
from tapeline.runtime.spec import TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, adoption, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

    from tapeline.compiler.frontend.convert.containers import Containers
    from tapeline.compiler.frontend.convert.reads import Reads
    from tapeline.runtime.sizes import Sizes

_ndarray = np.ndarray
_PYTHON_TYPES: dict[Any, type] = {
    np.dtype(kind): kind for kind in (bool, int, float, complex)
}  # fmt: skip
_NUMBER_OPS = frozenset(
    {
        "abs", "add", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
        "bitwise_right_shift", "bitwise_xor", "cast", "divide", "equal", "floor_divide", "greater",
        "greater_equal", "less", "less_equal", "logical_not", "multiply", "negative", "not_equal",
        "positive", "power", "remainder", "subtract", "where",
    }
)  # fmt: skip
"""What Python does with numbers. On numbers that a trace holds in tensors these give such numbers
again."""

_OURS = 3
"""References to the array of a capture that nobody else has: the capture, a name and the count."""


def _no_trace() -> None:
    return None


class Capture:
    """A tensor (or a NumPy array, read anew at each call) of outside and the placeholder for it.

    `cell` is the one that ops of the trace see; `before` and `node_before` are its value and node
    when it was captured.
    """

    __slots__ = ("before", "cell", "node_before", "placeholder", "source")

    def __init__(
        self,
        source: Tensor | npt.NDArray[Any] | Deferred,
        placeholder: int,
        cell: Tensor,
        before: Any,
        node_before: Node | None,
    ) -> None:
        self.source = source
        self.placeholder = placeholder
        self.cell = cell
        self.before = before
        self.node_before = node_before


class Resource:
    """A Variable and its value along the trace; `placeholder` is None while it was only
    assigned."""

    __slots__ = ("current", "is_assigned", "placeholder", "spec", "variable")

    def __init__(
        self, variable: Any, spec: TensorSpec, placeholder: int | None, current: int
    ) -> None:
        self.variable = variable
        self.spec = spec
        self.placeholder = placeholder
        self.current = current
        self.is_assigned = False


def graph_around(handler: Any) -> CapturingGraph | None:
    """The graph that a handler adds to, or that is traced around a `vmap` at work."""
    while type(handler) is Level:
        handler = handler.outer
    return handler if isinstance(handler, CapturingGraph) else None


class CapturingGraph(Graph):
    """A graph under construction by a trace; the handler of all op calls meanwhile.

    Parameters
    ----------
    name : str
        Name of the traced function.

    Attributes
    ----------
    captures : list of Capture
        Tensors of outside, in order of first use.
    resources : dict
        A `Resource` per Variable that was read or assigned, by id, in order of first use.
    """

    __slots__ = (
        "__weakref__", "_blocks", "_by_source", "_constant_cells", "_frozen", "_numbers", "around",
        "callbacks", "captures", "collections", "deferred", "feeds", "holds_arrays", "is_open",
        "location", "n_created", "origins", "outer", "python_ints",
        "reads", "resources", "same_tensors", "sizes", "surroundings", "tables", "told", "trace",
        "value_sizes",
    )  # fmt: skip

    def __init__(self, name: str = "graph") -> None:
        super().__init__(name)
        self.captures: list[Capture] = []
        self.resources: dict[int, Resource] = {}
        self.is_open = False
        self.surroundings: Containers | None = None
        """For a branch or a body, which runs or not as a tensor says: what it may change."""
        self.holds_arrays = False
        """Whether arrays are constants of the graph: gradient rules make them, nobody outside has
        them."""
        self.outer: CapturingGraph | None = None
        self.around: Any = None
        """The handler around the trace, while it is under way."""
        self.same_tensors: dict[int, Any] = {}
        """Pairs of tensors that may be one object (see `convert.sameness`)."""
        self._blocks: list[CapturingGraph] = []
        self.location: Location | None = None
        """Where new nodes come from; None: find the user's line."""
        self.origins: dict[Node, Location | None] | None = None
        """Where the nodes of a tape come from that is walked here, so that gradients say so too."""
        self._by_source: dict[int, Capture] = {}
        self._constant_cells: dict[int, Tensor] = {}
        self._numbers: set[int] = set()
        self.python_ints: dict[int, tuple[int, int] | None] = {}
        """Nodes that stand for ints of Python's, in order, with the least and the greatest value
        where these are known."""
        self.tables: set[int] = set()
        """Nodes of arrays that NumPy would make of sizes."""
        self._frozen: dict[int, Any] = {}
        self.feeds: dict[int, Any] = {}
        """What the inputs are in the call that is traced; None for those that specs stand for."""
        self.trace: Callable[[], Any] = _no_trace
        """The concrete function that is made of the graph; None before and after its life."""
        self.deferred: dict[Hashable, Tensor] = {}
        self.callbacks: list[Callable[[], object]] = []
        """What is called when the trace is over."""
        self.sizes: Sizes | None = None
        """The open sizes of the trace; None for a part of one, whose sizes are all known before it
        runs."""
        self.told: tuple[int, ...] = ()
        """The first sizes that depend on values, in the call that is traced, as far as known."""
        self.value_sizes: dict[Hashable, Any] = {}
        """Sizes that depend on values, by what yields them."""
        self.n_created = 0
        """How many Variables the trace made."""
        self.collections: dict[str, list[Any]] = {}
        """The named lists of the trace, copies of those around it."""
        self.reads: Reads | None = None
        """What the trace reads besides tensors; None where nobody asks."""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Hand all op calls of this thread to the graph; tapes of outside do not see them.

        Afterwards cells of outside hold again what they held before, whatever happened.
        """
        self.around = STATE.handler
        self.outer = graph_around(self.around)
        if self.outer is not None:
            self.outer.add_block(self)
        saved = STATE.active, STATE.open, STATE.stopped
        STATE.active, STATE.open, STATE.stopped = None, (), 0
        self.is_open = True
        self.collections = copy_of_collections()
        try:
            with push_handler(self), adoption(self._adopt):
                yield
        finally:
            self.is_open = False
            if self.around is None:
                self.same_tensors.clear()
            self.around = None
            for block in self._blocks:
                block.outer = None  # which may hold the block, in an op
                block.same_tensors.clear()
            self._blocks.clear()
            STATE.active, STATE.open, STATE.stopped = saved
            self.collections = {}
            self._constant_cells.clear()
            self._numbers.clear()
            self._frozen.clear()
            self.feeds.clear()
            self.value_sizes.clear()
            self.deferred.clear()

    def freeze(self, value: Any) -> Any:
        """The same tensor or array, which the trace takes as a constant from now on."""
        if type(value) is Tensor and type(value._value) is _ndarray:
            self._constant_cells[id(value)] = value
        elif isinstance(value, _ndarray):
            self._frozen[id(value)] = value
        return value

    def add_block(self, block: CapturingGraph) -> None:
        """Remembers a graph that is traced inside of this trace, until the outermost one ends: what
        a block did is looked at when it is over."""
        if self.outer is None:
            self._blocks.append(block)
        else:
            self.outer.add_block(block)

    def placeholder_tensor(self, spec: TensorSpec, name: str | None = None) -> Tensor:
        """A new input of the graph as a tensor."""
        return self.tensor(self.add_placeholder(spec, name))

    def tensor(self, node: int) -> Tensor:
        """A tensor whose value is that of a node."""
        return wrap(Symbol(self, node, self.spec(node)))

    # ---- the handler's side

    def run_op(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs) -> Any:
        """Adds a node; the answer is its symbol, or a tuple of symbols."""
        if not self.is_open:
            raise TracingError(
                f"{op.name}: the trace of {self.name!r} is over, its graph takes no more ops; "
                "trace a function that does this op as well"
            )
        location = self.location or user_location()
        ids = [self.value_id(tensor) for tensor in inputs]
        node = self.add(op, ids, attrs, location)
        spec = self.specs[node]
        if isinstance(spec, tuple):
            picks = self.picks(node, location)
            return tuple(Symbol(self, p, s) for p, s in zip(picks, spec, strict=True))
        symbol = Symbol(self, node, spec)
        if not spec.shape and op.name in _NUMBER_OPS:
            symbol.weak = self._weak_result(inputs, spec)
            if symbol.weak is int:
                self.python_ints[node] = None
        return symbol

    def _weak_result(self, inputs: Sequence[Tensor], spec: TensorSpec) -> type | None:
        """The Python type of the result, where an operator got nothing but Python numbers."""
        is_weak = False
        for tensor in inputs:
            if getattr(tensor._value, "weak", None) is not None:
                is_weak = True
            elif id(tensor) not in self._numbers:
                return None
        return _PYTHON_TYPES.get(spec.dtype) if is_weak else None

    def note_origin(self, tensor: Tensor) -> None:
        """Remembers that the tape node of an op's result comes from where new nodes come from."""
        node = tensor._node
        if type(node) is PickNode:
            node = node.parents[0]
        if self.origins is not None and node is not None:
            self.origins[node] = self.location

    def converted(self, function: Any) -> Any:
        """The function with its control flow converted, if that of the traced one is."""
        if self.reads is None:
            return function
        from tapeline.compiler.frontend.convert.calls import callee  # it traces with this class

        return callee(function)

    def enter_gradient(self, node: Node) -> None:
        """The nodes that gradient rules add come from where the op itself came from."""
        if self.origins is not None:
            self.location = self.origins.get(node)

    def value_of(self, tensor: Tensor) -> Symbol:
        """The symbol of a tensor's value, of outside or not. Tapes of the trace keep that, so that
        a
        gradient rule sees the captured tensor and no copy of its present value."""
        node = self.value_id(tensor)
        return Symbol(self, node, self.spec(node))

    def read_variable(self, variable: Any) -> Any:
        """The Variable's value at this point of the trace."""
        resource = self._resource(variable)
        if resource is None:
            spec = spec_of(variable.shape, variable.dtype)
            node = self.add_placeholder(spec, variable.name, user_location())
            resource = Resource(variable, spec, node, node)
            self.resources[id(variable)] = resource
        return Symbol(self, resource.current, resource.spec)

    def assign_variable(self, variable: Any, value: Tensor) -> None:
        """From here on the Variable has this value."""
        node = self.value_id(value)
        resource = self._resource(variable)
        if resource is None:
            spec = spec_of(variable.shape, variable.dtype)
            resource = self.resources[id(variable)] = Resource(variable, spec, None, node)
        resource.current = node
        resource.is_assigned = True

    def create_variable(self, value: Tensor) -> npt.NDArray[Any]:
        """The first value of a Variable that the function makes. The outermost function that is
        traced together with this graph takes note."""
        from tapeline.compiler.frontend.lifting import first_value  # it needs this class

        found = first_value(value)
        self.root().n_created += 1
        return found

    @property
    def structured_input_signature(self) -> Any:
        """That of the concrete function that is made of the graph."""
        return self.trace().structured_input_signature

    @property
    def structured_outputs(self) -> Any:
        """Those of the concrete function that is made of the graph."""
        return self.trace().structured_outputs

    @property
    def variables(self) -> tuple[Any, ...]:
        """The Variables that are read or assigned, in order of first use."""
        return tuple(resource.variable for resource in self.resources.values())

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of `variables` that tapes watch by themselves."""
        return tuple(variable for variable in self.variables if variable.trainable)

    def _resource(self, variable: Any) -> Resource | None:
        return self.resources.get(id(variable))

    def stage_gradient(
        self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], backward: Any
    ) -> list[Tensor]:
        """Adds a node that passes `outputs` on and has gradients of its own."""
        from tapeline.compiler.frontend import custom_gradient  # it traces, with this module

        return custom_gradient.stage_gradient(name, outputs, inputs, backward)

    def stage_checkpoint(self, name: str, function: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Adds a node that stands for a function and runs it again for its gradient."""
        from tapeline.compiler.frontend import checkpointing  # it traces, with this module

        return checkpointing.stage_checkpoint(name, function, inputs)

    def stage_cond(
        self, condition: Tensor, then: Any, other: Any, operands: Sequence[Tensor]
    ) -> list[Tensor]:
        """A choice between two functions, as one node."""
        from tapeline.compiler.frontend import control  # it traces with this class

        return control.stage_cond(condition, then, other, operands)

    def stage_while(self, test: Any, body: Any, state: Sequence[Tensor]) -> list[Tensor]:
        """A loop as one node."""
        from tapeline.compiler.frontend import control

        return control.stage_while(test, body, state)

    def stage_scan(
        self, test: Any, body: Any, limit: int | Tensor, state: Sequence[Tensor],
        xs: Sequence[Tensor], length: int, reverse: bool,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
        """A loop over rows, or with a limit, as one node."""
        from tapeline.compiler.frontend import control

        rows = control.Rows(xs, length, reverse)
        turns = limit if isinstance(limit, Tensor) else control.limit_tensor(limit)
        return control.stage_scan(test, body, turns, state, rows)

    def stage_fixed_point(self, step: Any, state: Sequence[Tensor]) -> list[Tensor]:
        """A solution that knows its equation."""
        from tapeline.compiler.frontend import fixed_point

        return fixed_point.stage_fixed_point(step, state)

    def value_size(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs, most: Any) -> Any:
        """The size of what an op yields, which depends on values: open, and told by each call.

        Raises
        ------
        SymbolicTensorError
            In a part of a trace that becomes one node.
        """
        from tapeline.compiler.frontend import value_sizes  # it needs this class

        return value_sizes.make_size(self, op, inputs, attrs, most)

    def size_tensor(self, size: Any) -> Tensor:
        """A size that is left open as a number, which promotes like Python's."""
        node = self.add(SIZE, (), (size,), self.location or user_location())
        symbol = Symbol(self, node, self.spec(node))
        symbol.weak = int
        return wrap(symbol)

    # ---- values of outside

    def value_id(self, tensor: Tensor) -> int:
        """The node of a tensor's value; a tensor of outside is captured."""
        value = tensor._value
        if type(value) is Symbol:
            if value.graph is self:
                return value.id
            if not self._encloses(value.graph):
                raise LeakedTensorError(
                    f"a symbolic tensor made by {value.describe()} is used in the trace of "
                    f"{self.name!r}, but its own trace is over or unrelated; return it from the "
                    "function that made it, or pass it as an argument"
                )
        elif id(tensor) in self._constant_cells:
            return self._constant_id(value)
        return self.capture(tensor).placeholder

    def _constant_id(self, value: npt.NDArray[Any]) -> int:
        """The node of a constant; a big array of one number is that number, broadcast."""
        location = self.location or user_location()
        if value.nbytes > SMALL_CONSTANT_BYTES:
            bits = np.ascontiguousarray(value).view(np.uint8).reshape(-1, value.itemsize)
            if (bits == bits[0]).all():
                scalar = self.add_constant(value.reshape(-1)[0], location)
                return self.add(get_op("broadcast_to"), (scalar,), (value.shape,), location)
        return self.add_constant(value, location)

    def _encloses(self, graph: CapturingGraph) -> bool:
        outer = self.outer
        while outer is not None:
            if outer is graph:
                return outer.is_open
            outer = outer.outer
        return False

    def capture(self, tensor: Tensor) -> Capture:
        """The capture of a tensor, new if it is met for the first time."""
        found = self._by_source.get(id(tensor))
        if found is None:
            value = tensor._value
            node = self.add_placeholder(
                spec_of(value.shape, value.dtype), f"capture{len(self.captures)}", user_location()
            )
            found = Capture(tensor, node, tensor, value, tensor._node)
            self._by_source[id(tensor)] = found
            self.captures.append(found)
        return found

    def let_go(self) -> None:
        """Lets go of what it captured, once the graph of a block is part of another one."""
        self.captures.clear()
        self._by_source.clear()

    def is_captured(self, tensor: Tensor) -> bool:
        """Whether a tensor of outside was met."""
        return id(tensor) in self._by_source

    def made(self, tensor: Tensor) -> bool:
        """Whether a tensor is of this graph: a result of it, or a constant that was made in it."""
        if self.is_captured(tensor):
            return False  # it may have been given a value here
        return getattr(tensor._value, "graph", None) is self or id(tensor) in self._constant_cells

    def capture_at(self, node: int) -> Capture | None:
        """The capture whose placeholder a node is."""
        return next((found for found in self.captures if found.placeholder == node), None)

    def is_table(self, value: Any) -> bool:
        """Whether it is an array that NumPy would make of sizes, and nobody wrote to."""
        symbol = value._value if type(value) is Tensor else None
        return type(symbol) is Symbol and symbol.graph is self and symbol.id in self.tables

    def _adopt(self, tensor: Tensor, source: Any) -> Tensor:
        """Called for each tensor made from Python or NumPy data: a constant, or an array of
        outside."""
        if STATE.handler is not self:
            return tensor
        is_array = isinstance(source, _ndarray) and source.ndim and not self.holds_arrays
        if is_array and id(source) not in self._frozen:
            return self._capture_array(tensor, source)
        self._constant_cells[id(tensor)] = tensor
        if type(source) in WEAK_TYPES:
            self._numbers.add(id(tensor))
        return tensor

    def _capture_array(self, tensor: Tensor, source: npt.NDArray[Any]) -> Tensor:
        found = self._by_source.get(id(source))
        if found is None:
            spec = spec_of(tensor._value.shape, tensor._value.dtype)
            node = self.add_placeholder(spec, f"capture{len(self.captures)}", user_location())
            found = Capture(source, node, tensor, tensor._value, None)
            self._by_source[id(source)] = found
            self.captures.append(found)
        elif found.cell._value.dtype != tensor._value.dtype:
            self._constant_cells[id(tensor)] = tensor
            return tensor
        return self.tensor(found.placeholder)

    def settled_value(self, node: int) -> npt.NDArray[Any] | None:
        """The value of a node that no call can change: a constant, an array that was made in the
        trace and that nobody has any more, or such a value of a graph around."""
        if self.ops[node] is not PLACEHOLDER:
            return self.constant_value(node)
        for found in self.captures:
            if found.placeholder == node:
                source: Any = found.source
                if isinstance(source, _ndarray):
                    is_ours = source.base is None and sys.getrefcount(source) <= _OURS
                    return source if is_ours else None
                return getattr(found.before, "settled", None)
        return None

    def root(self) -> CapturingGraph:
        """The outermost graph that is traced together with this one, a branch or a body."""
        root = self
        while root.surroundings is not None and root.outer is not None:
            root = root.outer
        return root

    def defer(self, source: Deferred, key: Hashable | None = None) -> Tensor:
        """A hidden input of the function, with a value that is asked for at each call; one per
        key."""
        root = self.root()
        known = None if key is None else root.deferred.get(key)
        if known is not None:
            return known
        name, spec = f"capture{len(root.captures)}", spec_of(source.shape, source.dtype)
        tensor = root.placeholder_tensor(spec, name)
        value = tensor._value
        root.captures.append(Capture(source, value.id, tensor, value, None))
        if key is not None:
            root.deferred[key] = tensor
        return tensor

    def on_trace_end(self, callback: Callable[[], object]) -> None:
        """Has a function called when the trace is over."""
        self.root().callbacks.append(callback)

    def written_cells(self) -> list[tuple[Capture, int]]:
        """Captured cells that the trace gave a new value, with the node of that value; all cells
        get back
        what they held before."""
        written = []
        for capture in self.captures:
            value = capture.cell._value
            if value is capture.before:
                continue
            if type(value) is Symbol:
                if value.graph is not self:
                    raise TracingError(
                        f"{self.name}: a captured tensor was given a value of another trace"
                    )
                written.append((capture, value.id))
            capture.cell._value = capture.before
            capture.cell._node = capture.node_before
        return written
