"""The keys of a shard, batch after batch, against a plain loop of models: no Spark runs for these."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from support.spark_streams import rows_of

from hedgerow import Domain, InputError, OnlineTransferRegressor
from hedgerow.fleet import Base

pytest.importorskip("pyspark", reason="pip install 'hedgerow[spark]'")

from hedgerow.spark import Settings, records
from hedgerow.spark.records import ANSWER, INSTANCE, NO_ORDER, Part, Query
from hedgerow.spark.shard import Shard, states_in

NAMES = ("a", "b", "c", "d")
X = np.random.default_rng(3).normal(size=(20, 4)).astype(np.float32).astype(np.float64)


def ask(i, order=0, id=None, x=None, key="k"):
    return key, INSTANCE, id or f"e{i}", order, X[i] if x is None else x, None


def tell(i, label, order=0, key="k"):
    return key, ANSWER, f"e{i}", order, None, label


def query(ordered=False, **settings):
    return Query(NAMES, str, ordered, Settings(shards=1, **settings))


class Kept:
    """A shard whose parts are kept as Spark keeps them."""

    def __init__(self, base, ordered=False, **settings):
        self.shard = Shard(base, query(ordered, **settings))
        self.parts = []
        self.now = 0.0

    def take(self, *rows):
        results = self.shard.take(rows_of(rows), self.now)
        self.commit()
        return results

    def wake(self):
        results = self.shard.wake(self.now)
        self.commit()
        return results

    def commit(self):
        parts, whole = self.shard.commit()
        self.parts = parts if whole else self.parts + parts

    def statuses(self, *rows):
        return sorted((row.id, row.status or row.kind) for row in self.take(*rows))

    def states(self):
        return {key: state for key, state, _ in states_in(self.parts, self.shard.base)}


def learned(base, places, labels):
    return base.member().learn(X[places], labels).to_bytes()


def some_rows(seed, keys=6, n=120, classes=("up", "down"), late=0.3):
    """Instances and labels of keys in the order of time: late, repeated, other ones and unknown ones."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        key = f"k{rng.integers(keys)}"
        x = rng.normal(size=4).astype(np.float32).astype(np.float64)
        rows.append((key, INSTANCE, f"e{e}", 10 * e, x, None))
        label = str(rng.choice(classes))
        delay = 1 if rng.random() > late else 10 * rng.integers(1, 40)
        fate = rng.random()
        if fate > 0.05:
            rows.append((key, ANSWER, f"e{e}", 10 * e + delay, None, label))
        if fate > 0.85:
            again = label if fate > 0.92 else "up" if label == "down" else "down"
            rows.append((key, ANSWER, f"e{e}", 10 * e + delay + 7, None, again))
        if 0.2 < fate < 0.25:
            rows.append((key, INSTANCE, f"e{e}", 10 * e + delay + 8, x, None))
        if 0.3 < fate < 0.33:
            rows.append((key, ANSWER, f"nobody{e}", 10 * e + 5, None, label))
    return sorted(rows, key=in_order)


def in_order(row):
    return row[3], row[1], row[2], str(row[5])


def plain_loop(base, rows):
    """One row after the other: what was predicted, how many labels have which status, what each key learned."""
    members = {}
    events = {}
    predicted = {}
    counts = Counter()
    told = {}
    for key, kind, id, _, x, label in sorted(rows, key=in_order):
        member = members.setdefault(key, base.member())
        if kind == INSTANCE:
            counts["new" if (key, id) not in events else "repeated"] += 1
            if (key, id) not in events:
                shares = member.predict_proba(x[None])[0]
                predicted[id] = (str(member.classes_[shares.argmax()]), shares.max())
                events[key, id] = x
        elif (key, id) not in events:
            counts["unknown"] += 1
        elif (key, id) in told:
            counts["duplicate" if told[key, id] == label else "conflict"] += 1
        else:
            counts["learned"] += 1
            told[key, id] = label
            member.learn(events[key, id][None], [label])
    return predicted, counts, {key: member for key, member in members.items() if member.seen_}


@pytest.mark.parametrize("classes", [("up", "down"), ("up", "down", "left", "right")])
@pytest.mark.parametrize("late", [0.0, 0.3, 1.0])
def test_batches_of_a_shard_are_what_a_plain_loop_is(base, monkeypatch, classes, late):
    rows = some_rows(1, classes=classes, late=late)
    predicted, counts, members = plain_loop(base, rows)
    for cut, dump, memory in ((7, 2**20, 2**30), (40, 3000, 2**20), (len(rows), 2**20, 2**30)):
        monkeypatch.setattr(records, "PART_BYTES", dump)
        kept = Kept(base, ordered=True, memory=memory, keep_events=1000)
        results = []
        for at in range(0, len(rows), cut):
            batch = rows[at : at + cut]
            shuffled = np.random.default_rng(at).permutation(len(batch))
            results += kept.take(*(batch[i] for i in shuffled))
            if at % 3 == 1:  # another worker goes on
                kept.shard = Shard(base, kept.shard.query).follow(kept.parts)
        assert Counter(row.status for row in results) == counts
        for row in results:
            if row.kind == "prediction":
                assert row.label == predicted[row.id][0]
                assert row.probability == pytest.approx(predicted[row.id][1], abs=1e-12)
        states = kept.states()
        assert {key for key, state in states.items() if state} == set(members)
        for key, member in members.items():
            assert base.member(states[key]).seen_ == member.seen_
            if len(classes) == 2:
                assert states[key] == member.to_bytes()
            x = X[:5]
            np.testing.assert_allclose(
                base.member(states[key]).predict_proba(x),
                member.predict_proba(x),
                rtol=0,
                atol=1e-9,
            )


def test_a_shard_is_used_only_for_the_token_that_spark_has(base):
    rows = some_rows(2)
    kept = Kept(base, ordered=True)
    kept.take(*rows[:50])
    before = list(kept.parts)
    behind = Shard(base, kept.shard.query).follow(kept.parts)
    kept.take(*rows[50:100])
    assert behind.follow(kept.parts) is behind  # brought up to date by the delta that it lacks
    assert behind.token == kept.shard.token
    failed = Shard(base, kept.shard.query).follow(before)
    failed.take(rows_of(rows[50:100]), 0.0)
    failed.commit()  # a task that failed afterwards: Spark does not have this part
    anew = failed.follow(kept.parts)
    assert anew is not failed
    expected = kept.take(*rows[100:])
    given = rows_of(rows[100:])
    for other in (behind, anew):
        found = other.take(given, 0.0)
        assert [row[:4] + row[5:] for row in found] == [row[:4] + row[5:] for row in expected]
        for one, two in zip(found, expected, strict=True):
            assert one.probability == (
                None if two.probability is None else pytest.approx(two.probability, abs=1e-12)
            )


def test_the_order_in_which_spark_brings_rows_does_not_matter(base):
    given = [
        *(ask(i, 10 * i) for i in range(8)),
        *(tell(i, "up" if i % 3 else "down", 10 * i + 25) for i in range(8)),
    ]
    for ordered in (True, False):
        first = Kept(base, ordered=ordered)
        results = sorted(map(str, first.take(*given)))
        for seed in range(4):
            other = Kept(base, ordered=ordered)
            shuffled = [given[i] for i in np.random.default_rng(seed).permutation(len(given))]
            assert sorted(map(str, other.take(*shuffled))) == results
            assert other.states() == first.states()


def test_labels_without_an_order_are_learned_in_the_order_of_their_events(base):
    kept = Kept(base)
    kept.take(ask(9))
    kept.take(ask(1), ask(2), tell(2, "down"), tell(9, "up"), tell(1, "up"))
    assert kept.states()["k"] == learned(base, [9, 1, 2], ["up", "up", "down"])


def test_two_labels_of_one_event_in_one_batch(base):
    kept = Kept(base, ordered=True)
    kept.take(ask(0))
    given = tell(0, "up", 1), tell(0, "down", 2), tell(0, "up", 3)
    assert kept.statuses(*given) == [("e0", "conflict"), ("e0", "duplicate"), ("e0", "learned")]
    assert kept.states()["k"] == learned(base, [0], ["up"])


def test_ids_that_come_again(base):
    kept = Kept(base, keep_events=2)
    assert kept.statuses(*(ask(i) for i in range(4)), tell(9, "up")) == [
        *((f"e{i}", "new") for i in range(4)), ("e9", "unknown"),
    ]  # fmt: skip
    first = Kept(base).take(ask(0))[0]
    assert kept.take(ask(0)) == [first._replace(status="repeated")]
    assert kept.statuses(ask(1, x=X[3])) == [("e1", "dead letter")]
    assert "was used for another instance" in kept.take(ask(1, x=X[3]))[0].detail
    assert kept.statuses(tell(2, "up")) == [("e2", "learned")]
    given = tell(0, "down"), tell(1, "up"), tell(0, "down")  # two of one event in one batch
    assert kept.statuses(*given) == [("e0", "duplicate"), ("e0", "learned"), ("e1", "learned")]
    assert kept.statuses(tell(0, "up")) == [("e0", "conflict")]
    assert kept.statuses(tell(2, "up")) == [("e2", "unknown")]  # it was kept, then forgotten


def test_a_hot_key_whose_rows_alternate_is_one_step(base, monkeypatch):
    kept = Kept(base, ordered=True)
    calls = []
    real = Shard._predictions
    monkeypatch.setattr(
        Shard, "_predictions", lambda self, steps: calls.append(len(steps)) or real(self, steps)
    )
    rows = [
        row
        for i in range(10)
        for row in (ask(i, 2 * i), tell(i, "up" if i % 3 else "down", 2 * i + 1))
    ]
    results = kept.take(*rows)
    assert calls == [10]
    predicted, counts, members = plain_loop(base, rows)
    assert Counter(row.status for row in results) == counts
    assert kept.states()["k"] == members["k"].to_bytes()
    for row in results:
        if row.kind == "prediction":
            assert (row.label, pytest.approx(row.probability, abs=1e-12)) == predicted[row.id]
    assert kept.statuses(ask(3), tell(3, "down")) == [("e3", "duplicate"), ("e3", "repeated")]


def test_a_label_that_is_refused_leaves_the_others():
    rng = np.random.default_rng(0)
    source = Domain("a", rng.normal(size=(40, 4)), rng.permutation(["up", "down"] * 20))
    kept = Kept(Base.fit([source], "hedgerow-linear", max_classes=3))
    kept.take(*(ask(i) for i in range(5)))
    given = tell(0, "up"), tell(1, "third"), tell(2, "fourth"), tell(3, "third"), tell(4, "down")
    assert kept.statuses(*given) == [
        ("e0", "learned"), ("e1", "learned"), ("e2", "refused"), ("e3", "learned"), ("e4", "learned"),
    ]  # fmt: skip
    assert kept.statuses(tell(2, "up")) == [("e2", "learned")]
    other = Kept(kept.shard.base)
    other.take(ask(0), ask(1))
    assert other.statuses(tell(0, "third"), tell(1, None)) == [("e0", "learned"), ("e1", "refused")]
    assert base_of(other).member(other.states()["k"]).classes_.tolist() == ["down", "up", "third"]


def base_of(kept):
    return kept.shard.base


def test_more_than_may_wait_expire_oldest_first(base):
    kept = Kept(base, max_pending=2)
    assert ("e0", "expired") in kept.statuses(*(ask(i) for i in range(4)))
    assert kept.statuses(tell(0, "up"), tell(1, "up"), tell(2, "up")) == [
        ("e0", "expired"), ("e1", "expired"), ("e2", "learned"),
    ]  # fmt: skip
    assert kept.states()["k"] == learned(base, [0, 1, 2], [None, None, "up"])


def test_time_outs_wake_a_shard_at_the_first_deadline(base):
    kept = Kept(base, label_timeout=2.0)
    kept.now = 1.0
    kept.take(ask(0), ask(5, key="other"))
    kept.now = 2.5
    assert kept.statuses(ask(1)) == [("e1", "new")]
    assert kept.shard.deadline == 3.0
    kept.now = 3.0
    assert sorted((row.key, row.id, row.status) for row in kept.wake()) == [
        ("k", "e0", "expired"), ("other", "e5", "expired"),
    ]  # fmt: skip
    assert Shard(base, kept.shard.query).follow(kept.parts).deadline == kept.shard.deadline == 4.5
    assert kept.states()["other"] == learned(base, [5], [None])


def test_idle_keys_are_dropped(base, monkeypatch):
    kept = Kept(base, idle_ttl=10.0)
    kept.take(ask(0), tell(0, "up"), ask(1), ask(2, key="busy"))
    kept.now = 9.0
    kept.take(tell(2, "up", key="busy"))
    kept.now = 12.0
    assert kept.statuses(tell(1, "up")) == [("e1", "unknown")]
    assert set(kept.states()) == {"busy"}
    assert (
        Shard(base, kept.shard.query).follow(kept.parts).take(rows_of([ask(0)]), 12.0)[0].status
        == "new"
    )
    monkeypatch.setattr(records, "PART_BYTES", 0)
    kept.now = 30.0
    kept.take(ask(3, key="last"))
    assert set(kept.states()) == {"last"}


def test_dead_letters_say_what_came(base):
    kept = Kept(base, ordered=True)
    results = kept.take(
        ask(0, x=np.array([1.0, np.nan, 2.0, np.inf])),
        ask(1, order=NO_ORDER),
        ask(2, id="x" * 201),
        ask(3, key=None),
        ask(4, x=np.array([1.0])),
    )
    assert kept.parts == []
    texts = [row.detail for row in results]
    assert "missing or not finite: b, d" in texts[0]
    assert "order is missing" in texts[1]
    assert "1 to 200 characters" in texts[2]
    assert "the key is missing" in texts[3]
    assert "a row of 1 features, the base has 4" in texts[4]
    assert json.loads(results[0].row)["x"] == [1.0, "nan", 2.0, "inf"]


def test_parts_are_read_as_they_were_written_and_what_is_none_is_refused(base):
    kept = Kept(base)
    kept.take(*(ask(i) for i in range(3)), tell(0, "up"))
    (data,) = kept.parts
    part = Part.from_bytes(data)
    assert part.token == kept.shard.token
    for place in range(0, len(data), 7):
        with pytest.raises(InputError, match="the state of its shard"):
            Part.from_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(InputError, match="the state of its shard"):
            Part.from_bytes(data[:place])
    rng = np.random.default_rng(5)
    other = Base.fit(
        [Domain("c", rng.normal(size=(40, 4)), rng.permutation(["up", "down"] * 20))],
        "hedgerow-linear",
    )
    with pytest.raises(InputError, match="belongs to other sources"):
        Shard(other, kept.shard.query).follow(kept.parts)


def test_tables_are_encoded_by_the_base():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"city": ["Oslo", "Rome"] * 20, "age": [20.5, 31.0, None, 47.5] * 10})
    base = Base.fit([Domain("a", table, ["up", "down", "down", "up"] * 10)], "hedgerow-linear")
    kept = Kept(base, ordered=True)
    kept.shard = Shard(base, Query(None, str, True, Settings(shards=1)))
    cells = [
        {"city": "Rome", "age": 33},
        {"age": 20.5},
        {"city": "Lima", "age": None},
        {"city": "Oslo", "age": "old"},
    ]
    rows = [ask(i, 2 * i, x=json.dumps(row)) for i, row in enumerate(cells)]
    results = kept.take(*rows, *(tell(i, "up", 2 * i + 1) for i in range(3)))
    assert Counter(row.status or row.kind for row in results) == {
        "new": 3,
        "learned": 3,
        "dead letter": 1,
    }
    assert "age" in next(row.detail for row in results if row.detail)
    member = base.member()
    found = {row.id: row.probability for row in results if row.kind == "prediction"}
    for i in range(3):
        row = pd.DataFrame([{"city": None, "age": None} | cells[i]])
        assert found[f"e{i}"] == pytest.approx(member.predict_proba(row).max(), abs=1e-12)
        member.learn(row, ["up"])
    assert kept.states()["k"] == member.to_bytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"label_timeout": -1}, "label_timeout=-1: must be a number"),
        ({"max_pending": 0}, "max_pending=0: must be a number of at least 1"),
        ({"keep_events": 1.5}, "keep_events=1.5"),
        ({"shards": 0}, "shards=0: must be a number of at least 1"),
        ({"idle_ttl": 5, "label_timeout": 9}, "idle_ttl=5: a key would be dropped before"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(InputError, match=words):
        Settings(**settings)


@pytest.mark.parametrize("ordered", [True, False])
def test_numbers_and_their_intervals_are_those_of_a_plain_loop(monkeypatch, ordered):
    rng = np.random.default_rng(5)
    sources = [
        Domain(name, S := rng.normal(size=(40, 4)), S.sum(axis=1) + level)
        for name, level in (("a", 0), ("b", 5))
    ]
    base = Base.fit(sources, OnlineTransferRegressor(coverage=(0.9, 0.5)))
    asking = Query(NAMES, float, ordered, Settings(shards=1, label_timeout=50, keep_events=1000))
    monkeypatch.setattr(records, "PART_BYTES", 3000)  # deltas and dumps
    kept = Kept(base)
    members = {key: base.member() for key in ("k", "l")}
    kept.shard = Shard(base, asking)
    rows = rng.normal(size=(60, 4))
    for i, x in enumerate(rows):
        key = ("k", "l")[i % 2]
        y = float(rows[i].sum()) - 20.0 * (i % 5 == 0)
        kept.now, member = float(i), members[key]
        (low, high), number = member.predict_interval(x[None])[0], member.predict(x[None])[0]
        (asked,) = kept.take(ask(0, i, f"e{i}", x, key))
        assert (asked.kind, asked.status, asked.probability) == ("prediction", "new", None)
        assert (float(asked.label), asked.low, asked.high) == pytest.approx(
            (number, low, high), abs=1e-9
        )
        if i % 4 == 1:  # another worker goes on
            kept.shard = Shard(base, asking).follow(kept.parts)
        (again,) = kept.take(ask(0, i, f"e{i}", x, key))
        assert again == asked._replace(status="repeated")
        for wrong, words in (("1e200", "beyond"), ("NaN", "missing")):
            (refused,) = kept.take(tell(i, wrong, i, key))
            assert refused.status == "refused"
            assert words in refused.detail
        (told,) = kept.take(tell(i, str(y), i, key))
        assert (told.status, float(told.label), told.right) == (
            "learned",
            y,
            bool(low <= y <= high),
        )
        assert kept.statuses(tell(i, str(y), i, key)) == [(f"e{i}", "duplicate")]
        member.learn(x[None], [y])
    assert {key: bytes(state) for key, state in kept.states().items()} == {
        k: m.to_bytes() for k, m in members.items()
    }
    assert kept.statuses(("k", INSTANCE, "late", 99, rows[0], None)) == [("late", "new")]
    kept.now = 200.0
    assert [row.status for row in kept.wake()] == ["expired"]
    assert base.member(kept.states()["k"]).seen_ == members["k"].seen_
