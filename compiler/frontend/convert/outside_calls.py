"""Calls that give something else each time: draws of Python's and NumPy's generators, and clocks.

They are told by names, so that no module is loaded for their sake.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from tapeline.compiler.frontend.convert.state import outer_graph

_GENERATORS: Final = frozenset(
    {
        ("numpy.random._generator", "Generator"), ("numpy.random.mtrand", "RandomState"),
        ("random", "Random"),
    }
)  # fmt: skip
_SEEDING: Final = frozenset({"seed", "set_state", "setstate"})
_CLOCKS: Final = {
    "builtins": frozenset({"input"}),
    "time": frozenset(
        {
            "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time",
            "time_ns",
        }
    ),
    "datetime": frozenset({"now", "today", "utcnow"}),
    "posix": frozenset({"urandom"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
}  # fmt: skip


def shared_generators() -> dict[str, Any]:
    """The generators that functions of the modules draw from, by the modules' names."""
    found = {}
    for title, module, name in (
        ("random", "random", "_inst"), ("np.random", "numpy.random.mtrand", "_rand"),
    ):  # fmt: skip
        if module in sys.modules:
            found[title] = getattr(sys.modules[module], name)
    return found


def note_call(function: Any) -> None:
    """Takes down, in the trace that is under way, a call of a generator or a clock."""
    name = getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if name == "seed" and module == "numpy.random":
        owner = shared_generators()["np.random"]  # the only function there without an owner
    kind = owner if isinstance(owner, type) else type(owner)
    if owner is kind:
        module = kind.__module__
    is_draw = (kind.__module__, kind.__name__) in _GENERATORS
    if not is_draw and name not in _CLOCKS.get(str(module), ()):
        return
    graph = outer_graph()
    if graph is None or graph.reads is None:
        return
    reads = graph.reads
    if name in _SEEDING:
        reads.seeded.append(owner)
    elif not any(owner is one for one in reads.seeded):
        places = [place for place, one in shared_generators().items() if one is owner]
        place = places[0] if places else kind.__name__ if is_draw else module
        reads.outside_calls.append((f"{place}.{name}", owner if is_draw else None))
