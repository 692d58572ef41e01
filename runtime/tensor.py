"""The tensor: a cell that holds an immutable value, and the node that tells how it came about.

The value is an `ndarray` that nobody writes to, or a symbol of a trace; the only thing this module
asks of a symbol is `shape` and `dtype`. Arithmetic and the named methods are attached by the op
files (see `operators`); nothing here runs an op by itself.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeAlias

import numpy as np

from tapeline.runtime.device import CPU, Device
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    LeakedTensorError,
    SymbolicTensorError,
)
from tapeline.runtime.line_memory import LARGE, copy_to_lines
from tapeline.runtime.record import Node
from tapeline.runtime.reference import Reference
from tapeline.runtime.spec import DType, Shape, canonical_dtype, is_canonical

if TYPE_CHECKING:
    import numpy.typing as npt

_ndarray = np.ndarray


class SupportsTensor(Protocol):
    """What can stand for a tensor in any op, such as a Variable."""

    def __tapeline_tensor__(self) -> Tensor: ...


class Tensor:
    """An n-dimensional array of one dtype that tapes and traces can follow.

    Make one with `tl.asarray`, not with this class. Two tensors never see each other's changes:
    `x[i] = v` and `x += y` give this cell a new value.
    """

    __slots__ = ("__weakref__", "_node", "_value")

    _value: Any
    _node: Node | None

    __array_priority__: ClassVar[float] = 1000.0

    # What the value is like

    @property
    def shape(self) -> Shape:
        """Extent of each dimension."""
        return self._value.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._value.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self._value.shape:
            total *= extent
        return total

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._value.dtype.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def device(self) -> Device:
        """Always "cpu"."""
        return CPU

    def ref(self) -> Reference:
        """A key that stands for this very object in sets and dicts; `deref()` gives it back."""
        return Reference(self)

    def __tapeline_tensor__(self) -> Tensor:
        return self

    # The value itself; not there while tracing

    def _concrete(self, what: str) -> npt.NDArray[Any]:
        """The value; while tracing the one that the trace computes of constants alone."""
        value = self._value
        if type(value) is _ndarray:
            return value
        known = known_value(self)
        return _reject_symbolic(self, what) if known is None else known

    def _left(self, what: str) -> npt.NDArray[Any]:
        """The value, which leaves tapes behind in a way that may not be meant."""
        if self._node is not None:
            _CONVERSIONS["leave"](self, False)
        return self._concrete(what)

    def numpy(self) -> npt.NDArray[Any]:
        """The values as a NumPy array that cannot be written to, without a copy."""
        view = self._concrete("x.numpy()").view()
        view.flags.writeable = False
        return view

    def item(self, *index: int) -> Any:
        """One element as a Python scalar; the only one, or the one at `index`."""
        return self._concrete("x.item()").item(*index)

    def tolist(self) -> Any:
        """The values as nested lists of Python scalars."""
        return self._concrete("x.tolist()").tolist()

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        value = self._left("np.asarray(x)")
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            if copy is False:
                raise ArgumentError(
                    f"np.asarray(x, copy=False): dtype {np.dtype(dtype)} is not the tensor's "
                    f"{value.dtype}, so a copy is needed; leave copy out"
                )
            return np.array(value, dtype=dtype, copy=True)
        return self.numpy()

    def __bool__(self) -> bool:
        return bool(self._concrete("bool(x)"))

    def __int__(self) -> int:
        return int(self._left("int(x)"))

    def __float__(self) -> float:
        return float(self._left("float(x)"))

    def __complex__(self) -> complex:
        return complex(self._left("complex(x)"))

    def __index__(self) -> int:
        return operator.index(self._concrete("x as an index"))

    def __len__(self) -> int:
        shape = self._value.shape
        if not shape:
            raise ArgumentTypeError("len(x): a 0-d tensor has no length")
        return shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._value.shape:
            raise ArgumentTypeError("iteration over a 0-d tensor; use x.item()")
        return (self[index] for index in range(self._value.shape[0]))

    def __hash__(self) -> int:
        value = self._value
        if type(value) is not _ndarray and getattr(value, "weak", None) is not None:
            _reject_symbolic(self, "x as a key of a dict or an item of a set")
        return object.__hash__(self)

    def __contains__(self, item: Any) -> bool:
        values = self._concrete("item in x")
        return bool(np.any(values == (item.numpy() if type(item) is Tensor else item)))

    def __str__(self) -> str:
        text = repr(self)
        note_shown = getattr(self._value, "note_shown", None)
        if note_shown is not None:
            note_shown(text)
        return text

    def __format__(self, spec: str) -> str:
        if spec and not self._value.shape:
            return format(self.item(), spec)
        return format(str(self), spec)

    def __repr__(self) -> str:
        value = self._value
        tail = f"shape={value.shape}, dtype={value.dtype}"
        if type(value) is not _ndarray:
            return f"tl.Tensor({value!r}, {tail})"
        text = np.array2string(value, prefix="tl.Tensor(")
        return f"tl.Tensor({text}, {tail})"

    def _repr_html_(self) -> str | None:
        from tapeline.runtime.display import array_html  # for notebooks only

        return array_html("Tensor", self._value) if type(self._value) is _ndarray else None

    # Copies

    def __copy__(self) -> Tensor:
        return wrap(self._concrete("copy.copy(x)"), self._node)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return wrap(self._concrete("copy.deepcopy(x)").copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap, (self._concrete("pickle.dumps(x)"),)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__":
            function = NUMPY_FUNCTIONS.get(ufunc) or _further_answers().get(ufunc)
            function = function or _numpy_functions().special_answer(ufunc)
        else:
            function = _numpy_functions().method_answer(ufunc, method)
        if function is None:
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise ArgumentTypeError(
                f"np.{name} has no counterpart for tensors; use x.numpy() to compute outside of "
                "tapes and traces"
            )
        out = kwargs.pop("out", None)
        if method == "__call__" and kwargs:
            result = _numpy_functions().with_options(ufunc, function, inputs, out, **kwargs)
        else:
            result = function(*inputs, **kwargs)
        return result if out is None else _store(ufunc, result, out)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        function = _further_answers().get(func) or NUMPY_FUNCTIONS.get(func)
        if function is not None:
            out = kwargs.pop("out", None)
            if len(args) > 2:
                place = _place_of_out(func)
                if len(args) > place:
                    out, args, kwargs = args[place], args[:place], _named(func, args, kwargs, place)
            result = function(*args, **kwargs)
            return result if out is None else _store(func, result, (out,))
        if func in _ABOUT_SHAPES:
            return func(*[_shaped(arg) for arg in args], **kwargs)
        if func in _ABOUT_ARRAYS:
            return func(*[_plain(arg) for arg in args], **kwargs)
        raise ArgumentTypeError(
            f"np.{func.__name__} has no counterpart for tensors; use x.numpy() to compute outside "
            "of tapes and traces"
        )

    if TYPE_CHECKING:  # attached by the op files

        @property
        def T(self) -> Tensor: ...
        @property
        def mT(self) -> Tensor: ...
        @property
        def real(self) -> Tensor: ...
        @property
        def imag(self) -> Tensor: ...
        @property
        def flat(self) -> Any: ...

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
        def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __lshift__(self, other: Any) -> Tensor: ...
        def __rshift__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...

        def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType: ...
        def __dlpack__(
            self,
            /,
            *,
            stream: Any = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[Any, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...
        def __dlpack_device__(self, /) -> tuple[Any, int]: ...
        def to_device(self, device: Device, /, *, stream: Any = None) -> Tensor: ...

        nonzero: Callable[..., tuple[Tensor, ...]]
        sum: Callable[..., Tensor]
        prod: Callable[..., Tensor]
        mean: Callable[..., Tensor]
        var: Callable[..., Tensor]
        std: Callable[..., Tensor]
        max: Callable[..., Tensor]
        min: Callable[..., Tensor]
        any: Callable[..., Tensor]
        all: Callable[..., Tensor]
        argmax: Callable[..., Tensor]
        argmin: Callable[..., Tensor]
        cumsum: Callable[..., Tensor]
        cumprod: Callable[..., Tensor]
        copy: Callable[..., Tensor]
        argsort: Callable[..., Tensor]
        searchsorted: Callable[..., Tensor]
        diagonal: Callable[..., Tensor]
        reshape: Callable[..., Tensor]
        transpose: Callable[..., Tensor]
        swapaxes: Callable[..., Tensor]
        squeeze: Callable[..., Tensor]
        trace: Callable[..., Tensor]
        compress: Callable[..., Tensor]
        sort: Callable[..., None]
        fill: Callable[..., None]
        partition: Callable[..., None]
        put: Callable[..., None]
        argpartition: Callable[..., Tensor]
        choose: Callable[..., Tensor]
        conjugate: Callable[..., Tensor]
        tobytes: Callable[..., bytes]
        ravel: Callable[..., Tensor]
        flatten: Callable[..., Tensor]
        repeat: Callable[..., Tensor]
        take: Callable[..., Tensor]
        astype: Callable[..., Tensor]
        conj: Callable[..., Tensor]
        clip: Callable[..., Tensor]
        round: Callable[..., Tensor]
        dot: Callable[..., Tensor]

        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]


TensorLike: TypeAlias = "Tensor | SupportsTensor | npt.ArrayLike | Sequence[Any]"
"""Whatever `as_tensor` takes: a tensor, a Variable, an array, a scalar, nested sequences."""

NUMPY_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
_ABOUT_ARRAYS = frozenset(
    {
        np.array2string, np.array_repr, np.array_str,
        np.may_share_memory, np.shares_memory, np.min_scalar_type, np.save, np.savetxt,
    }
)  # fmt: skip

_ABOUT_SHAPES = frozenset(
    {
        np.ndim, np.shape, np.size, np.result_type, np.can_cast, np.common_type, np.einsum_path,
        np.iscomplexobj, np.isrealobj, np.diag_indices_from, np.tril_indices_from,
        np.triu_indices_from,
    }
)  # fmt: skip
"""Functions that read no element, so they know tensors while a function is traced too."""


def register_ufunc(ufunc: Any, function: Callable[..., Any]) -> None:
    """Let `function` answer for a NumPy ufunc or function (`np.sin`, `np.sum`) given tensors."""
    NUMPY_FUNCTIONS[ufunc] = function


def wrap(value: Any, node: Node | None = None) -> Tensor:
    """A tensor that holds `value` itself. The caller promises that nobody writes to the value."""
    tensor = Tensor()
    tensor._value = value
    tensor._node = node
    return tensor


def known_value(tensor: Tensor) -> npt.NDArray[Any] | None:
    """The value, in a trace that of constants alone; None if it is not known."""
    value: Any = tensor._value
    if type(value) is _ndarray:
        return value
    found: npt.NDArray[Any] | None = getattr(value, "known", None)
    return found


Adopter: TypeAlias = Callable[[Tensor, Any], Tensor]
_ADOPTERS: list[Adopter] = []


@contextmanager
def adoption(adopter: Adopter) -> Iterator[None]:
    """For a block, pass each tensor made of Python or NumPy data, with that data, through
    `adopter`.

    It is asked from all threads, and returns the tensor to use. Traces tell constants and arrays of
    outside in this way.
    """
    _ADOPTERS.append(adopter)
    try:
        yield
    finally:
        _ADOPTERS.remove(adopter)


def adopt(tensor: Tensor, source: Any = None) -> Tensor:
    """The tensor to use for a new one made of `source`."""
    for adopter in tuple(_ADOPTERS):
        tensor = adopter(tensor, source)
    return tensor


def new_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A tensor of an array that was just made; a constant where a trace is under way."""
    return adopt(wrap(array))


_CONVERSIONS: dict[str, Callable[..., Any]] = {}


def install_conversions(
    *,
    cast: Callable[[Tensor, DType], Tensor] | None = None,
    stack: Callable[[list[Any]], Tensor] | None = None,
    write: Callable[[Tensor, Tensor, str], Any] | None = None,
    leave: Callable[[Tensor, bool], None] | None = None,
) -> None:
    """Tell this module the functions of others: change the dtype, stack along a new first axis,
    give a cell the value of another, look at a recorded tensor that becomes a number or an array
    (which surely goes into another, or may)."""
    given = (("cast", cast), ("stack", stack), ("write", write), ("leave", leave))
    for name, function in given:
        if function is not None:
            _CONVERSIONS[name] = function


def cast_tensor(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor in another dtype, through the `cast` op."""
    return tensor if tensor._value.dtype is dtype else _CONVERSIONS["cast"](tensor, dtype)


def as_tensor(
    x: TensorLike, dtype: npt.DTypeLike | None = None, argument: str = "asarray"
) -> Tensor:
    """`x` as a tensor: itself if it is one, else a copy of its values.

    Parameters
    ----------
    x : Tensor, Variable, array, scalar or nested sequence
        Sequences may hold tensors; gradients flow to them.
    dtype : dtype-like, optional
        Wanted element type; by default that of `x`.
    argument : str
        What error messages call `x`: the op, or the op and the argument.

    Raises
    ------
    DTypeError
        If the values have a dtype that Tapeline does not have.
    ArgumentTypeError
        If `x` is nothing that a tensor can be made of.
    """
    wanted = None if dtype is None else canonical_dtype(dtype)
    if type(x) is not Tensor:
        hook = getattr(type(x), "__tapeline_tensor__", None)
        if hook is not None:
            x = hook(x)
        elif type(x) is list and not _ADOPTERS and wanted is None and _ARE_NUMBERS(map(type, x)):
            found = np.array(x)
            return wrap(found if is_canonical(found.dtype) else _array_of(x, None, argument))
        elif isinstance(x, list | tuple) and _holds_tensor(x):
            x = _CONVERSIONS["stack"](list(x))
        elif _ADOPTERS and wanted is not None and isinstance(x, _ndarray):
            x = adopt(wrap(_array_of(x, None, argument)), x)
        else:
            return adopt(wrap(_array_of(x, wanted, argument)), x)
    assert type(x) is Tensor
    return x if wanted is None else cast_tensor(x, wanted)


_ARE_NUMBERS = {float, int}.issuperset


def reject_masked(x: Any, argument: str) -> None:
    """Raises an error for an array with elements that its own mask says are none: a tensor would
    take them for numbers."""
    if type(x) is _ndarray or not isinstance(x, _ndarray):
        return
    mask = getattr(x, "mask", None)
    if mask is not None and np.any(mask):
        raise ArgumentTypeError(
            f"{argument}: expected an array without masked elements, got a {type(x).__name__} with "
            f"{np.count_nonzero(mask)} of them; pass x.filled(value), or x.data and x.mask as two"
        )


def _array_of(x: Any, wanted: DType | None, argument: str) -> npt.NDArray[Any]:
    if x is None or isinstance(x, str | bytes | dict | set):
        raise ArgumentTypeError(
            f"{argument}: expected a tensor, an array, a number or nested lists of numbers, "
            f"got {type(x).__name__} {x!r}"
        )
    reject_masked(x, argument)
    is_plain = type(x) is _ndarray and (wanted is None or wanted is x.dtype)
    if is_plain and x.nbytes >= LARGE and is_canonical(x.dtype):
        return copy_to_lines(x)
    try:
        found = np.array(x, dtype=wanted, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentTypeError(
            f"{argument}: no tensor can be made of {type(x).__name__} {_short(x)}: {error}"
        ) from None
    if is_canonical(found.dtype):
        return found
    if wanted is None and found.dtype.kind not in "biufc" and found.dtype.name != "bfloat16":
        raise DTypeError(
            f"{argument}: {type(x).__name__} {_short(x)} has dtype {found.dtype}; expected numbers."
            " Convert with .astype(float) where they are numbers, or leave out what is none"
        )
    dtype = canonical_dtype(found.dtype.newbyteorder("="), argument)
    return found if found.dtype is dtype else found.astype(dtype, order="C")


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def _holds_tensor(items: Any) -> bool:
    for item in items:
        kind = type(item)
        if kind is float or kind is int:
            continue
        if hasattr(kind, "__tapeline_tensor__"):
            return True
        if isinstance(item, list | tuple) and _holds_tensor(item):
            return True
    return False


@functools.cache
def _numpy_functions() -> Any:
    """What answers for NumPy's functions beyond the ops; loaded at first use."""
    return importlib.import_module("tapeline.runtime.numpy_functions")


def _further_answers() -> dict[Any, Callable[..., Any]]:
    """NumPy's functions beyond the ops, and ops under NumPy's signatures."""
    return _numpy_functions().ANSWERS  # type: ignore[no-any-return]  # found by name


@functools.cache
def _parameters(func: Callable[..., Any]) -> tuple[str, ...]:
    """What a NumPy function takes by position."""
    parameters = inspect.signature(func).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return ()
    return tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)


@functools.cache
def _place_of_out(func: Callable[..., Any]) -> int:
    """Where `out` stands among the arguments of a NumPy function; beyond all if it has none."""
    names = _parameters(func)
    return names.index("out") if "out" in names else sys.maxsize


def _named(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], place: int
) -> dict[str, Any]:
    """The options, with what was given by position after `out` among them."""
    behind = zip(_parameters(func)[place + 1 :], args[place + 1 :], strict=False)
    return {**kwargs, **dict(behind)}


def _plain(x: Any) -> Any:
    return x.numpy() if hasattr(type(x), "__tapeline_tensor__") else x


def _shaped(x: Any) -> Any:
    """An array of the tensor's shape and dtype."""
    if not hasattr(type(x), "__tapeline_tensor__"):
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _store(ufunc: Callable[..., Any], result: Any, out: tuple[Any, ...]) -> Any:
    """Serve `array += tensor` and `out=`: the result goes into the caller's own array or cell."""
    if isinstance(result, tuple):
        pairs = zip(result, out, strict=True)
        return tuple(part if one is None else _store(ufunc, part, (one,)) for part, one in pairs)
    (target,) = out
    what = f"np.{ufunc.__name__}: out="
    if type(target) is Tensor:
        _CONVERSIONS["write"](target, result, what)
        return target
    if type(result._value) is not _ndarray:
        _reject_symbolic(
            result, f"{what} of a NumPy array (start from tl.zeros, or write x = x + y)"
        )
    if result._node is not None:
        _CONVERSIONS["leave"](result, True)
    np.copyto(target, result.numpy(), casting="same_kind")
    return target


def _reject_symbolic(tensor: Tensor, what: str) -> NoReturn:
    value: Any = tensor._value
    refuse = getattr(value, "refuse", None)
    if refuse is not None:
        refuse()
    if not getattr(value, "is_traced", True):
        raise LeakedTensorError(
            f"{what}: a symbolic tensor made by {value.describe()} was used outside of its trace. "
            "It has no value there; return it from the traced function and use what the call "
            "returns"
        )
    if getattr(value, "weak", None) is not None:
        raise SymbolicTensorError(
            f"{what}: the number {value!r} changes from round to round of a loop that is part of "
            "the graph, or comes of tensors, so it is no Python number. Index a tensor with it "
            "instead of a list or dict, as in tl.asarray(table)[i]; or, where the number of "
            "rounds is known, unroll the loop: for i in tl.unroll(range(n))"
        )
    repair = (
        "Use tl.where instead of `if`"
        if what == "bool(x)"
        else "Use functions of tl or NumPy, which take tensors, or run what needs the numbers in "
        "tl.py_function"
    )
    raise SymbolicTensorError(
        f"{what}: the tensor {value!r} of shape {value.shape} and dtype {value.dtype} is symbolic: "
        f"while a function is traced its tensors have no values yet. {repair}, or compute the "
        "Python value outside of the function and pass it in"
    )
