"""What `hedgerow run` is asked to do, and all that can be refused before the model is loaded or a file is touched."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError, unknown
from hedgerow.core.files import check_writable, same_file
from hedgerow.data.stream_rows import FORMATS

ON_ERROR = ("skip", "stop")
NEW_CLASSES = ("learn", "refuse")


@dataclass(frozen=True)
class Job:
    """What to run: paths ("-" is stdin or stdout), the label column if there is one, what to do with a bad row.

    `new_classes` says what becomes of a label that the model does not know; `append` and `overwrite` what becomes of an
    output file that has content already.
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


def called(name: str) -> str:
    """An input as it is called in a message."""
    return "standard input" if name == "-" else name


def check(job: Job) -> None:
    """Refuse what cannot work, or would destroy something, before anything is opened."""
    _check_choices(job)
    if not job.model.is_file():
        raise InputError(f"no model file at {job.model}; `hedgerow fit` makes one")
    if job.input != "-" and (not Path(job.input).exists() or Path(job.input).is_dir()):
        raise InputError(f"no input file at {job.input}; give a .csv, .tsv or .jsonl file, or - for standard input")
    _check_distinct(job)
    _check_output(job)
    if job.save is not None:
        check_writable(job.save, job.model.stat().st_size)


def _check_choices(job: Job) -> None:
    for option, value, choices in (
        ("--on-error", job.on_error, ON_ERROR),
        ("--new-classes", job.new_classes, NEW_CLASSES),
        ("--format", job.format or FORMATS[0], FORMATS),
    ):
        if value not in choices:
            raise unknown(f"choice for {option}", value, choices)
    if job.new_classes == "refuse" and job.label is None:
        raise InputError("--new-classes refuse is about labels: name their column with --label")
    if job.append and job.overwrite:
        raise InputError("--append and --overwrite exclude each other: keep what the output file has, or drop it?")
    if job.output == "-" and (job.append or job.overwrite):
        raise InputError("--append and --overwrite are for an output file; standard output has nothing to keep")


def _check_distinct(job: Job) -> None:
    """The output is no other file of this run, and the model is not saved over the input or the output."""
    output, save = _file_of(job.output, 1), None if job.save is None else str(job.save)
    input, model = _file_of(job.input, 0), str(job.model)
    for option, written, what, other in (
        (f"--output {job.output}", output, f"the input, {called(job.input)}", input),
        (f"--output {job.output}", output, f"the model, {model}", model),
        (f"--save {save}", save, f"the input, {called(job.input)}", input),
        (f"--save {save}", save, f"the predictions of --output {job.output}", output),
    ):
        if written and other and same_file(written, other):
            raise InputError(f"{option} would overwrite {what}; choose another name")


def _file_of(name: str, descriptor: int) -> str | None:
    """The path of a file; for "-", of the regular file that a shell has put there, if it is one."""
    if name != "-":
        return name
    link = f"/dev/fd/{descriptor}"
    return link if os.path.exists(link) and stat.S_ISREG(os.stat(link).st_mode) else None


def _check_output(job: Job) -> None:
    path = Path(job.output)
    if job.output == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # a stream: a pipe, a terminal, /dev/null
    if path.is_file() and path.stat().st_size and not (job.append or job.overwrite):
        raise InputError(f"{job.output} has content already: --append adds to it, --overwrite replaces it")
    if not path.is_file():
        check_writable(path)
    else:
        try:
            path.open("ab").close()
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror}") from error
