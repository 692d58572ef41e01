"""Classes registered with other libraries, in processes that load these."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

PROGRAM = """
import {library}
import tapeline as tl

class Affine:
    def __init__(self, w, b, name):
        self.w, self.b, self.name = w, b, name

{register}

@tl.function
def step(layer, x):
    return Affine(layer.w * x, layer.b + x, layer.name)

one = Affine(tl.asarray(2.0), None, "one")
made = step(Affine(tl.asarray(2.0), tl.asarray(1.0), "one"), tl.asarray(3.0))
assert type(made) is Affine
assert (made.w.item(), made.b.item(), made.name) == (6.0, 4.0, "one")
step(Affine(tl.asarray(5.0), tl.asarray(1.0), "one"), tl.asarray(3.0))
assert step.trace_count == 1
step(Affine(tl.asarray(5.0), tl.asarray(1.0), "two"), tl.asarray(3.0))
assert step.trace_count == 2
assert tl.nest.flatten([one]) == [one.w]
with tl.GradientTape() as tape:
    tape.watch(one.w)
    y = one.w * 3
assert tape.gradient(y, one).w.item() == 3.0

class Plain:
    pass

plain = Plain()
assert tl.nest.flatten([plain]) == [plain]
"""

REGISTER = {
    "jax": """
import jax.tree_util
jax.tree_util.register_pytree_node(
    Affine, lambda x: ((x.w, x.b), x.name), lambda name, parts: Affine(*parts, name))
""",
    "optree": """
optree.register_pytree_node(
    Affine, lambda x: ((x.w, x.b), x.name), lambda name, parts: Affine(*parts, name),
    namespace="tapeline")
""",
}


@pytest.mark.parametrize("library", ["jax", "optree"])
def test_registered_classes_go_in_and_out(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    program = PROGRAM.format(library=library, register=REGISTER[library])
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
