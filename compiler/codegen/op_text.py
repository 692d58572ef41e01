"""Machine code for the short ways into ops: what the closures of `operators` do on tensors.

One function per number of inputs serves all ops; what differs stands in a table of words.
"""

from __future__ import annotations

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.object_text import ObjectText
from tapeline.runtime.record import Node, TapeSet
from tapeline.runtime.tensor import Tensor

FIELDS = (
    "kernel", "op", "slow", "records", "is_loose", "dtype0", "dtype1", "dtype2", "dtype3", "dtype4",
    "n_attrs", "n_saves", "save0", "save1", "save2", "save3",
)  # fmt: skip
"""The words of a table: addresses of objects, numbers, what is saved (see `SAVED`)."""
SAVED = ("x", "y", "out", "shape of x", "shape of y", "dtype of x", "dtype of y")
MOST_ATTRS = 8
MOST_SAVES = 4
MOST_DTYPES = 5
_HELD = ("x", "y", "p", "q", "cell", "active", "out", "parents", "saved", "part", "attrs")


class ApplyText(ObjectText):
    """Writes `apply1(table, a, null, attrs)` or `apply2(table, a, b, null)`, for tensors `a` and
    `b`. The function returns a tensor, or null with an error set; where only Python can serve the
    call it says so in its result, `%missed`, 1 as a pointer."""

    def __init__(self, n_inputs: int) -> None:
        super().__init__(
            f"ptr @apply{n_inputs}(ptr %table, ptr %a, ptr %b, ptr %attrs) nounwind", _HELD
        )
        self.n_inputs = n_inputs

    def field(self, name: str, type_: str = "ptr") -> str:
        """A word of the table."""
        return self.fn.load(type_, self.fn.offset("%table", 8 * FIELDS.index(name)))

    def write(self) -> FunctionText:
        """The whole text."""
        fn = self.fn
        self.active_place = fn.alloca(8, 8)
        fn.store("ptr", "null", self.active_place)
        self.branch_unless(self.same(fn.load("ptr", "@py_busy"), "@py_zero"), "miss")
        x = self.take_value("x", "%a")
        y = self.second_value(x) if self.n_inputs == 2 else None
        self.check_dtypes(x, y)
        self.look_for_tapes(x, y)
        self.run_kernel(x, y)
        self.record(x, y)
        self.end()
        return fn

    # -- the inputs

    def take_value(self, name: str, cell: str) -> str:
        """The array that a tensor holds."""
        value = self.slot(cell, Tensor, "_value")
        self.branch_if(self.same(value, "null"), "miss")
        self.branch_unless(self.same(self.kind(value), "@py_ndarray"), "miss")
        return self.own(name, value)

    def second_value(self, x: str) -> str:
        """The array of the second operand; a Python number becomes one."""
        fn = self.fn
        kind = self.kind("%b")
        fn.branch(self.same(kind, "@py_tensor_type"), "second_tensor", "second_other")
        fn.label("second_other")
        self.branch_if(self.same(kind, "@py_float_type"), "second_number")
        self.branch_unless(self.same(kind, "@py_int_type"), "miss")
        fn.jump("second_number")
        fn.label("second_number")
        dtype = self.dtype(x)
        self.branch_if(self.same(dtype, "@py_float32"), "second_constant")
        self.branch_unless(self.same(dtype, "@py_float64"), "miss")
        fn.jump("second_constant")
        fn.label("second_constant")
        self.take("cell", self.call("@py_constant", "%b", dtype))
        fn.jump("second_known")
        fn.label("second_tensor")
        self.own("cell", "%b")
        fn.jump("second_known")
        fn.label("second_known")
        return self.take_value("y", self.get("cell"))

    def dtype(self, array: str) -> str:
        """An array's dtype."""
        return self.fn.load("ptr", self.fn.offset(array, layout.ARRAY_DESCR))

    def check_dtypes(self, x: str, y: str | None) -> None:
        """One dtype, of those that the op takes as they are; a loose op takes any pair."""
        fn = self.fn
        mine = self.dtype(x)
        self.branch_if(fn.compare("ne", self.field("is_loose", "i64"), 0), "typed")
        if y is not None:
            self.branch_unless(self.same(mine, self.dtype(y)), "miss")
        for number in range(MOST_DTYPES):
            self.branch_if(self.same(mine, self.field(f"dtype{number}")), "typed")
        fn.jump("miss")
        fn.label("typed")

    def look_for_tapes(self, x: str, y: str | None) -> None:
        """Whether the tapes that record now know an input. Where others do, Python decides."""
        fn = self.fn
        p = self.node("p", "%a")
        q = "@py_none" if y is None else self.node("q", self.get("cell"))
        self.branch_if(fn.compare("eq", self.field("records", "i64"), 0), "ready")
        fn.branch(self.is_none(p), "no_first", "noded")
        fn.label("no_first")
        self.branch_if(self.is_none(q), "ready")
        fn.jump("noded")
        fn.label("noded")
        if y is not None:
            self.branch_unless(self.same(self.dtype(x), self.dtype(y)), "miss")
        state = self.checked(fn.call("ptr", "tapeline_state"))
        found = fn.call("ptr", "PyDict_GetItemWithError", ("ptr", state), ("ptr", "@py_active"))
        active = self.own("active", self.checked(found))
        self.branch_if(self.is_none(active), "ready")
        self.branch_unless(self.same(self.kind(active), "@py_tape_set_type"), "miss")
        for name, node in (("first", p), ("second", q)):
            fits, other = f"{name}_fits", f"{name}_unknown"
            self.branch_if(self.is_none(node), fits)
            tapes = self.slot(node, Node, "tapes")
            self.branch_unless(self.same(tapes, active), other)
            fn.store("ptr", active, self.active_place)
            fn.jump(fits)
            fn.label(other)  # tapes that are no more know nothing
            ids = self.slot(tapes, TapeSet, "ids")
            self.branch_unless(fn.compare("eq", self.length(ids), 0), "miss")
            fn.jump(fits)
            fn.label(fits)
        fn.jump("ready")
        fn.label("ready")

    def node(self, name: str, cell: str) -> str:
        """The node of a tensor, or None."""
        node = self.slot(cell, Tensor, "_node")
        self.branch_if(self.same(node, "null"), "miss")
        return self.own(name, node)

    # -- the result

    def run_kernel(self, x: str, y: str | None) -> None:
        """The tensor of the result, in the frame as `out`; its array as `part`."""
        fn = self.fn
        arrays = [x] if y is None else [x, y]
        for position, array in enumerate(arrays):
            fn.store("ptr", array, fn.offset(self.vector, 8 * position))
        count: str | int = len(arrays)
        if y is None:
            n_attrs = self.field("n_attrs", "i64")

            def give(index: str, _: list[str]) -> None:
                place = fn.offset(fn.offset(self.vector, 8), fn.mul(index, 8))
                fn.store("ptr", self.item("%attrs", index), place)

            fn.loop(0, n_attrs, 1, give)
            count = str(fn.add(n_attrs, 1))
        result = self.raw_call(self.field("kernel"), count)
        fn.branch(self.same(result, "null"), "kernel_failed", "kernel_done")
        fn.label("kernel_failed")
        is_common = fn.call("i32", "PyErr_ExceptionMatches", ("ptr", "@py_exception"))
        self.branch_if(fn.compare("eq", is_common, 0, "i32"), "failed")
        fn.call("void", "PyErr_Clear")
        fn.jump("miss")
        fn.label("kernel_done")
        self.take("part", result)
        self.branch_if(self.same(self.kind(result), "@py_ndarray"), "have_array")
        array = self.call("@py_asarray", result)
        self.drop("part")
        self.take("part", array)
        fn.jump("have_array")
        fn.label("have_array")
        made = self.get("part")
        fn.call("void", "Py_IncRef", ("ptr", made))
        self.take("out", self.checked(fn.call("ptr", "tapeline_new_tensor", ("ptr", made))))

    def record(self, x: str, y: str | None) -> None:
        """Gives the result a node, where tapes record."""
        fn = self.fn
        active = fn.load("ptr", self.active_place)
        self.branch_if(self.same(active, "null"), "recorded")
        if y is None:  # attributes, such as those of a cast, may make ints of what a tape knows
            self.branch_if(fn.compare("eq", self.field("n_attrs", "i64"), 0), "is_float")
            dtype = self.dtype(self.get("part"))
            self.branch_if(self.same(dtype, "@py_float32"), "is_float")
            self.branch_unless(self.same(dtype, "@py_float64"), "miss")
            fn.jump("is_float")
            fn.label("is_float")
        parents = self.take(
            "parents", self.checked(fn.call("ptr", "PyTuple_New", ("i64", self.n_inputs)))
        )
        for position, name in enumerate("pq"[: self.n_inputs]):
            node = self.get(name)
            fn.call("void", "Py_IncRef", ("ptr", node))
            fn.store("ptr", node, fn.offset(parents, layout.TUPLE_ITEMS + 8 * position))
        n_saves = self.field("n_saves", "i64")
        saved = self.take("saved", self.checked(fn.call("ptr", "PyTuple_New", ("i64", n_saves))))

        def save(index: str, _: list[str]) -> None:
            start = fn.offset("%table", 8 * FIELDS.index("save0"))
            code = fn.load("i64", fn.offset(start, fn.mul(index, 8)))
            item = self.saved_item(code, x, y)
            place = fn.offset(fn.offset(saved, layout.TUPLE_ITEMS), fn.mul(index, 8))
            fn.store("ptr", item, place)

        fn.loop(0, n_saves, 1, save)
        node = self.checked(
            fn.call(
                "ptr", "tapeline_record", ("ptr", self.field("op")), ("ptr", active),
                ("ptr", self.pass_on("parents")), ("ptr", self.pass_on("saved")),
            )
        )  # fmt: skip
        if y is None:
            self.branch_if(fn.compare("eq", self.field("n_attrs", "i64"), 0), "attributed")
            self.set_slot(node, Node, "attrs", "%attrs")
            fn.jump("attributed")
            fn.label("attributed")
        place = self.slot_place(self.get("out"), Tensor, "_node")
        before = fn.load("ptr", place)
        fn.store("ptr", node, place)
        self.release(before)
        fn.jump("recorded")
        fn.label("recorded")

    def saved_item(self, code: str, x: str, y: str | None) -> str:
        """A new reference to what a node saves."""
        fn, number = self.fn, self.fn.number()
        place = fn.alloca(8, 8)
        done = f"saved{number}"
        arrays = {"x": x, "y": x if y is None else y}
        for position, what in enumerate(SAVED):
            other = f"save{number}_not_{position}"
            self.branch_unless(fn.compare("eq", code, position), other)
            kind, _, owner = what.rpartition(" of ")
            if kind == "shape":
                shape = fn.call(
                    "ptr", "PyObject_GetAttr", ("ptr", arrays[owner]), ("ptr", "@py_shape")
                )
                fn.store("ptr", self.checked(shape), place)
            else:
                item = self.get("part") if what == "out" else arrays[owner]
                if kind == "dtype":
                    item = self.dtype(item)
                fn.call("void", "Py_IncRef", ("ptr", item))
                fn.store("ptr", item, place)
            fn.jump(done)
            fn.label(other)
        fn.jump("failed")  # a table has no other codes
        fn.label(done)
        return fn.load("ptr", place)

    def end(self) -> None:
        """The ways out."""
        fn = self.fn
        out = self.pass_on("out")
        self.give_up()
        fn.line(f"ret ptr {out}")
        fn.label("miss")
        self.give_up()
        fn.line("ret ptr inttoptr (i64 1 to ptr)")
        fn.label("failed")
        self.give_up()
        fn.line("ret ptr null")


def caller_text(name: str, n_inputs: int, is_method: bool, has_attrs: bool) -> FunctionText:
    """`name(table, self, args, count)`: what Python calls, apart from the table; a function or a
    method of tensors."""
    fn = FunctionText(f"ptr @{name}(ptr %table, ptr %self, ptr %args, i64 %count) nounwind")
    vector = fn.alloca(8 * 3, 8)
    n_given = n_inputs + has_attrs
    fn.branch(fn.compare("eq", "%count", n_given - is_method), "counted", "python")
    fn.label("counted")
    given = [] if not is_method else ["%self"]
    given += [
        fn.load("ptr", fn.offset("%args", 8 * number)) for number in range(n_given - is_method)
    ]
    for position, cell in enumerate(given):
        fn.store("ptr", cell, fn.offset(vector, 8 * position))
    tensors = given[:1] if is_method else given[:n_inputs]
    for number, cell in enumerate(tensors):
        kind = fn.load("ptr", fn.offset(cell, layout.OBJECT_TYPE))
        is_tensor = fn.compare("eq", kind, "@py_tensor_type", "ptr")
        fn.branch(is_tensor, f"tensor{number}", "ask")
        fn.label(f"tensor{number}")
    if has_attrs:
        kind = fn.load("ptr", fn.offset(given[-1], layout.OBJECT_TYPE))
        fn.branch(fn.compare("eq", kind, "@py_tuple_type", "ptr"), "attrs", "ask")
        fn.label("attrs")
        length = fn.load("i64", fn.offset(given[-1], layout.VAR_SIZE))
        wanted = fn.load("i64", fn.offset("%table", 8 * FIELDS.index("n_attrs")))
        fn.branch(fn.compare("eq", length, wanted), "fits", "ask")
        fn.label("fits")
    second = given[1] if n_inputs == 2 else "null"
    attrs = given[-1] if has_attrs else "null"
    result = fn.call_defined(
        "ptr", f"@apply{n_inputs}", ("ptr", "%table"), ("ptr", given[0]), ("ptr", second),
        ("ptr", attrs),
    )  # fmt: skip
    number_of = fn.value(f"ptrtoint ptr {result} to i64")
    fn.branch(fn.compare("eq", number_of, 1), "ask", "answer")
    fn.label("answer")
    fn.line(f"ret ptr {result}")
    fn.label("ask")
    _ask_python(fn, vector, len(given))
    fn.label("python")  # a number of arguments that Python will complain about
    _complain(fn, is_method)
    return fn


def _slow(fn: FunctionText) -> str:
    return fn.load("ptr", fn.offset("%table", 8 * FIELDS.index("slow")))


def _ask_python(fn: FunctionText, vector: str, count: int) -> None:
    answer = fn.call(
        "ptr", "PyObject_Vectorcall", ("ptr", _slow(fn)), ("ptr", vector), ("i64", count),
        ("ptr", "null"),
    )  # fmt: skip
    fn.line(f"ret ptr {answer}")


def _complain(fn: FunctionText, is_method: bool) -> None:
    """Calls the Python function with what was given."""
    if not is_method:
        _ask_python_for(fn, "%args", "%count")
        return
    row = fn.call("ptr", "PyTuple_New", ("i64", fn.add("%count", 1)))
    fn.branch(fn.compare("eq", row, "null", "ptr"), "no_row", "row")
    fn.label("row")
    items = fn.offset(row, layout.TUPLE_ITEMS)
    fn.call("void", "Py_IncRef", ("ptr", "%self"))
    fn.store("ptr", "%self", items)

    def copy(index: str, _: list[str]) -> None:
        item = fn.load("ptr", fn.offset("%args", fn.mul(index, 8)))
        fn.call("void", "Py_IncRef", ("ptr", item))
        fn.store("ptr", item, fn.offset(fn.offset(items, 8), fn.mul(index, 8)))

    fn.loop(0, "%count", 1, copy)
    answer = fn.call("ptr", "PyObject_Call", ("ptr", _slow(fn)), ("ptr", row), ("ptr", "null"))
    fn.call("void", "Py_DecRef", ("ptr", row))
    fn.line(f"ret ptr {answer}")
    fn.label("no_row")
    fn.line("ret ptr null")


def _ask_python_for(fn: FunctionText, args: str, count: str) -> None:
    answer = fn.call(
        "ptr", "PyObject_Vectorcall", ("ptr", _slow(fn)), ("ptr", args), ("i64", count),
        ("ptr", "null"),
    )  # fmt: skip
    fn.line(f"ret ptr {answer}")
