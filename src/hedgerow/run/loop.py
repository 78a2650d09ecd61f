"""A model on a stream: predict every row, learn where there is a label, write one JSON line each.

A block of rows goes from the source through the engine to the sinks (`Run.follow`, `Run._take`). An interrupt never
tears a block apart: it waits until the block in hand is predicted, learned, committed and written, and what was learned
is saved. Only while waiting for input does it act at once.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import count, shown
from hedgerow.files import same_file, write_whole
from hedgerow.findings import check_first_labels, check_stream
from hedgerow.live.engine import Encoded
from hedgerow.rows import Bad, RowBlock
from hedgerow.rows.wanted import listed
from hedgerow.run.engine import RunEngine, RunWriter, model_mark, open_engine
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job, called, check
from hedgerow.run.report import Say, Tally, prediction_lines
from hedgerow.run.sinks import open_sinks
from hedgerow.run.sources import LateLabels, Source, open_source
from hedgerow.task import CLASSES, task_of

SHOWN = 20  # bad rows, and new classes, that are named one by one; the rest are counted
Tell = Callable[[Callable[[], str]], None]


def run(job: Job, say: Say, tell: Tell) -> int:
    """Run the job and return the exit code: 0, also after Ctrl-C and SIGTERM; 141 if nobody reads the output any more.

    A bad row that stops it is raised. Whatever ends the run, what was learned until then is kept.
    """
    check(job)
    with Interrupts() as interrupts, closing(open_engine(job, say)) as engine:
        going = Run(job, engine, interrupts, say)
        begun = False
        try:
            with closing(open_source(job, engine, interrupts, say)) as source:
                begun = True
                going.follow(source, tell)
        except Interrupted:
            pass
        except BrokenPipeError:  # whoever read the predictions has gone
            interrupts.signal = signal.SIGPIPE
        finally:
            if begun or interrupts.signal:
                going.finish()
    return 128 + signal.SIGPIPE if interrupts.signal == signal.SIGPIPE else 0


class Run:
    """A run on its way."""

    def __init__(self, job: Job, engine: RunEngine, interrupts: Interrupts, say: Say) -> None:
        self.job = job
        self.engine = engine
        self.interrupts = interrupts
        self.say = say
        self.tally = Tally(**json.loads(engine.mark("tally") or b"{}"))
        self._since = time.monotonic(), self.tally.rows
        self._messages: list[str] = []
        self._reasons: Counter[str] = (
            Counter()
        )  # of bad rows: equal ones are counted, and said at the end

    def follow(self, source: Source, tell: Tell) -> None:
        """Block after block until the end of the input or an interrupt."""
        self._source = source
        self._late = LateLabels(self.job, self.engine)
        self._sinks = open_sinks(self.job, self.engine, self.interrupts)
        noticed = False
        try:
            for block in source:
                if self.interrupts.signal:
                    return
                if block.bad and self.job.on_error == "stop":
                    raise InputError(
                        f"{called(self.job.input)}, line {block.bad[0].line}: {block.bad[0].reason}"
                    )
                try:
                    self._together(partial(self._take, block=block))
                except (ArithmeticError, LookupError, TypeError) as error:
                    raise HedgerowError(
                        f"{called(self.job.input)}, after line {self.tally.line}: internal error "
                        f"({type(error).__name__}: {error}); later rows were not learned"
                    ) from error
                source.acknowledge(block)
                if not noticed and (ignored := source.ignored()):
                    noticed = True
                    hint = "hedgerow fit --column new=NAME makes a model that learns such a column"
                    hint = (
                        hint
                        if self.job.label
                        else "if one of them is the label, name it with --label"
                    )
                    self.say(
                        f"ignored columns that the model does not know: {listed(ignored)} ({hint})"
                    )
                self._speak()
                tell(lambda: self._words(source.left))
            if not self.interrupts.signal and self._late.file is not None:
                self._together(self._last_labels)
        finally:
            self._speak()
            for sink in self._sinks:
                sink.close()

    def _together(self, work: Callable[[RunWriter], None]) -> None:
        """Work in one transaction, then write its lines."""
        before = replace(self.tally)
        try:
            self.engine.do_together(work)
        except BaseException:
            self.tally = before
            raise
        for sink in self._sinks:
            sink.write()

    def _take(self, writer: RunWriter, block: RowBlock) -> None:
        """All of a block."""
        if not self.tally.rows and not self.engine.scores.events and len(block.X):
            self._check_first(block)
        bad = [*block.bad, *self._late.before(writer)]
        lines = self._rows(writer, block, bad)
        for item in block.late:
            bad += self._late.in_stream(writer, item)
        bad += self._late.after(writer, block.ids or ())
        writer.set_mark("input", self._source.place(block))
        self._put(writer, lines, bad, block.file)

    def _check_first(self, block: RowBlock) -> None:
        """Refuse a stream of other columns or labels than the model's before anything is learned of it."""
        model = self.engine.clf
        if model.table_ is not None:
            check_stream(model.table_, block.X, model.kept_.get("importances", {}))
        if task_of(model) is CLASSES and self.job.new_classes == "learn":
            check_first_labels(block.labels or [], self._classes)

    def _last_labels(self, writer: RunWriter) -> None:
        """The input has ended: all labels that are left."""
        file = self._late.file
        assert file is not None
        self._put(writer, b"", self._late.before(writer, final=True), str(file.path))
        if file.half is not None:
            self._messages.append(
                f"{file.path}, line {file.half}, is not complete yet: left for the next run"
            )

    def _put(self, writer: RunWriter, lines: bytes, bad: list[Bad], file: str) -> None:
        """Lines and bad rows; what the journal keeps of them, of the counts and of the labels that were read."""
        self._count_bad(bad)
        records = ({"file": file, "line": b.line, "reason": b.reason, "row": b.text} for b in bad)
        letters = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        marks = {"tally": self.tally.to_bytes(), **self._late.marks()}
        for sink, data in zip(self._sinks, (lines, letters.encode()), strict=False):
            marks |= sink.put(data)
        for name, value in marks.items():
            writer.set_mark(name, value)

    # -- rows ---------------------------------------------------------------------------------------------------

    def _rows(self, writer: RunWriter, block: RowBlock, bad: list[Bad]) -> bytes:
        """The lines of all rows; those that were refused join the bad ones."""
        lines = []
        for part in self._parts(block):
            try:
                lines.append(self._lines(writer, part))
            except InputError:
                for one in (part.part(i, i + 1) for i in range(len(part.X))):  # which of them?
                    try:
                        lines.append(self._lines(writer, one))
                    except InputError as error:
                        bad.append(
                            Bad(
                                int(one.lines[0]), str(error), "" if one.ids is None else one.ids[0]
                            )
                        )
        if len(block.lines):
            self.tally.line = int(block.lines[-1])
        return b"".join(lines)

    def _parts(self, block: RowBlock) -> list[RowBlock]:
        """Rows that are taken together: where labels may come later, those that have one apart from the others."""
        if block.labels is None or not self._source.late or not len(block.X):
            return [block] if len(block.X) else []
        given = np.array([label is not None for label in block.labels])
        edges = [0, *(np.flatnonzero(given[1:] != given[:-1]) + 1).tolist(), len(given)]
        parts = [block.part(a, b) for a, b in pairwise(edges)]
        return [
            part if given[a] else replace(part, labels=None)
            for a, part in zip(edges, parts, strict=False)
        ]

    def _lines(self, writer: RunWriter, part: RowBlock) -> bytes:
        """Predict rows, and learn their labels, if they have some."""
        before = len(self._classes)
        ids = part.ids
        labels = part.labels
        rows = part.rows
        lines = part.lines
        keys = ids if self._source.late or self.job.journal is not None else None
        X: Any = part.X if part.cells is None else Encoded(part.X, part.cells)
        taken = (
            writer.predict_rows(X, keys) if labels is None else writer.learn_rows(X, labels, keys)
        )
        classes = self._classes
        self._note_new_classes(classes[before:], part)
        if any(taken.known):  # of what was taken before, the lines are written
            new = [i for i, event in enumerate(taken.known) if event is None]
            self.tally.repeated += len(rows) - len(new)
            labels, ids = (
                None if each is None else [each[i] for i in new] for each in (labels, ids)
            )
            rows = rows[new]
            lines = lines[new]
        self.tally.rows += len(rows)
        if not len(rows):
            return b""
        codes, P = taken.predicted[:2]
        codes = writer.task.decided(self.engine.clf, codes, P)
        return prediction_lines(
            rows, lines, codes, classes, P, labels=labels, ids=ids, proba=self.job.proba,
            task=writer.task.name,
        )  # fmt: skip

    @property
    def _classes(self) -> list[Any]:
        """Those of the model; a regressor has none."""
        model = self.engine.clf
        return task_of(model).classes(model).tolist()  # type: ignore[no-any-return]

    def _words(self, left: float | None = None) -> str:
        model = self.engine.clf
        return self.tally.words(
            model, task_of(model).scale(model), self.engine.scores, *self._since, left
        )

    # -- what is said -------------------------------------------------------------------------------------------

    def _note_new_classes(self, new: list[Any], part: RowBlock) -> None:
        for label in new:
            self.tally.new_classes += 1
            i = (part.labels or []).index(label)
            remedy = "; --new-classes refuse skips such rows" if self.tally.new_classes == 1 else ""
            text = f"line {part.lines[i]}: label {shown(label)} is a new class{remedy}"
            self._mention(self.tally.new_classes, text, "new classes are learned")

    def _count_bad(self, bad: list[Bad]) -> None:
        for each in bad:
            self.tally.skipped += 1
            self.tally.line = max(self.tally.line, each.line)
            self._reasons[each.reason] += 1
            if self._reasons[each.reason] == 1:
                text = f"line {each.line} skipped: {each.reason}"
                self._mention(len(self._reasons), text, "bad rows are skipped")

    def _mention(self, number: int, text: str, rest: str) -> None:
        if number <= SHOWN:
            self._messages.append(text)
        if number == SHOWN:
            self._messages.append(f"further {rest} silently and counted")

    def _speak(self) -> None:
        messages = self._messages
        self._messages = []
        for message in messages:
            self.say(message)

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Save, and only then speak: a message that cannot be written must not cost what was learned."""
        save = self.job.save
        tally = self.tally
        say = self.say
        labels = self.engine.scores.labels
        try:
            if save is not None:
                with self.interrupts.saving():
                    self._save(save)
        finally:
            interrupted = self.interrupts.signal not in (0, signal.SIGPIPE)
            begin = f"interrupted after line {tally.line}: " if interrupted else ""
            for reason, number in self._reasons.most_common(SHOWN):
                if number > 1:
                    say(f"{number} rows skipped: {reason}")
            say(begin + self._words())
        if save is not None:
            say(f"model saved to {save}, after line {tally.line} of the input")
        elif self.job.journal is not None:
            say(f"kept in {self.job.journal}; the same command continues from here")
        elif labels:
            say(
                f"not kept: what was learned from {count(labels, 'label')}; --save FILE keeps it (--save "
                f"{self.job.model} goes on with the same model), and --journal DIR also through a crash"
            )

    def _save(self, path: Path) -> None:
        data = self.engine.to_bytes()
        if not same_file(path, self.job.model):
            write_whole(path, data)
            return
        new = model_mark(data)
        before = (self.engine.mark("model") or b"").split()[-1:]
        either = b" ".join([*before, new])  # whichever of them is there when the process ends
        self.engine.do_together(lambda writer: writer.set_mark("model", either))
        write_whole(path, data)
        self.engine.do_together(lambda writer: writer.set_mark("model", new))
