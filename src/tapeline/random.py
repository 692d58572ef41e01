"""Random numbers, `tl.random`: draws from keys, and generators that hold one."""

from tapeline.runtime.generator import Generator as Generator
from tapeline.runtime.ops.distributions import exponential as exponential
from tapeline.runtime.ops.distributions import gumbel as gumbel
from tapeline.runtime.ops.distributions import normal as normal
from tapeline.runtime.ops.distributions import truncated_normal as truncated_normal
from tapeline.runtime.ops.distributions import uniform as uniform
from tapeline.runtime.ops.random_bits import bits as bits
from tapeline.runtime.ops.random_bits import fold_in as fold_in
from tapeline.runtime.ops.random_bits import key as key
from tapeline.runtime.ops.random_bits import split as split
from tapeline.runtime.ops.rejection import beta as beta
from tapeline.runtime.ops.rejection import gamma as gamma
from tapeline.runtime.ops.rejection import poisson as poisson
from tapeline.runtime.ops.sampling import bernoulli as bernoulli
from tapeline.runtime.ops.sampling import categorical as categorical
from tapeline.runtime.ops.sampling import choice as choice
from tapeline.runtime.ops.sampling import integers as integers
from tapeline.runtime.ops.sampling import permutation as permutation
