"""All that can be refused of what `hedgerow run` is asked to do, before the model is loaded or a file is touched."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError, unknown
from hedgerow.files import check_writable, same_file
from hedgerow.live.journal import Journal
from hedgerow.rows.inputs import FORMATS, Files, format_of, is_pattern
from hedgerow.run import BROKERS as BROKERS
from hedgerow.run import Job as Job

ON_ERROR = ("skip", "stop")
NEW_CLASSES = ("learn", "refuse")


def called(name: str) -> str:
    """An input or output as it is called in a message, without user, password and properties.

    >>> called("-"), called("rediss://me:secret@host:6380/rows?ssl_ca_certs=ca.pem")
    ('standard input', 'rediss://host:6380/rows')
    """
    if not name.startswith(BROKERS):
        return "standard input" if name == "-" else name
    parts = urlsplit(name)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def check(job: Job) -> None:
    """Refuse what cannot work, or would destroy something, before anything is opened."""
    for option, value, choices in (
        ("--on-error", job.on_error, ON_ERROR),
        ("--new-classes", job.new_classes, NEW_CLASSES),
        ("--format", job.format or FORMATS[0], FORMATS),
    ):
        if value not in choices:
            raise unknown(f"choice for {option}", value, choices)
    broker = next((url for url in (job.input, job.output) if url.startswith(BROKERS)), None)
    keeps = job.append or job.overwrite
    without_journal = job.journal is None
    if job.new_classes == "refuse" and job.label is None and job.labels is None:
        raise InputError("--new-classes refuse is about labels: name their column with --label")
    if job.append and job.overwrite:
        raise InputError("--append and --overwrite exclude each other: give one of them")
    if keeps and (job.output == "-" or not without_journal):
        raise InputError(
            "--append and --overwrite are for an output file of a run without a journal, not for standard output"
        )
    if job.labels is not None and job.id is None:
        raise InputError("--labels gives labels by id: name the id column of the rows with --id")
    if job.labels is not None and job.label is not None:
        raise InputError(
            "--label is for labels in the rows, --labels for labels in a file: give one of them"
        )
    if job.labels is not None and not job.labels.is_file():
        raise InputError(f"no file of labels at {job.labels}")
    if broker is not None and without_journal:
        raise InputError(
            f"{called(broker)} needs --journal DIR: what is acknowledged to a broker must be on disk"
        )
    if job.accept_loss and without_journal:
        raise InputError("--setting accept_loss is about a journal: name it with --journal")
    if job.output.startswith("kafka://"):
        raise InputError(
            f"--output {called(job.output)}: predictions go to a file, to -, or to redis://HOST/STREAM"
        )
    if not job.model.is_file():
        raise InputError(f"no model file at {job.model}; `hedgerow fit` makes one")
    _check_distinct(job)
    if not job.output.startswith(BROKERS):
        _check_output(job)
    if job.save is not None:
        check_writable(job.save, job.model.stat().st_size)


def _check_distinct(job: Job) -> None:
    """Every file that is written is another one than all that are read, and than the others that are written.

    Only the model may be saved over the model that was read.
    """
    inputs = [_regular(job.input, 0)] if job.is_pipe else []
    if not job.is_pipe and not job.input.startswith(BROKERS):
        inputs = list(map(str, Files.of(job.input, job.format).paths))
    read: list[tuple[str, str | Path | None]] = [
        *((f"the input, {called(job.input)}", path) for path in inputs),
        (f"the model, {job.model}", str(job.model)),
        (f"the labels, {job.labels}", job.labels),
        (
            f"the journal in {job.journal}",
            None if job.journal is None else job.journal / Journal.FILE,
        ),
    ]
    output = None if job.output.startswith(BROKERS) else _regular(job.output, 1)
    dead = job.dead_letter_file
    for option, path, content in (
        (f"--output {job.output}", output, f"the predictions of --output {job.output}"),
        (f"--dead-letter {dead}", dead, f"the bad rows of --dead-letter {dead}"),
        (f"--save {job.save}", job.save, ""),
    ):
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            continue  # nothing is kept in a pipe, a terminal, /dev/null
        for what, other in read:
            if (
                other
                and same_file(path, other)
                and not (path == job.save and what.startswith("the model"))
            ):
                raise InputError(f"{option} would overwrite {what}; choose another name")
        if _is_in_input(job, Path(path)):
            raise InputError(
                f"{option} would become a part of the input, {job.input}; choose another folder"
            )
        read.append((content, path))


def _is_in_input(job: Job, path: Path) -> bool:
    """Whether a file that is written would be read by the next run, as one of the input's folder or pattern."""
    if is_pattern(job.input):
        return fnmatch(str(path), job.input)
    folder = Path(job.input).expanduser()
    return folder.is_dir() and same_file(folder, path.parent) and format_of(path) is not None


def _regular(name: str, descriptor: int) -> str | None:
    """The path of a file; for "-", of the regular file that a shell has put there, if it is one."""
    if name != "-":
        return name
    link = f"/dev/fd/{descriptor}"
    return link if os.path.exists(link) and stat.S_ISREG(os.stat(link).st_mode) else None


def _check_output(job: Job) -> None:
    path = Path(job.output)
    if job.output == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # a stream: a pipe, a terminal, /dev/null
    begun = (
        job.journal is not None and (job.journal / Journal.FILE).exists()
    )  # then the journal knows the output
    if path.is_file() and path.stat().st_size and not (job.append or job.overwrite or begun):
        more = "" if job.journal is None else "; a new journal begins a new output"
        raise InputError(
            f"{job.output} has content already: --append adds to it, --overwrite replaces it{more}"
        )
    if not path.is_file():
        check_writable(path)
    else:
        try:
            path.open("ab").close()
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror}") from error
