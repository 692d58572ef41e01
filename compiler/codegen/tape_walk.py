"""Machine code for the walk back over plain arrays: what `walk_arrays` of the runtime does."""

from __future__ import annotations

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.object_text import MOST_GIVEN, ObjectText
from tapeline.runtime.op import Op
from tapeline.runtime.record import Node, TapeSet

_MOST_SAVED = MOST_GIVEN - 3
"""Saved values up to which native code calls a rule."""
_PER_NODE = ("op", "ct", "parents", "saved", "attrs", "rules", "needed", "cts", "parts")
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
        self.joint_place = self.fn.alloca(8, 8)
        """Whether the node's op has one rule for all parents."""
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
        fn.store("i64", 0, self.joint_place)
        self.unless_known(self.slot(node, Node, "rec"), "counted")
        self.branch_unless(self.same(self.kind(op), "@py_op_type"), "leave")
        self.branch_unless(self.is_none(self.slot(op, Op, "n_outputs")), "leave")
        self.branch_if(fn.compare("ugt", self.length(saved), _MOST_SAVED), "leave")
        joint, n_parents = self.slot(op, Op, "joint_vjp"), self.length(parents)
        fn.branch(self.is_none(joint), "one_by_one", "all_at_once")
        fn.label("all_at_once")
        self.branch_unless(self.same(self.slot(op, Op, "masks"), "@py_false"), "leave")
        self.own("rules", joint)
        fn.store("i64", 1, self.joint_place)
        fn.store("i64", n_parents, self.count_place)
        fn.jump("counted")
        fn.label("one_by_one")
        rules = self.own("rules", self.slot(op, Op, "vjps"))
        n_rules = self.length(rules)
        self.branch_if(fn.compare("eq", n_rules, 0), "leave")
        self.branch_if(fn.compare("ugt", n_parents, n_rules), "leave")
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
        is_joint = fn.compare("ne", fn.load("i64", self.joint_place), 0)
        fn.branch(is_joint, "pull_all", "pull_each")
        fn.label("pull_all")
        self.pull_at_once()
        fn.jump("pulled")
        fn.label("pull_each")
        self.pull_one_by_one()
        fn.jump("pulled")
        fn.label("pulled")

    def pull_one_by_one(self) -> None:
        """Where each parent has a rule."""
        fn = self.fn
        parents, rules = self.get("parents"), self.get("rules")
        n_parents = fn.load("i64", self.count_place)
        fn.store("ptr", self.get("ct"), self.given)
        fn.store("ptr", self.get("attrs"), fn.offset(self.given, 8))
        n_given = self.give_saved(2, n_parents)

        def pull(index: str, _: list[str]) -> None:
            number = fn.number()
            done = f"pulled{number}"
            parent, rule = self.item(parents, index), self.item(rules, index)
            self.find_table(parent, done)
            self.branch_if(self.is_none(rule), done)
            self.add_part(parent, self.call_rule(rule, n_given), number)
            fn.jump(done)
            fn.label(done)

        fn.loop(0, n_parents, 1, pull)

    def pull_at_once(self) -> None:
        """Where one rule gives the parts of all parents."""
        fn = self.fn
        parents, n_parents = self.get("parents"), fn.load("i64", self.count_place)
        needed = self.take(
            "needed", self.checked(fn.call("ptr", "PyTuple_New", ("i64", n_parents)))
        )

        def ask(index: str, carried: list[str]) -> list[str]:
            number = fn.number()
            place = fn.alloca(8, 8)
            fn.store("ptr", "@py_false", place)
            self.find_table(self.item(parents, index), f"asked{number}")
            fn.store("ptr", "@py_true", place)
            fn.jump(f"asked{number}")
            fn.label(f"asked{number}")
            answer = fn.load("ptr", place)
            fn.call("void", "Py_IncRef", ("ptr", answer))
            start = fn.offset(needed, layout.TUPLE_ITEMS)
            fn.store("ptr", answer, fn.offset(start, fn.mul(index, 8)))
            count = fn.add(carried[0], 1)
            return [fn.select(self.same(answer, "@py_true"), count, carried[0])]

        (n_needed,) = fn.loop(0, n_parents, 1, ask, [("i64", 0)])
        self.branch_if(fn.compare("eq", n_needed, 0), "pulled")
        cts = self.take("cts", self.checked(fn.call("ptr", "PyTuple_New", ("i64", 1))))
        ct = self.get("ct")
        fn.call("void", "Py_IncRef", ("ptr", ct))
        fn.store("ptr", ct, fn.offset(cts, layout.TUPLE_ITEMS))
        for position, item in enumerate((cts, self.get("attrs"), needed)):
            fn.store("ptr", item, fn.offset(self.given, 8 * position))
        n_given = self.give_saved(3, n_parents)
        parts = self.take("parts", self.call_rule(self.get("rules"), n_given))
        self.branch_unless(self.same(self.kind(parts), "@py_tuple_type"), "wrong_parts")
        self.branch_if(fn.compare("eq", self.length(parts), n_parents), "right_parts")
        fn.jump("wrong_parts")
        fn.label("wrong_parts")
        self.release(self.call("@py_reject_parts", self.get("op"), parts, parents))  # it raises
        fn.jump("failed")
        fn.label("right_parts")

        def pull(index: str, _: list[str]) -> None:
            number = fn.number()
            done = f"pulled{number}"
            self.branch_unless(self.same(self.item(needed, index), "@py_true"), done)
            parent, part = self.item(parents, index), self.item(parts, index)
            self.find_table(parent, done)
            fn.call("void", "Py_IncRef", ("ptr", part))
            self.add_part(parent, part, number)
            fn.jump(done)
            fn.label(done)

        fn.loop(0, n_parents, 1, pull)

    def give_saved(self, start: int, n_parents: str) -> Value:
        """Puts the saved values behind what is given already; how many values that makes."""
        fn = self.fn
        saved = self.get("saved")
        n_saved = fn.select(fn.compare("eq", n_parents, 0), 0, self.length(saved))

        def give(index: str, _: list[str]) -> None:
            place = fn.offset(fn.offset(self.given, 8 * start), fn.mul(index, 8))
            fn.store("ptr", self.item(saved, index), place)

        fn.loop(0, n_saved, 1, give)
        return fn.add(n_saved, start)

    def call_rule(self, rule: str, n_given: Value) -> str:
        """What a rule returns."""
        return self.checked(
            self.fn.call(
                "ptr", "PyObject_Vectorcall", ("ptr", rule), ("ptr", self.given),
                ("i64", n_given), ("ptr", "null"),
            )
        )  # fmt: skip

    def find_table(self, parent: str, done: str) -> None:
        """Notes where the cotangent of a parent goes; to `done` if no source lies there."""
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

    def add_part(self, parent: str, part: str, number: int) -> None:
        """Adds a part, which it takes over, to what a parent has in its table."""
        fn = self.fn
        done, table = f"pulled{number}", fn.load("ptr", self.table_place)
        self.branch_if(self.is_none(part), f"drop{number}")
        held = fn.call("ptr", "PyDict_GetItemWithError", ("ptr", table), ("ptr", parent))
        self.branch_if(self.same(held, "null"), f"first{number}")
        self.branch_if(self.is_none(held), f"first{number}")
        self.add_up(table, parent, held, part, number)
        fn.label(f"first{number}")
        status = fn.call("i32", "PyDict_SetItem", ("ptr", table), ("ptr", parent), ("ptr", part))
        self.release(part)
        self.succeed(status)
        self.branch_if(self.same(table, "%wanted"), done)
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
