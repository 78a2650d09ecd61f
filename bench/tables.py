"""Eight real tables, each a transfer task, for our learner with and without trees and for what people use instead."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bench.measure import DATA
from bench.nine import EARLY, calibration_error
from bench.pages import Line, best_variants, summary
from bench.record import Row
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.comparison.tables import Table
from hedgerow.core.domains import Frame
from hedgerow.findings import examine
from hedgerow.tables import Named

TASKS = {  # sources, target
    "bikeshare": (("1", "2", "4"), "3"),
    "diamonds": (("D", "E", "G"), "J"),
    "flights": (("EWR", "JFK"), "LGA"),
    "hotel": (("Q1", "Q2", "Q4"), "Q3"),
    "loans": (("MORTGAGE", "RENT"), "OWN"),
    "mpls": (("2", "3", "4", "5"), "1"),
    "rats": (("Control", "Short-term Krat Exclosure", "Spectab exclosure"), "Rodent Exclosure"),
    "tv16": (("California", "Texas", "Florida"), "Ohio"),
}
SOURCE_ROWS = 1500
TARGET_ROWS = 1430
WARMUP = 0.3
REFIT = 50


class Source(NamedTuple):
    """A labelled table."""

    name: str
    X: pd.DataFrame
    y: np.ndarray


class Task(NamedTuple):
    """Labelled sources, unlabelled rows of the target, the stream and its labels."""

    sources: list[Source]
    warmup: pd.DataFrame
    stream: pd.DataFrame
    labels: np.ndarray
    rare: str = ""  # the class that was thinned


def task_of(name: str, seed: int, rare: int = 0) -> Task:
    """Rows drawn by the seed; 30 % of the target's are unlabelled, the rest streams.

    `rare`: of a class only so many rows are kept that there is one for each `rare` rows (`thinned`).
    """
    data = pd.read_csv(
        Path(DATA or "") / "tables" / f"{name}.csv.gz", dtype={"domain": str, "label": str}
    )
    for column in data.columns.difference(["domain", "label"]):
        if not pd.api.types.is_numeric_dtype(data[column]):
            data[column] = data[column].astype(object).where(data[column].notna(), None)
    rng = np.random.default_rng(1000 + seed)
    (names, target) = TASKS[name]

    def drawn(domain: str, most: int) -> tuple[pd.DataFrame, np.ndarray]:
        rows = data[data.domain == domain]
        rows = rows.iloc[rng.permutation(len(rows))[:most]].reset_index(drop=True)
        return rows.drop(columns=["domain", "label"]), rows.label.to_numpy(object)

    parts = [*(drawn(each, SOURCE_ROWS) for each in names), drawn(target, TARGET_ROWS)]
    label = rare_class([y for _, y in parts]) if rare else ""
    *sources, (X, y) = [thinned(*part, label, rare, rng) for part in parts] if rare else parts
    n = round(WARMUP * len(X))
    named = [Source(each, *source) for each, source in zip(names, sources, strict=True)]
    return Task(named, X[:n].reset_index(drop=True), X[n:].reset_index(drop=True), y[n:], label)


def rare_class(labels: list[np.ndarray]) -> str:
    """The least frequent class of more than 5 %."""
    shares = pd.Series(np.concatenate(labels)).value_counts(normalize=True)
    return str(shares[shares > 0.05].index[-1])


def thinned(
    X: pd.DataFrame, y: np.ndarray, label: str, rare: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of which one for each `rare` others is of this class."""
    own = np.flatnonzero(y == label)
    most = round((len(y) - len(own)) / rare)
    rows = np.sort(np.r_[np.flatnonzero(y != label), rng.permutation(own)[:most]])
    return X.iloc[rows].reset_index(drop=True), y[rows]


# -- who predicts: probabilities of each row before its label, and the classes ---------------------------------------

Run = Callable[[Task], tuple[np.ndarray, np.ndarray]]


def own(method: str = "hedgerow", **options: Any) -> Run:
    """Ours, in one call."""

    def run(task: Task) -> tuple[np.ndarray, np.ndarray]:
        sources = [Domain(*source) for source in task.sources]
        clf = OnlineTransferClassifier(method, **options).fit_domains(
            sources, Domain("target", task.warmup)
        )
        explained = clf.explain_then_learn(task.stream, task.labels)
        return explained.probabilities, explained.classes

    return run


def columns(task: Task, one_hot: bool) -> tuple[list[np.ndarray], np.ndarray]:
    """Sources and stream as numbers: categories as codes by frequency, or one-hot, standardised and without gaps."""
    frames = [*(source.X for source in task.sources), task.stream]
    known = pd.concat([*frames[:-1], task.warmup], ignore_index=True)
    out: list[list[np.ndarray]] = [[] for _ in frames]
    for name in known:
        values = known[name]
        if pd.api.types.is_numeric_dtype(values):
            fill = values.median()
            centre = values.mean()
            sd = values.std() or 1.0
            for parts, frame in zip(out, frames, strict=True):
                cells = frame[name].to_numpy(float, na_value=np.nan)
                parts.append(
                    ((np.where(np.isnan(cells), fill, cells) - centre) / sd if one_hot else cells)[
                        :, None
                    ]
                )
            continue
        ranks = {value: i for i, value in enumerate(values.value_counts().index)}
        for parts, frame in zip(out, frames, strict=True):
            codes = frame[name].map(ranks).to_numpy(float, na_value=np.nan)
            hot = codes[:, None] == np.arange(min(len(ranks), 100))
            parts.append(hot.astype(float) if one_hot else codes[:, None])
    rows = [np.nan_to_num(np.hstack(parts)) if one_hot else np.hstack(parts) for parts in out]
    return rows[:-1], rows[-1]


def refitted(
    make: Callable[[], Any], weight: float = 1.0, every: int = REFIT, one_hot: bool = False
) -> Run:
    """A batch learner, fitted on the sources and, every so many labels, on the labels of the target too."""

    def run(task: Task) -> tuple[np.ndarray, np.ndarray]:
        X, rows = columns(task, one_hot)
        classes, y = np.unique(
            np.concatenate([*(source.y for source in task.sources), task.labels]),
            return_inverse=True,
        )
        known = len(y) - len(task.labels)
        codes = y[-len(task.labels) :]
        p = np.zeros((len(rows), len(classes)))
        for begin in range(0, len(rows), every or len(rows)):
            part = slice(begin, begin + (every or len(rows)))
            weights = np.concatenate([np.ones(known), np.full(begin, weight)])
            present, own = np.unique(y[: known + begin], return_inverse=True)
            model = make().fit(np.vstack([*X, rows[:begin]]), own, sample_weight=weights)
            p[part, present] = model.predict_proba(rows[part])
        assert len(codes) == len(p)
        return p, classes

    return run


def arf(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """river's adaptive random forest, one pass over the sources, then the stream."""
    from river.forest import ARFClassifier

    frames = [source.X for source in task.sources]
    rows = [dict(row) for frame in [*frames, task.stream] for row in frame.to_dict("records")]
    y = np.concatenate([*(source.y for source in task.sources), task.labels])
    classes = np.unique(y)
    model = ARFClassifier(seed=1)
    known = sum(map(len, frames))
    order = [*np.random.default_rng(0).permutation(known).tolist(), *range(known, len(rows))]
    p = np.zeros((len(task.labels), len(classes)))
    for t in order:
        row = {
            name: value for name, value in rows[t].items() if value is not None and value == value
        }
        if t >= known:
            shares = model.predict_proba_one(row)
            p[t - known] = [shares.get(each, 0.0) for each in classes]
        model.learn_one(row, y[t])
    return p, classes


def made(path: str, **options: Any) -> Callable[[], Any]:
    """A model of another package, whose class is imported when it is used."""
    module, _, name = path.rpartition(".")
    return lambda: getattr(import_module(module), name)(**options)


HGB = made("sklearn.ensemble.HistGradientBoostingClassifier", random_state=0)
LOGISTIC = made("sklearn.linear_model.LogisticRegression", max_iter=300)
FOREST = made(
    "sklearn.ensemble.ExtraTreesClassifier", n_estimators=200, min_samples_leaf=2, random_state=0
)
LIGHTGBM = made("lightgbm.LGBMClassifier", n_jobs=1, verbose=-1, random_state=0)
XGBOOST = made("xgboost.XGBClassifier", n_jobs=1, random_state=0)
CATBOOST = made(
    "catboost.CatBoostClassifier", iterations=200, thread_count=1, verbose=False, random_state=0
)
RUNS: dict[str, tuple[str, Run]] = {  # name: the package that it needs, and how it runs
    "hedgerow": ("hedgerow", own()),
    "hedgerow, no trees": ("hedgerow", own(trees=False)),
    "hedgerow-linear": ("hedgerow", own("hedgerow-linear")),
    "HGB, sources only": ("sklearn", refitted(HGB, every=0)),
    "HGB": ("sklearn", refitted(HGB)),
    "HGB x 5": ("sklearn", refitted(HGB, 5.0)),
    "logistic": ("sklearn", refitted(LOGISTIC, one_hot=True)),
    "logistic x 5": ("sklearn", refitted(LOGISTIC, 5.0, one_hot=True)),
    "ExtraTrees x 5": ("sklearn", refitted(FOREST, 5.0)),
    "LightGBM": ("lightgbm", refitted(LIGHTGBM)),
    "LightGBM x 5": ("lightgbm", refitted(LIGHTGBM, 5.0)),
    "XGBoost": ("xgboost", refitted(XGBOOST)),
    "XGBoost x 5": ("xgboost", refitted(XGBOOST, 5.0)),
    "CatBoost": ("catboost", refitted(CATBOOST)),
    "CatBoost x 5": ("catboost", refitted(CATBOOST, 5.0)),
    "river ARF": ("river", arf),
}
OURS = ("hedgerow", "hedgerow, no trees", "hedgerow-linear")


def tables(
    quick: bool, tasks: str = ",".join(TASKS), seeds: int = 5, peers: str = ";".join(RUNS)
) -> Iterator[Row]:
    """At most 1,500 rows of each source and 1,430 of the target, drawn by the seed; 30 % of the target's are unlabelled
    in advance. Boosting, forests and logistic regression are fitted again every 50 labels on sources and target rows
    ("x 5": of which these count five times). Time is that of the whole run, fits included; memory is what the process
    has had at most. First the mistakes in % on each table, beside the peer that is furthest ahead (or least behind) on
    the seeds that both have, chosen with hindsight; then means over the tables, of the best variant of each peer. The
    trees were chosen on seeds 0 and 1."""
    if quick:
        tasks = "bikeshare"
        seeds = 1
        peers = "hedgerow-linear;HGB, sources only"
    pairs = ((name, seed) for seed in range(seeds) for name in tasks.split(","))
    streams = (
        ({"task": name, "who": "", "seed": seed}, task_of(name, seed)) for name, seed in pairs
    )
    yield from measured(streams, RUNS, peers, _figures)


def measured(
    streams: Iterable[tuple[dict[str, Any], Any]], runs: Mapping[str, tuple[str, Any]], peers: str,
    figures: Callable[[Any, Any], dict[str, float]],
) -> Iterator[Row]:  # fmt: skip
    """Each of these peers, if its package is installed, on each task with its setting."""
    for setting, task in streams:
        for peer in peers.split(";"):
            package, run = runs[peer]
            if find_spec(package) is not None:
                yield Row({**setting, "who": peer}, figures(run, task))


def _figures(run: Run, task: Task) -> dict[str, float]:
    began = time.perf_counter()
    p, classes = run(task)
    seconds = time.perf_counter() - began
    right = classes[p.argmax(axis=1)] == task.labels
    return {
        "mistakes %": 100 * (1 - right.mean()),
        "first 50, %": 100 * (1 - right[:EARLY].mean()),
        "calibration": calibration_error(p, right),
        "ms a row": 1e3 * seconds / len(right),
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


RARE_PEERS = ("hedgerow", "hedgerow-linear", "logistic", "HGB", "LightGBM")


def rare(
    quick: bool, tasks: str = ",".join(TASKS), seeds: int = 3, first: int = 0, ratios: str = "20,50",
    peers: str = ";".join(RARE_PEERS),
) -> Iterator[Row]:  # fmt: skip
    """The tables above, with the least frequent class of more than 5 % thinned to one row for each 20 or 50 others, in
    sources and stream: how well its probability finds the class, as the mean over the tables. Peers are fitted
    again every 50 labels on sources and target rows. With so few rows of the class a table says little."""
    if quick:
        tasks = "bikeshare"
        ratios = "20"
        seeds = first + 1
        peers = "hedgerow-linear"
    for seed in range(first, seeds):
        for ratio in map(int, ratios.split(",")):
            for name in tasks.split(","):
                setting = {"task": name, "one in": ratio, "seed": seed, "who": ""}
                streams = [(setting, task_of(name, seed, ratio))]
                yield from measured(streams, RUNS, peers, _found)


def _found(run: Run, task: Task) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    p, classes = run(task)
    own = task.labels == task.rare
    scores = p[:, classes == task.rare].sum(axis=1)
    return {
        "average precision": float(average_precision_score(own, scores)),
        "AUC": float(roc_auc_score(own, scores)),
        "mistakes %": 100 * float((classes[p.argmax(axis=1)] != task.labels).mean()),
        "rare rows": int(own.sum()),
    }


def rare_page(lines: list[Line]) -> Iterator[str]:
    """The means over all tables, and how far ours is ahead of each in paired standard errors."""
    figure = "average precision"
    cells: dict[tuple[Any, ...], dict[str, Line]] = {}
    for line in lines:
        own = line["setting"]
        cells.setdefault((own["one in"], own["task"], own["seed"]), {})[own["who"]] = line[
            "figures"
        ]
    rows = []
    for ratio in dict.fromkeys(key[0] for key in cells):
        both = [each for key, each in cells.items() if key[0] == ratio and "hedgerow" in each]
        for who in dict.fromkeys(line["setting"]["who"] for line in lines):
            pairs = [(each["hedgerow"], each[who]) for each in both if who in each]
            ahead = [ours[figure] - theirs[figure] for ours, theirs in pairs]
            shown = [f"{np.mean([x[name] for _, x in pairs]):.3f}" for name in (figure, "AUC")]
            error = np.std(ahead, ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else 0.0
            lead = "" if who == "hedgerow" else f"{np.mean(ahead):+.3f} ± {error:.3f}"
            rows.append([f"1 in {ratio}", who, len(pairs), *shown, lead])
    heads = ["rare", "who", "runs", figure, "AUC", "hedgerow ahead (paired standard error)"]
    yield from ["", *Table("", "", heads, rows).markdown().splitlines()]


def tables_page(lines: list[Line]) -> Iterator[str]:
    """On each table the best of the others on the seeds that both have; then everybody's means."""
    cells: dict[str, dict[str, dict[int, float]]] = {}
    for line in lines:
        task, who, seed = (line["setting"][key] for key in ("task", "who", "seed"))
        cells.setdefault(task, {}).setdefault(who, {})[seed] = line["figures"]["mistakes %"]
    shown = []
    for task, by in cells.items():
        own = by.get("hedgerow", {})
        pairs = {  # mistakes of ours and theirs on the same rows
            who: [(own[seed], theirs[seed]) for seed in theirs if seed in own]
            for who, theirs in sorted(by.items())
            if who not in OURS and {*theirs} & {*own}
        }
        if pairs:
            leads = {who: np.subtract(*np.transpose(both)).mean() for who, both in pairs.items()}
            best = max(leads, key=leads.__getitem__)
            ours, theirs = np.mean(pairs[best], axis=0)
            shown.append([task, f"{ours:.2f}", f"{theirs:.2f}", best, len(pairs[best])])
    header = ["table", "hedgerow", "best of the others", "who", "seeds"]
    yield from ["", *Table("", "", header, shown).markdown().splitlines(), ""]
    more = {"mistakes %": 2, "first 50, %": 1, "calibration": 3, "ms a row": 2}
    yield from summary(best_variants(lines, "mistakes %"), "who", "task", more)


def table_cost(quick: bool, tasks: str = ",".join(TASKS), steps: int = 300) -> Iterator[Row]:
    """Bytes of a fitted model's file, and processor time of `predict_one` and `learn_one` (median), with trees and
    without, on the eight tables."""
    for name in ("bikeshare",) if quick else tasks.split(","):
        task = task_of(name, 0)
        figures = {}
        for trees, title in ((None, ""), (False, ", no trees")):
            sources = [Domain(*source) for source in task.sources]
            clf = OnlineTransferClassifier(trees=trees).fit_domains(
                sources, Domain("target", task.warmup)
            )
            figures[f"file MB{title}"] = len(clf.to_bytes()) / 1e6
            X = np.ascontiguousarray(clf.as_matrix(task.stream))
            spent = []
            for x, y in zip(X[:steps], task.labels, strict=False):
                began = time.process_time()
                clf.predict_one(x)
                clf.learn_one(x, y)
                spent.append(1e3 * (time.process_time() - began))
            figures[f"live ms{title}"] = float(np.median(spent[40:]))
        goals = {"file MB": "<= 4", "live ms": f"<= {figures['live ms, no trees'] + 0.15:.2f}"}
        yield Row({"table": name, "features": X.shape[1]}, figures, goals)


def check(quick: bool, rows: int = 1_000_000, columns: int = 50) -> Iterator[Row]:
    """Processor time of the check before a fit, of three sources and a target in memory: numbers, words of 50 kinds
    and an entity of 100,000 values, which it has to name; one row in fifty is of the rare class."""
    n = 4_000 if quick else rows
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(50)], dtype=object)
    cells = [words[rng.integers(0, 50, n)] for _ in range(14)]
    cells += [rng.normal(size=n) for _ in range(columns - 15)]
    names = (*(f"c{i}" for i in range(columns - 1)), "customer_id")
    table = Frame(names, (*cells, rng.integers(0, n // 10, n).astype(float)))
    y = np.where(rng.random(n) < 0.02, "yes", "no")
    quarters = np.array_split(np.arange(n), 4)
    *sources, target = (Named(f"q{i}", table[at], y[at]) for i, at in enumerate(quarters))
    began = time.process_time()
    found = str(examine(sources, target))
    seconds = time.process_time() - began
    assert "'customer_id' is read as a number and looks like an entity" in found
    yield Row({"rows": n, "columns": columns}, {"seconds": seconds}, {"seconds": "<= 20"})
