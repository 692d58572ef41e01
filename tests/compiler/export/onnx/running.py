"""Runs models with ONNX Runtime, which is no part of Tapeline."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tapeline as tl

_BFLOAT16 = 16
"""Its number in ONNX."""
NEEDS_ONNX = "onnx and onnxruntime are not installed; they are in the extra 'test'"


def run_model(path: str | os.PathLike[str], feeds: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a model by name."""
    runtime = pytest.importorskip("onnxruntime", reason=NEEDS_ONNX)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    known = {one.name for one in session.get_inputs()}
    known |= {one.name for one in session.get_overridable_initializers()}
    given = {k: _ort_value(np.array(stacked(v), order="C")) for k, v in feeds.items() if k in known}
    found = session.run_with_ort_values(None, given)
    return dict(zip(names, map(_array, found), strict=True))


def _ort_value(value: Any) -> Any:
    """What ONNX Runtime takes; bfloat16, which NumPy does not have, by its bits."""
    make = pytest.importorskip("onnxruntime", reason=NEEDS_ONNX).OrtValue
    if value.dtype.name != "bfloat16":
        return make.ortvalue_from_numpy(value)
    return make.ortvalue_from_numpy_with_onnx_type(value.view(np.uint16), _BFLOAT16)


def _array(value: Any) -> Any:
    if value.element_type() != _BFLOAT16:
        return value.numpy()
    shape = value.shape()
    content = ctypes.string_at(value.data_ptr(), 2 * math.prod(shape))
    return np.frombuffer(content, "bfloat16").reshape(shape)


def stacked(value: Any) -> Any:
    """A complex array as models take and give it: with a last axis of two."""
    array = np.asarray(value)
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def export_and_run(
    function: Any, arrays: Sequence[Any], path: Any, gradient: bool = False,
    cotangents: Sequence[Any] = (),
) -> dict[str, Any]:  # fmt: skip
    """What the model of a function gives for these arrays."""
    pytest.importorskip("onnx", reason=NEEDS_ONNX)
    model = tl.export.onnx(function, path, tuple(map(tl.asarray, arrays)), grad=gradient)
    feeds = dict(zip(model.inputs, [*arrays, *cotangents], strict=True))
    return run_model(path, feeds)
