"""The table of all ops, read from their records: `docs/ops.md` is what this prints.

python -m tapeline.compiler.inspect.op_table > docs/ops.md
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from tapeline.runtime.op import (
    Assembly,
    Expansion,
    IndexMap,
    LibraryCall,
    Op,
    Pointwise,
    Reduction,
    Trait,
    registered_ops,
)
from tapeline.runtime.spec import TensorSpec

HOST_CALL = "NumPy call"

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}

_HEAD = """# The ops

Generated from the op records by `python -m tapeline.compiler.inspect.op_table`; a test compares.
Public functions use these ops, often several of them; `tl.<name>` says how.

- **Gradient**: "yes"; "of" some inputs, where the others have none; "none" where results do not
  vary smoothly, or not with anything that has a gradient.
- **Compiled**: how the op runs in a compiled function. "fused" is a part of a loop nest with
  its neighbours, "view" costs nothing or a copy, "routine" is native code of its own, "simpler ops"
  is a composition that is taken apart and compiled, and "NumPy call" runs the NumPy kernel in
  between. Fused ops take complex elements as pairs of floats and floats of 16 bits as float32,
  except that NumPy calls serve complex elements of
  {numpy}.
  NumPy also sorts wide ints along axes of more than 128 elements, which it does faster.
- **vmap**: "rule" where a batched op does the work of all examples at once; "simpler ops" where
  that holds for its parts; "one by one" where it runs once per example; "error" for effects, and
  where the size of the result depends on values.
"""


def compiled_form(op: Op) -> str:
    """How an op runs in a compiled function."""
    match op.lowering:
        case Pointwise() | Reduction():
            return "fused"
        case IndexMap() | Assembly():
            return "view" if isinstance(op.lowering, IndexMap) else "copies"
        case LibraryCall():
            return "routine"
        case Expansion():
            return "simpler ops"
        case _:
            return HOST_CALL


def gradient_form(op: Op) -> str:
    """Which inputs of an op have a gradient."""
    if op.joint_vjp is not None or (op.vjps and all(op.vjps)):
        return "yes"
    given = [str(number + 1) for number, rule in enumerate(op.vjps) if rule is not None]
    return f"of input {', '.join(given)}" if given else "none"


def vmap_form(op: Op) -> str:
    """How an op runs under `tl.vmap`."""
    if op.has(Trait.EFFECT) or op.has(Trait.SIZED):
        return "error"
    if op.batch is not None or op.has(Trait.ELEMENTWISE):
        return "rule"
    return "simpler ops" if isinstance(op.lowering, Expansion) else "one by one"


@cache
def _sources() -> tuple[tuple[str, str], ...]:
    """Name and text of each op file."""
    package = importlib.import_module("tapeline.runtime.ops")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return tuple(
        (name, inspect.getsource(module)) for name, module in zip(names, modules, strict=True)
    )


def op_file(op: Op) -> str:
    """The file in `runtime/ops` that holds an op's block; empty for ops of the compiler."""
    pattern = re.compile(rf'define\w*\(\s*"{op.name}"')
    return next((name for name, text in _sources() if pattern.search(text)), "")


def _row(op: Op) -> str:
    kinds = ", ".join(_KINDS[kind] for kind in op.kinds)
    inputs = "any" if op.n_inputs is None else str(op.n_inputs)
    attributes = ", ".join(op.attr_names)
    cells = (
        f"`{op.name}`", inputs, attributes, kinds, gradient_form(op), compiled_form(op),
        vmap_form(op),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def op_table() -> str:
    """The whole page, in Markdown."""
    return "\n".join(_lines())


def complex_numpy_calls(ops: Sequence[Op]) -> list[str]:
    """The ops that are fused, but not where elements are complex."""
    from tapeline.compiler.codegen.words import has_words  # codegen loads when it is used

    dtype = np.dtype(np.complex128)
    found = []
    for op in ops:
        if "c" not in op.kinds:
            continue
        if isinstance(op.lowering, Reduction) and op.lowering.kind == "prod":
            found.append(op.name)
        elif isinstance(op.lowering, Pointwise) and not op.attr_names and op.n_inputs in (1, 2):
            given = (dtype,) * op.n_inputs
            result = op.infer(*[TensorSpec((), one) for one in given])
            assert isinstance(result, TensorSpec)
            if not has_words(op, (), given, result.dtype):
                found.append(op.name)
    return found


def _lines() -> Iterator[str]:
    ops = [op for op in registered_ops() if op_file(op)]
    *most, last = [f"`{name}`" for name in complex_numpy_calls(ops)]
    yield _HEAD.format(numpy=f"{', '.join(most)} and {last}")
    yield "## Counts"
    yield ""
    yield "| | ops |"
    yield "| --- | --- |"
    yield f"| all | {len(ops)} |"
    differentiable = sum(gradient_form(op) != "none" for op in ops)
    yield f"| with a gradient | {differentiable} |"
    for form in ("fused", "view", "copies", "routine", "simpler ops", HOST_CALL):
        yield f"| compiled: {form} | {sum(compiled_form(op) == form for op in ops)} |"
    batched = sum(vmap_form(op) in ("rule", "simpler ops") for op in ops)
    yield f"| all examples at once under vmap | {batched} |"
    files: dict[str, list[Op]] = {}
    for op in ops:
        files.setdefault(op_file(op), []).append(op)
    for name in sorted(files):
        yield ""
        yield f"## {name}"
        yield ""
        yield "| op | inputs | attributes | dtypes | gradient | compiled | vmap |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for op in files[name]:
            yield _row(op)
    yield ""


if __name__ == "__main__":
    print(op_table(), end="")
