"""Which nodes of a body may write over what they take, because nobody looks at it afterwards.

An array is *owned* by a body where it is handed over (a state of a loop), or made in it. A node
that writes one element writes in place if its array is owned and all else that reads the array
comes before. A choice hands its owned operands on to its branches; a loop takes over the buffer of
an owned initial state.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapeline.compiler.codegen.cluster import is_view
from tapeline.compiler.codegen.numbers import is_number, is_put, is_take, row_put_index
from tapeline.compiler.ir.control_ops import is_cond, is_loop, loop_form
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.ir.structure_ops import CONSTANT, PICK, PLACEHOLDER


class Writes:
    """The nodes of a graph that write in place; `owned` are positions of inputs that it owns."""

    def __init__(self, graph: Graph, owned: Iterable[int]) -> None:
        self.graph = graph
        self.owned = {graph.placeholders[k]: k for k in owned}
        self.before: dict[int, int] = {}
        """For each node that writes in place the node whose value it writes over."""
        self.after: dict[int, list[int]] = {}
        """For each such node the nodes that must run before it."""
        self.handed: dict[int, frozenset[int]] = {}
        """For each node of control flow the inputs that it owns from then on."""
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.parts = {
            (graph.inputs[node][0], graph.attrs[node][0]): node
            for node, op in enumerate(graph.ops)
            if op is PICK
        }
        for node, op in enumerate(graph.ops):
            if is_put(graph, node) or row_put_index(graph, node) is not None:
                self._find_put(node)
            elif is_cond(op):
                self._find_cond(node)
            elif is_loop(op):
                self._find_loop(node)

    def root(self, node: int) -> int:
        """The node whose buffer a node's value lies in."""
        while node in self.before:
            node = self.before[node]
        return node

    def shared_input(self, node: int) -> int | None:
        """The position of the owned input whose buffer a node's value lies in."""
        return self.owned.get(self.root(node))

    # ---- what may be written over

    def _is_owned(self, node: int) -> bool:
        root = self.root(node)
        if root in self.owned:
            return True
        graph, op = self.graph, self.graph.ops[root]
        if op is PLACEHOLDER or op is CONSTANT or is_number(graph, root):
            return False
        return not is_view(graph, root) and not is_take(graph, root)

    def _readers(self, value: int) -> list[int]:
        """The nodes that read a value, through views and rows."""
        found, pending = [], [value]
        while pending:
            for user in self.users[pending.pop()]:
                found.append(user)
                is_row = is_take(self.graph, user) and not is_number(self.graph, user)
                if is_view(self.graph, user) or is_row:
                    pending.append(user)
        return found

    def _may_write(self, value: int, writer: int) -> bool:
        """Whether the value is owned, and all else that reads it comes before the writer."""
        if not self._is_owned(value) or self.graph.inputs[writer].count(value) != 1:
            return False
        seen = {value, *self._readers(value)} - {writer}
        if any(self._is_read_last(node) for node in seen & self.outputs):
            return False
        return all(node < writer for node in seen)

    def _is_read_last(self, node: int) -> bool:
        """Whether an output is read from memory when the body is done."""
        return not is_number(self.graph, node) or is_view(self.graph, node)

    def _note(self, node: int, value: int, writer: int) -> None:
        self.before[node] = value
        others = [reader for reader in self._readers(value) if reader != writer]
        self.after.setdefault(writer, []).extend(others)

    # ---- who writes

    def _find_put(self, node: int) -> None:
        value = self.graph.inputs[node][0]
        if self._may_write(value, node):
            self._note(node, value, node)

    def _part(self, node: int, k: int) -> int | None:
        return node if self.graph.ops[node].n_outputs is None else self.parts.get((node, k))

    def _dead_arrays(self, node: int, positions: Iterable[int]) -> list[int]:
        inputs = self.graph.inputs[node]
        return [
            k
            for k in positions
            if not is_number(self.graph, inputs[k]) and self._may_write(inputs[k], node)
        ]

    def _find_cond(self, node: int) -> None:
        inputs, op = self.graph.inputs[node], self.graph.ops[node]
        dead = self._dead_arrays(node, range(1, len(inputs)))
        if not dead:
            return
        self.handed[node] = frozenset(k - 1 for k in dead)
        branches = [Writes(graph, self.handed[node]) for graph in op.subgraphs]
        taken: set[int] = set()
        for k in range(op.n_outputs or 1):
            shared = {branch.shared_input(branch.graph.outputs[k]) for branch in branches}
            part, position = self._part(node, k), shared.pop()
            if shared or position is None or position in taken or part is None:
                continue
            taken.add(position)
            self._note(part, inputs[position + 1], node)
        for k in dead:
            others = [reader for reader in self._readers(inputs[k]) if reader != node]
            self.after.setdefault(node, []).extend(others)

    def _find_loop(self, node: int) -> None:
        form = loop_form(self.graph.ops[node], self.graph.attrs[node])
        inputs = self.graph.inputs[node]
        for position in self._dead_arrays(node, range(form.first, form.first + form.n_state)):
            part = self._part(node, position)
            if part is not None:
                self._note(part, inputs[position], node)
