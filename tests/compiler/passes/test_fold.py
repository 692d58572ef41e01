"""Constants fold where it pays."""

from typing import Any

from tapeline.compiler.passes.fold import Fold


def test_fold_runs_what_depends_on_constants_only(transform: Any) -> None:
    before = """
graph g:
  %0 = placeholder(name='x') : float64[3]
  %1 = constant([1.0, 2.0, 4.0]) : float64[3]
  %2 = constant(2.0) : float64[]
  %3 = add(%1, %2) : float64[3]
  %4 = divmod(%3, %2) : (float64[3], float64[3])
  %5 = pick(%4, index=0) : float64[3]
  %6 = add(%0, %5) : float64[3]
  return %6"""
    after = """\
graph g:
  %0 = placeholder(name='x')     : float64[3]
  %1 = constant([1.0, 2.0, 4.0]) : float64[3]
  %2 = constant(2.0)             : float64[]
  %3 = constant([3.0, 4.0, 6.0]) : float64[3]
  %4 = divmod(%3, %2)            : (float64[3], float64[3])
  %5 = constant([1.0, 2.0, 3.0]) : float64[3]
  %6 = add(%0, %5)               : float64[3]
  return %6"""
    assert transform(Fold(), before) == after


def test_fold_leaves_values_that_grow(transform: Any) -> None:
    text = """\
graph g:
  %0 = constant(2.0)              : float64[]
  %1 = spread(%0, shape=(1000,))  : float64[1000]
  %2 = filled(shape=(1000,))      : float64[1000]
  return %1, %2"""
    text = text.replace(",))  :", ",)) :").replace("  : float64[]", " : float64[]")
    text = text.replace("(1000,))      :", "(1000,))     :")
    assert transform(Fold(), text) == text


def test_fold_makes_small_values_even_if_they_grow(transform: Any) -> None:
    before = """
graph g:
  %0 = filled(shape=(2,)) : float64[2]
  return %0"""
    assert "constant([1.0, 1.0])" in transform(Fold(), before)


def test_fold_keeps_to_the_limit(transform: Any) -> None:
    text = """\
graph g:
  %0 = constant([1.0, 2.0]) : float64[2]
  %1 = exp(%0)              : float64[2]
  return %1"""
    assert transform(Fold(limit=8, free=8), text) == text
    assert "exp" not in transform(Fold(), text)


def test_fold_leaves_effects_random_ops_and_kernels_that_fail(read: Any) -> None:
    graph = read("""
graph g:
  %0 = constant([1.0, 2.0]) : float64[2]
  %1 = say(%0) : float64[2]
  %2 = dice(%0) : float64[2]
  %3 = fails(%0) : float64[2]
  return %1, %2, %3""")
    assert not Fold().run(graph).changed


def test_fold_raises_no_floating_point_warnings(transform: Any) -> None:
    before = """
graph g:
  %0 = constant([1000.0, -1.0]) : float64[2]
  %1 = sub(%0, %0) : float64[2]
  %2 = divmod(%0, %1) : (float64[2], float64[2])
  %3 = scale(%1, k=3) : float64[2]
  return %3"""
    assert "constant([0.0, 0.0])" in transform(Fold(), before)
