"""What stands inside of graphs as JSON, written and read: arrays, types of nodes, attributes.

Reading trusts nothing: what does not fit is a `GraphError`.
"""

from __future__ import annotations

import base64
import builtins
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tapeline.compiler.ir.graph import NodeSpec
from tapeline.compiler.ir.text import attr_text
from tapeline.runtime import errors
from tapeline.runtime.dims import Dim, source_of
from tapeline.runtime.errors import GraphError, TapelineError
from tapeline.runtime.ops.effects import Claim, Message
from tapeline.runtime.sizes import Sizes
from tapeline.runtime.spec import Shape, TensorSpec, dtype_named, spec_of

Array: TypeAlias = npt.NDArray[Any]
Document: TypeAlias = dict[str, Any]
"""What `json.dumps` takes and `json.loads` gives."""

MAX_CONSTANT_BYTES = 1 << 32
MAX_DEPTH = 64
_NO_SIZES = Sizes(())


def array_to_document(array: Array) -> Document:
    """An array with its bytes in base64: little-endian, in C order."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "base64": data}


def array_from_document(document: Any) -> Array:
    """The array that `array_to_document` wrote."""
    dtype = dtype_named(str(document.get("dtype"))) if isinstance(document, dict) else None
    if dtype is None:
        raise GraphError("a constant must be an object with a known dtype")
    shape = _shape_from_document(document.get("shape"), _NO_SIZES)
    try:
        data = base64.b64decode(document.get("base64", ""), validate=True)
    except (TypeError, ValueError) as error:
        raise GraphError(f"a constant's bytes are not base64: {error}") from None
    if None in shape or len(data) != math.prod(cast(Shape, shape)) * dtype.itemsize:
        raise GraphError(f"a constant of {dtype.name}{list(shape)} comes with {len(data)} bytes")
    little = np.frombuffer(data, dtype.newbyteorder("<"))
    return little.astype(dtype).reshape(cast(Shape, shape))


def spec_to_document(spec: NodeSpec) -> Any:
    if isinstance(spec, tuple):
        return {"tuple": [spec_to_document(one) for one in spec]}
    return [spec.dtype.name, [_extent_to_document(extent) for extent in spec.shape]]


def _extent_to_document(extent: Any) -> Any:
    return source_of(extent) if type(extent) is Dim else extent


def _shape_from_document(value: Any, sizes: Sizes) -> tuple[int | None, ...]:
    fits = isinstance(value, list) and len(value) <= MAX_DEPTH
    read = [extent_from_document(extent, sizes) for extent in value] if fits else [-1]
    known = [extent and sizes.evaluate(extent, sizes.values) for extent in read]
    if not all(e is None or (type(e) is int and e >= 0) for e in known):
        raise GraphError(f"a shape must be a list of extents, got {value!r}")
    if math.prod(e or 1 for e in known) > MAX_CONSTANT_BYTES:
        raise GraphError(f"the shape {value} is larger than any array that is read")
    return tuple(read)


def extent_from_document(extent: Any, sizes: Sizes) -> Any:
    if not isinstance(extent, str):
        return extent
    try:
        return sizes.parse(extent)
    except ValueError as error:
        raise GraphError(str(error)) from None


def spec_from_document(value: Any, sizes: Sizes) -> NodeSpec:
    match value:
        case {"tuple": list() as specs}:
            return tuple([cast(TensorSpec, spec_from_document(one, sizes)) for one in specs])
        case [str() as name, list() as extents] if dtype := dtype_named(name):
            return spec_of(cast(Shape, _shape_from_document(extents, sizes)), dtype)
    raise GraphError(f"a spec must be a dtype and a shape, got {value!r}")


def attr_to_document(value: Any) -> Any:
    """JSON for an attribute: itself where JSON has such a value, else an object with one key."""
    if type(value) is Dim:
        return {"size": source_of(value)}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, tuple):
        return [attr_to_document(item) for item in value]
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.generic):
        return {"scalar": [value.dtype.name, attr_to_document(value.item())]}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [attr_to_document(value.real), attr_to_document(value.imag)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, Claim):
        return {"claim": [value.text, *value.names]}
    found = _exception_to_document(value)
    return {"opaque": attr_text(value)} if found is None else found


def attr_from_document(value: Any, depth: int = 0, sizes: Sizes = _NO_SIZES) -> Any:
    """The attribute that `attr_to_document` wrote; its open sizes are among `sizes`."""
    if depth > MAX_DEPTH:
        raise GraphError("an attribute is nested too deeply")
    match value:
        case list():
            return tuple([attr_from_document(item, depth + 1, sizes) for item in value])
        case {"size": str() as text}:
            return extent_from_document(text, sizes)
        case {"dtype": str() as name} if dtype := dtype_named(name):
            return dtype
        case {"scalar": [str() as name, item]} if dtype := dtype_named(name):
            return dtype.type(attr_from_document(item, depth + 1))
        case {"float": ("inf" | "-inf" | "nan") as name}:
            return float(name)
        case {"complex": [real, imag]}:
            return complex(attr_from_document(real, depth + 1), attr_from_document(imag, depth + 1))
        case {"ellipsis": True}:
            return Ellipsis
        case {"message": [str() as name, list() as items]}:
            arguments = [attr_from_document(item, depth + 1) for item in items]
            return _exception_from_document("message", name, arguments)
        case {"error": [str() as name, list() as items]}:
            arguments = [attr_from_document(item, depth + 1) for item in items]
            return _exception_from_document("error", name, arguments)
        case {"error_type": [str() as name, []]}:
            return _exception_from_document("error_type", name, ())
        case {"claim": [str() as text, *names]} if all(type(name) is str for name in names):
            return Claim(text, tuple(names))
        case {"opaque": text}:
            raise GraphError(f"the attribute {text} is an object of the process that wrote it")
        case dict():
            raise GraphError(f"an attribute cannot be {value!r}")
    return value


def _exception_to_document(value: Any) -> Document | None:
    """JSON for what raises: an exception that Python or Tapeline has, with arguments that JSON
    has."""
    if isinstance(value, Message):
        kind, key, args = value.error, "message", value.args
    elif isinstance(value, Exception):
        kind, key, args = type(value), "error", value.args
    elif isinstance(value, type) and issubclass(value, Exception):
        kind, key, args = value, "error_type", ()
    else:
        return None
    arguments = [attr_to_document(item) for item in args]
    is_plain = all(not isinstance(item, dict) or "opaque" not in item for item in arguments)
    if _exception_named(kind.__name__) is not kind or not is_plain:
        return None
    return {key: [kind.__name__, arguments]}


def _exception_from_document(key: str, name: str, arguments: Sequence[Any]) -> Any:
    kind = _exception_named(name)
    if kind is None:
        raise GraphError(f"{name!r} is no exception that Python or Tapeline has")
    if key == "error_type":
        return kind
    return Message(tuple(arguments), kind) if key == "message" else kind(*arguments)


def _exception_named(name: str) -> type[Exception] | None:
    for module, base in ((builtins, Exception), (errors, TapelineError)):
        kind = getattr(module, name, None)
        if isinstance(kind, type) and issubclass(kind, base):
            return kind
    return None


def is_opaque(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(is_opaque, value))
    written = attr_to_document(value)
    return isinstance(written, dict) and "opaque" in written
