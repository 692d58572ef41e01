"""What a call looks like to the cache: one spelling per call, a key, and the leaves that are
tensors.

Tensors and arrays count by dtype and shape, other values by type and value, objects that are hashed
by identity
weakly, so that a cache keeps nothing alive.
"""

from __future__ import annotations

import copy
import inspect
import io
import re
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from types import MethodType
from typing import Any

import numpy as np

from tapeline.compiler.frontend.annotations import Annotations
from tapeline.compiler.frontend.families import Order, Places, Plan, open_places
from tapeline.compiler.frontend.frozen import freeze
from tapeline.compiler.frontend.input_signature import InputSignature
from tapeline.compiler.frontend.options import Options
from tapeline.compiler.frontend.retraces import AN_ITERATOR
from tapeline.compiler.frontend.snapshots import holds_containers, take_snapshot
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, DTypeError
from tapeline.runtime.open_numbers import is_general
from tapeline.runtime.spec import canonical_dtype
from tapeline.runtime.tensor import Tensor, reject_masked

_DEFAULTS = Options()
_MATCHED = 4
"""Arguments that `build_matcher` compares by straight-line code."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Call:
    """One call in its canonical form.

    Attributes
    ----------
    key : hashable
        Equal for calls that share a trace.
    tensors : list
        The leaves that are tensors or arrays, in order.
    spots : list of int
        Where in the key the shape of each tensor stands.
    numbers : list of int or float
        The leaves that are Python numbers, in order.
    open : Places
        Dimensions that specs or annotations leave open.
    abstract : set of int
        The ids of tensors that only stand for others, and have no values.
    """

    __slots__ = (
        "abstract", "args", "key", "keyword_order", "kwargs", "number_spots", "numbers", "open",
        "orders", "parts", "spots", "tensors",
    )  # fmt: skip

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.keyword_order = tuple(kwargs)
        self.kwargs = dict(sorted(kwargs.items())) if len(kwargs) > 1 else kwargs
        self.orders: list[tuple[Any, ...]] = [self.keyword_order] if len(kwargs) > 1 else []
        """In which order arguments by name were given, and the items of dicts: no part of the key,
        since few programs ask."""
        self.key: tuple[Any, ...] = ()
        self.parts: list[Any] = []
        """The key as it grows."""
        self.tensors: list[Any] = []
        self.abstract: frozenset[int] = frozenset()
        self.spots: list[int] = []
        self.numbers: list[float] = []
        self.number_spots: list[int] = []
        self.open: Places = ()

    def with_tensors(self, given: dict[int, Any]) -> Call:
        """The same call with other tensors, by the ids of the present ones; not yet taken apart."""

        def replace(leaf: Any) -> Any:
            return given.get(id(leaf), leaf)

        args = tuple(nest.map_structure(replace, value) for value in self.args)
        return Call(args, self.in_order(nest.map_structure(replace, self.kwargs)))

    def in_order(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name in the order in which they were given."""
        return {name: kwargs[name] for name in self.keyword_order}

    @property
    def order(self) -> Order:
        """In which order dicts and arguments by name came."""
        return tuple(self.orders)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors."""
        return tuple([self.key[spot] for spot in self.spots])

    @property
    def family(self) -> Hashable:
        """Equal for calls that differ in nothing but the sizes of tensors and in numbers that a
        trace may leave open."""
        parts = list(self.key)
        for spot in self.spots:
            parts[spot] = len(parts[spot])
        for spot, number in zip(self.number_spots, self.numbers, strict=True):
            if is_general(number):
                parts[spot] = "+" if number > 0 else "-"
        return tuple(parts)


class Signature:
    """The parameters of a function, and how its calls are spelled, keyed and taken apart."""

    def __init__(
        self, function: Callable[..., Any], name: str, options: Options = _DEFAULTS
    ) -> None:
        self.name = name
        self.options = options
        self.signature = inspect.signature(function)
        parameters = list(self.signature.parameters.values())
        self.names = [p.name for p in parameters if p.kind in _POSITIONAL]
        plain = len(self.names) == len(parameters)
        self._changing = [
            p.default for p in parameters if holds_containers(take_snapshot(p.default))
        ]
        self._arity = len(self.names) if plain else -1
        self.static = frozenset(options.static_args)
        self._donated = frozenset(options.donate)
        for option, chosen in (("static_args", self.static), ("donate", self._donated)):
            unknown = sorted(chosen.difference(self.signature.parameters))
            if unknown:
                raise ArgumentError(f"{name}{self._shown()}: {option}: no parameter {unknown[0]!r}")
        self.specs: InputSignature | None = None
        self._open: Places = ()
        self.annotations = Annotations.of(function, name)
        if options.input_signature is not None:
            has_instance = self._has_instance(function, len(options.input_signature))
            self.specs = InputSignature(options.input_signature, self.signature, name, has_instance)
            self._open = open_places(leaves_in_order(options.input_signature))

    def _has_instance(self, function: Callable[..., Any], n_specs: int) -> bool:
        """Whether the first parameter seems to be the object that a method belongs to."""
        if self.names[:1] == ["self"]:
            return True
        place = getattr(function, "__qualname__", "").rpartition(".")[0]
        required = [
            p for p in self.signature.parameters.values()
            if p.kind in _POSITIONAL and p.default is p.empty
        ]  # fmt: skip
        return bool(place) and not place.endswith("<locals>") and len(required) == n_specs + 1

    def of_instance(self) -> Signature:
        """That of a method, whose first parameter is the object that it belongs to."""
        specs = self.options.input_signature
        if specs is None or (self.specs is not None and self.specs.n_before):
            return self
        made = copy.copy(self)
        made.specs = InputSignature(specs, self.signature, self.name, True)
        return made

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call with its defaults filled in, and positional wherever that is possible.

        Raises
        ------
        ArgumentTypeError
            (a TypeError) if the function cannot be called in this way.
        """
        args, kwargs = self.arguments(args, kwargs)
        call = Call(args, kwargs)
        call.open = self._open
        return freeze(call, self.static, self.names) if self.static else call

    def leaves_out_containers(self, call: Call, given: Iterable[Any]) -> bool:
        """Whether a call leaves an argument out whose default value may change inside."""
        if not self._changing:
            return False
        passed = set(map(id, given))
        used = (*call.args, *call.kwargs.values())
        return any(
            value is one and id(one) not in passed for one in self._changing for value in used
        )

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call in their one spelling, as `input_signature` wants them."""
        if kwargs or len(args) != self._arity:
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentTypeError(f"{self.name}{self._shown()}: {error}") from None
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if self.specs is not None:
            args = self.specs.conform(args)
        if self.annotations is not None:
            args, kwargs = self.annotations.conform(self.names, args, kwargs)
        return args, kwargs

    def _shown(self) -> str:
        """The parameters without their annotations."""
        empty = inspect.Parameter.empty
        parameters = [p.replace(annotation=empty) for p in self.signature.parameters.values()]
        return str(inspect.Signature(parameters))

    def take_apart(self, call: Call) -> Call:
        """Fills in the key and the tensors of a call.

        Raises
        ------
        DTypeError, ArgumentTypeError
            (both are TypeErrors) if an argument holds an array of no numbers, or something that
            cannot be told from another of its kind.
        """
        parts, tensors = call.parts, call.tensors
        try:
            for value in call.args:
                _add(value, call)
            if call.kwargs:
                for name, value in call.kwargs.items():
                    parts.append(name)
                    _add(value, call)
        except (DTypeError, ArgumentTypeError) as error:
            culprit = _without_key(self._named(call))
            raise type(error)(f"{self.name}: argument {culprit}: {error}") from None
        if len(tensors) > 1 and len(set(map(id, tensors))) != len(tensors):
            first: dict[int, int] = {}
            parts.append(tuple(first.setdefault(id(t), k) for k, t in enumerate(tensors)))
        call.key = tuple(parts)
        if self.annotations is not None and not call.open:
            call.open = self.annotations.places(self._numbered_leaves(call))
        return call

    def _numbered_leaves(self, call: Call) -> Iterator[tuple[str, int]]:
        """The parameter and the number of each tensor that is an argument by itself."""
        number = 0
        for name, value in self._named(call):
            if is_tensor_leaf(value):
                yield name, number
            number += len(_paths(value, name))

    def _named(self, call: Call) -> Iterator[tuple[str, Any]]:
        """The arguments of a call with the names that people use."""
        for position, value in enumerate(call.args):
            named = position < len(self.names)
            yield self.names[position] if named else f"args[{position - len(self.names)}]", value
        yield from call.kwargs.items()

    def is_donated(self, path: str) -> bool:
        """Whether a tensor with this name among the arguments is given away."""
        return re.split(r"\W", path, maxsplit=1)[0] in self._donated

    def describe_leaves(self, call: Call) -> list[str]:
        """The names of the tensor leaves, for placeholders and messages."""
        return [path for name, value in self._named(call) for path in _paths(value, name)]

    def describe_numbers(self, call: Call) -> list[str]:
        """The names of the Python numbers among the arguments."""
        return [
            path
            for name, value in self._named(call)
            for path, leaf in _named_leaves(value, name)
            if type(leaf) is int or type(leaf) is float
        ]

    def describe_open(self, call: Call, plan: Plan) -> tuple[str, ...]:
        """What a plan leaves open, by the names people use."""
        leaves = self.describe_leaves(call)
        sizes = [
            " = ".join(f"{leaves[number]}[{axis}]" for number, axis in group)
            for group in plan.places
        ]
        names = self.describe_numbers(call) if plan.numbers else []
        return (*sizes, *(names[position] for position in plan.numbers))

    def describe(self, call: Call) -> dict[str, str]:
        """What each leaf of a call is, by the name people use."""
        found: dict[str, str] = {}
        first: dict[int, str] = {}
        for name, value in self._named(call):
            _describe(value, name, found, first)
        return found


def _without_key(values: Iterable[tuple[str, Any]]) -> str:
    """The name of the innermost value that `_add` refuses."""
    for name, value in values:
        try:
            _add(value, Call((), {}))
        except (DTypeError, ArgumentTypeError):
            inner = "" if nest.is_leaf(value) else _without_key(_children(value, name))
            return inner or name
    return ""


def _describe(value: Any, name: str, found: dict[str, str], first: dict[int, str]) -> None:
    if is_tensor_leaf(value):
        before = first.setdefault(id(value), name)
        shape = ", ".join(map(str, value.shape))
        text = f"{canonical_dtype(value.dtype).name}[{shape}]"
        found[name] = text if before == name else f"same as {before}"
    elif value is None or nest.is_leaf(value):
        text = f"{type(value).__name__}{AN_ITERATOR}" if is_iterator(value) else repr(value)
        found[name] = text if len(text) <= 40 else text[:37] + "..."
    else:
        children = list(_children(value, name))
        if not children:
            found[name] = f"empty {type(value).__name__}"
        for child_name, child in children:
            _describe(child, child_name, found, first)


def _children(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The parts of a container, with their names, in the order of keys."""
    if type(value) is dict:
        value = {key: value[key] for key in ordered_keys(value)}
    for part, child in nest.named_children(value):
        yield f"{name}{part}", child


def is_tensor_leaf(x: Any) -> bool:
    """Whether an argument becomes an input of the graph."""
    return type(x) is Tensor or isinstance(x, np.ndarray | np.generic)


def with_numbers(value: Any, numbers: Iterator[Any]) -> Any:
    """The argument with the next of `numbers` in the place of each Python number."""
    if type(value) is int or type(value) is float:
        return next(numbers)
    if value is None or nest.is_leaf(value):
        return value
    if type(value) is dict:
        made = {key: with_numbers(value[key], numbers) for key in ordered_keys(value)}
        return {key: made[key] for key in value}
    children = [with_numbers(child, numbers) for child in nest.children(value)]
    if all(a is b for a, b in zip(children, nest.children(value), strict=True)):
        return value
    return nest.rebuild(value, children)


def numbers_of(call: Call) -> list[float]:
    """The Python numbers among the arguments of a call that was not taken apart."""
    scratch = Call((), {})
    for value in (*call.args, *call.kwargs.values()):
        _add(value, scratch)
    return scratch.numbers


def leaves_in_order(value: Any) -> list[Any]:
    """The leaves of arguments in the order in which the tensors among them become inputs."""
    if value is None or nest.is_leaf(value):
        return [value]
    return [leaf for _, child in _children(value, "") for leaf in leaves_in_order(child)]


def _named_leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if value is None or nest.is_leaf(value):
        yield name, value
    else:
        for child_name, child in _children(value, name):
            yield from _named_leaves(child, child_name)


def _paths(value: Any, name: str) -> list[str]:
    if nest.is_leaf(value):
        return [name] if is_tensor_leaf(value) else []
    return [path for part, child in _children(value, name) for path in _paths(child, part)]


def ordered_keys(table: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dict in an order that does not depend on how it was filled."""
    if len(table) < 2:
        return tuple(table)
    try:
        return tuple(sorted(table))
    except TypeError:
        return tuple(sorted(table, key=lambda key: (type(key).__name__, repr(key))))


def _add(value: Any, call: Call) -> None:
    """Appends to the key of the call what tells `value` from another, and the tensors and numbers
    in it to those of the call."""
    kind, parts = type(value), call.parts
    if kind is Tensor:
        held = value._value
        parts.append(held.dtype)
        call.spots.append(len(parts))
        parts.append(held.shape)
        call.tensors.append(value)
    elif kind is np.ndarray or isinstance(value, np.ndarray | np.generic):
        parts.append(_numeric_dtype(value))
        call.spots.append(len(parts))
        parts.append(value.shape)
        call.tensors.append(value)
    elif kind is tuple or kind is list:
        parts.append(kind)
        parts.append(len(value))
        for child in value:
            _add(child, call)
    elif kind is dict:
        keys = ordered_keys(value)
        if len(keys) > 1:
            call.orders.append(tuple(value))
        parts.append(kind)
        parts.append(keys)
        for key in keys:
            _add(value[key], call)
    elif value is not None and not nest.is_leaf(value):
        children = nest.children(value)
        parts += [kind, len(children), nest.auxiliary(value)]
        for child in children:
            _add(child, call)
    else:
        parts.append(kind)
        if kind is float or kind is int:
            call.number_spots.append(len(parts))
            call.numbers.append(value)
        parts.append(_static_key(value, kind))


def _numeric_dtype(array: Any) -> Any:
    if array.dtype.kind in "OSUVMm":
        raise DTypeError(
            f"an array of dtype {array.dtype} holds no numbers; convert it with .astype(float), or "
            "pass what it holds as Python values"
        )
    reject_masked(array, "an array")
    return canonical_dtype(array.dtype, "an array")


def _static_key(value: Any, kind: type) -> Hashable:
    if kind is float or kind is complex:
        return repr(value)  # tells -0.0 from 0.0, and lets NaN equal itself
    if value is None or kind in (bool, int, str, bytes):
        return value  # type: ignore[no-any-return]  # hashable by its type
    if hasattr(kind, "__tapeline_tensor__"):
        return _Identity(value)
    if kind is MethodType:
        return _Identity(value.__self__), value.__func__  # a new object at each access
    if kind in weakref.ProxyTypes or kind is weakref.ReferenceType:
        raise ArgumentTypeError(
            f"a {kind.__name__} (weakref) cannot be an argument: what it refers to may be gone at "
            "the next call; pass the object itself"
        )
    if kind is slice:
        return tuple(
            [(type(x), _static_key(x, type(x))) for x in (value.start, value.stop, value.step)]
        )
    if getattr(kind, "__hash__", None) is None:
        raise ArgumentTypeError(
            f"a value of type {kind.__name__} cannot be told from another one: it has no hash; "
            "pass tensors, arrays, numbers, strings, containers of these, or hashable objects"
        )
    if is_iterator(value):
        return object()  # equal to none: the same one gives other items at the next call
    by_identity: Any = object.__hash__
    if kind.__hash__ is by_identity and not isinstance(value, type):
        return _Identity(value)
    return value  # type: ignore[no-any-return]  # hashable, asked above


def is_iterator(value: Any) -> bool:
    """Whether what a value gives depends on how often it was asked; open files are no matter."""
    return isinstance(value, Iterator) and not isinstance(value, io.IOBase)


def is_told_by_identity(value: Any) -> bool:
    """Whether a leaf of arguments counts as this very object, as long as it lives."""
    try:
        return type(_static_key(value, type(value))) is _Identity
    except ArgumentTypeError:
        return False


def build_matcher(call: Call) -> Callable[..., bool] | None:
    """A quick test of whether positional arguments have the key of `call`; None where there is
    none.

    It serves calls whose arguments are all tensors, by straight-line code.
    """
    if call.kwargs or not call.args or len(call.args) > _MATCHED:
        return None
    if any(type(value) is not Tensor for value in call.args):
        return None
    if len({id(value) for value in call.args}) != len(call.args):
        return None
    names = [f"a{k}" for k in range(len(call.args))]
    tests = [
        f"type({n}) is T and {n}._value.dtype is d{k} and {n}._value.shape == s{k}"
        for k, n in enumerate(names)
    ]
    tests += [f"{a} is not {b}" for k, a in enumerate(names) for b in names[:k]]
    scope: dict[str, Any] = {"T": Tensor}
    for k, value in enumerate(call.args):
        scope[f"d{k}"], scope[f"s{k}"] = value.dtype, value.shape
    made: Callable[..., bool] = eval(f"lambda {', '.join(names)}: {' and '.join(tests)}", scope)
    return made


class _Identity:
    """Stands for one object as long as it lives, without keeping it alive; equal to no other after
    that."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._ref: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._ref = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return NotImplemented
        mine, theirs = self._ref(), other._ref()
        return mine is not None and mine is theirs
