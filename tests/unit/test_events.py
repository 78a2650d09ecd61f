"""The ledger: ids, labels, expiry, retention; and as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow import InputError
from hedgerow.events import (
    LONGEST_ID,
    Event,
    Limits,
    MemoryLedger,
    check_id,
    check_ids,
    digest_of,
    label_of_json,
    label_to_json,
)


def ledger_of(n: int, **limits: object) -> MemoryLedger:
    ledger = MemoryLedger(Limits(**limits))
    for i in range(n):
        ledger.add(f"e{i}", float(i), i % 2, 0.5, bytes([i]))
    return ledger


def learner(ledger: MemoryLedger, calls: list[list[object]], refuses: object = None):
    def learn(events: list[Event], labels: list[object]) -> list[bool]:
        if refuses in labels:
            raise InputError(f"{refuses!r} cannot be learned")
        calls.append(labels)
        return [
            ledger.resolve(event, label).code == label
            for event, label in zip(events, labels, strict=True)
        ]

    return learn


def test_every_status_and_its_detail():
    ledger = ledger_of(4)
    calls = []
    ledger.resolve(ledger.pending["e3"], None)
    labels = [
        ("e0", 0),
        ("e1", 0),
        ("e0", 0),
        ("e0", 1),
        ("e9", 0),
        ("e3", 1),
        ("e2", None),
        ("e2", "bad"),
        ("e2", 1),
    ]
    results = ledger.label_many(labels, learner(ledger, calls, refuses="bad"))
    assert [(r.id, r.status, r.correct) for r in results] == [
        ("e0", "learned", True),
        ("e1", "learned", False),
        ("e0", "duplicate", None),
        ("e0", "conflict", None),
        ("e9", "unknown", None),
        ("e3", "expired", None),
        ("e2", "refused", None),
        ("e2", "refused", None),
        ("e2", "learned", False),
    ]
    assert calls == [[0, 0], [1]]
    details = {r.status: r.detail for r in results}
    assert "0 was learned for it before" in details["conflict"]
    assert "never predicted" in details["unknown"]
    assert "too late" in details["expired"]
    assert "'bad' cannot be learned" in details["refused"]
    assert not ledger.pending


def test_labels_of_one_call_are_learned_together_unless_one_is_refused():
    ledger = ledger_of(6)
    calls = []
    learn = learner(ledger, calls, refuses=7)
    results = ledger.label_many([("e2", 1), ("e0", 7), ("e1", 2)], learn, block=2, by_event=True)
    assert [r.status for r in results] == ["learned", "refused", "learned"]
    assert calls == [[2], [1]]  # e1, then e2: in the order of their events
    assert ledger.find("e0").status == "pending"
    ledger.label_many([("e5", 1), ("e4", 2)], learn, block=3)
    assert calls[2:] == [[1], [2]]  # fewer than a block


def test_an_id_is_of_one_row():
    ledger = ledger_of(1)
    assert ledger.predicted("e0", digest_of(bytes([0]))) == ledger.pending["e0"]
    assert ledger.predicted("new", b"") is None
    with pytest.raises(InputError, match="'e0' was used for another instance"):
        ledger.predicted("e0", digest_of(b"other"))
    ledger.resolve(ledger.pending["e0"], 1)
    assert ledger.predicted("e0", digest_of(bytes([0]))).label == "1"


def test_the_oldest_expire_by_number_and_by_time():
    ledger = ledger_of(5, max_pending=3, label_timeout=10)
    assert ledger.overdue(4.0) == ["e0", "e1"]
    assert ledger.overdue(12.0) == ["e0", "e1", "e2"]
    assert MemoryLedger(Limits()).overdue(1e12) == []


def test_a_clock_that_was_set_back_makes_events_age_from_then_on():
    ledger = ledger_of(1, label_timeout=10)
    ledger.add("ahead", 1e9, 0, 0.5, b"")
    assert ledger.overdue(5.0) == []
    assert ledger.overdue(4.0) == []  # back: what was predicted in the future was predicted now
    assert ledger.overdue(13.9) == ["e0"]
    assert ledger.overdue(14.0) == ["e0", "ahead"]


def test_only_the_last_events_are_remembered():
    ledger = ledger_of(5, keep_events=2)
    for id in list(ledger.pending)[:4]:
        ledger.resolve(ledger.pending[id], 1)
    ledger.forget()
    assert [ledger.judge(id, 1).status for id in ("e0", "e1", "e2", "e3", "e4")] == [
        "unknown", "unknown", "duplicate", "duplicate", "pending",
    ]  # fmt: skip


def test_bytes_give_back_what_was_there():
    ledger = MemoryLedger(Limits())
    x = np.array([1.5, np.nan])
    ledger.add("a", 1.25, 3, 0.125, x.tobytes())
    for id, label in (("b", "é"), ("c", ("a", 1)), ("d", None)):
        ledger.resolve(ledger.add(id, 2.0, 0, 1.0, b""), label)
    ledger.overdue(3.5)
    data = ledger.to_bytes(b"o" * 16)
    again = MemoryLedger.from_bytes(data, Limits(), b"o" * 16)
    assert again.pending == ledger.pending
    assert again.resolved == ledger.resolved
    assert again.to_bytes(b"o" * 16) == data
    assert again.add("e", 4.0, 0, 1.0, b"").number == 5
    np.testing.assert_array_equal(np.frombuffer(again.pending["a"].row), x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d[:20], "is not a record"),
        (lambda d: b"hre9" + d[4:], "format b'9'"),
        (lambda d: d[:-9] + b"x" + d[-8:], "damaged"),
        (lambda d: d[:-1], "damaged"),
    ],
)
def test_other_bytes_are_refused(change, words):
    with pytest.raises(InputError, match=f"key 'k': the record of its events .*{words}"):
        MemoryLedger.from_bytes(change(ledger_of(3).to_bytes()), Limits(), name="key 'k'")


def test_events_of_other_sources_are_refused():
    with pytest.raises(InputError, match="belongs to other sources"):
        MemoryLedger.from_bytes(ledger_of(1).to_bytes(b"a" * 16), Limits(), b"b" * 16)


@pytest.mark.parametrize("id", ["", "x" * (LONGEST_ID + 1), 7, None, "a\nb", "#3"])
def test_ids_that_are_none(id):
    with pytest.raises(InputError, match="id "):
        check_id(id)


def test_ids_of_several_instances():
    assert check_ids(None, 2) == [None, None]
    assert check_ids(["a", np.str_("b")], 2) == ["a", "b"]
    assert check_id("#3", own=True) == "#3"
    for ids, words in ((["a"], "1 ids for 2"), (["a", "a"], "occurs twice")):
        with pytest.raises(InputError, match=words):
            check_ids(ids, 2)


@pytest.mark.parametrize("label", [1, 1.5, True, "mug", "é", ("a", 1), (1, ("b",))])
def test_labels_as_text_and_back(label):
    again = label_of_json(label_to_json(label))
    assert (again, type(again)) == (label, type(label))


@pytest.mark.parametrize(
    "options", [{"max_pending": 0}, {"label_timeout": -1}, {"keep_events": True}]
)
def test_limits_that_cannot_be(options):
    with pytest.raises(InputError, match=f"{next(iter(options))}="):
        Limits(**options)
