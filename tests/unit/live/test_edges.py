"""Odd input and odd moments: what is answered is still what a recovered model would say, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import shutil

import numpy as np
import pytest
from support.live_models import assert_same_model, make_model, make_rows, reopened

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.live import Closed, JournalError, LiveModel, Settings

X, Y = make_rows(7, 200, shift=1.0)


@pytest.fixture
def live(tmp_path):
    with LiveModel.create(tmp_path / "live", make_model("pa")) as made:
        yield made


def test_ids_of_numpy_are_text_like_any_other(live, tmp_path):
    assert type(live.predict(X[0], ids=np.str_("a")).id) is str
    live.predict(X[1:3], ids=np.array(["b", "c"]))
    assert live.label(np.str_("b"), 1).status == "learned"
    with reopened(live, tmp_path / "again") as again:
        assert [again.label(id, 1).status for id in "abc"] == ["learned", "duplicate", "learned"]


@pytest.mark.parametrize("method", ["pa", "oddm", "hedgerow-linear"])
@pytest.mark.parametrize("laid_out", [np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2]])
def test_a_block_in_any_layout_is_recovered_to_the_last_bit(method, laid_out, tmp_path):
    with LiveModel.create(tmp_path / "live", make_model(method)) as live:
        live.predict_then_learn(laid_out(X), Y)
        with reopened(live, tmp_path / "again") as again:
            assert_same_model(again.clf, live.clf)


def test_an_event_loop_that_ended_does_not_stop_the_next_one(live):
    async def leave():
        waiting = asyncio.create_task(live.aio.predict(X[0]))
        await asyncio.sleep(0)
        waiting.cancel()

    with live._queue.lock:  # the worker waits here, until the loop is gone
        asyncio.run(leave())

    async def ask():
        return await asyncio.wait_for(live.aio.predict(X[1]), 10)

    assert asyncio.run(ask()).number == 2


def test_what_is_done_together_is_kept_whole_or_not_at_all(live, tmp_path):
    def work(writer):
        writer.predict_then_learn(X[:3], Y[:3], ["a", "b", "c"])
        writer.predict(X[4], "a")  # the id of another row

    before = live.stats()
    with pytest.raises(InputError, match="another instance"):
        live.do_together(work)
    assert (
        (live.stats()["events"], live.stats()["seen"])
        == (before["events"], before["seen"])
        == (0, 0)
    )
    assert not live.predict(X[4], "a").repeated
    with reopened(live, tmp_path / "again") as again:
        assert_same_model(again.clf, live.clf)


def test_a_model_that_had_to_close_itself_can_be_opened_again(live, tmp_path):
    live.predict_then_learn(X[:3], Y[:3])
    (live.folder / "snapshots").rename(tmp_path / "away")

    def work(writer):
        writer.predict_then_learn(X[3:6], Y[3:6], None)
        raise JournalError("the disk failed")

    with pytest.raises(JournalError, match="no snapshot can be used"):
        live.do_together(work)
    with pytest.raises(Closed, match="open it again"):
        live.predict(X[0])
    (tmp_path / "away").rename(live.folder / "snapshots")
    with LiveModel.open(live.folder) as again:
        assert again.stats()["labels"] == 3


def test_a_damaged_snapshot_is_not_kept_in_reserve(tmp_path):
    folder = tmp_path / "live"
    with LiveModel.create(
        folder, make_model("pa"), Settings(snapshot_every=5, keep_events=0)
    ) as live:
        for i in range(0, 20, 5):
            live.predict_then_learn(X[i : i + 5], Y[i : i + 5])
            live._snapshots.wait()
    good, newest = sorted((folder / "snapshots").iterdir())
    damaged = bytearray(newest.read_bytes())
    damaged[-3] ^= 1
    newest.write_bytes(damaged)
    with LiveModel.open(folder) as live:
        assert live.model_of_snapshot().seen_ == 15
        live.predict_then_learn(X[20:25], Y[20:25])
        live._snapshots.wait()
        kept = sorted((folder / "snapshots").iterdir())
        assert (kept[0], len(kept)) == (good, 2)
        live.predict_then_learn(X[25:27], Y[25:27])
        with reopened(live, tmp_path / "again") as again:
            assert_same_model(again.clf, live.clf)


def test_a_loss_is_accepted_once(live, tmp_path):
    for x in X[:4]:
        live.predict(x)
    older = tmp_path / "older"
    shutil.copytree(live.folder, older)
    for x in X[4:9]:
        live.predict(x)
    shutil.copy(live.folder / "head", older / "head")
    with pytest.raises(JournalError, match="newest part is missing"):
        LiveModel.open(older)
    with LiveModel.open(older, accept_loss=True) as again:
        again.predict(X[10])
    with LiveModel.open(older) as again:
        assert again.stats()["events"] == 5


def test_a_live_model_does_not_begin_among_the_rests_of_another(live, tmp_path):
    live.predict_then_learn(X[:5], Y[:5])
    rests = tmp_path / "rests"
    shutil.copytree(live.folder, rests)
    (rests / "journal.sqlite").unlink()  # its write-ahead log would be read into the new one
    with pytest.raises(InputError, match="left of another live model"):
        LiveModel.create(rests, make_model("pa"))


@pytest.mark.parametrize("label", ["new\0", "k0\0", "\ud800", 10**5000, (10**5000,)], ids=range(5))
def test_a_label_that_cannot_be_written_is_refused_alone(tmp_path, label):
    A, a = make_rows(1, 60)
    names = np.array(["k0", "k1", "k2"])
    clf = OnlineTransferClassifier("pa").fit(A, names[a], sample_domain=np.repeat([0, 1], 30))
    with LiveModel.create(tmp_path / "live", clf) as live:
        live.predict(X[:5], ids=list("abcde"))
        results = live.label_many(
            [("a", "k1"), ("b", label), ("c", "k0"), ("d", "k0"), ("e", "k2")]
        )
        assert [result.status for result in results] == [
            "learned",
            "refused",
            "learned",
            "learned",
            "learned",
        ]
        with pytest.raises(InputError):
            live.predict_then_learn(X[5:7], ["k0", label])
        assert live.stats()["labels"] == 4


def test_another_label_for_what_was_learned_is_refused_and_changes_nothing(tmp_path, oddm):
    X, y = make_rows(7, 20, shift=1.0)
    with LiveModel.create(tmp_path / "live", oddm) as live:
        live.predict_then_learn(X[:5], [int(label) for label in y[:5]], ids=list("abcde"))
        with pytest.raises(InputError, match=r"id 'b': .* was learned for it before"):
            live.predict_then_learn(X[1:7], [int(y[1]) + 1, *map(int, y[2:7])], ids=list("bcdefg"))
        with pytest.raises(InputError, match="NoneType"):
            live.predict_then_learn(X[:5], None)
        assert (live.stats()["events"], live.stats()["labels"]) == (5, 5)


def test_an_id_that_is_none_is_refused_alone(live):
    live.predict(X[:2], ["a", "b"])
    results = live.label_many([("a", 1), (7, 1), ("\x07", 1), ("b", 1)])
    assert [result.status for result in results] == ["learned", "refused", "refused", "learned"]
    assert "an id is text" in results[1].detail


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda live: live.predict(X[:2], "ab"), "ids='ab'"),
        (lambda live: live.predict(X[:2], 7), "ids=7"),
        (lambda live: live.predict(X[0], ["a"]), "an id is text"),
        (lambda live: live.predict_then_learn(X[:2], "12"), "y is the text '12'"),
        (lambda live: live.predict(7), "one instance"),
    ],
)
def test_one_in_the_place_of_several_is_refused_in_its_own_terms(live, call, says):
    with pytest.raises(InputError, match=says):
        call(live)
    assert live.stats()["events"] == 0


def test_one_row_and_several_are_asked_and_learned_alike(live, tmp_path):
    ids = [f"e{i}" for i in range(30)]
    with LiveModel.create(tmp_path / "many", make_model("pa")) as many:
        several = many.predict_then_learn(X[:30], Y[:30], ids)
        single = [live.predict_then_learn(X[i], Y[i], ids[i]) for i in range(30)]
        assert [(a.id, a.label) for a in single] == [(a.id, a.label) for a in several]
        assert live.predict(X[30], "q").label == many.predict(X[30:31], ["q"])[0].label
        assert live.clf.seen_ == many.clf.seen_ == 30


@pytest.mark.parametrize("labels", ["abc", [("a",)], [("a", 1, 2)], [3], None, 7])
def test_labels_that_are_no_pairs_are_refused(live, labels):
    live.predict(X[0], ids="a")
    with pytest.raises(InputError, match="pairs"):
        live.label_many(labels)
    assert live.label("a", 1).status == "learned"


@pytest.mark.parametrize("n", [-1, 1.5, "a", None, True])
def test_a_number_of_events_that_is_none_is_refused(live, n):
    with pytest.raises(InputError, match="latest"):
        live.latest(n)


@pytest.mark.parametrize("value", [10**400, 1 + 2j], ids=["huge", "complex"])
def test_numbers_that_no_float_can_hold_are_refused(live, value):
    with pytest.raises(InputError):
        live.predict([value] * X.shape[1])
    with pytest.raises(InputError):
        live.predict([[value] * X.shape[1]])
    with pytest.raises(InputError):
        live.predict_then_learn([[value] * X.shape[1]], [1])
