"""`hedgerow.compare` where labels are numbers: measures by hand, peers that see no label before its prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import Domain, InputError, OnlineTransferRegressor, compare
from hedgerow.comparison.found import Comparison, NumberComparison
from hedgerow.comparison.measure import tracked

LEARNERS = {"hedgerow", "last", "mean", "ridge", "boosting"}


def domains(seed=0, n=160):
    rng = np.random.default_rng(seed)
    made = []
    for name, level in (("north", 0.0), ("south", 8.0), ("new", -4.0)):
        X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
        X["colour"] = np.array(["red", "green"])[rng.integers(0, 2, n)]
        X.loc[3, "a"] = np.nan
        y = 3 * X["b"] + 2 * (X["colour"] == "red") + level + 0.1 * rng.normal(size=n)
        made.append(Domain(name, X, y.to_numpy()))
    return made


@pytest.fixture(scope="module")
def comparison():
    *sources, stream = domains()
    return compare(sources, stream)


def test_it_is_the_regressor_and_measures_are_those_of_its_predictions(comparison):
    *sources, stream = domains()
    trace = (
        OnlineTransferRegressor(random_state=0)
        .fit_domains(sources)
        .trace_then_learn(stream.X, stream.y)
    )
    p = trace.predictions
    half = trace.half[:, 0]
    y = stream.y
    np.testing.assert_allclose(comparison.predictions["hedgerow"], p)
    row = comparison.table.set_index("method").loc["hedgerow"]
    beyond = np.maximum(abs(p - y) - half, 0)
    expected = {
        "rmse": np.sqrt(np.mean((p - y) ** 2)),
        "mae": abs(p - y).mean(),
        "coverage": (abs(p - y) <= half).mean(),
        "width": 2 * half.mean(),
        "winkler": (2 * half + 20 * beyond).mean(),
    }
    assert row[list(expected)].to_dict() == pytest.approx(expected)
    assert isinstance(comparison, NumberComparison)
    assert comparison.leader == "hedgerow"
    assert set(comparison.table["method"]) == LEARNERS
    assert all(pair.first == "hedgerow" for pair in comparison.pairs)
    assert "hedgerow has the lowest error" in comparison.verdict


def test_what_a_source_is_worth_is_the_rise_of_the_error_without_it(comparison):
    _, south, stream = domains()
    reg = OnlineTransferRegressor(random_state=0).fit_domains([south])
    error = np.sqrt(np.mean((reg.trace_then_learn(stream.X, stream.y).predictions - stream.y) ** 2))
    whole = comparison.table.set_index("method").loc["hedgerow", "rmse"]
    assert comparison.worth.loc[("hedgerow", "north"), "points"] == pytest.approx(error - whole)


def test_no_learner_sees_a_label_before_its_prediction():
    *sources, stream = domains(1)
    first = compare(sources, stream).predictions
    y = np.array(stream.y)
    y[100:] += 1000
    second = compare(sources, Domain("new", stream.X, y)).predictions
    for name in LEARNERS:
        np.testing.assert_allclose(first[name][:101], second[name][:101])
        assert not np.allclose(first[name][150:], second[name][150:])


def test_missing_labels_are_not_counted():
    *sources, stream = domains(2)
    y = np.array(stream.y)
    y[::3] = np.nan
    comparison = compare(sources, Domain("new", stream.X, y), orders=2)
    assert comparison.n == np.isfinite(y).sum()
    assert np.isfinite(comparison.table.drop(columns="method").to_numpy()).all()


def test_the_tracker_keeps_its_coverage():
    y = np.random.default_rng(0).normal(size=4000)
    half = tracked(np.zeros(4000), y, 10.0, 0.8)
    assert (abs(y[1000:]) <= half[1000:]).mean() == pytest.approx(0.8, abs=0.02)


def test_a_report_is_written_once(comparison, tmp_path):
    page = comparison.save(tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    for words in (
        comparison.verdict.split("(")[0],
        "Winkler",
        "ridge, refitted",
        "By how much the RMSE rises",
    ):
        assert words in text
    assert (tmp_path / "out" / "tables" / "learners.csv").exists()
    assert "running mean" in comparison._repr_html_()
    with pytest.raises(InputError, match="holds results already"):
        comparison.save(tmp_path / "out")
    assert repr(comparison).endswith("on new: 160 labels, 1 order")


def test_what_the_labels_are_can_be_said():
    *sources, stream = domains()
    with pytest.raises(InputError, match="not a number"):
        compare(
            [Domain("a", [[0.0], [1.0]], ["x", "y"])],
            Domain("b", [[0.0], [1.0]], ["x", "y"]),
            task="regress",
        )
    with pytest.raises(InputError, match="unknown task 'guess'"):
        compare(sources, stream, task="guess")
    with pytest.raises(InputError, match="dim: for classifiers, and the labels are numbers"):
        compare(sources, stream, options={"dim": 5})


def test_equal_learners_may_be_luck(comparison):
    rows = [row for row in comparison.records if row["group"] == "compare"]
    own = next(row for row in rows if row["method"] == "hedgerow")
    twin = {**own, "method": "twin", "title": "twin", "predictions": [2 * y - p for y, p in zip(
        own["labels"], own["predictions"], strict=True)]}  # fmt: skip
    assert "which is not significant" in Comparison.of_rows([own, twin]).verdict


def test_a_running_mean_that_nothing_beats_is_the_first_sentence(comparison):
    rng = np.random.default_rng(0)
    *sources, stream = (
        Domain(name, rng.normal(size=(n, 2)), rng.normal(size=n))
        for name, n in (("a", 80), ("b", 80), ("t", 120))
    )
    noise = compare(sources, stream)
    assert noise.verdict.startswith("Nothing beats the running mean beyond noise. ")
    assert not comparison.verdict.startswith("Nothing")
