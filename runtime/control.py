"""Control flow as functions: choices and loops over tensors.

Without a trace they are Python's own `if` and `while`, and tapes see the ops that run. In a trace
the handler makes one node of them, whose bodies run as native code. Both demand the same of the
bodies: branches give the same specs, and what a loop carries stays as it is in shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapeline.runtime.ops.joining import stack
from tapeline.runtime.spec import TensorSpec, canonical_dtype, spec_of
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, wrap

__all__ = ["cond", "foldl", "map_fn", "scan", "switch_case", "while_loop"]

Function = Callable[..., Any]


class _Body:
    """A user's function on structures, as one on lists of tensors; keeps what it gave."""

    def __init__(self, name: str, function: Function, structure: Any) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                f"{name}: expected a function, got {type(function).__name__} {function!r}"
            )
        self.name = name
        self.function = function
        self.structure = structure
        self.result: Any = None

    def __call__(self, *leaves: Tensor) -> list[Tensor]:
        """The leaves of what the function gives for these leaves of its arguments."""
        self.result = self.function(*nest.unflatten(self.structure, leaves))
        return [as_tensor(leaf, argument=self.name) for leaf in nest.flatten(self.result)]


def _fresh(tensor: Tensor) -> Tensor:
    """A cell of its own with the same value: a body may write to it."""
    return wrap(tensor._value, tensor._node)


def _spec(tensor: Tensor) -> TensorSpec:
    return spec_of(tensor.shape, tensor.dtype)


def _describe(spec: TensorSpec) -> str:
    return f"{spec.dtype.name} of shape {spec.shape}"


def _as_condition(name: str, pred: Any) -> Tensor:
    tensor = as_tensor(pred, argument=name)
    if tensor.ndim or tensor.dtype.kind != "b":
        raise ShapeError(
            f"{name}: expected one bool, got {_describe(_spec(tensor))}; compare, or use tl.any or "
            "tl.all"
        )
    return tensor


# --- choices ----------------------------------------------------------------------------------


def cond(
    pred: TensorLike, true_fn: Function, false_fn: Function, operands: Sequence[Any] = ()
) -> Any:
    """What one of two functions gives: `true_fn(*operands)` where `pred` holds, else
    `false_fn(*operands)`. Only that one runs.

    Parameters
    ----------
    pred : TensorLike of bool, shape ()
        A Python bool is decided at once, also while a function is traced.
    true_fn, false_fn : callable
        In a trace both must give the same structure of tensors, alike in shape and dtype. They may
        use tensors from around them, and assign Variables.
    operands : sequence, optional
        Arguments: tensors or structures of them.

    Returns
    -------
    Structure of Tensor
        As the function gives it.

    Raises
    ------
    ShapeError
        If `pred` is not one bool, or the functions give results that differ.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> tl.cond(x > 2, lambda: x * x, lambda: x)
    tl.Tensor(9., shape=(), dtype=float64)
    """
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*operands)
    condition = _as_condition("cond: pred", pred)
    structure = list(operands)
    leaves = [as_tensor(leaf, argument="cond") for leaf in nest.flatten(structure)]
    then = _Body("cond: true_fn", true_fn, structure)
    other = _Body("cond: false_fn", false_fn, structure)
    handler = STATE.handler
    if handler is None:
        chosen = then if bool(condition) else other
        results = chosen(*map(_fresh, leaves))
        return nest.unflatten(chosen.result, results)
    results = handler.stage_cond(condition, then, other, leaves)
    nest.assert_same_structure(then.result, other.result)
    return nest.unflatten(then.result, results)


def switch_case(
    index: TensorLike, branches: Sequence[Function], operands: Sequence[Any] = ()
) -> Any:
    """What `branches[index](*operands)` gives; an index out of range chooses the last branch.

    Parameters
    ----------
    index : TensorLike of int, shape ()
        Which branch runs.
    branches : sequence of callable
        In a trace all must give the same structure, shapes and dtypes.
    operands : sequence, optional
        Arguments of the branches.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ArgumentError
        If there is no branch.
    ShapeError
        If `index` is not one int, or branches give results that differ.
    """
    if not branches:
        raise ArgumentError("switch_case: branches is empty; give at least one function")
    tensor = as_tensor(index, argument="switch_case: index")
    if tensor.ndim or tensor.dtype.kind not in "iu":
        raise ShapeError(f"switch_case: index must be one int, got {_describe(_spec(tensor))}")
    count = len(branches)
    inside = (tensor >= 0) & (tensor < count)

    def choose(low: int, high: int) -> Function:
        """The branches from low to high, by halving."""
        if high - low == 1:
            return branches[low]
        middle = (low + high) // 2
        return lambda *given: cond(
            tensor < middle, choose(low, middle), choose(middle, high), given
        )

    return cond(inside, choose(0, count), branches[-1], operands)


# --- loops ------------------------------------------------------------------------------------


class _State:
    """What a loop carries: a structure, as leaves, that a body must give back alike."""

    def __init__(self, name: str, structure: Any) -> None:
        self.name = name
        self.is_row = isinstance(structure, list | tuple) and not hasattr(structure, "_fields")
        self.structure = structure
        self.leaves = [as_tensor(leaf, argument=name) for leaf in nest.flatten(structure)]
        self.specs = [_spec(leaf) for leaf in self.leaves]

    def arguments(self, leaves: Sequence[Tensor]) -> tuple[Any, ...]:
        """The arguments for the user's functions: the items of a list or a tuple, or the whole."""
        whole = self.pack(leaves)
        return tuple(whole) if self.is_row else (whole,)

    def pack(self, leaves: Sequence[Tensor]) -> Any:
        """The structure with these leaves."""
        return nest.unflatten(self.structure, leaves)

    def take(self, result: Any) -> list[Tensor]:
        """The leaves of what a body gives; a Python number takes the dtype that it had before."""
        if self.is_row:
            result = list(result) if isinstance(result, list | tuple) else [result]
            nest.assert_same_structure(list(self.structure), result)
        else:
            nest.assert_same_structure(self.structure, result)
        tensors = []
        for number, (leaf, spec) in enumerate(zip(nest.flatten(result), self.specs, strict=True)):
            is_weak = type(leaf) in (bool, int, float)
            tensor = as_tensor(leaf, spec.dtype if is_weak else None, self.name)
            if _spec(tensor) != spec:
                raise ShapeError(
                    f"{self.name}: what it carries must stay alike, but leaf {number} is "
                    f"{_describe(spec)} before a turn and {_describe(_spec(tensor))} after it; "
                    "cast or reshape it before the loop, or in the body"
                )
            tensors.append(tensor)
        return tensors


def while_loop(
    cond: Function, body: Function, state: Any, *, maximum_iterations: int | None = None
) -> Any:
    """The state after `state = body(*state)` as long as `cond(*state)` holds.

    Parameters
    ----------
    cond : callable
        Gives one bool.
    body : callable
        Gives the next state: the same structure, shapes and dtypes.
    state : structure of TensorLike
        A list or a tuple is passed as several arguments, anything else as one.
    maximum_iterations : int, optional
        Stops after so many turns. A gradient keeps room for so many.

    Returns
    -------
    Structure of Tensor
        Like `state`.

    Raises
    ------
    ShapeError
        If the state does not stay alike, or `cond` does not give one bool.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, 1.5))
    (tl.Tensor(3, shape=(), dtype=int64), tl.Tensor(12., shape=(), dtype=float64))
    """
    carried = _State("while_loop", state)
    if maximum_iterations is not None and maximum_iterations < 0:
        raise ArgumentError(
            f"while_loop: maximum_iterations must be >= 0 or None, got {maximum_iterations}"
        )

    def test(*leaves: Tensor) -> list[Tensor]:
        return [_as_condition("while_loop: cond", cond(*carried.arguments(leaves)))]

    def turn(*leaves: Tensor) -> list[Tensor]:
        return carried.take(body(*carried.arguments(leaves)))

    handler = STATE.handler
    leaves = carried.leaves
    if handler is None:
        made = 0
        while made != maximum_iterations and bool(test(*map(_fresh, leaves))[0]):
            leaves = turn(*map(_fresh, leaves))
            made += 1
    elif maximum_iterations is None:
        leaves = handler.stage_while(test, turn, leaves)
    else:
        limit = maximum_iterations
        _, leaves, _ = handler.stage_scan(test, turn, limit, leaves, (), limit, False)
    return carried.pack(leaves)


def scan(
    f: Function, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Carries a value through the rows of `xs`, and stacks what each turn gives.

    Parameters
    ----------
    f : callable
        `f(carry, row)` gives the next carry, alike in structure, shapes and dtypes, and a result
        (a structure, or None).
    init : structure of TensorLike
        The first carry.
    xs : structure of TensorLike, optional
        Their first axes have one length; `row` has the same structure. None: `row` is None.
    length : int, optional
        The number of turns, where xs is None.
    reverse : bool
        Begin with the last row. Results are stacked in the order of the rows.

    Returns
    -------
    carry : structure of Tensor
        Like `init`.
    stacked : structure of Tensor
        The results of all turns along a new first axis.

    Raises
    ------
    ShapeError
        If lengths differ, or the carry does not stay alike.
    ArgumentError
        If there is neither `xs` nor `length`.

    Examples
    --------
    >>> import tapeline as tl
    >>> total, sums = tl.scan(lambda c, x: (c + x, c + x), 0, tl.asarray([1, 2, 3]))
    >>> sums
    tl.Tensor([1 3 6], shape=(3,), dtype=int64)
    """
    rows = [as_tensor(leaf, argument="scan: xs") for leaf in nest.flatten(xs)]
    count = _scan_length(rows, length)
    carried = _State("scan", init)
    n_carry = len(carried.leaves)
    found: list[Any] = []

    def turn(*leaves: Tensor) -> list[Tensor]:
        carry, row = carried.pack(leaves[:n_carry]), nest.unflatten(xs, leaves[n_carry:])
        result = f(carry, row)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(
                f"scan: f must return a pair (carry, result), got {type(result).__name__}"
            )
        found[:] = [result[1]]
        following = carried.take(result[0])
        results = [as_tensor(leaf, argument="scan") for leaf in nest.flatten(result[1])]
        return [*following, *results]

    handler = STATE.handler
    if handler is not None:
        _, leaves, ys = handler.stage_scan(None, turn, count, carried.leaves, rows, count, reverse)
        return carried.pack(leaves), nest.unflatten(found[0], ys)
    if not count:
        raise ArgumentError("scan: there are no rows; outside of tl.function, nothing can be made")
    leaves = carried.leaves
    kept: list[list[Tensor]] = []
    for turn_number in range(count):
        place = count - 1 - turn_number if reverse else turn_number
        made = turn(*map(_fresh, leaves), *(x[place] for x in rows))
        leaves = made[:n_carry]
        kept.append(made[n_carry:])
    if reverse:
        kept.reverse()
    stacked = [stack(list(column)) for column in zip(*kept, strict=True)]
    return carried.pack(leaves), nest.unflatten(found[0], stacked)


def _scan_length(rows: Sequence[Tensor], length: int | None) -> int:
    lengths = {x.shape[0] if x.ndim else None for x in rows}
    if length is not None:
        lengths.add(length)
    if not lengths:
        raise ArgumentError("scan: give xs, or length")
    if len(lengths) > 1 or None in lengths:
        shapes = [x.shape for x in rows]
        given = "" if length is None else f" and length={length}"
        raise ShapeError(f"scan: the first axes must have one length, got {shapes}{given}")
    (count,) = lengths
    assert count is not None
    return count


def map_fn(f: Function, xs: Any, dtype: Any = None) -> Any:
    """`f` of each row of `xs`, stacked.

    Parameters
    ----------
    f : callable
        From a row, a structure like `xs`, to a structure of tensors.
    xs : structure of TensorLike
        Their first axes have one length.
    dtype : dtype or structure of dtypes, optional
        The dtypes of the results, as programs written for TensorFlow state them; results are
        converted. By default they keep their own.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ShapeError
        If lengths differ.
    ArgumentError
        If there are not as many dtypes as results.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.map_fn(lambda row: row.sum(), tl.asarray([[1, 2], [3, 4]]))
    tl.Tensor([3 7], shape=(2,), dtype=int64)
    """
    found = scan(lambda _, row: (None, f(row)), None, xs)[1]
    if dtype is None:
        return found
    stated, leaves = nest.flatten(dtype), nest.flatten(found)
    if len(stated) != len(leaves):
        raise ArgumentError(f"map_fn: {len(stated)} dtypes for {len(leaves)} results")
    pairs = zip(leaves, stated, strict=True)
    return nest.unflatten(found, [cast_tensor(x, canonical_dtype(each)) for x, each in pairs])


def foldl(f: Function, elems: Any, initializer: Any = None) -> Any:
    """What a function makes of an accumulator and each row of `elems` in turn.

    Parameters
    ----------
    f : callable
        `f(accumulator, row)` gives the next accumulator, alike in structure, shapes and dtypes.
    elems : structure of TensorLike
        Their first axes have one length.
    initializer : structure of TensorLike, optional
        The first accumulator; by default the first row, which `f` does not see then.

    Returns
    -------
    Structure of Tensor

    Raises
    ------
    ShapeError
        If lengths differ, or the accumulator does not stay alike.

    Examples
    --------
    >>> import tapeline as tl
    >>> tl.foldl(lambda a, x: a * x, tl.asarray([2.0, 3.0, 4.0]))
    tl.Tensor(24., shape=(), dtype=float64)
    """
    if initializer is None:
        elems = nest.map_structure(as_tensor, elems)
        initializer = nest.map_structure(lambda x: x[0], elems)
        elems = nest.map_structure(lambda x: x[1:], elems)
        if all(x.shape[0] == 0 for x in nest.flatten(elems)):
            return initializer
    return scan(lambda carry, row: (f(carry, row), None), initializer, elems)[0]
