"""What the commands of the command line do: each gives a report that is printed as text or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from tapeline.export import load
from tapeline.runtime import nest
from tapeline.runtime.tensor import Tensor

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
        names = [concrete.graph.attrs[k][0] for k in concrete.graph.placeholders]
        trace: Report = {
            "takes": {
                str(name): str(spec) for name, spec in zip(names, concrete.inputs, strict=False)
            },
            "gives": str(concrete.structured_outputs),
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
    return {"function": function.__name__, "variables": variables, "traces": traces}


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
    say(f"running {function.__name__}")
    result = function(**given)
    leaves = [leaf.numpy() for leaf in nest.flatten(result) if type(leaf) is Tensor]
    if options.output:
        np.savez(options.output, *leaves)
    shown = {f"result {k}": np.array2string(leaf, threshold=20) for k, leaf in enumerate(leaves)}
    return {"function": function.__name__, **shown}


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
        raise SystemExit(f"tapeline export: there are {len(traces)} traces, from 0")
    concrete = traces[options.trace]
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


# ---- bench


def bench_file(options: argparse.Namespace) -> Report:
    """How long a call takes, compiled and op by op in NumPy, and what its kernels take of it."""
    from tapeline.compiler.inspect.breakeven import measure_breakeven, sample_inputs, shortest
    from tapeline.compiler.inspect.cost import time_text
    from tapeline.compiler.inspect.profile import Profile

    function = load(options.file)
    report: Report = {"function": function.__name__, "traces": []}
    for concrete in function.concrete_functions:
        say(f"measuring {concrete.name}")
        figures = measure_breakeven(concrete, 0.0)
        arrays = sample_inputs(concrete)
        compiled = concrete.differentiable.compiled
        call = shortest(lambda: compiled(*arrays), options.seconds)  # noqa: B023  # called at once
        with Profile() as profile:
            end = time.perf_counter() + options.seconds
            while time.perf_counter() < end:
                compiled(*arrays)
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
        "tapeline": _version("tapeline"),
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
