"""A fleet: every key predicts what a model of its own would, whatever is in memory, on disk, or was interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import METHODS, law, make_task, seeds

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.fleet import Base, DeadLetter, Fleet
from hedgerow.live import Closed, JournalError, Owned

SMALL = 2**20  # bytes: keys have to leave all the time


def streams(seed, keys, **options):
    """One set of sources, and a stream of mixed keys."""
    task = make_task(seed, warmup=0, **options)
    rng = np.random.default_rng(seed)
    return task, [f"key {i}" for i in rng.integers(0, keys, len(task.y))]


def own_models(task, method, keys):
    base = OnlineTransferClassifier(method).fit_domains(task.sources)
    data = base.to_bytes(constants=False)
    constants = base.constants_
    return {key: OnlineTransferClassifier.from_bytes(data, constants=constants) for key in keys}


def batches(rng, n):
    edges = np.unique([0, *rng.integers(0, n + 1, size=6), n])
    return [slice(a, b) for a, b in pairwise(edges)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "options", [{}, {"missing": 0.3}, {"new_classes": 1}], ids=["plain", "missing", "new class"]
)
def test_equal_to_models_of_their_own(method, options, tmp_path):
    task, keys = streams(3, 9, n=3, K=3, m=7, stream=260, **options)
    own = own_models(task, method, set(keys))
    rng = np.random.default_rng(0)
    weights = rng.choice([1.0, 0.5, 2.0], len(keys))
    fleet = Fleet(task.sources, method, path=tmp_path / "fleet", memory=SMALL)
    for i, rows in enumerate(batches(rng, len(keys))):
        some = keys[rows]
        X = task.X[rows]
        y = task.y[rows]
        w = weights[rows]
        before = fleet.predict_proba(some, X)
        for key, x, p in zip(some, X, before, strict=True):
            expected = own[key].predict_proba(x[None])[0]
            np.testing.assert_allclose(p[: len(expected)], expected, atol=1e-9)
        said = fleet.predict_then_learn(some, X, y, w)
        for key in set(some):
            at = [j for j, k in enumerate(some) if k == key]
            expected = own[key].predict_then_learn(X[at], y[at], w[at])
            assert [said[j] for j in at] == expected.tolist()
        if i == 3:  # go on from disk
            fleet.close()
            fleet = Fleet.open(tmp_path / "fleet", memory=SMALL)
    assert sorted(fleet.keys()) == sorted(set(keys))
    for key in set(keys):
        assert fleet[key].seen_ == own[key].seen_
        assert fleet[key].mistakes_ == own[key].mistakes_
    fleet.close()


@given(
    seeds, st.sampled_from(["hedgerow", "hedgerow-linear"]), st.integers(2, 6), st.integers(1, 12)
)
@law(12)
def test_any_cut_into_batches_is_the_same(seed, method, K, m):
    """And any preprocessing of ours; enough labels of a key for fading and for a model of its own."""
    task, keys = streams(seed, 3, K=K, m=m, stream=230)
    steps = (None, "zscore+unit", "row-minmax+centre", ())[seed % 4]
    rng = np.random.default_rng(seed)
    with (
        Fleet(task.sources, method, preprocess=steps, memory=SMALL) as one,
        Fleet(task.sources, method, preprocess=steps, memory=2**28) as other,
    ):
        said = [
            one.predict_then_learn(keys[rows], task.X[rows], task.y[rows])
            for rows in batches(rng, len(keys))
        ]
        more = [
            other.predict_then_learn(keys[rows], task.X[rows], task.y[rows])
            for rows in batches(rng, len(keys))
        ]
        differ = np.concatenate(said) != np.concatenate(more)
        assert not differ.any()
        keys = ["key 0", "key 1", "key 2"]
        X = task.X[:3]
        np.testing.assert_allclose(
            one.predict_proba(keys, X), other.predict_proba(keys, X), atol=1e-8
        )


def test_a_prediction_before_its_labels_is_reused_only_if_it_is_right():
    task, keys = streams(5, 4, m=9, stream=80)
    with Fleet(task.sources) as one, Fleet(task.sources) as other:
        for rows in batches(np.random.default_rng(1), 80):
            one.predict(keys[rows], task.X[rows])
            one.learn(keys[rows], task.X[rows], task.y[rows])
            one.predict(keys[rows], task.X[rows])  # for labels that never come
            other.learn(keys[rows], task.X[rows], task.y[rows])
        np.testing.assert_allclose(
            one.predict_proba(keys, task.X), other.predict_proba(keys, task.X), atol=1e-10
        )


@pytest.mark.parametrize("change", ["put", "forget"])
def test_a_prediction_is_not_reused_for_a_key_that_was_exchanged(change):
    task, _ = streams(5, 2, m=9, stream=40)
    first = slice(0, 10)
    second = slice(10, 20)
    with (
        Fleet(task.sources, preprocess="none") as one,
        Fleet(task.sources, preprocess="none") as other,
    ):
        for fleet in (one, other):
            fleet.learn(["a"] * 10, task.X[first], task.y[first]).learn(
                ["b"] * 10, task.X[second], task.y[second]
            )
        one.predict(["a"] * 5, task.X[20:25])  # by what is no longer there when its labels come
        for fleet in (one, other):
            if change == "put":
                fleet.put("a", fleet.to_bytes("b"))
            else:
                fleet.forget("a")
                fleet.learn(["a"] * 10, task.X[second], task.y[second])
            fleet.learn(["a"] * 5, task.X[20:25], task.y[20:25])
        assert np.array_equal(
            one.predict_proba(["a"] * 40, task.X), other.predict_proba(["a"] * 40, task.X)
        )


def test_a_key_without_labels_predicts_as_the_base():
    task, _ = streams(6, 2)
    with Fleet(task.sources) as fleet:
        clf = OnlineTransferClassifier().fit_domains(task.sources)
        assert fleet.predict(["new"] * 50, task.X).tolist() == clf.predict(task.X).tolist()
        assert "new" not in fleet
        assert fleet.keys() == []


def test_warm_up_is_rows_without_labels():
    task, _ = streams(7, 1, stream=60)
    clf = OnlineTransferClassifier().fit_domains(task.sources)
    clf.partial_fit(task.X[:40], [None] * 40)
    with Fleet(task.sources) as fleet:
        fleet.warm_up("a", task.X[:40])
        assert fleet.predict(["a"] * 20, task.X[40:]).tolist() == clf.predict(task.X[40:]).tolist()
        other = fleet.predict_proba(["b"] * 20, task.X[40:])
        assert np.abs(fleet.predict_proba(["a"] * 20, task.X[40:]) - other).max() > 1e-6


def test_bad_rows_are_an_error_or_letters(tmp_path):
    task, keys = streams(8, 3)
    X = task.X[:6].copy()
    X[1, 2] = np.nan
    y = list(task.y[:6])
    with Fleet(task.sources, "hedgerow-linear", path=tmp_path / "f") as fleet:
        with pytest.raises(InputError, match=r"NaN"):
            fleet.learn(keys[:6], X, y)
        with pytest.raises(InputError, match=r"row 0: key '2\.5' of type float.*make it text"):
            fleet.learn([2.5, *keys[1:6]], task.X[:6], y)
        with pytest.raises(InputError, match="5 keys for 6 rows"):
            fleet.learn(keys[:5], task.X[:6], y)
        with pytest.raises(InputError, match="features"):
            fleet.learn(keys[:6], task.X[:6, :-1], y)
        assert fleet.keys() == []
        letters: list[DeadLetter] = []
        mixed = [None, "a", "b", "c", True, "a"]
        said = fleet.predict_then_learn(mixed, X, y, dead_letters=letters)
        assert [letter.row for letter in letters] == [0, 4, 1]
        assert "missing or not finite: feature 2 (nan)" in letters[2].reason
        assert letters[2].key == "a"
        assert [label is None for label in said] == [True, True, False, False, True, False]
        assert sorted(fleet.keys()) == ["a", "b", "c"]
        assert np.isnan(fleet.predict_proba(["a", None], task.X[:2], dead_letters=letters)[1]).all()


def test_labels_that_cannot_be_learned_change_nothing():
    task, _ = streams(9, 3)
    with Fleet(task.sources, "hedgerow-linear", max_classes=3) as fleet:
        with pytest.raises(InputError, match=r"key 'b'.*class 4, and the limit is max_classes=3"):
            fleet.learn(["a", "b"], task.X[:2], ["c0", "another"])
        assert fleet.keys() == []
        letters: list[DeadLetter] = []
        fleet.learn(["a", "b"], task.X[:2], ["c0", "another"], dead_letters=letters)
        assert [letter.key for letter in letters] == ["b"]
        assert fleet.keys() == ["a"]


def test_a_damaged_state_stops_its_key_only(tmp_path):
    import sqlite3

    task, _ = streams(10, 3)
    with Fleet(task.sources, "hedgerow-linear", path=tmp_path / "f") as fleet:
        fleet.learn(["a", "b"], task.X[:2], task.y[:2])
    db = sqlite3.connect(tmp_path / "f" / "fleet.sqlite")
    (data,) = db.execute("SELECT data FROM state WHERE key = 'a'").fetchone()
    db.execute(
        "UPDATE state SET data = ? WHERE key = 'a'",
        (data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],),
    )
    db.commit()
    db.close()
    with Fleet.open(tmp_path / "f") as fleet:
        with pytest.raises(InputError, match="key 'a': its state is damaged"):
            fleet.predict(["b", "a"], task.X[:2])
        with pytest.raises(InputError, match="key 'a': its state is damaged"):
            fleet.learn(["b", "a"], task.X[:2], task.y[:2])
        assert fleet["b"].seen_ == 1
        letters: list[DeadLetter] = []
        fleet.learn(["b", "a"], task.X[:2], task.y[:2], dead_letters=letters)
        assert [letter.key for letter in letters] == ["a"]
        assert fleet["b"].seen_ == 2
        fleet.forget("a")
        assert fleet.learn(["a"], task.X[:1], task.y[:1])["a"].seen_ == 1


def test_rows_and_batches_that_are_lost_are_found(tmp_path):
    import sqlite3

    task, _ = streams(11, 3)
    with Fleet(task.sources, "hedgerow-linear", path=tmp_path / "f") as fleet:
        fleet.learn(["a", "b"], task.X[:2], task.y[:2])
    path = tmp_path / "f" / "fleet.sqlite"
    whole = path.read_bytes()
    db = sqlite3.connect(path)
    db.execute("DELETE FROM state WHERE key = 'a'")
    db.commit()
    db.close()
    with pytest.raises(JournalError, match="1 rows of state, 2 were written"):
        Fleet.open(tmp_path / "f")
    path.write_bytes(whole)
    Fleet.open(tmp_path / "f").close()
    head = (tmp_path / "f" / "head").read_bytes()
    with Fleet.open(tmp_path / "f") as fleet:
        fleet.learn(["a"], task.X[:1], task.y[:1])
        later = (tmp_path / "f" / "head").read_bytes()
    path.write_bytes(whole)
    (tmp_path / "f" / "head").write_bytes(later)
    with pytest.raises(JournalError, match="newest part is missing"):
        Fleet.open(tmp_path / "f")
    assert head != later


def test_one_process_a_folder_and_no_use_after_close(tmp_path):
    task, _ = streams(12, 3)
    fleet = Fleet(task.sources, "pa", path=tmp_path / "f")
    with pytest.raises(Owned, match="in use by process"):
        Fleet.open(tmp_path / "f")
    with pytest.raises(InputError, match=r"has a fleet already: open it"):
        Fleet(task.sources, "pa", path=tmp_path / "f")
    fleet.close()
    fleet.close()
    with pytest.raises(Closed, match=r"Fleet\.open"):
        fleet.predict(["a"], task.X[:1])
    with pytest.raises(InputError, match="has no fleet"):
        Fleet.open(tmp_path)
    with pytest.raises(InputError, match="memory=12"):
        Fleet(task.sources, memory=12)


def test_states_move_between_fleets():
    task, keys = streams(13, 2, stream=700)
    base = Base.fit(task.sources, "hedgerow-linear")
    with Fleet(base) as one, Fleet(base) as other:
        one.learn(keys, task.X, task.y)
        one.learn(keys[:3], task.X[:3], ["other"] * 3)
        for key in ("key 0", "key 1"):
            other.learn([key], task.X[:1], task.y[:1])
            other.put(key, one.to_bytes(key))
            np.testing.assert_allclose(
                other[key].predict_proba(task.X[:9]), one[key].predict_proba(task.X[:9]), atol=1e-9
            )
            assert other[key].learn_one(task.X[0], task.y[0]).seen_ == one[key].seen_ + 1
        with pytest.raises(InputError, match="key 'x'"):
            other.put("x", b"nothing")


def test_a_target_is_an_estimator():
    from sklearn.base import clone
    from sklearn.metrics import get_scorer

    task, _ = streams(14, 1)
    with Fleet(task.sources) as fleet:
        target = fleet["a"].partial_fit(task.X[:30], task.y[:30])
        own = (
            OnlineTransferClassifier()
            .fit_domains(task.sources)
            .partial_fit(task.X[:30], task.y[:30])
        )
        assert target.predict_one(task.X[30]) == own.predict_one(task.X[30])
        assert target.score(task.X[30:], task.y[30:]) == own.score(task.X[30:], task.y[30:])
        assert get_scorer("accuracy")(clone(target), task.X[30:], task.y[30:]) == target.score(
            task.X[30:], task.y[30:]
        )
        np.testing.assert_allclose(target.weights_, own.weights_, atol=1e-9)
        target.learn_one(task.X[30], task.y[30], weight=2.0)
        assert target.seen_ == 31


def test_threads_may_share_it():
    task, keys = streams(15, 8, stream=160)
    with Fleet(task.sources, "hedgerow-linear", memory=SMALL) as fleet:

        def work(which):
            rows = [i for i, key in enumerate(keys) if int(key[-1]) % 4 == which]
            for i in rows:
                fleet.learn([keys[i]], task.X[i : i + 1], task.y[i : i + 1])
                fleet.predict([keys[i]], task.X[i : i + 1])

        threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own = own_models(task, "hedgerow-linear", set(keys))
        for key, x, y in zip(keys, task.X, task.y, strict=True):
            own[key].learn_one(x, y)
        for key in set(keys):
            assert fleet.predict([key] * 160, task.X).tolist() == own[key].predict(task.X).tolist()


def test_a_long_journal_is_written_to_states(monkeypatch, tmp_path):
    monkeypatch.setattr("hedgerow.fleet.fleet.JOURNAL", 20_000)
    task, keys = streams(16, 30, stream=600)
    with Fleet(task.sources, "hedgerow-linear", path=tmp_path / "f") as fleet:
        for a in range(0, 600, 20):
            fleet.learn(keys[a : a + 20], task.X[a : a + 20], task.y[a : a + 20], mark=a)
            assert fleet.stats()["journal_bytes"] < 40_000
        assert fleet.mark == 580
        assert sum(fleet[key].seen_ for key in set(keys)) == 600


def test_a_batch_that_evicts_keys_with_classes_of_their_own():
    task = make_task(5, warmup=0, m=6, stream=600)
    with Fleet(task.sources, "hedgerow-linear", memory=SMALL) as fleet:
        fleet._holder.threads = 1  # keys may leave after every 256 rows
        keys = [f"key {i // 3}" for i in range(600)]
        fleet.learn(keys, task.X, [f"own {i // 30}" for i in range(600)])
        evicted = fleet.stats()["evicted"]
        P = fleet.predict_proba(keys, task.X)
        assert fleet.stats()["evicted"] > evicted
        assert P.shape == (600, len(fleet.classes_)) == (600, len(fleet.base.classes) + 20)
        np.testing.assert_allclose(P.sum(axis=1), 1)


def test_a_key_that_cannot_be_written_is_a_dead_letter():
    task = make_task(6, warmup=0, m=6, stream=3)
    with Fleet(task.sources, "hedgerow-linear") as fleet:
        letters: list[DeadLetter] = []
        fleet.learn(["a", "half \ud800", "ø"], task.X, task.y, dead_letters=letters)
        assert [letter.row for letter in letters] == [1]
        assert "UTF-8" in letters[0].reason
        assert sorted(fleet.keys()) == ["a", "ø"]
        with pytest.raises(InputError, match=r"row 1: key .*UTF-8"):
            fleet.predict(["a", "\udfff", "ø"], task.X)


def test_no_lock_is_held_when_probabilities_were_returned():
    task = make_task(7, warmup=0, m=6, stream=40)
    with Fleet(task.sources, "hedgerow-linear") as fleet, ThreadPoolExecutor(1) as other:
        parts = iter(fleet.probabilities([f"key {i}" for i in range(40)], task.X))
        next(parts)
        other.submit(fleet.learn, ["key 0"], task.X[:1], task.y[:1]).result(timeout=30)


def test_stats_and_classes_do_not_wait_for_a_batch_that_is_learned():
    task = make_task(7, warmup=0, m=6, stream=40)
    with Fleet(task.sources, "hedgerow-linear") as fleet, ThreadPoolExecutor(1) as other:
        fleet.learn(["a"] * 40, task.X, task.y)
        with fleet._lock:  # as a batch holds it while it is learned
            assert other.submit(fleet.stats).result(timeout=5)["held"] == 1
            assert len(other.submit(lambda: fleet.classes_).result(timeout=5)) >= 2
