"""The command as people use it: run, resume, interrupt, kill, extend, mistype."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hedgerow.comparison import results, runner
from hedgerow.comparison.runner import Folder
from hedgerow.core.errors import DataMissing, InputError
from reproduction import paper
from reproduction.paper import PUBLISHED, PUBLISHED_METHODS

pytestmark = pytest.mark.slow

Small = tuple[Path, "subprocess.CompletedProcess[str]"]
Start = Any  # the fixture: a command in a process group of its own
TIMES = ("seconds_offline", "seconds_online")
ORDERS = 25
INTERRUPTIBLE = (
    "--tasks",
    "dslr",
    "--methods",
    "pa,homotl-2",
    "--what",
    "table",
    "--trials",
    ORDERS,
    "--jobs",
    2,
)
PLUGIN = """
from hedgerow import Recipe

mine = Recipe("My own method", "shared", "identity", "each", "pooled", "hedge")
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, data_dir: Path, start: Start) -> Small:
    """All methods and one of our own on DSLR, two orders, two processes: the folder, and what was printed."""
    folder = tmp_path_factory.mktemp("small")
    plugin = folder / "mymethod.py"
    out = folder / "out"
    plugin.write_text(PLUGIN, encoding="utf-8")
    process = start(
        "--tasks",
        "dslr",
        "--trials",
        2,
        "--jobs",
        2,
        "--data-dir",
        data_dir,
        "--out",
        out,
        "--plugin",
        plugin,
    )
    stdout, stderr = process.communicate(timeout=300)
    return out, subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def without_times(rows: list[results.Row]) -> list[results.Row]:
    kept = [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: [str(row[name]) for name in results.KEY])


def test_a_run_ends_with_the_path_of_its_report(small: Small) -> None:
    out, done = small
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str((out / "report.html").resolve())
    assert re.search(r"\d+/26 done", done.stderr)
    assert "\x1b" not in done.stdout + done.stderr


def test_every_table_and_figure_is_a_file(small: Small) -> None:
    out, _ = small
    for name in ("mistakes", "wilcoxon", "claims", "bounds", "time-offline", "time-online"):
        for suffix in ("csv", "md", "tex"):
            assert (out / "tables" / f"{name}.{suffix}").stat().st_size > 50
    for name in ("curves", "discrepancy", "agreement", "counter-example"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_published_numbers_stand_beside_ours(small: Small) -> None:
    page = (small[0] / "report.html").read_text(encoding="utf-8")
    table = page[page.index('id="mistakes"') :]
    for method in PUBLISHED_METHODS:
        assert f"<small>{PUBLISHED['dslr', method]}</small>" in table


def test_the_end_says_what_was_run(small: Small) -> None:
    page = (small[0] / "report.html").read_text(encoding="utf-8")
    row = results.read(small[0])[0][0]
    command = "python -m reproduction --tasks dslr --trials 2"
    for fact in (command, row["data"], row["versions"]["numpy"], "seeds 0 to 1"):
        assert fact in page[page.index('id="run"') :]
    assert (
        f"--plugin {small[0].parent / 'mymethod.py'} --what ablation --resume</code>" in page
    )  # what was not run


def test_a_method_of_ones_own_joins_tables_and_figures(small: Small) -> None:
    out, _ = small
    assert (
        sum(row["method"] == "mine" and row["group"] == "table" for row in results.read(out)[0])
        == 2
    )
    for name in ("mistakes.md", "wilcoxon.md", "time-online.md", "claims.md"):
        assert "My own method" in (out / "tables" / name).read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert ">My own method<" in page


def test_results_are_not_overwritten_or_mixed(small: Small, data_dir: Path) -> None:
    before = (small[0] / results.FILE).read_bytes()
    with pytest.raises(InputError, match=r"pass --resume"):
        paper.run(Folder(small[0]), "dslr", data_dir=str(data_dir))
    with pytest.raises(InputError, match=r"of reading table, not authors"):
        paper.run(Folder(small[0], resume=True), "dslr", reading="authors", data_dir=str(data_dir))
    assert (small[0] / results.FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tasks": "dsrl"}, "unknown task 'dsrl'; did you mean 'dslr'? Known: PIE1, PIE2,"),
        ({"methods": "odm"}, "unknown method 'odm'; did you mean 'oddm'? Known:"),
        (
            {"what": "tabel"},
            "unknown part of the report 'tabel'; did you mean 'table'? Known: ablation, all,",
        ),
        ({"reading": "tabel"}, "unknown reading 'tabel'; did you mean 'table'?"),
        ({"tasks": ","}, "names no task"),
        ({"trials": 0}, "trials=0: at least one is needed"),
    ],
)
def test_a_wrong_name_lists_the_known_ones(
    wrong: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "out")
    with pytest.raises(InputError) as caught:
        paper.run(folder, **wrong)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_wrong_name_is_one_line_and_exit_code_2(start: Start, tmp_path: Path) -> None:
    process = start("--tasks", "dsrl", "--out", tmp_path / "out")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert not stdout
    assert stderr.startswith("error: unknown task 'dsrl'")
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_family_leaves_the_other(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEDGEROW_DATA", raising=False)
    only = tmp_path / "data"
    only.mkdir()
    (only / "homotl_oddm").symlink_to(data_dir / "homotl_oddm")
    notes: list[str] = []
    assert paper.with_data(["dslr", "PIE1", "PIE2"], str(only), notes.append) == ["dslr"]
    assert "no data for 'pie', so these tasks are left out: PIE1, PIE2." in notes[0]
    with pytest.raises(DataMissing, match="pie"):
        paper.run(Folder(tmp_path / "out"), "PIE1,PIE2", data_dir=str(only))


def interrupted(
    start: Start, data_dir: Path, out: Path, number: signal.Signals
) -> tuple[subprocess.Popen[str], str]:
    """Start a run, wait until it has some rows but not all, and send it a signal."""
    process = start(*INTERRUPTIBLE, "--data-dir", data_dir, "--out", out)
    file = out / results.FILE
    end = time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= 5):
        assert time.monotonic() < end, "no rows"
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C goes to every process of the terminal
    else:
        os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=60)
    return process, stderr


def test_ctrl_c_says_how_to_go_on(start: Start, data_dir: Path, tmp_path: Path) -> None:
    process, stderr = interrupted(start, data_dir, tmp_path / "out", signal.SIGINT)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    kept = len(results.read(tmp_path / "out")[0])
    assert 5 <= kept < 2 * ORDERS
    assert f"interrupted: {kept} finished runs are kept" in stderr
    command = shlex.split(stderr.strip().splitlines()[-1])
    assert command[:3] == ["python", "-m", "reproduction"]
    assert command[-1] == "--resume"
    again = start(*command[3:])
    stdout, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    assert f"{2 * ORDERS - kept} runs done, {kept} were there already" in stderr
    assert len(results.read(tmp_path / "out")[0]) == 2 * ORDERS
    assert stdout.strip().endswith("report.html")


def test_a_killed_run_loses_at_most_the_rows_it_was_in(
    start: Start, data_dir: Path, tmp_path: Path
) -> None:
    process, _ = interrupted(start, data_dir, tmp_path, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    time.sleep(2 * runner.ORPHAN_CHECK)
    file = tmp_path / results.FILE
    left = file.read_bytes()
    rows, problems = results.read(tmp_path)
    assert len(problems) <= 2  # one a worker
    assert len(rows) >= 5
    time.sleep(2 * runner.ORPHAN_CHECK)
    assert file.read_bytes() == left  # nobody writes on
    work = paper.units(["table"], ["dslr"], ["pa", "homotl-2"], "table", ORDERS, 1, str(data_dir))
    assert runner.run(work, Folder(tmp_path, jobs=1)) == 2 * ORDERS - len(rows)
    assert len(results.read(tmp_path)[0]) == 2 * ORDERS
