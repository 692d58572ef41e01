"""Functions as pickles and copies, and in other processes."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.saved.reader import LoadedFunction
from tapeline.runtime.errors import ArgumentError

weight = tl.Variable([2.0, 3.0], name="weight")
table = np.array([10.0, 20.0])


@tl.function
def cube(x: Any) -> Any:
    """Cubes."""
    return x * x * x


@tl.function
def advance(x: Any) -> Any:
    return weight.assign_add(x) * table


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_a_function_without_traces_goes_by_its_name() -> None:
    cube.cache_clear()
    assert through_pickle(cube) is cube


def test_a_function_with_traces_goes_as_its_graphs() -> None:
    x = tl.asarray([1.0, 2.0])
    cube(x)
    back = through_pickle(cube)
    assert isinstance(back, LoadedFunction)
    with tl.no_retrace():
        np.testing.assert_array_equal(back(x).numpy(), [1.0, 8.0])
    np.testing.assert_array_equal(back(tl.asarray([1.0, 2.0, 3.0])).numpy(), [1.0, 8.0, 27.0])
    assert back.__doc__ == "Cubes."
    assert through_pickle(back)(x).tolist() == [1.0, 8.0]
    with tl.GradientTape() as tape:
        tape.watch(x)
        y = back(x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [3.0, 12.0])


def test_captures_go_along_and_stay_shared_with_what_is_pickled_together() -> None:
    weight.assign([2.0, 3.0])
    advance(1.0)
    pair: dict[str, Any] = {"w": weight, "f": advance}
    for other in (through_pickle(pair), copy.deepcopy(pair)):
        np.testing.assert_array_equal(other["w"].numpy(), [3.0, 4.0])
        np.testing.assert_array_equal(other["f"](1.0).numpy(), [40.0, 100.0])
        np.testing.assert_array_equal(other["w"].numpy(), [4.0, 5.0])
        assert other["f"].variables == (other["w"],)
    np.testing.assert_array_equal(weight.numpy(), [3.0, 4.0])


def test_a_pickle_with_captures_refuses_what_it_was_not_traced_for() -> None:
    advance(1.0)
    with pytest.raises(ArgumentError, match="was not saved for such arguments"):
        through_pickle(advance)(tl.asarray([1.0, 2.0, 3.0]))


def test_a_copy_of_a_function_without_variables_is_a_function_of_its_own() -> None:
    cube(2.0)
    other = copy.deepcopy(cube)
    assert other is not cube
    assert other.trace_count == 0
    assert other(tl.asarray(3.0)).item() == 27.0


class Model:
    """A function of an object, made when the object is."""

    def __init__(self) -> None:
        self.v = tl.Variable(3.0)
        self.step = tl.function(self.scale)

    def scale(self, x: Any) -> Any:
        return x * self.v


@pytest.mark.parametrize("way", [through_pickle, copy.deepcopy])
def test_compiled_bound_methods_go_with_their_object(way: Any) -> None:
    model = Model()
    assert model.step(2.0).item() == 6.0
    other = way(model)
    other.v.assign(10.0)
    assert (model.step(2.0).item(), other.step(2.0).item()) == (6.0, 20.0)
    assert other.step(tl.asarray([1.0, 2.0])).tolist() == [10.0, 20.0]


def test_a_pickle_runs_where_there_is_no_source(tmp_path: Any) -> None:
    (tmp_path / "gone.py").write_text(
        "import tapeline as tl\n"
        "@tl.function\n"
        "def half(x):\n"
        "    if tl.sum(x) > 0:\n"
        "        x = x / 2\n"
        "    return x\n"
    )
    making = (
        "import pickle, numpy as np, gone; gone.half(np.ones(2));"
        "open('half.pickle', 'wb').write(pickle.dumps(gone.half))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    subprocess.run([sys.executable, "-c", making], cwd=tmp_path, check=True, env=environment)
    (tmp_path / "gone.py").unlink()
    using = (
        "import pickle, numpy as np; f = pickle.load(open('half.pickle', 'rb'));"
        "print(f(np.ones(2)).tolist())"
    )
    made = subprocess.run(
        [sys.executable, "-c", using], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert made.stdout == "[0.5, 0.5]\n", made.stderr


def test_workers_that_were_spawned_run_functions() -> None:
    cube(np.ones(3))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(cube, [np.full(3, k) for k in (1.0, 2.0)])
    np.testing.assert_array_equal([one.numpy() for one in found], [[1.0] * 3, [8.0] * 3])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
@pytest.mark.parametrize("when", ["before", "after", "after big work"])
def test_forked_processes_go_on(when: str) -> None:
    """In a process of its own, since pytest's may have threads."""
    program = f"""
import os
import numpy as np
import tapeline as tl
f = tl.function(lambda x: tl.sum(tl.exp(x) * 2 + x @ x))
x = np.zeros((3, 3))
if {when!r} != "before":
    for _ in range(3):
        f(x)
if {when!r} == "after big work":
    g = tl.function(lambda x: tl.sum(tl.exp(x)))
    g(np.zeros(1 << 22))
child = os.fork()
good = f(x).item() == 18.0
if {when!r} == "after big work":
    good = good and g(np.zeros(1 << 22)).item() == 1 << 22
f2 = tl.function(lambda x: x - 1)
good = good and f2(x).shape == (3, 3)
if not child:
    os._exit(0 if good else 1)
assert good and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr


def test_cloudpickle_takes_functions_that_are_not_in_a_module() -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="optional package")
    scale = 3.0
    fresh = tl.function(lambda x: x * scale)
    assert pickle.loads(cloudpickle.dumps(fresh))(2.0) == 6.0
    traced = tl.function(lambda x: x * scale)
    traced(2.0)
    assert pickle.loads(cloudpickle.dumps(traced))(2.0) == 6.0


def test_joblib_workers_run_functions() -> None:
    joblib = pytest.importorskip("joblib", reason="optional package")
    with joblib.parallel_config("loky", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(cube)(np.full(2, k)) for k in (1.0, 2.0))
    np.testing.assert_array_equal([one.numpy() for one in found], [[1.0] * 2, [8.0] * 2])


def test_functions_pickled_by_value_serve_other_signatures() -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="optional package")
    factor = 3.0
    local = tl.function(lambda x: x * factor)
    assert float(local(2.0)) == 6.0
    loaded = pickle.loads(cloudpickle.dumps(local))
    assert loaded(np.ones((2, 3))).numpy().tolist() == [[3.0] * 3] * 2
    assert float(loaded(2.0)) == 6.0

    @tl.function
    def recursive(x: Any, n: int) -> Any:
        return x if n == 0 else recursive(x * factor, n - 1)

    assert float(recursive(2.0, 2)) == 18.0
    assert float(pickle.loads(cloudpickle.dumps(recursive))(2.0, 2)) == 18.0


def test_wrappers_of_compiled_functions_hold_nothing_of_them() -> None:
    f = tl.function(lambda x: x * x)
    assert float(f(2.0)) == 4.0
    assert not [name for name in vars(tl.grad(f)) if not name.startswith("__")]
    cloudpickle = pytest.importorskip("cloudpickle", reason="optional package")
    gradient = pickle.loads(cloudpickle.dumps(tl.grad(f)))
    assert float(gradient(tl.asarray(3.0))) == 6.0


class Pair(NamedTuple):
    a: Any
    b: Any


def make_step() -> tuple[Any, tl.Variable, tl.Variable]:
    """A trace with a Variable among its arguments, one that it reads, and plain values."""
    total, scale = tl.Variable([0.0, 0.0]), tl.Variable([1.0, 2.0])

    @tl.function
    def step(pair: Pair, mode: str, total: tl.Variable) -> Pair:
        total.assign_add(pair.a)
        return Pair(pair.a * scale, {mode: pair.b})

    return step.get_concrete_function(Pair(tl.TensorSpec([2]), 3), "m", total), total, scale


@pytest.mark.parametrize("way", [through_pickle, copy.deepcopy])
def test_traces_go_with_their_variables(way: Any) -> None:
    concrete, total, scale = make_step()
    x = tl.asarray([3.0, 4.0])
    back, its_total, its_scale = way((concrete, total, scale))
    with tl.GradientTape() as tape:
        tape.watch(x)
        found = back(x)
    assert isinstance(found, Pair)
    assert (found.a.tolist(), found.b) == ([3.0, 8.0], {"m": 3})
    assert tape.gradient(found.a, x).tolist() == [1.0, 2.0]
    assert (its_total.tolist(), total.tolist()) == ([3.0, 4.0], [0.0, 0.0])
    its_scale.assign([5.0, 5.0])
    assert back(x).a.tolist() == [15.0, 20.0]
    assert "b=3" in str(back)
    assert copy.copy(concrete)(x).a.tolist() == concrete(x).a.tolist() == [3.0, 8.0]
    assert total.tolist() == [6.0, 8.0]


class Scaled:
    def __init__(self) -> None:
        self.w = tl.Variable(2.0)
        self.lock = threading.Lock()  # which no pickle holds

    @tl.function
    def __call__(self, x: Any, k: float = 1.0) -> Any:
        return x * self.w * k


def test_traces_of_methods_open_sizes_and_numbers_go() -> None:
    scaled = Scaled()
    for n, k in ((2, 1.5), (3, 2.5), (4, 3.5)):
        scaled(tl.ones(n), k)
    back = [through_pickle(one) for one in Scaled.__call__.concrete_functions]
    assert back[0](tl.ones(2)).tolist() == [3.0, 3.0]
    for one in back:
        assert "Scaled" in str(one)
    open_numbers = [one for one in back if "any float" in str(one)]
    assert open_numbers
    assert open_numbers[0].inputs[0].shape == (None,)
    called = tl.function(lambda x: tl.py_function(abs, [x], tl.TensorSpec([])))
    with pytest.raises(ValueError, match="object of this process"):
        through_pickle(called.get_concrete_function(tl.TensorSpec([])))


def test_cloudpickle_takes_what_calls_a_trace() -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="optional package")
    concrete = make_step()[0]

    def client(x: Any) -> Any:
        return concrete(x).a + 1

    back = pickle.loads(cloudpickle.dumps(client))
    assert back(tl.asarray([3.0, 4.0])).tolist() == [4.0, 9.0]


def test_dask_workers_run_functions() -> None:
    distributed = pytest.importorskip("distributed", reason="optional package")
    dask_array = pytest.importorskip("dask.array", reason="optional package")
    rows = dask_array.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 3))
    scaled = tl.function(lambda block: block * 2 + 1)
    quick = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**quick) as cluster, distributed.Client(cluster) as client:
        found = client.gather(client.map(cube, [np.full(2, k) for k in (1.0, 2.0)]))
        assert [x.numpy().tolist() for x in found] == [[1.0, 1.0], [8.0, 8.0]]
        assert float(client.submit(tl.grad(cube), tl.asarray(2.0)).result()) == 12.0
        traced = cube.get_concrete_function(tl.TensorSpec([]))
        assert float(client.submit(traced, tl.asarray(2.0)).result()) == 8.0
        blocks = rows.map_blocks(lambda block: scaled(block).numpy()).compute()
    np.testing.assert_array_equal(blocks, np.arange(12.0).reshape(4, 3) * 2 + 1)
