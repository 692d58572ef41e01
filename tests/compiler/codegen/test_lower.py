"""Programs of graphs: what gets memory, what is read in place, what is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapeline as tl
from tapeline.compiler.codegen.lower import lower_graph
from tapeline.compiler.codegen.program import HostStep, MatmulStep, NestStep, Program
from tapeline.compiler.codegen.target import host_target
from tapeline.compiler.codegen.views import Layout
from tapeline.compiler.ir.parse import parse_graph


def program_of(text: str, layouts: Any = None) -> Program:
    return lower_graph(parse_graph(text), host_target(), layouts)


def test_a_chain_reads_inputs_and_writes_the_output_directly() -> None:
    program = program_of("""\
graph g:
  %0 = placeholder(name='x') : float32[3]
  %1 = constant(2.0) : float32[]
  %2 = multiply(%0, %1) : float32[3]
  %3 = exp(%2) : float32[3]
  return %3""")
    assert (
        str(program)
        == """\
program g
  @0 input0 12 bytes
  @1 output0 12 bytes
  multiply+exp: @0, @1"""
    )
    (step,) = program.steps
    assert isinstance(step, NestStep)
    assert (
        str(step.nest)
        == """\
nest [3] reduce []
  %0 = in float32 strides [4]
  out float32 strides [4]
  %1 = constant['<f4', '2.0']() : float32
  %2 = multiply(%0, %1) : float32
  %3 = exp(%2) : float32
  store %3"""
    )


def test_views_of_inputs_are_read_in_place() -> None:
    program = program_of("""\
graph g:
  %0 = placeholder(name='x') : float32[3, 4]
  %1 = permute_dims(%0, axes=(1, 0)) : float32[4, 3]
  %2 = flip(%1, axes=(0,)) : float32[4, 3]
  %3 = exp(%2) : float32[4, 3]
  return %3""")
    (step,) = program.steps
    assert isinstance(step, NestStep)
    assert step.nest.operands[0].strides == (-4, 16)
    assert step.nest.operands[0].offset == 12


def test_the_layout_of_an_input_is_part_of_the_program() -> None:
    text = """\
graph g:
  %0 = placeholder(name='x') : float64[3, 4]
  %1 = exp(%0) : float64[3, 4]
  return %1"""
    (step,) = program_of(text, [Layout(0, (8, 24))]).steps
    assert isinstance(step, NestStep)
    assert step.nest.operands[0].strides == (8, 24)


def test_outputs_that_are_inputs_views_or_twice_the_same_are_copies() -> None:
    program = program_of("""\
graph g:
  %0 = placeholder(name='x') : float32[3, 4]
  %1 = exp(%0) : float32[3, 4]
  %2 = permute_dims(%1, axes=(1, 0)) : float32[4, 3]
  %3 = reshape(%1, shape=(12,)) : float32[12]
  return %0, %3, %1, %2""")
    assert [step.label for step in program.steps] == ["exp", "copy", "copy", "copy"]
    assert [b.kind for b in program.buffers] == ["input", *["output"] * 4]


def test_products_of_floats_call_the_library_and_others_numpy() -> None:
    text = """\
graph g:
  %0 = placeholder(name='x') : {dtype}[3, 4]
  %1 = permute_dims(%0, axes=(1, 0)) : {dtype}[4, 3]
  %2 = matmul(%0, %1) : {dtype}[3, 3]
  return %2"""
    (product,) = program_of(text.format(dtype="float32")).steps
    assert isinstance(product, MatmulStep)
    assert product.b.layout.strides == (4, 16)
    for dtype in ("int64", "complex128"):
        (call,) = program_of(text.format(dtype=dtype)).steps
        assert isinstance(call, HostStep)


def test_complex_values_are_host_calls(rng: np.random.Generator) -> None:
    z = rng.standard_normal(4) + 1j * rng.standard_normal(4)
    f = tl.function(lambda z: tl.exp(z * 2) + z)
    np.testing.assert_allclose(f(tl.asarray(z)).numpy(), np.exp(z * 2) + z, rtol=1e-14)


def test_a_concatenation_is_written_part_by_part() -> None:
    specs = tl.TensorSpec([2, 3], "float32"), tl.TensorSpec([2, 1], "float32")
    f = tl.function(lambda x, y: tl.concat([x, y, x], axis=1))
    program = lower_graph(f.get_concrete_function(*specs).optimized_graph, host_target())
    assert [step.label for step in program.steps] == ["concat"] * 3
    offsets = [s.nest.operands[-1].offset for s in program.steps if isinstance(s, NestStep)]
    assert offsets == [0, 12, 16]
