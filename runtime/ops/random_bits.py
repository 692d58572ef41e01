"""Random bits from keys: the counter-based generator Philox 4x64 with ten rounds.

The bits are a pure function of a key and a counter: nothing is hidden, and they are the same
eagerly, compiled and on any number of threads. They are those of NumPy's `Philox` bit generator
with the same key and counter. Different counters of one key give independent bits, which is how
keys are split: draws count in the lowest word and leave 0 in the highest, which says who counts.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from tapeline.runtime.errors import ArgumentError, DTypeError, ShapeError
from tapeline.runtime.op import LibraryCall, Sample, Trait, define_op
from tapeline.runtime.ops.axes import Array, as_index
from tapeline.runtime.ops.creation import shape_argument
from tapeline.runtime.ops.each import batch_each
from tapeline.runtime.ops.joining import concat
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.shaping import reshape
from tapeline.runtime.spec import DType, Shape, TensorSpec, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, new_tensor

UINT64: DType = canonical_dtype(np.uint64)

_FOR_DRAWS, _FOR_SPLITS, _FOR_FOLDS = 0, 1, 2
"""The highest word of the counter."""


_COUNTER_0 = np.zeros(4, np.uint64)


class _Local(threading.local):
    """A bit generator per thread: giving it another state is far cheaper than making one."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(np.random.SeedSequence(0))


_LOCAL = _Local()


def philox(key: Array, counter: Array = _COUNTER_0) -> np.random.Philox:
    """NumPy's generator at the start of the stream that belongs to a key and a counter.

    It is this thread's only one: take what is needed before the next call.
    """
    generator = _LOCAL.philox
    generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": counter, "key": key},
        "buffer": _COUNTER_0,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return generator


def count_of(shape: Shape) -> int:
    """The number of elements of a shape."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def draw_key(rng: np.random.Generator) -> Array:
    """A key for the generated tests."""
    return rng.integers(0, 2**64, 2, np.uint64)


def _draw_counter(rng: np.random.Generator) -> Array:
    return rng.integers(0, 2**64, 4, np.uint64)


# --- random_bits -----------------------------------------------------------------------------


def _bits_kernel(key: Array, counter: Array, shape: Shape) -> Array:
    return philox(key, counter).random_raw(count_of(shape)).reshape(shape)


def _bits_infer(key: TensorSpec, counter: TensorSpec, shape: Shape) -> TensorSpec:
    check_key("random_bits", key)
    if counter.static_shape != (4,) or counter.dtype != UINT64:
        raise ShapeError(
            f"random_bits: the counter must be uint64 of shape (4,), got {counter.dtype} of shape "
            f"{counter.static_shape}"
        )
    return spec_of(shape, UINT64)


def check_key(op_name: str, key: TensorSpec) -> None:
    """An error where something else is given as a key."""
    if key.dtype != UINT64:
        raise DTypeError(
            f"{op_name}: the key has dtype {key.dtype}; expected the uint64 of tl.random.key(seed)"
        )
    if key.static_shape != (2,):
        raise ShapeError(
            f"{op_name}: the key has shape {key.static_shape}; expected (2,). Take one row of what "
            f"tl.random.split gives"
        )


RANDOM_BITS = define_op(
    "random_bits",
    batch=batch_each,
    kernel=_bits_kernel,
    emit=LibraryCall("random_bits"),
    infer=_bits_infer,
    n_inputs=2,
    attr_names=("shape",),
    vjps=(None, None),
    traits=Trait.NO_RECOMPUTE,
    kinds="u",
    samples=(
        Sample((draw_key, _draw_counter), ((3,),)),
        Sample((draw_key, _draw_counter), ((2, 5),)),
        Sample((draw_key, _draw_counter), ((),)),
        Sample((draw_key, _draw_counter), ((0,),)),
        Sample((draw_key, lambda rng: np.full(4, 2**64 - 1, np.uint64)), ((9,),)),
    ),
)


def as_key(op_name: str, key: TensorLike) -> Tensor:
    """A key as a tensor; an error where it is none."""
    tensor = as_tensor(key, argument=f"{op_name}: key")
    check_key(op_name, spec_of(tensor.shape, tensor.dtype))
    return tensor


def _counter(low: int, high: int) -> Tensor:
    return new_tensor(np.array([low, 0, 0, high], np.uint64))


def counter_for_draws() -> Tensor:
    """The counter that draws begin with."""
    return _counter(0, _FOR_DRAWS)


def bits_of(op_name: str, key: TensorLike, shape: Shape) -> Tensor:
    """The bits of a draw of this shape."""
    attrs = (shape,)
    return apply(RANDOM_BITS, as_key(op_name, key), counter_for_draws(), attrs=attrs)


# --- public ----------------------------------------------------------------------------------


def key(seed: int | Sequence[int], /) -> Tensor:
    """The key that belongs to a seed.

    Parameters
    ----------
    seed : int or sequence of int
        At least 0; any size. NumPy's `Philox(seed)` has the same key.

    Returns
    -------
    Tensor of uint64, shape (2,)

    Raises
    ------
    ArgumentError
        If the seed is negative or no int.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.key(7).numpy()
    array([16920295385781661272,   610735763742393210], dtype=uint64)
    """
    try:
        words = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    except (ValueError, TypeError):
        raise ArgumentError(
            f"key: the seed must be an int of at least 0 or several, got {seed!r}"
        ) from None
    if seed is None:
        raise ArgumentError("key: the seed must be an int of at least 0 or several, got None")
    return new_tensor(words)


def split(key: TensorLike, count: int = 2, /) -> Tensor:
    """New keys made from a key, whose draws are independent of each other and of those of the key.

    The first keys are the same for each count.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        Made by `tl.random.key`, or a row of an earlier split.
    count : int
        How many keys.

    Returns
    -------
    Tensor of uint64, shape (count, 2)

    Examples
    --------
    >>> import tapeline as tl
    >>> first, second = tl.random.split(tl.random.key(7))
    >>> first.shape
    (2,)
    """
    shape = (as_index("split", count), 2)
    attrs = (shape_argument("split", shape),)
    return apply(RANDOM_BITS, as_key("split", key), _counter(0, _FOR_SPLITS), attrs=attrs)


def fold_in(key: TensorLike, data: TensorLike, /) -> Tensor:
    """A new key made from a key and an int, such as the number of a step.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        A key.
    data : TensorLike of int, 0-d
        Different ints give independent keys. It may be a tensor that a compiled function computes.

    Returns
    -------
    Tensor of uint64, shape (2,)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.fold_in(tl.random.key(7), 3).shape
    (2,)
    """
    number = as_tensor(data, argument="fold_in: data")
    if number.ndim or number.dtype.kind not in "iu":
        raise ArgumentError(
            f"fold_in: data must be one int, got {number.dtype} of shape {number.shape}"
        )
    word = reshape(cast_tensor(number, UINT64), (1,))
    counter = concat([word, new_tensor(np.array([0, 0, _FOR_FOLDS], np.uint64))])
    return apply(RANDOM_BITS, as_key("fold_in", key), counter, attrs=((2,),))


def bits(key: TensorLike, shape: int | Sequence[int] = (), /) -> Tensor:
    """Random bits: uint64 numbers in which each bit is 0 or 1 with equal chance.

    They are what `numpy.random.Philox(key=key).random_raw` gives.

    Parameters
    ----------
    key : TensorLike of uint64, shape (2,)
        The same key gives the same numbers.
    shape : int or sequence of int
        Shape of the result.

    Returns
    -------
    Tensor of uint
        Of the given shape.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.random.bits(tl.random.key(7), 2).numpy()
    array([8648156199155761070, 7861003179181181637], dtype=uint64)
    """
    return bits_of("bits", key, shape_argument("bits", shape))
