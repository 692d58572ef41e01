"""Machine code for what every use of a `GradientTape` does: it is entered, told what to watch, left
and dropped. Whatever is not the plain case goes to the methods in Python.

A tape is entered where no other is open in the thread. Its `TapeSet` is that of the last tape, if
nothing refers to that any more.
"""

from __future__ import annotations

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText
from tapeline.compiler.codegen.tape_text import MISSED, MethodText
from tapeline.runtime.record import Node, TapeSet
from tapeline.runtime.recorder import Tape
from tapeline.runtime.tensor import Tensor

_GRADIENT_TAPE = "@py_gradient_tape_type"


def enter_text() -> FunctionText:
    """`GradientTape.__enter__`, the first time."""
    text = _EnterText("__enter__", ("here", "own", "ident", "ids", "drop", "open"))
    return text.write()


class _EnterText(MethodText):
    def write(self) -> FunctionText:
        """The whole text."""
        fn = self.fn
        self.check_call(0, _GRADIENT_TAPE)
        self.require("%self", Tape, _own="@py_none", _is_recording="@py_false")
        here = self.thread_state()
        self.branch_unless(self.same(self.look_up(here, "@py_open"), "@py_empty_tuple"), "python")
        self.branch_unless(self.same(self.look_up(here, "@py_stopped"), "@py_zero"), "python")
        self.take_set()
        own = self.get("own")
        ident = self.identify(own)
        tapes = self.take("open", self.checked(fn.call("ptr", "PyTuple_New", ("i64", 1))))
        fn.call("void", "Py_IncRef", ("ptr", "%self"))
        fn.store("ptr", "%self", fn.offset(tapes, layout.TUPLE_ITEMS))
        self.set_item("@py_own_sets", ident, own)
        self.set_item("@py_recording", ident, "@py_none")
        self.set_slot("%self", Tape, "_own", own)
        self.set_slot("%self", Tape, "_is_recording", "@py_true")
        self.set_slot("%self", Tape, "_is_ended", "@py_false")
        self.set_item(here, "@py_open", tapes)
        self.set_item(here, "@py_active", own)
        self.answer("%self")
        return self.end()

    def take_set(self) -> None:
        """An empty set and its bound `discard`: the spare ones if nobody else holds them, else new
        ones, spare from now on.

        Before a tape ends its set holds the function as well, and so do the records. What nobody
        holds was released, so it is empty.
        """
        fn = self.fn
        spare_set, spare_drop = "@py_spare_set", fn.offset("@py_spare_set", 8)
        if layout.REFCOUNT_IS_READABLE:
            own, drop = fn.load("ptr", spare_set), fn.load("ptr", spare_drop)
            self.branch_unless(self.same(self.kind(own), "@py_tape_set_type"), "make_set")
            for spare, n_holders in ((own, 2), (drop, 1)):  # the function holds the set
                count = fn.load("i64", fn.offset(spare, layout.OBJECT_REFCOUNT))
                self.branch_unless(fn.compare("eq", count, n_holders), "make_set")
            self.own("own", own)
            self.own("drop", drop)
            fn.jump("have_set")
            fn.label("make_set")
        own = fn.call("ptr", "PyObject_CallNoArgs", ("ptr", "@py_tape_set_type"))
        self.take("own", self.checked(own))
        drop = fn.call("ptr", "PyObject_GetAttr", ("ptr", own), ("ptr", "@py_discard"))
        self.take("drop", self.checked(drop))
        for place, made in ((spare_set, own), (spare_drop, drop)):
            fn.call("void", "Py_IncRef", ("ptr", made))
            before = fn.load("ptr", place)
            fn.store("ptr", made, place)
            self.release(before)
        fn.jump("have_set")
        fn.label("have_set")

    def identify(self, own: str) -> str:
        """Makes it the set of a new tape; the tape's id."""
        fn = self.fn
        ident = self.take(
            "ident", self.checked(fn.call("ptr", "PyIter_Next", ("ptr", "@py_tape_ids")))
        )
        ids = self.take("ids", self.checked(fn.call("ptr", "PyTuple_New", ("i64", 1))))
        fn.call("void", "Py_IncRef", ("ptr", ident))
        fn.store("ptr", ident, fn.offset(ids, layout.TUPLE_ITEMS))
        self.set_slot(own, TapeSet, "ids", ids)
        self.set_slot(own, TapeSet, "memo", "@py_none")
        self.set_slot(own, TapeSet, "drop", self.get("drop"))
        return ident


def exit_text() -> FunctionText:
    """`GradientTape.__exit__` where the tape records, and no other one in this thread."""
    text = MethodText("__exit__", ("here", "ident"))
    fn = text.fn
    text.check_call(3, _GRADIENT_TAPE)
    text.require("%self", Tape, _is_recording="@py_true")
    here = text.thread_state()
    tapes = text.look_up(here, "@py_open")
    text.branch_if(fn.compare("ne", text.length(tapes), 1), "python")
    text.branch_unless(text.same(text.item(tapes, 0), "%self"), "python")
    ids = text.slot(text.slot("%self", Tape, "_own"), TapeSet, "ids")
    text.branch_if(fn.compare("ne", text.length(ids), 1), "python")
    text.forget_item("@py_recording", text.own("ident", text.item(ids, 0)))
    text.set_slot("%self", Tape, "_is_recording", "@py_false")
    text.set_item(here, "@py_open", "@py_empty_tuple")
    text.set_item(here, "@py_active", "@py_none")
    text.answer("@py_none")
    return text.end()


def drop_text() -> FunctionText:
    """`Tape.__del__` where nothing is left to release."""
    text = MethodText("__del__")
    own = text.slot("%self", Tape, "_own")
    text.branch_if(text.same(own, "null"), "done")
    text.branch_if(text.is_none(own), "done")
    text.require("%self", Tape, _is_used="@py_true")
    text.fn.jump("done")
    text.fn.label("done")
    text.answer("@py_none")
    return text.end()


def watch_text() -> FunctionText:
    """`GradientTape.watch` of a tensor of floats that no other tape knows."""
    text = _WatchText("watch", ("own", "leaf"))
    return text.write()


class _WatchText(MethodText):
    def write(self) -> FunctionText:
        """The whole text."""
        fn = self.fn
        self.check_call(1, _GRADIENT_TAPE)
        tensor = self.argument(0)
        self.branch_unless(self.same(self.kind(tensor), "@py_tensor_type"), "python")
        own = self.own("own", self.slot("%self", Tape, "_own"))
        self.branch_unless(self.same(self.kind(own), "@py_tape_set_type"), "python")
        self.require("%self", Tape, _is_used="@py_false")
        self.branch_if(fn.compare("ne", self.word("py_cells"), 0), "python")
        self.check_value(tensor)
        node = self.slot(tensor, Tensor, "_node")
        self.branch_if(self.same(node, "null"), "python")
        self.branch_if(self.is_none(node), "without_node")
        ids = self.slot(self.slot(node, Node, "tapes"), TapeSet, "ids")
        self.branch_if(fn.compare("ne", self.length(ids), 0), "python")
        self.require_free_lock("python")
        self.set_slot(node, Node, "tapes", own)
        self.answer("@py_none")
        fn.label("without_node")
        leaf = self.take("leaf", self.checked(fn.call("ptr", "tapeline_leaf", ("ptr", own))))
        self.require(tensor, Tensor, _node="@py_none")  # making the leaf may have run Python
        self.require_free_lock("python")
        self.set_slot(tensor, Tensor, "_node", leaf)
        self.answer("@py_none")
        return self.end()

    def check_value(self, tensor: str) -> None:
        """The value of the tensor is an array of floats."""
        fn = self.fn
        value = self.slot(tensor, Tensor, "_value")
        self.branch_if(self.same(value, "null"), "python")
        self.branch_unless(self.same(self.kind(value), "@py_ndarray"), "python")
        dtype = fn.load("ptr", fn.offset(value, layout.ARRAY_DESCR))
        self.branch_if(self.same(dtype, "@py_float32"), "is_float")
        self.branch_unless(self.same(dtype, "@py_float64"), "python")
        fn.jump("is_float")
        fn.label("is_float")


def gradient_text() -> FunctionText:
    """`GradientTape.gradient` of a tensor by a tensor, or by a list or tuple of them."""
    text = MethodText("gradient", ("row",))
    fn = text.fn
    text.check_call(2, _GRADIENT_TAPE)
    target, sources = text.argument(0), text.argument(1)
    text.branch_unless(text.same(text.kind(target), "@py_tensor_type"), "python")
    text.take_row("row", sources, "python")
    answer = fn.call_defined(
        "ptr", "@gradient_of", ("ptr", "%self"), ("ptr", target), ("ptr", text.get("row")),
        ("ptr", text.kind(sources)),
    )  # fmt: skip
    text.branch_if(text.same(answer, MISSED), "python")
    text.answer(answer, is_borrowed=False)
    return text.end()
