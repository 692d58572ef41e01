"""Runs models with ONNX Runtime, which is no part of Tapeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tapeline as tl

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
    given = {k: np.array(stacked(v), order="C") for k, v in feeds.items() if k in known}
    return dict(zip(names, session.run(None, given), strict=True))


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
    model = tl.export.onnx(function, path, tuple(map(tl.asarray, arrays)), gradient=gradient)
    feeds = dict(zip(model.inputs, [*arrays, *cotangents], strict=True))
    return run_model(path, feeds)
