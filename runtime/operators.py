"""Short ways into ops: one closure per operator, generated from one template per arity.

A closure does what `bind` does, for the common case and in one frame: two tensors of one float
dtype, no handler in the process. Whatever else comes goes through promotion and `bind`, which stays
the only full definition of what an op call means.

The op files fill the tensor class: `attach_method("__add__", make_binary(ADD))`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from tapeline.runtime.dispatch import BUSY, STATE, bind, is_recorded
from tapeline.runtime.errors import ArgumentTypeError, DTypeError
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.open_numbers import OpenNumber
from tapeline.runtime.record import Node, join, meet, next_serial
from tapeline.runtime.spec import SUPPORTED_DTYPES, DType, canonical_dtype, is_bfloat16
from tapeline.runtime.tensor import Tensor, adopt, as_tensor, cast_tensor, wrap

Promote: TypeAlias = Callable[[Op, Any, Any], tuple[Tensor, Tensor]]

_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")
WEAK_TYPES: frozenset[type] = frozenset({bool, int, float, complex})


def attach_method(name: str, method: Any) -> None:
    """Make `method` (a function or a property) the attribute `name` of tensors."""
    setattr(Tensor, name, method)


# Promotion: NumPy 2's rules, where a Python number takes the kind of its partner if it can

_CONSTANTS: dict[Any, Tensor] = {}
_CONSTANT_LIMIT = 4096
_PROMOTED: dict[Any, DType] = {}


def constant(number: Any, dtype: DType) -> Tensor:
    """The Python number as a 0-d tensor; the same object for the same ints and floats."""
    kind = type(number)
    if kind is OpenNumber:
        opened: Tensor = number.cast(dtype)
        return opened
    if number == 0 and kind is not int:
        key: Any = (kind, str(number), dtype)  # tells -0.0 from 0.0
    elif number != number:
        return adopt(wrap(np.array(number, dtype)), number)
    else:
        key = (kind, number, dtype)
    found = _CONSTANTS.get(key)
    if found is None:
        found = wrap(np.array(number, dtype))
        if len(_CONSTANTS) >= _CONSTANT_LIMIT:
            _CONSTANTS.clear()
        if kind is not complex:
            _CONSTANTS[key] = found
    return adopt(found, number) if BUSY[0] else found


def promoted_dtype(a: DType | type, b: DType | type) -> DType:
    """The dtype NumPy gives for the two; a Python type such as `float` is weak."""
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[(a, b)] = _promote_pair(a, b)
    return found


def _fits_bfloat16(dtype: DType | type) -> bool:
    """Whether bfloat16 stays what it is beside the dtype or Python type."""
    if isinstance(dtype, type):
        return dtype is not complex
    return dtype.kind in "bV" or (dtype.kind in "iu" and dtype.itemsize == 1)


def _promote_pair(a: DType | type, b: DType | type) -> DType:
    for half, other in ((a, b), (b, a)):
        if isinstance(half, np.dtype) and is_bfloat16(half) and _fits_bfloat16(other):
            return half
    first, second = (t(0) if isinstance(t, type) else _widened(t) for t in (a, b))
    return canonical_dtype(np.result_type(first, second))


def _widened(dtype: DType) -> DType:
    """float32 for bfloat16, which NumPy does not promote."""
    return _FLOAT32 if is_bfloat16(dtype) else dtype


def keeps_bfloat16(kinds: str) -> bool:
    """Whether an op computes in bfloat16 itself: those that take numbers of every kind do, as sums
    and products. Others compute in float32, and their results are rounded."""
    return {*"iufc"} <= {*kinds}


def narrowed(result: Tensor, *given: Any) -> Tensor:
    """What an op gave in float32, as bfloat16 where an operand was of that dtype and the others do
    not make it wider."""
    if result.dtype is not _FLOAT32:
        return result
    dtypes: list[Any] = [getattr(x, "dtype", type(x)) for x in given if x is not None]
    for dtype in dtypes:
        if type(dtype) is not type and is_bfloat16(dtype):
            fits = all(_fits_bfloat16(other) for other in dtypes)
            return cast_tensor(result, dtype) if fits else result
    return result


def accepted_dtype(op: Op, dtype: DType) -> DType:
    """The dtype itself if the op takes it; for ints and bools the float dtype that NumPy takes
    (float32 for its float16); else a `DTypeError`."""
    if is_bfloat16(dtype):
        if keeps_bfloat16(op.kinds) and (isinstance(op.kernel, np.ufunc) or op.kernel is np.where):
            return dtype
        dtype = _FLOAT32
    kind = dtype.kind
    if kind in op.kinds:
        return dtype
    if kind == "b" and "i" in op.kinds and "u" in op.kinds and "f" not in op.kinds:
        return dtype if "b" in op.kinds else _reject_dtype(op, dtype)
    if kind in "biu" and "f" in op.kinds and "i" not in op.kinds:
        return _FLOAT64 if dtype.itemsize > 2 else _FLOAT32
    return _reject_dtype(op, dtype)


def _reject_dtype(op: Op, dtype: DType) -> DType:
    names = {"b": "bool", "i": "signed int", "u": "unsigned int", "f": "float", "c": "complex"}
    taken = ", ".join(names[kind] for kind in op.kinds)
    raise DTypeError(
        f"{op.name}: dtype {dtype} is not supported; it takes {taken}; "
        "convert with x.astype(...) first"
    )


def weak_type(x: Any) -> type | None:
    """The type of a Python number, which promotes weakly; None for anything else."""
    kind = type(x)
    if kind in WEAK_TYPES:
        return kind
    return x.kind if kind is OpenNumber else None


def promote(op: Op, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of the one dtype in which the op computes."""
    weak_a, weak_b = weak_type(a), weak_type(b)
    if weak_a is not None and weak_b is not None:
        weak_a = weak_b = None
    if weak_a is None:
        a = as_tensor(a, None, op.name)
    if weak_b is None:
        b = as_tensor(b, None, op.name)
    dtype = promoted_dtype(weak_a or dtype_or_weak(a), weak_b or dtype_or_weak(b))
    dtype = accepted_dtype(op, dtype)
    return (
        constant(a, dtype) if weak_a is not None else cast_tensor(a, dtype),
        constant(b, dtype) if weak_b is not None else cast_tensor(b, dtype),
    )


_PLACES = "first operand", "second operand"


def promote_named(
    op: Op, promote: Promote, a: Any, b: Any, names: tuple[str, str] = _PLACES
) -> tuple[Tensor, Tensor]:
    """What `promote` gives; where an operand is no tensor, an error that says which one."""
    try:
        return promote(op, a, b)
    except (ArgumentTypeError, DTypeError):
        for name, x in zip(names, (a, b), strict=True):
            as_tensor(x, None, f"{op.name}: {name}")
        raise


def dtype_or_weak(x: Tensor) -> Any:
    """The dtype of a tensor; the Python type where a trace holds a Python number in it."""
    value = x._value
    if BUSY[0]:
        weak = getattr(value, "weak", None)
        if weak is not None:
            return weak
    return value.dtype


def promote_one(op: Op, a: Any) -> Tensor:
    """The operand of a unary op as a tensor of a dtype that the op takes."""
    a = as_tensor(a, None, op.name)
    dtype: DType = a._value.dtype
    return a if dtype.kind in op.kinds else cast_tensor(a, accepted_dtype(op, dtype))


def is_operand(x: Any) -> bool:
    """Whether operators take `x` beside a tensor; otherwise they give NotImplemented."""
    return (
        type(x) in WEAK_TYPES
        or isinstance(x, np.ndarray | np.generic | list | tuple)
        or hasattr(type(x), "__tapeline_tensor__")
    )


# Generated closures. {first} and {second} are the operands in the op's order.

_BINARY = """
def operator(a, b):
    {guard}
    if busy[0]:
        return slow(a, b)
    x = a._value
    y = b._value
    {dtypes}
    {early}
    try:
        r = kernel({x}, {y})
    except Exception:
        return slow(a, b)
    if type(r) is not ndarray:
        r = asarray(r)
    z = Tensor()
    z._value = r
    z._node = None
    {record}
    return z
"""

_BINARY_RECORD = """
    p = a._node
    q = b._node
    if p is q is None:
        return z
    {late}
    active = state.active
    if active is None:
        return z
    if p is None:
        hit = q.tapes
    else:
        hit = p.tapes
        if q is not None and q.tapes is not hit:
            hit = join(hit, q.tapes)
    if hit is not active:
        if hit is None:
            return z
        hit = meet(hit, active)
        if hit is None:
            return z
    n = Node()
    n.serial = next_serial()
    n.op = op
    n.attrs = ()
    n.parents = ({p}, {q})
    n.saved = save({x}, {y}, r)
    n.rec = n.tapes = hit
    hit.add(ref(n, hit.drop))
    z._node = n
"""

_UNARY = """
def operator(a{attrs}):
    {guard}
    if busy[0]:
        return slow(a{attrs})
    x = a._value
    dtype = x.dtype
    {dtypes}
    {early}
    try:
        r = kernel(x{each_attr})
    except Exception:
        return slow(a{attrs})
    if type(r) is not ndarray:
        r = asarray(r)
    z = Tensor()
    z._value = r
    z._node = None
    {record}
    return z
"""

_UNARY_RECORD = """
    p = a._node
    if p is None{dtype}:
        return z
    active = state.active
    if active is None:
        return z
    hit = p.tapes
    if hit is not active:
        hit = meet(hit, active)
        if hit is None:
            return z
    n = Node()
    n.serial = next_serial()
    n.op = op
    n.attrs = {attrs}
    n.parents = (p,)
    n.saved = save(x, r)
    n.rec = n.tapes = hit
    hit.add(ref(n, hit.drop))
    z._node = n
"""

_SAME = """
    dtype = x.dtype
    if dtype is not y.dtype or ({fast}):
        return slow(a, b)
"""
_MIXED = """
    if x.dtype is not y.dtype:
        return slow(a, b)
"""

_GUARD_METHOD = """
    if type(b) is not Tensor:
        kind = type(b)
        if (kind is float or kind is int) and (a._value.dtype is f32 or a._value.dtype is f64):
            b = constant(b, a._value.dtype)
        elif is_operand(b):
            return slow(a, b)
        else:
            return NotImplemented
"""
_GUARD_FUNCTION = """
    if type(a) is not Tensor or type(b) is not Tensor:
        return slow(a, b)
"""
_GUARD_UNARY = """
    if type(a) is not Tensor:
        return slow(a{attrs})
"""


class Closure(NamedTuple):
    """A closure that was made, for whoever makes a faster one."""

    function: Callable[..., Any]
    op: Op
    n_inputs: int
    is_method: bool
    dtypes: tuple[str, ...] | None
    """Dtypes that it takes by itself; None for any of NumPy's."""
    records: bool
    """Whether tapes keep uses of the op."""


CLOSURES: list[Closure] = []
"""Those whose op can be recorded or has no gradient for sure."""


def make_binary(
    op: Op, *, method: bool = False, reflected: bool = False, promote: Promote = promote
) -> Callable[[Any, Any], Tensor]:
    """A function `(a, b) -> op(a, b)`.

    Parameters
    ----------
    op : Op
        An op of two inputs and no attributes.
    method : bool
        The function is to be a method of tensors: `a` is a tensor, and an operand that it does not
        know gives NotImplemented.
    reflected : bool
        Compute `op(b, a)` instead: for `__radd__` and the like. Implies `method`.
    promote : function (op, a, b) -> (Tensor, Tensor)
        Brings the operands, in the op's order, to the dtype in which the op computes.
    """

    def slow(a: Any, b: Any) -> Any:
        x, y = (b, a) if reflected else (a, b)
        operands = promote_named(op, promote, x, y)
        result = bind(op, operands)
        return narrowed(result, x, y) if operands[0].dtype is _FLOAT32 else result

    is_common = promote is _common_promote
    # NumPy promotes by the same rules, so only a gradient needs the casts as ops
    is_loose = is_common and isinstance(op.kernel, np.ufunc) and {*"iufc"} <= {*op.kinds}
    is_loose = is_loose or getattr(promote, "is_numpys", False)
    keeps_ints = is_common or getattr(promote, "keeps_ints", False)
    order = {"x": "y", "y": "x", "p": "q", "q": "p"} if reflected else {}
    order = {key: order.get(key, key) for key in "xypq"}
    early, record = "", ""
    if not (op.vjps or op.joint_vjp):
        early = "\n    if a._node is not None or b._node is not None:\n        return slow(a, b)"
    elif is_recorded(op):
        record = _BINARY_RECORD.format(late=_MIXED if is_loose else "", **order)
    fast = _fast_dtypes(op, keeps_ints)
    parts = {
        "guard": _GUARD_METHOD if method or reflected else _GUARD_FUNCTION,
        "dtypes": "" if is_loose else _SAME.format(fast=_is_none_of(fast)),
        "early": early,
        "record": record,
        "x": order["x"],
        "y": order["y"],
    }
    name = f"r{op.name}" if reflected else op.name
    made: Callable[..., Tensor] = _define_later(_first_binary, op, name, _BINARY, parts, slow)
    if not (early or reflected):
        dtypes = None if is_loose else tuple(fast)
        CLOSURES.append(Closure(made, op, 2, method, dtypes, bool(record)))
    return made


def make_unary(op: Op, is_promoted: bool = True) -> Callable[..., Tensor]:
    """A function `a -> op(a)`, also good as a method of tensors.

    If the op has attributes the function is `(a, attrs) -> op(a)`, with a tuple of them. Unless
    `is_promoted` it takes tensors as they are.
    """

    def slow(a: Any, attrs: Attrs = ()) -> Any:
        operand = promote_one(op, a) if is_promoted else a
        result = bind(op, (operand,), attrs)
        return result if operand is a or type(result) is tuple else narrowed(result, a)

    attrs = ", attrs" if op.attr_names else ""
    each_attr = "".join([f", attrs[{k}]" for k in range(len(op.attr_names))])
    early, record = "", ""
    if not (op.vjps or op.joint_vjp):
        early = f"\n    if a._node is not None:\n        return slow(a{attrs})"
    elif is_recorded(op):
        # only attributes, such as those of a cast, make ints of what a tape knows
        dtype = ' or r.dtype.kind not in "fcV"' if attrs else ""
        record = _UNARY_RECORD.format(attrs="attrs" if attrs else "()", dtype=dtype)
    fast = _fast_dtypes(op, True)
    parts = {
        "guard": _GUARD_UNARY.format(attrs=attrs),
        "dtypes": f"if {_is_none_of(fast)}:\n        return slow(a{attrs})",
        "early": early,
        "record": record,
        "attrs": attrs,
        "each_attr": each_attr,
    }
    first = _first_unary_attrs if attrs else _first_unary
    made: Callable[..., Tensor] = _define_later(first, op, op.name, _UNARY, parts, slow)
    if not early:
        CLOSURES.append(Closure(made, op, 1, False, tuple(fast), bool(record)))
    return made


_common_promote = promote


def _fast_dtypes(op: Op, may_be_int: bool) -> list[str]:
    """The dtypes that closures of the op take by themselves, by name."""
    found = ["float32", "float64"] if "f" in op.kinds else []
    if may_be_int:
        found += ["int64", "int32"] if "i" in op.kinds else []
        found += ["bool"] if "b" in op.kinds else []
    return found


def _is_none_of(names: list[str]) -> str:
    return " and ".join([f"dtype is not {name}_" for name in names]) or "True"


@functools.cache
def _code(source: str) -> CodeType:
    """The code of the function in a template, compiled once for all ops that share it."""
    module = compile(source, "<operator>", "exec")
    return next(part for part in module.co_consts if isinstance(part, CodeType))


_SCOPE: dict[str, Any] = {
    "busy": BUSY, "state": STATE, "Tensor": Tensor, "Node": Node, "ndarray": np.ndarray,
    "asarray": np.asarray, "join": join, "meet": meet, "next_serial": next_serial, "ref": ref,
    "f32": _FLOAT32, "f64": _FLOAT64, "constant": constant, "is_operand": is_operand,
    **{f"{dtype.name}_": dtype for dtype in SUPPORTED_DTYPES},
}  # fmt: skip
"""What templates name, but for what belongs to one op."""


def _define_later(
    first: Any, op: Op, name: str, template: str, parts: dict[str, str], slow: Callable[..., Any]
) -> Any:
    """A function with the code of `first`, which gives it that of the template at the first call:
    compiling all of them would be a good part of the import."""

    def define() -> Any:
        code = _code(template.format(**parts))
        made.__code__ = code.replace(co_name=name, co_qualname=name)  # that tracebacks show
        return made

    scope = {**_SCOPE, "op": op, "kernel": op.kernel, "save": op.save, "slow": slow}
    scope["define"] = define
    made = FunctionType(first.__code__, scope, name)
    return made


def define() -> Callable[..., Tensor]:
    """The scope of each closure has its own: gives the closure its code, and returns it."""
    raise NotImplementedError


def _first_binary(a: Any, b: Any) -> Tensor:
    return define()(a, b)


def _first_unary(a: Any) -> Tensor:
    return define()(a)


def _first_unary_attrs(a: Any, attrs: Attrs) -> Tensor:
    return define()(a, attrs)
