"""What `hedgerow run` is asked to do, and all that can be refused before the model is loaded or a file is touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError, unknown
from hedgerow.files import check_writable, same_file
from hedgerow.live.journal import Journal
from hedgerow.rows.inputs import FORMATS

ON_ERROR = ("skip", "stop")
NEW_CLASSES = ("learn", "refuse")
BROKERS = ("redis://", "kafka://")


@dataclass(frozen=True)
class Job:
    """What to run: paths ("-" is stdin or stdout), the label column if there is one, what to do with a bad row.

    `new_classes` says what becomes of a label that the model does not know; `append` and `overwrite` what becomes of an
    output file that has content already. `labels` is a file of labels by `id`; `journal` the folder of a live model.
    """

    model: Path
    input: str
    output: str
    label: str | None = None
    save: Path | None = None
    on_error: str = "skip"
    format: str | None = None
    proba: bool = False
    new_classes: str = "learn"
    append: bool = False
    overwrite: bool = False
    id: str | None = None
    labels: Path | None = None
    journal: Path | None = None
    dead_letter: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # those of the live model that were asked for
    accept_loss: bool = False
    group: str = "hedgerow"

    @property
    def is_broker(self) -> bool:
        """Whether rows come from a broker."""
        return self.input.startswith(BROKERS)

    @property
    def is_pipe(self) -> bool:
        """Whether rows come from standard input or a named pipe."""
        path = Path(self.input)
        return self.input == "-" or (not self.is_broker and path.exists() and stat.S_ISFIFO(os.stat(path).st_mode))

    @property
    def dead_letter_file(self) -> Path | None:
        """Where rows go that cannot be used: as asked, else beside the output file."""
        if self.dead_letter is not None or not is_file(self.output):
            return self.dead_letter
        return Path(f"{self.output}.bad.jsonl")


def is_file(output: str) -> bool:
    """Whether an output is a regular file, or will be one."""
    path = Path(output)
    return output != "-" and not output.startswith(BROKERS) and (path.is_file() or not path.exists())


def called(name: str) -> str:
    """An input as it is called in a message."""
    return "standard input" if name == "-" else name


def check(job: Job) -> None:
    """Refuse what cannot work, or would destroy something, before anything is opened."""
    _check_choices(job)
    if not job.model.is_file():
        raise InputError(f"no model file at {job.model}; `hedgerow fit` makes one")
    _check_live(job)
    _check_distinct(job)
    if not job.output.startswith(BROKERS):
        _check_output(job)
    if job.save is not None:
        check_writable(job.save, job.model.stat().st_size)


def _check_live(job: Job) -> None:
    if job.labels is not None and job.id is None:
        raise InputError("--labels gives labels by id: name the id column of the rows with --id")
    if job.labels is not None and job.label is not None:
        raise InputError("--label says that labels stand in the rows, --labels that they come in a file: which is it?")
    if job.labels is not None and not job.labels.is_file():
        raise InputError(f"no file of labels at {job.labels}")
    if job.journal is None:
        for asked, option in (
            (job.is_broker, f"--input {job.input}"),
            (job.output.startswith(BROKERS), f"--output {job.output}"),
        ):
            if asked:
                raise InputError(f"{option} needs --journal DIR: what a broker was told is done must be on disk")
        if job.accept_loss:
            raise InputError("--accept-loss is about a journal: name it with --journal")
    elif job.append or job.overwrite:
        raise InputError(
            "--append and --overwrite are for runs without a journal, which itself knows what the output has"
        )
    if job.output.startswith("kafka://"):
        raise InputError(f"--output {job.output}: predictions go to a file, to -, or to redis://HOST/STREAM")


def _check_choices(job: Job) -> None:
    for option, value, choices in (
        ("--on-error", job.on_error, ON_ERROR),
        ("--new-classes", job.new_classes, NEW_CLASSES),
        ("--format", job.format or FORMATS[0], FORMATS),
    ):
        if value not in choices:
            raise unknown(f"choice for {option}", value, choices)
    if job.new_classes == "refuse" and job.label is None and job.labels is None:
        raise InputError("--new-classes refuse is about labels: name their column with --label")
    if job.append and job.overwrite:
        raise InputError("--append and --overwrite exclude each other: keep what the output file has, or drop it?")
    if job.output == "-" and (job.append or job.overwrite):
        raise InputError("--append and --overwrite are for an output file; standard output has nothing to keep")


def _check_distinct(job: Job) -> None:
    """Every file that is written is another one than all that are read, and than the others that are written.

    Only the model may be saved over the model that was read.
    """
    read: dict[str, str | Path | None] = {
        f"the input, {called(job.input)}": _file_of(job.input, 0),
        f"the model, {job.model}": str(job.model),
        f"the labels, {job.labels}": job.labels,
        f"the journal in {job.journal}": None if job.journal is None else job.journal / Journal.FILE,
    }
    output, dead = _file_of(job.output, 1), job.dead_letter_file
    written = (
        (f"--output {job.output}", output, f"the predictions of --output {job.output}"),
        (f"--dead-letter {dead}", dead, f"the bad rows of --dead-letter {dead}"),
        (f"--save {job.save}", job.save, ""),
    )
    for option, path, content in written:
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            continue  # nothing is kept in a pipe, a terminal, /dev/null
        for what, other in read.items():
            if other and same_file(path, other) and not (path == job.save and what.startswith("the model")):
                raise InputError(f"{option} would overwrite {what}; choose another name")
        read[content] = path


def _file_of(name: str, descriptor: int) -> str | None:
    """The path of a file; for "-", of the regular file that a shell has put there, if it is one."""
    if name.startswith(BROKERS):
        return None
    if name != "-":
        return name
    link = f"/dev/fd/{descriptor}"
    return link if os.path.exists(link) and stat.S_ISREG(os.stat(link).st_mode) else None


def _check_output(job: Job) -> None:
    path = Path(job.output)
    if job.output == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # a stream: a pipe, a terminal, /dev/null
    begun = job.journal is not None and (job.journal / Journal.FILE).exists()  # then the journal knows the output
    if path.is_file() and path.stat().st_size and not (job.append or job.overwrite or begun):
        more = "" if job.journal is None else "; a new journal begins a new output"
        raise InputError(f"{job.output} has content already: --append adds to it, --overwrite replaces it{more}")
    if not path.is_file():
        check_writable(path)
    else:
        try:
            path.open("ab").close()
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror}") from error
