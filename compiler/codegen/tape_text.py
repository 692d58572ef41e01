"""Words for machine code that works on tapes: the thread's state, tables, records, methods."""

from __future__ import annotations

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.object_text import ObjectText

MISSED = "inttoptr (i64 1 to ptr)"
"""What a function returns, instead of an object or null, where Python must serve the call."""


class TapeText(ObjectText):
    """The text of one function that works on tapes."""

    def word(self, name: str) -> str:
        """A 64-bit word of memory."""
        return self.fn.load("i64", f"@{name}")

    def thread_state(self) -> str:
        """The attributes of `STATE` in this thread, in the frame as `here`."""
        return self.own("here", self.checked(self.fn.call("ptr", "tapeline_state")))

    def look_up(self, table: str, key: str) -> str:
        """What a dict holds; null if nothing."""
        return self.fn.call("ptr", "PyDict_GetItemWithError", ("ptr", table), ("ptr", key))

    def set_item(self, table: str, key: str, value: str) -> None:
        """table[key] = value"""
        self.succeed(
            self.fn.call("i32", "PyDict_SetItem", ("ptr", table), ("ptr", key), ("ptr", value))
        )

    def forget_item(self, table: str, key: str) -> None:
        """Takes the key out of a dict, if it is there."""
        fn, number = self.fn, self.fn.number()
        status = fn.call("i32", "PyDict_DelItem", ("ptr", table), ("ptr", key))
        fn.branch(fn.compare("eq", status, 0, "i32"), f"gone{number}", f"absent{number}")
        fn.label(f"absent{number}")
        fn.call("void", "PyErr_Clear")
        fn.jump(f"gone{number}")
        fn.label(f"gone{number}")

    def require(self, owner: str, cls: type, **slots: str) -> None:
        """To the block "python" unless slots hold these very objects."""
        for name, value in slots.items():
            self.branch_unless(self.same(self.slot(owner, cls, name), value), "python")

    def take_row(self, name: str, sources: str, otherwise: str) -> None:
        """A tuple of what is in a list or tuple, or of a tensor, in the frame; to a label if it is
        something else."""
        fn, kind = self.fn, self.kind(sources)
        self.branch_if(self.same(kind, "@py_tuple_type"), "is_tuple")
        self.branch_if(self.same(kind, "@py_tensor_type"), "is_tensor")
        self.branch_unless(self.same(kind, "@py_list_type"), otherwise)
        self.take(name, self.checked(fn.call("ptr", "PyList_AsTuple", ("ptr", sources))))
        fn.jump("have_row")
        fn.label("is_tuple")
        self.own(name, sources)
        fn.jump("have_row")
        fn.label("is_tensor")
        row = self.take(name, self.checked(fn.call("ptr", "PyTuple_New", ("i64", 1))))
        fn.call("void", "Py_IncRef", ("ptr", sources))
        fn.store("ptr", sources, fn.offset(row, layout.TUPLE_ITEMS))
        fn.jump("have_row")
        fn.label("have_row")

    def require_free_lock(self, otherwise: str) -> None:
        """To a label if a thread holds the lock of the records. Nobody takes it before the next
        call that may run Python."""
        self.branch_if(self.fn.compare("ne", self.word("py_lock_word"), 0), otherwise)


class MethodText(TapeText):
    """The text of a method `name(self, *args, **named)`, in the place of one in Python, which is
    called for whatever is not served: the block "python" does that."""

    def __init__(self, name: str, held: tuple[str, ...] = ()) -> None:
        header = f"ptr @tapeline_{name}(ptr %self, ptr %args, i64 %count, ptr %names) nounwind"
        super().__init__(header, held)
        self.python = f"@py_{name}"

    def check_call(self, n_args: int, cls: str) -> None:
        """So many arguments without names, for an object of no derived class."""
        fn = self.fn
        self.branch_if(fn.compare("ne", "%count", n_args), "python")
        self.branch_unless(self.same("%names", "null"), "python")
        self.branch_unless(self.same(self.kind("%self"), cls), "python")

    def argument(self, number: int) -> str:
        """An argument behind the object itself."""
        return self.fn.load("ptr", self.fn.offset("%args", 8 * number))

    def answer(self, result: str, *, is_borrowed: bool = True) -> None:
        """Returns an object."""
        if is_borrowed:
            self.fn.call("void", "Py_IncRef", ("ptr", result))
        self.give_up()
        self.fn.line(f"ret ptr {result}")

    def end(self) -> FunctionText:
        """The other ways out."""
        fn = self.fn
        fn.label("python")
        self.give_up()
        result = fn.call_defined(
            "ptr", "@call_method", ("ptr", self.python), ("ptr", "%self"), ("ptr", "%args"),
            ("i64", "%count"), ("ptr", "%names"),
        )  # fmt: skip
        fn.line(f"ret ptr {result}")
        fn.label("failed")
        self.give_up()
        fn.line("ret ptr null")
        return fn


def call_method() -> FunctionText:
    """The result of a Python function for an object and the arguments of a call."""
    fn = FunctionText(
        "ptr @call_method(ptr %function, ptr %self, ptr %args, i64 %count, ptr %names) nounwind"
    )
    named = fn.alloca(8, 8)
    fn.store("i64", 0, named)
    fn.branch(fn.compare("eq", "%names", "null", "ptr"), "counted", "named")
    fn.label("named")
    fn.store("i64", fn.load("i64", fn.offset("%names", layout.VAR_SIZE)), named)
    fn.jump("counted")
    fn.label("counted")
    given = fn.add("%count", fn.load("i64", named))
    vector = fn.value(f"alloca ptr, i64 {fn.add(given, 1)}")
    fn.store("ptr", "%self", vector)
    fn.call(
        "void", "llvm.memcpy.p0.p0.i64", ("ptr", fn.offset(vector, 8)), ("ptr", "%args"),
        ("i64", fn.mul(given, 8)), ("i1", "false"),
    )  # fmt: skip
    result = fn.call(
        "ptr", "PyObject_Vectorcall", ("ptr", "%function"), ("ptr", vector),
        ("i64", fn.add("%count", 1)), ("ptr", "%names"),
    )  # fmt: skip
    fn.line(f"ret ptr {result}")
    return fn
