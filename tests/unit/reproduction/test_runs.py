"""Rows as a frame, and the cells of tables."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hedgerow.comparison.results import NEEDED, Row
from hedgerow.core.errors import InputError
from reproduction.runs import Runs
from reproduction.tasks import task_of


def made_row(method: str = "pa", trial: int = 0, **more: Any) -> Row:
    """A row with all that a row needs."""
    numbers = {"mistakes": 300, "n": 1000, "seconds_offline": 0.5, "seconds_online": 0.1}
    rest = dict.fromkeys(NEEDED, 0)
    where = {
        "group": "table",
        "task": "thin",
        "method": method,
        "variant": "",
        "split": 0,
        "trial": trial,
    }
    return {**where, **numbers, **rest, **more}


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = [
        made_row(
            method, trial, split=split, mistakes=300 + 7 * trial + 50 * split, title=f"The {method}"
        )
        for method in ("oddm", "mine", "pa")
        for split in (0, 1)
        for trial in range(4)
    ]
    ordered = Runs(rows)
    shuffled = Runs(random.Random(0).sample(rows, len(rows)))
    assert ordered.methods("table") == shuffled.methods("table") == ["pa", "oddm", "mine"]
    assert ordered.styles == shuffled.styles
    assert ordered.titles == shuffled.titles
    for method in ("pa", "oddm", "mine"):
        key = ("table", "thin", method)
        assert ordered.cell(*key) == shuffled.cell(*key)
        assert ordered.rates(*key).to_dict() == shuffled.rates(*key).to_dict()
        assert list(shuffled.rates(*key).index) == [
            (split, trial) for split in (0, 1) for trial in range(4)
        ]


def test_spreads_over_orders_and_over_splits_are_two() -> None:
    """Within the splits 50 51 52 and 60 61 62, deviation 1; their means 51 and 61 have deviation 10/sqrt 2."""
    rows = [
        made_row(trial=k, split=s, mistakes=500 + 10 * k + 100 * s)
        for s in (0, 1)
        for k in range(3)
    ]
    cell = Runs(rows).cell("table", "thin", "pa")
    assert cell is not None
    assert (cell.mean, cell.orders, cell.splits) == (56.0, 6, 2)
    assert (cell.sd, cell.between) == (pytest.approx(1.0), pytest.approx(10 / 2**0.5))
    assert str(cell) == "56.00 ± 1.00 ± 7.07"
    one = Runs(rows[:1]).cell("table", "thin", "pa")
    assert one is not None
    assert (one.sd, one.between) == (0.0, 0.0)
    assert Runs(rows).cell("table", "thin", "oddm") is None


def test_titles_come_from_the_rows_then_from_the_methods() -> None:
    runs = Runs([made_row("mine", title="My own"), made_row("pa"), made_row("gone")])
    assert runs.titles == {"mine": "My own", "pa": "PA", "gone": "gone"}


def test_a_folder_without_rows_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no results; run this first"):
        Runs.read(tmp_path, missing="run this first")


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(InputError, match="did you mean 'thin'"):
        task_of("digits", "thim")
