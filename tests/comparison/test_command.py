"""The command as people use it: their own files, a pipe, a terminal, an interrupt, mistypes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command import COMMAND, environment

from hedgerow.comparison.command import run as run_compare
from hedgerow.comparison.options import CompareOptions, InputFiles
from hedgerow.core.errors import HedgerowError
from hedgerow.experiment import results

SMALL = ("--label", "digit", "--warmup", ".3", "--methods", "pa,homotlms,hedgerow-linear", "--jobs", "1")


def words(files: Path, *more: object) -> list[str]:
    own = ["compare", "--source", "tilted.csv", "--source", "faded.parquet", "--stream", "shifted.csv"]
    return [*COMMAND, *own, *map(str, more)]


def run(files: Path, *more: object) -> subprocess.CompletedProcess[str]:
    env = environment(OPENBLAS_NUM_THREADS="1")
    return subprocess.run(
        words(files, *more), capture_output=True, text=True, timeout=300, env=env, cwd=files, check=False
    )


@pytest.fixture(scope="module")
def done(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "out"
    return out, run(files, *SMALL, "--out", out)


def test_three_methods_on_own_files_in_one_command(done, found):
    out, ran = done
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == found.verdict
    assert ran.stdout.splitlines()[-1] == str((out / "report.html").resolve())
    for title in ("PA", "HomOTLMS", "hedgerow (linear)", "What each source was worth"):
        assert title in ran.stdout
    assert "7/7 done" in ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr


def test_files_and_domains_give_the_same_mistakes(done, found):
    def counts(rows):
        return sorted((row["group"], row["method"], row["variant"], row["mistakes"], row["wrong"]) for row in rows)

    assert counts(results.read(done[0]).rows) == counts(found.records)


def test_a_full_folder_is_not_overwritten_and_resuming_runs_nothing_again(done, files):
    out, _ = done
    before = (out / "results.jsonl").read_bytes()
    refused = run(files, *SMALL, "--out", out)
    assert (refused.returncode, "--resume" in refused.stderr) == (2, True)
    again = run(files, *SMALL, "--out", out, "--resume")
    assert again.returncode == 0, again.stderr
    assert "0 runs done, 7 were there already" in again.stderr
    assert (out / "results.jsonl").read_bytes() == before


def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(files, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        words(files, *SMALL, "--orders", 60, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(OPENBLAS_NUM_THREADS="1"), cwd=files, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / "results.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert f"--out {out} --resume" in stderr
    assert results.read(out).rows
    assert results.read(out).problems == []


def test_on_a_terminal_there_is_a_bar_and_colour(files, tmp_path):
    near, far = pty.openpty()
    process = subprocess.Popen(
        words(files, *SMALL, "--methods", "pa", "--out", tmp_path / "out"), stdout=far, stderr=far, cwd=files,
        env=environment(TERM="xterm-256color", COLUMNS="120", OPENBLAS_NUM_THREADS="1"),
    )  # fmt: skip
    os.close(far)
    seen = b""
    while True:
        try:
            part = os.read(near, 65536)
        except OSError:  # the terminal is gone: the command has ended
            break
        if not part:
            break
        seen += part
    os.close(near)
    assert process.wait(timeout=60) == 0
    text = seen.decode()
    assert "\x1b[" in text
    assert "1/1" in text
    assert "% mistakes of 125 instances" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": "odm"}, r"did you mean 'oddm'\?"),
        ({"methods": ","}, "names no method"),
        ({"label": "digits"}, r"did you mean 'digit'\?"),
        ({"warmup": 1.5}, "warmup=1.5"),
        ({"unlabelled": Path("tilted.csv")}, "--unlabelled and --warmup: give one of them"),
        ({"time": "when"}, "unknown time column of the stream 'when'"),
        ({"stream": Path("nowhere.csv")}, "nowhere.csv"),
        ({"engine": "dusk"}, "--engine 'dusk'"),
        ({"orders": 0}, "orders=0"),
        ({"plugins": ("nowhere.py",)}, "no plugin at nowhere.py"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(files, tmp_path, monkeypatch, change, said):
    monkeypatch.chdir(files)
    given = InputFiles((Path("tilted.csv"),), Path("shifted.csv"), "digit", warmup=0.3)
    options = CompareOptions("pa", jobs=1, out=tmp_path / "out")
    given = replace(given, **{k: v for k, v in change.items() if hasattr(given, k)})
    options = replace(options, **{k: v for k, v in change.items() if hasattr(options, k)})
    with pytest.raises(HedgerowError, match=said):
        run_compare(given, options, ["compare"], pytest.fail, lambda *_: None)
    assert not (tmp_path / "out").exists()


def test_a_mistype_is_one_line(files, tmp_path):
    ran = run(files, *SMALL, "--out", tmp_path / "out", "--label", "digits")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: unknown label column of tilted.csv 'digits'")
    assert ran.stderr.count("\n") == 1
