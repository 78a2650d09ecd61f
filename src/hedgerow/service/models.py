"""The models of a service: opened and warmed in the background, created whole or not at all, closed with a snapshot."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.labels import plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import Answer, Busy, Closed, JournalError, Labelled, LiveModel, Owned, Settings
from hedgerow.live.rows import labels_together
from hedgerow.service.problems import Problem
from hedgerow.service.settings import ServiceSettings, folder_of, model_files, model_folders
from hedgerow.tables.encoder import TableEncoder

T = TypeVar("T")
logger = logging.getLogger("hedgerow.service")
OWNED_AGAIN = 5.0  # seconds after which a model that another process owned is tried again


@dataclass
class Entry:
    """One model of the service and how it is: opening, ready, failed (with the error) or leaving."""

    name: str
    folder: Path
    file: Path | None = None  # from which the folder is made when the service starts
    state: str = "opening"
    error: str | None = None
    owned: bool = False
    live: LiveModel | None = None
    together: Together | None = None
    features: int = 0
    feature_names: list[str] | None = None
    table: TableEncoder | None = None
    waiting: int = 0
    readers: Any = field(default=None)  # of server-sent events

    def ready(self, live: LiveModel) -> None:
        """Take over an open, warm model."""
        found = live.stats()
        self.live, self.features, self.feature_names = live, found["features"], found["feature_names"]
        self.table = live.clf.table_
        self.together = Together(live)
        self.state, self.error, self.owned = "ready", None, False

    @property
    def model(self) -> LiveModel:
        """The open model; a problem while it is not."""
        if self.state == "ready" and self.live is not None:
            return self.live
        if self.state == "failed":
            raise Problem("unusable", f"{self.name!r} could not be opened: {self.error}")
        raise Problem("not-ready", f"{self.name!r} is {self.state}")


class Models:
    """All models of one folder."""

    def __init__(self, folder: Path, settings: ServiceSettings) -> None:
        self.folder, self.settings = folder, settings
        self.work = WorkFolder(folder)
        self._entries: dict[str, Entry] = {}
        self._opening: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to open every model; the event loop is free meanwhile."""
        self.work.take()
        for path in model_folders(self.folder):
            self._entries[path.name] = Entry(path.name, path)
        for path in model_files(self.folder):
            self._entries[path.stem] = Entry(path.stem, self.folder / path.stem, path)
        self._opening = asyncio.create_task(self._open_all())

    async def _open_all(self) -> None:
        for entry in list(self._entries.values()):
            if entry.file is None:
                await asyncio.to_thread(_open, entry)
            else:
                await asyncio.to_thread(_start_from_file, entry, entry.file, self.work.path, self.settings.live)
        while any(entry.owned for entry in self._entries.values()):
            await asyncio.sleep(OWNED_AGAIN)
            for entry in [entry for entry in self._entries.values() if entry.owned]:
                await asyncio.to_thread(_open, entry)

    async def close(self) -> None:
        """Snapshot and close every model."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        for entry in self._entries.values():
            live, entry.live, entry.state = entry.live, None, "closed"
            if live is not None:
                await asyncio.to_thread(_close, live)
        self.work.give_up()

    # -- asking -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        return iter([self._entries[name] for name in sorted(self._entries)])

    def __getitem__(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise Problem("no-model", f"there is no model {name[:64]!r}")
        return entry

    @property
    def opened(self) -> bool:
        """Whether every model is open and warm, or known to be unusable."""
        return all(entry.state != "opening" for entry in self._entries.values())

    async def call(self, entry: Entry, action: Callable[[LiveModel, Together], Awaitable[T]]) -> T:
        """Wait for the model's one writer, unless too many do already; errors become problems."""
        live, together = entry.model, entry.together
        assert together is not None
        if entry.waiting >= self.settings.waiting:
            raise Problem("busy", f"{entry.waiting} requests wait for {entry.name!r}")
        entry.waiting += 1
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                return await action(live, together)
        except TimeoutError:
            raise Problem("timed-out", f"no answer within {self.settings.request_seconds:g} s") from None
        except HedgerowError as error:
            raise as_problem(error) from error
        finally:
            entry.waiting -= 1

    # -- changing -----------------------------------------------------------------------------------------------

    def reserve(self, name: str) -> Entry:
        """Take a free name; `Models.install` or `release` must follow."""
        folder = folder_of(self.folder, name)
        if name in self._entries or os.path.lexists(folder):
            raise Problem("taken", f"there is a model {name!r} already")
        if len(self._entries) >= self.settings.models:
            raise Problem("busy", f"there are {len(self._entries)} models, as many as allowed; delete one first")
        self._entries[name] = Entry(name, folder, state="arriving")
        return self._entries[name]

    def release(self, entry: Entry) -> None:
        """Give up a name that was reserved."""
        if self._entries.get(entry.name) is entry and entry.state == "arriving":
            del self._entries[entry.name]

    async def install(self, entry: Entry, file: Path, live: Settings | None = None) -> None:
        """Make a checked model file the live model of a reserved name: its folder appears whole or not at all.

        `live` has its settings, if they are not those of the service.
        """
        try:
            await asyncio.to_thread(_create, entry, file, self.work.path, live or self.settings.live)
        except HedgerowError as error:
            raise as_problem(error) from error
        finally:
            self.release(entry)
            if entry.state == "ready":
                self._entries[entry.name] = entry

    async def delete(self, name: str) -> None:
        """Close a model and remove all that it had."""
        entry = self[name]
        if entry.state in ("opening", "arriving", "leaving"):
            raise Problem("not-ready", f"{name!r} is {entry.state}")
        if entry.owned:
            raise Problem("unusable", f"{name!r} is in use elsewhere: {entry.error}")
        live, entry.live, entry.state = entry.live, None, "leaving"
        if live is not None:
            await asyncio.to_thread(_close, live)
        gone = self.work.path / f"deleted-{uuid4().hex}"
        os.replace(entry.folder, gone)
        del self._entries[name]
        await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)


def as_problem(error: HedgerowError) -> Problem:
    """What the caller is told about an error of a model."""
    if isinstance(error, InputError):
        return Problem("invalid", str(error))
    if isinstance(error, Busy):
        return Problem("busy", str(error))
    if isinstance(error, Closed):
        return Problem("not-ready", str(error))
    if isinstance(error, Owned):
        return Problem("unusable", str(error))
    if isinstance(error, JournalError):
        return Problem("storage", str(error))
    return Problem("unusable", str(error))


def _open(entry: Entry) -> None:
    live = None
    try:
        live = LiveModel.open(entry.folder)
        warm(live)
        entry.ready(live)
    except Exception as error:  # whatever is wrong with one model must not stop the others
        if live is not None:
            live.close()
        _failed(entry, error)


def _failed(entry: Entry, error: Exception) -> None:
    known = isinstance(error, HedgerowError | Problem)
    entry.state, entry.owned = "failed", isinstance(error, Owned)
    entry.error = str(error) if known else f"an error inside ({type(error).__name__})"


def _start_from_file(entry: Entry, file: Path, work: Path, settings: Settings) -> None:
    try:
        _create(entry, file, work, settings)
    except Exception as error:  # a file that is no model must not stop the others
        _failed(entry, error)


def _create(entry: Entry, file: Path, work: Path, settings: Settings) -> None:
    """Beside its place first, then moved there: a crash leaves no half of a model."""
    aside = work / f"new-{uuid4().hex}"
    try:
        LiveModel.create(aside, OnlineTransferClassifier.load(file), settings=settings).close()
        try:
            os.rename(aside, entry.folder)
        except OSError:
            raise Problem("taken", f"there is a model {entry.name!r} already") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _open(entry)


def _close(live: LiveModel) -> None:
    """Close a model. One that cannot take its last snapshot has all in its journal; it must not keep others open."""
    try:
        live.close()
    except HedgerowError as error:
        logger.error("%s was closed without a snapshot (%s)", live.folder.name, type(error).__name__)


def warm(live: LiveModel) -> None:
    """Make the compiled loops ready, so that the first request does not wait for them.

    On a model of its own: even copying the live one would do work that it has postponed, which its journal has not.
    """
    clf = live.model_of_snapshot()
    if not len(clf.classes_):
        return
    X = np.zeros((2, clf.n_features_in_), dtype=clf.learner_.dtype)
    label = clf.classes_[0]
    clf.explain_one(X[0])
    clf.learn_one(X[0], label)
    clf.predict_then_learn(X, labels_together([plain(label)] * 2))


# -- together -------------------------------------------------------------------------------------------------

# Requests of one instance or one label that wait at the same time are worked on together.
#
# A block of rows costs a model a fraction of what its rows cost one by one. While the writer is busy, what comes in
# is collected; then all of its labels are learned and all of its instances predicted, in one transaction. Nobody
# among them had an answer yet, so every order is one in which they could have come.


FEW = 4  # rows that are faster one by one than as a block

Waiting = list[tuple[Any, asyncio.Future[Any]]]


class Together:
    """The collector of one model, for the event loop it is used in."""

    def __init__(self, live: LiveModel) -> None:
        self._live = live
        self._asked: Waiting = []  # (row, id or None)
        self._given: Waiting = []  # (id, label)
        self._work: asyncio.Task[None] | None = None

    async def predict(self, x: Array, id: str | None) -> Answer:
        """The answer for one instance."""
        answer: Answer = await self._put(self._asked, (x, id))
        return answer

    async def label(self, id: str, label: Any) -> Labelled:
        """What became of one label."""
        result: Labelled = await self._put(self._given, (id, label))
        return result

    async def _put(self, waiting: Waiting, item: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting.append((item, future))
        if self._work is None:
            self._work = asyncio.create_task(self._go_on())
        return await future

    async def _go_on(self) -> None:
        """Work as long as somebody waits."""
        try:
            while self._asked or self._given:
                asked, self._asked = self._asked, []
                given, self._given = self._given, []
                named = [one for one in asked if one[0][1] is not None]
                others = [one for one in asked if one[0][1] is None]
                # put into the writer's queue in this order, and so committed together
                await asyncio.gather(self._label(given), self._predict(named), self._predict(others))
        finally:
            self._work = None

    async def _label(self, given: Waiting) -> None:
        if not given:
            return
        try:
            _tell(given, await self._live.aio.label_many([item for item, _ in given]))
        except Exception as error:
            _fail(given, error)

    async def _predict(self, asked: Waiting) -> None:
        if len(asked) < FEW:
            await asyncio.gather(*(self._one(*each) for each in asked))
            return
        ids = [id for (_, id), _ in asked]
        try:
            X = np.array([x for (x, _), _ in asked])
            _tell(asked, await self._live.aio.predict_many(X, None if ids[0] is None else ids))
        except InputError:  # of one of them: each for itself, so that the others have their answers
            await asyncio.gather(*(self._one(*each) for each in asked))
        except Exception as error:
            _fail(asked, error)

    async def _one(self, item: tuple[Array, str | None], future: asyncio.Future[Any]) -> None:
        try:
            _tell([(item, future)], [await self._live.aio.predict(*item)])
        except Exception as error:
            _fail([(item, future)], error)


def _tell(waiting: Waiting, results: list[Any]) -> None:
    for (_, future), result in zip(waiting, results, strict=True):
        if not future.done():  # whoever waited too long is gone
            future.set_result(result)


def _fail(waiting: Waiting, error: Exception) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_exception(error)


# -- work -----------------------------------------------------------------------------------------------------

# A folder for files on their way, inside the models folder, so that a finished one can be moved into place at once.


PREFIX = ".work-"
YOUNG = 60.0  # seconds in which a folder without a lock may belong to a process that has just begun


class WorkFolder:
    """One a process, held by a lock: what a dead process left is removed, what a living one uses is not."""

    def __init__(self, models: Path) -> None:
        self._models = models
        self.path = models / f"{PREFIX}{uuid4().hex}"
        self._lock = -1

    def take(self) -> None:
        """Make the folder, and remove those whose process is gone."""
        if not self._models.is_dir():
            raise InputError(f"there is no folder {self._models}; make it, or name another with --models")
        try:
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise InputError(f"cannot write to {self._models}: {error.strerror}") from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for other in self._models.glob(f"{PREFIX}*"):
            if other != self.path and not other.is_symlink() and _is_free(other):
                shutil.rmtree(other, ignore_errors=True)

    def give_up(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _is_free(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return time.time() - folder.stat().st_mtime > YOUNG
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
