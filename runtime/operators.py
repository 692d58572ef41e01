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
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from tapeline.runtime.dispatch import BUSY, STATE, bind, is_recorded
from tapeline.runtime.op import Attrs, Op
from tapeline.runtime.promotion import (
    Promote,
    constant,
    is_operand,
    narrowed,
    promote,
    promote_named,
    promote_one,
)
from tapeline.runtime.record import Node, join, meet, next_serial
from tapeline.runtime.spec import SUPPORTED_DTYPES
from tapeline.runtime.tensor import Tensor

_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")


def attach_method(name: str, method: Any) -> None:
    """Make `method` (a function or a property) the attribute `name` of tensors."""
    setattr(Tensor, name, method)


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
