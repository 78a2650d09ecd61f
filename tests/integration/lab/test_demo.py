"""The demonstration says what its data is, its table and page agree; and rows do not depend on who ran them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from hedgerow.core.errors import InputError
from hedgerow.lab import rows as results
from hedgerow.lab.compare import measure
from hedgerow.lab.demo import Demo, demo
from hedgerow.lab.runner import Folder, Unit, run
from hedgerow.lab.tasks import task_of
from hedgerow.methods import METHODS

pytestmark = pytest.mark.slow

TIMES = ("seconds_offline", "seconds_online")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return demo(tmp_path_factory.mktemp("demo"), orders=1)


def test_the_report_says_that_the_domains_are_computed_from_real_digits(done: Demo) -> None:
    page = done.report.read_text(encoding="utf-8")
    assert "scanner" not in page
    assert "computed distortion" in page
    assert not re.search(r'<script|<link|@import|url\(|src="http', page)


def test_table_and_page_agree_with_the_rows(done: Demo) -> None:
    page = done.report.read_text(encoding="utf-8")
    assert {j for _, j in done.table.best} == {1, 2}  # the lowest rate of each setting
    for row in done.table.texts:
        assert all(f">{text}</td>" in page for text in row[:3])
    frame = done.runs.frame
    assert len(frame) == 2 * len(METHODS)
    assert [row[0] for row in done.table.texts] == [METHODS[name].title for name in METHODS]
    lowest = frame.groupby("variant")["rate"].min()
    for column, setting in ((1, "as published"), (2, "our input")):
        [best] = {done.table.texts[i][j] for i, j in done.table.best if j == column}
        assert best == f"{lowest[setting]:.1f} ± 0.0 %"
    for curve, mistakes in zip(frame["curve"], frame["mistakes"], strict=True):
        assert curve[-1] == mistakes  # along the stream, and as one block


def test_what_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="orders=0: at least one"):
        demo(tmp_path / "out", orders=0)
    with pytest.raises(InputError, match="did you mean 'thin'"):
        demo(tmp_path / "out", target="thim")
    assert not (tmp_path / "out").exists()


def test_numbers_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    make = partial(task_of, "digits", "thin", 0, False)
    units = [
        Unit("demo", "thin", method, make, measure, orders=7, reading="authors", horizon=True)
        for method in ("pa", "oddm-fixed", "oddm")
    ]
    told: list[tuple[int, int]] = []
    for name, jobs in (("one", 1), ("two", 2)):
        assert run(units, Folder(tmp_path / name, jobs=jobs, tell=lambda *each: told.append(each[:2]))) == 21
    assert len(told) == 2 * (1 + 6)  # each method in a chunk of five orders and one of two
    assert [done for done, _ in told[:7]] == sorted(done for done, _ in told[:7])
    assert told[6] == told[-1] == (21, 21)

    def numbers(folder: Path) -> list[results.Row]:
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in results.read(folder)[0]]
        return sorted(rows, key=lambda row: (row["method"], row["trial"]))

    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
