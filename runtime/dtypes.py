"""The dtypes by name, as NumPy dtype objects."""

from __future__ import annotations

import numpy as np

from tapeline.runtime.spec import DType

bool: DType = np.dtype("bool")
int8: DType = np.dtype("int8")
int16: DType = np.dtype("int16")
int32: DType = np.dtype("int32")
int64: DType = np.dtype("int64")
uint8: DType = np.dtype("uint8")
uint16: DType = np.dtype("uint16")
uint32: DType = np.dtype("uint32")
uint64: DType = np.dtype("uint64")
float16: DType = np.dtype("float16")
float32: DType = np.dtype("float32")
float64: DType = np.dtype("float64")
complex64: DType = np.dtype("complex64")
complex128: DType = np.dtype("complex128")
