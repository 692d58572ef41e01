"""A concrete function for specs that fix no rank: each call goes to the trace for its shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapeline.compiler.calling import TraceCalls
from tapeline.compiler.frontend.snapshots import hold_weakly
from tapeline.runtime import nest
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.frontend.signature import Call
    from tapeline.compiler.function import Function


class AnyRankFunction(TraceCalls):
    """A function for tensors of any rank where its specs say so.

    Called like a `ConcreteFunction`. What it has besides, its `graph` for instance, is that of the
    trace that served the last call, or of one for tensors without dimensions before that.
    """

    def __init__(
        self, function: Function[..., Any], call: Call, specs: Sequence[TensorSpec],
        names: Sequence[str],
    ) -> None:  # fmt: skip
        self.name = function._name
        self.signature = function._signature.signature
        kwargs = {name: nest.map_structure(hold_weakly, x) for name, x in call.kwargs.items()}
        args = tuple(nest.map_structure(hold_weakly, value) for value in call.args)
        self.given = args, kwargs, tuple(call.tensors)
        self._inputs = tuple(specs)
        self._names = tuple(names)
        self._function = function
        self._call = call
        self._last: ConcreteFunction | None = None

    def call(self, tensors: Sequence[Any]) -> Any:
        """The results for tensors that fit the specs."""
        self._last = self._trace_for(tensors)
        return self._last.call(tensors)

    def _trace_for(self, tensors: Sequence[Any]) -> ConcreteFunction:
        given = {id(old): new for old, new in zip(self._call.tensors, tensors, strict=True)}
        call = self._function._signature.take_apart(self._call.with_tensors(given))
        return self._function.find_concrete(call)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._last is None:
            self._last = self._trace_for(self._call.tensors)
        return getattr(self._last, name)

    def __repr__(self) -> str:
        return f"<concrete function {self.name}({', '.join(self.forms.describe())})>"
