"""What an op is: one record that holds every rule of it, and the registry of all records.

An op's rules stand in one block of one file in `runtime/ops/`. The compiler, the tape and the
generated
tests read them from the record and know no op by name. Nothing here runs an op.

Conventions of all rules: inputs first, then the attributes, both by position.

- `kernel(*arrays, *attrs)` returns an array (a tuple of arrays where `n_outputs` is given).
- `infer(*specs, *attrs)` returns a `TensorSpec` (a tuple of them), and raises on bad shapes and
  dtypes.
- `vjps[i](ct, attrs, *saved)` returns the cotangent of input i, or None.
- `joint_vjp(cts, attrs, needed, *saved)` returns a tuple with one cotangent or None per input.
- `emit` is how the op is lowered: see `Lowering`.
"""

from __future__ import annotations

import enum
import functools
import importlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from tapeline.runtime.spec import DType, TensorSpec

Attrs: TypeAlias = tuple[Hashable, ...]
Kernel: TypeAlias = Callable[..., Any]
Infer: TypeAlias = Callable[..., TensorSpec | tuple[TensorSpec, ...]]
Vjp: TypeAlias = Callable[..., Any]

OUT = -1
"""Marks in `Op.saves` that the (first) output is kept; output k is `OUT - k`."""


class ShapeOf:
    """Marks in `Op.saves` that only the shape of input `index` is kept."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"ShapeOf({self.index})"


class DTypeOf:
    """Marks in `Op.saves` that only the dtype of input `index` is kept."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"DTypeOf({self.index})"


class Residual:
    """Marks in `Op.saves` an array that whoever records a use of the op adds by itself; it has no
    history."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "RESIDUAL"


RESIDUAL = Residual()
Saved: TypeAlias = int | ShapeOf | DTypeOf | Residual


class Trait(enum.Flag):
    """What passes may ask about an op. No pass tests an op's name."""

    NONE = 0
    ELEMENTWISE = enum.auto()
    """The output at an index depends on the inputs at that index, after broadcasting."""
    COMMUTATIVE = enum.auto()
    """Two inputs that may be swapped with the same bits as result."""
    IDEMPOTENT = enum.auto()
    """f(f(x)) == f(x), bit for bit."""
    INVOLUTION = enum.auto()
    """f(f(x)) == x, bit for bit."""
    VIEW = enum.auto()
    """The NumPy kernel returns a view of its one array input and reads no element."""
    EFFECT = enum.auto()
    """Running it is seen from outside; never dropped, shared, folded or moved across another
    effect."""
    RANDOM = enum.auto()
    """Two runs differ; never shared or folded."""
    NO_RECOMPUTE = enum.auto()
    """Too dear to run again in a backward pass: matrix products, convolutions, host calls."""
    ROWS = enum.auto()
    """Its gradient rules take `IndexedSlices` for a cotangent; for others the whole stands in."""
    CALL = enum.auto()
    """Its one sub-graph, applied to its inputs, is all that it means."""
    SIZED = enum.auto()
    """The size of its result depends on values; its last attribute is that size, or None."""
    CHECK = enum.auto()
    """Where its first input, a single bool, is true, it gives true and does nothing."""


V = TypeVar("V")
Predicate: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]


class ScalarEmitter(Protocol[V]):
    """What a pointwise `emit` speaks to: operations on values of one element (or of many, side by
    side).

    Both operands of a binary operation have the same dtype; nothing is converted silently. Integers
    wrap around,
    floats follow IEEE 754 without relaxed rules, bool is its own dtype.
    """

    def dtype_of(self, x: V, /) -> DType: ...
    def constant(self, value: complex | bool, dtype: DType, /) -> V: ...
    def const(self, value: float | bool, like: V, /) -> V:
        """A constant of the dtype of `like`."""
        ...

    def cast(self, x: V, dtype: DType, /) -> V:
        """As NumPy's `astype`; float to int saturates instead of being undefined, NaN gives 0."""
        ...

    def bitcast(self, x: V, dtype: DType, /) -> V: ...
    def add(self, a: V, b: V, /) -> V: ...
    def sub(self, a: V, b: V, /) -> V: ...
    def mul(self, a: V, b: V, /) -> V: ...
    def div(self, a: V, b: V, /) -> V:
        """Float division."""
        ...

    def floor_divide(self, a: V, b: V, /) -> V:
        """NumPy's `//` for ints (0 where b is 0) and floats."""
        ...

    def remainder(self, a: V, b: V, /) -> V:
        """NumPy's `%` for ints (0 where b is 0) and floats."""
        ...

    def fma(self, a: V, b: V, c: V, /) -> V: ...
    def neg(self, x: V, /) -> V: ...
    def abs(self, x: V, /) -> V: ...
    def sqrt(self, x: V, /) -> V: ...
    def floor(self, x: V, /) -> V: ...
    def ceil(self, x: V, /) -> V: ...
    def trunc(self, x: V, /) -> V: ...
    def rint(self, x: V, /) -> V:
        """Round half to even."""
        ...

    def copysign(self, x: V, sign: V, /) -> V: ...
    def maximum(self, a: V, b: V, /) -> V:
        """NaN where either is NaN; for bool, `or`."""
        ...

    def minimum(self, a: V, b: V, /) -> V:
        """NaN where either is NaN; for bool, `and`."""
        ...

    def compare(self, predicate: Predicate, a: V, b: V, /) -> V:
        """A bool; with a NaN only `ne` holds."""
        ...

    def select(self, condition: V, a: V, b: V, /) -> V: ...
    def bit_and(self, a: V, b: V, /) -> V: ...
    def bit_or(self, a: V, b: V, /) -> V: ...
    def bit_xor(self, a: V, b: V, /) -> V: ...
    def bit_not(self, x: V, /) -> V: ...
    def shift_left(self, a: V, b: V, /) -> V:
        """0 where b is negative or not below the bit width, as NumPy."""
        ...

    def shift_right(self, a: V, b: V, /) -> V:
        """Arithmetic for signed ints; all sign bits where b is not below the bit width, as
        NumPy."""
        ...

    # Of complex numbers, and of nothing else:

    def real(self, x: V, /) -> V: ...
    def imag(self, x: V, /) -> V: ...
    def conj(self, x: V, /) -> V: ...
    def sign(self, x: V, /) -> V:
        """Its direction; 0 at 0."""
        ...

    def reciprocal(self, x: V, /) -> V: ...
    def each(self, function: Callable[..., V], x: V, /) -> V:
        """`function(b, part)` of both parts."""
        ...

    def call(self, name: str, /, *args: V) -> V:
        """A function of the math library by NumPy's name (`exp`, `log1p`, `tanh`, `arctan2`,
        `power`, `erf`, ...)."""
        ...


class Pointwise(NamedTuple):
    """A scalar body: `emit(b, *values, *attrs)`; broadcasting and layout are codegen's business."""

    emit: Callable[..., Any]


ReductionKind: TypeAlias = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]


class Reduction(NamedTuple):
    """Reduces the axes in attribute 0 (a sorted tuple of ints >= 0); attribute 1 is `keepdims`."""

    kind: ReductionKind


class IndexMap:
    """The output is a view of the input; codegen learns offset and strides from the NumPy kernel
    (`Trait.VIEW`)."""

    __slots__ = ()


class Part(NamedTuple):
    """One region of an assembled output: `source` is an input's position or a Python scalar to fill
    with."""

    region: tuple[slice, ...]
    source: int
    fill: float | bool | None = None


class Assembly(NamedTuple):
    """The output is put together from whole inputs: `parts(specs, attrs)` covers every element
    once."""

    parts: Callable[[Sequence[TensorSpec], Attrs], tuple[Part, ...]]


LibraryName: TypeAlias = Literal[
    "matmul",
    "take",
    "take_grad",
    "take_along_axis",
    "take_along_axis_grad",
    "check_indices",
    "wrap_indices",
    "put",
    "cumulative_sum",
    "cumulative_prod",
    "sort",
    "argsort",
    "searchsorted",
    "random_bits",
    "integer_power",
    "convolve",
    "convolve_weights",
    "fold_windows",
    "share_peaks",
]


class LibraryCall(NamedTuple):
    """A routine that codegen has.

    `matmul` (both operands at least 1-d, NumPy's rules); `take` and `take_along_axis` (along
    attribute 0) and their transposes; `check_indices` (a copy; all must be at least 0 and below
    attribute 0) and `wrap_indices` (counted from the front of as many, as int64). The others are
    named as the ops that they carry out; where sizes or dtypes do not suit, the op's kernel runs.
    """

    name: LibraryName


class Expansion(NamedTuple):
    """The op in terms of simpler ops: `expand(*tensors, *attrs)` returns a tensor (a tuple of
    them)."""

    expand: Callable[..., Any]


class Branch:
    """One of the op's two sub-graphs runs: the first where input 0 is true. They take the other
    inputs."""

    __slots__ = ()


class Loop(NamedTuple):
    """The op's sub-graphs run again and again; the compiler makes such ops and knows their form."""

    extends: Any = None
    """An op that gives the first of this op's results from the same inputs, or None."""


Lowering: TypeAlias = (
    Pointwise | Reduction | IndexMap | Assembly | LibraryCall | Expansion | Branch | Loop
)


class Sample(NamedTuple):
    """Inputs the generated tests use: one shape (or a function rng -> array) per input, then the
    attributes."""

    inputs: tuple[Any, ...]
    attrs: Attrs = ()


def _save_nothing(*_: Any) -> tuple[Any, ...]:
    return ()


class Op:
    """All rules of one op, which nobody changes. Made by `define_op`; the module's docstring gives
    the calling conventions."""

    __slots__ = (
        "__weakref__",
        "accepts_none",
        "attr_names",
        "batch",
        "domain",
        "identity",
        "infer",
        "is_pure",
        "joint_vjp",
        "kernel",
        "kinds",
        "lowering",
        "masks",
        "n_inputs",
        "n_outputs",
        "name",
        "samples",
        "save",
        "saves",
        "specialize",
        "subgraphs",
        "traits",
        "ulp",
        "vjps",
    )  # fmt: skip

    name: str
    kernel: Kernel
    infer: Infer
    n_inputs: int | None
    """None: any number."""
    attr_names: tuple[str, ...]
    n_outputs: int | None
    """None: one output, returned bare. Else the kernel returns a tuple of that many arrays."""
    saves: tuple[Saved, ...]
    vjps: tuple[Vjp | None, ...]
    joint_vjp: Vjp | None
    accepts_none: bool
    """`joint_vjp` takes None for an output without a cotangent; otherwise zeros are made for it."""
    masks: bool
    """`joint_vjp` may make exact zeros or infinities and does not say so, see `STATE.masked`."""
    lowering: Lowering | None
    traits: Trait
    identity: float | None
    """The neutral element of a reduction or of a commutative op."""
    kinds: str
    """Input dtype kinds that the op takes, of "b" bool, "i" signed, "u" unsigned, "f" float, "c"
    complex."""
    domain: tuple[float, float] | None
    """Where the generated tests draw numbers."""
    samples: tuple[Sample, ...]
    ulp: tuple[float, float]
    """Stated accuracy of the compiled op against the exact result, float32 and float64, in units in
    the last place; of the largest number among inputs and outputs where the op adds numbers up. 0:
    the same bits as the kernel."""
    batch: Callable[..., Any] | None
    save: Callable[..., tuple[Any, ...]]
    """`save(*arrays, *outputs)` -> what `saves` lists. Generated from `saves`."""
    subgraphs: tuple[Any, ...]
    """The graphs that the op owns: what it calls, its branches, its loop bodies."""
    specialize: Callable[[Any], Op] | None
    """The op for given sizes, of an op made in a trace with open sizes that its rules depend on."""
    is_pure: bool
    """Whether two runs on the same inputs give the same, and nobody else notices them."""

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        infer: Infer,
        n_inputs: int | None,
        attr_names: tuple[str, ...] = (),
        n_outputs: int | None = None,
        saves: tuple[Saved, ...] = (),
        vjps: tuple[Vjp | None, ...] = (),
        joint_vjp: Vjp | None = None,
        accepts_none: bool = False,
        lowering: Lowering | None = None,
        traits: Trait = Trait.NONE,
        identity: float | None = None,
        kinds: str = "f",
        domain: tuple[float, float] | None = None,
        samples: tuple[Sample, ...] = (),
        ulp: tuple[float, float] = (0.0, 0.0),
        batch: Callable[..., Any] | None = None,
        save: Callable[..., tuple[Any, ...]] = _save_nothing,
        subgraphs: tuple[Any, ...] = (),
        masks: bool = True,
        specialize: Callable[[Any], Op] | None = None,
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.infer = infer
        self.n_inputs = n_inputs
        self.attr_names = attr_names
        self.n_outputs = n_outputs
        self.saves = saves
        self.vjps = vjps
        self.joint_vjp = joint_vjp
        self.accepts_none = accepts_none
        self.lowering = lowering
        self.traits = traits
        self.identity = identity
        self.kinds = kinds
        self.domain = domain
        self.samples = samples
        self.ulp = ulp
        self.batch = batch
        self.save = save
        self.subgraphs = subgraphs
        self.masks = masks
        self.specialize = specialize
        self.is_pure = not traits & (Trait.EFFECT | Trait.RANDOM)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.name in _MAKERS:
            return make_op, (self.name, self.subgraphs)
        return get_op, (self.name,)

    def has(self, trait: Trait) -> bool:
        """Whether the op has the trait."""
        return trait in self.traits


_REGISTRY: dict[str, Op] = {}
_MAKERS: dict[str, Callable[[tuple[Any, ...]], Op]] = {}


@functools.cache
def _evaluate(source: str) -> Callable[..., tuple[Any, ...]]:
    """The function that is written in `source`, one for all ops that keep the same."""
    return eval(source)  # type: ignore[no-any-return]


def build_save(
    n_inputs: int | None, n_outputs: int | None, saves: Sequence[Saved]
) -> Callable[..., tuple[Any, ...]]:
    """The function `(*inputs, *outputs) -> saved values` that `saves` describes, as straight-line
    code."""
    known = [item for item in saves if not isinstance(item, Residual)]
    if not known:
        return lambda *_: ()
    total = n_outputs or 1
    if n_inputs is None:
        count = total

        def save(*values: Any) -> tuple[Any, ...]:
            split = len(values) - count
            inputs, outputs = values[:split], values[split:]
            kept: list[Any] = []
            for item in known:
                if isinstance(item, ShapeOf):
                    kept.append(inputs[item.index].shape)
                elif isinstance(item, DTypeOf):
                    kept.append(inputs[item.index].dtype)
                else:
                    kept.append(inputs[item] if item >= 0 else outputs[OUT - item])
            return tuple(kept)

        return save
    names = [f"x{i}" for i in range(n_inputs)] + [f"y{k}" for k in range(total)]
    parts = []
    for item in known:
        if isinstance(item, ShapeOf):
            parts.append(f"x{item.index}.shape")
        elif isinstance(item, DTypeOf):
            parts.append(f"x{item.index}.dtype")
        else:
            parts.append(f"x{item}" if item >= 0 else f"y{OUT - item}")
    source = f"lambda {', '.join(names)}: ({', '.join(parts)},)"
    return _evaluate(source)


def define_op(
    name: str,
    *,
    kernel: Kernel,
    infer: Infer,
    n_inputs: int | None = 1,
    attr_names: tuple[str, ...] = (),
    n_outputs: int | None = None,
    saves: tuple[Saved, ...] = (),
    vjps: tuple[Vjp | None, ...] = (),
    joint_vjp: Vjp | None = None,
    accepts_none: bool = False,
    emit: Lowering | Callable[..., Any] | None = None,
    traits: Trait = Trait.NONE,
    identity: float | None = None,
    kinds: str = "f",
    domain: tuple[float, float] | None = None,
    samples: tuple[Sample, ...] = (),
    ulp: tuple[float, float] = (0.0, 0.0),
    batch: Callable[..., Any] | None = None,
    subgraphs: tuple[Any, ...] = (),
    masks: bool = True,
    specialize: Callable[[Any], Op] | None = None,
    register: bool = True,
) -> Op:
    """A new op with these rules, entered in the registry. A function as `emit` is a pointwise
    scalar body.

    Raises
    ------
    ValueError
        If the name is taken, or the number of gradient rules is not the number of inputs.
    """
    if register and name in _REGISTRY:
        raise ValueError(f"define_op: an op named {name!r} exists already")
    if vjps and n_inputs is not None and len(vjps) != n_inputs:
        raise ValueError(f"define_op: {name} has {n_inputs} inputs but {len(vjps)} gradient rules")
    lowering: Lowering | None = Pointwise(emit) if callable(emit) else emit
    op = Op(
        name, kernel, infer, n_inputs, attr_names, n_outputs, saves, vjps, joint_vjp, accepts_none,
        lowering, traits, identity, kinds, domain, samples, ulp, batch,
        build_save(n_inputs, n_outputs, saves), subgraphs, masks, specialize,
    )  # fmt: skip
    if register:
        _REGISTRY[name] = op
    return op


def get_op(name: str) -> Op:
    """The registered op of that name, after a look into all op files; a `KeyError` if there is
    none."""
    found = _REGISTRY.get(name)
    if found is None:
        load_all_ops()
        found = _REGISTRY[name]
    return found


@functools.cache
def load_all_ops() -> None:
    """Loads every op file, also those of namespaces that nobody has used yet.

    By name, since op files import this module: the registry is there before what it holds.
    """
    import pkgutil  # loads much that few programs need

    package = importlib.import_module("tapeline.runtime.ops")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def registered_ops() -> Iterator[Op]:
    """Every op there is, in order of definition."""
    load_all_ops()
    return iter(tuple(_REGISTRY.values()))


def install_maker(name: str, maker: Callable[[tuple[Any, ...]], Op]) -> None:
    """Tells how ops of that name, of which each has sub-graphs of its own, are made of those."""
    _MAKERS[name] = maker


def make_op(name: str, subgraphs: tuple[Any, ...]) -> Op:
    """An op of a kind that is made for one use; a `KeyError` if there is no such kind."""
    return _MAKERS[name](subgraphs)
