"""The gradient tape of programs: a `with` block that is recorded, and the gradients asked of it.

The records themselves hang on values (see `record`); a tape holds none of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tapeline.runtime import nest
from tapeline.runtime.backprop import GRADIENT_OF, Unconnected, imperative_grad
from tapeline.runtime.dispatch import STATE
from tapeline.runtime.errors import ArgumentError, ArgumentTypeError, TapeError
from tapeline.runtime.jacobian import tape_batch_jacobian, tape_jacobian
from tapeline.runtime.recorder import Tape, TapeEntry
from tapeline.runtime.tape import watch
from tapeline.runtime.tensor import Tensor, as_tensor
from tapeline.runtime.walk import TENSOR_SPACE


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

        Warns
        -----
        UserWarning
            If a source or all targets are not of a float or complex dtype, and so have no gradient.
        """
        is_plain = (
            type(target) is Tensor
            and output_gradients is None
            and unconnected_gradients == "none"
            and not sparse
        )
        if is_plain and type(sources) is Tensor:
            part = GRADIENT_OF[0](self, target, (sources,))[0]
            if part is None:
                _explain_none((target,), (sources,), (part,))
            return part
        flat_sources = _flat_tensors("sources", sources)
        flat_targets = [target] if type(target) is Tensor else _flat_tensors("target", target)
        if is_plain:
            found = GRADIENT_OF[0](self, target, flat_sources)
        else:
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
        for part in found:
            if part is None:
                _explain_none(flat_targets, flat_sources, found)
                break
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
        ArgumentTypeError
            (a TypeError) if the source is not one tensor or Variable.
        ShapeError
            (a ValueError) if one has less than two dimensions, or their first extents differ.
        TapeError
            (a RuntimeError) if the tape was used already and is not persistent.
        """
        self._require_persistence(parallel_iterations, experimental_use_pfor)
        if type(source) is not Tensor and not hasattr(source, "is_differentiable"):
            raise ArgumentTypeError(
                f"batch_jacobian: source must be one tensor or Variable, got "
                f"{type(source).__name__}; ask for one at a time"
            )
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


def _explain_none(targets: Sequence[Any], sources: Sequence[Any], found: Sequence[Any]) -> None:
    """Warn where the dtype is why there is no gradient."""
    kinds = {target.dtype.name for target in targets if target.dtype.kind not in "fcV"}
    if targets and all(target.dtype.kind not in "fcV" for target in targets):
        what = "the target is" if len(targets) == 1 else "all targets are"
        advice = "differentiate what was computed before it became one"
    else:
        pairs = zip(sources, found, strict=True)
        ints = [source for source, part in pairs if part is None]
        kinds = {source.dtype.name for source in ints if source.dtype.kind not in "fcV"}
        what, advice = (
            "a source is",
            "make it one of floats with x.astype(tl.float64), and watch it",
        )
    if kinds:
        warnings.warn(
            f"gradient: {what} of dtype {', '.join(sorted(kinds))}, which has no gradient, so None "
            f"stands for it; {advice}",
            stacklevel=3,
        )


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
