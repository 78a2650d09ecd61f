"""The demonstration: two comparisons of all methods; and rows do not depend on who ran them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hedgerow import load, split
from hedgerow.comparison import results
from hedgerow.comparison.compare import SETTINGS, comparison_in, demo
from hedgerow.comparison.measure import fit_classifier, measure
from hedgerow.comparison.runner import Folder, Unit, run
from hedgerow.comparison.tasks import Task, task_of
from hedgerow.core.errors import InputError
from hedgerow.methods import METHODS

pytestmark = pytest.mark.slow

TIMES = ("seconds_offline", "seconds_online")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [
        page
        for page in demo(Folder(tmp_path_factory.mktemp("demo"), jobs=1), orders=2)
        if page is not None
    ]


def test_both_settings_are_compared_over_all_methods(pages: list[Path]) -> None:
    assert [page.parent.name for page in pages] == list(SETTINGS)
    for page, steps in zip(pages, SETTINGS.values(), strict=True):
        comparison = comparison_in(page.parent)
        assert comparison.methods == list(METHODS)
        assert len(comparison.records) == 2 * len(METHODS)  # no source is left out
        text = page.read_text(encoding="utf-8")
        assert comparison.verdict.split(":")[0] in text
        assert f"preprocess&#39;: &#39;{steps}" in text
        assert not re.search(r'<script|<link|@import|url\(|src="http', text)
        for row in comparison.records:
            assert row["curve"][-1] == row["mistakes"]  # along the stream, and as one block


def test_what_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="orders=0: at least one"):
        list(demo(Folder(tmp_path / "out"), orders=0))
    with pytest.raises(InputError, match="did you mean 'thin'"):
        list(demo(Folder(tmp_path / "out"), target="thim"))
    assert not (tmp_path / "out").exists()


def _task() -> Task:
    domains = load("digits")
    warmup, stream = split(domains["thin"])
    return task_of(
        {name: each for name, each in domains.items() if name != "thin"}, stream, unlabelled=warmup
    )


def test_numbers_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    units = [
        Unit("demo", "thin", method, _task, fit_classifier, measure, orders=7)
        for method in ("pa", "oddm-fixed", "oddm")
    ]
    told: list[tuple[int, int]] = []
    for name, jobs in (("one", 1), ("two", 2)):
        assert (
            run(units, Folder(tmp_path / name, jobs=jobs, tell=lambda *each: told.append(each[:2])))
            == 21
        )
    assert len(told) == 2 * (1 + 6)  # each method in a chunk of five orders and one of two
    assert [done for done, _ in told[:7]] == sorted(done for done, _ in told[:7])
    assert told[6] == told[-1] == (21, 21)

    def numbers(folder: Path) -> list[results.Row]:
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in results.read(folder)[0]]
        return sorted(rows, key=lambda row: (row["method"], row["trial"]))

    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
