"""Matrix products of any size by emitted code: c = a @ b, one routine per float dtype.

The routine takes sizes and strides when it runs, so it is compiled once per process:

    void tapeline_gemm_<dtype>(ptr a, i64 a_row, i64 a_column, ptr b, i64 b_row, i64 b_column,
                               ptr c, i64 c_row, i64 m, i64 n, i64 k, ptr finish, ptr context)

`finish` may be null; else it is called as finish(context, row, rows, column, columns) when these
elements of c are done, while they lie in the first cache. Strides are in bytes. `a` may have any;
one of b's is the size of an element; c's columns lie side by side; k > 0; c overlaps neither
operand. A is read in place, one element at a time; B in panels two vectors wide, from where it
lies if that is in cache, else packed. Every element of c is one chain of fused multiply-adds per
block of `K_BLOCK` products, from +0.0, so the bits depend on k only: not on m, n, strides, packing
or how a product is split among threads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from tapeline.compiler.codegen.function_text import FunctionText, Value
from tapeline.compiler.codegen.target import Target

K_BLOCK = 384
"""Terms per chain; changing it changes results."""

_TYPES = {4: "float", 8: "double"}
_PANEL_VECTORS = 2
_DIRECT_ROWS = 64
_DIRECT_BYTES = 512 << 10
"""B is read in place for few rows, or while it fits in half of a usual second-level cache."""
_BLOCK_BYTES = 4 << 20
_NETWORK = 8
"""Lanes of the transposing network; wider ones take longer to compile and gain nothing."""
_WORKSPACES = 64


def routine_name(size: int) -> str:
    """The routine for elements of so many bytes."""
    return f"tapeline_gemm_f{8 * size}"


def routine_declaration(size: int, standalone: bool = False) -> str:
    """Its declaration; a standalone one takes memory for packed panels too."""
    types = "ptr, i64, i64, ptr, i64, i64, ptr, i64, i64, i64, i64, ptr, ptr" + ", ptr" * standalone
    return f"declare void @{routine_name(size)}({types})"


def workspace_bytes(size: int, target: Target, n: int) -> int:
    """How much memory a standalone routine is given for a product of n columns."""
    tile = _Tile(size, target)
    return -(-min(n, tile.column_block) // tile.columns) * tile.panel_bytes


def panel_columns(size: int, target: Target) -> int:
    """Columns that are computed together; the best unit for splitting a product by columns."""
    return _PANEL_VECTORS * target.lanes(size)


def row_tile(target: Target) -> int:
    """Rows that are computed together: what the registers hold, but no more than eight where the
    first cache is 8-way associative, for rows may lie 4 KB apart."""
    if not target.avx512:
        return 6
    return 8 if target.cpu.startswith("znver") else 12


@functools.cache
def gemm_symbols(size: int) -> dict[str, int]:
    """The address of the routine, compiled at the first call."""
    from tapeline.compiler.codegen.engine import get_engine

    engine = get_engine()
    name = routine_name(size)
    module = engine.compile_module(gemm_text(size, engine.target), {}, [name])
    _KEPT.append(module)
    return {name: module.address(name)}


_KEPT: list[object] = []


def gemm_text(size: int, target: Target) -> str:
    """The module of the routine for elements of `size` bytes."""
    shape = _Tile(size, target)
    functions = [
        *(_micro_kernel(shape, rows, vectors) for rows, vectors in shape.kernels),
        _store_tile(shape),
        _pack_rows(shape),
        _pack_columns(shape),
        *(() if target.standalone else (_take_workspace(shape), _give_workspace())),
        _Driver(shape).write(),
    ]
    declarations = sorted(set().union(*(fn.declarations for fn in functions)))
    workspaces = f"@workspaces = internal global [{_WORKSPACES} x ptr] zeroinitializer, align 64"
    return "\n".join([*declarations, workspaces, *(fn.text() for fn in functions)])


@dataclass(frozen=True, slots=True)
class _Tile:
    """The shapes of one dtype on one target."""

    size: int
    target: Target

    @property
    def type(self) -> str:
        return _TYPES[self.size]

    @property
    def lanes(self) -> int:
        return self.target.lanes(self.size)

    @property
    def vector_bytes(self) -> int:
        return self.target.vector_bytes

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.type}>"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{8 * self.size}"

    @property
    def rows(self) -> int:
        return row_tile(self.target)

    @property
    def columns(self) -> int:
        return _PANEL_VECTORS * self.lanes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a panel, of the tile too."""
        return _PANEL_VECTORS * self.vector_bytes

    @property
    def panel_bytes(self) -> int:
        """Room for a packed panel; packing writes whole squares of the network."""
        return (K_BLOCK + _NETWORK) * self.row_bytes

    @property
    def column_block(self) -> int:
        columns = min(4096, _BLOCK_BYTES // (K_BLOCK * self.size))
        return columns - columns % self.columns

    @property
    def kernels(self) -> tuple[tuple[int, int], ...]:
        """Rows and vectors of the micro-kernels."""
        short = ((height, 2) for height in self.heights[:-1])
        return (*short, (self.rows, 1), (self.rows, 2))

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of the micro-kernels, ascending."""
        return (1, 4, 8, self.rows) if self.rows > 8 else (1, 4, self.rows)

    def define(
        self, name: str, *parameters: str, result: str = "void", scope: str = "internal "
    ) -> FunctionText:
        """A function of the module."""
        given = ", ".join(parameters)
        return FunctionText(
            f'{scope}{result} @{name}({given}) nounwind "prefer-vector-width"="512"'
        )

    def mask(self, fn: FunctionText, count: Value, lanes: int = 0) -> tuple[str, str]:
        """Type and value of a mask of the first `count` lanes; count may be out of range."""
        lanes = lanes or self.lanes
        within = fn.max(fn.min(count, lanes), 0)
        ones = fn.sub(fn.value(f"shl i64 1, {within}"), 1)
        bits = fn.value(f"trunc i64 {ones} to i{lanes}")
        kind = f"<{lanes} x i1>"
        return kind, fn.value(f"bitcast i{lanes} {bits} to {kind}")

    def masked_load(self, fn: FunctionText, place: str, mask: tuple[str, str]) -> str:
        """A vector with zeros where the mask is off."""
        return fn.call(
            self.vector, f"llvm.masked.load.{self.suffix}.p0",
            (f"ptr align {self.size}", place), mask, (self.vector, "zeroinitializer"),
        )  # fmt: skip


def _micro_kernel(tile: _Tile, rows: int, vectors: int) -> FunctionText:
    """tile[r][v] = sum over k of a(r, k) * b(k, v), all of it in registers."""
    fn = tile.define(
        f"kernel{rows}x{vectors}", "ptr %a", "i64 %a_row", "i64 %a_column", "ptr %b", "i64 %b_row",
        "i64 %k", "ptr %tile",
    )  # fmt: skip
    kind = tile.vector
    odd = {step: fn.mul("%a_row", step) for step in range(1, rows, 2)}

    def step(_: str, carried: list[str]) -> list[str]:
        moved, b, *sums = carried
        a = fn.offset("%a", moved)
        panel = [
            fn.load(kind, fn.offset(b, v * tile.vector_bytes), tile.size) for v in range(vectors)
        ]
        result = []
        for row in range(rows):
            place = a
            if row:
                shift = (row & -row).bit_length() - 1
                amount = odd[row >> shift]
                # shifted here, not before the loop, so that it becomes part of the address
                place = fn.offset(a, fn.value(f"shl i64 {amount}, {shift}") if shift else amount)
            splat = _splat(fn, tile, fn.load(tile.type, place, tile.size))
            for v in range(vectors):
                operands = [(kind, splat), (kind, panel[v]), (kind, sums[row * vectors + v])]
                result.append(fn.call(kind, f"llvm.fma.{tile.suffix}", *operands))
        # hidden from strength reduction, which would make a chain of additions of the row addresses
        following = fn.call(
            "i64", "llvm.expect.i64", ("i64", fn.add(moved, "%a_column")), ("i64", 0)
        )
        return [following, fn.offset(b, "%b_row"), *result]

    zeros = [(kind, "zeroinitializer")] * (rows * vectors)
    sums = fn.loop(0, "%k", 1, step, [("i64", 0), ("ptr", "%b"), *zeros])[2:]
    for row in range(rows):
        for v in range(vectors):
            place = fn.offset("%tile", row * tile.row_bytes + v * tile.vector_bytes)
            fn.store(kind, sums[row * vectors + v], place, tile.vector_bytes)
    fn.line("ret void")
    return fn


def _splat(fn: FunctionText, tile: _Tile, scalar: str) -> str:
    first = fn.value(f"insertelement {tile.vector} poison, {tile.type} {scalar}, i32 0")
    zeros = f"<{tile.lanes} x i32> zeroinitializer"
    return fn.value(f"shufflevector {tile.vector} {first}, {tile.vector} poison, {zeros}")


def _store_tile(tile: _Tile) -> FunctionText:
    """Rows of the tile go to c, or are added to what earlier blocks of k left there."""
    fn = tile.define(
        "store_tile", "ptr %tile", "ptr %c", "i64 %c_row", "i64 %rows", "i64 %columns", "i1 %add"
    )
    kind = tile.vector
    masks = [tile.mask(fn, fn.sub("%columns", v * tile.lanes)) for v in range(_PANEL_VECTORS)]

    def store(row: str, _: list[str]) -> None:
        source = fn.offset("%tile", fn.mul(row, tile.row_bytes))
        target = fn.offset("%c", fn.mul(row, "%c_row"))
        for v, mask in enumerate(masks):
            at = v * tile.vector_bytes
            value = fn.load(kind, fn.offset(source, at), tile.vector_bytes)
            place = fn.offset(target, at)
            read = fn.select("%add", mask[1], "zeroinitializer", mask[0])
            before = tile.masked_load(fn, place, (mask[0], read))
            total = fn.value(f"fadd {kind} {before}, {value}")
            chosen = fn.select("%add", total, value, kind)
            fn.call(
                "void", f"llvm.masked.store.{tile.suffix}.p0",
                (kind, chosen), (f"ptr align {tile.size}", place), mask,
            )  # fmt: skip

    fn.loop(0, "%rows", 1, store)
    fn.line("ret void")
    return fn


def _pack_rows(tile: _Tile) -> FunctionText:
    """A panel of B whose rows are contiguous; columns that do not exist become zeros."""
    fn = tile.define("pack_rows", "ptr %b", "i64 %b_row", "i64 %k", "i64 %columns", "ptr %panel")
    masks = [tile.mask(fn, fn.sub("%columns", v * tile.lanes)) for v in range(_PANEL_VECTORS)]

    def copy(row: str, _: list[str]) -> None:
        source = fn.offset("%b", fn.mul(row, "%b_row"))
        target = fn.offset("%panel", fn.mul(row, tile.row_bytes))
        for v, mask in enumerate(masks):
            at = v * tile.vector_bytes
            value = tile.masked_load(fn, fn.offset(source, at), mask)
            fn.store(tile.vector, value, fn.offset(target, at), tile.size)

    fn.loop(0, "%k", 1, copy)
    fn.line("ret void")
    return fn


def _pack_columns(tile: _Tile) -> FunctionText:
    """Up to `_NETWORK` columns of a panel of B whose columns are contiguous, transposed in
    registers. Missing columns repeat the last one; rows up to a whole network are written."""
    fn = tile.define(
        "pack_columns", "ptr %b", "i64 %b_column", "i64 %k", "i64 %columns", "ptr %panel"
    )
    lanes = _NETWORK
    kind, suffix = f"<{lanes} x {tile.type}>", f"v{lanes}f{8 * tile.size}"
    last = fn.sub("%columns", 1)
    columns = [fn.offset("%b", fn.mul(fn.min(i, last), "%b_column")) for i in range(lanes)]

    def square(first: str, _: list[str]) -> None:
        mask = tile.mask(fn, fn.sub("%k", first), lanes)
        amount = fn.mul(first, tile.size)
        vectors = [
            fn.call(
                kind, f"llvm.masked.load.{suffix}.p0",
                (f"ptr align {tile.size}", fn.offset(column, amount)), mask,
                (kind, "zeroinitializer"),
            )
            for column in columns
        ]  # fmt: skip
        target = fn.offset("%panel", fn.mul(first, tile.row_bytes))
        for row, vector in enumerate(_transpose(fn, kind, vectors)):
            fn.store(kind, vector, fn.offset(target, row * tile.row_bytes), tile.size)

    fn.loop(0, "%k", lanes, square)
    fn.line("ret void")
    return fn


def _transpose(fn: FunctionText, kind: str, vectors: Sequence[str]) -> list[str]:
    """A square of lanes transposed: log2 steps of two-input shuffles."""
    lanes, result = len(vectors), list(vectors)
    step = 1
    while step < lanes:
        for i in range(lanes):
            if i & step:
                continue
            a, b = result[i], result[i | step]
            low = [lane if not lane & step else lanes + (lane ^ step) for lane in range(lanes)]
            high = [lane | step if not lane & step else lanes + lane for lane in range(lanes)]
            for place, picks in ((i, low), (i | step, high)):
                order = ", ".join(f"i32 {pick}" for pick in picks)
                result[place] = fn.value(
                    f"shufflevector {kind} {a}, {kind} {b}, <{lanes} x i32> <{order}>"
                )
        step *= 2
    return result


def _take_workspace(tile: _Tile) -> FunctionText:
    """Memory for packed panels: what another call has left, or new, or null where there is none."""
    fn = tile.define("take_workspace", result="ptr")
    nbytes = tile.column_block // tile.columns * tile.panel_bytes

    def look(index: str, _: list[str]) -> None:
        place = fn.offset("@workspaces", fn.mul(index, 8))
        found = fn.value(f"atomicrmw xchg ptr {place}, ptr null acquire")

        def use() -> None:
            fn.line(f"ret ptr {found}")
            fn.label(f"unused{fn.number()}")

        fn.when(fn.compare("ne", found, "null", "ptr"), use)

    fn.loop(0, _WORKSPACES, 1, look)

    made = fn.call("ptr", "aligned_alloc", ("i64", 4096), ("i64", -(-nbytes // 4096) * 4096))
    fn.line(f"ret ptr {made}")
    return fn


def _give_workspace() -> FunctionText:
    """Leaves a workspace for the next call, or frees it if all places are taken."""
    fn = FunctionText("internal void @give_workspace(ptr %memory) nounwind")

    def look(index: str, _: list[str]) -> None:
        place = fn.offset("@workspaces", fn.mul(index, 8))
        pair = fn.value(f"cmpxchg ptr {place}, ptr null, ptr %memory release monotonic")

        def done() -> None:
            fn.line("ret void")
            fn.label(f"unused{fn.number()}")

        fn.when(fn.value(f"extractvalue {{ ptr, i1 }} {pair}, 1"), done)

    fn.loop(0, _WORKSPACES, 1, look)
    fn.call("void", "free", ("ptr", "%memory"))
    fn.line("ret void")
    return fn


@dataclass(slots=True)
class _Driver:
    """The loops around the micro-kernels: blocks of columns, blocks of k, rows, panels."""

    tile: _Tile
    fn: FunctionText = field(init=False)
    packs: str = ""
    memory: str = ""
    block: str = ""
    """Columns per block: many, or one panel where there is no memory but the stack's."""
    step: str = ""
    scratch: str = ""

    def write(self) -> FunctionText:
        """The routine."""
        tile = self.tile
        fn = self.fn = tile.define(
            routine_name(tile.size), "ptr %a", "i64 %a_row", "i64 %a_column", "ptr %b",
            "i64 %b_row", "i64 %b_column", "ptr %c", "i64 %c_row", "i64 %m", "i64 %n", "i64 %k",
            "ptr %finish", "ptr %context",
            *(["ptr %workspace"] if tile.target.standalone else []), scope="",
        )  # fmt: skip
        self.scratch = fn.alloca(tile.rows * tile.row_bytes)
        stack = fn.alloca(tile.panel_bytes)
        depth = fn.min("%k", K_BLOCK)
        nbytes = fn.mul(fn.mul("%n", depth), tile.size)
        few = fn.compare("slt", "%m", _DIRECT_ROWS)
        small = fn.compare("sle", nbytes, _DIRECT_BYTES)
        contiguous = fn.compare("eq", "%b_column", tile.size)
        direct = fn.value(f"and i1 {contiguous}, {fn.value(f'or i1 {few}, {small}')}")
        heap = self._workspace(direct)
        has_heap = fn.compare("ne", heap, "null", "ptr")
        self.packs = fn.compare("eq", direct, "false", "i1")
        self.memory = fn.select(has_heap, heap, stack, "ptr")
        many = fn.value(f"or i1 {direct}, {has_heap}")
        self.block = fn.select(many, tile.column_block, tile.columns)
        self.step = "1"
        for height in tile.heights[1:]:
            self.step = fn.select(fn.compare("sge", "%m", height), height, self.step)
        fn.loop(0, "%n", self.block, self._columns)
        fn.when(has_heap, lambda: self._give(heap))
        fn.line("ret void")
        return fn

    def _workspace(self, direct: str) -> str:
        """Memory for packed panels; null where there is none, and where B is read in place (but for
        the last columns, whose panel is packed on the stack)."""
        fn, number = self.fn, self.fn.number()
        if self.tile.target.standalone:
            return fn.select(direct, "null", "%workspace", "ptr")
        before = fn.block
        fn.branch(direct, f"ready{number}", f"take{number}")
        fn.label(f"take{number}")
        taken = fn.call_defined("ptr", "@take_workspace")
        after = fn.block
        fn.jump(f"ready{number}")
        fn.label(f"ready{number}")
        return fn.value(f"phi ptr [ null, %{before} ], [ {taken}, %{after} ]")

    def _give(self, heap: str) -> None:
        if not self.tile.target.standalone:
            self.fn.call_defined("void", "@give_workspace", ("ptr", heap))

    def _columns(self, j: str, _: list[str]) -> None:
        """A block of columns of c."""
        fn = self.fn
        count = fn.min(fn.sub("%n", j), self.block)
        fn.loop(0, "%k", K_BLOCK, lambda p, _: self._depth(j, count, p))

    def _depth(self, j: str, count: str, p: str) -> None:
        """A block of k for a block of columns."""
        fn, tile = self.fn, self.tile
        depth = fn.min(fn.sub("%k", p), K_BLOCK)
        add = fn.compare("sgt", p, 0)
        is_last = fn.compare("eq", fn.add(p, depth), "%k")
        finishes = fn.value(f"and i1 {is_last}, {fn.compare('ne', '%finish', 'null', 'ptr')}")
        b = fn.offset(fn.offset("%b", fn.mul(p, "%b_row")), fn.mul(j, "%b_column"))
        a = fn.offset("%a", fn.mul(p, "%a_column"))
        tail = fn.sub(count, fn.value(f"srem i64 {count}, {tile.columns}"))
        first = fn.select(self.packs, 0, tail)
        fn.loop(first, count, tile.columns, lambda c, _: self._pack(b, c, first, count, depth))

        def rows(i: str, _: list[str]) -> None:
            self._rows(i, a, b, j, count, first, depth, add, finishes)

        fn.loop(0, "%m", self.step, rows)

    def _panel(self, column: str, first: Value) -> str:
        """Where the packed panel that begins at `column` lies."""
        fn, tile = self.fn, self.tile
        number = fn.value(f"sdiv exact i64 {fn.sub(column, first)}, {tile.columns}")
        return fn.offset(self.memory, fn.mul(number, tile.panel_bytes))

    def _pack(self, b: str, column: str, first: str, count: str, depth: str) -> None:
        """Packs one panel."""
        fn, tile = self.fn, self.tile
        panel = self._panel(column, first)
        columns = fn.min(fn.sub(count, column), tile.columns)
        source = fn.offset(b, fn.mul(column, "%b_column"))

        def rows() -> None:
            fn.call_defined(
                "void", "@pack_rows", ("ptr", source), ("i64", "%b_row"), ("i64", depth),
                ("i64", columns), ("ptr", panel),
            )  # fmt: skip

        def transposed() -> None:
            def some(v: str, _: list[str]) -> None:
                fn.call_defined(
                    "void", "@pack_columns", ("ptr", fn.offset(source, fn.mul(v, "%b_column"))),
                    ("i64", "%b_column"), ("i64", depth), ("i64", fn.sub(columns, v)),
                    ("ptr", fn.offset(panel, fn.mul(v, tile.size))),
                )  # fmt: skip

            fn.loop(0, columns, _NETWORK, some)

        fn.when(fn.compare("eq", "%b_column", tile.size), rows, transposed)

    def _rows(
        self, i: str, a: str, b: str, j: str, count: str, first: str, depth: str, add: str,
        finishes: str,
    ) -> None:  # fmt: skip
        """A tile's rows, for all panels. The last tile is moved up to end at row m, and stores only
        the rows that are new."""
        fn, tile = self.fn, self.tile
        rows = fn.min(fn.sub("%m", i), self.step)
        short = fn.value(f"and i1 {fn.compare('slt', rows, 5)}, {fn.compare('sgt', '%m', 3)}")
        height = fn.select(short, 4, self.step)
        moved = fn.sub(height, rows)
        a = fn.offset(a, fn.mul(fn.sub(i, moved), "%a_row"))
        source = fn.offset(self.scratch, fn.mul(moved, tile.row_bytes))

        def finish(column: str, columns: str) -> None:
            fn.call_defined(
                "void", "%finish", ("ptr", "%context"), ("i64", i), ("i64", rows),
                ("i64", fn.add(j, column)), ("i64", columns),
            )  # fmt: skip

        def panel(column: str, _: list[str]) -> None:
            columns = fn.min(fn.sub(count, column), tile.columns)
            packed = fn.compare("sge", column, first)
            in_place = fn.offset(b, fn.mul(column, "%b_column"))
            at = fn.select(packed, self._panel(column, first), in_place, "ptr")
            step = fn.select(packed, tile.row_bytes, "%b_row")
            place = fn.offset(fn.offset("%c", fn.mul(i, "%c_row")), self._bytes(j, column))
            self._prefetch(place, rows)
            self._kernel(height, columns, (a, at, step, depth))
            fn.call_defined(
                "void", "@store_tile", ("ptr", source), ("ptr", place), ("i64", "%c_row"),
                ("i64", rows), ("i64", columns), ("i1", add),
            )  # fmt: skip
            fn.when(finishes, lambda: finish(column, columns))

        fn.loop(0, count, tile.columns, panel)

    def _bytes(self, j: str, column: str) -> Value:
        return self.fn.mul(self.fn.add(j, column), self.tile.size)

    def _prefetch(self, place: str, rows: str) -> None:
        """The tile's place in c, which is needed when the sums are done."""
        fn, tile = self.fn, self.tile

        def one(row: str, _: list[str]) -> None:
            start = fn.offset(place, fn.mul(row, "%c_row"))
            for v in range(_PANEL_VECTORS):
                fn.call(
                    "void", "llvm.prefetch.p0", ("ptr", fn.offset(start, v * tile.vector_bytes)),
                    ("i32", 1), ("i32", 3), ("i32", 1),
                )  # fmt: skip

        fn.loop(0, rows, 1, one)

    def _kernel(self, height: str, columns: str, operands: tuple[str, str, str, str]) -> None:
        """The call of the micro-kernel for so many rows and columns."""
        fn, tile = self.fn, self.tile
        a, b, step, depth = operands

        def call(rows: int, vectors: int) -> None:
            fn.call_defined(
                "void", f"@kernel{rows}x{vectors}", ("ptr", a), ("i64", "%a_row"),
                ("i64", "%a_column"), ("ptr", b), ("i64", step), ("i64", depth),
                ("ptr", self.scratch),
            )  # fmt: skip

        def full() -> None:
            wide = fn.compare("sgt", columns, tile.lanes)
            fn.when(wide, lambda: call(tile.rows, 2), lambda: call(tile.rows, 1))

        def less(heights: tuple[int, ...]) -> None:
            *lower, highest = heights
            if not lower:
                call(highest, 2)
                return
            is_highest = fn.compare("eq", height, highest)
            fn.when(is_highest, lambda: call(highest, 2), lambda: less(tuple(lower)))

        fn.when(fn.compare("eq", height, tile.rows), full, lambda: less(tile.heights[:-1]))
