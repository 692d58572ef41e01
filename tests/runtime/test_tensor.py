"""The tensor cell: what it tells, how it converts, and NumPy's protocols."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tapeline.runtime.errors import ArgumentTypeError, DTypeError, SymbolicTensorError
from tapeline.runtime.tensor import NUMPY_FUNCTIONS, Tensor, as_tensor, register_ufunc, wrap


class Symbol:
    """A value that is not there, as in a trace."""

    shape = (2, 3)
    dtype = np.dtype("float32")

    def __repr__(self) -> str:
        return "%3"


def test_tensor_tells_shape_and_dtype() -> None:
    x = as_tensor(np.zeros((2, 3), np.float32))
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.dtype("float32"), 2, 6)
    assert (x.itemsize, x.nbytes, x.device, len(x)) == (4, 24, "cpu", 2)


def test_tensor_class_takes_no_arguments() -> None:
    with pytest.raises(TypeError):
        Tensor(5)  # type: ignore[call-arg]


def test_repr_shows_values_shape_and_dtype() -> None:
    assert repr(as_tensor([1.0, 2.0, 3.0])) == "tl.Tensor([1. 2. 3.], shape=(3,), dtype=float64)"
    assert repr(as_tensor(True)) == "tl.Tensor(True, shape=(), dtype=bool)"
    assert f"{as_tensor(1.25):.1f}" == "1.2"


def test_numpy_is_a_read_only_view() -> None:
    x = as_tensor([1.0, 2.0])
    view = x.numpy()
    assert np.shares_memory(view, x._value)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0


def test_asarray_follows_copy_and_dtype() -> None:
    x = as_tensor([1.0, 2.0])
    assert not np.asarray(x).flags.writeable
    copied = np.array(x, copy=True)
    copied[0] = 7.0
    assert x.tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype="float32").dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype="float32", copy=False)


def test_scalars_convert() -> None:
    assert float(as_tensor(2.5)) == 2.5
    assert int(as_tensor(7)) == 7
    assert complex(as_tensor(1j)) == 1j
    assert bool(as_tensor(0.0)) is False
    assert [10, 20, 30][as_tensor(1)] == 20
    assert as_tensor([[1, 2]]).item(0, 1) == 2
    assert 2.0 in as_tensor([1.0, 2.0])


def test_truth_of_several_elements_is_an_error() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        bool(as_tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="0-d"):
        len(as_tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(as_tensor(1.0))


def test_hash_is_by_identity() -> None:
    a, b = as_tensor(1.0), as_tensor(1.0)
    assert len({a: 1, b: 2}) == 2
    assert hash(a) == hash(a)


def test_copies_and_pickles_keep_the_value() -> None:
    x = as_tensor([1.0, 2.0])
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other is not x
        assert other.tolist() == [1.0, 2.0]
    assert not np.shares_memory(copy.deepcopy(x)._value, x._value)


@pytest.mark.parametrize(
    "use",
    [bool, float, int, complex, np.asarray, Tensor.numpy, Tensor.tolist, copy.copy, pickle.dumps],
)
def test_symbolic_values_cannot_be_read(use: Any) -> None:
    x = wrap(Symbol())
    repair = "tl.where" if use is bool else "tl.py_function"
    with pytest.raises(SymbolicTensorError, match=rf"%3 of shape \(2, 3\).*{repair}"):
        use(x)
    assert repr(x) == "tl.Tensor(%3, shape=(2, 3), dtype=float32)"
    assert (x.shape, x.ndim, x.size) == ((2, 3), 2, 6)


def test_as_tensor_copies_arrays_and_passes_tensors() -> None:
    array = np.ones(3)
    x = as_tensor(array)
    array[0] = 5.0
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert as_tensor(x) is x


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (1, "int64"), (1.0, "float64"), (1j, "complex128"), ([1, 2.5], "float64")],
)
def test_as_tensor_takes_numpy_defaults(value: Any, dtype: str) -> None:
    assert as_tensor(value).dtype == np.dtype(dtype)


@pytest.mark.parametrize("value", [None, "text", {"a": 1}, [[1], [1, 2]], object()])
def test_as_tensor_names_what_it_cannot_take(value: Any) -> None:
    with pytest.raises((ArgumentTypeError, DTypeError), match="sin"):
        as_tensor(value, None, "sin")


def test_as_tensor_rejects_unsupported_dtypes() -> None:
    with pytest.raises(DTypeError, match=r"longdouble|float128"):
        as_tensor(np.zeros(2, np.longdouble))
    with pytest.raises(DTypeError, match="expected numbers"):
        as_tensor([2**70])


def test_big_endian_arrays_become_native() -> None:
    x = as_tensor(np.array([1.0, 2.0], ">f8"))
    assert x.dtype.isnative
    assert x.tolist() == [1.0, 2.0]


def test_numpy_functions_reach_registered_counterparts() -> None:
    calls = []

    def answer(*args: Any, **kwargs: Any) -> Any:
        calls.append((len(args), kwargs))
        return wrap(np.zeros(2))

    x = as_tensor([1.0, 2.0])
    before = dict(NUMPY_FUNCTIONS)
    try:
        register_ufunc(np.heaviside, answer)
        register_ufunc(np.is_busday, answer)
        assert isinstance(np.heaviside(np.ones(2), x), Tensor)
        assert isinstance(np.is_busday(x), Tensor)
        target = np.ones(2)
        assert np.heaviside(x, x, out=target) is target
        assert target.tolist() == [0.0, 0.0]
        cell = as_tensor([1.0, 2.0])
        assert np.heaviside(x, x, out=cell) is cell  # type: ignore[call-overload]
        assert cell.tolist() == [0.0, 0.0]
    finally:
        NUMPY_FUNCTIONS.clear()
        NUMPY_FUNCTIONS.update(before)
    assert calls == [(2, {}), (1, {}), (2, {}), (2, {})]


def test_numpy_functions_without_counterpart_are_named() -> None:
    x = as_tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"np\.divide\.reduceat has no counterpart"):
        np.divide.reduceat(x, [0])
    with pytest.raises(TypeError, match=r"np\.isnat has no counterpart"):
        np.isnat(x)


def test_numpy_questions_about_arrays_work() -> None:
    x = as_tensor([1.0, 2.0])
    assert np.shape(x) == (2,)
    assert np.array_equal(x, [1.0, 2.0])
    assert np.allclose(x, x)
