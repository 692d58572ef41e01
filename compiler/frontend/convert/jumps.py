"""Takes `return`, `break` and `continue` out of statements: they set flags that are tested instead.

What follows a statement that may jump moves into the branch that does not jump, or under a test of
the flags. A loop with a flag that ends it remembers so in `stops`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, cast

from tapeline.compiler.frontend.convert.syntax import LOOPS, contains, statements

RETURNED = "@ret"
KEPT = "@kept"
"""How variables begin that mean something only where a flag is set."""
RESULT = "@rv"
_JUMPS = (ast.Return, ast.Break, ast.Continue, ast.Raise)


class UnsupportedJumpError(Exception):
    """A jump that the conversion leaves alone, such as `return` in a `finally` clause."""


@dataclass
class _Loop:
    """The flags of the loop that a statement is in; None outside of loops."""

    broken: str | None = None
    continued: str | None = None
    given: tuple[str, ...] = ()
    """The variables that have a value whether the loop is broken or its `else` runs."""


@dataclass
class Jumps:
    """The transformation of one function; `flags` are the names to set to False at its start."""

    flags: list[str] = field(default_factory=list)
    stops: dict[int, list[str]] = field(default_factory=dict)
    """By id of a loop's node, the flags that end the loop."""
    _count: int = 0

    def block(self, body: list[ast.stmt], loop: _Loop) -> list[ast.stmt]:
        """The statements without jumps."""
        done: list[ast.stmt] = []
        for position, statement in enumerate(body):
            rest = body[position + 1 :]
            if isinstance(statement, ast.Return | ast.Break | ast.Continue):
                return done + self._set_flag(statement, loop)
            if isinstance(statement, ast.Raise):
                return [*done, statement]
            flags = self._flags_of(statement, loop)
            if not flags:
                done += self._statement(statement, loop)
                continue
            if rest and isinstance(statement, ast.If) and self._move_rest(statement, rest):
                return done + self._statement(statement, loop)
            done += self._statement(statement, loop)
            if rest:
                test = statements(f"if not ({' or '.join(flags)}): pass", statement)[0]
                test.body = self.block(rest, loop)
                done.append(test)
            return done
        return done

    def _move_rest(self, statement: ast.If, rest: list[ast.stmt]) -> bool:
        """Moves what follows an `if` into the branch that goes on, if the other one does not."""
        if always_jumps(statement.body):
            statement.orelse = statement.orelse + rest
            return True
        if always_jumps(statement.orelse):
            statement.body = statement.body + rest
            return True
        return False

    def _set_flag(self, statement: ast.stmt, loop: _Loop) -> list[ast.stmt]:
        if isinstance(statement, ast.Return):
            made = statements("at_rv = None; at_ret = True", statement)
            if statement.value is not None:
                made[0].value = statement.value
            return made
        name = loop.broken if isinstance(statement, ast.Break) else loop.continued
        assert name is not None
        flag = statements(f"at_{name[1:]} = True", statement)
        given = loop.given if isinstance(statement, ast.Break) else ()
        return [_assign(_kept(name, variable), variable, statement) for variable in given] + flag

    def _flags_of(self, statement: ast.stmt, loop: _Loop) -> list[str]:
        """The flags (as templates spell them) that a statement may set."""
        found = []
        if contains([statement], ast.Return):
            found.append("at_ret")
        if loop.broken and contains([statement], ast.Break, inner_jumps=False):
            found.append(f"at_{loop.broken[1:]}")
        if loop.continued and contains([statement], ast.Continue, inner_jumps=False):
            found.append(f"at_{loop.continued[1:]}")
        return found

    def _statement(self, statement: Any, loop: _Loop) -> list[ast.stmt]:
        if isinstance(statement, ast.If):
            statement.body = self.block(statement.body, loop) or statements("pass", statement)
            statement.orelse = self.block(statement.orelse, loop)
        elif isinstance(statement, LOOPS):
            return self._loop(statement, loop)
        elif isinstance(statement, ast.With):
            statement.body = self.block(statement.body, loop)
        elif isinstance(statement, ast.Try):
            return self._try(statement, loop)
        elif self._flags_of(statement, loop):
            raise UnsupportedJumpError(f"{type(statement).__name__} with a jump inside")
        return [statement]

    def _loop(self, statement: ast.For | ast.While, outer: _Loop) -> list[ast.stmt]:
        self._count += 1
        if isinstance(statement, ast.While) and contains([statement.test], ast.NamedExpr):
            leave = statements("if not 0: break", statement)[0]
            leave.test.operand = statement.test
            statement.test = statements("True", statement)[0].value
            statement.body = [leave, *statement.body]
        inner = _Loop()
        before: list[ast.stmt] = []
        stops: list[str] = []
        if contains(statement.body, ast.Break, inner_jumps=False):
            inner.broken = f"@brk{self._count}"
            stops.append(inner.broken)
            before = statements(f"at_brk{self._count} = False", statement)
        if contains(statement.body, ast.Return):
            stops.append(RETURNED)
        elif inner.broken:
            inner.given = tuple(
                name
                for name in _assigned(statement.orelse)
                if _is_given_at_breaks(statement.body, name)
            )
        start: list[ast.stmt] = []
        if contains(statement.body, ast.Continue, inner_jumps=False):
            inner.continued = f"@cnt{self._count}"
            start = statements(f"at_cnt{self._count} = False", statement)
        self.flags += [name for name in (inner.broken, inner.continued) if name]
        statement.body = start + self.block(statement.body, inner)
        self.stops[id(statement)] = stops
        if not statement.orelse:
            return [*before, statement]
        after = self.block(statement.orelse, outer)
        statement.orelse = []
        if stops:
            flags = " or ".join(f"at_{name[1:]}" for name in stops)
            test = statements(f"if not ({flags}): pass", statement)[0]
            test.body = after
            test.orelse = [
                _assign(name, _kept(cast(str, inner.broken), name), statement)
                for name in inner.given
            ]
            after = [test]
        return [*before, statement, *after]

    def _try(self, statement: ast.Try, loop: _Loop) -> list[ast.stmt]:
        leaves = contains(statement.finalbody, ast.Break, ast.Continue, inner_jumps=False)
        if leaves or contains(statement.finalbody, ast.Return):
            return self._try_with_final_jump(statement, loop)
        flags: list[str] = []
        for item in statement.body:
            flags += [flag for flag in self._flags_of(item, loop) if flag not in flags]
        statement.body = self.block(statement.body, loop)
        for handler in statement.handlers:
            handler.body = self.block(handler.body, loop) or statements("pass", handler)
        statement.orelse = self.block(statement.orelse, loop)
        if statement.orelse and flags:
            test = statements(f"if not ({' or '.join(flags)}): pass", statement)[0]
            test.body = statement.orelse
            statement.orelse = [test]
        statement.finalbody = self.block(statement.finalbody, loop)
        return [statement]

    def _try_with_final_jump(self, statement: ast.Try, loop: _Loop) -> list[ast.stmt]:
        """A `finally` that may jump: then neither an exception nor an earlier jump counts."""
        self._count += 1
        k = self._count
        flags = self._flags_of(statement, loop)
        final, statement.finalbody = statement.finalbody, []
        if statement.handlers:
            guarded = self._try(statement, loop)
        else:
            guarded = self.block([*statement.body, *statement.orelse], loop)
        caught: list[Any] = statements(
            f"at_exc{k} = None\n"
            "try: pass\n"
            f"except BaseException as at_e: at_exc{k} = at_e\n"
            + "".join(f"{_before(flag, k)} = {flag}\n{flag} = False\n" for flag in flags),
            statement,
        )
        caught[1].body = guarded
        jumps = " or ".join(flags)
        after = statements(
            f"at_jumps{k} = {jumps}\n"
            f"if at_exc{k} is not None and not at_jumps{k}: raise at_exc{k}\n"
            + "".join(
                f"{flag} = {flag} or ({_before(flag, k)} and not at_jumps{k})\n" for flag in flags
            )
            + f"at_exc{k} = None",
            statement,
        )
        return [*caught, *self.block(final, loop), *after]


def _kept(flag: str, name: str) -> str:
    """What holds the value of a variable from a `break` until after the `else` of its loop."""
    return f"{KEPT}{flag[4:]}_{name}"


def _assign(name: str, value: str, like: ast.AST) -> ast.stmt:
    made: Any = statements("at_x = at_y", like)[0]
    made.targets[0].id, made.value.id = name, value
    return cast(ast.stmt, made)


def _assigned(body: list[ast.stmt]) -> tuple[str, ...]:
    """The variables that statements give a value, whatever happens."""
    targets = [t for item in body if isinstance(item, ast.Assign) for t in item.targets]
    return tuple(dict.fromkeys(t.id for t in targets if isinstance(t, ast.Name)))


def _is_given_at_breaks(body: list[ast.stmt], name: str) -> bool:
    """Whether a variable is assigned right before each `break` that ends the loop."""
    for position, item in enumerate(body):
        if isinstance(item, ast.Break) and name not in _assigned(body[:position]):
            return False
        if isinstance(item, ast.If):
            if not all(_is_given_at_breaks(part, name) for part in (item.body, item.orelse)):
                return False
        elif contains([item], ast.Break, inner_jumps=False) and not isinstance(item, ast.Break):
            return False
    return True


def _before(flag: str, k: int) -> str:
    """The name of what a flag said before a `finally` clause."""
    return f"at_was{k}_{flag[3:]}"


def always_jumps(body: list[ast.stmt]) -> bool:
    """Whether the statements never reach their end."""
    return any(
        isinstance(statement, _JUMPS)
        or (
            isinstance(statement, ast.If)
            and always_jumps(statement.body)
            and always_jumps(statement.orelse)
        )
        for statement in body
    )


def always_returns(body: list[ast.stmt]) -> bool:
    """Whether the end of a function is out of reach, as far as it can be seen."""
    for statement in body:
        if isinstance(statement, ast.Return | ast.Raise):
            return True
        if isinstance(statement, ast.If):
            if always_returns(statement.body) and always_returns(statement.orelse):
                return True
        elif isinstance(statement, ast.With):
            if always_returns(statement.body):
                return True
        elif isinstance(statement, ast.While):
            endless = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
            if endless and not contains(statement.body, ast.Break, inner_jumps=False):
                return True
        elif isinstance(statement, ast.Try):
            if always_returns(statement.finalbody):
                return True
            bodies = [statement.body, *(handler.body for handler in statement.handlers)]
            if all(always_returns(part) for part in bodies):
                return True
    return False


def without_jumps(body: list[ast.stmt], function: ast.AST) -> tuple[list[ast.stmt], Jumps]:
    """The body of a function without jumps but for one `return` at its end.

    Raises
    ------
    UnsupportedJumpError
        If there is one that flags cannot stand for.
    """
    jumps = Jumps()
    if not contains(body, ast.Return):
        return jumps.block(body, _Loop()), jumps
    last = body[-1]
    if isinstance(last, ast.Return) and not contains(body[:-1], ast.Return):
        return [*jumps.block(body[:-1], _Loop()), last], jumps
    returns = always_returns(body)
    start = statements("at_ret = False; at_rv = at_tl.UNDEF", function)
    end = statements(f"return at_tl.returned(at_ret, at_rv, {returns})", function)
    return [*start, *jumps.block(body, _Loop()), *end], jumps
