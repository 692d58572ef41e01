"""NumPy-style Python made fast and differentiable on the CPU."""

from typing import TYPE_CHECKING, Any

from tapeline import config as config
from tapeline import export as export
from tapeline import nest as nest
from tapeline import tape as tape
from tapeline.compiler import on_demand as _on_demand  # noqa: F401  # joins the runtime's lists
from tapeline.compiler.decorator import function as function
from tapeline.compiler.frontend.annotations import BOOL as BOOL
from tapeline.compiler.frontend.annotations import C64 as C64
from tapeline.compiler.frontend.annotations import C128 as C128
from tapeline.compiler.frontend.annotations import F32 as F32
from tapeline.compiler.frontend.annotations import F64 as F64
from tapeline.compiler.frontend.annotations import I8 as I8
from tapeline.compiler.frontend.annotations import I16 as I16
from tapeline.compiler.frontend.annotations import I32 as I32
from tapeline.compiler.frontend.annotations import I64 as I64
from tapeline.compiler.frontend.annotations import U8 as U8
from tapeline.compiler.frontend.annotations import U16 as U16
from tapeline.compiler.frontend.annotations import U32 as U32
from tapeline.compiler.frontend.annotations import U64 as U64
from tapeline.compiler.frontend.gradients import gradients as gradients
from tapeline.compiler.frontend.retraces import no_retrace as no_retrace
from tapeline.compiler.function import Function as Function
from tapeline.export import load as load
from tapeline.runtime.associative import associative_scan as associative_scan
from tapeline.runtime.batching.vmap import vectorized_map as vectorized_map
from tapeline.runtime.batching.vmap import vmap as vmap
from tapeline.runtime.checks import Assert as Assert
from tapeline.runtime.collections import add_to_collection as add_to_collection
from tapeline.runtime.collections import get_collection as get_collection
from tapeline.runtime.constants import e as e
from tapeline.runtime.constants import inf as inf
from tapeline.runtime.constants import nan as nan
from tapeline.runtime.constants import newaxis as newaxis
from tapeline.runtime.constants import pi as pi
from tapeline.runtime.control import cond as cond
from tapeline.runtime.control import switch_case as switch_case
from tapeline.runtime.deferred import deferred as deferred
from tapeline.runtime.dtypes import bool as bool
from tapeline.runtime.dtypes import complex64 as complex64
from tapeline.runtime.dtypes import complex128 as complex128
from tapeline.runtime.dtypes import float16 as float16
from tapeline.runtime.dtypes import float32 as float32
from tapeline.runtime.dtypes import float64 as float64
from tapeline.runtime.dtypes import int8 as int8
from tapeline.runtime.dtypes import int16 as int16
from tapeline.runtime.dtypes import int32 as int32
from tapeline.runtime.dtypes import int64 as int64
from tapeline.runtime.dtypes import uint8 as uint8
from tapeline.runtime.dtypes import uint16 as uint16
from tapeline.runtime.dtypes import uint32 as uint32
from tapeline.runtime.dtypes import uint64 as uint64
from tapeline.runtime.exchange import from_dlpack as from_dlpack
from tapeline.runtime.frozen_values import constant as constant
from tapeline.runtime.gradient_tape import GradientTape as GradientTape
from tapeline.runtime.gradients.accumulator import ForwardAccumulator as ForwardAccumulator
from tapeline.runtime.gradients.checkpointing import checkpoint as checkpoint
from tapeline.runtime.gradients.checkpointing import recompute_grad as recompute_grad
from tapeline.runtime.gradients.classic import gradients_function as gradients_function
from tapeline.runtime.gradients.classic import implicit_gradients as implicit_gradients
from tapeline.runtime.gradients.classic import (
    implicit_value_and_gradients as implicit_value_and_gradients,
)
from tapeline.runtime.gradients.classic import make_vjp as make_vjp
from tapeline.runtime.gradients.classic import (
    value_and_gradients_function as value_and_gradients_function,
)
from tapeline.runtime.gradients.custom import custom_gradient as custom_gradient
from tapeline.runtime.gradients.custom import grad_pass_through as grad_pass_through
from tapeline.runtime.gradients.forward import hvp as hvp
from tapeline.runtime.gradients.forward import jvp as jvp
from tapeline.runtime.gradients.forward import linearize as linearize
from tapeline.runtime.gradients.functional import grad as grad
from tapeline.runtime.gradients.functional import value_and_grad as value_and_grad
from tapeline.runtime.gradients.functional import vjp as vjp
from tapeline.runtime.gradients.jacobians import hessian as hessian
from tapeline.runtime.gradients.jacobians import jacobian as jacobian
from tapeline.runtime.gradients.rules import custom_derivative as custom_derivative
from tapeline.runtime.gradients.watcher import VariableWatcher as VariableWatcher
from tapeline.runtime.indexed_slices import IndexedSlices as IndexedSlices
from tapeline.runtime.inspection import __array_namespace_info__ as __array_namespace_info__
from tapeline.runtime.limits import can_cast as can_cast
from tapeline.runtime.limits import finfo as finfo
from tapeline.runtime.limits import iinfo as iinfo
from tapeline.runtime.limits import isdtype as isdtype
from tapeline.runtime.limits import result_type as result_type
from tapeline.runtime.loop_options import set_loop_options as set_loop_options
from tapeline.runtime.loop_options import unroll as unroll
from tapeline.runtime.loops import foldl as foldl
from tapeline.runtime.loops import map_fn as map_fn
from tapeline.runtime.loops import scan as scan
from tapeline.runtime.loops import while_loop as while_loop
from tapeline.runtime.ops import array_methods as _array_methods  # noqa: F401  # x.flat and others
from tapeline.runtime.ops import assignment as _assignment  # noqa: F401  # for x[key]
from tapeline.runtime.ops import method_forms as _method_forms  # noqa: F401  # x.sum and others
from tapeline.runtime.ops.along_axis import take_along_axis as take_along_axis
from tapeline.runtime.ops.arithmetic import add as add
from tapeline.runtime.ops.arithmetic import divide as divide
from tapeline.runtime.ops.arithmetic import floor_divide as floor_divide
from tapeline.runtime.ops.arithmetic import multiply as multiply
from tapeline.runtime.ops.arithmetic import remainder as remainder
from tapeline.runtime.ops.arithmetic import subtract as subtract
from tapeline.runtime.ops.arranging import repeat as repeat
from tapeline.runtime.ops.arranging import roll as roll
from tapeline.runtime.ops.arranging import split as split
from tapeline.runtime.ops.arranging import tile as tile
from tapeline.runtime.ops.arranging import unstack as unstack
from tapeline.runtime.ops.bits import bitwise_and as bitwise_and
from tapeline.runtime.ops.bits import bitwise_invert as bitwise_invert
from tapeline.runtime.ops.bits import bitwise_left_shift as bitwise_left_shift
from tapeline.runtime.ops.bits import bitwise_or as bitwise_or
from tapeline.runtime.ops.bits import bitwise_right_shift as bitwise_right_shift
from tapeline.runtime.ops.bits import bitwise_xor as bitwise_xor
from tapeline.runtime.ops.cast import astype as astype
from tapeline.runtime.ops.cast import conj as conj
from tapeline.runtime.ops.cast import identity as identity
from tapeline.runtime.ops.cast import imag as imag
from tapeline.runtime.ops.cast import real as real
from tapeline.runtime.ops.cast import stop_gradient as stop_gradient
from tapeline.runtime.ops.comparison import equal as equal
from tapeline.runtime.ops.comparison import greater as greater
from tapeline.runtime.ops.comparison import greater_equal as greater_equal
from tapeline.runtime.ops.comparison import less as less
from tapeline.runtime.ops.comparison import less_equal as less_equal
from tapeline.runtime.ops.comparison import not_equal as not_equal
from tapeline.runtime.ops.creation import asarray as asarray
from tapeline.runtime.ops.creation import empty as empty
from tapeline.runtime.ops.creation import empty_like as empty_like
from tapeline.runtime.ops.creation import full as full
from tapeline.runtime.ops.creation import full_like as full_like
from tapeline.runtime.ops.creation import ones as ones
from tapeline.runtime.ops.creation import ones_like as ones_like
from tapeline.runtime.ops.creation import zeros as zeros
from tapeline.runtime.ops.creation import zeros_like as zeros_like
from tapeline.runtime.ops.differences import diff as diff
from tapeline.runtime.ops.effects import print as print
from tapeline.runtime.ops.einsum import einsum as einsum
from tapeline.runtime.ops.evenly_spaced import arange as arange
from tapeline.runtime.ops.evenly_spaced import linspace as linspace
from tapeline.runtime.ops.exponential import exp as exp
from tapeline.runtime.ops.exponential import exp2 as exp2
from tapeline.runtime.ops.exponential import expm1 as expm1
from tapeline.runtime.ops.exponential import log as log
from tapeline.runtime.ops.exponential import log1p as log1p
from tapeline.runtime.ops.exponential import log2 as log2
from tapeline.runtime.ops.exponential import log10 as log10
from tapeline.runtime.ops.exponential import logaddexp as logaddexp
from tapeline.runtime.ops.extrema import argmax as argmax
from tapeline.runtime.ops.extrema import argmin as argmin
from tapeline.runtime.ops.extrema import max as max
from tapeline.runtime.ops.extrema import min as min
from tapeline.runtime.ops.gamma_functions import lgamma as lgamma
from tapeline.runtime.ops.gather import take as take
from tapeline.runtime.ops.grids import eye as eye
from tapeline.runtime.ops.grids import meshgrid as meshgrid
from tapeline.runtime.ops.grids import tril as tril
from tapeline.runtime.ops.grids import triu as triu
from tapeline.runtime.ops.hyperbolic import acosh as acosh
from tapeline.runtime.ops.hyperbolic import asinh as asinh
from tapeline.runtime.ops.hyperbolic import atanh as atanh
from tapeline.runtime.ops.hyperbolic import cosh as cosh
from tapeline.runtime.ops.hyperbolic import sinh as sinh
from tapeline.runtime.ops.hyperbolic import tanh as tanh
from tapeline.runtime.ops.joining import concat as concat
from tapeline.runtime.ops.joining import pad as pad
from tapeline.runtime.ops.joining import stack as stack
from tapeline.runtime.ops.logic import isfinite as isfinite
from tapeline.runtime.ops.logic import isinf as isinf
from tapeline.runtime.ops.logic import isnan as isnan
from tapeline.runtime.ops.logic import logical_and as logical_and
from tapeline.runtime.ops.logic import logical_not as logical_not
from tapeline.runtime.ops.logic import logical_or as logical_or
from tapeline.runtime.ops.logic import logical_xor as logical_xor
from tapeline.runtime.ops.logic import signbit as signbit
from tapeline.runtime.ops.losses import one_hot as one_hot
from tapeline.runtime.ops.losses import softmax_cross_entropy as softmax_cross_entropy
from tapeline.runtime.ops.losses import sparse_softmax_cross_entropy as sparse_softmax_cross_entropy
from tapeline.runtime.ops.matmul import dot as dot
from tapeline.runtime.ops.matmul import matmul as matmul
from tapeline.runtime.ops.matmul import outer as outer
from tapeline.runtime.ops.matmul import tensordot as tensordot
from tapeline.runtime.ops.matmul import vecdot as vecdot
from tapeline.runtime.ops.permuting import flip as flip
from tapeline.runtime.ops.permuting import matrix_transpose as matrix_transpose
from tapeline.runtime.ops.permuting import moveaxis as moveaxis
from tapeline.runtime.ops.permuting import permute_dims as permute_dims
from tapeline.runtime.ops.permuting import swapaxes as swapaxes
from tapeline.runtime.ops.permuting import transpose as transpose
from tapeline.runtime.ops.powers import hypot as hypot
from tapeline.runtime.ops.powers import pow as pow
from tapeline.runtime.ops.powers import power as power
from tapeline.runtime.ops.powers import reciprocal as reciprocal
from tapeline.runtime.ops.powers import rsqrt as rsqrt
from tapeline.runtime.ops.powers import sqrt as sqrt
from tapeline.runtime.ops.powers import square as square
from tapeline.runtime.ops.reduction import all as all
from tapeline.runtime.ops.reduction import any as any
from tapeline.runtime.ops.reduction import count_nonzero as count_nonzero
from tapeline.runtime.ops.reduction import prod as prod
from tapeline.runtime.ops.reduction import sum as sum
from tapeline.runtime.ops.rounding import ceil as ceil
from tapeline.runtime.ops.rounding import floor as floor
from tapeline.runtime.ops.rounding import nextafter as nextafter
from tapeline.runtime.ops.rounding import round as round
from tapeline.runtime.ops.rounding import trunc as trunc
from tapeline.runtime.ops.running import cumulative_logsumexp as cumulative_logsumexp
from tapeline.runtime.ops.running import cumulative_max as cumulative_max
from tapeline.runtime.ops.running import cumulative_min as cumulative_min
from tapeline.runtime.ops.scan import cumsum as cumsum
from tapeline.runtime.ops.scan import cumulative_prod as cumulative_prod
from tapeline.runtime.ops.scan import cumulative_sum as cumulative_sum
from tapeline.runtime.ops.searching import nonzero as nonzero
from tapeline.runtime.ops.searching import searchsorted as searchsorted
from tapeline.runtime.ops.segments import segment_max as segment_max
from tapeline.runtime.ops.segments import segment_mean as segment_mean
from tapeline.runtime.ops.segments import segment_min as segment_min
from tapeline.runtime.ops.segments import segment_sum as segment_sum
from tapeline.runtime.ops.selection import clip as clip
from tapeline.runtime.ops.selection import copysign as copysign
from tapeline.runtime.ops.selection import maximum as maximum
from tapeline.runtime.ops.selection import minimum as minimum
from tapeline.runtime.ops.selection import where as where
from tapeline.runtime.ops.sets import isin as isin
from tapeline.runtime.ops.sets import unique_all as unique_all
from tapeline.runtime.ops.sets import unique_counts as unique_counts
from tapeline.runtime.ops.sets import unique_inverse as unique_inverse
from tapeline.runtime.ops.sets import unique_values as unique_values
from tapeline.runtime.ops.shaping import broadcast_arrays as broadcast_arrays
from tapeline.runtime.ops.shaping import broadcast_shapes as broadcast_shapes
from tapeline.runtime.ops.shaping import broadcast_to as broadcast_to
from tapeline.runtime.ops.shaping import expand_dims as expand_dims
from tapeline.runtime.ops.shaping import ravel as ravel
from tapeline.runtime.ops.shaping import reshape as reshape
from tapeline.runtime.ops.shaping import squeeze as squeeze
from tapeline.runtime.ops.signs import abs as abs
from tapeline.runtime.ops.signs import negative as negative
from tapeline.runtime.ops.signs import positive as positive
from tapeline.runtime.ops.signs import sign as sign
from tapeline.runtime.ops.slicing import diagonal as diagonal
from tapeline.runtime.ops.softmax import log_softmax as log_softmax
from tapeline.runtime.ops.softmax import logsumexp as logsumexp
from tapeline.runtime.ops.softmax import softmax as softmax
from tapeline.runtime.ops.sorting import argsort as argsort
from tapeline.runtime.ops.sorting import sort as sort
from tapeline.runtime.ops.sorting import top_k as top_k
from tapeline.runtime.ops.special import erf as erf
from tapeline.runtime.ops.special import sigmoid as sigmoid
from tapeline.runtime.ops.statistics import mean as mean
from tapeline.runtime.ops.statistics import std as std
from tapeline.runtime.ops.statistics import var as var
from tapeline.runtime.ops.trigonometric import acos as acos
from tapeline.runtime.ops.trigonometric import asin as asin
from tapeline.runtime.ops.trigonometric import atan as atan
from tapeline.runtime.ops.trigonometric import atan2 as atan2
from tapeline.runtime.ops.trigonometric import cos as cos
from tapeline.runtime.ops.trigonometric import sin as sin
from tapeline.runtime.ops.trigonometric import tan as tan
from tapeline.runtime.python_calls import py_function as py_function
from tapeline.runtime.ranges import range as range
from tapeline.runtime.scopes import executing_eagerly as executing_eagerly
from tapeline.runtime.scopes import init_scope as init_scope
from tapeline.runtime.scopes import on_trace_end as on_trace_end
from tapeline.runtime.spec import TensorSpec as TensorSpec
from tapeline.runtime.tape import stop_recording as stop_recording
from tapeline.runtime.tensor import Tensor as Tensor
from tapeline.runtime.tensor_array import TensorArray as TensorArray
from tapeline.runtime.variable import Variable as Variable

__version__ = "0.1.0.dev0"
__array_api_version__ = "2025.12"

if TYPE_CHECKING:
    from tapeline import debugging as debugging
    from tapeline import errors as errors
    from tapeline import fft as fft
    from tapeline import linalg as linalg
    from tapeline import nn as nn
    from tapeline import optimizers as optimizers
    from tapeline import random as random
    from tapeline import special as special
    from tapeline import testing as testing

_NAMESPACES = frozenset(
    {"debugging", "errors", "fft", "linalg", "nn", "optimizers", "random", "special", "testing"}
)
"""The namespaces that are loaded when they are first used."""


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        import importlib

        return importlib.import_module(f"tapeline.{name}")
    raise AttributeError(f"module 'tapeline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMESPACES})
