"""The paragraph that begins the report of a study: rows made up by hand, and what must be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hedgerow.experiment.results import Results
from hedgerow.experiment.summaries import RunIndex, summarise
from hedgerow.study import figures
from hedgerow.study.report import studies_in
from hedgerow.study.studies import STUDIES
from hedgerow.study.verdict import verdict

Row = dict[str, Any]
DELAYS = list(STUDIES["delay"].points)
STEADY, BIG = (-1, 1, -1, 1, -1, 1), (-90, 90, -90, 90, -90, 90)  # mistakes of 1000 that each order has more


def rows_of(
    group: str, rates: Mapping[str, Sequence[float]], orders: Sequence[int] = STEADY, task: str = "digits/shifted"
) -> list[Row]:
    """Rows of a study: for each method its mistakes in per cent at every point, and what the orders add to them."""
    return [
        {"group": group, "task": task, "method": method, "variant": point, "split": 0, "trial": trial}
        | {"mistakes": round(10 * percent) + more, "n": 1000, "title": method.upper()}
        for method, percents in rates.items()
        for point, percent in zip(STUDIES[group].points, percents, strict=False)
        for trial, more in enumerate(orders)
    ]


def said_of(*groups: list[Row]) -> str:
    index = RunIndex.of(Results([row for group in groups for row in group], []))
    return verdict(list(studies_in(index)))


def test_it_says_who_leads_where_not_and_what_trouble_costs():
    said = said_of(rows_of("delay", {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 70]}))
    assert said.startswith("2 methods in 1 study on digits/shifted, 6 orders of each stream.")
    assert "ODDM makes the fewest mistakes in 2 of 3 conditions with trouble" in said
    assert "its lead is larger than both standard deviations over the orders together in all of them" in said
    behind = (
        "It is behind in 1: at “200” (Labels that come late) PA makes 20.0 points fewer mistakes, more than the spread"
    )
    assert behind in said
    assert "costs ODDM most is “200” (Labels that come late): 70.0 % mistakes instead of 10.0 %" in said
    assert "60.0 points more; least it costs PA, 30.0 points" in said


def test_the_stream_without_trouble_is_no_condition_of_its_own():
    """It is the first point of every study: counted, it would be counted as often as there are studies."""
    rates = {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 45]}
    said = said_of(rows_of("delay", rates), rows_of("batches", rates))
    assert "in all 6 conditions with trouble;" in said
    behind = {**rates, "oddm": [10, 20, 30, 90]}
    said = said_of(rows_of("delay", rates), rows_of("batches", behind))
    assert "in 5 of 6 conditions with trouble, throughout in 1 of 2 studies;" in said


@pytest.mark.parametrize("leads", [True, False])
def test_a_lead_within_the_spread_of_orders_is_called_so(leads):
    rates = {"pa": [20, 25, 40, 50], "oddm": [19, 24, 39, 49 if leads else 51]}
    said = said_of(rows_of("delay", rates, BIG))
    assert "its lead is within both standard deviations over the orders together in all of them" in said
    assert "no method here is a safe choice" in said
    assert "begin with" not in said
    if not leads:
        assert "at “200” (Labels that come late) PA makes 1.0 points fewer mistakes, within the spread" in said


def test_a_clear_lead_is_a_choice_and_is_weighed_against_the_trouble():
    said = said_of(rows_of("delay", {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 45]}))
    assert "What that means: begin with ODDM." in said
    assert "median lead over the next best is 5.0 points, and trouble costs it up to 35.0" in said
    assert "hint" not in said  # six orders are enough


def test_a_choice_names_where_it_does_not_hold():
    said = said_of(rows_of("delay", {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 70]}))
    assert "begin with ODDM, but not where a stream is like “200” (Labels that come late)." in said


def test_few_orders_are_a_hint_and_one_order_has_no_spread():
    rates = {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 45]}
    assert "2 orders are few: take it as a hint" in said_of(rows_of("delay", rates, (0, 1)))
    one = said_of(rows_of("delay", rates, (0,)))
    assert "With one order nobody knows how much of a lead is due to the order" in one
    assert "standard deviation" not in one
    assert "begin with" not in one


def test_equal_methods_share_what_they_win():
    said = said_of(rows_of("delay", {"pa": [20, 25, 40, 50], "oddm": [20, 25, 40, 50]}))
    assert "in all 3 conditions with trouble" in said
    assert "no method here is a safe choice" in said


def test_one_method_has_nobody_to_lead():
    said = said_of(rows_of("delay", {"pa": [20, 25, 40, 50]}))
    assert "fewest" not in said
    assert "costs PA most is “200” (Labels that come late): 50.0 % mistakes instead of 20.0 %" in said


def test_several_targets_are_counted_and_named():
    rates = {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 45]}
    other = rows_of("delay", {**rates, "oddm": [10, 20, 30, 90]}, task="digits/thin")
    said = said_of(rows_of("delay", rates), other)
    assert said.startswith("2 methods in 1 study on 2 targets")
    assert "in 5 of 6 conditions" in said
    assert "“200” (Labels that come late, digits/thin)" in said


def test_nothing_but_the_start_of_a_study_is_no_verdict():
    said = said_of(rows_of("delay", {"pa": [20], "oddm": [10]}))
    assert said.endswith("No condition with trouble has been run yet, so nothing is said about it here.")


def drawn_rows(group: str, lengths: Sequence[int]) -> list[Row]:
    """Rows with curves, at each point a stream of another length."""
    made = rows_of(group, {"pa": [20, 30, 40, 50, 60], "oddm": [10, 20, 99, 98, 70]}, BIG[:2])
    for row in made:
        n = lengths[list(STUDIES[group].points).index(row["variant"]) % len(lengths)]
        at = np.arange(1, 41) * n // 40
        row |= {"curve_at": at.tolist(), "curve": (at * row["mistakes"] / 1000).tolist(), "changes": [n // 2]}
    return made


def test_panels_beside_each_other_have_one_scale_that_shows_all():
    [runs] = studies_in(RunIndex.of(Results(drawn_rows("drift", [200, 400]), [])))
    figure = figures.along(runs)
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 400)}
    [(low, high)] = {axes.get_ylim() for axes in figure.axes}
    assert low == 0
    drawn = [line.get_ydata() for axes in figure.axes for line in axes.lines[:2]]
    assert np.concatenate(drawn).max() <= high <= 100.5 * 1.05


def test_a_band_is_the_deviation_that_the_table_has():
    [runs] = studies_in(RunIndex.of(Results(drawn_rows("delay", [200]), [])))
    [axes] = figures.strengths(runs).axes
    cell = summarise(runs.rows("pa", DELAYS[0]))
    corners = axes.collections[0].get_paths()[0].vertices
    assert corners[corners[:, 0] == 0, 1].max() == pytest.approx(cell.mean + cell.sd)
    assert axes.get_ylim()[0] == 0
