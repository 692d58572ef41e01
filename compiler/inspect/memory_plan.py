"""Shows how intermediate values share the arena: a table, and a picture with time to the right and
addresses downwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from tapeline.compiler.codegen.module import Module
from tapeline.compiler.codegen.program import (
    ControlStep,
    HostStep,
    MatmulStep,
    NestStep,
    ProgramStep,
)
from tapeline.compiler.inspect.families import family_of_node
from tapeline.compiler.inspect.summary import WIDTH, bytes_text
from tapeline.compiler.inspect.svg import COLOURS
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.text import spec_text

STEP_WIDTH = 46.0
MIN_WIDTH = 520.0
PLOT_HEIGHT = 320.0
LEFT = 78.0
TOP = 66.0
MIN_LABEL = 13.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A value in the arena.

    Attributes
    ----------
    name : str
        The node, and its op.
    spec : str
        Its dtype and shape.
    offset, nbytes : int
        Where it lies, and how much it takes.
    first, last : int
        The kernel that writes it, and the last one that reads it.
    family : str
        The kind of work that makes it.
    """

    name: str
    spec: str
    offset: int
    nbytes: int
    first: int
    last: int
    family: str


class MemoryPlan:
    """The arena of a compiled graph. Prints as a table; `to_svg()` draws it.

    Attributes
    ----------
    name : str
        The graph.
    intervals : tuple of Interval
        The values in it, by the time at which they are written.
    nbytes : int
        How large the arena is.
    peak : int
        The most bytes that are in use at one time: no arena could be smaller.
    unshared : int
        What the values would take if none shared memory with another.
    n_steps : int
        How many kernels run.
    """

    def __init__(
        self, name: str, intervals: tuple[Interval, ...], nbytes: int, n_steps: int
    ) -> None:
        self.name = name
        self.intervals = intervals
        self.nbytes = nbytes
        self.n_steps = n_steps
        self.unshared = sum(one.nbytes for one in intervals)
        live = [0] * max(n_steps, 1)
        for one in intervals:
            for step in range(one.first, one.last + 1):
                live[step] += one.nbytes
        self.peak = max(live)

    def __repr__(self) -> str:
        return f"<memory plan of {self.name}: {bytes_text(self.nbytes)}>"

    def __str__(self) -> str:
        count = len(self.intervals)
        lines = [
            f"memory of {self.name}: {count} value{'' if count == 1 else 's'} in an arena of "
            f"{bytes_text(self.nbytes)}",
            f"  {bytes_text(self.peak)} in use at most, "
            f"{bytes_text(self.unshared)} without sharing",
        ]
        if count:
            lines.append("     offset      bytes  kernels  value")
        for one in self.intervals:
            span = f"{one.first}-{one.last}"
            lines.append(
                f"  {one.offset:>9}  {bytes_text(one.nbytes):>9}  {span:<7}  {one.name} {one.spec}"
            )
        return "\n".join(line[:WIDTH] for line in lines)

    def to_svg(self) -> str:
        """The plan as the text of an SVG picture: kernels to the right, addresses downwards."""
        return draw_plan(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "image/svg+xml": self.to_svg()}


def written_buffers(step: ProgramStep) -> list[int]:
    """The buffers that a step writes."""
    if isinstance(step, NestStep):
        return list(step.buffers[step.nest.n_inputs :])
    if isinstance(step, MatmulStep):
        more = step.epilogue
        return [step.out.buffer, *(more.buffers[more.nest.n_inputs :] if more else ())]
    if isinstance(step, HostStep | ControlStep):
        return [placed.buffer for placed in step.outputs if placed is not None]
    return []


def describe_memory(graph: Graph, module: Module) -> MemoryPlan:
    """How the values in between share the arena.

    Parameters
    ----------
    graph : Graph
        The optimized graph.
    module : Module
        What was assembled from it.
    """
    program, arena = module.program, module.arena
    makers: dict[int, ProgramStep] = {}
    for step in program.steps:
        for buffer in written_buffers(step):
            makers.setdefault(buffer, step)
    intervals = []
    for buffer, offset in arena.offsets.items():
        first, last = arena.lifetimes[buffer]
        name, spec, family = _describe(graph, makers.get(buffer), buffer)
        nbytes = program.buffers[buffer].nbytes
        intervals.append(Interval(name, spec, offset, nbytes, first, last, family))
    for number, kernel in enumerate(module.kernels):
        if kernel is not None and kernel.scratch_bytes:
            place, nbytes = arena.scratch[number], kernel.scratch_bytes
            intervals.append(Interval("scratch", "", place, nbytes, number, number, "NumPy call"))
    intervals.sort(key=lambda one: (one.first, one.offset))
    return MemoryPlan(graph.name, tuple(intervals), arena.nbytes, len(program.steps))


def joined_plans(name: str, plans: Sequence[MemoryPlan]) -> MemoryPlan:
    """The plan of what runs one after the other; the memory of one serves the next."""
    intervals = []
    before = 0
    for number, plan in enumerate(plans):
        for one in plan.intervals:
            name_there = f"stage {number}: {one.name}"
            first, last = one.first + before, one.last + before
            intervals.append(replace(one, name=name_there, first=first, last=last))
        before += plan.n_steps
    largest = max((plan.nbytes for plan in plans), default=0)
    return MemoryPlan(name, tuple(intervals), largest, before)


def _describe(graph: Graph, step: ProgramStep | None, buffer: int) -> tuple[str, str, str]:
    """Name, spec and family of what a buffer holds."""
    if step is None or not step.nodes:
        return f"buffer {buffer}", "", "NumPy call"
    written = written_buffers(step)
    node = step.nodes[0 if isinstance(step, ControlStep) else -1]
    if len(written) == 1 or isinstance(step, HostStep):
        return (
            f"%{node} {graph.ops[node].name}",
            spec_text(graph.specs[node]),
            (family_of_node(graph, node)),
        )
    place = written.index(buffer) + 1
    name = f"%{node} {graph.ops[node].name} ({place} of {len(written)})"
    return name, "", family_of_node(graph, node)


def draw_plan(plan: MemoryPlan) -> str:
    """The SVG picture of a plan."""
    width = max(MIN_WIDTH, STEP_WIDTH * plan.n_steps)
    across = width / max(plan.n_steps, 1)
    down = PLOT_HEIGHT / max(plan.nbytes, 1)
    full_width, full_height = LEFT + width + 24, TOP + PLOT_HEIGHT + 48
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tl-memory" width="{full_width:.0f}" '
        f'height="{full_height:.0f}" viewBox="0 0 {full_width:.0f} {full_height:.0f}">',
        "<style>.tl-memory text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
        "fill:#22262b}.tl-memory .t{font-size:15px;font-weight:600}.tl-memory .n{fill:#7b828a}"
        "</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="24" y="30" class="t">memory of {escape(plan.name)}</text>',
        f'<text x="24" y="49" class="n">{bytes_text(plan.nbytes)} arena, '
        f"{bytes_text(plan.peak)} in use at most, {bytes_text(plan.unshared)} without sharing"
        "</text>",
        f'<rect x="{LEFT}" y="{TOP}" width="{width:.1f}" height="{PLOT_HEIGHT}" fill="#f7f8f9" '
        'stroke="#dfe3e7"/>',
        *_axes(plan, width, across),
    ]
    for one in plan.intervals:
        fill, ink = COLOURS[one.family]
        x, y = LEFT + one.first * across, TOP + one.offset * down
        box, high = (one.last - one.first + 1) * across, max(one.nbytes * down, 1.0)
        tooltip = f"{one.name} {one.spec}\n{one.nbytes} bytes at {one.offset}"
        tooltip += f"\nkernels {one.first} to {one.last}"
        lines.append(
            f'<g><title>{escape(tooltip)}</title><rect x="{x + 1:.1f}" y="{y:.1f}" '
            f'width="{box - 2:.1f}" height="{high:.1f}" rx="3" fill="{fill}" stroke="{ink}"/>'
        )
        room = int((box - 10) / 6.7)
        if high >= MIN_LABEL and room >= 3:
            text = one.name if len(one.name) <= room else one.name[: room - 1] + "…"
            middle = y + high / 2 + 4
            lines.append(f'<text x="{x + 6:.1f}" y="{middle:.1f}">{escape(text)}</text>')
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _axes(plan: MemoryPlan, width: float, across: float) -> list[str]:
    """Ticks: kernels below, addresses at the left."""
    lines = []
    every = max(1, round(40 / across))
    for step in range(0, plan.n_steps, every):
        x = LEFT + (step + 0.5) * across
        lines.append(
            f'<text x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 16:.0f}" text-anchor="middle" '
            f'class="n">{step}</text>'
        )
    lines.append(
        f'<text x="{LEFT + width / 2:.1f}" y="{TOP + PLOT_HEIGHT + 36:.0f}" '
        'text-anchor="middle" class="n">kernel</text>'
    )
    for quarter in range(5):
        y = TOP + PLOT_HEIGHT * quarter / 4
        text = bytes_text(plan.nbytes * quarter // 4)
        lines.append(
            f'<text x="{LEFT - 8:.0f}" y="{y + 4:.1f}" text-anchor="end" class="n">{text}</text>'
            f'<line x1="{LEFT}" x2="{LEFT + width:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="#e6e9ec"/>'
        )
    return lines
