"""The models of a service: opened and warmed in the background, created whole or not at all, closed with a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from hedgerow.client import NAME_RULE, is_name
from hedgerow.core.arrays import Array
from hedgerow.core.errors import HedgerowError, InputError, MissingExtra
from hedgerow.core.values import BadCell, plain
from hedgerow.fleet import Fleet
from hedgerow.fleet.store import NO_SOURCES, FleetStore, keeps_sources
from hedgerow.live import Busy, Closed, JournalError, LiveModel, Owned, Replaced, Settings
from hedgerow.regressor import load_model
from hedgerow.service import ServiceSettings
from hedgerow.service.check import try_out
from hedgerow.service.schemas import SHOWN, FieldError, Problem, invalid, kind_of
from hedgerow.tables import TableEncoder

logger = logging.getLogger("hedgerow.service")
T = TypeVar("T")
LOOK_EVERY = 1.0  # seconds between two looks at what cannot be used
AGAIN = 5.0  # seconds until it is opened again; twice as long each time it fails, unless another process has it
LONGEST_AGAIN = 60.0
LINE_SECONDS = 5.0  # that a model has to say how it is, where all of them are asked


def one_thread() -> ThreadPoolExecutor:
    """A thread that starts when it is needed."""
    return ThreadPoolExecutor(1, "hedgerow-model")


@dataclass
class Entry:
    """One model of the service and how it is: opening, ready, failed (with the error) or leaving."""

    name: str
    folder: Path
    file: Path | None = (
        None  # NAME.safetensors: the folder is made from it when the service starts, unless it is there
    )
    state: str = "opening"
    error: str | None = None
    notice: str | None = None  # what somebody should know though the model answers
    owned: bool = False
    kind: str = "model"  # or "fleet"
    opened: LiveModel | Fleet | None = None
    features: int = 0
    feature_names: list[str] | None = None
    table: TableEncoder | None = None
    gaps: bool = False  # whether null is a number that is missing
    waiting: int = 0
    pause: float = 0.0  # seconds until it is opened again, since `since`
    since: float = 0.0
    alarms: dict[str, int] = field(default_factory=dict)  # by rule, when it last said
    writes: ThreadPoolExecutor = field(default_factory=one_thread)  # of a fleet, which has one lock
    reads: ThreadPoolExecutor = field(default_factory=one_thread)  # nobody waits for other models

    def ready(self, opened: LiveModel | Fleet) -> None:
        """Take over an open, warm model, or a fleet."""
        self.opened = opened
        clf = opened.base.clf if isinstance(opened, Fleet) else opened.clf
        names = getattr(clf, "feature_names_in_", None)
        self.feature_names = None if names is None else [str(name) for name in names]
        self.features = int(clf.n_features_in_)
        self.table = clf.table_
        self.gaps = clf.learner_.gaps
        self.state = "ready"
        self.error = None
        self.owned = False
        self.pause = 0.0

    @property
    def live(self) -> LiveModel | None:
        """The live model, if it is one and open."""
        return self.opened if isinstance(self.opened, LiveModel) else None

    async def close(self, state: str) -> None:
        """Serve it no longer, and close it with a snapshot.

        A model that cannot take its last snapshot has all in its journal; it must not keep others open.
        """
        opened = self.opened
        self.opened = None
        self.state = state
        try:
            if opened is not None:
                await asyncio.to_thread(opened.close)
        except HedgerowError as error:
            logger.error("%s was closed without a snapshot (%s)", self.name, type(error).__name__)

    def failed(self, error: Exception) -> None:
        """Keep why it cannot be used, and when it is opened again."""
        before = self.error
        self.state = "failed"
        self.opened = None
        self.owned = isinstance(error, Owned)
        self.pause = AGAIN if self.owned else min(LONGEST_AGAIN, 2 * self.pause or AGAIN)
        self.since = time.monotonic()
        self.error = self.said(error)
        if self.error != before:
            logger.warning("%s %s cannot be used: %s", self.kind, self.name, self.error)

    def said(self, error: Exception) -> str:
        """An error for callers, without where it was on this machine, and without values of rows."""
        if isinstance(error, HedgerowError | Problem):
            return without_paths(error, self.folder.parent)
        return f"internal error ({type(error).__name__})"

    def look(self) -> None:
        """Find out that it closed itself: what is on disk could not be read back, since the disk was full, say."""
        if self.state == "ready" and self.opened is not None and self.opened.closed:
            self.failed(Closed("it closed itself after a disk error"))

    async def told(self, read: Callable[[], T]) -> T | str:
        """What `read` says of it, or why it does not: a list has a line of every model, whatever one of them does."""
        if self.state != "ready":
            return self.error or f"the {self.kind} is {self.state}"
        try:
            async with asyncio.timeout(LINE_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self.reads, read)
        except TimeoutError:
            return f"it did not answer within {LINE_SECONDS:g} s"
        except Exception as error:
            return self.said(error)

    def check_ready(self) -> None:
        """A problem while it is not open."""
        if self.state == "ready":
            return
        if self.state == "failed":
            raise Problem("unusable", f"{self.name!r} cannot be used: {self.error}")
        raise Problem("not-ready", f"{self.name!r} is {self.state}")

    def replace(self, file: Path, expected: str | None) -> None:
        """Put a checked model file in the place of the open model, if that is the one that is expected."""
        live = self.model
        live.replace(file.read_bytes(), reason="PUT", expected=expected)
        self.notice = None
        _compare_file(self, live)
        self.ready(live)

    @property
    def model(self) -> LiveModel:
        """The open model; a problem while it is not."""
        self.check_ready()
        assert self.live is not None
        return self.live

    def rows(self, instances: Any, where: str = "instances") -> Array:
        """Instances as rows of numbers in the order of the features; a problem names all fields that are wrong."""
        errors: list[FieldError] = []
        rows: list[Any] = []
        width = self.features if self.table is None else self.table.width
        for i, instance in enumerate(instances):
            if isinstance(instance, dict):
                rows.append(self._values(instance, f"{where}[{i}]", errors))
            elif len(instance) == width:
                rows.append(instance)
            else:
                errors.append(
                    FieldError(
                        f"{where}[{i}]", f"{len(instance)} numbers; the model has {width} features"
                    )
                )
            if len(errors) >= SHOWN:
                break
        if not errors:
            try:
                X = np.array(rows, dtype=np.float64)  # None is NaN
            except OverflowError:
                X = np.array(
                    [[v if abs(v) < 2**1023 else np.inf for v in row] for row in rows], np.float64
                )
            # one usual row without NumPy's loops: they let other threads go first, and the next request waits for these
            if self.table is not None or (len(rows) == 1 and math.isfinite(sum(X[0].tolist()))):
                return X
            wrong = np.isinf(X) if self.gaps else ~np.isfinite(X)
            if not wrong.any():
                return X
            for i, j in np.argwhere(wrong)[:SHOWN]:
                named = self.feature_names if isinstance(instances[i], dict) else None
                field = f"{where}[{i}].{named[j]}" if named else f"{where}[{i}][{j}]"
                errors.append(FieldError(field, "is not a finite number"))
        raise Problem("invalid", f"{errors[0].field}: {errors[0].detail}", errors)

    def _values(
        self, instance: dict[str, Any], field: str, errors: list[FieldError]
    ) -> Sequence[Any]:
        """The values of an object by name, or what is wrong with it."""
        names = self.feature_names
        if self.table is not None:
            if not any(name in instance for name in self.table.names):
                known = ", ".join(self.table.names[:8])
                errors.append(
                    FieldError(
                        field, f"must be an object with some of the model's columns: {known}"
                    )
                )
                return ()
            try:
                return self.table.of_mapping(instance)
            except BadCell as error:
                errors.append(FieldError(f"{field}.{error.column}", str(error)))
                return ()
        if names is None:
            errors.append(
                FieldError(field, f"the model has no names; send a list of {self.features} numbers")
            )
            return ()
        gaps = (
            self.gaps and instance and set(instance) <= set(names)
        )  # an unknown key may be the new name of one
        for name in names:
            if name not in instance:
                errors += [] if gaps else [FieldError(f"{field}.{name}", "missing")]
            elif type(instance[name]) not in (int, float) and not (
                self.gaps and instance[name] is None
            ):
                wrong = f"must be a number, not {kind_of(instance[name])}"
                errors.append(FieldError(f"{field}.{name}", wrong))
        return [instance.get(name) for name in names]

    @property
    def classes(self) -> list[Any]:
        """The labels that are known now; none of a model of numbers."""
        model = self.opened.clf if isinstance(self.opened, LiveModel) else self.opened
        return [plain(label) for label in getattr(model, "classes_", ())]

    def about(self) -> dict[str, Any]:
        """What an open model or fleet is."""
        if not isinstance(self.opened, Fleet):
            return self.model.stats()
        base = self.opened.base
        return {
            "task": base.task.name,
            "method": base.task.method(base.clf),
            "features": self.features,
            "classes": self.classes,
            "feature_names": self.feature_names,
        }


class Models:
    """All models of one folder."""

    def __init__(self, folder: Path, settings: ServiceSettings) -> None:
        self.folder = folder
        self.settings = settings
        self._work = folder / ".work"
        self._lock = -1
        self.stopping = asyncio.Event()  # set when the service ends
        self.receiving = set[asyncio.Timeout]()  # of bodies that are on their way
        self.downloads = 0  # that are being made or sent
        self._entries: dict[str, Entry] = {}
        self._opening: asyncio.Task[None] | None = None
        self._opening_again: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()  # what is opened again is not deleted meanwhile

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to open every model; the event loop is free meanwhile."""
        self._lock_folder()
        for path in sorted(self.folder.iterdir()):  # hidden ones and links are left out
            if path.is_dir() and is_name(path.name) and not path.is_symlink():
                kind = "fleet" if (path / FleetStore.FILE).exists() else "model"
                self._entries[path.name] = Entry(path.name, path, kind=kind)
        for path in sorted(
            self.folder.glob("*.safetensors")
        ):  # without a folder: becomes a live model of its name
            folder = self.folder / path.stem
            if path.is_file() and is_name(path.stem) and not path.is_symlink():
                if path.stem in self._entries:
                    self._entries[path.stem].file = path
                elif not os.path.lexists(folder):
                    self._entries[path.stem] = Entry(path.stem, folder, path)
        self._opening = asyncio.create_task(self._open_all())

    async def _open_all(self) -> None:
        for entry in self:
            await asyncio.to_thread(self._begin, entry)
        self._opening_again = asyncio.create_task(self._open_again())

    async def _open_again(self) -> None:
        """What failed is opened when that is possible: its disk has space again, or its other process has ended."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for entry in self:
                async with self._changing:
                    if entry.state == "failed" and time.monotonic() - entry.since >= entry.pause:
                        await asyncio.to_thread(self._begin, entry)

    def _begin(self, entry: Entry) -> None:
        """Open a model, perhaps from a file that has no folder yet."""
        if entry.file is None or entry.folder.exists():
            _open(entry, self.settings.consolidate)
            return
        try:
            _create(entry, entry.file, self.scratch("new"), self.settings.live)
        except Exception as error:  # a file that is no model must not stop the others
            entry.failed(error)

    def stop(self) -> None:
        """The service ends: requests are refused from now on, and bodies that are on their way are not waited for."""
        self.stopping.set()
        for limit in self.receiving:
            if not limit.expired():
                limit.reschedule(0.0)

    async def close(self) -> None:
        """Snapshot and close every model."""
        for task in (self._opening, self._opening_again):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for entry in self._entries.values():
            await entry.close("closed")
        self._clear()
        os.close(self._lock)

    # -- files on their way -------------------------------------------------------------------------------------

    def scratch(self, kind: str) -> Path:
        """A new path inside the models folder, so that what is finished there can be moved into place at once."""
        self._work.mkdir(mode=0o700, exist_ok=True)
        return self._work / f"{kind}-{uuid4().hex}"

    def _lock_folder(self) -> None:
        """Share the folder with other processes that serve it; the first removes what dead ones left."""
        if not self.folder.is_dir():
            raise InputError(
                f"there is no folder {self.folder}; make it, or name another with --models"
            )
        self._lock = os.open(self.folder, os.O_RDONLY)
        self._clear()
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        try:
            self.scratch("")
        except OSError as error:
            raise InputError(f"cannot write to {self.folder}: {error.strerror}") from error

    def _clear(self) -> None:
        """Remove files on their way, unless they may be those of another process."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self._work, ignore_errors=True)

    # -- asking -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        return iter([self[name] for name in sorted(self._entries)])

    def __getitem__(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise Problem("no-model", f"there is no model {name[:64]!r}")
        entry.look()
        return entry

    def check_ready(self) -> None:
        """Refuse while models are being opened, and if none of those that are there can be used."""
        states = [entry.state for entry in self]
        if "opening" in states:
            raise Problem("not-ready", "models are being opened")
        if states and set(states) == {"failed"}:
            raise Problem(
                "not-ready",
                f"none of the {len(states)} models can be used; see GET /v1/models",
            )

    # -- changing -----------------------------------------------------------------------------------------------

    def reserve(self, name: str, kind: str = "model") -> Entry:
        """Take a free name; `Models.install` or `release` must follow."""
        if not is_name(name):
            raise invalid("name", NAME_RULE)
        folder = self.folder / name
        if folder.is_symlink():
            raise Problem(
                "taken", f"{name!r} is a link in the models folder; links are not followed"
            )
        if name in self._entries or os.path.lexists(folder):
            raise Problem("taken", f"there is a model {name!r} already")
        if len(self._entries) >= self.settings.max_models:
            raise Problem(
                "busy",
                f"there are {len(self._entries)} models, as many as allowed; delete one first",
            )
        self._entries[name] = Entry(name, folder, state="arriving", kind=kind)
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
            await asyncio.to_thread(
                _create, entry, file, self.scratch("new"), live or self.settings.live
            )
        finally:
            self.release(entry)
            if entry.state == "ready":
                self._entries[entry.name] = entry

    async def delete(self, name: str) -> None:
        """Close a model or fleet and remove all that it had."""
        async with self._changing:
            entry = self[name]
            if entry.state in ("opening", "arriving", "leaving"):
                raise Problem("not-ready", f"{name!r} is {entry.state}")
            if entry.owned:
                raise Problem("unusable", f"{name!r} is in use elsewhere: {entry.error}")
            await entry.close("leaving")
        try:
            gone = self.scratch("deleted")
            self.folder.joinpath(f"{name}.safetensors").unlink(
                missing_ok=True
            )  # or it would begin again from its file
            if entry.folder.exists():
                os.replace(entry.folder, gone)
        except OSError as error:
            entry.failed(JournalError(f"it could not be deleted: {error.strerror}"))
            raise Problem("storage", f"{name!r} could not be deleted: {error.strerror}") from error
        del self._entries[name]
        await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)


PROBLEM_OF = {
    Replaced: "replaced",
    InputError: "invalid",
    Busy: "busy",
    Closed: "not-ready",
    Owned: "unusable",
    JournalError: "storage",
    MissingExtra: "not-installed",
}


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for so long: whether it happened."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def discard(file: Path) -> None:
    """Remove a file that nobody needs; one that cannot be removed goes when the service starts again."""
    with contextlib.suppress(OSError):
        file.unlink()


def without_paths(error: Exception, folder: Path) -> str:
    """The text of an error for callers: they know the name of the model, and not where it is on this machine."""
    return str(error).replace(f"{folder}{os.sep}", "")


def as_problem(error: HedgerowError, folder: Path) -> Problem:
    """What the caller is told about an error of a model."""
    kind = next((kind for of, kind in PROBLEM_OF.items() if isinstance(error, of)), "unusable")
    return Problem(kind, without_paths(error, folder))


def _open(entry: Entry, consolidate: int | None = None) -> None:
    """`consolidate`: after so many new keys a fleet that has kept the rows of its sources fits another base."""
    opened: LiveModel | Fleet | None = None
    try:
        if entry.kind == "fleet":
            can = keeps_sources(entry.folder)
            opened = Fleet.open(entry.folder, consolidate=consolidate if can else None)
            if consolidate and not can:
                entry.notice = f"consolidate={consolidate} has no effect here: {NO_SOURCES}"
        else:
            opened = LiveModel.open(entry.folder)
        if isinstance(opened, LiveModel):
            # the first request does not wait for compiled loops; on a model of its own, since even copying the live
            # one would do work that it has postponed, which its journal has not
            try_out(opened.model_of_snapshot())
            _compare_file(entry, opened)
        entry.ready(opened)
    except Exception as error:  # whatever is wrong with one model must not stop the others
        if opened is not None:
            opened.close()
        entry.failed(error)


def _compare_file(entry: Entry, live: LiveModel) -> None:
    """A file NAME.safetensors that has changed since the live model began with it is not used, which is said."""
    if entry.file is None or not entry.file.is_file():
        return
    try:
        if live.made_from(entry.file):
            return
        what = "has changed since the model was started, and is not used"
    except InputError as error:
        what = f"has changed, and is no model ({without_paths(error, entry.folder.parent)})"
    entry.notice = (
        f"{entry.file.name} {what}. PUT with If-Match puts a model in its place, or `hedgerow replace {entry.name} "
        f"{entry.file.name}` while the service is stopped"
    )
    logger.warning("%s", entry.notice)


def _create(entry: Entry, file: Path, aside: Path, settings: Settings) -> None:
    """Beside its place first, then moved there: a crash leaves no half of a model."""
    try:
        if entry.kind == "fleet":
            Fleet(load_model(file), path=aside).close()
        else:
            LiveModel.create(aside, load_model(file), settings=settings).close()
        try:
            os.rename(aside, entry.folder)
        except OSError as error:
            if not os.path.lexists(entry.folder):
                raise
            raise Problem("taken", f"there is a model {entry.name!r} already") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _open(entry)
