"""Tells the program's own files from those of installed packages, the standard library and
Tapeline."""

from __future__ import annotations

import os
import site
import sysconfig

import tapeline.runtime


def _folders() -> tuple[str, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*getattr(site, "getsitepackages", list)(), site.getusersitepackages()]
    found = {os.path.realpath(path) for path in paths if path}
    return tuple(sorted(path + os.sep for path in found | set(filter(None, paths))))


_INSTALLED = _folders()
_OWN = os.path.dirname(os.path.abspath(tapeline.runtime.__file__)).removesuffix("runtime")


def is_installed(filename: str) -> bool:
    """Whether a file belongs to an installed package or to Tapeline; "" is a builtin module."""
    return not filename or filename.startswith((*_INSTALLED, _OWN))
