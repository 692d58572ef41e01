"""The gradient tape: what records ops, and how a program says what it wants recorded.

A thread has its own open tapes; they may be closed in any order. The records themselves hang on
values (see `record`); a tape holds none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from tapeline.runtime import nest
from tapeline.runtime.array_walk import as_cotangent
from tapeline.runtime.backprop import GRADIENT_OF, Unconnected, imperative_grad
from tapeline.runtime.dispatch import STATE, watchers
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, TapeError
from tapeline.runtime.jacobian import tape_batch_jacobian, tape_jacobian
from tapeline.runtime.op import define_op
from tapeline.runtime.record import record_joint
from tapeline.runtime.recorder import Tape, TapeEntry, refresh_active, warn_not_differentiable
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.walk import TENSOR_SPACE


def push_new_tape(persistent: bool = False, watch_accessed_variables: bool = True) -> Tape:
    """A new tape that records what this thread does from now on.

    Parameters
    ----------
    persistent : bool
        Whether it can be used for more than one gradient.
    watch_accessed_variables : bool
        Whether reading a trainable variable watches it.

    Returns
    -------
    Tape
        The tape, which is recording.

    Examples
    --------
    >>> import tapeline as tl
    >>> x, recording = tl.asarray(3.0), tl.tape.push_new_tape()
    >>> tl.tape.watch(recording, x)
    >>> y = x * x
    >>> tl.tape.pop_tape(recording)
    >>> [slope.item() for slope in tl.tape.imperative_grad(None, recording, [y], [x])]
    [6.0]
    """
    tape = Tape(persistent, watch_accessed_variables)
    tape.start()
    return tape


def pop_tape(tape: Tape) -> None:
    """Stop the recording of `tape`; it need not be the last one pushed.

    Parameters
    ----------
    tape : Tape
        A tape that is recording.

    Examples
    --------
    See `push_new_tape`:

    >>> import tapeline as tl
    >>> recording = tl.tape.push_new_tape()
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.could_possibly_record()
    False
    """
    if not tape._is_recording or tape not in STATE.open:
        raise TapeError("pop_tape: this tape is not recording in this thread")
    tape.stop()


def watch(tape: Tape, tensor: Any) -> None:
    """Let `tape` record what is computed from a tensor or variable.

    Parameters
    ----------
    tape : Tape
        The tape.
    tensor : Tensor
        What it is to follow from here on.

    Raises
    ------
    ArgumentError
        (a ValueError) if it is neither.

    Examples
    --------
    >>> import tapeline as tl
    >>> x, recording = tl.asarray(5.0), tl.tape.push_new_tape()
    >>> tl.tape.watch(recording, x)
    >>> y = 2.0 * x
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.imperative_grad(None, recording, [y], [x])[0].item()
    2.0
    """
    if type(tensor) is Tensor:
        tape.watch_tensor(tensor)
    elif hasattr(tensor, "is_differentiable"):
        if not tensor.is_differentiable:
            warn_not_differentiable(tensor.dtype)
        tape.watch_variable(tensor)
    else:
        raise ArgumentError(
            f"watch: expected a tensor or a Variable, got {type(tensor).__name__}; "
            "convert with tl.asarray first"
        )


def watched_variables(tape: Tape) -> tuple[Any, ...]:
    """The variables that `tape` watches, in the order in which they were created.

    Parameters
    ----------
    tape : Tape
        The tape.

    Returns
    -------
    tuple of Variable
        In order of creation.

    Examples
    --------
    >>> import tapeline as tl
    >>> v, recording = tl.Variable(5.0), tl.tape.push_new_tape()
    >>> y = 2.0 * v
    >>> tl.tape.pop_tape(recording)
    >>> tl.tape.watched_variables(recording)[0] is v
    True
    """
    return tape.list_variables()


def could_possibly_record() -> bool:
    """Whether a tape of this thread records now.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapeline as tl
    >>> with tl.GradientTape():
    ...     tl.tape.could_possibly_record()
    True
    """
    return STATE.active is not None


@contextmanager
def stop_recording() -> Iterator[None]:
    """A block of this thread that no tape records.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     with tl.stop_recording():
    ...         factor = x * x
    ...     y = factor * x
    >>> tape.gradient(y, x).item()
    9.0
    """
    STATE.stopped += 1
    STATE.active = None
    try:
        yield
    finally:
        STATE.stopped -= 1
        refresh_active()


@contextmanager
def hide_tapes() -> Iterator[None]:
    """A block of this thread in which only tapes record that are opened in it."""
    before, stopped = STATE.open, STATE.stopped
    STATE.open, STATE.stopped = (), 0
    STATE.active = None
    try:
        yield
    finally:
        inside = STATE.open
        STATE.open, STATE.stopped = (*before, *inside), stopped
        refresh_active()


def record_operation(
    op_type: str,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    backward_function: Callable[..., Any],
    accepts_none: bool = False,
) -> None:
    """Tell the recording tapes that `outputs` were computed from `inputs`.

    Parameters
    ----------
    op_type : str
        A name, for `export`.
    outputs, inputs : sequence of Tensor
        The outputs lose the history they had.
    backward_function : function
        Takes one cotangent per output and returns one, or None, per input.
    accepts_none : bool
        Whether it takes None for an output that nothing depends on. Otherwise, and while a function
        is traced, zeros stand for it.

    Examples
    --------
    A function of foreign code, on the tape by hand:

    >>> import numpy as np
    >>> import tapeline as tl
    >>> x = tl.asarray([1.0, 4.0])
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tl.asarray(np.sqrt(x.numpy()))
    ...     tl.tape.record_operation("sqrt", [y], [x], lambda ct: ct / (2 * y))
    >>> tape.gradient(y, x)
    tl.Tensor([0.5  0.25], shape=(2,), dtype=float64)
    """
    if STATE.handler is not None:
        staged = STATE.handler.stage_gradient(
            op_type, outputs, inputs, lambda *cts: _listed(backward_function(*cts))
        )
        for out, new in zip(outputs, staged, strict=True):
            out._value, out._node = new._value, new._node
        return
    active = STATE.active
    if active is None:
        return
    parents, tapes = watchers(inputs, active)
    if tapes is None:
        return

    def run_backward(cts: tuple[Any, ...], attrs: Any, needed: Any) -> list[Any]:
        parts = _listed(backward_function(*[as_cotangent(ct) for ct in cts]))
        if all(type(ct) is not Tensor for ct in cts):  # a walk over plain arrays
            parts = [_plain_value(part) for part in parts]
        return parts

    op = define_op(
        op_type, kernel=_not_callable, infer=_not_callable, n_inputs=len(inputs),
        n_outputs=len(outputs), joint_vjp=run_backward, accepts_none=accepts_none, register=False,
    )  # fmt: skip
    specs = tuple([(out.shape, out.dtype) for out in outputs])
    for out, pick in zip(outputs, record_joint(op, (), parents, (), specs, tapes), strict=True):
        if out.dtype.kind in "fcV":
            out._node = pick


def _listed(parts: Any) -> list[Any]:
    return list(parts) if isinstance(parts, list | tuple) else [parts]


def _plain_value(part: Any) -> Any:
    """The array of a tensor, unless something that records now may know its history."""
    if type(part) is not Tensor or (part._node is not None and STATE.active is not None):
        return part
    return part._value


def _not_callable(*_: Any) -> NoReturn:
    raise TapeError("record_operation: what was recorded has a gradient but cannot run again")


class GradientTape(Tape):
    """Records ops in a `with` block, to compute gradients of what the block computed.

    Parameters
    ----------
    persistent : bool
        Whether `gradient` can be called more than once. The records are then kept until the tape is
        dropped.
    watch_accessed_variables : bool
        Whether reading a trainable Variable watches it.

    Examples
    --------
    >>> import tapeline as tl
    >>> x = tl.asarray(3.0)
    >>> with tl.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x)
    tl.Tensor(6., shape=(), dtype=float64)
    """

    __slots__ = ()

    def __enter__(self) -> GradientTape:
        self._is_ended = False
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_recording:
            self.stop()
        elif self._is_ended:
            self._is_ended = False
        else:
            self.stop()  # raises

    def watch(self, tensor: Any) -> None:
        """Record what is computed from a tensor or Variable, or from all in a structure.

        Parameters
        ----------
        tensor : Tensor, Variable or structure of them
            Of a float or complex dtype; others warn once and record nothing.

        Raises
        ------
        ArgumentError
            (a ValueError) if something else is among them.
        TapeError
            (a RuntimeError) if the tape was not entered yet, or was used.
        """
        if type(tensor) is Tensor:
            self.watch_tensor(tensor)
        elif tensor is None:
            watch(self, tensor)  # it says what is wrong
        else:
            for leaf in nest.flatten(tensor):
                watch(self, leaf)

    def watched_variables(self) -> tuple[Any, ...]:
        """The watched variables in the order in which they were created."""
        return self.list_variables()

    def reset(self) -> None:
        """Forget everything recorded and watched so far."""
        self.forget()

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A block that this tape does not record; other tapes do."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Unconnected = "none",
        sparse: bool = False,
    ) -> Any:
        """The gradient of the sum of the targets with respect to each source.

        Parameters
        ----------
        target : Tensor or structure of them
            What the block computed.
        sources : Tensor, Variable or structure of them
            A tensor names the value it had when it was watched, a Variable all its values.
        output_gradients : structure, optional
            One cotangent, or None for ones, per target.
        unconnected_gradients : "none" or "zero"
            What stands for the gradient of a source that no target depends on.
        sparse : bool
            Whether the gradient of a source that only rows were taken from, such as a table of
            embeddings, comes as `IndexedSlices`.

        Returns
        -------
        Tensor, None or structure of them
            The structure of `sources`.

        Raises
        ------
        TapeError
            (a RuntimeError) at the second call, unless the tape is persistent.
        """
        is_plain = (
            type(target) is Tensor
            and output_gradients is None
            and unconnected_gradients == "none"
            and not sparse
        )
        if is_plain and type(sources) is Tensor:
            return GRADIENT_OF[0](self, target, (sources,))[0]
        flat_sources = _flat_tensors("sources", sources)
        if is_plain:
            found = GRADIENT_OF[0](self, target, flat_sources)
        else:
            flat_targets = [target] if type(target) is Tensor else _flat_tensors("target", target)
            cotangents = None
            if output_gradients is not None:
                cotangents = _flat_cotangents(target, output_gradients)
            found = imperative_grad(
                TENSOR_SPACE,
                self,
                flat_targets,
                flat_sources,
                cotangents,
                unconnected_gradients,
                sparse,
            )
        if flat_sources is sources:
            return found if type(sources) is list else tuple(found)
        return found[0] if type(sources) is Tensor else nest.unflatten(sources, found)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Unconnected = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """All derivatives of the target with respect to each source.

        Parameters
        ----------
        target : Tensor
            What the block computed.
        sources : Tensor, Variable or structure of them
            As for `gradient`.
        unconnected_gradients : "none" or "zero"
            What stands for the Jacobian by a source that the target does not depend on.
        parallel_iterations, experimental_use_pfor
            Taken from programs written for TensorFlow. As there, a tape must be persistent where
            the former is given, or the latter is false outside of compiled functions.

        Returns
        -------
        Tensor, None or structure of them
            The structure of `sources`; each of shape `target.shape + source.shape`.

        Raises
        ------
        TapeError
            (a RuntimeError) if the tape was used already and is not persistent.

        Examples
        --------
        >>> import tapeline as tl
        >>> x = tl.asarray([1.0, 2.0])
        >>> with tl.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy()
        array([[2., 0.],
               [0., 4.]])
        """
        self._require_persistence(parallel_iterations, experimental_use_pfor)
        flat = _flat_tensors("sources", sources)
        found = tape_jacobian(self, as_tensor(target), flat, unconnected_gradients)
        return nest.unflatten(sources, found)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Unconnected = "zero",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """All derivatives of each row of the target with respect to the same row of the source.

        Rows must not depend on other rows; nobody checks that.

        Parameters
        ----------
        target : Tensor, shape (n, ...)
            What the block computed.
        source : Tensor or Variable, shape (n, ...)
            As for `gradient`.
        unconnected_gradients : "none" or "zero"
            What stands for the result if the target does not depend on the source.
        parallel_iterations, experimental_use_pfor
            As for `jacobian`.

        Returns
        -------
        Tensor, shape (n,) + target.shape[1:] + source.shape[1:], or None

        Raises
        ------
        ShapeError
            (a ValueError) if one has less than two dimensions, or their first extents differ.
        TapeError
            (a RuntimeError) if the tape was used already and is not persistent.
        """
        self._require_persistence(parallel_iterations, experimental_use_pfor)
        return tape_batch_jacobian(self, as_tensor(target), source, unconnected_gradients)

    def _require_persistence(self, parallel_iterations: int | None, is_vectorized: bool) -> None:
        self._require("jacobian")
        if parallel_iterations is not None and not self.persistent:
            raise TapeError(
                "jacobian: GradientTape must be created with persistent=True for "
                "parallel_iterations"
            )
        if not is_vectorized and not self.persistent and STATE.handler is None:
            raise TapeError(
                "jacobian: experimental_use_pfor=False needs GradientTape(persistent=True)"
            )

    def export(self) -> list[TapeEntry]:
        """What the tape holds now, oldest first: each op with its inputs and what it keeps."""
        return self.list_entries()


def _flat_tensors(argument: str, structure: Any) -> Sequence[Any]:
    """The leaves of a structure of tensors and Variables; a plain row of tensors is returned as it
    is."""
    kind = type(structure)
    if kind is Tensor:
        return [structure]
    if structure is None:
        raise ArgumentTypeError(
            f"gradient: {argument} is None; pass a tensor, a Variable or a structure of them "
            "(does the function that made it return something?)"
        )
    if kind is list or kind is tuple:
        for leaf in structure:
            if type(leaf) is not Tensor:
                break
        else:
            return structure  # type: ignore[no-any-return]  # a list or tuple
    leaves = nest.flatten(structure)
    for leaf in leaves:
        if type(leaf) is not Tensor and not hasattr(leaf, "is_differentiable"):
            raise ArgumentTypeError(
                f"gradient: {argument} must be tensors or Variables, got {type(leaf).__name__}"
            )
    return leaves


def _flat_cotangents(target: Any, given: Any) -> list[Any]:
    """The given cotangents in the order of the leaves of `target`."""
    if nest.is_leaf(target):
        is_row = isinstance(given, list | tuple) and len(given) == 1
        if is_row and (given[0] is None or hasattr(given[0], "dtype")):
            return list(given)
    return _match_leaves(target, given)


def _match_leaves(target: Any, given: Any) -> list[Any]:
    if nest.is_leaf(target):
        return [given]
    if given is None:
        return [None] * len(nest.flatten(target))
    if isinstance(target, dict) and isinstance(given, dict) and target.keys() == given.keys():
        pairs = [(target[key], given[key]) for key in target]
    elif isinstance(given, list | tuple) and len(given) == len(nest.children(target)):
        pairs = list(zip(nest.children(target), given, strict=True))
    elif type(given) is type(target) and not isinstance(target, dict | list | tuple):
        pairs = list(zip(nest.children(target), nest.children(given), strict=True))
    else:
        raise ArgumentError(
            "gradient: output_gradients must have the structure of target, with None for ones; "
            f"{type(given).__name__} {given!r} stands where target has {type(target).__name__} of "
            f"{len(nest.children(target))}"
        )
    return [leaf for part, item in pairs for leaf in _match_leaves(part, item)]
