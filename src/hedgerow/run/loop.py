"""A model on a live stream: predict every row, learn where it has a label, write one JSON line each.

An interrupt never tears a row apart: it waits until the row in hand is predicted, learned and written, and what was
learned is saved. Only while waiting for input does it act at once.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.data.columns import listed, shown
from hedgerow.data.csv_records import BadRow
from hedgerow.data.stream_rows import SUFFIXES, Instance, Rows, Wanted
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.run.files import Write, opened, sink
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job, called, check

SHOWN = 20  # bad rows, and new classes, that are named one by one; the rest are counted

Say = Callable[[str], None]
Tell = Callable[[Callable[[], str]], None]


@dataclass
class Tally:
    """How it went so far."""

    rows: int = 0
    labelled: int = 0
    mistakes: int = 0
    skipped: int = 0
    new_classes: int = 0
    line: int = 0

    def words(self, clf: OnlineTransferClassifier) -> str:
        """The status line: rows, running mistakes, the most trusted expert."""
        parts = [_count(self.rows, "row")]
        if self.labelled:
            share = f"{self.mistakes / self.labelled:.1%}"
            parts.append(f"{_count(self.mistakes, 'mistake')} in {self.labelled} labelled ({share})")
        if len(clf.expert_names_) > 1:
            weights = clf.weights_
            best = int(weights.argmax())
            parts.append(f"most trusted: {clf.expert_names_[best]} ({weights[best]:.0%})")
        if self.new_classes:
            parts.append(_count(self.new_classes, "new class", "new classes"))
        if self.skipped:
            parts.append(f"{_count(self.skipped, 'bad row')} skipped")
        return " · ".join(parts)


def run(job: Job, say: Say, tell: Tell) -> int:
    """Run the job and return the exit code: 0, or 128 + the signal that ended it. A bad row that stops it is raised.

    Whatever ends the run, what was learned until then is saved if `job.save` is set.
    """
    check(job)
    clf = OnlineTransferClassifier.load(job.model)
    started = False
    with opened(job.input) as source, Interrupts() as interrupts:
        going = _Run(job, clf, interrupts, say)
        try:
            rows = _rows(clf, job, interrupts.reading(source))
            with sink(job, interrupts) as write:
                started = True
                going.follow(rows, write, tell)
        except Interrupted:
            pass
        except BrokenPipeError:  # whoever read the predictions has gone
            interrupts.signal = signal.SIGPIPE
        finally:
            if started or interrupts.signal:
                going.finish()
    return 128 + interrupts.signal if interrupts.signal else 0


def _rows(clf: OnlineTransferClassifier, job: Job, lines: Iterable[str]) -> Rows:
    names = getattr(clf, "feature_names_in_", None)
    wanted = Wanted(
        clf.n_features_in_,
        None if names is None else list(map(str, names)),
        job.label,
        clf.classes_,
        new_classes=job.new_classes == "learn",
    )
    try:
        return Rows(lines, wanted, job.format or SUFFIXES.get(Path(job.input).suffix.lower()))
    except InputError as error:
        raise InputError(f"{called(job.input)}: {error}") from error


class _Run:
    """A run on its way."""

    def __init__(self, job: Job, clf: OnlineTransferClassifier, interrupts: Interrupts, say: Say) -> None:
        self.job, self.clf, self.interrupts, self.say = job, clf, interrupts, say
        self.tally = Tally()

    def follow(self, rows: Rows, write: Write, tell: Tell) -> None:
        """Row after row until the end of the input or an interrupt."""
        noticed = False
        for item in rows:
            if self.interrupts.signal:
                return
            self.tally.line = item.line
            record = self._taken(item)
            if record is None:
                continue
            write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
            if rows.ignored and not noticed:
                noticed = True
                hint = "" if self.job.label else " (if one of them is the label, name it with --label)"
                self.say(f"ignored columns that the model does not know: {listed(rows.ignored)}{hint}")
            tell(lambda: self.tally.words(self.clf))

    def _taken(self, item: Instance | BadRow) -> dict[str, Any] | None:
        """The record of a row that is predicted and learned now; None if it is a bad one."""
        tally, known = self.tally, len(self.clf.classes_)
        try:
            if isinstance(item, BadRow):
                raise InputError(item.reason)
            record = _record(self.clf, item, self.job)
        except InputError as error:
            if self.job.on_error == "stop":
                raise InputError(f"{called(self.job.input)}, line {item.line}: {error}") from error
            tally.skipped += 1
            self._mention(tally.skipped, f"line {item.line} skipped: {error}", "bad rows are skipped")
            return None
        tally.rows += 1
        if "correct" in record:
            tally.labelled += 1
            tally.mistakes += not record["correct"]
        if len(self.clf.classes_) > known:
            tally.new_classes += 1
            remedy = "; --new-classes refuse skips such rows" if tally.new_classes == 1 else ""
            text = f"line {item.line}: label {shown(item.label)} is a new class{remedy}"
            self._mention(tally.new_classes, text, "new classes are learned")
        return record

    def _mention(self, count: int, text: str, rest: str) -> None:
        if count <= SHOWN:
            self.say(text)
        if count == SHOWN:
            self.say(f"further {rest} silently and counted")

    def finish(self) -> None:
        """Save, and only then speak: a message that cannot be written must not cost what was learned."""
        save, tally, say = self.job.save, self.tally, self.say
        try:
            if save is not None:
                with self.interrupts.saving():
                    _save(self.clf, save)
        finally:
            interrupted = self.interrupts.signal not in (0, signal.SIGPIPE)
            say((f"interrupted after line {tally.line}: " if interrupted else "") + tally.words(self.clf))
        if save is not None:
            say(f"model saved to {save}, after line {tally.line} of the input")
        elif tally.labelled:
            say(
                f"not kept: what was learned from {_count(tally.labelled, 'label')}; "
                f"--save FILE keeps it (--save {self.job.model} goes on with the same model)"
            )


def _save(clf: OnlineTransferClassifier, path: Path) -> None:
    try:
        clf.save(path)
    except OSError as error:
        raise InputError(f"cannot save to {path}: {error.strerror or error}") from error


def _record(clf: OnlineTransferClassifier, item: Instance, job: Job) -> dict[str, Any]:
    """Predict, then learn; a row whose label is refused is neither, and without a label column nothing is learned."""
    p = clf.predict_proba_one(item.x)
    if job.label is not None:
        clf.learn_one(item.x, item.label)
    prediction = max(p, key=p.__getitem__)
    record = {"row": item.row, "line": item.line, "prediction": prediction, "probability": round(p[prediction], 6)}
    if job.proba:
        record["probabilities"] = {str(label): round(value, 6) for label, value in p.items()}
    if item.label is not None:
        record |= {"label": item.label, "correct": bool(prediction == item.label)}
    return record


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
