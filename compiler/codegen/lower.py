"""From an optimized graph to a program: which values get memory, and what each step computes.

The inputs' layouts are part of the question, so a transposed array is read in place. Nothing here
emits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tapeline.compiler.codegen.cluster import Cluster, ClusterBuilder, is_source, is_view
from tapeline.compiler.codegen.epilogue import fuse_epilogues
from tapeline.compiler.codegen.library import library_routine
from tapeline.compiler.codegen.matmul import matmul_needs_copy, matrix_operand_of, supports_matmul
from tapeline.compiler.codegen.nest import Step
from tapeline.compiler.codegen.nest_builder import (
    NestBuilder,
    Parts,
    cast_step,
    constant_parts,
    copy_step,
    placed_words,
    read_parts,
    reduce_parts,
    store_parts,
    word_steps,
)
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
)
from tapeline.runtime.spec import TensorSpec

_COMMON_NUMBERS = frozenset({0, 1, -1, 2, -2, 0.5, -0.5})
"""Numbers that are more often part of a formula than made from sizes."""


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
            source, target = placed_words(source), placed_words(target)
        shape = target.spec.static_shape
        nest = NestBuilder(shape, ())
        offset = len(shape) - len(source.spec.static_shape)
        value = nest.read(source, range(offset, len(shape)))
        dtype = target.spec.dtype
        value = nest.step(
            copy_step(dtype, value) if source.spec.dtype == dtype else cast_step(dtype, value)
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
                store_parts(nest, inside[node], self.place(node), cluster.maps[node])
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
            return constant_parts(nest, constant.item(), spec.dtype)
        placed = self.place(value)
        ndim = len(spec.static_shape)
        return read_parts(nest, placed, dimensions[len(dimensions) - ndim :] if ndim else ())

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
            value = constant_parts(nest, part.fill, spec.dtype)
            store_parts(nest, value, region, range(spec.ndim))
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


def lower_graph(
    graph: Graph, target: Target, layouts: Sequence[Layout | None] | None = None
) -> Program:
    """The program of an optimized graph whose inputs have these layouts (None: C-contiguous)."""
    if layouts is None:
        layouts = [None] * len(graph.placeholders)
    return fuse_epilogues(Lowering(graph, layouts, target).run(), target)
