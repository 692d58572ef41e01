"""The command line: `python -m tapeline`, or `tapeline` where it is installed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from tapeline.export import load
from tapeline.runtime import nest
from tapeline.runtime.errors import TapelineError
from tapeline.runtime.tensor import Tensor

OK, FAILED, MISUSED = 0, 1, 2
"""Exit codes: done; the work failed; the command was wrong (argparse's own)."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        "tapeline", description="Look at and run functions that tl.export.save wrote into files."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], Any], text: str) -> Any:
        one = commands.add_parser(name, help=text, description=text)
        one.add_argument("--json", action="store_true", help="print one JSON object")
        one.set_defaults(run=run)
        return one

    one = command("inspect", inspect_file, "Say what a saved function is made of.")
    one.add_argument("file")
    one.add_argument("--kernels", action="store_true", help="also what runs: loops, products")
    one.add_argument("--graph", action="store_true", help="also every node of its graphs")
    one = command("run", run_file, "Run a saved function on arrays.")
    one.add_argument("file")
    one.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=FILE",
        help="an argument: a .npy file, or a number",
    )  # fmt: skip
    one.add_argument("--output", "-o", metavar="FILE", help="a .npz file for the results")
    one = command("export", export_file, "Draw or write the graph of a saved function.")
    one.add_argument("file")
    one.add_argument("--trace", type=int, default=0, help="which signature, from 0")
    for name, text in (
        ("html", "a page to click: forward, backward and kernels"), ("svg", "a picture"),
        ("dot", "text for Graphviz"), ("json", "the graph as JSON"), ("ir", "LLVM IR"),
        ("asm", "assembly"),
    ):  # fmt: skip
        flag = "--graph-json" if name == "json" else f"--{name}"
        one.add_argument(flag, dest=f"to_{name}", metavar="FILE", help=text)
    command("doctor", doctor, "Say what Tapeline finds on this machine, and whether it works.")
    return parser


# ---- commands: each gives a dict that is printed


def inspect_file(options: argparse.Namespace) -> dict[str, Any]:
    """Signatures, Variables and graphs of a file."""
    function = load(options.file)
    traces = []
    for concrete in function.concrete_functions:
        names = [concrete.graph.attrs[k][0] for k in concrete.graph.placeholders]
        trace: dict[str, Any] = {
            "takes": {
                str(name): str(spec) for name, spec in zip(names, concrete.inputs, strict=False)
            },
            "gives": str(concrete.structured_outputs),
            "summary": concrete.graph.summary(),
        }
        if options.kernels:
            trace["kernels"] = str(concrete.kernels())
        if options.graph:
            trace["graph"] = str(concrete.graph)
        traces.append(trace)
    variables = {
        variable.name or f"variable {k}": f"{variable.dtype}{list(variable.shape)}"
        for k, variable in enumerate(function.variables)
    }
    return {"function": function.__name__, "variables": variables, "traces": traces}


def run_file(options: argparse.Namespace) -> dict[str, Any]:
    """The results of a call, as text, and in a file if asked."""
    function = load(options.file)
    given = {}
    for text in options.input:
        name, separator, value = text.partition("=")
        if not separator:
            raise SystemExit(f"tapeline run: --input must be NAME=FILE, got {text!r}")
        given[name] = _read_input(value)
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


def export_file(options: argparse.Namespace) -> dict[str, Any]:
    """The files that were written, with their sizes."""
    traces = load(options.file).concrete_functions
    if not 0 <= options.trace < len(traces):
        raise SystemExit(f"tapeline export: there are {len(traces)} traces, from 0")
    concrete = traces[options.trace]
    makers: dict[str, Callable[[], str]] = {
        "html": concrete.to_html, "svg": concrete.graph.to_svg, "dot": concrete.graph.to_dot,
        "json": concrete.graph.to_json, "ir": concrete.llvm_ir, "asm": concrete.asm,
    }  # fmt: skip
    written = {}
    for name, make in makers.items():
        target = getattr(options, f"to_{name}")
        if target:
            text = make()
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            written[target] = f"{len(text.encode())} bytes"
    if not written:
        raise SystemExit("tapeline export: say what to write, such as --html page.html")
    return {"function": concrete.name, "written": written}


def doctor(_: argparse.Namespace) -> dict[str, Any]:
    """Versions, processor, threads, and whether a compiled function works."""
    import tapeline as tl
    from tapeline.compiler.codegen.layout import native_entry_allowed
    from tapeline.compiler.codegen.target import host_target
    from tapeline.compiler.inspect.machine import measure_machine

    function = tl.function(lambda x: tl.sum(tl.tanh(x) ** 2))
    x = tl.asarray(np.linspace(-1, 1, 5))
    expected = float(np.sum(np.tanh(np.linspace(-1, 1, 5)) ** 2))
    works = all(abs(float(function(x)) - expected) < 1e-12 for _ in range(3))
    works = works and bool(np.isfinite(tl.grad(function)(x).numpy()).all())
    target = host_target()
    machine = measure_machine()
    return {
        "tapeline": _version("tapeline"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": _version("llvmlite"),
        "networkx": _version("networkx"),
        "platform": platform.platform(),
        "processor": target.cpu,
        "features": ", ".join(sorted(f[1:] for f in target.features.split(",") if f[:1] == "+")),
        "cores": machine.cores,
        "memory speed": f"{machine.bandwidth / 1e9:.1f} GB/s",
        "product speed": f"{machine.flops / 1e9:.0f} Gflop/s in float32",
        "native calls": "yes" if native_entry_allowed() else "no, calls go by way of Python",
        "compiled function works": "yes" if works else "NO",
        "settings": {k: v for k, v in sorted(os.environ.items()) if k.startswith("TAPELINE_")},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


# ---- printing


def print_plain(report: Any, indent: int = 0) -> None:
    """A report as lines of text."""
    pad = " " * indent
    for name, value in report.items():
        if isinstance(value, dict):
            print(f"{pad}{name}:" if value else f"{pad}{name}: none")
            print_plain(value, indent + 2)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                print(f"{pad}{name} {number}:")
                print_plain(one, indent + 2)
        elif "\n" in str(value):
            print(f"{pad}{name}:")
            print("\n".join(f"{pad}  {line}" for line in str(value).splitlines()))
        else:
            print(f"{pad}{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    options = build_parser().parse_args(arguments)
    try:
        report = options.run(options)
    except SystemExit as error:
        print(error, file=sys.stderr)
        return MISUSED
    except (TapelineError, OSError, ValueError) as error:
        print(f"tapeline {options.command}: {error}", file=sys.stderr)
        return FAILED
    if options.json:
        print(json.dumps(report, indent=2, default=str))
    else:
        print_plain(report)
    return FAILED if report.get("compiled function works") == "NO" else OK


def run_from_shell() -> None:
    """What the command `tapeline` calls."""
    sys.exit(main())


if __name__ == "__main__":
    run_from_shell()
