"""The routines that codegen has, by the names that ops ask for them with. Each is loaded when first
asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapeline.compiler.codegen.halves import is_half
from tapeline.compiler.codegen.routine import Routine
from tapeline.compiler.codegen.values import is_supported
from tapeline.runtime.op import Attrs, LibraryName
from tapeline.runtime.spec import TensorSpec

if TYPE_CHECKING:
    from tapeline.compiler.codegen.gather import RowMode

_MOVES = ("take", "take_along_axis", "put")
"""Routines that move elements and do not look at them."""


def _as_words(spec: TensorSpec) -> TensorSpec:
    """Floats of 16 bits as ints."""
    return TensorSpec(spec.static_shape, np.dtype(np.uint16)) if is_half(spec.dtype) else spec


def library_routine(name: LibraryName, specs: Sequence[TensorSpec], attrs: Attrs) -> Routine | None:
    """The routine for an op with these inputs and this output, all dense; None where the NumPy
    kernel is called."""
    given: tuple[Any, ...] = attrs
    if name in _MOVES:
        specs = [_as_words(spec) for spec in specs]
    if not all(spec.dtype.kind == "c" or is_supported(spec.dtype) for spec in specs):
        return None
    match name:
        case "cumulative_sum" | "cumulative_prod":
            from tapeline.compiler.codegen.scans import scan_routine

            return scan_routine(name, specs, *given)
        case "sort" | "argsort":
            from tapeline.compiler.codegen.ordering import sort_routine

            return sort_routine(name == "argsort", specs, *given)
        case "searchsorted":
            from tapeline.compiler.codegen.ordering import search_routine

            return search_routine(specs, *given)
        case "put":
            from tapeline.compiler.codegen.writes import put_routine

            return put_routine(specs)
        case "random_bits":
            from tapeline.compiler.codegen.philox import RandomBits

            return RandomBits(specs[-1].size)
        case "convolve":
            from tapeline.compiler.codegen.convolve import convolve_routine

            return convolve_routine(specs, *given)
        case "convolve_weights":
            from tapeline.compiler.codegen.convolve_weights import weights_routine

            return weights_routine(specs, *given[:2])
        case "fold_windows":
            from tapeline.compiler.codegen.pooling import fold_routine

            return fold_routine(specs, *given)
        case "share_peaks":
            from tapeline.compiler.codegen.pooling import peaks_routine

            return peaks_routine(specs, *given)
        case "integer_power":
            from tapeline.compiler.codegen.integer_power import integer_power_routine

            return integer_power_routine(specs)
        case _:
            from tapeline.compiler.codegen.along import indexed_routine

            return indexed_routine(cast("RowMode", name), specs, given[0])
