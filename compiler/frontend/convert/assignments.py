"""Takes `:=` out of the later operands of `and` and `or` that decide an `if` or a `while`.

Such an operand is computed only if it matters, so what it assigns belongs to a branch. With nested
`if`s in the place of `and` it stands in one.
"""

from __future__ import annotations

import ast
from typing import Any

from tapeline.compiler.frontend.convert.syntax import (
    StatementTransformer,
    at,
    clone,
    constant,
    contains,
    load,
    statements,
)


class Assignments(StatementTransformer):
    """The transformation of one function; it runs before jumps are taken out."""

    def visit_If(self, node: ast.If) -> Any:
        """`if a and (b := c):` as nested `if`s, and `if a or (b := c):` with a flag."""
        self.generic_visit(node)
        if not _assigns_late(node.test):
            return node
        assert isinstance(node.test, ast.BoolOp)
        self._count += 1
        if isinstance(node.test.op, ast.Or):
            return self._either(node, node.test)
        return self._all(node, node.test)

    def visit_While(self, node: ast.While) -> Any:
        """`while a and (b := c):` as an endless loop that the test ends."""
        self.generic_visit(node)
        if not _assigns_late(node.test) or node.orelse:
            return node
        leave = statements("break", node.test)
        start = self.visit_If(at(ast.If(node.test, [at(ast.Pass(), node)], leave), node.test))
        node.test = constant(True, node.test)
        node.body = [*start, *node.body]
        return node

    def _all(self, node: ast.If, test: ast.BoolOp) -> list[ast.stmt]:
        """Each operand has the `else` branch for its own."""
        body = node.body
        for part in reversed(test.values):
            body = [at(ast.If(part, body, [clone(item) for item in node.orelse]), node)]
        return body

    def _either(self, node: ast.If, test: ast.BoolOp) -> list[ast.stmt]:
        name = f"@any{self._count}"
        made: list[ast.stmt] = []
        for part in test.values:
            found = statements(f"at_{name[1:]} = not (not 0)", part)
            found[0].value.operand.operand = part
            if made:
                holds = at(ast.UnaryOp(ast.Not(), load(name, part)), part)
                found = [at(ast.If(holds, found, []), part)]
            made += found
        node.test = load(name, node)
        return [*made, node]


def _assigns_late(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and contains(test.values[1:], ast.NamedExpr)
