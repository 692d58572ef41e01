"""The command line: `python -m tapeline`, or `tapeline` where it is installed."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tapeline import __version__, _commands
from tapeline.runtime.errors import TapelineError

OK, FAILED, MISUSED = 0, 1, 2
"""Exit codes: done; the work failed; the command was wrong (argparse's own)."""

EPILOG = """examples:
  tapeline inspect model.tapeline --kernels
  tapeline run model.tapeline --input x=x.npy --output out.npz
  tapeline export model.tapeline --html page.html --onnx model.onnx
  tapeline export model.tapeline --aot build --target host --target aarch64-linux
  tapeline cache info

exit codes: 0 done, 1 the work failed, 2 the command was wrong"""


class _Misuse(Exception):
    """A command line that means nothing."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process, so that `--json` serves these errors too."""

    def error(self, message: str) -> NoReturn:
        raise _Misuse(f"{self.prog}: {message}", self.format_usage())


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        "tapeline",
        description="Look at, run, measure and convert functions that tl.export.save wrote.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tapeline {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], Any], text: str) -> Any:
        return _add(commands, name, run, text)

    one = command("inspect", _commands.inspect_file, "Say what a saved function is made of.")
    one.add_argument("file", help="a file of tl.export.save")
    one.add_argument("--kernels", action="store_true", help="also what runs, and its cost")
    one.add_argument("--graph", action="store_true", help="also every node of its graphs")
    one = command("run", _commands.run_file, "Run a saved function on arrays.")
    one.add_argument("file", help="a file of tl.export.save")
    one.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=FILE",
        help="an argument: a .npy file, or a number",
    )  # fmt: skip
    one.add_argument("--output", "-o", metavar="FILE", help="a .npz file for the results")
    _add_export(command)
    one = command("bench", _commands.bench_file, "Measure a saved function on made-up arrays.")
    one.add_argument("file", help="a file of tl.export.save")
    one.add_argument("--seconds", type=float, default=0.5, help="how long each way is run")
    command("doctor", _commands.doctor, "Say what Tapeline finds here, and whether it works.")
    cache = commands.add_parser(
        "cache", help="The machine code that is kept on disk.",
        description="The machine code that is kept on disk.",
    )  # fmt: skip
    inner = cache.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add(inner, "info", _commands.cache_info, "Where it is, and how much.")
    _add(inner, "clear", _commands.cache_clear, "Delete it.")
    one = _add(inner, "why", _commands.cache_why, "Say what of a function was kept, or why not.")
    one.add_argument("file", help="a file of tl.export.save")
    return parser


def _add(commands: Any, name: str, run: Callable[[argparse.Namespace], Any], text: str) -> Any:
    one = commands.add_parser(name, help=text, description=text)
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.set_defaults(run=run)
    return one


def _add_export(command: Callable[..., Any]) -> None:
    one = command("export", _commands.export_file, "Draw or convert a saved function.")
    one.add_argument("file", help="a file of tl.export.save")
    one.add_argument("--trace", type=int, default=0, help="which signature, from 0")
    for name, metavar, text in (
        ("html", "FILE", "a page to click: forward, backward and kernels"),
        ("svg", "FILE", "a picture"), ("dot", "FILE", "text for Graphviz"),
        ("json", "FILE", "the graph as JSON"), ("ir", "FILE", "LLVM IR"),
        ("asm", "FILE", "assembly"), ("onnx", "FILE", "an ONNX model"),
        ("aot", "FOLDER", "object files, a C header and an example"),
    ):  # fmt: skip
        flag = "--graph-json" if name == "json" else f"--{name}"
        one.add_argument(flag, dest=f"to_{name}", metavar=metavar, help=text)
    one.add_argument(
        "--sizes", metavar="N,...",
        help="for a trace that leaves sizes open: what they are, in order; needed with --aot",
    )  # fmt: skip
    one.add_argument(
        "--gradient", action="store_true", help="with --onnx: the gradient instead of the function"
    )
    one.add_argument(
        "--target", action="append", metavar="NAME",
        help="with --aot: host (the default), x86-64-v3, aarch64-linux, ...; may be repeated",
    )  # fmt: skip
    one.add_argument(
        "--blas", action="store_true", help="with --aot: products call CBLAS, to be linked with"
    )


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
                print(f"{pad}{name.removesuffix('s')} {number}:")
                print_plain(one, indent + 2)
        elif "\n" in str(value):
            print(f"{pad}{name}:")
            print("\n".join(f"{pad}  {line}" for line in str(value).splitlines()))
        else:
            print(_wrapped(f"{pad}{name}: {value}"))


def _width() -> int:
    return max(40, min(100, shutil.get_terminal_size().columns))


def _wrapped(line: str) -> str:
    """A line, or as many as it needs to fit the terminal; words stay whole."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(
        line, _width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _fail(options: argparse.Namespace, message: str, code: int) -> int:
    """Tells what went wrong, on lines that fit the terminal; with `--json` to programs as well."""
    for line in message.splitlines():
        print(_wrapped(line), file=sys.stderr)
    if options.json:
        print(json.dumps({"error": message, "exit code": code}, indent=2))
    return code


def _missing(error: FileNotFoundError) -> str:
    """What is not there: a file, or the folder that it should be written to."""
    folder = Path(error.filename).parent
    return f"no file {error.filename}" if folder.is_dir() else f"there is no folder {folder}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = build_parser().parse_args(given)
    except _Misuse as error:
        print(error.usage, end="", file=sys.stderr)
        return _fail(argparse.Namespace(json="--json" in given), str(error), MISUSED)
    try:
        report = options.run(options)
    except SystemExit as error:
        return _fail(options, str(error), MISUSED)
    except FileNotFoundError as error:
        return _fail(options, f"tapeline {options.command}: {_missing(error)}", FAILED)
    except (TapelineError, OSError, ValueError, ImportError) as error:
        return _fail(options, f"tapeline {options.command}: {error}", FAILED)
    except KeyboardInterrupt:
        return _fail(options, f"tapeline {options.command}: stopped", FAILED)
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
