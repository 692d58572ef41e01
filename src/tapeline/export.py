"""Taking functions elsewhere: into files that run without their source."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tapeline.compiler.function import Function

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.export.aot.build import AotLibrary
    from tapeline.compiler.export.onnx.export import OnnxModel
    from tapeline.compiler.saved.reader import LoadedFunction

__all__ = ["aot", "load", "onnx", "save"]


def save(
    function: "Function[..., Any] | ConcreteFunction",
    path: str | os.PathLike[str],
    signatures: Iterable[Sequence[Any] | dict[str, Any]] | None = None,
) -> None:
    """Writes a function into one file, with its Variables and the arrays that it uses.

    `load` reads it in any process, without the source. The file is a zip archive of JSON and NumPy
    arrays; its format is versioned, see docs/formats.md.

    Parameters
    ----------
    function : Function or ConcreteFunction
        Made by `tl.function`, or one trace of such.
    path : str or path
        Where to; an existing file is replaced.
    signatures : list of tuples or dicts, optional
        What it will be called with: positional arguments as a tuple, or arguments by name as a
        dict, with a `TensorSpec` in the place of each tensor. By default all signatures that it was
        traced for.

    Raises
    ------
    ArgumentError
        If there is no trace to save.
    ArgumentTypeError, GraphError
        If it uses something that a file cannot hold; the message says what and where.

    Examples
    --------
    >>> import os, tempfile
    >>> import tapeline as tl
    >>> w = tl.Variable([1.0, 2.0], name="w")
    >>> @tl.function
    ... def scaled(x, factor=2.0):
    ...     return x * w * factor
    >>> path = os.path.join(tempfile.mkdtemp(), "scaled.tapeline")
    >>> tl.export.save(scaled, path, signatures=[(tl.TensorSpec([2], "float64"),)])
    >>> loaded = tl.load(path)
    >>> loaded(tl.asarray([3.0, 4.0]))
    tl.Tensor([ 6. 16.], shape=(2,), dtype=float64)
    >>> loaded.variables
    (tl.Variable([1. 2.], shape=(2,), dtype=float64, name='w'),)
    """
    from tapeline.compiler.saved.writer import save_function  # loads the compiler

    save_function(function, path, signatures)


def onnx(
    function: Function[..., Any],
    path: str | os.PathLike[str],
    signature: Sequence[Any] | dict[str, Any] | None = None,
    *,
    grad: bool = False,
) -> "OnnxModel":
    """Writes a function as an ONNX model, which other runtimes load.

    Arguments become inputs of the same names. Variables and captured tensors become initializers
    with the values of now; a Variable that the function assigns is an input that may be left out,
    and an output `new_<name>`. Control flow becomes If, Loop and Scan. Sizes that the
    signature leaves open are dynamic axes. Needs the package onnx: `pip install 'tapeline[onnx]'`.

    Parameters
    ----------
    function : Function or ConcreteFunction
        Made by `tl.function`, or one trace of such.
    path : str or path
        Where to; an existing file is replaced.
    signature : tuple or dict, optional
        What it will be called with: positional arguments as a tuple, or arguments by name as a
        dict, with a `TensorSpec` in the place of each tensor. It may be left out where the function
        has been traced once.
    grad : bool
        Write the gradient instead: the model takes the inputs and a cotangent for each result, and
        gives the gradients of all inputs and Variables.

    Returns
    -------
    OnnxModel
        With the names and specs of `inputs` and `outputs`, and `notes` on what ONNX leaves out.

    Raises
    ------
    ExportError
        If ONNX cannot express something: the message names each op and its line.
    ArgumentError
        If no trace, or more than one, is there to choose from.
    MissingPackageError
        If the package onnx is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: tl.sum(x * x))
    >>> path = os.path.join(tempfile.mkdtemp(), "f.onnx")
    >>> model = tl.export.onnx(f, path, (tl.TensorSpec([3], "float32"),))
    >>> model.inputs, model.outputs
    ({'x': TensorSpec((3,), float32)}, {'result': TensorSpec((), float32)})
    """
    from tapeline.compiler.export.onnx.export import export_onnx  # loads onnx
    from tapeline.compiler.export.signature import one_trace

    return export_onnx(one_trace("onnx", function, signature), path, grad)


def aot(
    function: Function[..., Any],
    directory: str | os.PathLike[str],
    signature: Sequence[Any] | dict[str, Any] | None = None,
    *,
    targets: Sequence[str] = ("host",),
    grad: bool = True,
    name: str | None = None,
    blas: bool = False,
) -> "AotLibrary":
    """Compiles a function into object files that C programs call, without Python.

    The folder gets an object file per target, a header with shapes, dtypes and sizes, an example in
    C, a CMake file, and a shared library where a C compiler is found. The C function takes a
    pointer per argument, Variable and result, and one to memory to work in; it allocates nothing.
    Variables are arguments, whose present values the object holds; captured tensors are inside.
    Matrix products are emitted, so no BLAS is needed; with `blas` they call one. Sizes are fixed:
    export once, under another name, for each that you need.

    Parameters
    ----------
    function : Function
        Made by `tl.function`.
    directory : str or path
        Where to; it is made if it does not exist.
    signature : tuple or dict, optional
        Which trace, as for `tl.export.onnx`.
    targets : sequence of str
        "host" is this machine with all that its processor can do; "x86-64", "x86-64-v2",
        "x86-64-v3" and "x86-64-v4" are this system on any processor of that level;
        "aarch64-linux", "aarch64-macos", "riscv64-linux", "x86-64-macos" and "x86-64-windows" are
        others.
    grad : bool
        Also write `<name>_gradient`, which takes the inputs and a cotangent per float result and
        gives the gradients of all float arguments and Variables.
    name : str, optional
        What the C function is called; by default as the function.
    blas : bool
        Let matrix products that are not small call CBLAS (`cblas_dgemm` and its kin, with ints of
        32 bits). The program is then to be linked with one, such as OpenBLAS.

    Returns
    -------
    AotLibrary
        The files, C declarations, parameters and sizes.

    Raises
    ------
    ExportError
        If the function does something that has no native form: each is named with its line. Also
        if the signature leaves sizes open.
    ArgumentError
        If there is no such target, or nothing says which trace is meant.

    Examples
    --------
    >>> import tempfile
    >>> import tapeline as tl
    >>> f = tl.function(name="total")(lambda x: tl.sum(tl.tanh(x)))
    >>> made = tl.export.aot(f, tempfile.mkdtemp(), (tl.TensorSpec([8], "float32"),))
    >>> print(made.prototypes[0])
    int64_t total(const float *x, float *result, void *workspace)
    """
    from tapeline.compiler.export.aot.build import export_aot  # loads the compiler
    from tapeline.compiler.export.signature import one_trace

    concrete = one_trace("aot", function, signature)
    return export_aot(concrete, directory, targets, grad, name, blas)


def load(path: str | os.PathLike[str]) -> "LoadedFunction":
    """The function that `tl.export.save` wrote into a file.

    It is called by position and by name as before, is differentiable, and has Variables of its own:
    `variables`. For arguments that were not saved it raises an error that lists those that were.

    Parameters
    ----------
    path : str or path
        Nothing in the file is executed as Python; a damaged or hostile one is refused.

    Returns
    -------
    callable
        The saved function, object or structure.

    Raises
    ------
    SavedFileError
        If the file is damaged, of a newer version, or something else.
    FileNotFoundError
        If there is none.

    Examples
    --------
    >>> import os, tempfile
    >>> import tapeline as tl
    >>> f = tl.function(lambda x: x * 2)
    >>> y = f(tl.asarray([1.0]))
    >>> path = os.path.join(tempfile.mkdtemp(), "f.tapeline")
    >>> tl.export.save(f, path)
    >>> tl.load(path)(tl.asarray([4.0]))
    tl.Tensor([8.], shape=(1,), dtype=float64)
    """
    from tapeline.compiler.saved.reader import load_function  # loads the compiler

    return load_function(path)
