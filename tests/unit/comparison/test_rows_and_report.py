"""Rows of runs, and what reports are made of: cells, figures, tables and pages."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import load, split
from hedgerow.comparison import page as report
from hedgerow.comparison import results
from hedgerow.comparison.figures import Line, along, spread
from hedgerow.comparison.measure import fit_classifier, measure
from hedgerow.comparison.page import THEMES, Beside, Figure, Missing, Report, Section
from hedgerow.comparison.results import Row
from hedgerow.comparison.runner import Folder, Unit, evenly, run
from hedgerow.comparison.tables import Table, Value
from hedgerow.comparison.tasks import Task, task_of
from hedgerow.core.errors import InputError, unknown
from reproduction.figures import Panel, draw

METHODS = ("pa", "oddm-fixed", "oddm")
TIMES = ("seconds_offline", "seconds_online")


def task(target: str = "thin") -> Task:
    """A target of the digits, in an order of its own in each trial."""
    domains = load("digits")
    if target not in domains:
        raise unknown("domain", target, domains)
    warmup, stream = split(domains[target], 0.3, 0)
    return task_of(
        {name: each for name, each in domains.items() if name != target}, stream, unlabelled=warmup
    )


def units(orders: int, *methods: str) -> list[Unit]:
    return [Unit("table", "thin", m, task, fit_classifier, measure, orders=orders) for m in methods]


def made_row(method: str = "pa", trial: int = 0, **more: Any) -> Row:
    """A row with all that a row needs."""
    numbers = {"mistakes": 300, "n": 1000, "seconds_offline": 0.5, "seconds_online": 0.1}
    rest = dict.fromkeys(results.NEEDED, 0)
    where = {
        "group": "table",
        "task": "thin",
        "method": method,
        "variant": "",
        "split": 0,
        "trial": trial,
    }
    return {**where, **numbers, **rest, **more}


# -- rows on disk -----------------------------------------------------------------------------------------------


def test_what_is_appended_is_read_and_the_later_of_two_rows_counts(tmp_path: Path) -> None:
    for row in (made_row(), made_row(trial=1), made_row(mistakes=np.int64(7), curve=np.arange(3))):
        results.append(tmp_path, row)
    rows, problems = results.read(tmp_path)
    assert rows == [made_row(mistakes=7, curve=[0, 1, 2]), made_row(trial=1)]
    assert problems == []
    assert results.read(tmp_path / "nowhere") == ([], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("7", "int, not an object"),
        ('{"group": "table"}', "no task, method"),
        ('{"group": "ta', "line"),
        (json.dumps(made_row(n=0)), "n is not a valid number"),
        (json.dumps(made_row(mistakes="7")), "mistakes is not a valid number"),
        (json.dumps(made_row(mistakes=True)), "mistakes is not a valid number"),
    ],
)
def test_a_line_that_is_no_row_is_named_and_left_out(
    tmp_path: Path, line: str, reason: str
) -> None:
    lines = [json.dumps(made_row()), line, json.dumps(made_row(trial=1))]
    (tmp_path / results.FILE).write_text("\n".join(lines), encoding="utf-8")
    rows, [problem] = results.read(tmp_path)
    assert [row["trial"] for row in rows] == [0, 1]
    assert f"{results.FILE}, line 2: not a result" in problem
    assert reason in problem


def test_a_row_after_one_that_was_cut_off_stands_on_its_own_line(tmp_path: Path) -> None:
    (tmp_path / results.FILE).write_text(json.dumps(made_row())[:50], encoding="utf-8")
    for _ in range(2):
        results.end_last_line(tmp_path)
    results.append(tmp_path, made_row(trial=1))
    rows, problems = results.read(tmp_path)
    assert [row["trial"] for row in rows] == [1]
    assert len(problems) == 1


# -- rows of real runs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    told: list[tuple[int, int]] = []
    assert (
        run(units(2, *METHODS), Folder(out, jobs=1, tell=lambda *each: told.append(each[:2]))) == 6
    )
    assert told == [(0, 6), (2, 6), (4, 6), (6, 6)]
    return out


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[Row]:
    return results.read(folder)[0]


def row_of(runs: list[Row], method: str, trial: int = 0) -> Row:
    [row] = [row for row in runs if (row["method"], row["trial"]) == (method, trial)]
    return row


def test_every_order_starts_from_the_same_fit(runs: list[Row]) -> None:
    [unit] = units(2, "oddm")
    [again] = unit.rows([1])
    kept = row_of(runs, "oddm", 1)
    assert again["curve"].tolist() == kept["curve"]
    assert row_of(runs, "oddm")["curve"] != kept["curve"]


def test_checkpoints_and_block_agree(runs: list[Row]) -> None:
    for row in runs:
        assert row["curve"][-1] == row["mistakes"]
        assert row["curve_at"][-1] == row["n"] == 250


def test_only_what_is_missing_is_run(folder: Path, tmp_path: Path) -> None:
    lines = (folder / results.FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / results.FILE).write_text("".join(lines[:4] + lines[5:]), encoding="utf-8")
    assert run(units(2, *METHODS), Folder(tmp_path, jobs=1)) == 1
    again = (tmp_path / results.FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    assert again[:5] == lines[:4] + lines[5:]
    before, after = (
        {name: value for name, value in json.loads(line).items() if name not in TIMES}
        for line in (lines[4], again[5])
    )
    assert before == after
    assert run(units(2, *METHODS), Folder(tmp_path, jobs=1)) == 0


def test_a_unit_that_fails_is_named(tmp_path: Path) -> None:
    bad = Unit("table", "thim", "pa", partial(task, "thim"), fit_classifier, measure, "late")
    with pytest.raises(
        InputError, match=r"pa on thim \(table, late\): unknown domain 'thim'; did you mean 'thin'"
    ):
        run([bad], Folder(tmp_path, jobs=1))
    assert results.read(tmp_path) == ([], [])


@given(st.integers(0, 500), st.integers(1, 60))
def test_checkpoints_are_spread_evenly_up_to_the_end(n, count):
    places = evenly(n, count)
    assert len(places) == min(n, count)
    assert places[-1:] == ([n] if n else [])
    steps = np.diff([0, *places])
    assert not len(steps) or steps.max() - steps.min() <= 1


# -- figures ----------------------------------------------------------------------------------------------------


def test_figures_name_every_line() -> None:
    panel = Panel(
        "as published",
        [Line.over(name, j, [1, 2], [[5, 7], [6, 8]]) for j, name in enumerate(METHODS)],
    )
    at_ends = draw([panel, panel], names="ends")
    assert [[text.get_text() for text in axes.texts] for axes in at_ends.axes] == [
        list(METHODS)
    ] * 2
    [legend] = draw([panel, panel]).legends
    assert [text.get_text() for text in legend.get_texts()] == list(METHODS)


def test_a_drawing_is_the_same_in_every_run_and_its_themes_differ_in_three_colours() -> None:
    def drawing() -> Figure:
        lines = [Line.over(name, j, [1, 2], [[5, 7], [6, 8]]) for j, name in enumerate(METHODS)]
        return Figure("along", along(lines, "labels", "mistakes, %"), "Mistakes.")

    one = drawing()
    two = drawing()
    assert one.svg == two.svg  # no date, no random ids
    inline = one.inline
    light, dark = (
        base64.b64decode(inline[theme].partition(",")[2]).decode() for theme in ("light", "dark")
    )
    for name, colour in THEMES["light"].items():
        assert colour not in dark
        dark = dark.replace(THEMES["dark"][name], colour)
    assert dark == light


@pytest.mark.parametrize(("ylabel", "limit"), [("mistakes, %", 100.0), ("mistakes", np.inf)])
def test_panels_that_show_the_same_have_one_scale_from_zero_that_ends_where_the_lines_end(
    ylabel: str, limit: float
) -> None:
    for top in (5.0, 60.0, 99.0):
        lines = [
            Line("low", 0, np.array([1, 2]), np.array([top / 2, 1.0])),
            Line("high", 1, np.arange(2), np.full(2, top)),
        ]
        other = Panel(
            "c", [Line("x", 2, np.arange(2), np.array([0.2, 0.4]))], ylabel="something else"
        )
        panels = [Panel("a", lines[:1], ylabel=ylabel), Panel("b", lines[1:], ylabel=ylabel), other]
        a, b, c = (axes.get_ylim() for axes in draw(panels, shared=False).axes)
        assert a == b == (0, pytest.approx(min(top * 1.1, limit), rel=0.06))
        assert top <= b[1] <= limit
        assert 0.4 <= c[1] < 0.5


def test_labels_never_overlap(rng: np.random.Generator) -> None:
    for _ in range(20):
        heights = rng.random(8).tolist()
        placed = np.array(spread(heights, 0.1))
        assert np.diff(np.sort(placed)).min() >= 0.1 - 1e-9
        assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
        assert placed.min() >= -1e-9
        assert placed.max() <= 1 + 1e-9


# -- tables and pages -------------------------------------------------------------------------------------------

HOSTILE = "<b>a & b</b>"
ESCAPED = "&lt;b&gt;a &amp; b&lt;/b&gt;"


def hostile_report() -> Report:
    """The same hostile text in every place that a report has."""
    cells = [[HOSTILE, Value("1", HOSTILE, mark="best")], ["c|d", Value("2", mark="far")]]
    table = Table("t", HOSTILE, [HOSTILE, "n"], cells, HOSTILE)
    drawing = Figure(
        "f", draw([Panel("", [Line("x", 0, np.arange(2), np.arange(2))])]), HOSTILE, HOSTILE
    )
    parts = [
        HOSTILE,
        [HOSTILE],
        {HOSTILE: HOSTILE},
        table,
        Beside([HOSTILE]),
        Missing(HOSTILE, HOSTILE),
        drawing,
    ]
    return Report(
        HOSTILE, HOSTILE, [Section(HOSTILE, parts, "s")], {HOSTILE: HOSTILE}, HOSTILE, [table]
    )


def test_the_page_escapes_and_asks_for_nothing() -> None:
    page = hostile_report().html()
    assert "<b>" not in page
    # title twice, verdict, about, link, heading; text, list, facts, table (4 + below), beside, missing, caption, alt;
    # what was run, and the table again
    assert page.count(ESCAPED) == 6 + 1 + 1 + 2 + 5 + 1 + 2 + 3 + 2 + 5
    assert '<td class="best">1<small>' in page
    assert '<td class="far">2†</td>' in page
    for outside in ("http:", "https:", "<script", "<link", "@import", "url("):
        assert outside not in page


def test_markdown_keeps_its_tables_whole() -> None:
    text = hostile_report().markdown()
    assert r"| c\|d | 2† |" in text
    assert "| --- | ---: |" in text
    assert "![" in text
    assert "(figures/f.svg)" in text
    assert "versions" not in text  # what changes from one making to the next is in the page alone


def test_every_text_of_a_report_is_used_and_ends_as_a_sentence_does() -> None:
    folder = Path(report.__file__).parent
    words = tomllib.loads((folder / "templates/words.toml").read_text(encoding="utf-8"))
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    whole = {kind for kind in words if re.search(rf"""["']{kind}["']""", source)}
    made = {
        f"{stem}-{end}"
        for stem in ("time", "inputs")
        for end in ("offline", "online", "centred", "zscore-unit")
    }
    assert whole | made >= words.keys()
    for kind, texts in words.items():
        assert set(texts) <= {"title", "note", "shows", "more", "text"}, kind
        for part in {"note", "shows", "more"} & texts.keys():
            assert re.search(r"(\.|%\})\s*$", texts[part]), (kind, part)


def test_tables_as_files(tmp_path: Path) -> None:
    cells = [["a & b_1", Value("45.3 ± 1.3", "40.1", "far")], ["50 %", Value("2", mark="best")]]
    table = Table("t", "Mistakes of R&D #1 in %", ["task", "n_1"], cells, "M_min is 10 % of R&D")
    assert table.best == {(1, 1)}
    assert table.texts == [["a & b_1", "45.3 ± 1.3"], ["50 %", "2"]]
    table.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.md", "t.tex"]
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == (
        "task,n_1\na & b_1,45.3 ± 1.3† [40.1]\n50 %,2\n"
    )
    tex = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"a \& b\_1 & 45.3 $\pm$ 1.3$^\dagger$ [40.1] \\" in tex
    assert tex.startswith("\\begin{table}")


def test_records_are_what_the_csv_has() -> None:
    records = [
        {"task": "dslr", "mean": 12.5, "sd": None},
        {"task": "webcam", "mean": 1.0, "sd": 2.0},
    ]
    assert (
        Table("t", "T", ["task"], [["dslr"]], records=records).csv()
        == "task,mean,sd\ndslr,12.5,\nwebcam,1.0,2.0\n"
    )


@pytest.mark.parametrize("title", ["Mistakes of R&D_#1 in %", ""])
def test_nothing_in_a_latex_table_is_markup_by_accident(title: str) -> None:
    table = Table("t", title, ["n_1 & #"], [["{x} ~ 5 %"]], "M_min is 10 % of R&D #1")
    text = table.latex()
    for line in text.splitlines():
        if not line.startswith(("\\begin", "\\toprule", "\\midrule", "\\end", "\\bottom")):
            assert not re.search(r"(?<!\\)[&_#%~]", line.removesuffix(" \\\\")), line
    assert r"10 \% of R\&D \#1" in text
