"""The C and CMake texts that go with object files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tapeline.compiler.codegen.halves import is_half
from tapeline.compiler.export.aot.entry import Entry, Parameter
from tapeline.runtime.spec import DType

_TYPES = {
    "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t", "float32": "float", "float64": "double", "complex64": "float",
    "complex128": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip


def c_type(dtype: DType) -> str:
    """The C type of an element; of each part of a complex one; of the bits of 16-bit floats, for
    which C has no type everywhere."""
    return _TYPES[dtype.name]


def element_count(parameter: Parameter) -> int:
    """How many C values an array has; at least 1, as C has no empty arrays."""
    return max(1, parameter.spec.size) * (2 if parameter.spec.dtype.kind == "c" else 1)


def prototype(entry: Entry) -> str:
    """The declaration of an entry, without the semicolon."""
    given = []
    for one in entry.parameters:
        const = "" if one.is_output else "const "
        given.append(f"{const}{c_type(one.spec.dtype)} *{one.name}")
    return f"int64_t {entry.name}({', '.join([*given, 'void *workspace'])})"


def _described(parameter: Parameter) -> str:
    shape = "".join(f"[{extent}]" for extent in parameter.spec.static_shape)
    dtype = parameter.spec.dtype
    note = ", pairs of real and imaginary part" if dtype.kind == "c" else ""
    note = ", by their bits" if is_half(dtype) else note
    return f" *   {parameter.name}: {parameter.role}, {dtype.name}{shape}{note}"


def header_text(
    name: str, entries: Sequence[Entry], workspaces: Mapping[str, int],
    initial: Mapping[str, Parameter], blas: bool = False,
) -> str:  # fmt: skip
    """The header: what there is to call, with shapes, dtypes and sizes."""
    guard = f"TAPELINE_{name.upper()}_H"
    lines = [
        f"/* {name}, compiled by Tapeline.", " *",
        " * Arrays are contiguous in C order, and the caller's: nothing is allocated or kept. No",
        " * output may overlap anything else. `workspace` points to as many bytes as the macro",
        " * says, at an address that is a multiple of 64; calls at the same time need one each.",
        " * Returned is 0, or what went wrong: the low byte is 1 where a check does not hold, 1 or",
        " * 3 where an index was out of range, and 4 where a loop made more turns than there is",
        " * room for.",
        *([" * Matrix products call CBLAS with ints of 32 bits: link with one, such as OpenBLAS."]
          if blas else []),
        " */",
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
    ]  # fmt: skip
    for entry in entries:
        lines += [f"#define {entry.name.upper()}_WORKSPACE_SIZE {workspaces[entry.name]}", "/*"]
        lines += [_described(one) for one in entry.parameters]
        lines += [" */", f"{prototype(entry)};", ""]
    for symbol, parameter in initial.items():
        lines.append(f"/* The value that {parameter.name} had when this was written. */")
        count = element_count(parameter)
        lines.append(f"extern const {c_type(parameter.spec.dtype)} {symbol}[{count}];")
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */"]
    return "\n".join(lines) + "\n"


def example_text(
    name: str, entries: Sequence[Entry], initial: Mapping[str, Parameter], blas: bool = False
) -> str:
    """A program that calls each entry once on made-up numbers, and prints what comes out."""
    libraries = "-lopenblas -lm" if blas else "-lm"
    lines = [
        f"/* Calls {name} once. Build it with", " *",
        f" *     cc example.c {name}.o {libraries} -o example", " */", "#include <inttypes.h>",
        "#include <stdio.h>", "#include <string.h>", "", f'#include "{name}.h"', "",
    ]  # fmt: skip
    values = {p.name: symbol for symbol, p in initial.items()}
    declared: dict[str, Parameter] = {}
    for entry in entries:
        declared |= {one.name: one for one in entry.parameters}
    for one in declared.values():
        lines.append(f"static {c_type(one.spec.dtype)} {one.name}[{element_count(one)}];")
    for entry in entries:
        size = f"{entry.name.upper()}_WORKSPACE_SIZE"
        lines.append(f"static _Alignas(64) char {entry.name}_workspace[{size} + 64];")
    lines += ["", "int main(void) {", "    int64_t status;"]
    for one in declared.values():
        if one.is_output:
            continue
        count = element_count(one)
        if one.name in values:
            lines.append(f"    memcpy({one.name}, {values[one.name]}, sizeof {one.name});")
        elif one.spec.dtype.kind in "fc" or is_half(one.spec.dtype):
            text = f"{one.name}[i] = {_made_up(one.spec.dtype)};"
            lines.append(f"    for (int i = 0; i < {count}; i++) {text}")
    for entry in entries:
        names = ", ".join(one.name for one in entry.parameters)
        lines.append(f"    status = {entry.name}({names}, {entry.name}_workspace);")
        lines.append("    if (status != 0) {")
        lines.append(f'        printf("{entry.name}: status %" PRId64 "\\n", status);')
        lines += ["        return 1;", "    }"]
        for one in entry.parameters:
            if one.is_output:
                lines += _printing(one)
    return "\n".join([*lines, "    return 0;", "}", ""])


def _made_up(dtype: DType) -> str:
    """Element i of an array of some numbers."""
    if not is_half(dtype):
        return "0.125 + 0.25 * (i % 7)"
    bits = (0.125 + 0.25 * np.arange(7)).astype(dtype).view(np.uint16)
    return f"((const uint16_t[]){{{', '.join(map(str, bits))}}})[i % 7]"


def _printing(parameter: Parameter) -> list[str]:
    dtype = parameter.spec.dtype
    is_float = dtype.kind in "fc" and not is_half(dtype)
    cast, form = ("(double)", "%.17g") if is_float else ("(long long)", "%lld")
    name = parameter.name
    return [
        f'    printf("{name}");',
        f"    for (int i = 0; i < {element_count(parameter)}; i++)",
        f'        printf(" {form}", {cast}{name}[i]);',
        '    printf("\\n");',
    ]


def cmake_text(name: str, blas: bool = False) -> str:
    """What a CMake project adds."""
    needed = f"""
if(NOT TARGET BLAS::BLAS)
  find_package(BLAS REQUIRED)
endif()
target_link_libraries({name} INTERFACE BLAS::BLAS)"""
    return f"""# {name}, compiled by Tapeline. In your CMakeLists.txt:
#
#     include(path/to/{name}.cmake)
#     target_link_libraries(your_program PRIVATE {name})
#
# The object is for the machine that it was made on; set {name.upper()}_OBJECT for another of this
# folder.
set({name.upper()}_OBJECT "${{CMAKE_CURRENT_LIST_DIR}}/{name}.o" CACHE FILEPATH "object of {name}")
add_library({name} INTERFACE)
target_include_directories({name} INTERFACE "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries({name} INTERFACE "${{{name.upper()}_OBJECT}}")
if(UNIX)
  target_link_libraries({name} INTERFACE m)
endif(){needed if blas else ""}
"""
