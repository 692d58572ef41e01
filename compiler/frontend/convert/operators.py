"""The operators that converted code calls: Python's own meaning over Python values, graph nodes
over tensors of a trace.

Each operator first asks whether what decides is a tensor while a trace is under way. If not, it
does exactly what the statement would have done.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from tapeline.compiler.frontend.convert import comprehensions, looping, raising, staging, truth
from tapeline.compiler.frontend.convert.calls import callee, install_operators
from tapeline.compiler.frontend.convert.masked_writes import assigned, written
from tapeline.compiler.frontend.convert.new_arrays import maker
from tapeline.compiler.frontend.convert.reads import note_attribute
from tapeline.compiler.frontend.convert.row_lists import LoopList, RowList, with_item
from tapeline.compiler.frontend.convert.selections import selecting
from tapeline.compiler.frontend.convert.special_methods import (
    COMPARISON,
    CONTEXT,
    ITEMS,
    ITERATION,
    TRUTH,
    note_use,
)
from tapeline.compiler.frontend.convert.state import (
    LOOPS,
    UNDEF,
    Get,
    ListsTold,
    Set,
    State,
    decided,
    in_pieces,
    is_symbolic,
)
from tapeline.compiler.frontend.convert.tables import subscripted
from tapeline.runtime.errors import PathError
from tapeline.runtime.tensor import Tensor

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "Gt": operator.gt,
    "LtE": operator.le,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: truth.contained(a, b),
    "NotIn": lambda a, b: Operators.not_(truth.contained(a, b)),
}

_TRIALS = 3
"""Before how many rounds a loop that Python runs may turn into pieces of native code: an array may
take its form from the first ones."""


class Operators:
    """What the name `@tl` in converted code refers to."""

    UNDEF = UNDEF
    call = staticmethod(callee)
    attr = staticmethod(note_attribute)
    cell = staticmethod(written)
    place = staticmethod(assigned)

    @staticmethod
    def table(holder: Any) -> Any:
        """`holder`, which is subscripted."""
        if type(holder) is Tensor:
            return selecting(holder)
        note_use(holder, ITEMS)
        return subscripted(holder)

    @staticmethod
    def maker(function: Any) -> Any:
        """`function`, whose result goes to a variable that is written to."""
        found = maker(function)
        return callee(function) if found is function else found

    @staticmethod
    def entered(context: Any) -> Any:
        """`context`, which a `with` enters."""
        note_use(context, CONTEXT)
        return context

    # ---- statements

    @staticmethod
    def if_(
        condition: Any,
        then: Callable[[], None],
        other: Callable[[], None],
        get: Get,
        set_: Set,
        names: tuple[str, ...],
        live: tuple[str, ...],
    ) -> None:
        """`if condition: then... else: other...`"""
        note_use(condition, TRUTH)
        condition = decided(condition)
        if is_symbolic(condition):
            staging.choose_block(condition, then, other, State(names, get, set_, live=live))
        elif condition:
            then()
        else:
            other()

    @staticmethod
    def while_(
        test: Callable[[], Any],
        body: Callable[[], None],
        get: Get,
        set_: Set,
        names: tuple[str, ...],
        stops: tuple[str, ...],
        live: tuple[str, ...],
        lists: tuple[Any, ...] | None = None,
    ) -> None:
        """`while test: body...`; the test may turn into a tensor after some rounds."""
        condition = test()
        told = None if lists is None else ListsTold(*lists)
        state = State(names, get, set_, stops, live, lists=told)
        rounds = 0
        with LOOPS.entered(None):
            while not is_symbolic(condition):
                if not condition:
                    return
                if (
                    rounds < _TRIALS
                    and type(condition) is Tensor
                    and in_pieces(test, body, None, state)
                ):
                    return
                body()
                condition = test()
                rounds += 1
        looping.repeat_while(condition, test, body, state)

    @staticmethod
    def for_(
        iterable: Iterable[Any],
        test: Callable[[], Any] | None,
        body: Callable[[Any], None],
        get: Get,
        set_: Set,
        names: tuple[str, ...],
        stops: tuple[str, ...],
        live: tuple[str, ...],
        appended: Callable[[], tuple[Any, ...]] | None = None,
        lists: tuple[Any, ...] | None = None,
    ) -> None:
        """`for ... in iterable: body...`; `test` says whether no flag has ended the loop."""
        note_use(iterable, ITERATION)
        told = None if lists is None else ListsTold(*lists)
        state = State(names, get, set_, stops, live, appended, told)
        if in_pieces(test, body, iterable, state):
            return
        if not looping.repeat_for(iterable, test, body, state):
            looping.unroll(iterable, test, body, state)

    @staticmethod
    def assert_(condition: Any, message: Callable[[], Any] | None = None) -> None:
        """`assert condition, message`"""
        if is_symbolic(condition):
            raising.check(condition, message)
        elif not condition:
            raise AssertionError(*(() if message is None else (message(),)))

    @staticmethod
    def raise_(error: Any, depth: int = 0, caught: Callable[[], Any] = tuple) -> Any:
        """The exception of a `raise`: raised when the branch runs, if that depends on a tensor.
        `depth` and `caught` tell of the `try` around it."""
        return raising.raise_later(error, depth, caught)

    depth = staticmethod(raising.depth)

    @staticmethod
    def returned(is_returned: Any, result: Any, always: bool) -> Any:
        """What a function returns whose `return`s set flags."""
        if is_symbolic(is_returned):
            if not always and result is not None:
                raise PathError(
                    "the function returns a value on one path and falls off its end, so returns "
                    "None, on another, and a tensor decides; add a return statement at the end"
                )
            return result
        return result if is_returned else None

    @staticmethod
    def append(items: Any, item: Any) -> Any:
        """What the variable holds after `items.append(item)`."""
        if type(items) in (list, LoopList, RowList):
            return with_item(items, item)
        callee(items.append)(item)
        return items

    # ---- expressions

    @staticmethod
    def and_(value: Any, *rest: Callable[[], Any]) -> Any:
        """`value and ...`"""
        for position, following in enumerate(rest):
            note_use(value, TRUTH)
            if is_symbolic(value):
                return staging.choose(value, _rest_of(Operators.and_, rest[position:]), value, True)
            if not value:
                return value
            value = following()
        return value

    @staticmethod
    def or_(value: Any, *rest: Callable[[], Any]) -> Any:
        """`value or ...`"""
        for position, following in enumerate(rest):
            note_use(value, TRUTH)
            if is_symbolic(value):
                return staging.choose(value, value, _rest_of(Operators.or_, rest[position:]), True)
            if value:
                return value
            value = following()
        return value

    @staticmethod
    def list_of(
        iterable: Iterable[Any],
        function: Callable[[Any], Any],
        keeps: Callable[[Any], Any] | None = None,
    ) -> Any:
        """`[function(item) for item in iterable if keeps(item)]`"""
        note_use(iterable, ITERATION)
        return comprehensions.collect(iterable, function, keeps)

    @staticmethod
    def filter_(condition: Any) -> Any:
        """The `if` of a comprehension."""
        return comprehensions.is_kept(condition)

    @staticmethod
    def not_(value: Any) -> Any:
        """`not value`"""
        note_use(value, TRUTH)
        return truth.negate(value) if is_symbolic(value) else not value

    @staticmethod
    def choose(condition: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`then if condition else other`"""
        note_use(condition, TRUTH)
        condition = decided(condition)
        if is_symbolic(condition):
            return staging.choose(condition, then, other)
        return then() if condition else other()

    @staticmethod
    def compare(names: tuple[str, ...], left: Any, *rest: Callable[[], Any]) -> Any:
        """`left < a < b ...`: each operand is computed once, and only while it can matter."""
        right = rest[0]()
        for operand in (left, right):
            note_use(operand, COMPARISON.get(names[0], ()))
        value = _COMPARISONS[names[0]](left, right)
        if len(rest) == 1:
            return value
        return Operators.and_(value, lambda: Operators.compare(names[1:], right, *rest[1:]))


def _rest_of(operator: Callable[..., Any], rest: tuple[Callable[[], Any], ...]) -> Any:
    """The later operands of `and` or `or`, to be computed when it is known that they matter."""

    def following() -> Any:
        return operator(rest[0](), *rest[1:])

    following.__wrapped__ = rest[0]  # type: ignore[attr-defined]  # the user's code
    return following


install_operators(Operators)
