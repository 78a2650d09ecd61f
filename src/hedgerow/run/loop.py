"""A model on a stream: predict every row, learn where there is a label, write one JSON line each.

An interrupt never tears a block apart: it waits until the block in hand is predicted, learned, committed and written,
and what was learned is saved. Only while waiting for input does it act at once.
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.files import same_file, write_whole
from hedgerow.live import answers
from hedgerow.live.answers import Labelled
from hedgerow.live.rows import labels_together
from hedgerow.live.settings import Settings
from hedgerow.rows import Bad, RowBlock
from hedgerow.rows.json_lines import prediction_lines
from hedgerow.rows.wanted import listed, shown
from hedgerow.run.engine import Engine, InMemory, Journalled, Marks, Said, live_model
from hedgerow.run.feeds import SIZE, Feed, files, wanted_of
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job, called, check
from hedgerow.run.label_file import LabelFile, LateLabels
from hedgerow.run.sinks import Sink, dead_letters, output
from hedgerow.run.tally import Tally, count


# Which model a journal was begun with: the same command must not go on with another one unnoticed.
def mark_of(data: bytes) -> Marks:
    """The mark for the content of a model file."""
    return {"model": hashlib.sha256(data).hexdigest().encode()}


def check_model(job: Job, engine: Engine) -> None:
    """Refuse a model that is not the journal's; take note of it in a new journal."""
    known, given = engine.mark("model"), mark_of(job.model.read_bytes())
    if known is None:
        engine.together(lambda: (None, given))
    elif given["model"] not in known.split():
        raise InputError(
            f"the journal {job.journal} was begun with another model than {job.model} is now; give that model, or "
            "begin another journal"
        )


SHOWN = 20  # bad rows, and new classes, that are named one by one; the rest are counted

Say = Callable[[str], None]
Tell = Callable[[Callable[[], str]], None]


def run(job: Job, say: Say, tell: Tell) -> int:
    """Run the job and return the exit code: 0, also after Ctrl-C and SIGTERM; 141 if nobody reads the output any more.

    A bad row that stops it is raised. Whatever ends the run, what was learned until then is kept.
    """
    check(job)
    with Interrupts() as interrupts:
        engine = _engine(job, say)
        going: Run | None = None
        try:
            with _feed(job, engine, interrupts) as feed:
                going = Run(job, engine, feed, interrupts, say)
                going.follow(tell)
        except Interrupted:
            pass
        except BrokenPipeError:  # whoever read the predictions has gone
            interrupts.signal = signal.SIGPIPE
        finally:
            try:
                if going is not None or interrupts.signal:
                    (going or _Unbegun(job, engine, interrupts, say)).finish()
            finally:
                engine.close()
    return 128 + signal.SIGPIPE if interrupts.signal == signal.SIGPIPE else 0


def _engine(job: Job, say: Say) -> Engine:
    if job.journal is None:
        return InMemory(OnlineTransferClassifier.load(job.model), Settings(**job.settings).max_pending)
    engine = Journalled(live_model(job.journal, job.model, job.settings, job.accept_loss))
    try:
        check_model(job, engine)
    except BaseException:
        engine.close()
        raise
    stats = engine.live.stats()
    if stats["events"]:
        counts = f"{count(stats['events'], 'row')}, {count(stats['labels'], 'label')}"
        say(f"going on with the journal {job.journal}: {counts}")
    return engine


@contextmanager
def _feed(job: Job, engine: Engine, interrupts: Interrupts, size: int = SIZE) -> Iterator[Feed]:
    kept = engine.mark("input")
    if job.on_error == "stop" and job.journal is not None:
        size = 1  # so that the journal knows of the rows before the bad one, and of none after it
    if job.input.startswith("redis://"):
        from hedgerow.run.redis_streams import RedisFeed

        with closing(RedisFeed(job, engine.clf, interrupts)) as feed:
            yield feed
    elif job.input.startswith("kafka://"):
        from hedgerow.run.kafka import KafkaFeed

        with closing(KafkaFeed(job, engine.clf, interrupts, kept)) as feed:
            yield feed
    else:
        with files(job, wanted_of(engine.clf, job), interrupts, kept, size) as feed:
            yield feed


class _Unbegun:
    """A run that was interrupted before its first row."""

    def __init__(self, job: Job, engine: Engine, interrupts: Interrupts, say: Say) -> None:
        self.job, self.engine, self.interrupts, self.say = job, engine, interrupts, say
        self.tally = Tally.of_bytes(engine.mark("tally"))

    def finish(self) -> None:
        """Save, and only then speak: a message that cannot be written must not cost what was learned."""
        save, tally, say = self.job.save, self.tally, self.say
        try:
            if save is not None:
                with self.interrupts.saving():
                    self._save(save)
        finally:
            interrupted = self.interrupts.signal not in (0, signal.SIGPIPE)
            say((f"interrupted after line {tally.line}: " if interrupted else "") + tally.words(self.engine.clf))
        if save is not None:
            say(f"model saved to {save}, after line {tally.line} of the input")
        elif self.job.journal is not None:
            say(f"kept in {self.job.journal}; the same command goes on from here")
        elif tally.labelled:
            say(
                f"not kept: what was learned from {count(tally.labelled, 'label')}; --save FILE keeps it (--save "
                f"{self.job.model} goes on with the same model), and --journal DIR also through a crash"
            )

    def _save(self, path: Path) -> None:
        data = self.engine.to_bytes()
        if not same_file(path, self.job.model):
            write_whole(path, data)
            return
        new = mark_of(data)
        either = {"model": b" ".join([*(self.engine.mark("model") or b"").split()[-1:], new["model"]])}
        self.engine.together(lambda: (None, either))  # whichever of them is there when the process ends
        write_whole(path, data)
        self.engine.together(lambda: (None, new))


class Run(_Unbegun):
    """A run on its way."""

    def __init__(self, job: Job, engine: Engine, feed: Feed, interrupts: Interrupts, say: Say) -> None:
        super().__init__(job, engine, interrupts, say)
        self.feed = feed
        self._output, self._dead = output(job, engine, interrupts), dead_letters(job, engine, interrupts)
        place = engine.mark("labels")
        file = None
        if job.labels is not None and job.id is not None:
            wanted = wanted_of(engine.clf, job)
            before = None if place is None else json.loads(place)
            file = LabelFile(job.labels, job.id, wanted, before, again=job.journal is not None)
        self._file, self._late = file, LateLabels(engine, file, self._learned)
        self._messages: list[str] = []

    # -- the loop -----------------------------------------------------------------------------------------------

    def follow(self, tell: Tell) -> None:
        """Block after block until the end of the input or an interrupt."""
        noticed = False
        try:
            for block in self.feed:
                if self.interrupts.signal:
                    return
                part = self._until_bad(block)
                self._take(part, whole=part is block)
                if part is block:
                    self.feed.acknowledge(block)
                if self.feed.ignored and not noticed:
                    noticed = True
                    hint = "hedgerow fit --new NAME makes a model that learns such a column"
                    hint = hint if self.job.label else "if one of them is the label, name it with --label"
                    self.say(f"ignored columns that the model does not know: {listed(self.feed.ignored)} ({hint})")
                self._speak()
                self._stop_at_bad(block)
                tell(lambda: self.tally.words(self.engine.clf, self.feed.left))
            if not self.interrupts.signal:
                self._last_labels()
        finally:
            self._speak()
            for sink in (self._output, self._dead):
                if sink is not None:
                    sink.close()

    def _take(self, block: RowBlock, whole: bool) -> None:
        """All of a block, in one transaction, then its lines; only a whole one moves the place in the input on."""
        before = self.tally.copy()

        def work() -> tuple[None, Marks]:
            bad = [*block.bad, *self._late.before()]
            lines = self._rows(block, bad)
            for item in block.late:
                result = self._late.give(item)
                if result is None or result.status not in (answers.LEARNED, answers.ALREADY):
                    why = f"no row has the id {item.id!r}" if result is None else result.text or result.status
                    bad.append(Bad(item.line, why, item.id))
            if block.ids is not None:
                bad += self._late.after(block.ids)
            place = {"input": self.feed.place(block)} if whole else {}
            return None, {**place, **self._written(lines, bad, block.file)}

        try:
            self.engine.together(work)
        except BaseException:
            self.tally = before
            raise
        for sink in (self._output, self._dead):
            if sink is not None:
                sink.write()

    def _last_labels(self) -> None:
        """The input has ended: all labels that are left."""
        if self.job.labels is None:
            return
        self.engine.together(lambda: (None, self._written(b"", self._late.before(final=True), str(self.job.labels))))
        if self._dead is not None:
            self._dead.write()
        if self._file is not None and self._file.half is not None:
            self._messages.append(f"{self._file.path}, line {self._file.half}, is not whole yet: left for the next run")

    def _written(self, lines: bytes, bad: list[Bad], file: str) -> Marks:
        marks = self._output.put(lines)
        self._count_bad(bad)
        if self._dead is not None:
            records = ({"file": file, "line": b.line, "reason": b.reason, "row": b.text} for b in bad)
            marks |= self._dead.put("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode())
        if self.job.journal is None:
            return {}  # nobody keeps them
        place = self._late.place()
        return marks | {"tally": self.tally.to_bytes()} | ({} if place is None else {"labels": place})

    # -- rows ---------------------------------------------------------------------------------------------------

    def _rows(self, block: RowBlock, bad: list[Bad]) -> bytes:
        """The lines of all rows; those that were refused join the bad ones."""
        lines = []
        for a, b in self._runs(block):
            labels = None if block.labels is None or (self.feed.late and block.labels[a] is None) else block.labels[a:b]
            part = _Part(block, a, b, labels)
            try:
                lines.append(self._said(part))
            except InputError:
                for i in range(a, b):  # which of them?
                    one = _Part(block, i, i + 1, None if labels is None else labels[i - a : i - a + 1])
                    try:
                        lines.append(self._said(one))
                    except InputError as error:
                        bad.append(Bad(int(block.lines[i]), str(error), "" if one.ids is None else one.ids[0]))
        if len(block.lines):
            self.tally.line = int(block.lines[-1])
        return b"".join(lines)

    def _runs(self, block: RowBlock) -> list[tuple[int, int]]:
        """Rows that can be taken together: where labels may come later, those that have one apart from the others."""
        n = len(block.X)
        if not n:
            return []
        if block.labels is None or not self.feed.late:
            return [(0, n)]
        given = np.array([label is not None for label in block.labels])
        return list(pairwise([0, *(np.flatnonzero(given[1:] != given[:-1]) + 1).tolist(), n]))

    def _said(self, part: _Part) -> bytes:
        known = len(self.engine.clf.classes_)
        ids = part.ids if self.feed.late or self.job.journal is not None else None
        if part.labels is None:
            said = self.engine.predict(part.X, ids)
        else:
            said = self.engine.learn(part.X, part.labels, ids)
        self._new_classes(known, part)
        return self._lines(part, said)

    def _lines(self, part: _Part, said: Said) -> bytes:
        labels, ids, codes, P, rows, lines = part.labels, part.ids, said.codes, said.P, part.rows, part.lines
        if said.new is not None:  # of what was taken before, the lines are written
            keep = np.flatnonzero(said.new)
            self.tally.repeated += len(rows) - len(keep)
            labels = None if labels is None else [labels[i] for i in keep]
            ids = None if ids is None else [ids[i] for i in keep]
            codes, P, rows, lines = codes[keep], P[keep], rows[keep], lines[keep]
        self.tally.rows += len(rows)
        if labels is not None:
            truth = self.engine.clf.codes_of(labels_together(labels))
            self.tally.answered((codes != truth)[truth >= 0].tolist())
        return prediction_lines(rows, lines, codes, said.classes, P, labels=labels, ids=ids, proba=self.job.proba)

    def _learned(self, result: Labelled) -> None:
        self.tally.answered([result.text == "wrong"])

    # -- what is said -------------------------------------------------------------------------------------------

    def _new_classes(self, known: int, part: _Part) -> None:
        for label in self.engine.clf.classes_[known:].tolist():
            self.tally.new_classes += 1
            i = (part.labels or []).index(label)
            remedy = "; --new-classes refuse skips such rows" if self.tally.new_classes == 1 else ""
            text = f"line {part.lines[i]}: label {shown(label)} is a new class{remedy}"
            self._mention(self.tally.new_classes, text, "new classes are learned")

    def _count_bad(self, bad: list[Bad]) -> None:
        for each in bad:
            self.tally.skipped += 1
            self.tally.line = max(self.tally.line, each.line)
            self._mention(self.tally.skipped, f"line {each.line} skipped: {each.reason}", "bad rows are skipped")

    def _mention(self, number: int, text: str, rest: str) -> None:
        if number <= SHOWN:
            self._messages.append(text)
        if number == SHOWN:
            self._messages.append(f"further {rest} silently and counted")

    def _speak(self) -> None:
        messages, self._messages = self._messages, []
        for message in messages:
            self.say(message)

    # -- stopping at a bad row ----------------------------------------------------------------------------------

    def _until_bad(self, block: RowBlock) -> RowBlock:
        """With --on-error stop: the rows before the first bad one."""
        if self.job.on_error != "stop" or not block.bad:
            return block
        first = min(bad.line for bad in block.bad)
        n = int((block.lines < first).sum())
        labels, ids = (None if part is None else part[:n] for part in (block.labels, block.ids))
        return RowBlock(block.rows[:n], block.lines[:n], block.X[:n], labels, ids, [], [], block.end, block.file)

    def _stop_at_bad(self, block: RowBlock) -> None:
        if self.job.on_error == "stop" and block.bad:
            first = min(block.bad, key=lambda bad: bad.line)
            raise InputError(f"{called(self.job.input)}, line {first.line}: {first.reason}")


class _Part:
    """Some rows of a block."""

    def __init__(self, block: RowBlock, a: int, b: int, labels: list[Any] | None) -> None:
        self.rows: Array = block.rows[a:b]
        self.lines: Array = block.lines[a:b]
        self.X: Array = block.X[a:b]
        self.labels = labels
        self.ids = None if block.ids is None else block.ids[a:b]


__all__ = ["Run", "Sink", "run"]
