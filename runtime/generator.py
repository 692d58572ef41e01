"""The generator: a key and a counter in a Variable, for programs that do not pass keys around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tapeline.runtime.errors import ArgumentError
from tapeline.runtime.ops import distributions, random_bits, rejection, sampling
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.distributions import ShapeLike
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.tensor import Tensor, TensorLike, new_tensor
from tapeline.runtime.variable import Variable

_WORDS_PER_BLOCK = 4


class Generator:
    """Random numbers without keys: each draw takes a new one and moves the generator on.

    Its state is a Variable, so compiled functions move it on as well, and give the same numbers.

    Parameters
    ----------
    seed : int or sequence of int
        As for `tl.random.key`.

    Attributes
    ----------
    state : Variable of uint64, shape (6,)
        Key and counter. Assign an earlier value to draw the same numbers again.

    Examples
    --------
    >>> import tapeline as tl
    >>> generator = tl.random.Generator(7)
    >>> earlier = generator.state.numpy()
    >>> first = generator.uniform(3).numpy()
    >>> _ = generator.state.assign(earlier)
    >>> bool((generator.uniform(3).numpy() == first).all())
    True
    """

    __slots__ = ("state",)

    state: Variable

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._begin(random_bits.key(seed).numpy())

    def _begin(self, key: npt.NDArray[Any]) -> None:
        words = np.concatenate([key, np.zeros(4, np.uint64)])
        self.state = Variable(words, trainable=False, name="random state")

    def raw(self, count: int) -> Tensor:
        """The next words of the stream, those of NumPy's `Philox(seed).random_raw(count)`.

        The generator moves on by whole blocks of four words; words left over are lost.
        """
        count = as_index("Generator.raw", count)
        if count < 0:
            raise ArgumentError(f"Generator.raw: count must be at least 0, got {count}")
        state = self.state.read_value()
        words = apply(random_bits.RANDOM_BITS, state[:2], state[2:], attrs=((count,),))
        step = np.zeros(6, np.uint64)
        step[2] = -(-count // _WORDS_PER_BLOCK)
        self.state.assign(state + new_tensor(step))
        return words

    def key(self) -> Tensor:
        """A new key, for functions of `tl.random`."""
        return self.raw(2)

    def split(self, count: int = 2) -> list[Generator]:
        """New generators whose numbers are independent of each other and of this one's."""
        keys = self.raw(2 * as_index("Generator.split", count)).numpy().reshape(count, 2)
        found = []
        for key in keys:
            generator = Generator.__new__(Generator)
            generator._begin(key)
            found.append(generator)
        return found

    def __repr__(self) -> str:
        return f"tl.random.Generator(state={self.state.numpy().tolist()})"

    # Draws: the functions of `tl.random` with a key of the generator's own

    def bits(self, shape: ShapeLike = ()) -> Tensor:
        """See `tl.random.bits`."""
        return random_bits.bits(self.key(), shape)

    def uniform(
        self, shape: ShapeLike = (), low: TensorLike = 0.0, high: TensorLike = 1.0, *,
        dtype: npt.DTypeLike | None = None,
    ) -> Tensor:  # fmt: skip
        """See `tl.random.uniform`."""
        return distributions.uniform(self.key(), shape, low, high, dtype=dtype)

    def normal(
        self, shape: ShapeLike = (), mean: TensorLike = 0.0, deviation: TensorLike = 1.0, *,
        dtype: npt.DTypeLike | None = None,
    ) -> Tensor:  # fmt: skip
        """See `tl.random.normal`."""
        return distributions.normal(self.key(), shape, mean, deviation, dtype=dtype)

    def truncated_normal(
        self, shape: ShapeLike = (), mean: TensorLike = 0.0, deviation: TensorLike = 1.0,
        **options: Any,
    ) -> Tensor:  # fmt: skip
        """See `tl.random.truncated_normal`."""
        return distributions.truncated_normal(self.key(), shape, mean, deviation, **options)

    def exponential(
        self, shape: ShapeLike = (), scale: TensorLike = 1.0, *, dtype: npt.DTypeLike | None = None
    ) -> Tensor:
        """See `tl.random.exponential`."""
        return distributions.exponential(self.key(), shape, scale, dtype=dtype)

    def gamma(
        self, concentration: TensorLike, shape: ShapeLike | None = None, scale: TensorLike = 1.0
    ) -> Tensor:
        """See `tl.random.gamma`."""
        return rejection.gamma(self.key(), concentration, shape, scale)

    def beta(self, a: TensorLike, b: TensorLike, shape: ShapeLike | None = None) -> Tensor:
        """See `tl.random.beta`."""
        return rejection.beta(self.key(), a, b, shape)

    def poisson(self, rate: TensorLike, shape: ShapeLike | None = None) -> Tensor:
        """See `tl.random.poisson`."""
        return rejection.poisson(self.key(), rate, shape)

    def integers(
        self, shape: ShapeLike = (), low: int = 0, high: int | None = None, *,
        dtype: npt.DTypeLike | None = None,
    ) -> Tensor:  # fmt: skip
        """See `tl.random.integers`."""
        return sampling.integers(self.key(), shape, low, high, dtype=dtype)

    def bernoulli(self, probability: TensorLike = 0.5, shape: ShapeLike | None = None) -> Tensor:
        """See `tl.random.bernoulli`."""
        return sampling.bernoulli(self.key(), probability, shape)

    def categorical(self, logits: TensorLike, axis: int = -1, *, shape: ShapeLike = ()) -> Tensor:
        """See `tl.random.categorical`."""
        return sampling.categorical(self.key(), logits, axis, shape=shape)

    def permutation(self, x: TensorLike, axis: int = 0) -> Tensor:
        """See `tl.random.permutation`."""
        return sampling.permutation(self.key(), x, axis)

    def choice(self, x: TensorLike, shape: ShapeLike = (), **options: Any) -> Tensor:
        """See `tl.random.choice`."""
        return sampling.choice(self.key(), x, shape, **options)
