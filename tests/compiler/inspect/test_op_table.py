"""The page on ops is what the registry says, and families that run natively stay native."""

from __future__ import annotations

from pathlib import Path

from tapeline.compiler.inspect.op_table import HOST_CALL, compiled_form, op_file, op_table
from tapeline.runtime.op import registered_ops

ROOT = Path(__file__).parents[3]

NUMPY_FAMILIES = {
    "fft", "real_fft", "solving", "factorizations", "singular", "spectral", "matrix_exp",
    "matrices", "effects", "distributions", "rejection", "each", "integers",
    "lu",
}  # fmt: skip
"""Files whose work NumPy does in compiled functions: transforms, LAPACK, messages, draws by
rejection or by an inverse that must be the same eagerly and compiled, work example by example,
divisors and exponents."""

SIZES_DEPEND_ON_VALUES = {"nonzero", "unique", "repeat_places", "span", "size_of"}


def test_page_on_ops_is_up_to_date() -> None:
    assert (ROOT / "docs" / "ops.md").read_text() == op_table()


def test_every_op_is_found_in_a_file() -> None:
    own = [op for op in registered_ops() if op.infer.__module__.startswith("tapeline.runtime.ops")]
    assert [op.name for op in own if not op_file(op)] == []


def test_ops_of_arrays_and_networks_are_compiled_natively() -> None:
    called = [op for op in registered_ops() if op_file(op) and compiled_form(op) == HOST_CALL]
    others = {op.name for op in called if op_file(op) not in NUMPY_FAMILIES}
    assert others == SIZES_DEPEND_ON_VALUES
