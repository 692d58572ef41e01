"""The variable: a named place for a value that a program updates, such as a weight.

Every assignment stores a new array, so nothing that was read before changes. For tapes a variable
is one source, whatever values it has held: all reads hang on one leaf node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.indexed_slices import IndexedSlices, scatter
from tapeline.runtime.record import EMPTY, Node, meet, new_leaf
from tapeline.runtime.reference import Reference
from tapeline.runtime.scopes import init_scope
from tapeline.runtime.spec import DType, Shape
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

_SCATTERS: dict[Any, np.ufunc] = {operator.add: np.add, operator.sub: np.subtract}
_next_serial: Callable[[], int] = count(1).__next__


class Variable:
    """A value that can be assigned to, and used wherever a tensor is expected.

    Parameters
    ----------
    initial : TensorLike, or a function without parameters that returns one
        The first value; copied. Shape and dtype stay as they are. In a function that is traced, a
        Variable is to be made once and kept: the trace runs twice then, to see that it is.
    trainable : bool
        Whether tapes watch the variable by themselves when it is read.
    name : str, optional
        Shown in messages and graphs.
    dtype : dtype-like, optional
        Element type, by default that of `initial`.

    Examples
    --------
    >>> import tapeline as tl
    >>> v = tl.Variable([1.0, 2.0], name="v")
    >>> v.assign_add([0.5, 0.5])
    tl.Variable([1.5 2.5], shape=(2,), dtype=float64, name='v')
    """

    __slots__ = ("__weakref__", "_name", "_node", "_serial", "_trainable", "_value")

    _value: npt.NDArray[Any]
    _node: Node
    """The leaf that all reads under a tape hang on."""
    _serial: int
    """Variables in order of creation."""

    __array_priority__ = 1000.0
    __hash__ = object.__hash__

    def __init__(
        self,
        initial: TensorLike | Callable[[], TensorLike],
        trainable: bool = True,
        name: str | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        if callable(initial):
            with init_scope():
                initial = initial()
        tensor = as_tensor(initial, dtype, "Variable")
        handler = STATE.handler
        if handler is None:
            value = tensor._concrete("Variable(initial)")
            is_ours = not hasattr(type(initial), "__tapeline_tensor__")
            self._value = value if is_ours else np.array(value, order="C")
        else:
            self._value = handler.create_variable(tensor)
        self._trainable = trainable
        self._name = name
        self._serial = _next_serial()
        self._node = new_leaf(EMPTY)

    # What it is

    @property
    def name(self) -> str | None:
        """The name given at creation."""
        return self._name

    @property
    def trainable(self) -> bool:
        """Whether tapes watch it by themselves."""
        return self._trainable

    @property
    def shape(self) -> Shape:
        """Extent of each dimension."""
        return self._value.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._value.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._value.size

    @property
    def is_differentiable(self) -> bool:
        """Whether its dtype has gradients."""
        return self._value.dtype.kind in "fcV"

    def ref(self) -> Reference:
        """A key that stands for this very object in sets and dicts; `deref()` gives it back."""
        return Reference(self)

    @property
    def handle(self) -> Reference:
        """As `ref`, under TensorFlow's name."""
        return Reference(self)

    # Reading

    def read_value(self) -> Tensor:
        """The present value as a tensor that later assignments do not change."""
        handler = STATE.handler
        value = self._value if handler is None else handler.read_variable(self)
        active = STATE.active
        if active is None:
            return wrap(value)
        node = self._node
        if self._trainable:
            self._tell_tapes()
        tapes = node.tapes
        is_known = tapes is active or meet(tapes, active) is not None
        return wrap(value, node if is_known else None)

    def value(self) -> Tensor:
        """As `read_value`, under TensorFlow's name."""
        return self.read_value()

    def _tell_tapes(self) -> None:
        """Let the open tapes watch it that do so by themselves."""
        ids = self._node.tapes.ids
        for tape in STATE.open:
            if tape.watch_accessed_variables and tape._own.ids[0] not in ids:
                tape.watch_variable(self)

    __tapeline_tensor__ = read_value

    def numpy(self) -> npt.NDArray[Any]:
        """The present values as a NumPy array that cannot be written to, without a copy."""
        if STATE.handler is None:
            return wrap(self._value).numpy()
        return self.read_value().numpy()

    def __repr__(self) -> str:
        name = "" if self._name is None else f", name={self._name!r}"
        text = np.array2string(self._value, prefix="tl.Variable(")
        return f"tl.Variable({text}, shape={self.shape}, dtype={self.dtype}{name})"

    def _repr_html_(self) -> str:
        from tapeline.runtime.display import array_html  # for notebooks only

        return array_html(f"Variable {self._name or ''}".rstrip(), self._value)

    # Writing

    def assign(self, value: TensorLike) -> Variable:
        """Give it a new value; returns itself.

        Parameters
        ----------
        value : TensorLike, of the variable's shape
            Tensors and arrays must have the variable's dtype; Python numbers and lists take it.

        Raises
        ------
        ShapeError, DTypeError
            If shape or dtype is another.
        """
        tensor = self._operand(value, "assign")
        if tensor.shape != self.shape:
            raise ShapeError(
                f"assign: the value has shape {tensor.shape}, {self._label()} has shape "
                f"{self.shape}; they must be equal"
            )
        if STATE.handler is not None:
            STATE.handler.assign_variable(self, tensor)
            return self
        new = tensor._concrete("variable.assign(x)")
        is_ours = not hasattr(type(value), "__tapeline_tensor__")
        self._value = new if is_ours else np.array(new, order="C")
        return self

    def assign_add(self, delta: TensorLike) -> Variable:
        """Add to the value; returns itself. Shape and dtype as for `assign`, but `delta` may
        broadcast."""
        return self._update(operator.add, delta, "assign_add")

    def assign_sub(self, delta: TensorLike) -> Variable:
        """Subtract from the value; returns itself. Shape and dtype as for `assign`, but `delta`
        may broadcast."""
        return self._update(operator.sub, delta, "assign_sub")

    def _update(
        self, function: Callable[[Any, Any], Any], delta: TensorLike, what: str
    ) -> Variable:
        handler = STATE.handler
        if type(delta) is IndexedSlices and handler is None:
            return self._scatter(_SCATTERS[function], delta, what)
        tensor = self._operand(delta, what)
        if self._trainable and STATE.active is not None:
            self._tell_tapes()
        value = self._value if handler is None else wrap(handler.read_variable(self))
        try:
            new = function(value, tensor._value if handler is None else tensor)
        except ValueError:
            new = None  # the shapes do not broadcast at all
        if new is None or new.shape != self.shape:
            raise ShapeError(
                f"{what}: a value of shape {tensor.shape} does not broadcast to {self._label()} of "
                f"shape {self.shape}"
            )
        if handler is not None:
            handler.assign_variable(self, new)
        else:
            self._value = np.asarray(new)
        return self

    def _scatter(self, ufunc: np.ufunc, slices: IndexedSlices, what: str) -> Variable:
        """Update the rows that the slices name."""
        if slices.dense_shape != self.shape or slices.dtype is not self.dtype:
            raise ShapeError(
                f"{what}: rows of a {slices.dtype} array of shape {slices.dense_shape} for "
                f"{self._label()} of dtype {self.dtype} and shape {self.shape}"
            )
        if self._trainable and STATE.active is not None:
            self._tell_tapes()
        self._value = scatter(self._value, slices, ufunc)
        return self

    def _operand(self, value: TensorLike, what: str) -> Tensor:
        """`value` as a tensor of the variable's dtype."""
        tensor = as_tensor(value, None, what)
        dtype = self.dtype
        if tensor.dtype is dtype:
            return tensor
        is_typed = hasattr(type(value), "dtype")
        if is_typed or not np.can_cast(tensor.dtype, dtype, "same_kind"):
            raise DTypeError(
                f"{what}: the value has dtype {tensor.dtype}, {self._label()} has dtype {dtype}; "
                f"convert the value with astype({dtype}) first"
            )
        return as_tensor(value, dtype, what)

    def _label(self) -> str:
        return "the variable" if self._name is None else f"variable {self._name!r}"

    # Standing for its value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Tensor, name):
            raise AttributeError(f"'Variable' object has no attribute {name!r}")
        return getattr(self.read_value(), name)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return self.read_value().__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.read_value().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        return self.read_value().__array_function__(func, types, args, kwargs)

    def __bool__(self) -> bool:
        return bool(self.read_value())

    def __int__(self) -> int:
        return int(self.read_value())

    def __float__(self) -> float:
        return float(self.read_value())

    def __complex__(self) -> complex:
        return complex(self.read_value())

    def __index__(self) -> int:
        return operator.index(self.read_value())

    def __len__(self) -> int:
        return len(self.read_value())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read_value())

    def __contains__(self, item: Any) -> bool:
        return item in self.read_value()

    def __format__(self, spec: str) -> str:
        return format(self.read_value() if spec else str(self), spec)

    def __getitem__(self, key: Any) -> Tensor:
        return self.read_value()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        tensor = self.read_value()
        tensor[key] = value
        self.assign(tensor)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variable, (self.numpy(), self._trainable, self._name)

    __iadd__ = assign_add
    __isub__ = assign_sub

    if TYPE_CHECKING:  # attached below

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __imul__(self, other: Any) -> Variable: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __itruediv__(self, other: Any) -> Variable: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __ifloordiv__(self, other: Any) -> Variable: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __imod__(self, other: Any) -> Variable: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __ipow__(self, other: Any) -> Variable: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __imatmul__(self, other: Any) -> Variable: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __iand__(self, other: Any) -> Variable: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __ior__(self, other: Any) -> Variable: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __ixor__(self, other: Any) -> Variable: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rlshift__(self, other: Any) -> Tensor: ...
        def __ilshift__(self, other: Any) -> Variable: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __rrshift__(self, other: Any) -> Tensor: ...
        def __irshift__(self, other: Any) -> Variable: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]


def _attach(name: str, function: Callable[..., Any]) -> None:
    """Give variables the operator `name`, its reflection and its in-place form."""

    def forward(self: Variable, other: Any) -> Any:
        return function(self.read_value(), other)

    def reflected(self: Variable, other: Any) -> Any:
        return function(other, self.read_value())

    def inplace(self: Variable, other: Any) -> Variable:
        return self.assign(function(self.read_value(), other))

    setattr(Variable, f"__{name}__", forward)
    setattr(Variable, f"__r{name}__", reflected)
    if not hasattr(Variable, f"__i{name}__"):
        setattr(Variable, f"__i{name}__", inplace)


def _attach_simple(name: str, function: Callable[..., Any]) -> None:
    """Give variables the comparison or unary operator `name`."""

    def method(self: Variable, *others: Any) -> Any:
        return function(self.read_value(), *others)

    setattr(Variable, f"__{name}__", method)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
    "matmul": operator.matmul, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip
_SIMPLE: dict[str, Callable[..., Any]] = {
    "neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "invert": operator.invert,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
    "ne": operator.ne,
}  # fmt: skip
for _name in _BINARY:
    _attach(_name, _BINARY[_name])
for _name in _SIMPLE:
    _attach_simple(_name, _SIMPLE[_name])
