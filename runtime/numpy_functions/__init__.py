"""NumPy's functions beyond the ops of the library, made of those: what `np.vstack` and its like do
with tensors.

They are reached through NumPy's protocol only, which loads this package when it first needs it, and
carry no documentation of their own: each does what NumPy's documentation says of its name, for the
arguments that it takes.
"""

from collections.abc import Callable
from typing import Any

from tapeline.runtime.numpy_functions import (
    arrangement,
    complex_domain,
    covariances,
    elements,
    linear,
    numbers,
    padding,
    places,
    polynomials,
    quantiles,
    reductions,
    selecting,
    signatures,
    summaries,
)
from tapeline.runtime.numpy_functions.special_functions import special_answer as special_answer
from tapeline.runtime.numpy_functions.ufunc_methods import method_answer as method_answer
from tapeline.runtime.numpy_functions.ufunc_options import with_options as with_options
from tapeline.runtime.ops import factorizations, real_fft, spectral  # noqa: F401  # register theirs

ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    **arrangement.ANSWERS,
    **places.ANSWERS,
    **padding.ANSWERS,
    **complex_domain.ANSWERS,
    **elements.ANSWERS,
    **signatures.ANSWERS,
    **summaries.ANSWERS,
    **reductions.ANSWERS,
    **quantiles.ANSWERS,
    **covariances.ANSWERS,
    **selecting.ANSWERS,
    **polynomials.ANSWERS,
    **linear.ANSWERS,
    **numbers.ANSWERS,
}
"""What answers for a NumPy function given tensors."""
