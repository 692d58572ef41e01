"""Convolution over one, two or three axes, and its transpose, as matrix products of windows.

Channels are the last axis: inputs are (batch, ..., channels), weights (..., inputs of a group,
outputs). As is usual in networks the kernel is not turned around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapeline.runtime.errors import DTypeError, ShapeError
from tapeline.runtime.op import Attrs, Expansion, LibraryCall, Op, Sample, Trait, define_op
from tapeline.runtime.ops.axes import as_index
from tapeline.runtime.ops.bilinear import through
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.ops.matmul import MATMUL
from tapeline.runtime.ops.permuting import FLIP, PERMUTE_DIMS, swap_last
from tapeline.runtime.ops.pointwise import apply, call
from tapeline.runtime.ops.shaping import RESHAPE
from tapeline.runtime.ops.slicing import GETITEM, strip_full
from tapeline.runtime.ops.window_arguments import (
    Padding,
    PerAxis,
    padded,
    padded_shape,
    per_axis,
    resolve_pads,
)
from tapeline.runtime.ops.windows import WINDOWS, WINDOWS_GRAD, Window
from tapeline.runtime.promotion import narrowed, promote
from tapeline.runtime.spec import Shape, TensorSpec, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor

# --- conv ------------------------------------------------------------------------------------


def _size(shape: Shape) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _reshape(x: Any, *shape: int) -> Any:
    return call(RESHAPE, x, attrs=(shape,))


def _permute(x: Any, *axes: int) -> Any:
    return call(PERMUTE_DIMS, x, attrs=(axes,))


def _conv_window(attrs: Attrs, weight_shape: Shape) -> Window:
    strides: Any = attrs[0]
    dilations: Any = attrs[2]
    return Window(1, weight_shape[:-2], strides, dilations)


def _columns(x: Any, attrs: Attrs, weight_shape: Shape) -> Any:
    """The windows as rows of a matrix (groups, rows, elements of a window); without the first axis
    for one group."""
    pads: Any = attrs[1]
    groups: Any = attrs[3]
    window = _conv_window(attrs, weight_shape)
    filled = padded(x, pads, 0)
    elements = call(WINDOWS, filled, attrs=tuple(window))
    rows = filled.shape[0] * _size(window.counts(filled.shape))
    places, channels = _size(window.sizes), weight_shape[-2]
    if groups == 1:
        return _reshape(elements, rows, places * channels)
    split = _reshape(elements, rows, places, groups, channels)
    return _reshape(_permute(split, 2, 0, 1, 3), groups, rows, places * channels)


def _matrix(weight: Any, groups: int) -> Any:
    """The weights as a matrix for each group."""
    *sizes, channels, outputs = weight.shape
    inner = _size(tuple(sizes)) * channels
    if groups == 1:
        return _reshape(weight, inner, outputs)
    return _permute(_reshape(weight, inner, groups, outputs // groups), 1, 0, 2)


def _rows_of(ct: Any, groups: int) -> Any:
    """Outputs as rows, for each group."""
    rows, outputs = _size(ct.shape[:-1]), ct.shape[-1]
    if groups == 1:
        return _reshape(ct, rows, outputs)
    return _permute(_reshape(ct, rows, groups, outputs // groups), 1, 0, 2)


def _conv_shape(x: Shape, weight: Shape, attrs: Attrs) -> Shape:
    pads: Any = attrs[1]
    window = _conv_window(attrs, weight)
    filled = padded_shape(x, pads)
    window.check("conv", filled)
    return (x[0], *window.counts(filled), weight[-1])


def _conv_formula(x: Any, weight: Any, *attrs: Any) -> Any:
    groups = attrs[3]
    shape = _conv_shape(x.shape, weight.shape, attrs)
    product = call(MATMUL, _columns(x, attrs, weight.shape), _matrix(weight, groups))
    return _reshape(_permute(product, 1, 0, 2) if groups > 1 else product, *shape)


def _conv_infer(x: TensorSpec, weight: TensorSpec, *attrs: Any) -> TensorSpec:
    if x.dtype != weight.dtype:
        raise DTypeError(f"conv: dtypes {x.dtype} and {weight.dtype} differ; cast one")
    return spec_of(_conv_shape(x.static_shape, weight.static_shape, attrs), x.dtype)


def conv_input_gradient(ct: Any, weight: Any, attrs: Attrs, shape: Shape) -> Any:
    """What the outputs pass back to an input of `shape`: the transpose of the convolution."""
    pads: Any = attrs[1]
    groups: Any = attrs[3]
    window = _conv_window(attrs, weight.shape)
    filled = padded_shape(shape, pads)
    columns = call(MATMUL, _rows_of(ct, groups), swap_last(_matrix(weight, groups)))
    if groups > 1:
        places, channels = _size(window.sizes), weight.shape[-2]
        split = _reshape(columns, groups, columns.shape[1], places, channels)
        columns = _permute(split, 1, 2, 0, 3)
    counts = window.counts(filled)
    elements = _reshape(columns, shape[0], *counts, *window.sizes, shape[-1])
    whole = call(WINDOWS_GRAD, elements, attrs=(*window, filled))
    if not any(map(any, pads)):
        return whole
    index = [("slice", low, low + n, 1) for n, (low, _) in zip(shape[1:-1], pads, strict=True)]
    return call(GETITEM, whole, attrs=(strip_full([("slice", None, None, None), *index]),))


def conv_weight_gradient(x: Any, ct: Any, attrs: Attrs, shape: Shape) -> Any:
    """What the outputs pass back to a kernel of `shape`."""
    groups: Any = attrs[3]
    product = call(MATMUL, swap_last(_columns(x, attrs, shape)), _rows_of(ct, groups))
    return _reshape(_permute(product, 1, 0, 2) if groups > 1 else product, *shape)


def _through(op: Op, ct: Any, factor: Any, attrs: Attrs, is_second: bool = False) -> Any:
    """An op of these on a cotangent, its first or its second operand, and saved values."""

    def multiply(ct: Any, factor: Any) -> Any:
        operands = (factor, ct) if is_second else (ct, factor)
        return call(op, *operands, attrs=attrs)

    return through(multiply, ct, factor)


def _conv_vjp_x(ct: Any, attrs: Attrs, x: Any, weight: Any) -> Any:
    return _through(CONV_INPUT_GRAD, ct, weight, (*attrs, x.shape))


def _conv_vjp_weight(ct: Any, attrs: Attrs, x: Any, weight: Any) -> Any:
    return _through(CONV_WEIGHT_GRAD, ct, x, (*attrs, weight.shape), is_second=True)


# What runs compiled: convolution without padding and groups, and its transposes


def _plain(attrs: Attrs, count: int) -> Attrs:
    """The attributes of a convolution that has only strides and dilations."""
    return (attrs[0], ((0, 0),) * count, attrs[1], 1)


def _convolve_kernel(x: Any, weight: Any, *attrs: Any) -> Any:
    return _conv_formula(x, weight, *_plain(attrs, weight.ndim - 2))


def _convolve_infer(x: TensorSpec, weight: TensorSpec, *attrs: Any) -> TensorSpec:
    return _conv_infer(x, weight, *_plain(attrs, weight.ndim - 2))


def _convolve_vjp_x(ct: Any, attrs: Attrs, x: Any, weight: Any) -> Any:
    return _conv_vjp_x(ct, _plain(attrs, len(weight.shape) - 2), x, weight)


def _convolve_vjp_weight(ct: Any, attrs: Attrs, x: Any, weight: Any) -> Any:
    return _conv_vjp_weight(ct, _plain(attrs, len(weight.shape) - 2), x, weight)


CONVOLVE = define_op(
    "convolve",
    kernel=_convolve_kernel,
    infer=_convolve_infer,
    n_inputs=2,
    attr_names=("strides", "dilations"),
    saves=(0, 1),
    vjps=(_convolve_vjp_x, _convolve_vjp_weight),
    emit=LibraryCall("convolve"),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    ulp=(64.0, 64.0),
    samples=(
        Sample(((2, 5, 2), (3, 2, 1)), ((1,), (1,))),
        Sample(((1, 6, 7, 3), (2, 3, 3, 5)), ((2, 1), (1, 2))),
        Sample(((1, 4, 3, 4, 2), (2, 1, 3, 2, 4)), ((1, 1, 1), (2, 1, 1))),
    ),
)
"""Convolution without padding, of all channels."""


def _convolve_weights_kernel(x: Any, ct: Any, *attrs: Any) -> Any:
    return conv_weight_gradient(x, ct, _plain(attrs, ct.ndim - 2), attrs[2])


def _weight_grad_infer(x: TensorSpec, ct: TensorSpec, *attrs: Any) -> TensorSpec:
    return spec_of(attrs[-1], x.dtype)


def _convolve_weights_vjp_x(g: Any, attrs: Attrs, x: Any, ct: Any) -> Any:
    return _weight_grad_vjp_x(g, (*_plain(attrs, len(ct.shape) - 2), attrs[2]), x, ct)


def _convolve_weights_vjp_ct(g: Any, attrs: Attrs, x: Any, ct: Any) -> Any:
    return _weight_grad_vjp_ct(g, (*_plain(attrs, len(ct.shape) - 2), attrs[2]), x, ct)


CONVOLVE_WEIGHTS = define_op(
    "convolve_weights",
    kernel=_convolve_weights_kernel,
    infer=_weight_grad_infer,
    n_inputs=2,
    attr_names=("strides", "dilations", "shape"),
    saves=(0, 1),
    vjps=(_convolve_weights_vjp_x, _convolve_weights_vjp_ct),
    emit=LibraryCall("convolve_weights"),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    ulp=(64.0, 64.0),
    samples=(
        Sample(((2, 5, 2), (2, 3, 1)), ((1,), (1,), (3, 2, 1))),
        Sample(((1, 6, 7, 3), (1, 3, 3, 5)), ((2, 1), (1, 2), (2, 3, 3, 5))),
    ),
)
"""What the outputs of `convolve` pass back to its kernel."""

_FEWEST_OUTPUTS = 4
"""Fewer outputs leave most lanes empty; windows of these are gathered for a matrix product."""


def _conv_expand(x: Tensor, weight: Tensor, *attrs: Any) -> Any:
    strides, pads, dilations, groups = attrs
    if groups > 1 or weight.shape[-1] < _FEWEST_OUTPUTS:
        return _conv_formula(x, weight, *attrs)
    return apply(CONVOLVE, padded(x, pads, 0), weight, attrs=(strides, dilations))


# The gradients


def _input_grad_kernel(ct: Any, weight: Any, *attrs: Any) -> Any:
    return conv_input_gradient(ct, weight, attrs[:4], attrs[4])


def _input_grad_infer(ct: TensorSpec, weight: TensorSpec, *attrs: Any) -> TensorSpec:
    return spec_of(attrs[4], ct.dtype)


def _input_grad_vjp_ct(g: Any, attrs: Attrs, ct: Any, weight: Any) -> Any:
    return _through(CONV, g, weight, attrs[:4])


def _input_grad_vjp_weight(g: Any, attrs: Attrs, ct: Any, weight: Any) -> Any:
    return _through(CONV_WEIGHT_GRAD, g, ct, (*attrs[:4], weight.shape))


_MANY_CHANNELS = 8
"""From so many on, lanes hold channels: a convolution of the outputs with the kernel turned around
is faster than a matrix product whose result is added up window by window."""


def _input_grad_expand(ct: Tensor, weight: Tensor, *attrs: Any) -> Any:
    strides, pads, dilations, groups, shape = attrs
    if groups > 1 or weight.shape[-2] < _MANY_CHANNELS or any(stride != 1 for stride in strides):
        return conv_input_gradient(ct, weight, attrs[:4], shape)
    window = _conv_window(attrs, weight.shape)
    sides = []
    for extent, count, reach, (low, _) in zip(
        shape[1:-1], ct.shape[1:-1], window.reach(), pads, strict=True
    ):
        before = reach - 1 - low
        sides.append((before, extent + reach - 1 - count - before))
    around = tuple((max(before, 0), max(after, 0)) for before, after in sides)
    index = [
        ("slice", max(-before, 0), count - max(-after, 0), 1)
        for (before, after), count in zip(sides, ct.shape[1:-1], strict=True)
    ]
    if any(min(pair) < 0 for pair in sides):
        ct = call(GETITEM, ct, attrs=(strip_full([("slice", None, None, None), *index]),))
    turned = call(FLIP, swap_last(weight), attrs=(tuple(range(weight.ndim - 2)),))
    return apply(CONVOLVE, padded(ct, around, 0), turned, attrs=(strides, dilations))


def _weight_grad_kernel(x: Any, ct: Any, *attrs: Any) -> Any:
    return conv_weight_gradient(x, ct, attrs[:4], attrs[4])


def _weight_grad_vjp_x(g: Any, attrs: Attrs, x: Any, ct: Any) -> Any:
    return _through(CONV_INPUT_GRAD, g, ct, (*attrs[:4], x.shape), is_second=True)


def _weight_grad_vjp_ct(g: Any, attrs: Attrs, x: Any, ct: Any) -> Any:
    return _through(CONV, g, x, attrs[:4], is_second=True)


def _weight_grad_expand(x: Tensor, ct: Tensor, *attrs: Any) -> Any:
    strides, pads, dilations, groups, shape = attrs
    if groups > 1 or shape[-1] < _FEWEST_OUTPUTS:
        return conv_weight_gradient(x, ct, attrs[:4], shape)
    return apply(CONVOLVE_WEIGHTS, padded(x, pads, 0), ct, attrs=(strides, dilations, shape))


def _each(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """One example after the other."""
    columns = [
        [call(GETITEM, x, attrs=((i,),)) for i in range(size)] if is_mapped else [x] * size
        for x, is_mapped in zip(inputs, mapped, strict=True)
    ]
    return stack([apply(op, a, b, attrs=attrs) for a, b in zip(*columns, strict=True)])


def _input_grad_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Cotangents of all examples as one long batch."""
    ct, weight = inputs
    if mapped[1]:
        return _each(op, size, inputs, mapped, attrs)
    shape: Any = attrs[4]
    together = _reshape(ct, size * ct.shape[1], *ct.shape[2:])
    long = (*attrs[:4], (size * shape[0], *shape[1:]))
    parts: Tensor = _reshape(apply(op, together, weight, attrs=long), size, *shape)
    return parts


def _conv_batch(
    op: Op, size: int, inputs: Sequence[Tensor], mapped: Sequence[bool], attrs: Attrs
) -> Tensor:
    """Inputs of all examples as one long batch; kernels of their own one after the other."""
    x, weight = inputs
    if mapped[1]:
        sources = [call(GETITEM, x, attrs=((i,),)) if mapped[0] else x for i in range(size)]
        kernels = [call(GETITEM, weight, attrs=((i,),)) for i in range(size)]
        pairs = zip(sources, kernels, strict=True)
        return stack([apply(op, a, b, attrs=attrs) for a, b in pairs])
    together = _reshape(x, size * x.shape[1], *x.shape[2:])
    result = apply(op, together, weight, attrs=attrs)
    parts: Tensor = _reshape(result, size, x.shape[1], *result.shape[1:])
    return parts


CONV = define_op(
    "conv",
    kernel=_conv_formula,
    infer=_conv_infer,
    n_inputs=2,
    attr_names=("strides", "pads", "dilations", "groups"),
    saves=(0, 1),
    vjps=(_conv_vjp_x, _conv_vjp_weight),
    emit=Expansion(_conv_expand),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    ulp=(64.0, 64.0),
    batch=_conv_batch,
    samples=(
        Sample(((2, 5, 2), (3, 2, 1)), ((1,), ((0, 0),), (1,), 1)),
        Sample(((1, 4, 3, 1), (2, 2, 1, 2)), ((1, 1), ((1, 0), (0, 1)), (1, 1), 1)),
        Sample(((1, 6, 2), (2, 1, 4)), ((2,), ((1, 1),), (2,), 2)),
        Sample(((1, 3, 2, 2, 1), (2, 1, 2, 1, 2)), ((1,) * 3, ((0, 0),) * 3, (1,) * 3, 1)),
        Sample(((2, 3, 2, 2), (1, 1, 2, 3)), ((1, 1), ((0, 0),) * 2, (1, 1), 1)),
        Sample(((1, 4, 2, 2), (2, 2, 2, 5)), ((1, 2), ((1, 0), (0, 1)), (2, 1), 1)),
    ),
)

CONV_INPUT_GRAD = define_op(
    "conv_input_grad",
    kernel=_input_grad_kernel,
    infer=_input_grad_infer,
    n_inputs=2,
    attr_names=(*CONV.attr_names, "shape"),
    saves=(0, 1),
    vjps=(_input_grad_vjp_ct, _input_grad_vjp_weight),
    emit=Expansion(_input_grad_expand),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    ulp=(64.0, 64.0),
    batch=_input_grad_batch,
    samples=(
        Sample(((2, 3, 1), (3, 2, 1)), ((1,), ((0, 0),), (1,), 1, (2, 5, 2))),
        Sample(((1, 3, 3), (2, 9, 3)), ((1,), ((2, 0),), (2,), 1, (1, 3, 9))),
        Sample(((1, 1, 2, 1), (2, 2, 8, 1)), ((1, 1), ((0, 0),) * 2, (1, 1), 1, (1, 2, 3, 8))),
        Sample(((1, 3, 2), (2, 1, 2)), ((2,), ((1, 1),), (2,), 2, (1, 6, 2))),
    ),
)
"""What the outputs of a convolution pass back to an input of `shape`."""

CONV_WEIGHT_GRAD = define_op(
    "conv_weight_grad",
    kernel=_weight_grad_kernel,
    infer=_weight_grad_infer,
    n_inputs=2,
    attr_names=(*CONV.attr_names, "shape"),
    saves=(0, 1),
    vjps=(_weight_grad_vjp_x, _weight_grad_vjp_ct),
    emit=Expansion(_weight_grad_expand),
    traits=Trait.NO_RECOMPUTE,
    kinds="f",
    ulp=(64.0, 64.0),
    batch=_each,
    samples=(
        Sample(((2, 5, 2), (2, 3, 1)), ((1,), ((0, 0),), (1,), 1, (3, 2, 1))),
        Sample(((1, 3, 2), (1, 3, 5)), ((1,), ((2, 0),), (2,), 1, (2, 2, 5))),
        Sample(((1, 6, 2), (1, 3, 4)), ((2,), ((1, 1),), (2,), 2, (2, 1, 4))),
    ),
)
"""What the outputs of a convolution pass back to a kernel of `shape`."""


# --- public ----------------------------------------------------------------------------------


def _convolution(
    op_name: str, count: int, x: TensorLike, weight: TensorLike, bias: TensorLike | None,
    stride: PerAxis, padding: Padding, dilation: PerAxis, groups: int,
) -> Tensor:  # fmt: skip
    source = as_tensor(x, argument=f"{op_name}: x")
    kernel = as_tensor(weight, argument=f"{op_name}: weight")
    groups = as_index(op_name, groups)
    if source.ndim != count + 2 or kernel.ndim != count + 2:
        raise ShapeError(
            f"{op_name}: x has shape {source.shape}, weight {kernel.shape}; both need {count + 2} "
            f"axes: (batch, ..., channels) and (..., inputs, outputs)"
        )
    if (
        groups < 1
        or source.shape[-1] != kernel.shape[-2] * groups
        or kernel.shape[-1] % max(groups, 1)
    ):
        raise ShapeError(
            f"{op_name}: x of shape {source.shape}, (batch, ..., channels), does not fit weight of "
            f"shape {kernel.shape}, (..., inputs, outputs), and groups={groups}: channels must be "
            f"inputs * groups, and outputs a multiple of groups"
        )
    strides = per_axis(op_name, "stride", stride, count)
    dilations = per_axis(op_name, "dilation", dilation, count)
    window = Window(1, kernel.shape[:-2], strides, dilations)
    pads = resolve_pads(op_name, padding, window, source.shape)
    window.check(op_name, padded_shape(source.shape, pads))
    operands = promote(CONV, source, kernel)
    result = apply(CONV, *operands, attrs=(strides, pads, dilations, groups))
    result = narrowed(result, source, kernel)
    return result if bias is None else result + as_tensor(bias, argument=f"{op_name}: bias")


def conv1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    /,
    *,
    stride: PerAxis = 1,
    padding: Padding = "valid",
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution along one axis.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, length, channels)
        The input.
    weight : TensorLike of float, shape (size, channels / groups, outputs)
        The kernel.
    bias : TensorLike of float, shape (outputs,), optional
        Added to each output.
    stride, dilation, padding, groups
        As for `conv2d`, along each of the inner axes.

    Returns
    -------
    Tensor of float, shape (batch, length, outputs)

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.reshape(tl.arange(5.0), (1, 5, 1))
    >>> tl.nn.conv1d(x, tl.ones((3, 1, 1))).numpy().ravel()
    array([3., 6., 9.])
    """
    return _convolution("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    /,
    *,
    stride: PerAxis = 1,
    padding: Padding = "valid",
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images: at each place the products of a window with a kernel, added up.

    Channels are the last axis, and the kernel is not turned around.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, height, width, channels)
        The input.
    weight : TensorLike of float, shape (rows, columns, channels / groups, outputs)
        The kernel.
    bias : TensorLike of float, shape (outputs,), optional
        Added to each place.
    stride : int or sequence of int
        How far one window lies from the next, for both axes or each.
    padding : str, int, sequence of int or of (int, int)
        Zeros around the input: "valid" is none; "same" so many that there is an output for each
        stride, the odd one at the end; or so many before and after each axis.
    dilation : int or sequence of int
        How far the elements of a window lie apart.
    groups : int
        The channels and outputs fall into so many groups, and each group of outputs sees only its
        group of channels. As many groups as channels is a depthwise convolution.

    Returns
    -------
    Tensor of float, shape (batch, rows, columns, outputs)

    Raises
    ------
    ShapeError
        If the shapes do not fit, or no window fits into the input.
    ArgumentError
        If stride, padding or dilation is none of the above.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.ones((1, 3, 3, 1))
    >>> tl.nn.conv2d(x, tl.ones((2, 2, 1, 1)), padding="same").numpy()[0, :, :, 0]
    array([[4., 4., 2.],
           [4., 4., 2.],
           [2., 2., 1.]])
    """
    return _convolution("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    /,
    *,
    stride: PerAxis = 1,
    padding: Padding = "valid",
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution along three axes.

    Parameters
    ----------
    x : TensorLike of float, shape (batch, depth, height, width, channels)
        The input.
    weight : TensorLike of float, shape (planes, rows, columns, channels / groups, outputs)
        The kernel.
    bias : TensorLike of float, shape (outputs,), optional
        Added to each output.
    stride, dilation, padding, groups
        As for `conv2d`, along each of the inner axes.

    Returns
    -------
    Tensor of float, shape (batch, depth, height, width, outputs)

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.nn.conv3d(tl.ones((1, 2, 2, 2, 1)), tl.ones((2, 2, 2, 1, 1))).numpy().ravel()
    array([8.])
    """
    return _convolution("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)
