"""LiveModel: a model, its journal, and the rule that nothing is answered before it is on disk.

The journal is the truth, and the model follows from it: a snapshot, and every step after it taken again in the same
way. Requests are worked on in memory first and then committed together; if that fails, the model is read back from what
is on disk. An error of the disk is that of every request of the group; after any other the requests are done one by
one, so that only those that fail have an error.

A request is data: a verb of the `Writer` and its arguments. The writer is looked up when the request is executed: after
a transaction that was rolled back it is another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.registry import of_json
from hedgerow.core.values import Forgotten, Ids, Row, Rows, is_row
from hedgerow.events import Clock, LabelResult
from hedgerow.files import read_file
from hedgerow.live import Settings, report
from hedgerow.live.engine import SEVERAL
from hedgerow.live.journal import (
    KEPT,
    LAST,
    Journal,
    ModelRow,
    Snapshots,
    Steps,
    model_file,
    recovered,
)
from hedgerow.live.look import export
from hedgerow.live.report import Scores, Timing, scores_of
from hedgerow.live.writer import Writer
from hedgerow.regressor import load_model, model_of_bytes
from hedgerow.store import (
    Closed,
    JournalError,
    Owner,
    copy_folder,
    on_error,
)
from hedgerow.task import Answer, Model

MOST_WAITING = 1024  # requests of tasks
TOGETHER = 256  # requests that share a commit
# what several of one instance are executed as
MICRO_BATCHES: dict[Any, Any] = {
    Writer.label: Writer.label_all,
    Writer.predict: Writer.predict_together,
}
logger = logging.getLogger("hedgerow.live")
T = TypeVar("T")
P = ParamSpec("P")


class Replaced(InputError):
    """The model is not the one that was expected: it was replaced meanwhile."""


# -- requests that wait ----------------------------------------------------------------------------------------------


class Busy(HedgerowError):
    """Too much is waiting; nothing was done, and it may be tried again."""


class Request:
    """A verb of the writer and its arguments, then what came of it: `done` when that is on disk.

    `alone`: nothing else shares its transaction, of which nothing is kept if it fails. `waiter`: a task that waits.
    """

    __slots__ = ("alone", "answer", "args", "done", "error", "verb", "waiter")

    def __init__(
        self, verb: Callable[..., Any], args: tuple[Any, ...] = (), alone: bool = False
    ) -> None:
        self.verb = verb
        self.args = args
        self.alone = alone
        self.done = False
        self.answer: Any = None
        self.error: BaseException | None = None
        self.waiter: asyncio.Future[None] | None = None

    def execute(self, writer: Writer) -> None:
        """Do it; what the caller did wrong is the request's own error, anything else everybody's."""
        try:
            self.answer = self.verb(writer, *self.args)
        except InputError as error:
            self.error = error

    def settle(self, error: BaseException | None = None) -> None:
        """It is done, unless it was before: with its answer, its own error, or everybody's."""
        if not self.done:
            self.error = self.error or error
            self.done = True

    def outcome(self) -> Any:
        """The answer, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.answer


def execute(writer: Writer, batch: list[Request]) -> None:
    """Requests that came at the same time: labels as one block, then single instances as one, then the rest in order.

    Nobody among them had an answer yet, so every order is one in which they could have come.
    """
    rest = batch
    for verb, several in MICRO_BATCHES.items() if len(batch) >= SEVERAL else ():
        some = [request for request in rest if request.verb == verb]
        if len(some) < SEVERAL:
            continue
        rest = [request for request in rest if request.verb != verb]
        try:
            answers = several(writer, [request.args for request in some])
        except InputError:  # of one of them: each for itself, so that the others have their answers
            rest = some + rest
            continue
        for request, answer in zip(some, answers, strict=True):
            request.answer = answer
        writer.snapshot_if_due()
    for request in rest:
        request.execute(writer)
        if request.alone and request.error is not None and writer.journal.open_transaction:
            raise request.error  # some of it was done
        writer.snapshot_if_due()


class Queue:
    """Requests in the order in which they came. Whoever gets the lock does what is waiting, for all.

    Threads call `do`, tasks await `do_async`, for which one thread of the queue's own works, in turns with the event
    loop: what was answered goes out first, and what came meanwhile is done together.
    """

    def __init__(self, execute: Callable[[list[Request]], None]) -> None:
        self._execute = execute
        self._waiting: deque[Request] = deque()
        self.lock = threading.RLock()
        self._pool = ThreadPoolExecutor(1, "hedgerow-live")  # its thread starts when it is needed
        self._turn: asyncio.AbstractEventLoop | None = (
            None  # the loop whose `_go_on` is still to come
        )

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, request: Request) -> Any:
        """Wait until a request is done."""
        self._waiting.append(request)
        while not request.done:
            self._work()
        return request.outcome()

    async def do_async(self, request: Request) -> Any:
        """The same without keeping the event loop waiting."""
        loop = asyncio.get_running_loop()
        request.waiter = loop.create_future()
        self._waiting.append(request)
        if self._turn is not loop:
            self._turn = loop
            loop.call_soon(self._go_on, loop)
        await request.waiter
        return request.outcome()

    def _work(self) -> None:
        """Do some of what is waiting."""
        with self.lock:
            batch: list[Request] = []
            try:
                while self._waiting and len(batch) < TOGETHER:
                    if batch and (batch[0].alone or self._waiting[0].alone):
                        break
                    batch.append(self._waiting.popleft())
                if batch:
                    with uninterrupted():
                        self._execute(batch)
                        for request in batch:
                            request.settle()
            except BaseException as error:
                for request in batch:
                    request.settle(error)
                if not isinstance(error, HedgerowError):
                    raise
            finally:
                _wake([request.waiter for request in batch if request.waiter is not None])

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the event loop, after all tasks that could run."""
        if self._waiting:
            self._pool.submit(self._work_for_tasks, loop)
        elif self._turn is loop:
            self._turn = None

    def _work_for_tasks(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(BaseException):  # every request of the group has it as its own error
            self._work()
        with suppress(RuntimeError):  # the loop was closed, and nobody waits
            loop.call_soon_threadsafe(
                loop.call_soon, self._go_on, loop
            )  # after those that were woken


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    """Wake tasks, those of one event loop together; a loop that was closed has nobody who waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, its_own in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, its_own)


def _set(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


# -- the model ----------------------------------------------------------------------------------------------


class LiveModel:
    """One model and its journal, in a folder of their own. Use `create` or `open`; close it, or use it in a `with`.

    May be used by many threads, and with `await` through `aio`; a folder belongs to one process at a time.

    >>> from tempfile import TemporaryDirectory
    >>> from hedgerow import OnlineTransferClassifier
    >>> clf = OnlineTransferClassifier().fit([[0.0], [1.0], [0.1], [0.9]], [0, 1, 0, 1])
    >>> with TemporaryDirectory() as folder, LiveModel.create(f"{folder}/shop", clf) as live:
    ...     answer = live.predict([0.8], "order-17")
    ...     result = live.label("order-17", 1)
    >>> answer.label, result.status
    (1, 'learned')
    """

    def __init__(
        self,
        folder: Path,
        owner: Owner,
        journal: Journal,
        settings: Settings,
        accept_loss: bool,
        experts: Mapping[str, Any] | None,
    ) -> None:
        """For `create` and `open`."""
        self.folder = folder
        self.settings = settings
        self._owner = owner
        self._journal = journal
        self._snapshots = Snapshots(folder, experts)
        self._timing = Timing()
        self._clock = Clock()
        self._failed = self._closed = False
        self._queue = Queue(self._work)
        self._read(journal.verify(accept_loss=accept_loss))
        self._snapshots.experts = self.clf.experts_  # which are not compared again
        self.aio = AsyncLiveModel(self)

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], clf: Model, settings: Settings | None = None
    ) -> Self:
        """A live model in a new or empty folder, from a fitted model, of which it takes a copy."""
        path = Path(folder)
        settings = settings or Settings()
        data = clf.to_bytes()
        row = ModelRow.of(clf, digest=hashlib.sha256(data).hexdigest(), time=time.time())
        owner = Journal.own_new(path)
        with on_error(owner.release):
            snapshots = Snapshots(path)
            snapshots.write(0, data)
            if snapshots.error:
                raise JournalError(snapshots.error)
            with on_error(lambda: Journal.remove(path)):
                with Journal.new(path, sync=settings.sync) as journal:
                    journal.begin()
                    journal.set_meta("settings", asdict(settings))
                    journal.set_model(row)
                    journal.commit({"scores": {}, "seen": clf.seen_})
                return cls._opened(path, owner, None, False, clf.experts_)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        accept_loss: bool = False,
        experts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Go on where a live model was, however it ended.

        `settings` replace those it had; a mapping of some changes these alone.

        `accept_loss`: go on though the newest events, which were acknowledged, are missing from the journal.
        `experts`: the models of your own that it was made with, by name. What they said is in the journal.
        """
        path = Path(folder)
        owner = Journal.own(path)
        with on_error(owner.release):
            return cls._opened(path, owner, settings, accept_loss, experts)

    @classmethod
    def _opened(
        cls,
        path: Path,
        owner: Owner,
        settings: Settings | Mapping[str, Any] | None,
        accept_loss: bool,
        experts: Mapping[str, Any] | None,
    ) -> Self:
        journal = Journal(path, accept_loss=accept_loss)
        with on_error(journal.close), journal.errors():
            kept = of_json(Settings, journal.meta("settings"))
            if not isinstance(settings, Settings):
                settings = replace(kept, **(settings or {}))
            live = cls(path, owner, journal, settings, accept_loss, experts)
            journal.set_sync(settings.sync)
            if settings != kept:
                live._do(Writer.set_settings, settings)
            return live

    def _read(self, about: dict[str, Any], steps: Steps | None = None) -> None:
        """Everything as the journal has it; `steps` have what it has already."""
        steps = steps or recovered(self._journal, self._snapshots, about)
        scores = scores_of(steps.task, about["scores"])
        self._writer = Writer(self._journal, steps, scores, self.settings, self._clock)

    # -- the verbs ----------------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Any, ids: str, *, explain: bool = False) -> Answer: ...
    @overload
    def predict(self, X: Any, ids: Ids, *, explain: bool = False) -> list[Answer]: ...
    @overload
    def predict(self, X: Row, ids: None = None, *, explain: bool = False) -> Answer: ...
    @overload
    def predict(self, X: Rows, ids: None = None, *, explain: bool = False) -> list[Answer]: ...
    @overload
    def predict(self, X: Any, ids: Any = None, *, explain: bool = False) -> Any: ...
    def predict(self, X: Any, ids: Any = None, *, explain: bool = False) -> Any:
        """The prediction for one row, or for each of several, on disk before it is answered.

        Its label may be given by its id at any time. `ids` are the caller's own, or "#" and the number of the event.
        The same id again gives the same answer. `explain`: with votes and weights, which one row always has.
        """
        if is_row(X):
            return self._do(Writer.predict, X, ids)
        return self._do(Writer.predict_many, X, ids, explain)

    def label(self, id: str, y: Any) -> LabelResult:
        """The label of an event. Late, twice, or for an unknown id: see `LabelResult`."""
        return self._do(Writer.label, id, y)

    def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[LabelResult]:
        """Labels of several events, in order."""
        return self._do(Writer.label_all, labels)

    @overload
    def predict_then_learn(
        self, X: Row, y: Any, ids: str | None = None, *, explain: bool = False
    ) -> Answer: ...
    @overload
    def predict_then_learn(
        self, X: Rows, y: Any, ids: Ids | None = None, *, explain: bool = False
    ) -> list[Answer]: ...
    @overload
    def predict_then_learn(
        self, X: Any, y: Any, ids: Any = None, *, explain: bool = False
    ) -> Any: ...
    def predict_then_learn(self, X: Any, y: Any, ids: Any = None, *, explain: bool = False) -> Any:
        """Rows with their labels, or one with its own, each predicted before it is learned. A label may be None.

        `explain`: with votes, and with the weights after the labels.
        """
        return self._do(Writer.predict_then_learn, X, y, ids, explain)

    def mark(self, name: str) -> bytes | None:
        """The newest mark of this name."""
        with self._queue.lock:
            self._check_open()
            return self._journal.mark(name)

    def do_together(self, work: Callable[[Writer], T]) -> T:
        """Several verbs of the writer in one transaction, all or none on disk."""
        result: T = self._queue.do(Request(Writer.together, (work,), alone=True))
        return result

    def snapshot(self) -> dict[str, Any]:
        """Write a snapshot now; it is on disk when this returns."""
        self._do(Writer.snapshot)
        self._snapshots.wait()
        if self._snapshots.error:
            raise JournalError(self._snapshots.error)
        return self._snapshots.about()

    def replace(
        self,
        model: Model | str | os.PathLike[str] | bytes,
        *,
        reason: str = "",
        expected: str | None = None,
    ) -> dict[str, Any]:
        """Put another model in the place of this one, between two requests; `replace_back` undoes it.

        Events stay: what waits for a label is learned by the new model. Counts of mistakes go on; those of the experts,
        and the curves, begin again.

        Parameters
        ----------
        model : a fitted model, the path of a model file, or its content
            It must read the rows that wait for their labels: those that were kept as they came, or rows of the same
            features.
        reason : str
            Kept in the journal and shown in `stats()["model"]`.
        expected : str or None
            The digest of the model that is to be replaced (`stats()["model"]["digest"]`); another one is refused.

        Returns
        -------
        dict
            `stats()["model"]`: digest, number (of the step), since, reason, replaced (how often).

        Raises
        ------
        Replaced
            The model is not the one that was expected.
        InputError
            For a file that is no model, or a model that cannot read what waits; nothing has changed then.
        """
        if isinstance(model, str | os.PathLike):
            data = read_file(model)
        else:
            data = model if isinstance(model, bytes) else model.to_bytes()
        name = str(model) if isinstance(model, str | os.PathLike) else "model"
        model_of_bytes(data, name, experts=self.clf.experts_)

        def work(writer: Writer) -> tuple[str, ModelRow]:
            now = writer.models[-1].digest
            if expected is not None and expected != now:
                raise Replaced(
                    f"{self.folder}: the model is {now[:12]}, not {expected[:12]}; check it and try again"
                )
            return now, writer.replace(data, reason)

        try:
            before, row = self.do_together(work)
            self._snapshots.wait()
        finally:
            self._drop_models()
        logger.warning(
            "%s: model %s was replaced by %s (%s)",
            self.folder,
            before[:12],
            row.digest[:12],
            reason or "-",
        )
        described: dict[str, Any] = self.stats()["model"]
        return described

    def _drop_models(self) -> None:
        """Remove model files that nothing needs: not recovery, and not `replace_back`."""
        with self._queue.lock, suppress(OSError):
            if self._closed:
                return
            numbers = [model.number for model in self._writer.models[1:]]
            needed = [model_file(self.folder, n) for n in numbers if n > self._snapshots.oldest]
            for number in numbers[-1:]:
                needed += [model_file(self.folder, number, before) for before in (False, True)]
            for path in (self.folder / "models").glob("*.safetensors"):
                if path not in needed:
                    path.unlink()

    def replace_back(self, *, reason: str = "") -> dict[str, Any]:
        """The model that the last `replace` has replaced, as it was then: it has not learned what came since."""
        number = self.stats()["model"]["number"]
        path = model_file(self.folder, number, before=True)
        if not path.is_file():
            raise InputError(
                f"{self.folder}: the model was never replaced; there is no earlier model"
            )
        return self.replace(path, reason=reason or f"back to the model before number {number}")

    def made_from(self, file: str | os.PathLike[str]) -> bool:
        """Whether a model file is one that this live model was created from, or that was ever put in its place."""
        data = read_file(file)
        model = model_of_bytes(data, str(file), experts=self.clf.experts_)
        given = [data, model.to_bytes()]
        model._about = {
            name: dict(kept) for name, kept in model.kept_.items() if name != "importances"
        }
        given.append(model.to_bytes())  # a model has importances once it was saved
        digests = {hashlib.sha256(each).hexdigest() for each in given}
        with self._queue.lock:
            return any(row.digest in digests for row in self._writer.models)

    def forget(self, *ids: str) -> Forgotten:
        """Remove events at once: rows, predictions, labels and ids, overwritten in the file; those that were there.

        What the model learned from them, and counts, stay. Where a snapshot still needs such a row, newer ones are
        written before. The journal keeps that an event was forgotten, and when. Copies and exports are not touched.
        While a reader is open, older pages stay in the log: see `Forgotten.pending`.
        """
        with self._queue.lock:
            self._check_open()
            if self._writer.newest_step(ids) > self._snapshots.oldest:
                for _ in range(KEPT):
                    self.snapshot()
            forgotten = Forgotten(self._do(Writer.forget, ids))
            forgotten.pending = self._journal.erasing and not self._journal.erase()
            return forgotten

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def clf(self) -> Model:
        """The model as it is now, to look at. What it learns by itself is not in the journal; and copying or saving it
        does work that it has postponed: recovered from its journal it may then differ in the last digit."""
        return self._writer.clf

    @property
    def scores(self) -> Scores:
        """Running scores, to look at."""
        return self._writer.scores

    def model_of_snapshot(self) -> Model:
        """A model of one's own: that of the newest snapshot on disk."""
        path = self._snapshots.path(self._snapshots.newest_number)
        return load_model(path, experts=self.clf.experts_)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or closed itself since what is on disk could not be read back."""
        return self._closed

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

    def latest(
        self, n: int = 50, *, until: int = LAST, features: bool = False
    ) -> list[dict[str, Any]]:
        """The newest events up to a number, with their labels where they came, perhaps their rows; newest first."""
        if type(n) is not int or n < 0:
            raise InputError(f"latest {n!r}: how many events must be a whole number of at least 0")
        with self._queue.lock:
            self._check_open()
            events = self._journal.events(n, until)
            return [
                event.about() | ({"features": event.features} if features else {})
                for event in events
            ]

    def alarms(self) -> list[dict[str, Any]]:
        """What somebody should look at, and the rule that says so."""
        with self._queue.lock:
            self._check_open()
            return report.raised(self._writer.clf, self._writer.scores, self._writer.history.points)

    def to_bytes(self) -> bytes:
        """The model as it is now, as the content of a model file: that of a snapshot, which is taken."""
        return self._do(Writer.snapshot)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write every event that is kept to a new .jsonl or .parquet file; how many there were. Nobody waits for it."""
        return export(self.folder, path)

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """A copy of everything as it is now, in a new folder that can be opened like this one. Nobody waits for it."""
        copy_folder(self.folder, Path(folder), Journal)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take a snapshot, if something was learned since the last, and let the folder go."""
        with self._queue.lock:
            if self._closed:
                return
            try:
                if self._writer.steps.since and not self._failed:
                    self._do(Writer.snapshot)
            finally:
                self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        self._snapshots.close()
        try:
            self._journal.close()
        finally:
            self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one group of requests ----------------------------------------------------------------------------------

    def _do(self, verb: Callable[Concatenate[Writer, P], T], *args: P.args, **_: P.kwargs) -> T:
        with self._timing.of(verb.__name__):
            result: T = self._queue.do(Request(verb, args))
            return result

    def _work(self, batch: list[Request]) -> None:
        try:
            self._transaction(batch)
        except HedgerowError:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            logger.exception(
                "%s: %d requests together failed: one by one now", self.folder, len(batch)
            )
            for request in batch:
                request.error = None
                try:
                    self._transaction([request])
                except Exception as error:
                    request.error = error

    def _transaction(self, batch: list[Request]) -> None:
        """Requests as one transaction; after an error nothing of it is there."""
        self._check_open()
        writer = self._writer
        journal = self._journal
        try:
            with journal.errors():
                if self._failed:
                    writer.probe()
                    self._failed = False
                execute(writer, batch)
                writer.expire()
                writer.snapshot_if_due()
                writer.prune(self._snapshots.oldest)
                taken = writer.commit()
        except BaseException:
            self._undo()
            raise
        if taken is not None:
            self._snapshots.write_later(*taken)

    def _undo(self) -> None:
        """Back to what is on disk. If even that cannot be read, the model is closed."""
        self._failed = True
        changed = self._writer.changed
        try:
            self._journal.rollback()
            self._snapshots.wait()
            self._read(self._journal.meta("totals"), None if changed else self._writer.steps)
        except BaseException:
            self._let_go()
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the live model in {self.folder} was closed; open it again")


def _awaited(
    verb: Callable[Concatenate[LiveModel, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A verb of `LiveModel` whose object has a `_do` that is awaited: so is what the verb returns."""
    return verb  # type: ignore[return-value]


class AsyncLiveModel:
    """The verbs of a `LiveModel`, to be awaited. One thread works; `Busy` is raised when too much is waiting.

    A request that was cancelled while it waited is done all the same: it may be in the journal.
    """

    predict = _awaited(LiveModel.predict)
    label = _awaited(LiveModel.label)
    label_many = _awaited(LiveModel.label_many)
    predict_then_learn = _awaited(LiveModel.predict_then_learn)

    def __init__(self, live: LiveModel, most_waiting: int = MOST_WAITING) -> None:
        self._live = live
        self.most_waiting = most_waiting

    async def look(self, read: Callable[[LiveModel], T]) -> T:
        """What `read` says of the live model (its stats, say), without keeping the event loop waiting."""
        return await asyncio.get_running_loop().run_in_executor(None, read, self._live)

    async def snapshot(self) -> dict[str, Any]:
        """See `LiveModel.snapshot`."""
        return await self.look(LiveModel.snapshot)

    async def _do(self, verb: Callable[..., T], *args: Any) -> T:
        live = self._live
        if live.waiting >= self.most_waiting:
            raise Busy(f"{live.waiting} requests wait for this model; try again in a moment")
        with live._timing.of(verb.__name__):
            result: T = await live._queue.do_async(Request(verb, args))
            return result
