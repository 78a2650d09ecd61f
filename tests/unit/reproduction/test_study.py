"""Studies: scenarios as laws, the words of a report on rows made up by hand, and its figures."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.comparison.results import FILE, NEEDED, Row
from hedgerow.comparison.runner import Folder
from hedgerow.core.errors import InputError
from reproduction import study
from reproduction.runs import Runs
from reproduction.study import (
    STUDIES,
    TITLES,
    Lead,
    StudyRuns,
    along,
    find_studies,
    mistakes,
    report,
    sentences,
    strengths,
    studies_in,
    verdict,
)
from reproduction.tasks import (
    DRIFTS,
    OwnFiles,
    Task,
    appearing_late,
    chosen_classes,
    drifting,
    imbalanced,
    missing_classes,
    no_sources,
    no_unlabelled,
    one_source,
    only_in_target,
    repeating,
    switched,
    task_of,
)


@pytest.fixture(scope="module")
def digits() -> Task:
    return task_of("digits", "shifted")


def classes(domain) -> set[int]:
    return set(domain.y.tolist())


# -- scenarios: what each one takes away is away, and the rest is as it was -------------------------------------


@pytest.mark.parametrize(
    ("name", "point"), [(s.name, p) for s in STUDIES.values() for p in s.points]
)
def test_every_point_is_a_whole_task(digits, name, point):
    made = STUDIES[name].points[point](digits)
    assert np.array_equal(np.sort(made.together), np.arange(sum(map(len, made.sources))))
    for order in (0, 1):
        rows = made.arriving(order).rows
        assert len(np.unique(rows)) == len(rows) <= len(made.stream)
        assert all(0 < change < len(rows) for change in made.arriving(order).changes)
    assert not np.array_equal(made.arriving(0).rows, made.arriving(1).rows)
    assert made.unlabelled is None or made.unlabelled.y is None


def test_a_source_keeps_its_order_among_the_pooled_rows(digits):
    made = only_in_target(digits, 0.5)
    ends = np.cumsum([0, *map(len, made.sources)])
    for a, b in pairwise(ends):
        own = made.together[(made.together >= a) & (made.together < b)]
        assert (np.diff(own) > 0).all()


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_held_back_classes_are_in_no_source_and_stream_late(digits, share):
    held = set(chosen_classes(digits, share).tolist())
    made = appearing_late(only_in_target(digits, share), share)
    assert not any(classes(source) & held for source in made.sources)
    arrivals = made.arriving(3)
    y = made.stream.y[arrivals.rows]
    assert not set(y[: arrivals.changes[0]].tolist()) & held
    assert set(y.tolist()) == classes(digits.stream)
    assert not classes(made.warmup) & held


def test_every_class_stays_in_some_source(digits):
    made = missing_classes(digits, 0.8)
    assert set().union(*map(classes, made.sources)) == classes(digits.stream)
    assert max(len(classes(source)) for source in made.sources) < 10


def test_rare_classes_become_rare_and_do_not_vanish(digits):
    made = imbalanced(digits, 0.1)
    rare = set(chosen_classes(digits, 0.5).tolist())
    for label in classes(digits.stream):
        before, after = ((task.stream.y == label).sum() for task in (digits, made))
        assert after == (max(1, round(0.1 * before)) if label in rare else before)


def test_labels_follow_each_other_and_no_row_is_lost_or_doubled(digits):
    for share in (0.5, 0.8, 0.95):
        arrived = repeating(digits, share).arrived(0)
        assert sorted(map(tuple, arrived.X)) == sorted(map(tuple, digits.stream.X))
        repeats = (arrived.y[1:] == arrived.y[:-1]).mean()
        assert abs(repeats - (share + (1 - share) / 10)) < 0.1


def test_drift_takes_its_second_domain_from_the_sources_and_all_kinds_are_equally_long(digits):
    lengths = set()
    for kind in DRIFTS:
        made = drifting(digits, kind)
        assert {source.name for source in made.sources} == {"blurred", "faded", "thin"}
        rows = made.arriving(0).rows
        lengths.add(len(rows))
        second = rows >= len(digits.stream)
        assert second.sum() == (0 if kind == "steady" else len(rows) // 2)
    assert len(lengths) == 1


@pytest.mark.parametrize("n", [1, 2, 7, 100, 101])
@pytest.mark.parametrize("kind", DRIFTS)
def test_the_second_domain_never_gives_more_than_half(kind, n):
    assert switched(kind, n, seed=4)[0].sum() <= -(-n // 2)


def test_an_unknown_kind_of_drift_is_named():
    with pytest.raises(InputError, match="did you mean 'abrupt'"):
        switched("abrup", 10)


def test_sources_can_be_few(digits):
    assert no_unlabelled(digits).unlabelled is None
    assert len(one_source(digits).sources) == 1
    assert no_sources(digits).sources == ()


def test_bad_sources_keep_their_rows_and_the_stream_is_the_same(digits):
    for point, scenario in STUDIES["sources"].points.items():
        made = scenario(digits)
        assert made.stream is digits.stream
        if "100 %" in point:
            for before, after in zip(digits.sources, made.sources, strict=True):
                assert after.X is before.X
                assert (after.y != before.y).mean() > 0.8


def test_studies_are_found_by_name():
    assert [s.name for s in find_studies("all")] == list(STUDIES) == list(TITLES)
    with pytest.raises(InputError, match="did you mean 'delay'"):
        find_studies("dealy")


# -- the paragraph that begins the report -----------------------------------------------------------------------

STEADY = (-1, 1, -1, 1, -1, 1)  # mistakes of 1000 that each order has more
BIG = (-90, 90, -90, 90, -90, 90)


def rows_of(
    group: str,
    rates: Mapping[str, Sequence[float]],
    orders: Sequence[int] = STEADY,
    task: str = "digits/shifted",
) -> list[Row]:
    """Rows of a study: for each method its mistakes in per cent at every point, and what the orders add to them."""
    return [
        {
            "group": group,
            "task": task,
            "method": method,
            "variant": point,
            "split": 0,
            "trial": trial,
        }
        | {
            "mistakes": round(10 * percent) + more,
            "n": 1000,
            "balanced": percent / 100,
            "title": method.upper(),
        }
        for method, percents in rates.items()
        for point, percent in zip(STUDIES[group].points, percents, strict=False)
        for trial, more in enumerate(orders)
    ]


def verdict_on(*groups: list[Row]) -> str:
    return verdict(studies_in(Runs([row for group in groups for row in group])))


CLEAR = {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 45]}
BEHIND_ONCE = {"pa": [20, 25, 40, 50], "oddm": [10, 20, 30, 70]}
TESTED = "significantly (paired over the orders, Wilcoxon's p < 0.05)"


def test_it_says_who_leads_where_not_and_what_trouble_costs():
    text = verdict_on(rows_of("delay", BEHIND_ONCE))
    assert text.startswith("2 methods in 1 study on digits/shifted, 6 orders of each stream.")
    assert "ODDM makes the fewest mistakes in 2 of 3 conditions with trouble" in text
    assert f"it is ahead {TESTED} in all of them" in text
    behind = (
        "It is behind in 1: at “200” (Labels that come late) PA makes 20.0 points fewer mistakes, "
    )
    assert behind + TESTED in text
    assert (
        "costs ODDM most is “200” (Labels that come late): 70.0 % mistakes instead of 10.0 %"
        in text
    )
    assert "60.0 points more; least it costs PA, 30.0 points" in text


def test_the_stream_without_trouble_is_no_condition_of_its_own():
    """It is the first point of every study: counted, it would be counted as often as there are studies."""
    text = verdict_on(rows_of("delay", CLEAR), rows_of("batches", CLEAR))
    assert "in all 6 conditions with trouble;" in text
    behind = {**CLEAR, "oddm": [10, 20, 30, 90]}
    text = verdict_on(rows_of("delay", CLEAR), rows_of("batches", behind))
    assert "in 5 of 6 conditions with trouble, throughout in 1 of 2 studies;" in text


def both(rates: Mapping[str, Sequence[float]], pa: Sequence[int], oddm: Sequence[int]) -> list[Row]:
    """Rows of the delays whose orders add to one method what they need not add to the other."""
    return [
        row
        for method, more in (("pa", pa), ("oddm", oddm))
        for row in rows_of("delay", {method: rates[method]}, more)
    ]


@pytest.mark.parametrize("leads", [True, False])
def test_a_lead_that_depends_on_the_order_is_called_so(leads):
    """One is better in half of the orders and worse in the other half, by far more than their means differ."""
    rates = {"pa": [20, 25, 40, 50], "oddm": [19, 24, 39, 49 if leads else 51]}
    text = verdict_on(both(rates, BIG, BIG[1:] + BIG[:1]))
    assert f"it is ahead {TESTED} in none of them" in text
    assert "no method here is a safe choice" in text
    assert "begin with" not in text
    if not leads:
        assert (
            f"at “200” (Labels that come late) PA makes 1.0 points fewer mistakes, but not {TESTED}"
            in text
        )


def test_methods_are_compared_order_by_order():
    """Orders move both methods together by far more than the lead, which is the same in each: that is no luck."""
    rates = {"pa": [20, 25, 40, 50], "oddm": [19, 24, 39, 49]}
    assert f"it is ahead {TESTED} in all of them" in verdict_on(rows_of("delay", rates, BIG))


@pytest.mark.parametrize(("behind", "clear"), [(0, True), (1, False)])
def test_fewer_orders_than_the_test_needs_must_all_agree(behind, clear):
    text = verdict_on(both(CLEAR, (0, 0, 0), (0, 0, 500 * behind)))
    leads = "ODDM" if clear else "PA"
    assert f"{leads} makes the fewest mistakes in all 3 conditions with trouble" in text
    assert f"it is ahead in every order in {'all' if clear else 'none'} of them" in text
    assert ("begin with" in text) is clear


def test_a_lead_is_clear_where_a_paired_test_or_every_order_says_so():
    import pandas as pd

    def lead(*differences: float) -> Lead | None:
        other = pd.Series(differences, index=range(len(differences)), dtype=float)
        return Lead.over("pa", 0 * other, other)

    assert lead() is None
    clear = {
        (1,): False,  # one order has no spread
        (1, 2): True,
        (-1, -2): True,
        (1, 2, -1): False,
        (1, 2, 0): False,
        (1, 2, 3, 4, 5): True,
        (1, 2, 3, 4, 5, 6): True,  # p = 2/2^6
        (1, 2, 3, 4, 5, -1): False,
        (1, 2, 3, 4, 5, 6, 7, 8, -0.5): True,  # not all, but p = 4/2^9
    }
    for differences, expected in clear.items():
        made = lead(*differences)
        assert made is not None
        assert (made.clear, made.orders) == (expected, len(differences)), differences
        assert made.points == pytest.approx(np.mean(differences))


def test_a_lead_is_taken_over_the_orders_that_both_have():
    import pandas as pd

    made = Lead.over("pa", pd.Series([10.0, 22.0]), pd.Series([20.0, 30.0, 99.0]))
    assert made is not None
    assert (made.points, made.error, made.orders) == (pytest.approx(9), pytest.approx(1), 2)
    assert Lead.over("pa", pd.Series([1.0]), pd.Series([], dtype=float)) is None


def test_a_clear_lead_is_a_choice_and_is_weighed_against_the_trouble():
    text = verdict_on(rows_of("delay", CLEAR))
    assert "What that means: begin with ODDM." in text
    assert "median lead over the next best is 5.0 points, and trouble costs it up to 35.0" in text
    assert "hint" not in text  # six orders are enough


def test_a_choice_names_where_it_does_not_hold():
    text = verdict_on(rows_of("delay", BEHIND_ONCE))
    assert "begin with ODDM, but not where a stream is like “200” (Labels that come late)." in text


def test_few_orders_are_a_hint_and_one_order_has_no_spread():
    assert "2 orders are few: take it as a hint" in verdict_on(rows_of("delay", CLEAR, (0, 1)))
    one = verdict_on(rows_of("delay", CLEAR, (0,)))
    assert "With one order nobody knows how much of a lead is due to the order" in one
    assert "in every order" not in one
    assert "Wilcoxon" not in one
    assert "begin with" not in one


def test_equal_methods_share_what_they_win():
    text = verdict_on(rows_of("delay", {"pa": [20, 25, 40, 50], "oddm": [20, 25, 40, 50]}))
    assert "in all 3 conditions with trouble" in text
    assert "no method here is a safe choice" in text


def test_one_method_has_nobody_to_lead():
    text = verdict_on(rows_of("delay", {"pa": [20, 25, 40, 50]}))
    assert "fewest" not in text
    assert (
        "costs PA most is “200” (Labels that come late): 50.0 % mistakes instead of 20.0 %" in text
    )


def test_several_targets_are_counted_and_named():
    other = rows_of("delay", {**CLEAR, "oddm": [10, 20, 30, 90]}, task="digits/thin")
    text = verdict_on(rows_of("delay", CLEAR), other)
    assert text.startswith("2 methods in 1 study on 2 targets")
    assert "in 5 of 6 conditions" in text
    assert "“200” (Labels that come late, digits/thin)" in text


def test_nothing_but_the_start_of_a_study_is_no_verdict():
    text = verdict_on(rows_of("delay", {"pa": [20], "oddm": [10]}))
    assert text.endswith(
        "No condition with trouble has been run yet, so nothing is said about it here."
    )


def test_the_order_of_the_rows_does_not_matter():
    rows = (
        rows_of("delay", BEHIND_ONCE, BIG)
        + rows_of("batches", CLEAR)
        + rows_of("drift", CLEAR, task="pie/PIE5")
    )

    def folded(rows: list[Row]) -> list[object]:
        every = studies_in(Runs(rows))
        return [
            verdict(every),
            *(mistakes(of).csv() for of in every),
            *(list(sentences(of)) for of in every),
        ]

    assert folded(random.Random(1).sample(rows, len(rows))) == folded(rows)


def test_a_method_of_ours_is_held_against_the_baselines_and_against_itself():
    points = list(STUDIES["sources"].points)
    rates = {"pa": [20] * 10, "hedgerow-linear": [10] * 10}
    rates["hedgerow-linear"][points.index("labels shuffled: 100 %")] = 24
    rows = [row | {"majority": 850} for row in rows_of("sources", rates)]
    [of] = studies_in(Runs(rows))
    text = " ".join(sentences(of))
    assert (
        "loses in mistakes at 1 of 10 points: at “labels shuffled: 100 %” to PA, by 4.0 ± 0.0 points."
        in text
    )
    assert "is not behind any baseline in mistakes at the other 9" in text
    assert (
        "HEDGEROW-LINEAR against itself without sources: more than 2 points worse at 1 of 9 points"
        in text
    )
    assert "PA is at no point worse than itself without sources." in text
    assert "majority" not in text
    [of] = studies_in(Runs([row | {"majority": 150} for row in rows]))
    assert "PA at “all sources” is 5.0 points worse than the majority rule." in list(sentences(of))
    [of] = studies_in(Runs([row | {"last_label": 160} for row in rows]))
    worse = "PA at “all sources” is 4.0 points worse than the last label that is known."
    assert worse in list(sentences(of))


# -- figures and files ------------------------------------------------------------------------------------------


def drawn_rows(group: str, lengths: Sequence[int]) -> list[Row]:
    """Rows with curves, at each point a stream of another length."""
    made = rows_of(group, {"pa": [20, 30, 40, 50, 60], "oddm": [10, 20, 99, 98, 70]}, BIG[:2])
    for row in made:
        n = lengths[list(STUDIES[group].points).index(row["variant"]) % len(lengths)]
        at = np.arange(1, 41) * n // 40
        row |= {
            "curve_at": at.tolist(),
            "curve": (at * row["mistakes"] / 1000).tolist(),
            "changes": [n // 2],
        }
    return made


def study_of(rows: list[Row]) -> StudyRuns:
    [of] = studies_in(Runs(rows))
    return of


def test_panels_beside_each_other_have_one_scale_that_shows_all():
    figure = along(study_of(drawn_rows("drift", [200, 400])))
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 400)}
    [(low, high)] = {axes.get_ylim() for axes in figure.axes}
    assert low == 0
    drawn = [line.get_ydata() for axes in figure.axes for line in axes.lines[:2]]
    assert np.concatenate(drawn).max() <= high <= 100.5 * 1.05


def test_a_band_is_the_deviation_that_the_table_has():
    of = study_of(drawn_rows("delay", [200]))
    [axes] = strengths(of).axes
    cell = of.cell("pa", next(iter(STUDIES["delay"].points)))
    assert cell is not None
    corners = axes.collections[0].get_paths()[0].vertices
    assert corners[corners[:, 0] == 0, 1].max() == pytest.approx(cell.mean + cell.sd)
    assert axes.get_ylim()[0] == 0


def test_the_csv_of_a_study_has_every_cell(tmp_path: Path) -> None:
    import pandas as pd

    extra: dict[str, Any] = dict.fromkeys(NEEDED, 0) | {
        "seconds_offline": 0.0,
        "seconds_online": 0.0,
    }
    rows = [row | extra | {"majority": 900, "data": "abc"} for row in drawn_rows("drift", [200])]
    (tmp_path / FILE).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert report(tmp_path) == (tmp_path / "report.html").resolve()
    frame = pd.read_csv(tmp_path / "tables" / "drift-digits-shifted.csv")
    rates = Runs(rows).frame.groupby(["variant", "method"])["rate"].mean()
    assert frame.set_index(["point", "method"])["mean"].to_dict() == pytest.approx(rates.to_dict())
    assert len(frame) == 2 * len(STUDIES["drift"].points)
    assert set(frame["orders"]) == {2}
    around = pd.read_csv(tmp_path / "tables" / "drift-digits-shifted-change.csv")
    assert around["method"].tolist() == ["PA", "ODDM"]
    with pytest.raises(
        InputError, match="has no results; run `python -m reproduction study all --out"
    ):
        report(tmp_path / "nowhere")


def test_a_study_takes_files_of_ones_own(files, tmp_path):
    paths = [files / "tilted.csv", files / "faded.parquet", files / "shifted.csv"]
    page = study.run(
        Folder(tmp_path, jobs=1), "delay", OwnFiles.of(paths, "digit"), methods="pa", orders=1
    )
    assert "own/shifted" in page.read_text(
        encoding="utf-8"
    )  # the last one is the target where none is named
    named = study.run(
        Folder(tmp_path / "named", jobs=1), "delay", OwnFiles.of(paths, "digit"), "tilted", "pa", 1
    )
    assert "own/tilted" in named.read_text(encoding="utf-8")
    with pytest.raises(
        InputError, match=r"unknown domain of your files 'tilt'.*did you mean 'tilted'"
    ):
        study.run(
            Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths, "digit"), "tilt", "pa", 1
        )
    with pytest.raises(InputError, match="1 domain: one is the target"):
        study.run(
            Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths[:1], "digit"), methods="pa"
        )
    with pytest.raises(InputError, match="a study needs a label in every row"):
        study.run(
            Folder(tmp_path / "out", jobs=1), "delay", OwnFiles.of(paths[::2], None), methods="pa"
        )
