"""Variables: values, assignment, and one gradient over all reads."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tapeline.runtime.dispatch import push_handler
from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.gradient_tape import GradientTape
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.variable import Variable


def test_variable_tells_what_it_is() -> None:
    v = Variable([1, 2], name="v", dtype="float32", trainable=False)
    assert (v.shape, v.dtype, v.ndim, v.size) == ((2,), np.dtype("float32"), 1, 2)
    assert (v.name, v.trainable, len(v)) == ("v", False, 2)
    assert repr(v) == "tl.Variable([1. 2.], shape=(2,), dtype=float32, name='v')"


def test_variable_copies_its_initial_value() -> None:
    array, tensor = np.ones(2), as_tensor([1.0, 1.0])
    a, b, c = Variable(array), Variable(tensor), Variable(Variable(tensor))
    array[0] = 5.0
    assert a.numpy().tolist() == [1.0, 1.0]
    assert not np.shares_memory(b._value, tensor._value)
    assert c.numpy().tolist() == [1.0, 1.0]


def test_reads_do_not_change_with_later_assignments() -> None:
    v = Variable([1.0, 2.0])
    before, view = v.read_value(), v.numpy()
    v.assign([3.0, 4.0])
    assert before.tolist() == view.tolist() == [1.0, 2.0]
    assert v.numpy().tolist() == [3.0, 4.0]


def test_assign_copies_and_returns_the_variable() -> None:
    v, array, tensor = Variable([1.0, 2.0]), np.ones(2), as_tensor([7.0, 8.0])
    assert v.assign(array) is v
    array[0] = 9.0
    assert v.numpy().tolist() == [1.0, 1.0]
    v.assign(tensor)
    assert not np.shares_memory(v._value, tensor._value)


def test_assign_add_and_sub_broadcast() -> None:
    v = Variable([[1.0, 2.0], [3.0, 4.0]])
    assert v.assign_add([1.0, 1.0]) is v
    v.assign_sub(2.0)
    assert v.numpy().tolist() == [[0.0, 1.0], [2.0, 3.0]]
    same = v
    v += 1.0
    v -= as_tensor(0.5)
    assert v is same
    assert v.numpy().tolist() == [[0.5, 1.5], [2.5, 3.5]]
    v *= 2.0
    assert v is same
    assert v.numpy().tolist() == [[1.0, 3.0], [5.0, 7.0]]


def test_assign_checks_shape_and_dtype() -> None:
    v = Variable(np.zeros(2, np.float32), name="w")
    with pytest.raises(ShapeError, match=r"assign: the value has shape \(3,\), variable 'w'"):
        v.assign([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"assign: the value has shape \(\)"):
        v.assign(1.0)
    with pytest.raises(DTypeError, match="dtype float64, variable 'w' has dtype float32"):
        v.assign(np.zeros(2))
    with pytest.raises(DTypeError, match="dtype float64"):
        v.assign_add(as_tensor([1.0, 2.0]))
    with pytest.raises(ShapeError, match="does not broadcast"):
        v.assign_add([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(DTypeError, match="int64"):
        Variable([1, 2]).assign([1.5, 2.5])
    v.assign([1, 2])
    assert v.numpy().tolist() == [1.0, 2.0]


def test_item_assignment() -> None:
    v = Variable([1.0, 2.0])
    if not hasattr(Tensor, "__setitem__"):
        pytest.skip("indexing is not there")
    v[0] = 5.0
    assert v.numpy().tolist() == [5.0, 2.0]
    assert v[1].item() == 2.0


def test_variable_stands_for_a_tensor(tiny: Any) -> None:
    v, x = Variable([1.0, 2.0]), as_tensor([3.0, 4.0])
    assert (v + x).tolist() == [4.0, 6.0]
    assert (x - v).tolist() == [2.0, 2.0]
    assert (2.0 * v).tolist() == [2.0, 4.0]
    assert (v * v).tolist() == [1.0, 4.0]
    assert tiny.sin(v).tolist() == np.sin([1.0, 2.0]).tolist()
    assert (-v).tolist() == [-1.0, -2.0]
    assert (v < 1.5).tolist() == [True, False]
    assert np.asarray(v).tolist() == [1.0, 2.0]
    assert v.tolist() == [1.0, 2.0]
    assert (float(Variable(2.0)), int(Variable(2)), bool(Variable(0.0))) == (2.0, 2, False)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        v.frobnicate  # noqa: B018


def test_hash_copy_and_pickle() -> None:
    v = Variable([1.0, 2.0], trainable=False, name="v")
    assert {v: 1}[v] == 1
    for other in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        assert (other.name, other.trainable, other.numpy().tolist()) == ("v", False, [1.0, 2.0])
        assert not np.shares_memory(other._value, v._value)


def test_reading_a_trainable_variable_watches_it(tiny: Any) -> None:
    v = Variable([1.0, 2.0])
    with GradientTape() as tape:
        y = v * v
    assert tape.watched_variables() == (v,)
    assert tape.gradient(y, v).tolist() == [2.0, 4.0]


def test_watched_variables_come_in_order_of_creation(tiny: Any) -> None:
    a, b, c = Variable(1.0), Variable(2.0), Variable(3.0)
    with GradientTape() as tape:
        y = c * a * b * c
    assert [v is w for v, w in zip(tape.watched_variables(), (a, b, c), strict=True)] == [True] * 3
    assert [g.item() for g in tape.gradient(y, [a, b, c])] == [18.0, 9.0, 12.0]


def test_tape_that_does_not_watch_accessed_variables(tiny: Any) -> None:
    v, w = Variable(2.0), Variable(3.0)
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(w)
        y = v * w
    assert tape.watched_variables() == (w,)
    gv, gw = tape.gradient(y, [v, w])
    assert gv is None
    assert gw.item() == 2.0


def test_untrainable_variables_are_watched_on_demand(tiny: Any) -> None:
    v = Variable(2.0, trainable=False)
    with GradientTape(persistent=True) as tape:
        x = v * v
        tape.watch(v)
        y = v * v
    assert tape.gradient(x, v) is None
    assert tape.gradient(y, v).item() == 4.0


def test_gradient_sums_over_reads_before_and_after_assignment(tiny: Any) -> None:
    v = Variable(3.0)
    with GradientTape() as tape:
        y = v * v
        v.assign(5.0)
        y = y + v * v * v
    assert tape.gradient(y, v).item() == 6.0 + 75.0


def test_integer_variables_are_not_watched(tiny: Any) -> None:
    v, x = Variable(3), Variable(2.0)
    with GradientTape() as tape:
        y = v * x
    assert tape.watched_variables() == (x,)
    with pytest.warns(UserWarning, match="a source is of dtype int64"):
        assert tape.gradient(y, v) is None


def test_nested_tapes_watch_a_variable_each(tiny: Any) -> None:
    v = Variable(3.0)
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = v * v * v
        first = inner.gradient(y, v)
    assert first.item() == 27.0
    assert outer.gradient(first, v).item() == 18.0


def test_variable_as_target(tiny: Any) -> None:
    v = Variable([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(v)
    assert tape.gradient(v, v).tolist() == [1.0, 1.0]


class Recorder:
    """A handler that keeps the values of variables itself."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}

    def run_op(self, op: Any, inputs: Any, attrs: Any) -> Any:
        return np.asarray(op.kernel(*[x._value for x in inputs], *attrs))

    def value_of(self, tensor: Tensor) -> Any:
        return tensor._value

    def enter_gradient(self, node: Any) -> None:
        pass

    def read_variable(self, variable: Any) -> Any:
        return self.values.get(id(variable), variable._value)

    def assign_variable(self, variable: Any, value: Tensor) -> None:
        self.values[id(variable)] = value._value


def test_handlers_serve_reads_and_assignments(tiny: Any) -> None:
    v = Variable([1.0, 2.0])
    handler: Any = Recorder()
    with push_handler(handler), GradientTape() as tape:
        v.assign([3.0, 4.0])
        v.assign_add(1.0)
        y = v * v
        assert v.numpy().tolist() == [4.0, 5.0]
        g = tape.gradient(y, v)
        with pytest.raises(ShapeError):
            v.assign([1.0])
        with pytest.raises(ShapeError):
            v.assign_add([[1.0, 1.0]])
    assert g.tolist() == [8.0, 10.0]
    assert v.numpy().tolist() == [1.0, 2.0]
