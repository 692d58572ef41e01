"""The ONNX graph under construction: nodes, constants and names, with the dtype of each value.

`onnx` is imported here and nowhere else. Constants of all graphs of a model stand once, as
initializers of the outermost one, which bodies see.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tapeline.compiler.ir.location import Location
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.errors import DTypeError, MissingPackageError
from tapeline.runtime.spec import DType, TensorSpec

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise MissingPackageError(
        "export to ONNX needs the package onnx; install it with pip install 'tapeline[onnx]'"
    ) from error

Array: TypeAlias = npt.NDArray[Any]

OPSET = 26
"""The version of ONNX's operators that models are written for."""
IR_VERSION = 13
"""The version of the file format that belongs to it."""

_TYPES = {
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}
INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the model: its name and dtype."""

    name: str
    dtype: DType


def onnx_type(dtype: DType) -> int:
    """ONNX's number of a dtype.

    Raises
    ------
    DTypeError
        If ONNX's runtimes have no such values.
    """
    found = _TYPES.get(dtype.name)
    if found is None:
        raise DTypeError(f"ONNX models hold no {dtype.name}")
    return int(found)


def is_open(extent: Any) -> bool:
    """Whether a size is known only when the model runs."""
    return type(extent) is Dim


class _Shared:
    """What the graphs of one model share."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.counts: dict[str, int] = {}
        self.constants: dict[Any, Ref] = {}
        self.initializers: list[Any] = []
        self.notes: list[str] = []
        self.outermost: OnnxGraph | None = None
        self.symbols: dict[str, Ref] = {}
        """Vectors of one element with the open sizes of the model, by name."""
        self.sizes: dict[Any, Ref] = {}


class OnnxGraph:
    """A graph of a model, to which nodes are added in order.

    Parameters
    ----------
    outer : OnnxGraph, optional
        The graph around this one, whose values it sees.
    """

    def __init__(self, outer: OnnxGraph | None = None) -> None:
        self.shared: _Shared = _Shared() if outer is None else outer.shared
        if outer is None:
            self.shared.outermost = self
        self.nodes: list[Any] = []
        self.location: Location | None = None

    # ---- names and constants

    def name(self, wish: str) -> str:
        """A name that nobody has yet, like `wish`."""
        wish = re.sub(r"[^\w.]+", "_", wish) or "value"
        shared, name = self.shared, wish
        while name in shared.names:
            shared.counts[wish] = shared.counts.get(wish, 0) + 1
            name = f"{wish}_{shared.counts[wish]}"
        shared.names.add(name)
        return name

    def constant(self, array: npt.ArrayLike, dtype: Any = None) -> Ref:
        """A value known beforehand; equal ones are one."""
        value = np.ascontiguousarray(np.asarray(array, dtype)).reshape(np.shape(array))
        key = value.dtype, value.shape, value.tobytes()
        found = self.shared.constants.get(key)
        if found is None:
            found = self.shared.constants[key] = self.initializer("constant", value)
        return found

    def ints(self, values: Sequence[int]) -> Ref:
        """A vector of integers: a shape, axes, or bounds; open sizes are computed."""
        if not any(is_open(value) for value in values):
            return self.constant(np.array(values, np.int64))
        parts = [
            self.size(value) if is_open(value) else self.constant(np.array([value], np.int64))
            for value in values
        ]
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)

    def size(self, dim: Any) -> Ref:
        """A vector of one element: a size that is open. It is computed outside of all bodies."""
        found = self.shared.sizes.get(dim)
        if found is None:
            outermost = self.shared.outermost
            assert outermost is not None
            names = {name: _Size(outermost, ref) for name, ref in self.shared.symbols.items()}
            computed = eval(source_of(dim), {}, names)
            found = self.shared.sizes[dim] = computed.ref
        return found

    def zeros(self, shape: Sequence[int], dtype: DType) -> Ref:
        """An array of zeros."""
        if not any(is_open(extent) for extent in shape):
            return self.constant(np.zeros(tuple(shape), dtype))
        return self.add("Expand", self.constant(np.zeros((), dtype)), self.ints(shape))

    def numbers(self, count: int) -> Ref:
        """0, 1, 2, ..."""
        if not is_open(count):
            return self.constant(np.arange(count))
        end = self.reshape(self.size(count), ())
        zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
        return self.add("Range", zero, end, one)

    def initializer(self, wish: str, value: Array) -> Ref:
        """A named value that the model holds; a copy."""
        name = self.name(wish)
        onnx_type(value.dtype)
        self.shared.initializers.append(numpy_helper.from_array(np.array(value), name))
        return Ref(name, value.dtype)

    # ---- nodes

    def add(
        self, kind: str, *inputs: Ref | None, dtype: DType | None = None, wish: str = "",
        **attributes: Any,
    ) -> Ref:  # fmt: skip
        """The one value of a new node, by default of the dtype of its first input."""
        if dtype is None:
            assert inputs[0] is not None
            dtype = inputs[0].dtype
        return self.add_many(kind, inputs, [dtype], wish, **attributes)[0]

    def add_many(
        self, kind: str, inputs: Sequence[Ref | None], dtypes: Sequence[DType], wish: str = "",
        **attributes: Any,
    ) -> list[Ref]:  # fmt: skip
        """The values of a new node, one per dtype."""
        outputs = [Ref(self.name(wish or kind.lower()), dtype) for dtype in dtypes]
        node = helper.make_node(
            kind,
            ["" if one is None else one.name for one in inputs],
            [one.name for one in outputs],
            name=self.name(f"{kind}_node"),
            **{name: value for name, value in attributes.items() if value != []},
        )
        if self.location is not None:
            node.doc_string = str(self.location)
        self.nodes.append(node)
        return outputs

    def cast(self, x: Ref, dtype: DType) -> Ref:
        """ONNX's own conversion; nothing where the dtype is the same."""
        if x.dtype == dtype:
            return x
        return self.add("Cast", x, dtype=dtype, to=onnx_type(dtype))

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """The same elements in another shape."""
        return self.add("Reshape", x, self.ints(shape), allowzero=1)

    def note(self, text: str) -> None:
        """Remembers something to tell whoever exports."""
        if self.shared.notes.count(text) == 0:
            self.shared.notes.append(text)

    # ---- what it becomes

    def body(
        self, name: str, inputs: Sequence[tuple[Ref, TensorSpec]],
        outputs: Sequence[tuple[Ref, TensorSpec]],
    ) -> Any:  # fmt: skip
        """The graph as an attribute of a node of control flow."""
        return helper.make_graph(
            self.nodes, name, [_described(*one) for one in inputs],
            [_described(*one) for one in outputs],
        )  # fmt: skip

    def model(
        self, name: str, inputs: Sequence[tuple[Ref, TensorSpec]],
        outputs: Sequence[tuple[Ref, TensorSpec]], text: str,
    ) -> Any:  # fmt: skip
        """The model, checked by the rules of ONNX."""
        nodes, used = _needed(self.nodes, {ref.name for ref, _ in outputs})
        used |= {ref.name for ref, _ in inputs}
        kept = [one for one in self.shared.initializers if one.name in used]
        graph = helper.make_graph(
            nodes, name, [_described(*one) for one in inputs],
            [_described(*one) for one in outputs], kept, text,
        )  # fmt: skip
        model = helper.make_model(
            graph, producer_name="tapeline", opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )  # fmt: skip
        onnx.checker.check_model(model)
        return model


def _needed(nodes: Sequence[Any], wanted: set[str]) -> tuple[list[Any], set[str]]:
    """The nodes that what is wanted depends on, and all names that are used."""
    used = set(wanted)
    kept = []
    for node in reversed(nodes):
        if used.isdisjoint(node.output):
            continue
        kept.append(node)
        used.update(_names_read(node))
    return kept[::-1], used


def _names_read(node: Any) -> set[str]:
    """What a node reads, its bodies included."""
    found = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            found |= _names_read(inner)
        found.update(one.name for one in attribute.g.output)
    return found


class _Size:
    """A size that is computed by nodes: what the text of a size means in a model."""

    def __init__(self, graph: OnnxGraph, ref: Ref) -> None:
        self.graph, self.ref = graph, ref

    def _with(self, kind: str, other: Any, swapped: bool = False) -> _Size:
        right = other.ref if type(other) is _Size else self.graph.ints([other])
        left, right = (right, self.ref) if swapped else (self.ref, right)
        return _Size(self.graph, self.graph.add(kind, left, right))

    def __add__(self, other: Any) -> _Size:
        return self._with("Add", other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> _Size:
        return self._with("Mul", other)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> _Size:
        return self._with("Sub", other)

    def __rsub__(self, other: Any) -> _Size:
        return self._with("Sub", other, swapped=True)

    def __neg__(self) -> _Size:
        return _Size(self.graph, self.graph.add("Neg", self.ref))

    def __mod__(self, other: Any) -> _Size:
        return self._with("Mod", other)

    def __rmod__(self, other: Any) -> _Size:
        return self._with("Mod", other, swapped=True)

    def __floordiv__(self, other: Any) -> _Size:
        """Rounded down: the remainder, which has the sign of the divisor, is taken off first."""
        rest: _Size = self % other
        return (self - rest)._with("Div", other)

    def __rfloordiv__(self, other: Any) -> _Size:
        whole = _Size(self.graph, self.graph.ints([other]))
        return whole.__floordiv__(self)


def _described(ref: Ref, spec: TensorSpec) -> Any:
    shape = [str(extent) if is_open(extent) else extent for extent in spec.shape]
    return helper.make_tensor_value_info(ref.name, onnx_type(spec.dtype), shape)


def save_model(model: Any, path: str) -> None:
    """Writes the file."""
    onnx.save(model, path)
