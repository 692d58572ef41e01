"""A saved function does the same in a process that has not its source."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.codegen.layout import native_entry_allowed
from tapeline.runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckError,
    GraphError,
    LoopLimitError,
)

X = np.arange(12.0).reshape(4, 3) / 10


class Model:
    """A function with Variables, a captured array, a counter and structured results."""

    def __init__(self) -> None:
        self.w = tl.Variable(np.linspace(-1, 1, 6).reshape(3, 2), name="w")
        self.count = tl.Variable(0, name="count", trainable=False)
        self.shift = np.array([0.25, -0.5])

    def make(self) -> Any:
        w, count, shift = self.w, self.count, self.shift

        @tl.function
        def model(x: Any, scale: float = 2.0, *, steps: int = 2) -> dict[str, Any]:
            """Says what it does."""
            count.assign_add(1)
            h = tl.tanh(x @ w) * scale + shift
            for _ in range(steps):
                h = h / 2 if tl.sum(h) > 1 else h * h
            return {"h": h, "rest": [tl.sum(h), 3, "text", None, shift]}

        return model


def saved(function: Any, tmp_path: Path, *signatures: Any) -> Any:
    path = tmp_path / "function.tapeline"
    tl.export.save(function, path, signatures=signatures or None)
    return tl.load(path)


def test_loaded_function_gives_the_same_structure_and_numbers(tmp_path: Path) -> None:
    model = Model().make()
    expected = model(X)
    loaded = saved(model, tmp_path)
    for found in (loaded(X), loaded(x=X), loaded(X, 2.0, steps=2)):
        np.testing.assert_array_equal(found["h"].numpy(), expected["h"].numpy())
        assert found["rest"][1:4] == [3, "text", None]
        np.testing.assert_array_equal(found["rest"][4], expected["rest"][4])
    assert loaded.__name__ == "model"
    assert loaded.__doc__ == "Says what it does."


def test_loaded_function_runs_in_a_process_without_the_source(tmp_path: Path) -> None:
    model = Model().make()
    expected = model(X)["h"].numpy()
    path = tmp_path / "function.tapeline"
    tl.export.save(model, path)
    np.save(tmp_path / "x.npy", X)
    code = f"""
import sys
import numpy as np
import tapeline as tl
x = np.load({str(tmp_path / "x.npy")!r})
model = tl.load({str(path)!r})
for _ in range(3):
    found = model(x)["h"]
with tl.GradientTape() as tape:
    loss = tl.sum(model(x)["h"])
gradient = tape.gradient(loss, [v for v in model.variables if v.trainable][0])
np.save({str(tmp_path / "found.npy")!r}, found.numpy())
np.save({str(tmp_path / "gradient.npy")!r}, gradient.numpy())
print([v.numpy().tolist() for v in model.variables if not v.trainable])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[5]"
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), expected)
    assert np.load(tmp_path / "gradient.npy").shape == (3, 2)


def test_variables_of_a_loaded_function_are_its_own_and_trainable(tmp_path: Path) -> None:
    original = Model()
    model = original.make()
    model(X)
    loaded = saved(model, tmp_path)
    (w,) = [v for v in loaded.variables if v.name == "w"]
    assert w is not original.w
    before = float(loaded(X)["rest"][0])
    for _ in range(5):
        with tl.GradientTape() as tape:
            loss = loaded(X)["rest"][0]
        w.assign_sub(0.1 * tape.gradient(loss, w))
    assert float(loaded(X)["rest"][0]) < before
    np.testing.assert_array_equal(original.w.numpy(), np.linspace(-1, 1, 6).reshape(3, 2))


def test_gradients_are_those_of_the_original_of_first_and_second_order(tmp_path: Path) -> None:
    def energy(x: tl.Tensor) -> tl.Tensor:
        while tl.sum(x * x) < 50:
            x = x * 1.5
        return tl.sum(tl.sin(x) * x)

    compiled = tl.function(energy)
    loaded = saved(compiled, tmp_path, (tl.TensorSpec([3], "float64"),))
    x = tl.asarray([0.5, 1.0, 2.0])
    for order in (1, 2):
        f: Any = compiled
        g: Any = loaded
        for _ in range(order):
            f, g = tl.grad(lambda x, f=f: tl.sum(f(x))), tl.grad(lambda x, g=g: tl.sum(g(x)))
        np.testing.assert_allclose(g(x).numpy(), f(x).numpy(), rtol=1e-12)


def test_several_signatures_are_kept_and_others_refused(tmp_path: Path) -> None:
    doubled = tl.function(name="doubled")(lambda x, n=2: x * n)
    specs = tl.TensorSpec([2], "float32"), tl.TensorSpec([3], "float64")
    loaded = saved(doubled, tmp_path, (specs[0],), {"x": specs[1], "n": 5})
    assert loaded(np.ones(2, np.float32)).numpy().tolist() == [2.0, 2.0]
    assert loaded(np.ones(3), n=5).numpy().tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(ArgumentError, match=r"was not saved for such arguments; the file has"):
        loaded(np.ones(4))
    with pytest.raises(ArgumentTypeError, match="missing a required argument"):
        loaded()


def test_loaded_function_may_be_saved_again_and_pickled(tmp_path: Path) -> None:
    model = Model().make()
    expected = model(X)["h"].numpy()
    once = saved(model, tmp_path)
    (w,) = [v for v in once.variables if v.name == "w"]
    w.assign(w * 2)
    changed = once(X)["h"].numpy()
    twice = saved(once, tmp_path)
    thrice = pickle.loads(pickle.dumps(twice))
    np.testing.assert_array_equal(twice(X)["h"].numpy(), changed)
    np.testing.assert_array_equal(thrice(X)["h"].numpy(), changed)
    assert not np.array_equal(changed, expected)


def test_functions_that_call_functions_are_saved_whole(tmp_path: Path) -> None:
    @tl.function
    def inner(x: tl.Tensor) -> tl.Tensor:
        return tl.exp(x)

    @tl.function
    def outer(x: tl.Tensor) -> tl.Tensor:
        return inner(x) * 2 + inner(x + 1)

    x = tl.asarray([0.5, 1.0])
    expected = outer(x)
    loaded = saved(outer, tmp_path)
    np.testing.assert_array_equal(loaded(x).numpy(), expected.numpy())
    np.testing.assert_allclose(
        tl.grad(lambda x: tl.sum(loaded(x)))(x).numpy(), expected.numpy(), rtol=1e-12
    )


def test_containers_and_repeated_tensors_come_back(tmp_path: Path) -> None:
    @tl.function
    def mixed(parts: dict[str, Any], pair: tuple[Any, Any]) -> Any:
        return (parts["a"] + pair[0], [parts["b"][0] * pair[1]])

    a, b = tl.asarray([1.0, 2.0]), tl.asarray([3.0, 4.0])
    same = mixed({"a": a, "b": [b]}, (a, b))
    apart = mixed({"a": a, "b": [b]}, (b, a))
    loaded = saved(mixed, tmp_path)
    for given, expected in (((a, b), same), ((b, a), apart)):
        found = loaded({"a": a, "b": [b]}, given)
        assert type(found) is tuple
        assert type(found[1]) is list
        np.testing.assert_array_equal(found[0].numpy(), expected[0].numpy())
        np.testing.assert_array_equal(found[1][0].numpy(), expected[1][0].numpy())


def test_arguments_that_are_changed_in_place_are_changed(tmp_path: Path) -> None:
    @tl.function
    def bump(x: tl.Tensor) -> None:
        x[0] = x[0] + 10.0

    loaded = saved(bump, tmp_path, (tl.TensorSpec([2], "float64"),))
    x = tl.asarray([1.0, 2.0])
    assert loaded(x) is None
    assert x.numpy().tolist() == [11.0, 2.0]


class Pair(NamedTuple):
    """A container of this process only."""

    a: Any
    b: Any


def test_what_a_file_cannot_hold_is_named(tmp_path: Path) -> None:
    spec = tl.TensorSpec([2], "float64")

    @tl.function
    def shown(x: tl.Tensor) -> tl.Tensor:
        tl.print(x)
        return x

    with pytest.raises(GraphError, match=r"host_print at test_saving\.py:\d+ holds an object"):
        saved(shown, tmp_path, (spec,))
    pair = tl.function(lambda x: Pair(x, x))
    with pytest.raises(ArgumentTypeError, match="the result is of type Pair"):
        saved(pair, tmp_path, (spec,))
    with pytest.raises(ArgumentError, match="has no trace yet"):
        saved(tl.function(name="f")(lambda x: x), tmp_path)
    with pytest.raises(ArgumentTypeError, match=r"made by tl\.function"):
        saved(len, tmp_path)
    with pytest.raises(ArgumentTypeError, match="a signature is a tuple of arguments"):
        saved(pair, tmp_path, 3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float32", "float64", "complex64", "complex128"]
)
def test_arrays_of_every_kind_come_back(dtype: str, tmp_path: Path) -> None:
    held = tl.Variable(np.array([[1, 0, 1]], dtype))
    kept = np.asfortranarray(np.ones((2, 3), dtype))
    function = tl.function(lambda x: (x, held.read_value(), tl.asarray(kept)))
    x = np.zeros((), dtype)
    expected = function(x)
    for found, wanted in zip(saved(function, tmp_path)(x), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.skipif(not native_entry_allowed(), reason="no native entries here")
def test_loaded_function_is_called_natively(tmp_path: Path) -> None:
    function = tl.function(lambda x: x * 2 + 1)
    x = tl.asarray([1.0, 2.0])
    function(x)
    loaded = saved(function, tmp_path)
    for _ in range(5):
        assert loaded(x).numpy().tolist() == [3.0, 5.0]
    assert loaded._entry is not None


def test_checks_are_kept(tmp_path: Path) -> None:
    @tl.function
    def checked(x: tl.Tensor) -> tl.Tensor:
        assert tl.sum(x) > 0, "must be positive"
        tl.debugging.assert_all_finite(x, "wild")
        while x[0] < 9:
            tl.set_loop_options(maximum_iterations=5)
            x = x * 2
        return x

    loaded = saved(checked, tmp_path, (tl.TensorSpec([2], "float64"),))
    assert loaded(np.ones(2)).numpy().tolist() == [16.0, 16.0]
    with pytest.raises(AssertionError, match="must be positive"):
        loaded(-np.ones(2))
    with pytest.raises(CheckError, match=r"wild: x finite does not hold; at \(1,\)"):
        loaded(np.array([1.0, np.inf]))
    with pytest.raises(LoopLimitError, match="more than the 5 rounds"):
        loaded(np.full(2, 1e-3))


def test_a_whole_training_step_goes_on_from_a_file(tmp_path: Path) -> None:
    w = tl.Variable(np.ones((3, 2)), name="w")
    optimizer = tl.optimizers.Adam(0.1)

    @tl.function
    def train(x: tl.Tensor) -> tl.Tensor:
        with tl.GradientTape() as tape:
            loss = tl.sum(tl.tanh(x @ w) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    x = tl.asarray(X)
    train(x)
    loaded = saved(train, tmp_path)
    assert [float(loaded(x)) for _ in range(5)] == [float(train(x)) for _ in range(5)]
