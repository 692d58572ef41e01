"""What the commands of the command line do: each gives a report that is printed as text or JSON."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from tapeline import __version__
from tapeline.export import load
from tapeline.runtime import nest
from tapeline.runtime.tensor import Tensor

if TYPE_CHECKING:
    from tapeline.compiler.concrete import ConcreteFunction
    from tapeline.compiler.inspect.profile import KernelTime

Report = dict[str, Any]


def say(text: str) -> None:
    """Tells somebody who waits at a terminal what is under way."""
    if sys.stderr.isatty():
        print(f"tapeline: {text} ...", file=sys.stderr, flush=True)


# ---- inspect


def inspect_file(options: argparse.Namespace) -> Report:
    """Signatures, Variables and graphs of a file."""
    function = load(options.file)
    traces = []
    for concrete in function.concrete_functions:
        trace: Report = {
            "takes": dict(map(_name_and_value, concrete.forms.describe())),
            "gives": repr(concrete).rpartition(" -> ")[2].removesuffix(">"),
            "summary": concrete.graph.summary(),
        }
        if options.kernels:
            say(f"compiling {concrete.name}")
            trace["kernels"] = str(concrete.kernels())
            trace["cost"] = str(concrete.cost())
        if options.graph:
            trace["graph"] = str(concrete.graph)
        traces.append(trace)
    variables = {
        variable.name or f"variable {k}": f"{variable.dtype}{list(variable.shape)}"
        for k, variable in enumerate(function.variables)
    }
    about = {"about": function.__doc__} if function.__doc__ else {}
    return {"function": function.__name__, **about, "variables": variables, "traces": traces}


def _name_and_value(text: str) -> tuple[str, str]:
    """An argument as it is described: `x: float64[3]`, or `k = 2`."""
    found = min((mark for mark in (": ", " = ") if mark in text), key=text.index, default=": ")
    name, _, value = text.partition(found)
    return name, value


# ---- run


def run_file(options: argparse.Namespace) -> Report:
    """The results of a call, as text, and in a file if asked."""
    function = load(options.file)
    given = {}
    for text in options.input:
        name, separator, value = text.partition("=")
        if not separator:
            raise SystemExit(f"tapeline run: --input must be NAME=FILE, got {text!r}")
        given[name] = _read_input(value)
    _check_names(function, given)
    say(f"running {function.__name__}")
    result = function(**given)
    leaves = [leaf.numpy() for leaf in nest.flatten(result) if type(leaf) is Tensor]
    report: Report = {"function": function.__name__}
    if options.output:
        np.savez(options.output, *leaves)
        path = options.output if options.output.endswith(".npz") else f"{options.output}.npz"
        report["written"] = {path: f"{os.path.getsize(path)} bytes"}
    if options.json:
        return report | {"results": list(map(_described, leaves))}
    shown = {f"result {k}": np.array2string(leaf, threshold=20) for k, leaf in enumerate(leaves)}
    return report | shown


def _check_names(function: Any, given: Report) -> None:
    """Ends the command where an input is none of the function's."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for name in given:
        if name not in parameters and not takes_any:
            known = ", ".join(parameters) or "nothing"
            raise SystemExit(
                f"tapeline run: there is no input {name!r}; the function takes {known}"
            )


_MOST_VALUES = 10_000
"""Larger results are only described in JSON; `--output` has them."""


def _described(array: Any) -> Report:
    """An array as JSON: complex numbers as text, and numbers that JSON lacks, too."""
    found: Report = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size <= _MOST_VALUES:
        is_plain = array.dtype.kind in "biu" or bool(np.isfinite(array).all())
        is_plain = is_plain and array.dtype.kind != "c"
        found["values"] = (array if is_plain else array.astype(str)).tolist()
    return found


def _read_input(text: str) -> Any:
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    try:
        return json.loads(text)
    except ValueError:
        raise SystemExit(f"tapeline run: {text!r} is neither a .npy file nor a number") from None


# ---- export


def export_file(options: argparse.Namespace) -> Report:
    """The files that were written, with their sizes."""
    function = load(options.file)
    traces = function.concrete_functions
    if not 0 <= options.trace < len(traces):
        raise SystemExit(
            f"tapeline export: there is no trace {options.trace}; the file has {len(traces)}, "
            "counted from 0"
        )
    concrete = _for_sizes(traces[options.trace], options.sizes)
    makers: dict[str, Callable[[], str]] = {
        "html": concrete.to_html, "svg": concrete.graph.to_svg, "dot": concrete.graph.to_dot,
        "json": concrete.graph.to_json, "ir": concrete.llvm_ir, "asm": concrete.asm,
    }  # fmt: skip
    written: dict[str, str] = {}
    notes: list[str] = []
    for name, make in makers.items():
        target = getattr(options, f"to_{name}")
        if target:
            say(f"writing {target}")
            text = make()
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            written[target] = f"{len(text.encode())} bytes"
    if options.to_onnx:
        from tapeline.compiler.export.onnx.export import export_onnx  # loads onnx

        say(f"writing {options.to_onnx}")
        notes += export_onnx(concrete, options.to_onnx, options.gradient).notes
        written[options.to_onnx] = f"{os.path.getsize(options.to_onnx)} bytes"
    if options.to_aot:
        from tapeline.compiler.export.aot.build import export_aot  # loads the compiler

        say(f"compiling for {', '.join(options.target or ['host'])}")
        made = export_aot(
            concrete, options.to_aot, options.target or ["host"], True, None, options.blas
        )
        written |= {file: f"{os.path.getsize(file)} bytes" for file in made.files}
        notes.append(made.note)
    if not written:
        raise SystemExit("tapeline export: say what to write, such as --html page.html")
    report: Report = {"function": concrete.name, "written": written}
    return report | ({"notes": "\n".join(notes)} if notes else {})


def _for_sizes(concrete: ConcreteFunction, text: str | None) -> ConcreteFunction:
    """The trace for the sizes that the option `--sizes` gives."""
    from tapeline.compiler.open_function import OpenFunction

    if text is None:
        return concrete
    if not isinstance(concrete, OpenFunction):
        raise SystemExit("tapeline export: --sizes is for traces that leave sizes open")
    try:
        sizes = tuple(map(int, text.split(",")))
    except ValueError:
        raise SystemExit(f"tapeline export: --sizes must be numbers, got {text!r}") from None
    count = len(concrete.places)
    if len(sizes) != count or not concrete.sizes.hold(sizes):
        asked = ", ".join(str(condition) for condition in concrete.sizes.conditions)
        raise SystemExit(
            f"tapeline export: --sizes must be {count} number{'s' * (count != 1)} separated by "
            f"commas{f', where {asked}' if asked else ''}; got {text!r}"
        )
    return concrete.at(sizes)


# ---- bench


def bench_file(options: argparse.Namespace) -> Report:
    """How long a call takes, compiled and op by op in NumPy, and what its kernels take of it."""
    from tapeline.compiler.inspect.breakeven import (
        measure_breakeven,
        sample_inputs,
        shortest,
        with_fixed_sizes,
    )
    from tapeline.compiler.inspect.cost import time_text
    from tapeline.compiler.inspect.profile import Profile

    function = load(options.file)
    report: Report = {"function": function.__name__, "traces": []}
    for concrete in function.concrete_functions:
        say(f"measuring {concrete.name}")
        figures = measure_breakeven(concrete, 0.0)
        concrete = with_fixed_sizes(concrete)
        arrays = sample_inputs(concrete)
        profile = Profile()
        if concrete.staged is not None:  # measured stage by stage; kernels of them are not counted
            call = figures.compiled_seconds
        else:
            compiled = concrete.differentiable.compiled
            call = shortest(lambda: compiled(*arrays), options.seconds)  # noqa: B023  # at once
            with profile:
                end = time.perf_counter() + options.seconds
                while time.perf_counter() < end:
                    compiled(*arrays)
        if options.json:
            report["traces"].append(
                {
                    "for": figures.signature,
                    "call_seconds": call,
                    "numpy_seconds": figures.numpy_seconds,
                    "compile_seconds": figures.compile_seconds,
                    "pays_off_after_calls": figures.calls,
                    "kernels": [_kernel_figures(one) for one in profile.kernels],
                }
            )
            continue
        report["traces"].append(
            {
                "for": figures.signature,
                "call": time_text(call),
                "call in NumPy": time_text(figures.numpy_seconds),
                "times as fast": f"{figures.numpy_seconds / call:.2f}",
                "compilation": time_text(figures.compile_seconds),
                "pays off after": f"{figures.calls or 'no number of'} calls",
                "kernels": str(profile),
            }
        )
    return report


def _kernel_figures(one: KernelTime) -> Report:
    """What a profile knows of a kernel, as numbers."""
    return {
        "name": f"{one.graph}/{one.number}", "kind": one.kernel.kind, "ops": list(one.kernel.ops),
        "line": one.kernel.location, "runs": one.calls, "seconds": one.seconds,
        "bytes_per_second": one.bandwidth, "flops_per_second": one.flops,
    }  # fmt: skip


# ---- doctor


def doctor(_: argparse.Namespace) -> Report:
    """Versions, processor, threads, cache, and whether a compiled function works."""
    import tapeline as tl
    from tapeline.compiler.codegen.blas import find_blas
    from tapeline.compiler.codegen.layout import native_entry_allowed
    from tapeline.compiler.codegen.pool import default_thread_count
    from tapeline.compiler.codegen.target import host_target
    from tapeline.compiler.inspect.machine import measure_machine

    say("compiling a function and measuring this machine")
    function = tl.function(lambda x: tl.sum(tl.tanh(x) ** 2))
    x = tl.asarray(np.linspace(-1, 1, 5))
    expected = float(np.sum(np.tanh(np.linspace(-1, 1, 5)) ** 2))
    works = all(abs(float(function(x)) - expected) < 1e-12 for _ in range(3))
    works = works and bool(np.isfinite(tl.grad(function)(x).numpy()).all())
    target = host_target()
    machine = measure_machine()
    blas = find_blas()
    return {
        "tapeline": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": _version("llvmlite"),
        "networkx": _version("networkx"),
        "onnx": _version("onnx"),
        "rich": _version("rich"),
        "platform": platform.platform(),
        "processor": target.cpu,
        "features": ", ".join(sorted(f[1:] for f in target.features.split(",") if f[:1] == "+")),
        "cores": machine.cores,
        "threads": default_thread_count(),
        "memory speed": f"{machine.bandwidth / 1e9:.1f} GB/s",
        "product speed": f"{machine.flops / 1e9:.0f} Gflop/s in float32",
        "NumPy's BLAS": "none found" if blas is None else os.path.basename(blas.path),
        "native calls": "yes" if native_entry_allowed() else "no, calls go by way of Python",
        "offsets of structures": _offsets(),
        "cache": _cache_state()["cache"],
        "compiled function works": "yes" if works else "NO",
        "settings": {k: v for k, v in sorted(os.environ.items()) if k.startswith("TAPELINE_")},
    }


def _offsets() -> str:
    from tapeline.compiler.codegen.layout import self_test

    return "as expected" if self_test() else "other than expected: calls go by way of Python"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


# ---- cache


def cache_info(_: argparse.Namespace) -> Report:
    """Where machine code is kept, and how much."""
    return _cache_state()


def _cache_state() -> Report:
    from tapeline.compiler.codegen.object_cache import cache_directory, cache_entries, why_unusable

    folder = cache_directory()
    if folder is None:
        return {"cache": f"not used: {why_unusable()}"}
    entries = list(cache_entries(folder))
    total = sum(entry.nbytes for entry in entries)
    return {"cache": str(folder), "objects": len(entries), "size": f"{total / 1e6:.1f} MB"}


def cache_clear(_: argparse.Namespace) -> Report:
    """Deletes what is kept."""
    from tapeline.compiler.codegen.object_cache import cache_directory, clear_cache, why_unusable

    folder = cache_directory()
    if folder is None:
        return {"cache": f"not used: {why_unusable()}"}
    return {"cache": str(folder), "deleted": clear_cache(folder)}


def cache_why(options: argparse.Namespace) -> Report:
    """For a saved function: what of its code was kept, and why the rest was not."""
    from tapeline.compiler.codegen.object_cache import COUNTS, cache_directory, explain_misses

    report = _cache_state()
    folder = cache_directory()
    if folder is None:
        return report
    function = load(options.file)
    COUNTS.hits, COUNTS.misses = 0, 0
    COUNTS.missed.clear()
    for concrete in function.concrete_functions:
        say(f"compiling {concrete.name}")
        concrete.differentiable.compiled.executable()
    return report | {
        "function": function.__name__,
        "kept": COUNTS.hits,
        "compiled": COUNTS.misses,
        "because": "\n".join(explain_misses(folder)) or "all of it was kept",
    }
