"""The command as people use it: every study on digits, its page, resuming, an interrupt, mistypes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from html import escape
from pathlib import Path

import numpy as np
import pytest
from command import COMMAND, environment

from hedgerow.experiment import results
from hedgerow.experiment.summaries import RunIndex
from hedgerow.study.findings import gap
from hedgerow.study.report import studies_in
from hedgerow.study.studies import STUDIES
from hedgerow.study.verdict import verdict

SMALL = ("--methods", "pa,hedgerow-linear", "--orders", "1", "--jobs", "1")


def study(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, "study", *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=300, env=environment(OPENBLAS_NUM_THREADS="1"), check=False
    )


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    out = tmp_path_factory.mktemp("study") / "out"
    return out, study("all", *SMALL, "--out", out)


def test_a_run_ends_with_the_path_of_its_report(everything):
    out, done = everything
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str((out / "report.html").resolve())
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_rows_its_curve_and_its_table(everything, name):
    out, done = everything
    rows = [row for row in results.read(out).rows if row["group"] == name]
    assert {row["variant"] for row in rows} == set(STUDIES[name].points)
    assert len(rows) == 2 * len(STUDIES[name].points)
    for row in rows:
        assert row["curve"][-1] == row["mistakes"]
        assert 0 < row["mistakes"] <= row["n"] == row["curve_at"][-1]
    stem = f"{name}-digits-shifted"
    assert (out / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figures" / f"{stem}.svg").read_text(encoding="utf-8")
    assert (out / "tables" / f"{stem}.csv").stat().st_size > 50
    assert STUDIES[name].title in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f'id="{stem}"' in page
    assert not re.search(r'<script|<link|@import|url\(|src="http', page)


def test_without_trouble_every_study_starts_from_the_same_run(everything):
    starts = {"delay": "0", "missing": "0 %", "batches": "1", "imbalance": "100 %", "sources": "all sources"}
    found = results.read(everything[0])
    for method in ("pa", "hedgerow-linear"):
        assert len({found.where(group=g, variant=v, method=method)[0]["mistakes"] for g, v in starts.items()}) == 1


def test_fewer_labels_are_learned_when_they_are_missing_and_all_when_they_are_late(everything):
    found = results.read(everything[0])
    learned = [found.where(group="missing", variant=v, method="pa")[0]["learned"] for v in STUDIES["missing"].points]
    assert learned == sorted(learned, reverse=True)
    assert learned[-1] < 0.2 * learned[0]
    for name in ("delay", "batches"):
        assert {row["learned"] for row in found.where(group=name)} == {learned[0]}


def test_the_words_agree_with_the_rows(everything):
    out, _ = everything
    found = results.read(out)
    page = (out / "report.html").read_text(encoding="utf-8")
    points = STUDIES["delay"].points
    first, second = (
        [found.where(group="delay", variant=p, method=m)[0]["mistakes"] for p in points]
        for m in ("hedgerow-linear", "pa")
    )
    lost = int((np.array(first) > np.array(second)).sum())
    section = page[page.index('id="delay-digits-shifted"') :]
    expected = f"loses in mistakes at {lost} of 4 points" if lost else "is not behind any baseline in mistakes at all 4"
    assert expected in section[: section.index("</section>")]


def test_the_page_begins_with_its_verdict(everything):
    out, _ = everything
    page = (out / "report.html").read_text(encoding="utf-8")
    said = verdict(list(studies_in(RunIndex.of(results.read(out)))))
    assert re.search(r"<p[^>]*>(.*?)</p>", page, flags=re.S)[1] == escape(said)
    assert said.startswith("2 methods in 8 studies on digits/shifted, 1 order of each stream.")
    assert "conditions with trouble" in said
    assert "nobody knows how much of a lead is due to the order" in said


def test_resuming_runs_nothing_again_and_a_full_folder_is_not_overwritten(everything):
    out, _ = everything
    before = (out / "results.jsonl").read_bytes()
    refused = study("delay", *SMALL, "--out", out)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    again = study("delay", *SMALL, "--out", out, "--resume")
    assert again.returncode == 0, again.stderr
    assert "0 runs done, 8 were there already" in again.stderr
    assert (out / "results.jsonl").read_bytes() == before


def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "out"
    words = [*COMMAND, "study", "delay", "--methods", "hedgerow-linear", "--orders", "30", "--jobs", "1", "--out", out]
    process = subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(OPENBLAS_NUM_THREADS="1"), start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / "results.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert f"--out {out} --resume" in stderr
    for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dealy",), "did you mean 'delay'"),
        ((), "choose one of delay"),
        (("delay", "--target", "shifty"), "did you mean 'shifted'"),
        (("delay", "--methods", "odm"), "did you mean 'oddm'"),
        (("delay", "--data", "digit"), "did you mean 'digits'"),
    ],
)
def test_a_mistype_is_one_line_with_a_remedy(tmp_path, arguments, words):
    done = study(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_list_names_every_study():
    done = study("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == list(STUDIES)


def test_a_gap_is_taken_order_by_order():
    def rows(*mistakes: int) -> list[dict[str, int]]:
        return [{"trial": t, "mistakes": m, "n": 100} for t, m in enumerate(mistakes)]

    found = gap(rows(20, 30, 99), rows(10, 22))
    assert found is not None
    assert found.points == pytest.approx(9)
    assert found.error == pytest.approx(1)
    assert gap(rows(1), []) is None
