"""The paper's nine tasks, its settings and published numbers, what is run for each part, the report.

The report has every table and figure of the paper, the published numbers beside ours. A section is a function from the
rows to what stands in it (`SECTIONS`); what was not run says how to get it.
"""

from __future__ import annotations

import csv
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import resources
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.comparison import page as pages
from hedgerow.comparison.figures import Line
from hedgerow.comparison.measure import compile_loops
from hedgerow.comparison.page import Part
from hedgerow.comparison.results import Row, curves
from hedgerow.comparison.runner import (
    Folder,
    Unit,
    commands_given,
    evenly,
    find_methods,
    finished,
    named,
)
from hedgerow.comparison.stats import ALPHA, Ranking, against, friedman
from hedgerow.comparison.tables import Table, Value, lowest
from hedgerow.comparison.words import chance, signed
from hedgerow.core.arrays import Array
from hedgerow.core.errors import DataMissing, require, unknown
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.core.values import count
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.methods import BASELINES, METHODS, READINGS
from reproduction import fitting, theory
from reproduction.figures import Dots, Panel, critical_difference, dots, draw, ratio
from reproduction.fitting import expert_losses
from reproduction.runs import ENOUGH_ORDERS, Cell, Runs, Say
from reproduction.tasks import Task, options_read, reading_answers, redrawn, task_of
from reproduction.texts import figure, table, text

if TYPE_CHECKING:
    import pandas as pd

# -- what the paper has -----------------------------------------------------------------------------------------

TASKS = {
    **{f"PIE{i}": f"PIE{i}" for i in range(1, 6)},
    "amazon": "Amazon",
    "caltech": "Caltech-256",
    "dslr": "DSLR",
}
TASKS["webcam"] = (
    "Webcam"  # the nine targets and their titles; all others of the family are sources
)
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
    lines = (
        resources.files("reproduction")
        .joinpath("published.csv")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return {
        (row["task"], row["method"]): Cell(float(row["mean"]), float(row["sd"]), PUBLISHED_ORDERS)
        for row in csv.DictReader(lines)
    }


PUBLISHED = _published()
NO_CELL = (np.nan,) * len(Cell._fields)


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
        chosen["source_pass"] = (
            "last"  # `--what definitions` and `--what ablation` show the averaged one
        )
    if reading == "table" and method == "homotl-1":
        # chosen after comparing all with the published row: the smallest largest miss on Office+Caltech
        chosen |= {"loss": "softmax", "combine": "scores"}
    return chosen


def prepare(task: str, split: int, reading: str, data_dir: str | None = None) -> Task:
    """One split of a task; split 0 of a reading with the fixed split is the published one."""
    published = READINGS[reading].split_rule == "fixed" and split == 0
    return task_of(family_of(task), task, split, published, data_dir)


def _compiled(task: str, split: int, reading: str, method: str, data_dir: str | None) -> Task:
    """The same, and the loops of the method ready before a clock runs."""
    compile_loops(method)
    return prepare(task, split, reading, data_dir)


# -- what is run ------------------------------------------------------------------------------------------------

# the parts of the report, and the groups of runs that each one needs
PARTS = {
    "table": ("table",),
    "curves": ("table",),
    "discrepancy": ("table",),
    "stats": ("table",),
    "time": ("table",),
    "bound": ("table", "mixers"),
    "sensitivity-C": ("sensitivity-C",),
    "sensitivity-Tw": ("sensitivity-Tw",),
    "ablation": ("table", "ablation"),
    "refresh": ("refresh",),
    "inputs": ("table", "inputs"),
    "definitions": ("definitions",),
}

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
RULES = {
    "fixed": "no update",
    "zero": "unseen at zero",
    "skip": "unseen skipped",
    "shrink": "unseen shrunk",
}

Variant = tuple[str, str, dict[str, Any]]  # method, name of the variant, what it sets


def run(
    folder: Folder, tasks: str = "all", methods: str = "all", trials: int = 20, splits: int = 1,
    reading: str = "table", what: str = "table,curves,discrepancy,bound,stats,time", data_dir: str | None = None,
) -> Path | None:  # fmt: skip
    """Check everything, run what is not in the folder yet and write the report; None if that was interrupted."""
    folder.begin(trials=trials, splits=splits)
    parts = parts_of(what)
    targets = find_tasks(tasks)
    names = find_methods(methods)
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)
    folder.check(reading=reading)
    targets = with_data(targets, data_dir, folder.say)
    return folder.run(
        by_turns(units(parts, targets, names, reading, trials, splits, data_dir)), report
    )


def parts_of(names: str) -> list[str]:
    """Parts of the report by name, joined by commas; "all" stands for every one.

    >>> parts_of("table,curves")
    ['table', 'curves']
    """
    return named("part of the report", names, PARTS)


def with_data(tasks: Sequence[str], data_dir: str | None, say: Say) -> list[str]:
    """The tasks whose family is there; what is missing is said, and is an error only if nothing is left."""
    there: list[str] = []
    for family in dict.fromkeys(map(family_of, tasks)):
        own = [task for task in tasks if family_of(task) == family]
        try:
            prepare(own[0], 0, "table", data_dir)
            there += own
        except DataMissing as error:
            missing = error
            titles = ", ".join(TASKS[task] for task in own)
            say(f"no data for {family!r}, so these tasks are left out: {titles}. {error}")
    if not there:
        raise missing
    return [task for task in tasks if task in there]


def units(
    parts: Sequence[str],
    tasks: Sequence[str],
    methods: Sequence[str],
    reading: str,
    trials: int,
    splits: int,
    data_dir: str | None = None,
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
                    orders = options.pop("orders", SIDE_ORDERS)
                    at = options.pop("split", split)
                    out.append(
                        Unit(
                            group,
                            task,
                            method,
                            partial(_compiled, task, at, reading, method, data_dir),
                            fitting.fit_with_horizon,
                            measure,
                            variant,
                            at,
                            trials if group in ("table", "mixers") else min(trials, orders),
                            settings(task, reading, method) | options,
                            # the order of the source rows behind the table's baselines is not known, and it matters:
                            # each order draws its own, so that the mean is over it; ODDM's is in the authors' files
                            redrawn if reading == "table" and method in BASELINES else None,
                            fitting.clock,
                            {"reading": reading},
                        )
                    )
    return out


def by_turns(work: Sequence[Unit]) -> list[Unit]:
    """Two tasks by turns: two workers that begin together do not solve the same alignments, and keep their data."""
    of_task: dict[str, list[Unit]] = {}
    for unit in work:
        of_task.setdefault(unit.task, []).append(unit)
    queues = list(of_task.values())
    pairs = [queues[i : i + 2] for i in range(0, len(queues), 2)]
    return [
        unit for pair in pairs for each in zip_longest(*pair) for unit in each if unit is not None
    ]


def _variants(group: str, task: str, methods: Sequence[str], reading: str) -> Iterator[Variant]:
    base = {
        m: reading_answers(m, reading, settings(task, reading, m)) for m in methods if m in METHODS
    }
    if group == "table":
        yield from ((method, "", {}) for method in methods)
    elif group == "sensitivity-C":
        with_C = [method for method in methods if "C" in options_read(method, {})]
        yield from ((method, f"C={C:g}", {"C": C}) for method in with_C for C in C_VALUES)
    elif group == "sensitivity-Tw":
        for method in (method for method in methods if "refresh_every" in options_read(method, {})):
            for Tw in TW_VALUES:  # one refresh a label is the slow end: fewer orders there
                yield (
                    method,
                    f"Tw={Tw}",
                    {"refresh_every": Tw, "orders": 1 if Tw < 5 else SIDE_ORDERS},
                )
    elif group == "ablation":
        for method in methods:
            yield from _ablation(method, base[method])
    elif group == "refresh":
        for label, extra in (("", ()), ("centred ", CENTRED)):
            for rule in RULES:
                method = "oddm-fixed" if rule == "fixed" else "oddm"
                if method in methods:
                    steps = {"preprocess": tuple(base[method]["preprocess"]) + extra}
                    yield (
                        method,
                        label + rule,
                        steps if rule == "fixed" else steps | {"unseen": rule},
                    )
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
    names = [
        name
        for name in SWITCHES
        if name in read and ("refresh_every" in read or name not in MOVING)
    ]
    for name in names:
        for value in (value for value in SWITCHES[name] if value != base.get(name)):
            shown = (
                "+".join(value)
                if isinstance(value, tuple)
                else "drawn"
                if name == "split"
                else f"{value}"
            )
            yield (
                method,
                f"{name}={shown}",
                {name: value} | ({"orders": 1} if name in ONE_ORDER else {}),
            )


def _definitions(methods: Sequence[str]) -> Iterator[Variant]:
    """HomOTL-I and -II for several classes, as one could define them; a margin has no simplex points of its own."""
    losses = ("projection", "softmax", "margin")
    combinations = ("simplex", "scores", "vote")
    first = [{"loss": loss, "combine": combine} for loss in losses for combine in combinations]
    tried = {
        "homotl-1": first,
        "homotl-2": [{"combine": combine} for combine in ("scores", "vote")],
    }
    for method in (method for method in tried if method in methods):
        for chosen in tried[method]:
            for last in ("last", "average"):
                name = ", ".join([*chosen.values(), last])
                options = {**chosen, "source_pass": last}
                if options.get("loss") != "margin" or options["combine"] != "simplex":
                    yield method, name, options
                if options.get("loss") == "margin" and options["combine"] == "scores":
                    yield method, f"{name}, eta 2", {**options, "eta": 2.0}


def measure(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """What a row says of a finished order; of the table's runs also the curve and, for some, the discrepancy."""
    stream = task.arrived(trial)
    curves = unit.group == "table"
    X = stream.X
    y = np.asarray(stream.y)
    ends = evenly(len(y)) if curves else [len(y)]
    follow = curves and trial < DISCREPANCY_ORDERS and _has_linear_map(clf)
    gaps = _true_gaps(clf, X, y) if follow else []
    distances = [_distance(clf, gaps)] if follow else []
    wrong = np.empty(len(y), dtype=bool)
    seconds = 0.0
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
    return bool(learner.n_sources) and learner.projection(0) is not None


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
    """The rows of the experiments, and the command that ran them; without a group, those of the table are meant."""

    command = "python -m reproduction"

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

    def means(
        self, group: str, tasks: Sequence[str], columns: Mapping[str, tuple[str, str]]
    ) -> pd.DataFrame:
        """Mean rates on these tasks, with a column for each (method, variant); NaN where nothing was run."""
        cells = {
            name: [self.cell(group, task, *key) for task in tasks] for name, key in columns.items()
        }
        means = {
            name: [cell.mean if cell else np.nan for cell in column]
            for name, column in cells.items()
        }
        return require("pandas", "lab").DataFrame(means, index=tasks, dtype=float)

    @property
    def table_means(self) -> pd.DataFrame:
        """The mean rates of the table, a row a task, a column a method."""
        return self.means(
            "table", self.tasks(), {method: (method, "") for method in self.methods()}
        )

    def change(self, task: str, method: str, variant: str) -> float:
        """Points by which a switch changes the table's mean, over the orders that both have; NaN without any."""
        base, other = (
            self.rates(*key)
            for key in (("table", task, method), ("ablation", task, method, variant))
        )
        base = base[base.index.get_level_values("split") == 0].droplevel("split")
        other = other.droplevel("split")
        return float((other - base).mean())

    @cached_property
    def agreement(self) -> pd.DataFrame:
        """Every cell of the table beside the published one, by task and method; NaN where there is none.

        `difference` of the means in points, `room` of both spreads together; `judged` are cells with orders enough that
        their spread says something, `marked` those of them that differ by more than that room.
        """
        frame = require("pandas", "lab").DataFrame
        places = [(t, m) for t in self.tasks() for m in self.methods()]
        cells = [[*(self.at(*key) or NO_CELL), *PUBLISHED.get(key, NO_CELL)[:2]] for key in places]
        index = frame(places, columns=["task", "method"]).set_index(["task", "method"]).index
        made = frame(cells, index, [*Cell._fields, "published_mean", "published_sd"], dtype=float)
        made["difference"] = made["mean"] - made["published_mean"]
        made["spread"] = np.hypot(made["sd"], made["between"])
        made["room"] = made["spread"] + made["published_sd"]
        made["judged"] = made["orders"] // made["splits"] >= ENOUGH_ORDERS
        made["marked"] = made["judged"] & (made["difference"].abs() > made["room"])
        return made

    def far_cells(self) -> list[tuple[str, str, pd.Series[Any]]]:
        """All cells of the table that differ from the published ones by more than both spreads."""
        return [(*key, row) for key, row in self.agreement[self.agreement["marked"]].iterrows()]

    def orders(self, group: str) -> str:
        """How many orders the cells of a group have."""
        counts = sorted({cell.orders for cell in self.cells(group)})
        return (f"{counts[0]} to " if len(counts) > 1 else "") + count(counts[-1], "order")


def options_used(method: str, reading: str, options: dict[str, Any]) -> dict[str, str]:
    """In words: the reading's answers that the method reads, then the classifier's remaining options with a value.

    Of a method that is not registered here (a plugin's, in a folder of results) nothing is left out.
    """
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    answers = reading_answers(method, reading, options)
    read = options_read(method, options) if method in METHODS else answers.keys()
    used = {name: value for name, value in answers.items() if name in read}
    used |= {
        name: value for name, value in options.items() if name not in answers and value is not None
    }
    words = {
        name: "+".join(map(str, v)) if isinstance(v, tuple) else f"{v}" for name, v in used.items()
    }
    return {
        name: "the method's own" if used[name] is None else word for name, word in words.items()
    }


def options_table(runs: PaperRuns, family: str) -> Table | None:
    """Every option of every method, as used for a family's table."""
    parts = {
        m: runs.part("table", task, m)
        for task in runs.tasks(family=family)[:1]
        for m in runs.methods()
    }
    columns = {
        m: options_used(m, p["reading"].iloc[0], p["options"].iloc[0])
        for m, p in parts.items()
        if len(p)
    }
    names = dict.fromkeys(
        name for options in columns.values() for name in options if name != "horizon"
    )
    rows = [[name, *(options.get(name, "–") for options in columns.values())] for name in names]
    name = f"options-{family}"
    header = runs.header(list(columns), "option")
    return (
        table("options", header, rows, name=name, folded=True, family=FAMILIES[family])
        if rows
        else None
    )


def marked(cells: Sequence[Cell | None]) -> list[Value]:
    """Cells of a row, the lowest marked."""
    return lowest([cell and cell.mean for cell in cells], cells, ".2f")


# -- sections ---------------------------------------------------------------------------------------------------


def mistakes(runs: PaperRuns) -> Table:
    """The paper's table: mean and spread in each cell, the published numbers below them, the average over the tasks."""
    tasks = runs.tasks()
    methods = runs.methods()
    cells = runs.agreement
    rows: list[list[object]] = []
    for task in tasks:
        ours = [runs.at(task, m) for m in methods]
        far = cells.loc[task]["marked"]
        theirs = [
            str(PUBLISHED.get((task, m), "")) if cell else ""
            for m, cell in zip(methods, ours, strict=True)
        ]
        values = zip(marked(ours), theirs, far, strict=True)
        rows.append(
            [
                TASKS[task],
                *(replace(v, below=t, mark=f"{'far ' * f}{v.mark}".strip()) for v, t, f in values),
            ]
        )
    if len(tasks) > 1:
        rows.append(["Average"])
        for method, own in runs.table_means.mean(skipna=False).items():
            published = cells.xs(method, level="method")["published_mean"].mean()
            below = "" if published != published else f"{published:.2f}"
            rows[-1].append(Value(f"{own:.2f}", below) if own == own else "–")
    there = cells.dropna(subset="mean").astype({"orders": int, "splits": int}).round(4)
    there["between"] = there["between"].where(there["splits"] > 1)
    names = {
        "mean": "mean",
        "sd": "sd_orders",
        "between": "sd_splits",
        "orders": "runs",
        "splits": "splits",
    }
    kept = [*names.values(), "published_mean", "published_sd", "difference", "marked"]
    counts = " or ".join(map(str, sorted(set(there["orders"] // there["splits"]))))
    return table(
        "mistakes", runs.header(methods), rows, there.rename(columns=names)[kept].reset_index().to_dict("records"),
        over=f"{counts} order{'s' * (counts != '1')} of the stream", splits=there["splits"].max(),
        published=PUBLISHED_ORDERS, judged=there["judged"].any(), enough=ENOUGH_ORDERS,
    )  # fmt: skip


def _table_section(runs: PaperRuns) -> Iterator[Part]:
    yield mistakes(runs)
    titles = [TASKS[task] for task in runs.tasks()]
    agreement = []
    panels = {}
    for method in runs.methods():
        own = runs.agreement.xs(method, level="method")
        misses = own["difference"].dropna()
        if len(misses):
            worst = misses.abs().idxmax()
            words = {"method": runs.titles[method], "worst": TASKS[worst], "miss": misses[worst]}
            agreement.append(text("agreement-of", **words, n=len(misses), mean=misses.abs().mean()))
            panels[runs.titles[method]] = [
                Dots("ours", 5, own["mean"].to_numpy(), own["spread"].fillna(0.0).to_numpy()),
                Dots(
                    "published",
                    0,
                    own["published_mean"].to_numpy(),
                    own["published_sd"].fillna(0.0),
                    hollow=True,
                ),
            ]
    if agreement:
        size = (2.3, 1.0 + 0.24 * len(titles))
        yield figure(
            "agreement",
            dots(panels, titles, "mistakes, %", columns=4, size=size, step=0.34, line=False),
        )
        yield agreement


ALIKE = 0.3  # points: a switch that comes within this of the best one explains a cell as well
HOMOTL = ("homotl-1", "homotl-2")
UNKNOWN_ORDER = ("paio", "homotlms", *HOMOTL)


def switches(runs: PaperRuns, task: str, method: str, miss: float) -> list[tuple[str, float]]:
    """Every switch of the ablation and a cell's distance from the published mean with it, the closest first."""
    changes = (
        (variant, runs.change(task, method, variant))
        for variant in runs.variants("ablation", method)
    )
    return sorted(
        ((v, miss + change) for v, change in changes if change == change),
        key=lambda pair: abs(pair[1]),
    )


def explain(runs: PaperRuns, task: str, method: str, cell: pd.Series[Any]) -> str:
    """Sentences on a marked cell: how far off it is, and which single switch, if any was run, brings it closest."""
    miss = abs(cell["difference"])
    causes = ["an unknown definition for several classes"] if method in HOMOTL else []
    causes += ["pixels that went through JPEG"] if family_of(task) == "pie" else []
    causes += ["an unknown order of the source rows"] if method in UNKNOWN_ORDER else []
    tried = switches(runs, task, method, cell["difference"])
    best, left = tried[0] if tried else ("", np.inf)
    others = [f"{v} ({signed(m)})" for v, m in tried[1:] if abs(m) <= min(abs(left) + ALIKE, miss)]
    return text(
        "far-cell", method=runs.titles[method], task=TASKS[task], cell=cell, tried=len(tried), best=best, left=left,
        closer=abs(left) < miss, inside=abs(left) <= cell["room"], others="; ".join(others[:3]),
        causes=", ".join(causes),
    )  # fmt: skip


def causes(runs: PaperRuns) -> Table | None:
    """Each marked cell's distance from the published mean under each single switch; None if there is none."""
    rows = []
    records = []
    for task, method, cell in runs.far_cells():
        if tried := switches(runs, task, method, cell["difference"]):
            moves = [f"{variant} {signed(left)}" for variant, left in tried]
            more = Value("; ".join(moves[1:4]), mark="words")
            rows.append(
                [TASKS[task], runs.titles[method], signed(cell["difference"]), moves[0], more]
            )
            shared = {"task": task, "method": method, "difference": round(cell["difference"], 4)}
            records += [
                shared | {"switch": v, "difference_with_switch": round(left, 4)}
                for v, left in tried
            ]
    header = ["task", "method", "difference", "closest switch", "next"]
    return table("differences", header, rows, records) if rows else None


def ablation(runs: PaperRuns, method: str) -> Table:
    """What each single switch does to each task, in points against the table."""
    tasks = runs.tasks("ablation")
    variants = runs.variants("ablation", method)
    changes = {
        variant: [runs.change(task, method, variant) for task in tasks] for variant in variants
    }
    rows = [
        [variant, *map(signed, each), signed(float(np.mean(each)))]
        for variant, each in changes.items()
    ]
    records = [
        {"method": method, "variant": variant, "task": task, "change": round(change, 4)}
        for variant, each in changes.items()
        for task, change in zip(tasks, each, strict=True)
    ]
    header = ["switch", *(TASKS[task] for task in tasks), "mean"]
    name = f"ablation-{method}"
    title = runs.titles[method]
    return table("ablation", header, rows, records, name=name, folded=True, method=title)


def definitions(runs: PaperRuns, method: str) -> tuple[str, Table] | None:
    """Each definition of HomOTL-I or -II against the published numbers, the closest first, and which one that is."""
    tasks = [task for task in runs.tasks("definitions") if (task, method) in PUBLISHED]
    means = runs.means(
        "definitions", tasks, {v: (method, v) for v in runs.variants("definitions", method)}
    )
    misses = means.sub([PUBLISHED[task, method].mean for task in tasks], axis=0).dropna(axis=1)
    if misses.empty:
        return None
    misses = misses[misses.abs().mean().sort_values(kind="stable").index]
    best = misses.iloc[:, 0]
    name = runs.titles[method]
    worst = best.abs().idxmax()
    sentence = text(
        "closest-definition", method=name, tried=misses.shape[1], best=best.name, tasks=count(len(tasks), "task"),
        mean=best.abs().mean(), worst=TASKS[worst], miss=best[worst],
    )  # fmt: skip
    rows = [
        [v, *map(signed, m), f"{m.abs().mean():.2f}", signed(max(m, key=abs))]
        for v, m in misses.items()
    ]
    header = ["definition", *(TASKS[task] for task in tasks), "mean miss", "largest"]
    return sentence, table("definitions", header, rows, name=f"definitions-{method}", method=name)


def _differences(runs: PaperRuns) -> Iterator[Part]:
    away = runs.far_cells()
    methods = set(runs.methods())
    if away:
        cells = "1 cell differs" if len(away) == 1 else f"{len(away)} cells differ"
        yield f"{cells} from the published mean by more than both deviations together."
        yield [explain(runs, *each) for each in away]
    elif not runs.agreement["judged"].any():
        yield f"Which cells differ is not judged: that takes at least {ENOUGH_ORDERS} orders of a stream."
    else:
        yield "No cell differs from the published mean by more than both deviations together."
    known = [text("pie-images")] if runs.tasks(family="pie") else []
    known += [text("source-order")] if set(UNKNOWN_ORDER) & methods else []
    known += [text("several-classes")] if set(HOMOTL) & methods else []
    if known:
        yield "Known without any run:"
        yield known
    if runs.has("ablation"):
        yield causes(runs)
        yield from (ablation(runs, method) for method in runs.methods("ablation"))
    else:
        yield _missing(
            runs, "ablation", "Each option switched alone, to find the causes, was not run."
        )
    closest = [each for method in HOMOTL if (each := definitions(runs, method))]
    if closest:
        yield [sentence for sentence, _ in closest]
        yield from (made for _, made in closest)
    else:
        yield _missing(
            runs, "definitions", "Other definitions of HomOTL-I and HomOTL-II were not run."
        )


def _missing(runs: PaperRuns, part: str, what: str) -> pages.Missing:
    """A part without rows: what it would show, and how to get it."""
    return pages.Missing(what, f"{runs.command} --what {part} --resume")


def _along(runs: PaperRuns, column: str, ylabel: str) -> list[Panel]:
    """A curve of the table's runs, a panel for each task, from the start of its stream to the end."""
    panels = []
    for task in runs.tasks():
        lines = []
        n = 0
        for method in runs.methods():
            part = runs.part("table", task, method)
            n = n or (part["n"].iloc[0] if len(part) else 0)
            part = part[part[column].map(bool)] if column in part else part[:0]
            if len(part):
                name = runs.titles[method]
                j = runs.styles[method]
                at = np.array(part[f"{column}_at"].iloc[0])
                if column == "curve":
                    lines.append(Line.over(name, j, 100 * at / at[-1], curves(part)[1].T))
                else:
                    lines.append(ratio(name, j, 100 * at / at[-1], part[column].to_list()))
        if lines:
            panels.append(
                Panel(
                    f"{TASKS[task]}, {n} instances",
                    lines,
                    "share of the stream, %",
                    ylabel,
                    (0.0, 100.0),
                )
            )
    return panels


def _stream(runs: PaperRuns) -> Iterator[Part]:
    yield figure("curves", draw(_along(runs, "curve", "mistakes so far, %")))
    if distances := _along(runs, "discrepancy", "discrepancy / its start"):
        yield figure("discrepancy", draw(distances, log="y"))


def sensitivity(runs: PaperRuns, option: str) -> Iterator[Part]:
    """Mistakes against the values of C (a panel a task) or of T_w (a panel a method and family): figure and table."""
    group = f"sensitivity-{option}"
    name = option.replace("Tw", "T_w")
    if not runs.has(group):
        yield _missing(runs, group, f"The sensitivity to {name} was not run.")
        return
    values = {v: float(v.partition("=")[2]) for v in runs.variants(group)}
    variants = sorted(values, key=values.__getitem__)
    tasks = runs.tasks(group)
    methods = runs.methods(group)
    cells = {(t, m): [runs.cell(group, t, m, v) for v in variants] for t in tasks for m in methods}

    def line(task: str, method: str, name: str, style: int) -> Line:
        there = [v for v, cell in zip(variants, cells[task, method], strict=True) if cell]
        rates = [runs.rates(group, task, method, v) for v in there]
        return Line.over(name, style, [values[v] for v in there], rates)

    if option == "C":
        of_task = {t: [line(t, m, runs.titles[m], runs.styles[m]) for m in methods] for t in tasks}
        panels = [Panel(TASKS[t], lines, "C", "mistakes, %") for t, lines in of_task.items()]
        drawn = draw(panels, log="x", sparse=False)
    else:
        families = {family: there for family in FAMILIES if (there := runs.tasks(group, family))}
        panels = [
            Panel(
                f"{runs.titles[method]}, {FAMILIES[family]}",
                [line(t, method, TASKS[t], j) for j, t in enumerate(there)],
                "labels between two updates, $T_w$", "mistakes, %",
            )
            for method in methods
            for family, there in families.items()
        ]  # fmt: skip
        drawn = draw(
            panels,
            columns=len(families),
            size=(4.9, 3.6),
            names="ends",
            log="x",
            sparse=False,
            shared=False,
        )
    yield figure(group, drawn)
    rows = [
        [TASKS[task], runs.titles[method], *marked(row)]
        for (task, method), row in cells.items()
        if any(row)
    ]
    header = ["task", "method", *variants]
    yield table(
        "sensitivity", header, rows, name=group, folded=True, option=name, orders=runs.orders(group)
    )


# -- the effect of the refresh, the same inputs for everybody ---------------------------------------------------

RULE_WORDS = {
    "zero": "classes not seen yet at zero (the released code)",
    "skip": "classes not seen yet left out (the printed formula)",
    "shrink": "class means shrunk by n_k/(n_k + kappa)",
}
UPDATES = tuple(RULE_WORDS)
SMALL = 0.25  # points: less is called no change


def _refresh_means(runs: PaperRuns, tasks: Sequence[str]) -> pd.DataFrame:
    """The mean rates on these tasks with each rule, as given and centred."""
    variants = [label + rule for label in ("", "centred ") for rule in RULES]
    return runs.means(
        "refresh", tasks, {variant: (_refreshed(variant), variant) for variant in variants}
    )


def _refreshed(variant: str) -> str:
    return "oddm-fixed" if variant.endswith("fixed") else "oddm"


def refresh(runs: PaperRuns) -> Iterator[Part]:
    """Does updating A help, and how much of the gain does centring alone give?"""
    if not runs.has("refresh"):
        yield _missing(
            runs,
            "refresh",
            "No update of A, and updates by each rule, with and without centring: not run.",
        )
        return
    tasks = runs.tasks("refresh")
    labels = {"": "as given", "centred ": "every domain centred"}
    yield [sentence for family in FAMILIES for sentence in refresh_sentences(runs, family)]
    means = _refresh_means(runs, tasks)
    names = {rule: f"unseen classes {RULES[rule].removeprefix('unseen ')}" for rule in UPDATES}
    gains = {
        title: [
            Dots(names[r], j, means[f"{label}fixed"] - means[label + r])
            for j, r in enumerate(UPDATES, start=4)
        ]
        for label, title in labels.items()
    }
    size = (4.1, 0.7 + 0.36 * len(tasks))
    drawn = dots(
        gains, [TASKS[task] for task in tasks], "points gained by updating A", columns=2, size=size
    )
    yield figure("gains", drawn, name="refresh")
    rows = []
    for task in tasks:
        cells = [runs.cell("refresh", task, _refreshed(variant), variant) for variant in means]
        rows.append([TASKS[task], *marked(cells[: len(RULES)]), *marked(cells[len(RULES) :])])
    header = [
        "task",
        *(f"{label}{title}" for label in ("", "centred: ") for title in RULES.values()),
    ]
    yield table("refresh", header, rows, orders=runs.orders("refresh"))


def refresh_sentences(runs: PaperRuns, family: str) -> Iterator[str]:
    """What the update and centring do on the tasks of a family that were run with every rule."""
    means = _refresh_means(runs, runs.tasks("refresh", family)).dropna()
    if means.empty:
        return
    gains, centred = (
        {r: means[f"{c}fixed"] - means[f"{c}{r}"] for r in UPDATES} for c in ("", "centred ")
    )
    words: dict[str, Any] = {
        "title": FAMILIES[family],
        "gains": gains,
        "centred": centred,
        "small": SMALL,
    }
    words["centring"] = means["fixed"] - means["centred fixed"]
    words["gone"] = max(1 - max(centred["zero"].mean(), 0.0) / (gains["zero"].mean() or 1.0), 0.0)
    for rule in UPDATES:
        yield text("helps", gain=gains[rule], what=f"updating A with {RULE_WORDS[rule]}", **words)
    yield text(
        "helps",
        gain=words["centring"],
        what="centring every domain, without any update of A,",
        **words,
    )
    yield text("after-centring", **words)
    yield text("update-or-centring", **words)


def inputs(runs: PaperRuns) -> Iterator[Part]:
    """The table with the same preprocessing for every method, and how far the paper's leads under each."""
    if not runs.has("inputs"):
        yield _missing(
            runs, "inputs", "The table with the same preprocessing for every method was not run."
        )
        return
    yield list(input_sentences(runs))
    methods = runs.methods("inputs")
    for variant in (v for v in ("centred", "zscore+unit") if v in runs.variants("inputs")):
        means = runs.means(
            "inputs", runs.tasks("inputs"), {m: (m, variant) for m in methods}
        ).dropna(how="all")
        rows = [
            [TASKS[t], *marked([runs.cell("inputs", t, m, variant) for m in methods])]
            for t in means.index
        ]
        if len(rows) > 1:
            rows.append(["Average", *(f"{mean:.2f}" for mean in means.mean(skipna=False))])
        kind = f"inputs-{variant.replace('+', '-')}"
        yield table(kind, runs.header(methods), rows, orders=runs.orders("inputs"))


def input_sentences(runs: PaperRuns) -> Iterator[str]:
    """How far the paper's method leads the best baseline under each scaling, over the tasks that were run with it."""
    baselines = [m for m in runs.methods("inputs") if m in BASELINES]
    if not baselines or "oddm" not in runs.methods("inputs"):
        return

    def lead(group: str, variant: str, tasks: Sequence[str]) -> str:
        means = runs.means(group, tasks, {m: (m, variant) for m in (*baselines, "oddm")}).dropna()
        return (
            text("lead-over-baselines", points=means[baselines].min(axis=1) - means["oddm"])
            if len(means)
            else ""
        )

    for variant in runs.variants("inputs"):
        for family, title in FAMILIES.items():
            tasks = runs.tasks("inputs", family)
            same = lead("inputs", variant, tasks)
            before = lead("table", "", tasks)
            if same and before:
                yield f"{title}, {variant}: {runs.titles['oddm']} {same}; with the table's own scalings it {before}."


# -- statistics and time ----------------------------------------------------------------------------------------

TOO_FEW = 6  # paired differences below which Wilcoxon's test cannot reach 0.05, whatever they are


def reference(runs: PaperRuns) -> str:
    """The method that the others are compared with: the paper's own if it was run, else the last one."""
    return "oddm" if "oddm" in runs.methods() else runs.methods()[-1]


def within_tasks(runs: PaperRuns) -> Table:
    """The reference against each other method on each task: difference in points, Holm's p below."""
    first = reference(runs)
    others = [m for m in runs.methods() if m != first]
    rows = []
    records = []
    for task in runs.tasks():
        there = [m for m in runs.methods() if runs.at(task, m)]
        rates = (
            require("pandas", "lab")
            .DataFrame({m: runs.rates("table", task, m) for m in there})
            .dropna()
        )
        if len(there) < 2 or rates.empty or first not in there:
            continue
        pairs = {p.second: p for p in against({m: rates[m].to_numpy() for m in there}, first)}
        better = {m: p.clear and p.difference < 0 for m, p in pairs.items()}
        shown = {
            m: Value(signed(p.difference), chance(p.adjusted), "best" * better[m])
            for m, p in pairs.items()
        }
        rows.append([TASKS[task], *(shown.get(m, "–") for m in others)])
        records += [
            {"task": task, "first": first, "second": p.second, "difference": round(p.difference, 4)}
            | {"pairs": p.blocks, "p": p.p, "p_holm": p.adjusted}
            for p in pairs.values()
        ]
    return table(
        "wilcoxon", runs.header(others), rows, records, first=runs.titles[first], alpha=ALPHA
    )


def ranking(runs: PaperRuns) -> Ranking | None:
    """Friedman and Nemenyi over the tasks, on the mean rates; None without two tasks and two methods."""
    means = runs.table_means.dropna()
    return (
        friedman({m: means[m].to_numpy() for m in means})
        if means.shape[1] > 1 and len(means) > 1
        else None
    )


def rank_sentences(runs: PaperRuns, ranks: Ranking | None) -> Iterator[str]:
    """What the tests say, and what they cannot."""
    if ranks is not None:
        apart = ", ".join(runs.titles[name] for name in ranks.apart) or "no other method"
        yield text(
            "friedman", ranks=ranks, alpha=ALPHA, best=runs.titles[ranks.ordered[0][0]], apart=apart
        )
    cells = runs.cells("table")
    orders = max(cell.orders // cell.splits for cell in cells)
    splits = max(cell.splits for cell in cells)
    yield text("orders-of-a-split", orders=orders, splits=splits)
    if orders * splits < TOO_FEW:
        yield f"With {orders * splits} paired runs Wilcoxon's test cannot fall below 0.05: run at least {TOO_FEW}."
    yield text("ranks-over-tasks")


def _statistics(runs: PaperRuns) -> Iterator[Part]:
    ranks = ranking(runs)
    yield list(rank_sentences(runs, ranks))
    if len(runs.methods()) > 1:
        yield within_tasks(runs)
    if ranks is not None:
        yield figure("critical-difference", critical_difference(ranks, runs.titles, runs.styles))
        rows = [[runs.titles[name], f"{mean:.2f}"] for name, mean in ranks.ordered]
        yield table("ranks", ["method", "mean rank"], rows, tasks=ranks.tasks)


def _time(runs: PaperRuns) -> Iterator[Part]:
    """Median seconds of the offline and of the online stage."""
    methods = runs.methods()
    for what in ("offline", "online"):
        rows = []
        for task in runs.tasks():
            parts = [runs.part("table", task, m) for m in methods]
            length = next(part["n"].iloc[0] for part in parts if len(part))
            medians = (part[f"seconds_{what}"].median() for part in parts)
            shown = ("–" if x != x else f"{x:.3f}" if x < 10 else f"{x:.1f}" for x in medians)
            rows.append([f"{TASKS[task]} ({length})", *shown])
        yield table(f"time-{what}", runs.header(methods), rows)


def _theory(runs: PaperRuns) -> Iterator[Part]:
    yield from theory.parts(runs, TASKS)
    if not runs.has("mixers"):
        yield _missing(
            runs, "bound", "Mixers with a guarantee (vote, simplex scores, log-loss) were not run."
        )


def _sensitivity(runs: PaperRuns) -> Iterator[Part]:
    return chain(sensitivity(runs, "C"), sensitivity(runs, "Tw"))


# title, anchor, what stands there, whether it is about the table's runs
SECTIONS = (
    ("Table of mistakes", "table", _table_section, True),
    ("Differences", "differences", _differences, True),
    ("Along the stream", "stream", _stream, True),
    ("Sensitivity", "sensitivity", _sensitivity, False),
    ("Effect of the refresh", "refresh", refresh, False),
    ("The same preprocessing for everybody", "inputs", inputs, False),
    ("Theory", "theory", _theory, True),
    ("Statistics", "statistics", _statistics, True),
    ("Time", "time", _time, True),
)


# -- the page ---------------------------------------------------------------------------------------------------


def verdict(runs: PaperRuns) -> str:
    """What somebody should know who reads nothing else: what was run, who leads, how near the paper, what broke."""
    if not runs.has("table"):
        return "The table of mistakes was not run, so nothing is said here about the paper's numbers as a whole."
    tasks = runs.tasks()
    subject = reference(runs)
    means = runs.table_means.dropna()
    cells = runs.agreement
    published = (
        cells.xs(subject, level="method")["published_mean"].reindex(means.index).mean(skipna=False)
    )
    claims = theory.claims_of(runs.frame)
    trials = runs.frame[runs.frame["group"] == "table"]["trial"]
    return text(
        "paper-verdict", methods=count(len(runs.methods()), "method"), orders=count(int(trials.max()) + 1, "order"),
        where=TASKS[tasks[0]] if len(tasks) == 1 else f"{len(tasks)} tasks", titles=runs.titles, subject=subject,
        average=means.mean(), tasks=len(means), published=published, enough=ENOUGH_ORDERS,
        wins=int((means.idxmin(axis=1) == subject).sum()) if len(means) else 0,
        cells=cells.dropna(subset="difference"), broken=claims[claims["claim"] == "theorem"]["broken"],
    )  # fmt: skip


def report(out: str | Path, say: Say = lambda text: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    folder = Path(out)
    command = f"python -m reproduction --out {shlex.quote(str(out))}"
    runs = PaperRuns.read(folder, say, f"run `{command}` first")
    runs.command = commands_given(folder).rpartition(" · ")[2] or command
    sections = [
        pages.Section(title, [part for part in make(runs) if part], anchor)
        for title, anchor, make, of_table in SECTIONS
        if runs.has("table") or not of_table
    ]
    options = [made for family in FAMILIES if (made := options_table(runs, family))]
    facts = _facts(runs, folder)
    about = text("about-paper")
    return pages.Report(
        "HomOTL-ODDM, reproduced", verdict(runs), sections, facts, about, options
    ).save(folder)


def _facts(runs: PaperRuns, folder: Path) -> dict[str, str]:
    """What was run, for the end of the report."""
    frame = runs.frame
    rows = frame[frame["group"] == "table"] if runs.has("table") else frame
    trials = sorted(set(rows["trial"]))
    splits = sorted(set(rows["split"]))
    known = frame[frame["task"].isin(TASKS)]
    sums = (
        known["data"]
        .groupby(known["task"].map(lambda task: FAMILIES[family_of(task)]), sort=False)
        .agg(set)
    )
    mixed = " (rows of different data are mixed here)" if (sums.map(len) > 1).any() else ""
    versions = {
        ", ".join(f"{name} {number}" for name, number in each.items()) for each in frame["versions"]
    }
    return {
        "command": commands_given(folder),
        "reading": ", ".join(sorted(set(frame["reading"]))),
        "tasks": ", ".join(TASKS[task] for task in runs.tasks()),
        "methods": ", ".join(runs.titles[m] for m in runs.methods()),
        "orders": f"{len(trials)} of each stream (seeds {trials[0]} to {trials[-1]}), the same for every method",
        "splits": f"{len(splits)} (seeds {', '.join(map(str, splits))})"
        + ("; split 0 is the published one where the files have it" if 0 in splits else ""),
        "data": ", ".join(f"{name} {'/'.join(sorted(each))}" for name, each in sums.items())
        + mixed,
        "run with": "; ".join(sorted(versions)),
        "results": f"{len(frame)} runs in results.jsonl" + "".join(f"; {p}" for p in runs.problems),
    }
