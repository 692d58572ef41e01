"""The tables are what the fitting script gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.codegen.math import fitting

from tapeline.compiler.codegen.math import coefficients


@pytest.mark.parametrize("name", ["exp", "arctan", "log2"])
def test_fits_can_be_repeated(name: str) -> None:
    single, double = fitting.fit(name)
    stored = coefficients.POLYNOMIALS[name]
    np.testing.assert_array_equal(np.array(single, np.float32), np.array(stored[0], np.float32))
    np.testing.assert_array_equal([float(c) for c in double], stored[1])


def test_logarithms_belong_to_their_reciprocals() -> None:
    tables = fitting.log_tables()
    for name, values in coefficients.LOG_TABLES.items():
        np.testing.assert_array_equal([float(v) for v in tables[name]], values)


def test_power_tables_can_be_made_anew() -> None:
    made = [[float(v) for v in row] for row in fitting.power_tables(41)]
    np.testing.assert_array_equal(made, coefficients.POWER_TABLES["f8"])
