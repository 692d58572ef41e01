"""Objects on disk: found again by other processes, checked, and never trusted blindly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tapeline as tl
from tapeline.compiler.codegen import object_cache
from tapeline.compiler.codegen.object_cache import (
    COUNTS,
    DIRECTORY_VARIABLE,
    SWITCH_VARIABLE,
    ObjectCache,
    cache_directory,
    cache_entries,
    clear_cache,
    explain_misses,
    why_unusable,
)
from tapeline.compiler.codegen.target import named_target

PROGRAM = """
import tapeline as tl
from tapeline.compiler.codegen.object_cache import COUNTS
f = tl.function(lambda x: tl.sum(tl.tanh(x) @ x))
x = tl.reshape(tl.arange(16.0), (4, 4))
values = [float(f(x)) for _ in range(5)]
assert len(set(values)) == 1
print(COUNTS.hits, COUNTS.misses, values[0])
"""


def run(folder: Path, **further: str) -> tuple[int, int, str]:
    """Hits, misses and the result of a process with its cache in that folder."""
    others = ("TAPELINE_CACHE", "TAPELINE_NATIVE_ENTRY")  # native entries are objects too
    environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    environment |= {DIRECTORY_VARIABLE: str(folder), **further}
    environment["PYTHONPATH"] = str(Path(tl.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    hits, misses, value = done.stdout.split()
    return int(hits), int(misses), value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that this process uses."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH_VARIABLE, "1")
    found = cache_directory()
    assert found == tmp_path / "cache"
    return found


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    hits, misses, value = run(tmp_path / "cache")
    assert hits == 0
    assert misses > 0
    again, none, same = run(tmp_path / "cache")
    assert (again, none, same) == (misses, 0, value)


def test_the_cache_can_be_turned_off(tmp_path: Path) -> None:
    assert run(tmp_path / "cache", TAPELINE_CACHE="0")[:2] == (0, 0)
    assert not (tmp_path / "cache").exists()


def test_damaged_objects_are_compiled_anew(tmp_path: Path) -> None:
    """Objects that were cut, changed in one bit, emptied and filled with something else."""
    folder = tmp_path / "cache"
    _, misses, value = run(folder)
    entries = list(cache_entries(folder))
    assert len(entries) >= 4
    for number, entry in enumerate(entries):
        content = bytearray(entry.path.read_bytes())
        flipped = bytearray(content)
        flipped[-20] ^= 1
        ruined = (content[:-9], flipped, b"", b"x" * 900)
        entry.path.write_bytes(bytes(ruined[number % 4]))
    assert run(folder) == (0, misses, value)
    assert run(folder) == (misses, 0, value)


def test_another_processor_has_other_objects(folder: Path) -> None:
    text = "define void @f() {\n  ret void\n}\n"
    one, other = (ObjectCache(named_target(cpu)) for cpu in ("haswell", "znver4"))
    assert one.key(text, False) != other.key(text, False)
    assert one.key(text, False) != one.key(text, True)
    one.store(one.key(text, False), text, b"for haswell")
    assert one.find(one.key(text, False)) == b"for haswell"
    before = len(COUNTS.missed)
    assert other.find(other.key(text, False)) is None
    other.store(other.key(text, False), text, b"for znver4")
    assert COUNTS.missed[before:] == [other.key(text, False)]
    (reason,) = explain_misses(folder)[before:]
    assert reason == "kept for another machine or version: cpu haswell, not znver4"
    abouts = sorted(entry.about()["cpu"] for entry in cache_entries(folder))
    assert abouts == ["haswell", "znver4"]


@pytest.mark.skipif(os.name == "nt", reason="about the permissions of POSIX")
def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(folder))
    monkeypatch.setenv(SWITCH_VARIABLE, "1")
    assert cache_directory() is None
    assert "can be written by others" in why_unusable()


@pytest.mark.skipif(os.name == "nt", reason="about the permissions of POSIX")
def test_the_folder_is_private(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_was_not_used_for_longest_goes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(named_target("haswell"))
    keys = [cache.key(str(k), False) for k in range(4)]
    for number, key in enumerate(keys):
        cache.store(key, str(number), bytes(1000))
        path = folder / key[:2] / f"{key[2:]}.o"
        os.utime(path, (number, number))
    size = next(cache_entries(folder)).nbytes
    monkeypatch.setattr(object_cache, "SIZE_LIMIT", 3 * size)
    assert cache.find(keys[0]) is not None
    object_cache._evict(folder)
    assert [cache.find(key) is not None for key in keys] == [True, False, False, True]
    assert clear_cache(folder) == 2
    assert not list(cache_entries(folder))


def test_what_is_stored_stays_within_the_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(named_target("haswell"))
    keys = [cache.key(str(k), False) for k in range(400)]
    cache.store(keys[0], "0", bytes(1000))
    size = next(cache_entries(folder)).nbytes
    monkeypatch.setattr(object_cache, "SIZE_LIMIT", 100 * size)
    most = 0
    for number, key in enumerate(keys):
        cache.store(key, str(number), bytes(1000))
        most = max(most, len(list(cache_entries(folder))))
    assert 100 < most < 200
