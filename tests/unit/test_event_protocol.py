"""One protocol of events: live models, runs without a journal, keys on Spark and fleets, against one plain oracle.

Predictions are asked for and asked for again, labels come before them, late, twice, otherwise and never, clocks jump,
commits fail, processes die between any two calls and go on from what is on disk. Whatever happens, every status is the
oracle's, and every label is learned once.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.live_models import state_of
from support.spark_streams import rows_of

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.events import Limits
from hedgerow.fleet import Base, Fleet
from hedgerow.fleet import Settings as FleetSettings
from hedgerow.fleet import fleet as fleet_module
from hedgerow.live import JournalError, LiveModel, Settings
from hedgerow.live import model as live_module
from hedgerow.run import engine as run_module
from hedgerow.run.engine import InMemory

TIMEOUT = 60
MOST = 4
IDS = [f"e{i}" for i in range(9)]
RNG = np.random.default_rng(3)
ROWS = dict(zip(IDS, RNG.normal(size=(len(IDS), 4)), strict=True))
OTHER = RNG.normal(size=4)
LABELS = st.sampled_from(["up", "down", None])
SOURCE = RNG.normal(size=(80, 4))
CLF = OnlineTransferClassifier("hedgerow-linear").fit(
    SOURCE, np.where(SOURCE[:, 0] > 0, "up", "down")
)


class Clocks:
    """What the machine says: the seconds that passed, and what its wall clock shows, which may be set."""

    passed = 0.0
    ahead = 1e6


class Clock:
    """Stands for that of live models, with the machine's two clocks in its place."""

    def __init__(self) -> None:
        self._start = Clocks.ahead

    def now(self) -> float:
        return self._start + Clocks.passed


class Oracle:
    """The rules in the plainest form: what is known of every id, in the order of the predictions."""

    def __init__(self) -> None:
        self.events: dict[
            str, list
        ] = {}  # id: when it was predicted, its label ("pending": none yet; None: expired)
        self.learned = 0

    def predict(self, ids, now):
        for id in ids:
            self.events.setdefault(id, [now, "pending"])

    def label(self, id, label):
        if id not in self.events:
            return "unknown"
        known = self.events[id][1]
        if label is None:
            return "refused"
        if known == "pending":
            self.events[id][1] = label
            self.learned += 1
            return "learned"
        return "expired" if known is None else "duplicate" if known == label else "conflict"

    @property
    def pending(self):
        return [id for id, (_, label) in self.events.items() if label == "pending"]

    def expire(self, now):
        waiting = self.pending
        for i, id in enumerate(waiting):
            if now - self.events[id][0] >= TIMEOUT or i < len(waiting) - MOST:
                self.events[id][1] = None

    def reopen(self, now):
        for event in self.events.values():
            event[0] = min(event[0], now)


class Live:
    """A live model; what the oracle knows of it after a crash is what its folder has."""

    has_blocks = True

    def __init__(self, folder: Path) -> None:
        self.oracle = Oracle()
        self.folder = folder
        self.copies = 0
        limits = Settings(label_timeout=TIMEOUT, max_pending=MOST, snapshot_every=7, sync="normal")
        self.live = LiveModel.create(folder / "live0", CLF, limits)
        self.fails = False

    @property
    def now(self):
        return self.live._clock.now()

    def _do(self, verb, *args):
        if self.fails:
            self.fails, commit = False, self.live._journal.commit

            def broken(_):
                raise sqlite3.OperationalError("disk I/O error")

            before = state_of(self.live.clf)
            self.live._journal.commit = broken
            try:
                getattr(self.live, verb)(*args)
            except JournalError:
                for name, array in state_of(self.live.clf).items():
                    np.testing.assert_array_equal(array, before[name], err_msg=name)
            except InputError:
                pass
            finally:
                self.live._journal.commit = commit
        return getattr(self.live, verb)(*args)

    def predict(self, ids, rows):
        return [answer.repeated for answer in self._do("predict", np.stack(rows), ids)]

    def predict_one(self, id, row):
        return self._do("predict", row, id).repeated

    def label(self, pairs):
        return [(result.id, result.status) for result in self._do("label_many", pairs)]

    def learn(self, ids, rows, labels):
        return [
            answer.repeated
            for answer in self._do("predict_then_learn", np.stack(rows), labels, ids)
        ]

    def crash(self):
        self.live._snapshots.wait()
        self.copies += 1
        again = self.folder / f"live{self.copies}"
        shutil.copytree(self.live.folder, again, ignore=shutil.ignore_patterns("lock"))
        before = state_of(self.live.clf)
        _ = self.live._let_go()
        self.live = LiveModel.open(again)
        for name, array in state_of(self.live.clf).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        self.oracle.reopen(self.now)

    def check(self):
        stats = self.live.stats()
        assert stats["labels"] == self.live.clf.seen_ == self.oracle.learned
        assert stats["pending"] == len(self.oracle.pending)
        kept = {event["id"]: event["label"] for event in self.live.latest(100)}
        assert kept == {
            id: None if label == "pending" else label
            for id, (_, label) in self.oracle.events.items()
        }

    def close(self):
        self.live._let_go()


class Run:
    """`hedgerow run` without a journal: nothing outlives its process; what is refused stops the work it is part of."""

    has_blocks = True

    def __init__(self) -> None:
        self.oracle = Oracle()
        self.engine = InMemory(
            OnlineTransferClassifier.from_bytes(CLF.to_bytes()), Limits(TIMEOUT, MOST)
        )

    @property
    def now(self):
        return self.engine.clock.now()

    def predict(self, ids, rows):
        taken = self.engine.do_together(lambda writer: writer.predict_rows(np.stack(rows), ids))
        return [event is not None for event in taken.known]

    def predict_one(self, id, row):
        return self.predict([id], [row])[0]

    def label(self, pairs):
        results = self.engine.do_together(lambda writer: writer.label_all(pairs))
        return [(result.id, result.status) for result in results]

    def learn(self, ids, rows, labels):
        taken = self.engine.do_together(
            lambda writer: writer.learn_rows(np.stack(rows), labels, ids)
        )
        return [event is not None for event in taken.known]

    def crash(self):
        """There is nothing to go on from."""

    def check(self):
        assert self.engine.clf.seen_ == self.oracle.learned
        assert list(self.engine.pending) == self.oracle.pending

    def close(self):
        """Nothing is open."""


class Key:
    """A key on Spark: its shard is parts, and a batch whose task fails is taken again from the parts before it."""

    has_blocks = False

    def __init__(self) -> None:
        from hedgerow.spark import Settings as SparkSettings
        from hedgerow.spark.shard import Query, Shard

        limits = SparkSettings(label_timeout=TIMEOUT, max_pending=MOST, keep_events=100, shards=1)
        self.shard = Shard(Base(CLF), Query(tuple("abcd"), str, True, limits))
        self.oracle = Oracle()
        self.parts = []
        self.start = Clocks.ahead
        self.fails = False

    @property
    def now(self):
        return self.start + Clocks.passed

    def _take(self, kind, ids, rows, labels):
        from hedgerow.spark.shard import Shard

        given = rows_of(
            [("key", kind, *row) for row in zip(ids, range(len(ids)), rows, labels, strict=True)]
        )
        if self.fails:
            self.shard.take(given, self.now)  # and nothing of it is kept
            self.shard.commit()
            self.shard = Shard(self.shard.base, self.shard.query).follow(self.parts)
            self.fails = False
        results = self.shard.take(given, self.now)
        parts, whole = self.shard.commit()
        self.parts = parts if whole else self.parts + parts
        return results

    def predict(self, ids, rows):
        results = self._take(0, ids, rows, [None] * len(ids))
        for result in results:
            if result.kind == "dead letter":
                raise InputError(result.detail)
        repeated = {
            result.id: result.status == "repeated"
            for result in results
            if result.kind == "prediction"
        }
        return [repeated[id] for id in ids]

    def predict_one(self, id, row):
        return self.predict([id], [row])[0]

    def label(self, pairs):
        results = self._take(
            1, [id for id, _ in pairs], [None] * len(pairs), [label for _, label in pairs]
        )
        given = Counter(id for id, _ in pairs)
        kept = []
        for result in results:  # what expired afterwards is told too
            if given[result.id] > 0:
                given[result.id] -= 1
                kept.append((result.id, result.status))
        return kept

    def crash(self):
        self.fails = True  # the next batch is taken twice

    def check(self):
        from hedgerow.events import MemoryLedger
        from hedgerow.spark.shard import states_in

        base = self.shard.base
        for _, state, events in states_in(self.parts, base):
            assert (base.member(state).seen_ if state else 0) == self.oracle.learned
            assert (
                list(MemoryLedger.from_bytes(events, Limits(), base.digest).pending)
                == self.oracle.pending
            )

    def close(self):
        """Nothing is open."""


class Keyed:
    """Two keys of a fleet that have the same ids: each is as the oracle, whatever the other is asked."""

    has_blocks = False
    keys = ("a", 7)

    def __init__(self, folder: Path) -> None:
        self.oracle = Oracle()
        self.folder = folder
        self.copies = 0
        self.fed = Counter()
        limits = FleetSettings(label_timeout=TIMEOUT, max_pending=MOST, keep_events=100)
        self.fleet = Fleet(Base(CLF), path=folder / "fleet0", sync="normal", settings=limits)
        self.fails = False

    @property
    def now(self):
        return self.fleet._clock.now()

    def _do(self, verb, *args):
        if self.fails:
            self.fails, commit = False, self.fleet._store.commit

            def broken(_):
                raise sqlite3.OperationalError("disk I/O error")

            self.fleet._store.commit = broken
            before = self.fleet.stats()
            try:
                getattr(self.fleet, verb)(*args)
            except (JournalError, InputError):
                assert self.fleet.stats()["pending"] == before["pending"]
            finally:
                self.fleet._store.commit = commit
        return getattr(self.fleet, verb)(*args)

    def predict(self, ids, rows):
        keys = [key for _ in ids for key in self.keys]
        twice = [id for id in ids for _ in self.keys]
        answers = self._do("predict", keys, np.repeat(np.stack(rows), 2, axis=0), twice)
        repeated = [answer.repeated for answer in answers]
        assert repeated[::2] == repeated[1::2]
        return repeated[::2]

    def predict_one(self, id, row):
        return {self._do("predict", key, row, id).repeated for key in self.keys} == {True}

    def label(self, pairs):
        given = [(key, id, label) for id, label in pairs for key in self.keys]
        told = [(result.id, result.status) for result in self._do("label_many", given)]
        assert told[::2] == told[1::2]
        return told[::2]

    def crash(self):
        self.copies += 1
        again = self.folder / f"fleet{self.copies}"
        shutil.copytree(self.fleet.folder, again, ignore=shutil.ignore_patterns("lock"))
        self.fleet._let_go()
        self.fleet = Fleet.open(again)
        self.oracle.reopen(self.now)
        for key in self.keys:
            assert self.fleet[key].seen_ == self.oracle.learned
        assert {key: self.fleet[key].seen_ for key in self.fed} == dict(self.fed)

    def check(self):
        kept = {id: label for id, (_, label) in self.oracle.events.items()}
        for key in self.keys:
            found = self.fleet._store.events("key = ?", (key,))
            labels = {e.id: "pending" if e.label is None else json.loads(e.label) for e in found}
            assert labels == kept
        assert self.fleet.stats()["pending"] == 2 * len(self.oracle.pending)

    def close(self):
        self.fleet._let_go()


class Protocol(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        Clocks.passed = 0.0
        Clocks.ahead = 1e6
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(live_module, "Clock", Clock)
        self.patch.setattr(fleet_module, "Clock", Clock)
        self.patch.setattr(run_module, "Clock", Clock)
        self.folder = Path(tempfile.mkdtemp())
        self.keyed = Keyed(self.folder)
        self.systems = [Live(self.folder), Run(), Key(), self.keyed]

    def teardown(self):
        if hasattr(self, "systems"):
            for system in self.systems:
                system.close()
            self.patch.undo()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _after(self, system, refused: bool = False) -> None:
        if not (refused and isinstance(system, Run)):
            system.oracle.expire(system.now)

    @rule(ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=5, unique=True))
    def predict(self, ids):
        for system in self.systems:
            expected = [id in system.oracle.events for id in ids]
            assert system.predict(ids, [ROWS[id] for id in ids]) == expected, system
            system.oracle.predict(ids, system.now)
            self._after(system)

    @rule(id=st.sampled_from(IDS))
    def predict_another_row(self, id):
        for system in self.systems:
            if id in system.oracle.events:
                with pytest.raises(InputError, match="another instance"):
                    system.predict_one(id, OTHER)
                self._after(system, refused=True)

    @rule(pairs=st.lists(st.tuples(st.sampled_from(IDS), LABELS), min_size=1, max_size=6))
    def label(self, pairs):
        for system in self.systems:
            expected: dict[str, list[str]] = {}
            for id, label in pairs:
                expected.setdefault(id, []).append(system.oracle.label(id, label))
            found: dict[str, list[str]] = {}
            for id, status in system.label(pairs):
                found.setdefault(id, []).append(status)
            assert found == expected, system
            self._after(system)

    @rule(given=st.dictionaries(st.sampled_from(IDS), LABELS, min_size=1, max_size=4))
    def predict_then_learn(self, given):
        ids = list(given)
        rows = [ROWS[id] for id in given]
        labels = list(given.values())
        for system in self.systems:
            if not system.has_blocks:
                continue
            known = system.oracle.events
            refused = any(
                id in known and label is not None and known[id][1] not in ("pending", label)
                for id, label in given.items()
            )
            if refused:
                with pytest.raises(InputError):
                    system.learn(ids, rows, labels)
                self._after(system, refused=True)
                continue
            repeated = [id in known for id in ids]
            assert system.learn(ids, rows, labels) == repeated, system
            for id, label, again in zip(ids, labels, repeated, strict=True):
                if not again:
                    known[id] = [system.now, label]
                    system.oracle.learned += label is not None
                elif label is not None:
                    system.oracle.label(id, label)
            self._after(system)

    @rule(seconds=st.sampled_from([0.5, 20.0, 61.0]))
    def time_passes(self, seconds):
        Clocks.passed += seconds

    @rule(seconds=st.sampled_from([-3e8, -50.0, 50.0, 3e8]))
    def the_clock_is_set(self, seconds):
        Clocks.ahead += seconds

    @rule()
    def crash(self):
        for system in self.systems:
            system.crash()

    @rule()
    def the_next_commit_fails(self):
        self.systems[0].fails = True
        self.keyed.fails = True

    @rule(keys=st.lists(st.integers(0, 3), min_size=1, max_size=5))
    def fleet_learns(self, keys):
        fleet = self.keyed.fleet
        number = sum(self.keyed.fed.values()) + len(keys)
        fleet.learn(keys, SOURCE[: len(keys)], ["up"] * len(keys), mark=number)
        self.keyed.fed.update(keys)
        assert fleet.mark == number
        self._after(self.keyed)

    @rule(ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True))
    def a_key_is_forgotten(self, ids):
        fleet = self.keyed.fleet
        fleet.predict("gone", np.stack([ROWS[id] for id in ids]), ids)
        assert fleet.label("gone", ids[0], "up").status == "learned"
        fleet.forget("gone")
        assert "gone" not in fleet
        assert {r.status for r in fleet.label_many([("gone", id, "up") for id in ids])} == {
            "unknown"
        }
        self._after(self.keyed)

    @invariant()
    def every_label_was_learned_once(self):
        for system in getattr(self, "systems", []):
            system.check()


pytest.importorskip("pyspark", reason="pip install 'hedgerow[spark]'")
TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(stateful_step_count=30, deadline=None)
