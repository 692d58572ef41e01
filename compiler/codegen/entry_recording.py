"""What a native entry owns while it runs, and how it records its call on tapes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tapeline.compiler.codegen import layout
from tapeline.compiler.codegen.entry_checks import EntryChecks
from tapeline.compiler.codegen.entry_spec import Container, Recording, Structure
from tapeline.runtime.record import record_joint


def _count_parts(structure: Structure | Container | int) -> int:
    """Containers, and places in them."""
    if not isinstance(structure, Container):
        return 1
    return 1 + sum(_count_parts(item) for item in structure.items)


@dataclass(slots=True)
class EntryRecording(EntryChecks):
    """The part of an entry that holds references and makes nodes."""

    owned_memory: str = ""
    owned_count: str = ""
    made_memory: str = ""
    made_room: int = 0
    made_used: int = 0
    arrays: list[str] = field(default_factory=list)
    """Those of the outputs, in order."""

    def own_inputs(self) -> None:
        """Takes references, and reads the data pointers. From here on Python code may run."""
        fn = self.fn
        self.owned_memory = fn.alloca(8 * max(1, len(self.owned)), 8)
        self.owned_count = fn.alloca(8, 8)
        for position, array in enumerate(self.owned):
            fn.call("void", "Py_IncRef", ("ptr", array))
            fn.store("ptr", array, fn.offset(self.owned_memory, 8 * position))
        fn.store("i64", len(self.owned), self.owned_count)
        self.made_room = 2 * len(self.spec.outputs) + _count_parts(self.spec.structure) + 4
        self.made_memory = fn.alloca(8 * self.made_room, 8)
        fn.call(
            "void", "llvm.memset.p0.i64", ("ptr", self.made_memory), ("i8", 0),
            ("i64", 8 * self.made_room), ("i1", "false"),
        )  # fmt: skip
        for is_data, name in self.checked:
            self.data.append(name if is_data else self.field(name, layout.ARRAY_DATA))

    def release(self, names: list[str]) -> None:
        """Gives references back."""
        for name in names:
            self.fn.call("void", "Py_DecRef", ("ptr", name))

    def release_owned(self) -> None:
        """Gives the references to the inputs back, once."""
        count = self.fn.load("i64", self.owned_count)
        self.fn.store("i64", 0, self.owned_count)
        self.call_shared("void", "tapeline_release", ("ptr", self.owned_memory), ("i64", count))

    def release_made(self) -> None:
        """Gives all references back that the entry made and has not passed on."""
        self.call_shared(
            "void", "tapeline_release", ("ptr", self.made_memory), ("i64", self.made_room)
        )

    def hold(self, made: str) -> None:
        """Notes a reference, so that it is given back if something fails later."""
        slot = self.made_used
        self.made_used += 1
        assert slot < self.made_room
        self.made.append((made, slot))
        self.fn.store("ptr", made, self.fn.offset(self.made_memory, 8 * slot))

    def pass_on(self, made: str) -> None:
        """Notes that somebody else holds the reference now."""
        position = next(k for k, (name, _) in enumerate(self.made) if name == made)
        _, slot = self.made.pop(position)
        self.fn.store("ptr", "null", self.fn.offset(self.made_memory, 8 * slot))

    def check_made(self, made: str) -> None:
        """Ends the function with the error that is set if an object could not be made."""
        following = f"made{self.fn.number()}"
        self.fn.branch(self.fn.compare("eq", made, "null", "ptr"), "failed", following)
        self.fn.label(following)
        self.hold(made)

    # -- the tape

    def record(self, recorded: Recording, outputs: list[str]) -> None:
        """Makes the node of the call, and gives it to the first output."""
        inputs = [array for _, array in self.checked]
        none = self.object(None, "py_none")
        parents = self.pack([self.nodes.get(k, none) for k in range(len(inputs))])
        kept = [self.arrays[k] for k in recorded.saved_outputs]
        saved = self.pack([*inputs, *kept])
        if recorded.specs is not None:
            self.record_joint(recorded, outputs, parents, saved)
        else:
            self.pass_on(parents)
            self.pass_on(saved)
            node = self.call_shared(
                "ptr", "tapeline_record", ("ptr", self.object(recorded.op)), ("ptr", self.active),
                ("ptr", parents), ("ptr", saved),
            )  # fmt: skip
            self.check_made(node)
            self.give_node(outputs[0], node)
            self.pass_on(node)
        for out, made in zip(self.spec.outputs, outputs, strict=True):
            if out.kind == "kept":
                self.pass_on(made)
                self.release([made])

    def record_joint(
        self, recorded: Recording, outputs: list[str], parents: str, saved: str
    ) -> None:
        """Makes the nodes of a call with several outputs, by the function that Python uses."""
        fn = self.fn
        args = [
            self.object(recorded.op), self.object(()), parents, saved,
            self.object(recorded.specs), self.active,
        ]  # fmt: skip
        vector = fn.alloca(8 * len(args), 8)
        for position, arg in enumerate(args):
            fn.store("ptr", arg, fn.offset(vector, 8 * position))
        picks = fn.call(
            "ptr", "PyObject_Vectorcall", ("ptr", self.object(record_joint)), ("ptr", vector),
            ("i64", len(args)), ("ptr", "null"),
        )  # fmt: skip
        self.check_made(picks)
        for made in (parents, saved):
            self.pass_on(made)
            self.release([made])
        for number, out in enumerate(self.spec.outputs):
            if out.kind == "tensor" and out.dtype is not None and out.dtype.kind in "fc":
                node = fn.load("ptr", fn.offset(picks, layout.TUPLE_ITEMS + 8 * number))
                fn.call("void", "Py_IncRef", ("ptr", node))
                self.give_node(outputs[number], node)
        self.pass_on(picks)
        self.release([picks])

    def give_node(self, tensor: str, node: str) -> None:
        """Lets a tensor hold a reference to a node."""
        place = self.fn.offset(tensor, layout.slot_offset(self.spec.tensor_class, "_node"))
        before = self.fn.load("ptr", place)
        self.fn.store("ptr", node, place)
        self.release([before])

    def pack(self, items: list[str]) -> str:
        """A new tuple of these objects."""
        fn = self.fn
        made = fn.call("ptr", "PyTuple_New", ("i64", len(items)))
        self.check_made(made)
        for position, item in enumerate(items):
            fn.call("void", "Py_IncRef", ("ptr", item))
            fn.store("ptr", item, fn.offset(made, layout.TUPLE_ITEMS + 8 * position))
        return made
