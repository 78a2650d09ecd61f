"""What the rows of a comparison say: `Comparison`, its verdict, its tables and figures, and the page.

| measure  | of the probabilities p of an instance and its class y                 | best |
|----------|-----------------------------------------------------------------------|------|
| Brier    | sum_k (p_k - [k = y])^2, mean over the instances                       | 0    |
| log-loss | -ln max(p_y, 1e-6), mean over the instances                            | 0    |
| ECE      | |share right - mean confidence| of ten bins, mean over the instances   | 0    |
| recall   | share of a class that is recognised; in the table the mean over classes | 100 % |
| AUC      | P(p_k of an instance of class k > that of another); mean over classes  | 1    |

The confidence of a prediction is its largest probability. A class that was not known when an instance was predicted has
probability 0; the floor of the log-loss keeps one such instance from drowning all others.

| measure  | of predictions p, intervals of half width h, and labels y that are numbers                 | best     |
|----------|--------------------------------------------------------------------------------------------|----------|
| RMSE     | root of the mean of (p - y)^2                                                                | 0        |
| MAE      | mean of abs(p - y)                                                                           | 0        |
| coverage | share of labels with abs(p - y) <= h                                                         | as asked |
| width    | mean of 2 h                                                                                  | 0        |
| Winkler  | mean of 2 h + 2/(1 - coverage) max(abs(p - y) - h, 0): a narrow interval that misses is punished | 0    |

Intervals of other learners follow our rule, a quantile tracker, on their own misses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.lab import figures
from hedgerow.lab import report as pages
from hedgerow.lab import rows as results
from hedgerow.lab.figures import Line, Panel
from hedgerow.lab.peers import PEERS, REFIT
from hedgerow.lab.report import Beside, Figure, Section, Table, Value, chance, figure, lowest, signed, table, text
from hedgerow.lab.rows import Cell, Row, Runs, curves
from hedgerow.lab.runner import commands_given
from hedgerow.lab.stats import ALPHA, Pair, against, friedman, mcnemar
from hedgerow.lab.tasks import SEED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

COMPARED, LEFT_OUT = "compare", "without"  # groups of rows: all sources, and one left out
READING = "general"  # what a user gets who sets nothing
FIRST = 50  # labelled instances that count as the start of a stream
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
BINS, FLOOR = 10, 1e-6  # of confidence; of a probability in the log-loss
LEAST = 10  # predictions of a bin that are enough to draw it
EXPERTS = 5  # experts that have a band of their own; the rest share one
SHOWN = 12  # classes up to which their shares are written into the figure; lines of the table of mistakes among them
CLASSES = 25  # classes that a figure of mistakes among them can show
SIZE = (6.2, 4.0)  # inches: two figures stand beside each other


# -- scores of predictions --------------------------------------------------------------------------------------


def brier(p: Array, codes: Array) -> float:
    """The mean squared distance between the probabilities (a column a class) and what came.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
    0.25
    """
    return float(((p - np.eye(p.shape[1])[codes]) ** 2).sum(axis=1).mean())


def log_loss(p: Array, codes: Array) -> float:
    """The mean of -ln of the probability of the class that came, which counts as at least 1e-6.

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 3)
    7.254
    """
    return float(-np.log(np.maximum(p[np.arange(len(codes)), codes], FLOOR)).mean())


def reliability(p: Array, codes: Array) -> dict[str, list[float]]:
    """Predictions in bins of confidence: how many, the sum of their confidences, how many were right.

    >>> reliability(np.array([[0.95, 0.05], [0.45, 0.55]]), np.array([0, 0]))["right"]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "confidence": np.bincount(bins, weights=confidence, minlength=BINS).tolist(),
        "right": np.bincount(bins[right], minlength=BINS).tolist(),
    }


def calibration_error(bins: Mapping[str, Any]) -> float:
    """The expected calibration error of bins of confidence.

    >>> calibration_error(reliability(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])))
    0.25
    """
    return float(np.abs(np.subtract(bins["right"], bins["confidence"])).sum() / max(np.sum(bins["count"]), 1))


def by_class(p: Array, codes: Array) -> dict[str, list[float | None]]:
    """Of each class that came: its AUC against all others, None where nothing else came, and its log-loss.

    >>> by_class(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 0]))["auc"]
    [1.0, 1.0]
    """
    from scipy.stats import rankdata

    aucs: list[float | None] = []
    losses: list[float | None] = []
    for k in range(p.shape[1]):
        own = codes == k
        n, others = int(own.sum()), int((~own).sum())
        above = rankdata(p[:, k])[own].sum() - n * (n + 1) / 2
        aucs.append(float(above / (n * others)) if n and others else None)
        losses.append(log_loss(p[own], codes[own]) if n else None)
    return {"auc": aucs, "log_loss": losses}


def packed(wrong: Array) -> str:
    """Which labelled instances were mistakes, a bit each, as text.

    >>> packed(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1], dtype=bool))
    '8180'
    """
    return np.packbits(wrong).tobytes().hex()


def unpacked(row: Mapping[Any, Any]) -> Array:
    """The same from a row.

    >>> unpacked({"wrong": "8180", "n": 9}).astype(int).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1, 1]
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(row["wrong"]), dtype=np.uint8))[: row["n"]].astype(bool)


# -- what the rows say ------------------------------------------------------------------------------------------


class Comparison:
    """A finished comparison, as `hedgerow.compare` returns it; a notebook shows its verdict, curves and table.

    Attributes
    ----------
    verdict : str
        What somebody should know who reads nothing else.
    table : pandas.DataFrame
        The numbers of each method, shares in per cent, the fewest mistakes first, equal ones by their log-loss.
    rows : pandas.DataFrame
        Every run: a method, perhaps without a source, in one order. `records` are the same as a folder has them.
    worth : pandas.DataFrame
        By how many points mistakes rise without a source, by method and source.
    pairs : list of Pair
        The leader against each other method, tested over the orders or over the instances of the first.
    plots : dict
        The figures by name, as matplotlib's.
    notes : list of str
        What the command line would print: that it shuffles, which peers are not installed.
    """

    measure, noun = "mistakes", "instances"  # what methods are ranked by, and what is counted
    order: tuple[str, ...] = ("mistakes", "log_loss")

    def __init__(self, rows: list[Row], notes: Sequence[str] = (), task: str = "") -> None:
        self.records, self.notes = [row for row in rows if task in ("", row["task"])], list(notes)
        self._runs = Runs(self.records)
        if not self._runs.has(COMPARED):
            raise InputError("no results of a comparison; run `hedgerow compare --help` to see how")
        self.rows, [self.task] = self._runs.frame, self._runs.tasks(COMPARED)
        self.rows["loss"] = self.rows.apply(self._loss, axis=1)
        self.methods, self.titles = self._runs.methods(COMPARED), self._runs.titles  # ours in their order, then peers
        self.orders = min(len(self.of(name)) for name in self.methods)
        self.shared = self.of(self.methods[0]).iloc[0]  # what does not depend on the method is in every row
        self.shuffled, self.n = bool(self.shared["shuffled"]), int(self.shared["n"])
        table = require("pandas", "lab").DataFrame([self._numbers(name) for name in self.methods])
        self.table = table.sort_values(list(self.order), key=lambda column: column.round(9), ignore_index=True)
        self.ranked = list(self.table["method"])
        self.leader = self.ranked[0]

    @staticmethod
    def of_rows(rows: list[Row], notes: Sequence[str] = (), task: str = "") -> Comparison:
        """The comparison of these rows: of classes, or of numbers."""
        kind = NumberComparison if rows and rows[0].get("kind") == "regress" else Comparison
        return kind(rows, notes, task)

    def _loss(self, row: Any) -> float:
        """Of a run: what a source is worth is by how much it rises."""
        return float(row["rate"])

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"Comparison of {methods} on {self.task}: {self.n} {self.noun}, {pages.count(self.orders, 'order')}"

    def of(self, method: str) -> pd.DataFrame:
        """The rows of a method with all sources, by order."""
        return self._runs.part(COMPARED, self.task, method)

    def _numbers(self, method: str) -> Row:
        rows, cell = self.of(method), self.cell(method)
        tenths = curves(rows, WINDOW)[1].mean(axis=0) if len(curves(rows, WINDOW)[0]) else np.full(1, np.nan)
        return {
            "method": method, "mistakes": cell.mean, "sd": cell.sd, "orders": cell.orders, "n": self.n,
            "first": float((100 * rows["first_mistakes"] / rows["first_n"]).mean()),
            "last_tenth": float(tenths[-1]), "worst_tenth": float(tenths.max()),
            "recall": float(self.by_class.loc[method, "recall"].mean()),
            "auc": float(self.by_class.loc[method, "auc"].mean()),
            "ece": 100 * calibration_error(self.bins(method)),
            "brier": float(rows["brier"].mean()), "log_loss": float(rows["log_loss"].mean()),
            # the median, because a run that shared its core says nothing about the method
            "microseconds": float((1e6 * rows["seconds_online"] / rows["instances"].str[-1]).median()),
            "seconds_offline": float(rows["seconds_offline"].mean()),
        }  # fmt: skip

    def cell(self, method: str) -> Cell:
        """Mistakes in per cent, with their spread over the orders."""
        cell = self._runs.cell(COMPARED, self.task, method)
        assert cell is not None  # of a method that has rows
        return cell

    def bins(self, method: str) -> dict[str, Array]:
        """Confidence against how often it was right, all orders together."""
        every = self.of(method)["bins"]
        return {name: np.sum([bins[name] for bins in every], axis=0) for name in ("count", "confidence", "right")}

    def confusion(self, method: str) -> pd.DataFrame:
        """How often which class was taken for which (-1: for none yet), all orders together."""
        triples = [triple for each in self.of(method)["confusion"] for triple in each]
        counts = require("pandas", "lab").DataFrame(triples, columns=["class", "prediction", "count"])
        return counts.groupby(["class", "prediction"], as_index=False).sum()

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """By method and class: instances, recall and precision in per cent, AUC and log-loss; means over the orders."""
        pandas, lines = require("pandas", "lab"), []
        for method in self.methods:
            rows, counts = self.of(method), self.confusion(method)
            hits = counts[counts["class"] == counts["prediction"]].set_index("class")["count"]
            came, told = (counts.groupby(name)["count"].sum() for name in ("class", "prediction"))
            for k in came.index:
                means = {
                    name: pandas.Series([each[name][k] for each in rows["by_class"]], dtype=float).mean()
                    for name in ("auc", "log_loss")
                }
                share = {
                    "recall": 100 * hits.get(k, 0) / came[k],
                    "precision": 100 * hits.get(k, 0) / told.get(k, np.nan),
                }
                label, n = self.shared["classes"][k], came[k] / len(rows)
                lines.append({"method": method, "class": label, "instances": n, **share, **means})
        return pandas.DataFrame(lines).set_index(["method", "class"])

    @property
    def majority(self) -> float:
        """Mistakes of the rule that predicts the most frequent label so far, in per cent."""
        rows = self.of(self.methods[0])
        return float((100 * rows["majority"] / rows["n"]).mean()) if "majority" in rows else float("nan")

    @property
    def by_orders(self) -> bool:
        """Whether there are orders enough to test over them; else the instances of the first order are the pairs.

        If one method is better in every order, Wilcoxon's p is 2^(1 - orders), and Holm's at most so many times that
        as there are other methods: with fewer orders nothing could ever be significant.
        """
        return 2.0 ** (1 - self.orders) * (len(self.methods) - 1) < ALPHA

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other method: over the orders, or over the instances of the first."""
        rows = {name: self.of(name).head(self.orders) for name in self.methods}
        if self.by_orders:
            return against({name: part["rate"].to_numpy() for name, part in rows.items()}, self.leader)
        return against({name: unpacked(part.iloc[0]) for name, part in rows.items()}, self.leader, mcnemar)

    @cached_property
    def worth(self) -> pd.DataFrame:
        """Points by which the mistakes of each method rise without each source, and their deviation over the orders.

        Indexed by method and source, the most valuable source of a method first; empty where none was left out.
        """
        without, whole = (self.rows[self.rows["group"] == group] for group in (LEFT_OUT, COMPARED))
        both = without.merge(whole[["method", "trial", "loss"]], on=["method", "trial"], suffixes=("", "_whole"))
        rises = (both["loss"] - both["loss_whole"]).groupby([both["method"], both["variant"].rename("source")])
        worth = rises.agg(points="mean", sd="std").fillna(0.0)
        return worth.sort_values("points", ascending=False, kind="stable").reindex(self.methods, level="method")

    @property
    def column_notes(self) -> list[str]:
        """What the encoder of tables left out, and which columns not every source has."""
        return list(dict.fromkeys(note for name in self.methods for notes in self.of(name)["notes"] for note in notes))

    @property
    def verdict(self) -> str:
        """What somebody should know who reads nothing else."""
        return _verdict(self)

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        return {figure.name: figure for drawn in self.drawn if (figure := drawn(self)) is not None}

    @property
    def plots(self) -> dict[str, Drawing]:
        """The figures by name, as matplotlib's."""
        return {name: figure.drawing for name, figure in self._figures.items()}

    @property
    def drawn(self) -> Sequence[Callable[[Any], Figure | None]]:
        """What is drawn."""
        return (_running, _windowed, _weights, _distances, _reliability, _confusion, _worth)

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows."""
        return [table for table in (_methods_table(self), _classes_table(self), _sources_table(self)) if table]

    def _figures_of(self, *names: str) -> list[Figure]:
        return [self._figures[name] for name in names if name in self._figures]

    def _sections(self) -> list[Section]:
        inside = self._figures_of("expert-weights", "discrepancy")
        mistaken = Beside([*self._figures_of("confusion"), _confusion_table(self)])
        return [
            Section("Along the stream", [Beside(self._figures_of("running-mistakes", "windowed-mistakes"))]),
            Section("Mistakes, calibration, time", [_methods_table(self)]),
            Section("Class by class", [_classes_table(self)]),
            *_about_luck_and_sources(self),
            Section("Whether probabilities mean what they say", self._figures_of("reliability")),
            Section("What is taken for what", [mistaken]),
            *([Section("Inside", [Beside(inside)])] if inside else []),
        ]

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, the curves, tables, and at the end what was run."""
        title = f"hedgerow: methods compared on {self.task}"
        return pages.Report(title, self.verdict, self._sections(), _facts(self, command))

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, and the rows into a new folder; the path of the report."""
        return _saved(folder, self.records).report("hedgerow.compare(...)").save(Path(folder))

    def _repr_html_(self) -> str:
        """The verdict, the curves and the table, for notebooks."""
        first = next(iter(self._figures.values()))
        return "".join(map(pages.fragment, (self.verdict, first, self.tables[0])))


class NumberComparison(Comparison):
    """A finished comparison whose labels are numbers, as `hedgerow.compare` returns it then.

    Attributes
    ----------
    table : pandas.DataFrame
        The measures of each learner, the lowest RMSE first, and the seconds that it took.
    predictions : pandas.DataFrame
        The labels of the first order, and the prediction of each learner before each of them.
    pairs : list of Pair
        The leader against each other learner: Wilcoxon's signed ranks of the squared errors of the first order, Holm's
        correction. Labels that follow each other are taken for independent, so p is rather too small.
    """

    measure, noun, order = "rmse", "labels", ("rmse",)

    def _loss(self, row: Any) -> float:
        return float(np.sqrt(np.mean(np.subtract(row["predictions"], row["labels"]) ** 2)))

    def _numbers(self, method: str) -> Row:
        rows = self.of(method)
        p, half, y = (np.concatenate(rows[name].to_list()) for name in ("predictions", "half", "labels"))
        miss = np.abs(p - y)
        winkler = 2 * half + 2 / (1 - self.shared["coverage"]) * np.maximum(miss - half, 0)
        losses, seconds = rows.apply(self._loss, axis=1), rows["seconds_offline"] + rows["seconds_online"]
        return {
            "method": method, "rmse": losses.mean(), "sd": losses.std(), "mae": miss.mean(),
            "coverage": (miss <= half).mean(), "width": 2 * half.mean(), "winkler": winkler.mean(),
            "seconds": seconds.mean(),
        }  # fmt: skip

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The labels of the first order, and what each learner predicted."""
        told = {name: self.of(name)["predictions"].iloc[0] for name in self.methods}
        return require("pandas", "lab").DataFrame({"label": self.shared["labels"], **told})

    @cached_property
    def _squares(self) -> dict[str, Array]:
        """Squared errors over the variance of the labels."""
        y = self.predictions["label"].to_numpy()
        scale = float(np.var(y)) or 1.0
        return {name: (self.predictions[name].to_numpy() - y) ** 2 / scale for name in self.methods}

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other learner."""
        return against(self._squares, self.leader)

    @property
    def verdict(self) -> str:
        """Who leads and by how much, and whether its intervals hold."""
        first, second = self.table.iloc[0], self.table.iloc[1]
        p = next(pair.adjusted for pair in self.pairs if pair.second == second["method"])
        ours = self.table.set_index("method").loc["hedgerow"]
        return text(
            "numbers-verdict", leader=self.titles[self.leader], rmse=first["rmse"], n=self.n, task=self.task,
            second=self.titles[second["method"]], behind=second["rmse"], p=p, luck=not p < ALPHA, ours=ours,
            coverage=self.shared["coverage"],
        )  # fmt: skip

    @property
    def drawn(self) -> Sequence[Callable[[Any], Figure | None]]:
        """What is drawn."""
        return (_running_error, _worth)

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows."""
        return [table for table in (_learners_table(self), _tests_table(self), _sources_table(self)) if table]

    def _sections(self) -> list[Section]:
        return [
            Section("Along the stream", self._figures_of("running-error")),
            Section("Errors, intervals, time", [_learners_table(self)]),
            *_about_luck_and_sources(self),
        ]


class DomainComparison:
    """Each domain as the target once, as `hedgerow.compare_domains` returns it.

    Attributes
    ----------
    verdict : str
        What somebody should know who reads nothing else.
    targets : dict of Comparison
        What was found on each target.
    table : pandas.DataFrame
        Mistakes in per cent, or the RMSE, a row a target, a column a method.
    ranking : Ranking
        Mean ranks over the targets; Friedman's test, Nemenyi's critical difference.
    notes : list of str
        What the command line would print.
    """

    def __init__(self, rows: list[Row], notes: Sequence[str] = ()) -> None:
        self.records, self.notes = rows, list(notes)
        names = list(dict.fromkeys(row["task"] for row in rows if row["group"] == COMPARED))
        self.targets = {name: Comparison.of_rows(rows, task=name) for name in names}
        self.first = first = self.targets[names[0]]
        columns = {name: c.table.set_index("method")[c.measure] for name, c in self.targets.items()}
        self.table: pd.DataFrame = require("pandas", "lab").DataFrame(columns).T[first.methods]
        self.ranking = friedman({name: self.table[name].to_numpy() for name in first.methods})

    def __repr__(self) -> str:
        return f"DomainComparison of {', '.join(self.first.methods)} over {', '.join(self.targets)}"

    @property
    def verdict(self) -> str:
        """Who has the best mean rank, from whom it differs, and who has the fewest mistakes on average."""
        titles, ranks, means = self.first.titles, self.ranking, self.table.mean()
        (best, lowest_rank), lost = ranks.ordered[0], self.majority - self.table.min(axis=1)
        apart = [titles[name] for name, mean in ranks.ordered if mean - lowest_rank >= ranks.critical_difference]
        return text(
            "domains-verdict", best=titles[best], rank=lowest_rank, domains=len(self.targets), ranks=ranks,
            apart=", ".join(apart), fewest=titles[means.idxmin()], mean=means.min(), wins=int(self.wins[best]),
            rmse=self.first.measure == "rmse", beaten=[name for name, points in lost.items() if points <= 0],
        )  # fmt: skip

    @property
    def wins(self) -> pd.Series[int]:
        """On how many targets each method is the best, ties counted for all."""
        return self.table.round(9).eq(self.table.round(9).min(axis=1), axis=0).sum()

    @property
    def majority(self) -> pd.Series[float]:
        """Mistakes of the majority rule on each target, in per cent; NaN for numbers."""
        values = {name: c.majority for name, c in self.targets.items()}
        return require("pandas", "lab").Series(values, dtype=float)

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows: targets against methods, and the mean ranks."""
        c, digits = self.first, 1 if self.first.measure == "mistakes" else 3
        cells: list[list[object]] = []
        for name, row in self.table.iterrows():
            own = self.targets[str(name)].table.set_index("method")["sd"].reindex(row.index)
            sds = [f" ± {sd:.{digits}f}" if c.orders > 1 and sd == sd else "" for sd in own]
            shown = [f"{x:.{digits}f}{sd}" for x, sd in zip(row, sds, strict=True)]
            cells.append([f"{name} ({self.targets[str(name)].n})", *lowest(row, shown, digits)])
        means = self.table.mean()
        cells.append(["Average", *lowest(means, [f"{x:.{digits}f}" for x in means], digits)])
        order = [*self.table.columns]
        ranks = [dict(self.ranking.ordered)[name] for name in order]
        cells.append(["Mean rank", *lowest(ranks, [f"{x:.2f}" for x in ranks], 2)])
        if (rule := self.majority).notna().all():
            cells = [[*row, f"{x:.{digits}f}"] for row, x in zip(cells, [*rule, rule.mean(), np.nan], strict=True)]
            cells[-1][-1] = "–"
        header = ["target", *(c.titles[name] for name in order), *(["majority rule"] if rule.notna().all() else [])]
        records = self.table.rename_axis("target").reset_index().to_dict("records")
        return [table("domains", header, cells, records, orders=c.orders, rmse=c.measure == "rmse")]

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, the table, the ranks, each target, and what was run."""
        c = self.first
        drawing = figures.critical_difference(self.ranking, c.titles, {m: i for i, m in enumerate(c.methods)})
        curve = "running-mistakes" if c.measure == "mistakes" else "running-error"
        along = [
            replace(own, name=f"{curve}-{name}".replace("/", "-"), shows=f"{name}: {own.shows}")
            for name, own in ((name, each._figures[curve]) for name, each in self.targets.items())
        ]
        sections = [
            Section("Targets and methods", self.tables),
            Section("Ranks", [figure("critical-difference", drawing), text("ranks-over-tasks")]),
            Section("Along each stream", [Beside(along)]),
        ]
        facts = _facts(c, command) | {"sources": "of each target all other domains", "unlabelled": "", "stream": ""}
        facts["domains"] = ", ".join(f"{name} ({each.n} {each.noun} streamed)" for name, each in self.targets.items())
        facts["results"] = f"{len(self.records)} runs"
        shown = {name: value for name, value in facts.items() if value}
        return pages.Report("hedgerow: methods compared over domains", self.verdict, sections, shown)

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, and the rows into a new folder; the path of the report."""
        return _saved(folder, self.records).report("hedgerow.compare_domains(...)").save(Path(folder))

    def _repr_html_(self) -> str:
        return "".join(map(pages.fragment, (self.verdict, *self.tables)))


def of_records(rows: list[Row]) -> Comparison | DomainComparison:
    """What these rows are: one target, or each domain as the target once."""
    several = len({row["task"] for row in rows}) > 1
    return DomainComparison(rows) if several else Comparison.of_rows(rows)


def _saved(folder: str | Path, records: Sequence[Row]) -> Comparison | DomainComparison:
    """The rows in a new folder, and what they are."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    if results.read(out)[0]:
        raise InputError(f"{out} holds results already; choose another folder")
    for row in records:
        results.append(out, row)
    return of_records(results.read(out)[0])


# -- the verdict ------------------------------------------------------------------------------------------------


def _verdict(c: Comparison) -> str:
    """Who leads and by how much, who starts best, whose probabilities are best, what the sources are worth."""
    second, first = (c.ranked[1] if len(c.methods) > 1 else ""), c.table.set_index("method")["first"]
    best, alike = c.table.loc[c.table["log_loss"].idxmin()], [p.second for p in c.pairs if not p.adjusted < ALPHA]
    user = next((name for name in c.ranked if name in c.worth.index), "")  # the best that was tried without each source
    return text(
        "compare-verdict", leader=c.titles[c.leader], cell=c.cell(c.leader).brief, n=c.n, task=c.task,
        second=c.titles.get(second, ""), behind=c.cell(second).mean - c.cell(c.leader).mean if second else 0.0,
        p=next((pair.adjusted for pair in c.pairs if pair.second == second), 1.0),
        tested="" if c.by_orders or c.orders == 1 else " on the instances of the first order", alike=second in alike,
        others=", ".join(c.titles[name] for name in alike if name != second), start=c.titles[first.idxmin()],
        first_n=min(FIRST, c.n), first_own=first[c.leader], first_best=first.min(), best=c.titles[best["method"]],
        log_loss=best["log_loss"], ece=best["ece"], user=c.titles.get(user, ""),
        worth=[(name, _change(points)) for name, points in c.worth.loc[user, "points"].items()] if user else [],
        shuffled=c.shuffled, orders=c.orders, majority=c.majority, own=c.cell(c.leader).mean,
    )  # fmt: skip


def _change(points: float) -> str:
    """A change of the mistake rate in words.

    >>> _change(1.24), _change(-0.3), _change(0.01)
    ('1.2 points more mistakes', '0.3 points fewer', 'as many')
    """
    if abs(points) < 0.05:
        return "as many"
    return f"{points:.1f} points more mistakes" if points > 0 else f"{-points:.1f} points fewer"


# -- tables -----------------------------------------------------------------------------------------------------

COLUMNS = {  # of the table of methods: what stands above them, and digits; of HIGH the highest is the best
    "mistakes": ("mistakes, %", 1), "first": (f"first {FIRST}, %", 1), "last_tenth": ("last tenth, %", 1),
    "worst_tenth": ("worst tenth, %", 1), "recall": ("recall, %", 1), "auc": ("AUC", 3),
    "ece": ("ECE, %", 1), "brier": ("Brier", 3), "log_loss": ("log-loss", 3),
    "microseconds": ("µs an instance", 0), "seconds_offline": ("offline, s", 3),
}  # fmt: skip
HIGH = ("recall", "auc")
ERRORS = {"rmse": "RMSE", "mae": "MAE", "coverage": "coverage", "width": "width", "winkler": "Winkler"}
BY_CLASS = {
    "recall": ("recall, %", 1),
    "precision": ("precision, %", 1),
    "auc": ("AUC", 3),
    "log_loss": ("log-loss", 3),
}


def _methods_table(c: Comparison) -> Table:
    """A row a method, the fewest mistakes first; the best of each column is marked."""
    columns: list[list[Any]] = [[c.titles[name] for name in c.ranked]]
    for name, (_, digits) in COLUMNS.items():
        texts = [f"{x:.{digits}f}" for x in c.table[name]]
        if name == "mistakes" and c.orders > 1:
            texts = [f"{text} ± {sd:.1f}" for text, sd in zip(texts, c.table["sd"], strict=True)]
        values = -c.table[name] if name in HIGH else c.table[name]
        columns.append([*lowest(values, texts, digits)])
    if c.majority == c.majority:
        columns[0].append("majority rule")
        columns[1].append(f"{c.majority:.1f}")
        for column in columns[2:]:
            column.append("–")
    header = ["method", *(title for title, _ in COLUMNS.values())]
    peers = bool(PEERS.keys() & set(c.methods))
    words: dict[str, Any] = {"shuffled": c.shuffled, "orders": c.orders, "n": c.n, "peers": peers}
    return table("methods", header, zip(*columns, strict=True), c.table.to_dict("records"), **words)


def _classes_table(c: Comparison) -> Table:
    """Class by class for the leader, the rarest first; the CSV has every method."""
    own = c.by_class.loc[c.leader].sort_values("instances", kind="stable")
    rows = [
        [label, times(line["instances"])]
        + ["–" if line[name] != line[name] else f"{line[name]:.{digits}f}" for name, (_, digits) in BY_CLASS.items()]
        for label, line in own.iterrows()
    ]
    header = ["class", "instances", *(title for title, _ in BY_CLASS.values())]
    records = c.by_class.reset_index().to_dict("records")
    return table("classes", header, rows, records, leader=c.titles[c.leader], folded=len(rows) > SHOWN)


def _learners_table(c: Comparison) -> Table:
    """A row a learner of numbers, the lowest error first."""
    columns: list[Sequence[object]] = [[c.titles[name] for name in c.ranked]]
    for name in ERRORS:
        shares = name == "coverage"
        texts = [f"{x:.1%}" if shares else f"{x:.4g}" for x in c.table[name]]
        columns.append(texts if shares else lowest(c.table[name], texts, 12))
    columns.append([f"{x:.2f}" for x in c.table["seconds"]])
    header = ["learner", *ERRORS.values(), "seconds"]
    return table("learners", header, zip(*columns, strict=True), c.table.to_dict("records"), refit=REFIT)


def _tests_table(c: Comparison) -> Table | None:
    """The leader against the others; None without any."""
    numbers = c.measure == "rmse"
    rows = [
        [c.titles[pair.second], f"{pair.difference:.3g}" if numbers else signed(pair.difference), pair.blocks,
         Value(chance(pair.adjusted), mark="best" if pair.adjusted < ALPHA else "")]
        for pair in c.pairs
    ]  # fmt: skip
    header, leader = ["method", "difference", "pairs that differ", "p"], c.titles[c.leader]
    words: dict[str, Any] = {
        "leader": leader,
        "by_orders": not numbers and c.by_orders,
        "orders": c.orders,
        "numbers": numbers,
    }
    return table("significance", header, rows, **words) if rows else None


def _about_luck_and_sources(c: Comparison) -> list[Section]:
    sources = [*c._figures_of("sources"), _sources_table(c) or text("no-source-left-out")]
    luck = Section("Is it more than luck?", [_tests_table(c) or text("one-method")])
    return [luck, Section("What each source was worth", sources)]


def times(count: float) -> str:
    """A count as a count; a mean over orders with one decimal, where it is no whole number.

    >>> times(1234.0), times(2.5)
    ('1,234', '2.5')
    """
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


def _sources_table(c: Comparison) -> Table | None:
    """What each source was worth to each method, by its worth to the first; None where that was not run."""
    if c.worth.empty:
        return None
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[methods[0]].index)
    cells = {
        key: (signed(points) if c.measure == "mistakes" else f"{points:+.4g}")
        + (f" ± {sd:.1f}" if c.orders > 1 else "")
        for key, points, sd in c.worth.itertuples()
    }
    rows = [[source, *(cells[method, source] for method in methods)] for source in sources]
    records = c.worth.swaplevel().reindex([(source, method) for source in sources for method in methods]).reset_index()
    header = ["source", *(c.titles[name] for name in methods)]
    return table("sources", header, rows, records.to_dict("records"), rmse=c.measure == "rmse")


def _confusion_table(c: Comparison) -> Table:
    """Which classes the leader takes for which, the most frequent mistakes first, as shares of the class."""
    counts, names = c.confusion(c.leader), {-1: "nothing yet", **dict(enumerate(c.shared["classes"]))}
    counts["share"] = 100 * counts["count"] / counts.groupby("class")["count"].transform("sum")
    wrong = counts[counts["class"] != counts["prediction"]].sort_values("count", ascending=False, kind="stable")
    orders = len(c.of(c.leader))
    rows = [
        [names[own], names[other], times(count / orders), f"{share:.1f} %"]
        for own, other, count, share in wrong.head(SHOWN).itertuples(index=False)
    ]
    header = ["class", "taken for", "times", "of the class"]
    return table("confusion", header, rows, leader=c.titles[c.leader], orders=orders)


# -- figures ----------------------------------------------------------------------------------------------------


def _along(lines: Sequence[Line], xlabel: str, ylabel: str, log: str = "") -> Drawing:
    """Lines along the stream, with their names at their ends."""
    xlim = (0, max(float(line.x[-1]) for line in lines))
    drawing = figures.draw([Panel("", lines, xlabel, ylabel, xlim)], names="ends", log=log)
    drawing.set_size_inches(*SIZE)
    return drawing


def _running(c: Comparison) -> Figure:
    """Mistakes so far along the stream."""
    lines = [
        Line.over(c.titles[name], j, c.of(name)["instances"].iloc[0], curves(c.of(name))[1].T)
        for j, name in enumerate(c.methods)
    ]
    drawing = _along(lines, "instances of the stream", "mistakes so far, %")
    return figure("running-mistakes", drawing, orders=c.orders)


def _windowed(c: Comparison) -> Figure | None:
    """How good each method is now, whatever was before; None where labels are too few for windows."""
    windows = [curves(c.of(name), WINDOW) for name in c.methods]
    if not all(len(at) for at, _ in windows):
        return None
    lines = [
        Line(c.titles[m], j, at, Y.mean(axis=0)) for j, (m, (at, Y)) in enumerate(zip(c.methods, windows, strict=True))
    ]
    drawing = _along(lines, "labelled instances of the stream", "mistakes in the last tenth, %")
    return figure("windowed-mistakes", drawing)


def _weights(c: Comparison) -> Figure | None:
    """Which experts were trusted when, in the first order of the best method that has several."""
    method = next((name for name in c.ranked if len(c.of(name)["experts"].iloc[0]) > 1), None)
    if method is None:
        return None
    row, title = c.of(method).iloc[0], f"{c.titles[method]}, first order"
    drawing = figures.expert_weights(row["instances"], row["weights"], row["experts"], title, most=EXPERTS)
    drawing.set_size_inches(*SIZE)
    return figure("expert-weights", drawing)


def _distances(c: Comparison) -> Figure | None:
    """Distance between target and sources, relative to its first value; None where no method has one."""
    lines = []
    for j, name in enumerate(c.methods):
        means = np.array([np.mean(each, axis=1) for each in c.of(name)["discrepancy"] if each])
        if len(means) and (means[:, 0] > 0).all():
            lines.append(Line.ratio(c.titles[name], j, c.of(name)["instances"].iloc[0], means))
    if not lines:
        return None
    drawing = _along(lines, "instances of the stream", "discrepancy / its start (log scale)", log="y")
    from matplotlib.ticker import LogLocator

    drawing.axes[0].yaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # more names would overlap
    drawing.axes[0].yaxis.set_minor_formatter("{x:g}")
    return figure("distances", drawing, name="discrepancy")


def _reliability(c: Comparison) -> Figure:
    """Confidence against how often it was right."""
    lines = []
    for j, name in enumerate(c.methods):
        bins = c.bins(name)
        full = bins["count"] >= min(LEAST, bins["count"].max())
        x, y = (100 * bins[part][full] / bins["count"][full] for part in ("confidence", "right"))
        lines.append(Line(c.titles[name], j, x, y))
    drawing = figures.draw([Panel("", lines, "confidence, %", "right, %", xlim=(0, 100))], size=SIZE, sparse=False)
    [axes] = drawing.axes
    for drawn in axes.lines:
        drawn.set_clip_on(False)  # markers at 0 and 100 % are whole
    axes.plot([0, 100], [0, 100], color=figures.TEXT, linewidth=0.9, linestyle=figures.DOTTED)
    axes.set_ylim(0, 100)
    return figure("reliability", drawing, least=LEAST)


def _confusion(c: Comparison) -> Figure | None:
    """What the leader takes for what, each class as 100 %; None with more classes than a figure can show."""
    classes, leader = [str(label) for label in c.shared["classes"]], c.titles[c.leader]
    K = len(classes)
    if K > CLASSES:
        return None
    counts = c.confusion(c.leader).pivot(index="class", columns="prediction", values="count")
    square = counts.reindex(index=range(K), columns=range(K)).fillna(0).to_numpy()  # without predictions that were none
    share = 100 * square / np.maximum(square.sum(axis=1, keepdims=True), 1)
    side = min(2.2 + 0.42 * K, 9.0)
    with figures.figure_of(side + 0.8, side) as drawing:
        axes = drawing.add_subplot()
        image = axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
        axes.grid(False)
        axes.set_xticks(range(K), classes, rotation=90 if max(map(len, classes)) > 3 else 0)
        axes.set_yticks(range(K), classes)
        axes.set(xlabel="taken for", ylabel="class", title=leader)
        for i, j in zip(*np.nonzero(share >= 0.5), strict=True) if K <= SHOWN else ():
            ink = "#fefefe" if share[i, j] > 55 else "#222222"  # by what is behind, and no colour that a theme changes
            axes.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=8.5, color=ink)
        drawing.colorbar(image, ax=axes, label="% of the class", shrink=0.8).outline.set_visible(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure("confusion-shares", drawing, name="confusion", leader=leader)


def _worth(c: Comparison) -> Figure | None:
    """Points by which the mistakes rise without each source, ordered by the best method; None if that was not run."""
    if c.worth.empty:
        return None
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[next(name for name in c.ranked if name in methods)].index)
    series = []
    for name in methods:
        worth = c.worth.loc[name].reindex(sources)
        errors = worth["sd"].tolist() if c.orders > 1 else None
        series.append(figures.Dots(c.titles[name], c.methods.index(name), worth["points"].tolist(), errors))
    size, step = (6.2, 0.6 + 0.28 * len(sources) * max(len(methods), 2)), 0.7 / len(methods)
    xlabel = "points more mistakes without it" if c.measure == "mistakes" else "rise of the RMSE without it"
    drawing = figures.dots({"": series}, sources, xlabel, columns=1, size=size, step=step)
    return figure("sources-left-out", drawing, name="sources")


def _running_error(c: NumberComparison) -> Figure:
    """Error so far along the stream, over the deviation of the labels."""
    at = np.unique(np.linspace(1, c.n, min(c.n, 60)).astype(int))
    lines = [
        Line(c.titles[name], j, at, np.sqrt(np.cumsum(squares)[at - 1] / at))
        for j, (name, squares) in enumerate(c._squares.items())
    ]
    return figure("running-error", _along(lines, "labels", "RMSE so far / deviation of the labels"))


def _facts(c: Comparison, command: str) -> dict[str, str]:
    """What was run, for the end of the report."""
    domains, left = c.shared["domains"], len(c.worth)
    orders = f"{c.orders} shuffled (seeds 0 to {c.orders - 1})" if c.shuffled else "one, that of the stream"

    def counted(rows: Mapping[str, int], more: str = "") -> str:
        return ", ".join(f"{name} ({n} rows{more})" for name, n in rows.items())

    facts = {
        "command": command,
        "sources": counted(domains["sources"]),
        "unlabelled": counted(domains["unlabelled"]) or "none",
        "stream": counted(domains["stream"], f", {c.n} labelled"),
        "table": f"{domains['columns']} columns, "
        + ("labels are numbers" if c.measure == "rmse" else f"{len(c.shared['classes'])} classes"),
        "columns": "; ".join(c.column_notes),
        "data": str(c.shared["comparison"]),
        "methods": ", ".join(c.titles[name] for name in c.methods),
        "options": f"reading={READING!r}, random_state={SEED}, "
        + (f"{c.shared['given']}, " if c.shared["given"] != "{}" else "")
        + "all others at their defaults",
        "orders": f"{orders}; the same for every method",
        "results": f"{len(c.records)} runs" + (f", {left} of them cells without a source" if left else ""),
        "commit": pages.commit(),
    }
    return {name: text for name, text in facts.items() if text}


def report(out: Path) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    return of_records(results.read(out)[0]).report(commands_given(out)).save(out)


def shown(out: Path) -> tuple[str, list[Table], list[str]]:
    """The verdict, the tables and the notes about columns over the rows that are there, for the terminal."""
    c = of_records(results.read(out)[0])
    return c.verdict, c.tables, c.column_notes if isinstance(c, Comparison) else c.first.column_notes
