"""History as a table, on a real Spark."""

from __future__ import annotations

import numpy as np
import pytest
from support.spark_streams import FEATURES, INSTANCES, LABELS, Folder, instance, label

from hedgerow import Domain, InputError, OnlineTransferRegressor
from hedgerow.fleet import Base

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")]
HISTORY = f"{INSTANCES}, label string"


def history(spark, n=12, keys=("a", "b", None)):
    rng, data, rows = np.random.default_rng(0), {}, []
    for key in keys:
        X = rng.normal(size=(n, 4)).astype(np.float32).astype(np.float64)
        y = np.where(X[:, 0] > 0.2, "up", "down").tolist()
        y[3] = None
        data[key] = X, y
        rows += [(key, f"{key}-{i}", i, *x, y[i]) for i, x in enumerate(X.tolist())]
    rows += [("a", "a-2", 99, 1.0, 1.0, 1.0, 1.0, "up"), ("a", "hole", 98, None, 1.0, 1.0, 1.0, "up")]
    order = rng.permutation(len(rows))
    return spark.createDataFrame([rows[i] for i in order], HISTORY), data


def test_history_is_replayed_as_a_plain_loop_does(spark, base):
    from hedgerow.spark import Columns, dead_letters, learned_states, predictions, replay

    table, data = history(spark)
    columns = Columns(order="t", features=tuple(FEATURES))
    results = replay(table, base, columns).cache()
    found = {row.id: row for row in results.collect() if row.kind == "prediction"}
    states = {row.key: row for row in learned_states(table, base, columns).collect()}
    assert set(states) == {"a", "b"}
    for key in ("a", "b"):
        X, y = data[key]
        clf = base.member().clf
        told = clf.explain_then_learn(X, y)
        for i in range(12):
            row = found[f"{key}-{i}"]
            assert row.label == clf.classes_[told.codes[i]]
            assert row.probability == pytest.approx(told.probabilities[i].max(), abs=1e-9)
            assert row.right == (None if y[i] is None else row.label == y[i])
        assert bytes(states[key].state) == base.member().learn(X, y).to_bytes()
        assert (states[key].seen, states[key].mistakes) == (clf.seen_, clf.mistakes_)
    assert predictions(results).count() == 24
    reasons = {row.id: row.detail for row in dead_letters(results).collect()}
    assert "stands there twice" in reasons.pop("a-2")
    assert "missing or not finite: x0" in reasons.pop("hole")
    assert all("the key is missing" in text for text in reasons.values())
    assert len(reasons) == 12


def test_numbers_are_replayed_and_streamed_as_a_plain_loop_does(spark, tmp_path):
    from hedgerow.spark import Columns, learned_states, metrics, predictions, replay, states_of

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32).astype(np.float64)
    y = X @ [1.0, 2.0, 3.0, 4.0]
    base = Base.fit([Domain("a", X[:40], y[:40])], OnlineTransferRegressor("homotlms"))
    member = base.member()
    told = {}
    for i in range(40, 60):
        low, high = member.predict_interval(X[i : i + 1])[0]
        told[f"e{i}"] = (member.predict_then_learn(X[i : i + 1], y[i : i + 1])[0], low, high, low <= y[i] <= high)
    columns = Columns(order="t", features=tuple(FEATURES))
    rows = [("k", f"e{i}", i, *X[i].tolist(), float(y[i])) for i in range(40, 60)]
    table = spark.createDataFrame(rows, HISTORY.replace("label string", "label double"))
    with pytest.raises(InputError, match="'label' is string, the numbers of the base are double; cast it"):
        replay(table.withColumn("label", table.label.cast("string")), base, columns)
    outside = sum(not inside for *_, inside in told.values())
    (learned,) = learned_states(table, base, columns).collect()
    assert (bytes(learned.state), learned.seen, learned.mistakes) == (member.to_bytes(), 20, outside)
    folder = Folder(tmp_path)
    for at in (range(40, 50), range(50, 60)):
        asked = [instance("k", f"e{i}", X[i], 10 * i) for i in at]
        folder.add(asked, [label("k", f"e{i}", float(y[i]), 10 * i + 1) for i in at])
    folder.run(spark, base, labels=LABELS.replace("label string", "label double"), columns=columns)
    streamed = spark.read.parquet(str(tmp_path / "out"))
    for results in (replay(table, base, columns), streamed):
        found = {row.id: row for row in predictions(results).collect()}
        assert set(found) == set(told)
        for id, row in found.items():
            assert (row.label, row.low, row.high) == pytest.approx(told[id][:3], abs=1e-9)
            assert row.probability is None
    assert metrics(streamed).collect()[0].mistakes == outside
    (state,) = states_of(spark, folder.checkpoint).collect()
    assert bytes(state.state) == member.to_bytes()
