"""Costs follow from counts and from the speed of the machine."""

from __future__ import annotations

import pytest

import tapeline as tl
from tapeline.compiler.inspect.cost import Cost, count_text, time_text
from tapeline.compiler.inspect.machine import Machine, measure_machine

MACHINE = Machine(bandwidth=1e10, flops=1e11, cores=1)


def test_cost_counts_products_and_bytes() -> None:
    @tl.function
    def product(a: tl.Tensor, b: tl.Tensor) -> tl.Tensor:
        return a @ b

    specs = tl.TensorSpec([64, 32], "float32"), tl.TensorSpec([32, 16], "float32")
    cost = product.get_concrete_function(*specs).cost()
    assert cost.flops == 2 * 64 * 32 * 16
    assert cost.nbytes == 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert cost.seconds > 0


@pytest.mark.parametrize(
    ("rows", "limit"), [(4, "overhead"), (1 << 20, "memory")], ids=["small", "large"]
)
def test_cost_names_what_limits(rows: int, limit: str) -> None:
    concrete = tl.function(lambda x: x + 1).get_concrete_function(tl.TensorSpec([rows], "float32"))
    cost = Cost("f", concrete.kernels(), MACHINE)
    assert cost.limit == limit
    assert cost.seconds == pytest.approx(8 * rows / 1e10)


def test_cost_of_a_large_product_is_limited_by_arithmetic() -> None:
    spec = tl.TensorSpec([512, 512], "float32")
    concrete = tl.function(lambda a: a @ a).get_concrete_function(spec)
    cost = Cost("f", concrete.kernels(), MACHINE)
    assert cost.limit == "arithmetic"
    assert str(cost).splitlines()[0].startswith("cost of f: 268 Mflop")
    assert max(map(len, str(cost).splitlines())) <= 80


def test_machine_is_measured_once() -> None:
    machine = measure_machine()
    assert machine is measure_machine()
    assert machine.bandwidth > 1e8
    assert machine.cores >= 1


def test_times_and_counts_read_well() -> None:
    assert [time_text(t) for t in (2e-9, 1.5e-6, 0.02, 3.0)] == ["2 ns", "1.5 us", "20 ms", "3 s"]
    assert [count_text(n) for n in (12, 4500, 2e6)] == ["12 ", "4.5 k", "2 M"]
