"""The models of a service: opened and warmed in the background, created whole or not at all, closed with a snapshot."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
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
from hedgerow.service.schemas import NAME_PATTERN, Problem, invalid
from hedgerow.service.settings import ServiceSettings
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
    batcher: MicroBatcher | None = None
    features: int = 0
    feature_names: list[str] | None = None
    table: TableEncoder | None = None
    waiting: int = 0
    broadcast: Any = None  # of server-sent events

    def ready(self, live: LiveModel) -> None:
        """Take over an open, warm model."""
        stats = live.stats()
        self.live, self.features, self.feature_names = live, stats["features"], stats["feature_names"]
        self.table, self.batcher = live.clf.table_, MicroBatcher(live)
        self.state, self.error, self.owned = "ready", None, False

    def failed(self, error: Exception) -> None:
        """Keep why it cannot be used, without where it is on this machine."""
        known = isinstance(error, HedgerowError | Problem)
        self.state, self.owned = "failed", isinstance(error, Owned)
        self.error = self.without_paths(str(error)) if known else f"an error inside ({type(error).__name__})"

    def without_paths(self, text: str) -> str:
        """A text for callers: they know the name of the model, and not where it is on this machine."""
        return text.replace(f"{self.folder.parent}{os.sep}", "")

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
        self.stopping = asyncio.Event()  # set when the service ends
        self._entries: dict[str, Entry] = {}
        self._opening: asyncio.Task[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to open every model; the event loop is free meanwhile."""
        self.work.take()
        for path in sorted(self.folder.iterdir()):  # hidden ones and links are left out
            if path.is_dir() and is_name(path.name) and not path.is_symlink():
                self._entries[path.name] = Entry(path.name, path)
        for path in sorted(self.folder.glob("*.safetensors")):  # without a folder: becomes a live model of its name
            folder = self.folder / path.stem
            if path.is_file() and is_name(path.stem) and not path.is_symlink() and not folder.exists():
                self._entries[path.stem] = Entry(path.stem, folder, path)
        self._opening = asyncio.create_task(self._open_all())

    async def _open_all(self) -> None:
        for entry in list(self._entries.values()):
            if entry.file is None:
                await asyncio.to_thread(_open, entry)
            else:
                await asyncio.to_thread(self._start_from_file, entry, entry.file)
        while any(entry.owned for entry in self._entries.values()):
            await asyncio.sleep(OWNED_AGAIN)
            for entry in [entry for entry in self._entries.values() if entry.owned]:
                await asyncio.to_thread(_open, entry)

    def _start_from_file(self, entry: Entry, file: Path) -> None:
        try:
            _create(entry, file, self.work.path, self.settings.live)
        except Exception as error:  # a file that is no model must not stop the others
            entry.failed(error)

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

    def check_ready(self) -> None:
        """Refuse while models are being opened, and if none of those that are there can be used."""
        states = [entry.state for entry in self._entries.values()]
        if "opening" in states:
            raise Problem("not-ready", "models are being opened")
        if states and set(states) == {"failed"}:
            raise Problem("not-ready", f"none of the {len(states)} models can be used; GET /v1/models says why")

    async def call(self, entry: Entry, action: Callable[[LiveModel, MicroBatcher], Awaitable[T]]) -> T:
        """Wait for the model's one writer, unless too many do already; errors become problems."""
        live, batcher = entry.model, entry.batcher
        assert batcher is not None
        if entry.waiting >= self.settings.waiting:
            raise Problem("busy", f"{entry.waiting} requests wait for {entry.name!r}")
        entry.waiting += 1
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                return await action(live, batcher)
        except TimeoutError:
            raise Problem("timed-out", f"no answer within {self.settings.request_seconds:g} s") from None
        except HedgerowError as error:
            raise as_problem(error, entry) from error
        finally:
            entry.waiting -= 1

    # -- changing -----------------------------------------------------------------------------------------------

    def reserve(self, name: str) -> Entry:
        """Take a free name; `Models.install` or `release` must follow."""
        if not is_name(name):
            rule = "a name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
            raise invalid("name", rule)
        folder = self.folder / name
        if folder.is_symlink():
            raise Problem("taken", f"{name!r} is a link in the models folder; links are not followed")
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
            raise as_problem(error, entry) from error
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
        try:
            self.folder.joinpath(f"{name}.safetensors").unlink(missing_ok=True)  # or it would begin again from its file
            if entry.folder.exists():
                os.replace(entry.folder, gone)
        except OSError as error:
            entry.failed(JournalError(f"it could not be deleted: {error.strerror}"))
            raise Problem("storage", f"{name!r} could not be deleted: {error.strerror}") from error
        del self._entries[name]
        await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)


def is_name(name: str) -> bool:
    r"""Whether this can be the name of a model: one folder inside the models folder, and never anywhere else.

    >>> is_name("site-a.2"), is_name(".."), is_name("a/b"), is_name("a\n")
    (True, False, False, False)
    """
    return re.fullmatch(NAME_PATTERN.strip("^$"), name) is not None


PROBLEM_OF = {InputError: "invalid", Busy: "busy", Closed: "not-ready", Owned: "unusable", JournalError: "storage"}


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for so long: whether it happened."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def as_problem(error: HedgerowError, entry: Entry) -> Problem:
    """What the caller is told about an error of a model."""
    kinds = [kind for of, kind in PROBLEM_OF.items() if isinstance(error, of)]
    return Problem(kinds[0] if kinds else "unusable", entry.without_paths(str(error)))


def _open(entry: Entry) -> None:
    live = None
    try:
        live = LiveModel.open(entry.folder)
        warm(live)
        entry.ready(live)
    except Exception as error:  # whatever is wrong with one model must not stop the others
        if live is not None:
            live.close()
        entry.failed(error)


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


# -- micro-batches ----------------------------------------------------------------------------------------------

FEW = 4  # rows that are faster one by one than as a block
Waiting = list[tuple[Any, asyncio.Future[Any]]]


class MicroBatcher:
    """Requests of one instance or one label that wait for a model at the same time are worked on together.

    A block of rows costs a model a fraction of what its rows cost one by one. While the writer is busy, what comes in
    is collected; then all of its labels are learned and all of its instances predicted, in one transaction. Nobody
    among them had an answer yet, so every order is one in which they could have come.
    """

    def __init__(self, live: LiveModel) -> None:
        self._live = live
        self._rows: Waiting = []  # (row, id or None)
        self._labels: Waiting = []  # (id, label)
        self._task: asyncio.Task[None] | None = None

    async def predict(self, x: Array, id: str | None) -> Answer:
        """The answer for one instance."""
        answer: Answer = await self._put(self._rows, (x, id))
        return answer

    async def label(self, id: str, label: Any) -> Labelled:
        """What became of one label."""
        result: Labelled = await self._put(self._labels, (id, label))
        return result

    async def _put(self, waiting: Waiting, item: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        """Work as long as somebody waits."""
        try:
            while self._rows or self._labels:
                rows, self._rows = self._rows, []
                labels, self._labels = self._labels, []
                with_id = [one for one in rows if one[0][1] is not None]
                without = [one for one in rows if one[0][1] is None]
                # put into the writer's queue in this order, and so committed together
                await asyncio.gather(self._label(labels), self._predict(with_id), self._predict(without))
        finally:
            self._task = None

    async def _label(self, labels: Waiting) -> None:
        if labels:
            try:
                _settle(labels, await self._live.aio.label_many([item for item, _ in labels]))
            except Exception as error:
                _settle(labels, error)

    async def _predict(self, rows: Waiting) -> None:
        if len(rows) >= FEW:
            ids = [id for (_, id), _ in rows]
            try:
                X = np.array([x for (x, _), _ in rows])
                _settle(rows, await self._live.aio.predict_many(X, None if ids[0] is None else ids))
            except InputError:  # of one of them: each for itself, so that the others have their answers
                pass
            except Exception as error:
                _settle(rows, error)
        await asyncio.gather(*(self._predict_one(*row) for row in rows if not row[1].done()))

    async def _predict_one(self, item: tuple[Array, str | None], future: asyncio.Future[Any]) -> None:
        try:
            _settle([(item, future)], [await self._live.aio.predict(*item)])
        except Exception as error:
            _settle([(item, future)], error)


def _settle(waiting: Waiting, outcome: list[Any] | Exception) -> None:
    """Give everybody who still waits the result, or all the error."""
    for i, (_, future) in enumerate(waiting):
        if not future.done():
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome[i])


# -- files on their way -----------------------------------------------------------------------------------------

PREFIX = ".work-"
YOUNG = 60.0  # seconds in which a folder without a lock may belong to a process that has just begun


class WorkFolder:
    """Inside the models folder, so that a finished file can be moved into place at once.

    One a process, held by a lock: what a dead process left is removed, what a living one uses is not.
    """

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
