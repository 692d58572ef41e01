"""The exceptions users meet. Each derives from `TapelineError` and from the built-in kind.

Nothing here may import another part of the library.
"""


class TapelineError(Exception):
    """Base of every error that Tapeline raises on purpose."""


class ShapeError(TapelineError, ValueError):
    """Shapes that do not fit: `a (3, 4) @ b (5, 6)`. Reshape, or fix the argument named."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have; like NumPy's, a ValueError and an IndexError."""


class DTypeError(TapelineError, TypeError):
    """A dtype an op has no meaning for, such as `bitwise_and` of floats. Cast with `tl.astype`."""


class StateError(ShapeError, DTypeError):
    """What a loop carries changed its shape or dtype from one turn to the next; a ValueError and a
    TypeError. Cast or reshape it before the loop, or in the body."""


class ArgumentError(TapelineError, ValueError):
    """A value that an argument cannot take, such as an axis that the tensor does not have."""


class ArgumentTypeError(TapelineError, TypeError):
    """An argument of a kind that is not accepted, such as None where a tensor is expected."""


class SuspendingFunctionError(ArgumentTypeError, NotImplementedError):
    """A generator or a coroutine was to be compiled; a trace runs a function once, from start to
    end. Return a list or a tensor instead of yielding."""


class SignatureMismatchError(ShapeError, ArgumentError, ArgumentTypeError):
    """A trace of a function was called with arguments that it was not made for.

    Repair: call the function itself, which finds or makes the trace.
    """


class IndexOutOfRangeError(TapelineError, IndexError):
    """An index that lies outside its dimension."""


class TapeError(TapelineError, RuntimeError):
    """The tape cannot do this now: used twice without `persistent=True`, or no tape to pop.

    Mistake: two calls of `tape.gradient` on a tape made by `GradientTape()`.
    Repair: `GradientTape(persistent=True)`, or ask for all gradients in one call.
    """


class GradientError(TapelineError, LookupError):
    """An op on the way has no gradient rule, or a rule returned something that does not fit."""


class ForwardModeError(TapelineError, NotImplementedError):
    """A tangent was asked of what was recomputed by `tl.recompute_grad`, which like TensorFlow's
    has gradients only. `tl.checkpoint` has both."""


class GradientCheckError(TapelineError, AssertionError):
    """`tl.testing.check_gradients` found a derivative that differences of values contradict."""


class SymbolicTensorError(TapelineError, TypeError):
    """A symbolic tensor was used where its value is needed: `if x > 0:`, `float(x)`,
    `np.asarray(x)`.

    While a function is traced its tensors have a shape and a dtype but no values yet.
    Repair: `tl.where` instead of `if`; compute the Python value outside the function and pass it
    in.
    """


class LeakedTensorError(TapelineError, TypeError):
    """A symbolic tensor of one trace met outside of it, say through a global or an attribute.

    Repair: return the tensor from the traced function and use what the call returns.
    """


class TracingError(TapelineError, RuntimeError):
    """A function did something that a trace cannot hold."""


class IntOverflowError(TapelineError, OverflowError):
    """A Python int of a loop that is part of a graph grew beyond 64 bits.

    Repair: start the loop with a float, or with a tensor, whose ints wrap around.
    """


class DonatedTensorError(TapelineError, RuntimeError):
    """A tensor was used whose values were given to a compiled call, by `donate=`.

    Repair: use what the call returned, or pass a copy.
    """


class EndlessTraceError(TracingError, RecursionError):
    """A function calls itself without end while it is traced.

    Mistake: `if tl.sum(x) > 0: return f(x - 1)` in `f`: both branches are traced.
    Repair: let a Python number end the recursion, or use `tl.while_loop`.
    """


class MutatedArgumentError(TracingError, ValueError):
    """A function changed a list, dict or other container that it was called with.

    Repair: make a copy of the container, change that, and return it.
    """


class VariableCreationError(TracingError, ValueError):
    """A function makes a Variable in a way that a compiled call cannot repeat.

    Mistake: `v = tl.Variable(0.0)` in a function, at every call.
    Repair: make it outside, or once: `if self.v is None: self.v = tl.Variable(0.0)`.
    """


class DynamicShapeError(TracingError):
    """The shape of a tensor depends on values, which a trace does not have: a `TensorArray` that
    grows by as many elements as a tensor says.

    A compiled function that meets it while it is traced runs op by op from then on, but for loops
    that fill such arrays. Repair: give arrays their size beforehand.
    """


class ValueSizeError(TapelineError, TypeError):
    """Something that needs all sizes beforehand is asked of a trace in which sizes depend on
    values, as those of `x[mask]` do.

    Repair: ask a part of it, one of `concrete.stages`; or keep the size, with
    `tl.where(mask, x, 0)`.
    """


class LoopLimitError(TapelineError, RuntimeError):
    """A loop made more turns than `maximum_iterations=` says, or than there is room to remember for
    its gradient.

    Repair: a larger `maximum_iterations=`.
    """

    room: int | None = None
    """For how many turns there was room, where more room could be made."""


class RetraceError(TapelineError, RuntimeError):
    """A function would be traced where `tl.no_retrace()` forbids it.

    Mistake: a call with a new shape in a loop that was meant to be warm.
    Repair: the one that the message names, or a call with that signature before the block.
    """


class PathError(TracingError, TypeError, ValueError):
    """A variable or a result has values of different kinds on two paths, and a tensor decides
    which path runs; or it does not keep its type from round to round of a loop.

    Mistake: `y = x if x.sum() > 0 else None`.
    Repair: give both the same structure, shape and dtype.
    """


class UndefinedVariableError(TracingError, UnboundLocalError, ValueError):
    """A variable was used that has a value only on one path, and a tensor decides which path runs.

    Mistake: `if x.sum() > 0: y = x` and then `return y`.
    Repair: give the variable a value before the `if`, or in both branches.
    """


class GraphError(TapelineError, ValueError):
    """A graph that breaks a rule of `verify_graph`, or text that is no graph."""


class CheckError(TapelineError, AssertionError):
    """A check of `tl.Assert` or `tl.debugging.assert_...` does not hold for the values at hand."""


class NumericsError(TapelineError, ArithmeticError):
    """An op gave NaN or infinity though its inputs were finite, inside of
    `tl.debugging.check_numerics()`. Look at the line and the inputs that the message names."""


class SavedFileError(TapelineError, ValueError):
    """A file that `tl.load` cannot read: damaged, of a newer version, or of another program."""


class ExportError(TapelineError, ValueError):
    """A graph that another format cannot express; the message names the op and its line."""


class MissingPackageError(TapelineError, ImportError):
    """An optional package that is not installed; the message says which, and how to get it."""


class VerificationError(TapelineError, AssertionError):
    """Compiled code gave other numbers than NumPy, inside of `tl.debugging.verify()`: a defect of
    Tapeline. Please report the message and `reproduction`."""

    reproduction: str = ""
    """A Python program that shows the difference."""


class TracingWarning(UserWarning):
    """A traced function did something that happens once a trace, where its code reads as if it
    happened at each call: it changed state of Python, or drew numbers with NumPy's generators. Or
    it read a container of which changes cannot all be told."""


class ViewWriteWarning(UserWarning):
    """A part of a tensor, such as `row = x[0]`, was written to while the tensor it was taken from
    is still in use: that one stays as it is, where NumPy would write through to it."""
