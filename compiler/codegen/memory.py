"""Loads and stores of one or many lanes, by how the elements lie in memory, and masks for them.

Addresses are only known to be aligned to the element size. A bool is a byte in memory, any byte but
0 being true.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tapeline.compiler.codegen.arithmetic import Arithmetic
from tapeline.compiler.codegen.values import Value, constant_of, size_of, suffix_of, type_of

Access: TypeAlias = Literal["contiguous", "broadcast", "reversed", "stride2", "strided"]
"""Where lane i is, counted in elements from the pointer: i, 0, -i, 2*i, or i*stride/size."""


class Memory(Arithmetic):
    """Loads, stores and masks."""

    __slots__ = ()

    def mask_first(self, count: Value, lanes: int) -> Value:
        """A bool with the first `count` (an int64 scalar, at least 0) lanes set; all lanes if
        there are fewer."""
        if lanes == 1:
            return self.value(f"icmp ne i64 {count.name}, 0", "b1", 1)
        if not self.target.avx512:
            name = f"llvm.get.active.lane.mask.v{lanes}i1.i64"
            arguments = ("i64", "0"), ("i64", count.name)
            call = self.raw_call(type_of("b1", lanes), name, *arguments, declare=True)
            return self.value(call, "b1", lanes)
        set_bits = self.intrinsic("smin", count, constant_of(lanes, "i8"))
        # A shift by 64 is poison: with 64 lanes the full mask is chosen instead of computed.
        full = self.compare("eq", set_bits, constant_of(64, "i8")) if lanes == 64 else None
        shift = set_bits if full is None else self.select(full, constant_of(0, "i8"), set_bits)
        ones = self.value(f"shl i64 1, {shift.name}", "i8", 1)
        word = self.sub(ones, constant_of(1, "i8"))
        if full is not None:
            word = self.select(full, constant_of(-1, "i8"), word)
        name = word.name
        if lanes < 64:
            name = self.assign(f"trunc i64 {name} to i{lanes}")
        return self.value(f"bitcast i{lanes} {name} to <{lanes} x i1>", "b1", lanes)

    def load(
        self,
        pointer: str,
        code: str,
        lanes: int = 1,
        access: Access = "contiguous",
        *,
        mask: Value | None = None,
        stride: Value | None = None,
        gather: bool = False,
    ) -> Value:
        """Elements from memory; lanes that the mask excludes are 0 and are not read.

        Parameters
        ----------
        pointer : str
            Where lane 0 is.
        mask : Value of bool, optional
            The lanes to read. One element is always read where the access is "broadcast".
        stride : Value of int64
            Bytes from lane to lane where the access is "strided".
        gather : bool
            Read strided elements by a gather also without a mask.
        """
        if code == "b1":
            raw = self.load(pointer, "u1", lanes, access, mask=mask, stride=stride, gather=gather)
            return self.compare("ne", raw, constant_of(0, "u1", lanes))
        if lanes == 1 or access == "broadcast":
            return self.splat(self._load_scalar(pointer, code, mask), lanes)
        if access == "contiguous":
            return self._load_vector(pointer, code, lanes, mask)
        if access == "reversed":
            last = self.pointer_offset(pointer, -(lanes - 1) * size_of(code))
            flipped = None if mask is None else self.reverse(mask)
            return self.reverse(self._load_vector(last, code, lanes, flipped))
        if access == "stride2" and mask is None and lanes % 2 == 0:
            return self._load_every_second(pointer, code, lanes)
        if access == "stride2" and mask is not None and size_of(code) >= 4:
            spread = self._load_vector(pointer, code, 2 * lanes, self._spread(mask, lanes))
            return self.shuffle(spread, None, range(0, 2 * lanes, 2))
        step = constant_of(2 * size_of(code), "i8") if access == "stride2" else stride
        assert step is not None, "a strided access needs a stride"
        if mask is None and not gather:
            return self._load_by_inserts(pointer, code, lanes, step)
        return self.gather(self.lane_offsets(step, lanes), pointer, code, mask)

    def store(
        self,
        x: Value,
        pointer: str,
        access: Access = "contiguous",
        *,
        mask: Value | None = None,
        stride: Value | None = None,
    ) -> None:
        """Writes the lanes that the mask includes; see `load`. "broadcast" writes lane 0."""
        if x.code == "b1":
            x = self.cast_code(x, "u1")
        if x.lanes == 1 or access == "broadcast":
            self._store_scalar(self.lane(x, 0), pointer, mask)
        elif access == "contiguous":
            self._store_vector(x, pointer, mask)
        elif access == "reversed":
            last = self.pointer_offset(pointer, -(x.lanes - 1) * size_of(x.code))
            flipped = None if mask is None else self.reverse(mask)
            self._store_vector(self.reverse(x), last, flipped)
        elif access == "stride2" and size_of(x.code) >= 4:
            twice = self.shuffle(x, None, [lane // 2 for lane in range(2 * x.lanes)])
            self._store_vector(twice, pointer, self._spread(mask, x.lanes))
        else:
            step = constant_of(2 * size_of(x.code), "i8") if access == "stride2" else stride
            assert step is not None, "a strided access needs a stride"
            self.scatter(x, self.lane_offsets(step, x.lanes), pointer, mask)

    def lane_offsets(self, stride: Value, lanes: int) -> Value:
        """Byte offsets of the lanes: lane number times `stride`."""
        return self.mul(self.iota("i8", lanes), self.splat(stride, lanes))

    def gather(self, offsets: Value, pointer: str, code: str, mask: Value | None = None) -> Value:
        """One element per lane from `pointer` plus that lane's byte offset."""
        lanes = offsets.lanes
        if code == "b1":
            raw = self.gather(offsets, pointer, "u1", mask)
            return self.compare("ne", raw, constant_of(0, "u1", lanes))
        where = self.pointer_offset(pointer, offsets)
        if lanes == 1:
            return self._load_scalar(where, code, mask)
        call = self.raw_call(
            type_of(code, lanes),
            f"llvm.masked.gather.{suffix_of(code, lanes)}.v{lanes}p0",
            (f"<{lanes} x ptr> align {size_of(code)}", where),
            self._mask_operand(mask, lanes),
            (type_of(code, lanes), "zeroinitializer"),
            declare=True,
        )
        return self.value(call, code, lanes)

    def scatter(self, x: Value, offsets: Value, pointer: str, mask: Value | None = None) -> None:
        """Writes each lane to `pointer` plus that lane's byte offset, in order of lanes."""
        if x.code == "b1":
            x = self.cast_code(x, "u1")
        where = self.pointer_offset(pointer, offsets)
        if x.lanes == 1:
            self._store_scalar(x, where, mask)
            return
        call = self.raw_call(
            "void",
            f"llvm.masked.scatter.{suffix_of(x.code, x.lanes)}.v{x.lanes}p0",
            (x.type, x.name),
            (f"<{x.lanes} x ptr> align {size_of(x.code)}", where),
            self._mask_operand(mask, x.lanes),
            declare=True,
        )
        self.line(call)

    def prefetch(self, pointer: str, write: bool, nearest: bool = True) -> None:
        """Asks for a line of memory that will soon be read or written, into the nearest cache or
        the one after it; never fails."""
        cache = "3" if nearest else "2"
        arguments = ("ptr", pointer), ("i32", str(int(write))), ("i32", cache), ("i32", "1")
        self.line(self.raw_call("void", "llvm.prefetch.p0", *arguments, declare=True))

    # ---- the forms of loads and stores

    def _mask_operand(self, mask: Value | None, lanes: int) -> tuple[str, str]:
        return type_of("b1", lanes), "splat (i1 true)" if mask is None else mask.name

    def _spread(self, mask: Value | None, lanes: int) -> Value:
        """A mask for every second lane of twice as many."""
        if mask is None:
            pattern = ", ".join(["i1 true, i1 false"] * lanes)
            return Value(f"<{pattern}>", "b1", 2 * lanes)
        none = Value("zeroinitializer", "b1", lanes)
        picks = [lanes if lane % 2 else lane // 2 for lane in range(2 * lanes)]
        return self.shuffle(mask, none, picks)

    def _load_scalar(self, pointer: str, code: str, mask: Value | None) -> Value:
        text = f"load {type_of(code)}, ptr {pointer}, align {size_of(code)}"
        if mask is None or mask.lanes > 1:
            return self.value(text, code, 1)
        read, join, before = self.new_label(), self.new_label(), self.current
        self.branch_if(mask, read, join)
        self.start_block(read)
        loaded = self.value(text, code, 1)
        self.branch(join)
        self.start_block(join)
        return self.phi((constant_of(0, code), before), (loaded, read))

    def _load_vector(self, pointer: str, code: str, lanes: int, mask: Value | None) -> Value:
        kind, align = type_of(code, lanes), size_of(code)
        if mask is None:
            return self.value(f"load {kind}, ptr {pointer}, align {align}", code, lanes)
        call = self.raw_call(
            kind,
            f"llvm.masked.load.{suffix_of(code, lanes)}.p0",
            (f"ptr align {align}", pointer),
            self._mask_operand(mask, lanes),
            (kind, "zeroinitializer"),
            declare=True,
        )
        return self.value(call, code, lanes)

    def _load_every_second(self, pointer: str, code: str, lanes: int) -> Value:
        """Two loads, the second of which ends at the last element used, so nothing is read past
        it."""
        end = self.pointer_offset(pointer, (lanes - 1) * size_of(code))
        low = self._load_vector(pointer, code, lanes, None)
        high = self._load_vector(end, code, lanes, None)
        half = lanes // 2
        picks = [2 * i if i < half else lanes + 2 * i - (lanes - 1) for i in range(lanes)]
        return self.shuffle(low, high, picks)

    def _load_by_inserts(self, pointer: str, code: str, lanes: int, stride: Value) -> Value:
        result = Value("poison", code, lanes)
        where = pointer
        for number in range(lanes):
            if number:
                where = self.pointer_offset(where, stride)
            result = self.insert_lane(result, self._load_scalar(where, code, None), number)
        return result

    def _store_scalar(self, x: Value, pointer: str, mask: Value | None) -> None:
        text = f"store {x.operand}, ptr {pointer}, align {size_of(x.code)}"
        if mask is None:
            self.line(text)
            return
        write, join = self.new_label(), self.new_label()
        self.branch_if(self.lane(mask, 0), write, join)
        self.start_block(write)
        self.line(text)
        self.branch(join)
        self.start_block(join)

    def _store_vector(self, x: Value, pointer: str, mask: Value | None) -> None:
        if mask is None:
            self.line(f"store {x.operand}, ptr {pointer}, align {size_of(x.code)}")
            return
        call = self.raw_call(
            "void",
            f"llvm.masked.store.{suffix_of(x.code, x.lanes)}.p0",
            (x.type, x.name),
            (f"ptr align {size_of(x.code)}", pointer),
            self._mask_operand(mask, x.lanes),
            declare=True,
        )
        self.line(call)
