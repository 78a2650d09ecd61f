"""Units of work in processes of this machine, every finished run a row on disk.

A unit is a method on a task, times its orders. A row is written as soon as it is there. Interrupted, everything
finished is in the folder, and the next call goes on from there.
"""

from __future__ import annotations

import copy
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.comparison import results
from hedgerow.comparison.page import versions
from hedgerow.comparison.results import KEY, Row
from hedgerow.core.arrays import Array
from hedgerow.core.errors import HedgerowError, InputError, require, unknown
from hedgerow.core.registry import use_plugins
from hedgerow.methods import METHODS, RECIPES

CHUNK = (
    5  # orders a worker takes at once: enough to share one fit, few enough to keep all workers busy
)
ORPHAN_CHECK = 0.5  # seconds between two looks whether the owner is still there
CHECKPOINTS = 40  # points of a curve in a results file
COMMANDS = "commands.txt"
INTERRUPTED = 130  # 128 + SIGINT

Say = Callable[[str], None]
Tell = Callable[[int, int, str], None]  # done, total, what


@dataclass(frozen=True, eq=False)
class Unit:
    """A method at one place of an experiment (group, task, variant, split), for so many orders of its stream.

    Everything that it calls gets what it needs from wherever it runs: a unit is sent to another process.
    """

    group: str
    task: str
    method: str
    make: Callable[[], Any]  # the task
    fit: Callable[[Unit, Any], Any]  # what is fitted on the task
    measure: Callable[
        [Unit, Any, Any, int], Row
    ]  # of the unit, its task, a copy of what was fitted, the order
    variant: str = ""
    split: int = 0
    orders: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    redraw: Callable[[Any, int], Any] | None = (
        None  # the task of an order, where each order has its own
    )
    clock: Callable[[], float] = time.perf_counter  # of the fit, in seconds
    also: Row = field(default_factory=dict)  # what every row of it says beside what was measured

    def __str__(self) -> str:
        return f"{self.method} on {self.task}" + (
            f" ({self.group}, {self.variant})" if self.variant else ""
        )

    def key(self, trial: int) -> tuple[object, ...]:
        """What makes a row of the results unique."""
        return self.group, self.task, self.method, self.variant, self.split, trial

    def rows(self, trials: Sequence[int]) -> Iterator[Row]:
        """The rows of these orders: fit once, or for every order where the sources are drawn anew."""
        task = self.make()
        fitted = None
        for trial in trials:
            if fitted is None or self.redraw:
                drawn = self.redraw(task, trial) if self.redraw else task
                began = self.clock()
                fitted = self.fit(self, drawn)
                offline = self.clock() - began
            facts = self.measure(self, task, copy.deepcopy(fitted), trial)
            yield {
                **dict(zip(KEY, self.key(trial), strict=True)),
                **({"title": METHODS[self.method].title} if self.method in METHODS else {}),
                "seconds_offline": offline,
                "data": task.checksum,
                **facts,
                **self.also,
                "versions": versions(),
            }


def evenly(n: int, count: int = CHECKPOINTS) -> list[int]:
    """`count` places spread evenly over n instances, fewer where there are fewer instances.

    >>> evenly(10, 4), evenly(2, 4)
    ([2, 5, 7, 10], [1, 2])
    """
    places: list[int] = np.unique(np.linspace(0, n, count + 1).astype(int))[1:].tolist()
    return places


def finished(wrong: Array, seconds: float, known: Array | None = None) -> Row:
    """What every row says of a finished order: the mistakes, also along the stream, and the seconds.

    `wrong` are the mistakes in order of arrival, `known` the instances with a label: all, where nothing is said.
    """
    labels = np.cumsum(np.ones(len(wrong), dtype=int) if known is None else known)
    at = np.array(evenly(len(wrong))) - 1
    return {
        "mistakes": int(wrong.sum()),
        "n": int(labels[-1]),
        "seconds_online": seconds,
        "curve_at": labels[at],
        "curve": np.cumsum(wrong)[at],
    }


# -- where units are run ----------------------------------------------------------------------------------------


def run(units: Sequence[Unit], folder: Folder) -> int:
    """Run every order whose row is not in the folder yet; return the number of new rows."""
    from joblib import Parallel, delayed, parallel_config

    folder.out.mkdir(parents=True, exist_ok=True)
    there = {tuple(row[name] for name in KEY) for row in results.read(folder.out)[0]}
    results.end_last_line(folder.out)
    chunks = []
    for unit in units:
        todo = [trial for trial in range(unit.orders) if unit.key(trial) not in there]
        chunks += [(unit, todo[i : i + CHUNK]) for i in range(0, len(todo), CHUNK)]
    total = sum(len(trials) for _, trials in chunks)
    done = 0
    if chunks:
        folder.tell(0, total, "runs")
    with parallel_config(backend="loky", n_jobs=folder.jobs, inner_max_num_threads=1):
        calls = (
            delayed(_run_chunk)(*chunk, folder.plugins, str(folder.out), os.getpid())
            for chunk in chunks
        )
        for number in Parallel(return_as="generator_unordered")(calls):
            done += number
            folder.tell(done, total, "runs")
    return total


def _run_chunk(unit: Unit, trials: list[int], plugins: Sequence[str], out: str, owner: int) -> int:
    """Write the rows of these orders, each as soon as it is there; with one thread: the same sums in any process."""
    from threadpoolctl import threadpool_limits

    if os.getpid() != owner:
        _belong_to(owner)
    use_plugins(plugins)
    try:
        with threadpool_limits(1):
            for row in unit.rows(trials):
                results.append(out, row)
    except HedgerowError as error:
        raise InputError(f"{unit}: {error}") from error
    except Exception as error:
        error.add_note(f"while running {unit}")
        raise
    return len(trials)


@cache
def _belong_to(owner: int) -> None:
    """A worker ignores Ctrl-C, which its owner handles, and ends soon after its owner: nobody writes after a kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(ORPHAN_CHECK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# -- commands that fill a folder --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """What every command that fills a folder with results is told; `command` is its own, to be shown again."""

    out: Path
    resume: bool = False
    jobs: int = -1
    plugins: tuple[str, ...] = ()
    command: Sequence[str] = ()
    say: Say = lambda text: None
    tell: Tell = lambda done, total, what: None

    def begin(self, **counts: int) -> None:
        """Check the counts and what the report needs, and load plugins: before methods are looked up."""
        for package in ("pandas", "jinja2", "matplotlib"):
            require(package, "lab")
        for name, number in counts.items():
            if number < 1:
                raise InputError(f"{name}={number}: at least one is needed")
        use_plugins(self.plugins)

    def check(self, **same: object) -> None:
        """The folder can be written to, and the rows in it have the `same` values."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.out}: {error.strerror}; choose another folder with --out"
            ) from error
        rows, problems = results.read(self.out)
        for problem in problems:
            self.say(problem)
        for name, value in same.items():
            others = sorted({str(row.get(name)) for row in rows} - {str(value)})
            if others:
                raise InputError(
                    f"{self.out} holds results of {name} {', '.join(others)}, not {value}: they would be mixed; choose "
                    "another folder with --out"
                )
        if rows and not self.resume:
            raise InputError(
                f"{self.out} holds {len(rows)} results already; pass --resume to continue, or another folder with --out"
            )

    def run(self, units: Sequence[Unit], report: Callable[[Path], Path]) -> Path | None:
        """Run what is not in the folder yet, then write the report; None if that was interrupted."""
        with (self.out / COMMANDS).open("a", encoding="utf-8") as file:
            file.write(shlex.join(self.command) + "\n")
        try:
            new = run(units, self)
            kept = sum(unit.orders for unit in units) - new
            self.say(
                f"{new} runs done"
                + (f", {kept} were there already" if kept else "")
                + "; writing the report"
            )
            return report(self.out)
        except KeyboardInterrupt:
            kept = len(results.read(self.out)[0])
            self.say(
                f"interrupted: {kept} finished runs are kept in {self.out}; continue with\n  {self.resume_command}"
            )
            return None

    @property
    def resume_command(self) -> str:
        """The command that goes on where this one stopped.

        >>> Folder(Path("."), command=["hedgerow", "compare", "--out", "my results"]).resume_command
        "hedgerow compare --out 'my results' --resume"
        """
        return shlex.join([word for word in self.command if word != "--resume"] + ["--resume"])


def commands_given(out: Path) -> str:
    """The commands that filled a folder, one after the other; empty where none is known."""
    log = out / COMMANDS
    lines = log.read_text(encoding="utf-8").split("\n") if log.is_file() else []
    return " · ".join(line for line in lines if line)


def named(
    kind: str, names: str, known: Iterable[str], every: Iterable[str] | None = None
) -> list[str]:
    """Names joined by commas, in upper or lower case; "all" is `every` one, or all that are known.

    >>> named("task", "dslr, PIE1", ["PIE1", "dslr"]), named("task", "all", ["PIE1", "dslr"])
    (['dslr', 'PIE1'], ['PIE1', 'dslr'])
    """
    choices = {
        "all": [*(known if every is None else every)],
        **{name.lower(): [name] for name in known},
    }
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise InputError(f"{names!r} names no {kind}; choose one of {', '.join(known)}, or all")
    for name in wanted:
        if name.lower() not in choices:
            raise unknown(kind, name, [*known, "all"])
    return list(dict.fromkeys(each for name in wanted for each in choices[name.lower()]))


def find_methods(names: str, everything: Iterable[str] = RECIPES) -> list[str]:
    """Methods by name, joined by commas; "all" is `everything` and whatever a plugin brought.

    >>> find_methods("oddm,pa"), find_methods("all,hedgerow", ["pa", "oddm"])
    (['oddm', 'pa'], ['pa', 'oddm', 'hedgerow'])
    """
    return named(
        "method",
        names,
        list(METHODS),
        [*everything, *(name for name in METHODS if name not in RECIPES)],
    )
