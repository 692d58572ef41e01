"""Relocatable object files of LLVM text, for this or another machine, to be linked elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import llvmlite.binding as llvm

from tapeline.compiler.codegen.engine import EmissionError, parse_module
from tapeline.compiler.codegen.target import Target

_OPT_LEVEL = 2


@functools.cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def emit_object(
    texts: Sequence[str], triple: str, target: Target, exported: Collection[str]
) -> bytes:
    """One object of several modules that may refer to each other's functions by name.

    Parameters
    ----------
    texts : sequence of str
        LLVM modules. Equal names of what they define are told apart, but for those in `exported`
        and those that another module declares.
    triple : str
        LLVM's name of the system.
    target : Target
        The processor.
    exported : collection of str
        What can be seen from outside.

    Raises
    ------
    EmissionError
        If LLVM does not know the system or cannot take a text.
    """
    _initialize()
    try:
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=_OPT_LEVEL, reloc="pic",
            codemodel="small", jit=False,
        )  # fmt: skip
    except RuntimeError as error:
        raise EmissionError(f"codegen: LLVM has no target {triple}: {error}") from None
    modules = [parse_module(text) for text in texts]
    wanted = {one.name for module in modules for one in _values(module) if one.is_declaration}
    whole = modules[0]
    for module in modules:
        module.triple = triple
        module.data_layout = str(machine.target_data)
        _hide(module, {*exported, *wanted})
    for module in modules[1:]:
        whole.link_in(module)
    _hide(whole, exported)
    return machine.emit_object(whole)  # type: ignore[no-any-return]  # llvmlite has no types


def _values(module: Any) -> list[Any]:
    return [*module.functions, *module.global_variables]


def _hide(module: Any, but: Collection[str]) -> None:
    """Makes what a module defines its own."""
    for value in _values(module):
        if not value.is_declaration and value.name not in but:
            value.linkage = "internal"
