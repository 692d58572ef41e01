"""Random programs over whole arrays: views that are taken outside of branches and loops and used
inside of them, choices one after the other, constants of NumPy, writes in place, swaps, lists."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.compiler.frontend.convert.random_views import Shape, place_in, view_of

_COPY = "§"
"""Stands where plain NumPy copies, because views of tensors share nothing with their base."""
_ARRAYS, _MATRICES, _SCALARS = ("a", "b"), ("m", "u"), ("p", "q")
_DTYPES = ("float64", "float64", "float32", "int64")
_SIZES = (2, 3, 4, 5, 2, 3, 4, 5, 40, 300)
_ROLLED = 66
"""Rounds of a loop that is not unrolled."""

Names = dict[str, Shape]


class ArrayWriter:
    """Writes one program of two vectors, two matrices and three scalars, all of one dtype, and of
    views of them, which mean the same over NumPy and over tensors. It has at most so many
    statements at its top, and one less in a block."""

    def __init__(self, seed: int, most: int = 4) -> None:
        self._random = random.Random(seed)
        self.gradients = seed % 3 == 0
        self.dtype = "float64" if self.gradients else self._random.choice(_DTYPES)
        self.size = self._random.choice(_SIZES)
        self.writes = self._random.random() < 0.6
        self.writes_inputs = self.writes and not self.gradients and self._random.random() < 0.2
        self._exact = self.dtype == "int64"
        self._most = most
        self._count = 0
        self._lines = ["def program(x, y, g, c, n):"]
        self._scopes: list[Names] = [{"x": (self.size,), "y": (self.size,), "g": (3, 4), "c": ()}]
        self._lists = self._random.random() < 0.3
        self._begin()
        self._returned = self._return()
        for _ in range(self._random.randint(2, most)):
            self._statement(self._random.choice([1, 1, 2]), 1, "top")
        self._write(1, self._returned + (", *kept" if self._lists else ""))

    def _source(self, copy: str) -> str:
        return "\n".join(self._lines).replace(_COPY, copy) + "\n"

    @property
    def source(self) -> str:
        """The text of the program."""
        return self._source("")

    def build(self, name: str, *, plain: bool) -> Callable[..., Any]:
        """The program as a function whose source can be found, over NumPy or over tensors."""
        filename = f"<random arrays {name}>"
        source = self._source(".copy()" if plain else "")
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        scope: dict[str, Any] = {"np": np}
        exec(compile(source, filename, "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    def _begin(self) -> None:
        for name, given in zip((*_ARRAYS, *_MATRICES), "xygg", strict=True):
            shape = self._scopes[0][given]
            self._write(1, f"{name} = {self._array(shape)}")
            self._scopes[0][name] = shape
        for name in _SCALARS:
            self._write(1, f"{name} = {self._scalar()}")
            self._scopes[0][name] = ()
        if self._lists:
            self._write(1, "kept = []")

    def _return(self) -> str:
        r = self._random
        shown = [*_ARRAYS, *_MATRICES, *_SCALARS]
        shown += [self._view()[0] for _ in range(2)] + [r.choice("xyg")]
        return f"return {', '.join(shown)}"

    def _write(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _names(self) -> Names:
        return {name: shape for scope in self._scopes for name, shape in scope.items()}

    def _view(self) -> tuple[str, Shape]:
        """A view of some variable that is an array, and its shape."""
        r = self._random
        name, shape = r.choice([(n, s) for n, s in self._names().items() if s])
        return view_of(r, name, shape)

    def _operand(self, shape: Shape) -> str:
        """Something of a shape that broadcasts to a shape."""
        r = self._random
        names = [(n, s) for n, s in self._names().items() if s == shape[len(shape) - len(s) :]]
        candidates = [n for n, _ in names]
        for _ in range(6):
            text, seen = self._view()
            if seen == shape[len(shape) - len(seen) :]:
                candidates.append(text)
        whole = [n for n, s in names if s == shape]
        return r.choice(whole if whole and r.random() < 0.4 else candidates or ["c"])

    def _whole(self, shape: Shape) -> str:
        """A variable of just this shape."""
        return self._random.choice([n for n, s in self._names().items() if s == shape] or ["g[0]"])

    def _constant(self, shape: Shape) -> str:
        r = self._random
        tail = f"dtype=np.{self.dtype})"
        if r.random() < 0.6 or max(shape) > 12:
            return f"np.{r.choice(['zeros', 'ones'])}({shape}, {tail}"
        numbers = np.array([r.randint(-4, 4) for _ in range(int(np.prod(shape)))])
        return f"np.array({numbers.reshape(shape).tolist()}, {tail}"

    def _array(self, shape: Shape) -> str:
        """A new array of a shape."""
        one, other = self._operand(shape), self._operand(shape)
        r = self._random
        kind = r.random()
        if kind < 0.12:
            # Writes into an array of NumPy's would change its views, and no tape would see them.
            watched = " + c * 0" if self.writes else ""
            return self._constant(shape) + watched
        if kind < 0.2:
            return f"np.where({one} > {other}, {one}, {self._constant(shape)})"
        if kind < 0.3:
            return f"{self._constant(shape)} - {self._halved(one)}"
        if kind < 0.34 and not self._exact and shape[-1] == 4:
            base = f"({self._whole(shape)} @ np.ones((4, 4), dtype=np.{self.dtype}) * 0.2)"
        elif kind < 0.4:
            base = f"np.maximum({one}, {other})"
        elif kind < 0.6:
            base = f"({self._halved(one)} + {other})"
        else:
            base = f"({one} - {self._halved(other)})"
        return f"{self._kept_small(base)} + {self._constant_of_whole(shape)}"

    def _constant_of_whole(self, shape: Shape) -> str:
        """A term of the whole shape, whatever the other terms are broadcast from."""
        return f"np.zeros({shape}, dtype=np.{self.dtype})"

    def _halved(self, text: str) -> str:
        return f"{text} // 2" if self._exact else f"{text} * 0.5"

    def _kept_small(self, text: str) -> str:
        return f"{text} % 17" if self._exact else f"{text} * 0.5"

    def _scalar(self) -> str:
        r = self._random
        one, other = self._operand(()), self._operand(())
        kind = r.random()
        if kind < 0.3:
            return self._kept_small(f"({one} - {other})")
        if kind < 0.5:
            return self._kept_small(f"np.sum({self._view()[0]})")
        if kind < 0.7:
            return f"{one} if {self._condition()} else {self._kept_small(f'({other} + 1)')}"
        return self._kept_small(f"({one} + {self._halved(other)})")

    def _condition(self) -> str:
        r = self._random
        kind = r.random()
        if kind < 0.3:
            return f"n % {r.randint(2, 4)} == {r.randint(0, 1)}"
        if kind < 0.6:
            return f"{self._operand(())} > {self._operand(())}"
        if kind < 0.75:
            return f"np.sum({self._view()[0]}) < {r.randint(-1, 3)}"
        if kind < 0.85:
            return f"np.any({self._view()[0]} > {r.randint(0, 2)})"
        return f"{self._operand(())} < {r.randint(-1, 2)} and n > {r.randint(0, 4)}"

    def _block(self, size: int, depth: int, place: str) -> None:
        self._scopes.append({})
        for _ in range(self._random.randint(1, self._most - 1)):
            self._statement(size, depth, place)
        self._scopes.pop()

    def _statement(self, size: int, depth: int, place: str) -> None:
        """A statement at a place: at the top, in an unrolled loop, or where numbers decide."""
        r = self._random
        kind = r.random()
        if self._lists and place == "top" and r.random() < 0.15:
            self._write(depth, f"kept.append({self._view()[0]}{_COPY})")
        if self._lists and place == "top" and r.random() < 0.3:
            self._for_list(size, depth)
        if size <= 0 or kind < 0.4:
            self._simple(depth)
        elif kind < 0.5:
            self._new_view(depth)
        elif kind < 0.74:
            self._choices(size, depth, place)
        elif kind < 0.86:
            self._for(size, depth)
        elif kind < 0.92:
            self._while(size, depth)
        elif kind < 0.95:
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, f"{r.choice(_SCALARS)} = {self._scalar()}")
            if not self._lists:
                self._write(depth + 1, self._returned)
        elif place == "loop":
            self._write(depth, f"if {self._condition()}:")
            self._write(depth + 1, r.choice(["break", "continue"]))
        else:
            self._simple(depth)

    def _new_view(self, depth: int) -> None:
        self._count += 1
        text, shape = self._view()
        self._write(depth, f"v{self._count} = {text}{_COPY}")
        self._scopes[-1][f"v{self._count}"] = shape

    def _choices(self, size: int, depth: int, place: str) -> None:
        """Views, and one choice or several one after the other."""
        for _ in range(self._random.randint(0, 2)):
            self._new_view(depth)
        for _ in range(self._random.choice([1, 1, 2, 3])):
            self._write(depth, f"if {self._condition()}:")
            self._block(size - 1, depth + 1, place if place == "loop" else "choice")
            if self._random.random() < 0.2:
                self._write(depth, f"elif {self._condition()}:")
                self._block(size - 1, depth + 1, place if place == "loop" else "choice")
            if self._random.random() < 0.5:
                self._write(depth, "else:")
                self._block(size - 1, depth + 1, place if place == "loop" else "choice")

    def _simple(self, depth: int) -> None:
        r = self._random
        kind = r.random()
        pair = r.choice([_ARRAYS, _MATRICES])
        name = r.choice(pair)
        shape = self._names()[name]
        if kind < 0.2:
            self._write(depth, f"{r.choice(_SCALARS)} = {self._scalar()}")
        elif kind < 0.3:
            self._write(depth, f"{pair[0]}, {pair[1]} = {pair[1]}, {pair[0]}")
        elif kind < 0.38:
            source = r.choice([n for n, s in self._names().items() if s == shape])
            self._write(depth, f"{name} = {source}{'[:]' if self.writes else ''}{_COPY}")
        elif kind < 0.65 and self.writes:
            self._in_place(depth, name, shape)
        else:
            self._write(depth, f"{name} = {self._array(shape)}")

    def _in_place(self, depth: int, name: str, shape: Shape) -> None:
        r = self._random
        if self.writes_inputs and r.random() < 0.5:
            name = r.choice("xyg")
            shape = self._names()[name]
        place, inner = place_in(r, shape)
        if r.random() < 0.6:
            self._write(
                depth, f"{name}[{place}] = {self._array(inner) if inner else self._scalar()}"
            )
        else:
            sign = r.choice("+-")
            self._write(depth, f"{name}[{place}] {sign}= {self._kept_small(self._operand(inner))}")

    def _for(self, size: int, depth: int) -> None:
        r = self._random
        kind = r.random()
        index = f"i{depth}"
        if kind < 0.35:
            self._write(depth, f"for {index} in range({r.randint(1, 3)}):")
        elif kind < 0.7:
            self._write(depth, f"for {index} in range({_ROLLED}):")
        elif kind < 0.85:
            self._write(depth, f"for {index} in range(n):")
        else:
            self._for_rows(size, depth)
            return
        self._block(size - 1, depth + 1, "loop")

    def _for_list(self, size: int, depth: int) -> None:
        """A loop whose rounds append to a list."""
        r = self._random
        self._count += 1
        rows = f"l{self._count}"
        self._write(depth, f"{rows} = []")
        self._write(depth, f"for i{depth} in range({r.choice([2, _ROLLED])}):")
        row = r.choice(["a[:]", "b[:]", "m[:]", "a[::-1]", "m[1]", "u.T", "b[0]"])
        self._block(size - 1, depth + 1, "choice")
        self._write(depth + 1, f"{rows}.append({row}{_COPY})")
        self._write(depth, f"kept.append(np.stack({rows}))")

    def _for_rows(self, size: int, depth: int) -> None:
        """A loop over the parts of an array."""
        r = self._random
        source = r.choice(["m", "u.T", "a", "g", "x[::-1]"])
        row = f"r{depth}"
        self._write(depth, f"for {row} in {source}:")
        self._scopes.append({row: {"m": (4,), "g": (4,), "u.T": (3,)}.get(source, ())})
        self._block(size - 1, depth + 1, "loop")
        self._scopes.pop()

    def _while(self, size: int, depth: int) -> None:
        self._count += 1
        counter = f"k{self._count}"
        self._write(depth, f"{counter} = 0")
        limit = self._random.choice([1, 2, 4, _ROLLED])
        self._write(depth, f"while {counter} < {limit} and ({self._condition()}):")
        self._write(depth + 1, f"{counter} = {counter} + 1")
        self._block(size - 1, depth + 1, "loop")


Arguments = list[Any]


def inputs_of(seed: int, writer: ArrayWriter) -> list[Arguments]:
    """A few arguments for the program of a seed: two vectors, a matrix and two scalars."""
    rng = np.random.default_rng(seed)
    shapes: list[Shape] = [(writer.size,), (writer.size,), (3, 4), ()]
    return [
        [*(np.asarray(np.round(rng.normal(size=s) * 3, 2), writer.dtype) for s in shapes), count]
        for count in (0, 3, 6)
    ]


def _tensors(arguments: Arguments) -> Arguments:
    import tapeline as tl

    return [tl.asarray(np.array(part)) for part in arguments]


def _plain(arguments: Arguments) -> Arguments:
    return [part.copy() if part.ndim else part[()] for part in arguments[:-1]] + arguments[-1:]


def _compare(wanted: Arguments, found: Arguments, what: str, source: str) -> None:
    assert len(wanted) == len(found), f"{what}: {len(found)} results, {len(wanted)} expected"
    for place, (right, got) in enumerate(zip(wanted, found, strict=True)):
        right, got = np.asarray(right), np.asarray(got)
        close = 1e-3 if right.dtype == np.float32 else 1e-9
        same = right.dtype == got.dtype and right.shape == got.shape
        if not (same and np.allclose(got, right, rtol=close, atol=close)):
            message = f"{what}, value {place}: {got!r} instead of {right!r}"
            raise AssertionError(f"{message}\n{source}")


def check_arrays(seed: int, most: int = 4) -> None:
    """Raises an error unless the program of a seed gives the same over NumPy, eagerly and
    compiled, and, for a third of the programs, also the same gradients both ways."""
    import tapeline as tl

    writer = ArrayWriter(seed, most)
    plain = writer.build(f"{seed} plain", plain=True)
    staged = writer.build(f"{seed}", plain=False)
    compiled = tl.function(staged)
    for arguments in inputs_of(seed, writer):
        given = _plain(arguments)
        wanted = [*(np.array(part) for part in plain(*given)), *given]
        for kind, way in (("eager", staged), ("compiled", compiled)):
            tensors = _tensors(arguments)
            found = [*way(*tensors), *tensors]
            where = f"seed {seed} {kind} n={arguments[-1]}"
            _compare(wanted, found, where, writer.source)
        if writer.gradients and arguments[-1] == 3:
            one, other = _gradients(staged, arguments), _gradients(compiled, arguments)
            _compare(one, other, f"seed {seed} gradients n={arguments[-1]}", writer.source)


def _gradients(way: Callable[..., Any], arguments: Arguments) -> Arguments:
    """The gradients of a weighted sum of all results."""
    import tapeline as tl

    *watched, count = _tensors(arguments)
    with tl.GradientTape() as tape:
        for part in watched:
            tape.watch(part)
        total = tl.asarray(0.0)
        for number, part in enumerate(way(*watched, count)):
            total = total + tl.sum(tl.asarray(part) * (number + 1.0)) ** 2
    found = tape.gradient(total, watched)
    return [
        np.zeros(given.shape) if d is None else d for d, given in zip(found, watched, strict=True)
    ]
