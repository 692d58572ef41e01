"""SciPy's special functions of tensors: they are ufuncs too, and known by their names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tapeline.runtime.ops import (
    bessel,
    beta_functions,
    entropies,
    error_functions,
    gamma_functions,
    special,
)
from tapeline.runtime.ops.activations import log_sigmoid

_SOURCES = {
    bessel: ("i0", "i0e", "i1", "i1e"),
    beta_functions: ("beta", "betaln"),
    entropies: ("entr", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"),
    error_functions: ("erfc", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"),
    gamma_functions: ("digamma", "gamma", "gammaln"),
    special: ("erf",),
}
_BY_NAME: dict[str, Callable[..., Any]] = {
    **{name: getattr(module, name) for module, names in _SOURCES.items() for name in names},
    "psi": gamma_functions.digamma,
    "expit": special.sigmoid,
    "log_expit": log_sigmoid,
}


def special_answer(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """What answers for a ufunc of `scipy.special`, which whoever has one has imported."""
    name = ufunc.__name__
    scipys = getattr(sys.modules.get("scipy.special._ufuncs"), name, None)
    return _BY_NAME.get(name) if scipys is ufunc else None
