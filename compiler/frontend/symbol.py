"""The value of a tensor while a function is traced: a node of a graph, with a shape and a dtype."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from tapeline.compiler.frontend.evaluation import evaluate
from tapeline.compiler.ir.structure_ops import SIZE
from tapeline.runtime.errors import LeakedTensorError
from tapeline.runtime.op import Trait
from tapeline.runtime.ops.gather import TAKE
from tapeline.runtime.ops.shaping import BROADCAST_TO
from tapeline.runtime.spec import DType, Shape, TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from tapeline.compiler.frontend.capture import CapturingGraph


_MOST_NODES = 1000
"""So many nodes are run at most to know a value while a function is traced."""


class _Shown(threading.local):
    """Texts with which code of this thread showed numbers of a trace, as `f"{i}"` does. They hold
    no digits, so they are not what Python would have made."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def forget(self, message: str) -> None:
        """Takes those back that serve a message only, as of an exception."""
        self.texts = [text for text in self.texts if text not in message]


SHOWN: Final = _Shown()


class _Constants:
    """Constants, and open sizes where these may be asked for, as what an evaluation begins with."""

    def __init__(self, graph: CapturingGraph, asks_sizes: bool) -> None:
        self._graph = graph
        self._asks_sizes = asks_sizes
        self._count = 0

    def is_leaf(self, node: int) -> bool:
        if self._graph.ops[node] is SIZE:
            return self._asks_sizes
        return self._graph.settled_value(node) is not None

    def admits(self, node: int) -> bool:
        self._count += 1
        graph = self._graph
        if self._count > _MOST_NODES or not graph.ops[node].is_pure:
            return False
        is_whole = not isinstance(graph.specs[node], tuple)
        return is_whole and (self.is_leaf(node) or bool(graph.inputs[node]))

    def value(self, node: int) -> Any:
        if self._graph.ops[node] is SIZE:
            return int(self._graph.attrs[node][0])  # type: ignore[call-overload]  # a size
        return self._graph.settled_value(node)

    def attrs(self, attrs: Any) -> Any:
        return attrs


class Symbol:
    """Stands for the value of one node of a graph that is being traced. It has no elements."""

    __slots__ = ("__weakref__", "dtype", "graph", "id", "shape", "weak")

    weak: type | None
    """Set where it stands for a Python number: such a tensor promotes as the number would."""

    def __init__(self, graph: CapturingGraph, node: int, spec: TensorSpec) -> None:
        self.graph = graph
        self.id = node
        self.shape: Shape = spec.static_shape
        self.dtype: DType = spec.dtype
        self.weak = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_traced(self) -> bool:
        """Whether the trace that it belongs to still runs."""
        return self.graph.is_open

    @property
    def constant(self) -> npt.NDArray[Any] | None:
        """The value, where the trace knows it."""
        return self.graph.constant_value(self.id)

    @property
    def known(self) -> npt.NDArray[Any] | None:
        """The value, where a few ops make it of constants and sizes alone. That of an open size is
        asked for, so that the trace serves no other."""
        return self._evaluated(asks_sizes=True)

    @property
    def settled(self) -> npt.NDArray[Any] | None:
        """The value, where a few ops make it of constants alone."""
        return self._evaluated(asks_sizes=False)

    @property
    def is_view(self) -> bool:
        """Whether a write to it in NumPy is a write to another value as well."""
        return self._is_view(self.id)

    def _is_view(self, node: int) -> bool:
        op, inputs = self.graph.ops[node], self.graph.inputs[node]
        if op is TAKE:  # x[i] with an index of the trace
            return not self.graph.spec(inputs[1]).static_shape
        return op.has(Trait.VIEW) and op is not BROADCAST_TO

    def is_part_of(self, whole: Any) -> bool:
        """Whether it is a view of what another tensor holds, a symbol or a captured array."""
        graph, node = self.graph, self.id
        while self._is_view(node):
            node = graph.inputs[node][0]
            if type(whole) is Symbol and whole.graph is graph and whole.id == node:
                return True
        capture = graph.capture_at(node)
        if capture is None:
            return False
        held = capture.before
        return held is whole or (
            type(held) is Symbol and (held.is_same(whole) or held.is_part_of(whole))
        )

    def is_same(self, other: Any) -> bool:
        """Whether another value is that of the same node."""
        return type(other) is Symbol and other.graph is self.graph and other.id == self.id

    def _evaluated(self, asks_sizes: bool) -> npt.NDArray[Any] | None:
        found = evaluate(self.graph, [self.id], _Constants(self.graph, asks_sizes))
        return None if found is None else np.asarray(found[0])

    def __repr__(self) -> str:
        return f"<symbol %{self.id} of {self.graph.name}>"

    def note_shown(self, text: str) -> None:
        """Takes note of a text with this value in it, if it stands for a Python number."""
        if self.weak is not None:
            SHOWN.texts.append(text)

    def describe(self) -> str:
        """What a person can be told of it: the function, the op and the line where it was made."""
        place = self.graph.locations[self.id]
        where = f" at {place.filename}:{place.line}" if place is not None else ""
        return f"{self.graph.ops[self.id].name} of {self.graph.name!r}{where}"

    def _reject(self, *_: Any, **__: Any) -> NoReturn:
        raise LeakedTensorError(
            f"a symbolic tensor made by {self.describe()} was used outside of its trace. It has no "
            "value there; return it from the traced function and use what the call returns"
        )

    # NumPy comes here when an eager kernel meets the symbol.
    __array__ = _reject
    __array_ufunc__ = _reject
    __array_function__ = _reject
