"""Streams of keys on a real Spark: what comes out, and that states are those of a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from support.spark_streams import FEATURES, INSTANCES, LABELS, Folder, instance, label

from hedgerow import Domain, InputError, OnlineTransferRegressor
from hedgerow.fleet import Base

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def rows(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32).astype(np.float64)
    return X, np.where(X[:, 0] > 0.2, "up", "down").tolist()


def of(results, kind):
    return [row for row in results if row.kind == kind]


def statuses(results):
    return {(row.key, row.id): row.status for row in of(results, "label")}


def test_predictions_outcomes_and_states_are_those_of_a_plain_loop(spark, base, tmp_path):
    from hedgerow.spark import Columns, metrics, states_of

    folder = Folder(tmp_path)
    data = {f"k{k}": rows(k, 12) for k in range(5)}
    for batch in range(3):
        at = range(4 * batch, 4 * batch + 4)
        folder.add(
            [instance(key, f"{key}-{i}", X[i], 10 * i) for key, (X, _) in data.items() for i in at],
            [
                label(key, f"{key}-{i}", y[i], 10 * i + 1)
                for key, (_, y) in data.items()
                for i in at
            ],
        )
    found = folder.run(spark, base, columns=Columns(order="t", features=tuple(FEATURES)))
    said = {row.id: row for row in of(found, "prediction")}
    states = {
        row.key: bytes(row.state) for row in states_of(spark, folder.checkpoint, base).collect()
    }
    assert len(found) == 2 * 60
    assert set(states) == set(data)
    mistakes = 0
    for key, (X, y) in data.items():
        member = base.member()
        for i in range(12):
            share = member.predict_proba(X[i : i + 1])[0]
            row = said[f"{key}-{i}"]
            assert (row.key, row.label, row.status) == (key, member.classes_[share.argmax()], "new")
            assert row.probability == pytest.approx(share.max(), abs=1e-9)
            mistakes += row.label != y[i]
            member.learn(X[i : i + 1], y[i : i + 1])
        assert states[key] == member.to_bytes()
    table = metrics(spark.read.parquet(str(tmp_path / "out"))).collect()
    assert sum(row.mistakes for row in table) == mistakes
    assert all((row.predictions, row.learned, row.dead_letters) == (12, 12, 0) for row in table)


@pytest.mark.slow
def test_numbers_and_their_intervals_are_those_of_a_plain_loop(spark, tmp_path):
    from hedgerow.spark import Columns, metrics, predictions, states_of

    (X, _), columns = rows(0, 60), Columns(order="t", features=tuple(FEATURES))
    y = X @ [1.0, 2.0, 3.0, 4.0]
    base = Base.fit([Domain("a", X[:40], y[:40])], OnlineTransferRegressor())
    folder = Folder(tmp_path)
    member = base.member()
    told = {}
    with pytest.raises(
        InputError, match="'label' is string, the numbers of the base are double; cast it"
    ):
        folder.run(spark, base, columns=columns)
    for at in (range(40, 50), range(50, 60)):
        asked = [instance("k", f"e{i}", X[i], 10 * i) for i in at]
        folder.add(asked, [label("k", f"e{i}", float(y[i]), 10 * i + 1) for i in at])
    folder.run(spark, base, labels=LABELS.replace("label string", "label double"), columns=columns)
    outside = 0
    for i in range(40, 60):
        low, high = member.predict_interval(X[i : i + 1])[0]
        told[f"e{i}"] = (member.predict_then_learn(X[i : i + 1], y[i : i + 1])[0], low, high)
        outside += not low <= y[i] <= high
    streamed = spark.read.parquet(str(tmp_path / "out"))
    found = {row.id: row for row in predictions(streamed).collect()}
    assert set(found) == set(told)
    for id, row in found.items():
        assert (row.label, row.low, row.high) == pytest.approx(told[id], abs=1e-9)
        assert row.probability is None
    assert metrics(streamed).collect()[0].mistakes == outside
    (state,) = states_of(spark, folder.checkpoint, base).collect()
    assert bytes(state.state) == member.to_bytes()


@pytest.mark.slow
def test_bad_rows_are_dead_letters_and_the_others_go_on(spark, base, tmp_path):
    folder = Folder(tmp_path)
    (X, y) = rows(0, 6)
    wide = "key bigint, id string, v array<double>"
    good = [{"key": 7, "id": f"g{i}", "v": X[i].tolist()} for i in range(3)]
    bad = [
        {"key": 7, "id": "narrow", "v": [1.0, 2.0]},
        {"key": 7, "id": "hole", "v": [1.0, None, 2.0, 3.0]},
        {"key": 7, "id": "nothing"},
        {"key": 7, "v": X[3].tolist()},
        {"key": "seven", "id": "text", "v": X[3].tolist()},
        {"id": "no key", "v": X[3].tolist()},
    ]
    from hedgerow.spark import Columns

    folder.add([*good, *bad], [label(7, "g0", y[0])])
    found = folder.run(
        spark, base, wide, LABELS.replace("key string", "key bigint"), columns=Columns(features="v")
    )
    assert sorted(row.id for row in of(found, "prediction")) == ["g0", "g1", "g2"]
    assert statuses(found) == {(7, "g0"): "learned"}
    dead = {row.id: (row.key, row.detail) for row in of(found, "dead letter")}
    words = {
        "narrow": "2 features, the base has 4",
        "hole": r"v[1]",
        "nothing": "features are missing",
        None: "id is missing",
        "text": "key is missing, or of another type",
        "no key": "key is missing",
    }
    assert set(dead) == set(words)
    for id, text in words.items():
        assert text in dead[id][1]
    assert (dead["narrow"][0], dead["text"][0]) == (7, None)


@pytest.mark.slow
def test_a_state_of_other_sources_stops_its_key_only(spark, base, tmp_path):
    from hedgerow.spark import Columns, states_of

    rng = np.random.default_rng(5)
    X, y = rows(0, 8)
    other = Base.fit(
        [Domain("c", rng.normal(size=(40, 4)), rng.permutation(["up", "down"] * 20))],
        "hedgerow-linear",
    )
    begun = [
        ("mine", bytearray(base.member().learn(X[:3], y[:3]).to_bytes())),
        ("theirs", bytearray(other.member().learn(X[:3], y[:3]).to_bytes())),
    ]
    states = spark.createDataFrame(begun, "key string, state binary")
    folder = Folder(tmp_path)
    folder.add(
        [instance(key, "e", X[4]) for key in ("mine", "theirs", "new")], [label("mine", "e", y[4])]
    )
    options = {"columns": Columns(features=tuple(FEATURES))}
    found = folder.run(spark, base, states=states, **options)
    assert sorted(row.key for row in of(found, "prediction")) == ["mine", "new"]
    dead = of(found, "dead letter")
    assert [row.key for row in dead] == ["theirs"]
    assert "key 'theirs': its state belongs to other sources" in dead[0].detail
    at_end = {
        row.key: bytes(row.state) for row in states_of(spark, folder.checkpoint, base).collect()
    }
    plain = base.member().learn(X[:3], y[:3]).learn(X[4:5], y[4:5])
    assert at_end["mine"] == plain.to_bytes()
    assert at_end["theirs"] == bytes(begun[1][1])
    folder.add([instance("mine", "f", X[5])], [])
    again = folder.run(
        spark, other, states=states, **options
    )  # the whole checkpoint belongs to other sources now
    assert [row.key for row in of(again, "dead letter") if row.id == "f"] == ["mine"]


def told(*wanted):
    def look(results):
        return sorted(row.status for row in results if row.kind == "label") == sorted(wanted)

    return look


@pytest.mark.slow
def test_events_without_a_label_expire(spark, base, tmp_path):
    from hedgerow.spark import Columns, Settings, states_of

    folder = Folder(tmp_path)
    (X, _) = rows(0, 3)
    options = {
        "columns": Columns(features=tuple(FEATURES)),
        "settings": Settings(label_timeout=0.5),
    }
    folder.add([instance("k", "a", X[0])], [])
    folder.run(spark, base, until=told("expired"), **options)  # by the timer: no row came
    state = {
        row.key: bytes(row.state) for row in states_of(spark, folder.checkpoint, base).collect()
    }
    assert state["k"] == base.member().learn(X[:1], [None]).to_bytes()
    folder.add([], [label("k", "a", "up")])
    folder.run(spark, base, until=told("expired", "expired"), **options)


def test_what_cannot_work_is_refused_before_it_starts(spark, base, tmp_path):
    from hedgerow.spark import Columns, SparkSource, learn_stream

    folder = Folder(tmp_path)
    columns = Columns(features=tuple(FEATURES))
    instances = folder.stream(spark, "instances", INSTANCES)
    labels = folder.stream(spark, "labels", LABELS)
    still = spark.createDataFrame([], INSTANCES)

    def refused(words, a=instances, b=labels, c=columns):
        with pytest.raises(InputError, match=words):
            learn_stream(a, b, base, c)

    refused("instances: this is not a stream", a=still)
    refused("there is no column 'site' among key, id", c=Columns(key="site"))
    refused(
        "keys of instances are string, those of labels bigint; cast",
        b=labels.selectExpr("1L key", "id", "label"),
    )
    refused(
        "keys are text or whole numbers, 'key' is double",
        a=instances.selectExpr("1.5D key", "id", "x0"),
    )
    refused("5 features .*the base has 4; name them", c=Columns())
    refused("the feature 'id' is string; cast it", c=Columns(features=("id", "x0", "x1", "x2")))
    refused("features='x0' is double; give an array", c=Columns(features="x0"))
    refused(
        "'label' is int, the classes of the base are string; cast it",
        b=labels.selectExpr("key", "id", "1 label"),
    )
    refused(
        "the order 'key' is string; give a timestamp",
        c=Columns(features=tuple(FEATURES), order="key"),
    )
    with pytest.raises(InputError, match="source 'spark': a stream"):
        SparkSource(instances, "key")


@pytest.mark.slow
def test_tables_as_they_are_and_a_new_checkpoint_with_other_shards(spark, tmp_path):
    import pandas as pd

    from hedgerow.spark import Columns, Settings, states_of

    table = pd.DataFrame({"city": ["Oslo", "Rome"] * 20, "age": [20.5, 31.0, None, 47.5] * 10})
    base = Base.fit([Domain("a", table, ["up", "down", "down", "up"] * 10)], "hedgerow-linear")
    cells = [
        {"city": "Rome", "age": 33.0},
        {"age": 20.5},
        {"city": "Lima"},
        {"city": "Oslo", "age": 1.0},
    ]
    given = [{"key": "k", "id": f"e{i}", "t": 2 * i, **row} for i, row in enumerate(cells)]
    names = "key string, id string, t bigint, city string, age double"
    columns = Columns(order="t")
    first = Folder(tmp_path / "first")
    first.add(given[:3], [label("k", f"e{i}", "up", 2 * i + 1) for i in range(2)])
    found = first.run(spark, base, names, columns=columns, settings=Settings(shards=2))
    member = base.member()
    said = {row.id: row.probability for row in of(found, "prediction")}
    for i in range(3):
        row = pd.DataFrame([{"city": None, "age": None} | cells[i]])
        assert said[f"e{i}"] == pytest.approx(member.predict_proba(row).max(), abs=1e-9)
        if i < 2:
            member.learn(row, ["up"])
    states = states_of(spark, first.checkpoint, base).cache()
    assert [bytes(row.state) for row in states.collect()] == [member.to_bytes()]
    second = Folder(tmp_path / "second")  # the event that waits goes along
    second.add(given[3:], [label("k", "e2", "down", 9), label("k", "e0", "up", 10)])
    again = second.run(
        spark, base, names, columns=columns, settings=Settings(shards=3), states=states
    )
    assert statuses(again) == {("k", "e2"): "learned", ("k", "e0"): "duplicate"}


def test_another_number_of_shards_is_refused_also_for_keys_whose_shard_had_no_rows(
    spark, base, tmp_path
):
    from pyspark.errors import StreamingQueryException

    from hedgerow.spark import Columns, Settings

    moved = "pmod(xxhash64(key), 2) <> pmod(xxhash64(key), 5)"
    key = spark.range(50).selectExpr("concat('k', id) as key").where(moved).first().key
    X, y = rows(1, 2)
    folder = Folder(tmp_path)
    columns = Columns(order="t", features=tuple(FEATURES))
    folder.add([instance(key, "a", X[0], 0)], [label(key, "a", y[0], 1)])
    folder.run(spark, base, columns=columns, settings=Settings(shards=2))
    folder.add([instance(key, "b", X[1], 2)], [label(key, "a", y[0], 3)])
    with pytest.raises(StreamingQueryException, match=r"another number of shards.*states_of"):
        folder.run(spark, base, columns=columns, settings=Settings(shards=5))
    found = folder.run(
        spark, base, columns=columns, settings=Settings(shards=2)
    )  # as before, nothing is lost
    assert [row.status for row in of(found, "label")] == ["learned", "duplicate"]
