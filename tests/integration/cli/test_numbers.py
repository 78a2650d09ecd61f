"""Labels that are numbers on the command line: fit, run, inspect."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

from hedgerow import OnlineTransferRegressor

NAMES = ["width", "height", "weight", "age", "price"]


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def amounts(seed, n, level, digits=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    y = 40 * X[:, 0] + 20 * X[:, 1] + level + rng.normal(size=n)
    return [[*np.round(x, 4).tolist(), round(float(v), digits)] for x, v in zip(X, y, strict=True)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory, hedgerow):
    folder = tmp_path_factory.mktemp("numbers")
    header = [*NAMES, "amount"]
    write_csv(folder / "north.csv", header, amounts(0, 150, 0.0))
    write_csv(folder / "south.csv", header, amounts(1, 150, 100.0))
    rows = amounts(2, 120, -50.0)
    rows[7][-1] = ""
    write_csv(
        folder / "stream.csv", ["id", *header], [[f"r{i}", *row] for i, row in enumerate(rows)]
    )
    write_csv(
        folder / "labels.csv",
        ["id", "amount"],
        [[f"r{i}", row[-1]] for i, row in enumerate(rows) if i != 7],
    )
    done = hedgerow(
        "fit --source",
        folder / "north.csv",
        "--source",
        folder / "south.csv",
        "--label amount --coverage",
        0.8,
        "--coverage",
        0.5,
        "-o",
        folder / "model",
    )
    assert done.returncode == 0, done.stderr
    assert (
        "the label 'amount' is a number: regression (for classes: --task classify)" in done.stdout
    )
    assert "intervals of 80%, 50%" in done.stdout
    return folder


def test_fit_asks_where_whole_numbers_may_be_either(numbers, hedgerow, tmp_path):
    rows = [[*row[:-1], i % 30] for i, row in enumerate(amounts(3, 90, 0.0))]
    path = write_csv(tmp_path / "a.csv", [*NAMES, "count"], rows)
    fit = ("fit --source", path, "--label count -o", tmp_path / "m")
    asked = hedgerow(*fit)
    assert asked.returncode == 2
    assert "has 30 different whole numbers: say --task classify" in " ".join(asked.stderr.split())
    assert "30 classes" in hedgerow(*fit, "--task classify --method pa").stdout
    assert "'count' is a number: regression" in hedgerow(*fit, "--task regress").stdout
    for more, words in (
        (("--task", "guess"), "unknown choice for --task"),
        (("--task", "regress", "--method", "pa"), "method: for classifiers"),
        (("--task", "classify", "--coverage", 1.9), "coverage=[1.9]"),
    ):
        refused = hedgerow(*fit, *more)
        assert refused.returncode == 2
        assert words in " ".join(refused.stderr.split())


def test_many_whole_numbers_can_be_made_classes(hedgerow, tmp_path):
    rows = [[*row[:-1], (i % 60) ** 2] for i, row in enumerate(amounts(3, 120, 0.0))]
    path = write_csv(tmp_path / "a.csv", [*NAMES, "code"], rows)
    fit = ("fit --source", path, "--label code -o", tmp_path / "m")
    assert "is a number: regression" in hedgerow(*fit).stdout
    assert "60 classes" in hedgerow(*fit, "--task classify --method pa").stdout


def test_run_writes_predictions_and_intervals_and_learns(numbers, hedgerow, tmp_path):
    done = hedgerow(
        "run -m",
        numbers / "model",
        "-i",
        numbers / "stream.csv",
        "-o",
        tmp_path / "out.jsonl",
        "--label amount --id id --save",
        tmp_path / "after",
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    model = OnlineTransferRegressor.load(numbers / "model")
    rows = amounts(2, 120, -50.0)
    y = np.array([row[-1] for row in rows])
    y[7] = np.nan
    trace = model.trace_then_learn(np.array([row[:-1] for row in rows]), y)
    np.testing.assert_allclose([line["prediction"] for line in lines], trace.predictions)
    np.testing.assert_allclose([line["high"] - line["low"] for line in lines], 2 * trace.half[:, 0])
    assert "label" not in lines[7]
    assert lines[8]["inside"] == (
        abs(lines[8]["label"] - lines[8]["prediction"]) <= trace.half[8, 0]
    )
    assert OnlineTransferRegressor.load(tmp_path / "after").to_bytes() == model.to_bytes()
    mae = np.nanmean(np.abs(trace.predictions - y))
    summary = " ".join(done.stderr.split())
    assert f"RMSE {model.rmse_:.4g}, MAE {mae:.4g} in 119 labelled" in summary
    assert f"{model.coverage_[0.8]:.1%} inside their 80% intervals" in summary


def test_late_labels_are_learned_by_id(numbers, hedgerow, tmp_path):
    done = hedgerow(
        "run -m",
        numbers / "model",
        "-i",
        numbers / "stream.csv",
        "-o",
        tmp_path / "out.jsonl",
        "--id id --labels",
        numbers / "labels.csv",
        "--save",
        tmp_path / "after",
    )
    assert done.returncode == 0, done.stderr
    after = OnlineTransferRegressor.load(tmp_path / "after")
    assert after.seen_ == 119
    assert "in 119 labelled" in " ".join(done.stderr.split())


@pytest.mark.parametrize("late", [False, True])
def test_a_journal_changes_no_prediction_and_shows_errors(numbers, hedgerow, tmp_path, late):
    labels = ("--id", "id", "--labels", numbers / "labels.csv") if late else ("--label", "amount")
    run = ("run -m", numbers / "model", "-i", numbers / "stream.csv", *labels)
    plain = hedgerow(*run, "-o", tmp_path / "plain.jsonl")
    done = hedgerow(*run, "-o", tmp_path / "out.jsonl", "--journal", tmp_path / "j")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "plain.jsonl").read_bytes()
    said = " ".join(plain.stderr.split())
    assert said[said.index("RMSE") : said.index("intervals")] in " ".join(done.stderr.split())
    shown = " ".join(hedgerow("inspect", tmp_path / "j", COLUMNS="200").stdout.split())
    assert re.search(r"RMSE \S+, MAE \S+ in 119 labelled, ", shown)


def test_what_is_about_classes_is_refused(numbers, hedgerow, tmp_path):
    run = (
        "run -m",
        numbers / "model",
        "-i",
        numbers / "stream.csv",
        "-o",
        tmp_path / "o",
        "--label amount",
    )
    for more in (("--proba",), ("--new-classes", "refuse")):
        done = hedgerow(*run, *more)
        assert done.returncode == 2
        assert "predicts numbers" in " ".join(done.stderr.split())
    write_csv(
        tmp_path / "bad.csv", [*NAMES, "amount"], [[1, 2, 3, 4, 5, "much"], [1, 2, 3, 4, 5, 6]]
    )
    done = hedgerow("run -m", numbers / "model", "-i", tmp_path / "bad.csv", "-o - --label amount")
    assert "label 'much' is not a number" in " ".join(done.stderr.split())
    assert len(done.stdout.splitlines()) == 1


def test_inspect_shows_weights_coverage_error_bound_and_drift(numbers, hedgerow, tmp_path):
    model = OnlineTransferRegressor.load(numbers / "model")
    stream = amounts(4, 60, 10.0)
    model.predict_then_learn(np.array([row[:-1] for row in stream]), [row[-1] for row in stream])
    model.save(tmp_path / "m")
    text = " ".join(hedgerow("inspect", tmp_path / "m", COLUMNS="400").stdout.split())
    assert f"RMSE {model.rmse_:.4g} over 60 labels" in text
    for words in (
        "OnlineTransferRegressor",
        "inside their 80% intervals",
        "no alarm",
        "most trusted",
        "guarantee",
    ):
        assert words in text
    assert "discrepancy" not in text


def test_compare_of_numbers_prints_and_writes_a_report(numbers, hedgerow, tmp_path):
    given = (
        "--source",
        numbers / "north.csv",
        "--source",
        numbers / "south.csv",
        "--stream",
        numbers / "stream.csv",
    )
    done = hedgerow("compare", *given, "--label amount --out", tmp_path / "out", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "hedgerow has the lowest error" in done.stdout
    assert "Winkler" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
    again = hedgerow("compare", *given, "--label amount --out", tmp_path / "out")
    assert again.returncode == 2
    assert "results already; pass --resume" in again.stderr
