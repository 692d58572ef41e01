"""`python -m tapeline` looks at saved functions and runs them, with useful exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapeline as tl
from tapeline.__main__ import FAILED, MISUSED, OK, main, print_plain


@pytest.fixture
def file(tmp_path: Path) -> str:
    w = tl.Variable([2.0, 3.0], name="w")

    @tl.function
    def scaled(x: tl.Tensor, factor: float = 1.0) -> dict[str, tl.Tensor]:
        return {"y": x * w * factor, "total": tl.sum(x)}

    scaled(tl.asarray([1.0, 2.0]))
    tl.export.save(scaled, tmp_path / "scaled.tapeline")
    return str(tmp_path / "scaled.tapeline")


def test_inspect_says_what_is_in_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", file, "--kernels", "--graph"]) == OK
    text = capsys.readouterr().out
    for part in ("function: scaled", "w: float64[2]", "x: float64[2]", "factor: 1.0", "kernels of"):
        assert part in text


def test_inspect_prints_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", file, "--json"]) == OK
    report = json.loads(capsys.readouterr().out)
    assert report["function"] == "scaled"
    assert len(report["traces"]) == 1


def test_run_takes_and_gives_arrays(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0]))
    arguments = ["--input", f"x={tmp_path / 'x.npy'}", "-i", "factor=1.0"]
    assert main(["run", file, *arguments, "-o", str(tmp_path / "out.npz")]) == OK
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found[name].tolist() for name in found.files if found[name].ndim) == [[2, 6]]
    assert "[2. 6.]" in capsys.readouterr().out


def test_run_names_an_input_that_does_not_exist(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", file, "--input", "y=1.0"]) == MISUSED
    assert "there is no input 'y'; the function takes x, factor" in capsys.readouterr().err


def test_run_says_what_it_wrote(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0]))
    arguments = ["--input", f"x={tmp_path / 'x.npy'}"]
    assert main(["run", file, *arguments, "--output", str(tmp_path / "out"), "--json"]) == OK
    assert list(json.loads(capsys.readouterr().out)["written"]) == [str(tmp_path / "out.npz")]
    assert (tmp_path / "out.npz").exists()


def test_a_folder_that_is_not_there_is_named(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", file, "--svg", str(tmp_path / "none" / "a.svg")]) == FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert said == f"tapeline export: there is no folder {tmp_path / 'none'}"


@pytest.mark.parametrize("arguments", [["inspect", "--json"], ["nope", "--json"], ["--json"]])
def test_misuse_is_json_as_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == MISUSED
    printed = capsys.readouterr()
    assert json.loads(printed.out)["exit code"] == MISUSED
    assert printed.err.startswith("usage: tapeline")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == OK
    assert capsys.readouterr().out == f"tapeline {tl.__version__}\n"


def test_long_lines_fit_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_plain({"features": "avx2, " * 40, "traces": [{"for": "x"}]})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[-2:] == ["trace 0:", "  for: x"]


def test_export_writes_every_form(file: str, tmp_path: Path) -> None:
    forms = {"html": "<!doctype html>", "svg": "<svg", "dot": "digraph", "ir": "", "asm": ""}
    arguments = [a for name in forms for a in (f"--{name}", str(tmp_path / f"x.{name}"))]
    arguments += ["--graph-json", str(tmp_path / "x.json")]
    assert main(["export", file, *arguments]) == OK
    for name, start in forms.items():
        text = (tmp_path / f"x.{name}").read_text()
        assert text.startswith(start)
        assert len(text) > 200
    assert json.loads((tmp_path / "x.json").read_text())["format"] == "tapeline.graph"


def test_doctor_finds_that_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["compiled function works"] == "yes"


def test_export_writes_models_and_objects(file: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed; it is in the extra 'test'")
    model = tmp_path / "m.onnx"
    arguments = ["--onnx", str(model), "--gradient", "--aot", str(tmp_path / "c")]
    assert main(["export", file, *arguments, "--target", "x86-64", "--target", "host"]) == OK
    assert model.stat().st_size > 100
    names = {path.name for path in (tmp_path / "c").iterdir()}
    assert {"scaled.h", "scaled.o", "scaled-x86-64.o", "example.c", "scaled.cmake"} <= names


def test_bench_measures_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", file, "--seconds", "0.01", "--json"]) == OK
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    assert 0 < trace["call_seconds"] < trace["numpy_seconds"] * 100
    assert all(one["runs"] > 0 and one["seconds"] > 0 for one in trace["kernels"])
    assert main(["bench", file, "--seconds", "0.01"]) == OK
    text = capsys.readouterr().out
    assert "times as fast: " in text
    assert "profile:" in text


def test_cache_is_shown_explained_and_cleared(file: str, tmp_path: Path) -> None:
    def tapeline(*arguments: str, switch: str = "1") -> dict[str, Any]:
        """What a process of its own says, which has compiled nothing yet."""
        environment = {
            **os.environ, "TAPELINE_CACHE": switch, "TAPELINE_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(Path(tl.__file__).parent.parent),
        }  # fmt: skip
        command = [sys.executable, "-m", "tapeline", *arguments, "--json"]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    first = tapeline("cache", "why", file)
    assert first["kept"] == 0
    assert first["because"].startswith("new: nothing was compiled from this code before")
    second = tapeline("cache", "why", file)
    assert (second["compiled"], second["because"]) == (0, "all of it was kept")
    objects = tapeline("cache", "info")["objects"]
    assert objects > 0
    assert tapeline("cache", "clear")["deleted"] == objects
    off = tapeline("cache", "info", switch="0")
    assert off == {"cache": "not used: the environment variable TAPELINE_CACHE is 0"}


def test_failures_and_misuse_have_their_own_codes(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("no file of ours")
    assert main(["inspect", str(tmp_path / "other")]) == FAILED
    assert "no zip archive" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "missing")]) == FAILED
    assert main(["run", file]) == FAILED
    assert main(["run", file, "-i", "x"]) == MISUSED
    assert main(["export", file, "--aot", str(tmp_path), "--target", "pdp11"]) == FAILED
    assert "there is no target 'pdp11'" in capsys.readouterr().err
    assert main(["export", file]) == MISUSED
    assert main(["export", file, "--trace", "7", "--svg", "x"]) == MISUSED
    assert "there is no trace 7; the file has 1" in capsys.readouterr().err
    assert main(["export", file, "--sizes", "3", "--svg", "x"]) == MISUSED


def test_failures_fit_the_terminal_and_reach_programs(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["run", file, "-i", "x=7", "--json"]) == FAILED
    out, err = capsys.readouterr()
    assert max(map(len, err.splitlines())) <= 60
    assert json.loads(out)["exit code"] == FAILED
    assert " ".join(json.loads(out)["error"].split()) == " ".join(err.split())
    assert main(["inspect", "missing.tapeline"]) == FAILED
    assert capsys.readouterr().err == "tapeline inspect: no file missing.tapeline\n"


def test_results_are_json(file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, np.inf]))
    assert main(["run", file, "-i", f"x={tmp_path / 'x.npy'}", "--json"]) == OK
    found = json.loads(capsys.readouterr().out)["results"]
    assert {"dtype": "float64", "shape": [2], "values": ["2.0", "inf"]} in found


@pytest.fixture
def open_file(tmp_path: Path) -> str:
    function = tl.function(lambda x: tl.tanh(x) @ tl.ones(3), name="opened")
    function.get_concrete_function(tl.TensorSpec([None, 3], "float64"))
    tl.export.save(function, tmp_path / "opened.tapeline")
    return str(tmp_path / "opened.tapeline")


def test_open_sizes_are_measured_and_given(
    open_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", open_file, "--kernels"]) == OK
    assert "x: float64[None, 3]" in capsys.readouterr().out
    assert main(["bench", open_file, "--seconds", "0.01"]) == OK
    aot = ["--aot", str(tmp_path / "c")]
    assert main(["export", open_file, *aot]) == FAILED
    assert "leaves sizes open" in capsys.readouterr().err
    assert main(["export", open_file, *aot, "--sizes", "a"]) == MISUSED
    assert main(["export", open_file, *aot, "--sizes", "4,5"]) == MISUSED
    assert "--sizes must be 1 number separated" in capsys.readouterr().err
    assert main(["export", open_file, *aot, "--sizes", "5"]) == OK
    assert "x: input, float64[5][3]" in (tmp_path / "c" / "opened.h").read_text()


def test_help_is_printed_by_the_module() -> None:
    command = [sys.executable, "-m", "tapeline", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    for name in ("inspect", "run", "export", "bench", "doctor", "cache", "exit codes: 0"):
        assert name in done.stdout


def test_functions_that_run_in_stages_are_shown_drawn_and_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    function = tl.function(lambda x: tl.sum(tl.tanh(x[x > 0])), name="chosen")
    function(tl.asarray([1.0, -1.0, 2.0]))
    file = str(tmp_path / "chosen.tapeline")
    tl.export.save(function, file)
    assert main(["inspect", file, "--kernels"]) == OK
    assert "tanh" in capsys.readouterr().out
    assert main(["export", file, "--html", str(tmp_path / "x.html")]) == OK
    assert "kernels of stage 1" in (tmp_path / "x.html").read_text()
    capsys.readouterr()
    assert main(["bench", file, "--seconds", "0.01", "--json"]) == OK
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    assert trace["call_seconds"] > 0
    assert main(["export", file, "--aot", str(tmp_path / "aot")]) == FAILED
    assert "depends on values" in capsys.readouterr().err
