"""A live model that predicts numbers: answers, late labels, recovery, forgetting, exports, replacements."""

from __future__ import annotations

import copy
import json
import math
import shutil

import numpy as np
import pytest

from hedgerow import OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.cli.journals import inspected
from hedgerow.core.errors import InputError
from hedgerow.live import LiveModel, NumberAnswer, Settings
from hedgerow.live.look import look

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 4))
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(scale=0.1, size=300)


@pytest.fixture(scope="module")
def model():
    return OnlineTransferRegressor(coverage=(0.9, 0.5)).fit(
        X[:150], Y[:150] + 3, sample_domain=np.arange(150) % 2
    )


@pytest.fixture
def live(tmp_path, model):
    with LiveModel.create(tmp_path / "live", model, Settings(snapshot_every=40)) as made:
        yield made


def arrays(model):
    return {name: array.tobytes() for name, array in model.learner_.arrays().items()}


def test_answers_are_the_models_own_and_labels_are_numbers(live, model):
    twin = copy.deepcopy(model)
    for i in range(150, 170):
        answer = live.predict(X[i], f"e{i}")
        expected = twin.explain_one(X[i])
        assert isinstance(answer, NumberAnswer)
        assert (answer.prediction, answer.intervals, answer.votes, answer.weights) == expected[:4]
        result = live.label(f"e{i}", Y[i])
        low, high = answer.interval
        assert (result.status, result.correct) == ("learned", bool(low <= Y[i] <= high))
        twin.learn_one(X[i], Y[i])
    assert arrays(live.clf) == arrays(twin)
    again = live.predict(X[150], "e150")
    assert again.repeated
    assert (again.prediction, len(again.intervals)) == (pytest.approx(again.label), 2)
    assert live.label("e150", float(Y[150])).status == "duplicate"
    assert live.label("e150", 17).status == "conflict"
    live.predict(X[0], "whole")
    assert [live.label("whole", label).status for label in (3, 3.0, np.float32(3))] == [
        "learned"
    ] + 2 * ["duplicate"]
    live.predict(X[1], "other")
    refused = live.label("other", "high")
    assert (refused.status, "not a number" in refused.detail) == ("refused", True)
    assert [live.label("other", label).status for label in (None, math.inf, 1e300)] == 3 * [
        "refused"
    ]


def test_what_it_says_is_counted_as_the_library_counts(live):
    block = live.predict_then_learn(X[150:250], [*Y[150:249], None])
    labels = Y[150:249]
    predictions = np.array([answer.prediction for answer in block])[:99]
    inside = [a.interval[0] <= y <= a.interval[1] for a, y in zip(block[:99], labels, strict=True)]
    stats = live.stats()
    assert stats["task"] == "numbers"
    assert (stats["labels"], stats["seen"]) == (99, 99)
    assert stats["rmse"] == pytest.approx(np.sqrt(((predictions - labels) ** 2).mean()))
    assert stats["rmse"] == pytest.approx(live.clf.rmse_)
    assert stats["mae"] == pytest.approx(np.abs(predictions - labels).mean())
    assert (
        stats["inside"] == pytest.approx(np.mean(inside)) == pytest.approx(stats["coverage"]["0.9"])
    )
    means = np.cumsum(labels)[:-1] / np.arange(1, 99)
    assert stats["mean_rmse"] == pytest.approx(np.sqrt(((means - labels[1:]) ** 2).sum() / 99))
    assert stats["compared_rmse"] == pytest.approx(stats["rmse"])
    assert set(stats["expert_rmse"]) == set(live.clf.expert_names_)
    assert min(stats["expert_rmse"].values()) < stats["mean_rmse"]
    point = live.history()[-1]
    assert (point["labels"], point["rmse"]) == (99, stats["rmse"])
    assert live.alarms() == []
    json.dumps([stats, live.latest(5)], allow_nan=False)
    newest = live.latest(2)[1]
    assert (newest["label"], newest["interval"]) == (Y[248], block[98].interval)


def test_it_recovers_to_the_last_bit_after_a_copy_at_any_step(tmp_path, live):
    for start in range(150, 290, 20):
        ids = [f"e{i}" for i in range(start, start + 10)]
        live.predict(X[start : start + 10], ids)
        live.predict_then_learn(X[start + 10 : start + 20], Y[start + 10 : start + 20])
        live.label_many([(id, Y[int(id[1:])]) for id in ids[:7]])
        live._snapshots.wait()
        folder = tmp_path / f"copy-{start}"
        shutil.copytree(live.folder, folder, ignore=shutil.ignore_patterns("owner*"))
        with LiveModel.open(folder) as again:
            assert arrays(again.clf) == arrays(live.clf)
            same = (
                "labels",
                "rmse",
                "mae",
                "mean_rmse",
                "inside",
                "expert_rmse",
                "pending",
                "coverage",
            )
            assert {key: again.stats()[key] for key in same} == {
                key: live.stats()[key] for key in same
            }


def test_exports_and_looks_have_intervals(tmp_path, live):
    live.predict_then_learn(X[150:160], Y[150:160])
    live.predict(X[160], "waits")
    assert live.export(tmp_path / "events.jsonl") == 11
    records = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [record["label"] for record in records] == [*Y[150:160], None]
    assert all(record["low"] < record["prediction"] < record["high"] for record in records)
    assert {record["inside"] for record in records} <= {True, False, None}
    pq = pytest.importorskip("pyarrow.parquet")
    live.export(tmp_path / "events.parquet")
    assert pq.read_table(tmp_path / "events.parquet").column("prediction").to_pylist() == [
        record["prediction"] for record in records
    ]
    with look(live.folder) as journal:
        assert arrays(journal.model()) == arrays(live.clf)
        assert journal.domain().y.tolist() == [*Y[150:160], None]
    shown = dict(inspected(live.folder))
    assert "RMSE" in shown["labels"]


def test_forgetting_expiry_and_replacing(tmp_path, live, model):
    live.predict(X[150:155], list("abcde"))
    live.label("a", Y[150])
    assert live.forget("a", "b") == ["a", "b"]
    other = OnlineTransferRegressor(coverage=0.8).fit(X[:100], Y[:100])
    live.replace(other)
    assert live.label("c", Y[152]).status == "learned"
    assert list(live.predict(X[160]).intervals) == [0.8]
    again = live.predict(X[153], "d")
    assert (again.repeated, list(again.intervals)) == (True, [0.9, 0.5])
    classes = OnlineTransferClassifier("pa").fit(X[:100], (Y[:100] > 0).astype(int))
    with pytest.raises(InputError, match="predict different things"):
        live.replace(classes)
    with LiveModel.create(tmp_path / "short", model, Settings(max_pending=1)) as short:
        short.predict(X[150:153], list("abc"))
        assert short.stats()["expired"] == 2
        assert short.label("a", 1.0).status == "expired"
