"""Einstein summation: products of tensors by named indices, made of other ops.

Two operands at a time are contracted, in an order that `contraction` finds: each pair becomes a
matrix product of stacks, or a plain product where no index is summed. So gradients and compiled
code need nothing of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapeline.runtime.limits import result_type
from tapeline.runtime.ops.contraction import Labels, contraction_order
from tapeline.runtime.ops.matmul import matmul
from tapeline.runtime.ops.permuting import permute_dims
from tapeline.runtime.ops.reduction import sum as sum_over
from tapeline.runtime.ops.shaping import expand_dims, reshape, squeeze
from tapeline.runtime.ops.slicing import diagonal
from tapeline.runtime.tensor import Tensor, as_tensor, cast_tensor, register_ufunc
from tapeline.runtime.unwatched import plain_arrays, wrapped

Term: TypeAlias = tuple[Tensor, Labels]
"""A tensor and the label of each of its axes."""

# --- subscripts ------------------------------------------------------------------------------


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` as a string and the operands."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def spelled(sublist: Sequence[Any]) -> str:
        return "".join(["..." if item is Ellipsis else letters[item] for item in sublist])

    count = len(operands) // 2
    inputs = ",".join([spelled(operands[2 * k + 1]) for k in range(count)])
    output = f"->{spelled(operands[-1])}" if len(operands) % 2 else ""
    return inputs + output, [operands[2 * k] for k in range(count)]


def _labels_of(term: str, ndim: int, subscripts: str) -> Labels:
    """The labels of a term's axes; those that an ellipsis stands for are "0", "1", ... from the
    last on."""
    before, dots, after = term.partition("...")
    named = before + after
    if not all(letter.isalpha() for letter in named):
        raise ArgumentError(
            f"einsum: {term!r} in {subscripts!r} holds more than letters and one ellipsis (...)"
        )
    extra = ndim - len(named)
    if extra < 0 or (extra and not dots):
        raise ShapeError(
            f"einsum: {term!r} in {subscripts!r} names {len(named)} axes, but its operand "
            f"has {ndim}"
        )
    return (*before, *[str(k) for k in range(extra - 1, -1, -1)], *after)


def _parse(subscripts: str, ndims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand, and of the output."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ArgumentError(
            f"einsum: {subscripts!r} names {len(terms)} operands, but {len(ndims)} are given"
        )
    labels = [_labels_of(term, ndim, subscripts) for term, ndim in zip(terms, ndims, strict=True)]
    used = [label for of_term in labels for label in of_term]
    dotted = sorted({label for label in used if label.isdigit()}, key=int, reverse=True)
    if arrow:
        named = len(output.replace("...", ""))
        result = _labels_of(output, named + len(dotted) * ("..." in output), subscripts)
    else:
        once = sorted(label for label in set(used) if used.count(label) == 1 and label.isalpha())
        result = (*dotted, *once)
    unknown = [label for label in result if label not in used]
    if unknown or len(set(result)) != len(result):
        raise ArgumentError(
            f"einsum: the output of {subscripts!r} must name indices of the operands, each once"
        )
    return labels, result


def _extents(terms: Sequence[Term], subscripts: str) -> dict[str, int]:
    """The extent of each label; an operand's extent 1 broadcasts."""
    found: dict[str, int] = {}
    for tensor, labels in terms:
        for label, extent in zip(labels, tensor.shape, strict=True):
            known = found.get(label, 1)
            if known != 1 and extent not in (1, known):
                raise ShapeError(
                    f"einsum: index {label!r} of {subscripts!r} has extents {known} and {extent}"
                )
            found[label] = extent if known == 1 else known
    return found


# --- steps -----------------------------------------------------------------------------------


def _reduce(term: Term, kept: frozenset[str], extents: dict[str, int]) -> Term:
    """A term with each label once, without axes that broadcast, and without labels not kept."""
    tensor, labels = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                drop = first if tensor.shape[first] == 1 else second
                tensor = squeeze(tensor, axis=drop)
                labels = labels[:drop] + labels[drop + 1 :]
                continue
            tensor = diagonal(tensor, 0, first, second)
            rest = [name for k, name in enumerate(labels) if k not in (first, second)]
            labels = (*rest, label)
    narrow = [k for k, name in enumerate(labels) if tensor.shape[k] == 1 and extents[name] != 1]
    if narrow:
        tensor = squeeze(tensor, axis=narrow)
        labels = tuple([name for k, name in enumerate(labels) if k not in narrow])
    gone = [k for k, name in enumerate(labels) if name not in kept]
    if gone:
        tensor = sum_over(tensor, axis=gone, dtype=tensor.dtype)
        labels = tuple([name for k, name in enumerate(labels) if k not in gone])
    return tensor, labels


def _ordered(term: Term, order: Labels) -> Tensor:
    """The tensor with its axes in this order."""
    tensor, labels = term
    if labels == order:
        return tensor
    return permute_dims(tensor, [labels.index(label) for label in order])


def _contract(a: Term, b: Term, kept: frozenset[str], extents: dict[str, int]) -> Term:
    """The product of two terms, summed over the labels of both that nobody else has."""
    both = [label for label in a[1] if label in b[1]]
    batch = tuple([label for label in both if label in kept])
    summed = tuple([label for label in both if label not in kept])
    rows = tuple([label for label in a[1] if label not in both])
    columns = tuple([label for label in b[1] if label not in both])

    def size(labels: Labels) -> int:
        return math.prod([extents[label] for label in labels])

    result = (*batch, *rows, *columns)
    shape = tuple([extents[label] for label in result])
    if not summed:
        left = _ordered(a, (*batch, *rows))
        right = _ordered(b, (*batch, *columns))
        if rows and columns:
            left = expand_dims(left, axis=[left.ndim + k for k in range(len(columns))])
            right = expand_dims(right, axis=[len(batch) + k for k in range(len(rows))])
        elif rows:
            right = expand_dims(right, axis=[right.ndim + k for k in range(len(rows))])
        elif columns:
            left = expand_dims(left, axis=[left.ndim + k for k in range(len(columns))])
        return left * right, result
    left = reshape(_ordered(a, (*batch, *rows, *summed)), (size(batch), size(rows), size(summed)))
    right = reshape(
        _ordered(b, (*batch, *summed, *columns)), (size(batch), size(summed), size(columns))
    )
    if not batch:
        left, right = reshape(left, left.shape[1:]), reshape(right, right.shape[1:])
    return reshape(matmul(left, right), shape), result


# --- public ----------------------------------------------------------------------------------


def einsum(subscripts: Any, /, *operands: Any, optimize: Any = True) -> Tensor:
    """The sum of products of tensors by named indices: Einstein's summation.

    Parameters
    ----------
    subscripts : str
        A letter per axis, the operands parted by commas, then `->` and the letters of the output:
        `"ik,kj->ij"`. An index that the output lacks is summed; one that an operand has twice is
        its diagonal. An ellipsis stands for axes that broadcast. Without `->` the output has the
        letters that occur once, in alphabetical order.
    *operands : TensorLike
        One per term. In place of a string, each operand may be followed by a list of ints that
        name its axes, and a last list may name those of the output.
    optimize : bool or "optimal" or "greedy"
        How to find the order of products: the cheapest one where there are few operands and a good
        one where there are many (True), always one of the two, or from left to right (False).

    Returns
    -------
    Tensor of the dtype that the operands promote to

    Raises
    ------
    ArgumentError
        If the subscripts cannot be read, or do not name the operands.
    ShapeError
        If an index has two extents, or a term has more or less axes than its operand.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray([[1, 2], [3, 4]])
    >>> tl.einsum("ij,jk->ik", x, x).numpy()
    array([[ 7, 10],
           [15, 22]])
    >>> tl.einsum("ii", x).item()
    5
    """
    found = _by_numpy(subscripts, operands) if optimize is True else None
    if found is not None:
        return found
    given: Sequence[Any] = operands
    if not isinstance(subscripts, str):
        subscripts, given = _from_lists((subscripts, *operands))
    if not given:
        raise ArgumentTypeError("einsum: expected subscripts and at least one operand")
    tensors = [as_tensor(x, argument="einsum") for x in given]
    dtype = result_type(*tensors)
    tensors = [cast_tensor(x, dtype) for x in tensors]
    labels, output = _parse(subscripts, [x.ndim for x in tensors])
    terms: list[Term] = list(zip(tensors, labels, strict=True))
    extents = _extents(terms, subscripts)
    sizes = tuple(sorted(extents.items()))
    for first, second in contraction_order(tuple(labels), output, sizes, _strategy(optimize)):
        b, a = terms.pop(second), terms.pop(first)
        others = frozenset(output).union(*[names for _, names in terms])
        a = _reduce(a, others | frozenset(b[1]), extents)
        b = _reduce(b, others | frozenset(a[1]), extents)
        terms.append(_contract(a, b, others, extents))
    return _ordered(_reduce(terms[0], frozenset(output), extents), output)


_LITTLE = 4096
"""So many products NumPy forms one by one in less time than it takes to find a better way."""


def _by_numpy(subscripts: Any, operands: Sequence[Any]) -> Tensor | None:
    """What NumPy gives for few elements that nobody watches; None for anything else."""
    arrays = plain_arrays(operands) if type(subscripts) is str else None
    if not arrays or arrays[0].dtype.kind not in "iufc":
        return None
    if not 0 < math.prod([array.size for array in arrays]) <= _LITTLE:
        return None  # of no elements NumPy makes diagonals that reach beyond them
    try:
        return wrapped(np.einsum(subscripts, *arrays))
    except ValueError:
        return None  # the long way says what is wrong


def _strategy(optimize: Any) -> str:
    if optimize in (True, False):
        return "auto" if optimize else "left"
    if optimize in ("optimal", "greedy"):
        return str(optimize)
    raise ArgumentError(
        f"einsum: optimize is {optimize!r}; expected True, False, 'optimal' or 'greedy'"
    )


register_ufunc(np.einsum, einsum)
