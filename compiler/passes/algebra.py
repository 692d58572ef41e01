"""Simplifies arithmetic, keeping every bit or gaining accuracy; never trading it."""

from __future__ import annotations

from dataclasses import dataclass

from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.passes.base import PassResult
from tapeline.compiler.passes.equivalent_forms import EQUIVALENT_FORMS
from tapeline.compiler.passes.exact_rules import EXACT_RULES, GENERAL_RULES
from tapeline.compiler.passes.rewrite import Rule, RuleSet
from tapeline.runtime.op import Op


@dataclass(frozen=True, slots=True)
class Algebra:
    """Applies the exact rules and the listed equivalent forms. Expects constants on the right.

    Parameters
    ----------
    equivalent_forms : bool
        Whether to use the forms that round otherwise (better) than what they replace.
    """

    equivalent_forms: bool = True
    name: str = "algebra"

    def run(self, graph: Graph, /) -> PassResult:
        """The graph with simpler arithmetic."""
        return _RULES[self.equivalent_forms].run(graph)


def _merged(forms: bool) -> dict[Op, list[Rule]]:
    table = {op: list(rules) for op, rules in EXACT_RULES.items()}
    if forms:
        for op, rules in EQUIVALENT_FORMS.items():
            table.setdefault(op, []).extend(rules)
    return table


_RULES = {forms: RuleSet(GENERAL_RULES, _merged(forms)) for forms in (False, True)}
