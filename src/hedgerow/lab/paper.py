"""`hedgerow paper`: the paper's nine tasks, its settings and published numbers, and what is run for each part."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import DataMissing, unknown
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.lab import PARTS
from hedgerow.lab.report import Table, count, table
from hedgerow.lab.rows import ENOUGH_ORDERS, Cell, Row, Runs, Say
from hedgerow.lab.runner import Folder, Unit, expert_losses, find_methods, finished, named
from hedgerow.lab.stream import evenly
from hedgerow.lab.tasks import Task, options_read, reading_answers, task_of
from hedgerow.methods import BASELINES, METHODS, READINGS

# -- what the paper has -----------------------------------------------------------------------------------------

TASKS = {**{f"PIE{i}": f"PIE{i}" for i in range(1, 6)}, "amazon": "Amazon", "caltech": "Caltech-256", "dslr": "DSLR"}
TASKS["webcam"] = "Webcam"  # the nine targets and their titles; all others of the family are sources
FAMILIES = {"pie": "PIE", "office-caltech": "Office+Caltech"}  # a family's name as people write it

# The settings that the paper gives by family. The released code has lam .1 and T_w 10 for all.
FAMILY_SETTINGS: dict[str, dict[str, Any]] = {
    "pie": {"lam": 0.1, "refresh_every": 50},
    "office-caltech": {"lam": 1.0, "refresh_every": 10},
}

PUBLISHED_METHODS = ("pa", "paio", "homotl-1", "homotl-2", "homotlms", "oddm-fixed", "oddm")
PUBLISHED_ORDERS = 20  # of each stream


def _published() -> dict[tuple[str, str], Cell]:
    """The paper's table of mistake rates: mean and standard deviation over the orders, in per cent."""
    lines = resources.files("hedgerow.lab").joinpath("published.csv").read_text(encoding="utf-8").splitlines()
    return {
        (row["task"], row["method"]): Cell(float(row["mean"]), float(row["sd"]), PUBLISHED_ORDERS)
        for row in csv.DictReader(lines)
    }


PUBLISHED = _published()


def family_of(task: str) -> str:
    """The data set of a task.

    >>> family_of("PIE1"), family_of("dslr")
    ('pie', 'office-caltech')
    """
    return "pie" if task.startswith("PIE") else "office-caltech"


def find_tasks(names: str) -> list[str]:
    """Tasks by name, joined by commas, upper or lower case; "all" is all nine.

    >>> find_tasks("dslr,pie1,Caltech-256")
    ['dslr', 'PIE1', 'caltech']
    """
    return named("task", names.lower().replace("caltech-256", "caltech"), TASKS)


def settings(task: str, reading: str, method: str) -> dict[str, Any]:
    """What a reading leaves to the task: the paper's settings by family, and how its PIE baselines were trained.

    >>> settings("PIE1", "table", "oddm")
    {'lam': 0.1, 'refresh_every': 50}
    """
    if reading == "authors":
        return {}
    chosen = dict(FAMILY_SETTINGS[family_of(task)])
    if reading == "table" and family_of(task) == "pie" and method in BASELINES:
        chosen["source_pass"] = "last"  # `--what definitions` and `--what ablation` show the averaged one
    if reading == "table" and method == "homotl-1":
        # chosen after comparing all with the published row: the smallest largest miss on Office+Caltech
        chosen |= {"loss": "softmax", "combine": "scores"}
    return chosen


def prepare(task: str, split: int, reading: str, data_dir: str | None = None) -> Task:
    """One split of a task; split 0 of a reading with the fixed split is the published one."""
    published = READINGS[reading].split_rule == "fixed" and split == 0
    return task_of(family_of(task), task, split, published, data_dir)


# -- what is run ------------------------------------------------------------------------------------------------

SIDE_ORDERS = 5  # orders of the runs beside the main table: they compare settings, not methods
DISCREPANCY_ORDERS = 5  # the discrepancy over the stream is followed for the first orders only
C_VALUES = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
TW_VALUES = (1, 5, 10, 20, 30, 50, 100, 200)
CENTRED = ("centre", "unit")  # appended to a reading's own steps: per-domain centring for everybody
# options that the ablation changes one by one, and their values; of those of MOVING only where the space moves
SWITCHES: dict[str, tuple[Any, ...]] = {
    "tau": ("printed", "original"), "source_pass": ("average", "last"),
    "preprocess": (("row-minmax", "unit"), ("row-minmax",), ("zscore",), ("zscore", "unit")), "split": (1,),
    "combine": ("vote",), "projected": ("plain", "unit"), "beta_rule": ("ln 2n", "ln 2"), "lam": (0.1, 1.0),
    "eigenvectors": ("S", "unit"), "unseen": ("zero", "skip", "shrink"), "refresh_every": (10, 50),
    "inverse": ("pinv", "woodbury"), "target_mean": ("stream", "warmup"), "guarantee": ("theorem", "proved"),
}  # fmt: skip
MOVING = ("target_mean", "guarantee")
ONE_ORDER = ("inverse", "guarantee")  # they change no prediction, or next to none
RULES = {"fixed": "no update", "zero": "unseen at zero", "skip": "unseen skipped", "shrink": "unseen shrunk"}

Variant = tuple[str, str, dict[str, Any]]  # method, name of the variant, what it sets


def run(
    folder: Folder, tasks: str = "all", methods: str = "all", trials: int = 20, splits: int = 1,
    reading: str = "table", what: str = "table,curves,discrepancy,bound,stats,time",
) -> Path | None:  # fmt: skip
    """Check everything, run what is not in the folder yet and write the report; None if that was interrupted."""
    from hedgerow.lab.paper_report import report

    folder.begin(trials=trials, splits=splits)
    parts, targets, names = parts_of(what), find_tasks(tasks), find_methods(methods)
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)
    folder.check(reading)
    targets = with_data(targets, folder.data_dir, folder.say)
    return folder.run(units(parts, targets, names, reading, trials, splits), report)


def parts_of(names: str) -> list[str]:
    """Parts of the report by name, joined by commas; "all" stands for every one.

    >>> parts_of("table,curves")
    ['table', 'curves']
    """
    return named("part of the report", names, PARTS)


def with_data(tasks: Sequence[str], data_dir: str | None, say: Say) -> list[str]:
    """The tasks whose family is there; what is missing is said, and is an error only if nothing is left."""
    missing: dict[str, DataMissing] = {}
    for task in tasks:
        if family_of(task) not in missing:
            try:
                prepare(task, 0, "table", data_dir)
            except DataMissing as error:
                missing[family_of(task)] = error
    for family, reason in missing.items():
        left_out = ", ".join(TASKS[task] for task in tasks if family_of(task) == family)
        say(f"no data for {family!r}, so these tasks are left out: {left_out}. {reason}")
    there = [task for task in tasks if family_of(task) not in missing]
    if not there:
        raise next(iter(missing.values()))
    return there


def units(
    parts: Sequence[str], tasks: Sequence[str], methods: Sequence[str], reading: str, trials: int, splits: int
) -> list[Unit]:
    """Every unit whose rows these parts of the report need, each once.

    >>> len(units(["table", "curves"], ["dslr"], ["pa", "oddm"], "table", 20, 1))
    2
    """
    out: list[Unit] = []
    for group in dict.fromkeys(group for part in parts for group in PARTS[part]):
        for task in tasks:
            for split in range(splits if group == "table" else 1):
                for method, variant, switched in _variants(group, task, methods, reading):
                    options = dict(switched)
                    orders, at = options.pop("orders", SIDE_ORDERS), options.pop("split", split)
                    out.append(
                        Unit(
                            group, task, method, partial(prepare, task, at, reading), measure, variant, at,
                            trials if group in ("table", "mixers") else min(trials, orders), reading,
                            settings(task, reading, method) | options, horizon=True,
                            # the order of the source rows behind the table's baselines is not known, and it matters:
                            # each order draws its own, so that the mean is over it; ODDM's is in the authors' files
                            redraw=reading == "table" and method in BASELINES,
                        )
                    )  # fmt: skip
    return out


def _variants(group: str, task: str, methods: Sequence[str], reading: str) -> Iterator[Variant]:
    base = {m: reading_answers(m, reading, settings(task, reading, m)) for m in methods if m in METHODS}
    if group == "table":
        yield from ((method, "", {}) for method in methods)
    elif group == "sensitivity-C":
        with_C = [method for method in methods if "C" in options_read(method, {})]
        yield from ((method, f"C={C:g}", {"C": C}) for method in with_C for C in C_VALUES)
    elif group == "sensitivity-Tw":
        for method in (method for method in methods if "refresh_every" in options_read(method, {})):
            for Tw in TW_VALUES:  # one refresh a label is the slow end: fewer orders there
                yield method, f"Tw={Tw}", {"refresh_every": Tw, "orders": 1 if Tw < 5 else SIDE_ORDERS}
    elif group == "ablation":
        for method in methods:
            yield from _ablation(method, base[method])
    elif group == "refresh":
        for label, extra in (("", ()), ("centred ", CENTRED)):
            for rule in RULES:
                method = "oddm-fixed" if rule == "fixed" else "oddm"
                if method in methods:
                    steps = {"preprocess": tuple(base[method]["preprocess"]) + extra}
                    yield method, label + rule, steps if rule == "fixed" else steps | {"unseen": rule}
    elif group == "inputs":
        for method in methods:
            yield method, "centred", {"preprocess": tuple(base[method]["preprocess"]) + CENTRED}
            if family_of(task) == "office-caltech":
                yield method, "zscore+unit", {"preprocess": ("zscore", "unit")}
    elif group == "definitions":
        yield from _definitions(methods)
    elif group == "mixers" and "oddm" in methods:
        yield "oddm", "vote", {"combine": "vote"}
        yield "oddm", "simplex", {"mixer": "loss", "combine": "simplex"}
        yield "oddm", "log-loss", {"mixer": "log-loss"}


def _ablation(method: str, base: dict[str, Any]) -> Iterator[Variant]:
    """One option after the other changed from what the table uses, all others left alone."""
    read = options_read(method, {"horizon": 1.0}) | {"split"}
    names = [name for name in SWITCHES if name in read and ("refresh_every" in read or name not in MOVING)]
    for name in names:
        for value in (value for value in SWITCHES[name] if value != base.get(name)):
            shown = "+".join(value) if isinstance(value, tuple) else "drawn" if name == "split" else f"{value}"
            yield method, f"{name}={shown}", {name: value} | ({"orders": 1} if name in ONE_ORDER else {})


def _definitions(methods: Sequence[str]) -> Iterator[Variant]:
    """HomOTL-I and -II for several classes, as one could define them; a margin has no simplex points of its own."""
    losses, combinations = ("projection", "softmax", "margin"), ("simplex", "scores", "vote")
    pairs = [(loss, combine) for loss in losses for combine in combinations if (loss, combine) != ("margin", "simplex")]
    for last in ("last", "average"):
        passed = {"source_pass": last}
        if "homotl-1" in methods:
            for loss, combine in pairs:
                yield "homotl-1", f"{loss}, {combine}, {last}", {"loss": loss, "combine": combine, **passed}
            twice = {"loss": "margin", "combine": "scores", "eta": 2.0, **passed}
            yield "homotl-1", f"margin, scores, {last}, eta 2", twice
        if "homotl-2" in methods:
            for combine in ("scores", "vote"):
                yield "homotl-2", f"{combine}, {last}", {"combine": combine, **passed}


def measure(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """What a row says of a finished order; of the table's runs also the curve and, for some, the discrepancy."""
    stream, curves = task.arrived(trial), unit.group == "table"
    X, y = stream.X, np.asarray(stream.y)
    ends = evenly(len(y)) if curves else [len(y)]
    follow = curves and trial < DISCREPANCY_ORDERS and _has_linear_map(clf)
    gaps = _true_gaps(clf, X, y) if follow else []
    distances = [_distance(clf, gaps)] if follow else []
    wrong, seconds = np.empty(len(y), dtype=bool), 0.0
    for start, end in pairwise([0, *ends]):
        began = time.perf_counter()
        predictions = clf.predict_then_learn(X[start:end], y[start:end])
        seconds += time.perf_counter() - began
        wrong[start:end] = predictions != y[start:end]
        distances += [_distance(clf, gaps)] if follow else []
    return {
        **expert_losses(clf),
        **finished(wrong, seconds),
        **({} if curves else {"curve_at": [], "curve": []}),
        "discrepancy_at": [0, *ends] if follow else [],
        "discrepancy": distances,
        "options": unit.options | {"horizon": len(y), "dim": clf.dim_},
        "seeds": {"split": unit.split, "order": trial, "sources": trial},
    }


def _has_linear_map(clf: OnlineTransferClassifier) -> bool:
    """Whether there is an A whose objective can be followed; a kernel space has none, nor has a map of the source."""
    learner = clf.learner_
    return bool(learner.n_sources) and learner.projection(0) is not None and not learner.plan.gammas


def _true_gaps(clf: OnlineTransferClassifier, X: Array, y: Array) -> list[Array]:
    """Gaps of each source to the whole stream with its true labels: for measuring only, the learner never sees them."""
    learner = clf.learner_
    target = Moments.of(learner.pre.apply(X), np.searchsorted(clf.classes_, y), learner.n_classes)
    return [gap(learner.source(i), target, "skip") for i in range(len(clf.source_names_))]


def _distance(clf: OnlineTransferClassifier, gaps: list[Array]) -> float:
    """The aggregate MMD distance of the objective for A, averaged over the sources."""
    return float(np.mean([discrepancy(clf.learner_.projection(i), G) for i, G in enumerate(gaps)]))


# -- rows beside the published numbers --------------------------------------------------------------------------


class PaperRuns(Runs):
    """The rows of `hedgerow paper`, and the command that ran them; without a group, those of the table are meant."""

    command = "hedgerow paper"

    def tasks(self, group: str = "table", family: str = "") -> list[str]:
        """Tasks with rows in a group, in the paper's order; of one family, if it is named."""
        there = set(super().tasks(group))
        return [task for task in TASKS if task in there and family in ("", family_of(task))]

    def methods(self, group: str = "table") -> list[str]:
        """Methods with rows in a group, in the paper's order."""
        return super().methods(group)

    def header(self, methods: Sequence[str], first: str = "task") -> list[str]:
        """Of a table with a column for each method."""
        return [first, *(self.titles[m] for m in methods)]

    def at(self, task: str, method: str) -> Cell | None:
        """A cell of the table."""
        return self.cell("table", task, method)

    def means(self, group: str, tasks: Sequence[str], method: str, variant: str = "") -> Array:
        """The mean rates on these tasks; NaN where nothing was run."""
        cells = [self.cell(group, task, method, variant) for task in tasks]
        return np.array([cell.mean if cell else np.nan for cell in cells])

    def change(self, task: str, method: str, variant: str) -> float:
        """Points by which a switch changes the table's mean, over the orders that both have; NaN without any."""
        base, other = (self.rates(*key) for key in (("table", task, method), ("ablation", task, method, variant)))
        base, other = base[base.index.get_level_values("split") == 0].droplevel("split"), other.droplevel("split")
        return float((other - base).mean())

    def far_cells(self) -> list[tuple[str, str, Cell]]:
        """All cells of the table that differ from the published ones by more than both spreads."""
        cells = ((task, m, self.at(task, m)) for task in self.tasks() for m in self.methods())
        return [(task, method, cell) for task, method, cell in cells if cell and far(cell, task, method)]

    def orders(self, group: str) -> str:
        """How many orders the cells of a group have."""
        counts = sorted({cell.orders for cell in self.cells(group)})
        return (f"{counts[0]} to " if len(counts) > 1 else "") + count(counts[-1], "order")


def judged(cell: Cell) -> bool:
    """Whether a cell has orders enough that its spread says something."""
    return cell.orders // cell.splits >= ENOUGH_ORDERS


def far(cell: Cell, task: str, method: str) -> bool:
    """Whether our mean differs from the published one by more than both spreads together."""
    paper = PUBLISHED.get((task, method))
    return paper is not None and judged(cell) and abs(cell.mean - paper.mean) > cell.spread + paper.spread


def options_used(method: str, reading: str, options: dict[str, Any]) -> dict[str, str]:
    """In words: the reading's answers that the method reads, then the classifier's remaining options with a value.

    Of a method that is not registered here (a plugin's, in a folder of results) nothing is left out.
    """
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    answers = reading_answers(method, reading, options)
    read = options_read(method, options) if method in METHODS else answers.keys()
    used = {name: value for name, value in answers.items() if name in read}
    used |= {name: value for name, value in options.items() if name not in answers and value is not None}
    words = {name: "+".join(map(str, v)) if isinstance(v, tuple) else f"{v}" for name, v in used.items()}
    return {name: "the method's own" if used[name] is None else word for name, word in words.items()}


def options_table(runs: PaperRuns, family: str) -> Table | None:
    """Every option of every method, as used for a family's table."""
    parts = {m: runs.part("table", task, m) for task in runs.tasks(family=family)[:1] for m in runs.methods()}
    columns = {m: options_used(m, p["reading"].iloc[0], p["options"].iloc[0]) for m, p in parts.items() if len(p)}
    names = dict.fromkeys(name for options in columns.values() for name in options if name != "horizon")
    rows = [[name, *(options.get(name, "–") for options in columns.values())] for name in names]
    name, header = f"options-{family}", runs.header(list(columns), "option")
    return table("options", header, rows, name=name, folded=True, family=FAMILIES[family]) if rows else None
