"""The constants of the array API standard."""

from __future__ import annotations

import numpy as np

e: float = float(np.e)
inf: float = float("inf")
nan: float = float("nan")
newaxis: None = None
pi: float = float(np.pi)
