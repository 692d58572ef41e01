"""The handler behind `vmap`: tensors that stand for one example of many.

Inside of the function a cell holds a `Batched` value: a tensor of the program around, with the
examples along its first axis, or one that is the same for all. Each op runs once, on all examples,
in the program around: eagerly, in a trace, or in another `vmap`. Tapes inside of the function
record what it sees; tapes outside record what runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import numpy as np

from tapeline.runtime.at_work import only_at_work
from tapeline.runtime.batching.loops import MappedLoop
from tapeline.runtime.dispatch import STATE, bind, set_handler
from tapeline.runtime.errors import LeakedTensorError, TracingError, VariableCreationError
from tapeline.runtime.op import Attrs, Expansion, Op, Trait
from tapeline.runtime.ops.batch_rules import apply, batch_elementwise, spread
from tapeline.runtime.record import Node, TapeSet, meet
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tape import record_operation
from tapeline.runtime.tensor import Tensor, adopt, adoption, wrap

Body = Callable[..., Sequence[Any]]


class Batched:
    """The value of a tensor inside of a `vmap`."""

    __slots__ = ("__weakref__", "dtype", "level", "mapped", "shape", "tensor", "weak")
    is_view = False
    """Nobody asks here whether NumPy would write through to another tensor."""

    def __init__(self, level: Level, tensor: Tensor, mapped: bool) -> None:
        self.level = level
        self.tensor = tensor
        self.mapped = mapped
        shape = tensor.shape
        self.shape: Shape = shape[1:] if mapped else shape
        self.dtype: DType = tensor.dtype
        self.weak: type | None = None
        """The Python type that the number would have without `vmap`; such numbers promote
        weakly."""

    @property
    def ndim(self) -> int:
        """Number of dimensions of one example."""
        return len(self.shape)

    @property
    def known(self) -> Any:
        """The value, where it is one for all examples and there already."""
        if self.mapped:
            return None
        value = self.tensor._value
        return value if type(value) is np.ndarray else getattr(value, "known", None)

    def __repr__(self) -> str:
        return f"<one of {self.level.size} examples of vmap>"

    def describe(self) -> str:
        """What a person can be told of it."""
        return f"vmap over {self.level.size} examples"

    def _reject(self, *_: Any, **__: Any) -> NoReturn:
        raise LeakedTensorError(
            "a tensor of one example inside of tl.vmap has no values of its own; use tensor "
            "functions on it, and return it from the function"
        )

    __array__ = _reject
    __array_ufunc__ = _reject
    __array_function__ = _reject


_WARNED: set[str] = set()
_CONVERSION: list[Callable[[Level, Callable[..., Any]], Callable[..., Any]]] = []


def install_conversion(
    convert: Callable[[Level, Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Tells what makes functions of the user's whose control flow tensors may decide."""
    _CONVERSION.append(convert)


class Level:
    """One `vmap` at work: the handler of the ops in its function.

    Parameters
    ----------
    size : int
        The number of examples.
    mask : Tensor of bool, shape (size,), optional
        Those that are at work; by default all.
    """

    def __init__(self, size: int, mask: Tensor | None = None) -> None:
        self.size = size
        self.outer = STATE.handler
        self._tapes = STATE.active, STATE.open, STATE.stopped
        self._watching: TapeSet | None = None
        self._met: dict[int, Tensor] = {}
        self._replaced: dict[int, Tensor] = {}
        self.same_tensors: dict[int, Any] = {}
        """Pairs of tensors that may be one object, as conditions of examples say."""
        self._conditions: list[tuple[Tensor, bool]] = []
        """What must hold, or must not, for an example to be at work."""
        if mask is not None:
            self._conditions.append((self.cell(mask, True), True))

    # ---- contexts

    @contextmanager
    def where(self, condition: Tensor, holds: bool = True) -> Iterator[None]:
        """Where only those examples are at work for which a condition holds, or does not."""
        self._conditions.append((condition, holds))
        try:
            yield
        finally:
            self._conditions.pop()

    def _at_work(self) -> Tensor | None:
        """For the program around: a bool for each example; None where all are at work."""
        found: Tensor | None = None
        for condition, holds in self._conditions:
            one = condition if holds else apply("logical_not", condition)
            found = one if found is None else apply("logical_and", found, one)
        return None if found is None else self.examples(found)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The function's side: its ops come here, tapes of outside do not see them."""
        saved = STATE.active, STATE.open, STATE.stopped
        before = set_handler(self)
        STATE.active, STATE.open, STATE.stopped = None, (), 0
        try:
            with adoption(self._adopt):
                yield
        finally:
            set_handler(before)
            STATE.active, STATE.open, STATE.stopped = saved

    @contextmanager
    def outside(self) -> Iterator[None]:
        """The side of the program around, with its tapes."""
        saved = STATE.active, STATE.open, STATE.stopped
        before = set_handler(self.outer)
        STATE.active, STATE.open, STATE.stopped = self._tapes
        try:
            yield
        finally:
            set_handler(before)
            STATE.active, STATE.open, STATE.stopped = saved

    @contextmanager
    def here(self) -> Iterator[None]:
        """Take what is around now for the program around: a gradient may be asked for elsewhere."""
        saved = self.outer, self._tapes
        self.outer = STATE.handler
        self._tapes = STATE.active, STATE.open, STATE.stopped
        try:
            yield
        finally:
            self.outer, self._tapes = saved

    def _adopt(self, tensor: Tensor, source: Any) -> Tensor:
        """A trace around must know the constants that the function makes."""
        if STATE.handler is not self or self.outer is None:
            return tensor
        with self.outside():
            return adopt(tensor, source)

    # ---- values

    def cell(self, tensor: Tensor, mapped: bool) -> Tensor:
        """A tensor of outside as one of inside."""
        return wrap(Batched(self, tensor, mapped))

    def lower(self, tensor: Tensor) -> tuple[Tensor, bool]:
        """The tensor of outside that stands for one of inside, and whether it holds examples."""
        if self._watching is not None:
            node = tensor._node
            if node is not None and meet(node.tapes, self._watching) is not None:
                self._met[id(tensor)] = tensor
        replaced = self._replaced.get(id(tensor)) if self._replaced else None
        if replaced is not None:
            return replaced, True
        value = tensor._value
        if type(value) is Batched and value.level is self:
            return value.tensor, value.mapped
        return tensor, False

    def tensors_met(self, run: Callable[[], Any], tapes: TapeSet) -> tuple[Any, list[Tensor]]:
        """What `run` gives, and the tensors of inside known to these tapes that it used."""
        saved = self._watching, self._met
        self._watching, self._met = tapes, {}
        try:
            return run(), list(self._met.values())
        finally:
            self._watching, self._met = saved

    @contextmanager
    def replacing(self, tensors: Sequence[Tensor], below: Sequence[Tensor]) -> Iterator[None]:
        """A block in which tensors of outside with all examples stand for others of inside."""
        saved = self._replaced
        self._replaced = saved | {id(x): y for x, y in zip(tensors, below, strict=True)}
        try:
            yield
        finally:
            self._replaced = saved

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that, whenever it is called, replaces tensors as is done now, for the examples
        that are at work now."""
        bound = self._replaced, self._conditions

        def call(*args: Tensor) -> Any:
            saved = self._replaced, self._conditions
            self._replaced, self._conditions = bound[0], list(bound[1])
            try:
                return function(*args)
            finally:
                self._replaced, self._conditions = saved

        return call

    def examples(self, tensor: Tensor) -> Tensor:
        """The tensor of outside with all examples along the first axis."""
        below, mapped = self.lower(tensor)
        with self.outside():
            return spread(below, mapped, self.size)

    # ---- the handler

    def value_size(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs, most: Any) -> Any:
        """The size of what an op yields that is the same for all examples, if a trace around makes
        one."""
        pairs = [self.lower(tensor) for tensor in inputs]
        if any(mapped for _, mapped in pairs):
            return None
        with self.outside():
            make = getattr(STATE.handler, "value_size", None)
            return None if make is None else make(op, [one for one, _ in pairs], attrs, most)

    def run_op(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs) -> Any:
        """Runs the op on all examples."""
        pairs = [self.lower(tensor) for tensor in inputs]
        below = [tensor for tensor, _ in pairs]
        mapped = [is_mapped for _, is_mapped in pairs]
        has_effects = op.has(Trait.EFFECT)
        mask = self._at_work() if has_effects and self._conditions else None
        any_mapped = any(mapped) or op.has(Trait.RANDOM) or mask is not None
        expands = isinstance(op.lowering, Expansion) and not op.has(Trait.ELEMENTWISE)
        if any_mapped and op.batch is None and expands:
            return self._expand(op, inputs, attrs)
        with self.outside(), only_at_work(mask) if has_effects else nullcontext():
            results = (
                self._batch(op, below, mapped, attrs) if any_mapped else bind(op, below, attrs)
            )
        if op.n_outputs is None:
            return Batched(self, results, any_mapped)
        return tuple([Batched(self, result, any_mapped) for result in results])

    def _expand(self, op: Op, inputs: Sequence[Tensor], attrs: Attrs) -> Any:
        """The op by way of simpler ones; tapes see only the op itself."""
        assert isinstance(op.lowering, Expansion)
        active = STATE.active
        STATE.active = None
        try:
            results = op.lowering.expand(*[wrap(x._value) for x in inputs], *attrs)
        finally:
            STATE.active = active
        if type(results) is Tensor:
            return self.value_of(results)
        return tuple([self.value_of(result) for result in results])

    def _batch(self, op: Op, below: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs) -> Any:
        if op.batch is not None:
            return op.batch(op, self.size, below, mapped, attrs)
        if op.has(Trait.ELEMENTWISE):
            return batch_elementwise(op, self.size, below, mapped, attrs)
        return self._one_by_one(op, below, mapped, attrs)

    def _one_by_one(
        self, op: Op, below: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
    ) -> Any:
        """What serves an op without a rule: example after example."""
        if op.name not in _WARNED:
            _WARNED.add(op.name)
            warnings.warn(
                f"vmap: {op.name} has no batching rule and runs once per example; this is slow",
                stacklevel=6,
            )
        found = []
        for number in range(self.size):
            picked = [
                apply("getitem", x, attrs=((number,),)) if is_mapped else x
                for x, is_mapped in zip(below, mapped, strict=True)
            ]
            results = bind(op, picked, attrs)
            found.append(results if isinstance(results, tuple) else (results,))
        stacked = tuple(
            [apply("stack", *column, attrs=(0,)) for column in zip(*found, strict=True)]
        )
        return stacked[0] if op.n_outputs is None else stacked

    def value_of(self, tensor: Tensor) -> Batched:
        """What tapes of inside keep of a tensor."""
        value = tensor._value
        if type(value) is Batched and value.level is self:
            return value
        return Batched(self, tensor, False)

    def read_variable(self, variable: Any) -> Batched:
        """The same for all examples."""
        with self.outside():
            return Batched(self, variable.read_value(), False)

    def assign_variable(self, variable: Any, value: Tensor) -> None:
        """Refused where the examples differ."""
        below, mapped = self.lower(value)
        if mapped:
            raise TracingError(
                "vmap: a Variable cannot be assigned a value that differs between examples; "
                "return the values, and reduce them outside"
            )
        with self.outside():
            variable.assign(below)

    def create_variable(self, value: Tensor) -> Any:
        """Refused where the examples differ."""
        below, mapped = self.lower(value)
        if mapped:
            raise VariableCreationError(
                "vmap: a Variable cannot begin with a value that differs between examples; make it "
                "outside"
            )
        with self.outside():
            handler = STATE.handler
            if handler is not None:
                return handler.create_variable(below)
            return np.array(below._concrete("Variable(initial)"), order="C")

    def converted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its control flow converted, so that examples may differ in it."""
        return _CONVERSION[0](self, function) if _CONVERSION else function

    def enter_gradient(self, node: Node) -> None:
        """Nothing here depends on where a rule comes from."""

    def stage_gradient(
        self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], backward: Any
    ) -> list[Tensor]:
        """The user's rule for tapes of outside and of inside."""
        pairs = [self.lower(tensor) for tensor in inputs]
        results = [wrap(self.examples(tensor)._value) for tensor in outputs]
        for result, tensor in zip(results, outputs, strict=True):
            result._node = self.lower(tensor)[0]._node if result.dtype.kind not in "fcV" else None

        def run_all(*cts: Tensor) -> list[Any]:
            with self.here(), self.inside():
                parts = backward(*[self.cell(ct, True) for ct in cts])
            with self.here():
                return [
                    None if part is None else self._total(part, mapped)
                    for part, (_, mapped) in zip(parts, pairs, strict=True)
                ]

        with self.outside():
            record_operation(name, results, [tensor for tensor, _ in pairs], run_all)
        cells = [self.cell(result, True) for result in results]
        if STATE.active is not None:
            before = set_handler(None)
            try:
                record_operation(name, cells, inputs, self._rule_inside(backward))
            finally:
                set_handler(before)
        return cells

    def _rule_inside(self, backward: Any) -> Callable[..., list[Any]]:
        return lambda *cts: list(backward(*cts))

    def _total(self, part: Tensor, mapped: bool) -> Tensor:
        """The gradient of a tensor of outside from that of one of inside."""
        found = self.examples(part)
        return found if mapped else apply("sum", found, attrs=((0,), False))

    # ---- control flow

    def stage_cond(
        self, condition: Tensor, then: Body, other: Body, operands: Sequence[Tensor]
    ) -> list[Tensor]:
        """Both branches, chosen from per example; one where the condition is the same for all."""
        below, mapped = self.lower(condition)
        if not mapped and type(below._value) is np.ndarray:
            return list((then if below._value else other)(*operands))
        with self.where(condition):
            chosen = then(*operands)
        with self.where(condition, False):
            rest = other(*operands)
        results = [chosen, rest]
        return [apply("where", condition, a, b) for a, b in zip(*results, strict=True)]

    def stage_while(self, test: Body, body: Body, state: Sequence[Tensor]) -> list[Tensor]:
        """Turns until no example goes on; those that are done keep what they have."""
        if self.outer is not None:
            return MappedLoop(self, test, body, None, state, (), 0, False).run()[1]
        return self._loop(test, body, list(state), np.iinfo(np.int64).max)[1]

    def _loop(
        self, test: Body, body: Body, state: list[Tensor], limit: int
    ) -> tuple[int, list[Tensor]]:
        made = 0
        while made < limit:
            (going,) = test(*[wrap(x._value, x._node) for x in state])
            below, mapped = self.lower(going)
            if not self._known(below).any():
                break
            with self.where(going):
                new = body(*[wrap(x._value, x._node) for x in state])
            if mapped:
                new = [apply("where", going, a, b) for a, b in zip(new, state, strict=True)]
            state = list(new)
            made += 1
        return made, state

    def stage_fixed_point(self, step: Body, state: Sequence[Tensor]) -> list[Tensor]:
        """The state as the turns gave it, with the gradient of the turns."""
        return list(state)

    def _known(self, below: Tensor) -> Any:
        """The value of a tensor of outside that decides how long a loop goes on."""
        if type(below._value) is not np.ndarray:
            raise TracingError(
                "vmap: a loop whose end depends on tensors of a trace cannot be mapped; use "
                "tl.scan, or call tl.vmap outside of tl.function"
            )
        return below._value

    def stage_scan(
        self, test: Body | None, body: Body, limit: int | Tensor, state: Sequence[Tensor],
        xs: Sequence[Tensor], length: int, reverse: bool,
    ) -> tuple[Any, list[Tensor], list[Tensor]]:  # fmt: skip
        """Turn by turn, over all examples."""
        limits = self.lower(limit)[1] if isinstance(limit, Tensor) else False
        if self.outer is not None or limits or (test is not None and xs):
            return MappedLoop(self, test, body, limit, state, xs, length, reverse).run()
        if test is not None:
            turns = limit if isinstance(limit, int) else int(self._known(self.lower(limit)[0]))
            made, last = self._loop(test, body, list(state), turns)
            return made, last, []
        n, carry = len(state), list(state)
        kept: list[list[Tensor]] = []
        for turn in range(length):
            place = length - 1 - turn if reverse else turn
            rows = [apply("getitem", x, attrs=((place,),)) for x in xs]
            results = list(body(*[wrap(x._value, x._node) for x in carry], *rows))
            carry = results[:n]
            kept.append(results[n:])
        if reverse:
            kept.reverse()
        columns = list(zip(*kept, strict=True))
        return length, carry, [apply("stack", *column, attrs=(0,)) for column in columns]
