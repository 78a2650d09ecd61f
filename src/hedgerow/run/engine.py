"""What predicts and learns during a run: a live model with its journal, or a model in memory with the same verbs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import count
from hedgerow.events import Clock, Limits, MemoryLedger, digest_of
from hedgerow.live import Settings
from hedgerow.live.engine import Engine, Rows
from hedgerow.live.journal import Journal, Steps
from hedgerow.live.model import LiveModel
from hedgerow.live.report import scores_of
from hedgerow.live.writer import Writer
from hedgerow.regressor import load_model
from hedgerow.run.job import Job
from hedgerow.run.report import Say
from hedgerow.store import on_error
from hedgerow.task import CLASSES, Model, Predicted, task_of

T = TypeVar("T")


class InMemory(MemoryLedger, Engine):
    """A model alone, and its own writer. What it learned is lost with the process, unless the run saves it.

    Rows without an id are not kept.
    """

    keeps_all = False

    def __init__(self, clf: Model, limits: Limits) -> None:
        super().__init__(limits)
        self.steps = Steps(clf)
        self.scores = scores_of(self.steps.task, {})
        self.clock = Clock()

    def do_together(self, work: Callable[[InMemory], T]) -> T:
        """Work, then let events expire."""
        result = work(self)
        self.expire()
        if len(self.resolved) > self.limits.keep_events:
            self.forget()
        return result

    def mark(self, name: str) -> bytes | None:
        """What an earlier run kept: nothing."""
        return None

    def set_mark(self, name: str, value: bytes) -> None:
        """Nothing is kept."""

    def to_bytes(self) -> bytes:  # type: ignore[override]
        """The model as the content of a file."""
        return self.clf.to_bytes()

    def close(self) -> None:
        """Nothing is kept."""

    def scale_at(self, number: int) -> list[Any]:
        """The classes, by code, or the coverages of the model, which is always the same one."""
        return self.task.scale(self.clf)

    def _labels(self, y: Any) -> list[Any]:
        return list(y)  # as they were read

    def number_of(self, key: str) -> int:
        """The number of the event of an id."""
        return self.pending[key].number

    def _add(
        self, rows: Rows, predicted: Predicted, now: float, known: str | None, waits: bool
    ) -> list[str]:
        ids = [id for id in rows.ids if id is not None]
        for id, code, P, data in zip(
            ids, predicted.codes.tolist(), predicted.P, rows.data, strict=False
        ):
            event = self.add(id, now, code, float(P[code]), data, digest_of(data), P)
            event.known = known
        return ids

    def _resolve(
        self, kind: str, keys: list[str], labels: list[Any], right: Sequence[bool | None] | Array
    ) -> None:
        for id, label in zip(keys, labels, strict=False):  # without ids there are no events
            self.resolve(self.pending[id], label)

    def _data_of(self, key: str) -> bytes:
        return bytes(self.pending[key].row)


RunEngine = (
    LiveModel | InMemory
)  # opened for a run: `do_together`, `mark`, `clf`, `to_bytes`, `close`
RunWriter = (
    Writer | InMemory
)  # within `do_together`: `predict_rows`, `learn_rows`, `label`, `set_mark`, `scores`


def model_mark(data: bytes) -> bytes:
    """Which model a journal was begun with: the same command must not go on with another one unnoticed."""
    return hashlib.sha256(data).hexdigest().encode()


def _checked(model: Model, job: Job) -> Model:
    if task_of(model) is not CLASSES and (job.proba or job.new_classes != "learn"):
        raise InputError(
            f"--proba and --new-classes are about classes, and {job.model} predicts numbers"
        )
    return model


def open_engine(job: Job, say: Say) -> RunEngine:
    """The model of a file; or the live model of a folder, which is created with it. Stored settings stay."""
    if job.journal is not None and (job.journal / Journal.FILE).exists():
        live = LiveModel.open(job.journal, job.settings, accept_loss=job.accept_loss)
    else:
        model = load_model(job.model)
        if job.journal is None:
            return InMemory(_checked(model, job), Settings(**job.settings))
        live = LiveModel.create(job.journal, _checked(model, job), Settings(**job.settings))
    with on_error(live.close):
        known = live.mark("model")
        given = model_mark(job.model.read_bytes())
        if known is None:
            live.do_together(lambda writer: writer.set_mark("model", given))
        elif given not in known.split() and not live.made_from(job.model):
            raise InputError(
                f"the journal {job.journal} was started with another model than {job.model} is now; give that model, "
                f"replace the journal's (hedgerow replace {job.journal} {job.model}), or start another journal"
            )
    if live.scores.events:
        counts = f"{count(live.scores.events, 'row')}, {count(live.scores.labels, 'label')}"
        say(f"going on with the journal {job.journal}: {counts}")
    return live
