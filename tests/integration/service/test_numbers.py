"""A model that predicts numbers, over HTTP: predictions and intervals, labels, metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow import OnlineTransferRegressor
from hedgerow.client import Client, ServiceError
from hedgerow.live import LiveModel

NAMES = ["width", "height", "depth"]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 3))
Y = X @ [1.0, 2.0, -1.0]


@pytest.fixture(scope="module")
def model():
    return OnlineTransferRegressor(coverage=(0.9, 0.8)).fit(
        X[:100], Y[:100], sample_domain=np.arange(100) % 2
    )


def test_numbers_over_http_are_those_of_the_library(serve, models, model, tmp_path):
    service = serve(models).ready()
    with Client(service.url) as client, LiveModel.create(tmp_path / "twin", model) as twin:
        remote = client.model("level")
        about = remote.upload(model.to_bytes())
        assert (about["task"], about["method"]) == ("numbers", "regression")
        assert "classes" not in about
        answers = remote.predict(X[100:110], [f"e{i}" for i in range(10)])
        expected = twin.predict(X[100:110])
        assert [(a.prediction, tuple(a.interval)) for a in answers] == [
            (e.label, e.interval) for e in expected
        ]
        assert answers[0].label is None
        [one] = remote.predict(X[110:111], explain=True)
        [wanted] = twin.predict(X[110:111], explain=True)
        assert {
            float(level): tuple(ends) for level, ends in one.intervals.items()
        } == wanted.intervals
        assert (one.votes, one.weights) == (wanted.votes, wanted.weights)
        results = remote.label_many(
            [("e0", float(Y[100])), ("e0", float(Y[100])), ("e1", "tall"), ("e9", 1)]
        )
        assert [result.status for result in results] == [
            "learned",
            "duplicate",
            "refused",
            "learned",
        ]
        learned = remote.predict_then_learn(X[120:160], Y[120:160])
        assert len(learned) == 40
        stats = remote.stats()
        assert (stats["labels"], stats["task"]) == (42, "numbers")
        assert 0 < stats["rmse"] < stats["mean_rmse"]
        assert [point["labels"] for point in remote.history()]
        assert remote.latest(1)[0]["interval"] == list(learned[-1].interval)
        assert remote.alarms() == []
        metrics = service.http.get("/metrics").text
        for name in ("squared_error_total", "inside", "labels_total", "drift_alarms_total"):
            assert f'hedgerow_model_{name}{{model="level"}}' in metrics
        assert 'hedgerow_model_mistakes_total{model="level"}' not in metrics
        assert 'hedgerow_model_mistakes_total{model="site"}' in metrics
        assert remote.forget("e0") == ["e0"]
        with pytest.raises(ServiceError, match="predict different things"):
            client.model("site").replace(model.to_bytes())


def test_null_is_a_gap_of_a_model_of_clean_numbers(serve, models):
    clean = OnlineTransferRegressor().fit(X[:100], Y[:100], sample_domain=np.arange(100) % 2)
    clean.name_features(NAMES)
    LiveModel.create(models / "level", clean).close()
    post = serve(models).ready().http.post
    instances = [
        {"width": None, "height": 1.0, "depth": 2.0},
        [None, 1, 2],
        {"height": 1.0, "depth": 2.0},
    ]
    answer = post("/v1/models/level/predict", json={"instances": instances}).json()
    expected = clean.predict_one({"width": None, "height": 1.0, "depth": 2.0})
    assert [each["prediction"] for each in answer["predictions"]] == [pytest.approx(expected)] * 3
    renamed = post(
        "/v1/models/level/predict",
        json={"instances": [{"breadth": 1, "height": 1.0, "depth": 2.0}]},
    )
    assert (renamed.status_code, renamed.json()["detail"]) == (422, "instances[0].width: missing")


def test_what_each_column_added_is_that_of_the_library(serve, models, model):
    LiveModel.create(models / "level", model).close()
    service = serve(models).ready()
    x = X[150].tolist()
    zero = [0.0, 0.0, 0.0]
    parts = service.http.post(
        "/v1/models/level/explain", json={"instance": x, "reference": zero}
    ).json()
    wanted = model.explain_one(X[150], by_column=True, reference=np.zeros(3)).contributions
    assert parts["columns"] == pytest.approx(wanted.columns)
    total = sum(parts["columns"].values()) + parts["interactions"]
    assert total == pytest.approx(parts["value"] - parts["reference_value"])
    assert (
        service.http.post("/v1/models/level/explain", json={"instance": [1, 2]}).status_code == 422
    )
    assert service.http.get("/v1/models/level/stats").json()["events"] == 0
    table = OnlineTransferRegressor().fit(
        pd.DataFrame({"city": ["Oslo", "Rome"] * 50, "size": X[:100, 0]}),
        Y[:100],
        sample_domain=np.arange(100) % 4,
    )
    LiveModel.create(models / "table", table).close()
    service = serve(models).ready()
    answer = service.http.post(
        "/v1/models/table/explain", json={"instance": {"city": "Rome", "size": 2}}
    ).json()
    wanted = table.explain_one({"city": "Rome", "size": 2}, by_column=True).contributions
    assert answer["columns"] == pytest.approx(wanted.columns)
