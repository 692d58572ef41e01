"""Machine code for the walk back over plain arrays: what `walk_arrays` of the runtime does."""

from __future__ import annotations

from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.object_text import MOST_GIVEN, ObjectText
from tapeline.runtime.op import Op
from tapeline.runtime.record import Node, TapeSet

_MOST_SAVED = MOST_GIVEN - 2
"""Saved values up to which native code calls a rule."""
_PER_NODE = ("op", "ct", "parents", "saved", "attrs", "rules")
_HELD = ("node", "following", "owned", "ids", *_PER_NODE)


class WalkText(ObjectText):
    """Writes `walk_arrays`, which takes the oldest serial as a number."""

    def __init__(self) -> None:
        super().__init__(
            "ptr @walk_arrays(ptr %own, ptr %wanted, i64 %low, ptr %grads, ptr %heap, ptr %first) "
            "nounwind",
            _HELD,
        )
        self.given = self.fn.alloca(8 * MOST_GIVEN, 8)
        """What rules are called with: the cotangent, attributes, saved values."""
        self.count_place = self.fn.alloca(8, 8)
        """Where it stands how many parents are looked at."""
        self.table_place = self.fn.alloca(8, 8)

    def write(self) -> FunctionText:
        """The whole text."""
        fn = self.fn
        ids = self.own("ids", self.slot("%own", TapeSet, "ids"))
        self.own("node", "%first")
        self.branch_if(fn.compare("ne", self.length(ids), 1), "leave")
        self.ident = self.item(ids, 0)
        fn.jump("next")
        fn.label("next")
        self.look_at_node()
        self.take_cotangent()
        self.pull_parents()
        self.choose_next()
        self.end()
        return fn

    def unless_known(self, tapes: str, target: str) -> None:
        """To a label if the tape is not among `tapes`."""
        fn = self.fn
        known, other = f"known{fn.number()}", f"other{fn.number()}"
        fn.branch(self.same(tapes, "%own"), known, other)
        fn.label(other)
        ids = self.slot(tapes, TapeSet, "ids")
        found = fn.call("i32", "PySequence_Contains", ("ptr", ids), ("ptr", self.ident))
        fn.branch(fn.compare("eq", found, 1, "i32"), known, target)
        fn.label(known)

    def unless_in(self, table: str, node: str, target: str) -> None:
        """To a label if the node is not in the table."""
        found = self.fn.call("i32", "PyDict_Contains", ("ptr", table), ("ptr", node))
        self.branch_if(self.fn.compare("ne", found, 1, "i32"), target)

    # -- one node

    def look_at_node(self) -> None:
        """Leaves the node at hand to Python unless it is a plain one."""
        fn = self.fn
        node = self.get("node")
        op = self.own("op", self.slot(node, Node, "op"))
        parents = self.own("parents", self.slot(node, Node, "parents"))
        saved = self.own("saved", self.slot(node, Node, "saved"))
        self.own("attrs", self.slot(node, Node, "attrs"))
        fn.store("i64", 0, self.count_place)
        self.unless_known(self.slot(node, Node, "rec"), "counted")
        self.branch_unless(self.same(self.kind(op), "@py_op_type"), "leave")
        self.branch_unless(self.is_none(self.slot(op, Op, "joint_vjp")), "leave")
        self.branch_unless(self.is_none(self.slot(op, Op, "n_outputs")), "leave")
        rules = self.own("rules", self.slot(op, Op, "vjps"))
        n_parents, n_rules = self.length(parents), self.length(rules)
        self.branch_if(fn.compare("eq", n_rules, 0), "leave")
        self.branch_if(fn.compare("ugt", n_parents, n_rules), "leave")
        self.branch_if(fn.compare("ugt", self.length(saved), _MOST_SAVED), "leave")
        fn.store("i64", n_parents, self.count_place)
        fn.jump("counted")
        fn.label("counted")

    def take_cotangent(self) -> None:
        """Takes the node's cotangent out of the table, and keeps it if it is wanted."""
        fn = self.fn
        node = self.get("node")
        ct = fn.call("ptr", "PyDict_GetItemWithError", ("ptr", "%grads"), ("ptr", node))
        self.branch_if(self.same(ct, "null"), "leave")
        self.own("ct", ct)
        self.succeed(fn.call("i32", "PyDict_DelItem", ("ptr", "%grads"), ("ptr", node)))
        self.unless_in("%wanted", node, "taken")
        self.put("%wanted", node, ct)
        fn.jump("taken")
        fn.label("taken")

    def put(self, table: str, node: str, value: str) -> None:
        """table[node] = value"""
        self.succeed(
            self.fn.call("i32", "PyDict_SetItem", ("ptr", table), ("ptr", node), ("ptr", value))
        )

    def pull_parents(self) -> None:
        """Calls the rules of the parents that lead on."""
        fn = self.fn
        parents, saved, rules = self.get("parents"), self.get("saved"), self.get("rules")
        fn.store("ptr", self.get("ct"), self.given)
        fn.store("ptr", self.get("attrs"), fn.offset(self.given, 8))
        n_parents = fn.load("i64", self.count_place)
        n_saved = fn.select(fn.compare("eq", n_parents, 0), 0, self.length(saved))

        def give(index: str, _: list[str]) -> None:
            place = fn.offset(fn.offset(self.given, 16), fn.mul(index, 8))
            fn.store("ptr", self.item(saved, index), place)

        def pull(index: str, _: list[str]) -> None:
            done = f"pulled{fn.number()}"
            self.pull(self.item(parents, index), self.item(rules, index), n_given, done)
            fn.jump(done)
            fn.label(done)

        fn.loop(0, n_saved, 1, give)
        n_given = fn.add(n_saved, 2)
        fn.loop(0, n_parents, 1, pull)

    def pull(self, parent: str, rule: str, n_given: Value, done: str) -> None:
        """Calls the rule of one parent and adds the part to what the parent has."""
        fn, number = self.fn, self.fn.number()
        self.branch_if(self.is_none(parent), done)
        is_leaf = self.is_none(self.slot(parent, Node, "op"))
        fn.branch(is_leaf, f"leaf{number}", f"inner{number}")
        fn.label(f"leaf{number}")
        self.unless_in("%wanted", parent, done)
        fn.store("ptr", "%wanted", self.table_place)
        fn.jump(f"leads{number}")
        fn.label(f"inner{number}")
        serial = fn.call("i64", "PyLong_AsLongLong", ("ptr", self.slot(parent, Node, "serial")))
        self.branch_if(fn.compare("slt", serial, "%low"), done)
        self.unless_known(self.slot(parent, Node, "tapes"), done)
        fn.store("ptr", "%grads", self.table_place)
        fn.jump(f"leads{number}")
        fn.label(f"leads{number}")
        self.branch_if(self.is_none(rule), done)
        part = self.checked(
            fn.call(
                "ptr", "PyObject_Vectorcall", ("ptr", rule), ("ptr", self.given),
                ("i64", n_given), ("ptr", "null"),
            )
        )  # fmt: skip
        self.branch_if(self.is_none(part), f"drop{number}")
        table = fn.load("ptr", self.table_place)
        held = fn.call("ptr", "PyDict_GetItemWithError", ("ptr", table), ("ptr", parent))
        self.branch_if(self.same(held, "null"), f"first{number}")
        self.branch_if(self.is_none(held), f"first{number}")
        self.add_up(table, parent, held, part, number)
        fn.label(f"first{number}")
        status = fn.call("i32", "PyDict_SetItem", ("ptr", table), ("ptr", parent), ("ptr", part))
        self.release(part)
        self.succeed(status)
        self.branch_if(is_leaf, done)
        self.enqueue(parent, done)
        fn.label(f"drop{number}")
        self.release(part)

    def add_up(self, table: str, parent: str, held: str, part: str, number: int) -> None:
        """Adds to a cotangent that is there already."""
        fn = self.fn
        has_set, lost = f"has_set{number}", f"lost{number}"
        fn.branch(self.same(self.get("owned"), "null"), f"no_set{number}", has_set)
        fn.label(f"no_set{number}")
        made = self.take("owned", fn.call("ptr", "PySet_New", ("ptr", "null")))
        fn.branch(self.same(made, "null"), lost, has_set)
        fn.label(lost)
        self.release(part)
        fn.jump("failed")
        fn.label(has_set)
        args = (self.get("owned"), table, parent, held, part)
        for position, arg in enumerate(args):
            fn.store("ptr", arg, fn.offset(self.vector, 8 * position))
        answer = self.raw_call("@py_accumulate", len(args))
        self.branch_if(self.same(answer, "null"), lost)
        self.release(answer)
        fn.jump(f"drop{number}")

    def enqueue(self, parent: str, done: str) -> None:
        """Notes a node whose turn comes: the first one aside, others in the heap."""
        fn, number = self.fn, self.fn.number()
        fn.branch(self.same(self.get("following"), "null"), f"aside{number}", f"push{number}")
        fn.label(f"aside{number}")
        self.own("following", parent)
        fn.jump(done)
        fn.label(f"push{number}")
        self.release(self.call("@py_push", "%heap", parent))
        fn.jump(done)

    # -- from node to node

    def choose_next(self) -> None:
        """Lets go of the node at hand, and takes the youngest of those that wait."""
        fn = self.fn
        for name in _PER_NODE:
            self.drop(name)
        following = self.get("following")
        is_empty = fn.compare("eq", self.length("%heap"), 0)
        fn.branch(self.same(following, "null"), "pop", "choose")
        fn.label("pop")
        self.branch_if(is_empty, "finished")
        popped = self.call("@py_pop", "%heap")
        self.drop("node")
        self.take("node", popped)
        fn.jump("next")
        fn.label("choose")
        self.branch_if(is_empty, "go_on")
        youngest = self.call("@py_push_pop", "%heap", following)
        self.drop("following")
        self.drop("node")
        self.take("node", youngest)
        fn.jump("next")
        fn.label("go_on")
        self.drop("node")
        self.take("node", self.pass_on("following"))
        fn.jump("next")

    def end(self) -> None:
        """The ways out: the end of the walk, a node that is left to Python, an error."""
        fn = self.fn
        fn.label("finished")
        self.give_up()
        fn.call("void", "Py_IncRef", ("ptr", "@py_none"))
        fn.line("ret ptr @py_none")
        fn.label("leave")
        left = self.pass_on("node")
        self.give_up()
        fn.line(f"ret ptr {left}")
        fn.label("failed")
        self.give_up()
        fn.line("ret ptr null")
