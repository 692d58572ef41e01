"""A signature fixed by hand: the specs that the arguments of every call must fit.

The specs stand for the positional parameters, in order, and may be nested. Parameters that they do
not reach keep their defaults.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tapeline.runtime import nest
from tapeline.runtime.errors import ArgumentTypeError
from tapeline.runtime.spec import TensorSpec
from tapeline.runtime.tensor import Tensor, as_tensor

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class InputSignature:
    """Specs for the positional parameters of a function.

    Parameters
    ----------
    specs : tuple
        A `TensorSpec` per parameter, or a structure of them.
    signature : inspect.Signature
        Of the function.
    name : str
        What messages call the function.
    has_instance : bool
        Whether the first parameter is the object that a method belongs to.

    Raises
    ------
    ArgumentTypeError
        If the specs are no structure of `TensorSpec`, or if a parameter has neither a spec nor a
        default.
    """

    def __init__(
        self, specs: tuple[Any, ...], signature: inspect.Signature, name: str, has_instance: bool
    ) -> None:
        self.name = name
        self.specs = specs
        for spec in nest.flatten(list(self.specs)):
            if type(spec) is not TensorSpec:
                raise ArgumentTypeError(
                    f"{name}: input_signature must be a possibly nested sequence of TensorSpec; it "
                    f"holds {spec!r}, and input_signature doesn't support "
                    f"{type(spec).__name__}"
                )
        parameters = list(signature.parameters.values())
        self.n_before = int(has_instance)
        self.names = [p.name for p in parameters if p.kind in _POSITIONAL][self.n_before :]
        self.defaults = [p.default for p in parameters if p.name in self.names[len(self.specs) :]]
        """Of the parameters that no spec reaches."""
        self._check_reach(parameters)

    def _check_reach(self, parameters: list[inspect.Parameter]) -> None:
        """That every parameter has a spec or a default, and every spec a parameter."""
        kinds = {p.kind for p in parameters}
        is_variadic = inspect.Parameter.VAR_POSITIONAL in kinds
        reached = set(self.names[: len(self.specs)])
        if len(self.specs) > len(self.names) and not is_variadic:
            raise ArgumentTypeError(
                f"{self.name}: input_signature has {len(self.specs)} specs for "
                f"{len(self.names)} positional parameters"
            )
        missing = [
            p.name
            for p in parameters[self.n_before :]
            if p.kind not in _VARIADIC and p.default is p.empty and p.name not in reached
        ]
        if missing:
            raise ArgumentTypeError(
                f"{self.name}: input_signature missing type constraint for {', '.join(missing)}: "
                "add a TensorSpec for each, or give them defaults"
            )

    def called(self, position: int) -> str:
        """What messages call the argument of a spec."""
        if position < len(self.names):
            return self.names[position]
        return f"args[{position - len(self.names)}]"

    def conform(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments of a call, defaults filled in, with a tensor for each spec.

        Raises
        ------
        ArgumentTypeError
            If an argument does not fit its spec. (A TypeError, whatever does not fit.)
        """
        first = self.n_before
        last = first + len(self.specs)
        if len(args) < last:
            raise ArgumentTypeError(
                f"{self.name}: missing a required argument: {self.called(len(args) - first)!r}"
            )
        extra = args[last:]
        for position, value in enumerate(extra):
            if position >= len(self.defaults):
                raise ArgumentTypeError(
                    f"{self.name}: too many positional arguments: input_signature has "
                    f"{len(self.specs)}"
                )
            default = self.defaults[position]
            if value is not default and not _is_equal(value, default):
                raise ArgumentTypeError(
                    f"{self.name}: argument {self.called(len(self.specs) + position)} has no spec "
                    f"in input_signature, so it stays at its default {default!r}; got "
                    f"{value!r}"
                )
        made = [
            self._fit(spec, value, self.called(k))
            for k, (spec, value) in enumerate(zip(self.specs, args[first:last], strict=True))
        ]
        return (*args[:first], *made, *extra)

    def _fit(self, spec: Any, value: Any, path: str) -> Any:
        """The value as its spec asks for."""
        if type(spec) is TensorSpec:
            return self._fit_tensor(spec, value, path)
        if spec is None and value is None:
            return None
        named = nest.named_children(spec)
        is_row = isinstance(spec, list | tuple) and isinstance(value, list | tuple)
        fits = (
            value is not None
            and not nest.is_leaf(value)
            and (is_row or isinstance(value, type(spec)))
        )
        given = dict(nest.named_children(value)) if fits else {}
        if not fits or len(given) != len(named) or any(part not in given for part, _ in named):
            raise ArgumentTypeError(
                f"{self.name}: argument {path} must have the structure {spec!r}, got {value!r}"
            )
        children = [self._fit(child, given[part], f"{path}{part}") for part, child in named]
        same = nest.children(value)
        if is_row and all(a is b for a, b in zip(children, same, strict=True)):
            return value if type(value) is type(spec) else type(spec)(children)
        return nest.unflatten(spec, _flat(children))

    def _fit_tensor(self, spec: TensorSpec, value: Any, path: str) -> Any:
        """A tensor or an array of the spec's dtype and shape. Python numbers take the dtype."""
        try:
            tensor = value if type(value) is Tensor else as_tensor(value, None, path)
            is_typed = hasattr(type(value), "dtype")
            if not is_typed and np.can_cast(tensor.dtype, spec.dtype, "same_kind"):
                tensor = as_tensor(value, spec.dtype, path)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(
                f"{self.name}: argument {path} must fit {spec}: {error}"
            ) from None
        if tensor.dtype != spec.dtype or not spec.admits(tensor.shape):
            raise ArgumentTypeError(
                f"{self.name}: Can not cast argument {path} of dtype {tensor.dtype} and shape "
                f"{tensor.shape} to {spec} of input_signature; convert it before the call"
            )
        return tensor


def _flat(children: list[Any]) -> list[Any]:
    return [leaf for child in children for leaf in nest.flatten(child)]


def _is_equal(value: Any, default: Any) -> bool:
    """Whether a value is what the default is, as far as Python can tell."""
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False
