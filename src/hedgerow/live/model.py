"""LiveModel: a model, its journal, and the rule that nothing is answered before it is on disk.

The journal is the truth, and the model follows from it: a snapshot, and every step after it taken again in the same
way. Requests are worked on in memory first and then committed together; if the commit fails, the model is read back
from what is on disk, and every request of that group is told so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import labels_to_json
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import report
from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.export import export
from hedgerow.live.journal import Journal
from hedgerow.live.report import Timing
from hedgerow.live.settings import Settings
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.steps import SNAPSHOT, Steps
from hedgerow.live.tallies import Tallies
from hedgerow.live.writer import Clock, History, Writer
from hedgerow.store import Closed, JournalError, Owner

# The asyncio face: what many tasks ask for at the same time is taken in order and committed together.
MOST_WAITING = 1024  # requests
T = TypeVar("T")


class Busy(HedgerowError):
    """Too much is waiting; nothing was done, and it may be tried again."""


class AsyncLiveModel:
    """The verbs of a `LiveModel`, to be awaited. One thread works; `Busy` is raised when too much is waiting.

    A request that was cancelled while it waited is done all the same: it may be in the journal.
    """

    def __init__(self, live: LiveModel, most_waiting: int = MOST_WAITING) -> None:
        self._live, self.most_waiting = live, most_waiting
        self._pool: ThreadPoolExecutor | None = None
        self._lock, self._working, self._worker = threading.Lock(), False, 0
        self._done: list[asyncio.Future[None]] = []

    async def predict(self, x: Any, id: str | None = None) -> Answer:
        """See `LiveModel.predict`."""
        return await self._do("predict", lambda: self._live._writer.predict(x, id))

    async def predict_many(self, X: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """See `LiveModel.predict_many`."""
        return await self._do("predict", lambda: self._live._writer.predict_many(X, ids))

    async def label(self, id: str, y: Any) -> Labelled:
        """See `LiveModel.label`."""
        return await self._do("label", lambda: self._live._writer.label(id, y))

    async def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[Labelled]:
        """See `LiveModel.label_many`."""
        return await self._do("label", lambda: self._live._writer.label_many(labels))

    async def predict_then_learn(self, X: Any, y: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """See `LiveModel.predict_then_learn`."""
        return await self._do("predict_then_learn", lambda: self._live._writer.predict_then_learn(X, y, ids))

    async def look(self, read: Callable[[LiveModel], T]) -> T:
        """What `read` says of the live model (its stats, say), without keeping the event loop waiting."""
        return await asyncio.get_running_loop().run_in_executor(None, read, self._live)

    async def snapshot(self) -> dict[str, Any]:
        """See `LiveModel.snapshot`."""
        return await self.look(lambda live: live.snapshot())

    async def _do(self, kind: str, work: Callable[[], T]) -> T:
        live, loop = self._live, asyncio.get_running_loop()
        if live.waiting >= self.most_waiting:
            raise Busy(f"{live.waiting} requests are waiting for this model; try again in a moment")
        future: asyncio.Future[None] = loop.create_future()
        began = time.perf_counter()

        def told() -> None:
            if threading.get_ident() == self._worker:
                self._done.append(future)  # a group is told together
            else:  # a thread of the caller's was there first
                _tell([future])

        request: Request[T] = Request(kind, work, told)
        live._queue.put(request)
        self._start()
        await future
        live._timing.took(kind, time.perf_counter() - began)
        return request.outcome()

    # -- the thread that works ----------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._working:
                return
            self._working = True
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-live")
            self._pool.submit(self._work)

    def _work(self) -> None:
        live, self._worker = self._live, threading.get_ident()
        while True:
            with suppress(BaseException):  # every request of the group has it as its own error
                live._queue.work()
            done, self._done = self._done, []
            _tell(done)
            with self._lock:
                if not live.waiting:
                    self._working = False
                    return


def _tell(futures: list[asyncio.Future[None]]) -> None:
    """Say that these are done, each to the event loop of its own; one that was closed has nobody who waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, its_own in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, its_own)


def _set(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


# Requests that wait for the one writer of a live model: many threads and tasks, one order, one commit for several.
TOGETHER = 256  # requests that share a commit


class Request(Generic[T]):
    """Something to do within a transaction, and what came of it. `told` is called when it is done.

    `alone`: nothing else shares its transaction, of which nothing is kept if it fails.
    """

    __slots__ = ("alone", "done", "error", "kind", "result", "settled", "told", "work")

    def __init__(
        self, kind: str, work: Callable[[], T], told: Callable[[], None] | None = None, alone: bool = False
    ) -> None:
        self.kind, self.work, self.told, self.alone = kind, work, told, alone
        self.result: T | None = None
        self.error: BaseException | None = None
        self.settled = self.done = False  # settled: what came of it is on disk

    def run(self) -> None:
        """Do it; what the caller did wrong is the request's own error, anything else everybody's."""
        try:
            self.result = self.work()
        except HedgerowError as error:
            if isinstance(error, ValueError):
                self.error = error
            else:
                raise

    def finish(self) -> None:
        """Say that it is done."""
        self.done = True
        if self.told is not None:
            self.told()

    def outcome(self) -> T:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


class Queue:
    """Requests in the order in which they came. Whoever gets the lock does what is waiting, for all."""

    def __init__(self, take: Callable[[list[Request[Any]]], None]) -> None:
        self._take = take
        self._waiting: deque[Request[Any]] = deque()
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, request: Request[T]) -> T:
        """Wait until a request is done."""
        self._waiting.append(request)
        while not request.done:
            self.work()
        return request.outcome()

    def put(self, request: Request[Any]) -> None:
        """Leave a request to whoever works next."""
        self._waiting.append(request)

    def work(self) -> None:
        """Do some of what is waiting."""
        with self.lock:
            batch: list[Request[Any]] = []
            try:
                while self._waiting and len(batch) < TOGETHER:
                    if batch and (batch[0].alone or self._waiting[0].alone):
                        break
                    batch.append(self._waiting.popleft())
                if batch:
                    self._take(batch)
            except BaseException as error:
                for request in batch:
                    if not request.settled:
                        request.error = request.error or error
                raise
            finally:
                for request in batch:
                    request.finish()


# What leaves the journal: answered events that recovery no longer needs, beyond what the settings keep.
# "+step": by number, not by the index of steps, which would look at every answer
AT_ONCE = 2000  # events that go in one transaction: nobody waits long for it
LOOK_EVERY = 32  # commits between two looks at age and size


def apply(writer: Writer, snapshots: Snapshots) -> None:
    """Delete some of what may go, within the transaction that is open. Recovery needs all steps after `floor`."""
    journal, settings = writer.journal, writer.settings
    if not journal.open_transaction:
        return
    floor = snapshots.oldest
    excess = journal.totals["answer"][0] - settings.keep_events
    if excess > min(AT_ONCE // 2, settings.keep_events // 10):
        _delete(writer, floor, min(excess, AT_ONCE), None)
    if journal.commits % LOOK_EVERY:
        return
    if settings.keep_seconds is not None:
        _delete(writer, floor, AT_ONCE, writer.now() - settings.keep_seconds)
    if settings.max_bytes is not None and journal.used_bytes > settings.max_bytes:
        gone = _delete(writer, floor, AT_ONCE, None)
        if not gone and writer.steps.since:
            writer.snapshot()  # so that the floor rises


def _delete(writer: Writer, floor: int, most: int, before: float | None) -> int:
    journal = writer.journal
    # age by the order of events: one whose time has not come yet is not younger than those after it
    age = "" if before is None else "AND number <= (SELECT max(number) FROM answer WHERE time < ?)"
    values = (floor, *(() if before is None else (before,)), most)
    found = journal.rows(f"SELECT number FROM answer WHERE +step <= ? {age} ORDER BY number LIMIT ?", values)
    if not found:
        return 0
    last = found[-1][0]
    which = f"number IN (SELECT number FROM answer WHERE +step <= ? AND number <= ? {age})"
    given = (floor, last, *(() if before is None else (before,)))
    for table in ("features", "event"):
        journal.delete(table, which, given)
    steps = f"SELECT step FROM answer WHERE +step <= ? AND number <= ? {age}"
    done = f"number IN ({steps}) AND last <= ?"  # a block of which some events stay is still needed to tell them apart
    journal.delete("step", done, (*given, last))
    journal.delete(
        "step", f"number < (SELECT max(step) FROM ({steps})) AND kind = ? AND number < ?", (*given, SNAPSHOT, floor)
    )
    journal.delete("answer", f"+step <= ? AND number <= ? {age}", given)
    return len(found)


# One thing at a time in a thread of its own: snapshots are written while the model goes on.
class Background:
    """A thread that is started when it is first needed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._lock = threading.Lock()

    def do(self, work: Callable[[], None]) -> None:
        """Work after what was given before."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-snapshot")
            self._last = self._pool.submit(work)

    def wait(self) -> None:
        """Until everything given so far is done."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Finish, and end the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)


class LiveModel:
    """One model and its journal, in a folder of their own. Use `create` or `open`; close it, or use it in a `with`.

    May be used by many threads, and with `await` through `aio`; a folder belongs to one process at a time.
    """

    def __init__(self, folder: Path, owner: Owner, journal: Journal, settings: Settings, accept_loss: bool) -> None:
        """For `create` and `open`."""
        self.folder, self.settings = folder, settings
        self._owner, self._journal = owner, journal
        self._snapshots, self._background = Snapshots(folder), Background()
        self._timing, self._failed, self._closed = Timing(), False, False
        self._clock = Clock()
        self._queue = Queue(self._take)
        self._start = journal.meta("start")
        self._read(journal.verify(accept_loss=accept_loss))
        self.aio = AsyncLiveModel(self)

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], clf: OnlineTransferClassifier, settings: Settings | None = None
    ) -> Self:
        """A live model in a new or empty folder, from a fitted model, of which it takes a copy."""
        path, settings = Path(folder), settings or Settings()
        data = clf.to_bytes()
        if (path / Journal.FILE).exists():
            raise InputError(f"{path} has a live model already: open it, or choose another folder")
        rests = [
            file for file in (path / f"{Journal.FILE}-wal", *Snapshots(path).folder.glob("*[1-9]*")) if file.exists()
        ]
        if rests:
            raise InputError(f"{path} has what is left of another live model ({rests[0].name}); choose another folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(f"cannot make the folder {path}: {error.strerror}") from error
        owner = Owner(path)
        try:
            snapshots = Snapshots(path)
            snapshots.write(0, data)
            if snapshots.error:
                raise JournalError(snapshots.error)
            cls._new_journal(path, settings, clf)
            return cls._opened(path, owner, settings, False)
        except BaseException:
            owner.release()
            raise

    @staticmethod
    def _new_journal(path: Path, settings: Settings, clf: OnlineTransferClassifier) -> None:
        """Written aside and renamed: a folder has a whole journal or none."""
        aside = path / "new"
        shutil.rmtree(aside, ignore_errors=True)  # of a process that ended here
        aside.mkdir()
        journal = Journal(aside, sync=settings.sync, create=True)
        with journal.errors():
            journal.head.write(0, 0, 0)  # both slots are on disk from the start
            journal.begin()
            journal.set_meta("settings", settings.to_json())
            start = {"seen": clf.seen_, "expert_mistakes": clf.learner_.state["expert_mistakes"].tolist()}
            journal.set_meta("start", start)
            names = getattr(clf, "feature_names_in_", None)
            about = {"width": clf.n_features_in_, "dtype": str(clf.learner_.dtype), "method": clf.method}
            journal.set_meta("rows", {**about, "names": None if names is None else [str(name) for name in names]})
            journal.set_meta("classes", labels_to_json(clf.classes_))
            journal.commit({"tallies": Tallies().to_json(), "seen": clf.seen_})
            journal.close()
            os.replace(aside / "head", path / "head")
            os.replace(aside / Journal.FILE, path / Journal.FILE)
            shutil.rmtree(aside, ignore_errors=True)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        accept_loss: bool = False,
    ) -> Self:
        """Go on where a live model was, however it ended.

        `settings` replace those it had; a mapping of some changes these alone.

        `accept_loss`: go on though the newest events, which were acknowledged, are missing from the journal.
        """
        path = Path(folder)
        if not (path / Journal.FILE).is_file():
            raise InputError(f"{path} has no live model; LiveModel.create makes one, or `hedgerow run --journal`")
        owner = Owner(path)
        try:
            return cls._opened(path, owner, settings, accept_loss)
        except BaseException:
            owner.release()
            raise

    @classmethod
    def _opened(
        cls, path: Path, owner: Owner, settings: Settings | Mapping[str, Any] | None, accept_loss: bool
    ) -> Self:
        journal = Journal(path, accept_loss=accept_loss)
        try:
            with journal.errors():
                kept = Settings.from_json(journal.meta("settings"))
                if not isinstance(settings, Settings):
                    settings = replace(kept, **(settings or {}))
                live = cls(path, owner, journal, settings, accept_loss)
                journal.set_sync(live.settings.sync)
                if live.settings != kept:
                    live._do("settings", lambda: live._writer.note_settings(live.settings))
        except BaseException:
            journal.close()
            raise
        return live

    def _read(self, about: dict[str, Any]) -> None:
        """Everything as the journal has it."""
        number, clf = self._snapshots.newest(self._journal.last)
        steps = Steps(clf)
        steps.repeat(self._journal, number)
        if steps.clf.seen_ != about["seen"]:
            raise JournalError(
                f"{self.folder}: the snapshot and the journal do not belong together ({steps.clf.seen_} labels "
                f"learned, {about['seen']} acknowledged); restore the folder from a copy"
            )
        tallies = Tallies.from_json(about["tallies"])
        history = History(self._journal, self._start)
        self._writer = Writer(self._journal, steps, tallies, history, self.settings, self._clock)

    # -- the verbs ----------------------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None = None) -> Answer:
        """The prediction for one instance, on disk before it is answered. Its label may be given by its id at any time.

        `id` is the caller's own, or "#" and the number of the event. The same id again gives the same answer.
        """
        return self._do("predict", lambda: self._writer.predict(x, id))

    def predict_many(self, X: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """Predictions for several instances by the model as it is (without votes and weights, which `predict` has)."""
        return self._do("predict", lambda: self._writer.predict_many(X, ids))

    def label(self, id: str, y: Any) -> Labelled:
        """The label of an event. Late, twice, or for an unknown id: see `Labelled`."""
        return self._do("label", lambda: self._writer.label(id, y))

    def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[Labelled]:
        """Labels of several events, in order."""
        return self._do("label", lambda: self._writer.label_many(labels))

    def predict_then_learn(self, X: Any, y: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """Instances with their labels, each predicted before it is learned. A label may be None."""
        return self._do("predict_then_learn", lambda: self._writer.predict_then_learn(X, y, ids))

    def mark(self, name: str) -> bytes | None:
        """The newest mark of this name."""
        with self._queue.lock:
            self._check_open()
            return self._journal.mark(name)

    def do_together(self, work: Callable[[Writer], T]) -> T:
        """Several verbs of the writer in one transaction, all or none on disk."""
        return self._do("together", lambda: work(self._writer), alone=True)

    def snapshot(self) -> dict[str, Any]:
        """Write a snapshot now; it is on disk when this returns."""
        self._do("snapshot", self._writer.snapshot)
        self._background.wait()
        if self._snapshots.error:
            raise JournalError(self._snapshots.error)
        return report.snapshot(self._snapshots)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def clf(self) -> OnlineTransferClassifier:
        """The model as it is now, to look at. What it learns by itself is not in the journal; and copying or saving it
        does work that it has postponed: recovered from its journal it may then differ in the last digit."""
        return self._writer.steps.clf

    def model_of_snapshot(self) -> OnlineTransferClassifier:
        """A model of one's own: that of the newest snapshot on disk."""
        return OnlineTransferClassifier.load(self._snapshots.path(self._snapshots.newest_number))

    @property
    def waiting(self) -> int:
        """Requests that wait for the writer."""
        return len(self._queue)

    def stats(self) -> dict[str, Any]:
        """How it goes; see live/report.py."""
        with self._queue.lock:
            self._check_open()
            return report.stats(self._writer, self._snapshots, self._timing)

    def history(self) -> list[dict[str, Any]]:
        """The curves: a point every few labels."""
        with self._queue.lock:
            return list(self._writer.history.points)

    def latest(self, n: int = 50) -> list[dict[str, Any]]:
        """The newest events, with their labels where they came."""
        with self._queue.lock:
            self._check_open()
            return report.latest(self._writer, n)

    def alarms(self) -> list[dict[str, Any]]:
        """What somebody should look at, and the rule that says so."""
        with self._queue.lock:
            self._check_open()
            return report.alarms(self._writer)

    def to_bytes(self) -> bytes:
        """The model as it is now, as the content of a model file: that of a snapshot, which is taken."""
        return self._do("snapshot", self._writer.snapshot)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write every event that is kept to a new .jsonl or .parquet file; how many there were. Nobody waits for it."""
        return export(self.folder, path)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take a snapshot, if something was learned since the last, and let the folder go."""
        with self._queue.lock:
            if self._closed:
                return
            try:
                if self._writer.steps.since and not self._failed:
                    self._do("snapshot", self._writer.snapshot)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        self._background.close()
        try:
            self._journal.close()
        finally:
            self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one group of requests ----------------------------------------------------------------------------------

    def _do(self, kind: str, work: Callable[[], T], alone: bool = False) -> T:
        began = time.perf_counter()
        try:
            return self._queue.do(Request(kind, work, alone=alone))
        finally:
            self._timing.took(kind, time.perf_counter() - began)

    def _take(self, batch: list[Request[Any]]) -> None:
        try:
            with uninterrupted():
                self._work(batch)
                for request in batch:
                    request.settled = True
        except HedgerowError as error:
            for request in batch:
                request.error = request.error or error

    def _work(self, batch: list[Request[Any]]) -> None:
        self._check_open()
        writer, journal = self._writer, self._journal
        try:
            with journal.errors():
                if self._failed:
                    writer.probe()
                    self._failed = False
                for request in batch:
                    request.run()
                    if request.alone and request.error is not None and journal.open_transaction:
                        raise request.error  # some of it was done
                    writer.snapshot_if_due()
                writer.give_up_old()
                writer.snapshot_if_due()
                apply(writer, self._snapshots)
                taken = writer.commit()
        except BaseException:
            self._undo()
            raise
        if taken is not None:
            self._background.do(lambda: self._snapshots.write(*taken))

    def _undo(self) -> None:
        """Back to what is on disk. If even that cannot be read, the model is closed."""
        self._failed = True
        changed = self._writer.changed
        try:
            self._journal.rollback()
            about = self._journal.meta("totals")
            if changed:
                self._background.wait()
                self._read(about)
            else:
                steps = self._writer.steps
                history = History(self._journal, self._start)
                tallies = Tallies.from_json(about["tallies"])
                self._writer = Writer(self._journal, steps, tallies, history, self.settings, self._clock)
        except BaseException:
            self._let_go()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the live model in {self.folder} was closed; open it again")
