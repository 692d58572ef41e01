"""Objects for each machine that has a name: what others read in them, and what they need."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.random_functions import RandomFunction

import tapeline as tl
from tapeline.compiler.codegen.target import Target
from tapeline.compiler.export.aot.build import AotLibrary
from tapeline.compiler.export.aot.symbols import symbols_of
from tapeline.compiler.export.aot.targets import TARGETS, find_machine
from tapeline.runtime.tensor import Tensor

FOREIGN = [target for target in TARGETS if target != "host"]
BY_PROCESSOR: dict[Target, list[str]] = {}
for each in FOREIGN:
    BY_PROCESSOR.setdefault(find_machine(each).cpu, []).append(each)
WINDOWS = {"_fltused", "__chkstk"}
ALLOWED = {
    "x86-64": {"fma", "fmaf", "floor", "ceil", "trunc", "roundeven"},
    "x86-64-v2": {"fma", "fmaf"},
    "x86-64-macos": {"fma", "fmaf", "bzero"},
    "x86-64-windows": {"fma", "fmaf", *WINDOWS},
}
"""What the code of old processors takes from the libraries of C, besides memcpy and memset."""

needs_llvm = pytest.mark.skipif(
    not (shutil.which("llvm-nm") and shutil.which("llvm-objdump")),
    reason="the tools of LLVM (llvm-nm, llvm-objdump) are not installed",
)


def network() -> Any:
    w = tl.Variable(np.linspace(-1, 1, 12).reshape(3, 4), name="w")
    shift = tl.asarray(0.5)

    @tl.function
    def loss(x: Tensor, y: Tensor) -> Tensor:
        return tl.mean((tl.tanh(x @ w + shift) - y) ** 2)

    return loss, (tl.TensorSpec([5, 3], "float64"), tl.TensorSpec([5, 4], "float64"))


def mixed() -> Any:
    """Rounding, halves, integers, a loop, complex numbers, random numbers and no products."""

    @tl.function
    def mixed(x: Tensor, n: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        total = tl.sum(tl.floor(x) + tl.round(x) * tl.trunc(x) + tl.ceil(x))
        half = tl.astype(total, "float16")
        while n > 0:
            half = tl.where(half > 1, half / 2, half + tl.astype(x[n % 3], "float16"))
            n = n - 1
        return half, tl.abs(tl.exp(1j * x) * tl.random.normal(key, 6))

    return mixed, (tl.TensorSpec([6], "float64"), tl.TensorSpec([], "int64"), tl.random.key(1))


PROGRAMS = {"loss": network, "mixed": mixed}


@pytest.fixture(scope="module", params=PROGRAMS)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, AotLibrary]:
    """A program for all targets."""
    function, signature = PROGRAMS[request.param]()
    folder = tmp_path_factory.mktemp(request.param)
    gradient = request.param == "loss"
    return request.param, tl.export.aot(
        function, folder, signature, targets=FOREIGN, grad=gradient, name=request.param
    )


def object_of(library: AotLibrary, target: str) -> Path:
    (path,) = (Path(file) for file in library.files if file.endswith(f"-{target}.o"))
    return path


def kind_of(image: bytes) -> tuple[str, int]:
    """The format of an object, and the machine as the format numbers it."""
    if image[:4] == b"\x7fELF":
        return "ELF", struct.unpack_from("<H", image, 18)[0]
    if image[:4] == b"\xcf\xfa\xed\xfe":
        return "Mach-O", struct.unpack_from("<I", image, 4)[0]
    return "COFF", struct.unpack_from("<H", image)[0]


KINDS = {
    "aarch64-linux": ("ELF", 183),
    "riscv64-linux": ("ELF", 243),
    "aarch64-macos": ("Mach-O", 0x100000C),
    "x86-64-macos": ("Mach-O", 0x1000007),
    "x86-64-windows": ("COFF", 0x8664),
}


@pytest.mark.parametrize("target", FOREIGN)
def test_an_object_takes_only_what_c_has(made: tuple[str, AotLibrary], target: str) -> None:
    name, library = made
    image = object_of(library, target).read_bytes()
    assert kind_of(image) == KINDS.get(target, ("ELF", 62))
    symbols = symbols_of(image)
    entries = set(library.workspaces)
    assert entries <= set(symbols.defined)
    assert all(one.startswith(name) for one in symbols.defined)
    allowed = ALLOWED.get(target, set()) | {"memcpy", "memset"}
    assert set(symbols.undefined) <= allowed
    assert library.symbols[target] == symbols.undefined


@needs_llvm
@pytest.mark.parametrize("target", FOREIGN)
def test_llvm_reads_the_same_symbols(made: tuple[str, AotLibrary], target: str) -> None:
    """The names that its own tools list, and a disassembly without holes."""
    path = object_of(made[1], target)
    symbols = symbols_of(path.read_bytes())
    lines = _output("llvm-nm", "--extern-only", str(path)).splitlines()
    mark = "_" if "macos" in target else ""
    names = [(line.split()[-2], line.split()[-1].removeprefix(mark)) for line in lines]
    names = [(kind, name) for kind, name in names if not name.startswith(("__real@", "__xmm@"))]
    assert sorted(name for kind, name in names if kind == "U") == list(symbols.undefined)
    assert sorted(name for kind, name in names if kind != "U") == list(symbols.defined)
    text = _output("llvm-objdump", "--disassemble", "--mattr=+m,+a,+f,+d,+c", str(path))
    assert "<unknown>" not in text
    labels = {int(place, 16) for place in re.findall(r"(?m)^([0-9a-f]+) <.*>:$", text)}
    assert set(symbols.functions.values()) <= labels


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def code_of(image: bytes) -> bytes:
    """The one section of code, as LLVM's reader finds it."""
    sections = llvm.ObjectFileRef.from_data(image).sections()
    (code,) = [bytes(one.data()) for one in sections if one.is_text() and one.size()]
    return code


@pytest.mark.parametrize("target", FOREIGN)
def test_every_byte_of_the_code_is_an_instruction(
    made: tuple[str, AotLibrary], target: str
) -> None:
    """Of that machine, as capstone reads it; and no branch leaves the code."""
    capstone = pytest.importorskip(
        "capstone", reason="capstone is not installed; it is in the extra 'test'"
    )
    image = object_of(made[1], target).read_bytes()
    machine = {
        "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
        "riscv64": (
            capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC,
        ),
    }.get(target.split("-")[0], (capstone.CS_ARCH_X86, capstone.CS_MODE_64))  # fmt: skip
    reader = capstone.Cs(*machine)
    reader.detail = True
    code = code_of(image)
    found = list(reader.disasm(code, 0))
    assert sum(one.size for one in found) == len(code)
    starts = {one.address for one in found}
    places = symbols_of(image).functions
    assert set(made[1].workspaces) <= set(places)
    assert set(places.values()) <= starts
    ends = [one for one in found if capstone.CS_GRP_RET in one.groups or one.op_str == "ra"]
    assert ends
    for one in found:
        if capstone.CS_GRP_BRANCH_RELATIVE in one.groups and (
            capstone.CS_GRP_CALL not in one.groups  # these go by relocations
        ):
            place = one.operands[-1].imm + (one.address if target.startswith("riscv") else 0)
            assert place in starts, f"{one.mnemonic} {one.op_str}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_functions_compile_for_every_machine(first: int, tmp_path: Path) -> None:
    """Each is checked for symbols that it must not need while it is written. A text is that of a
    processor: functions take turns with two of them, and with the systems that share one."""
    processors = list(BY_PROCESSOR.values())
    for seed in range(first, first + 10):
        turns = [processors[(2 * seed + k) % len(processors)] for k in range(2)]
        targets = [names[seed // len(processors) % len(names)] for names in turns]
        made = RandomFunction(seed)
        given = tuple(tl.asarray(x) for x in made.arrays)
        library = tl.export.aot(
            made.function(), tmp_path / str(seed), given, targets=targets, name="f"
        )
        assert set(library.symbols) == set(targets)


def test_other_files_are_refused() -> None:
    for image in (b"", b"\x7fEL", b"MZ" + bytes(100), b"!<arch>\n"):
        with pytest.raises(ValueError, match="no ELF, Mach-O or COFF object"):
            symbols_of(image)
