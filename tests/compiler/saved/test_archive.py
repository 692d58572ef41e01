"""Files that are damaged or made to harm are refused with a reason, quickly."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.compiler.ir.graph import Graph
from tapeline.compiler.saved.archive import DOCUMENT
from tapeline.runtime.errors import SavedFileError

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    w = tl.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    n = tl.Variable(0, name="n", trainable=False)
    kept = np.arange(300.0).reshape(150, 2)

    @tl.function
    def model(x: tl.Tensor, scale: float = 2.0) -> tuple[tl.Tensor, tl.Tensor]:
        n.assign_add(1)
        return x @ w * scale, tl.sum(kept)

    model(tl.asarray([[1.0, 2.0]]))
    tl.export.save(model, tmp_path / "good.tapeline")
    return tmp_path / "good.tapeline"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def refuse(path: Path, reason: str) -> None:
    with pytest.raises(SavedFileError, match=reason) as caught:
        tl.load(path)
    assert str(caught.value).count(str(path)) == 1


def test_file_has_no_pickle_and_nothing_compressed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names[0] == DOCUMENT
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        for name in names[1:]:
            np.load(io.BytesIO(archive.read(name)), allow_pickle=False)


def test_same_function_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    loaded = tl.load(path)
    tl.export.save(loaded, tmp_path / "a")
    tl.export.save(tl.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tl.load(tmp_path / "nothing")


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"PK\3\4 not really")
    refuse(other, "no zip archive")
    refuse(rewrite(other, {"readme.txt": b"hello"}), "holds no tapeline.json")
    refuse(rewrite(other, {DOCUMENT: b"{"}), "is not JSON")
    refuse(rewrite(other, {DOCUMENT: b"[" * 100_000}), "is not JSON")
    refuse(rewrite(other, {DOCUMENT: b"{}"}), "no tapeline.saved document")
    refuse(rewrite(other, {DOCUMENT: b'{"format": "tapeline.saved", "version": 1}'}), "KeyError")


def test_newer_versions_are_refused(path: Path) -> None:
    content = members(path)
    document = json.loads(content[DOCUMENT])
    document["version"] = 99
    rewrite(path, content | {DOCUMENT: json.dumps(document).encode()})
    refuse(path, "is of version 99, and this Tapeline reads versions up to 3")


def test_cut_files_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(SavedFileError):
            tl.load(path)


def test_flipped_bytes_never_crash(path: Path, rng: np.random.Generator) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with contextlib.suppress(SavedFileError):
            tl.load(path)


def test_compressed_members_and_strange_names_are_refused(path: Path) -> None:
    content = members(path)
    refuse(rewrite(path, content, zipfile.ZIP_DEFLATED), "is compressed")
    for name in ("../evil.npy", "/etc/passwd", "arrays/../x.npy", "arrays/1.npy/..", "a\\b"):
        refuse(rewrite(path, content | {name: b"x"}), "does not belong there")


def test_members_named_twice_are_refused(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr(DOCUMENT, b"{}")
    refuse(path, "some perhaps twice")


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (npy("'<f8'", "(1000000000000,)"), "bytes of data"),
        (npy("'<f8'", "(2, 2)", b"\0" * 8), "bytes of data"),
        (npy("'|O'", "(1,)", b"\0" * 8), "which Tapeline does not"),
        (npy("'<U4'", "(1,)", b"\0" * 16), "which Tapeline does not"),
        (npy("__import__('os').system('x')", "(1,)"), "no array"),
        (npy("('<f8'", "(1,)"), "no array"),
        (npy("'<f8'", "(" * 3000), "no array"),
        (npy("'<f8'", "1" + "0" * 5000), "no array"),
        (b"garbage", "no array"),
        (npy("'<f8'", "(3,)", b"\0" * 24), "is kept for it|does not fit|float64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(path: Path, array: bytes, reason: str) -> None:
    content = members(path)
    document = json.loads(content[DOCUMENT])
    name = next(v for v in document["variables"] if v["name"] == "w")["value"]["file"]
    refuse(rewrite(path, content | {name: array}), reason)


CHANGES = [
    "d['traces'][0]['graph']['graphs'][0]['nodes'][-1]['op'] = 'system'",
    "d['traces'][0]['graph']['graphs'][0]['nodes'][-1]['inputs'] = [10**6]",
    "d['traces'][0]['n_results'] = 7",
    "d['traces'][0]['n_results'] = -1",
    "d['traces'][0]['n_tensors'] = 9",
    "d['traces'][0]['args'] = [{'tensor': 5}]",
    "d['traces'][0]['args'] = [{'array': {'file': 'arrays/0.npy'}}]",
    "d['traces'][0]['args'] = 5",
    "d['traces'][0]['hidden'] = []",
    "d['traces'][0]['args'][0] = {'tensor': -1}",
    "d['traces'][0]['hidden'][0]['variable'] = 99",
    "d['traces'][0]['hidden'][0]['array'] = {'file': 'arrays/99.npy'}",
    "d['traces'][0]['assigned'] = []",
    "d['traces'][0]['assigned'] = [99]",
    "d['traces'][0]['written'] = [0]",
    "d['traces'][0]['results'] = {'output': 99}",
    "d['traces'][0]['results'] = {'tuple': 3}",
    "d['traces'][0]['results'] = {'evil': 3}",
    "d['parameters'][0]['kind'] = '__class__'",
    "d['parameters'][0]['name'] = 'not a name'",
    "d['variables'][0]['value'] = {'file': 'tapeline.json'}",
    "d['variables'] = {}",
    "d['name'] = 3",
]


@pytest.mark.parametrize("change", CHANGES)
def test_documents_that_do_not_fit_together_are_refused(path: Path, change: str) -> None:
    content = members(path)
    document: Any = json.loads(content[DOCUMENT])
    exec(change, {"d": document})
    rewrite(path, content | {DOCUMENT: json.dumps(document).encode()})
    refuse(path, "cannot be read")


ODD: list[Any] = [
    0,
    -1,
    2**31,
    2**63,
    10**30,
    1.5,
    float("nan"),
    True,
    None,
    "",
    "../x",
    [],
    [[]],
    {},
]


def places_in(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    if place:
        yield place
    if isinstance(document, dict | list):
        keys = document if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield from places_in(document[key], (*place, key))


def change_somewhere(document: Any, rng: np.random.Generator) -> None:
    """Puts something odd, or a part of the document itself, in one of its places."""
    places = list(places_in(document))
    target, source = (places[k] for k in rng.integers(len(places), size=2))
    found = document
    for key in source:
        found = found[key]
    holder = document
    for key in target[:-1]:
        holder = holder[key]
    value = found if rng.random() < 0.5 else ODD[int(rng.integers(len(ODD)))]
    holder[target[-1]] = copy.deepcopy(value)


def test_changed_documents_never_crash(path: Path, rng: np.random.Generator) -> None:
    content = members(path)
    n_refused = 0
    for _ in range(150):
        document = json.loads(content[DOCUMENT])
        change_somewhere(document, rng)
        rewrite(path, content | {DOCUMENT: json.dumps(document).encode()})
        try:
            tl.load(path)
        except SavedFileError:
            n_refused += 1
    assert n_refused > 75


def test_files_of_version_1_keep_loading(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "version1.tapeline", tmp_path / "old.tapeline")
    model = tl.load(tmp_path / "old.tapeline")
    first, total = model(tl.asarray([[1.0, 2.0]]))
    assert first.numpy().tolist() == [[14.0, 20.0]]
    assert float(total) == sum(range(300))
    assert [v.name for v in model.variables if v.trainable] == ["w"]


def test_control_flow_and_many_ops_of_version_1_keep_loading() -> None:
    """Written when version 1 was the only one; what it gave then."""
    model = tl.load(GOLDEN / "version1_ops.tapeline")
    x = tl.asarray([[0.5, 1.5, -2.0], [1.0, -0.25, 3.0]])
    with tl.GradientTape() as tape:
        tape.watch(x)
        value, rest = model(x, tl.asarray([2, 0]))
    slope = tape.gradient(value, x)
    want = np.load(GOLDEN / "version1_ops.npz")
    np.testing.assert_allclose(value, want["value"], rtol=1e-13)
    np.testing.assert_allclose(slope, want["slope"], rtol=1e-12)
    for number, one in enumerate(rest):
        np.testing.assert_allclose(one, want[f"rest{number}"], rtol=1e-13)


def test_open_sizes_of_version_2_keep_loading() -> None:
    model = tl.load(GOLDEN / "version2.tapeline")
    for rows in (2, 4, 9):
        x = np.arange(3.0 * rows).reshape(rows, 3)
        mean, doubled = model(tl.asarray(x))
        np.testing.assert_allclose(mean, x.sum() / rows)
        np.testing.assert_array_equal(doubled, np.concatenate([x, x])[1:-1])


def test_open_numbers_of_version_3_keep_loading() -> None:
    model = tl.load(GOLDEN / "version3.tapeline")
    for rate in (0.5, 0.25, 7.0):
        np.testing.assert_allclose(
            model(tl.asarray([1.0, 2.0, 4.0]), rate), (1 - rate) * 2.0 ** np.arange(3)
        )


def test_graph_texts_of_both_versions_keep_parsing() -> None:
    for version in (1, 2):
        text = (GOLDEN / f"graph{version}.json").read_text()
        assert json.loads(text)["version"] == version
        assert json.loads(Graph.from_json(text).to_json()) == json.loads(text)
