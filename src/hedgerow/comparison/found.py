"""What the rows of a comparison say: `Comparison`, `NumberComparison` and `DomainComparison`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import nan
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hedgerow.comparison import page, parts, results
from hedgerow.comparison.measure import (
    FIRST,
    PRECISION,
    calibration_error,
    faded,
    finding,
    kappa,
    unpacked,
)
from hedgerow.comparison.page import Beside, Figure, Report, Section
from hedgerow.comparison.parts import TEXTS, text
from hedgerow.comparison.peers import SEED
from hedgerow.comparison.results import Row, curves
from hedgerow.comparison.stats import ALPHA, Pair, against, friedman, mcnemar, resampled
from hedgerow.comparison.tables import Table, lowest, table
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import count
from hedgerow.inputs import REGRESS
from hedgerow.methods import RECIPES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

COMPARED = "compare"  # groups of rows: all sources, and one left out
LEFT_OUT = "without"
# what methods can be ranked by: the column, whether the lowest (1) or the highest (-1) is best
METRICS = {
    "mistakes": ("mistakes", 1),
    "average-precision": ("ap", -1),
    "log-loss": ("log_loss", 1),
}
LITTLE = 1.0  # points of mistakes that a source costs, beyond which it is better left out
FALLING = 0.8  # share of the mistakes below which those of the last tenth still fall
WINDOW = 4  # checkpoints: a tenth of a stream that has forty


class _Page:
    """What a comparison and one over domains share: rows that a folder keeps, and a page about them."""

    records: list[Row]
    call = "hedgerow.compare(...)"

    def report(self, command: str) -> Report:
        """The page: the verdict, figures and tables, and at the end what was run."""
        raise NotImplementedError

    @property
    def findings(self) -> list[str]:
        """What the check of the data has found, a line each."""
        return list(self.records[0]["found"]["texts"])

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, and the rows into a new folder; the path of the report."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        if results.read(out)[0]:
            raise InputError(f"{out} holds results already; choose another folder")
        for row in self.records:
            results.append(out, row)
        return self.report(self.call).save(out)


class Comparison(_Page):
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

    measure = "mistakes"  # what is counted
    noun = "instances"
    shown = ("methods", "classes", "sources")  # tables in a terminal
    # titles of sections, and the functions that make what stands there; those of a tuple stand beside each other
    sections: ClassVar[Mapping[str, Sequence[Any]]] = {
        "Your data": [attrgetter("findings"), parts.data_table],
        "Along the stream": [(parts.running, parts.windowed)],
        "Mistakes, calibration, time": [parts.methods_table],
        "Class by class": [parts.classes_table],
        "Is the difference significant?": [parts.tests_table],
        "What each source was worth": [parts.sources_table],
        "Calibration of the probabilities": [parts.reliability],
        "Most frequent mistakes": [parts.confusion_table],
    }
    # of the table of methods: what stands above a column, its format, and whether the lowest (1) or highest is best
    columns: Mapping[str, tuple[str, str, int]] = {
        "mistakes": ("mistakes, %", ".1f", 1),
        "first": (f"first {FIRST}, %", ".1f", 1),
        "last_tenth": ("last tenth, %", ".1f", 1),
        "worst_tenth": ("worst tenth, %", ".1f", 1),
        "faded": ("faded, %", ".1f", 1),
        "kappa": ("kappa", ".2f", -1),
        "kappa_temporal": ("temporal", ".2f", -1),
        "recall": ("recall, %", ".1f", -1),
        "auc": ("AUC", ".3f", -1),
        "ece": ("ECE, %", ".1f", 1),
        "brier": ("Brier", ".3f", 1),
        "log_loss": ("log-loss", ".3f", 1),
        "microseconds": ("µs an instance", ".0f", 1),
        "seconds_offline": ("offline, s", ".3f", 1),
    }

    def __init__(self, rows: list[Row], notes: Sequence[str] = (), task: str = "") -> None:
        self.records = [row for row in rows if task in ("", row["task"])]
        self.notes = list(notes)
        if not any(row["group"] == COMPARED for row in self.records):
            raise InputError("no results of a comparison; run `hedgerow compare --help` to see how")
        pandas = require("pandas", "lab")
        frame = pandas.DataFrame([row | {"loss": self._loss(row)} for row in self.records])
        frame["rate"] = 100.0 * frame["mistakes"] / frame["n"]
        self.rows: pd.DataFrame = frame.sort_values("trial", kind="stable", ignore_index=True)
        compared = self.rows[self.rows["group"] == COMPARED]
        self._of = dict(iter(compared.groupby("method")))  # by name
        self.methods = [
            *(name for name in RECIPES if name in self._of),
            *(n for n in self._of if n not in RECIPES),
        ]
        self.titles = {name: part["title"].iloc[0] for name, part in self._of.items()}
        self.task = compared["task"].iloc[0]
        self.orders = min(map(len, self._of.values()))
        self.shared = self.of(self.methods[0]).iloc[
            0
        ]  # what does not depend on the method is in every row
        self.shuffled = bool(self.shared["shuffled"])
        self.n = int(self.shared["n"])
        self.rare = self._rare()
        usual = self.measure if self.rare is None else "average-precision"
        self.metric = str(self.shared.get("metric") or usual)
        table = pandas.DataFrame([self._numbers(name) for name in self.methods])
        first, sign = METRICS.get(self.metric, (self.metric, 1))
        order = table[[first, *({"log_loss"} & {*table})]].round(9)
        order[first] *= sign
        self.table = table.loc[order.sort_values(list(order)).index].reset_index(drop=True)
        self.ranked = list(self.table["method"])
        self.leader = self.ranked[0]

    @staticmethod
    def of_rows(rows: list[Row], notes: Sequence[str] = (), task: str = "") -> Comparison:
        """The comparison of these rows: of classes, or of numbers."""
        kind = NumberComparison if rows and rows[0].get("kind") == REGRESS else Comparison
        return kind(rows, notes, task)

    def _rare(self) -> Any:
        """The class that is rare in the stream; None if none is."""
        rare = self.shared.get("rare")
        return self.shared["classes"][rare["class"]] if isinstance(rare, dict) else None

    @property
    def shown_columns(self) -> dict[str, tuple[str, str, int]]:
        """The columns of the table of methods: where a class is rare, how it is found, and fewer of mistakes."""
        if self.rare is None:
            return dict(self.columns)
        less = ("worst_tenth", "faded", "kappa", "kappa_temporal", "recall")
        return {
            "ap": (f"AP of {self.rare}", ".3f", -1),
            "recall_at": (f"recall at precision {PRECISION:.0%}, %", ".1f", -1),
            "top": ("precision of the top 1 %, %", ".1f", -1),
            **{name: column for name, column in self.columns.items() if name not in less},
        }

    def _loss(self, row: Row) -> float:
        """Of a run: what a source is worth is by how much it rises."""
        return float(100.0 * row["mistakes"] / row["n"])

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"Comparison of {methods} on {self.task}: {self.n} {self.noun}, {count(self.orders, 'order')}"

    def of(self, method: str) -> pd.DataFrame:
        """The rows of a method with all sources, by order."""
        return self._of[method]

    def _numbers(self, method: str) -> Row:
        rows = self.of(method)
        at, rates = curves(rows, WINDOW)
        tenths = rates.mean(axis=0) if len(at) else np.full(1, np.nan)
        spread = rows["rate"].std()
        square = self.confusion(method)
        return {
            "method": method,
            "mistakes": rows["rate"].mean(),
            "sd": spread if spread == spread else 0.0,
            "orders": len(rows),
            "n": self.n,
            "first": float((100 * rows["first_mistakes"] / rows["first_n"]).mean()),
            "last_tenth": float(tenths[-1]),
            "worst_tenth": float(tenths.max()),
            "faded": 100 * float(np.mean([faded(unpacked(row)) for _, row in rows.iterrows()])),
            "kappa": kappa(
                square.reindex(
                    columns=square.index.union(square.columns, sort=False), fill_value=0
                ).to_numpy()
            ),
            "kappa_temporal": 1 - rows["rate"].mean() / self.last_label,
            **self.by_class.loc[method, ["recall", "auc"]].mean(),
            **(
                self.by_class.loc[method, ["ap", "recall_at", "top"]].mean()
                if self.rare is None
                else self.by_class.loc[(method, self.rare), ["ap", "recall_at", "threshold", "top"]]
            ),
            "ece": 100 * calibration_error(self.bins(method)),
            "brier": float(rows["brier"].mean()),
            "log_loss": float(rows["log_loss"].mean()),
            # the median, because a run that shared its core says nothing about the method
            "microseconds": float(
                (1e6 * rows["seconds_online"] / rows["instances"].str[-1]).median()
            ),
            "seconds_offline": float(rows["seconds_offline"].mean()),
        }

    def bins(self, method: str) -> dict[str, Array]:
        """Confidence against how often it was right, all orders together."""
        every = self.of(method)["bins"]
        return {
            name: np.sum([bins[name] for bins in every], axis=0)
            for name in ("count", "confidence", "right")
        }

    def confusion(self, method: str) -> pd.DataFrame:
        """How often which class (a row) was taken for which (a column; -1: for none yet), all orders together."""
        triples = [triple for each in self.of(method)["confusion"] for triple in each]
        counts = require("pandas", "lab").DataFrame(
            triples, columns=["class", "prediction", "count"]
        )
        return counts.pivot_table("count", "class", "prediction", aggfunc="sum", fill_value=0)

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """By method and class: instances, recall and precision in per cent, AUC and log-loss; means over the orders."""
        pandas = require("pandas", "lab")
        tables = {}
        for method in self.methods:
            rows = self.of(method)
            square = self.confusion(method)
            codes = square.index
            came = square.sum(axis=1)
            hits = np.diag(square.reindex(columns=codes, fill_value=0))
            made = {
                "instances": came / len(rows),
                "recall": 100 * hits / came,
                "precision": 100 * hits / square.sum().reindex(codes),
            }
            for name in ("auc", "log_loss", "ap", "recall_at", "threshold", "top"):
                made[name] = pandas.DataFrame(
                    [each[name] for each in rows["by_class"]], dtype=float
                ).mean()[codes] * (100 if name in ("recall_at", "top") else 1)
            tables[method] = pandas.DataFrame(made).set_axis(
                [self.shared["classes"][k] for k in codes]
            )
        return pandas.concat(tables, names=["method", "class"])

    @property
    def majority(self) -> float:
        """Mistakes of the rule that predicts the most frequent label so far, in per cent."""
        return self._rule("majority")

    @property
    def last_label(self) -> float:
        """Mistakes of the rule that predicts the last label again, in per cent."""
        return self._rule("last_label")

    def _rule(self, name: str) -> float:
        rows = self.of(self.methods[0])
        return float((100 * rows[name] / rows["n"]).mean()) if name in rows else float("nan")

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
            columns = {name: self._per_order(part) for name, part in rows.items()}
            return against(columns, self.leader)
        if self.metric == "mistakes":
            wrong = {name: unpacked(part.iloc[0]) for name, part in rows.items()}
            return against(wrong, self.leader, mcnemar)
        if self.metric == "average-precision" and self.rare is not None:
            return against({name: self._scores(name) for name in rows}, self.leader, self._found)
        others = (name for name in self.methods if name != self.leader)
        return [Pair(nan, 0, nan, nan, self.leader, name) for name in others]

    def _per_order(self, rows: pd.DataFrame) -> Array:
        """What methods are ranked by, of each order: the smaller, the better."""
        if self.metric == "average-precision":
            each = [np.array(found["ap"], float) for found in rows["by_class"]]
            k = slice(None) if self.rare is None else self.shared["rare"]["class"]
            return np.array([-np.nanmean(ap[k]) for ap in each])
        return np.asarray(rows["rate" if self.metric == "mistakes" else "log_loss"], float)

    def _scores(self, method: str) -> Array:
        """The probabilities of the rare class along the first order."""
        scores = bytes.fromhex(self.of(method).iloc[0]["rare"]["scores"])
        return np.frombuffer(scores, "<f4").astype(float)

    def _found(self, first: Array, second: Array) -> Pair:
        """Whether one finds the rare class better than the other."""
        own = unpacked({**self.shared["rare"], "n": self.n}, "own")
        return resampled(first, second, lambda s, w: finding(s, own, w)["ap"], own)

    @cached_property
    def constant(self) -> Pair:
        """The leader against the majority rule; of a rare class, against what gives all the same probability."""
        if self.metric == "average-precision" and self.rare is not None:
            return self._found(self._scores(self.leader), np.zeros(self.n))
        row = self.of(self.leader).iloc[0]
        return mcnemar(unpacked(row), unpacked(row, "majority_wrong"))

    @property
    def beats_constant(self) -> bool:
        """Whether the leader is better than a constant, beyond noise."""
        return self.constant.difference < 0 and self.constant.p < ALPHA

    @property
    def advice(self) -> list[str]:
        """What to do next."""
        found = self.shared.get("found") or {"leaks": []}
        own = self.table.iloc[0]
        advice = [
            f"look at the column {name!r} first: it gives the label away"
            for name in found["leaks"][:1]
        ]
        if self.leader in self.worth.index:
            worth = self.worth.loc[self.leader]
            bad = worth[worth["points"] < -np.maximum(LITTLE, 2 * worth["sd"])]
            advice += [f"leave out the source {name}" for name in bad.index[-1:]]
        if self.metric == "mistakes" and own["last_tenth"] < FALLING * own["mistakes"]:
            advice.append("label more: mistakes still fall along the stream")
        elif not self.beats_constant:
            advice.append("look for columns that tell the classes apart, before more labels")
        return advice

    @cached_property
    def worth(self) -> pd.DataFrame:
        """Points by which the mistakes of each method rise without each source, and their deviation over the orders.

        Indexed by method and source, the most valuable source of a method first; empty where none was left out.
        """
        without, whole = (self.rows[self.rows["group"] == group] for group in (LEFT_OUT, COMPARED))
        both = without.merge(
            whole[["method", "trial", "loss"]], on=["method", "trial"], suffixes=("", "_whole")
        )
        rises = (both["loss"] - both["loss_whole"]).groupby(
            [both["method"], both["variant"].rename("source")]
        )
        worth = rises.agg(points="mean", sd="std").fillna(0.0)
        return worth.sort_values("points", ascending=False, kind="stable").reindex(
            self.methods, level="method"
        )

    @property
    def verdict(self) -> str:
        """Who leads and by how much, who starts best, whose probabilities are best, what the sources are worth."""
        pairs = {pair.second: pair for pair in self.pairs}
        second = self.ranked[1] if pairs else ""
        user = next(
            (name for name in self.ranked if name in self.worth.index), ""
        )  # the best that was tried without
        return text(
            "compare-verdict",
            c=self,
            precision=PRECISION,
            behind_ap=-self.table["ap"].diff().iloc[1] if second else 0.0,
            titles=self.titles,
            own=self.table.iloc[0],
            second=self.titles.get(second, ""),
            pair=pairs.get(second),
            behind=self.table["mistakes"].diff().iloc[1] if second else 0.0,
            first=self.table.set_index("method")["first"],
            others=", ".join(
                self.titles[name]
                for name, pair in pairs.items()
                if not pair.clear and name != second
            ),
            first_n=min(FIRST, self.n),
            best=self.table.loc[self.table["log_loss"].idxmin()],
            user=self.titles.get(user, ""),
            worth=list(self.worth.loc[user, "points"].items()) if user else [],
        )

    @cached_property
    def _sections(self) -> list[Section]:
        made = {
            title: [self._part(make) for make in makes] for title, makes in self.sections.items()
        }
        return [
            Section(title, [part for part in made if part])
            for title, made in made.items()
            if any(made)
        ]

    def _part(self, make: Any) -> Any:
        if not isinstance(make, tuple):
            return make(self)
        there = [part for part in map(self._part, make) if part]
        return Beside(there) if there else None

    @property
    def _figures(self) -> dict[str, Figure]:
        return {
            part.name: part for part in page.parts_of(self._sections) if isinstance(part, Figure)
        }

    @property
    def plots(self) -> dict[str, Drawing]:
        """The figures by name, as matplotlib's."""
        return {name: figure.drawing for name, figure in self._figures.items()}

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows."""
        return [
            part
            for part in page.parts_of(self._sections)
            if isinstance(part, Table) and part.name in self.shown
        ]

    def report(self, command: str) -> Report:
        """The page: the verdict, the curves, tables, and at the end what was run."""
        title = f"hedgerow: methods compared on {self.task}"
        return Report(title, self.verdict, self._sections, _facts(self, command))

    def _repr_html_(self) -> str:
        """The verdict, the curves and the table, for notebooks."""
        first = next(iter(self._figures.values()))
        return "".join(map(page.fragment, (self.verdict, first, self.tables[0])))


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

    measure = "rmse"
    noun = "labels"
    shown = ("learners", "significance", "sources")
    sections: ClassVar[Mapping[str, Sequence[Any]]] = {
        "Your data": [attrgetter("findings"), parts.data_table],
        "Along the stream": [parts.running_error],
        "Errors, intervals, time": [parts.methods_table],
        "Is the difference significant?": [parts.tests_table],
        "What each source was worth": [parts.sources_table],
    }
    columns: Mapping[str, tuple[str, str, int]] = {
        "rmse": ("RMSE", ".4g", 1),
        "mae": ("MAE", ".4g", 1),
        "coverage": ("coverage", ".1%", 0),
        "width": ("width", ".4g", 1),
        "winkler": ("Winkler", ".4g", 1),
        "seconds": ("seconds", ".2f", 0),
    }

    def _loss(self, row: Row) -> float:
        return float(np.sqrt(np.mean(np.subtract(row["predictions"], row["labels"]) ** 2)))

    def _numbers(self, method: str) -> Row:
        rows = self.of(method)
        p, half, y = (
            np.concatenate(rows[name].to_list()) for name in ("predictions", "half", "labels")
        )
        miss = np.abs(p - y)
        outside = np.maximum(miss - half, 0)
        return {
            "method": method,
            "rmse": rows["loss"].mean(),
            "sd": rows["loss"].std(),
            "mae": miss.mean(),
            "coverage": (miss <= half).mean(),
            "width": 2 * half.mean(),
            "winkler": (2 * half + 2 / (1 - self.shared["coverage"]) * outside).mean(),
            "seconds": (rows["seconds_offline"] + rows["seconds_online"]).mean(),
        }

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The labels of the first order, and what each learner predicted."""
        told = {name: self.of(name)["predictions"].iloc[0] for name in self.methods}
        return require("pandas", "lab").DataFrame({"label": self.shared["labels"], **told})

    @cached_property
    def squares(self) -> dict[str, Array]:
        """Squared errors of each learner over the variance of the labels."""
        y = self.predictions["label"].to_numpy()
        scale = float(np.var(y)) or 1.0
        return {name: (self.predictions[name].to_numpy() - y) ** 2 / scale for name in self.methods}

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other learner."""
        return against(self.squares, self.leader)

    @property
    def verdict(self) -> str:
        """Who leads and by how much, and whether its intervals hold."""
        first = self.table.iloc[0]
        second = self.table.iloc[1]
        pair = next(pair for pair in self.pairs if pair.second == second["method"])
        ours = self.table.set_index("method").loc["hedgerow"]
        mean = next((pair for pair in self.pairs if pair.second == "mean"), None)
        beaten = self.leader != "mean" and (mean is None or mean.clear)
        return text(
            "numbers-verdict",
            c=self,
            first=first,
            second=second,
            pair=pair,
            ours=ours,
            beaten=beaten,
        )


class DomainComparison(_Page):
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

    call = "hedgerow.compare_domains(...)"

    def __init__(self, rows: list[Row], notes: Sequence[str] = ()) -> None:
        self.records = rows
        self.notes = list(notes)
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
        places = self.table.round(9).rank(axis=1, method="min")
        lost = self.majority - self.table.min(axis=1)
        best = self.ranking.ordered[0][0]
        return text(
            "domains-verdict",
            best=best,
            wins=int((places[best] == 1).sum()),
            beaten=list(lost.index[lost <= 0]),
            c=self.first,
            ranks=self.ranking,
            means=self.table.mean(),
            domains=len(self.targets),
        )

    @property
    def majority(self) -> pd.Series[float]:
        """Mistakes of the majority rule on each target, in per cent; NaN for numbers."""
        values = {name: c.majority for name, c in self.targets.items()}
        return require("pandas", "lab").Series(values, dtype=float)

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows: targets against methods, and the mean ranks."""
        c = self.first
        form = ".1f" if self.first.measure == "mistakes" else ".3f"
        cells = []
        for name, each in self.targets.items():
            row = self.table.loc[name]
            spreads = each.table.set_index("method")["sd"]
            shown = [
                f"{row[m]:{form}}" + (f" ± {spreads[m]:{form}}" if c.orders > 1 else "")
                for m in row.index
            ]
            cells.append([f"{name} ({each.n})", *lowest(row, shown, form)])
        ranks = dict(self.ranking.ordered)
        for title, values, digits in (
            ("Average", self.table.mean(), form),
            ("Mean rank", [ranks[name] for name in self.table], ".2f"),
        ):
            cells.append([title, *lowest(values, [f"{x:{digits}}" for x in values], digits)])
        header = ["target", *(c.titles[name] for name in self.table)]
        rule = self.majority
        if rule.notna().all():
            header.append("majority rule")
            last = [*(f"{x:{form}}" for x in (*rule, rule.mean())), "–"]
            cells = [[*row, value] for row, value in zip(cells, last, strict=True)]
        records = self.table.rename_axis("target").reset_index().to_dict("records")
        return [
            table(
                TEXTS, "domains", header, cells, records, orders=c.orders, rmse=c.measure == "rmse"
            )
        ]

    def report(self, command: str) -> Report:
        """The page: the verdict, the table, the ranks, each target, and what was run."""
        c = self.first
        along = [
            replace(own, name=f"{own.name}-{name}".replace("/", "-"), shows=f"{name}: {own.shows}")
            for name, each in self.targets.items()
            for own in [next(iter(each._figures.values()))]
        ]
        sections = [
            Section("Targets and methods", [*self.tables, text("ranks-over-tasks")]),
            Section("Along each stream", [Beside(along)]),
        ]
        facts = _facts(c, command) | {
            "sources": "of each target all other domains",
            "unlabelled": "",
            "stream": "",
        }
        facts["domains"] = ", ".join(
            f"{name} ({each.n} {each.noun} streamed)" for name, each in self.targets.items()
        )
        facts["results"] = f"{len(self.records)} runs"
        shown = {name: value for name, value in facts.items() if value}
        return Report("hedgerow: methods compared over domains", self.verdict, sections, shown)

    def _repr_html_(self) -> str:
        return "".join(map(page.fragment, (self.verdict, *self.tables)))


def _facts(c: Comparison, command: str) -> dict[str, str]:
    """What was run, for the end of the report."""
    domains = c.shared["domains"]
    given = c.shared["given"]
    left = len(c.worth)

    def counted(rows: Mapping[str, int], more: str = "") -> str:
        return ", ".join(f"{name} ({n} rows{more})" for name, n in rows.items())

    labels = "labels are numbers" if c.measure == "rmse" else f"{len(c.shared['classes'])} classes"
    orders = (
        f"{c.orders} shuffled (seeds 0 to {c.orders - 1})"
        if c.shuffled
        else "one, that of the stream"
    )
    facts = {
        "command": command,
        "sources": counted(domains["sources"]),
        "unlabelled": counted(domains["unlabelled"]) or "none",
        "stream": counted(domains["stream"], f", {c.n} labelled"),
        "table": f"{domains['columns']} columns, {labels}",
        "data": str(c.shared["comparison"]),
        "methods": ", ".join(c.titles[name] for name in c.methods),
        "options": f"random_state={SEED}, {f'{given}, ' if given != '{}' else ''}all others at their defaults",
        "orders": f"{orders}; the same for every method",
        "results": f"{len(c.records)} runs"
        + (f", {left} of them cells without a source" if left else ""),
        "commit": page.commit(),
    }
    return {name: text for name, text in facts.items() if text}
