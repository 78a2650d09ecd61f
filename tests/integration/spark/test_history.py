"""History as a table, on a real Spark."""

from __future__ import annotations

import numpy as np
import pytest
from support.spark_streams import FEATURES, INSTANCES

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
