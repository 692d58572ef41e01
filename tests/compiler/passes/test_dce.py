"""Dead code goes; effects, placeholders and what they need stay."""

from typing import Any

from tapeline.compiler.passes.dce import DeadCode


def test_dce_drops_what_nobody_needs(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = placeholder(name='unused') : float64[2]
  %2 = exp(%0) : float64[2]
  %3 = exp(%2) : float64[2]
  %4 = constant(2.0) : float64[]
  %5 = add(%2, %0) : float64[2]
  return %5"""
    after = """\
graph g:
  %0 = placeholder(name='x')      : float64[2]
  %1 = placeholder(name='unused') : float64[2]
  %2 = exp(%0)                    : float64[2]
  %3 = add(%2, %0)                : float64[2]
  return %3"""
    assert transform(DeadCode(), before) == after
    assert transform(DeadCode(), after) == after


def test_dce_keeps_effects_and_drops_unused_random_ops(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = exp(%0) : float64[2]
  %2 = say(%1) : float64[2]
  %3 = dice(%0) : float64[2]
  return"""
    after = """\
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = exp(%0)               : float64[2]
  %2 = say(%1)               : float64[2]
  return"""
    assert transform(DeadCode(), before) == after


def test_dce_keeps_a_whole_value_when_one_part_is_used(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[2]
  %1 = divmod(%0, %0) : (float64[2], float64[2])
  %2 = pick(%1, index=0) : float64[2]
  %3 = pick(%1, index=1) : float64[2]
  return %3"""
    assert "pick(%1, index=1)" in transform(DeadCode(), before)
    assert "index=0" not in transform(DeadCode(), before)
