"""How one trace of a function is called: with arguments as the function itself takes them, or with
its tensors alone, by position or by name. Arguments that are no tensors are bound to the trace:
they may be left out, or must be what they were.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np

from tapeline.compiler.frontend.signature import is_tensor_leaf
from tapeline.compiler.frontend.snapshots import Identity
from tapeline.compiler.ir.graph import Graph
from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentError, SignatureMismatchError
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor, as_tensor

_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL


class CallForms:
    """The ways to spell a call of one trace.

    Parameters
    ----------
    name : str
        Of the function, for messages.
    signature : inspect.Signature or None
        Of the Python function; None: only tensors alone.
    given : tuple of (args, kwargs, placeholders)
        The arguments of the trace, with its symbolic tensors, and these in the order of inputs.
    names : sequence of str
        What the inputs are called.
    specs : sequence of TensorSpec
        What the inputs must be.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature | None,
        given: tuple[tuple[Any, ...], dict[str, Any], tuple[Tensor, ...]],
        names: Sequence[str],
        specs: Sequence[TensorSpec],
    ) -> None:
        self.name = name
        self.signature = signature
        self.args, self.kwargs, placeholders = given
        self.names = tuple(names)
        self.specs = tuple(specs)
        self.keywords = _as_keywords(self.names, signature)
        self._positions: dict[int, list[int]] = {}
        for position, placeholder in enumerate(placeholders):
            self._positions.setdefault(id(placeholder), []).append(position)
        numbers = [leaf for leaf in nest.flatten([self.args, self.kwargs]) if _is_open(leaf)]
        for position, number in enumerate(numbers, len(placeholders)):
            self._positions[id(number)] = [position]

    def arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The tensors of a call in the order of inputs.

        Raises
        ------
        SignatureMismatchError
            (a TypeError and a ValueError) if the call does not fit the trace.
        """
        if not kwargs and len(args) == len(self.specs) and all(map(_is_typed, args)):
            return [self._fit(k, value) for k, value in enumerate(args)]
        try:
            return self._structured(args, kwargs)
        except SignatureMismatchError as error:
            if not kwargs and len(args) == len(self.specs) and self._has_too_many(args):
                return [self._fit(k, value) for k, value in enumerate(args)]  # says which one
            if not self._is_flat(args, kwargs):
                raise error from None
        return self.arrange_flat(args, kwargs)

    def arrange_flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The same, for the tensors alone."""
        if not self._is_flat(args, kwargs):
            raise self._mismatch(
                f"this trace takes the tensors {', '.join(self.names) or '(none)'}; got "
                f"{len(args)} values by position, and {', '.join(kwargs) or 'none'} by name"
            )
        values = [*args, *([None] * (len(self.names) - len(args)))]
        for name, value in kwargs.items():
            names = self.names if name in self.names else self.keywords
            values[names.index(name)] = value
        return [self._fit(k, value) for k, value in enumerate(values)]

    def _has_too_many(self, args: tuple[Any, ...]) -> bool:
        """Whether the function has not so many parameters, so that tensors alone are meant."""
        assert self.signature is not None
        kinds = [parameter.kind for parameter in self.signature.parameters.values()]
        return _VAR_POSITIONAL not in kinds and len(args) > len(kinds)

    def _is_flat(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether these are the tensors alone, the first ones by position and the others by
        name: `pair[0]`, or as a keyword `pair`, then `pair_1` and so on."""
        if not all(map(_is_typed, (*args, *kwargs.values()))):
            return False
        first = len(args)
        return first <= len(self.names) and any(
            set(names[first:]) == set(kwargs) for names in (self.names, self.keywords)
        )

    # ---- arguments as the function takes them

    def _structured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        if self.signature is None:
            raise self._mismatch(
                f"this trace takes {len(self.specs)} tensors ({', '.join(self.names)}), got "
                f"{len(args) + len(kwargs)} arguments; pass the tensors one by one"
            )
        found: dict[int, Tensor] = {}
        try:
            self._match_arguments(args, kwargs, found)
        except SignatureMismatchError:
            own = self.args[0] if self.args else None
            if type(own) is not Identity or (args and args[0] is own.ref()):
                raise
            found.clear()  # a method, called without its object
            self._match_arguments((own.ref(), *args), kwargs, found)
        return [found[position] for position in range(len(self.specs))]

    def _match_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], found: dict[int, Tensor]
    ) -> None:
        assert self.signature is not None
        try:
            bound = self.signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise self._mismatch(str(error)) from None
        expected = self.signature.bind_partial(*self.args, **self.kwargs).arguments
        kinds = {p.name: p.kind for p in self.signature.parameters.values()}
        for name, value in expected.items():
            if kinds[name] is _VAR_POSITIONAL:
                self._match_row(name, value, bound.arguments.get(name, ()), found)
            elif kinds[name] is inspect.Parameter.VAR_KEYWORD:
                self._match_names(value, bound.arguments.get(name, {}), found)
            elif name not in bound.arguments:
                self._check_bound(name, value)
            else:
                self._match(name, value, bound.arguments[name], found)
        further = [name for name in bound.arguments if name not in expected]
        if further:
            raise self._mismatch(
                f"this trace has no {further[0]}: got {bound.arguments[further[0]]!r}"
            )

    def _check_bound(self, name: str, expected: Any) -> None:
        """That an argument that is left out holds no tensors."""
        missing = [leaf for leaf in nest.flatten(expected) if id(leaf) in self._positions]
        if missing:
            raise self._mismatch(f"missing a required argument: {name!r}")

    def _match_row(self, name: str, expected: Any, value: Any, found: dict[int, Tensor]) -> None:
        if len(value) > len(expected):
            raise self._mismatch(
                f"too many positional arguments: this trace takes {len(expected)} for *{name}, got "
                f"{len(value)}"
            )
        for k, child in enumerate(expected):
            if k < len(value):
                self._match(f"{name}[{k}]", child, value[k], found)
            else:
                self._check_bound(f"{name}[{k}]", child)

    def _match_names(self, expected: Any, value: Any, found: dict[int, Tensor]) -> None:
        further = [name for name in value if name not in expected]
        if further:
            raise self._mismatch(f"got an unexpected keyword argument {further[0]!r}")
        for name, child in expected.items():
            if name in value:
                self._match(name, child, value[name], found)
            else:
                self._check_bound(name, child)

    def _match(self, path: str, expected: Any, value: Any, found: dict[int, Tensor]) -> None:
        """Adds the tensors in `value` to those found, if it is like what the trace was made for."""
        positions = self._positions.get(id(expected))
        if positions is not None:
            for position in positions:
                if position not in found:
                    found[position] = self._fit(position, value, path)
                    break
        elif expected is not None and not nest.is_leaf(expected):
            self._match_container(path, expected, value, found)
        elif not _is_same(expected, value):
            raise self._mismatch(
                f"Can not cast argument {path} to {expected!r}, to which it is bound in this "
                f"trace: got {value!r}"
            )

    def _match_container(
        self, path: str, expected: Any, value: Any, found: dict[int, Tensor]
    ) -> None:
        children = nest.named_children(expected)
        fits = type(value) is type(expected)
        given = dict(nest.named_children(value)) if fits else {}
        if not fits or set(given) != {part for part, _ in children}:
            raise self._mismatch(
                f"Can not cast argument {path} to a {type(expected).__name__} of "
                f"{', '.join(part for part, _ in children) or 'nothing'}: got {value!r}"
            )
        for part, child in children:
            self._match(f"{path}{part}", child, given[part], found)

    # ---- one tensor

    def _fit(self, position: int, value: Any, path: str = "") -> Tensor:
        """The value as a tensor of the input's dtype and shape; a Python number takes the dtype."""
        spec, path = self.specs[position], path or self.names[position]
        where = f"{self.name}: argument {path}"
        try:
            tensor = as_tensor(value, None, where)
            if not _is_typed(value) and np.can_cast(tensor.dtype, spec.dtype, "same_kind"):
                tensor = as_tensor(value, spec.dtype, where)
        except TypeError as error:
            raise SignatureMismatchError(str(error)) from None
        if tensor.dtype != spec.dtype or not spec.admits(tensor.shape):
            raise SignatureMismatchError(
                f"{where} must be {spec.dtype.name} of shape {spec.shape}, got {tensor.dtype.name} "
                f"of shape {tensor.shape}; call the function itself to trace for other shapes"
            )
        return tensor

    def _mismatch(self, text: str) -> SignatureMismatchError:
        return SignatureMismatchError(f"{self.name}: {text}")

    # ---- for people

    def structured(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with a named `TensorSpec` in the place of each tensor."""
        count: dict[int, int] = {}

        def spec(leaf: Any) -> Any:
            positions = self._positions.get(id(leaf))
            if positions is None:
                return leaf.ref() if type(leaf) is Identity else leaf
            number = count.get(id(leaf), 0)
            count[id(leaf)] = number + 1
            position = positions[min(number, len(positions) - 1)]
            found = self.specs[position]
            return TensorSpec(found.shape, found.dtype, self.names[position])

        args = tuple(nest.map_structure(spec, value) for value in self.args)
        return args, {name: nest.map_structure(spec, value) for name, value in self.kwargs.items()}

    def describe(self) -> list[str]:
        """One line per argument, such as `x: float32[3, n]` or `k = 2`."""
        names = iter(self.names)
        if self.signature is None:
            return [
                f"{name}: {show_spec(spec)}" for name, spec in zip(names, self.specs, strict=True)
            ]
        bound = self.signature.bind_partial(*self.args, **self.kwargs)
        lines = []
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor) or not nest.is_leaf(value):
                lines.append(f"{name}: {self._show(value)}")
            else:
                lines.append(f"{name} = {value!r}")
        return lines

    def _show(self, value: Any) -> str:
        def show(leaf: Any) -> Any:
            positions = self._positions.get(id(leaf))
            return leaf if positions is None else ShownText(show_spec(self.specs[positions[0]]))

        return repr(nest.map_structure(show, value))


class InputSpec(TensorSpec):
    """The spec of an input of a trace, which knows what it is called."""

    __slots__ = ("called",)

    def __init__(self, spec: TensorSpec, called: str) -> None:
        super().__init__(spec.shape, spec.dtype, spec.name)
        self.called = called

    @property
    def op(self) -> InputName:
        """TensorFlow's way to the name."""
        return InputName(self.called)

    def __reduce__(self) -> tuple[Any, ...]:
        return InputSpec, (TensorSpec(self.shape, self.dtype, self.name), self.called)


class InputName(NamedTuple):
    """What TensorFlow asks of the op behind an input."""

    name: str

    def get_attr(self, key: str) -> bytes:
        """The name, as `_user_specified_name`."""
        if key != "_user_specified_name":
            raise ArgumentError(f"an input has no attribute {key!r}")
        return self.name.encode()


class TraceCalls:
    """What a trace that can be called has for that: base of `ConcreteFunction`."""

    name: str
    graph: Graph
    given: tuple[tuple[Any, ...], dict[str, Any], tuple[Tensor, ...]]
    """The arguments of the trace, with symbolic tensors, and these tensors in order. Objects are an
    `Identity` each, which keeps none alive."""
    signature: inspect.Signature | None = None
    """That of the Python function; None where only tensors are passed."""
    _inputs: tuple[TensorSpec, ...]
    _forms: CallForms | None = None
    _names: tuple[str, ...] | None = None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The specs of the arguments that are tensors, in order."""
        return self.named_specs(self._inputs)

    def named_specs(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The specs of inputs, with what these are called."""
        names = _as_keywords(self.input_names, self.signature)
        return tuple(InputSpec(spec, name) for spec, name in zip(specs, names, strict=True))

    def _call_with_flat_signature(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """TensorFlow's name for a call with the tensors alone."""
        return self.call(self.forms.arrange_flat(tuple(args), dict(kwargs)))

    def call(self, tensors: Sequence[Any]) -> Any:
        """The results for tensors or arrays that fit the trace; nothing is checked."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for these arguments.

        Parameters
        ----------
        *args, **kwargs
            As the function takes them, where what is no tensor may be left out, since it is bound;
            or the tensors alone, by position or by name.

        Raises
        ------
        SignatureMismatchError
            (a TypeError and a ValueError) if they are not what the trace was made for.

        Examples
        --------
        >>> import tapeline as tl
        >>> @tl.function
        ... def f(pair, k):
        ...     return pair["a"] - pair["b"] * k
        >>> number = tl.TensorSpec([], "float64")
        >>> concrete = f.get_concrete_function({"a": number, "b": number}, 2)
        >>> concrete
        <concrete function f(pair: {'a': float64[], 'b': float64[]}, k = 2) -> float64[]>
        >>> a, b = tl.asarray(7.0), tl.asarray(1.0)
        >>> [y.item() for y in (concrete({"a": a, "b": b}, 2), concrete({"a": a, "b": b}))]
        [5.0, 5.0]
        >>> concrete(a, b).item()
        5.0
        """
        return self.call(self.forms.arrange(args, kwargs))

    @property
    def forms(self) -> CallForms:
        """The ways to spell a call."""
        found = self._forms
        if found is None:
            signature = self.signature
            found = self._forms = CallForms(
                self.name, signature, self.given, self.input_names, self.inputs
            )
        return found

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the inputs are called: the names of their specs, or the arguments they come from."""
        if self._names is None:
            return tuple(self._called(k) for k in range(len(self._inputs)))
        return self._names

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with a named `TensorSpec` in the place of each
        tensor."""
        return self.forms.structured()

    def named(self, names: Sequence[str | None]) -> Self:
        """The same trace with other names for its inputs; None leaves one as it is, and so do
        names that are not there: numbers among the inputs come last, and have none."""
        pairs = list(zip_longest(names, self.input_names))
        if all(name is None or name == own for name, own in pairs):
            return self
        made = copy.copy(self)
        made._names = tuple(name or own for name, own in pairs)
        made._forms = None
        return made

    def _called(self, position: int) -> str:
        """What the function calls one of its tensors."""
        (name,) = self.graph.attrs[self.graph.placeholders[position]]
        return str(name)


class ShownText(str):
    """Text that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def show_spec(spec: TensorSpec) -> str:
    """Dtype and shape, as in `float32[3, None]`."""
    if spec.shape is None:
        return f"{spec.dtype.name} of any shape"
    return f"{spec.dtype.name}[{', '.join(map(str, spec.shape))}]"


def _as_keywords(names: Sequence[str], signature: inspect.Signature | None) -> tuple[str, ...]:
    """The names as identifiers: without what follows the argument, numbered; those of `*args` by
    their place in it."""
    parameters = () if signature is None else signature.parameters.values()
    row = next((p.name for p in parameters if p.kind is _VAR_POSITIONAL), None)
    found: list[str] = []
    for name in names:
        base = re.match(r"\w*", name)
        stem = base.group() if base else ""
        place = re.match(r"\w+\[(\d+)\]", name)
        if stem == row and place:
            stem = f"{stem}_{place.group(1)}"
        number = len(found) - found.index(stem) if stem in found else 0
        found.append(f"{stem}_{number}" if number else stem)
    return tuple(found)


def _is_typed(value: Any) -> bool:
    """Whether a value has a dtype of its own: a tensor, an array, a Variable."""
    return is_tensor_leaf(value) or hasattr(type(value), "__tapeline_tensor__")


def _is_open(leaf: Any) -> bool:
    """Whether a leaf stands for a Python number that the trace left open."""
    return type(leaf) is Identity and type(leaf.ref()) is OpenNumber


def _is_same(expected: Any, value: Any) -> bool:
    """Whether a value is the one that the trace was made for."""
    if type(expected) is Identity:
        return value is expected.ref()
    if value is expected:
        return True
    if type(value) is not type(expected):
        return False
    if isinstance(value, float | complex):
        return repr(value) == repr(expected)
    return bool(value == expected)
