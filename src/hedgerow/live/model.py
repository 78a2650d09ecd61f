"""LiveModel: a model, its journal, and the rule that nothing is answered before it is on disk.

The journal is the truth, and the model follows from it: a snapshot, and every step after it taken again in the same
way. Requests are worked on in memory first and then committed together; if the commit fails, the model is read back
from what is on disk, and every request of that group is told so.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.label_json import labels_to_json
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import report, retention
from hedgerow.live.aio import AsyncLiveModel
from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.background import Background
from hedgerow.live.errors import Closed, JournalError
from hedgerow.live.export import export
from hedgerow.live.history import History
from hedgerow.live.journal import FILE, FORMAT, Journal
from hedgerow.live.owner import Owner
from hedgerow.live.requests import Queue, Request
from hedgerow.live.settings import Settings
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.steps import Steps
from hedgerow.live.tallies import Tallies
from hedgerow.live.timing import Timing
from hedgerow.live.verify import verify
from hedgerow.live.writer import Writer

T = TypeVar("T")


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
        self._queue = Queue(self._take)
        self._start = journal.meta("start")
        self._read(verify(journal, accept_loss=accept_loss))
        if accept_loss:
            journal.accept_loss()
        self.aio = AsyncLiveModel(self)

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], clf: OnlineTransferClassifier, settings: Settings | None = None
    ) -> Self:
        """A live model in a new or empty folder, from a fitted model, of which it takes a copy."""
        path, settings = Path(folder), settings or Settings()
        data = clf.to_bytes()
        if (path / FILE).exists():
            raise InputError(f"{path} has a live model already: open it, or choose another folder")
        rests = [file for file in (path / f"{FILE}-wal", *Snapshots(path).folder.glob("*[1-9]*")) if file.exists()]
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
            journal.set_meta("format", FORMAT)
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
            os.replace(aside / FILE, path / FILE)
            shutil.rmtree(aside, ignore_errors=True)

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], settings: Settings | None = None, *, accept_loss: bool = False
    ) -> Self:
        """Go on where a live model was, however it ended. Settings that are given replace those it had.

        `accept_loss`: go on though the newest events, which were acknowledged, are missing from the journal.
        """
        path = Path(folder)
        if not (path / FILE).is_file():
            raise InputError(f"{path} has no live model; LiveModel.create makes one, or `hedgerow run --journal`")
        owner = Owner(path)
        try:
            return cls._opened(path, owner, settings, accept_loss)
        except BaseException:
            owner.release()
            raise

    @classmethod
    def _opened(cls, path: Path, owner: Owner, settings: Settings | None, accept_loss: bool) -> Self:
        journal = Journal(path, accept_loss=accept_loss)
        try:
            with journal.errors():
                kept = Settings.from_json(journal.meta("settings"))
                live = cls(path, owner, journal, settings or kept, accept_loss)
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
        self._writer = Writer(self._journal, steps, tallies, history, self.settings)

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
                retention.apply(writer, self._snapshots)
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
                self._writer = Writer(self._journal, steps, Tallies.from_json(about["tallies"]), history, self.settings)
        except BaseException:
            self._let_go()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the live model in {self.folder} was closed; open it again")
