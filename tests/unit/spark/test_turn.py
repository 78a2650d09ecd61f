"""One key in one batch, and its events as bytes: no Spark is needed for these."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hedgerow import InputError

pytest.importorskip("pyspark", reason="pip install 'hedgerow[spark]'")

from hedgerow.spark import Settings
from hedgerow.spark.ledger import Answered, Ledger, Pending
from hedgerow.spark.turn import ANSWER, INSTANCE, NO_ORDER, Given, Turn
from hedgerow.spark.worker_cache import Members

NAMES = ("a", "b", "c", "d")
X = np.random.default_rng(3).normal(size=(20, 4)).astype(np.float32).astype(np.float64)


def ask(i, order=0, id=None, x=None):
    return Given(INSTANCE, id or f"e{i}", order, X[i] if x is None else x, None)


def tell(i, label, order=0):
    return Given(ANSWER, f"e{i}", order, None, label)


def turn_of(base, member=None, ledger=None, ordered=False, now=0, **settings):
    member = base.member() if member is None else member
    return Turn(lambda: member, ledger or Ledger(), Settings(**settings), NAMES, ordered, now), member


def taken(turn, *rows):
    before = len(turn.results)
    turn.take(rows)
    return [(row.id, row.status or row.kind) for row in turn.results[before:]]


def test_the_order_in_which_spark_brings_rows_does_not_matter(base):
    given = [*(ask(i, 10 * i) for i in range(8)), *(tell(i, "up" if i % 3 else "down", 10 * i + 25) for i in range(8))]
    for ordered in (True, False):
        first, member = turn_of(base, ordered=ordered)
        first.take(given)
        for seed in range(4):
            shuffled = [given[i] for i in np.random.default_rng(seed).permutation(len(given))]
            other, same = turn_of(base, ordered=ordered)
            other.take(shuffled)
            assert same.to_bytes() == member.to_bytes()
            assert other.results == first.results


def test_with_an_order_it_does_not_matter_where_batches_are_cut(base):
    given = sorted(
        [*(ask(i, 10 * i) for i in range(8)), *(tell(i, "up" if i % 3 else "down", 10 * i + 25) for i in range(8))],
        key=lambda row: row.order,
    )
    whole, member = turn_of(base, ordered=True)
    whole.take(given)
    for cut in range(1, 15):
        parts, same = turn_of(base, ordered=True)
        parts.take(given[:cut])
        parts.take(given[cut:])
        assert same.to_bytes() == member.to_bytes()
        assert [row[:3] for row in parts.results] == [row[:3] for row in whole.results]


def test_two_labels_of_one_event_in_one_batch(base):
    turn, member = turn_of(base)
    taken(turn, ask(0))
    assert taken(turn, tell(0, "up"), tell(0, "down"), tell(0, "up")) == [
        ("e0", "learned"), ("e0", "conflict"), ("e0", "conflict"),
    ]  # fmt: skip
    assert member.seen_ == 1


def test_a_label_that_is_refused_leaves_the_others(base, monkeypatch):
    turn, member = turn_of(base)
    member.clf.set_params(max_classes=2)
    taken(turn, ask(0), ask(1), ask(2))
    assert taken(turn, tell(0, "up"), tell(1, "third"), tell(2, "down")) == [
        ("e0", "learned"), ("e1", "refused"), ("e2", "learned"),
    ]  # fmt: skip
    assert "max_classes=2" in turn.results[-2].text
    assert list(turn.ledger.pending) == ["e1"]
    assert taken(turn, tell(1, "up")) == [("e1", "learned")]


def test_more_than_may_wait_are_given_up_oldest_first(base):
    turn, member = turn_of(base, max_pending=2)
    assert taken(turn, *(ask(i) for i in range(4)))[4:] == [("e0", "given up"), ("e1", "given up")]
    assert taken(turn, tell(0, "up")) == [("e0", "given up")]
    assert member.to_bytes() == base.member().learn(X[:2], [None, None]).to_bytes()


def test_time_outs(base):
    turn, _ = turn_of(base, label_timeout=2.0, now=1000)
    taken(turn, ask(0))
    turn.now = 2999
    assert taken(turn, ask(1)) == [("e1", "new")]
    turn.now = 3000
    assert taken(turn) == [("e0", "given up")]


def test_dead_letters_say_what_came(base):
    turn, _ = turn_of(base, ordered=True)
    turn.take([ask(0, x=np.array([1.0, np.nan, 2.0, np.inf])), ask(1, order=NO_ORDER), ask(2, id="x" * 201)])
    assert not turn.changed
    texts = [row.text for row in turn.results]
    assert "missing or not finite: b, d" in texts[0]
    assert "order is missing" in texts[1]
    assert "1 to 200 characters" in texts[2]
    assert json.loads(turn.results[0].row)["x"] == [1.0, "nan", 2.0, "inf"]


def test_a_ledger_is_read_as_it_was_written_and_what_is_none_is_refused():
    ledger = Ledger(
        {f"é{i}": Pending(i, 1, 0.5 + i / 10, X[i]) for i in range(3)},
        {f"d{i}": Answered(bytes([i] * 8), 0, 0.25, i - 1) for i in range(2)},
        77,
    )
    data = ledger.to_bytes(b"b" * 16, 4)
    again = Ledger.from_bytes(data, b"b" * 16, 4, "k")
    assert again.to_bytes(b"b" * 16, 4) == data
    assert (again.answered, again.timer, list(again.pending)) == (ledger.answered, 77, list(ledger.pending))
    with pytest.raises(InputError, match="k: its state belongs to other sources"):
        Ledger.from_bytes(data, b"c" * 16, 4, "k")
    with pytest.raises(InputError, match="k: its events have the schema b'2'"):
        Ledger.from_bytes(b"hrl2" + data[4:], b"b" * 16, 4, "k")
    for place in range(len(data)):
        with pytest.raises(InputError, match="k: "):
            Ledger.from_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :], b"b" * 16, 4, "k")
        with pytest.raises(InputError, match="k: "):
            Ledger.from_bytes(data[:place], b"b" * 16, 4, "k")


def test_a_kept_learner_is_used_only_for_the_state_that_it_wrote(base):
    kept, member = Members(), base.member().learn(X[:2], ["up", "down"])
    state = member.to_bytes()
    kept.keep(base, "k", state, member, most=2)
    assert kept.take(base, "k", state, "k") is member
    kept.keep(base, "k", state, member, most=2)
    older = base.member().learn(X[:1], ["up"]).to_bytes()
    found = kept.take(base, "k", older, "k")  # a batch was rolled back
    assert found is not member
    assert found.to_bytes() == older
    assert kept.take(base, "k", state, "k") is not member  # and is not kept after that
    for name in "abc":
        kept.keep(base, name, state, member, most=2)
    assert len(kept) == 2
    assert (kept.hits, kept.misses) == (1, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"label_timeout": -1}, "label_timeout=-1: must be a number"),
        ({"max_pending": 0}, "max_pending=0: must be a number of at least 1"),
        ({"keep_events": 1.5}, "keep_events=1.5"),
        ({"cached_keys": None}, "cached_keys=None"),
        ({"idle_ttl": 5, "label_timeout": 9}, "idle_ttl=5: a key would be dropped before"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(InputError, match=words):
        Settings(**settings)
