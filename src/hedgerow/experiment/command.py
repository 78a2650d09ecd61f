"""What commands that fill a folder with results share: check it, run, write the report, say how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hedgerow.core.errors import InputError
from hedgerow.experiment import engine, results
from hedgerow.methods import METHODS, RECIPES

COMMANDS = "commands.txt"
INTERRUPTED = 130  # 128 + SIGINT

Say = Callable[[str], None]
Tell = Callable[[int, int, str], None]  # done, total, what


@dataclass(frozen=True)
class Outcome:
    """The report, or None and the exit code of an interrupted run."""

    report: Path | None
    code: int = 0


def find_methods(names: str, everything: Iterable[str]) -> list[str]:
    """Methods by name, joined by commas; "all" is `everything` and whatever a plugin brought.

    >>> find_methods("oddm,pa", RECIPES)
    ['oddm', 'pa']
    >>> find_methods("all,hedgerow", ["pa", "oddm"])
    ['pa', 'oddm', 'hedgerow']
    """
    every = [*everything, *(name for name in METHODS if name not in RECIPES)]
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    found = list(dict.fromkeys(name for word in wanted for name in (every if word == "all" else [word])))
    for name in found:
        METHODS[name]
    if not found:
        raise InputError(f"--methods {names!r} names no method; known: {', '.join(METHODS)}")
    return found


def check_directory(out: Path, resume: bool, reading: str, say: Say) -> None:
    """The directory can be written to, and what is in it belongs to the same reading."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; choose another folder with --out") from error
    found = results.read_and_say(out, say)
    others = sorted({str(row.get("reading")) for row in found.rows} - {reading})
    if others:
        raise InputError(
            f"{out} holds results of reading {', '.join(others)}, not {reading}: they would be mixed; choose "
            "another folder with --out"
        )
    if found.rows and not resume:
        raise InputError(
            f"{out} holds {len(found.rows)} results already; pass --resume to go on, or another folder with --out"
        )


class FolderOptions(Protocol):
    """What a command must be told that fills a folder with results."""

    @property
    def out(self) -> Path:
        """The folder."""
        ...

    @property
    def jobs(self) -> int:
        """Processes; -1 takes every core."""
        ...

    @property
    def engine(self) -> str:
        """Where the runs are done: local, or a name of `hedgerow.dask.cluster`."""
        ...

    @property
    def data_dir(self) -> str | None:
        """Where the data sets are."""
        ...

    @property
    def plugins(self) -> tuple[str, ...]:
        """Python files that register methods."""
        ...


def run_and_report(
    units: Sequence[engine.Unit],
    rows: engine.Rows,
    report: Callable[[Path], Path],
    options: FolderOptions,
    arguments: Sequence[str],
    say: Say,
    tell: Tell,
) -> Outcome:
    """Run what is not in the folder yet, then write the report. `arguments` are the command's, to be shown again."""

    def make() -> Path:
        new = engine.run(
            units, rows, options.out, engine=options.engine, jobs=options.jobs, data_dir=options.data_dir,
            plugins=options.plugins,
            progress=lambda p: tell(p.done, p.total, f"runs {p.where}".strip()) if p.total else None,
        )  # fmt: skip
        say(done(new, sum(unit.orders for unit in units) - new))
        return report(options.out)

    return attempt(options.out, arguments, say, make)


def done(new: int, kept: int) -> str:
    """What is said between the runs and the report.

    >>> done(3, 2)
    '3 runs done, 2 were there already; writing the report'
    """
    return f"{new} runs done" + (f", {kept} were there already" if kept else "") + "; writing the report"


def attempt(out: Path, arguments: Sequence[str], say: Say, make: Callable[[], Path]) -> Outcome:
    """The report that `make` writes; interrupted, say what is kept and how to go on."""
    with (out / COMMANDS).open("a", encoding="utf-8") as file:
        file.write(shlex.join(["hedgerow", *arguments]) + "\n")
    try:
        return Outcome(make())
    except KeyboardInterrupt:
        kept = len(results.read(out).rows)
        say(f"interrupted: {kept} finished runs are kept in {out}; go on with\n  {resume_command(arguments)}")
        return Outcome(None, INTERRUPTED)


def resume_command(arguments: Sequence[str]) -> str:
    """The command that goes on where this one stopped.

    >>> resume_command(["paper", "--tasks", "dslr", "--out", "my results"])
    "hedgerow paper --tasks dslr --out 'my results' --resume"
    """
    words = [*arguments] if "--resume" in arguments else [*arguments, "--resume"]
    return shlex.join(["hedgerow", *words])


def commands_given(out: Path) -> str:
    """The commands that filled a folder, one after the other; empty where none is known."""
    log = out / COMMANDS
    given = log.read_text(encoding="utf-8").split("\n") if log.is_file() else []
    return " · ".join(line for line in given if line)
