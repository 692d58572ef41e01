"""Says in a few lines of text what a graph consists of. At most 80 columns wide."""

from __future__ import annotations

from collections import Counter

from tapeline.compiler.inspect.families import FAMILIES, INPUT, LITERAL, family_of
from tapeline.compiler.ir.graph import Graph, NodeSpec
from tapeline.compiler.ir.structure_ops import CONSTANT, PLACEHOLDER
from tapeline.compiler.ir.text import spec_text

WIDTH = 80


def spec_bytes(spec: NodeSpec) -> int:
    """The bytes of what a node yields; extents that are not fixed count as 1."""
    if isinstance(spec, tuple):
        return sum(map(spec_bytes, spec))
    total = spec.dtype.itemsize
    for extent in spec.shape:
        total *= 1 if extent is None else extent
    return total


def bytes_text(count: int) -> str:
    """A number of bytes as people say it."""
    if count < 1024:
        return f"{count} B"
    value = count / 1024
    for unit in ("KiB", "MiB"):
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _wrap(words: list[str], indent: int) -> list[str]:
    """Words put on lines that keep within the width, the first line without an indent."""
    lines, line = [], ""
    for word in words:
        joined = f"{line}, {word}" if line else word
        if line and len(joined) + indent > WIDTH - 1:
            lines.append(line + ",")
            joined = word
        line = joined
    return [*lines, line]


def _names(graph: Graph) -> list[str]:
    names = []
    for node in graph.placeholders:
        names.append(f"{graph.attrs[node][0]} {spec_text(graph.specs[node])}".replace(", ", ","))
    return names


def summarize_graph(graph: Graph) -> str:
    """What a graph consists of: nodes by family and op, inputs, outputs, and bytes.

    Parameters
    ----------
    graph : Graph
        Any valid graph; sub-graphs count as one node each.

    Returns
    -------
    str
        Lines of at most 80 columns, without a newline at the end.
    """
    by_family: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    for op in graph.ops:
        by_family[family_of(op)][op.name] += 1
    work = [i for i, op in enumerate(graph.ops) if op not in (PLACEHOLDER, CONSTANT)]
    title = f"graph {graph.name}: {len(graph)} nodes, {len(work)} of them ops"
    lines = [title[: WIDTH - 1]]
    for family, counts in by_family.items():
        if family in (INPUT, LITERAL) or not counts:
            continue
        lines += _table_line(family, sum(counts.values()), _counted(counts))
    inputs = sum(spec_bytes(graph.specs[i]) for i in graph.placeholders)
    outputs = sum(spec_bytes(graph.specs[i]) for i in dict.fromkeys(graph.outputs))
    inner = sum(spec_bytes(graph.specs[i]) for i in work if i not in set(graph.outputs))
    constants = sum(array.nbytes for array in graph.constants)
    lines += _table_line("inputs", len(graph.placeholders), _names(graph))
    specs = Counter(spec_text(graph.specs[i]).replace(", ", ",") for i in graph.outputs)
    lines += _table_line("outputs", len(graph.outputs), _counted(specs))
    sizes = [f"inputs {bytes_text(inputs)}", f"outputs {bytes_text(outputs)}"]
    sizes += [f"between {bytes_text(inner)}", f"constants {bytes_text(constants)}"]
    lines += _table_line("bytes", None, sizes)
    return "\n".join(lines)


def _counted(counts: Counter[str]) -> list[str]:
    return [f"{name} x{count}" if count > 1 else name for name, count in counts.most_common()]


def _table_line(name: str, count: int | None, words: list[str]) -> list[str]:
    first, *rest = _wrap([word[: WIDTH - 26] for word in words], 25)
    number = "" if count is None else str(count)
    line = f"  {name:<17}{number:>4}  {first}".rstrip()
    return [line, *(" " * 25 + line for line in rest)]
