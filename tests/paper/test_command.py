"""The command as people use it: run, resume, interrupt, kill, extend, mistype."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hedgerow.core.errors import InputError
from hedgerow.experiment import engine, results
from hedgerow.paper.command import plan
from hedgerow.paper.command import run as run_command
from hedgerow.paper.experiments import units
from hedgerow.paper.options import PaperOptions
from hedgerow.paper.published import METHODS, TABLE
from hedgerow.paper.report import report
from hedgerow.paper.run import run_unit
from hedgerow.paper.tasks import TASKS

from .conftest import Start

Small = tuple[Path, "subprocess.CompletedProcess[str]"]
TIMES = ("seconds_offline", "seconds_online")
ORDERS = 25
INTERRUPTIBLE = ("--tasks", "dslr", "--methods", "pa,homotl-2", "--what", "table", "--trials", ORDERS, "--jobs", 2)


def quiet(*_: object) -> None:
    pass


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
    return sorted(kept, key=lambda row: [str(row[name]) for name in results.KEY])


def test_a_run_ends_with_the_path_of_its_report(small: Small) -> None:
    out, done = small
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str((out / "report.html").resolve())
    assert re.search(r"\d+/22 done", done.stderr)
    assert "\x1b" not in done.stdout + done.stderr


def test_every_table_and_figure_is_a_file(small: Small) -> None:
    out, _ = small
    for name in ("mistakes", "wilcoxon", "claims", "bounds", "time-offline", "time-online"):
        for suffix in ("csv", "md", "tex"):
            assert (out / "tables" / f"{name}.{suffix}").stat().st_size > 50
    for name in ("curves", "discrepancy", "agreement", "counter-example"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_the_page_asks_nothing_of_the_network(small: Small) -> None:
    page = (small[0] / "report.html").read_text(encoding="utf-8")
    for attribute in ("src", "srcset", "href"):
        for value in re.findall(rf'{attribute}="([^"]*)"', page):
            assert value.startswith(("data:", "#")), value[:80]
    assert not re.search(r"<script|<link|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_published_numbers_stand_beside_ours(small: Small) -> None:
    page = (small[0] / "report.html").read_text(encoding="utf-8")
    table = page[page.index('id="mistakes"') :]
    for method in METHODS:
        mean, deviation = TABLE["dslr"][method]
        assert f"<small>{mean:.2f} ± {deviation:.2f}</small>" in table


def test_the_head_says_what_was_run(small: Small) -> None:
    page = (small[0] / "report.html").read_text(encoding="utf-8")
    row = results.read(small[0]).rows[0]
    for fact in ("hedgerow paper --tasks dslr --trials 2", row["data"], row["versions"]["numpy"], "seeds 0 to 1"):
        assert fact in page
    assert "--what ablation --resume --out" in page  # the parts that were not run


def test_a_method_of_ones_own_joins_tables_and_figures(small: Small) -> None:
    out, _ = small
    assert len(results.read(out).where(method="mine", group="table")) == 2
    for name in ("mistakes.md", "wilcoxon.md", "time-online.md", "claims.md"):
        assert "My own method" in (out / "tables" / name).read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert ">My own method<" in page


def test_one_process_finds_the_same_numbers(small: Small, data_dir: Path, tmp_path: Path) -> None:
    methods = ["pa", "homotlms", "oddm"]
    work = units(["table"], [TASKS["dslr"]], methods, "table", 2, 1)
    engine.run(work, run_unit, tmp_path, jobs=1, data_dir=str(data_dir))
    by_two = [row for row in results.read(small[0]).where(group="table") if row["method"] in methods]
    assert without_times(results.read(tmp_path).rows) == without_times(by_two)


def test_resume_runs_only_what_is_missing(small: Small, data_dir: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(small[0], tmp_path / "out"))
    before = (out / "results.jsonl").read_bytes()
    options = PaperOptions("dslr", "pa,paio", 3, jobs=1, what="table", data_dir=str(data_dir), out=out, resume=True)
    said: list[str] = []
    outcome = run_command(options, ["paper"], said.append, quiet)
    after = (out / "results.jsonl").read_bytes()
    assert outcome.report == (out / "report.html").resolve()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 2  # the third order of two methods
    assert any("2 runs done, 4 were there already" in line for line in said)


def test_results_are_not_overwritten_or_mixed(small: Small, data_dir: Path) -> None:
    with pytest.raises(InputError, match=r"pass --resume"):
        plan(PaperOptions("dslr", data_dir=str(data_dir), out=small[0]), quiet)
    with pytest.raises(InputError, match=r"of reading table, not authors"):
        plan(PaperOptions("dslr", reading="authors", data_dir=str(data_dir), out=small[0], resume=True), quiet)


def test_a_corrupt_line_is_named_and_left_out(small: Small, tmp_path: Path) -> None:
    lines = [line for line in (small[0] / "results.jsonl").read_text(encoding="utf-8").splitlines() if '"pa' in line]
    torn = [*lines[:3], lines[3][:40], *lines[3:], json.dumps({"group": "table"}), "7"]
    (tmp_path / "results.jsonl").write_text("\n".join(torn), encoding="utf-8")
    said: list[str] = []
    page = report(tmp_path, said.append).read_text(encoding="utf-8")
    numbers = re.findall(r"results.jsonl, line (\d+): not a result", "\n".join(said))
    assert numbers == ["4", str(len(torn) - 1), str(len(torn))]
    assert f"{len(lines)} runs in results.jsonl" in page
    assert "line 4: not a result" in page


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no results; run `hedgerow paper --out"):
        report(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": "dsrl"}, "unknown task 'dsrl'; did you mean 'dslr'? Known: PIE1, PIE2,"),
        ({"methods": "odm"}, "unknown method 'odm'; did you mean 'oddm'? Known:"),
        ({"what": "tabel"}, "unknown part of the report 'tabel'; did you mean 'table'? Known: ablation, all,"),
        ({"reading": "tabel"}, "unknown reading 'tabel'; did you mean 'table'?"),
        ({"plugins": ("nowhere.py",)}, "no plugin at nowhere.py"),
    ],
)
def test_a_wrong_name_lists_the_known_ones(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        plan(PaperOptions(out=tmp_path, **options), quiet)
    assert words in str(caught.value)


def test_a_wrong_name_is_one_line_and_exit_code_2(start: Start, tmp_path: Path) -> None:
    process = start("paper", "--tasks", "dsrl", "--out", tmp_path / "out")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert not stdout
    assert stderr.startswith("error: unknown task 'dsrl'")
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_family_leaves_the_other(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEDGEROW_DATA", raising=False)
    only = tmp_path / "data"
    only.mkdir()
    (only / "homotl_oddm").symlink_to(data_dir / "homotl_oddm")
    said: list[str] = []
    work = plan(
        PaperOptions("dslr,PIE1,PIE2", "pa", data_dir=str(only), out=tmp_path / "out", what="table"), said.append
    )
    assert [unit.task.name for unit in work] == ["dslr"]
    assert "no data for 'pie', so these tasks are left out: PIE1, PIE2." in said[0]


def interrupted(start: Start, data_dir: Path, out: Path, number: signal.Signals) -> tuple[subprocess.Popen[str], str]:
    """Start a run, wait until it has some rows but not all, and send it a signal."""
    process = start("paper", *INTERRUPTIBLE, "--data-dir", data_dir, "--out", out)
    file, end = out / "results.jsonl", time.monotonic() + 60
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
    kept = len(results.read(tmp_path / "out").rows)
    assert 5 <= kept < 2 * ORDERS
    assert f"interrupted: {kept} finished runs are kept" in stderr
    command = shlex.split(stderr.strip().splitlines()[-1])
    assert command[:2] == ["hedgerow", "paper"]
    assert command[-1] == "--resume"
    again = start(*command[1:])
    stdout, stderr = again.communicate(timeout=120)
    assert again.returncode == 0, stderr
    assert f"{2 * ORDERS - kept} runs done, {kept} were there already" in stderr
    assert len(results.read(tmp_path / "out").keys()) == 2 * ORDERS
    assert stdout.strip().endswith("report.html")


def test_a_killed_run_loses_at_most_the_rows_it_was_in(start: Start, data_dir: Path, tmp_path: Path) -> None:
    process, _ = interrupted(start, data_dir, tmp_path, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    time.sleep(2 * engine.ORPHAN_CHECK)
    file = tmp_path / "results.jsonl"
    left = file.read_bytes()
    found = results.read(tmp_path)
    assert len(found.problems) <= 2  # one a worker
    assert len(found.rows) >= 5
    time.sleep(2 * engine.ORPHAN_CHECK)
    assert file.read_bytes() == left  # nobody writes on
    work = units(["table"], [TASKS["dslr"]], ["pa", "homotl-2"], "table", ORDERS, 1)
    new = engine.run(work, run_unit, tmp_path, jobs=1, data_dir=str(data_dir))
    assert new == 2 * ORDERS - len(found.rows)
    assert len(results.read(tmp_path).rows) == 2 * ORDERS
