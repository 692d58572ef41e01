"""Places in source."""

import pickle

from tapeline.compiler.ir.location import Location


def test_location_resolves_lines_lazily_and_pickles() -> None:
    code = compile("a = 1\nb = 2\n", "/src/prog.py", "exec")
    offsets = {line: start for start, _, line in code.co_lines() if line}
    location = Location(code, offsets[2])
    assert (location.filename, location.line, location.function) == ("/src/prog.py", 2, "<module>")
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert str(again) == "prog.py:2"
