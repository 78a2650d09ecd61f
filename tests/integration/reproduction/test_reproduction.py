"""The reproduction itself: Office+Caltech, five orders of the published split, within the distances aimed at.

Twenty orders are measured by `python -m reproduction`; five are enough to see a cell leave its place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.comparison.runner import Folder, run
from reproduction.paper import PUBLISHED, PUBLISHED_METHODS, PUBLISHED_ORDERS, find_tasks, units
from reproduction.runs import Runs

pytestmark = pytest.mark.slow

ORDERS = 5
OFFICE = "amazon,caltech,dslr,webcam"
POINTS = {
    "pa": 1.5,
    "oddm": 2.0,
    "oddm-fixed": 2.0,
    "paio": 3.0,
    "homotlms": 3.0,
    "homotl-2": 3.0,
    "homotl-1": 4.0,
}


@pytest.fixture(scope="module")
def runs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    out = tmp_path_factory.mktemp("office")
    work = units(
        ["table"], find_tasks(OFFICE), PUBLISHED_METHODS, "table", ORDERS, 1, str(data_dir)
    )
    run(work, Folder(out))
    return Runs.read(out)


@pytest.mark.parametrize("method", PUBLISHED_METHODS)
@pytest.mark.parametrize("task", OFFICE.split(","))
def test_a_cell_is_where_the_paper_has_it(runs: Runs, task: str, method: str) -> None:
    cell = runs.cell("table", task, method)
    paper = PUBLISHED[task, method]
    assert cell is not None
    assert cell.orders == ORDERS
    error = (cell.sd**2 / ORDERS + paper.sd**2 / PUBLISHED_ORDERS) ** 0.5
    assert abs(cell.mean - paper.mean) <= POINTS[method] + 2 * error
