"""History as a table, and Redis Streams in and out, on a real Spark."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from live.redis_kills import Redis
from spark_streams import FEATURES, INSTANCES

from hedgerow import InputError

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
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
        clf = base.start()
        told = clf.explain_then_learn(X, y)
        for i in range(12):
            row = found[f"{key}-{i}"]
            assert row.label == clf.classes_[told.codes[i]]
            assert row.probability == pytest.approx(told.probabilities[i].max(), abs=1e-9)
            assert row.right == (None if y[i] is None else row.label == y[i])
        assert bytes(states[key].state) == base.member().learn(X, y).to_bytes()
        assert (states[key].seen, states[key].mistakes) == (clf.seen_, clf.mistakes_)
    assert predictions(results).count() == 24
    reasons = {row.id: row.text for row in dead_letters(results).collect()}
    assert "stands there twice" in reasons.pop("a-2")
    assert "missing or not finite: x0" in reasons.pop("hole")
    assert all("the key is missing" in text for text in reasons.values())
    assert len(reasons) == 12


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


def test_redis_streams_in_and_out(spark, base, redis, tmp_path):
    from hedgerow.spark import Columns, RedisStreams, learn_stream

    spark.dataSource.register(RedisStreams)
    db, (X, y) = redis.db, history(spark)[1]["a"]

    def source(name, schema):
        reader = spark.readStream.format("hedgerow-redis").schema(schema)
        return reader.option("url", redis.url(name)).option("max_entries", 3).load()

    def run():
        made = learn_stream(
            source("asked", "key string, id string, v array<double>"),
            source("told", "key string, id string, label string"),
            base,
            Columns(features="v"),
        )
        writer = made.writeStream.format("hedgerow-redis").option("url", redis.url("results")).option("query", "q")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()
        return [json.loads(fields[b"json"]) for _, fields in db.xrange("results")]

    for i in range(4):
        db.xadd("asked", {"key": "k", "id": f"e{i}", "v": json.dumps(X[i].tolist())})
    db.xadd("asked", {"json": json.dumps({"key": "k", "id": "e4", "v": X[4].tolist()})})
    db.xadd("asked", {"json": "{no json"})
    db.xadd("told", {"json": json.dumps({"key": "k", "id": "e0", "label": y[0]})})
    first = run()
    assert sorted(row["id"] for row in first if row["kind"] == "prediction") == [f"e{i}" for i in range(5)]
    assert [row["status"] for row in first if row["kind"] == "label"] == ["learned"]
    assert ["key is missing" in row["text"] for row in first if row["kind"] == "dead letter"] == [True]
    db.xadd("told", {"key": "k", "id": "e1", "label": y[1]})
    assert [(row["id"], row["status"]) for row in run()[len(first) :]] == [("e1", "learned")]
    shutil.rmtree(tmp_path / "checkpoint")  # the same batches again, as after a crash between sink and commit
    assert len(run()) == len(first) + 1


def test_entries_that_went_missing_are_not_passed_over(spark, redis, tmp_path):
    from pyspark.errors import StreamingQueryException

    from hedgerow.spark import RedisStreams

    spark.dataSource.register(RedisStreams)
    db = redis.db
    ids = [db.xadd("short", {"id": f"e{i}"}) for i in range(4)]

    def run():
        reader = spark.readStream.format("hedgerow-redis").schema("id string").option("url", redis.url("short"))
        writer = reader.load().writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()
        return sorted(row.id for row in spark.read.schema("id string").parquet(str(tmp_path / "out")).collect())

    assert run() == ["e0", "e1", "e2", "e3"]
    db.xdel("short", ids[0])  # what was read may go
    db.xadd("short", {"id": "e4"})
    assert run() == ["e0", "e1", "e2", "e3", "e4"]
    gone = db.xadd("short", {"id": "e5"})
    db.xadd("short", {"id": "e6"})
    db.xdel("short", gone)
    with pytest.raises(StreamingQueryException, match=r"were deleted .* before they were read"):
        run()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the option url"),
        ({"url": "redis://h/s", "colour": "red"}, "option 'colour' of hedgerow-redis is not known"),
        ({"url": "redis://h/s", "max_entries": "many"}, "max_entries='many'"),
    ],
)
def test_options_of_redis_that_cannot_be(options, words):
    from hedgerow.spark import RedisStreams

    with pytest.raises(InputError, match=words):
        RedisStreams(options).streamReader(None)
    with pytest.raises(InputError, match="needs the option query"):
        RedisStreams({"url": "redis://h/s"}).streamWriter(None, False)
