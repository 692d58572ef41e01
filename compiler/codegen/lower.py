"""From an optimized graph to a program: which values get memory, and what each step computes.

The inputs' layouts are part of the question, so a transposed array is read in place. Nothing here
emits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from tapeline.compiler.codegen.cluster import Cluster, ClusterBuilder, is_source, is_view
from tapeline.compiler.codegen.epilogue import fuse_epilogues
from tapeline.compiler.codegen.halves import decoded, encoded, is_half
from tapeline.compiler.codegen.library import library_routine
from tapeline.compiler.codegen.matmul import matmul_needs_copy, matrix_operand_of, supports_matmul
from tapeline.compiler.codegen.nest import Nest, Operand, Step, StepKind
from tapeline.compiler.codegen.program import (
    Buffer,
    BufferKind,
    ControlStep,
    HostStep,
    MatmulStep,
    NestStep,
    Placed,
    Program,
    ProgramStep,
)
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.codegen.values import is_supported
from tapeline.compiler.codegen.views import Layout, dense_layout, is_dense, view_layout
from tapeline.compiler.codegen.words import in_words, parts_of
from tapeline.compiler.ir.control_ops import loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import PICK
from tapeline.runtime.op import (
    Assembly,
    Branch,
    LibraryCall,
    Loop,
    Pointwise,
    Reduction,
    ScalarEmitter,
)
from tapeline.runtime.spec import DType, Shape, TensorSpec

_BOOL, _UINT16, _FLOAT32 = np.dtype(bool), np.dtype(np.uint16), np.dtype(np.float32)
Parts: TypeAlias = tuple[int, ...]
"""The values of a nest that stand for one value of the graph: two for a complex one."""
_COMMON_NUMBERS = frozenset({0, 1, -1, 2, -2, 0.5, -0.5})
"""Numbers that are more often part of a formula than made from sizes."""


def _copy(_: ScalarEmitter[Any], value: Any) -> Any:
    return value


def cast_step(dtype: DType, value: int) -> Step:
    """A step that converts a value."""
    return Step("map", dtype, (value,), lambda b, x: b.cast(x, dtype), ("cast", dtype.str))


def constant_step(value: complex, dtype: DType) -> Step:
    """A step that yields a constant."""
    key = ("constant", dtype.str, repr(value))
    return Step("map", dtype, (), lambda b: b.constant(value, dtype), key)


class NestBuilder:
    """Collects the operands and steps of one nest; values are numbered when it is done."""

    def __init__(self, space: Shape, axes: tuple[int, ...]) -> None:
        self.space = space
        self.axes = axes
        self.sources: list[Operand] = []
        self.source_buffers: list[int] = []
        self.steps: list[Step] = []
        self.stores: list[tuple[int, Operand, int]] = []
        self._known: dict[Any, int] = {}

    # Values are held as -1 - k for source k and k for step k until the number of sources is known.

    def read(self, placed: Placed, axes_of: Sequence[int]) -> int:
        """The value at `placed`, whose dimension d runs along axis `axes_of[d]` (-1: one
        element)."""
        strides = [0] * len(self.space)
        for d, axis in enumerate(axes_of):
            if axis >= 0 and placed.spec.static_shape[d] != 1:
                strides[axis] = placed.layout.strides[d]
        operand = Operand(placed.spec.dtype, tuple(strides), placed.layout.offset)
        key = (placed.buffer, operand)
        found = self._known.get(key)
        if found is None:
            self.sources.append(operand)
            self.source_buffers.append(placed.buffer)
            found = self._known[key] = -len(self.sources)
        return found

    def step(self, step: Step) -> int:
        """A further step; equal constants are shared."""
        if not step.args and step.kind == "map":
            found = self._known.get(step.key)
            if found is not None:
                return found
            self._known[step.key] = len(self.steps)
        self.steps.append(step)
        return len(self.steps) - 1

    def store(self, value: int, placed: Placed, axes_of: Sequence[int]) -> None:
        """Stores a value at `placed`."""
        strides = [0] * len(self.space)
        for d, axis in enumerate(axes_of):
            if axis >= 0:
                strides[axis] = placed.layout.strides[d]
        operand = Operand(placed.spec.dtype, tuple(strides), placed.layout.offset)
        self.stores.append((value, operand, placed.buffer))

    def build(self) -> tuple[Nest, tuple[int, ...]]:
        """The nest, and the buffer of each operand."""
        n = len(self.sources)

        def number(value: int) -> int:
            return -1 - value if value < 0 else n + value

        steps = tuple(
            Step(s.kind, s.dtype, tuple(map(number, s.args)), s.emit, s.key, s.axis)
            for s in self.steps
        )
        operands = (*self.sources, *(operand for _, operand, _ in self.stores))
        buffers = (*self.source_buffers, *(buffer for _, _, buffer in self.stores))
        results = tuple(number(value) for value, _, _ in self.stores)
        return Nest(self.space, self.axes, operands, n, steps, results), buffers


class Lowering:
    """One lowering; `lower_graph` is the way in."""

    def __init__(self, graph: Graph, layouts: Sequence[Layout | None], target: Target) -> None:
        self.graph = graph
        self.target = target
        self.layouts = layouts
        self.buffers: list[Buffer] = []
        self.counts: dict[BufferKind, int] = {}
        self.steps: list[ProgramStep] = []
        self.places: dict[int, Placed] = {}
        self.builder = ClusterBuilder(graph)
        self.based: dict[int, int] = {}
        self.picks = {
            (graph.inputs[node][0], cast(int, graph.attrs[node][0])): node
            for node, op in enumerate(graph.ops)
            if op is PICK
        }

    def run(self) -> Program:
        graph = self.graph
        clusters = self.builder.run()
        inputs = []
        for node, layout in zip(graph.placeholders, self.layouts, strict=True):
            spec = graph.spec(node)
            placed = Placed(
                self._buffer("input", spec.nbytes),
                layout or dense_layout(spec.static_shape, spec.dtype.itemsize),
                spec,
            )
            self.places[node] = placed
            inputs.append(placed)
        copies = self._place_outputs()
        needed = self._materialized()
        for cluster in clusters:
            if cluster.is_fused:
                self._lower_fused(cluster, needed)
            else:
                self._lower_single(cluster.nodes[0])
        for node, target in copies:
            self._copy(self.place(node), target, "copy")
        kept = self._finish()
        specs = tuple(graph.spec(node) for node in graph.outputs)
        based = tuple(self.based.items())
        steps, given = tuple(self.steps), tuple(inputs)
        return Program(graph.name, tuple(self.buffers), steps, given, specs, based, kept)

    def _finish(self) -> tuple[int, ...]:
        """Called when all steps are there; returns buffers that somebody reads afterwards."""
        return ()

    # ---- memory

    def _buffer(self, kind: BufferKind, nbytes: int, index: int | None = None) -> int:
        if index is None:
            index = self.counts.get(kind, 0)
            self.counts[kind] = index + 1
        self.buffers.append(Buffer(kind, index, nbytes))
        return len(self.buffers) - 1

    def _dense(self, spec: TensorSpec, kind: BufferKind, index: int | None = None) -> Placed:
        layout = dense_layout(spec.static_shape, spec.dtype.itemsize)
        return Placed(self._buffer(kind, spec.nbytes, index), layout, spec)

    def _place_outputs(self) -> list[tuple[int, Placed]]:
        """Gives outputs their buffers; returns the (value, place) pairs that have to be copied
        there."""
        copies: list[tuple[int, Placed]] = []
        for index, node in enumerate(self.graph.outputs):
            spec = self.graph.spec(node)
            placed = self._dense(spec, "output", index)
            base = self.builder.base(node)
            if base in self.places or is_source(self.graph, base):
                copies.append((node, placed))
                continue
            own = self.graph.spec(base)
            whole = self._layout_in(base, node, Placed(placed.buffer, dense_layout(
                own.static_shape, own.dtype.itemsize), own))  # fmt: skip
            if own.size == spec.size and whole == placed.layout:
                self.places[base] = Placed(
                    placed.buffer, dense_layout(own.static_shape, own.dtype.itemsize), own
                )
            else:
                copies.append((node, placed))
        return copies

    def _layout_in(self, base: int, node: int, placed: Placed) -> Layout | None:
        """The layout of a view `node` of `base` when the base lies at `placed`."""
        chain = []
        while node != base:
            chain.append(node)
            node = self.graph.inputs[node][0]
        layout = placed.layout
        for view in reversed(chain):
            source = self.graph.spec(self.graph.inputs[view][0])
            found = view_layout(
                self.graph.ops[view], self.graph.attrs[view], source.static_shape,
                source.dtype.itemsize, layout,
            )  # fmt: skip
            if found is None:
                return None
            layout = found
        return layout

    def place(self, node: int) -> Placed:
        """Where a value lies; makes a dense copy where a view of a strided array needs one."""
        known = self.places.get(node)
        if known is not None:
            return known
        spec = self.graph.spec(node)
        constant = self.graph.constant_value(node)
        if constant is not None:
            placed = self._dense(spec, "constant", cast(int, self.graph.attrs[node][0]))
        elif is_view(self.graph, node):
            chain = []
            while node not in self.places and is_view(self.graph, node):
                chain.append(node)
                node = self.graph.inputs[node][0]
            placed = self.place(node)
            for view in reversed(chain):
                placed = self.places[view] = self._view(view, placed)
            return placed
        else:
            placed = self._dense(spec, "arena")
        self.places[node] = placed
        return placed

    def _view(self, node: int, source: Placed) -> Placed:
        op, attrs = self.graph.ops[node], self.graph.attrs[node]
        shape, itemsize = source.spec.static_shape, source.spec.dtype.itemsize
        layout = view_layout(op, attrs, shape, itemsize, source.layout)
        if layout is None:
            source = self._copied(source)
            layout = view_layout(op, attrs, shape, itemsize, source.layout)
            assert layout is not None
        return Placed(source.buffer, layout, self.graph.spec(node))

    def _materialized(self) -> set[int]:
        """The computed nodes that somebody outside their cluster reads."""
        home, base = self.builder.home, self.builder.base
        needed = {base(node) for node in self.graph.outputs}
        for node, inputs in enumerate(self.graph.inputs):
            own = home.get(node)
            if own is None:
                continue
            for value in inputs:
                root = base(value)
                if home.get(root, own) != own:
                    needed.add(root)
        return needed

    # ---- steps

    def _emit(self, nest: NestBuilder, label: str, nodes: tuple[int, ...]) -> None:
        built, buffers = nest.build()
        if not nest.stores:
            return
        location = next((self.graph.locations[n] for n in nodes if self.graph.locations[n]), None)
        self.steps.append(NestStep(built, buffers, label, nodes, location))

    def _copy(self, source: Placed, target: Placed, label: str) -> None:
        """Copies with a cast to the target's dtype; the source may broadcast."""
        if not is_supported(target.spec.dtype):
            assert source.spec.dtype == target.spec.dtype
            source, target = _in_words(source), _in_words(target)
        shape = target.spec.static_shape
        nest = NestBuilder(shape, ())
        offset = len(shape) - len(source.spec.static_shape)
        value = nest.read(source, range(offset, len(shape)))
        dtype = target.spec.dtype
        value = nest.step(
            Step("map", dtype, (value,), _copy, ("identity",))
            if source.spec.dtype == dtype
            else cast_step(dtype, value)
        )
        nest.store(value, target, range(len(shape)))
        self._emit(nest, label, ())

    def _lower_fused(self, cluster: Cluster, needed: set[int]) -> None:
        assert cluster.space is not None
        nest = NestBuilder(cluster.space, cluster.axes or ())
        inside: dict[int, Parts] = {}
        for node in cluster.nodes:
            inside[node] = self._fused_step(cluster, node, nest, inside)
        names = []
        for node in cluster.nodes:
            names.append(self.graph.ops[node].name)
            if node in needed:
                _store(nest, inside[node], self.place(node), cluster.maps[node])
        self._emit(nest, "+".join(dict.fromkeys(names)), tuple(cluster.nodes))

    def _fused_step(
        self, cluster: Cluster, node: int, nest: NestBuilder, inside: dict[int, Parts]
    ) -> Parts:
        graph = self.graph
        lowering = graph.ops[node].lowering
        spec = graph.spec(node)
        if isinstance(lowering, Reduction):
            return self._reducing_step(cluster, node, lowering, nest, inside)
        assert isinstance(lowering, Pointwise)
        dimensions = cluster.maps[node]
        inputs = graph.inputs[node]
        args = [self._argument(value, dimensions, nest, inside) for value in inputs]
        attrs = graph.attrs[node]
        emit: Callable[..., Any] = lowering.emit
        if attrs:
            body = lowering.emit
            emit = lambda b, *values: body(b, *values, *attrs)  # noqa: E731 - one expression
        given = tuple([graph.spec(value).dtype for value in inputs])
        key = (graph.ops[node], attrs)
        if all(is_supported(dtype) for dtype in (*given, spec.dtype)):
            return (nest.step(Step("map", spec.dtype, tuple([x for (x,) in args]), emit, key)),)
        return word_steps(nest, emit, given, spec.dtype, args, key)

    def _is_from_sizes(self, constant: Any) -> bool:
        """Whether a number may follow from open sizes, so that it is not to be part of the text."""
        return self.target.open_sizes and constant.item() not in _COMMON_NUMBERS

    def _argument(
        self, value: int, dimensions: Sequence[int], nest: NestBuilder, inside: dict[int, Parts]
    ) -> Parts:
        base = self.builder.base(value)
        if base in inside:
            return inside[base]
        spec = self.graph.spec(value)
        constant = self.graph.constant_value(base)
        if constant is not None and constant.size == 1 and not self._is_from_sizes(constant):
            return _constant(nest, constant.item(), spec.dtype)
        placed = self.place(value)
        ndim = len(spec.static_shape)
        return _read(nest, placed, dimensions[len(dimensions) - ndim :] if ndim else ())

    def _reducing_step(
        self,
        cluster: Cluster,
        node: int,
        lowering: Reduction,
        nest: NestBuilder,
        inside: dict[int, Parts],
    ) -> Parts:
        (value,) = self.graph.inputs[node]
        given, spec = self.graph.spec(value), self.graph.spec(node)
        reduced, _ = self.graph.attrs[node]
        assert isinstance(reduced, tuple)
        argument = self._argument(value, cluster.arguments[node], nest, inside)
        trivial = all(given.static_shape[d] == 1 for d in reduced)
        return reduce_parts(nest, lowering.kind, argument, given.dtype, spec.dtype, trivial)

    def _lower_single(self, node: int) -> None:
        graph = self.graph
        lowering = graph.ops[node].lowering
        if isinstance(lowering, Assembly):
            self._lower_assembly(node, lowering)
        elif (
            isinstance(lowering, LibraryCall)
            and lowering.name == "matmul"
            and supports_matmul(graph.spec(node).dtype, self.target)
        ):
            self._lower_matmul(node)
        elif isinstance(lowering, Branch | Loop):
            self._lower_control(node)
        else:
            self._lower_host(node)

    def _lower_control(self, node: int) -> None:
        from tapeline.compiler.codegen.bodies import lower_bodies  # it lowers with this class

        graph = self.graph
        inputs = tuple(self.passed(value) for value in graph.inputs[node])
        if graph.ops[node].n_outputs is None:
            parts = [node]
        else:
            parts = [self.picks.get((node, k), -1) for k in range(len(graph.specs[node]))]  # type: ignore[arg-type]  # a tuple where there are several
        outputs = tuple(None if part < 0 else self.passed(part) for part in parts)
        constants = [graph.constant_value(value) for value in graph.inputs[node]]
        known = tuple(
            c.item() if c is not None and not c.ndim and is_supported(c.dtype) else None
            for c in constants
        )
        if self._lower_elements(node, parts):
            return
        inputs, bodies = lower_bodies(self, node, inputs, outputs)
        op, attrs, location = graph.ops[node], graph.attrs[node], graph.locations[node]
        self.steps.append(
            ControlStep(
                op, attrs, inputs, known, outputs, bodies, op.name, (node, *parts), location
            )
        )

    def _lower_elements(self, node: int, parts: Sequence[int]) -> bool:
        """Lowers a loop whose elements are independent as a nest; False for other nodes."""
        graph = self.graph
        op = graph.ops[node]
        if not isinstance(op.lowering, Loop):
            return False
        from tapeline.compiler.codegen.pointloop import element_shape, loop_steps

        form = loop_form(op, graph.attrs[node])
        shape = element_shape(form, [part >= 0 for part in parts])
        if shape is None:
            return False
        nest = NestBuilder(shape, ())
        axes = range(len(shape))
        arguments = [self._argument(value, axes, nest, {})[0] for value in graph.inputs[node]]
        outputs = [k for k in range(form.n_state) if parts[form.first + k] >= 0]
        for position, step in zip(outputs, loop_steps(form, arguments, outputs), strict=True):
            nest.store(nest.step(step), self.place(parts[form.first + position]), axes)
        self._emit(nest, op.name, (node,))
        return True

    def passed(self, node: int) -> Placed | None:
        """Where control flow finds or leaves a value; None where it is in a register."""
        return self.place(node)

    def handed(self, node: int) -> frozenset[int]:
        """The operands of a choice that its branches may write over."""
        return frozenset()

    def lies_dense(self, placed: Placed) -> bool:
        """Whether a value lies in C order without gaps."""
        return _lies_dense(placed)

    def copy_to(self, source: Placed, target: Placed) -> None:
        """Copies a value, which may be broadcast."""
        self._copy(source, target, "copy")

    def dense(self, placed: Placed) -> Placed:
        """The value in C order, copied if need be."""
        return placed if _lies_dense(placed) else self._copied(placed)

    def _lower_matmul(self, node: int) -> None:
        graph = self.graph
        a, b = (self.place(value) for value in graph.inputs[node])
        out = self.place(node)
        copy_a, copy_b = matmul_needs_copy(
            matrix_operand_of(a), matrix_operand_of(b), matrix_operand_of(out), self.target
        )
        a, b = (self._copied(a) if copy_a else a), (self._copied(b) if copy_b else b)
        label, location = graph.ops[node].name, graph.locations[node]
        self.steps.append(MatmulStep(a, b, out, label, (node,), location))

    def _copied(self, source: Placed) -> Placed:
        dense = self._dense(source.spec, "arena")
        self._copy(source, dense, "copy")
        return dense

    def _lower_assembly(self, node: int, lowering: Assembly) -> None:
        graph = self.graph
        target = self.place(node)
        specs = [graph.spec(value) for value in graph.inputs[node]]
        for part in lowering.parts(specs, graph.attrs[node]):
            strides = target.layout.strides
            offset = target.layout.offset
            extents = []
            for piece, stride, extent in zip(
                part.region, strides, target.spec.static_shape, strict=True
            ):
                start, stop, step = piece.indices(extent)
                assert step == 1
                offset += start * stride
                extents.append(max(stop - start, 0))
            spec = TensorSpec(extents, target.spec.dtype)
            region = Placed(target.buffer, Layout(offset, strides), spec)
            if part.fill is None:
                self._copy(
                    self.place(graph.inputs[node][part.source]), region, graph.ops[node].name
                )
                continue
            nest = NestBuilder(spec.static_shape, ())
            value = _constant(nest, part.fill, spec.dtype)
            _store(nest, value, region, range(spec.ndim))
            self._emit(nest, graph.ops[node].name, (node,))

    def _lower_host(self, node: int) -> None:
        graph = self.graph
        inputs = tuple(self.place(value) for value in graph.inputs[node])
        spec = graph.specs[node]
        if isinstance(spec, tuple):
            outputs = tuple(
                self.place(self.picks[node, k])
                if (node, k) in self.picks
                else self._dense(one, "arena")
                for k, one in enumerate(spec)
            )
        else:
            outputs = (self.place(node),)
        op = graph.ops[node]
        routine = None
        if isinstance(op.lowering, LibraryCall) and op.lowering.name != "matmul":
            inputs = tuple(x if _lies_dense(x) else self._copied(x) for x in inputs)
            if _lies_dense(outputs[0]):
                specs = [placed.spec for placed in (*inputs, *outputs)]
                routine = library_routine(op.lowering.name, specs, graph.attrs[node])
        self.steps.append(
            HostStep(
                op, graph.attrs[node], inputs, outputs, op.name, (node,), graph.locations[node],
                routine,
            )
        )  # fmt: skip


def _lies_dense(placed: Placed) -> bool:
    """Whether a value lies in C order without gaps."""
    spec = placed.spec
    return is_dense(spec.static_shape, placed.layout, spec.dtype.itemsize)


def _in_words(placed: Placed) -> Placed:
    """Complex elements as pairs of floats, along one more dimension; floats of 16 bits as ints."""
    spec, layout = placed.spec, placed.layout
    if spec.dtype.kind != "c":
        return Placed(placed.buffer, layout, TensorSpec(spec.static_shape, _UINT16))
    size = spec.dtype.itemsize // 2
    parts = TensorSpec((*spec.static_shape, 2), np.dtype(f"f{size}"))
    return Placed(placed.buffer, Layout(layout.offset, (*layout.strides, size)), parts)


def _places_of_parts(placed: Placed) -> tuple[Placed, ...]:
    """Where each part of the elements lies."""
    spec, layout = placed.spec, placed.layout
    if is_half(spec.dtype):
        return (_in_words(placed),)
    return tuple([
        Placed(
            placed.buffer,
            Layout(layout.offset + k * part.itemsize, layout.strides),
            TensorSpec(spec.static_shape, part),
        )
        for k, part in enumerate(parts_of(spec.dtype))
    ])  # fmt: skip


def _read(nest: NestBuilder, placed: Placed, axes_of: Sequence[int]) -> Parts:
    """The parts of the value at `placed`, as `NestBuilder.read`."""
    values = tuple([nest.read(part, axes_of) for part in _places_of_parts(placed)])
    dtype = placed.spec.dtype
    if not is_half(dtype):
        return values
    return (nest.step(Step("map", _FLOAT32, values, lambda b, x: decoded(b, x, dtype),
                           ("decoded", dtype.name))),)  # fmt: skip


def _store(nest: NestBuilder, value: Parts, placed: Placed, axes_of: Sequence[int]) -> None:
    """Stores all parts of a value."""
    dtype = placed.spec.dtype
    if is_half(dtype):
        value = (nest.step(Step("map", _UINT16, value, lambda b, x: encoded(b, x, dtype),
                                ("encoded", dtype.name))),)  # fmt: skip
    for part, place in zip(value, _places_of_parts(placed), strict=True):
        nest.store(part, place, axes_of)


def _constant(nest: NestBuilder, value: Any, dtype: DType) -> Parts:
    """The parts of a constant."""
    if dtype.kind != "c":
        return (nest.step(constant_step(value, parts_of(dtype)[0])),)
    number, (part, _) = complex(value), parts_of(dtype)
    return tuple([nest.step(constant_step(x, part)) for x in (number.real, number.imag)])


def word_steps(
    nest: NestBuilder,
    emit: Callable[..., Any],
    given: tuple[DType, ...],
    dtype: DType,
    args: Sequence[Parts],
    key: Hashable,
) -> Parts:
    """Steps for each part of what a body gives for values whose parts are `args`."""
    compute = in_words(emit, given, dtype)
    whole = (key, *[one.name for one in (*given, dtype)])
    flat = tuple([value for parts in args for value in parts])

    def part_of(number: int) -> Callable[..., Any]:
        return lambda b, *values: b.once(whole, values, compute)[number]

    return tuple([
        nest.step(Step("map", part, flat, part_of(number), (*whole, number)))
        for number, part in enumerate(parts_of(dtype))
    ])  # fmt: skip


def reduce_parts(
    nest: NestBuilder, kind: StepKind, argument: Parts, given: DType, dtype: DType, trivial: bool
) -> Parts:
    """Steps that reduce a value of dtype `given` to one of `dtype`; along extents of one where that
    is `trivial`."""
    if kind in ("any", "all"):
        if given != _BOOL:
            key = ("nonzero", given.name)
            argument = word_steps(nest, _is_nonzero, (given,), _BOOL, (argument,), key)
    elif kind not in ("argmax", "argmin") and given != dtype:
        cast: Callable[..., Any] = lambda b, x: b.cast(x, dtype)  # noqa: E731 - one expression
        argument = word_steps(nest, cast, (given,), dtype, (argument,), ("cast", dtype.name))
    if kind in ("argmax", "argmin"):
        return (nest.step(constant_step(0, dtype) if trivial else Step(kind, dtype, argument,
                                                                      None, (kind,))),)  # fmt: skip
    parts = parts_of(dtype)
    if trivial:
        return tuple([
            nest.step(Step("map", part, (x,), _copy, ("identity",)))
            for part, x in zip(parts, argument, strict=True)
        ])  # fmt: skip
    totals = tuple([
        nest.step(Step(kind, part, (x,), None, (kind,)))
        for part, x in zip(parts, argument, strict=True)
    ])  # fmt: skip
    if not is_half(dtype):
        return totals
    return word_steps(nest, _copy, (dtype,), dtype, (totals,), ("identity",))


def _is_nonzero(b: ScalarEmitter[Any], value: Any) -> Any:
    return b.compare("ne", value, b.const(0, value))


def lower_graph(
    graph: Graph, target: Target, layouts: Sequence[Layout | None] | None = None
) -> Program:
    """The program of an optimized graph whose inputs have these layouts (None: C-contiguous)."""
    if layouts is None:
        layouts = [None] * len(graph.placeholders)
    return fuse_epilogues(Lowering(graph, layouts, target).run(), target)
