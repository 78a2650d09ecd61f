from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier, load
from hedgerow.core.errors import InputError
from hedgerow.evaluate import plots
from hedgerow.evaluate.folds import Row, by_method, mistake_rates, summarise
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.page import Picture, Section, Text, page
from hedgerow.experiment.prequential import Block, every, prequential, run
from hedgerow.experiment.tables import Table, Value, values
from hedgerow.experiment.trials import TransferTask, orders, trials

TIMES = ("seconds_offline", "seconds_online")


@pytest.fixture(scope="module")
def task() -> TransferTask:
    return TransferTask.of(load("digits"), "thin")


def methods(*names: str) -> dict[str, OnlineTransferClassifier]:
    return {name: classifier(name, "authors", horizon=250) for name in names}


@pytest.fixture(scope="module")
def rows(task: TransferTask) -> list[Row]:
    return list(trials(task, methods("pa", "oddm-fixed", "oddm"), orders(len(task.stream), 2)))


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_loop_is_the_block_path_at_any_step(task: TransferTask, step: int) -> None:
    X, y = task.stream.X[:60], np.asarray(task.stream.y)[:60]
    expected = methods("oddm")["oddm"].fit_domains(task.sources, task.warmup).predict_then_learn(X, y)
    clf = methods("oddm")["oddm"].fit_domains(task.sources, task.warmup)
    points = list(prequential(clf, X, y, every(60, step)))
    assert np.concatenate([point.predictions for point in points]).tolist() == expected.tolist()
    assert points[-1].mistakes == int((expected != y).sum())
    assert points[-1].seen == 60
    assert points[-1].mistakes == clf.mistakes_


def test_missing_labels_are_predicted_and_not_counted(task: TransferTask) -> None:
    y = np.asarray(task.stream.y)[:40].astype(object)
    y[::2] = None
    clf = methods("pa")["pa"].fit_domains(task.sources, task.warmup)
    last = list(prequential(clf, task.stream.X[:40], y, [40]))[-1]
    assert (last.seen, last.labelled, clf.seen_) == (40, 20, 20)
    assert last.mistakes == clf.mistakes_


def test_an_empty_stream_has_no_checkpoint_and_zero_steps_are_refused(task: TransferTask) -> None:
    clf = methods("pa")["pa"].fit_domains(task.sources, task.warmup)
    assert list(prequential(clf, task.stream.X[:0], [])) == []
    with pytest.raises(InputError, match="at least 1"):
        every(250, 0)


@pytest.mark.parametrize("ends", [[5, 5], [7, 3], [0, 4], [11]])
def test_checkpoints_outside_the_stream_are_refused_before_anything_is_learned(
    task: TransferTask, ends: list[int]
) -> None:
    clf = methods("pa")["pa"].fit_domains(task.sources, task.warmup)
    with pytest.raises(InputError, match="they must rise"):
        list(prequential(clf, task.stream.X[:10], np.asarray(task.stream.y)[:10], ends))
    assert clf.seen_ == 0


def test_a_block_without_labels_is_predicted_and_a_late_one_is_only_learned(task: TransferTask) -> None:
    X, y = task.stream.X[:20], np.asarray(task.stream.y)[:20]
    clf, late = (methods("pa")["pa"].fit_domains(task.sources, task.warmup) for _ in range(2))
    steps = list(run(late, [Block(range(20), X), Block(range(20), X, y, arriving=False)]))
    assert steps[0].predictions is not None
    assert steps[0].predictions.tolist() == clf.predict(X).tolist()
    assert steps[1].predictions is None
    assert late.predict(X).tolist() == clf.partial_fit(X, y).predict(X).tolist()


def test_numbers_do_not_depend_on_the_number_of_processes(task: TransferTask, rows: list[Row]) -> None:
    told: list[tuple[int, int]] = []
    again = list(
        trials(
            task,
            methods("pa", "oddm-fixed", "oddm"),
            orders(len(task.stream), 2),
            jobs=2,
            progress=lambda done, total, what: told.append((done, total)),
        )
    )

    def numbers(found: list[Row]) -> list[dict[str, Any]]:
        kept = [{key: value for key, value in row.items() if key not in TIMES} for row in found]
        return sorted(kept, key=lambda row: (row["method"], row["order"]))

    assert numbers(again) == numbers(rows)
    assert told == [(k, 9) for k in range(1, 10)]


def test_every_order_starts_from_the_same_fit(task: TransferTask, rows: list[Row]) -> None:
    again = list(trials(task, methods("oddm"), orders(len(task.stream), 2)[1:]))
    assert again[0]["curve"] == next(r for r in rows if r["method"] == "oddm" and r["order"] == 1)["curve"]


def test_checkpoints_and_block_agree(rows: list[Row]) -> None:
    for row in rows:
        assert row["curve"][-1] == row["mistakes"]
        assert row["labels"][-1] == row["n"] == 250


def test_folds(rows: list[Row]) -> None:
    found = summarise(rows)
    assert list(found) == ["pa", "oddm-fixed", "oddm"]
    instances, rates = mistake_rates(by_method(rows)["pa"])
    assert rates.shape == (2, len(instances))
    assert rates[:, -1].mean() == pytest.approx(found["pa"].mean)


def test_unknown_target_and_stream_without_labels(task: TransferTask) -> None:
    with pytest.raises(InputError, match="did you mean 'thin'"):
        TransferTask.of(load("digits"), "thim")
    blind = TransferTask("t", task.sources, task.warmup, task.stream.unlabelled())
    with pytest.raises(InputError, match="no labels"):
        next(trials(blind, methods("pa"), orders(250, 1)))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_name_every_line(rows: list[Row], theme: plots.Theme) -> None:
    aligned = [row for row in rows if row["method"] != "pa"]
    figures = [
        plots.running_mistakes({"a": rows, "b": rows}, {"pa": "Passive"}, theme),
        plots.expert_weights(rows[-1], "weights", theme),
        plots.discrepancies(aligned, theme=theme),
    ]
    names = [[text.get_text() for axes in figure.axes for text in axes.texts] for figure in figures]
    assert names[0].count("Passive") == 2
    assert names[1] == rows[-1]["experts"]
    assert names[2] == ["oddm-fixed", "oddm"]
    again = plots.svg(plots.expert_weights(rows[-1], "weights", theme))
    assert plots.svg(figures[1]) == again  # no date, no random ids


def test_the_axis_of_running_mistakes_ends_where_the_curves_end(rows: list[Row]) -> None:
    low = [row | {"curve": [round(0.05 * seen) for seen in row["instances"]]} for row in rows]
    top = max(100 * max(np.array(row["curve"]) / row["labels"]) for row in low)
    for axes in plots.running_mistakes({"a": low, "b": low}).axes:
        assert axes.get_ylim() == (0, pytest.approx(top, rel=0.1))


def test_labels_never_overlap(rng: np.random.Generator) -> None:
    for _ in range(20):
        heights = rng.random(8).tolist()
        placed = np.array(plots.spread(heights, 0.1))
        assert np.diff(np.sort(placed)).min() >= 0.1 - 1e-9
        assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
        assert placed.min() >= -1e-9
        assert placed.max() <= 1 + 1e-9


def test_the_page_escapes_and_asks_for_nothing() -> None:
    table = Table("t", "", ["<b>", "n"], [values(["a & b", Value("1", mark="best")])], "note")
    assert table.best == {(0, 1)}
    assert table.texts == [["a & b", "1"]]
    made = page(
        "T", "lead", [Section("S", [Text("x < y"), table, Picture("<svg/>", "<svg/>", "alt", "c")])], {"k": "v"}
    )
    assert "x &lt; y" in made
    assert "&lt;b&gt;" in made
    assert '<td class="best">1</td>' in made
    for outside in ("http:", "https:", "<script", "<link", "@import"):
        assert outside not in made
