"""What all optimizers share: the learning rate, the step, and the slots beside the variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tapeline.runtime import nest
from tapeline.runtime.dispatch import push_handler
from tapeline.runtime.errors import ArgumentError, ShapeError
from tapeline.runtime.indexed_slices import IndexedSlices
from tapeline.runtime.ops.pointwise import apply
from tapeline.runtime.ops.powers import POWER
from tapeline.runtime.optimizers.clipping import clip_by_global_norm
from tapeline.runtime.optimizers.rows import update_rows
from tapeline.runtime.spec import DType
from tapeline.runtime.tape import stop_recording
from tapeline.runtime.tensor import Tensor, TensorLike, as_tensor, cast_tensor, new_tensor
from tapeline.runtime.variable import Variable

Schedule: TypeAlias = Callable[[Tensor], TensorLike]
LearningRate: TypeAlias = float | Variable | Schedule


class Slot(Protocol):
    """What is kept beside a variable: a Variable, or rows of one."""

    def read_value(self) -> Tensor: ...
    def assign(self, value: Tensor, /) -> object: ...


Slots: TypeAlias = Mapping[str, Slot]

_FLOAT64 = np.dtype(np.float64)


class Optimizer:
    """Updates variables by gradients. Subclasses say how, in `_update`.

    All state is in Variables, so `apply` works in compiled functions too. The Variables beside the
    parameters, the slots, are made by `build`, or when a parameter is first updated.

    Parameters
    ----------
    learning_rate : float, Variable or callable
        A number is kept in a Variable, so that compiled functions see it change. A callable takes
        the number of steps done, a 0-d tensor of int64, and gives the rate; see the schedules of
        `tl.optimizers`.
    clip_norm : float, optional
        Scale the gradients down where the norm of them all is larger.
    takes_rows : bool
        Whether a sparse gradient (`IndexedSlices`) changes only the rows that it names, of the
        variable and of what is kept beside it; otherwise it is made dense.
    slot_names : tuple of str
        What a subclass keeps beside each variable.

    Attributes
    ----------
    step : Variable of int64
        How many times `apply` has run.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        clip_norm: float | None = None,
        slot_names: tuple[str, ...] = (),
        takes_rows: bool = True,
    ) -> None:
        self.slot_names = slot_names
        self.takes_rows = takes_rows
        if callable(learning_rate) or isinstance(learning_rate, Variable):
            self._learning_rate: Any = learning_rate
        else:
            self._learning_rate = Variable(
                float(learning_rate), trainable=False, name="learning_rate"
            )
        if clip_norm is not None and not clip_norm > 0:
            raise ArgumentError(f"{self._name()}: clip_norm must be above 0, got {clip_norm}")
        self.clip_norm = clip_norm
        self.step = Variable(0, trainable=False, name="step")
        self._slots: dict[Variable, dict[str, Variable]] = {}

    def _name(self) -> str:
        return type(self).__name__

    @property
    def learning_rate(self) -> Any:
        """The Variable that holds the rate, or the schedule. A number may be assigned."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if not isinstance(self._learning_rate, Variable):
            raise ArgumentError(f"{self._name()}: the learning rate follows a schedule")
        self._learning_rate.assign(float(rate))

    # Updating

    def build(self, variables: Any) -> None:
        """Make the slots of the variables (any structure of them) that have none yet."""
        for variable in nest.flatten(variables):
            if not isinstance(variable, Variable):
                raise ArgumentError(
                    f"{self._name()}: expected Variables, got {type(variable).__name__}"
                )
            if variable not in self._slots:
                with push_handler(None):  # a trace keeps them as Variables of outside
                    self._slots[variable] = self._new_slots(variable)

    def _new_slots(self, variable: Variable) -> dict[str, Variable]:
        return {
            name: Variable(
                self._initial(name, variable), False, f"{variable.name or 'variable'}/{name}"
            )
            for name in self.slot_names
        }

    def _initial(self, name: str, variable: Variable) -> npt.NDArray[Any]:
        """What a slot holds at first."""
        return np.zeros(variable.shape, variable.dtype)

    def apply(self, gradients: Any, variables: Any) -> None:
        """Update the variables by the gradients of a loss.

        Parameters
        ----------
        gradients : structure of Tensor, IndexedSlices or None
            One per variable, as a tape gives them; variables without a gradient stay as they are.
        variables : structure of Variable
            The same structure.

        Raises
        ------
        ArgumentError
            If the structures differ, or there is no gradient at all.
        """
        pairs = _pairs(gradients, variables)
        self.build([variable for _, variable in pairs])
        chosen = [(self._taken(g), variable) for g, variable in pairs if g is not None]
        if not chosen:
            raise ArgumentError(f"{self._name()}: there is no gradient for any variable")
        with stop_recording():
            given = [gradient for gradient, _ in chosen]
            if self.clip_norm is not None:
                given = clip_by_global_norm(given, self.clip_norm)[0]
            rate = self._rate()
            turn = cast_tensor(self.step.read_value() + 1, _FLOAT64)
            for gradient, (_, variable) in zip(given, chosen, strict=True):
                self._check(gradient, variable)
                dtype = variable.dtype
                change = Step(cast_tensor(rate, dtype), turn, dtype)
                slots = self._slots[variable]
                if type(gradient) is IndexedSlices:
                    rows = gradient.with_values(cast_tensor(gradient.values, dtype))
                    self._update_rows(rows, variable, slots, change)
                    continue
                value = variable.read_value()
                variable.assign(self._update(cast_tensor(gradient, dtype), value, slots, change))
            self.step.assign_add(1)

    def apply_gradients(self, pairs: Iterable[tuple[Any, Variable]]) -> None:
        """`apply` for pairs of a gradient and its variable."""
        listed = list(pairs)
        self.apply([gradient for gradient, _ in listed], [variable for _, variable in listed])

    def _rate(self) -> Tensor:
        rate = self._learning_rate
        if isinstance(rate, Variable):
            return rate.read_value()
        return as_tensor(rate(self.step.read_value()), argument="learning_rate")

    def _taken(self, gradient: Any) -> Any:
        """A gradient as a tensor, or as rows where those do."""
        is_sparse = type(gradient) is IndexedSlices and self.takes_rows
        return gradient if is_sparse else as_tensor(gradient)

    def _update_rows(
        self, rows: IndexedSlices, variable: Variable, slots: dict[str, Variable], step: Step
    ) -> None:
        """Update the rows of a variable that a sparse gradient names."""
        update_rows(
            rows, variable, slots, lambda rows, value, own: self._update(rows, value, own, step)
        )

    def _check(self, gradient: Any, variable: Variable) -> None:
        if gradient.shape != variable.shape:
            raise ShapeError(
                f"{self._name()}: a gradient has shape {gradient.shape}, its variable "
                f"{f'{variable.name!r} ' if variable.name else ''}has shape {variable.shape}; they "
                "must be equal"
            )

    def _update(self, gradient: Tensor, value: Tensor, slots: Slots, step: Step) -> Tensor:
        """The new value of a variable; assigns the slots."""
        raise NotImplementedError

    # Saving

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The step, the learning rate unless it follows a schedule, and all slots, as arrays by
        name; the variables count in the order in which they were first updated."""
        found = {"step": self.step.numpy()}
        if isinstance(self._learning_rate, Variable):
            found["learning_rate"] = self._learning_rate.numpy()
        for index, slots in enumerate(self._slots.values()):
            for name, slot in slots.items():
                found[f"{index}/{name}"] = slot.numpy()
        return found

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a state that `state` gave; `build` must have seen the variables, in the same
        order.

        Raises
        ------
        ArgumentError
            If the state has other slots.
        """
        present = self.state()
        if present.keys() != state.keys():
            different = ", ".join(sorted(present.keys() ^ state.keys()))
            raise ArgumentError(
                f"{self._name()}: the state does not fit, only one side has {different}; call "
                f"build(variables) first"
            )
        self.step.assign(np.asarray(state["step"]))
        if "learning_rate" in state:
            self._learning_rate.assign(np.asarray(state["learning_rate"]))
        for index, slots in enumerate(self._slots.values()):
            for name, slot in slots.items():
                slot.assign(np.asarray(state[f"{index}/{name}"]))


class Step:
    """What an update needs besides gradient, value and slots."""

    __slots__ = ("_turn", "dtype", "rate")

    def __init__(self, rate: Tensor, turn: Tensor, dtype: DType) -> None:
        self.rate = rate
        self._turn = turn
        self.dtype = dtype

    def correction(self, decay: float) -> Tensor:
        """1 - decay ** turn: what part of a decaying mean that began at 0 is filled."""
        base = new_tensor(np.asarray(decay, _FLOAT64))
        return cast_tensor(1.0 - apply(POWER, base, self._turn), self.dtype)


def _pairs(gradients: Any, variables: Any) -> list[tuple[Any, Any]]:
    """Gradients and variables side by side; None stands for no gradient anywhere below."""
    if nest.is_leaf(variables):
        return [(gradients, variables)]
    below = nest.children(variables)
    if gradients is None:
        parts: list[Any] = [None] * len(below)
    elif nest.is_leaf(gradients) or len(nest.children(gradients)) != len(below):
        raise ArgumentError(
            "apply: gradients and variables must have the same structure; got "
            f"{type(gradients).__name__} for {type(variables).__name__} of {len(below)}"
        )
    else:
        parts = nest.children(gradients)
    return [pair for g, v in zip(parts, below, strict=True) for pair in _pairs(g, v)]
