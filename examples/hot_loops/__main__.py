"""Times the programs of this folder in Python, NumPy, Numba and Tapeline, and draws a chart.

python examples/hot_loops [NAME ...] [--small]
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import runpy
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

os.environ.setdefault("TAPELINE_NUM_THREADS", "1")

import numpy as np

import tapeline as tl

HERE = Path(__file__).parent
PICTURE = Path("hot_loops.svg")
KINDS = ("Python", "NumPy", "Numba", "Tapeline")
COLORS = {"Python": "#b0b0b0", "NumPy": "#7aa6c2", "Numba": "#8a79b0", "Tapeline": "#d9752b"}
TITLES = {
    "gauss_seidel": "Gauss-Seidel",
    "hmm_forward": "HMM, forward",
    "lstm": "LSTM",
    "n_body": "n-body",
    "smith_waterman": "Smith-Waterman",
}
LEFT, TOP, WIDTH, BAR, GAP = 170, 86, 520, 13, 14
"""Of the chart, in pixels."""
ROUNDS, PATIENCE = 7, 1.0

Times = dict[str, float]


def programs() -> list[Path]:
    """The files with a program each."""
    return sorted(path for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def copies(values: Sequence[Any]) -> list[Any]:
    """The arguments, to be written to."""
    return [x.copy() if isinstance(x, np.ndarray) else x for x in values]


def best_of(run: Callable[..., Any], make: Callable[[], Sequence[Any]], rounds: int) -> float:
    """The shortest time of a call, in seconds."""
    shortest, spent = math.inf, 0.0
    for _ in range(rounds):
        given = make()
        start = time.perf_counter()
        run(*given)
        took = time.perf_counter() - start
        shortest, spent = min(shortest, took), spent + took
        if spent > PATIENCE:
            break
    return shortest


def with_numba(function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any] | None:
    """The function compiled by Numba; None where that is not installed."""
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return None
    compiled: Callable[..., Any] = numba.njit(function)
    compiled(*copies(given))
    return compiled


def measure(path: Path, small: bool) -> Times:
    """The time of a call in each of the ways that there are."""
    scope = runpy.run_path(str(path))
    given = scope["inputs"](scope["SMALL" if small else "LARGE"])
    plain = scope.get("plain", scope["program"])
    times = {"Python": best_of(plain, lambda: copies(given), 1)}
    if "with_numpy" in scope:
        times["NumPy"] = best_of(scope["with_numpy"], lambda: copies(given), ROUNDS)
    jitted = with_numba(plain, given)
    if jitted is not None:
        times["Numba"] = best_of(jitted, lambda: copies(given), ROUNDS)
    compiled = tl.function(scope["program"])

    def tensors() -> list[Any]:
        return [tl.asarray(x) for x in copies(given)]

    compiled(*tensors())
    times["Tapeline"] = best_of(compiled, tensors, ROUNDS)
    return times


def shown(seconds: float) -> str:
    """A time with its unit."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def table(found: dict[str, Times]) -> Iterable[str]:
    """Lines with all times, and how often Tapeline would run while plain Python runs once."""
    yield f"{'':22}" + "".join(f"{kind:>11}" for kind in KINDS) + f"{'speed-up':>11}"
    for name, times in found.items():
        cells = [shown(times[kind]) if kind in times else "-" for kind in KINDS]
        gain = f"{times['Python'] / times['Tapeline']:,.0f}x"
        yield f"{name:22}" + "".join(f"{cell:>11}" for cell in cells) + f"{gain:>11}"


def lengths(times: Times, longest: float) -> dict[str, float]:
    """How long the bar of each kind is, from 0 to 1: ten times as fast is so much longer."""
    gains = {kind: times["Python"] / seconds for kind, seconds in times.items()}
    return {
        kind: max(math.log10(gain), 0.0) / longest if longest else 0.0
        for kind, gain in gains.items()
    }


def longest_of(found: dict[str, Times]) -> float:
    """The largest gain over Python, as a power of ten."""
    gains = [t["Python"] / seconds for t in found.values() for seconds in t.values()]
    return max(math.log10(max(gains)), 1e-9)


def bars(found: dict[str, Times], width: int = 48) -> Iterable[str]:
    """A chart in letters: speed against plain Python, on a scale of powers of ten."""
    longest = longest_of(found)
    yield f"speed against Python, up to {10**longest:,.0f}x, logarithmic"
    for name, times in found.items():
        for kind, length in lengths(times, longest).items():
            if kind != "Python":
                label = name if kind == "Tapeline" else ""
                yield f"{label:22} {kind:9}{'#' * round(length * width)}"


def title_of(name: str) -> str:
    """What a program is called in the chart."""
    return TITLES.get(name, name.replace("_", " ").capitalize())


def axis(longest: float, bottom: int) -> Iterable[str]:
    """The lines of the powers of ten, as far as they go."""
    for power in range(math.floor(longest) + 1):
        x = LEFT + WIDTH * power / longest
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 14}" y2="{bottom}" stroke="#e2e2e2"/>'
        yield (
            f'<text x="{x:.1f}" y="{TOP - 20}" text-anchor="middle" fill="#777">'
            f"{10**power:,}x</text>"
        )


def legend() -> Iterable[str]:
    """Which colour is what."""
    for number, kind in enumerate(KINDS[1:]):
        x = LEFT + 84 * number
        yield f'<rect x="{x}" y="33" width="10" height="10" rx="2" fill="{COLORS[kind]}"/>'
        yield f'<text x="{x + 16}" y="42">{kind}</text>'


def group(name: str, times: Times, longest: float, y: int) -> Iterable[str]:
    """The bars of one program, each with its time at its end."""
    measured = {k: v for k, v in lengths(times, longest).items() if k != "Python"}
    middle = y + BAR * len(measured) / 2
    title = escape(title_of(name))
    yield (
        f'<text x="{LEFT - 10}" y="{middle - 1:.1f}" text-anchor="end">{title}'
        f'<tspan x="{LEFT - 10}" dy="13" font-size="10" fill="#888">Python {shown(times["Python"])}'
        "</tspan></text>"
    )
    for number, (kind, length) in enumerate(measured.items()):
        top, end = y + BAR * number, max(length * WIDTH, 2)
        yield (
            f'<rect x="{LEFT}" y="{top}" width="{end:.1f}" height="{BAR - 2}" rx="1.5" '
            f'fill="{COLORS[kind]}"><title>{title}, {kind}: {shown(times[kind])}</title></rect>'
        )
        yield (
            f'<text x="{LEFT + end + 5:.1f}" y="{top + BAR - 4}" font-size="10" fill="#555" '
            f'stroke="white" stroke-width="3" paint-order="stroke">{shown(times[kind])}</text>'
        )


def drawing(found: dict[str, Times]) -> str:
    """The chart as SVG."""
    longest = longest_of(found)
    parts: list[str] = []
    y = TOP
    for name, times in found.items():
        parts += group(name, times, longest, y)
        y += BAR * max(len(times) - 1, 2) + GAP
    parts = [*axis(longest, y - GAP + 4), *legend(), *parts]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 80}" height="{y}" '
        f'font-family="sans-serif" font-size="12" fill="#333">\n<rect width="100%" height="100%" '
        f'fill="white"/>\n<text x="{LEFT}" y="20" font-size="14" font-weight="bold">'
        "How much faster than plain Python, one thread, logarithmic</text>\n"
        f"{body}\n</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which programs; all of them by default")
    parser.add_argument("--small", action="store_true", help="small sizes, for a quick look")
    options = parser.parse_args()
    found = {
        path.stem: measure(path, options.small)
        for path in programs()
        if not options.names or path.stem in options.names
    }
    print("\n".join(table(found)))
    print()
    print("\n".join(bars(found)))
    PICTURE.write_text(drawing(found), encoding="utf-8")
    print(f"\ndrawn to {PICTURE}")


if __name__ == "__main__":
    main()
