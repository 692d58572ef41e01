"""Turns the blocks of control statements into nested functions that operators call.

A block shares the variables of its function by `nonlocal`, so it runs exactly as it did in its
place; `@get` and `@set` let an operator read and restore the variables that the block binds. All
nodes keep the user's lines and columns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from tapeline.compiler.frontend.convert.appends import (
    Append,
    ListUses,
    appended_name,
    only_appended,
)
from tapeline.compiler.frontend.convert.liveness import Liveness
from tapeline.compiler.frontend.convert.new_arrays import calls_that_are_written_to
from tapeline.compiler.frontend.convert.syntax import (
    SCOPES,
    Names,
    at,
    clone,
    constant,
    contains,
    load,
    operate,
    statements,
    suspends,
    thunk,
)

_NEEDS_FRAME = frozenset({"breakpoint", "dir", "eval", "exec", "globals", "locals", "vars"})
"""Builtins that look at the frame that calls them."""


class Blocks(ast.NodeTransformer):
    """The transformation of one function, after its jumps have gone.

    Parameters
    ----------
    body : list of ast.stmt
        All statements of the function.
    global_names : set of str
        What the function declares global.
    stops : dict
        The flags that end a loop, by id of the loop's node.
    class_name : str or None
        The class that private names belong to.
    first : str or None
        The function's first parameter.
    given : iterable of str
        All its parameters, and the variables of its closure.
    """

    def __init__(
        self,
        body: Sequence[ast.AST],
        global_names: set[str],
        stops: dict[int, list[str]],
        class_name: str | None,
        first: str | None,
        given: Iterable[str] = (),
    ) -> None:
        self._global_names = global_names
        self._stops = stops
        self._class_name = class_name
        self._first = first
        statements_only = [item for item in body if isinstance(item, ast.stmt)]
        self._fresh = calls_that_are_written_to(statements_only, given)
        self._live_after = Liveness(statements_only).after
        self._count = 0
        self._tries: list[tuple[str, ast.expr]] = []
        """For each `try` around: the variable that says how many blocks it is in, and what its
        handlers catch."""

    # ---- statements

    def many(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """The statements, transformed."""
        done: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            if isinstance(made, list):
                done += made
            elif made is not None:
                done.append(made)
        return done

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Transforms what is inside of a node, but no function or class in it."""
        return node if isinstance(node, SCOPES) else super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A nested function is converted when it is called."""
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]  # all are left as they are

    def visit_Global(self, node: ast.stmt) -> Any:
        """Declarations stand at the start of the function already."""
        return at(ast.Pass(), node)

    visit_Nonlocal = visit_Global

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """An annotation of a local variable means nothing when it runs."""
        if node.value is None:
            return at(ast.Pass(), node)
        return self.visit_Assign(at(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node: ast.Assign) -> Any:
        """An assignment: where it is to an item, x is asked what that means."""
        self.generic_visit(node)
        for target in node.targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                if isinstance(one, ast.Subscript):
                    one.value = operate("place", one.value, like=one.value)
        return node

    def visit_Append(self, node: Append) -> Any:
        """`x.append(v)`, which may give `x` another value."""
        name, call = appended_name(node), node.value
        assert name is not None
        assert isinstance(call, ast.Call)
        value = operate("append", load(name, node), self.visit(call.args[0]), like=node)
        return at(ast.Assign(node.targets, value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """`x[key] += v`: x is asked what that means where the key is a mask; `x.a += v` is a read
        as well."""
        self.generic_visit(node)
        target = node.target
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            holder = load(target.value.id, node)
            read = operate("attr", holder, constant(self._mangled(target.attr), node), like=node)
            return [at(ast.Expr(read), node), node]
        if isinstance(target, ast.Subscript):
            target.value = operate("cell", target.value, like=target.value)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """`if`: two blocks and a choice between them."""
        if suspends([node]):
            return self.generic_visit(node)
        names, k = self._enter(node)
        test = self.visit(node.test)
        then, other = self.many(node.body), self.many(node.orelse)
        call = statements(
            f"at_tl.if_(0, at_then{k}, at_else{k}, at_get{k}, at_set{k}, {names!r}, "
            f"{self._live(node, names)!r})",
            node,
        )[0]
        call.value.args[0] = test
        return [
            self._block(f"then{k}", then, names, node),
            self._block(f"else{k}", other, names, node),
            *self._accessors(k, names, node),
            call,
        ]

    def visit_While(self, node: ast.While) -> Any:
        """`while`: its test and its body as blocks."""
        if suspends([node]):
            return self.generic_visit(node)
        names, k = self._enter(node)
        stops = self._stops.get(id(node), [])
        test: ast.expr = node.test
        if stops:
            going = at(statements(f"not ({_any_of(stops)})", node.test)[0].value, node.test)
            test = at(ast.BoolOp(ast.And(), [going, node.test]), node.test)
        check = self._block(f"test{k}", [at(ast.Return(self.visit(test)), node.test)], (), node)
        call = self._loop_call("while_", "", k, names, stops, node)
        _tell_lists(call, ListUses(node.body))
        body = self._block(f"body{k}", self.many(node.body), names, node)
        return [check, body, *self._accessors(k, names, node), call]

    def visit_For(self, node: ast.For) -> Any:
        """`for`: its body as a block that takes the item."""
        if suspends([node]):
            return self.generic_visit(node)
        names, k = self._enter(node)
        stops = self._stops.get(id(node), [])
        bind = statements("at_it = at_it", node)[0]
        bind.targets = [node.target]
        uses, appended = ListUses(node.body), only_appended(node.body)
        body = self._block(f"body{k}", [bind, *self.many(node.body)], names, node, "at_it")
        test = statements(f"def at_test{k}(): return not ({_any_of(stops or ['@x'])})", node)[0]
        test.body[0].value = self.visit(test.body[0].value)
        iterable = self.visit(node.iter)
        call = self._loop_call("for_", "0, ", k, names, stops, node)
        call.value.args[0] = iterable
        values: list[ast.expr] = [load(name, node) for name in appended]
        if appended or uses.lists:
            call.value.args.append(thunk(at(ast.Tuple(values, ast.Load()), node)))
        _tell_lists(call, uses)
        if not stops:
            test = statements(f"at_test{k} = None", node)[0]
        return [test, body, *self._accessors(k, names, node), call]

    def visit_Assert(self, node: ast.Assert) -> Any:
        """`assert`: its message is computed only if it is needed."""
        message = self.visit(node.msg) if node.msg is not None else constant(None, node)
        call = operate("assert_", self.visit(node.test), thunk(message), like=node)
        if node.msg is None:
            call.args.pop()
        return at(ast.Expr(call), node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """`raise`: an effect where it depends on a tensor."""
        self.generic_visit(node)
        if node.exc is not None:
            caught: list[ast.expr] = []
            if self._tries:
                name, types = self._tries[-1]
                caught = [load(name, node), thunk(clone(types))]
            node.exc = operate("raise_", node.exc, *caught, like=node)
        return node

    def visit_Try(self, node: ast.Try) -> Any:
        """`try`: a `raise` in a branch over a tensor comes too late for its handlers."""
        if not node.handlers or not contains(node.body, ast.Raise):
            return self.generic_visit(node)
        self._count += 1
        name = f"@depth{self._count}"
        types = [h.type or load("BaseException", h) for h in node.handlers]
        self._tries.append((name, at(ast.Tuple(types, ast.Load()), node)))
        start = statements(f"at_{name[1:]} = at_tl.depth()", node)
        node.body = [*start, *self.many(node.body)]
        self._tries.pop()
        node.handlers = [self.visit(handler) for handler in node.handlers]
        node.orelse, node.finalbody = self.many(node.orelse), self.many(node.finalbody)
        return node

    def _enter(self, node: ast.stmt) -> tuple[tuple[str, ...], int]:
        self._count += 1
        return tuple(sorted(Names([node]).stored)), self._count

    def _loop_call(
        self, operator: str, first: str, k: int, names: tuple[str, ...], stops: list[str],
        node: ast.stmt,
    ) -> Any:  # fmt: skip
        """The call that runs a loop; it is told which variables are read afterwards."""
        return statements(
            f"at_tl.{operator}({first}at_test{k}, at_body{k}, at_get{k}, at_set{k}, "
            f"{names!r}, {tuple(stops)!r}, {self._live(node, names)!r})",
            node,
        )[0]

    def _live(self, node: ast.stmt, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the names that may be read after the statement."""
        after = self._live_after.get(id(node), set(names))
        return tuple(name for name in names if name in after)

    def _block(
        self, name: str, body: Sequence[ast.stmt], names: Sequence[str], like: ast.stmt,
        arguments: str = "",
    ) -> ast.FunctionDef:  # fmt: skip
        made: ast.FunctionDef = statements(f"def at_{name}({arguments}): pass", like)[0]
        declared = [n for n in names if n in self._global_names]
        shared = [n for n in names if n not in self._global_names]
        start: list[ast.stmt] = []
        if shared:
            start.append(at(ast.Nonlocal(shared), made))
        if declared:
            start.append(at(ast.Global(declared), made))
        made.body = [*start, *body] or made.body
        return made

    def _accessors(self, k: int, names: Sequence[str], like: ast.stmt) -> list[ast.stmt]:
        """The functions that read and write the variables of a block."""
        reads: list[ast.stmt] = []
        writes: list[ast.stmt] = []
        for position, name in enumerate(names):
            read = statements(
                f"try: at_v{position} = 0\nexcept NameError: at_v{position} = at_tl.UNDEF", like
            )[0]
            read.body[0].value = load(name, read)
            reads.append(read)
            write = statements("at_x = at_s[0]\nif at_x is at_tl.UNDEF: del at_x", like)
            write[0].targets[0].id = write[1].test.left.id = write[1].body[0].targets[0].id = name
            write[0].value.slice.value = position
            writes += write
        values = "".join(f"at_v{position}, " for position in range(len(names)))
        reads += statements(f"return ({values})", like)
        return [
            self._block(f"get{k}", reads, (), like),
            self._block(f"set{k}", writes, names, like, "at_s"),
        ]

    def visit_withitem(self, node: ast.withitem) -> Any:
        """What a `with` enters: noted, since Python calls its methods."""
        self.generic_visit(node)
        node.context_expr = operate("entered", node.context_expr, like=node.context_expr)
        return node

    # ---- expressions

    def visit_Call(self, node: ast.Call) -> Any:
        """A call: of the converted function, where there is one."""
        function = node.func
        name = function.id if isinstance(function, ast.Name) else None
        if name == "super" and not node.args and self._first:
            node.args = [load("__class__", node), load(self._first, node)]
            return node
        self.generic_visit(node)
        needs_frame = name in _NEEDS_FRAME | {"super"} and not (name == "vars" and node.args)
        if not needs_frame:
            operator = "maker" if id(node) in self._fresh else "call"
            node.func = operate(operator, node.func, like=function)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """The read of an attribute: noted, so that a trace knows what it depends on."""
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        name = constant(self._mangled(node.attr), node)
        return operate("attr", node.value, name, like=node)

    def _mangled(self, name: str) -> str:
        """The name of an attribute as the class keeps it."""
        if self._class_name and name.startswith("__") and not name.endswith("__"):
            return f"_{self._class_name.lstrip('_')}{name}"
        return name

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """The read of an item: of an array of NumPy also where a tensor says which."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and not isinstance(node.value, ast.Constant):
            node.value = operate("table", node.value, like=node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and`, `or`: the later operands as lambdas."""
        if suspends([node]) or contains(node.values[1:], ast.NamedExpr):
            return self.generic_visit(node)
        first, *rest = [self.visit(value) for value in node.values]
        operator = "and_" if isinstance(node.op, ast.And) else "or_"
        return operate(operator, first, *map(thunk, rest), like=node)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        """A `for` of a comprehension: it may not leave items out as a tensor says."""
        self.generic_visit(node)
        node.ifs = [operate("filter_", test, like=test) for test in node.ifs]
        return node

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """A list of what a function gives for each item, where it is no more than that."""
        first = node.generators[0]
        is_simple = len(node.generators) == 1 and not first.is_async
        name = first.target.id if isinstance(first.target, ast.Name) else None
        if name is None or not is_simple or suspends([node]) or contains([node], ast.NamedExpr):
            return self.generic_visit(node)
        parts = [node.elt]
        if first.ifs:
            several = at(ast.BoolOp(ast.And(), first.ifs), node)
            parts.append(first.ifs[0] if len(first.ifs) == 1 else several)
        functions = [thunk(self.visit(part)) for part in parts]
        for function in functions:
            function.args.args = [at(ast.arg(name), node)]
        return operate("list_of", self.visit(first.iter), *functions, like=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`."""
        self.generic_visit(node)
        return operate("not_", node.operand, like=node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """The conditional expression."""
        if suspends([node]) or contains([node.body, node.orelse], ast.NamedExpr):
            return self.generic_visit(node)
        test, body, other = map(self.visit, (node.test, node.body, node.orelse))
        return operate("choose", test, thunk(body), thunk(other), like=node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Chains of comparisons, and `in`."""
        self.generic_visit(node)
        in_chain = len(node.ops) > 1
        if not in_chain and not isinstance(node.ops[0], ast.In | ast.NotIn):
            return node
        if suspends([node]) or contains(node.comparators, ast.NamedExpr):
            return node
        names = constant(tuple(type(op).__name__ for op in node.ops), node)
        return operate("compare", names, node.left, *map(thunk, node.comparators), like=node)


def _any_of(flags: Sequence[str]) -> str:
    return " or ".join(f"at_{flag[1:]}" for flag in flags)


def _tell_lists(call: Any, uses: ListUses) -> None:
    """Tells the operator of a loop of the lists that its body appends to."""
    if uses.lists:
        told = uses.lists, uses.is_conditional, tuple(uses.per_round.items())
        call.value.args.append(constant(told, call))
