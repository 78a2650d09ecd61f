"""A model on a live stream: predict every row, learn where it has a label, write one JSON line each.

An interrupt never tears a row apart: it waits until the row in hand is predicted, learned and written, and what was
learned is saved. Only while waiting for input does it act at once.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from hedgerow.cli.interrupts import Interrupts
from hedgerow.core.errors import InputError, unknown
from hedgerow.data.stream_rows import SUFFIXES, BadRow, Instance, Rows, Wanted
from hedgerow.estimator import OnlineTransferClassifier

ON_ERROR = ("skip", "stop")
SHOWN = 20  # bad rows that are named one by one; the rest are counted
FLUSH_EVERY = 1.0  # seconds, for files; a pipe gets every line at once

Say = Callable[[str], None]
Tell = Callable[[Callable[[], str]], None]


@dataclass(frozen=True)
class Job:
    """What to run: paths ("-" is stdin or stdout), the label column if there is one, what to do with a bad row."""

    model: Path
    input: str
    output: str
    label: str | None = None
    save: Path | None = None
    on_error: str = "skip"
    format: str | None = None
    proba: bool = False


@dataclass
class Tally:
    """How it went so far."""

    rows: int = 0
    labelled: int = 0
    mistakes: int = 0
    skipped: int = 0
    line: int = 0

    def words(self, clf: OnlineTransferClassifier) -> str:
        """The status line: rows, running mistakes, the most trusted expert."""
        parts = [f"{self.rows} rows"]
        if self.labelled:
            parts.append(f"{self.mistakes} mistakes in {self.labelled} labelled ({self.mistakes / self.labelled:.1%})")
        if len(clf.expert_names_) > 1:
            weights = clf.weights_
            best = int(weights.argmax())
            parts.append(f"most trusted: {clf.expert_names_[best]} ({weights[best]:.0%})")
        if self.skipped:
            parts.append(f"{self.skipped} bad rows skipped")
        return " · ".join(parts)


def run(job: Job, say: Say, tell: Tell) -> int:
    """Run the job and return the exit code: 0, or 128 + the signal that ended it. A bad row that stops it is raised.

    Whatever ends the run, what was learned until then is saved if `job.save` is set.
    """
    clf = _prepare(job)
    tally = Tally()
    started = False
    with Interrupts() as interrupts, _opened(job.input) as source:
        try:
            names = getattr(clf, "feature_names_in_", None)
            wanted = Wanted(
                clf.n_features_in_, None if names is None else list(map(str, names)), job.label, clf.classes_
            )
            format = job.format or SUFFIXES.get(Path(job.input).suffix.lower())
            rows = _rows(interrupts.lines(source), wanted, format, job.input)
            with _sink(job) as write:
                started = True
                _follow(clf, rows, tally, job, write, say, tell)
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:  # whoever read the predictions has gone
            interrupts.signal = signal.SIGPIPE
        finally:
            ended = f"interrupted after line {tally.line}: " if interrupts.signal not in (0, signal.SIGPIPE) else ""
            if started or interrupts.signal:
                say(ended + tally.words(clf))
                _save(clf, job, tally, say)
    return 128 + interrupts.signal if interrupts.signal else 0


def _prepare(job: Job) -> OnlineTransferClassifier:
    """The model, after everything that can be checked before the first row."""
    if job.on_error not in ON_ERROR:
        raise unknown("choice for --on-error", job.on_error, ON_ERROR)
    clf = OnlineTransferClassifier.load(job.model)
    if job.input != "-" and not Path(job.input).is_file():
        raise InputError(f"no input file at {job.input}; give a .csv or .jsonl file, or - for standard input")
    if job.save is not None and not job.save.resolve().parent.is_dir():
        raise InputError(f"cannot save to {job.save}: the folder {job.save.parent} does not exist")
    if job.output != "-" and Path(job.output).exists():
        for other in (job.input, str(job.model), str(job.save)):
            if Path(other).exists() and os.path.samefile(other, job.output):
                raise InputError(f"--output {job.output} would overwrite {other}; choose another name")
    return clf


def _save(clf: OnlineTransferClassifier, job: Job, tally: Tally, say: Say) -> None:
    if job.save is not None:
        clf.save(job.save)
        say(f"model saved to {job.save}, after line {tally.line} of the input")


def _rows(lines: Iterator[str], wanted: Wanted, format: str | None, name: str) -> Rows:
    try:
        return Rows(lines, wanted, format)
    except InputError as error:
        raise InputError(f"{_called(name)}: {error}") from error


def _follow(
    clf: OnlineTransferClassifier,
    rows: Rows,
    tally: Tally,
    job: Job,
    write: Callable[[str], None],
    say: Say,
    tell: Tell,
) -> None:
    noticed = False
    for item in rows:
        tally.line = item.line
        try:
            if isinstance(item, BadRow):
                raise InputError(item.reason)
            record = _record(clf, item, job.proba)
        except InputError as error:
            if job.on_error == "stop":
                raise InputError(f"{_called(job.input)}, line {item.line}: {error}") from error
            tally.skipped += 1
            _say_skipped(say, item.line, error, tally.skipped)
            continue
        write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
        tally.rows += 1
        if "correct" in record:
            tally.labelled += 1
            tally.mistakes += not record["correct"]
        if rows.ignored and not noticed:
            noticed = True
            say(f"ignored columns that the model does not know: {', '.join(map(str, rows.ignored))}" + _hint(job))
        tell(lambda: tally.words(clf))


def _record(clf: OnlineTransferClassifier, item: Instance, proba: bool) -> dict[str, Any]:
    """Predict, then learn; a row whose label is refused is neither."""
    p = clf.predict_proba_one(item.x)
    prediction = max(p, key=p.__getitem__)
    record = {"row": item.row, "line": item.line, "prediction": prediction, "probability": round(p[prediction], 6)}
    if proba:
        record["probabilities"] = {str(label): round(value, 6) for label, value in p.items()}
    if item.label is not None:
        clf.learn_one(item.x, item.label)
        record |= {"label": item.label, "correct": bool(prediction == item.label)}
    return record


def _hint(job: Job) -> str:
    return "" if job.label else " (if one of them is the label, name it with --label)"


def _say_skipped(say: Say, line: int, error: InputError, count: int) -> None:
    if count <= SHOWN:
        say(f"line {line} skipped: {error}")
    if count == SHOWN:
        say("further bad rows are skipped silently and counted")


def _called(name: str) -> str:
    return "standard input" if name == "-" else name


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    # Bytes that are not UTF-8 become a bad row with its line number instead of the end of the stream.
    with open(
        0 if name == "-" else name, encoding="utf-8-sig", errors="surrogateescape", newline="", closefd=name != "-"
    ) as f:
        yield f


@contextmanager
def _sink(job: Job) -> Iterator[Callable[[str], None]]:
    """Where the lines go: a regular file is flushed every second, anything that may be read live at every line."""
    try:
        file = open(1 if job.output == "-" else job.output, "w", encoding="utf-8", closefd=job.output != "-")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot write to {job.output}: {error.strerror}") from error
    live = not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    flushed = time.monotonic()

    def write(line: str) -> None:
        nonlocal flushed
        file.write(line)
        if live or time.monotonic() - flushed > FLUSH_EVERY:
            file.flush()
            flushed = time.monotonic()

    try:
        yield write
    finally:
        file.close()
