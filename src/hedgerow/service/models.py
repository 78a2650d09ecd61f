"""The models of a service: opened and warmed in the background, created whole or not at all, closed with a snapshot."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.labels import plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import LiveModel, Settings
from hedgerow.live.errors import Busy, Closed, JournalError, Owned
from hedgerow.live.rows import labels_together
from hedgerow.service.names import folder_of, model_files, model_folders
from hedgerow.service.problems import Problem
from hedgerow.service.settings import ServiceSettings
from hedgerow.service.together import Together
from hedgerow.service.work import WorkFolder
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
