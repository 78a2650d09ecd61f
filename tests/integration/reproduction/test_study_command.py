"""The command as people use it: every study on digits, its page, resuming, an interrupt, mistypes."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.comparison.runner import Folder
from hedgerow.core.errors import InputError
from reproduction.__main__ import main
from reproduction.runs import Runs
from reproduction.study import STUDIES, run, studies_in, verdict

pytestmark = pytest.mark.slow

METHODS = "pa,hedgerow-linear"
SMALL = ("--methods", METHODS, "--orders", "1", "--jobs", "1")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every study on digits, one order."""
    folder = tmp_path_factory.mktemp("study") / "out"
    command = ["python", "-m", "reproduction", "study", "all", *SMALL, "--out", str(folder)]
    page = run(Folder(folder, jobs=1, command=command), "all", methods=METHODS, orders=1)
    assert page == (folder / "report.html").resolve()
    return folder


@pytest.fixture(scope="module")
def runs(out: Path) -> Runs:
    return Runs.read(out)


def one(runs: Runs, group: str, variant: str, method: str) -> Any:
    """The one row there is."""
    part = runs.part(group, "digits/shifted", method, variant)
    assert len(part) == 1
    return part.iloc[0]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_its_rows_its_curve_and_its_table(out, runs, name):
    rows = runs.frame[runs.frame["group"] == name]
    assert set(rows["variant"]) == set(STUDIES[name].points)
    assert len(rows) == 2 * len(STUDIES[name].points)
    for row in rows.to_dict("records"):
        assert row["curve"][-1] == row["mistakes"]
        assert 0 < row["mistakes"] <= row["n"] == row["curve_at"][-1]
    stem = f"{name}-digits-shifted"
    assert (out / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "figures" / f"{stem}.svg").read_text(encoding="utf-8")
    assert (out / "tables" / f"{stem}.csv").stat().st_size > 50
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f'id="{stem}"' in page
    assert not re.search(r'<script|<link|@import|url\(|src="http', page)


def test_without_trouble_every_study_starts_from_the_same_run(runs):
    starts = {
        "delay": "0",
        "missing": "0 %",
        "batches": "1",
        "imbalance": "100 %",
        "order": "0 %",
        "sources": "all sources",
    }
    for method in METHODS.split(","):
        assert (
            len({one(runs, group, point, method)["mistakes"] for group, point in starts.items()})
            == 1
        )


def test_fewer_labels_are_learned_when_they_are_missing_and_all_when_they_are_late(runs):
    learned = [one(runs, "missing", point, "pa")["learned"] for point in STUDIES["missing"].points]
    assert learned == sorted(learned, reverse=True)
    assert learned[-1] < 0.2 * learned[0]
    for name in ("delay", "batches"):
        assert set(runs.frame[runs.frame["group"] == name]["learned"]) == {learned[0]}


def test_the_words_agree_with_the_rows(out, runs):
    page = (out / "report.html").read_text(encoding="utf-8")
    points = STUDIES["delay"].points
    first, second = (
        np.array([one(runs, "delay", p, m)["mistakes"] for p in points])
        for m in ("hedgerow-linear", "pa")
    )
    lost = int((first > second).sum())
    section = page[page.index('id="delay-digits-shifted"') :]
    expected = (
        f"loses in mistakes at {lost} of 4 points"
        if lost
        else "is not behind any baseline in mistakes at all 4"
    )
    assert expected in section[: section.index("</section>")]


def test_the_page_begins_with_its_verdict_and_ends_with_the_command(out, runs):
    page = (out / "report.html").read_text(encoding="utf-8")
    text = verdict(studies_in(runs))
    assert unescape(re.search(r"<p[^>]*>(.*?)</p>", page, flags=re.S)[1]) == text
    assert text.startswith("2 methods in 9 studies on digits/shifted, 1 order of each stream.")
    assert "conditions with trouble" in text
    assert "nobody knows how much of a lead is due to the order" in text
    assert (
        f"python -m reproduction study all --methods {METHODS} --orders 1"
        in page[page.index('id="run"') :]
    )


def test_the_command_prints_its_tables_and_ends_with_the_path_of_its_report(start, tmp_path):
    process = start("study", "delay,batches", *SMALL, "--out", tmp_path / "out")
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert stdout.splitlines()[-1] == str((tmp_path / "out" / "report.html").resolve())
    for name in ("delay", "batches"):
        assert STUDIES[name].title in stdout
    assert "16/16 done" in stderr
    assert "\x1b" not in stdout + stderr


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "dealy"}, "did you mean 'delay'"),
        ({"name": ""}, "choose one of delay"),
        ({"target": "shifty"}, "did you mean 'shifted'"),
        ({"methods": "odm"}, "did you mean 'oddm'"),
        ({"data": "digit"}, "did you mean 'digits'"),
        ({"orders": 0}, "orders=0: at least one"),
    ],
)
def test_a_mistype_is_refused_with_a_remedy_before_anything_is_written(tmp_path, wrong, words):
    with pytest.raises(InputError, match=re.escape(words)):
        run(Folder(tmp_path / "out"), **({"name": "delay"} | wrong))
    assert not (tmp_path / "out").exists()


def test_the_list_names_every_study(capsys):
    assert main(["study", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(STUDIES)
