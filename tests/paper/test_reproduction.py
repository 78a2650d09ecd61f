"""The reproduction itself: Office+Caltech, five orders of the published split, within the distances aimed at.

Twenty orders are measured by `hedgerow paper`; five are enough to see a cell leave its place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.experiment import engine, results
from hedgerow.experiment.summaries import summarise
from hedgerow.paper.experiments import units
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.published import METHODS, TABLE
from hedgerow.paper.run import run_unit
from hedgerow.paper.tasks import find_tasks

ORDERS = 5
PUBLISHED_ORDERS = 20
OFFICE = "amazon,caltech,dslr,webcam"
POINTS = {"pa": 1.5, "oddm": 2.0, "oddm-fixed": 2.0, "paio": 3.0, "homotlms": 3.0, "homotl-2": 3.0, "homotl-1": 4.0}


@pytest.fixture(scope="module")
def runs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> PaperRuns:
    out = tmp_path_factory.mktemp("office")
    work = units(["table"], find_tasks(OFFICE), list(METHODS), "table", ORDERS, 1)
    engine.run(work, run_unit, out, jobs=2, data_dir=str(data_dir))
    return PaperRuns.of(results.read(out))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", OFFICE.split(","))
def test_a_cell_is_where_the_paper_has_it(runs: PaperRuns, task: str, method: str) -> None:
    cell = summarise(runs.rows_of("table", task, method))
    mean, deviation = TABLE[task][method]
    error = (cell.sd**2 / ORDERS + deviation**2 / PUBLISHED_ORDERS) ** 0.5
    assert cell.orders == ORDERS
    assert abs(cell.mean - mean) <= POINTS[method] + 2 * error
