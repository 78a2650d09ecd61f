"""The one runner: units of work in processes of this machine or on a Dask cluster, every finished run a row on disk.

A unit is a method on a task, times its orders. In a process of this machine a row is written as soon as it is there.
Workers of a cluster may not see the folder: they send a chunk's rows back, and whoever started the run writes them, so
a chunk that was begun twice, as a worker died, is written once. Interrupted, everything finished is in the folder, and
the next call goes on from there, with any engine.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from hedgerow.align import Aligner, Alignment
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.errors import HedgerowError, InputError, require, unknown
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.lab import rows as results
from hedgerow.lab.report import versions
from hedgerow.lab.rows import KEY, Row, Say
from hedgerow.lab.stream import evenly
from hedgerow.lab.tasks import Task, classifier, fit
from hedgerow.methods import METHODS, RECIPES
from hedgerow.mix import Hedge

CHUNK = 5  # orders a worker takes at once: enough to share one fit, few enough to keep all workers busy
BY_TURNS = 2  # tasks; a process keeps the data of as many
ORPHAN_CHECK = 0.5  # seconds between two looks whether the owner is still there
COMMANDS = "commands.txt"
LOCAL = "local"
INTERRUPTED = 130  # 128 + SIGINT

Tell = Callable[[int, int, str], None]  # done, total, what


@dataclass(frozen=True, eq=False)
class Unit:
    """A method at one place of an experiment (group, task, variant, split), for so many orders of its stream.

    `make` gives the task, `measure` the facts of a finished order: both get what they need from wherever they run.
    """

    group: str
    task: str
    method: str
    make: Callable[[str | None], Task]  # of the folder of the data sets
    measure: Callable[[Unit, Task, Any, int], Row]  # of the unit, its task, a copy of what was fitted, the order
    variant: str = ""
    split: int = 0
    orders: int = 1
    reading: str = "general"  # what a user gets who sets nothing
    options: dict[str, Any] = field(default_factory=dict)
    horizon: bool = False  # the learner is told how long the stream is
    redraw: bool = False  # each order of the stream has its own order of the source rows
    fit: Callable[[Unit, Task], Any] | None = None  # what is run, where it is no classifier of ours
    also: Row = field(default_factory=dict)  # what every row of it says beside what was measured

    def __str__(self) -> str:
        return f"{self.method} on {self.task}" + (f" ({self.group}, {self.variant})" if self.variant else "")

    def key(self, trial: int) -> tuple[object, ...]:
        """What makes a row of the results unique."""
        return self.group, self.task, self.method, self.variant, self.split, trial

    def rows(self, trials: Sequence[int], data_dir: str | None, align: AlignmentCache | None = None) -> Iterator[Row]:
        """The rows of these orders: fit once, or for every order where the sources are drawn anew."""
        task, fitted = self.make(data_dir), None
        for trial in trials:
            if fitted is None or self.redraw:
                fitted, offline = self._fitted(task.redrawn(trial) if self.redraw else task, align)
            facts = self.measure(self, task, copy.deepcopy(fitted), trial)
            yield {
                **dict(zip(KEY, self.key(trial), strict=True)),
                **({"title": METHODS[self.method].title} if self.method in METHODS else {}),
                "seconds_offline": offline,
                "reading": self.reading,
                "data": task.checksum,
                **facts,
                **self.also,
                "versions": versions(),
            }

    def _fitted(self, task: Task, align: AlignmentCache | None) -> tuple[Any, float]:
        if self.fit is None:
            compile_loops(self.method)
        before, began = align.saved if align else 0.0, time.perf_counter()
        more = {"horizon": len(task.stream)} if self.horizon else {}
        ours = partial(fit, task, self.method, self.reading, align, **more, **self.options)
        fitted = ours() if self.fit is None else self.fit(self, task)
        return fitted, time.perf_counter() - began + (align.saved - before if align else 0.0)


def finished(wrong: Array, seconds: float, known: Array | None = None) -> Row:
    """What every row says of a finished order: the mistakes, also along the stream, and the seconds.

    `wrong` are the mistakes in order of arrival, `known` the instances with a label: all, where nothing is said.
    """
    labels, at = np.cumsum(np.ones(len(wrong), dtype=int) if known is None else known), np.array(evenly(len(wrong))) - 1
    curve = {"curve_at": labels[at], "curve": np.cumsum(wrong)[at]}
    return {"mistakes": int(wrong.sum()), "n": int(labels[-1]), "seconds_online": seconds, **curve}


def expert_losses(clf: OnlineTransferClassifier) -> Row:
    """What the theory needs of a finished run: losses of the experts and of the mixture, and the bound."""
    learner = clf.learner_
    mixer = getattr(learner.plan, "mixer", None)  # our own learner mixes in another way, and has no beta
    return {
        "experts": clf.expert_names_,
        "expert_mistakes": learner.state["expert_mistakes"],
        "expert_loss": learner.state.get("expert_loss", np.empty(0)),
        "hedge_loss": clf.hedge_loss_,
        "beta": mixer.beta if isinstance(mixer, Hedge) else None,
        "bound": clf.bound_ if np.isfinite(clf.bound_) else None,
        "guarantee": clf.guarantee_,
    }


@cache
def compile_loops(method: str) -> None:
    """Compile a method's loops, or read them from their cache, before a clock runs; once in each process."""
    X, y = np.random.default_rng(0).normal(size=(120, 6)), np.arange(120) % 2
    there = np.repeat([0, 1, -1], 40)  # two sources and unlabelled rows
    classifier(method, "general", random_state=0).fit(X, y, sample_domain=there).predict_then_learn(X, y)


# -- where units are run ----------------------------------------------------------------------------------------


Chunk = tuple[Unit, list[int]]


Work = Callable[[Unit, list[int]], Iterator[Row]]  # the rows of a chunk


def _rows(data_dir: str | None, plugins: Sequence[str], unit: Unit, trials: list[int]) -> Iterator[Row]:
    """The rows of these orders, each as soon as it is there."""
    from threadpoolctl import threadpool_limits

    for plugin in plugins:
        load_plugin(plugin)
    try:
        with threadpool_limits(1):  # the same sums, in the same order, for any number of workers
            yield from unit.rows(trials, data_dir, ALIGNED)
    except HedgerowError as error:
        raise InputError(f"{unit}: {error}") from error
    except Exception as error:
        error.add_note(f"while running {unit}")
        raise


def run(units: Sequence[Unit], folder: Folder) -> int:
    """Run every order whose row is not in the folder yet; return the number of new rows."""
    check_engine(folder.engine, folder.jobs)
    folder.out.mkdir(parents=True, exist_ok=True)
    there = {tuple(row[name] for name in KEY) for row in results.read(folder.out)[0]}
    results.end_last_line(folder.out)
    chunks = _chunks(units, there)
    total, done, data_dir = sum(len(trials) for _, trials in chunks), 0, folder.data_dir
    if chunks:
        folder.tell(0, total, "runs")
        if folder.engine != LOCAL:  # workers may have another environment
            data_dir = data_dir or os.environ.get("HEDGEROW_DATA")
            data_dir = data_dir and str(Path(data_dir).resolve())
        spread = in_processes if folder.engine == LOCAL else on_dask
        for finished, where in spread(chunks, partial(_rows, data_dir, folder.plugins), folder):
            done += finished
            folder.tell(done, total, f"runs {where}".strip())
    return total


def check_engine(engine: str, jobs: int) -> None:
    """An error if there is no such engine, or what it needs is not installed."""
    if engine != LOCAL:
        from hedgerow.dask.cluster import Place

        Place.of(engine).with_jobs(jobs)
        require("distributed", extra="dask")


def _chunks(units: Sequence[Unit], there: set[tuple[object, ...]]) -> list[Chunk]:
    """What is not there yet. Two tasks by turns: two workers that begin together do not solve the same alignments."""
    of_task: dict[str, list[Chunk]] = {}
    for unit in units:
        todo = [trial for trial in range(unit.orders) if unit.key(trial) not in there]
        of_task.setdefault(unit.task, []).extend((unit, todo[i : i + CHUNK]) for i in range(0, len(todo), CHUNK))
    queues = [chunks for chunks in of_task.values() if chunks]
    pairs = [queues[i : i + BY_TURNS] for i in range(0, len(queues), BY_TURNS)]
    return [chunk for pair in pairs for each in zip_longest(*pair) for chunk in each if chunk is not None]


def in_processes(chunks: Sequence[Chunk], work: Work, folder: Folder) -> Iterator[tuple[int, str]]:
    """In processes of this machine (-1: one a core), which write into the folder themselves."""
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", n_jobs=folder.jobs, inner_max_num_threads=1):
        calls = (delayed(_in_process)(work, unit, trials, str(folder.out), os.getpid()) for unit, trials in chunks)
        for finished in Parallel(return_as="generator_unordered")(calls):
            yield finished, ""


def _in_process(work: Work, unit: Unit, trials: list[int], out: str, owner: int) -> int:
    if os.getpid() != owner:
        _belong_to(owner)
    for row in work(unit, trials):
        results.append(out, row)
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


def on_dask(chunks: Sequence[Chunk], work: Work, folder: Folder) -> Iterator[tuple[int, str]]:
    """On a Dask cluster (`hedgerow.dask.cluster` says what it can be called), whose workers send their rows."""
    from hedgerow.dask.cluster import Place, as_finished, connected

    with connected(Place.of(folder.engine).with_jobs(folder.jobs)) as client:
        calls = [(work, unit, trials) for unit, trials in chunks]
        for rows in as_finished(client, _on_worker, calls, [str(unit) for unit, _ in chunks]):
            for row in rows:
                results.append(folder.out, row)
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            yield len(rows), f"on {workers} worker{'s' * (workers != 1)}"


def _on_worker(work: Work, unit: Unit, trials: list[int]) -> list[Row]:
    return list(work(unit, trials))


def load_plugin(path: str | Path) -> None:
    """Run a file that registers a method, an aligner or a head; a second call for the same file does nothing."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"no plugin at {path}")
    name = f"hedgerow_plugin_{file.stem}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


class AlignmentCache:
    """`align(aligner, source, codes, target)` that solves each alignment once a process: the costly part offline.

    `saved` adds up what the solutions that were there already took to compute.
    """

    def __init__(self) -> None:
        self.known: dict[str, tuple[Alignment, float]] = {}
        self.saved = 0.0

    def __call__(self, aligner: Aligner, X: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The alignment, known or solved now."""
        if type(aligner).__name__ == "Identity":
            return aligner.fit(X, codes, target)
        key = joblib.hash((repr(aligner), dense(X), codes, dense(target)))
        if key in self.known:
            self.saved += self.known[key][1]
        else:
            began = time.perf_counter()
            alignment = aligner.fit(X, codes, target)
            self.known[key] = alignment, time.perf_counter() - began
        return self.known[key][0]


ALIGNED = AlignmentCache()


# -- commands that fill a folder --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """What every command that fills a folder with results is told; `arguments` are the command's, to be shown again."""

    out: Path
    resume: bool = False
    jobs: int = -1
    engine: str = LOCAL
    data_dir: str | None = None
    plugins: tuple[str, ...] = ()
    arguments: Sequence[str] = ()
    say: Say = lambda text: None
    tell: Tell = lambda done, total, what: None

    def begin(self, **counts: int) -> None:
        """Check the counts, what the report needs and the engine, and load plugins: before methods are looked up."""
        for package in ("pandas", "jinja2", "matplotlib"):
            require(package, "lab")
        for name, number in counts.items():
            if number < 1:
                raise InputError(f"{name}={number}: at least one is needed")
        check_engine(self.engine, self.jobs)
        for plugin in self.plugins:
            load_plugin(plugin)

    def check(self, reading: str, **same: object) -> None:
        """The folder can be written to, and what is in it belongs to the same reading and has the `same` values."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.out}: {error.strerror}; choose another folder with --out"
            ) from error
        rows, problems = results.read(self.out)
        for problem in problems:
            self.say(problem)
        for name, value in {"reading": reading, **same}.items():
            others = sorted({str(row.get(name)) for row in rows} - {str(value)})
            if others:
                raise InputError(
                    f"{self.out} holds results of {name} {', '.join(others)}, not {value}: they would be mixed; choose "
                    "another folder with --out"
                )
        if rows and not self.resume:
            raise InputError(
                f"{self.out} holds {len(rows)} results already; pass --resume to go on, or another folder with --out"
            )

    def run(self, units: Sequence[Unit], report: Callable[[Path], Path]) -> Path | None:
        """Run what is not in the folder yet, then write the report; None if that was interrupted."""
        with (self.out / COMMANDS).open("a", encoding="utf-8") as file:
            file.write(shlex.join(["hedgerow", *self.arguments]) + "\n")
        try:
            new = run(units, self)
            kept = sum(unit.orders for unit in units) - new
            self.say(f"{new} runs done" + (f", {kept} were there already" if kept else "") + "; writing the report")
            return report(self.out)
        except KeyboardInterrupt:
            kept = len(results.read(self.out)[0])
            self.say(f"interrupted: {kept} finished runs are kept in {self.out}; go on with\n  {self.resume_command}")
            return None

    @property
    def resume_command(self) -> str:
        """The command that goes on where this one stopped.

        >>> Folder(Path("."), arguments=["paper", "--tasks", "dslr", "--out", "my results"]).resume_command
        "hedgerow paper --tasks dslr --out 'my results' --resume"
        """
        words = [*self.arguments] if "--resume" in self.arguments else [*self.arguments, "--resume"]
        return shlex.join(["hedgerow", *words])


def commands_given(out: Path) -> str:
    """The commands that filled a folder, one after the other; empty where none is known."""
    log = out / COMMANDS
    lines = log.read_text(encoding="utf-8").split("\n") if log.is_file() else []
    return " · ".join(line for line in lines if line)


def named(kind: str, names: str, known: Iterable[str], every: Iterable[str] | None = None) -> list[str]:
    """Names joined by commas, in upper or lower case; "all" is `every` one, or all that are known.

    >>> named("task", "dslr, PIE1", ["PIE1", "dslr"]), named("task", "all", ["PIE1", "dslr"])
    (['dslr', 'PIE1'], ['PIE1', 'dslr'])
    """
    table = {name.lower(): [name] for name in known}
    choices = {"all": [*(known if every is None else every)], **table}
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
    return named("method", names, list(METHODS), [*everything, *(name for name in METHODS if name not in RECIPES)])
