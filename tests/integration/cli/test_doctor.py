"""`hedgerow doctor`: what is broken is found, with a remedy and exit code 1; what only some need is a note."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import Run, environment

from hedgerow.cli import doctor
from hedgerow.cli.doctor import NOTE, PROBLEM, Finding


def found(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {f"{one['group']}: {one['what']}": one for one in json.loads(done.stdout)["findings"]}


def test_a_healthy_installation(hedgerow: Run) -> None:
    done = hedgerow("doctor")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is well"), done.stdout
    assert "\x1b" not in done.stdout
    for word in ("numpy", "BLAS", "processors", "kept in", "digits", "extras: spark", "clock", "temporary"):
        assert word in done.stdout


def test_json_says_the_same(hedgerow: Run) -> None:
    done = hedgerow("doctor", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"] is True
    lines = hedgerow("doctor").stdout.splitlines()[1:-1]
    assert [line.split()[0] for line in lines] == [one["state"] for one in json.loads(done.stdout)["findings"]]


def test_a_data_folder_that_is_not_there(hedgerow: Run, tmp_path: Path) -> None:
    done = hedgerow("doctor", "--json", HEDGEROW_DATA=str(tmp_path / "absent"))
    assert done.returncode == 1
    one = found(done)["data sets: HEDGEROW_DATA"]
    assert one["state"] == PROBLEM
    assert "absent" in one["found"]
    assert "unset HEDGEROW_DATA" in one["remedy"] or "correct HEDGEROW_DATA" in one["remedy"]


def test_data_sets_that_are_there_are_found(hedgerow: Run, data_dir: Path) -> None:
    done = hedgerow("doctor", "--json", HEDGEROW_DATA=str(data_dir))
    assert found(done)["data sets: office-caltech"]["found"].startswith("found at ")


def test_threads_that_are_no_number(hedgerow: Run) -> None:
    done = hedgerow("doctor", OPENBLAS_NUM_THREADS="many")
    assert done.returncode == 1
    assert "remedy: a whole number above 0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 problem:")


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    code = """
import importlib.metadata as metadata, sys
real = metadata.version
def version(name):
    if name in ("redis", "safetensors"):
        raise metadata.PackageNotFoundError(name)
    return "0.1" if name == "scipy" else real(name)
metadata.version = version
from hedgerow.__main__ import main
sys.argv = ["hedgerow", "doctor", "--json"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.returncode == 1, done.stderr
    findings = found(done)
    assert findings["extras: redis"]["state"] == NOTE
    assert "pip install 'hedgerow[redis]'" in findings["extras: redis"]["remedy"]
    assert findings["versions: safetensors"]["state"] == PROBLEM
    assert "older than 1.13" in findings["versions: scipy"]["found"]
    assert "scipy>=1.13" in findings["versions: scipy"]["remedy"]


def test_a_package_that_cannot_be_imported_hides_nothing_else() -> None:
    code = """
import sys
sys.modules["scipy"] = None
from hedgerow.__main__ import main
sys.argv = ["hedgerow", "doctor", "--json"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.returncode == 1, done.stderr
    assert found(done)["checks: blas"]["state"] == PROBLEM
    assert found(done)["machine: clock"]["state"] == "ok"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert doctor._folder("here", tmp_path, "go elsewhere").state == PROBLEM


def test_a_folder_that_is_not_there_or_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = doctor._folder("here", tmp_path / "absent", "go elsewhere")
    assert (gone.state, gone.remedy) == (PROBLEM, "go elsewhere")
    monkeypatch.setattr(doctor, "NO_DISK", 2**62)
    assert doctor._folder("here", tmp_path, "go elsewhere").state == PROBLEM


def test_a_clock_before_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.time, "time", lambda: 1e9)
    (one,) = doctor.clock()
    assert one.state == PROBLEM
    assert "set the clock" in one.remedy


def test_the_extras_that_are_looked_at_are_those_of_the_package() -> None:
    import tomllib

    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    named = tomllib.loads(text)["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(named) - {"all", "bench", "peers", "peers-moa", "dev", "docs"}


def test_every_problem_has_a_remedy() -> None:
    def broken() -> list[Finding]:
        raise OSError("nothing goes")

    findings = doctor.examine([broken])
    assert [one.state for one in findings] == [PROBLEM]
    assert all(one.remedy for one in findings)
    assert doctor.verdict(findings).startswith("1 problem")
