"""Machine code for the gradient that most programs ask for: what `gradient_of` of the runtime does.

It serves a tape that is not persistent and records no more, sources that this tape alone knows, and
a thread with nothing else going on; whatever else comes goes to Python.
"""

from __future__ import annotations

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.tape_text import MISSED, TapeText
from tapeline.runtime.record import Node, TapeSet
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tensor import Tensor
from tapeline.runtime.variable import Variable

_HELD = (
    "own", "node", "nodes", "here", "shape", "seed", "claimed", "wanted", "masked", "grads", "heap",
    "found", "part", "records",
)  # fmt: skip


class GradientText(TapeText):
    """Writes `gradient_of(tape, target, sources, kind)`: gradients by the sources, a tuple, in a
    list or tuple if that is the kind, else bare. It returns `MISSED` where Python must serve."""

    def __init__(self) -> None:
        header = "ptr @gradient_of(ptr %tape, ptr %target, ptr %sources, ptr %kind) nounwind"
        super().__init__(header, _HELD)
        self.tape, self.target, self.sources = "%tape", "%target", "%sources"

    def write(self) -> FunctionText:
        """The whole text."""
        self.check_thread()
        self.check_tape()
        self.check_target()
        low = self.take_nodes()
        self.make_seed()
        self.claim()
        self.walk(low)
        self.settle()
        self.wrap()
        self.end_tape()
        self.end()
        return self.fn

    # -- whether it is served

    def check_thread(self) -> None:
        """No handler or callback in the process, no tape and no sparse walk in this thread."""
        fn = self.fn
        self.branch_unless(self.same(fn.load("ptr", "@py_busy"), "@py_zero"), "python")
        self.branch_if(fn.compare("ne", self.word("py_cells"), 0), "python")
        here = self.thread_state()
        self.branch_unless(self.is_none(self.look_up(here, "@py_active")), "python")
        self.branch_unless(self.same(self.look_up(here, "@py_sparse"), "@py_false"), "python")

    def check_tape(self) -> None:
        """The tape can be used once, has recorded and is not used yet."""
        no = "@py_false"
        self.require(self.tape, Tape, persistent=no, _is_recording=no, _is_used=no)
        own = self.own("own", self.slot(self.tape, Tape, "_own"))
        self.branch_unless(self.same(self.kind(own), "@py_tape_set_type"), "python")

    def check_target(self) -> None:
        """The target is the result of an op that this tape alone knows."""
        value = self.slot(self.target, Tensor, "_value")
        self.branch_if(self.same(value, "null"), "python")
        self.branch_unless(self.same(self.kind(value), "@py_ndarray"), "python")
        node = self.check_node(self.slot(self.target, Tensor, "_node"))
        self.branch_if(self.is_none(self.slot(node, Node, "op")), "python")
        self.own("node", node)

    def check_node(self, node: str) -> str:
        """A node that this tape alone knows."""
        self.branch_if(self.same(node, "null"), "python")
        self.branch_if(self.is_none(node), "python")
        tapes = self.slot(node, Node, "tapes")
        self.branch_unless(self.same(tapes, self.get("own")), "python")
        return node

    def take_nodes(self) -> str:
        """The nodes of the sources as a tuple; their smallest serial."""
        fn = self.fn
        sources = self.sources
        count = self.length(sources)
        self.branch_if(fn.compare("eq", count, 0), "python")
        nodes = self.take("nodes", self.checked(fn.call("ptr", "PyTuple_New", ("i64", count))))

        def one(index: str, carried: list[str]) -> list[str]:
            node = self.source_node(self.item(sources, index))
            fn.call("void", "Py_IncRef", ("ptr", node))
            start = fn.offset(nodes, layout.TUPLE_ITEMS)
            fn.store("ptr", node, fn.offset(start, fn.mul(index, 8)))
            serial = fn.call("i64", "PyLong_AsLongLong", ("ptr", self.slot(node, Node, "serial")))
            return [fn.min(carried[0], serial)]

        (low,) = fn.loop(0, count, 1, one, [("i64", 2**62)])
        return low

    def source_node(self, source: str) -> str:
        """The node of a tensor or Variable."""
        fn, number = self.fn, self.fn.number()
        place, kind = fn.alloca(8, 8), self.kind(source)
        for cls, symbol in ((Tensor, "@py_tensor_type"), (Variable, "@py_variable_type")):
            other = f"no_{cls.__name__}{number}"
            self.branch_unless(self.same(kind, symbol), other)
            fn.store("ptr", self.slot(source, cls, "_node"), place)
            fn.jump(f"source{number}")
            fn.label(other)
        fn.jump("python")
        fn.label(f"source{number}")
        return self.check_node(fn.load("ptr", place))

    # -- the gradient

    def make_seed(self) -> None:
        """Ones for the cotangent of the target."""
        fn = self.fn
        value = self.slot(self.target, Tensor, "_value")
        dtype = fn.load("ptr", fn.offset(value, layout.ARRAY_DESCR))
        ndim = fn.load("i32", fn.offset(value, layout.ARRAY_NDIM), 4)
        self.branch_if(fn.compare("ne", ndim, 0, "i32"), "make_seed")
        for name in ("float32", "float64"):  # numbers, the most common targets
            self.branch_unless(self.same(dtype, f"@py_{name}"), f"not_{name}")
            self.own("seed", f"@py_one_{name}")
            fn.jump("seeded")
            fn.label(f"not_{name}")
        fn.jump("make_seed")
        fn.label("make_seed")
        last = fn.load("ptr", "@py_last_seed")
        fits = fn.call(
            "i1", "tapeline_check_array", ("ptr", last), ("ptr", dtype),
            ("i64", fn.value(f"zext i32 {ndim} to i64")),
            ("ptr", fn.load("ptr", fn.offset(value, layout.ARRAY_DIMENSIONS))),
        )  # fmt: skip
        self.branch_unless(fits, "other_seed")
        self.own("seed", last)
        fn.jump("seeded")
        fn.label("other_seed")
        shape = self.checked(
            fn.call("ptr", "PyObject_GetAttr", ("ptr", value), ("ptr", "@py_shape"))
        )
        self.take("shape", shape)
        seed = self.take("seed", self.call("@py_filled", "@py_one", shape, dtype))
        flags = fn.load("i32", fn.offset(seed, layout.ARRAY_FLAGS), 4)
        is_kept = fn.compare("eq", fn.value(f"and i32 {flags}, {layout.WRITEABLE}"), 0, "i32")
        self.branch_unless(is_kept, "seeded")  # a large one, which is made each time
        fn.call("void", "Py_IncRef", ("ptr", seed))
        fn.store("ptr", seed, "@py_last_seed")
        self.release(last)
        fn.jump("seeded")
        fn.label("seeded")

    def claim(self) -> None:
        """Takes the tape for this gradient, unless another thread did so meanwhile."""
        used = self.slot(self.tape, Tape, "_is_used")
        self.branch_unless(self.same(used, "@py_false"), "python")
        self.set_slot(self.tape, Tape, "_is_used", "@py_true")
        self.own("claimed", self.get("own"))
        here = self.get("here")
        masked = self.own("masked", self.look_up(here, "@py_masked"))
        self.branch_if(self.same(masked, "@py_false"), "claimed")
        self.set_item(here, "@py_masked", "@py_false")
        self.fn.jump("claimed")
        self.fn.label("claimed")

    def walk(self, low: str) -> None:
        """The way back, with None for sources that it does not reach."""
        fn = self.fn
        nodes = self.get("nodes")
        wanted = self.take("wanted", self.checked(fn.call("ptr", "PyDict_New")))

        def want(index: str, _: list[str]) -> None:
            self.set_item(wanted, self.item(nodes, index), "@py_none")

        fn.loop(0, self.length(nodes), 1, want)
        grads = self.take("grads", self.checked(fn.call("ptr", "PyDict_New")))
        node = self.get("node")
        self.set_item(grads, node, self.get("seed"))
        heap = self.take("heap", self.checked(fn.call("ptr", "PyList_New", ("i64", 0))))
        left = self.checked(
            fn.call_defined(
                "ptr", "@walk_arrays", ("ptr", self.get("own")), ("ptr", wanted), ("i64", low),
                ("ptr", grads), ("ptr", heap), ("ptr", node),
            )
        )  # fmt: skip
        self.take("part", left)
        self.branch_if(self.is_none(left), "walked")
        self.release(self.call("@py_finish", self.get("own"), wanted, grads, heap, left))
        fn.jump("walked")
        fn.label("walked")
        self.drop("part")

    def settle(self) -> None:
        """Walks again where a rule masked and a NaN came out."""
        fn = self.fn
        here = self.get("here")
        masks = self.look_up(here, "@py_masked")
        self.branch_if(self.same(masks, "@py_false"), "settled")
        wanted = self.get("wanted")
        settled = self.call(
            "@py_settle", self.get("own"), wanted, self.get("node"), self.get("seed")
        )
        self.drop("wanted")
        self.take("wanted", settled)
        fn.jump("settled")
        fn.label("settled")
        self.branch_if(self.same(self.get("masked"), "@py_false"), "unmasked")
        self.set_item(here, "@py_masked", "@py_true")
        fn.jump("unmasked")
        fn.label("unmasked")

    def wrap(self) -> None:
        """The results: a list, or a tuple."""
        fn = self.fn
        nodes, wanted = self.get("nodes"), self.get("wanted")
        count = self.length(nodes)
        items = fn.alloca(8, 8)
        fn.branch(self.same("%kind", "@py_list_type"), "as_list", "as_tuple")
        fn.label("as_list")
        made = self.take("found", self.checked(fn.call("ptr", "PyList_New", ("i64", count))))
        fn.store("ptr", fn.load("ptr", fn.offset(made, layout.LIST_ITEMS)), items)
        fn.jump("have_row")
        fn.label("as_tuple")
        made = self.take("found", self.checked(fn.call("ptr", "PyTuple_New", ("i64", count))))
        fn.store("ptr", fn.offset(made, layout.TUPLE_ITEMS), items)
        fn.jump("have_row")
        fn.label("have_row")
        first = fn.load("ptr", items)

        def one(index: str, _: list[str]) -> None:
            number = fn.number()
            part = self.look_up(wanted, self.item(nodes, index))
            self.branch_if(self.same(part, "null"), "failed")
            place = fn.offset(first, fn.mul(index, 8))
            is_array = self.same(self.kind(part), "@py_ndarray")
            fn.branch(is_array, f"array{number}", f"other{number}")
            fn.label(f"array{number}")
            fn.call("void", "Py_IncRef", ("ptr", part))
            made = fn.call("ptr", "tapeline_new_tensor", ("ptr", part))
            fn.store("ptr", self.checked(made), place)
            fn.jump(f"wrapped{number}")
            fn.label(f"other{number}")
            fn.store("ptr", self.call("@py_as_cotangent", part), place)
            fn.jump(f"wrapped{number}")
            fn.label(f"wrapped{number}")

        fn.loop(0, count, 1, one)

    # -- the end of the tape

    def end_tape(self) -> None:
        """What `release` does; by itself where only this tape has records, and nobody is at work on
        any. Nothing runs Python until no record knows the tape any more."""
        fn = self.fn
        own = self.get("own")
        items, only, length = (fn.alloca(8, 8) for _ in range(3))
        fn.store("i64", 1, length)
        is_single = fn.compare("eq", fn.call("i64", "PySet_Size", ("ptr", own)), 1)
        self.branch_if(is_single, "listed")
        listed = self.checked(fn.call("ptr", "PySequence_List", ("ptr", own)))
        fn.store("ptr", fn.load("ptr", fn.offset(listed, layout.LIST_ITEMS)), items)
        fn.store("i64", self.length(listed), length)  # making it may have freed records
        self.take("records", listed)
        fn.jump("listed")
        fn.label("listed")
        self.require_free_lock("shared")
        self.branch_if(fn.compare("ne", self.word("py_cells"), 0), "shared")
        self.branch_if(fn.compare("ne", self.word("py_combined"), 0), "shared")
        self.forget_item("@py_own_sets", self.item(self.slot(own, TapeSet, "ids"), 0))
        self.branch_unless(is_single, "taken")
        weak = self.take("records", self.checked(fn.call("ptr", "PySet_Pop", ("ptr", own))))
        fn.store("ptr", weak, only)
        fn.store("ptr", only, items)
        fn.jump("taken")
        fn.label("taken")
        found, count = fn.load("ptr", items), fn.load("i64", length)
        fn.loop(0, count, 1, lambda k, _: self.cut(found, k, "@py_no_tapes", "rec", "tapes"))
        fn.call("i32", "PySet_Clear", ("ptr", own))
        self.set_slot(own, TapeSet, "ids", "@py_empty_tuple")
        self.set_slot(own, TapeSet, "memo", "@py_none")
        self.set_slot(own, TapeSet, "drop", "@py_none")
        self.drop("claimed")
        fn.loop(0, count, 1, lambda k, _: self.cut(found, k, "@py_empty_tuple", "parents", "saved"))
        fn.jump("ended")
        fn.label("shared")
        self.release(self.call("@py_release", self.get("own")))
        self.drop("claimed")
        fn.jump("ended")
        fn.label("ended")

    def cut(self, items: str, index: str, value: str, *names: str) -> None:
        """Puts a value into slots of one node, if it lives. One that is being freed may still be
        referred to."""
        fn = self.fn
        dead = f"dead{fn.number()}"
        weak = fn.load("ptr", fn.offset(items, fn.mul(index, 8)))
        node = fn.load("ptr", fn.offset(weak, layout.REFERENT))
        self.branch_if(self.is_none(node), dead)
        count = fn.load("i32", fn.offset(node, layout.OBJECT_REFCOUNT), 4)
        self.branch_if(fn.compare("eq", count, 0, "i32"), dead)
        fn.call("void", "Py_IncRef", ("ptr", node))
        for name in names:
            self.set_slot(node, Node, name, value)
        self.release(node)
        fn.jump(dead)
        fn.label(dead)

    def end(self) -> None:
        """The ways out."""
        fn = self.fn
        self.branch_unless(self.same("%kind", "@py_tensor_type"), "whole")
        only = self.item(self.get("found"), 0)
        fn.call("void", "Py_IncRef", ("ptr", only))
        self.give_up()
        fn.line(f"ret ptr {only}")
        fn.label("whole")
        found = self.pass_on("found")
        self.give_up()
        fn.line(f"ret ptr {found}")
        fn.label("python")
        self.give_up()
        fn.line(f"ret ptr {MISSED}")
        fn.label("failed")
        claimed = self.get("claimed")
        fn.branch(self.same(claimed, "null"), "raise", "clean")
        fn.label("clean")
        self.call_with_error("@py_abandon", claimed, self.get("here"), self.get("masked"))
        fn.jump("raise")
        fn.label("raise")
        self.give_up()
        fn.line("ret ptr null")

    def call_with_error(self, function: str, *args: str) -> None:
        """Calls a Python function that must not raise, and keeps the exception that is set."""
        fn = self.fn
        error = [fn.alloca(8, 8) for _ in range(3)]
        fn.call("void", "PyErr_Fetch", *(("ptr", place) for place in error))
        for number, arg in enumerate(args):
            fn.store("ptr", arg, fn.offset(self.vector, 8 * number))
        answer = self.raw_call(function, len(args))
        self.release(answer)
        fn.call("void", "PyErr_Restore", *(("ptr", fn.load("ptr", place)) for place in error))
