"""Rules that replace one node by something equal, and the walk that applies them.

A rule is a function of a `Match`: it returns the id of a node that stands for the matched one, or
None. Rules are listed in tables by op; a table, and the rules in it, are the only places where an
op is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tapeline.compiler.ir.graph import Graph, NodeSpec, attrs_key, infer_spec
from tapeline.compiler.ir.location import Location
from tapeline.compiler.ir.structure_ops import CONSTANT
from tapeline.compiler.passes.base import PassResult, Rebuild, rebuild
from tapeline.compiler.passes.dce import DeadCode
from tapeline.compiler.passes.fold import Fold
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

MAX_NESTING = 8
"""How deep what a rule makes is itself rewritten."""

UNIFORM_LIMIT = 1024
"""Constants of more elements are not looked into."""

_FOLD = Fold()


class Match:
    """One op application that rules may replace; its inputs are nodes of the new graph."""

    __slots__ = ("_nesting", "_walk", "attrs", "graph", "inputs", "location", "op", "spec")

    def __init__(
        self,
        walk: _Walk,
        op: Op,
        inputs: tuple[int, ...],
        attrs: Attrs,
        spec: NodeSpec,
        location: Location | None,
        nesting: int = 0,
    ) -> None:
        self._walk = walk
        self._nesting = nesting
        self.graph = walk.graph
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.spec = spec
        self.location = location

    def operand_spec(self, k: int) -> TensorSpec:
        """The spec of input k."""
        return self.graph.spec(self.inputs[k])

    def is_a(self, node_id: int, *ops: Op) -> bool:
        """Whether a node applies one of these ops."""
        return self.graph.ops[node_id] in ops

    def inputs_of(self, node_id: int) -> tuple[int, ...]:
        """What a node of the new graph takes."""
        return self.graph.inputs[node_id]

    def has_one_use(self, node_id: int) -> bool:
        """Whether a node becomes dead when its one known user is replaced."""
        return self._walk.uses.get(node_id, 1) == 1

    def uniform(self, node_id: int) -> Any:
        """The one NumPy scalar that a constant node holds in every element, bit for bit; else
        None."""
        array = self.graph.constant_value(node_id)
        if array is None or not 1 <= array.size <= UNIFORM_LIMIT:
            return None
        flat = array.ravel()
        if array.size > 1 and flat.tobytes() != flat[:1].tobytes() * array.size:
            return None
        return flat[0]

    def fits(self, node_id: int) -> bool:
        """Whether a node has the spec of the matched one, and so may stand for it."""
        return self.graph.specs[node_id] == self.spec

    def or_none(self, node_id: int) -> int | None:
        """The node if it fits, else None."""
        return node_id if self.fits(node_id) else None

    def make(self, op: Op, *inputs: int, attrs: Attrs = ()) -> int:
        """A node of the new graph: a constant if its inputs are constants, else rewritten itself by
        the rules where they apply."""
        graph = self.graph
        before = len(graph)
        if graph.ops[inputs[0]] is CONSTANT:
            specs = tuple(graph.specs[i] for i in inputs)
            folded = _FOLD.fold(
                graph, op, inputs, attrs, infer_spec(op, specs, attrs, attrs_key(attrs))
            )
            if folded is not None:
                return graph.add_constant(folded[0], self.location)
        node_id = graph.add(op, inputs, attrs, self.location)
        if node_id < before or self._nesting >= MAX_NESTING:
            return self._walk.replaced.get(node_id, node_id)
        spec = graph.specs[node_id]
        again = Match(self._walk, op, inputs, attrs, spec, self.location, self._nesting + 1)
        found = self._walk.replacement(again)
        if found is None:
            return node_id
        self._walk.replaced[node_id] = found
        return found

    def scalar(self, value: Any, like: int) -> int:
        """A constant of no dimensions with the dtype of node `like`."""
        array: npt.NDArray[Any] = np.asarray(value, self.graph.spec(like).dtype)
        return self.graph.add_constant(array, self.location)


Rule: TypeAlias = Callable[[Match], int | None]


@dataclass(frozen=True, slots=True)
class GeneralRule:
    """A rule for all ops of a kind."""

    applies_to: Callable[[Op], bool]
    rule: Rule


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules for kinds of ops, and rules for one op each; tried in order, general ones first."""

    general: Sequence[GeneralRule]
    by_op: Mapping[Op, Sequence[Rule]]

    def rules_for(self, op: Op) -> tuple[Rule, ...]:
        """The rules to try on uses of an op."""
        general = [entry.rule for entry in self.general if entry.applies_to(op)]
        return (*general, *self.by_op.get(op, ()))

    def run(self, graph: Graph) -> PassResult:
        """The graph with every pure node replaced that a rule applies to, in one walk; what the
        rules left behind is dropped."""
        walk = _Walk(self, graph)
        result = rebuild(graph, walk.rewrite)
        return PassResult(DeadCode().run(result.graph).graph, True) if result.changed else result


class _Walk:
    """One application of a rule set to a graph."""

    def __init__(self, rules: RuleSet, source: Graph) -> None:
        self.rules = rules
        self.rules_of_op: dict[Op, tuple[Rule, ...]] = {}
        self.source = source
        self.graph = source
        self.uses: dict[int, int] = {}
        self.replaced: dict[int, int] = {}
        self._source_uses = [0] * len(source)
        for inputs in (*source.inputs, source.outputs):
            for i in inputs:
                self._source_uses[i] += 1
        self._counted = 0

    def rewrite(self, work: Rebuild, node_id: int) -> int | None:
        """What stands for a node of the source, or None to copy it."""
        source = self.source
        op, spec = source.ops[node_id], source.specs[node_id]
        if not self._rules_for(op) or not source.inputs[node_id] or isinstance(spec, tuple):
            return None
        self.graph = work.target
        self._count_uses(work, node_id)
        inputs, location = work.inputs(node_id), source.locations[node_id]
        return self.replacement(Match(self, op, inputs, source.attrs[node_id], spec, location))

    def _rules_for(self, op: Op) -> tuple[Rule, ...]:
        found = self.rules_of_op.get(op)
        if found is None:
            usable = op.is_pure and not op.subgraphs
            found = self.rules_of_op[op] = self.rules.rules_for(op) if usable else ()
        return found

    def _count_uses(self, work: Rebuild, end: int) -> None:
        for i in range(self._counted, end):
            value = work.values[i]
            if not isinstance(value, tuple):
                self.uses[value] = self.uses.get(value, 0) + self._source_uses[i]
        self._counted = end

    def replacement(self, match: Match) -> int | None:
        """What the first rule that applies puts in the place of a match."""
        for rule in self._rules_for(match.op):
            found = rule(match)
            if found is not None and match.fits(found):
                return found
        return None
