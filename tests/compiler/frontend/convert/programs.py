"""Functions that the conversion is tested on; their lines and columns matter to some tests."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

COUNT = 3
COUNTER: Any = 0


def count_up() -> None:
    global COUNTER
    COUNTER = COUNTER + 1


def collatz(n: Any, steps: Any = 0) -> Any:
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108  # a branch is what is tested
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return steps


def early(x: Any) -> Any:
    if x > 10:
        return x - 10
    if x > 5:
        return x - 5
    return x


def nested(x: Any) -> Any:
    t = 0
    for i in range(10):
        if i > x:
            break
        if i % 3 == 1:
            continue
        t = t + i
    else:
        t = t + 100
    return t


def inner_return(x: Any) -> Any:
    for i in range(5):
        if (x + i > 7 and not x > 20) or x == -1:
            return i
    return -1


def chain(a: Any) -> Any:
    b = 5 if a < 3 else 7
    return (b if 0 < a < 4 < b else a) + (1 if 2 < a else 2)  # noqa: SIM300  # both orders are tested


def local_in_branch(x: Any) -> Any:
    if x > 0:
        y = x * 2
        z = y + 1
    else:
        z = x
    return z


def while_in_while(x: Any) -> Any:
    i = 0
    while i < x:
        i = i + 1
        if i == 3:
            continue
        j = 0
        while j < i:
            j = j + 1
            if j * i > 12:
                break
        x = x - (1 if j > 2 else 0)
    return i * 100 + x


def in_try(x: Any) -> Any:
    t = 0
    for i in range(4):
        try:
            if i == x:
                return t + 50
            t = t + i
        finally:
            t = t + 10
    return t


def try_else(x: Any) -> Any:
    t = 0
    try:
        if x > 2:
            return t + 1
        t = 5
    except ValueError:
        t = -1
    else:
        t = t + 7
    return t


def with_block(x: Any) -> Any:
    t = 0
    with contextlib.suppress(ValueError):
        if x > 2:
            return t + 1
        t = t + 2
    t = t + 3
    return t


def augmented(x: Any) -> Any:
    total, k = 0, 0
    for i in range(3):
        total += i * x
        k -= 1
        if total > 4:
            total *= 2
    return total * 10 + k


def tuple_targets(x: Any) -> Any:
    a, (b, *c) = 1, (2, 3, 4)
    for i, (p, q) in enumerate([(1, 2), (3, 4)]):
        if p * q > x:
            a, b = b + i, a
    return a * 100 + b * 10 + c[0]


def matched(x: Any) -> Any:
    match COUNT:
        case 3:
            y = x + 1
        case _:
            y = x
    return y


ON_TENSORS: list[Callable[[Any], Any]] = [
    collatz, early, nested, inner_return, chain, local_in_branch, while_in_while, in_try, try_else,
    with_block, augmented, tuple_targets, matched,
]  # fmt: skip
"""Also right when x is a tensor."""


def undefined(x: Any) -> Any:
    if x > 0:
        q = 1
    return q


def late_binding(x: Any) -> Any:
    functions: list[Any] = []
    for i in range(3):
        y = i * x
        functions.append(lambda: y)  # noqa: B023  # that is the point
    return [function() for function in functions]


def deletes(x: Any) -> Any:
    a = x
    if x > 0:
        del a
        a = 3
    return a


def comprehension(x: Any) -> Any:
    return [i if i > x else -i for i in range(4) if i != 1 and (x > 0 or i < 3)]


def walrus(x: Any) -> Any:
    if (y := x + 1) > 3 and (z := y * 2) > 9:
        return z
    return y


def walrus_loop(x: Any) -> Any:
    n = 0
    while (y := n * 2) < x:
        n += 1
    return n, y


def long_string(x: Any) -> Any:
    s = """a
  b"""
    if x > 0:
        s = (
            s
            + """
   c"""
        )
    return s


def star_call(*args: Any, **kwargs: Any) -> Any:
    if args and kwargs:
        return len(args), sorted(kwargs)
    return args or kwargs


def stars(x: Any) -> Any:
    return star_call(*[x, x + 1], **{"k": x}), star_call(x), star_call(k=x)


def annotated(x: Any) -> Any:
    y: int
    if x > 0:
        y: int = x + 1  # type: ignore[no-redef]  # seen twice by name
        z: list[int] = [y]
    else:
        y, z = 0, []
    return y, z


def formatted(x: Any) -> Any:
    return f"{x if x > 0 else -x:>4}|{x!r} and {'yes' if x and x > 1 else 'no'}"


def reraises(x: Any) -> Any:
    try:
        if x > 2:
            raise KeyError(x)
        return "fine"
    except KeyError as error:
        try:
            raise ValueError("again") from error
        except ValueError as second:
            return type(second.__cause__).__name__


def imports(x: Any) -> Any:
    if x > 0:
        import math as m

        return m.floor(x + 0.5)
    return None


def global_write(x: Any) -> Any:
    global COUNT
    if x > 100:
        COUNT = COUNT + 1
    return COUNT


def nested_function(x: Any) -> Any:
    total = 0

    def add(k: Any) -> Any:
        nonlocal total
        if k > 1:
            total += k
        return total

    for i in range(4):
        add(i)
    return [total, (lambda t: t + 1 if t > x else t)(total)]


def falls_off(x: Any) -> Any:
    if x > 3:
        return x


def only_raises(x: Any) -> Any:
    assert x < 4, f"too large: {x}"
    if x == 3:
        raise LookupError("three")
    return x


def generators(x: Any) -> Any:
    def numbers() -> Iterator[Any]:
        for i in range(5):
            if i > x:
                return
            yield i

    return list(numbers()), sum(i for i in range(5) if i > x and i != 4)


def returns_in_finally(x: Any) -> Any:
    y = 0
    try:
        if x > 4:
            return 10 // (x - 7)
        y = x
    finally:
        if x > 2:
            return x * 100 + y  # noqa: B012  # it wins over the exception and the other return
        y = y + 1
    return y


def returns_in_finally_of_a_loop(x: Any) -> Any:
    total = 0
    for k in range(5):
        try:
            if k == 3:
                break
            total = total + k // x
        except ZeroDivisionError:
            total = total + 50
        finally:
            if total > 60 + x:
                return -total  # noqa: B012
            total = total + 1
    return total


ON_NUMBERS: list[Callable[[Any], Any]] = [
    *ON_TENSORS, undefined, late_binding, deletes, comprehension, walrus, walrus_loop, long_string,
    stars, annotated, formatted, reraises, imports, global_write, nested_function, falls_off,
    only_raises, generators, returns_in_finally, returns_in_finally_of_a_loop,
]  # fmt: skip


def boom(x: Any) -> Any:
    if x > 0:
        for i in range(3):
            if i == 2:
                raise ValueError("here")  # the line of the traceback
    return x


def make_closures() -> tuple[Callable[..., Any], ...]:
    k = 1

    def set_k(value: Any) -> None:
        nonlocal k
        k = value

    def use(x: Any) -> Any:
        if x > 0:
            x = x + k
        return x

    def bump(x: Any) -> Any:
        nonlocal k
        if x > 0:
            k = k + 1
        return k

    return set_k, use, bump


class Base:
    __private = 7

    def method(self, x: Any) -> Any:
        return x + 1


class Derived(Base):
    __private = 9

    def method(self, x: Any) -> Any:
        if x > 0:
            x = super().method(x) + self.__private + len(__class__.__name__)  # type: ignore[name-defined]  # a cell that methods have
        return x

    @staticmethod
    def static(x: Any) -> Any:
        return x + 1 if x > 0 else x

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return cls.static(x) if x > 0 else x

    def __call__(self, x: Any) -> Any:
        return self.method(x) if x > 0 else -x


LAMBDAS = (lambda x: x + 1 if x > 0 else x), (lambda x: x - 1 if x > 0 else x)


def deco(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@deco
@deco
def decorated(x: Any, *, y: int = 2, **extra: Any) -> Any:
    """Has a docstring."""
    if x > 0:
        return x + y
    return y


def for_debugger(x: Any) -> Any:
    if x > 0:
        local = x + 41
        local = local + 1  # a breakpoint goes here
    return local
