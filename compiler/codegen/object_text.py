"""Words for machine code that works on Python objects: slots, references in a frame, calls.

What a function owns stands in its frame, under names, so that one block gives everything back:
`failed`, where an exception is set. Offsets are those that `layout` has checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText, Value

MOST_GIVEN = 20
"""Arguments up to which a Python function is called."""


class ObjectText:
    """The text of one function, `@name(ptr %self, ptr %args, i64 %count)` unless a header is given.

    Objects are named by symbols such as `@py_none`, which the module binds. Arguments are borrowed.
    """

    def __init__(self, header: str, held: Sequence[str]) -> None:
        self.fn = FunctionText(header)
        self.held = tuple(held)
        size = 8 * len(self.held)
        self.frame = self.fn.alloca(size, 8)
        self.vector = self.fn.alloca(8 * MOST_GIVEN, 8)
        self.fn.call(
            "void", "llvm.memset.p0.i64", ("ptr", self.frame), ("i8", 0), ("i64", size),
            ("i1", "false"),
        )  # fmt: skip

    # -- references

    def place(self, name: str) -> str:
        """Where in the frame a reference stands."""
        return self.fn.offset(self.frame, 8 * self.held.index(name))

    def get(self, name: str) -> str:
        """What the frame holds under the name; null at first."""
        return self.fn.load("ptr", self.place(name))

    def take(self, name: str, value: str) -> str:
        """Lets the frame hold a new reference."""
        self.fn.store("ptr", value, self.place(name))
        return value

    def own(self, name: str, value: str) -> str:
        """Lets the frame hold a further reference to a borrowed object."""
        self.fn.call("void", "Py_IncRef", ("ptr", value))
        return self.take(name, value)

    def drop(self, name: str) -> None:
        """Gives a reference back."""
        value = self.get(name)
        self.fn.store("ptr", "null", self.place(name))
        self.fn.call("void", "Py_DecRef", ("ptr", value))

    def pass_on(self, name: str) -> str:
        """A reference that somebody else holds from now on."""
        value = self.get(name)
        self.fn.store("ptr", "null", self.place(name))
        return value

    def release(self, value: str) -> None:
        """Gives a reference back that the frame does not hold."""
        self.fn.call("void", "Py_DecRef", ("ptr", value))

    def give_up(self) -> None:
        """Gives back all that the frame holds."""
        self.fn.call_defined("void", "@release_frame", ("ptr", self.frame), ("i64", len(self.held)))

    # -- objects

    def slot_place(self, owner: str, cls: type, name: str) -> str:
        """Where an object keeps a slot."""
        return self.fn.offset(owner, layout.slot_offset(cls, name))

    def slot(self, owner: str, cls: type, name: str) -> str:
        """What an object keeps in a slot."""
        return self.fn.load("ptr", self.slot_place(owner, cls, name))

    def set_slot(self, owner: str, cls: type, name: str, value: str) -> None:
        """Puts a borrowed object into a slot, in the place of another one."""
        place = self.slot_place(owner, cls, name)
        self.fn.call("void", "Py_IncRef", ("ptr", value))
        before = self.fn.load("ptr", place)
        self.fn.store("ptr", value, place)
        self.fn.call("void", "Py_DecRef", ("ptr", before))

    def kind(self, value: str) -> str:
        """The type of an object."""
        return self.fn.load("ptr", self.fn.offset(value, layout.OBJECT_TYPE))

    def length(self, row: str) -> str:
        """The number of items of a tuple, list or dict."""
        return self.fn.load("i64", self.fn.offset(row, layout.VAR_SIZE))

    def item(self, row: str, index: Value) -> str:
        """An item of a tuple."""
        start = self.fn.offset(row, layout.TUPLE_ITEMS)
        return self.fn.load("ptr", self.fn.offset(start, self.fn.mul(index, 8)))

    # -- branches

    def branch_if(self, condition: str, target: str) -> None:
        """Goes to a label if the condition holds, and on otherwise."""
        following = f"on{self.fn.number()}"
        self.fn.branch(condition, target, following)
        self.fn.label(following)

    def branch_unless(self, condition: str, target: str) -> None:
        """Goes on if the condition holds, and to a label otherwise."""
        following = f"on{self.fn.number()}"
        self.fn.branch(condition, following, target)
        self.fn.label(following)

    def same(self, a: str, b: str) -> str:
        """Whether both are the same object."""
        return self.fn.compare("eq", a, b, "ptr")

    def is_none(self, value: str) -> str:
        """Whether it is None."""
        return self.same(value, "@py_none")

    # -- calls

    def call(self, function: str, *args: str) -> str:
        """The result, a new reference, of a Python function."""
        for number, arg in enumerate(args):
            self.fn.store("ptr", arg, self.fn.offset(self.vector, 8 * number))
        return self.call_vector(function, len(args))

    def call_vector(self, function: str, count: Value) -> str:
        """The result of a Python function for what stands in the vector."""
        return self.checked(self.raw_call(function, count))

    def raw_call(self, function: str, count: Value) -> str:
        """As `call_vector`, but null where an exception is set."""
        return self.fn.call(
            "ptr", "PyObject_Vectorcall", ("ptr", function), ("ptr", self.vector),
            ("i64", count), ("ptr", "null"),
        )  # fmt: skip

    def checked(self, made: str) -> str:
        """An object; to the block "failed" if there is none."""
        self.branch_if(self.fn.compare("eq", made, "null", "ptr"), "failed")
        return made

    def succeed(self, status: str) -> None:
        """To the block "failed" unless the status is 0."""
        self.branch_if(self.fn.compare("ne", status, 0, "i32"), "failed")


def release_frame() -> FunctionText:
    """Gives back the references in a frame, some of which may be null."""
    fn = FunctionText("void @release_frame(ptr %frame, i64 %count) nounwind")

    def one(index: str, _: list[str]) -> None:
        place = fn.offset("%frame", fn.mul(index, 8))
        fn.call("void", "Py_DecRef", ("ptr", fn.load("ptr", place)))

    fn.loop(0, "%count", 1, one)
    fn.line("ret void")
    return fn
